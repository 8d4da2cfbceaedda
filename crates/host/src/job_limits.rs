//! The limits of the NIC that a user can set for a job: `ferry run --limit eager=32K,budget=64M`.
//!
//! They reach every rank in [`LIMIT_VARIABLE`], also under other launchers. Ranks of one host must use the same, because
//! two of them assume how much credit they have with each other: whoever joins first writes its limits into the segment,
//! and all others compare ([`Segment::agree_limits`](crate::shm::Segment)). Between hosts, all credit is granted by
//! frames, so limits may differ.

use std::fmt;
use std::str::FromStr;

use ferrywire_nic::Limits;

/// The environment variable in which ranks find the limits that the user has set.
pub const LIMIT_VARIABLE: &str = "FERRY_LIMIT";

/// A limit that a user can set.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum JobLimit {
    /// The longest message that is sent without an offer.
    Eager,
    /// Credit that a receiver gives one sender.
    Credit,
    /// Memory for unexpected messages.
    Budget,
}

/// What there is to say about a limit.
#[derive(Clone, Copy, Debug)]
pub struct LimitRow {
    /// The limit.
    pub limit: JobLimit,
    /// How users write it.
    pub name: &'static str,
    /// The value if none is set.
    pub usual: u32,
    /// The smallest value that is allowed.
    pub least: u32,
    /// The largest value that is allowed.
    pub most: u32,
    /// What it bounds.
    pub help: &'static str,
}

/// All limits that a user can set.
pub const LIMIT_ROWS: [LimitRow; 3] = [
    LimitRow {
        limit: JobLimit::Eager,
        name: "eager",
        usual: 8 << 10,
        least: 0,
        // What a frame holds on a host.
        most: 32 << 10,
        help: "the longest message that is sent without asking its receiver first",
    },
    LimitRow {
        limit: JobLimit::Credit,
        name: "credit",
        usual: 64 << 10,
        least: 1 << 10,
        most: 16 << 20,
        help: "room that a receiver reserves for each sender",
    },
    LimitRow {
        limit: JobLimit::Budget,
        name: "budget",
        usual: 16 << 20,
        least: 64 << 10,
        most: 1 << 30,
        help: "memory of a rank for messages that no receive has asked for, in each of its 4 queues",
    },
];

/// How many limits there are.
pub(crate) const LIMITS: usize = LIMIT_ROWS.len();

/// The limits that a user has set.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct JobLimits {
    /// In the order of [`LIMIT_ROWS`]. `None` if the user leaves the choice to us.
    set: [Option<u32>; LIMITS],
}

/// Why a text does not set limits.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum BadLimit {
    /// A part of it is not `NAME=VALUE`.
    NoValue {
        /// That part.
        part: String,
    },
    /// There is no such limit.
    Unknown {
        /// Its name.
        name: String,
    },
    /// A value is not a number of bytes.
    NotANumber {
        /// The limit.
        name: &'static str,
        /// The value.
        value: String,
    },
    /// A value is not allowed.
    OutOfRange {
        /// The limit.
        name: &'static str,
        /// The value.
        value: String,
        /// The smallest value that is.
        least: u32,
        /// The largest one.
        most: u32,
    },
}

impl fmt::Display for BadLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadLimit::NoValue { part } => {
                write!(f, "'{part}': expected NAME=BYTES, such as eager=16K")
            }
            BadLimit::Unknown { name } => {
                let names: Vec<&str> = LIMIT_ROWS.iter().map(|row| row.name).collect();
                write!(f, "there is no limit '{name}', only {}", names.join(", "))
            }
            BadLimit::NotANumber { name, value } => {
                write!(f, "{name}={value}: expected a number of bytes, such as 4096, 16K or 1M")
            }
            BadLimit::OutOfRange { name, value, least, most } => {
                let (least, most) = (BytesText(*least), BytesText(*most));
                write!(f, "{name}={value}: expected {least} to {most}")
            }
        }
    }
}

impl std::error::Error for BadLimit {}

impl FromStr for JobLimits {
    type Err = BadLimit;

    /// `NAME=BYTES,NAME=BYTES`; of a limit that comes twice, the last value counts.
    fn from_str(text: &str) -> Result<JobLimits, BadLimit> {
        let mut limits = JobLimits::default();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let Some((name, value)) = part.split_once('=') else {
                return Err(BadLimit::NoValue { part: part.to_owned() });
            };
            let Some(row) = LIMIT_ROWS.iter().find(|row| row.name == name) else {
                return Err(BadLimit::Unknown { name: name.to_owned() });
            };
            let Some(bytes) = bytes_in(value) else {
                return Err(BadLimit::NotANumber { name: row.name, value: value.to_owned() });
            };
            limits.set(row.limit, bytes)?;
        }
        Ok(limits)
    }
}

impl JobLimits {
    /// No limit is set.
    pub const NONE: JobLimits = JobLimits { set: [None; LIMITS] };

    /// Sets one limit.
    pub fn set(&mut self, limit: JobLimit, bytes: u64) -> Result<(), BadLimit> {
        let row = row_of(limit);
        let allowed = u32::try_from(bytes).ok().filter(|b| (row.least..=row.most).contains(b));
        let Some(bytes) = allowed else {
            let LimitRow { name, least, most, .. } = *row;
            return Err(BadLimit::OutOfRange { name, value: bytes.to_string(), least, most });
        };
        self.set[limit as usize] = Some(bytes);
        Ok(())
    }

