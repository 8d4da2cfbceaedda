//! Put, get, accumulate and compare-and-swap.
//!
//! Invariants, cited below by number.
//!   I1. Shared memory of a window is mapped as long as the window lives, and each part is reserved. Memory of the program
//!       is what it has passed for the window, or attached. The program vouches that accesses do not conflict.

use std::cell::Cell;
use std::io;

use ferrywire_host::nic::{Operator, Region};
use ferrywire_host::shm::{MemoryAccess, WindowControl};
use ferrywire_mpi::datatype::{Datatype, Memory};

use super::element::{self, Change};
use super::remote::Remote;
use super::{Window, WindowError, WindowResult};
use crate::comm::Comm;

/// Elements in the window of a target.
#[derive(Clone, Copy)]
pub struct TargetData<'a> {
    /// The rank of the target.
    pub rank: u32,
    /// Where they begin, in units of the target, or its address if the window is dynamic.
    pub displacement: i64,
    /// How many.
    pub count: u64,
    /// Of which type.
    pub datatype: &'a Datatype,
}

/// The elements as we reach them: offsets are from the first of them.
pub(super) struct Target<'a> {
    rank: u32,
    pub(super) control: &'a WindowControl,
    /// Where the first is, from the beginning of the window.
    pub(super) first: u64,
    /// The range of the window that they span.
    start: u64,
    len: u64,
    pub(super) place: Location,
    /// What went wrong.
    trouble: Cell<Option<io::Error>>,
}

#[derive(Clone, Copy)]
pub(super) enum Location {
    /// Shared memory.
    Shared(*mut u8),
    /// An address in a process.
    Process(MemoryAccess, u64),
    /// Memory that only the NIC of the target reaches.
    Remote(Remote),
}

impl Window {
    /// Writes `bytes`, the packed form of as many elements.
    pub fn put(&self, comm: Comm<'_>, data: TargetData<'_>, bytes: &[u8]) -> WindowResult {
        let mut target = self.target(comm, data)?;
        if let Location::Remote(remote) = target.place {
            return self.put_remote(comm, data, remote, bytes);
        }
        data.datatype.unpack(data.count, bytes, &mut target);
        target.done()
    }

    /// Reads elements into `bytes`, in packed form.
    pub fn get(&self, comm: Comm<'_>, data: TargetData<'_>, bytes: &mut [u8]) -> WindowResult {
        let target = self.target(comm, data)?;
        if let Location::Remote(remote) = target.place {
            return self.get_remote(comm, data, remote, bytes);
        }
        data.datatype.pack(data.count, &target, bytes);
        target.done()
    }

    /// Combines `source`, the packed form of as many elements, into those of the target, one by one. `before` gets what
    /// they were. In memory of the library, aligned elements of up to eight bytes are changed by atomic instructions in
    /// any epoch: the crate for Rust programs relies on it.
    pub fn accumulate(
        &self,
        comm: Comm<'_>,
        data: TargetData<'_>,
        operator: Operator,
        source: &[u8],
        before: Option<&mut [u8]>,
    ) -> WindowResult {
        let mut target = self.target(comm, data)?;
        let change = Change::new(operator).expect("a predefined operator");
        match target.place {
            Location::Remote(remote) => {
                return self.accumulate_remote(comm, data, remote, change, source, before);
            }
            Location::Shared(first) if change.is_atomic() => {
                let (control, start) = (target.control, target.first);
                let mut elements = Elements { first, control, start, change, before };
                data.datatype.unpack(data.count, source, &mut elements);
                return Ok(());
            }
            _ => {}
        }
        let (start, len) = (target.start, target.len);
        target.control.alone(start, len, || {
            let mut elements = vec![0; source.len()];
            data.datatype.pack(data.count, &target, &mut elements);
            if let Some(before) = before {
                before.copy_from_slice(&elements);
            }
            change.combine(source, &mut elements);
            data.datatype.unpack(data.count, &elements, &mut target);
        });
        target.done()
    }

