//! Whether the job still goes on, and why not.
//!
//! The launcher looks at the facts of its ranks a few times a second. If all of them wait and nothing has changed since it
//! looked last, it asks them: each answers once it has handled all that has arrived and still has to wait. If all
//! answer twice, and none has done anything between its answers, no message was on its way when they answered first: what
//! had been sent before the second question has arrived before the second answer. So nothing can ever change, and the job
//! is stuck, whatever the time. `crate::why` finds out why.
//!
//! A daemon looks in the same way, and only tells its launcher that all ranks here wait, that they no longer do, and what
//! they answer: `hosts/hang.rs` decides.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use ferrywire_host::facts::{FACTS_BYTES, Facts, Glance};
use ferrywire_host::monotonic_ns;
use ferrywire_host::nic::Peer;

use super::super::report::{Failure, Told};
use super::super::sys::Ending;
use super::super::wire::{self, FactsOrder, FrameKind, News};
use super::{Job, Phase};
use crate::job_facts::{self, FactsReport, ProcessTimes, Proof, Proved, RankAnswer, RankRecord};
use crate::why::{self, Seen, Verdict};

/// What has been seen of the ranks so far.
pub(in super::super) struct Hang {
    /// What to do about a job that is stuck.
    settings: HangSettings,
    look_at: Instant,
    /// What was seen last, by the numbers of ranks on this host.
    last: BTreeMap<u32, Glance>,
    /// Since when no rank has made a call.
    quiet_since: Instant,
    /// The number of the last question, and until when answers are waited for, if they are.
    question: u32,
    asked: Option<Instant>,
    proof: Proof,
    reported: bool,
    /// What the launcher of several hosts has been told: that all ranks here wait, and that they make no calls.
    told_still: bool,
    told_quiet: bool,
    /// What it wants to be told, and since when.
    order: Option<(FactsOrder, Instant)>,
}

/// What to do about a job that is stuck.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct HangSettings {
    /// Where all facts are written when something has been found out about ranks.
    pub(in super::super) why_file: Option<PathBuf>,
    /// Report a deadlock, but do not end the job.
    pub(in super::super) report_only: bool,
    /// Report ranks that have made no progress for so long.
    pub(in super::super) timeout: Option<Duration>,
}

impl HangSettings {
    /// The lines below a verdict: what ranks do, and where all facts are, which are written now.
    pub(in super::super) fn lines(&self, verdict: &Verdict, seen: &[Seen]) -> Vec<String> {
        let mut lines = why::groups(seen);
        if let Some(path) = &self.why_file {
            lines.push(match job_facts::write_file(path, &verdict.0, seen) {
                Ok(path) => format!("all facts of all ranks are in {}", path.display()),
                Err(error) => {
                    format!("cannot write the facts to {} (--why-file): {error}", path.display())
                }
            });
        }
        lines
    }
}

impl Hang {
    pub(in super::super) fn new(settings: HangSettings) -> Hang {
        let now = Instant::now();
        Hang {
            settings,
            look_at: now + LOOK,
            last: BTreeMap::new(),
            quiet_since: now,
            question: 0,
            asked: None,
            proof: Proof::default(),
            reported: false,
            told_still: false,
            told_quiet: false,
            order: None,
        }
    }
}

/// How often the launcher looks.
pub(in super::super) const LOOK: Duration = Duration::from_millis(300);
/// How often it looks for answers.
const LOOK_FOR_ANSWERS: Duration = Duration::from_millis(10);
/// How long it waits for answers before it takes the job for one that goes on.
pub(in super::super) const ANSWER_MAX: Duration = Duration::from_secs(2);
/// How long ranks may take to run into the same error as the first.
pub(in super::super) const SETTLE: Duration = Duration::from_millis(100);

/// What two looks at the ranks show.
struct Looked {
    /// All ranks wait, and have not done anything in between.
    is_still: bool,
    /// The ranks here that have asked whether something is over.
    polling: Vec<u32>,
}

impl Job {
    /// When the facts of ranks are looked at next, if they are.
    pub(super) fn look_at(&self) -> Option<Instant> {
        let is_due = self.course.admitted
            && matches!(self.course.phase, Phase::Running)
            && self.segment.is_some();
        is_due.then_some(self.hang.look_at)
    }

