//! Statistics as a text of one screen.

use std::fmt::Write as _;

use ferrywire_runtime::words::number;

use super::Statistics;

/// Ranks that are shown; of more, those with the most time in MPI and those with the least.
const RANKS_SHOWN: usize = 8;
/// Hosts that are shown.
const HOSTS_SHOWN: usize = 8;
/// Calls that are shown.
const CALLS_SHOWN: usize = 8;
/// Pairs that are shown in each line about pairs.
const PAIRS_SHOWN: usize = 3;

impl Statistics {
    /// The lines that a user sees after the job.
    pub(in super::super) fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!(
            "{} ranks ran for {}; {} calls, {} messages received with {}",
            self.ranks.len(),
            time(self.run_ns),
            number(self.calls),
            number(self.messages),
            bytes(self.message_bytes),
        )];
        if self.missing_events > 0 {
            lines.push(format!(
                "{} events are missing, so all numbers are too small",
                number(self.missing_events)
            ));
        }
        if let Some(hosts) = self.hosts() {
            lines.extend(indented(&format!("  {hosts}")));
        }
        self.rank_lines(&mut lines);
        self.call_lines(&mut lines);
        self.cause_lines(&mut lines);
        lines
    }

    /// Where the ranks ran, if that was on several hosts, and how well their times can be compared.
    pub(in super::super) fn hosts(&self) -> Option<String> {
        let error_ns = self.clock_error_ns?;
        let mut hosts: Vec<(&str, &str, u64)> = Vec::new();
        for rank in &self.ranks {
            let name = rank.host.as_deref()?;
            match hosts.iter_mut().find(|host| host.0 == name) {
                Some(host) => host.2 += 1,
                None => hosts.push((name, &rank.rank, 1)),
            }
        }
        let told = hosts.iter().take(HOSTS_SHOWN).map(|(name, first, ranks)| match ranks {
            1 => format!("{name} has rank {first}"),
            _ => format!("{name} has {ranks} from rank {first} on"),
        });
        let mut told: Vec<String> = told.collect();
        if hosts.len() > HOSTS_SHOWN {
            told.push(format!("and {} more", hosts.len() - HOSTS_SHOWN));
        }
        Some(format!(
            "{} hosts, whose times can be compared within {}: {}",
            hosts.len(),
            time(error_ns),
            told.join(", ")
        ))
    }

    /// Which part of their time ranks were in MPI, in the mean.
    pub(in super::super) fn mpi_percent(&self) -> u64 {
        let (mpi, run) = self
            .ranks
            .iter()
            .fold((0, 0), |(mpi, run), rank| (mpi + rank.mpi_ns, run + rank.run_ns));
        percent(mpi, run)
    }

    /// How long a rank was in MPI.
    pub(in super::super) fn mpi_of(&self, at: usize) -> String {
        let rank = &self.ranks[at];
        format!("{}, {} %", time(rank.mpi_ns), percent(rank.mpi_ns, rank.run_ns))
    }

    fn rank_lines(&self, lines: &mut Vec<String>) {
        lines.push(String::new());
        lines.push(format!(
            "  {:<6} {:>9} {:>5} {:>10} {:>9} {:>9} {:>9} {:>9}",
            "rank", "in MPI", "", "calls", "sent", "received", "late", "imbalance"
        ));
        let mut order: Vec<usize> = (0..self.ranks.len()).collect();
        let hidden = order.len().saturating_sub(RANKS_SHOWN);
        if hidden > 0 {
            order.sort_by_key(|&at| std::cmp::Reverse(self.ranks[at].mpi_ns));
            order.drain(RANKS_SHOWN / 2..RANKS_SHOWN / 2 + hidden);
        }
        for (nth, &at) in order.iter().enumerate() {
            if hidden > 0 && nth == RANKS_SHOWN / 2 {
                lines.push(format!("  ... {hidden} ranks between these"));
            }
            let rank = &self.ranks[at];
            let early = if rank.ended_early { " *" } else { "" };
            lines.push(format!(
                "  {:<6} {:>9} {:>3} % {:>10} {:>9} {:>9} {:>9} {:>9}{early}",
                rank.rank,
                time(rank.mpi_ns),
                percent(rank.mpi_ns, rank.run_ns),
                number(rank.calls),
                bytes(rank.sent_bytes),
                bytes(rank.received_bytes),
                time(rank.late_senders_ns),
                time(rank.imbalance_ns),
            ));
        }
        if self.ranks.iter().any(|rank| rank.ended_early) {
            lines.push("  * has not left the job in order".into());
        }
    }

    fn call_lines(&self, lines: &mut Vec<String>) {
        lines.push(String::new());
        lines.push(format!(
            "  {:<22} {:>10} {:>10} {:>10} {:>10} {:>10}",
            "call", "calls", "total", "mean", "max", "bytes"
        ));
        for call in self.by_call.iter().take(CALLS_SHOWN) {
            let max = if call.max_ns > 0 { time(call.max_ns) } else { "-".into() };
            lines.push(format!(
                "  {:<22} {:>10} {:>10} {:>10} {:>10} {:>10}",
                call.call,
                number(call.calls),
                time(call.total_ns),
                time(call.total_ns / call.calls.max(1)),
                max,
                if call.bytes > 0 { bytes(call.bytes) } else { "-".into() },
            ));
        }
        let rest = self.by_call.iter().skip(CALLS_SHOWN);
        let (kinds, total) = rest.fold((0, 0), |(kinds, ns), call| (kinds + 1, ns + call.total_ns));
        if kinds > 0 {
            let functions = if kinds == 1 { "function" } else { "functions" };
            lines.push(format!("  ... {kinds} more {functions}, {}", time(total)));
        }
    }

    fn cause_lines(&self, lines: &mut Vec<String>) {
        lines.push(String::new());
        if self.messages > 0 {
            let mut text = String::from("  sizes:");
            for size in &self.sizes {
                let most = match size.bytes_max {
                    u64::MAX => "more".into(),
                    most => format!("up to {}", bytes(most)),
                };
                let comma = if text.ends_with(':') { "" } else { "," };
                let _ = write!(text, "{comma} {most} {}", number(size.messages));
            }
            lines.extend(indented(&text));
            let pairs = self.pairs.iter().take(PAIRS_SHOWN).map(|pair| {
                let (from, to) = (&pair.from, &pair.to);
                format!("{from} -> {to} {} in {}", bytes(pair.bytes), number(pair.messages))
            });
            let pairs: Vec<String> = pairs.collect();
            lines.extend(indented(&format!("  hottest pairs: {}", pairs.join(", "))));
        }
        let late = &self.late_senders;
        if late.total_ns > 0 {
            let pairs = late.pairs.iter().take(PAIRS_SHOWN).map(|pair| {
                let (to, from) = (&pair.receiver, &pair.sender);
                format!("{to} for {from} {} in {}", time(pair.lost_ns), number(pair.messages))
            });
            let pairs: Vec<String> = pairs.collect();
            lines.extend(indented(&format!(
                "  late senders: ranks waited {} for {} messages whose senders came later: {}",
                time(late.total_ns),
                number(late.messages),
                pairs.join(", "),
            )));
        }
        for one in self.collectives.by_call.iter().take(2).filter(|one| one.lost_ns > 0) {
            lines.extend(indented(&format!(
                "  imbalance: ranks waited {} in {} of {} ({} {}) for the last to come: {} in the mean, {} at \
                 most; rank {} was the last in {}",
                time(one.lost_ns),
                one.call,
                one.object,
                number(one.calls),
                if one.calls == 1 { "call" } else { "calls" },
                time(one.spread_mean_ns),
                time(one.spread_max_ns),
                one.last_rank,
                number(one.last_times),
            )));
        }
    }
}