    /// Stores `value` in an element if it is `expected`. `before` gets what it was.
    pub fn compare_swap(
        &self,
        comm: Comm<'_>,
        data: TargetData<'_>,
        expected: &[u8],
        value: &[u8],
        before: &mut [u8],
    ) -> WindowResult {
        let mut target = self.target(comm, data)?;
        match target.place {
            Location::Remote(remote) => {
                return self.compare_swap_remote(comm, remote, expected, value, before);
            }
            Location::Shared(at) => {
                // SAFETY: I1.
                if let Some(old) = unsafe { element::compare_swap(at, expected, value) } {
                    before.copy_from_slice(&old[..before.len()]);
                    return Ok(());
                }
            }
            Location::Process(..) => {}
        }
        let (start, len) = (target.start, target.len);
        target.control.alone(start, len, || {
            target.load(0, before);
            if before == expected {
                target.store(0, value);
            }
        });
        target.done()
    }

    /// Writes bytes, if that takes no more than to copy them: the memory is shared, and the rank has been accessed in this
    /// epoch. Else returns false.
    #[inline]
    pub fn put_directly(&self, rank: u32, displacement: i64, bytes: &[u8]) -> bool {
        let Some((at, _)) = self.direct(rank, displacement, bytes.len()) else { return false };
        // SAFETY: I1: it is inside the part.
        unsafe { copy(bytes.as_ptr(), at, bytes.len()) };
        true
    }

    /// Reads bytes, under the same conditions.
    #[inline]
    pub fn get_directly(&self, rank: u32, displacement: i64, bytes: &mut [u8]) -> bool {
        let Some((at, _)) = self.direct(rank, displacement, bytes.len()) else { return false };
        // SAFETY: I1: it is inside the part.
        unsafe { copy(at, bytes.as_mut_ptr(), bytes.len()) };
        true
    }

    /// Combines adjacent elements, under the same conditions, and if atomic instructions do it.
    #[inline]
    pub fn accumulate_directly(
        &self,
        (rank, displacement): (u32, i64),
        operator: Operator,
        source: &[u8],
        before: Option<&mut [u8]>,
    ) -> bool {
        let Some((first, start)) = self.direct(rank, displacement, source.len()) else {
            return false;
        };
        let Some(change) = Change::of_valid(operator).filter(|change| change.is_atomic()) else {
            return false;
        };
        let control = self.controls.of(rank);
        let elements = Elements { first, control, start, change, before: None };
        elements.change_all(first, source, before);
        true
    }

    /// Where bytes of a rank are in this process, and in its window, if they are in shared memory and an epoch is known to
    /// allow accesses.
    #[inline]
    pub(super) fn direct(
        &self,
        rank: u32,
        displacement: i64,
        bytes: usize,
    ) -> Option<(*mut u8, u64)> {
        let memory = self.memory.as_ref().filter(|_| self.is_open_for(rank))?;
        let part = self.controls.of(rank).part();
        let start = displacement.checked_mul(part.unit.into())?;
        let start = u64::try_from(start).ok()?;
        let inside = start.checked_add(bytes as u64)? <= part.bytes;
        let at = usize::try_from(part.base + start).ok().filter(|_| inside && part.region == 0)?;
        Some((memory.start().as_ptr().wrapping_add(at), start))
    }

    /// The address of the part of a member in this process, and its length. `None` if the memory is not shared with it.
    pub fn shared_part(&self, rank: u32) -> Option<(*mut u8, u64)> {
        let memory = self.memory.as_ref()?;
        let part = Some(self.controls.of(rank).part()).filter(|part| part.region == 0)?;
        let start = usize::try_from(part.base).ok()?;
        Some((memory.start().as_ptr().wrapping_add(start), part.bytes))
    }

    /// The unit of displacements at a member, in bytes.
    pub fn unit(&self, rank: u32) -> u32 {
        self.controls.of(rank).part().unit
    }

