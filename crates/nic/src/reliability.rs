//! Reliability on rails that lose, repeat or reorder frames: sequence numbers, acks, retries, repeat detection.
//!
//! One `Reliability` serves both directions of one peer. Frames carry a sequence number within an epoch, a
//! cumulative ack and a bit for each of the 64 frames beyond it. More frames than those may be in flight: an early
//! frame further ahead is acked when the gap before it has closed. A frame stays in flight, as an envelope and a
//! span, until it is acked; early frames wait, as bytes, until the gap before them closes. `Reliability` decides
//! when a frame is retried; the NIC sends it.

use alloc::boxed::Box;
use alloc::collections::VecDeque;

use crate::congestion::Congestion;
use crate::envelope::{Kind, Marks};
use crate::limits::Limits;
use crate::silence::Silence;
use crate::types::{Span, Ticket, Time};

#[derive(Debug)]
pub(crate) struct Reliability {
    // To the peer.
    epoch: u32,
    next: u32,
    flying: VecDeque<Flying>,
    /// Frames of `flying` that are believed to be on the way.
    out: u32,
    /// Frames of `flying` that are believed to be lost: they are retried as soon as there is room.
    lost: u32,
    /// Frames of `flying` that have arrived before their predecessors.
    ahead: u32,
    /// Frames sent since an ack was requested or received.
    unasked: u32,
    congestion: Congestion,
    round_trip: RoundTrip,
    backoff: u32,
    retry_at: Option<Time>,
    /// The peer owes an ack while `flying` is not empty.
    silence: Silence,

    // From the peer.
    peer_epoch: u32,
    expected: u32,
    /// Frames after `expected`: the first is `expected + 1`.
    early: VecDeque<Option<Box<[u8]>>>,
    unacked: u32,
    ack_at: Option<Time>,
}

/// A frame that has been sent and not acked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flying {
    pub(crate) sequence: u32,
    pub(crate) kind: Kind,
    pub(crate) payload: Span,
    /// The operation that ends or continues when the frame has arrived.
    pub(crate) ticket: Option<Ticket>,
    sent_at: Time,
    tries: u32,
    arrived: bool,
    lost: bool,
}

/// How the sequence number of an arriving frame compares with the expected one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum SequenceCheck {
    /// It is the expected frame.
    Next,
    /// An earlier frame is missing.
    Early,
    /// It has already arrived.
    Repeat,
    /// It is from an old epoch, or too far ahead.
    Stray,
}

/// How far a frame may be ahead of the expected one.
pub(crate) const AHEAD_MAX: u32 = 256;

/// How far ahead the bits of an ack reach.
const REACH: u32 = u64::BITS;

impl Reliability {
    pub(crate) fn new(epoch: u32) -> Reliability {
        Reliability {
            epoch,
            next: 0,
            flying: VecDeque::new(),
            out: 0,
            lost: 0,
            ahead: 0,
            unasked: 0,
            congestion: Congestion::new(),
            round_trip: RoundTrip::default(),
            backoff: 0,
            retry_at: None,
            silence: Silence::default(),
            peer_epoch: 0,
            expected: 0,
            early: VecDeque::new(),
            unacked: 0,
            ack_at: None,
        }
    }

    /// Begins a new epoch towards the peer, which may have forgotten the last one. The other direction is not
    /// affected.
    pub(crate) fn renew(&mut self, epoch: u32) {
        self.give_up();
        self.epoch = epoch;
        self.next = 0;
    }

    /// Stops retrying a farewell: it was the last frame, and nothing depends on it.
    pub(crate) fn give_up(&mut self) {
        let over = self.flying.iter().all(|flight| flight.kind == Kind::Farewell);
        assert!(over, "a conversation with frames on the way is not over");
        self.flying.clear();
        (self.out, self.lost, self.ahead) = (0, 0, 0);
        self.retry_at = None;
        self.backoff = 0;
        self.silence.settle();
    }

    /// If we are much too late for a retry, it was we who were silent: that time does not count against the peer.
    pub(crate) fn wake(&mut self, now: Time, limits: &Limits) {
        let late = self.retry_at.map_or(0, |at| now.since(at));
        if late > limits.retry_ns_max {
            self.silence.excuse(late);
        }
    }

    /// Frames that have not been acknowledged, except farewells, on which nothing depends.
    pub(crate) fn unacked(&self) -> usize {
        self.flying.iter().filter(|flight| flight.kind != Kind::Farewell).count()
    }

    /// Whether everything that we sent has arrived.
    pub(crate) fn is_acked(&self) -> bool {
        self.flying.is_empty()
    }

