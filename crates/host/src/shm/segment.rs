//! The memory that all ranks of a job on one node share.
//!
//! One memfd without a name: a header, an entry for each rank, signals for each rank in each further plane, for each
//! plane an arena from which rings are claimed on first contact, pages of facts, and at the end room for windows, of
//! which each piece is used once. It is as long as all of that together could be, but memory is reserved piece by piece, before it is
//! touched, so that a limit is an error and never a signal. Nothing is reserved for a plane that is not used, and only
//! its users map its arena.
//!
//! Ranks that are spawned join the segment of their host. They have entries after those of the first ranks, are in the
//! first plane only, and their rings are pieces of the room for windows, mapped one by one.
//!
//! Invariants, cited below by number.
//!   I1. The mapping holds the header, all entries, all signals and the first arena, and lives as long as the
//!       `Segment`. The file is sealed against shrinking: its creator seals it, and a process that opens it checks.
//!   I2. Header and entries are reserved before the segment is handed to another process, entries of spawned ranks
//!       before they are counted in `SegmentHeader::spawned`, the signals of a plane before the plane is in
//!       `SegmentHeader::planes` or in a `Plane`. All of them are valid for any bytes, zeros at first.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use ferrywire_nic::Peer;

use crate::facts::{FACTS_BYTES, Facts, FactsPage, Glance, Page};
use crate::job_limits::{JobLimits, LIMIT_ROWS, LIMITS};
use crate::shm::arena::{Arena, PAGE_BYTES, RING_BYTES};
use crate::shm::doorbell::Doorbell;
use crate::shm::newcomers::{Label, Newcomers};
use crate::sys::map::{self, Map};

/// Planes of a job. Each is an independent network among the same ranks.
pub const PLANES: u32 = 4;

/// Ranks that can be spawned on a node in the course of a job.
pub(crate) const SPAWNED_MAX: u32 = 1 << 14;

/// A node's part of a job, as one of its processes sees it.
pub struct Segment {
    file: Arc<File>,
    map: Arc<Map>,
    ranks: u32,
    job: u32,
    fenced: bool,
}

#[repr(C, align(64))]
struct SegmentHeader {
    magic: AtomicU64,
    bytes: AtomicU64,
    ranks: AtomicU32,
    job: AtomicU32,
    /// Whether ranks share cores now, which spawned ranks can change.
    oversubscribed: AtomicU32,
    /// Whether they did in the beginning.
    fenced: AtomicU32,
    /// Ranks that have been spawned.
    spawned: AtomicU32,
    /// How often ranks have left or died: a rank that has seen fewer changes checks the entries.
    changes: AtomicU32,
    /// Planes that a rank has opened, as bits; the first is always open.
    planes: AtomicU32,
    /// Cores that the ranks may use; zero if unknown.
    cores: AtomicU32,
    /// The limits that users can set, in the order of their rows, each and 1; zero until the first rank joins.
    limits: [AtomicU32; LIMITS],
    /// How much of each arena is taken.
    taken: [AtomicU64; PLANES as usize],
    /// How much of the room for windows is taken.
    windows_taken: AtomicU64,
    /// Where ranks find a launcher that was started late: [`NO_LAUNCHER`], [`STARTING`], or the length of its address,
    /// which is in the bytes.
    launcher: AtomicU32,
    launcher_address: [AtomicU8; LAUNCHER_ADDRESS_BYTES],
}

/// What all ranks may know of a rank, and how it is reached.
#[repr(C, align(64))]
struct RankEntry {
    /// The signals in the first plane.
    signals: RankSignals,
    who: Who,
}

/// How a rank is reached in a plane.
#[repr(C, align(64))]
pub(crate) struct RankSignals {
    pub(crate) doorbell: Doorbell,
    /// Rings that lead here and that the rank has not been shown.
    pub(crate) newcomers: Newcomers,
    pub(crate) attention: Attention,
}

/// Whether an application thread of the rank waits, which may be out of date when it is read. In a line of its own,
/// because it changes with every wait.
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
    /// Its process id, as it sees it.
    pid: AtomicU32,
    /// Its process id, as the process that filled in the entry sees it.
    pid_outside: AtomicU32,
    /// [`HERE`], [`LEAVING`], [`LEFT`] or [`DEAD`].
    state: AtomicU32,
    /// The planes that it has opened besides the first, as bits.
    planes: AtomicU32,
    /// The identity of its process.
    word: AtomicU64,
    /// The address, in its process, of eight bytes that hold the word, and that peers may try to read.
    probe: AtomicU64,
}

