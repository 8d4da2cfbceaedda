//! The memory that all ranks of a job on one node share.
//!
//! One memfd without a name: a header, a card for each rank, and an arena from which rings are
//! claimed on first contact. It is as long as all rings together could be, but memory is set aside
//! piece by piece, before anybody touches it, so that a limit is an error and never a signal.
//!
//! Invariants, cited below by number.
//!   I1. The mapping is at least as long as `Header::bytes` said when it was made, and lives as long
//!       as the `Segment`.
//!   I2. Header and cards are reserved before the segment is handed to anybody, a ring before it is
//!       announced. All of them are valid for any bytes, zeros at first.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::shm::doorbell::Doorbell;
use crate::shm::newcomers::{Label, Newcomers};
use crate::shm::ring::{Control, DATA_LINES_MAX, LINE_BYTES, Line, Ring, SLOTS, Slot};
use crate::sys::map::{self, Map};

/// A node's part of a job, as one of its processes sees it.
pub struct Segment {
    file: File,
    map: Map,
    ranks: u32,
    job: u32,
    crowded: bool,
}

#[repr(C, align(64))]
struct Header {
    magic: AtomicU64,
    bytes: AtomicU64,
    ranks: AtomicU32,
    job: AtomicU32,
    crowded: AtomicU32,
    /// Ranks that are gone, counted: whoever has seen fewer looks at the cards.
    gone: AtomicU32,
    /// Where the next ring goes.
    next: AtomicU64,
}

/// What everybody may know of a rank, and how it is reached.
#[repr(C, align(64))]
struct Card {
    doorbell: Doorbell,
    newcomers: Newcomers,
    attention: Attention,
    who: Who,
}

/// Whether a thread of the rank's user waits: a guess by the time somebody reads it. In a line of
/// its own, since it changes with every wait.
#[repr(C, align(64))]
pub(crate) struct Attention(AtomicU32);

impl Attention {
    #[inline(always)]
    pub(crate) fn set(&self, waiting: bool) {
        self.0.store(u32::from(waiting), Ordering::Relaxed);
    }

    pub(crate) fn is_paid(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }
}

#[repr(C, align(64))]
struct Who {
    pid: AtomicU32,
    gone: AtomicU32,
    /// Where eight bytes are, in the memory of the process, that others may try to read; what is
    /// there is the address itself.
    probe: AtomicU64,
}

/// What the card of a rank says of its process.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// The address of the eight bytes that hold their own address.
    pub probe: u64,
}

impl Segment {
    /// Makes the segment of a new job. `crowded` if its ranks have to share cores.
    pub fn create(ranks: u32, job: u32, crowded: bool) -> io::Result<Segment> {
        let bytes = Segment::address_bytes(ranks);
        let file = map::memory_file(bytes)?;
        map::reserve(&file, 0, arena_start(ranks))?;
        let map = Map::new(&file, usize::try_from(bytes).map_err(|_| io::ErrorKind::OutOfMemory)?)?;
        let segment = Segment { file, map, ranks, job, crowded };
        let header = segment.header();
        header.bytes.store(bytes, Ordering::Relaxed);
        header.ranks.store(ranks, Ordering::Relaxed);
        header.job.store(job, Ordering::Relaxed);
        header.crowded.store(u32::from(crowded), Ordering::Relaxed);
        header.next.store(arena_start(ranks), Ordering::Relaxed);
        header.magic.store(MAGIC, Ordering::Release);
        Ok(segment)
    }

    /// Bytes that are set aside for so many ranks before any of them talk.
    pub fn bytes(ranks: u32) -> u64 {
        arena_start(ranks)
    }

    /// Bytes of address space for all rings that so many ranks can have.
    pub fn address_bytes(ranks: u32) -> u64 {
        let rings = u64::from(ranks) * u64::from(ranks) * RING_BYTES;
        arena_start(ranks) + rings.min(ARENA_BYTES_MAX)
    }