    /// How many new frames may be sent. Lost ones go first.
    pub(crate) fn room(&self, limits: &Limits) -> u32 {
        if self.lost > 0 {
            return 0;
        }
        let flying = u32::try_from(self.flying.len()).unwrap_or(u32::MAX);
        let most = u32::from(limits.frames_in_flight_max);
        most.saturating_sub(flying).min(self.congestion.frames().saturating_sub(self.out))
    }

    /// How many new frames may be sent as a burst.
    pub(crate) fn burst_room(&self, limits: &Limits) -> u32 {
        if self.congestion.is_calm() { self.room(limits) } else { 1 }
    }

    /// Records a frame that is about to be sent, or a burst of frames whose payloads have `each` bytes; returns its
    /// marks. The frames of a burst have a sequence number each, and are retried one by one.
    pub(crate) fn launch(
        &mut self,
        kind: Kind,
        payload: Span,
        each: u64,
        ticket: Option<Ticket>,
        now: Time,
        limits: &Limits,
    ) -> Marks {
        let first = self.next;
        if self.flying.is_empty() {
            self.silence.expect(|| now);
            self.retry_at = Some(now.after(self.retry_ns(limits)));
        }
        let mut offset = 0;
        loop {
            let len = each.min(payload.len - offset);
            let is_last = offset + len == payload.len;
            self.flying.push_back(Flying {
                sequence: self.next,
                kind: kind.beyond(offset),
                payload: payload.part(offset, len),
                // Frames leave in order, so the last one stands for the burst.
                ticket: ticket.filter(|_| is_last),
                sent_at: now,
                tries: 1,
                arrived: false,
                lost: false,
            });
            self.next = self.next.wrapping_add(1);
            self.out += 1;
            self.unasked += 1;
            offset += len;
            if is_last {
                break;
            }
        }
        // Requested halfway through the frames that may be in flight, an ack arrives before they are used up.
        let asks = self.unasked * 2 >= self.congestion.frames();
        if asks {
            self.unasked = 0;
        }
        Marks { asks, ..self.marks(first) }
    }

    /// The marks of a frame that is sent now. They include all pending acks.
    pub(crate) fn marks(&mut self, sequence: u32) -> Marks {
        self.unacked = 0;
        self.ack_at = None;
        let mut also = 0;
        for (bit, slot) in self.early.iter().take(REACH as usize).enumerate() {
            also |= u64::from(slot.is_some()) << bit;
        }
        Marks {
            epoch: self.epoch,
            sequence,
            ack_epoch: self.peer_epoch,
            ack: self.expected,
            also,
            asks: false,
        }
    }

    /// The marks of a frame that only acks.
    pub(crate) fn ack_marks(&mut self) -> Marks {
        self.marks(self.next.wrapping_sub(1))
    }

    /// Whether the frame begins an epoch that is new to us.
    pub(crate) fn is_new_epoch(&self, marks: &Marks) -> bool {
        self.peer_epoch == 0 || newer(marks.epoch, self.peer_epoch)
    }

    /// Begins a new epoch of the peer; returns how many early bytes that frees.
    pub(crate) fn begin_epoch(&mut self, epoch: u32) -> usize {
        let freed = self.early.drain(..).flatten().map(|bytes| bytes.len()).sum();
        self.peer_epoch = epoch;
        self.expected = 0;
        freed
    }

    pub(crate) fn check_sequence(&self, marks: &Marks) -> SequenceCheck {
        if marks.epoch != self.peer_epoch {
            return SequenceCheck::Stray;
        }
        let ahead = marks.sequence.wrapping_sub(self.expected);
        match ahead {
            0 => SequenceCheck::Next,
            1..=AHEAD_MAX => match self.early.get(ahead as usize - 1) {
                Some(Some(_)) => SequenceCheck::Repeat,
                _ => SequenceCheck::Early,
            },
            _ if newer(self.expected, marks.sequence) => SequenceCheck::Repeat,
            _ => SequenceCheck::Stray,
        }
    }

    /// Keeps an early frame.
    pub(crate) fn keep_early(&mut self, sequence: u32, raw: &[u8]) {
        let at = sequence.wrapping_sub(self.expected) as usize - 1;
        while self.early.len() <= at {
            self.early.push_back(None);
        }
        self.early[at] = Some(raw.into());
    }

    /// Moves on to the next expected frame; returns it if it is already here.
    pub(crate) fn advance(&mut self) -> Option<Box<[u8]>> {
        self.expected = self.expected.wrapping_add(1);
        self.unacked += 1;
        self.early.pop_front().flatten()
    }

