//! Accesses by one member: a system call for each range of the file, whatever the pieces of memory.

use std::io::{self, IoSlice, IoSliceMut};
use std::sync::atomic::Ordering;

use ferrywire_host::file as system;
use ferrywire_mpi::file::{FileRange, View};

use super::{File, FileError, FileResult};
use crate::comm::Comm;
use crate::window::Locking;

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
        self.ordered(comm, Locking::Shared, || {
            let mut target = TargetPieces::new(pieces);
            let (mut result, mut got, mut at_end) = (Ok(()), 0, false);
            view.each_range(position, bytes, &mut |range| {
                if result.is_ok() && !at_end {
                    match self.read_range(range, &mut target) {
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
