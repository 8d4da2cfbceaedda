//! Accesses by one member: a system call for each range of the file, whatever the pieces of memory. Ranges to read that
//! are close together come by one call, with what is between them.

use std::io::{self, IoSlice, IoSliceMut};
use std::sync::atomic::Ordering;

use ferrywire_host::file as system;
use ferrywire_mpi::file::{FileRange, View};

use super::{File, FileError, FileResult};
use crate::comm::Comm;
use crate::window::Locking;

/// Ranges that begin so many bytes apart on average are read together: to copy what is between them takes less time
/// than a system call.
const NEAR_BYTES_MAX: u64 = 8 << 10;
/// Bytes that are read together.
const STRETCH_BYTES: u64 = 512 << 10;

impl File {
    /// Writes pieces of memory, one after the other, from a position of the view on. Returns how many bytes.
    pub fn write(&self, comm: Comm<'_>, position: u64, pieces: Vec<&[u8]>) -> FileResult<u64> {
        let bytes = pieces.iter().map(|piece| piece.len() as u64).sum();
        let view = self.view();
        check(&view, position, bytes)?;
        self.ordered(comm, Locking::Exclusive, || {
            let mut source = SourcePieces::new(pieces);
            let mut result = Ok(());
            view.each_range(position, bytes, &mut |range| {
                if result.is_ok() {
                    result = self.write_range(range, &mut source);
                }
            });
            result.map(|()| bytes)
        })
    }

    /// Reads into pieces of memory. Returns how many bytes: fewer if the file ends before.
    pub fn read(&self, comm: Comm<'_>, position: u64, pieces: Vec<&mut [u8]>) -> FileResult<u64> {
        let bytes = pieces.iter().map(|piece| piece.len() as u64).sum();
        let view = self.view();
        check(&view, position, bytes)?;
        let is_near = are_near(&view, position, bytes);
        self.ordered(comm, Locking::Shared, || {
            let mut target = TargetPieces::new(pieces);
            let mut stretch = Stretch::new(view.bounds(position, bytes));
            let (mut result, mut got, mut at_end) = (Ok(()), 0, false);
            view.each_range(position, bytes, &mut |range| {
                if result.is_ok() && !at_end {
                    let read = match is_near && range.bytes < STRETCH_BYTES {
                        true => self.read_from_stretch(range, &mut stretch, &mut target),
                        false => self.read_range(range, &mut target),
                    };
                    match read {
                        Ok(bytes) => {
                            got += bytes;
                            at_end = bytes < range.bytes;
                        }
                        Err(error) => result = Err(error),
                    }
                }
            });
            result.map(|()| got)
        })
    }

    /// Reads a range with those that follow it, or takes it from what was read with one before. Returns how many bytes
    /// there are until the end of the file.
    fn read_from_stretch(
        &self,
        range: FileRange,
        stretch: &mut Stretch,
        target: &mut TargetPieces<'_>,
    ) -> FileResult<u64> {
        let has_all = range.offset >= stretch.start && range.end() <= stretch.end();
        if !has_all {
            let wanted = (range.offset + STRETCH_BYTES).min(stretch.last) - range.offset;
            stretch.start = range.offset;
            stretch.bytes.resize(length(wanted), 0);
            let whole = FileRange { offset: range.offset, bytes: wanted };
            let room = &mut stretch.bytes[..];
            let read = self.read_range(whole, &mut TargetPieces::new(vec![room]))?;
            stretch.bytes.truncate(length(read));
        }
        let start = length(range.offset - stretch.start);
        let end = stretch.bytes.len().min(start + length(range.bytes));
        target.fill(&stretch.bytes[start..end]);
        Ok((end - start) as u64)
    }

    /// Writes a range from the next pieces.
    pub(super) fn write_range(
        &self,
        range: FileRange,
        source: &mut SourcePieces<'_>,
    ) -> FileResult {
        self.has_written.store(true, Ordering::Relaxed);
        let mut at = range.offset;
        while at < range.end() {
            let mut pieces = source.next(range.end() - at);
            let mut left = &mut pieces[..];
            while !left.is_empty() {
                let written = system::write_at(&self.file, left, at)?;
                if written == 0 {
                    return Err(io::Error::from(io::ErrorKind::WriteZero).into());
                }
                at += written as u64;
                IoSlice::advance_slices(&mut left, written);
            }
        }
        Ok(())
    }

