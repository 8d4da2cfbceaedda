//! Walking the bytes of elements block by block, from any byte on. Files need it: their views are datatypes, too.

use super::Datatype;
use super::error::Error;
use super::layout::{Block, Layout};
use super::recipe::Recipe;

impl Datatype {
    /// Calls `f` with the offset and length of each block of an element, in the order of packing, beginning `skip`
    /// bytes of data after its first, until there were `take` bytes.
    pub fn each_block(&self, skip: u64, take: u64, f: &mut impl FnMut(i64, u64)) {
        self.shape().layout.walk(0, &mut Cut { skip, left: take }, f);
    }

    /// The number of blocks of an element. Blocks that touch may be counted as one.
    pub fn block_count(&self) -> u64 {
        self.shape().layout.block_count()
    }

    /// Whether no block of an element begins before the one before it in the order of packing.
    pub fn has_rising_blocks(&self) -> bool {
        self.shape().layout.rises(0, &mut self.true_lb(), |start, _| start)
    }

    /// Whether no block of an element begins before the end of the one before it in the order of packing.
    pub fn has_separate_blocks(&self) -> bool {
        self.shape().layout.rises(0, &mut self.true_lb(), |_, end| end)
    }

    /// Whether that also holds for the blocks of several elements in a row.
    pub fn is_ascending(&self) -> bool {
        self.has_separate_blocks() && self.true_extent() <= self.extent()
    }

    /// Bytes of an element that are before `offset`. The type is ascending.
    pub fn bytes_before(&self, offset: i64) -> u64 {
        self.shape().layout.bytes_before(offset)
    }

    /// The same type with other sizes of its basic types, as bytes without a meaning: what it is in a file whose
    /// representation differs from that of memory. `bytes_of` has the size of predefined types there.
    pub fn resized_basics(
        &self,
        bytes_of: &mut impl FnMut(&Datatype) -> u64,
    ) -> Result<Datatype, Error> {
        if self.predefined().is_some() {
            let byte = Datatype::by_name("MPI_BYTE").expect("it is predefined");
            let bytes = i64::try_from(bytes_of(self)).map_err(|_| Error::TooLarge)?;
            return byte.contiguous(bytes);
        }
        let parts = self.recipe().datatypes();
        let parts = parts.iter().map(|part| part.resized_basics(bytes_of));
        let parts = parts.collect::<Result<Vec<_>, Error>>()?;
        let of = || &parts[0];
        Ok(match self.recipe() {
            Recipe::Named { .. }
            | Recipe::F90Real { .. }
            | Recipe::F90Complex { .. }
            | Recipe::F90Integer { .. }
            | Recipe::ValueIndex { .. } => unreachable!("these are predefined"),
            Recipe::Dup { .. } => of().dup(),
            Recipe::Contiguous { count, .. } => of().contiguous(*count)?,
            Recipe::Vector { count, blocklength, stride, .. } => {
                of().vector(*count, *blocklength, *stride)?
            }
            Recipe::Hvector { count, blocklength, stride, .. } => {
                of().hvector(*count, *blocklength, *stride)?
            }
            Recipe::Indexed { blocklengths, displacements, .. } => {
                of().indexed(blocklengths, displacements)?
            }
            Recipe::Hindexed { blocklengths, displacements, .. } => {
                of().hindexed(blocklengths, displacements)?
            }
            Recipe::IndexedBlock { blocklength, displacements, .. } => {
                of().indexed_block(*blocklength, displacements)?
            }
            Recipe::HindexedBlock { blocklength, displacements, .. } => {
                of().hindexed_block(*blocklength, displacements)?
            }
            Recipe::Struct { blocklengths, displacements, .. } => {
                Datatype::structure(blocklengths, displacements, &parts)?
            }
            Recipe::Subarray { sizes, subsizes, starts, order, .. } => {
                of().subarray(sizes, subsizes, starts, *order)?
            }
            Recipe::Darray { size, rank, dimensions, order, .. } => {
                of().darray(*size, *rank, dimensions, *order)?
            }
            Recipe::Resized { lower, extent, .. } => of().resized(*lower, *extent)?,
        })
    }
}

