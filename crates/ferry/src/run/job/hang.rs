//! Whether the job still goes on, and why not.
//!
//! The launcher looks at the facts of its ranks a few times a second. If all of them wait and nothing has changed since it
//! looked last, it asks them: each answers once it has handled all that has arrived and still has to wait. If all
//! answer twice, and none has done anything between its answers, no message was on its way when they answered first: what
//! had been sent before the second question has arrived before the second answer. So nothing can ever change, and the job
//! is stuck, whatever the time. `crate::why` finds out why.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use ferrywire_host::facts::Glance;
use ferrywire_host::nic::Peer;

use super::super::report::{Failure, Told};
use super::super::start::Rank;
use super::super::sys::Ending;
use super::{Job, Phase};
use crate::why::{self, Seen, Verdict};

/// What has been seen of the ranks so far.
pub(in super::super) struct Hang {
    /// What to do about a job that is stuck.
    settings: HangSettings,
    look_at: Instant,
    /// What was seen last, by the numbers of ranks on this host.
    last: BTreeMap<u32, Glance>,
    unchanged_since: Instant,
    /// Since when no rank has made a call.
    quiet_since: Instant,
    /// The number of the last question, and until when answers are waited for, if they are.
    question: u32,
    asked: Option<Instant>,
    /// What the ranks have done until they answered the question before.
    answers: BTreeMap<u32, u64>,
    reported: bool,
}

/// What to do about a job that is stuck.
#[derive(Clone, Copy, Debug, Default)]
pub(in super::super) struct HangSettings {
    /// Report a deadlock, but do not end the job.
    pub(in super::super) report_only: bool,
    /// All mistakes of the program are reported, and fail the job.
    pub(in super::super) check: bool,
    /// Report ranks that have made no progress for so long.
    pub(in super::super) timeout: Option<Duration>,
}

impl Hang {
    pub(in super::super) fn new(settings: HangSettings) -> Hang {
        let now = Instant::now();
        Hang {
            settings,
            look_at: now + LOOK,
            last: BTreeMap::new(),
            unchanged_since: now,
            quiet_since: now,
            question: 0,
            asked: None,
            answers: BTreeMap::new(),
            reported: false,
        }
    }
}

/// How often the launcher looks.
const LOOK: Duration = Duration::from_millis(300);
/// How often it looks for answers.
const LOOK_FOR_ANSWERS: Duration = Duration::from_millis(10);
/// How long it waits for answers before it takes the job for one that goes on.
const ANSWER_MAX: Duration = Duration::from_secs(2);
/// How a program of Rust ends that has panicked.
const PANIC: Ending = Ending::Exit(101);
/// How long ranks may take to run into the same error as the first.
const SETTLE: Duration = Duration::from_millis(100);

