//! Accesses by all members together, in two phases: members exchange their bytes with the aggregators, and each
//! aggregator accesses its part of the file in long ranges. Rounds bound the memory: in each, an aggregator accesses
//! one window of its part, whose length a hint sets.
//!
//! Invariants, cited below by number.
//!   I1. Memory lent to a schedule is borrowed by a call that waits for it.

use std::borrow::Cow;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use ferrywire_host::memory;
use ferrywire_mpi::collective::Edge;
use ferrywire_mpi::file::{
    Domains, FileRange, View, WindowRanges, are_worth_gathering, choose_aggregators, runs_of,
    without_short_gaps,
};

use super::independent::{SourcePieces, TargetPieces, check};
use super::{File, FileError, FileResult};
use crate::comm::Comm;

/// Who accesses what in a collective call.
struct Phases {
    view: Arc<View>,
    /// Our access: a position of the view, and how many bytes.
    position: u64,
    bytes: u64,
    aggregators: Vec<u32>,
    domains: Domains,
    buffer_bytes: u64,
    /// Where the next window of each aggregator may begin.
    done: Vec<u64>,
    /// Whether the windows of the first round are all there are.
    is_single: bool,
    /// Rounds that are over.
    rounds: u64,
}

/// What a member has to do with the window of an aggregator.
struct Share {
    ranges: WindowRanges,
    /// Its bytes among those of its access.
    data: Range<usize>,
}

/// A round: the window of each aggregator, and our share of it.
struct Round {
    windows: Vec<Range<u64>>,
    shares: Vec<Share>,
    /// For each member and aggregator, bytes of its encoded ranges and of its data.
    sizes: Vec<i64>,
}

/// What an aggregator knows of its window.
struct Asked {
    /// The ranges of each member that has some, in the order of ranks.
    members: Vec<(u32, Vec<FileRange>)>,
    window: Range<u64>,
}

/// Subtags of the two messages between a member and an aggregator.
const RANGES: u8 = 0;
const DATA: u8 = 1;

/// Gaps of so many bytes are read with what is around them, which takes less time than another system call.
const GAP_BYTES_MAX: u64 = 8 << 10;
/// Ranges of so many bytes on average are not brought together on one host.
const LONG_RANGE_BYTES: u64 = 32 << 10;
/// Pieces of so many bytes on average are written as they came, and shorter ones are first copied together.
const PIECE_BYTES_MIN: usize = 512;

impl File {
    /// Writes from a position of the view on. All members call it. Returns how many bytes.
    pub fn write_all(&self, comm: Comm<'_>, position: u64, bytes: &[u8]) -> FileResult<u64> {
        let written = match self.phases(comm, position, bytes.len() as u64)? {
            None => self.write(comm, position, vec![bytes]),
            Some(phases) => self.write_in_phases(comm, phases, bytes),
        };
        comm.agree(written)
    }

    /// Reads from a position of the view on. All members call it. Returns how many bytes: fewer if the file ends
    /// before.
    pub fn read_all(&self, comm: Comm<'_>, position: u64, bytes: &mut [u8]) -> FileResult<u64> {
        match self.phases(comm, position, bytes.len() as u64)? {
            None => {
                let read = self.read(comm, position, vec![bytes]);
                comm.agree(read)
            }
            Some(phases) => self.read_in_phases(comm, phases, bytes),
        }
    }

