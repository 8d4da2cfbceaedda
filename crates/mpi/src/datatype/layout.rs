//! Layouts: where the bytes of an element are, in the order of packing.
//!
//! A layout is a nest of loops with blocks at the bottom. It knows nothing of basic types: adjacent blocks are one
//! block, whatever they hold, and a vector with a million blocks is one loop.
//!
//! Offsets wrap. Bounds are checked where they are made, so that all bytes of a type have addresses; intermediate sums
//! may leave the range and return.

use std::sync::Arc;

use super::Memory;

/// Contiguous bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Block {
    pub(crate) offset: i64,
    pub(crate) bytes: u64,
}

/// Offsets of bytes. A clone costs at most a reference count.
#[derive(Clone, Debug)]
pub(crate) enum Layout {
    Empty,
    Block(Block),
    /// Two blocks, as in most small structs with a gap.
    Two([Block; 2]),
    /// Blocks of one length at a constant stride.
    Strided {
        first: Block,
        count: u64,
        stride: i64,
    },
    /// A layout repeated at a constant stride.
    Loop {
        offset: i64,
        count: u64,
        stride: i64,
        each: Arc<Layout>,
    },
    /// Irregular blocks.
    Blocks(Arc<[Block]>),
    /// Layouts one after the other.
    Sequence(Arc<[Layout]>),
}

impl Layout {
    /// The layout `count` times, each `stride` after the previous one.
    pub(crate) fn repeated(&self, count: u64, stride: i64) -> Layout {
        self.merged(count, stride).unwrap_or_else(|| Layout::Loop {
            offset: 0,
            count,
            stride,
            each: Arc::new(self.clone()),
        })
    }

    /// Like [`Layout::repeated`], if it needs no new loop.
    fn merged(&self, count: u64, stride: i64) -> Option<Layout> {
        // Modulo 2^64, as all offsets are.
        let goes_on = |inner: u64, step: i64| step.wrapping_mul(inner.cast_signed()) == stride;
        match (self, count) {
            (Layout::Empty, _) | (_, 0) => Some(Layout::Empty),
            (_, 1) => Some(self.clone()),
            (Layout::Block(block), _) if goes_on(block.bytes, 1) => {
                Some(Layout::Block(Block { bytes: block.bytes * count, ..*block }))
            }
            (Layout::Block(first), _) => Some(Layout::Strided { first: *first, count, stride }),
            (Layout::Strided { first, count: inner, stride: step }, _)
                if goes_on(*inner, *step) =>
            {
                Some(Layout::Strided { first: *first, count: inner * count, stride: *step })
            }
            (Layout::Loop { offset, count: inner, stride: step, each }, _)
                if goes_on(*inner, *step) =>
            {
                let (count, each) = (inner * count, Arc::clone(each));
                Some(Layout::Loop { offset: *offset, count, stride: *step, each })
            }
            _ => None,
        }
    }

    /// The layout moved by `by` bytes.
    pub(crate) fn shifted(&self, by: i64) -> Layout {
        let moved =
            |block: &Block| Block { offset: block.offset.wrapping_add(by), bytes: block.bytes };
        match self {
            _ if by == 0 => self.clone(),
            Layout::Empty => Layout::Empty,
            Layout::Block(block) => Layout::Block(moved(block)),
            Layout::Two([first, second]) => Layout::Two([moved(first), moved(second)]),
            Layout::Strided { first, count, stride } => {
                Layout::Strided { first: moved(first), count: *count, stride: *stride }
            }
            Layout::Loop { offset, count, stride, each } => Layout::Loop {
                offset: offset.wrapping_add(by),
                count: *count,
                stride: *stride,
                each: Arc::clone(each),
            },
            Layout::Blocks(_) | Layout::Sequence(_) => {
                Layout::Loop { offset: by, count: 1, stride: 0, each: Arc::new(self.clone()) }
            }
        }
    }

    /// All parts, one after the other.
    pub(crate) fn joined(parts: impl IntoIterator<Item = Layout>) -> Layout {
        let mut joined: Vec<Layout> = Vec::new();
        for part in parts {
            match (joined.last_mut(), part) {
                (_, Layout::Empty) => {}
                (Some(Layout::Block(last)), Layout::Block(next)) if touch(last, &next) => {
                    last.bytes += next.bytes;
                }
                (_, part) => joined.push(part),
            }
        }
        if joined.len() < 2 {
            return joined.pop().unwrap_or(Layout::Empty);
        }
        let blocks = joined.iter().map(|part| match part {
            Layout::Block(block) => Some(*block),
            _ => None,
        });
        match blocks.collect::<Option<Vec<Block>>>() {
            Some(blocks) => of_blocks(&blocks),
            None => Layout::Sequence(joined.into()),
        }
    }