/// What the entry of a rank says of its process.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Process {
    /// Its process id, as it sees it.
    pub pid: u32,
    /// Its process id, as the kernel told the process that created the job: a different one if the rank is in a
    /// container.
    pub pid_outside: u32,
    /// Its identity: drawn at random, because process ids repeat from container to container. 0 is invalid.
    pub word: u64,
    /// The address of eight bytes that hold the word.
    pub probe: u64,
}

impl Segment {
    /// Creates the segment of a new job. `oversubscribed` if its ranks have to share cores.
    pub fn create(ranks: u32, job: u32, oversubscribed: bool) -> io::Result<Segment> {
        let file = map::memory_file(file_bytes(ranks))?;
        map::seal_length(&file)?;
        map::reserve(&file, 0, Segment::bytes(ranks))?;
        let map = Map::new(&file, 0, Segment::address_bytes(ranks))?;
        let segment = Segment {
            file: Arc::new(file),
            map: Arc::new(map),
            ranks,
            job,
            fenced: oversubscribed,
        };
        let header = segment.header();
        header.bytes.store(file_bytes(ranks), Ordering::Relaxed);
        header.ranks.store(ranks, Ordering::Relaxed);
        header.job.store(job, Ordering::Relaxed);
        header.oversubscribed.store(u32::from(oversubscribed), Ordering::Relaxed);
        header.fenced.store(u32::from(oversubscribed), Ordering::Relaxed);
        header.magic.store(MAGIC, Ordering::Release);
        Ok(segment)
    }

    /// Bytes that are reserved for this many ranks before any of them talk.
    pub fn bytes(ranks: u32) -> u64 {
        entry_start(ranks).next_multiple_of(PAGE_BYTES)
    }

    /// Bytes of address space for all rings that this many ranks can have in the first plane.
    pub fn address_bytes(ranks: u32) -> u64 {
        arena_start(ranks, 1)
    }

