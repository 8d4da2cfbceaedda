//! Creating and freeing windows.

use std::sync::Mutex;

use ferrywire_host::shm::{WindowControls, WindowPart};
use ferrywire_mpi::collective::Locality;

use super::epoch::Epochs;
use super::{Window, WindowError, WindowResult};
use crate::comm::Comm;

/// The kind of a window's memory.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum WindowKind {
    /// The library allocates it. With `adjacent`, the parts of all ranks follow each other without gaps.
    Allocated {
        /// Whether there are no gaps.
        adjacent: bool,
    },
    /// The program passes it, by its address.
    Own {
        /// The address.
        address: u64,
    },
    /// The program attaches it later.
    Dynamic,
}

/// What a member passes for its part of a window.
#[derive(Clone, Copy, Debug)]
pub struct WindowSpace {
    /// The kind of memory.
    pub kind: WindowKind,
    /// Its length.
    pub bytes: u64,
    /// The unit of displacements, in bytes.
    pub unit: u32,
}

/// The alignment of parts that are not adjacent: the largest page, so that the memory of each rank is its own.
const PART_ALIGNMENT: u64 = 64 << 10;

impl Comm<'_> {
    /// Creates a window. All members call it, in a communicator that serves only this window.
    pub fn create_window(self, space: WindowSpace) -> WindowResult<Window> {
        self.check_one_host()?;
        let lens = self.gather_for_window(&[space.bytes.cast_signed()])?;
        let lens: Vec<u64> = lens.into_iter().map(i64::cast_unsigned).collect();
        let (members, me) = (self.members().group().size(), self.members().rank());
        let (starts, total) = starts_of(&lens, space.kind);
        let dynamic = space.kind == WindowKind::Dynamic;
        let control_bytes = WindowControls::bytes(members, dynamic);
        let shared = matches!(space.kind, WindowKind::Allocated { .. }).then_some(total);
        let places = self.claim_for_all(control_bytes, shared)?;
        // From here on a failure is everybody's, so that nobody waits for a rank that has given up.
        let made = places.and_then(|(control_place, memory_place)| {
            let host = self.process().rank();
            let controls = host.map_memory(control_place, control_bytes).ok()?;
            let controls = WindowControls::new(controls, members, dynamic);
            let memory =
                shared.map(|total| host.map_memory(memory_place, total)).transpose().ok()?;
            if let Some(memory) = &memory {
                memory.reserve(starts[me as usize], space.bytes).ok()?;
            }
            Some((controls, memory))
        });
        if let Some((controls, _)) = &made {
            let base = match space.kind {
                WindowKind::Allocated { .. } => starts[me as usize],
                WindowKind::Own { address } => address,
                WindowKind::Dynamic => 0,
            };
            controls.of(me).set_part(WindowPart { base, bytes: space.bytes, unit: space.unit });
        }
        let failures = self.gather_for_window(&[i64::from(made.is_none())])?;
        let Some((controls, memory)) = made.filter(|_| failures.iter().all(|&failed| failed == 0))
        else {
            return Err(WindowError::NoMemory);
        };
        Ok(Window { controls, memory, rank: me, epochs: Mutex::new(Epochs::default()) })
    }

    /// Frees a window, when no member accesses it any more.
    pub fn free_window(self, window: &Window) -> WindowResult {
        window.check_free()?;
        self.gather_for_window(&[0])?;
        let part = window.controls.of(window.rank).part();
        if let Some(memory) = &window.memory {
            memory.give_back(part.base, part.bytes);
        }
        // Others may still be reading where their own part is.
        self.gather_for_window(&[0])?;
        if window.rank == 0 {
            window.controls.give_back();
        }
        Ok(())
    }

    /// Checks that all members are on this host.
    fn check_one_host(self) -> WindowResult {
        if self.process().locality() != Locality::Unknown {
            return Ok(());
        }
        let here = self.process().rank().first_here().0;
        let hosts = self.gather_for_window(&[here.into()])?;
        match hosts.iter().all(|&host| host == i64::from(here)) {
            true => Ok(()),
            false => Err(WindowError::SeveralHosts),
        }
    }

    /// Rank 0 claims the memory of all members, and tells them where it is. `None` if there is none.
    fn claim_for_all(
        self,
        control_bytes: u64,
        shared: Option<u64>,
    ) -> WindowResult<Option<(u64, u64)>> {
        let claim = || {
            let host = self.process().rank();
            let control_place = host.claim_memory(control_bytes)?;
            let controls = host.map_memory(control_place, control_bytes).ok()?;
            controls.reserve(0, control_bytes).ok()?;
            let memory_place = shared.map_or(Some(0), |total| host.claim_memory(total))?;
            Some([control_place, memory_place].map(u64::cast_signed))
        };
        let mine = if self.members().rank() == 0 { claim() } else { None };
        let all = self.gather_for_window(&mine.unwrap_or([NOWHERE; 2]))?;
        let [control_place, memory_place] = [all[0], all[1]].map(i64::cast_unsigned);
        Ok((all[0] != NOWHERE).then_some((control_place, memory_place)))
    }

    fn gather_for_window(self, mine: &[i64]) -> WindowResult<Vec<i64>> {
        Ok(self.gather_from_everyone(self.members().next_instance(), mine)?)
    }
}

/// The place of memory that could not be claimed.
const NOWHERE: i64 = -1;

/// Where the parts begin in shared memory, and the length of all.
fn starts_of(lens: &[u64], kind: WindowKind) -> (Vec<u64>, u64) {
    let adjacent = matches!(kind, WindowKind::Allocated { adjacent: true });
    let mut end = 0_u64;
    let starts = lens.iter().map(|&len| {
        let start = if adjacent { end } else { end.next_multiple_of(PART_ALIGNMENT) };
        // More than there is cannot be claimed.
        end = start.saturating_add(len).min(1 << 62);
        start
    });
    (starts.collect(), end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_adjacent_or_have_pages_of_their_own() {
        let starts = |adjacent| starts_of(&[10, 0, 70_000, 1], WindowKind::Allocated { adjacent });
        assert_eq!(starts(true), (vec![0, 10, 10, 70_010], 70_011));
        assert_eq!(starts(false), (vec![0, 65_536, 65_536, 196_608], 196_609));
        let huge = starts_of(&[u64::MAX, u64::MAX], WindowKind::Allocated { adjacent: true });
        assert_eq!(huge.1, 1 << 62);
    }
}
