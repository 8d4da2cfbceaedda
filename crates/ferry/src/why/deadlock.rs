//! The sentence about ranks that wait for ever.

use ferrywire_host::ErrorCode;
use ferrywire_host::facts::{CallFact, CallKind, PendingFact};
use ferrywire_host::nic::PendingKind;
use ferrywire_mpi::comm::{number_of, user_tag};
use ferrywire_runtime::call_name::name_of;

use ferrywire_runtime::words::bytes;

use super::words::{ordinal, plural_of};
use super::{AllRanks, Doing, Seen, Verdict, disagreement};

/// Why ranks wait for ever. They do: whoever calls this has made sure.
pub(crate) fn deadlock(seen: &[Seen]) -> Verdict {
    if let Some(verdict) = disagreement::disagreement(seen) {
        return verdict;
    }
    let job = AllRanks(seen);
    let root = job.root();
    let as_code = |code: ErrorCode| move |sentence: String| (code, sentence);
    let (code, sentence) = None
        .or_else(|| job.thief(&root).map(as_code(ErrorCode::TAKEN_MESSAGE)))
        .or_else(|| job.replaced_collective().map(as_code(ErrorCode::RECEIVED_COLLECTIVE)))
        .or_else(|| job.no_room(&root).map(as_code(ErrorCode::NO_ROOM)))
        .or_else(|| job.nearest_miss(&root).map(as_code(ErrorCode::NEAREST_MISS)))
        .or_else(|| job.messages_circle(&root).map(as_code(ErrorCode::DEADLOCK_CIRCLE)))
        .or_else(|| job.two_communicators(&root).map(as_code(ErrorCode::TWO_COMMUNICATORS)))
        .or_else(|| job.requests(&root).map(as_code(ErrorCode::WAITS_FOR_REQUESTS)))
        .or_else(|| job.window(&root).map(as_code(ErrorCode::WINDOW_WAIT)))
        .or_else(|| job.missing_ranks(&root).map(as_code(ErrorCode::MISSED_COLLECTIVE)))
        .or_else(|| job.one_waits(&root).map(as_code(ErrorCode::ONE_WAITS)))
        .unwrap_or_else(|| {
            (ErrorCode::ALL_WAIT, "all ranks wait, and nothing is on its way".into())
        });
    Verdict::new(code, format_args!("deadlock: {sentence}"))
}