/// The bytes of data that are still to be skipped, and to be taken.
struct Cut {
    skip: u64,
    left: u64,
}

impl Cut {
    fn block(&mut self, base: i64, block: &Block, f: &mut impl FnMut(i64, u64)) {
        if self.skip >= block.bytes {
            self.skip -= block.bytes;
            return;
        }
        let bytes = (block.bytes - self.skip).min(self.left);
        if bytes > 0 {
            f(base.wrapping_add(block.offset).wrapping_add(self.skip.cast_signed()), bytes);
        }
        self.left -= bytes;
        self.skip = 0;
    }

    /// Skips whole parts of `bytes` each, and returns how many of `count` they are.
    fn parts(&mut self, bytes: u64, count: u64) -> u64 {
        let skipped = self.skip.checked_div(bytes).unwrap_or(count).min(count);
        self.skip -= skipped * bytes;
        skipped
    }
}

impl Layout {
    fn bytes(&self) -> u64 {
        match self {
            Layout::Empty => 0,
            Layout::Block(block) => block.bytes,
            Layout::Two(blocks) => blocks.iter().map(|block| block.bytes).sum(),
            Layout::Strided { first, count, .. } => first.bytes * count,
            Layout::Loop { count, each, .. } => each.bytes() * count,
            Layout::Blocks(blocks) => blocks.iter().map(|block| block.bytes).sum(),
            Layout::Sequence(parts) => parts.iter().map(Layout::bytes).sum(),
        }
    }

    fn block_count(&self) -> u64 {
        match self {
            Layout::Empty => 0,
            Layout::Block(_) => 1,
            Layout::Two(_) => 2,
            Layout::Strided { count, .. } => *count,
            Layout::Loop { count, each, .. } => each.block_count().saturating_mul(*count),
            Layout::Blocks(blocks) => blocks.len() as u64,
            Layout::Sequence(parts) => {
                parts.iter().fold(0, |sum, part| sum.saturating_add(part.block_count()))
            }
        }
    }

    fn walk(&self, base: i64, cut: &mut Cut, f: &mut impl FnMut(i64, u64)) {
        let mut all = |blocks: &[Block], cut: &mut Cut| {
            for block in blocks.iter() {
                if cut.left == 0 {
                    break;
                }
                cut.block(base, block, f);
            }
        };
        match self {
            Layout::Empty => {}
            Layout::Block(block) => all(&[*block], cut),
            Layout::Two(blocks) => all(blocks, cut),
            Layout::Blocks(blocks) => all(blocks, cut),
            Layout::Strided { first, count, stride } => {
                let skipped = cut.parts(first.bytes, *count);
                let mut base = base.wrapping_add(stride.wrapping_mul(skipped.cast_signed()));
                for _ in skipped..*count {
                    if cut.left == 0 {
                        break;
                    }
                    cut.block(base, first, f);
                    base = base.wrapping_add(*stride);
                }
            }
            Layout::Loop { offset, count, stride, each } => {
                let skipped = cut.parts(each.bytes(), *count);
                let moved = offset.wrapping_add(stride.wrapping_mul(skipped.cast_signed()));
                let mut base = base.wrapping_add(moved);
                for _ in skipped..*count {
                    if cut.left == 0 {
                        break;
                    }
                    each.walk(base, cut, f);
                    base = base.wrapping_add(*stride);
                }
            }
            Layout::Sequence(parts) => {
                for part in parts.iter() {
                    if cut.left == 0 {
                        break;
                    }
                    if cut.parts(part.bytes(), 1) == 0 {
                        part.walk(base, cut, f);
                    }
                }
            }
        }
    }