    /// The bytes, if they are contiguous.
    pub(crate) fn block(&self) -> Option<Block> {
        match self {
            Layout::Empty => Some(Block { offset: 0, bytes: 0 }),
            Layout::Block(block) => Some(*block),
            _ => None,
        }
    }

    /// Heap bytes, shared with its clones.
    pub(crate) fn heap_bytes(&self) -> usize {
        match self {
            Layout::Empty | Layout::Block(_) | Layout::Two(_) | Layout::Strided { .. } => 0,
            Layout::Loop { each, .. } => size_of::<Layout>() + each.heap_bytes(),
            Layout::Blocks(blocks) => size_of_val(&**blocks),
            Layout::Sequence(parts) => {
                size_of_val(&**parts) + parts.iter().map(Layout::heap_bytes).sum::<usize>()
            }
        }
    }

    /// Packs `count` elements, each `extent` after the previous one, the first at `base`.
    #[inline]
    pub(crate) fn pack<M: Memory + ?Sized>(
        &self,
        base: i64,
        (count, extent): (u64, i64),
        from: &M,
        into: &mut [u8],
    ) {
        let mut room = into;
        match (self.block(), count) {
            (_, 0) | (Some(Block { bytes: 0, .. }), _) => {}
            (Some(block), _) if block.bytes.cast_signed() == extent || count == 1 => {
                let bytes = take_mut(&mut room, block.bytes * count);
                from.load(base.wrapping_add(block.offset), bytes);
            }
            (_, 1) => self.pack_one(base, from, &mut room),
            _ => match self.merged(count, extent) {
                Some(merged) => merged.pack_one(base, from, &mut room),
                None => {
                    let mut base = base;
                    for _ in 0..count {
                        self.pack_one(base, from, &mut room);
                        base = base.wrapping_add(extent);
                    }
                }
            },
        }
        assert!(room.is_empty(), "there is room for these elements and no more");
    }

    fn pack_one<M: Memory + ?Sized>(&self, base: i64, from: &M, room: &mut &mut [u8]) {
        let load = |block: &Block, room: &mut &mut [u8]| {
            from.load(base.wrapping_add(block.offset), take_mut(room, block.bytes));
        };
        match self {
            Layout::Empty => {}
            Layout::Block(block) => load(block, room),
            Layout::Two(blocks) => blocks.iter().for_each(|block| load(block, room)),
            Layout::Strided { first, count, stride } => {
                let into = take_mut(room, first.bytes * count);
                gather(from, base.wrapping_add(first.offset), first.bytes, *stride, into);
            }
            Layout::Loop { offset, count, stride, each } => {
                let mut base = base.wrapping_add(*offset);
                for _ in 0..*count {
                    each.pack_one(base, from, room);
                    base = base.wrapping_add(*stride);
                }
            }
            Layout::Blocks(blocks) => blocks.iter().for_each(|block| load(block, room)),
            Layout::Sequence(parts) => {
                parts.iter().for_each(|part| part.pack_one(base, from, room));
            }
        }
    }

    /// Unpacks elements until `count` are filled or the bytes are used up.
    #[inline]
    pub(crate) fn unpack<M: Memory + ?Sized>(
        &self,
        base: i64,
        (count, extent): (u64, i64),
        from: &[u8],
        into: &mut M,
    ) {
        if from.is_empty() {
            return;
        }
        let mut bytes = from;
        match (self.block(), count) {
            (Some(block), _) if block.bytes.cast_signed() == extent || count == 1 => {
                let bytes = take(&mut bytes, block.bytes * count);
                into.store(base.wrapping_add(block.offset), bytes);
            }
            (_, 1) => self.unpack_one(base, &mut bytes, into),
            _ => match self.merged(count, extent) {
                Some(merged) => merged.unpack_one(base, &mut bytes, into),
                None => each_while(base, (count, extent), &mut bytes, |base, bytes| {
                    self.unpack_one(base, bytes, into);
                }),
            },
        }
        assert!(bytes.is_empty(), "no more bytes than these elements have");
    }

    fn unpack_one<M: Memory + ?Sized>(&self, base: i64, bytes: &mut &[u8], into: &mut M) {
        let mut store = |block: &Block, bytes: &mut &[u8]| {
            let bytes = take(bytes, block.bytes);
            if !bytes.is_empty() {
                into.store(base.wrapping_add(block.offset), bytes);
            }
        };
        match self {
            Layout::Empty => {}
            Layout::Block(block) => store(block, bytes),
            Layout::Two(blocks) => blocks.iter().for_each(|block| store(block, bytes)),
            Layout::Strided { first, count, stride } => {
                let from = take(bytes, first.bytes * count);
                scatter(from, into, base.wrapping_add(first.offset), first.bytes, *stride);
            }
            Layout::Loop { offset, count, stride, each } => {
                let base = base.wrapping_add(*offset);
                each_while(base, (*count, *stride), bytes, |base, bytes| {
                    each.unpack_one(base, bytes, into);
                });
            }
            Layout::Blocks(blocks) => blocks.iter().for_each(|block| store(block, bytes)),
            Layout::Sequence(parts) => {
                parts.iter().for_each(|part| part.unpack_one(base, bytes, into));
            }
        }
    }
}