    /// Attaches memory to a dynamic window.
    pub fn attach(&self, comm: Comm<'_>, address: u64, bytes: u64) -> WindowResult {
        let attached = self.controls.attached(self.rank);
        let attached = attached.ok_or(WindowError::NotAttached("the window is not dynamic"))?;
        let _attaching = self.attaching();
        match attached.add(address, bytes) {
            true => {
                self.expose_piece(comm, address, bytes);
                Ok(())
            }
            false => Err(WindowError::NotAttached("too much memory is attached to the window")),
        }
    }

    /// Detaches memory from a dynamic window.
    pub fn detach(&self, comm: Comm<'_>, address: u64) -> WindowResult {
        let attached = self.controls.attached(self.rank);
        let attached = attached.ok_or(WindowError::NotAttached("the window is not dynamic"))?;
        let _attaching = self.attaching();
        match attached.remove(address) {
            true => {
                self.conceal_piece(comm, address);
                Ok(())
            }
            false => Err(WindowError::NotAttached("no attached memory begins at this address")),
        }
    }

    /// The elements of a target, if they are in its window and an epoch allows it.
    #[inline]
    pub(super) fn target(&self, comm: Comm<'_>, data: TargetData<'_>) -> WindowResult<Target<'_>> {
        let TargetData { rank, displacement, count, datatype } = data;
        self.begin_access(comm, rank)?;
        let control = self.controls.of(rank);
        let part = control.part();
        let outside = || {
            let is_one_piece = self.controls.attached(rank).is_none();
            let place = is_one_piece.then_some((displacement, part.unit.into(), part.bytes));
            WindowError::OutOfRange { rank, place }
        };
        let first = displacement.checked_mul(part.unit.into()).ok_or_else(outside)?;
        let range = datatype.window(count);
        let (start, end) = match range.is_empty() {
            true => (first, first),
            false => {
                let ends = (first.checked_add(range.start), first.checked_add(range.end));
                ends.0.zip(ends.1).ok_or_else(outside)?
            }
        };
        let [start, end] = [start, end].map(|at| u64::try_from(at).ok());
        let (start, end) = start.zip(end).ok_or_else(outside)?;
        let len = end - start;
        let region = Some(part.region).filter(|&region| region != 0 && rank != self.rank);
        let inside = match self.controls.attached(rank) {
            // Its NIC knows what it has attached.
            Some(_) if region.is_some() => true,
            Some(attached) => len == 0 || attached.holds(start, len),
            None => end <= part.bytes,
        };
        if !inside {
            return Err(outside());
        }
        let at = part.base.wrapping_add_signed(first);
        let peer = || comm.members().group().peer_of(rank);
        let place = match (&self.memory, region) {
            (_, Some(region)) => {
                Location::Remote(Remote { rank, peer: peer(), region: Region(region), address: at })
            }
            (Some(memory), None) => {
                let at = usize::try_from(at).map_err(|_| outside())?;
                Location::Shared(memory.start().as_ptr().wrapping_add(at))
            }
            (None, None) => Location::Process(comm.process().rank().reach(peer()), at),
        };
        let first = first.cast_unsigned();
        Ok(Target { rank, control, first, start, len, place, trouble: Cell::new(None) })
    }
}

impl Target<'_> {
    /// What went wrong, if anything did.
    fn done(self) -> WindowResult {
        match self.trouble.into_inner() {
            None => Ok(()),
            Some(error) => Err(WindowError::Unreachable(self.rank, error)),
        }
    }

    fn note(&self, result: io::Result<()>) {
        if let Err(error) = result {
            self.trouble.set(Some(error));
        }
    }
}

