//! Groups: the map from ranks to processes.
//!
//! Most groups are the whole job, a run of it, or every n-th process, so the map from rank to peer is two numbers
//! wherever possible. Only irregular groups have a table, and clones share it.

use std::sync::Arc;

use ferrywire_nic::Peer;

/// An ordered set of processes. A clone costs at most a reference count.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Group {
    size: u32,
    map: RankMap,
}

/// The map from ranks to peers.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum RankMap {
    /// Rank r is peer `first + r * stride`. The whole job is 0 and 1; backwards is negative.
    Strided {
        /// The peer of rank 0.
        first: u32,
        /// Distance from one rank's peer to the next one's.
        stride: i32,
    },
    /// An irregular map.
    Table(Arc<Table>),
}

/// An irregular map, searchable in both directions.
#[derive(Debug, Eq, PartialEq)]
pub struct Table {
    peers: Box<[u32]>,
    /// All ranks, in the order of their peers.
    by_peer: Box<[u32]>,
}

impl Group {
    /// All processes of a job of `size`: ranks and peers are numbered alike.
    pub fn whole(size: u32) -> Group {
        Group { size, map: RankMap::Strided { first: 0, stride: 1 } }
    }

    /// The group of these processes, in this order. A process named twice is a bug of the caller. Needs a table only if
    /// no stride leads from each to the next.
    pub fn of(members: &[Peer]) -> Group {
        let size = u32::try_from(members.len()).expect("ranks are counted in 32 bits");
        let map = match stride_of(members) {
            Some((first, stride)) => RankMap::Strided { first, stride },
            None => RankMap::Table(Arc::new(Table::new(members))),
        };
        Group { size, map }
    }

    /// The members with these ranks, in the order given.
    #[must_use]
    pub fn select(&self, ranks: &[u32]) -> Group {
        let members: Vec<Peer> = ranks.iter().map(|&rank| self.peer_of(rank)).collect();
        Group::of(&members)
    }

    /// The members without these ranks, in the order of this group.
    #[must_use]
    pub fn without(&self, ranks: &[u32]) -> Group {
        let mut out = vec![false; self.size as usize];
        ranks.iter().for_each(|&rank| out[rank as usize] = true);
        let rest: Vec<u32> = (0..self.size).filter(|&rank| !out[rank as usize]).collect();
        self.select(&rest)
    }

    /// All members of this group, then those of `other` that are not in it.
    #[must_use]
    pub fn union(&self, other: &Group) -> Group {
        let others = other.members().filter(|&peer| self.rank_of(peer).is_none());
        Group::of(&self.members().chain(others).collect::<Vec<_>>())
    }

    /// The members of this group that are also in `other`, in the order of this group.
    #[must_use]
    pub fn intersection(&self, other: &Group) -> Group {
        let both = self.members().filter(|&peer| other.rank_of(peer).is_some());
        Group::of(&both.collect::<Vec<_>>())
    }

    /// The members of this group that are not in `other`, in the order of this group.
    #[must_use]
    pub fn difference(&self, other: &Group) -> Group {
        let only = self.members().filter(|&peer| other.rank_of(peer).is_none());
        Group::of(&only.collect::<Vec<_>>())
    }

    /// Whether both have the same members, in any order.
    pub fn has_same_members(&self, other: &Group) -> bool {
        self.size == other.size && self.members().all(|peer| other.rank_of(peer).is_some())
    }

    /// Number of members.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// The form of the map.
    pub fn map(&self) -> &RankMap {
        &self.map
    }

    /// The process of a rank, in constant time. A rank out of range is a bug of the caller.
    #[inline(always)]
    pub fn peer_of(&self, rank: u32) -> Peer {
        assert!(rank < self.size, "a rank of the group");
        match &self.map {
            // Modulo 2^32, as a stride may be negative: all members are peers.
            RankMap::Strided { first, stride } => {
                Peer(first.wrapping_add(rank.wrapping_mul(stride.cast_unsigned())))
            }
            RankMap::Table(table) => Peer(table.peers[rank as usize]),
        }
    }

    /// The rank of a process, if it is a member. Takes constant time with a stride; with a table, logarithmic in the
    /// size.
    pub fn rank_of(&self, peer: Peer) -> Option<u32> {
        match &self.map {
            RankMap::Strided { first, stride } => {
                let (away, stride) = (i64::from(peer.0) - i64::from(*first), i64::from(*stride));
                let rank = u32::try_from(away / stride).ok()?;
                (away % stride == 0 && rank < self.size).then_some(rank)
            }
            RankMap::Table(table) => table.rank_of(peer),
        }
    }

