//! Broadcast: the root's bytes to all ranks.

use ferrywire_nic::{Schedule, Span, StepId};

use super::allgather::ring;
use super::{FLAT_RANKS_MAX, LINEAR_RANKS_MAX, Locality, Member, pieces, tree};

/// Broadcast of the root's bytes: whole, down a tree, or in pieces if they are many.
pub fn broadcast(me: Member, root: u32, bytes: Span) -> Schedule {
    match choose(me, bytes.len) {
        BroadcastAlgorithm::Tree => broadcast_tree(me, root, bytes),
        BroadcastAlgorithm::Flat => broadcast_flat(me, root, bytes),
        BroadcastAlgorithm::Pieces => broadcast_pieces(me, root, bytes),
    }
}

enum BroadcastAlgorithm {
    Tree,
    Flat,
    Pieces,
}

/// A tree reaches all ranks soonest, but its root sends everything many times. Pieces send everything twice, and need
/// as many rounds as there are ranks: each must be worth its round. On one host nothing is sent: each rank reads from
/// the root, and waits for no other rank.
fn choose(me: Member, len: u64) -> BroadcastAlgorithm {
    let size = me.size();
    if me.locality != Locality::Unknown && len >= FLAT_BYTES_MIN && size <= FLAT_RANKS_MAX {
        return BroadcastAlgorithm::Flat;
    }
    let worth_it = len >= PIECES_BYTES_MIN && len / u64::from(size) >= PIECE_BYTES_MIN;
    match worth_it && size > 2 && size <= LINEAR_RANKS_MAX {
        true => BroadcastAlgorithm::Pieces,
        false => BroadcastAlgorithm::Tree,
    }
}

/// The shortest message that all ranks read at the root: shorter ones are sent eagerly.
const FLAT_BYTES_MIN: u64 = 16 << 10;
/// The shortest message that is cut into pieces. A guess until it is measured.
const PIECES_BYTES_MIN: u64 = 128 << 10;
/// The shortest piece worth a round. A guess until it is measured.
const PIECE_BYTES_MIN: u64 = 4 << 10;

/// Binomial broadcast: each rank that has the bytes passes them on, to the farthest child first.
pub fn broadcast_tree(me: Member, root: u32, bytes: Span) -> Schedule {
    let mut schedule = me.schedule();
    let (relative, rank_of) = me.relative_to(root);
    let mut have: Option<StepId> = None;
    if relative > 0 {
        let parent = rank_of(tree::parent(relative));
        have = Some(schedule.push(me.receive(parent, bytes), &[]));
    }
    for child in tree::children_far_first(relative, me.size()) {
        schedule.push(me.send(rank_of(child), bytes), have.as_slice());
    }
    schedule
}

/// Flat broadcast: all ranks receive from the root.
pub fn broadcast_flat(me: Member, root: u32, bytes: Span) -> Schedule {
    let mut schedule = me.schedule();
    if me.rank != root {
        schedule.push(me.receive(root, bytes), &[]);
        return schedule;
    }
    for rank in (0..me.size()).filter(|&rank| rank != root) {
        schedule.push(me.send(rank, bytes), &[]);
    }
    schedule
}

/// Scatter and allgather: down the tree each rank receives one piece for itself and one for each rank below it; then
/// the pieces go round the ring until all ranks have all of them.
pub fn broadcast_pieces(me: Member, root: u32, bytes: Span) -> Schedule {
    let mut schedule = me.schedule();
    let (relative, rank_of) = me.relative_to(root);
    let size = me.size();
    let pieces = |first: u32, count: u32| pieces(bytes, 1, size, first, count);
    let mut have: Option<StepId> = None;
    if relative > 0 {
        let ours = pieces(relative, tree::subtree(relative, size));
        have = Some(schedule.push(me.receive(rank_of(tree::parent(relative)), ours), &[]));
    }
    // The ring brings the pieces of ranks below us once more. They may land once ours are sent.
    let mut ready: Vec<StepId> = have.into_iter().collect();
    for child in tree::children_far_first(relative, size) {
        let theirs = pieces(child, tree::subtree(child, size));
        ready.push(schedule.push(me.send(rank_of(child), theirs), have.as_slice()));
    }
    ring(me, &mut schedule, &ready, relative, rank_of, |place| pieces(place, 1));
    schedule
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collective::Naming;
    use crate::group::Group;

    #[test]
    fn a_broadcast_sends_to_the_children_of_the_reduction() {
        for size in 1..=64 {
            let group = Group::whole(size);
            for rank in 0..size {
                let me = Member {
                    group_id: 0,
                    group: &group,
                    rank,
                    locality: Locality::Unknown,
                    naming: Naming::Ranks,
                };
                let sends = broadcast(me, 0, Span::EMPTY).len() - usize::from(rank > 0);
                assert_eq!(sends, tree::children(rank, size).count(), "rank {rank} of {size}");
            }
        }
    }
}
