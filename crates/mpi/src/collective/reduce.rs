//! Reduction: everybody's bytes combined, at the root.

use ferrywire_nic::{Operator, Schedule, Span, Step};

use super::{Member, tree};

/// Binomial reduction to `root`. `bytes` holds our contribution, and at the root the result.
/// The operator must be commutative, unless the root is rank 0.
///
/// `work` has room for our running result and for one contribution of each child. Our bytes are
/// copied there first; then the caller is released and may go on, and late children are combined
/// as they arrive, without it. Only the root's caller has to wait, since it wants the result.
pub fn reduce(me: Member, root: u32, operator: Operator, bytes: Span, work: Span) -> Schedule {
    climb(me, root, root, operator, bytes, work)
}

/// How much room [`reduce`] needs to work in, for `len` bytes.
pub fn reduce_work_bytes(me: Member, root: u32, len: u64) -> u64 {
    let (relative, _) = me.relative_to(root);
    len * (1 + tree::children(relative, me.size()).count() as u64)
}

/// Like [`reduce`], in rank order whatever the root: the tree ends at rank 0, which passes the
/// result on.
pub fn reduce_in_order(
    me: Member,
    root: u32,
    operator: Operator,
    bytes: Span,
    work: Span,
) -> Schedule {
    climb(me, 0, root, operator, bytes, work)
}

/// How much room [`reduce_in_order`] needs to work in, for `len` bytes.
pub fn reduce_in_order_work_bytes(me: Member, len: u64) -> u64 {
    reduce_work_bytes(me, 0, len)
}

/// Up the tree to `top`, and from there to `root` if that is another.
fn climb(me: Member, top: u32, root: u32, operator: Operator, bytes: Span, work: Span) -> Schedule {
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
        // The child and those below it come after us, so we are combined into them.
        let step = Step::Reduce { operator, source: result, into: part };
        combined = schedule.push(step, &[combined, arrived]);
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