    /// Compares two groups.
    pub fn compare(&self, other: &Group) -> Likeness {
        let similar = || self.members().all(|peer| other.rank_of(peer).is_some());
        match self == other {
            true => Likeness::Same,
            false if self.size == other.size && similar() => Likeness::Similar,
            false => Likeness::Different,
        }
    }

    /// The members, in the order of their ranks.
    pub fn members(&self) -> impl Iterator<Item = Peer> + '_ {
        (0..self.size).map(|rank| self.peer_of(rank))
    }

    /// Heap bytes, shared with its clones.
    pub fn heap_bytes(&self) -> usize {
        match &self.map {
            RankMap::Strided { .. } => 0,
            RankMap::Table(table) => size_of::<Table>() + 2 * size_of_val(&*table.peers),
        }
    }
}

impl Table {
    fn new(members: &[Peer]) -> Table {
        let peers: Box<[u32]> = members.iter().map(|peer| peer.0).collect();
        let mut by_peer: Vec<u32> = (0..).take(peers.len()).collect();
        by_peer.sort_unstable_by_key(|&rank| peers[rank as usize]);
        let twice =
            by_peer.windows(2).any(|pair| peers[pair[0] as usize] == peers[pair[1] as usize]);
        assert!(!twice, "a process is a member once");
        Table { peers, by_peer: by_peer.into() }
    }

    fn rank_of(&self, peer: Peer) -> Option<u32> {
        let at = self.by_peer.binary_search_by_key(&peer.0, |&rank| self.peers[rank as usize]);
        at.ok().map(|at| self.by_peer[at])
    }
}

/// The result of comparing two groups.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Likeness {
    /// The same members in the same order.
    Same,
    /// The same members in another order.
    Similar,
    /// Different members.
    Different,
}

/// Every `stride`-th rank from `first`, not beyond `last`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Range {
    /// The first rank.
    pub first: i32,
    /// The upper limit of the last rank, or the lower one if the stride is negative.
    pub last: i32,
    /// Distance from one rank to the next.
    pub stride: i32,
}

impl Range {
    /// The ranks, which need not exist. None if the stride is zero or leads away from `last`.
    pub fn ranks(self) -> Option<impl Iterator<Item = i32>> {
        let [first, last, stride] = [self.first, self.last, self.stride].map(i64::from);
        let steps = (last - first).checked_div(stride)?;
        let toward = last == first || (last > first) == (stride > 0);
        let rank = move |step| i32::try_from(first + step * stride).expect("between two ints");
        toward.then(|| (0..=steps).map(rank))
    }
}

/// Color and key of one member in a split.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Want {
    /// Members with the same color form a group; a member without one is in no group.
    pub color: Option<u32>,
    /// Orders the members of the new group.
    pub key: i32,
}

/// The members of the group that `me` is in after a split, by their ranks before it. `wants` has the colors and keys of
/// all members, in rank order. None if `me` has no color.
///
/// MPI 5.0 §7.4.2: by key, and by rank before the split where keys are equal.
pub fn split(wants: &[Want], me: u32) -> Option<Vec<u32>> {
    Some(of_color(wants, wants[me as usize].color?))
}

/// The members with color `color`, in their order after the split.
pub fn of_color(wants: &[Want], color: u32) -> Vec<u32> {
    let mut ranks: Vec<u32> = (0..)
        .zip(wants)
        .filter(|(_, want)| want.color == Some(color))
        .map(|(rank, _)| rank)
        .collect();
    // A stable sort: equal keys stay in the order of their ranks.
    ranks.sort_by_key(|&rank| wants[rank as usize].key);
    ranks
}