    /// Moves on by a whole burst, if its first frame is the expected one and none of the others can be here yet.
    pub(crate) fn advance_by(&mut self, marks: &Marks, frames: u32) -> bool {
        let whole = self.early.is_empty() && self.check_sequence(marks) == SequenceCheck::Next;
        if whole {
            self.expected = self.expected.wrapping_add(frames);
            self.unacked += frames;
        }
        whole
    }

    /// Schedules an ack. It is due as soon as all frames that came together are handled if `at_once` is set, if a
    /// frame is missing, or if many frames are unacked; otherwise it may be delayed.
    pub(crate) fn owe_ack(&mut self, at_once: bool, now: Time, limits: &Limits) {
        let gap = !self.early.is_empty();
        if at_once || gap || self.unacked >= limits.frames_per_ack_max {
            self.ack_at = Some(now);
        } else if self.unacked > 0 && self.ack_at.is_none() {
            self.ack_at = Some(now.after(limits.ack_ns_max));
        }
    }

    pub(crate) fn ack_is_due(&self, now: Time) -> bool {
        self.ack_at.is_some_and(|at| at <= now)
    }

    /// Handles the acks in an arriving frame. Frames that have arrived leave in order, and `settled` gets their
    /// operations.
    pub(crate) fn on_ack(
        &mut self,
        marks: &Marks,
        now: Time,
        limits: &Limits,
        mut settled: impl FnMut(Ticket),
    ) {
        if marks.ack_epoch != self.epoch {
            return;
        }
        let was_full = self.out >= self.congestion.frames();
        let mut arrivals = 0;
        let mut newest = None;
        for flight in &mut self.flying {
            let beyond = flight.sequence.wrapping_sub(marks.ack);
            let in_order = newer(marks.ack, flight.sequence);
            if !in_order && marks.also == 0 {
                break;
            }
            let ahead = (1..=REACH).contains(&beyond) && marks.also >> (beyond - 1) & 1 == 1;
            if (in_order || ahead) && !flight.arrived {
                flight.arrived = true;
                arrivals += 1;
                self.ahead += 1;
                if core::mem::take(&mut flight.lost) {
                    self.lost -= 1;
                } else {
                    self.out -= 1;
                }
                // For a frame that was sent twice, we cannot tell which of the two is acked.
                newest = (flight.tries == 1).then_some(flight.sent_at).or(newest);
            }
        }
        while self.flying.front().is_some_and(|flight| flight.arrived) {
            let flight = self.flying.pop_front().expect("there is a front");
            self.ahead -= 1;
            if let Some(ticket) = flight.ticket {
                settled(ticket);
            }
        }
        if arrivals == 0 {
            return;
        }
        if let Some(sent_at) = newest {
            self.round_trip.measure(now.since(sent_at));
        }
        self.congestion.on_arrivals(arrivals, was_full, limits.frames_in_flight_max.into());
        self.backoff = 0;
        self.unasked = 0;
        if self.flying.is_empty() {
            self.silence.settle();
            self.retry_at = None;
        } else {
            self.silence.restart(now);
            self.retry_at = Some(now.after(self.retry_ns(limits)));
        }
    }

    /// The next frame to retry at `now`: one that has been out too long or, before that, one that several later
    /// frames have overtaken.
    pub(crate) fn next_retry(&mut self, now: Time, limits: &Limits) -> Option<Flying> {
        if self.retry_at.is_some_and(|at| at <= now) {
            self.on_silence(now, limits);
        } else if self.ahead >= OVERTAKEN_MAX {
            self.look_for_overtaken(now, limits);
        }
        if self.lost == 0 || self.out >= self.congestion.frames() {
            return None;
        }
        let flight = self.flying.iter_mut().find(|flight| flight.lost)?;
        flight.lost = false;
        flight.sent_at = now;
        flight.tries += 1;
        self.lost -= 1;
        self.out += 1;
        Some(*flight)
    }

    /// A retry timeout has passed without news: frames that have been out for as long are lost.
    fn on_silence(&mut self, now: Time, limits: &Limits) {
        let timeout = self.retry_ns(limits);
        let before = self.lost;
        for flight in self.flying.iter_mut().filter(|flight| !flight.arrived && !flight.lost) {
            if now.since(flight.sent_at) >= timeout {
                flight.lost = true;
                self.lost += 1;
                self.out -= 1;
            }
        }
        if self.lost > before {
            self.backoff += 1;
            self.congestion.on_silence(self.next);
        }
        self.retry_at = Some(now.after(self.retry_ns(limits)));
    }

