//! Whether a job on several hosts still goes on, and why not.
//!
//! Daemons tell when all ranks of their hosts wait and nothing changes there, and when that is over: nothing else is
//! sent as long as a job goes on. When it is so on all hosts, the launcher asks as that of one host does, and the same
//! code decides. Only what has to be explained takes all facts: a proof, a failure, a user who asks.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::suspicion::missed_host;
use super::{FirstFailure, Hosts, HostsPhase, RemoteStep};
use crate::job_facts::{Answering, FactsReport, Proof, Proved, RankAnswer, RankRecord};
use crate::run::job::{ANSWER_MAX, HangSettings, LOOK, SETTLE};
use crate::run::report::DEADLOCK;
use crate::run::wire::{AT_THE_END, FactsOrder, OF_A_FAILURE, Order};
use crate::why::{self, Seen, Verdict};

/// What the launcher knows about the progress of ranks.
pub(super) struct HostsHang {
    settings: HangSettings,
    /// Where others on this host ask for facts; `None` if that is impossible.
    pub(super) answering: Option<Answering>,
    question: u32,
    /// When the next question may be asked.
    ask_at: Instant,
    proof: Proof,
    /// A deadlock has been reported; ranks without progress have.
    reported: bool,
    slow_reported: bool,
    /// The user has asked where the ranks are.
    user_asks: bool,
    collection: Option<Collection>,
    /// What hosts have told when a rank failed there, and when their ranks had left.
    of_failure: BTreeMap<usize, FactsReport>,
    at_the_end: BTreeMap<usize, FactsReport>,
}

/// What hosts are asked for, until all have answered.
struct Collection {
    order: FactsOrder,
    purpose: Purpose,
    /// Hosts that have not answered, and until when they are waited for.
    missing: Vec<usize>,
    until: Instant,
    /// Whether a rank waits in a call, and what ranks have answered.
    waiting: bool,
    answers: BTreeMap<u32, RankAnswer>,
    reports: BTreeMap<usize, FactsReport>,
}

/// What a collection is for.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Purpose {
    /// To prove that ranks wait for ever.
    Proof,
    /// They do: to say why.
    Verdict,
    /// To explain a failure. A second one waits longer, for other hosts to notice that one cannot be reached.
    Failure { again: bool },
    /// The user asks, or nothing has happened for too long.
    Slow,
    /// Somebody asks at the socket.
    Client,
}

impl HostsHang {
    pub(super) fn new(settings: HangSettings, job: u32) -> HostsHang {
        HostsHang {
            settings,
            // It works without: only `ferry why` sees less then.
            answering: Answering::open(job).ok(),
            question: 0,
            ask_at: Instant::now(),
            proof: Proof::default(),
            reported: false,
            slow_reported: false,
            user_asks: false,
            collection: None,
            of_failure: BTreeMap::new(),
            at_the_end: BTreeMap::new(),
        }
    }

    /// Whether a failure is being explained, which ends the job.
    pub(super) fn explains(&self) -> bool {
        self.collection.as_ref().is_some_and(|one| matches!(one.purpose, Purpose::Failure { .. }))
    }
}

impl Hosts {
    /// When something is due here, if it is.
    pub(super) fn hang_deadline(&self) -> Option<Instant> {
        match &self.hang.collection {
            Some(collection) => Some(collection.until),
            None => self.all_still().then_some(self.hang.ask_at),
        }
    }

    /// Whether the facts of ranks can be had.
    pub(super) fn can_say_why(&self) -> bool {
        self.gone && matches!(self.phase, HostsPhase::Running)
    }

    /// The hosts whose ranks are in the job.
    fn live(&self) -> Vec<usize> {
        let is_live = |at: &usize| self.remotes[*at].step == RemoteStep::Joined;
        (0..self.remotes.len()).filter(is_live).collect()
    }

    /// Whether all ranks wait, as far as daemons have told, and nobody has been told yet.
    fn all_still(&self) -> bool {
        let live = self.live();
        self.can_say_why()
            && !self.hang.reported
            && self.expected.is_empty()
            && !live.is_empty()
            && live.iter().all(|&at| self.remotes[at].still)
    }