impl<'a> AllRanks<'a> {
    fn waiting_call(self, at: usize) -> Option<&'a CallFact> {
        match self.0[at].doing() {
            Doing::Waits(call) => Some(call),
            _ => None,
        }
    }

    /// What a rank waits for, if it is a message from a given rank.
    fn wanted(self, at: usize) -> Option<(&'a CallFact, WantedMessage)> {
        let call = self.waiting_call(at)?;
        let CallKind::Receive { word, any_source, any_tag, .. } = call.kind else { return None };
        let number = number_of(word);
        let source = (!any_source).then(|| self.source_of(at, call.kind)).flatten();
        let tag = (!any_tag).then(|| word.tag());
        Some((call, WantedMessage { number, source, any_source, tag }))
    }

    /// Messages of the program that have arrived at a rank, and that nothing has received.
    fn arrived(self, at: usize) -> impl Iterator<Item = &'a PendingFact> {
        let pending = self.0[at].facts.answer.pending.iter();
        pending.filter(|one| one.kind == PendingKind::Arrived && user_tag(one.word).is_some())
    }

    /// A message that nearly fits what a rank waits for.
    fn nearest_miss(self, root: &[usize]) -> Option<String> {
        let each = root.iter().copied().chain(0..self.0.len());
        for at in each {
            let Some((call, wanted)) = self.wanted(at) else { continue };
            let misses = |one: &&PendingFact| wanted.misses(self, one).len() == 1;
            let Some(one) = self.arrived(at).find(misses) else { continue };
            let [wrong] = wanted.misses(self, one)[..] else { continue };
            let waits = self.waits_in(at, call);
            let arrived = self.arrived_message(at, one, number_of(one.word) != wanted.number);
            return Some(format!(
                "{waits}; {arrived}, and nothing receives it: is the {wrong} wrong?"
            ));
        }
        None
    }

    fn waits_in(self, at: usize, call: &CallFact) -> String {
        format!("rank {} waits in {}", self.0[at].name, self.call(at, call))
    }

    fn arrived_message(self, at: usize, one: &PendingFact, elsewhere: bool) -> String {
        let from =
            self.index_of(one.peer).map_or_else(String::new, |from| self.0[from].name.clone());
        let (tag, length) = (one.word.tag(), bytes(one.bytes));
        let number = number_of(one.word);
        let place =
            if elsewhere { format!(" in {}", self.object(at, number)) } else { String::new() };
        format!("a message from rank {from} (tag {tag}, {length}) has arrived{place}")
    }

    /// A message from a rank that a receive from any rank has taken before.
    fn thief(self, root: &[usize]) -> Option<String> {
        for &at in root {
            let Some((call, wanted)) = self.wanted(at) else { continue };
            if wanted.any_source {
                continue;
            }
            let taken = self.0[at].facts.calls.iter().rev().skip(1).find(|earlier| {
                matches!(earlier.kind, CallKind::Receive { word, any_source: true, any_tag, .. }
                    if number_of(word) == wanted.number && (any_tag || Some(word.tag()) == wanted.tag))
            });
            let others: Vec<&PendingFact> =
                self.arrived(at).filter(|one| wanted.misses(self, one) == ["source"]).collect();
            let (Some(taken), Some(first)) = (taken, others.first()) else { continue };
            let ranks: Vec<usize> =
                others.iter().filter_map(|one| self.index_of(one.peer)).collect();
            let (tag, length) = (first.word.tag(), bytes(first.bytes));
            let messages = match ranks.len() {
                1 => format!(
                    "a message from {} (tag {tag}, {length}) has arrived, and nothing receives it",
                    self.ranks(&ranks)
                ),
                _ => format!(
                    "messages from {} (tag {tag}, {length}) have arrived, and nothing receives them",
                    self.ranks(&ranks)
                ),
            };
            return Some(format!(
                "{}, whose message an {} from any rank has taken; {messages}",
                self.waits_in(at, call),
                name_of(taken.name),
            ));
        }
        None
    }

    /// Ranks that wait for a message of a root that sends it by a collective call.
    fn replaced_collective(self) -> Option<String> {
        let waiting: Vec<usize> =
            (0..self.0.len()).filter(|&at| self.wanted(at).is_some()).collect();
        let &first = waiting.first()?;
        let (call, wanted) = self.wanted(first)?;
        let source = wanted.source?;
        let same: Vec<usize> = waiting
            .into_iter()
            .filter(|&at| self.wanted(at).is_some_and(|(_, other)| other.source == Some(source)))
            .collect();
        let sent = self.0[source].facts.calls.iter().rev().find(|call| {
            matches!(call.kind, CallKind::Collective { object, root: Some(_), .. } if object == wanted.number)
        })?;
        let CallKind::Collective { object, nth, .. } = sent.kind else { return None };
        let described = self.0[source].object(object)?;
        let has_not = |&at: &usize| self.0[at].calls_on(described).is_none_or(|calls| calls < nth);
        if !same.iter().all(has_not) || !name_of(sent.name).to_lowercase().contains("cast") {
            return None;
        }
        let (name, received) = (name_of(sent.name), name_of(call.name));
        let title = self.object(source, object);
        let ranks = self.ranks(&same);
        let (wait, have) = if same.len() == 1 { ("waits", "has") } else { ("wait", "have") };
        Some(format!(
            "{ranks} {wait} in {}; rank {} has called {name} of {title} (its {} collective call), and {ranks} \
             {have} not: is {received} there in place of {name}?",
            self.call(first, call),
            self.0[source].name,
            ordinal(nth),
        ))
    }

    /// A rank that sends to one that has no room for more messages.
    fn no_room(self, root: &[usize]) -> Option<String> {
        for &at in root {
            let Some((call, WantedMessage { source: Some(source), .. })) = self.wanted(at) else {
                continue;
            };
            let Some(sends) = self.waiting_call(source) else { continue };
            let CallKind::Send { to, .. } = sends.kind else { continue };
            let answer = &self.0[at].facts.answer;
            let is_full = answer.unexpected_bytes * 4 >= answer.unexpected_bytes_max * 3;
            if self.index_of(Some(to)) == Some(at) && is_full && answer.unexpected_bytes_max > 0 {
                let (receiver, sender) = (&self.0[at].name, &self.0[source].name);
                return Some(format!(
                    "{}; rank {sender} is in {}, and rank {receiver} has no room left for messages that nothing receives",
                    self.waits_in(at, call),
                    self.call(source, sends),
                ));
            }
        }
        None
    }

    /// Ranks that all send, or all receive, in a circle.
    fn messages_circle(self, root: &[usize]) -> Option<String> {
        let sends = |at: &usize| {
            matches!(self.waiting_call(*at), Some(CallFact { kind: CallKind::Send { .. }, .. }))
        };
        let receives =
            |at: &usize| self.wanted(*at).is_some_and(|(_, wanted)| wanted.source.is_some());
        let (all_send, all_receive) = (root.iter().all(sends), root.iter().all(receives));
        if root.len() < 2 || !(all_send || all_receive) {
            return None;
        }
        let ranks = self.ranks(root);
        let call =
            |at: usize| self.waiting_call(at).map_or_else(String::new, |call| self.call(at, call));
        if let &[one, other] = root {
            let how = match all_send {
                true => "send to each other, and neither receives",
                false => "wait for each other, and neither has sent",
            };
            let (first, second) = (&self.0[one].name, &self.0[other].name);
            return Some(format!(
                "{ranks} {how}: rank {first} is in {}, rank {second} in {}",
                call(one),
                call(other)
            ));
        }
        let mut circle = vec![root[0]];
        loop {
            let next = self.waits(circle[circle.len() - 1]).ranks.first().copied()?;
            let is_closed = circle.contains(&next);
            circle.push(next);
            if is_closed {
                break;
            }
        }
        let names: Vec<&str> = circle.iter().map(|&at| self.0[at].name.as_str()).collect();
        let (how, none) = match all_send {
            true => ("send", "none receives"),
            false => ("wait", "none has sent"),
        };
        let each = self.waiting_call(root[0]).map(|call| self.without_peer(root[0], call))?;
        Some(format!(
            "{ranks} {how} in a circle, {}, and {none}: each is in {each}",
            names.join(" -> ")
        ))
    }

    /// A message without the other side.
    fn without_peer(self, at: usize, call: &CallFact) -> String {
        let text = self.call(at, call);
        let start = text.find(" to rank ").or_else(|| text.find(" from rank "));
        let end = text.find(" (");
        match (start, end) {
            (Some(start), Some(end)) if start < end => {
                format!("{}{}", &text[..start], &text[end..])
            }
            _ => text,
        }
    }

    /// Ranks in collective calls of different communicators, each of which misses the others.
    fn two_communicators(self, root: &[usize]) -> Option<String> {
        let mut groups: Vec<(String, Vec<usize>)> = Vec::new();
        for &at in root {
            let call = self.waiting_call(at)?;
            let CallKind::Collective { .. } = call.kind else { return None };
            let text = self.call(at, call);
            match groups.iter_mut().find(|(known, _)| *known == text) {
                Some((_, ranks)) => ranks.push(at),
                None => groups.push((text, vec![at])),
            }
        }
        if groups.len() < 2 {
            return None;
        }
        let parts: Vec<String> = groups
            .iter()
            .enumerate()
            .map(|(nth, (call, ranks))| match (nth, ranks.len()) {
                (0, 1) => format!("{} is in {call}", self.ranks(ranks)),
                (0, _) => format!("{} are in {call}", self.ranks(ranks)),
                _ => format!("{} in {call}", self.ranks(ranks)),
            })
            .collect();
        let count = match groups.len() {
            2 => "two".into(),
            3 => "three".into(),
            many => many.to_string(),
        };
        Some(format!("ranks wait for each other in {count} communicators: {}", parts.join(", ")))
    }

    /// Ranks that wait for requests.
    fn requests(self, root: &[usize]) -> Option<String> {
        let name = |at: usize| self.waiting_call(at).map(|call| name_of(call.name));
        let waits = |&at: &usize| {
            name(at).is_some_and(|name| name.starts_with("MPI_Wait") || name == "wait")
        };
        let waiting: Vec<usize> = (0..self.0.len()).filter(waits).collect();
        let &first = waiting.iter().find(|at| root.contains(at)).or(waiting.first())?;
        let receives = |at: usize| {
            let pending = self.0[at].facts.answer.pending.iter();
            pending.filter(|one| one.kind == PendingKind::Receive)
        };
        let missing = receives(first).next()?;
        let example = self.begun_by(first, missing)?;
        let mut sources: Vec<usize> = waiting
            .iter()
            .flat_map(|&at| receives(at))
            .filter_map(|one| self.index_of(one.peer))
            .collect();
        sources.sort_unstable();
        sources.dedup();
        let doing = self.doing_of(&sources);
        let plural = if waiting.len() == 1 { "waits" } else { "wait" };
        let have = if sources.len() == 1 { "has" } else { "have" };
        if waiting.len() == 1 {
            return Some(format!(
                "rank {} waits in {} for {example}; {doing}",
                self.0[first].name,
                name(first)?
            ));
        }
        Some(format!(
            "{} {plural} in {} for messages that {} {have} not sent, such as rank {} for {example}; {doing}",
            self.ranks(&waiting),
            name(first)?,
            self.ranks(&sources),
            self.0[first].name,
        ))
    }

    /// What some ranks do. What others do that do the same is in the groups below the sentence.
    fn doing_of(self, some: &[usize]) -> String {
        let mut parts: Vec<(String, Vec<usize>)> = Vec::new();
        for &at in some {
            let doing = self.doing(at);
            if !parts.iter().any(|(known, _)| *known == doing) {
                let same = some.iter().copied().filter(|&other| self.doing(other) == doing);
                parts.push((doing.clone(), same.collect()));
            }
        }
        let part = |(doing, ranks): &(String, Vec<usize>)| match ranks.len() {
            1 => format!("{} {doing}", self.ranks(ranks)),
            _ => format!("{} {}", self.ranks(ranks), plural_of(doing)),
        };
        parts.iter().map(part).collect::<Vec<_>>().join("; ")
    }

    /// The call that began an operation.
    fn begun_by(self, at: usize, pending: &PendingFact) -> Option<String> {
        let begun = self.0[at].facts.calls.iter().rev().find(|call| match call.kind {
            CallKind::Receive { word, .. } => {
                pending.kind == PendingKind::Receive && word.masked(pending.mask) == pending.word
            }
            CallKind::Send { word, .. } => {
                pending.kind == PendingKind::Send && word == pending.word
            }
            _ => false,
        });
        begun.map(|call| self.call(at, call))
    }

    /// Ranks that wait for a lock or an epoch of a window.
    fn window(self, root: &[usize]) -> Option<String> {
        let each = root.iter().copied().chain(0..self.0.len());
        for at in each {
            let Some(call) = self.waiting_call(at) else { continue };
            let CallKind::Other { object, peer, .. } = call.kind else { continue };
            let waits = self.waits_in(at, call);
            match name_of(call.name) {
                "MPI_Win_lock" | "lock" => {
                    let holders = self.holders(at, object, self.index_of(peer));
                    let &holder = holders.first()?;
                    let name = &self.0[holder].name;
                    return Some(format!(
                        "{waits}, which rank {name} has locked and not unlocked; rank {name} {}",
                        self.doing(holder)
                    ));
                }
                "MPI_Win_wait" => {
                    let origins = self.origins(at, object);
                    let &origin = origins.first()?;
                    let calls = |name: &str| {
                        let calls = super::waits::calls(&self.0[origin], object);
                        calls.filter(|call| name_of(call.name) == name).count()
                    };
                    let missing = match calls("MPI_Win_start") > calls("MPI_Win_complete") {
                        true => "MPI_Win_complete",
                        false => "MPI_Win_start",
                    };
                    let name = &self.0[origin].name;
                    return Some(format!(
                        "{waits} for rank {name}, which has not called {missing}; rank {name} {}",
                        self.doing(origin)
                    ));
                }
                _ => {}
            }
        }
        None
    }

    /// A collective call that some members have not made.
    fn missing_ranks(self, root: &[usize]) -> Option<String> {
        let at = *root.first()?;
        let call = self.waiting_call(at)?;
        let CallKind::Collective { object, nth, .. } = call.kind else { return None };
        let missing = self.missing(at, object, nth);
        if missing.is_empty() {
            return None;
        }
        let text = self.call(at, call);
        let described = self.0[at].object(object)?;
        let here = self.members(described).filter(|&other| {
            self.0[other].facts.calls.iter().any(|made| self.call(other, made) == text)
        });
        let here = here.count();
        let are = if here == 1 { "is" } else { "are" };
        let others = self.doing_of(&missing);
        Some(format!("{here} of {} ranks {are} in {text}; {others}", described.size))
    }

    /// A rank that waits for one that does something else.
    fn one_waits(self, root: &[usize]) -> Option<String> {
        // Ranks that wait for messages come first: they say what is missing.
        let &at = root.iter().find(|&&at| self.wanted(at).is_some()).or(root.first())?;
        let call = self.waiting_call(at)?;
        let others: Vec<usize> = self.waits(at).ranks.into_iter().collect();
        let waits = self.waits_in(at, call);
        if others.is_empty() {
            return Some(format!("{waits}, and nothing is on its way to it"));
        }
        let mut text = format!("{waits}; {}", self.doing_of(&others));
        if let Some(never) = self.never_started(at, &others) {
            text += &format!(", and never started its {never}: is MPI_Start missing?");
        }
        Some(text)
    }

    /// A persistent send to a rank that was never started.
    fn never_started(self, at: usize, others: &[usize]) -> Option<String> {
        let &other = others.first()?;
        let calls = &self.0[other].facts.calls;
        let started = calls.iter().any(|call| name_of(call.name).starts_with("MPI_Start"));
        let prepared = calls.iter().find(|call| {
            name_of(call.name).ends_with("end_init")
                && matches!(call.kind, CallKind::Send { to, .. } if self.index_of(Some(to)) == Some(at))
        })?;
        (!started).then(|| self.call(other, prepared))
    }
}

