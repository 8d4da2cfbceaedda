//! Jobs as they could be seen, for tests.

use std::time::Duration;

use ferrywire_host::facts::{CallFact, CallKind, Facts, ObjectFact, PendingFact};
use ferrywire_host::nic::{Mask, MatchWord, Peer, PendingKind};
use ferrywire_runtime::call_name::c_name;

use super::rates::rows;
use super::sample::Sample;
use super::table::View;
use crate::job_facts::ProcessTimes;
use crate::why::{Outside, Seen};

const SECOND_NS: u64 = 1_000_000_000;

/// The number of a question that nobody has asked.
const EARLIER: u32 = 7;

/// A rank of a job on `host-a` that has answered.
fn rank(peer: u32, size: u32, calls: Vec<CallFact>) -> Seen {
    let world = ObjectFact {
        number: 0,
        born: 0,
        size,
        group: 77,
        first: 0,
        stride: 1,
        calls: 0,
        name: "MPI_COMM_WORLD".into(),
    };
    let made = calls.last().map_or(0, |call| call.number + 1);
    let mut facts =
        Facts { me: peer, calls, calls_made: made, objects: vec![world], ..Facts::default() };
    facts.answer.unexpected_bytes_max = 1 << 20;
    Seen {
        peer,
        name: peer.to_string(),
        host: "host-a".into(),
        process: 4711 + peer,
        times: Some(ProcessTimes {
            program: "ring".into(),
            running: Duration::from_secs(12),
            ..ProcessTimes::default()
        }),
        facts,
        outside: Some(Outside::Computes),
        ..Seen::default()
    }
}

/// A rank that has used so many seconds of processors, and its agent, too.
fn used(mut seen: Seen, all: f64, agent: f64) -> Seen {
    let times = seen.times.as_mut().expect("it runs");
    (times.used, times.agent) = (Duration::from_secs_f64(all), Duration::from_secs_f64(agent));
    seen
}

fn call(number: u32, name: &str, kind: CallKind) -> CallFact {
    CallFact { number, name: c_name(name), kind }
}

fn receive(from: u32, tag: u32) -> CallFact {
    let word = MatchWord::new(0, from, tag);
    let kind = CallKind::Receive { word, any_source: false, any_tag: false, bytes: 8 };
    call(0, "MPI_Recv", kind)
}

fn send(number: u32, to: u32) -> CallFact {
    let kind = CallKind::Send { to: Peer(to), word: MatchWord::new(0, 0, 0), bytes: 8 };
    call(number, "MPI_Send", kind)
}

fn view(before: Vec<Seen>, after: Vec<Seen>) -> View {
    let sample = |at: u64, seen| Sample { at_ns: at * SECOND_NS, question: 0, seen };
    let (before, after) = (sample(11, before), sample(12, after));
    View { rows: rows(&before, &after), sample: after }
}

/// Rank 0 waits, rank 1 computes, and two ranks exchange 20,000 messages a second each.
pub(super) fn four_ranks() -> View {
    let busy = |peer: u32, made: u32, seconds: f64| {
        let calls = (made.saturating_sub(255)..made).map(|number| match number % 2 {
            0 => send(number, 5 - peer),
            _ => CallFact { number, ..receive(5 - peer, 0) },
        });
        let mut calls: Vec<CallFact> = calls.collect();
        calls.push(send(made, 5 - peer));
        used(rank(peer, 4, calls), 0.8 * seconds, 0.0)
    };
    let waiting = || {
        let mut seen = rank(0, 4, vec![receive(1, 7)]);
        seen.facts.waiting = 1;
        seen.facts.waiting_since_ns = 12 * SECOND_NS - SECOND_NS / 5 * 6;
        let answer = &mut seen.facts.answer;
        answer.unexpected_bytes = 32 << 10;
        (answer.counts.posted_now, answer.counts.unexpected_now) = (1, 2);
        for tag in [8, 9] {
            let word = MatchWord::new(0, 1, tag);
            let (kind, peer) = (PendingKind::Arrived, Some(Peer(1)));
            answer.pending.push(PendingFact { kind, peer, word, mask: Mask::EXACT, bytes: 8 });
        }
        seen.outside = None;
        seen
    };
    let computing = |seconds: f64| {
        let mut seen = rank(1, 4, vec![send(0, 0)]);
        seen.facts.answer.number = EARLIER;
        used(seen, seconds, 0.02 * seconds)
    };
    let all = |made, seconds| {
        vec![waiting(), computing(seconds), busy(2, made, seconds), busy(3, made, seconds)]
    };
    view(all(0, 0.0), all(40_000, 1.0))
}

/// Rank 17, if there is one, computes; all others wait for it in a barrier.
pub(super) fn many_ranks(ranks: u32) -> View {
    let all = || {
        let one = |peer: u32| {
            if peer == 17 {
                return rank(peer, ranks, vec![send(0, 0)]);
            }
            let kind = CallKind::Collective {
                object: 0,
                nth: 1,
                nonblocking: false,
                nth_of_kind: 1,
                root: None,
                operator: 0,
                bytes: 0,
                content: 0,
            };
            let mut seen = rank(peer, ranks, vec![call(0, "MPI_Barrier", kind)]);
            (seen.facts.waiting, seen.facts.objects[0].calls) = (1, 1);
            seen.facts.waiting_since_ns = 10 * SECOND_NS;
            seen
        };
        (0..ranks).map(one).collect()
    };
    view(all(), all())
}
