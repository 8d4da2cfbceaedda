//! What the NIC of a rank does with the rank's part of a window, for those that cannot reach it themselves.
//!
//! Each window has two regions: its memory, by address, and the lock of its rank. The latter is like a register of a
//! device: whoever wants the lock, or has it, fetches from there with a request, and gets the answer.
//!
//! Invariants, cited below by number.
//!   I1. The NIC checks that an access is in a piece of memory that is open, and the program vouches that accesses do not
//!       conflict. The memory of the window is mapped until its regions are closed.

use std::sync::{Arc, MutexGuard, PoisonError};

use ferrywire_host::RegionAccess;
use ferrywire_host::nic::{Operator, Region, Span};
use ferrywire_host::shm::{AttachedMemory, Hold, NicPart, WindowControl, WindowControls};
use ferrywire_mpi::datatype::Memory;

use super::Window;
use super::access::{Elements, change_under_locks};
use super::element::{self, Change};
use super::words::{self, WordWidth};
use crate::comm::Comm;

/// The regions of a rank's part.
#[derive(Clone, Copy)]
pub(super) struct Exposed {
    pub(super) memory: Region,
}

/// The region of the lock of a part, given that of its memory.
pub(super) fn lock_region(memory: Region) -> Region {
    Region(memory.0 + 1)
}

/// A request to the lock of a rank.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum LockRequest {
    /// Takes it, if it is free.
    Acquire(Hold),
    /// Releases it.
    Release(Hold),
}

/// The length of a request, and of its answer.
pub(super) const REQUEST_BYTES: usize = 8;
/// The answer to a request that was granted.
pub(super) const GRANTED: u64 = 1;

impl LockRequest {
    /// The request as a number.
    pub(super) fn code(self) -> u64 {
        match self {
            LockRequest::Acquire(Hold::Exclusive) => 1,
            LockRequest::Acquire(Hold::Shared) => 2,
            LockRequest::Release(Hold::Exclusive) => 3,
            LockRequest::Release(Hold::Shared) => 4,
        }
    }

    fn from_code(code: u64) -> Option<LockRequest> {
        let all = [LockRequest::Acquire, LockRequest::Release]
            .into_iter()
            .flat_map(|request| [Hold::Exclusive, Hold::Shared].map(request));
        all.into_iter().find(|request| request.code() == code)
    }
}

impl Window {
    /// Lets our NIC expose our part, if it does not yet.
    pub(super) fn expose(&self, comm: Comm<'_>) -> Exposed {
        // Memory that is attached meanwhile is exposed with the rest, or by its own call.
        let _attaching = self.attaching();
        *self.exposed.get_or_init(|| self.open_regions(comm))
    }

    /// Keeps other threads from attaching, detaching and exposing memory.
    pub(super) fn attaching(&self) -> MutexGuard<'_, ()> {
        self.attaching.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open_regions(&self, comm: Comm<'_>) -> Exposed {
        let control = self.controls.of(self.rank);
        let NicPart { region, address } = control.nic_part();
        let (memory, bytes) = (Region(region), control.part().bytes);
        let part = ExposedPart {
            controls: Arc::clone(&self.controls),
            rank: self.rank,
            first: address,
            shared: self.memory.is_some(),
            words: self.words,
        };
        let attached = self.controls.attached(self.rank).map(AttachedMemory::pieces);
        let lock = ExposedLock { controls: Arc::clone(&self.controls), rank: self.rank };
        // SAFETY: I1.
        unsafe {
            comm.plane().submit(|nic, port| {
                port.open_region(memory, Box::new(part));
                port.open_region(lock_region(memory), Box::new(lock));
                nic.open_piece(Span::new(lock_region(memory), 0, REQUEST_BYTES as u64));
                if bytes > 0 {
                    nic.open_piece(Span::new(memory, address, bytes));
                }
                for [address, bytes] in attached.into_iter().flatten() {
                    nic.open_piece(Span::new(memory, address, bytes));
                }
            });
        }
        Exposed { memory }
    }

    /// Lets our NIC expose more memory of a dynamic window.
    pub(super) fn expose_piece(&self, comm: Comm<'_>, address: u64, bytes: u64) {
        let Some(&Exposed { memory }) = self.exposed.get() else { return };
        // SAFETY: the program lends it until it detaches it.
        unsafe { comm.plane().submit(|nic, _| nic.open_piece(Span::new(memory, address, bytes))) };
    }