    /// A host tells that all its ranks wait, or no longer do.
    pub(super) fn on_still(&mut self, at: usize, still: bool) {
        self.remotes[at].still = still;
        if !still {
            self.hang.proof.clear();
        }
    }

    /// The user asks where the ranks are.
    pub(super) fn say_why(&mut self) {
        self.hang.user_asks = true;
    }

    /// Ends what has been answered or has taken too long, and begins what is due.
    pub(super) fn watch_hang(&mut self, now: Instant) {
        let is_over = |one: &Collection| one.missing.is_empty() || now >= one.until;
        if let Some(collection) = self.hang.collection.take_if(|one| is_over(one)) {
            self.on_collected(collection, now);
        }
        if let Some(answering) = &mut self.hang.answering {
            answering.tidy();
        }
        if self.hang.collection.is_none() && self.can_say_why() {
            self.collect_what_is_due(now);
        }
    }

    fn collect_what_is_due(&mut self, now: Instant) {
        let is_wanted = self.hang.answering.as_ref().is_some_and(Answering::is_wanted);
        let live = self.live();
        let is_quiet = |&at: &usize| self.remotes[at].quiet.is_some();
        let slow = !self.hang.slow_reported && !live.is_empty() && live.iter().all(is_quiet);
        if self.hang.user_asks || slow {
            self.hang.slow_reported |= slow;
            self.hang.user_asks = false;
            self.collect(Purpose::Slow, (true, true), (Duration::ZERO, SETTLE), now);
        } else if is_wanted {
            self.collect(Purpose::Client, (true, true), (Duration::ZERO, CLIENT_MAX), now);
        } else if self.all_still() && now >= self.hang.ask_at {
            self.collect(Purpose::Proof, (true, false), (Duration::ZERO, ANSWER_MAX), now);
        }
    }

    /// Asks all hosts: `(asks, whole)` as in the order, and how long to wait for ranks, at least and at most.
    fn collect(
        &mut self,
        purpose: Purpose,
        (asks, whole): (bool, bool),
        (least, most): (Duration, Duration),
        now: Instant,
    ) {
        self.hang.question += 1;
        let ms = |time: Duration| u32::try_from(time.as_millis()).unwrap_or(u32::MAX);
        let (least_ms, most_ms) = (ms(least), ms(most));
        let order = FactsOrder { question: self.hang.question, asks, whole, least_ms, most_ms };
        let missing = self.live();
        for &at in &missing {
            self.remotes[at].order(&Order::Facts(order));
        }
        let round_trip = match purpose {
            // A host that has failed keeps the others waiting.
            Purpose::Failure { .. } => ROUND_TRIP_MAX / 4,
            _ => ROUND_TRIP_MAX,
        };
        self.hang.collection = Some(Collection {
            order,
            purpose,
            missing,
            until: now + most + round_trip,
            waiting: false,
            answers: BTreeMap::new(),
            reports: BTreeMap::new(),
        });
    }

    /// What ranks of a host have answered.
    pub(super) fn on_answers(
        &mut self,
        at: usize,
        question: u32,
        waiting: bool,
        answers: Vec<(u32, RankAnswer)>,
    ) {
        let collection = self.hang.collection.as_mut();
        if let Some(collection) = collection.filter(|one| one.order.question == question) {
            collection.missing.retain(|&host| host != at);
            collection.waiting |= waiting;
            collection.answers.extend(answers);
        }
    }

    /// A host tells the facts of its ranks.
    pub(super) fn on_facts(&mut self, at: usize, mut report: FactsReport) {
        for rank in &mut report.ranks {
            self.remotes[at].name().clone_into(&mut rank.host);
        }
        // From here on, times are on our clock.
        report.adopt_clock();
        match report.question {
            OF_A_FAILURE => drop(self.hang.of_failure.insert(at, report)),
            AT_THE_END => drop(self.hang.at_the_end.insert(at, report)),
            question => {
                let collection = self.hang.collection.as_mut();
                if let Some(collection) = collection.filter(|one| one.order.question == question) {
                    collection.missing.retain(|&host| host != at);
                    collection.reports.insert(at, report);
                }
            }
        }
    }