/// First peer and stride, if one stride leads from each member to the next.
fn stride_of(members: &[Peer]) -> Option<(u32, i32)> {
    let (first, second) = match members {
        [] => return Some((0, 1)),
        [only] => return Some((only.0, 1)),
        [first, second, ..] => (first.0, second.0),
    };
    let stride = i64::from(second) - i64::from(first);
    let even = members.windows(2).all(|pair| i64::from(pair[1].0) - i64::from(pair[0].0) == stride);
    let stride = i32::try_from(stride).ok().filter(|&stride| stride != 0)?;
    even.then_some((first, stride))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(peers: &[u32]) -> Group {
        Group::of(&peers.iter().copied().map(Peer).collect::<Vec<_>>())
    }

    #[test]
    fn a_group_with_a_stride_has_no_table() {
        for (peers, first, stride) in [
            (&[][..], 0, 1),
            (&[7], 7, 1),
            (&[0, 1, 2, 3], 0, 1),
            (&[5, 6, 7], 5, 1),
            (&[3, 7, 11, 15], 3, 4),
            (&[3, 2, 1, 0], 3, -1),
            (&[9, 4], 9, -5),
        ] {
            let group = of(peers);
            assert_eq!(*group.map(), RankMap::Strided { first, stride }, "{peers:?}");
            assert_eq!(group.heap_bytes(), 0);
        }
        assert_eq!(of(&[0, 1, 2]), Group::whole(3));
        assert!(of(&[0, 1, 3]).heap_bytes() > 0);
    }

    #[test]
    fn ranks_and_peers_lead_to_each_other() {
        let far = [0, u32::MAX, 5];
        for peers in [&[0, 1, 2][..], &[4, 8, 12], &[6, 4, 2, 0], &[3, 1, 2, 9], &[42], &[], &far] {
            let group = of(peers);
            assert_eq!(group.size() as usize, peers.len());
            assert!(group.members().map(|peer| peer.0).eq(peers.iter().copied()));
            for peer in (0..50).chain([u32::MAX]) {
                let rank = (0..).zip(peers).find(|(_, member)| **member == peer).map(|(r, _)| r);
                assert_eq!(group.rank_of(Peer(peer)), rank, "{peer} in {peers:?}");
            }
        }
    }

    #[test]
    fn what_is_selected_from_a_table_may_need_none() {
        let odd = of(&[3, 1, 2, 9, 5]);
        assert_eq!(odd.select(&[1, 0, 4]), of(&[1, 3, 5]));
        assert_eq!(odd.select(&[1, 0, 4]).heap_bytes(), 0);
        assert_eq!(Group::whole(64).select(&[8, 16, 24]).heap_bytes(), 0);
    }

    #[test]
    fn sets_keep_the_order_of_the_first() {
        let (one, other) = (of(&[4, 0, 7, 2]), of(&[9, 2, 1, 4]));
        assert_eq!(one.union(&other), of(&[4, 0, 7, 2, 9, 1]));
        assert_eq!(one.intersection(&other), of(&[4, 2]));
        assert_eq!(one.difference(&other), of(&[0, 7]));
        assert_eq!(one.difference(&one), of(&[]));
        // A group is equal to another if it has the same members in the same order.
        assert_eq!(Group::whole(9).difference(&Group::whole(5)), of(&[5, 6, 7, 8]));
    }

    #[test]
    fn groups_are_alike_by_order_or_by_members() {
        let group = of(&[4, 0, 7]);
        assert_eq!(group.compare(&of(&[4, 0, 7])), Likeness::Same);
        assert_eq!(group.compare(&of(&[0, 4, 7])), Likeness::Similar);
        assert_eq!(group.compare(&of(&[0, 4, 8])), Likeness::Different);
        assert_eq!(group.compare(&of(&[4, 0])), Likeness::Different);
        assert_eq!(group.without(&[1]), of(&[4, 7]));
        assert_eq!(group.without(&[2, 0, 1]), of(&[]));
    }

    #[test]
    fn a_range_stops_at_its_last() {
        let ranks = |first, last, stride| {
            Range { first, last, stride }.ranks().map(Iterator::collect::<Vec<_>>)
        };
        assert_eq!(ranks(1, 8, 3), Some(vec![1, 4, 7]));
        assert_eq!(ranks(5, 0, -2), Some(vec![5, 3, 1]));
        assert_eq!(ranks(2, 2, -9), Some(vec![2]));
        assert_eq!(ranks(i32::MIN, i32::MAX, i32::MAX).map(|ranks| ranks.len()), Some(3));
        assert_eq!(ranks(0, 3, 0), None);
        assert_eq!(ranks(3, 0, 1), None);
        assert_eq!(ranks(0, 3, -1), None);
    }

    #[test]
    #[should_panic(expected = "once")]
    fn nobody_is_a_member_twice() {
        of(&[1, 2, 1]);
    }

    #[test]
    fn a_split_is_by_color_then_key_then_rank() {
        let want = |color, key| Want { color, key };
        let wants = [
            want(Some(1), 5),
            want(Some(2), 0),
            want(Some(1), -3),
            want(None, 0),
            want(Some(1), 5),
            want(Some(2), 0),
        ];
        assert_eq!(split(&wants, 0), Some(vec![2, 0, 4]));
        assert_eq!(split(&wants, 4), Some(vec![2, 0, 4]));
        assert_eq!(split(&wants, 5), Some(vec![1, 5]));
        assert_eq!(split(&wants, 3), None);
    }
}