    /// Reads a range into the next pieces. Returns how many bytes there are until the end of the file.
    pub(super) fn read_range(
        &self,
        range: FileRange,
        target: &mut TargetPieces<'_>,
    ) -> FileResult<u64> {
        let mut at = range.offset;
        while at < range.end() {
            let mut pieces = target.next(range.end() - at);
            let mut left = &mut pieces[..];
            while !left.is_empty() {
                let read = system::read_at(&self.file, left, at)?;
                if read == 0 {
                    return Ok(at - range.offset);
                }
                at += read as u64;
                IoSliceMut::advance_slices(&mut left, read);
            }
        }
        Ok(range.bytes)
    }
}

/// Checks that a view has bytes at offsets that a file can have.
pub(super) fn check(view: &View, position: u64, bytes: u64) -> FileResult {
    match bytes > 0 && view.bounds(position, bytes).is_none() {
        true => Err(FileError::TooFar),
        false => Ok(()),
    }
}

/// Whether ranges are so close together that they are read together.
fn are_near(view: &View, position: u64, bytes: u64) -> bool {
    let ranges = bytes / view.mean_range_bytes().max(1);
    let distance = view.bounds(position, bytes).map_or(0, |bounds| bounds.bytes / ranges.max(1));
    ranges > 1 && view.is_ascending() && distance <= NEAR_BYTES_MAX
}

/// Adjacent bytes of a file that were read together.
struct Stretch {
    start: u64,
    bytes: Vec<u8>,
    /// Where the access ends.
    last: u64,
}

impl Stretch {
    fn new(bounds: Option<FileRange>) -> Stretch {
        Stretch { start: 0, bytes: Vec::new(), last: bounds.map_or(0, |bounds| bounds.end()) }
    }

    fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }
}

/// Pieces of memory that are written.
pub(super) struct SourcePieces<'a> {
    current: &'a [u8],
    others: std::vec::IntoIter<&'a [u8]>,
}

impl<'a> SourcePieces<'a> {
    pub(super) fn new(pieces: Vec<&'a [u8]>) -> SourcePieces<'a> {
        SourcePieces { current: &[], others: pieces.into_iter() }
    }

    /// The next bytes, or as many of them as a system call takes.
    fn next(&mut self, bytes: u64) -> Vec<IoSlice<'a>> {
        let (mut taken, mut left) = (Vec::new(), length(bytes));
        while left > 0 && taken.len() < system::PIECES_MAX {
            if self.current.is_empty() {
                self.current = self.others.next().expect("as many bytes as the access has");
                continue;
            }
            let (now, rest) = self.current.split_at(left.min(self.current.len()));
            left -= now.len();
            taken.push(IoSlice::new(now));
            self.current = rest;
        }
        taken
    }
}

/// Pieces of memory that are read into.
pub(super) struct TargetPieces<'a> {
    current: &'a mut [u8],
    others: std::vec::IntoIter<&'a mut [u8]>,
}

impl<'a> TargetPieces<'a> {
    pub(super) fn new(pieces: Vec<&'a mut [u8]>) -> TargetPieces<'a> {
        TargetPieces { current: &mut [], others: pieces.into_iter() }
    }

    /// Copies bytes into the next pieces.
    fn fill(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.current.is_empty() {
                self.current = self.others.next().expect("as many bytes as the access has");
                continue;
            }
            let len = bytes.len().min(self.current.len());
            let (now, rest) = bytes.split_at(len);
            self.current.split_off_mut(..len).expect("it is as long").copy_from_slice(now);
            bytes = rest;
        }
    }

    /// The next bytes, or as many of them as a system call takes.
    fn next(&mut self, bytes: u64) -> Vec<IoSliceMut<'a>> {
        let (mut taken, mut left) = (Vec::new(), length(bytes));
        while left > 0 && taken.len() < system::PIECES_MAX {
            if self.current.is_empty() {
                self.current = self.others.next().expect("as many bytes as the access has");
                continue;
            }
            let len = left.min(self.current.len());
            let now = self.current.split_off_mut(..len).expect("it is as long");
            left -= now.len();
            taken.push(IoSliceMut::new(now));
        }
        taken
    }
}

fn length(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}
