//! The memory lent to libfabric: slots for messages, and a context for each read.

// E1, E3 and E4 are invariants of `endpoint.rs`, which owns this memory.

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
        // SAFETY: the size is not zero.
        let start = unsafe { alloc_zeroed(MEMORY) };
        Memory { start: NonNull::new(start).unwrap_or_else(|| handle_alloc_error(MEMORY)) }
    }

    pub(super) fn register(
        &self,
        domain: NonNull<fi::Domain>,
        bind: Option<&Object>,
    ) -> Result<Registered, c_int> {
        let (start, access) = (self.start.as_ptr().cast(), fi::FI_SEND | fi::FI_RECV);
        // SAFETY: E1, E3: the region is closed before the memory is freed.
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
    /// The slot is ours while the bytes are borrowed, and `len` is within its room.
    pub(super) unsafe fn bytes(&self, slot: usize, len: usize) -> &[u8] {
        let room = self.room(slot);
        // SAFETY: the caller vouches; all of it was zeroed at first.
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

/// The longest message. Some providers take more steps for longer ones: ofi_rxm takes 16 KB in one.
pub(super) const MESSAGE_BYTES_MAX: usize = 16 << 10;
/// Slots to receive into, and to send from.
pub(super) const RECEIVES: usize = 64;
pub(super) const SENDS: usize = 64;
pub(super) const SLOTS: usize = RECEIVES + SENDS;
/// Slots that messages to one peer may hold. A peer that is gone keeps them until the library gives it up, which may take
/// a quarter of an hour, and there have to be some for the others.
pub(super) const SENDS_PER_PEER_MAX: usize = SENDS / 2;
/// Pieces read at the same time, including abandoned ones.
const READS: usize = 64;
pub(super) const CONTEXTS: usize = SLOTS + READS;
/// What the library may store for each operation.
const CONTEXT_BYTES: usize = 64;
const SLOT_BYTES: usize = CONTEXT_BYTES + MESSAGE_BYTES_MAX;
const SLOTS_BYTES: usize = SLOTS * SLOT_BYTES;
