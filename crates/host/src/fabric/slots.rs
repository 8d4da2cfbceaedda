//! The memory that is lent to libfabric: slots for messages, and what it needs for each read.

// E1, E3 and E4 are invariants of `endpoint.rs`, whose memory this is.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ffi::{c_int, c_void};
use std::ptr::NonNull;

use super::bindings as fi;
use super::object::{Object, Registered, register};

/// The slots.
pub(super) struct Memory {
    start: NonNull<u8>,
}

const MEMORY: Layout = match Layout::from_size_align(SLOTS_BYTES + READS * CONTEXT_BYTES, 4096) {
    Ok(layout) => layout,
    Err(_) => panic!("slots are few"),
};

impl Memory {
    pub(super) fn new() -> Memory {
        // SAFETY: it is not empty.
        let start = unsafe { alloc_zeroed(MEMORY) };
        Memory { start: NonNull::new(start).unwrap_or_else(|| handle_alloc_error(MEMORY)) }
    }

    pub(super) fn register(
        &self,
        domain: NonNull<fi::Domain>,
        bind: Option<&Object>,
    ) -> Result<Registered, c_int> {
        let (start, access) = (self.start.as_ptr().cast(), fi::FI_SEND | fi::FI_RECV);
        // SAFETY: E1, E3: the region goes before the memory does.
        unsafe { register(domain, start, MEMORY.size(), access, 0, bind) }
    }

    pub(super) fn context(&self, slot: usize) -> NonNull<c_void> {
        assert!(slot < CONTEXTS, "slot {slot} of {CONTEXTS}");
        let offset = match slot.checked_sub(SLOTS) {
            None => slot * SLOT_BYTES,
            Some(read) => SLOTS_BYTES + read * CONTEXT_BYTES,
        };
        // SAFETY: E4.
        unsafe { self.start.add(offset) }.cast()
    }

    pub(super) fn room(&self, slot: usize) -> NonNull<u8> {
        assert!(slot < SLOTS, "slot {slot} of {SLOTS} has room");
        // SAFETY: E4.
        unsafe { self.context(slot).cast::<u8>().add(CONTEXT_BYTES) }
    }

    /// # Safety
    /// The slot is ours as long as the bytes are looked at, and they are no more than there is room.
    pub(super) unsafe fn bytes(&self, slot: usize, len: usize) -> &[u8] {
        let room = self.room(slot);
        // SAFETY: the caller vouches; all of it was zero at first.
        unsafe { std::slice::from_raw_parts(room.as_ptr(), len) }
    }

    /// The slot of a context.
    pub(super) fn slot(&self, context: *mut c_void) -> Option<usize> {
        let offset = context.addr().checked_sub(self.start.addr().get())?;
        let slot = match offset.checked_sub(SLOTS_BYTES) {
            None => offset / SLOT_BYTES,
            Some(beyond) => SLOTS + beyond / CONTEXT_BYTES,
        };
        (slot < CONTEXTS && self.context(slot).as_ptr() == context).then_some(slot)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: it was allocated with this layout.
        unsafe { dealloc(self.start.as_ptr(), MEMORY) };
    }
}

/// The longest message. Longer ones go in more steps with some providers: 16 KB is what ofi_rxm takes in one.
pub(super) const MESSAGE_BYTES_MAX: usize = 16 << 10;
/// Slots to receive into, and to send from.
pub(super) const RECEIVES: usize = 64;
pub(super) const SENDS: usize = 64;
pub(super) const SLOTS: usize = RECEIVES + SENDS;
/// Pieces that are read at the same time, with those that nobody waits for any more.
const READS: usize = 64;
pub(super) const CONTEXTS: usize = SLOTS + READS;
/// What the library may write of its own for each operation.
const CONTEXT_BYTES: usize = 64;
const SLOT_BYTES: usize = CONTEXT_BYTES + MESSAGE_BYTES_MAX;
const SLOTS_BYTES: usize = SLOTS * SLOT_BYTES;