    /// The segment that another process has made and handed to us.
    pub fn open(fd: OwnedFd) -> io::Result<Segment> {
        let file = File::from(fd);
        let bytes = file.metadata()?.len();
        let len = usize::try_from(bytes).map_err(|_| io::ErrorKind::OutOfMemory)?;
        if len < size_of::<Header>() {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let map = Map::new(&file, len)?;
        let mut segment = Segment { file, map, ranks: 0, job: 0, crowded: false };
        let header = segment.header();
        let ranks = header.ranks.load(Ordering::Relaxed);
        let whole = header.magic.load(Ordering::Acquire) == MAGIC
            && header.bytes.load(Ordering::Relaxed) == bytes
            && arena_start(ranks) <= bytes;
        if !whole {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let (job, crowded) = (header.job.load(Ordering::Relaxed), &header.crowded);
        let crowded = crowded.load(Ordering::Relaxed) != 0;
        (segment.ranks, segment.job, segment.crowded) = (ranks, job, crowded);
        Ok(segment)
    }

    /// The file, to hand it to another process.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Ranks on this node.
    pub fn ranks(&self) -> u32 {
        self.ranks
    }

    /// The number of the job.
    pub fn job(&self) -> u32 {
        self.job
    }

    /// Whether ranks have to share cores.
    pub fn is_crowded(&self) -> bool {
        self.crowded
    }

    /// Fills in the card of a rank.
    pub fn introduce(&self, rank: u32, process: Process) {
        let who = &self.card(rank).who;
        who.pid.store(process.pid, Ordering::Relaxed);
        who.probe.store(process.probe, Ordering::Release);
    }

    /// What the card of a rank says.
    pub fn process(&self, rank: u32) -> Process {
        let who = &self.card(rank).who;
        let probe = who.probe.load(Ordering::Acquire);
        Process { pid: who.pid.load(Ordering::Relaxed), probe }
    }

    /// A rank is gone, and everybody shall know: it has left, or it has died.
    pub fn bury(&self, rank: u32) {
        self.card(rank).who.gone.store(1, Ordering::Release);
        // Pairs with the Acquire in `gone`.
        self.header().gone.fetch_add(1, Ordering::SeqCst);
        for other in 0..self.ranks {
            self.doorbell(other).ring(true);
        }
    }

    /// How many have gone.
    #[inline(always)]
    pub(crate) fn gone(&self) -> u32 {
        // Pairs with the increment in `bury`.
        self.header().gone.load(Ordering::Acquire)
    }

    pub(crate) fn is_gone(&self, rank: u32) -> bool {
        self.card(rank).who.gone.load(Ordering::Acquire) != 0
    }

    fn header(&self) -> &Header {
        // SAFETY: I1: the mapping begins with a header; I2: any bytes will do.
        unsafe { self.map.start().cast::<Header>().as_ref() }
    }

    #[inline(always)]
    fn card(&self, rank: u32) -> &'static Card {
        assert!(rank < self.ranks, "rank {rank} of {}", self.ranks);
        let offset = size_of::<Header>() + rank as usize * size_of::<Card>();
        // SAFETY: I1: the cards stand behind the header; `open` checked that the mapping has all.
        let card = unsafe { self.map.start().add(offset) };
        // SAFETY: I2.
        unsafe { card.cast::<Card>().as_ref() }
    }

    /// Makes a ring from `from` to `to`, and tells `to` of it. `lines` data lines are reserved.
    pub(crate) fn connect(&self, from: u32, to: u32) -> io::Result<(Ring, u64)> {
        let at = self.header().next.fetch_add(RING_BYTES, Ordering::Relaxed);
        if at + RING_BYTES > self.map.len() as u64 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        map::reserve(&self.file, at, DATA_OFFSET + FIRST_LINES as u64 * LINE_BYTES as u64)?;
        let ring = self.ring(at).ok_or(io::ErrorKind::InvalidData)?;
        let label = self.label(at).ok_or(io::ErrorKind::InvalidData)?;
        self.card(to).newcomers.push(at, label, from);
        Ok((ring, at))
    }

    /// Sets aside more data lines for a ring.
    pub(crate) fn widen(&self, ring_at: u64, from: u32, to: u32) -> io::Result<()> {
        let line = LINE_BYTES as u64;
        let start = ring_at + DATA_OFFSET + u64::from(from) * line;
        map::reserve(&self.file, start, u64::from(to - from) * line)
    }

    /// The rings that lead to `rank` and that it has not been shown. Like a ring, the stack is used
    /// only by those who hold the segment.
    pub(crate) fn newcomers(&self, rank: u32) -> &'static Newcomers {
        &self.card(rank).newcomers
    }