    /// Marks frames that several later ones have overtaken as lost, except those retried within the last round
    /// trip.
    fn look_for_overtaken(&mut self, now: Time, limits: &Limits) {
        let round_trip = self.round_trip.smooth_ns().unwrap_or(limits.retry_ns_min);
        let mut overtaken_by = self.ahead;
        for flight in &mut self.flying {
            if overtaken_by < OVERTAKEN_MAX {
                break;
            }
            if flight.arrived {
                overtaken_by -= 1;
                continue;
            }
            let recent = flight.tries > 1 && now.since(flight.sent_at) < round_trip;
            if !flight.lost && !recent {
                flight.lost = true;
                self.lost += 1;
                self.out -= 1;
                self.congestion.on_loss(flight.sequence, self.next);
            }
        }
    }

    /// Whether the peer has been silent for so long that it must be down.
    pub(crate) fn is_hopeless(&self, now: Time, limits: &Limits) -> bool {
        self.silence.is_over(now, limits)
    }

    /// When the next retry or ack is due.
    pub(crate) fn deadline(&self) -> Option<Time> {
        match (self.retry_at, self.ack_at) {
            (Some(retry), Some(ack)) => Some(retry.min(ack)),
            (one, other) => one.or(other),
        }
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.flying.is_empty() && self.early.is_empty() && self.unacked == 0
    }

    pub(crate) fn early_bytes(&self) -> usize {
        self.early.iter().flatten().map(|bytes| bytes.len()).sum()
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        size_of::<Reliability>()
            + self.flying.capacity() * size_of::<Flying>()
            + self.early.capacity() * size_of::<Option<Box<[u8]>>>()
            + self.early_bytes()
    }

    fn retry_ns(&self, limits: &Limits) -> u64 {
        let base = self.round_trip.timeout_ns().unwrap_or(limits.retry_ns_first);
        let base = base.clamp(limits.retry_ns_min, limits.retry_ns_max);
        (base << self.backoff.min(16)).min(limits.retry_ns_max)
    }
}

/// How many later frames must arrive before a frame counts as lost.
const OVERTAKEN_MAX: u32 = 3;

/// Whether sequence number `a` comes after `b`, modulo 2^32.
fn newer(a: u32, b: u32) -> bool {
    (1..1 << 31).contains(&a.wrapping_sub(b))
}

/// The measured round trip: smoothed, with its deviation, as in TCP (RFC 6298).
#[derive(Debug, Default)]
struct RoundTrip {
    smooth_ns: u64,
    deviation_ns: u64,
}

impl RoundTrip {
    fn measure(&mut self, ns: u64) {
        if self.smooth_ns == 0 {
            self.smooth_ns = ns;
            self.deviation_ns = ns / 2;
            return;
        }
        self.deviation_ns = (3 * self.deviation_ns + self.smooth_ns.abs_diff(ns)) / 4;
        self.smooth_ns = (7 * self.smooth_ns + ns) / 8;
    }

    /// `None` before the first measurement.
    fn smooth_ns(&self) -> Option<u64> {
        (self.smooth_ns > 0).then_some(self.smooth_ns)
    }

