//! Rings that lead to a rank and that it does not know yet: a stack in shared memory.
//!
//! Any rank pushes a ring; the owner takes all of them at once, so that none is ever removed from between others. Rings
//! are named by their places in the segment, and a place is never used twice. The label of a ring names the ring below
//! it.

use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// The top of the stack: a place, or zero. Alone in its line.
#[derive(Default)]
#[repr(C, align(64))]
pub(crate) struct Newcomers {
    top: AtomicU64,
}

/// The label at the beginning of a ring in the arena.
#[derive(Default)]
#[repr(C, align(64))]
pub(crate) struct Label {
    from: AtomicU32,
    /// The ring below it on the stack of newcomers.
    below: AtomicU64,
}

impl Newcomers {
    /// Pushes the ring at `at`, with this label and from this rank.
    pub(crate) fn push(&self, at: u64, label: &Label, from: u32) {
        label.from.store(from, Ordering::Relaxed);
        let mut below = self.top.load(Ordering::Relaxed);
        loop {
            label.below.store(below, Ordering::Relaxed);
            // Pairs with the Acquire in `take`: the ring is made before it is found.
            match self.top.compare_exchange_weak(below, at, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => below = now,
            }
        }
    }

    /// Whether there is nothing to take.
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.top.load(Ordering::Relaxed) == 0
    }

    /// Takes everything, the youngest first. `visit` gets the place of each ring, and returns the one below it, which
    /// its label names; the stack ends where it returns none. At most `limit` rings are visited: each rank can be there
    /// once, so a longer chain is broken.
    pub(crate) fn take(&self, limit: u32, mut visit: impl FnMut(u64) -> Option<u64>) {
        // Pairs with the Release in `push`.
        let mut at = self.top.swap(0, Ordering::Acquire);
        for _ in 0..limit {
            let Some(below) = visit(at) else { return };
            at = below;
        }
    }
}

impl Label {
    /// The bytes of a label that are used.
    pub(crate) const BYTES: usize = 16;

    /// The ring below it on the stack, in the bytes of a label.
    pub(crate) fn below_in([.., a, b, c, d, e, f, g, h]: [u8; Label::BYTES]) -> u64 {
        u64::from_ne_bytes([a, b, c, d, e, f, g, h])
    }

    /// The rank that created the ring.
    pub(crate) fn from(&self) -> u32 {
        self.from.load(Ordering::Relaxed)
    }

    /// The ring below it on the stack.
    pub(crate) fn below(&self) -> u64 {
        self.below.load(Ordering::Relaxed)
    }
}