/// What a receive wants.
#[derive(Clone, Copy, Debug)]
struct WantedMessage {
    number: u16,
    source: Option<usize>,
    any_source: bool,
    tag: Option<u32>,
}

impl WantedMessage {
    /// In what a message differs.
    fn misses(self, job: AllRanks<'_>, one: &PendingFact) -> Vec<&'static str> {
        let source = self.source.is_some() && job.index_of(one.peer) != self.source;
        let tag = self.tag.is_some() && user_tag(one.word) != self.tag;
        let comm = number_of(one.word) != self.number;
        [(source, "source"), (tag, "tag"), (comm, "communicator")]
            .into_iter()
            .filter_map(|(differs, name)| differs.then_some(name))
            .collect()
    }
}

/// Receives that are not over when a rank leaves: a mistake.
pub(crate) fn unfinished(seen: &[Seen]) -> Option<Verdict> {
    let job = AllRanks(seen);
    for (at, rank) in seen.iter().enumerate() {
        let left = rank
            .facts
            .answer
            .pending
            .iter()
            .find(|one| one.kind == PendingKind::Receive && user_tag(one.word).is_some());
        let Some(begun) = left.and_then(|one| job.begun_by(at, one)) else { continue };
        return Some(Verdict::new(
            ErrorCode::UNFINISHED_REQUEST,
            format_args!(
                "mistake: rank {} called MPI_Finalize without completing its {begun}: is MPI_Wait missing?",
                rank.name
            ),
        ));
    }
    None
}
