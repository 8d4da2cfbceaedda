//! Creating and freeing windows.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, OnceLock};

use ferrywire_host::shm::{MemoryAccess, NicPart, WindowControls, WindowPart};

use super::epoch::{Epochs, NOBODY};
use super::remote::PostedAccesses;
use super::words::WordWidth;
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
    /// The words that all accesses are made of, each by an atomic instruction. `None` if the program vouches that
    /// accesses do not conflict.
    pub words: Option<WordWidth>,
}

/// The alignment of parts that are not adjacent: the largest page, so that the memory of each rank is its own.
const PART_ALIGNMENT: u64 = 64 << 10;

impl Comm<'_> {
    /// Creates a window. All members call it, in a communicator that serves only this window.
    pub fn create_window(self, space: WindowSpace) -> WindowResult<Window> {
        let local_ranks = self.local_ranks();
        let (members, me) = (self.members().group().size(), self.members().rank());
        let several_hosts = local_ranks.len() < members as usize;
        if several_hosts && space.kind == (WindowKind::Allocated { adjacent: true }) {
            return Err(WindowError::SeveralHosts);
        }
        let lens = self.gather_for_window(&[space.bytes.cast_signed()])?;
        let local_lens: Vec<u64> =
            local_ranks.iter().map(|&rank| lens[rank as usize].cast_unsigned()).collect();
        let (starts, total) = starts_of(&local_lens, space.kind);
        let my_place = local_ranks.iter().position(|&rank| rank == me).expect("we are here");
        let my_start = starts[my_place];
        let dynamic = space.kind == WindowKind::Dynamic;
        let control_bytes = WindowControls::bytes(members, dynamic);
        let shared = matches!(space.kind, WindowKind::Allocated { .. }).then_some(total);
        let places = self.claim_for_host(local_ranks[0], control_bytes, shared)?;
        // From here on a failure is everybody's, so that nobody waits for a rank that has given up.
        let made = places.and_then(|(control_place, memory_place)| {
            let host = self.process().rank();
            let controls = host.map_memory(control_place, control_bytes).ok()?;
            let controls = Arc::new(WindowControls::new(controls, members, dynamic));
            let memory =
                shared.map(|total| host.map_memory(memory_place, total)).transpose().ok()?;
            if let Some(memory) = &memory {
                memory.reserve(my_start, space.bytes).ok()?;
            }
            Some((controls, memory))
        });
        let reaches = shared.is_some() || self.reaches_all(&local_ranks);
        let region = self.process().next_regions();
        let address = match (&made, space.kind) {
            (Some((_, Some(memory))), _) => memory.address(my_start),
            (_, WindowKind::Own { address }) => address,
            _ => 0,
        };
        let facts = [
            i64::from(made.is_some()) | i64::from(reaches) << 1,
            address.cast_signed(),
            space.unit.into(),
            region.0.into(),
        ];
        let all = self.gather_for_window(&facts)?;
        let all: Vec<&[i64]> = all.chunks_exact(facts.len()).collect();
        let is_made = all.iter().all(|facts| facts[0] & 1 != 0);
        let Some((controls, memory)) = made.filter(|_| is_made) else {
            return Err(WindowError::NoMemory);
        };
        let all_reach = all.iter().all(|facts| facts[0] & 2 != 0);
        // Each member writes what all know, so none has to wait for another.
        for (rank, facts) in (0..).zip(&all) {
            let local = local_ranks.binary_search(&rank).ok();
            let base = match (local, &memory) {
                (Some(place), Some(_)) => starts[place],
                _ => facts[1].cast_unsigned(),
            };
            let region = u32::try_from(facts[3]).expect("it was one");
            let part = WindowPart {
                base,
                bytes: lens[rank as usize].cast_unsigned(),
                unit: u32::try_from(facts[2]).expect("it was one"),
                region: if local.is_some() && all_reach { 0 } else { region },
            };
            let nic = NicPart { region, address: facts[1].cast_unsigned() };
            controls.of(rank).set_part(part, nic);
        }
        let epochs = Mutex::new(Epochs::default());
        let posted = Mutex::new(PostedAccesses::default());
        let open = AtomicU64::new(NOBODY);
        let window = Window {
            controls,
            memory,
            rank: me,
            words: space.words,
            exposed: OnceLock::new(),
            attaching: Mutex::default(),
            epochs,
            open,
            posted,
            counters: OnceLock::new(),
        };
        if several_hosts || !all_reach {
            window.expose(self);
        }
        // Others may access us as soon as they have created it.
        self.gather_for_window(&[0])?;
        Ok(window)
    }

    /// Frees a window, when no member accesses it any more.
    pub fn free_window(self, window: &Window) -> WindowResult {
        window.check_free()?;
        window.finish(self, None)?;
        self.gather_for_window(&[0])?;
        window.conceal(self);
        window.close_counters(self);
        let part = window.controls.of(window.rank).part();
        if let Some(memory) = &window.memory {
            memory.give_back(part.base, part.bytes);
        }
        // Others may still be reading where their own part is.
        self.gather_for_window(&[0])?;
        if self.local_ranks()[0] == window.rank {
            window.controls.give_back();
        }
        Ok(())
    }

    /// Leaves a window that the other members may still access: our NIC exposes nothing of it any more, and our
    /// counters are closed. Its memory stays with the job.
    pub fn leave_window(self, window: &Window) {
        window.conceal(self);
        window.close_counters(self);
    }

    /// The members on this host, in order.
    fn local_ranks(self) -> Vec<u32> {
        let group = self.members().group();
        let is_here = |&rank: &u32| self.process().rank().is_here(group.peer_of(rank));
        (0..group.size()).filter(is_here).collect()
    }

    /// Whether the system lets us reach the memory of the next member on this host. If it does not, the same holds for
    /// the others.
    fn reaches_all(self, local_ranks: &[u32]) -> bool {
        let me = self.members().rank();
        let next = local_ranks.iter().find(|&&rank| rank > me).unwrap_or(&local_ranks[0]);
        let peer = self.members().group().peer_of(*next);
        self.process().rank().reach(peer) != MemoryAccess::Not
    }

    /// The first member of each host claims the memory of all members there, and tells them where it is. `None` if there
    /// is none.
    fn claim_for_host(
        self,
        first: u32,
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
        let mine = if self.members().rank() == first { claim() } else { None };
        let all = self.gather_for_window(&mine.unwrap_or([NOWHERE; 2]))?;
        let at = 2 * first as usize;
        let [control_place, memory_place] = [all[at], all[at + 1]].map(i64::cast_unsigned);
        Ok((all[at] != NOWHERE).then_some((control_place, memory_place)))
    }

    pub(super) fn gather_for_window(self, mine: &[i64]) -> WindowResult<Vec<i64>> {
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