    /// A host is over: nobody waits for it.
    pub(super) fn forget_answers_of(&mut self, at: usize) {
        if let Some(collection) = &mut self.hang.collection {
            collection.missing.retain(|&host| host != at);
        }
    }

    fn on_collected(&mut self, collection: Collection, now: Instant) {
        match collection.purpose {
            Purpose::Proof => self.on_proof(&collection, now),
            Purpose::Verdict => self.on_verdict(&collection),
            Purpose::Failure { again } => self.on_explained(&collection, again, now),
            Purpose::Slow => {
                let mut seen = seen_in(collection.reports.values());
                let polling: Vec<u32> = self
                    .remotes
                    .iter()
                    .filter_map(|it| it.quiet.as_ref())
                    .flatten()
                    .copied()
                    .collect();
                seen.iter_mut().for_each(|one| one.polls = polling.contains(&one.peer));
                let since = why::waiting_for(&seen);
                let since = self.hang.settings.timeout.map_or(since, |limit| since.max(limit));
                let verdict = why::slow(&seen, since);
                let lines = self.hang.settings.lines(&verdict, &seen);
                self.say_verdict(&verdict, &lines);
            }
            Purpose::Client => {
                let mut report = FactsReport::now(collection.order.question);
                report.ranks = collection.reports.into_values().flat_map(|one| one.ranks).collect();
                if let Some(answering) = &mut self.hang.answering {
                    answering.answer(&mut report);
                }
            }
        }
    }

    /// All ranks have answered, or some have not.
    fn on_proof(&mut self, collection: &Collection, now: Instant) {
        self.hang.ask_at = now + LOOK;
        if !collection.missing.is_empty() || !collection.waiting || !self.all_still() {
            return self.hang.proof.clear();
        }
        match self.hang.proof.on_answers(&collection.answers) {
            Proved::MayGoOn => {}
            Proved::AskAgain => self.hang.ask_at = now,
            Proved::Stuck => {
                self.hang.reported = true;
                self.collect(
                    Purpose::Verdict,
                    (false, true),
                    (Duration::ZERO, Duration::ZERO),
                    now,
                );
            }
        }
    }

    /// All ranks wait for ever: says why.
    fn on_verdict(&mut self, collection: &Collection) {
        // Ranks of hosts that are over have left.
        let left = self.hang.at_the_end.values();
        let seen = seen_in(collection.reports.values().chain(left));
        let verdict = why::deadlock(&seen);
        let lines = self.hang.settings.lines(&verdict, &seen);
        if self.hang.settings.report_only {
            return self.say_verdict(&verdict, &lines);
        }
        self.fail(verdict.0, DEADLOCK);
        if let Some(failure) = &mut self.failure {
            failure.lines = lines;
        }
    }

    fn say_verdict(&mut self, verdict: &Verdict, lines: &[String]) {
        self.err.say(&format!("ferry run: {}", verdict.0));
        for line in lines {
            self.err.say(&format!("ferry run:   {line}"));
        }
    }

    /// A failure has been reported that others may be the cause of: asks all where they are before the job ends.
    pub(super) fn explain(&mut self, now: Instant) {
        if !self.hang.explains() {
            self.collect(Purpose::Failure { again: false }, (true, true), (SETTLE, SETTLE), now);
        }
    }