    /// Whether all ranks of the job are here.
    fn is_whole(&self) -> bool {
        self.launcher.is_none() && self.others.is_none()
    }

    /// Looks at the facts of the ranks, if that is due.
    pub(super) fn look(&mut self, now: Instant) {
        if self.look_at().is_none_or(|at| now < at) {
            return;
        }
        self.hang.look_at = now + LOOK;
        let looked = self.compare(now);
        if self.launcher.is_some() {
            return self.tell_looked(&looked, now);
        }
        match looked.is_still && !self.hang.last.is_empty() {
            true => self.ask_and_hear(now),
            false => {
                self.hang.asked = None;
                self.hang.proof.clear();
            }
        }
        let is_late = |limit: Duration| now.duration_since(self.hang.quiet_since) >= limit;
        if !self.hang.reported && self.hang.settings.timeout.is_some_and(is_late) {
            self.hang.reported = true;
            self.report_slow(&looked.polling);
        }
    }

    /// Compares the ranks with what was seen of them last.
    fn compare(&mut self, now: Instant) -> Looked {
        let glances = self.glances();
        let before = std::mem::take(&mut self.hang.last);
        let all_are = |like: fn(&Glance, &Glance) -> bool| {
            let is_like =
                |(rank, now): (&u32, &Glance)| before.get(rank).is_some_and(|one| like(now, one));
            glances.len() == before.len() && glances.iter().all(is_like)
        };
        let is_same = all_are(Glance::is_same);
        if !all_are(|now, before| now.calls == before.calls) {
            self.hang.quiet_since = now;
        }
        let polls = |&(rank, now): &(&u32, &Glance)| {
            before.get(rank).is_some_and(|before| now.polls != before.polls)
        };
        let polling = glances.iter().filter(polls).map(|(&rank, _)| rank).collect();
        let waits = |(&rank, glance): (&u32, &Glance)| glance.waiting > 0 || self.leaves(rank);
        let is_still = is_same && self.spawning.is_empty() && glances.iter().all(waits);
        self.hang.last = glances;
        Looked { is_still, polling }
    }

    /// Whether a rank of this host waits for all others before it leaves.
    fn leaves(&self, local: u32) -> bool {
        let peer = self.here.rank(Peer(local)).0;
        self.ranks.iter().any(|rank| rank.peer == peer && rank.waits_for_all)
    }

    /// The facts of ranks that are in the job.
    fn glances(&self) -> BTreeMap<u32, Glance> {
        let Some(segment) = &self.segment else { return BTreeMap::new() };
        let ranks = self.ranks.iter().filter(|rank| rank.ending.is_none() && !rank.goodbye);
        let local = ranks.filter_map(|rank| self.here.local_rank(Peer(rank.peer)));
        local.filter_map(|Peer(rank)| Some((rank, segment.glance(rank)?))).collect()
    }

    /// Asks all ranks, or looks for their answers.
    fn ask_and_hear(&mut self, now: Instant) {
        let Some(segment) = &self.segment else { return };
        let hang = &mut self.hang;
        match hang.asked {
            None => {
                hang.question += 1;
                hang.asked = Some(now + ANSWER_MAX);
                segment.ask(hang.last.keys().copied(), hang.question);
                hang.look_at = now + LOOK_FOR_ANSWERS;
            }
            Some(_) if hang.last.values().all(|glance| glance.answered == hang.question) => {
                hang.asked = None;
                self.judge_answers(now);
            }
            Some(until) if now < until => hang.look_at = now + LOOK_FOR_ANSWERS,
            Some(_) => hang.asked = None,
        }
    }

    /// All ranks have answered.
    fn judge_answers(&mut self, now: Instant) {
        let answers = self.answers(self.hang.question);
        match self.hang.proof.on_answers(&answers) {
            Proved::MayGoOn => return,
            // The next question follows at once.
            Proved::AskAgain => return self.hang.look_at = now,
            Proved::Stuck if self.hang.reported => return,
            Proved::Stuck => self.hang.reported = true,
        }
        let seen = self.seen();
        let verdict = why::deadlock(&seen);
        let lines = self.hang.settings.lines(&verdict, &seen);
        match self.hang.settings.report_only {
            true => self.say_verdict(&verdict, &lines),
            false => self.fail(Failure::Stuck { verdict: verdict.0, lines }),
        }
    }

