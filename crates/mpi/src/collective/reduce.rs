//! Reduction: the combined contributions of all ranks, at the root.

use ferrywire_nic::{Schedule, Span, Step};

use super::gather::gather_blocks;
use super::reduce_scatter::{pairwise, pairwise_work_bytes};
use super::{LINEAR_RANKS_MAX, Member, ReduceOp, pieces, rest, start, tree};

/// Reduction to `root`. `bytes` holds our contribution, and at the root the result. `work` has room for
/// [`reduce_work_bytes`].
///
/// Our bytes are first copied to `work`; then the call may return, and late contributions are combined as they arrive,
/// without the caller. Only the root's caller waits, since it needs the result.
pub fn reduce(me: Member, root: u32, reduce_op: ReduceOp, bytes: Span, work: Span) -> Schedule {
    match choose(me.size(), root, reduce_op, bytes.len) {
        ReduceAlgorithm::Tree { top } => climb(me, top, root, reduce_op, bytes, work),
        ReduceAlgorithm::Pieces => reduce_pieces(me, root, reduce_op, bytes, work),
    }
}

/// Work space of [`reduce`], for `len` bytes.
pub fn reduce_work_bytes(me: Member, root: u32, reduce_op: ReduceOp, len: u64) -> u64 {
    match choose(me.size(), root, reduce_op, len) {
        ReduceAlgorithm::Tree { top } => {
            let (relative, _) = me.relative_to(top);
            len * (1 + tree::children(relative, me.size()).count() as u64)
        }
        ReduceAlgorithm::Pieces => reduce_pieces_work_bytes(me, reduce_op, len),
    }
}

enum ReduceAlgorithm {
    Tree { top: u32 },
    Pieces,
}

/// Up a tree, everything travels as often as the tree is high, and its top combines as often. Pieces travel twice, are
/// combined by all ranks, and need as many rounds as there are ranks: each must be worth its round. A tree combines in
/// rank order if its top is rank 0.
fn choose(size: u32, root: u32, reduce_op: ReduceOp, len: u64) -> ReduceAlgorithm {
    let worth_it = len >= PIECES_BYTES_MIN && len / u64::from(size) >= PIECE_BYTES_MIN;
    match worth_it && (PIECES_RANKS_MIN..=LINEAR_RANKS_MAX).contains(&size) {
        true => ReduceAlgorithm::Pieces,
        false => ReduceAlgorithm::Tree { top: if reduce_op.commutative { root } else { 0 } },
    }
}

/// The shortest message that is cut into pieces. A guess until it is measured.
const PIECES_BYTES_MIN: u64 = 128 << 10;
/// The shortest piece worth a round. A guess until it is measured.
const PIECE_BYTES_MIN: u64 = 4 << 10;
/// The fewest ranks whose tree is higher than two. A guess until it is measured.
const PIECES_RANKS_MIN: u32 = 5;

/// Binomial reduction: up the tree to `top`, and from there to `root` if that is another rank. `work` has room for our
/// running result and for one contribution of each child.
fn climb(
    me: Member,
    top: u32,
    root: u32,
    reduce_op: ReduceOp,
    bytes: Span,
    work: Span,
) -> Schedule {
    let mut schedule = me.schedule();
    let (relative, rank_of) = me.relative_to(top);
    let len = bytes.len;
    let mut result = work.part(0, len);
    let own = schedule.push(Step::Copy { source: bytes, into: result }, &[]);
    if me.rank != root {
        schedule.push(Step::Release, &[own]);
    }
    let mut combined = own;
    for (child, nth) in tree::children(relative, me.size()).zip(1..) {
        let part = work.part(nth * len, len);
        let arrived = schedule.push(me.receive(rank_of(child), part), &[]);
        // The child and the ranks below it follow ours, so our result is combined into theirs.
        combined = schedule.push(reduce_op.step(result, part), &[combined, arrived]);
        result = part;
    }
    if relative != 0 {
        let parent = rank_of(tree::parent(relative));
        schedule.push(me.send(parent, result), &[combined]);
    } else if root == top {
        schedule.push(Step::Copy { source: result, into: bytes }, &[combined]);
    } else {
        schedule.push(me.send(root, result), &[combined]);
    }
    if me.rank == root && root != top {
        schedule.push(me.receive(top, bytes), &[own]);
    }
    schedule
}

/// Reduce-scatter and gather: each rank combines its piece of all contributions, in rank order, and sends it to the
/// root. `work` has room for [`reduce_pieces_work_bytes`].
pub fn reduce_pieces(
    me: Member,
    root: u32,
    reduce_op: ReduceOp,
    bytes: Span,
    work: Span,
) -> Schedule {
    let mut schedule = me.schedule();
    let (ours, work) = (work.part(0, bytes.len), rest(work, bytes.len));
    let piece = |all, rank| pieces(all, reduce_op.element_bytes, me.size(), rank, 1);
    let own = schedule.push(Step::Copy { source: bytes, into: ours }, &[]);
    if me.rank != root {
        schedule.push(Step::Release, &[own]);
    }
    let mine = piece(ours, me.rank);
    let combine = pairwise(me, reduce_op, |rank| piece(ours, rank), mine, work);
    let combined = schedule.push(start(combine), &[own]);
    let gather = gather_blocks(me, root, mine, |rank| piece(bytes, rank));
    schedule.push(start(gather), &[combined]);
    schedule
}

/// Work space of [`reduce_pieces`], for `len` bytes.
pub fn reduce_pieces_work_bytes(me: Member, reduce_op: ReduceOp, len: u64) -> u64 {
    let whole = Span { len, ..Span::EMPTY };
    let longest = pieces(whole, reduce_op.element_bytes, me.size(), 0, 1);
    len + pairwise_work_bytes(longest.len)
}