    /// All that can be known about a failure is here: explains it, and ends the job.
    fn on_explained(&mut self, collection: &Collection, again: bool, now: Instant) {
        // What a host told before it ended its ranks comes first.
        let mut reports: BTreeMap<usize, &FactsReport> =
            collection.reports.iter().map(|(&at, one)| (at, one)).collect();
        reports.extend(self.hang.of_failure.iter().map(|(&at, one)| (at, one)));
        let mut seen = seen_in(reports.values().copied());
        let Some(failure) = self.failure.as_ref() else { return };
        let name = failure.rank.map(|rank| rank.to_string());
        let failed = seen.iter().find(|one| Some(&one.name) == name.as_ref());
        let (misses, left, error) = failed.map_or((false, false, String::new()), |one| {
            (one.failed, one.leaves, one.facts.error.clone())
        });
        let verdict = match self.unreachable(&seen) {
            // Its ranks may be about to say the same of the others.
            Some(_) if !again => {
                let again = Purpose::Failure { again: true };
                return self.collect(again, (true, true), (NOTICE, NOTICE), now);
            }
            Some(host) => {
                let errors = seen.iter().filter(|one| one.facts.unreachable.is_some());
                let errors = errors.map(|one| one.facts.error.as_str());
                let mut errors = std::iter::once(failure.why.as_str()).chain(errors);
                let reason = errors.find_map(|text| Some(text.split_once(UNREACHABLE)?.1));
                let host = (self.remotes[host].name(), self.remotes[host].ranks());
                Some(why::unreachable(&seen, host, reason))
            }
            None => why::explanation(&seen, misses, left),
        };
        // Those that cannot reach a rank have waited for it until then.
        seen.iter_mut().for_each(|one| one.failed |= one.facts.unreachable.is_some());
        let lines = verdict.as_ref().map(|verdict| self.hang.settings.lines(verdict, &seen));
        let failure = self.failure.as_mut().expect("it is there");
        match verdict {
            Some(verdict) => failure.explain(verdict.0, lines.unwrap_or_default()),
            None if failure.ended && !error.is_empty() => failure.add_error(&error),
            None => {}
        }
        self.end();
    }

    /// The host that cannot be reached, if a rank has failed because it misses one that still runs on another host.
    fn unreachable(&self, seen: &[Seen]) -> Option<usize> {
        let host_of = |rank: u32| self.remotes.iter().position(|remote| remote.has(rank));
        let runs = |rank: u32| {
            let known = seen.iter().find(|one| one.peer == rank);
            known.is_none_or(|one| one.ending.is_none() && !one.leaves)
        };
        let missed = seen.iter().filter_map(|one| {
            let peer = one.facts.unreachable.filter(|peer| runs(peer.0))?;
            let (by, of) = (host_of(one.peer)?, host_of(peer.0)?);
            (by != of).then_some((by, of, peer.0))
        });
        let ranks: Vec<usize> = self.remotes.iter().map(|remote| remote.ranks().count()).collect();
        missed_host(missed, &ranks)
    }

    /// Mistakes of a job that has succeeded.
    pub(super) fn mistakes(&self) -> Option<String> {
        if self.hang.at_the_end.len() < self.remotes.len() {
            return None;
        }
        let seen = seen_in(self.hang.at_the_end.values());
        why::mistake(&seen).map(|verdict| verdict.0)
    }
}

impl FirstFailure {
    /// The failure follows from what ranks did.
    fn explain(&mut self, verdict: String, lines: Vec<String>) {
        (self.verdict, self.lines) = (Some(verdict), lines);
    }

    /// The rank had reported this error before it ended.
    fn add_error(&mut self, error: &str) {
        self.why = format!("{} after an error of {error}", self.why);
    }
}

fn seen_in<'a>(reports: impl Iterator<Item = &'a FactsReport>) -> Vec<Seen> {
    let ranks = reports.flat_map(|report| &report.ranks);
    let mut seen: Vec<Seen> = ranks.map(RankRecord::seen).collect();
    seen.sort_unstable_by_key(|one| one.peer);
    seen
}

/// How long daemons may take to answer, beyond the time that they wait for ranks.
const ROUND_TRIP_MAX: Duration = Duration::from_secs(2);
/// How long answers are waited for on behalf of others.
const CLIENT_MAX: Duration = crate::job_facts::ANSWER_MAX;
/// How much later than others ranks may notice that a host cannot be reached.
const NOTICE: Duration = Duration::from_secs(1);
/// What stands before the reason in the error of a call that cannot reach a rank.
const UNREACHABLE: &str = " cannot be reached: ";