impl Memory for Target<'_> {
    #[inline]
    fn load(&self, offset: i64, into: &mut [u8]) {
        let len = into.len();
        match self.place {
            Location::Shared(first) => {
                let from = offset_by(first, offset);
                // SAFETY: I1: it is inside the part.
                unsafe { std::ptr::copy(from, into.as_mut_ptr(), len) };
            }
            Location::Process(access, at) => {
                let from = at.wrapping_add_signed(offset);
                let into = into.as_mut_ptr().expose_provenance() as u64;
                // SAFETY: `into` is ours; I1.
                self.note(unsafe { access.read(from, into, len as u64) });
            }
            Location::Remote(_) => unreachable!("its NIC reads it"),
        }
    }

    #[inline]
    fn store(&mut self, offset: i64, from: &[u8]) {
        let len = from.len();
        match self.place {
            Location::Shared(first) => {
                let into = offset_by(first, offset);
                // SAFETY: I1: it is inside the part.
                unsafe { std::ptr::copy(from.as_ptr(), into, len) };
            }
            Location::Process(access, at) => {
                let into = at.wrapping_add_signed(offset);
                let from = from.as_ptr().expose_provenance() as u64;
                // SAFETY: `from` is ours; I1.
                self.note(unsafe { access.write(from, into, len as u64) });
            }
            Location::Remote(_) => unreachable!("its NIC writes it"),
        }
    }
}

/// Copies bytes: a number by one instruction.
///
/// # Safety
/// As for [`std::ptr::copy`].
#[inline]
unsafe fn copy(from: *const u8, into: *mut u8, len: usize) {
    // The compiler makes one load and one store of a copy whose length it knows.
    match len {
        // SAFETY: the caller vouches.
        8 => unsafe { std::ptr::copy(from, into, 8) },
        // SAFETY: the caller vouches.
        4 => unsafe { std::ptr::copy(from, into, 4) },
        // SAFETY: the caller vouches.
        _ => unsafe { std::ptr::copy(from, into, len) },
    }
}

/// The byte `offset` away from `first`.
#[inline]
fn offset_by(first: *mut u8, offset: i64) -> *mut u8 {
    first.wrapping_offset(isize::try_from(offset).expect("offsets have 64 bits"))
}

/// Elements of shared memory that are changed one by one.
pub(super) struct Elements<'a> {
    pub(super) first: *mut u8,
    pub(super) control: &'a WindowControl,
    /// The place of the first in the window.
    pub(super) start: u64,
    pub(super) change: Change,
    pub(super) before: Option<&'a mut [u8]>,
}

impl Memory for Elements<'_> {
    fn load(&self, _: i64, _: &mut [u8]) {
        unreachable!("elements are only changed");
    }

    fn store(&mut self, offset: i64, from: &[u8]) {
        let at = offset_by(self.first, offset);
        let mut before = self.before.take().map(|before| before.split_at_mut(from.len()));
        let (here, rest) = before.take().unzip();
        self.before = rest;
        self.change_all(at, from, here);
    }
}

impl Elements<'_> {
    /// Changes adjacent elements.
    #[inline]
    fn change_all(&self, at: *mut u8, source: &[u8], mut before: Option<&mut [u8]>) {
        // SAFETY: I1: they are inside the part.
        let changed =
            unsafe { element::change_all(at, self.change, source, before.as_deref_mut()) };
        if !changed {
            self.change_alone(at, source, before);
        }
    }

    /// Changes elements that are not aligned, under the locks of their stripes: all that change them find them so.
    #[cold]
    fn change_alone(&self, at: *mut u8, source: &[u8], before: Option<&mut [u8]>) {
        let distance = at.addr().wrapping_sub(self.first.addr()) as u64;
        let place = self.start.wrapping_add(distance);
        // SAFETY: I1: they are inside the part.
        unsafe { change_under_locks(self.control, (place, at), self.change, source, before) };
    }
}

/// Changes adjacent elements under the locks of their stripes: those at an address of this process, which is that place of
/// the window.
///
/// # Safety
/// As for any access to them.
pub(super) unsafe fn change_under_locks(
    control: &WindowControl,
    (place, at): (u64, *mut u8),
    change: Change,
    source: &[u8],
    before: Option<&mut [u8]>,
) {
    control.alone(place, source.len() as u64, || {
        let mut elements = vec![0; source.len()];
        // SAFETY: the caller vouches.
        unsafe { std::ptr::copy(at, elements.as_mut_ptr(), elements.len()) };
        if let Some(before) = before {
            before.copy_from_slice(&elements);
        }
        change.combine_in_memory(source, &mut elements);
        // SAFETY: the same.
        unsafe { std::ptr::copy(elements.as_ptr(), at, elements.len()) };
    });
}