    fn timeout_ns(&self) -> Option<u64> {
        Some(self.smooth_ns()? + 4 * self.deviation_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reliability() -> (Reliability, Limits) {
        (Reliability::new(1), Limits::default())
    }

    fn launch(reliability: &mut Reliability, limits: &Limits, at: u64) -> Marks {
        reliability.launch(Kind::Ack, Span::EMPTY, 1, None, Time(at), limits)
    }

    fn ack(ack: u32, also: u64) -> Marks {
        Marks { ack_epoch: 1, ack, also, ..Marks::default() }
    }

    #[test]
    fn a_selective_ack_settles_nothing_before_the_gap_closes() {
        let (mut reliability, limits) = reliability();
        for _ in 0..4 {
            launch(&mut reliability, &limits, 0);
        }
        reliability.on_ack(&ack(0, 0b110), Time(10), &limits, |_| {});
        assert_eq!(reliability.flying.len(), 4);
        reliability.on_ack(&ack(2, 0b1), Time(20), &limits, |_| {});
        assert_eq!(reliability.flying.len(), 0);
    }

    #[test]
    fn what_is_early_beyond_the_reach_of_an_ack_is_kept_and_acked_with_the_gap() {
        let (mut reliability, _) = reliability();
        reliability.begin_epoch(7);
        for sequence in [1, REACH, REACH + 1, AHEAD_MAX] {
            let marks = Marks { epoch: 7, sequence, ..Marks::default() };
            assert_eq!(reliability.check_sequence(&marks), SequenceCheck::Early);
            reliability.keep_early(sequence, &[0]);
            assert_eq!(reliability.check_sequence(&marks), SequenceCheck::Repeat);
        }
        assert_eq!(reliability.ack_marks().also, 1 | 1 << (REACH - 1));
        assert!(reliability.advance().is_some());
        assert!(reliability.advance().is_none());
        assert_eq!(reliability.ack_marks().also, 0b11 << (REACH - 3));
    }

    #[test]
    fn a_frame_that_three_have_overtaken_goes_again_before_its_time() {
        let (mut reliability, limits) = reliability();
        for _ in 0..4 {
            launch(&mut reliability, &limits, 0);
        }
        let later = Time(limits.retry_ns_min);
        reliability.on_ack(&ack(0, 0b111), later, &limits, |_| {});
        assert_eq!(reliability.next_retry(later, &limits).map(|flight| flight.sequence), Some(0));
        assert!(reliability.next_retry(later, &limits).is_none());
    }

    #[test]
    fn what_goes_again_is_not_overtaken_at_once() {
        let (mut reliability, limits) = reliability();
        for _ in 0..4 {
            launch(&mut reliability, &limits, 0);
        }
        // All frames are sent twice, so no round trip can be measured.
        let late = reliability.deadline().expect("frames are out");
        while reliability.next_retry(late, &limits).is_some() {}
        reliability.on_ack(&ack(0, 0b111), late, &limits, |_| {});
        assert!(reliability.next_retry(late, &limits).is_none());
        let later = late.after(limits.retry_ns_min);
        assert_eq!(reliability.next_retry(later, &limits).map(|flight| flight.sequence), Some(0));
        assert!(reliability.next_retry(later, &limits).is_none());
    }

    #[test]
    fn the_retry_timeout_doubles_and_has_an_end() {
        let (mut reliability, limits) = reliability();
        launch(&mut reliability, &limits, 0);
        let mut waits = alloc::vec::Vec::new();
        let mut now = Time(0);
        for _ in 0..12 {
            let at = reliability.deadline().expect("a frame is out");
            waits.push(at.since(now));
            now = at;
            assert!(reliability.next_retry(now, &limits).is_some());
            assert!(reliability.next_retry(now, &limits).is_none());
        }
        assert_eq!(waits[1], 2 * waits[0]);
        assert_eq!(*waits.last().expect("some"), limits.retry_ns_max);
        assert!(reliability.is_hopeless(Time(limits.silence_ns_max), &limits));
    }

    #[test]
    fn after_a_silence_few_go_again_and_more_with_every_ack() {
        let (mut reliability, limits) = reliability();
        for _ in 0..12 {
            launch(&mut reliability, &limits, 0);
        }
        let again = |reliability: &mut Reliability, now| {
            core::iter::from_fn(|| reliability.next_retry(now, &limits)).count()
        };
        let late = reliability.deadline().expect("frames are out");
        assert_eq!(again(&mut reliability, late), 4);
        assert!(reliability.room(&limits) == 0, "what is lost goes first");
        reliability.on_ack(&ack(2, 0), late, &limits, |_| {});
        assert_eq!(again(&mut reliability, late), 4);
        reliability.on_ack(&ack(12, 0), late, &limits, |_| {});
        assert_eq!((reliability.out, reliability.lost, reliability.ahead), (0, 0, 0));
        assert!(reliability.room(&limits) > 0);
    }

    #[test]
    fn places_around_the_wrap() {
        let (mut reliability, _) = reliability();
        reliability.begin_epoch(7);
        reliability.expected = u32::MAX;
        let at = |sequence| Marks { epoch: 7, sequence, ..Marks::default() };
        assert_eq!(reliability.check_sequence(&at(u32::MAX)), SequenceCheck::Next);
        assert_eq!(reliability.check_sequence(&at(0)), SequenceCheck::Early);
        assert_eq!(reliability.check_sequence(&at(u32::MAX - 1)), SequenceCheck::Repeat);
        assert_eq!(reliability.check_sequence(&at(AHEAD_MAX)), SequenceCheck::Stray);
        reliability.keep_early(0, &[1]);
        assert_eq!(reliability.check_sequence(&at(0)), SequenceCheck::Repeat);
        assert_eq!(reliability.advance().as_deref(), Some(&[1][..]));
    }
}