    /// Opens a segment that another process has created and handed to us.
    pub fn open(fd: OwnedFd) -> io::Result<Segment> {
        let file = Arc::new(File::from(fd));
        let bytes = file.metadata()?.len();
        if bytes < size_of::<SegmentHeader>() as u64 || !map::is_length_sealed(&file) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let map = Arc::new(Map::new(&file, 0, size_of::<SegmentHeader>() as u64)?);
        let mut segment = Segment { file, map, ranks: 0, job: 0, fenced: false };
        let header = segment.header();
        let ranks = header.ranks.load(Ordering::Relaxed);
        let whole = header.magic.load(Ordering::Acquire) == MAGIC
            && header.bytes.load(Ordering::Relaxed) == bytes
            && file_bytes(ranks) == bytes;
        if !whole {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let job = header.job.load(Ordering::Relaxed);
        let fenced = header.fenced.load(Ordering::Relaxed) != 0;
        segment.map = Arc::new(Map::new(&segment.file, 0, Segment::address_bytes(ranks))?);
        (segment.ranks, segment.job, segment.fenced) = (ranks, job, fenced);
        Ok(segment)
    }

    /// The file, to hand it to another process.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Ranks on this node in the beginning.
    pub fn ranks(&self) -> u32 {
        self.ranks
    }

    /// Ranks on this node, those included that were spawned, and those that are gone.
    pub fn ranks_so_far(&self) -> u32 {
        // Pairs with the Release in `grow_to`.
        self.ranks + self.header().spawned.load(Ordering::Acquire).min(SPAWNED_MAX)
    }

    /// The most ranks that can ever be on this node.
    pub fn ranks_max(&self) -> u32 {
        self.ranks + SPAWNED_MAX
    }

    /// Makes room for ranks that are about to be spawned: afterwards there are `ranks`. `oversubscribed` if all of them
    /// then have to share cores. Only the creator of the segment does this.
    pub fn grow_to(&self, ranks: u32, oversubscribed: bool) -> io::Result<()> {
        let before = self.ranks_so_far();
        if ranks > self.ranks_max() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        if oversubscribed {
            self.header().oversubscribed.store(1, Ordering::Relaxed);
        }
        if ranks > before {
            let start = entry_start(before);
            map::reserve(&self.file, start, entry_start(ranks) - start)?;
            // Pairs with the Acquire in `ranks_so_far`.
            self.header().spawned.store(ranks - self.ranks, Ordering::Release);
        }
        Ok(())
    }

    /// The number of the job.
    pub fn job(&self) -> u32 {
        self.job
    }

    /// Whether ranks have to share cores now.
    #[inline(always)]
    pub fn is_oversubscribed(&self) -> bool {
        self.header().oversubscribed.load(Ordering::Relaxed) != 0
    }

    /// Whether ranks that ring doorbells have a fence: all of them or none, as `doorbell.rs` explains, so that spawned
    /// ranks do not change it.
    #[inline(always)]
    pub(crate) fn is_fenced(&self) -> bool {
        self.fenced
    }

    /// Cores that the ranks may use; zero if unknown.
    pub fn cores(&self) -> u32 {
        self.header().cores.load(Ordering::Relaxed)
    }

    /// Records how many cores the ranks may use, before they join.
    pub fn note_cores(&self, cores: u32) {
        self.header().cores.store(cores, Ordering::Relaxed);
    }

    /// The limits that all ranks of this host use. The first rank that joins decides, by what it wants.
    pub(crate) fn agree_limits(&self, wanted: JobLimits) -> JobLimits {
        let mut agreed = [0; LIMITS];
        for (row, place) in LIMIT_ROWS.iter().zip(&self.header().limits) {
            let ours = wanted.value(row.limit) + 1;
            let (first, late) = (Ordering::Relaxed, Ordering::Relaxed);
            let decided = place.compare_exchange(0, ours, first, late).unwrap_or_else(|it| it);
            agreed[row.limit as usize] = if decided == 0 { ours - 1 } else { decided - 1 };
        }
        JobLimits::of_values(agreed)
    }

    /// Whether each rank has a second core, for another thread. The answer is the same on all ranks.
    pub fn has_cores_to_spare(&self) -> bool {
        self.cores() / 2 >= self.ranks
    }

    /// Where ranks find the launcher that was started late. The first caller starts it; if that fails, the next may try.
    pub(crate) fn launcher_address(
        &self,
        start: impl FnOnce() -> Option<Vec<u8>>,
    ) -> Option<Vec<u8>> {
        let header = self.header();
        loop {
            let (free, taken) = (Ordering::Acquire, Ordering::Acquire);
            match header.launcher.compare_exchange(NO_LAUNCHER, STARTING, free, taken) {
                Ok(_) => break,
                // Another rank starts it, or has died in the attempt: then we wait for a launcher that never comes, as
                // for any message of that rank, until the job ends.
                Err(STARTING) => thread::sleep(STARTING_NAP),
                Err(len) => {
                    let bytes = header.launcher_address.iter().take(len as usize);
                    return Some(bytes.map(|byte| byte.load(Ordering::Relaxed)).collect());
                }
            }
        }
        let address = start().filter(|address| address.len() <= LAUNCHER_ADDRESS_BYTES);
        for (place, &byte) in header.launcher_address.iter().zip(address.iter().flatten()) {
            place.store(byte, Ordering::Relaxed);
        }
        let len = address.as_ref().map_or(0, Vec::len);
        // Pairs with the Acquire above.
        header.launcher.store(u32::try_from(len).unwrap_or(NO_LAUNCHER), Ordering::Release);
        address
    }

    /// Fills in the entry of a rank.
    pub fn introduce(&self, rank: u32, process: Process) {
        let who = &self.entry(rank).who;
        who.pid.store(process.pid, Ordering::Relaxed);
        who.pid_outside.store(process.pid_outside, Ordering::Relaxed);
        who.word.store(process.word, Ordering::Relaxed);
        who.probe.store(process.probe, Ordering::Release);
    }

    /// What the entry of a rank says.
    pub fn process(&self, rank: u32) -> Process {
        let who = &self.entry(rank).who;
        let probe = who.probe.load(Ordering::Acquire);
        Process {
            pid: who.pid.load(Ordering::Relaxed),
            pid_outside: who.pid_outside.load(Ordering::Relaxed),
            word: who.word.load(Ordering::Relaxed),
            probe,
        }
    }

    /// Opens the page on which a rank of this process keeps its facts.
    pub(crate) fn open_facts(&self, rank: u32, me: Peer) -> io::Result<FactsPage> {
        FactsPage::open(&self.file, facts_start(self.ranks, rank), me)
    }

    /// Reads the page of a rank; `None` if it has none.
    pub fn facts(&self, rank: u32) -> Option<Facts> {
        let mut bytes = vec![0; usize::try_from(FACTS_BYTES).ok()?];
        self.read_facts(rank, &mut bytes)?;
        Facts::parse(&bytes)
    }

    /// Reads the beginning of the page of a rank; `None` if it has none.
    pub fn glance(&self, rank: u32) -> Option<Glance> {
        let mut bytes = [0; Glance::BYTES];
        self.read_facts(rank, &mut bytes)?;
        Glance::parse(&bytes)
    }

    /// Reads the page of a rank, as bytes: from the file, since a page that the rank could not reserve has no memory.
    pub fn read_facts(&self, rank: u32, bytes: &mut [u8]) -> Option<()> {
        assert!(rank < self.ranks_max(), "rank {rank} of {}", self.ranks);
        self.file.read_exact_at(bytes, facts_start(self.ranks, rank)).ok()
    }

    /// Asks ranks of this host for the facts that they only write when they are asked. Each answers as soon as it is in
    /// the library and has nothing to do.
    pub fn ask(&self, ranks: impl Iterator<Item = u32>, number: u32) {
        let at = Page::asked_at();
        for rank in ranks {
            if self.glance(rank).is_some() {
                let _ = self
                    .file
                    .write_all_at(&number.to_ne_bytes(), facts_start(self.ranks, rank) + at);
            }
        }
        self.tell_all();
    }

    /// Records that a rank is about to leave, and will open no more planes.
    pub(crate) fn take_leave(&self, rank: u32) {
        let _ = self.entry(rank).who.state.compare_exchange(
            HERE,
            LEAVING,
            Ordering::SeqCst,
            Ordering::Relaxed,
        );
        // If only the first plane is in use, no rank waits to hear of it. A rank that opens another plane later sees it
        // in the entry.
        if self.header().planes.load(Ordering::SeqCst) != 0 {
            self.tell_all();
        }
    }

    /// Records that a rank has left, and tells all ranks.
    pub(crate) fn leave(&self, rank: u32) {
        self.entry(rank).who.state.store(LEFT, Ordering::SeqCst);
        self.tell_all();
    }

    /// Records that a rank has died, and tells all ranks.
    pub fn mark_down(&self, rank: u32) {
        self.entry(rank).who.state.store(DEAD, Ordering::SeqCst);
        self.tell_all();
    }

    /// Whether a rank has left in order, or is about to.
    pub(crate) fn has_left(&self, rank: u32) -> bool {
        matches!(self.entry(rank).who.state.load(Ordering::SeqCst), LEAVING | LEFT)
    }

    /// Makes all ranks check which ranks are gone, here or elsewhere.
    pub fn tell_all(&self) {
        // Pairs with the Acquire in `changes`.
        self.header().changes.fetch_add(1, Ordering::SeqCst);
        let planes = self.header().planes.load(Ordering::SeqCst) | 1;
        for plane in (0..PLANES).filter(|plane| planes >> plane & 1 != 0) {
            let ranks = if plane == 0 { self.ranks_so_far() } else { self.ranks };
            for rank in 0..ranks {
                self.signals(plane, rank).doorbell.ring(true);
            }
        }
    }

    /// How often ranks have left or died.
    #[inline(always)]
    pub(crate) fn changes(&self) -> u32 {
        // Pairs with the increment in `tell_all`.
        self.header().changes.load(Ordering::Acquire)
    }

    /// Whether a rank is not in a plane and never will be: it is gone, or about to leave without having opened it.
    pub(crate) fn is_gone(&self, plane: u32, rank: u32) -> bool {
        let who = &self.entry(rank).who;
        match who.state.load(Ordering::SeqCst) {
            HERE => false,
            LEAVING => plane != 0 && who.planes.load(Ordering::SeqCst) >> plane & 1 == 0,
            _ => true,
        }
    }

    /// Opens a plane for `rank`, and returns the arena of its rings.
    pub(crate) fn open_plane(&self, plane: u32, rank: u32) -> io::Result<Arena> {
        assert!(plane < PLANES, "plane {plane} of {PLANES}");
        let (file, begin) = (Arc::clone(&self.file), arena_start(self.ranks, plane));
        let end = arena_start(self.ranks, plane + 1);
        if plane == 0 {
            return Ok(Arena::new(file, Arc::clone(&self.map), 0, begin..end));
        }
        let signals = signals_start(self.ranks, plane)..signals_start(self.ranks, plane + 1);
        map::reserve(&file, signals.start, signals.end - signals.start)?;
        let map = Map::new(&file, begin, end - begin)?;
        self.entry(rank).who.planes.fetch_or(1 << plane, Ordering::SeqCst);
        self.header().planes.fetch_or(1 << plane, Ordering::SeqCst);
        Ok(Arena::new(file, Arc::new(map), begin, begin..end))
    }

    /// How much of the arena of a plane is taken.
    pub(crate) fn taken(&self, plane: u32) -> &AtomicU64 {
        &self.header().taken[plane as usize]
    }

    /// The signals of a rank in a plane. Like a ring, they are used only by a holder of the segment.
    pub(crate) fn signals(&self, plane: u32, rank: u32) -> &'static RankSignals {
        if plane == 0 {
            return &self.entry(rank).signals;
        }
        assert!(rank < self.ranks && plane < PLANES, "rank {rank} of {}", self.ranks);
        let offset =
            signals_start(self.ranks, plane) + u64::from(rank) * size_of::<RankSignals>() as u64;
        // SAFETY: I1: the signals of all planes are inside the mapping.
        let signals = unsafe { self.map.start().add(usize::try_from(offset).unwrap_or(0)) };
        // SAFETY: I2.
        unsafe { signals.cast::<RankSignals>().as_ref() }
    }

