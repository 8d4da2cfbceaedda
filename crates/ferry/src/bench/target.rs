//! Targets, as ratios: to the bare machine, to a peer, or to Ferrywire itself with empty queues.
//!
//! A ratio of two figures that were measured in turn is valid on a busy machine, too; a number of nanoseconds
//! is not.

use serde::Serialize;

use super::table::{Row, Table};

/// A limit: a figure of Ferrywire is at most `ratio_max` times another.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Target {
    pub(crate) figure: &'static str,
    pub(crate) ratio_max: f64,
    pub(crate) to: To,
}

/// What a figure of Ferrywire is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum To {
    /// The bare machine, in the same row.
    Bare,
    /// One peer, in the same row.
    Peer(&'static str),
    /// The best of all peers, in the same row.
    BestPeer,
    /// Ferrywire itself, in another row.
    Own(&'static str),
}

/// A target and its result.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct Judged {
    #[serde(flatten)]
    pub(crate) target: Target,
    pub(crate) ratio: Option<f64>,
    pub(crate) result: TargetResult,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TargetResult {
    Met,
    Missed,
    /// The peer is missing.
    NotJudged,
    /// A figure of Ferrywire or of the bare machine is missing: that is worse than a miss.
    NotMeasured,
}

/// All targets. They are times: if half a round trip takes at most the peer's time, its bandwidth is at least
/// the peer's.
pub(crate) const TARGETS: &[Target] = &[
    Target { figure: "latency bytes=8", ratio_max: 1.25, to: To::Bare },
    Target { figure: "latency bytes=8", ratio_max: 1.05, to: To::Peer("openmpi_ucx") },
    Target { figure: "latency bytes=4096", ratio_max: 1.0, to: To::BestPeer },
    Target { figure: "latency bytes=8192", ratio_max: 1.0, to: To::BestPeer },
    Target { figure: "latency bytes=65536", ratio_max: 1.0, to: To::BestPeer },
    Target { figure: "latency bytes=262144", ratio_max: 1.0, to: To::BestPeer },
    Target { figure: "latency bytes=1048576", ratio_max: 1.0, to: To::BestPeer },
    Target { figure: "latency bytes=4194304", ratio_max: 1.0, to: To::BestPeer },
    Target { figure: "rate bytes=8 window=64", ratio_max: 1.0, to: To::BestPeer },
    Target {
        figure: "posted source=exact depth=16384",
        ratio_max: 1.3,
        to: To::Own("posted source=exact depth=0"),
    },
    Target {
        figure: "posted source=any depth=16384",
        ratio_max: 1.3,
        to: To::Own("posted source=any depth=0"),
    },
    Target { figure: "unexpected depth=16384", ratio_max: 1.3, to: To::Own("unexpected depth=0") },
];

impl Target {
    pub(crate) fn judge(self, table: &Table) -> Judged {
        let row = table.row(self.figure);
        let ours = row.and_then(Row::ours);
        let other = match self.to {
            To::Bare => row.and_then(Row::bare),
            To::Peer(name) => row.and_then(|row| row.of(name)),
            To::BestPeer => row.and_then(Row::best_peer),
            To::Own(figure) => table.row(figure).and_then(Row::ours),
        };
        let ratio = ours.zip(other).map(|(ours, other)| ours / other);
        let result = match (ours, ratio) {
            (None, _) => TargetResult::NotMeasured,
            (Some(_), None) if matches!(self.to, To::Own(_) | To::Bare) => {
                TargetResult::NotMeasured
            }
            (Some(_), None) => TargetResult::NotJudged,
            (Some(_), Some(ratio)) if ratio <= self.ratio_max => TargetResult::Met,
            (Some(_), Some(_)) => TargetResult::Missed,
        };
        Judged { target: self, ratio, result }
    }

    /// For a table: `1.25 bare`.
    pub(crate) fn words(self) -> String {
        let to = match self.to {
            To::Bare => "bare",
            To::Peer(name) => name,
            To::BestPeer => "best",
            To::Own(_) => "empty",
        };
        format!("{:.2} {to}", self.ratio_max)
    }
}

impl Judged {
    /// For a table: `met`, or `missed` and the ratio.
    pub(crate) fn words(&self) -> String {
        match (self.result, self.ratio) {
            (TargetResult::Met, _) => "met".to_string(),
            (TargetResult::Missed, Some(ratio)) => format!("missed, {ratio:.2}"),
            (TargetResult::NotMeasured, _) => "not measured".to_string(),
            (TargetResult::Missed | TargetResult::NotJudged, _) => "not judged".to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::figure::Figure;
    use super::super::table::Role;
    use super::*;

    fn table(lines: &[(&'static str, &str)]) -> Table {
        let mut table = Table::new(&[
            ("mpich", Role::Peer),
            ("openmpi_ucx", Role::Peer),
            ("bare", Role::Bare),
            ("ferrywire", Role::Ours),
        ]);
        for (contender, line) in lines {
            table.add(contender, &Figure::parse(line).expect("a figure"));
        }
        table
    }

    fn result(target: Target, lines: &[(&'static str, &str)]) -> TargetResult {
        target.judge(&table(lines)).result
    }

    const LATENCY: &str = "latency bytes=8";

    #[test]
    fn a_ratio_at_its_limit_is_met() {
        let target = Target { figure: LATENCY, ratio_max: 1.25, to: To::Bare };
        let bare = ("bare", "latency bytes=8 ns=200");
        let ours = |line| result(target, &[bare, ("ferrywire", line)]);
        assert_eq!(ours("latency bytes=8 ns=250"), TargetResult::Met);
        assert_eq!(ours("latency bytes=8 ns=250.1"), TargetResult::Missed);
    }

    #[test]
    fn the_best_peer_is_the_fastest_and_a_named_peer_is_itself() {
        let lines = [
            ("mpich", "latency bytes=8 ns=100"),
            ("openmpi_ucx", "latency bytes=8 ns=300"),
            ("ferrywire", "latency bytes=8 ns=150"),
        ];
        let best = Target { figure: LATENCY, ratio_max: 1.0, to: To::BestPeer };
        let named = Target { to: To::Peer("openmpi_ucx"), ..best };
        assert_eq!(best.judge(&table(&lines)).ratio, Some(1.5));
        assert_eq!(best.judge(&table(&lines)).words(), "missed, 1.50");
        assert_eq!(named.judge(&table(&lines)).ratio, Some(0.5));
        assert_eq!(named.judge(&table(&lines)).words(), "met");
    }

    #[test]
    fn a_peer_that_is_not_there_is_not_our_fault_but_a_figure_of_ours_is() {
        let target = Target { figure: LATENCY, ratio_max: 1.0, to: To::BestPeer };
        let ours = ("ferrywire", "latency bytes=8 ns=150");
        assert_eq!(result(target, &[ours]), TargetResult::NotJudged);
        assert_eq!(result(target, &[("mpich", "latency bytes=8 ns=1")]), TargetResult::NotMeasured);
        assert_eq!(result(target, &[]), TargetResult::NotMeasured);
    }

    #[test]
    fn our_own_empty_queue_is_another_row() {
        let target = Target {
            figure: "unexpected depth=2",
            ratio_max: 1.3,
            to: To::Own("unexpected depth=0"),
        };
        let deep = ("ferrywire", "unexpected depth=2 ns=12");
        let empty = ("ferrywire", "unexpected depth=0 ns=10");
        assert_eq!(result(target, &[deep, empty]), TargetResult::Met);
        assert_eq!(result(target, &[deep]), TargetResult::NotMeasured);
    }

    #[test]
    fn targets_are_times_of_figures_that_programs_print() {
        let sources =
            [super::super::contender::source("pingpong"), super::super::contender::source("queue")];
        for target in TARGETS {
            let name = target.figure.split(' ').next().expect("a name");
            let printed =
                sources.iter().any(|source| source.contains(&format!("figure(\"{name} ")));
            assert!(printed, "no program prints {name}");
        }
    }
}