impl Job {
    /// When the launcher looks at the facts of ranks next, if it does.
    pub(super) fn look_at(&self) -> Option<Instant> {
        let is_due = self.course.admitted
            && self.is_whole()
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
        let glances = self.glances();
        let is_same = glances.len() == self.hang.last.len()
            && glances.iter().all(|(rank, glance)| {
                self.hang.last.get(rank).is_some_and(|before| glance.is_same(before))
            });
        let no_calls = glances.len() == self.hang.last.len()
            && glances.iter().all(|(rank, glance)| {
                self.hang.last.get(rank).is_some_and(|before| glance.calls == before.calls)
            });
        let polls = |rank: &u32| {
            let (now, before) = (glances.get(rank), self.hang.last.get(rank));
            now.zip(before).is_some_and(|(now, before)| now.polls != before.polls)
        };
        let polling: Vec<u32> = glances.keys().copied().filter(polls).collect();
        if !no_calls {
            self.hang.quiet_since = now;
        }
        let all_wait = !glances.is_empty() && glances.values().all(|glance| glance.waiting > 0);
        let is_stuck = is_same && all_wait && self.spawning.is_empty();
        if !is_stuck {
            self.hang.unchanged_since = now;
            self.hang.asked = None;
            self.hang.answers.clear();
        }
        self.hang.last = glances;
        if is_stuck {
            self.ask_and_hear(now);
        }
        let is_late = |limit: Duration| now.duration_since(self.hang.quiet_since) >= limit;
        if !self.hang.reported && self.hang.settings.timeout.is_some_and(is_late) {
            self.hang.reported = true;
            self.report_slow(&polling);
        }
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
        let Some(segment) = &self.segment else { return };
        let mut answers = BTreeMap::new();
        for &rank in self.hang.last.keys() {
            let Some(facts) = segment.facts(rank) else { return };
            let answer = facts.answer;
            let may_go_on =
                answer.in_flight || answer.other_threads || answer.several_planes || !answer.waiter;
            if may_go_on {
                self.hang.answers.clear();
                return;
            }
            answers.insert(rank, answer.activity);
        }
        if self.hang.answers != answers {
            self.hang.answers = answers;
            // The next question follows at once.
            self.hang.look_at = now;
            return;
        }
        if self.hang.reported {
            return;
        }
        self.hang.reported = true;
        let seen = self.seen(&[]);
        let verdict = why::deadlock(&seen);
        let lines = why::groups(&seen);
        match self.hang.settings.report_only {
            true => self.say_verdict(&verdict, &lines),
            false => self.fail(Failure::Stuck { verdict: verdict.0, lines }),
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
        let mut seen = self.seen(&[]);
        for one in &mut seen {
            let local = self.here.local_rank(Peer(one.peer)).map(|rank| rank.0);
            one.polls = local.is_some_and(|rank| polling.contains(&rank));
        }
        let verdict = why::slow(&seen, self.hang.quiet_since.elapsed());
        let lines = why::groups(&seen);
        self.say_verdict(&verdict, &lines);
    }

    fn say_verdict(&mut self, verdict: &Verdict, lines: &[String]) {
        self.err.say(&format!("ferry run: {}", verdict.0));
        for line in lines {
            self.err.say(&format!("ferry run:   {line}"));
        }
    }

    /// The ranks of this host, as their facts show them. The last calls of those in `failed` cannot succeed.
    fn seen(&self, failed: &[u32]) -> Vec<Seen> {
        let Some(segment) = &self.segment else { return Vec::new() };
        let ranks = self.ranks.iter().filter(|rank| !rank.dismissed);
        ranks
            .map(|rank| {
                let local = self.here.local_rank(Peer(rank.peer));
                let facts = local.and_then(|Peer(local)| segment.facts(local)).unwrap_or_default();
                let failed = failed.contains(&rank.peer) || facts.missing.is_some();
                let ending = match rank.ending {
                    None | Some(Ending::Exit(0)) => None,
                    Some(ending) => Some(Told(ending).to_string()),
                };
                let outside = (facts.waiting == 0 && rank.ending.is_none())
                    .then(|| why::outside(rank.hello.map_or(0, |process| process.pid_outside)));
                Seen {
                    peer: rank.peer,
                    name: rank.name.to_string(),
                    facts,
                    failed,
                    ending,
                    outside: outside.flatten(),
                    polls: false,
                }
            })
            .collect()
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
        if let Some(panic) = self.panic_behind(&failed) {
            return panic;
        }
        let own = |seen: &[Seen]| {
            let one = seen.iter().find(|one| failed.contains(&one.peer));
            one.map(|one| (one.facts.missing.is_some(), one.facts.error.clone()))
        };
        let Some((misses, error)) = own(&self.seen(&[])) else { return failure };
        let left = failed.iter().any(|&peer| {
            let here = self.ranks.iter().find(|rank| rank.peer == peer);
            here.is_some_and(|rank| rank.goodbye)
        });
        if misses || left || why::disagreement(&self.seen(&[])).is_some() {
            // Others run into the same, and then say where they are.
            std::thread::sleep(SETTLE);
        }
        let missing: Vec<u32> = if misses { failed } else { Vec::new() };
        let seen = self.seen(&missing);
        // A rank that ended with an error has left in order, and others miss it.
        let misses = misses || left && seen.iter().any(|one| one.failed);
        let verdict = match why::disagreement(&seen) {
            Some(mistake) => Some(mistake),
            None => misses.then(|| why::deadlock(&seen)),
        };
        match (verdict, failure) {
            (Some(verdict), failure) => Failure::Explained {
                verdict: verdict.0,
                lines: why::groups(&seen),
                failure: Box::new(failure),
            },
            (None, Failure::Ended { rank, pid, ending }) if !error.is_empty() => {
                Failure::AfterError { rank, pid, ending, error }
            }
            (None, failure) => failure,
        }
    }

    /// The panic of a rank that has failed, or of another that has ended by one.
    fn panic_behind(&self, failed: &[u32]) -> Option<Failure> {
        let is_cause = |rank: &&Rank| match rank.ending {
            Some(ending) => matches!(ending, PANIC | Ending::Signal(libc::SIGABRT)),
            // It ends the job.
            None => failed.contains(&rank.peer),
        };
        let (own, others): (Vec<_>, Vec<_>) =
            self.ranks.iter().filter(is_cause).partition(|rank| failed.contains(&rank.peer));
        own.into_iter().chain(others).find_map(|rank| {
            let Peer(local) = self.here.local_rank(Peer(rank.peer))?;
            let facts = self.segment.as_ref()?.facts(local).filter(|facts| facts.panicked)?;
            let (place, text) = facts.error.split_once('\n')?;
            let lines: Vec<&str> = text.lines().map(str::trim).collect();
            Some(Failure::Panicked {
                rank: rank.name,
                pid: rank.pid,
                ending: rank.ending.unwrap_or(PANIC),
                text: lines.join(", "),
                place: place.into(),
            })
        })
    }

    /// Whether mistakes of the program fail the job.
    pub(super) fn is_checked(&self) -> bool {
        self.hang.settings.check
    }

    /// Mistakes of the program: all that were found if it is checked, else one that is certain. Those that follow from the
    /// order of calls are only known if the job has not failed.
    pub(super) fn mistakes(&self) -> Vec<String> {
        if !self.is_whole() || self.segment.is_none() {
            return Vec::new();
        }
        let seen = self.seen(&[]);
        let has_failed = self.course.failure.is_some();
        if !self.is_checked() {
            let certain = || {
                let first =
                    why::disagreement(&seen).or_else(|| why::found(&seen).into_iter().next());
                first.or_else(|| why::unfinished(&seen))
            };
            return if has_failed { None } else { certain() }.map(|it| it.0).into_iter().collect();
        }
        let mut mistakes: Vec<Verdict> = why::found(&seen);
        if !has_failed {
            mistakes.splice(0..0, why::disagreement(&seen));
            mistakes.extend(why::mismatches(&seen));
        }
        let listed = mistakes.len().min(MISTAKES_MAX);
        let more = mistakes.len() - listed;
        let mut lines: Vec<String> =
            mistakes.into_iter().take(listed).map(|mistake| mistake.0).collect();
        if more > 0 {
            lines.push(format!("and {more} more mistakes"));
        }
        lines
    }
}

/// How many mistakes are listed.
const MISTAKES_MAX: usize = 20;
