//! What ranks do, from two looks at them: rates, states, and who waits for whom.

use std::ops::Add as _;
use std::time::Duration;

use ferrywire_host::facts::{CALLS, CallFact, CallKind, Facts, NicCounts};
use ferrywire_mpi::comm::number_of;
use ferrywire_runtime::call_name::name_of;
use serde::{Serialize, Serializer};

use super::sample::Sample;
use crate::job_facts::ProcessTimes;
use crate::why::{AllRanks, Doing, Outside, Seen};

/// What a rank is doing.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Activity {
    /// Its process has ended, though it had not left the job.
    Gone,
    /// It sleeps in a call.
    Waits,
    /// It asks again and again whether something is over.
    Polls,
    /// It sleeps outside of the library.
    Sleeps,
    /// It computes.
    #[default]
    Computes,
    /// It has made calls since the last look.
    Active,
    /// It has left the job.
    Left,
}

/// A rank in the table, or several that are alike, whose numbers are then added.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct RankRow {
    /// Their numbers among all ranks of the job. JSON has no groups.
    #[serde(rename = "rank", serialize_with = "only")]
    pub(super) ranks: Vec<u32>,
    pub(super) host: String,
    pub(super) pid: u32,
    pub(super) activity: Activity,
    /// What the rank is doing, in words.
    pub(super) state: String,
    /// The name of its call, with the number of the object.
    #[serde(skip)]
    pub(super) call: Option<(String, u16)>,
    /// Ranks that it waits for.
    pub(super) waits_for: Vec<u32>,
    /// One of them is enough.
    pub(super) waits_for_any: bool,
    /// How long it has been waiting.
    pub(super) waiting_s: Option<f64>,
    pub(super) calls_per_s: f64,
    /// Sends, and what sends and collective calls were passed, in bytes.
    pub(super) messages_per_s: f64,
    pub(super) bytes_per_s: f64,
    pub(super) collectives_per_s: f64,
    /// Whether messages, bytes and collective calls are computed from the last 256 calls, since there were more.
    pub(super) estimated: bool,
    /// Whether what follows, up to the frames, is as of now: a rank that computes may not answer.
    pub(super) has_answered: bool,
    pub(super) posted: u64,
    pub(super) unexpected: u64,
    pub(super) sends: u64,
    pub(super) steps: u64,
    pub(super) unexpected_bytes: u64,
    pub(super) unexpected_bytes_max: u64,
    pub(super) retries: u64,
    pub(super) refused: u64,
    pub(super) frames_sent: u64,
    pub(super) frames_received: u64,
    /// Percent of a processor that all its threads use, and that the agent uses.
    pub(super) cpu_percent: Option<f64>,
    pub(super) agent_percent: Option<f64>,
    /// The text of the last error that it has reported, or nothing.
    pub(super) error: String,
}

fn only<S: Serializer>(ranks: &[u32], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u32(ranks[0])
}

/// What all ranks do together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Totals {
    pub(super) calls_per_s: f64,
    pub(super) messages_per_s: f64,
    pub(super) bytes_per_s: f64,
    pub(super) collectives_per_s: f64,
    pub(super) estimated: bool,
}

impl Totals {
    pub(super) fn of(rows: &[RankRow]) -> Totals {
        let sum = |value: fn(&RankRow) -> f64| rows.iter().map(value).fold(0.0, f64::add);
        Totals {
            calls_per_s: sum(|row| row.calls_per_s),
            messages_per_s: sum(|row| row.messages_per_s),
            bytes_per_s: sum(|row| row.bytes_per_s),
            collectives_per_s: sum(|row| row.collectives_per_s),
            estimated: rows.iter().any(|row| row.estimated),
        }
    }
}

/// A row for each rank of the later look. A rank that was not there at the earlier one has no rates.
pub(super) fn rows(before: &Sample, after: &Sample) -> Vec<RankRow> {
    let time = Duration::from_nanos(after.at_ns.saturating_sub(before.at_ns)).as_secs_f64();
    let row = |at: usize| {
        let peer = after.seen[at].peer;
        let earlier = before.seen.iter().find(|one| one.peer == peer);
        row(after, at, earlier.filter(|_| time > 0.0), time)
    };
    (0..after.seen.len()).map(row).collect()
}