    /// Claims a piece of the room for windows for one ring, as an arena of its own.
    pub(crate) fn claim_for_ring(&self) -> io::Result<Arena> {
        let at = self.claim_for_window(RING_BYTES).ok_or(io::ErrorKind::StorageFull)?;
        self.arena_of_ring(at)
    }

    /// The arena of such a ring.
    pub(crate) fn arena_of_ring(&self, at: u64) -> io::Result<Arena> {
        let range = self.range_of_ring(at).ok_or(io::ErrorKind::InvalidData)?;
        let map = Map::new(&self.file, at, RING_BYTES)?;
        Ok(Arena::new(Arc::clone(&self.file), Arc::new(map), at, range))
    }

    /// Where such a ring is, if there can be one.
    fn range_of_ring(&self, at: u64) -> Option<Range<u64>> {
        let end = at.checked_add(RING_BYTES).filter(|&end| end <= file_bytes(self.ranks))?;
        (at >= windows_start(self.ranks)).then_some(at..end)
    }

    /// The ring below such a ring, which cannot be mapped, on the stack of newcomers.
    pub(crate) fn ring_below(&self, at: u64) -> Option<u64> {
        self.range_of_ring(at)?;
        let mut label = [0; Label::BYTES];
        self.file.read_exact_at(&mut label, at).ok()?;
        Some(Label::below_in(label))
    }

