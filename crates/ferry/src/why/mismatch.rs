//! Messages that were received as something else than they were sent, and messages that were never received: from the runs
//! of messages that ranks describe when they are checked.
//!
//! The messages from one rank to another under one match word arrive in order, so those with the same number are the same
//! message.

use std::collections::BTreeMap;

use ferrywire_host::ErrorCode;
use ferrywire_host::facts::{RunFact, RunsKnown};
use ferrywire_mpi::comm::number_of;
use ferrywire_mpi::datatype::Content;
use ferrywire_runtime::call_name::name_of;
use ferrywire_runtime::words::number;

use super::{AllRanks, Seen, Verdict};

/// The messages from one rank to another under one match word, as both sides describe them.
#[derive(Default)]
struct Sequence<'a> {
    sent: Vec<&'a RunFact>,
    received: Vec<&'a RunFact>,
}

/// The first message of each sequence that was received as something else, and the messages that were never received.
pub(crate) fn mismatches(seen: &[Seen]) -> Vec<Verdict> {
    let job = AllRanks(seen);
    let mut sequences: BTreeMap<(usize, usize, u64), Sequence<'_>> = BTreeMap::new();
    for (at, rank) in seen.iter().enumerate() {
        if rank.facts.runs_known == RunsKnown::Nothing {
            continue;
        }
        for run in &rank.facts.runs {
            let Some(other) = job.at(run.peer.0) else { continue };
            let (from, to) = if run.sends { (at, other) } else { (other, at) };
            let sequence = sequences.entry((from, to, run.word.bits())).or_default();
            if run.sends { sequence.sent.push(run) } else { sequence.received.push(run) }
        }
    }
    let mut verdicts = Vec::new();
    for (&(from, to, _), sequence) in &sequences {
        verdicts.extend(job.other_type(from, to, sequence));
    }
    for (&(from, to, _), sequence) in &sequences {
        verdicts.extend(job.never_received(from, to, sequence));
    }
    let sentences = verdicts.into_iter().map(|text| format!("mistake: {text}"));
    sentences.map(|sentence| Verdict::new(ErrorCode::MISMATCH, sentence)).collect()
}

impl AllRanks<'_> {
    fn other_type(self, from: usize, to: usize, sequence: &Sequence<'_>) -> Option<String> {
        let pairs = sequence
            .sent
            .iter()
            .flat_map(|sent| sequence.received.iter().map(move |received| (*sent, *received)));
        let (sent, received) = pairs
            .filter(|(sent, received)| {
                let is_same = sent.from < received.to && received.from < sent.to;
                is_same && !content(sent).agrees(content(received))
            })
            .min_by_key(|(sent, received)| sent.from.max(received.from))?;
        let nth = sent.from.max(received.from) + 1;
        let which =
            if nth == 1 { String::new() } else { format!(", message {}", number(nth.into())) };
        let (sender, receiver) = (&self.0[from].name, &self.0[to].name);
        Some(format!(
            "rank {sender} sent {} in {} to rank {receiver} ({}{which}), and rank {receiver} received it as {} in {}: is a \
             datatype wrong?",
            content(sent),
            name_of(sent.name),
            self.tag_and_place(from, sent),
            content(received),
            name_of(received.name),
        ))
    }

    fn never_received(self, from: usize, to: usize, sequence: &Sequence<'_>) -> Option<String> {
        let is_complete = |at: usize| self.0[at].facts.runs_known == RunsKnown::All;
        if !is_complete(from) || !is_complete(to) {
            return None;
        }
        let count = |runs: &[&RunFact]| runs.iter().map(|run| run.to).max().unwrap_or(0);
        let missing = count(&sequence.sent).checked_sub(count(&sequence.received))?;
        let last = sequence.sent.last().filter(|_| missing > 0)?;
        let (sender, receiver) = (&self.0[from].name, &self.0[to].name);
        let (messages, them) = match missing {
            1 => ("a message".into(), "it"),
            _ => (format!("{} messages", number(missing.into())), "them"),
        };
        Some(format!(
            "rank {sender} sent {messages} to rank {receiver} in {} ({}), and rank {receiver} never received {them}: is \
             MPI_Recv missing?",
            name_of(last.name),
            self.tag_and_place(from, last),
        ))
    }

    /// The tag of a message, and its communicator if that is not the first.
    fn tag_and_place(self, at: usize, run: &RunFact) -> String {
        let tag = run.word.tag();
        match number_of(run.word) {
            0 => format!("tag {tag}"),
            comm => match self.object(at, comm) {
                title if title.contains(' ') => format!("tag {tag}, {title}"),
                title => format!("tag {tag}, communicator {title}"),
            },
        }
    }
}

fn content(run: &RunFact) -> Content {
    Content::from_bits(run.content)
}