fn row(sample: &Sample, at: usize, earlier: Option<&Seen>, time: f64) -> RankRow {
    let job = AllRanks(&sample.seen);
    let seen = &job.0[at];
    let facts = &seen.facts;
    let counted = earlier.map(|before| Counted::between(&before.facts, facts)).unwrap_or_default();
    let waiting = Duration::from_nanos(sample.at_ns.saturating_sub(facts.waiting_since_ns));
    let activity = match activity(seen, earlier.map(|before| &before.facts), counted.calls) {
        // It is on its way from call to call.
        Activity::Waits if counted.calls > 0 && waiting < WAITING_MIN => Activity::Active,
        activity => activity,
    };
    let waits = job.waits(at);
    let waits_for = match activity {
        Activity::Waits => waits.ranks.iter().map(|&other| job.0[other].peer).collect(),
        _ => Vec::new(),
    };
    let used = |part: fn(&ProcessTimes) -> Duration| {
        let (now, before) = (seen.times.as_ref()?, earlier?.times.as_ref()?);
        Some(part(now).saturating_sub(part(before)).as_secs_f64() / time * 100.0)
    };
    let NicCounts {
        frames_sent,
        frames_received,
        retries,
        refused,
        unexpected_now,
        posted_now,
        sends_now,
        steps_now,
        ..
    } = facts.answer.counts;
    let rate = |count: f64| if time > 0.0 { count / time } else { 0.0 };
    RankRow {
        ranks: vec![seen.peer],
        host: seen.host.clone(),
        pid: seen.process,
        activity,
        state: state(job, at, activity),
        call: waiting_call(seen).map(|call| (name_of(call.name).to_owned(), object_of(call))),
        waits_for,
        waits_for_any: waits.any,
        waiting_s: (activity == Activity::Waits).then_some(waiting.as_secs_f64()),
        calls_per_s: rate(counted.calls.into()),
        messages_per_s: rate(counted.messages),
        bytes_per_s: rate(counted.bytes),
        collectives_per_s: rate(counted.collectives),
        estimated: counted.is_estimate,
        has_answered: facts.answer.number == sample.question,
        posted: posted_now,
        unexpected: unexpected_now,
        sends: sends_now,
        steps: steps_now,
        unexpected_bytes: facts.answer.unexpected_bytes,
        unexpected_bytes_max: facts.answer.unexpected_bytes_max,
        retries,
        refused,
        frames_sent,
        frames_received,
        cpu_percent: used(|times| times.used),
        agent_percent: used(|times| times.agent),
        error: facts.error.clone(),
    }
}

/// A rank that makes calls waits if it does so for longer.
const WAITING_MIN: Duration = Duration::from_millis(100);

/// Calls between two looks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Counted {
    calls: u32,
    messages: f64,
    bytes: f64,
    collectives: f64,
    /// Only the last of them are known, and the others taken to be alike.
    is_estimate: bool,
}

impl Counted {
    fn between(before: &Facts, after: &Facts) -> Counted {
        let calls = after.calls_made.wrapping_sub(before.calls_made) & CALLS_MADE_MAX;
        let kept = usize::try_from(calls).unwrap_or(usize::MAX).min(after.calls.len());
        let new = &after.calls[after.calls.len() - kept..];
        // From 0, since the sum of nothing is -0.
        let sum = |value: fn(&CallFact) -> f64| new.iter().map(value).fold(0.0, f64::add);
        let scale = if kept == 0 { 0.0 } else { f64::from(calls) / new.len() as f64 };
        Counted {
            calls,
            messages: scale * sum(|call| f64::from(matches!(call.kind, CallKind::Send { .. }))),
            bytes: scale * sum(|call| bytes_of(call) as f64),
            collectives: scale
                * sum(|call| f64::from(matches!(call.kind, CallKind::Collective { .. }))),
            is_estimate: usize::try_from(calls).is_ok_and(|calls| calls > kept && kept == CALLS),
        }
    }
}