    /// Claims room for a window, which no other will get. Nothing is reserved yet.
    pub(crate) fn claim_for_window(&self, bytes: u64) -> Option<u64> {
        let taken = &self.header().windows_taken;
        let bytes = bytes.checked_next_multiple_of(WINDOW_UNIT)?;
        let fits = |taken: u64| taken.checked_add(bytes).filter(|&end| end <= WINDOWS_BYTES);
        let before = taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).ok()?;
        Some(windows_start(self.ranks) + before)
    }

    /// The file, for a piece of it that outlives this reference.
    pub(crate) fn shared_file(&self) -> &Arc<File> {
        &self.file
    }

    fn header(&self) -> &SegmentHeader {
        // SAFETY: I1: the mapping begins with a header; I2: any bytes will do.
        unsafe { self.map.start().cast::<SegmentHeader>().as_ref() }
    }

    #[inline(always)]
    fn entry(&self, rank: u32) -> &'static RankEntry {
        assert!(rank < self.ranks_max(), "rank {rank} of {}", self.ranks);
        let offset = usize::try_from(entry_start(rank)).unwrap_or(0);
        // SAFETY: I1: the entries come after the header; `open` checked that the mapping has all.
        let entry = unsafe { self.map.start().add(offset) };
        // SAFETY: I2.
        unsafe { entry.cast::<RankEntry>().as_ref() }
    }
}