    /// Decides how all members access the file: `None` if each does so by itself.
    fn phases(&self, comm: Comm<'_>, position: u64, bytes: u64) -> FileResult<Option<Phases>> {
        let view = self.view();
        let trouble = check(&view, position, bytes).err().map(|error| error.trouble());
        let bounds = view.bounds(position, bytes).unwrap_or(FileRange { offset: 0, bytes: 0 });
        let range_bytes = view.mean_range_bytes().min(bytes);
        let facts = [bounds.offset, bounds.bytes, view.is_ascending().into(), range_bytes];
        let all = comm.meet(trouble, facts.map(u64::cast_signed))?;
        let all_ascend = all.iter().all(|facts| facts[2] != 0);
        let accesses: Vec<FileRange> = all
            .iter()
            .map(|facts| FileRange {
                offset: facts[0].cast_unsigned(),
                bytes: facts[1].cast_unsigned(),
            })
            .filter(|range| range.bytes > 0)
            .collect();
        let hints = self.hints();
        // The cache of a host gathers long ranges of all its members by itself, without another copy.
        let is_on_one_host = self.host_of.iter().all(|host| *host == self.host_of[0]);
        let ranges = all.iter().filter(|facts| facts[1] != 0).map(|facts| facts[3].cast_unsigned());
        let cache_gathers = is_on_one_host && ranges.min().unwrap_or(0) >= LONG_RANGE_BYTES;
        let gathers =
            hints.gathers.unwrap_or_else(|| !cache_gathers && are_worth_gathering(&accesses));
        let start = accesses.iter().map(|range| range.offset).min();
        let end = accesses.iter().map(FileRange::end).max();
        let Some((start, end)) = start.zip(end).filter(|_| all_ascend && gathers) else {
            return Ok(None);
        };
        let aggregators = choose_aggregators(&self.host_of, hints.aggregators);
        let count = u32::try_from(aggregators.len()).expect("no more than there are ranks");
        let domains = Domains::new(start..end, count, self.block_bytes);
        let buffer_bytes = hints.buffer_bytes;
        let parts: Vec<Range<u64>> = (0..count).map(|aggregator| domains.of(aggregator)).collect();
        let is_single = parts.iter().all(|part| part.end - part.start <= buffer_bytes);
        let done = parts.iter().map(|part| part.start).collect();
        let (position, rounds) = (position, 0);
        Ok(Some(Phases {
            view,
            position,
            bytes,
            aggregators,
            domains,
            buffer_bytes,
            done,
            is_single,
            rounds,
        }))
    }

    fn write_in_phases(&self, comm: Comm<'_>, mut phases: Phases, bytes: &[u8]) -> FileResult<u64> {
        let mut result = Ok(());
        let mut memory = Memory::default();
        while let Some(round) = phases.next_round(comm)? {
            let mut rooms = phases.rooms(comm, &round, Some(bytes), &mut memory);
            phases.exchange(comm, &round, &mut rooms, Some(bytes))?;
            if let Some(mine) = phases.place_of(comm) {
                let asked = Asked::new(&rooms, &round.windows[mine]);
                let written =
                    asked.and_then(|asked| self.write_window(&asked, &rooms, &mut memory));
                result = result.and(written);
            }
            memory.keep(rooms);
        }
        result.map(|()| phases.bytes)
    }

    /// Writes the bytes of all members in a window. Where they overlap, those of the highest rank remain, in all
    /// windows.
    fn write_window(&self, asked: &Asked, rooms: &[Room<'_>], memory: &mut Memory) -> FileResult {
        if let Some(pieces) = asked.separate_pieces(rooms) {
            return self.write_pieces(&pieces);
        }
        let start = asked.window.start;
        let buffer = &mut memory.window;
        buffer.resize(index(asked.window.end - start), 0);
        for (range, bytes) in asked.pieces(rooms) {
            buffer[index(range.offset - start)..index(range.end() - start)].copy_from_slice(bytes);
        }
        for run in asked.runs() {
            let place = index(run.offset - start)..index(run.end() - start);
            self.write_range(run, &mut SourcePieces::new(vec![&buffer[place]]))?;
        }
        Ok(())
    }

    /// Writes pieces that do not overlap, in the order of their offsets.
    fn write_pieces(&self, pieces: &[(FileRange, &[u8])]) -> FileResult {
        for run in pieces.chunk_by(|(one, _), (next, _)| one.end() == next.offset) {
            let (first, last) = (run[0].0, run[run.len() - 1].0);
            let range = FileRange { offset: first.offset, bytes: last.end() - first.offset };
            let bytes = run.iter().map(|(_, bytes)| *bytes).collect();
            self.write_range(range, &mut SourcePieces::new(bytes))?;
        }
        Ok(())
    }

    fn read_in_phases(
        &self,
        comm: Comm<'_>,
        mut phases: Phases,
        bytes: &mut [u8],
    ) -> FileResult<u64> {
        let mut end_of_file = u64::MAX;
        let mut memory = Memory::default();
        while let Some(round) = phases.next_round(comm)? {
            let mut rooms = phases.rooms(comm, &round, None, &mut memory);
            phases.exchange(comm, &round, &mut rooms, None)?;
            let asked = phases.place_of(comm).map(|mine| Asked::new(&rooms, &round.windows[mine]));
            let (asked, ended) = match asked {
                None => (None, Ok(u64::MAX)),
                Some(Err(error)) => (None, Err(error)),
                Some(Ok(asked)) => {
                    let ended = self.read_window(&asked, &mut memory.window);
                    (Some(asked), ended)
                }
            };
            // All members learn where the file ends, and of errors, before anyone waits for bytes.
            let trouble = ended.as_ref().err().map(|error| error.trouble());
            let ended = ended.unwrap_or(u64::MAX);
            let all = comm.meet(trouble, [ended.cast_signed(), 0, 0, 0])?;
            let ends = all.iter().map(|facts| facts[0].cast_unsigned());
            end_of_file = ends.fold(end_of_file, u64::min);
            drop(rooms);
            phases.hand_out(comm, &round, asked.as_ref(), (&mut memory, end_of_file), bytes)?;
        }
        let end = phases.view.position_at(end_of_file).min(phases.position + phases.bytes);
        Ok(end.saturating_sub(phases.position))
    }

    /// Reads the bytes of all members in a window. Returns where the file ends, if it does before the last of them.
    fn read_window(&self, asked: &Asked, buffer: &mut Vec<u8>) -> FileResult<u64> {
        let start = asked.window.start;
        buffer.resize(index(asked.window.end - start), 0);
        for run in without_short_gaps(asked.runs(), GAP_BYTES_MAX) {
            let place = index(run.offset - start)..index(run.end() - start);
            let read = self.read_range(run, &mut TargetPieces::new(vec![&mut buffer[place]]))?;
            if read < run.bytes {
                return Ok(run.offset + read);
            }
        }
        Ok(u64::MAX)
    }
}

/// What a member sends to an aggregator: room for it, or what the aggregator has itself.
struct Room<'a> {
    rank: u32,
    ranges: Cow<'a, [u8]>,
    data: Cow<'a, [u8]>,
}