    /// Whether the user of a rank waits, under the same condition.
    pub(crate) fn attention(&self, rank: u32) -> &'static Attention {
        &self.card(rank).attention
    }

    /// The doorbell of a rank, under the same condition.
    pub(crate) fn doorbell(&self, rank: u32) -> &'static Doorbell {
        &self.card(rank).doorbell
    }

    /// Shows `rank` the rings that lead to it and that it has not been shown before.
    pub(crate) fn welcome(&self, rank: u32, mut show: impl FnMut(u32, Ring)) {
        let show = |at: u64, from: u32| {
            if from < self.ranks
                && let Some(ring) = self.ring(at)
            {
                show(from, ring);
            }
        };
        self.newcomers(rank).take(self.ranks, |at| self.label(at), show);
    }

    fn label(&self, at: u64) -> Option<&Label> {
        let start = self.ring_start(at)?;
        // SAFETY: I1: `ring_start` has checked that a whole ring is there; I2.
        Some(unsafe { start.cast::<Label>().as_ref() })
    }

    /// The ring at a place in the arena, if it can be one.
    fn ring(&self, at: u64) -> Option<Ring> {
        let start = self.ring_start(at)?;
        // SAFETY: I1: `ring_start` has checked that a whole ring is there.
        let part = |offset: u64| unsafe { start.add(usize::try_from(offset).unwrap_or(0)) };
        let [control, slots, lines] = [CONTROL_OFFSET, SLOTS_OFFSET, DATA_OFFSET].map(part);
        // SAFETY: I2, and whoever holds a ring holds the segment (I1).
        let control = unsafe { control.cast::<Control>().as_ref() };
        // SAFETY: as above: so many slots are there.
        let slots =
            unsafe { std::slice::from_raw_parts(slots.cast::<Slot>().as_ptr(), SLOTS as usize) };
        // SAFETY: as above: so many lines are there, though not all are reserved.
        let lines = unsafe {
            std::slice::from_raw_parts(lines.cast::<Line>().as_ptr(), DATA_LINES_MAX as usize)
        };
        Some(Ring { control, slots, lines })
    }

    fn ring_start(&self, at: u64) -> Option<std::ptr::NonNull<u8>> {
        let inside = at >= arena_start(self.ranks)
            && at.is_multiple_of(PAGE_BYTES)
            && at.checked_add(RING_BYTES).is_some_and(|end| end <= self.map.len() as u64);
        // SAFETY: I1: the place is inside the mapping.
        inside.then(|| unsafe { self.map.start().add(usize::try_from(at).unwrap_or(0)) })
    }
}

/// Where the arena of a segment for so many ranks begins.
fn arena_start(ranks: u32) -> u64 {
    let cards = size_of::<Header>() as u64 + u64::from(ranks) * size_of::<Card>() as u64;
    cards.next_multiple_of(PAGE_BYTES)
}

const MAGIC: u64 = u64::from_le_bytes(*b"ferry\0\0\x01");
const PAGE_BYTES: u64 = 4096;
/// More address space than this is not asked for.
const ARENA_BYTES_MAX: u64 = 64 << 30;

const CONTROL_OFFSET: u64 = 128;
const SLOTS_OFFSET: u64 = CONTROL_OFFSET + size_of::<Control>() as u64;
const DATA_OFFSET: u64 = SLOTS_OFFSET + SLOTS as u64 * size_of::<Slot>() as u64;
/// Data lines of a new ring: its slots and they fill three pages.
pub(crate) const FIRST_LINES: u32 = 60;
const RING_BYTES: u64 =
    (DATA_OFFSET + DATA_LINES_MAX as u64 * LINE_BYTES as u64).next_multiple_of(PAGE_BYTES);

const _: () = {
    assert!(size_of::<Control>() == 128);
    assert!(size_of::<Slot>() == 64);
    assert!(size_of::<Line>() == LINE_BYTES);
    assert!(size_of::<Card>() == 256);
    assert!(size_of::<Header>() == 64);
    assert!(size_of::<Label>() as u64 <= CONTROL_OFFSET);
    assert!(DATA_OFFSET + FIRST_LINES as u64 * LINE_BYTES as u64 == 3 * PAGE_BYTES);
};