/// The most compact form for blocks of which no two are adjacent.
fn of_blocks(blocks: &[Block]) -> Layout {
    let away = |pair: &[Block]| pair[1].offset.wrapping_sub(pair[0].offset);
    let (first, stride) = (blocks[0], away(&blocks[..2]));
    let even = blocks.iter().all(|block| block.bytes == first.bytes);
    if even && blocks.windows(2).all(|pair| away(pair) == stride) {
        return Layout::Strided { first, count: blocks.len() as u64, stride };
    }
    match blocks {
        [first, second] => Layout::Two([*first, *second]),
        _ => Layout::Blocks(blocks.into()),
    }
}

/// Whether `next` begins where `block` ends.
fn touch(block: &Block, next: &Block) -> bool {
    block.offset.wrapping_add(block.bytes.cast_signed()) == next.offset
}

/// Calls `f` for each of `count` bases, `stride` apart, while bytes are left.
#[inline]
fn each_while(
    base: i64,
    (count, stride): (u64, i64),
    bytes: &mut &[u8],
    mut f: impl FnMut(i64, &mut &[u8]),
) {
    let mut base = base;
    for _ in 0..count {
        if bytes.is_empty() {
            break;
        }
        f(base, bytes);
        base = base.wrapping_add(stride);
    }
}

/// The next `bytes` to fill. Too little room is a bug of the caller.
#[inline]
fn take_mut<'a>(room: &mut &'a mut [u8], bytes: u64) -> &'a mut [u8] {
    let bytes = usize::try_from(bytes).expect("what is in memory has a length");
    room.split_off_mut(..bytes).expect("there is room for these elements and no more")
}

/// The next `bytes`, or as many as are left.
#[inline]
fn take<'a>(from: &mut &'a [u8], bytes: u64) -> &'a [u8] {
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX).min(from.len());
    let (taken, rest) = from.split_at(bytes);
    *from = rest;
    taken
}

/// Loads blocks of `bytes` each, `stride` apart. Short blocks of common lengths are single moves.
#[inline]
fn gather<M: Memory + ?Sized>(from: &M, offset: i64, bytes: u64, stride: i64, into: &mut [u8]) {
    match bytes {
        1 => gather_fixed::<M, 1>(from, offset, stride, into),
        2 => gather_fixed::<M, 2>(from, offset, stride, into),
        4 => gather_fixed::<M, 4>(from, offset, stride, into),
        8 => gather_fixed::<M, 8>(from, offset, stride, into),
        16 => gather_fixed::<M, 16>(from, offset, stride, into),
        _ => {
            let bytes = usize::try_from(bytes).expect("what is in memory has a length");
            let mut offset = offset;
            for block in into.chunks_exact_mut(bytes) {
                from.load(offset, block);
                offset = offset.wrapping_add(stride);
            }
        }
    }
}

fn gather_fixed<M: Memory + ?Sized, const N: usize>(
    from: &M,
    offset: i64,
    stride: i64,
    into: &mut [u8],
) {
    let mut offset = offset;
    for block in into.as_chunks_mut::<N>().0 {
        from.load(offset, block);
        offset = offset.wrapping_add(stride);
    }
}

/// Stores blocks of `bytes` each, `stride` apart; the last may be cut short.
#[inline]
fn scatter<M: Memory + ?Sized>(from: &[u8], into: &mut M, offset: i64, bytes: u64, stride: i64) {
    match bytes {
        1 => scatter_fixed::<M, 1>(from, into, offset, stride),
        2 => scatter_fixed::<M, 2>(from, into, offset, stride),
        4 => scatter_fixed::<M, 4>(from, into, offset, stride),
        8 => scatter_fixed::<M, 8>(from, into, offset, stride),
        16 => scatter_fixed::<M, 16>(from, into, offset, stride),
        _ => {
            let bytes = usize::try_from(bytes).expect("what is in memory has a length");
            let mut offset = offset;
            for block in from.chunks(bytes) {
                into.store(offset, block);
                offset = offset.wrapping_add(stride);
            }
        }
    }
}

fn scatter_fixed<M: Memory + ?Sized, const N: usize>(
    from: &[u8],
    into: &mut M,
    offset: i64,
    stride: i64,
) {
    let (blocks, rest) = from.as_chunks::<N>();
    let mut offset = offset;
    for block in blocks {
        into.store(offset, block);
        offset = offset.wrapping_add(stride);
    }
    if !rest.is_empty() {
        into.store(offset, rest);
    }
}