/// Memory of an aggregator that rounds use one after the other: pages are new only once.
#[derive(Default)]
struct Memory {
    window: Vec<u8>,
    spare: Vec<Vec<u8>>,
}

impl Memory {
    /// Room for as many bytes.
    fn room(&mut self, bytes: usize) -> Vec<u8> {
        let mut room = self.spare.pop().unwrap_or_default();
        room.resize(bytes, 0);
        room
    }

    /// Keeps what a round has used for the next.
    fn keep(&mut self, rooms: Vec<Room<'_>>) {
        // The same member gets the same room again.
        for room in rooms.into_iter().rev() {
            if let Cow::Owned(data) = room.data {
                self.spare.push(data);
            }
        }
    }
}

impl Phases {
    /// Our place among the aggregators, if we are one.
    fn place_of(&self, comm: Comm<'_>) -> Option<usize> {
        self.aggregators.binary_search(&comm.members().rank()).ok()
    }

    fn count(&self) -> u32 {
        u32::try_from(self.aggregators.len()).expect("no more than there are ranks")
    }

    /// The next round, until all bytes have been accessed.
    fn next_round(&mut self, comm: Comm<'_>) -> FileResult<Option<Round>> {
        let windows: Vec<Range<u64>> = match (self.is_single, self.rounds) {
            (true, 0) => (0..self.count()).map(|at| self.domains.of(at)).collect(),
            (true, _) => return Ok(None),
            (false, _) => self.next_windows(comm)?,
        };
        self.rounds += 1;
        if windows.iter().all(Range::is_empty) {
            return Ok(None);
        }
        for (done, window) in self.done.iter_mut().zip(&windows) {
            // An aggregator that is through keeps its place while others go on.
            *done = window.end.max(*done);
        }
        let shares: Vec<Share> = windows.iter().map(|window| self.share(window)).collect();
        let mine: Vec<i64> = shares
            .iter()
            .flat_map(|share| [share.ranges.encoded.len(), share.data.len()])
            .map(|bytes| (bytes as u64).cast_signed())
            .collect();
        let sizes = comm.gather_for_file(&mine)?;
        Ok(Some(Round { windows, shares, sizes }))
    }

    /// The next window of each aggregator, at the first byte that any member has left for it.
    fn next_windows(&self, comm: Comm<'_>) -> FileResult<Vec<Range<u64>>> {
        let mine: Vec<i64> =
            (0..self.count()).map(|at| self.first_left(at).cast_signed()).collect();
        let all = comm.gather_for_file(&mine)?;
        let windows = (0..self.count()).map(|at| {
            let of_all = all.iter().skip(at as usize).step_by(self.aggregators.len());
            match of_all.map(|offset| offset.cast_unsigned()).min() {
                Some(first) if first < u64::MAX => {
                    self.domains.window(at, first, self.buffer_bytes)
                }
                _ => 0..0,
            }
        });
        Ok(windows.collect())
    }

