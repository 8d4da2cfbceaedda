//! Silence: since when a peer owes a sign of life, when to ask for it, and when to give the peer up.
//!
//! A host that loses its power or its cable says nothing, and neither do most rails. So a peer that was sent
//! something owes a sign of life. On a rail that loses frames, every unacked frame is a question, and retries repeat
//! it: there only the clock of `Silence` is used. On a reliable rail the NIC sends [`crate::Kind::Ask`], once for each
//! silence, and the answer to it settles everything sent before it. Any other frame was perhaps sent before ours, and
//! only shows that the peer was there until then.

use alloc::vec::Vec;

use crate::canary::Bug;
use crate::envelope::Kind;
use crate::limits::Limits;
use crate::nic::{Nic, Variant};
use crate::peers::{At, PeerState};
use crate::port::{Port, Progress};
use crate::types::{Peer, Span, Time};

/// What one peer owes.
#[derive(Debug, Default)]
pub(crate) struct Silence {
    owes: bool,
    question: Question,
    /// When it began to owe something, or was last heard since.
    since: Time,
    /// When it was last checked.
    looked: Time,
    /// Reads of its memory in progress, which bring no frames.
    reads: u32,
}

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum Question {
    #[default]
    None,
    /// Asked, and nothing was sent since.
    Last,
    /// Asked, and frames were sent since, which the answer does not cover.
    Overtaken,
}

/// What to do about a peer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Concern {
    Nothing,
    Ask,
    GiveUp,
}

impl Silence {
    /// The peer was sent something. True if it owed nothing before.
    pub(crate) fn expect(&mut self, now: impl FnOnce() -> Time) -> bool {
        if self.question == Question::Last {
            self.question = Question::Overtaken;
        }
        if self.owes {
            return false;
        }
        let now = now();
        *self = Silence { owes: true, since: now, looked: now, ..*self };
        true
    }

    pub(crate) fn begin_read(&mut self, now: impl FnOnce() -> Time) -> bool {
        self.reads += 1;
        self.expect(now)
    }

    pub(crate) fn end_read(&mut self) {
        self.reads -= 1;
    }

    /// The peer was heard, and still owes something.
    pub(crate) fn restart(&mut self, now: Time) {
        self.since = now;
    }

    /// The peer owes nothing any more.
    pub(crate) fn settle(&mut self) {
        self.owes = false;
    }

    /// The peer has answered our question.
    pub(crate) fn on_answer(&mut self) {
        if self.question == Question::Last && self.reads == 0 {
            self.settle();
        }
        self.question = Question::None;
    }

    /// Time that does not count, because we did not listen.
    pub(crate) fn excuse(&mut self, ns: u64) {
        self.since = self.since.after(ns);
    }

    /// Asks ahead of time; false if the peer owes nothing, or is being asked.
    fn ask_now(&mut self) -> bool {
        let asks = self.owes && self.question == Question::None;
        if asks {
            self.question = Question::Last;
        }
        asks
    }

    pub(crate) fn owes(&self) -> bool {
        self.owes
    }

    /// Whether the peer has been silent for so long that it must be down.
    pub(crate) fn is_over(&self, now: Time, limits: &Limits) -> bool {
        self.owes && now.since(self.since) >= limits.silence_ns_max
    }

    /// Checks the peer, on a reliable rail. `heard`, which is cleared unless it is too early for a check: it was heard
    /// since the last check, or since it began to owe something.
    pub(crate) fn look(&mut self, now: Time, heard: &mut bool, limits: &Limits) -> Concern {
        let Some(late) = self.deadline(limits).filter(|&at| at <= now).map(|at| now.since(at))
        else {
            return Concern::Nothing;
        };
        self.looked = now;
        if core::mem::take(heard) {
            self.restart(now);
        } else if late > limits.ask_ns {
            self.excuse(late);
        }
        if self.is_over(now, limits) {
            self.settle();
            return Concern::GiveUp;
        }
        if self.question != Question::None || now.since(self.since) < limits.ask_ns {
            return Concern::Nothing;
        }
        self.question = Question::Last;
        Concern::Ask
    }