    /// What the ranks of this host have answered to a question.
    fn answers(&self, question: u32) -> BTreeMap<u32, RankAnswer> {
        let answer = |&rank: &u32| {
            let facts = self.segment.as_ref().and_then(|segment| segment.facts(rank));
            let answer = RankAnswer::of(&facts.unwrap_or_default(), question, self.leaves(rank));
            (self.here.rank(Peer(rank)).0, answer)
        };
        self.hang.last.keys().map(answer).collect()
    }

    /// Tells the launcher of several hosts what has changed, and what it wants to know.
    fn tell_looked(&mut self, looked: &Looked, now: Instant) {
        let Some(launcher) = &self.launcher else { return };
        if looked.is_still != self.hang.told_still {
            self.hang.told_still = looked.is_still;
            launcher.tell(&News::Still { still: looked.is_still });
        }
        let is_late = |limit: Duration| now.duration_since(self.hang.quiet_since) >= limit;
        let is_quiet = self.hang.settings.timeout.is_some_and(is_late);
        if is_quiet != self.hang.told_quiet {
            self.hang.told_quiet = is_quiet;
            let polling = looked.polling.iter().map(|&rank| self.here.rank(Peer(rank)).0);
            launcher.tell(&News::Quiet { quiet: is_quiet, polling: polling.collect() });
        }
        self.obey_facts_order(now);
    }

    /// The launcher of several hosts wants facts, which ranks are asked for first if it says so.
    pub(super) fn on_facts_order(&mut self, order: FactsOrder) {
        let now = Instant::now();
        if let Some(segment) = self.segment.as_ref().filter(|_| order.asks) {
            let ranks = self.glances();
            segment.ask(ranks.keys().copied(), order.question);
        }
        self.hang.order = Some((order, now));
        if self.look_at().is_some() {
            // The loop looks at once.
            self.hang.look_at = now;
        } else {
            self.tell_facts_ordered();
        }
    }

    /// Sends what the launcher wants if it is there, or if it has been waited for long enough.
    fn obey_facts_order(&mut self, now: Instant) {
        let Some((order, since)) = self.hang.order else { return };
        let waited = now.duration_since(since);
        let is_in = |(&rank, glance): (&u32, &Glance)| {
            let could = glance.waiting > 0 || self.leaves(rank);
            !order.asks || !could || glance.answered == order.question
        };
        let all = waited >= order.least() && self.hang.last.iter().all(is_in);
        if all || waited >= order.most() {
            self.tell_facts_ordered();
        } else {
            self.hang.look_at = now + LOOK_FOR_ANSWERS;
        }
    }

    fn tell_facts_ordered(&mut self) {
        let Some((order, _)) = self.hang.order.take() else { return };
        if order.whole {
            return self.tell_facts(order.question);
        }
        let waiting = self.hang.last.values().any(|glance| glance.waiting > 0);
        let answers = self.answers(order.question).into_iter().collect();
        if let Some(launcher) = &self.launcher {
            launcher.tell(&News::Answers { question: order.question, waiting, answers });
        }
    }

    /// Tells the launcher of several hosts the facts of all ranks here.
    pub(super) fn tell_facts(&self, question: u32) {
        if let Some(launcher) = &self.launcher {
            let ranks = self.records();
            let mut report = FactsReport { question, now_ns: monotonic_ns(), ranks };
            let frame = wire::framed(FrameKind::Facts, &report.emit());
            launcher.send(&frame);
        }
    }

    /// After a failure that others may be the cause of: tells the launcher of several hosts where the ranks here are,
    /// when they have run into the same.
    pub(super) fn tell_facts_of(&self, failure: &Failure) {
        if self.launcher.is_some() && self.segment.is_some() && failure.may_be_explained() {
            std::thread::sleep(SETTLE);
            self.tell_facts(wire::OF_A_FAILURE);
        }
    }

    /// Whether there are facts of all ranks.
    pub(super) fn can_say_why(&self) -> bool {
        self.is_whole() && self.course.admitted && matches!(self.course.phase, Phase::Running)
    }

    /// Reports where the ranks are, because the user asks.
    pub(super) fn say_why(&mut self) {
        self.report_slow(&[]);
    }

