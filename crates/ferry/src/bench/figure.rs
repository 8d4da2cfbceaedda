//! A figure: one line of output of a benchmark program, `name key=value ... unit=value`.
//!
//! The last pair is the measured value, and its key is the unit; the pairs before it identify the case.
//! The programs of peers, the bare machine and our own worker all print such lines.

use serde::Serialize;

/// A case, and the value that was measured for it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Figure {
    /// Name and case: `latency bytes=8`.
    pub(crate) name: String,
    pub(crate) unit: Unit,
    pub(crate) value: f64,
}

/// The unit of a value. `cpu_*` is processor time, summed over all processors that worked on it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Unit {
    Ns,
    Us,
    Ms,
    CpuUs,
    CpuMs,
    MbPerS,
}

impl Unit {
    const ALL: [Unit; 6] = [Unit::Ns, Unit::Us, Unit::Ms, Unit::CpuUs, Unit::CpuMs, Unit::MbPerS];

    /// The name in printed figures.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Unit::Ns => "ns",
            Unit::Us => "us",
            Unit::Ms => "ms",
            Unit::CpuUs => "cpu_us",
            Unit::CpuMs => "cpu_ms",
            Unit::MbPerS => "mb_per_s",
        }
    }

    /// The better of two values: less time, more bandwidth.
    pub(crate) fn better(self, one: f64, other: f64) -> f64 {
        if self == Unit::MbPerS { one.max(other) } else { one.min(other) }
    }
}

impl Figure {
    /// Parses a line. `None` if it is not a figure: launchers print other lines, too.
    pub(crate) fn parse(line: &str) -> Option<Figure> {
        let (name, measured) = line.trim().rsplit_once(' ')?;
        let (unit, value) = measured.split_once('=')?;
        let unit = Unit::ALL.into_iter().find(|known| known.name() == unit)?;
        let value = value.parse().ok().filter(|value: &f64| value.is_finite() && *value >= 0.0)?;
        let mut words = name.split(' ');
        let is_name = words.next().is_some_and(is_key);
        let is_case = words.all(|word| word.split_once('=').is_some_and(|(key, _)| is_key(key)));
        (is_name && is_case).then(|| Figure { name: name.to_string(), unit, value })
    }
}

fn is_key(word: &str) -> bool {
    !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c == '-' || c == '_')
}

/// The median of the values, which are sorted in place.
pub(crate) fn median(values: &mut [f64]) -> f64 {
    assert!(!values.is_empty(), "no values, no median");
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { values[middle] } else { values[middle - 1].midpoint(values[middle]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(name: &str, unit: Unit, value: f64) -> Option<Figure> {
        Some(Figure { name: name.to_string(), unit, value })
    }

    #[test]
    fn the_last_pair_is_the_value() {
        assert_eq!(Figure::parse("wake us=19.5"), figure("wake", Unit::Us, 19.5));
        assert_eq!(
            Figure::parse("posted source=any depth=1024 ns=14300.0\r\n"),
            figure("posted source=any depth=1024", Unit::Ns, 14300.0)
        );
        assert_eq!(
            Figure::parse("stream bytes=4096 mb_per_s=1e4"),
            figure("stream bytes=4096", Unit::MbPerS, 1e4)
        );
    }

    #[test]
    fn what_launchers_say_is_no_figure() {
        for line in [
            "",
            "latency",
            "latency bytes=8",
            "ns=3",
            "latency bytes=8 ns=",
            "latency bytes=8 ns=nan",
            "latency bytes=8 ns=-1",
            "latency 8 ns=3",
            "WARNING: took ms=1",
            "[host:123] ms=1",
        ] {
            assert_eq!(Figure::parse(line), None, "{line}");
        }
    }

    #[test]
    fn less_time_and_more_bandwidth_are_better() {
        assert_eq!(Unit::Ns.better(1.0, 2.0), 1.0);
        assert_eq!(Unit::MbPerS.better(1.0, 2.0), 2.0);
    }

    #[test]
    fn medians() {
        assert_eq!(median(&mut [3.0]), 3.0);
        assert_eq!(median(&mut [9.0, 1.0, 3.0]), 3.0);
        assert_eq!(median(&mut [4.0, 1.0, 2.0, 100.0]), 3.0);
    }
}