    /// The first byte of ours that is left for an aggregator; the largest offset if there is none.
    fn first_left(&self, aggregator: u32) -> u64 {
        let end = self.domains.of(aggregator).end;
        let position = self.view.position_at(self.done[aggregator as usize]).max(self.position);
        if position >= self.position + self.bytes {
            return u64::MAX;
        }
        let offset = self.view.offset_of(position).unwrap_or(u64::MAX);
        if offset < end { offset } else { u64::MAX }
    }

    /// Our share of a window.
    fn share(&self, window: &Range<u64>) -> Share {
        let mut ranges = WindowRanges::new(window.start);
        let last = self.position + self.bytes;
        let [start, end] = [window.start, window.end]
            .map(|offset| self.view.position_at(offset).clamp(self.position, last));
        self.view.each_range(start, end - start, &mut |range| ranges.push(range));
        Share { ranges, data: index(start - self.position)..index(end - self.position) }
    }

    /// Room for what members send us, if we are an aggregator.
    fn rooms<'a>(
        &self,
        comm: Comm<'_>,
        round: &'a Round,
        bytes: Option<&'a [u8]>,
        memory: &mut Memory,
    ) -> Vec<Room<'a>> {
        let Some(mine) = self.place_of(comm) else { return Vec::new() };
        let of_members = round.sizes.chunks_exact(2 * self.aggregators.len());
        let mut rooms = Vec::new();
        for (rank, sizes) in (0..).zip(of_members) {
            let [ranges, data] =
                [sizes[2 * mine], sizes[2 * mine + 1]].map(|bytes| index(bytes.cast_unsigned()));
            if ranges == 0 {
                continue;
            }
            rooms.push(if rank == comm.members().rank() {
                let share = &round.shares[mine];
                let data = bytes.map_or(&[][..], |bytes| &bytes[share.data.clone()]);
                Room {
                    rank,
                    ranges: Cow::Borrowed(&share.ranges.encoded),
                    data: Cow::Borrowed(data),
                }
            } else {
                let data = if bytes.is_some() { memory.room(data) } else { Vec::new() };
                Room { rank, ranges: Cow::Owned(vec![0; ranges]), data: Cow::Owned(data) }
            });
        }
        rooms
    }

    /// Tells each aggregator our ranges in its window, with their bytes if there are some.
    fn exchange(
        &self,
        comm: Comm<'_>,
        round: &Round,
        rooms: &mut [Room<'_>],
        bytes: Option<&[u8]>,
    ) -> FileResult {
        let me = comm.members().rank();
        let mut gives = Vec::new();
        for (&rank, share) in self.aggregators.iter().zip(&round.shares) {
            if share.data.is_empty() || rank == me {
                continue;
            }
            gives.push(Edge { rank, subtag: RANGES, bytes: memory::lend(&share.ranges.encoded) });
            if let Some(bytes) = bytes {
                let bytes = memory::lend(&bytes[share.data.clone()]);
                gives.push(Edge { rank, subtag: DATA, bytes });
            }
        }
        let mut gets = Vec::new();
        for room in rooms {
            let rank = room.rank;
            if let Cow::Owned(ranges) = &mut room.ranges {
                gets.push(Edge { rank, subtag: RANGES, bytes: memory::lend_mut(ranges) });
            }
            if let Cow::Owned(data) = &mut room.data
                && bytes.is_some()
            {
                gets.push(Edge { rank, subtag: DATA, bytes: memory::lend_mut(data) });
            }
        }
        run(comm, &gives, &gets)
    }

    /// Sends each member its bytes of the windows, as far as the file has them.
    fn hand_out(
        &self,
        comm: Comm<'_>,
        round: &Round,
        asked: Option<&Asked>,
        (memory, end_of_file): (&mut Memory, u64),
        bytes: &mut [u8],
    ) -> FileResult {
        let me = comm.members().rank();
        let end = index(self.view.position_at(end_of_file).saturating_sub(self.position));
        let mut parcels = Vec::new();
        if let (Some(asked), Some(mine)) = (asked, self.place_of(comm)) {
            for (rank, ranges) in &asked.members {
                if *rank == me {
                    let own = &mut bytes[round.shares[mine].data.start..];
                    asked.take_out(ranges, &memory.window, end_of_file, own);
                    continue;
                }
                let len = index(ranges.iter().map(|range| bytes_before(range, end_of_file)).sum());
                parcels.push((
                    *rank,
                    match ranges[..] {
                        [only] => {
                            let start = index(only.offset - asked.window.start);
                            Parcel::InWindow(start..start + len)
                        }
                        _ => {
                            let mut parcel = memory.room(len);
                            asked.take_out(ranges, &memory.window, end_of_file, &mut parcel);
                            Parcel::Packed(parcel)
                        }
                    },
                ));
            }
        }
        let mut gives = Vec::new();
        for (rank, parcel) in &parcels {
            let parcel = match parcel {
                Parcel::Packed(parcel) => &parcel[..],
                Parcel::InWindow(place) => &memory.window[place.clone()],
            };
            if !parcel.is_empty() {
                gives.push(Edge { rank: *rank, subtag: DATA, bytes: memory::lend(parcel) });
            }
        }
        let mut gets = Vec::new();
        for (&rank, share) in self.aggregators.iter().zip(&round.shares) {
            let place = share.data.start..share.data.end.min(end);
            if !place.is_empty() && rank != me {
                gets.push(Edge { rank, subtag: DATA, bytes: memory::lend_mut(&mut bytes[place]) });
            }
        }
        run(comm, &gives, &gets)?;
        for (_, parcel) in parcels.into_iter().rev() {
            if let Parcel::Packed(parcel) = parcel {
                memory.spare.push(parcel);
            }
        }
        Ok(())
    }
}