    /// When to check it next, on a reliable rail.
    pub(crate) fn deadline(&self, limits: &Limits) -> Option<Time> {
        let next = self.looked.after(limits.ask_ns);
        self.owes.then(|| next.min(self.since.after(limits.silence_ns_max)))
    }
}

impl<V: Variant> Nic<V> {
    /// Notes that a peer was sent something on a reliable rail, if such peers may vanish.
    #[inline(never)]
    pub(crate) fn expect_sign(&mut self, at: At, port: &mut impl Port) {
        self.watch(at, |silence| silence.expect(|| port.clock()));
    }

    /// Notes that the memory of a peer is being read.
    pub(crate) fn begin_read(&mut self, at: At, port: &mut impl Port) {
        self.watch(at, |silence| silence.begin_read(|| port.clock()));
    }

    /// Notes that a read of a peer's memory is over: a sign of life.
    pub(crate) fn end_read(&mut self, at: At) {
        let state = &mut self.peers[at];
        state.heard = true;
        if let Some(silence) = &mut state.silence {
            silence.end_read();
        }
    }

    fn watch(&mut self, at: At, begins: impl FnOnce(&mut Silence) -> bool) {
        let state = &mut self.peers[at];
        let Some(silence) = &mut state.silence else { return };
        if begins(silence) {
            state.heard = false;
            self.tend(at);
        }
    }

    /// Asks a silent peer for a sign of life, or gives it up.
    pub(crate) fn look_after(&mut self, at: At, now: Time, port: &mut impl Port) {
        let state = &mut self.peers[at];
        let Some(silence) = &mut state.silence else { return };
        match silence.look(now, &mut state.heard, &self.limits) {
            Concern::Nothing => {}
            Concern::Ask => {
                self.stats.signs += 1;
                self.send(at, Kind::Ask, Span::EMPTY, None, port);
            }
            Concern::GiveUp => {
                let peer = state.peer;
                self.give_up(peer, port);
            }
        }
    }

    /// Asks all peers on reliable rails that owe a sign of life for one, at once: their answers acknowledge what was sent.
    /// True if there are any.
    pub fn ask_all(&mut self, port: &mut impl Port) -> bool {
        let owes = |state: &PeerState| state.silence.as_ref().is_some_and(|it| it.owes());
        let peers: Vec<Peer> =
            self.peers.iter().filter(|state| owes(state)).map(|state| state.peer).collect();
        for &peer in &peers {
            let Some(at) = self.peers.find(peer) else { continue };
            if self.peers[at].silence.as_mut().is_some_and(|silence| silence.ask_now()) {
                self.stats.signs += 1;
                self.send(at, Kind::Ask, Span::EMPTY, None, port);
            }
        }
        self.settle(port);
        !peers.is_empty()
    }

    /// Gives up a silent peer; false if that has to wait.
    pub(crate) fn give_up(&mut self, peer: Peer, port: &mut impl Port) -> bool {
        let now = !V::has(Bug::NeverGivenUp) && port.give_up(peer) == Progress::Done;
        if now {
            self.lose(peer, port);
        }
        now
    }

    /// A peer asks whether we are there.
    pub(crate) fn on_ask(&mut self, at: At, port: &mut impl Port) {
        match self.peers[at].promises.reliable {
            true if V::has(Bug::NeverAnswered) => {}
            true => {
                // The question and the answer.
                self.stats.signs += 2;
                self.reply(at, Kind::Ack, port);
            }
            false => self.stats.malformed += 1,
        }
    }