    /// Lets our NIC expose that memory no more.
    pub(super) fn conceal_piece(&self, comm: Comm<'_>, address: u64) {
        let Some(&Exposed { memory }) = self.exposed.get() else { return };
        // SAFETY: no memory is lent.
        unsafe { comm.plane().submit(|nic, _| nic.close_piece(memory, address)) };
    }

    /// Lets our NIC expose nothing of the window any more.
    pub(super) fn conceal(&self, comm: Comm<'_>) {
        let Some(&Exposed { memory }) = self.exposed.get() else { return };
        // SAFETY: no memory is lent.
        unsafe {
            comm.plane().submit(|nic, port| {
                for region in [memory, lock_region(memory)] {
                    nic.close_region(region);
                    port.close_region(region);
                }
            });
        }
    }
}

/// The memory of our part.
struct ExposedPart {
    controls: Arc<WindowControls>,
    rank: u32,
    /// The address of the beginning of the window.
    first: u64,
    /// Whether the library has allocated the memory.
    shared: bool,
    /// The words that all accesses to the memory are made of, if accesses may conflict.
    words: Option<WordWidth>,
}

impl ExposedPart {
    fn control(&self) -> &WindowControl {
        self.controls.of(self.rank)
    }
}

impl RegionAccess for ExposedPart {
    fn store(&self, bytes: &[u8], address: u64) {
        let first = pointer(address);
        match self.words {
            Some(width) => {
                // Only a peer that breaks the rules of the window sends parts of words.
                let width = width.fitting(first, bytes.len());
                // SAFETY: I1.
                unsafe { words::put(first, width, bytes) };
            }
            // SAFETY: I1.
            None => unsafe { std::ptr::copy(bytes.as_ptr(), first, bytes.len()) },
        }
    }

    fn accumulate(
        &self,
        operator: Operator,
        bytes: &[u8],
        address: u64,
        before: Option<&mut [u8]>,
    ) {
        let Some(change) = Change::new(operator) else { return };
        if !(bytes.len() as u64).is_multiple_of(change.memory_bytes()) {
            return;
        }
        let start = address.wrapping_sub(self.first);
        let first = pointer(address);
        if self.shared && change.is_atomic() {
            let mut elements = Elements { first, control: self.control(), start, change, before };
            return elements.store(0, bytes);
        }
        // SAFETY: I1.
        unsafe { change_under_locks(self.control(), (start, first), change, bytes, before) };
    }

    fn compare_swap(&self, address: u64, width: u64, expected: u64, value: u64) -> u64 {
        let [expected, value] = [expected, value].map(u64::to_le_bytes);
        let width = usize::try_from(width).map_or(8, |width| width.min(8));
        let at = pointer(address);
        if self.shared {
            // SAFETY: I1.
            let old = unsafe { element::compare_swap(at, &expected[..width], &value[..width]) };
            if let Some(old) = old {
                return u64::from_le_bytes(old);
            }
        }
        self.control().alone(address.wrapping_sub(self.first), width as u64, || {
            let mut old = [0; 8];
            // SAFETY: I1.
            unsafe { std::ptr::copy(at, old.as_mut_ptr(), width) };
            if old[..width] == expected[..width] {
                // SAFETY: I1.
                unsafe { std::ptr::copy(value.as_ptr(), at, width) };
            }
            u64::from_le_bytes(old)
        })
    }
}

fn pointer(address: u64) -> *mut u8 {
    std::ptr::with_exposed_provenance_mut(usize::try_from(address).expect("addresses have 64 bits"))
}

/// The lock of our part.
struct ExposedLock {
    controls: Arc<WindowControls>,
    rank: u32,
}

impl RegionAccess for ExposedLock {
    /// Requests are fetches.
    fn store(&self, _: &[u8], _: u64) {}

    fn accumulate(&self, _: Operator, bytes: &[u8], _: u64, before: Option<&mut [u8]>) {
        let request = bytes.try_into().map(u64::from_le_bytes);
        let Some(request) = request.ok().and_then(LockRequest::from_code) else { return };
        let lock = self.controls.of(self.rank).lock();
        let granted = match request {
            LockRequest::Acquire(hold) => lock.try_acquire(hold),
            LockRequest::Release(hold) => {
                lock.release(hold);
                true
            }
        };
        if let (Some(before), true) = (before, granted) {
            before.copy_from_slice(&GRANTED.to_le_bytes());
        }
    }

    fn compare_swap(&self, _: u64, _: u64, _: u64, _: u64) -> u64 {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_request_has_a_code_of_its_own() {
        for code in 0..10 {
            let request = LockRequest::from_code(code);
            assert_eq!(request.map(LockRequest::code), (1..=4).contains(&code).then_some(code));
        }
    }
}
