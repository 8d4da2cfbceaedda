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
        let facts = [bounds.offset, bounds.bytes, view.is_ascending().into()];
        let [offset, len, ascending] = facts.map(u64::cast_signed);
        let all = comm.meet(trouble, [offset, len, ascending, 0])?;
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
        let gathers = hints.gathers.unwrap_or_else(|| are_worth_gathering(&accesses));
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
        let mut buffer = Vec::new();
        while let Some(round) = phases.next_round(comm)? {
            let mut rooms = phases.rooms(comm, &round, true);
            phases.exchange(comm, &round, &mut rooms, Some(bytes))?;
            if let Some(mine) = phases.place_of(comm) {
                let asked = Asked::new(&rooms, &round.windows[mine]);
                let written =
                    asked.and_then(|asked| self.write_window(&asked, &rooms, &mut buffer));
                result = result.and(written);
            }
        }
        result.map(|()| phases.bytes)
    }

    /// Writes the bytes of all members in a window. Where they overlap, those of the highest rank remain, in all
    /// windows.
    fn write_window(&self, asked: &Asked, rooms: &[Room], buffer: &mut Vec<u8>) -> FileResult {
        let start = asked.window.start;
        buffer.resize(index(asked.window.end - start), 0);
        for (rank, ranges) in &asked.members {
            let room = rooms.iter().find(|room| room.rank == *rank).expect("it asked us");
            let mut data = &room.data[..];
            for range in ranges {
                let place = index(range.offset - start)..index(range.end() - start);
                let (now, rest) = data.split_at(place.len());
                buffer[place].copy_from_slice(now);
                data = rest;
            }
        }
        for run in asked.runs() {
            let place = index(run.offset - start)..index(run.end() - start);
            self.write_range(run, &mut SourcePieces::new(vec![&buffer[place]]))?;
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
        let mut buffer = Vec::new();
        while let Some(round) = phases.next_round(comm)? {
            let mut rooms = phases.rooms(comm, &round, false);
            phases.exchange(comm, &round, &mut rooms, None)?;
            let asked = phases.place_of(comm).map(|mine| Asked::new(&rooms, &round.windows[mine]));
            let (asked, ended) = match asked {
                None => (None, Ok(u64::MAX)),
                Some(Err(error)) => (None, Err(error)),
                Some(Ok(asked)) => {
                    let ended = self.read_window(&asked, &mut buffer);
                    (Some(asked), ended)
                }
            };
            // All members learn where the file ends, and of errors, before anyone waits for bytes.
            let trouble = ended.as_ref().err().map(|error| error.trouble());
            let ended = ended.unwrap_or(u64::MAX);
            let all = comm.meet(trouble, [ended.cast_signed(), 0, 0, 0])?;
            let ends = all.iter().map(|facts| facts[0].cast_unsigned());
            end_of_file = ends.fold(end_of_file, u64::min);
            phases.hand_out(comm, &round, asked.as_ref(), (&buffer, end_of_file), bytes)?;
        }
        let end = phases.view.position_at(end_of_file).min(phases.position + phases.bytes);
        Ok(end.saturating_sub(phases.position))
    }

    /// Reads the bytes of all members in a window. Returns where the file ends, if it does before the last of them.
    fn read_window(&self, asked: &Asked, buffer: &mut Vec<u8>) -> FileResult<u64> {
        let start = asked.window.start;
        buffer.resize(index(asked.window.end - start), 0);
        for run in asked.runs() {
            let place = index(run.offset - start)..index(run.end() - start);
            let read = self.read_range(run, &mut TargetPieces::new(vec![&mut buffer[place]]))?;
            if read < run.bytes {
                return Ok(run.offset + read);
            }
        }
        Ok(u64::MAX)
    }
}

/// Room of an aggregator for what a member sends.
struct Room {
    rank: u32,
    ranges: Vec<u8>,
    data: Vec<u8>,
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
    fn rooms(&self, comm: Comm<'_>, round: &Round, with_data: bool) -> Vec<Room> {
        let Some(mine) = self.place_of(comm) else { return Vec::new() };
        let of_members = round.sizes.chunks_exact(2 * self.aggregators.len());
        let rooms = (0..).zip(of_members).map(|(rank, sizes)| {
            let [ranges, data] =
                [sizes[2 * mine], sizes[2 * mine + 1]].map(|bytes| index(bytes.cast_unsigned()));
            let data = if with_data { data } else { 0 };
            Room { rank, ranges: vec![0; ranges], data: vec![0; data] }
        });
        rooms.filter(|room| !room.ranges.is_empty()).collect()
    }

    /// Tells each aggregator our ranges in its window, with their bytes if there are some.
    fn exchange(
        &self,
        comm: Comm<'_>,
        round: &Round,
        rooms: &mut [Room],
        bytes: Option<&[u8]>,
    ) -> FileResult {
        let mut gives = Vec::new();
        for (&rank, share) in self.aggregators.iter().zip(&round.shares) {
            if share.data.is_empty() {
                continue;
            }
            gives.push(Edge { rank, subtag: RANGES, bytes: memory::lend(&share.ranges.encoded) });
            if let Some(bytes) = bytes {
                let bytes = memory::lend(&bytes[share.data.clone()]);
                gives.push(Edge { rank, subtag: DATA, bytes });
            }
        }
        let mut gets = Vec::new();
        for Room { rank, ranges, data } in rooms {
            gets.push(Edge { rank: *rank, subtag: RANGES, bytes: memory::lend_mut(ranges) });
            if bytes.is_some() {
                gets.push(Edge { rank: *rank, subtag: DATA, bytes: memory::lend_mut(data) });
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
        (buffer, end_of_file): (&[u8], u64),
        bytes: &mut [u8],
    ) -> FileResult {
        let mut parcels = Vec::new();
        if let Some(asked) = asked {
            for (rank, ranges) in &asked.members {
                parcels.push((*rank, asked.parcel(ranges, buffer, end_of_file)));
            }
        }
        let gives = parcels
            .iter()
            .filter(|(_, parcel)| !parcel.is_empty())
            .map(|(rank, parcel)| Edge { rank: *rank, subtag: DATA, bytes: memory::lend(parcel) });
        let gives: Vec<Edge> = gives.collect();
        let end = index(self.view.position_at(end_of_file).saturating_sub(self.position));
        let mut gets = Vec::new();
        for (&rank, share) in self.aggregators.iter().zip(&round.shares) {
            let place = share.data.start..share.data.end.min(end);
            if !place.is_empty() {
                gets.push(Edge { rank, subtag: DATA, bytes: memory::lend_mut(&mut bytes[place]) });
            }
        }
        run(comm, &gives, &gets)
    }
}

impl Asked {
    fn new(rooms: &[Room], window: &Range<u64>) -> FileResult<Asked> {
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

    /// The bytes of some ranges, from the buffer of the window, as far as the file has them.
    fn parcel<'a>(
        &self,
        ranges: &[FileRange],
        buffer: &'a [u8],
        end_of_file: u64,
    ) -> Cow<'a, [u8]> {
        let start = self.window.start;
        let mut places = ranges.iter().map(|range| {
            let end = range.end().min(end_of_file).max(range.offset);
            index(range.offset - start)..index(end - start)
        });
        match ranges {
            [_] => places.next().map_or(Cow::default(), |place| Cow::Borrowed(&buffer[place])),
            _ => {
                let mut bytes = Vec::new();
                places.for_each(|place| bytes.extend_from_slice(&buffer[place]));
                Cow::Owned(bytes)
            }
        }
    }
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