    /// Whether each block begins at `least` or later, which `then` sets from the beginning and the end of a block for
    /// the next.
    fn rises(&self, base: i64, least: &mut i64, then: fn(i64, i64) -> i64) -> bool {
        let block_rises = |block: &Block, least: &mut i64| {
            let start = base.wrapping_add(block.offset);
            let rises = start >= *least;
            *least = then(start, start.wrapping_add(block.bytes.cast_signed()));
            rises
        };
        // If the second of several equal parts rises from the first, so do the others.
        let last = |(count, stride): (u64, i64), least: &mut i64| {
            let others = count.saturating_sub(2).cast_signed();
            *least = least.wrapping_add(stride.wrapping_mul(others));
        };
        match self {
            Layout::Empty => true,
            Layout::Block(block) => block_rises(block, least),
            Layout::Two(blocks) => blocks.iter().all(|block| block_rises(block, least)),
            Layout::Blocks(blocks) => blocks.iter().all(|block| block_rises(block, least)),
            Layout::Strided { first, count, stride } => {
                let second = Block { offset: first.offset.wrapping_add(*stride), ..*first };
                let rises =
                    block_rises(first, least) && (*count < 2 || block_rises(&second, least));
                last((*count, *stride), least);
                rises
            }
            Layout::Loop { offset, count, stride, each } => {
                let base = base.wrapping_add(*offset);
                let rises = each.rises(base, least, then)
                    && (*count < 2 || each.rises(base.wrapping_add(*stride), least, then));
                last((*count, *stride), least);
                rises
            }
            Layout::Sequence(parts) => parts.iter().all(|part| part.rises(base, least, then)),
        }
    }

    /// Bytes before an offset, in a layout that ascends.
    fn bytes_before(&self, offset: i64) -> u64 {
        let before = |block: &Block, offset: i64| {
            let inside = offset.saturating_sub(block.offset).max(0).cast_unsigned();
            inside.min(block.bytes)
        };
        match self {
            Layout::Empty => 0,
            Layout::Block(block) => before(block, offset),
            Layout::Two(blocks) => blocks.iter().map(|block| before(block, offset)).sum(),
            Layout::Blocks(blocks) => {
                let whole = blocks.partition_point(|block| {
                    block.offset.saturating_add(block.bytes.cast_signed()) <= offset
                });
                let below: u64 = blocks[..whole].iter().map(|block| block.bytes).sum();
                below + blocks.get(whole).map_or(0, |block| before(block, offset))
            }
            Layout::Strided { first, count, stride } => {
                let whole = whole_parts(offset.saturating_sub(first.offset), *stride, *count);
                let moved = offset.wrapping_sub(stride.wrapping_mul(whole.cast_signed()));
                let rest = if whole < *count { before(first, moved) } else { 0 };
                whole * first.bytes + rest
            }
            Layout::Loop { offset: first, count, stride, each } => {
                let inner = offset.saturating_sub(*first);
                let Some(start) = each.first_offset() else { return 0 };
                let whole = whole_parts(inner.saturating_sub(start), *stride, *count);
                let moved = inner.wrapping_sub(stride.wrapping_mul(whole.cast_signed()));
                let rest = if whole < *count { each.bytes_before(moved) } else { 0 };
                whole * each.bytes() + rest
            }
            Layout::Sequence(parts) => parts.iter().map(|part| part.bytes_before(offset)).sum(),
        }
    }

    /// The offset of the first byte, if there is one.
    fn first_offset(&self) -> Option<i64> {
        let mut first = None;
        self.walk(0, &mut Cut { skip: 0, left: 1 }, &mut |offset, _| first = Some(offset));
        first
    }
}

/// How many of `count` parts, `stride` apart, end within `distance` from the beginning of the first.
fn whole_parts(distance: i64, stride: i64, count: u64) -> u64 {
    if distance <= 0 || stride <= 0 {
        return 0;
    }
    (distance / stride).cast_unsigned().min(count)
}