    /// The value that a limit has, set or not.
    pub fn value(&self, limit: JobLimit) -> u32 {
        self.set[limit as usize].unwrap_or(row_of(limit).usual)
    }

    /// The limits that `later` sets, and where it sets none, these.
    pub fn then(self, later: JobLimits) -> JobLimits {
        let mut set = later.set;
        for (place, earlier) in set.iter_mut().zip(self.set) {
            *place = place.or(earlier);
        }
        JobLimits { set }
    }

    /// The values that are set, in the order of [`LIMIT_ROWS`].
    pub(crate) fn values_set(&self) -> [Option<u32>; LIMITS] {
        self.set
    }

    /// All values, in the order of [`LIMIT_ROWS`].
    pub(crate) fn of_values(values: [u32; LIMITS]) -> JobLimits {
        JobLimits { set: values.map(Some) }
    }

    /// The limits of a NIC among `ranks` ranks on a host.
    ///
    /// Together, all ranks may hold twice the budget as initial credit; each gets less where its share of that is less.
    pub(crate) fn of_nic(&self, ranks: u32) -> Limits {
        let budget = self.value(JobLimit::Budget);
        let share = budget.saturating_mul(2) / ranks.max(1);
        Limits {
            eager_bytes_max: self.value(JobLimit::Eager),
            credit_bytes: self.value(JobLimit::Credit).min(share),
            unexpected_bytes_max: budget,
            // A rank that shares a core may be off it for a millisecond, which is no reason to retry.
            retry_ns_min: 1_000_000,
            ..Limits::default()
        }
    }
}

/// As [`JobLimits::from_str`] reads it: only what is set.
impl fmt::Display for JobLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = LIMIT_ROWS.iter().zip(self.set).filter_map(|(row, value)| Some((row, value?)));
        for (nth, (row, value)) in rows.enumerate() {
            let comma = if nth > 0 { "," } else { "" };
            write!(f, "{comma}{}={}", row.name, BytesText(value))?;
        }
        Ok(())
    }
}

/// A number of bytes, as users write it: `4096` is `4K`.
#[derive(Clone, Copy, Debug)]
pub struct BytesText(pub u32);

impl fmt::Display for BytesText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            bytes if bytes > 0 && bytes % (1 << 30) == 0 => write!(f, "{}G", bytes >> 30),
            bytes if bytes > 0 && bytes % (1 << 20) == 0 => write!(f, "{}M", bytes >> 20),
            bytes if bytes > 0 && bytes % (1 << 10) == 0 => write!(f, "{}K", bytes >> 10),
            bytes => write!(f, "{bytes}"),
        }
    }
}

fn row_of(limit: JobLimit) -> &'static LimitRow {
    &LIMIT_ROWS[limit as usize]
}

fn bytes_in(value: &str) -> Option<u64> {
    let shift = match value.chars().last()?.to_ascii_uppercase() {
        'K' => 10,
        'M' => 20,
        'G' => 30,
        _ => 0,
    };
    let digits = if shift > 0 { &value[..value.len() - 1] } else { value };
    let number: u64 = digits.parse().ok()?;
    number.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        text.parse::<JobLimits>().expect_err(text).to_string()
    }

    #[test]
    fn rows_are_in_the_order_of_limits() {
        for (at, row) in LIMIT_ROWS.iter().enumerate() {
            assert_eq!(row.limit as usize, at);
            assert!((row.least..=row.most).contains(&row.usual), "{}", row.name);
        }
    }

    #[test]
    fn what_is_not_set_is_as_usual() {
        let limits: JobLimits = "eager=32K,budget=64M".parse().expect("limits");
        assert_eq!(limits.to_string(), "eager=32K,budget=64M");
        let nic = limits.of_nic(4);
        assert_eq!(nic.eager_bytes_max, 32 << 10);
        assert_eq!(nic.unexpected_bytes_max, 64 << 20);
        assert_eq!(nic.credit_bytes, 64 << 10);
        assert_eq!("".parse(), Ok(JobLimits::default()));
        let later = "eager=1K".parse().expect("limits");
        assert_eq!(limits.then(later).to_string(), "eager=1K,budget=64M");
    }

    #[test]
    fn many_ranks_share_the_budget() {
        let limits: JobLimits = "credit=1M,budget=1M".parse().expect("limits");
        assert_eq!(limits.of_nic(64).credit_bytes, (2 << 20) / 64);
    }

    #[test]
    fn what_is_refused_says_what_is_allowed() {
        assert_eq!(refused("eager"), "'eager': expected NAME=BYTES, such as eager=16K");
        assert_eq!(refused("eagre=1K"), "there is no limit 'eagre', only eager, credit, budget");
        assert_eq!(
            refused("credit=much"),
            "credit=much: expected a number of bytes, such as 4096, 16K or 1M"
        );
        assert_eq!(refused("eager=33K"), "eager=33792: expected 0 to 32K");
        assert_eq!(
            refused("budget=99999999999G"),
            "budget=99999999999G: expected a number of bytes, such as 4096, 16K or 1M"
        );
        assert_eq!(refused("budget=4096G"), "budget=4398046511104: expected 64K to 1G");
    }
}