    /// Reports that ranks may be stuck.
    fn report_slow(&mut self, polling: &[u32]) {
        if let Some(segment) = &self.segment {
            // Those that are in the library bring their facts up to date, which need not be awaited for long.
            self.hang.question += 1;
            segment.ask(self.hang.last.keys().copied(), self.hang.question);
            std::thread::sleep(SETTLE);
        }
        let mut seen = self.seen();
        for one in &mut seen {
            let local = self.here.local_rank(Peer(one.peer)).map(|rank| rank.0);
            one.polls = local.is_some_and(|rank| polling.contains(&rank));
        }
        let verdict = why::slow(&seen, self.hang.quiet_since.elapsed());
        let lines = self.hang.settings.lines(&verdict, &seen);
        self.say_verdict(&verdict, &lines);
    }

    fn say_verdict(&mut self, verdict: &Verdict, lines: &[String]) {
        self.err.say(&format!("ferry run: {}", verdict.0));
        for line in lines {
            self.err.say(&format!("ferry run:   {line}"));
        }
    }

    /// The ranks of this host, with their pages.
    fn records(&self) -> Vec<RankRecord> {
        let ranks = self.ranks.iter().filter(|rank| !rank.dismissed);
        let record = |rank: &super::Rank| {
            let page =
                self.here.local_rank(Peer(rank.peer)).and_then(|Peer(local)| self.page(local));
            let process = rank.hello.map_or(0, |process| process.pid_outside);
            let ending = match rank.ending {
                None | Some(Ending::Exit(0)) => None,
                Some(ending) => Some(Told(ending).to_string()),
            };
            RankRecord {
                peer: rank.peer,
                name: rank.name.to_string(),
                process,
                times: ProcessTimes::of(process),
                leaves: rank.goodbye || rank.waits_for_all,
                ending,
                outside: rank.ending.is_none().then(|| why::outside(process)).flatten(),
                page: page.unwrap_or_default(),
                ..RankRecord::default()
            }
        };
        ranks.map(record).collect()
    }

    /// The page of a rank of this host.
    fn page(&self, local: u32) -> Option<Vec<u8>> {
        let mut page = vec![0; usize::try_from(FACTS_BYTES).ok()?];
        self.segment.as_ref()?.read_facts(local, &mut page)?;
        Facts::parse(&page).map(|_| page)
    }

    /// The ranks of this host, as their facts show them.
    fn seen(&self) -> Vec<Seen> {
        if self.segment.is_none() {
            return Vec::new();
        }
        self.records().iter().map(RankRecord::seen).collect()
    }

    /// What the facts say about a failure: it may be the consequence of a mistake, or of a rank that left while others
    /// still wait for it.
    pub(super) fn explained(&self, failure: Failure) -> Failure {
        if !self.is_whole() || self.segment.is_none() {
            return failure;
        }
        let failed: Vec<u32> = match &failure {
            Failure::Abort { rank, .. } | Failure::Ended { rank, .. } => {
                self.ranks.iter().filter(|one| one.name == *rank).map(|one| one.peer).collect()
            }
            _ => return failure,
        };
        let left = self.ranks.iter().any(|rank| failed.contains(&rank.peer) && rank.goodbye);
        let mut seen = self.seen();
        let Some(first) = seen.iter().find(|one| failed.contains(&one.peer)) else {
            return failure;
        };
        let (misses, error) = (first.failed, first.facts.error.clone());
        if misses || left || why::disagreement(&seen).is_some() {
            // Others run into the same, and then say where they are.
            std::thread::sleep(SETTLE);
            seen = self.seen();
        }
        match (why::explanation(&seen, misses, left), failure) {
            (Some(verdict), failure) => Failure::Explained {
                lines: self.hang.settings.lines(&verdict, &seen),
                verdict: verdict.0,
                failure: Box::new(failure),
            },
            (None, Failure::Ended { rank, pid, ending }) if !error.is_empty() => {
                Failure::AfterError { rank, pid, ending, error }
            }
            (None, failure) => failure,
        }
    }

    /// Mistakes of a job that has succeeded.
    pub(super) fn mistakes(&self) -> Option<String> {
        if !self.is_whole() || self.segment.is_none() {
            return None;
        }
        why::mistake(&self.seen()).map(|verdict| verdict.0)
    }
}