/// A text as lines of at most 80 columns, those after the first with a deeper margin.
fn indented(text: &str) -> Vec<String> {
    let lines = crate::out::wrapped(text, 76);
    let margin = |at: usize| if at == 0 { "  " } else { "    " };
    lines.iter().enumerate().map(|(at, line)| format!("{}{line}", margin(at))).collect()
}

fn percent(part: u64, whole: u64) -> u64 {
    (u128::from(part) * 100 / u128::from(whole.max(1))).try_into().unwrap_or(u64::MAX)
}

/// A time with three digits.
pub(in super::super) fn time(ns: u64) -> String {
    scaled(ns, &[(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us"), (1, "ns")])
}

/// A length with three digits.
pub(in super::super) fn bytes(bytes: u64) -> String {
    scaled(bytes, &[(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "B")])
}

#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
fn scaled(number: u64, units: &[(u64, &str)]) -> String {
    let found = units.iter().find(|(size, _)| number >= *size).or(units.last());
    let Some(&(size, unit)) = found else { return number.to_string() };
    let value = number as f64 / size as f64;
    match value {
        _ if size == 1 || number.is_multiple_of(size) && value < 1000.0 => {
            format!("{} {unit}", number / size)
        }
        _ if value < 10.0 => format!("{value:.2} {unit}"),
        _ if value < 100.0 => format!("{value:.1} {unit}"),
        _ => format!("{value:.0} {unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits() {
        assert_eq!(time(999), "999 ns");
        assert_eq!(time(1_234_567), "1.23 ms");
        assert_eq!(time(61_500_000_000), "61.5 s");
        assert_eq!(bytes(65_536), "64 KiB");
        assert_eq!(bytes(1_500), "1.46 KiB");
    }
}
