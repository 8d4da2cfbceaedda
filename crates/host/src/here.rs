//! The numbers of ranks as peers: first those that the job began with, host after host, then room on each host for
//! those that are spawned there.

use std::sync::Arc;

use ferrywire_nic::{MatchWord, Peer};

use crate::net::Net;
use crate::shm::Segment;
use crate::shm::segment::SPAWNED_MAX;

/// The ranks on this host. Within the host they have local ranks, those of the beginning before those that were spawned.
#[derive(Clone, Copy, Debug)]
pub struct Here {
    first: u32,
    ranks: u32,
    spawned_first: u32,
}

impl Here {
    /// The numbers on the host with the number `host`, which began with `ranks` ranks from `first` on, in a job that
    /// began with `size`.
    pub fn new(first: u32, ranks: u32, size: u32, host: u32) -> Here {
        Here { first, ranks, spawned_first: spawned_first(size, host) }
    }

    pub(crate) fn of(net: Option<&Arc<Net>>, segment: &Segment) -> Here {
        match net {
            // Those that are spawned come directly after the others.
            None => Here { first: 0, ranks: segment.ranks_max(), spawned_first: u32::MAX },
            Some(net) => Here::new(net.first, segment.ranks(), net.directory.size(), net.host),
        }
    }

    /// The local rank of a rank, if it is on this host.
    #[inline(always)]
    pub fn local_rank(&self, peer: Peer) -> Option<Peer> {
        let local_rank = peer.0.wrapping_sub(self.first);
        if local_rank < self.ranks {
            return Some(Peer(local_rank));
        }
        self.local_rank_of_spawned(peer)
    }

    #[cold]
    fn local_rank_of_spawned(&self, peer: Peer) -> Option<Peer> {
        let spawned = peer.0.wrapping_sub(self.spawned_first);
        (spawned < SPAWNED_MAX).then(|| Peer(self.ranks + spawned))
    }

    /// The rank with this local rank.
    #[inline(always)]
    pub fn rank(&self, local_rank: Peer) -> Peer {
        match local_rank.0 < self.ranks {
            true => Peer(self.first + local_rank.0),
            false => self.rank_of_spawned(local_rank),
        }
    }

    #[cold]
    fn rank_of_spawned(&self, local_rank: Peer) -> Peer {
        Peer(self.spawned_first + local_rank.0 - self.ranks)
    }
}

/// The number of the first rank that is spawned on a host, in a job that began with `size` ranks.
pub(crate) fn spawned_first(size: u32, host: u32) -> u32 {
    size.saturating_add(host.saturating_mul(SPAWNED_MAX)).min(PEERS_MAX)
}

/// The host on which the rank with this number was or will be spawned, and which of its spawned ranks it is.
pub(crate) fn spawned_place(size: u32, peer: u32) -> Option<(u32, u32)> {
    let spawned = peer.checked_sub(size)?;
    Some((spawned / SPAWNED_MAX, spawned % SPAWNED_MAX))
}

/// How many numbers there are: a match word has room for so many.
pub(crate) const PEERS_MAX: u32 = MatchWord::SOURCE_MAX + 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_local_ranks_are_the_inverse_of_each_other() {
        // The second of three hosts, with ranks 2 and 3 of 7.
        let here = Here::new(2, 2, 7, 1);
        let spawned = 7 + SPAWNED_MAX;
        for (local_rank, rank) in [(0, 2), (1, 3), (2, spawned), (5, spawned + 3)] {
            assert_eq!(here.rank(Peer(local_rank)), Peer(rank));
            assert_eq!(here.local_rank(Peer(rank)), Some(Peer(local_rank)));
            let place = spawned_place(7, rank);
            assert_eq!(place, rank.checked_sub(spawned).map(|index| (1, index)), "{rank}");
        }
        for other in [0, 1, 4, 6, 7, spawned - 1, spawned + SPAWNED_MAX, u32::MAX] {
            assert_eq!(here.local_rank(Peer(other)), None, "{other}");
        }
    }
}
