//! The part of a segment from which the rings of one plane are claimed.
//!
//! Invariants, cited below by number.
//!   I1. The mapping holds the whole arena, and lives as long as the `Arena`.
//!   I2. A ring is reserved before it is announced. It is valid for any bytes, zeros at first.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::shm::newcomers::Label;
use crate::shm::ring::{CacheLine, Control, DATA_LINES_MAX, LINE_BYTES, Ring, SLOTS, Slot};
use crate::sys::map::{self, Map};

/// An arena. Places in it are offsets in the file of the segment.
#[derive(Clone)]
pub(crate) struct Arena {
    file: Arc<File>,
    map: Arc<Map>,
    /// The file offset at which the mapping begins.
    map_start: u64,
    /// The file offsets of the arena.
    range: Range<u64>,
}

impl Arena {
    /// The arena at `range` of the file. The mapping begins at `map_start`, and holds all of it.
    pub(crate) fn new(file: Arc<File>, map: Arc<Map>, map_start: u64, range: Range<u64>) -> Arena {
        let map_end = map_start + map.len() as u64;
        assert!(map_start <= range.start && range.end <= map_end, "an arena is mapped");
        Arena { file, map, map_start, range }
    }

    /// The length of an arena for this many rings.
    pub(crate) fn bytes(rings: u64) -> u64 {
        rings.saturating_mul(RING_BYTES).min(ARENA_BYTES_MAX)
    }

    /// Creates the ring after the first `taken` bytes, and returns it with its label and its place.
    pub(crate) fn make(&self, taken: u64) -> io::Result<(Ring, &Label, u64)> {
        let at = self.range.start + taken;
        let label = self.label(at).ok_or(io::ErrorKind::StorageFull)?;
        map::reserve(&self.file, at, DATA_OFFSET + FIRST_LINES as u64 * LINE_BYTES as u64)?;
        let ring = self.ring(at).ok_or(io::ErrorKind::StorageFull)?;
        Ok((ring, label, at))
    }

    /// Reserves more data lines for a ring.
    pub(crate) fn widen(&self, ring_at: u64, from: u32, to: u32) -> io::Result<()> {
        let line = LINE_BYTES as u64;
        let start = ring_at + DATA_OFFSET + u64::from(from) * line;
        map::reserve(&self.file, start, u64::from(to - from) * line)
    }

    /// Gives the memory of a ring back. Nobody uses it any more.
    pub(crate) fn give_back(&self, at: u64) {
        // The kernel frees it with the file at the latest.
        let _ = map::give_back(&self.file, at, RING_BYTES);
    }

    pub(crate) fn label(&self, at: u64) -> Option<&Label> {
        let start = self.ring_start(at)?;
        // SAFETY: I1: `ring_start` has checked that a whole ring is there; I2.
        Some(unsafe { start.cast::<Label>().as_ref() })
    }

    /// The ring at a place in the arena, if the place is valid.
    pub(crate) fn ring(&self, at: u64) -> Option<Ring> {
        let start = self.ring_start(at)?;
        // SAFETY: I1: `ring_start` has checked that a whole ring is there.
        let part = |offset: u64| unsafe { start.add(usize::try_from(offset).unwrap_or(0)) };
        let [control, slots, lines] = [CONTROL_OFFSET, SLOTS_OFFSET, DATA_OFFSET].map(part);
        // SAFETY: I2, and the holder of a ring holds the segment (I1).
        let control = unsafe { control.cast::<Control>().as_ref() };
        // SAFETY: as above: that many slots are there.
        let slots =
            unsafe { std::slice::from_raw_parts(slots.cast::<Slot>().as_ptr(), SLOTS as usize) };
        // SAFETY: as above: that many lines are there, though not all are reserved.
        let lines = unsafe {
            std::slice::from_raw_parts(lines.cast::<CacheLine>().as_ptr(), DATA_LINES_MAX as usize)
        };
        Some(Ring { control, slots, lines })
    }

    fn ring_start(&self, at: u64) -> Option<NonNull<u8>> {
        let inside = at >= self.range.start
            && at.is_multiple_of(PAGE_BYTES)
            && at.checked_add(RING_BYTES).is_some_and(|end| end <= self.range.end);
        let offset = usize::try_from(at.checked_sub(self.map_start)?).ok()?;
        // SAFETY: I1: the place is inside the mapping.
        inside.then(|| unsafe { self.map.start().add(offset) })
    }
}

pub(crate) const PAGE_BYTES: u64 = 4096;
/// The most address space of an arena.
const ARENA_BYTES_MAX: u64 = 64 << 30;

const CONTROL_OFFSET: u64 = 128;
const SLOTS_OFFSET: u64 = CONTROL_OFFSET + size_of::<Control>() as u64;
const DATA_OFFSET: u64 = SLOTS_OFFSET + SLOTS as u64 * size_of::<Slot>() as u64;
/// Data lines of a new ring, which together with the slots fill three pages.
pub(crate) const FIRST_LINES: u32 = 60;
/// What a ring takes of the arena.
pub(crate) const RING_BYTES: u64 =
    (DATA_OFFSET + DATA_LINES_MAX as u64 * LINE_BYTES as u64).next_multiple_of(PAGE_BYTES);

const _: () = {
    assert!(size_of::<Control>() == 128);
    assert!(size_of::<Slot>() == 64);
    assert!(size_of::<CacheLine>() == LINE_BYTES);
    assert!(size_of::<Label>() as u64 <= CONTROL_OFFSET);
    assert!(DATA_OFFSET + FIRST_LINES as u64 * LINE_BYTES as u64 == 3 * PAGE_BYTES);
};