/// The number of calls is known up to multiples of one more.
const CALLS_MADE_MAX: u32 = (1 << 27) - 1;

/// What a call passes to others.
fn bytes_of(call: &CallFact) -> u64 {
    match call.kind {
        CallKind::Send { bytes, .. } | CallKind::Collective { bytes, .. } => bytes,
        CallKind::Receive { .. } | CallKind::Other { .. } => 0,
    }
}

fn object_of(call: &CallFact) -> u16 {
    match call.kind {
        CallKind::Send { word, .. } | CallKind::Receive { word, .. } => number_of(word),
        CallKind::Collective { object, .. } | CallKind::Other { object, .. } => object,
    }
}

fn waiting_call(seen: &Seen) -> Option<&CallFact> {
    match seen.doing() {
        Doing::Waits(call) => Some(call),
        _ => None,
    }
}

fn activity(seen: &Seen, before: Option<&Facts>, calls: u32) -> Activity {
    let facts = &seen.facts;
    let polls = before.is_some_and(|before| before.polls != facts.polls);
    match seen.doing() {
        Doing::Left => Activity::Left,
        _ if seen.ending.is_some() || seen.times.is_none() => Activity::Gone,
        Doing::Waits(_) => Activity::Waits,
        Doing::Outside if calls > 0 => Activity::Active,
        Doing::Outside if polls => Activity::Polls,
        Doing::Outside if seen.outside == Some(Outside::Sleeps) => Activity::Sleeps,
        Doing::Outside => Activity::Computes,
    }
}

fn state(job: AllRanks<'_>, at: usize, activity: Activity) -> String {
    let facts = &job.0[at].facts;
    let last = facts.plain.or_else(|| facts.last_call().map(|call| call.name));
    let after = last.map_or_else(String::new, |name| format!(" after {}", name_of(name)));
    match (activity, facts.last_call()) {
        (Activity::Gone, _) => format!("its process has ended{after}"),
        (Activity::Left, _) => "has left the job".into(),
        (Activity::Waits, Some(call)) => job.call(at, call),
        (Activity::Waits, None) => "waits".into(),
        (Activity::Polls, _) => format!("polls with {}", name_of(facts.poll_name)),
        (Activity::Active, Some(call)) => format!("active: {}", job.call(at, call)),
        (Activity::Active, None) => "active".into(),
        (Activity::Sleeps, _) => format!("sleeps{after}"),
        (Activity::Computes, _) => format!("computes{after}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrywire_host::nic::{MatchWord, Peer};

    fn facts(made: u32, bytes: u64) -> Facts {
        let send = CallKind::Send { to: Peer(1), word: MatchWord::new(0, 0, 0), bytes };
        let call = |number| CallFact { number, name: Default::default(), kind: send };
        let kept = made.min(u32::try_from(CALLS).expect("few"));
        Facts {
            calls_made: made,
            calls: (made - kept..made).map(call).collect(),
            ..Facts::default()
        }
    }

    #[test]
    fn few_calls_are_counted_and_many_estimated() {
        let counted = Counted::between(&facts(10, 8), &facts(110, 8));
        let exact = Counted { calls: 100, messages: 100.0, bytes: 800.0, ..Counted::default() };
        assert_eq!(counted, exact);
        let counted = Counted::between(&facts(0, 8), &facts(256_000, 8));
        assert!(counted.is_estimate);
        assert!((counted.bytes - 2_048_000.0).abs() < 1.0, "{counted:?}");
        assert_eq!(Counted::between(&facts(7, 8), &facts(7, 8)), Counted::default());
    }

    #[test]
    fn the_count_of_calls_wraps() {
        let mut after = facts(300, 8);
        let before = Facts { calls_made: CALLS_MADE_MAX - 49, ..Facts::default() };
        after.calls_made = 50;
        assert_eq!(Counted::between(&before, &after).calls, 100);
    }
}