/// Where the entry of a rank begins.
fn entry_start(rank: u32) -> u64 {
    size_of::<SegmentHeader>() as u64 + u64::from(rank) * size_of::<RankEntry>() as u64
}

/// Where the signals of a plane begin, in a segment for this many ranks. Those of the first plane are in the entries.
fn signals_start(ranks: u32, plane: u32) -> u64 {
    let entries = entry_start(ranks.saturating_add(SPAWNED_MAX));
    let signals = u64::from(ranks) * size_of::<RankSignals>() as u64;
    let before = u64::from(plane.saturating_sub(1));
    entries.next_multiple_of(PAGE_BYTES) + before * signals.next_multiple_of(PAGE_BYTES)
}

/// Where the arena of a plane begins.
fn arena_start(ranks: u32, plane: u32) -> u64 {
    let arena = Arena::bytes(u64::from(ranks) * u64::from(ranks));
    signals_start(ranks, PLANES) + u64::from(plane) * arena
}

/// Where the facts of a rank are: at a page, whatever its size.
fn facts_start(ranks: u32, rank: u32) -> u64 {
    let first = arena_start(ranks, PLANES).next_multiple_of(WINDOW_UNIT);
    first + u64::from(rank) * FACTS_BYTES.next_multiple_of(PAGE_BYTES)
}

/// Where the room for windows begins: at a page, whatever its size.
fn windows_start(ranks: u32) -> u64 {
    facts_start(ranks, ranks.saturating_add(SPAWNED_MAX)).next_multiple_of(WINDOW_UNIT)
}

/// How long the file is.
fn file_bytes(ranks: u32) -> u64 {
    windows_start(ranks) + WINDOWS_BYTES
}

/// Windows begin at multiples of this: the largest page.
const WINDOW_UNIT: u64 = 64 << 10;
/// The room for windows, more than a machine has memory: each window takes another piece.
const WINDOWS_BYTES: u64 = 1 << 46;

const MAGIC: u64 = u64::from_le_bytes(*b"ferry\0\0\x08");

/// The most bytes of the address of a launcher.
const LAUNCHER_ADDRESS_BYTES: usize = 60;
/// No launcher was started late; one is being started. Any other number is the length of its address.
const NO_LAUNCHER: u32 = 0;
const STARTING: u32 = u32::MAX;
/// How long a rank sleeps before it looks again for a launcher that another one starts.
const STARTING_NAP: Duration = Duration::from_millis(1);

/// States of a rank, in this order; it may die in any of them.
const HERE: u32 = 0;
const LEAVING: u32 = 1;
const LEFT: u32 = 2;
const DEAD: u32 = 3;

const _: () = {
    assert!(size_of::<RankEntry>() == 256);
    assert!(size_of::<RankSignals>() == 192);
    assert!(size_of::<SegmentHeader>() == 192);
};

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    #[test]
    fn its_length_stays() {
        let made = Segment::create(2, 7, false).expect("memory");
        let len = made.file().metadata().expect("a file").len();
        assert!(made.file().set_len(0).is_err() && made.file().set_len(2 * len).is_err());
        // The same header in a file that another process could truncate beneath us.
        let copy = map::memory_file(len).expect("memory");
        let mut header = [0; size_of::<SegmentHeader>()];
        made.file().read_exact_at(&mut header, 0).expect("read");
        copy.write_all_at(&header, 0).expect("written");
        assert!(Segment::open(copy.try_clone().expect("a copy").into()).is_err());
        map::seal_length(&copy).expect("sealed");
        assert!(Segment::open(copy.into()).is_ok());
    }

    #[test]
    fn a_rank_that_has_left_is_gone_but_not_dead() {
        let made = Segment::create(3, 7, false).expect("memory");
        made.take_leave(0);
        assert!(made.has_left(0) && !made.is_gone(0, 0));
        made.leave(0);
        made.mark_down(1);
        let seen = [0, 1, 2].map(|rank| (made.is_gone(0, rank), made.has_left(rank)));
        assert_eq!(seen, [(true, true), (true, false), (false, false)]);
    }
}
