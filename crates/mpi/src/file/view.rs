//! Views: the bytes of a file that a rank sees, in order. MPI 5.0 §14.3.
//!
//! A view repeats its filetype from a displacement on. Positions are bytes of data in the view; offsets are bytes of
//! the file.

use std::fmt;

use crate::datatype::Datatype;

/// Adjacent bytes of a file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FileRange {
    /// Where they begin.
    pub offset: u64,
    /// How many.
    pub bytes: u64,
}

impl FileRange {
    /// Where they end.
    pub fn end(&self) -> u64 {
        self.offset + self.bytes
    }
}

/// Why there is no such view.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ViewError {
    /// The etype has no data.
    EmptyEtype,
    /// The filetype does not consist of etypes.
    NotOfEtypes,
    /// A type has bytes before its beginning, or its extent is negative.
    Backwards,
    /// The displacements in a type decrease.
    Decreasing,
    /// A type has the same byte twice, and the file may be written.
    Overlapping,
}

impl fmt::Display for ViewError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ViewError::EmptyEtype => "the etype has a size of 0 bytes",
            ViewError::NotOfEtypes => {
                "the size of the filetype is not a multiple of that of the etype"
            }
            ViewError::Backwards => "the etype or the filetype has negative displacements",
            ViewError::Decreasing => "the displacements in the etype or the filetype decrease",
            ViewError::Overlapping => {
                "the etype or the filetype has bytes twice, which only a file that is read may have"
            }
        })
    }
}

impl std::error::Error for ViewError {}

/// A view of a file. Both types are as they are in the file.
#[derive(Clone, Debug)]
pub struct View {
    displacement: u64,
    etype_bytes: u64,
    filetype: Datatype,
    /// Whether offsets rise with positions.
    is_ascending: bool,
}

impl View {
    /// The view that repeats `filetype`, which consists of elements of `etype`. Only a file that is not written
    /// `may_overlap`.
    pub fn new(
        displacement: u64,
        etype: &Datatype,
        filetype: Datatype,
        may_overlap: bool,
    ) -> Result<View, ViewError> {
        let etype_bytes = etype.size();
        if etype_bytes == 0 {
            return Err(ViewError::EmptyEtype);
        }
        if !filetype.size().is_multiple_of(etype_bytes) {
            return Err(ViewError::NotOfEtypes);
        }
        for part in [etype, &filetype] {
            if part.size() > 0 && part.true_lb() < 0 || part.extent() < 0 {
                return Err(ViewError::Backwards);
            }
            if !part.has_rising_blocks() {
                return Err(ViewError::Decreasing);
            }
            if !may_overlap && !part.has_separate_blocks() {
                return Err(ViewError::Overlapping);
            }
        }
        let is_ascending = filetype.is_ascending();
        Ok(View { displacement, etype_bytes, filetype, is_ascending })
    }

    /// Where it begins.
    pub fn displacement(&self) -> u64 {
        self.displacement
    }

    /// The size of the etype.
    pub fn etype_bytes(&self) -> u64 {
        self.etype_bytes
    }

    /// Whether offsets rise with positions. Filetypes must be like that by themselves, but their repetitions may
    /// interleave.
    pub fn is_ascending(&self) -> bool {
        self.is_ascending
    }

    /// The file offset of the byte at a position. `None` if it does not fit 63 bits.
    pub fn offset_of(&self, position: u64) -> Option<u64> {
        let size = self.filetype.size();
        if size == 0 {
            return Some(self.displacement);
        }
        let mut inside = 0;
        self.filetype.each_block(position % size, 1, &mut |offset, _| inside = offset);
        self.tile(position / size)?.checked_add_unsigned(inside.cast_unsigned())?.try_into().ok()
    }

    /// Where a repetition of the filetype begins.
    fn tile(&self, number: u64) -> Option<i64> {
        let start = i64::try_from(self.displacement).ok()?;
        start.checked_add(self.filetype.extent().checked_mul(i64::try_from(number).ok()?)?)
    }

    /// The offsets between which `bytes` from a position on are. `None` if they do not fit 63 bits, or there are none.
    pub fn bounds(&self, position: u64, bytes: u64) -> Option<FileRange> {
        let size = self.filetype.size();
        let end = position.checked_add(bytes).filter(|_| bytes > 0 && size > 0)?;
        let (first, last) = (position / size, (end - 1) / size);
        let upper = self.filetype.true_lb().checked_add(self.filetype.true_extent())?;
        // No byte in between is farther than the last repetition.
        self.tile(last)?.checked_add(upper)?;
        if self.is_ascending {
            let (start, end) = (self.offset_of(position)?, self.offset_of(end - 1)? + 1);
            return Some(FileRange { offset: start, bytes: end - start });
        }
        let start = self.tile(first)?.checked_add(self.filetype.true_lb())?.cast_unsigned();
        let end = self.tile(last)?.checked_add(upper)?.cast_unsigned();
        Some(FileRange { offset: start, bytes: end - start })
    }

    /// Calls `f` for the ranges that hold `bytes` from a position on, in the order of the data. No range touches the
    /// one before it. They have [`bounds`](View::bounds).
    pub fn each_range(&self, position: u64, bytes: u64, f: &mut impl FnMut(FileRange)) {
        let size = self.filetype.size();
        if bytes == 0 || size == 0 {
            return;
        }
        let extent = self.filetype.extent().cast_unsigned();
        let mut tile = self.displacement + extent * (position / size);
        if self.filetype.is_contiguous() {
            return f(FileRange { offset: tile + position % size, bytes });
        }
        let (mut skip, mut left) = (position % size, bytes);
        let mut open: Option<FileRange> = None;
        while left > 0 {
            let take = left.min(size - skip);
            self.filetype.each_block(skip, take, &mut |inside, bytes| {
                let offset = tile + inside.cast_unsigned();
                match &mut open {
                    Some(range) if range.end() == offset => range.bytes += bytes,
                    _ => {
                        if let Some(range) = open.replace(FileRange { offset, bytes }) {
                            f(range);
                        }
                    }
                }
            });
            left -= take;
            skip = 0;
            tile += extent;
        }
        if let Some(range) = open {
            f(range);
        }
    }

    /// The bytes of ranges on average, at least; at most as many as fit 63 bits.
    pub fn mean_range_bytes(&self) -> u64 {
        match self.filetype.is_contiguous() {
            true => i64::MAX.cast_unsigned(),
            false => self.filetype.size() / self.filetype.block_count().max(1),
        }
    }

    /// The number of bytes of the view before a file offset. If offsets do not rise with positions, repetitions that
    /// begin before the offset count as if they did.
    pub fn position_at(&self, offset: u64) -> u64 {
        let (size, extent) = (self.filetype.size(), self.filetype.extent().cast_unsigned());
        let first = self.displacement + self.filetype.true_lb().cast_unsigned();
        let Some(distance) = offset.checked_sub(first).filter(|_| size > 0) else { return 0 };
        let tiles = distance.checked_div(extent).unwrap_or(0);
        let inside = i64::try_from(offset - self.displacement - tiles * extent);
        let inside = inside.unwrap_or(i64::MAX);
        if self.is_ascending {
            return tiles * size + self.filetype.bytes_before(inside);
        }
        let mut before = 0;
        self.filetype.each_block(0, size, &mut |start, bytes| {
            before += inside.saturating_sub(start).max(0).cast_unsigned().min(bytes);
        });
        tiles * size + before
    }
}
