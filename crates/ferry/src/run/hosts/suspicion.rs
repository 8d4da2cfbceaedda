//! Ranks that have not been heard for too long: who of them is to die, and who of those that say so.
//!
//! Where a host is cut off, its ranks miss all others as all others miss them, and who is asked first is not who is right.
//! So word is collected for a moment. Then the host that most others miss, or that misses most others, is given up,
//! until nobody is left who misses another: most ranks go on.

use std::time::{Duration, Instant};

/// Who misses whom.
#[derive(Default)]
pub(super) struct Suspicions {
    said: Vec<Suspicion>,
    judge_at: Option<Instant>,
    /// Hosts that have been given up. What they say, and what is said of them, is not believed any more.
    given_up: Vec<usize>,
}

/// On the host `by`, a rank of the host `of` is missed. Hosts are counted as the hosts does.
#[derive(Clone, Copy)]
struct Suspicion {
    by: usize,
    of: usize,
    rank: u32,
}

/// Who is to die.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Condemned {
    /// One rank, whose neighbours have missed nobody.
    Rank(u32),
    /// All ranks of a host.
    Host(usize),
}

impl Suspicions {
    pub(super) fn note(&mut self, by: usize, of: usize, rank: u32, now: Instant) {
        if !self.given_up.contains(&by) && !self.given_up.contains(&of) {
            self.said.push(Suspicion { by, of, rank });
            self.judge_at.get_or_insert(now + COLLECTING);
        }
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.judge_at
    }

    /// Who is to die, when it is time. `ranks` says how many each host has.
    pub(super) fn judge(&mut self, now: Instant, ranks: &[usize]) -> Vec<Condemned> {
        let mut condemned = Vec::new();
        if self.judge_at.is_none_or(|at| now < at) {
            return condemned;
        }
        self.judge_at = None;
        let mut said = std::mem::take(&mut self.said);
        while let Some(worst) = worst(&said, ranks) {
            if said.iter().any(|one| one.by == worst) {
                // Its ranks go on without others, who go on without them.
                self.given_up.push(worst);
                condemned.push(Condemned::Host(worst));
            } else {
                let mut missed: Vec<u32> =
                    said.iter().filter(|one| one.of == worst).map(|one| one.rank).collect();
                missed.sort_unstable();
                missed.dedup();
                condemned.extend(missed.into_iter().map(Condemned::Rank));
            }
            said.retain(|one| one.by != worst && one.of != worst);
        }
        condemned
    }
}

/// The host that is on bad terms with the most others. Of two with as many it is who says nothing of others, then who has
/// fewer ranks, then the later one.
fn worst(said: &[Suspicion], ranks: &[usize]) -> Option<usize> {
    let involved = |host: usize| said.iter().any(|one| one.by == host || one.of == host);
    let others = |host: usize| {
        let between = |other: usize| {
            said.iter()
                .any(|one| (one.by, one.of) == (host, other) || (one.of, one.by) == (host, other))
        };
        (0..ranks.len()).filter(|&other| between(other)).count()
    };
    let silent = |host: usize| !said.iter().any(|one| one.by == host);
    let weight = |&host: &usize| (others(host), silent(host), std::cmp::Reverse(ranks[host]), host);
    (0..ranks.len()).filter(|&host| involved(host)).max_by_key(weight)
}

/// How long word is collected: both sides of a cut notice at nearly the same moment.
const COLLECTING: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(said: &[(usize, usize, u32)], ranks: &[usize]) -> Vec<Condemned> {
        let now = Instant::now();
        let mut suspicions = Suspicions::default();
        for &(by, of, rank) in said {
            suspicions.note(by, of, rank, now);
        }
        assert!(suspicions.judge(now, ranks).is_empty(), "not before it is time");
        suspicions.judge(now + COLLECTING, ranks)
    }

    #[test]
    fn a_host_that_is_cut_off_dies_and_not_those_that_it_misses() {
        let said = [(1, 0, 1), (1, 2, 4), (0, 1, 2), (3, 1, 2), (3, 1, 3)];
        assert_eq!(judged(&said, &[2; 4]), [Condemned::Host(1)]);
        // Even if it alone has something to send.
        assert_eq!(judged(&[(1, 0, 1), (1, 2, 4)], &[2; 4]), [Condemned::Host(1)]);
    }

    #[test]
    fn a_rank_that_is_stopped_dies_alone() {
        assert_eq!(judged(&[(0, 1, 3)], &[2, 2]), [Condemned::Rank(3)]);
        assert_eq!(judged(&[(0, 1, 3), (2, 1, 3)], &[2; 3]), [Condemned::Rank(3)]);
    }

    #[test]
    fn of_two_hosts_that_miss_each_other_the_larger_goes_on() {
        let both = [(0, 1, 3), (1, 0, 0)];
        assert_eq!(judged(&both, &[3, 1]), [Condemned::Host(1)]);
        assert_eq!(judged(&both, &[1, 3]), [Condemned::Host(0)]);
        assert_eq!(judged(&both, &[2, 2]), [Condemned::Host(1)]);
    }

    #[test]
    fn who_is_given_up_is_not_believed_later() {
        let now = Instant::now();
        let mut suspicions = Suspicions::default();
        suspicions.note(0, 1, 1, now);
        suspicions.note(1, 0, 0, now);
        assert_eq!(suspicions.judge(now + COLLECTING, &[1, 1]), [Condemned::Host(1)]);
        suspicions.note(1, 0, 0, now + COLLECTING);
        assert_eq!(suspicions.deadline(), None);
    }
}
