//! Decides which ranks to give up when ranks report that others are silent.
//!
//! When a host is cut off, its ranks miss all others as all others miss them, and the first report is not more credible
//! than the next. So reports are collected for a moment. Then the host with the most broken connections is given up,
//! again and again until no report is left: most ranks survive.

use std::time::{Duration, Instant};

/// Reports of silent ranks.
#[derive(Default)]
pub(super) struct Suspicions {
    said: Vec<Suspicion>,
    judge_at: Option<Instant>,
    /// Hosts that have been given up. Reports by them and about them are ignored.
    given_up: Vec<usize>,
}

/// On the host `by`, a rank of the host `of` is missed. Hosts are numbered as in `Hosts`.
#[derive(Clone, Copy)]
struct Suspicion {
    by: usize,
    of: usize,
    rank: u32,
}

/// What is given up.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Condemned {
    /// One rank, whose host has reported no other.
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

    /// What to give up, if the time has come. `ranks` says how many ranks each host has.
    pub(super) fn judge(&mut self, now: Instant, ranks: &[usize]) -> Vec<Condemned> {
        let mut condemned = Vec::new();
        if self.judge_at.is_none_or(|at| now < at) {
            return condemned;
        }
        self.judge_at = None;
        let mut said = std::mem::take(&mut self.said);
        while let Some(worst) = worst(&said, ranks) {
            if said.iter().any(|one| one.by == worst) {
                // Its ranks have given up others, which have given them up.
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

/// The host to blame for broken connections: each is the host that misses a rank, the host of that rank, and the rank.
pub(super) fn missed_host(
    missed: impl Iterator<Item = (usize, usize, u32)>,
    ranks: &[usize],
) -> Option<usize> {
    let said: Vec<Suspicion> = missed.map(|(by, of, rank)| Suspicion { by, of, rank }).collect();
    worst(&said, ranks)
}

/// The host with the most broken connections to others. Of two with as many, the one that has reported no other; then
/// the one with fewer ranks; then the later one.
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

/// How long reports are collected: both sides of a cut notice it at nearly the same moment.
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
        // Even if only its own ranks have something to send.
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