    /// A peer has answered our question.
    pub(crate) fn on_ack(&mut self, at: At) {
        self.stats.signs += 1;
        if let Some(silence) = &mut self.peers[at].silence {
            silence.on_answer();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: fn() -> Limits = Limits::default;

    fn at(seconds: u64) -> Time {
        Time(seconds * 1_000_000_000)
    }

    fn look(silence: &mut Silence, second: u64, mut heard: bool) -> Concern {
        silence.look(at(second), &mut heard, &LIMITS())
    }

    #[test]
    fn a_question_ahead_of_time_is_one_question() {
        let mut silence = Silence::default();
        assert!(!silence.ask_now(), "it owes nothing");
        silence.expect(|| at(0));
        assert!(silence.ask_now() && !silence.ask_now());
        assert_eq!(look(&mut silence, 1, false), Concern::Nothing);
        silence.expect(|| at(1));
        assert!(!silence.ask_now(), "the question was sent before the last frame");
        silence.on_answer();
        assert!(silence.owes() && silence.ask_now());
        silence.on_answer();
        assert!(!silence.owes());
    }

    #[test]
    fn a_silent_peer_is_asked_once_and_then_given_up() {
        let mut silence = Silence::default();
        assert_eq!(silence.deadline(&LIMITS()), None);
        assert!(silence.expect(|| at(0)));
        assert_eq!(silence.deadline(&LIMITS()), Some(at(1)));
        assert_eq!(look(&mut silence, 0, false), Concern::Nothing);
        assert_eq!(look(&mut silence, 1, false), Concern::Ask);
        for second in 2..10 {
            assert_eq!(look(&mut silence, second, false), Concern::Nothing);
        }
        assert!(silence.owes());
        assert_eq!(look(&mut silence, 10, false), Concern::GiveUp);
        assert!(!silence.owes());
        assert_eq!(look(&mut silence, 11, false), Concern::Nothing);
    }

    #[test]
    fn a_peer_that_answers_is_not_asked_until_the_next_message() {
        let mut silence = Silence::default();
        for round in 0..100 {
            assert!(silence.expect(|| at(2 * round)));
            assert!(!silence.expect(|| unreachable!("the clock is read once")));
            assert_eq!(look(&mut silence, 2 * round + 1, false), Concern::Ask);
            silence.on_answer();
            assert_eq!(silence.deadline(&LIMITS()), None);
            assert_eq!(look(&mut silence, 2 * round + 2, true), Concern::Nothing);
        }
    }

    #[test]
    fn what_was_heard_before_it_was_spoken_to_is_no_answer() {
        let mut silence = Silence::default();
        silence.expect(|| at(0));
        // It was heard and then spoken to, or the other way round.
        assert_eq!(look(&mut silence, 1, true), Concern::Nothing);
        assert_eq!(look(&mut silence, 2, false), Concern::Ask);
        // It is spoken to again, and then answers the question.
        silence.expect(|| unreachable!("it owes already"));
        silence.on_answer();
        assert_eq!(look(&mut silence, 3, true), Concern::Nothing);
        assert_eq!(look(&mut silence, 4, false), Concern::Ask);
        // Something else than the answer arrives.
        assert_eq!(look(&mut silence, 5, true), Concern::Nothing);
        for second in 6..15 {
            assert_eq!(look(&mut silence, second, false), Concern::Nothing);
        }
        assert_eq!(look(&mut silence, 15, false), Concern::GiveUp);
    }

    #[test]
    fn a_check_that_is_too_early_forgets_nothing() {
        let mut silence = Silence::default();
        let mut heard = true;
        silence.expect(|| at(1));
        assert_eq!(silence.look(at(1), &mut heard, &LIMITS()), Concern::Nothing);
        assert!(heard);
        assert_eq!(silence.look(at(2), &mut heard, &LIMITS()), Concern::Nothing);
        assert!(!heard);
        assert_eq!(silence.look(at(3), &mut heard, &LIMITS()), Concern::Ask);
    }

    #[test]
    fn a_peer_that_is_read_from_is_asked_until_the_read_is_over() {
        let mut silence = Silence::default();
        silence.begin_read(|| at(0));
        for second in [1, 3, 5] {
            assert_eq!(look(&mut silence, second, false), Concern::Ask);
            silence.on_answer();
            assert_eq!(look(&mut silence, second + 1, true), Concern::Nothing);
        }
        silence.end_read();
        assert_eq!(look(&mut silence, 7, false), Concern::Ask);
        silence.on_answer();
        assert!(!silence.owes());
    }

    #[test]
    fn time_in_which_we_did_not_listen_does_not_count() {
        let mut silence = Silence::default();
        silence.expect(|| at(0));
        assert_eq!(look(&mut silence, 1, false), Concern::Ask);
        assert_eq!(look(&mut silence, 100, false), Concern::Nothing);
        for second in 101..108 {
            assert_eq!(look(&mut silence, second, false), Concern::Nothing);
        }
        assert_eq!(look(&mut silence, 108, false), Concern::GiveUp);
    }
}