/// Bytes of a member: packed, or where they are in the window.
enum Parcel {
    Packed(Vec<u8>),
    InWindow(Range<usize>),
}

impl Asked {
    fn new(rooms: &[Room<'_>], window: &Range<u64>) -> FileResult<Asked> {
        let members = rooms.iter().map(|room| {
            let ranges = WindowRanges::decode(&room.ranges, window);
            ranges.map(|ranges| (room.rank, ranges))
        });
        let members: Option<Vec<_>> = members.collect();
        let invalid = || FileError::System(io::ErrorKind::InvalidData.into());
        Ok(Asked { members: members.ok_or_else(invalid)?, window: window.clone() })
    }

    /// The bytes that any member wants, as ranges that do not touch.
    fn runs(&self) -> Vec<FileRange> {
        runs_of(self.members.iter().flat_map(|(_, ranges)| ranges).copied().collect())
    }

    /// The ranges of all members with their bytes, in the order of ranks.
    fn pieces<'a>(
        &self,
        rooms: &'a [Room<'_>],
    ) -> impl Iterator<Item = (FileRange, &'a [u8])> + use<'a, '_> {
        self.members.iter().zip(rooms).flat_map(|((_, ranges), room)| {
            let mut data = &room.data[..];
            ranges.iter().map(move |range| {
                let (now, rest) = data.split_at(index(range.bytes));
                data = rest;
                (*range, now)
            })
        })
    }

    /// The same in the order of offsets, if they do not overlap and are long enough that it does not pay to copy them
    /// together.
    fn separate_pieces<'a>(&self, rooms: &'a [Room<'_>]) -> Option<Vec<(FileRange, &'a [u8])>> {
        let count: usize = self.members.iter().map(|(_, ranges)| ranges.len()).sum();
        let bytes: usize = rooms.iter().map(|room| room.data.len()).sum();
        if bytes < count * PIECE_BYTES_MIN {
            return None;
        }
        let mut pieces: Vec<_> = self.pieces(rooms).collect();
        // This sort is fast for what consists of sorted pieces.
        pieces.sort_by_key(|(range, _)| range.offset);
        let separate = pieces.windows(2).all(|pair| pair[0].0.end() <= pair[1].0.offset);
        separate.then_some(pieces)
    }

    /// Copies the bytes of some ranges from the window, as far as the file has them.
    fn take_out(&self, ranges: &[FileRange], window: &[u8], end_of_file: u64, into: &mut [u8]) {
        let mut at = 0;
        for range in ranges {
            let len = index(bytes_before(range, end_of_file));
            let start = index(range.offset - self.window.start);
            into[at..at + len].copy_from_slice(&window[start..start + len]);
            at += len;
        }
    }
}

/// How many bytes of a range the file has.
fn bytes_before(range: &FileRange, end_of_file: u64) -> u64 {
    range.end().min(end_of_file).saturating_sub(range.offset)
}

/// Sends and receives.
fn run(comm: Comm<'_>, gives: &[Edge], gets: &[Edge]) -> FileResult {
    let instance = comm.members().next_instance();
    // SAFETY: I1.
    Ok(unsafe { comm.perform(instance, comm.neighbourhood(gives, gets)) }?)
}

fn index(bytes: u64) -> usize {
    usize::try_from(bytes).expect("what is in memory has a length")
}
