//! Sending and receiving frames.
//!
//! On a reliable rail a frame goes out as it is. On any other it goes through the reliability layer, which keeps
//! it until it is acked and restores the order of incoming frames.

use alloc::boxed::Box;

use crate::canary::Bug;
use crate::envelope::{Envelope, Kind, Marks};
use crate::nic::{Nic, Variant};
use crate::peers::{At, Outgoing};
use crate::port::{Port, Sent};
use crate::reliability::{Reliability, SequenceCheck};
use crate::types::{Span, Ticket, Time};

impl<V: Variant> Nic<V> {
    /// Handles a frame from a rail that loses, repeats or reorders.
    pub(crate) fn on_sequenced(
        &mut self,
        at: At,
        marks: &Marks,
        envelope: &Envelope,
        payload: &[u8],
        raw: &[u8],
        port: &mut impl Port,
    ) {
        let now = port.now();
        if self.reliability(at).is_new_epoch(marks) {
            self.early_bytes -= self.reliability(at).begin_epoch(marks.epoch);
            self.begin_anew(at);
        }
        self.on_marks(at, marks, now, port);
        if payload.len() > self.payload_bytes_max(at) as usize {
            self.on_burst(at, marks, envelope.kind, payload, port);
        } else if envelope.kind == Kind::Ack {
            self.stats.signs += 1;
        } else {
            let check = match self.reliability(at).check_sequence(marks) {
                SequenceCheck::Repeat if V::has(Bug::RepeatAccepted) => {
                    self.absorb(at, envelope.kind, payload, port);
                    SequenceCheck::Repeat
                }
                check => check,
            };
            match check {
                SequenceCheck::Next => self.absorb_in_order(at, envelope.kind, payload, port),
                SequenceCheck::Early => self.keep_early(at, marks.sequence, raw),
                SequenceCheck::Repeat | SequenceCheck::Stray => self.stats.repeats += 1,
            }
            // A repeat is acked again: our first ack may have been lost.
            if let Some(reliability) = self.peers[at].reliability.as_mut() {
                reliability.owe_ack(marks.asks || check != SequenceCheck::Next, now, &self.limits);
            }
        }
        self.pump(at, port);
        self.tend(at);
    }

    /// Handles a burst of chunks, as if each had come alone.
    fn on_burst(
        &mut self,
        at: At,
        marks: &Marks,
        kind: Kind,
        payload: &[u8],
        port: &mut impl Port,
    ) {
        if !matches!(kind, Kind::Chunk { .. }) {
            self.stats.malformed += 1;
            return;
        }
        let each = self.payload_bytes_max(at) as usize;
        let frames = u32::try_from(payload.len().div_ceil(each)).unwrap_or(u32::MAX);
        let whole = self.reliability(at).advance_by(marks, frames);
        if whole {
            self.absorb(at, kind, payload, port);
        } else {
            let mut sequence = marks.sequence;
            let mut offset = 0;
            for part in payload.chunks(each) {
                let marks = Some(Marks { sequence, ..*marks });
                let envelope = Envelope { job: self.job, marks, kind: kind.beyond(offset) };
                self.on_part(at, &envelope, part, port);
                sequence = sequence.wrapping_add(1);
                offset += each as u64;
            }
        }
        let now = port.now();
        if let Some(reliability) = self.peers[at].reliability.as_mut() {
            reliability.owe_ack(marks.asks || !whole, now, &self.limits);
        }
    }

    /// Handles one chunk of a burst that comes early or late.
    fn on_part(&mut self, at: At, envelope: &Envelope, part: &[u8], port: &mut impl Port) {
        let marks = envelope.marks.expect("it has just got them");
        match self.reliability(at).check_sequence(&marks) {
            SequenceCheck::Next => self.absorb_in_order(at, envelope.kind, part, port),
            SequenceCheck::Early => {
                let mut head = [0; Envelope::BYTES_MAX];
                let len = envelope.emit(&mut head);
                self.keep_early(at, marks.sequence, &[&head[..len], part].concat());
            }
            SequenceCheck::Repeat | SequenceCheck::Stray => self.stats.repeats += 1,
        }
    }

    fn absorb_in_order(&mut self, at: At, kind: Kind, payload: &[u8], port: &mut impl Port) {
        // Counted before it is handled, so that a reply to it acks it too.
        let mut early = self.reliability(at).advance();
        self.absorb(at, kind, payload, port);
        while let Some(raw) = early {
            self.early_bytes -= raw.len();
            let (envelope, payload) = Envelope::parse(&raw).expect("it was parsed when it came");
            early = self.reliability(at).advance();
            self.absorb(at, envelope.kind, payload, port);
        }
    }

    /// Keeps an early frame if there is room; otherwise its sender retries it.
    fn keep_early(&mut self, at: At, sequence: u32, raw: &[u8]) {
        if self.early_bytes + raw.len() <= self.limits.early_bytes_max as usize {
            self.early_bytes += raw.len();
            self.reliability(at).keep_early(sequence, raw);
        }
    }

    /// Handles the ack in a frame: settles what has arrived, retries what seems lost.
    fn on_marks(&mut self, at: At, marks: &Marks, now: Time, port: &mut impl Port) {
        let mut marks = *marks;
        if V::has(Bug::AckForgets) && marks.also != 0 {
            marks.ack = marks.ack.wrapping_add(1);
        }
        let Some(reliability) = self.peers[at].reliability.as_mut() else { return };
        let mut settled = core::mem::take(&mut self.settled);
        reliability.on_ack(&marks, now, &self.limits, |ticket| settled.push(ticket));
        for ticket in settled.drain(..) {
            self.on_sent(ticket, port);
        }
        self.settled = settled;
        self.retry(at, now, port);
    }

    pub(crate) fn retry(&mut self, at: At, now: Time, port: &mut impl Port) {
        let state = &mut self.peers[at];
        let Some(reliability) = state.reliability.as_mut() else { return };
        while let Some(flight) = reliability.next_retry(now, &self.limits) {
            let marks = Some(Marks { asks: true, ..reliability.marks(flight.sequence) });
            let envelope = Envelope { job: self.job, marks, kind: flight.kind };
            self.stats.retries += 1;
            self.stats.frames_sent += 1;
            if port.transmit(state.peer, &envelope, flight.payload) == Sent::Full {
                break;
            }
        }
    }

    /// Retries and acks what is due on a rail that may lose it, or gives up a peer that does not ack.
    pub(crate) fn look_after_frames(&mut self, at: At, now: Time, port: &mut impl Port) {
        let state = &mut self.peers[at];
        let (peer, talking) = (state.peer, state.talking);
        let Some(reliability) = state.reliability.as_mut() else { return };
        reliability.wake(now, &self.limits);
        if reliability.is_hopeless(now, &self.limits) {
            if !talking {
                // Only a farewell is out, and we want nothing from the peer: the next operation with it will find
                // out whether it is alive.
                return reliability.give_up();
            }
            if self.give_up(peer, port) {
                return;
            }
        }
        self.ack_if_due(at, now, port);
        self.retry(at, now, port);
    }

    fn ack_if_due(&mut self, at: At, now: Time, port: &mut impl Port) {
        let state = &mut self.peers[at];
        let Some(reliability) = state.reliability.as_mut() else { return };
        if !reliability.ack_is_due(now) {
            return;
        }
        let marks = Some(reliability.ack_marks());
        let envelope = Envelope { job: self.job, marks, kind: Kind::Ack };
        self.stats.frames_sent += 1;
        self.stats.signs += 1;
        // If the rail is full, the ack is lost, as it might be anyway: the peer will ask again.
        let _ = port.transmit(state.peer, &envelope, Span::EMPTY);
    }

    fn reliability(&mut self, at: At) -> &mut Reliability {
        let epochs = &mut self.epochs;
        self.peers[at].reliability.get_or_insert_with(|| {
            *epochs += 1;
            Box::new(Reliability::new(*epochs))
        })
    }

    /// Sends a frame to a peer, now or as soon as its rail has room, replies before requests.
    pub(crate) fn send(
        &mut self,
        at: At,
        kind: Kind,
        payload: Span,
        ticket: Option<Ticket>,
        port: &mut impl Port,
    ) {
        // A peer that is down needs no answer, and must have no timers.
        if self.peers[at].down {
            return;
        }
        let outgoing = Outgoing { kind, payload, ticket };
        if self.peers[at].backlog.is_some() || !self.put_on_rail(at, outgoing, port) {
            let backlog = self.peers[at].backlog();
            let line = if kind.is_reply() { &mut backlog.replies } else { &mut backlog.requests };
            line.push_back(outgoing);
            self.pump(at, port);
        }
        self.tend(at);
    }

    pub(crate) fn reply(&mut self, at: At, kind: Kind, port: &mut impl Port) {
        self.send(at, kind, Span::EMPTY, None, port);
    }

    /// Puts one frame on the rail; false if the rail has no room or too many frames are in flight.
    #[inline]
    fn put_on_rail(&mut self, at: At, outgoing: Outgoing, port: &mut impl Port) -> bool {
        let Outgoing { kind, payload, ticket } = outgoing;
        let state = &mut self.peers[at];
        if !state.promises.reliable {
            return self.launch(at, outgoing, port);
        }
        let envelope = Envelope { job: self.job, marks: None, kind };
        let sent = port.transmit(state.peer, &envelope, payload);
        // A frame that found no room counts too: a peer that takes none may be gone.
        let owed = !matches!(kind, Kind::Ask | Kind::Ack | Kind::Farewell);
        if owed && state.silence.is_some() {
            self.expect_sign(at, port);
        }
        if sent == Sent::Full {
            return false;
        }
        self.peers[at].talking = kind != Kind::Farewell;
        self.stats.frames_sent += 1;
        if let Some(ticket) = ticket {
            self.on_sent(ticket, port);
        }
        true
    }

    /// Puts one frame on a rail that may lose it.
    fn launch(&mut self, at: At, outgoing: Outgoing, port: &mut impl Port) -> bool {
        let Outgoing { kind, payload, ticket } = outgoing;
        // The exact time: the caller may have been away for long, and a frame that looks old is retried at once.
        let now = port.clock();
        self.reliability(at);
        let state = &mut self.peers[at];
        let reliability = state.reliability.as_mut().expect("just made");
        let each = u64::from(state.promises.payload_bytes_max());
        let frames = payload.len.div_ceil(each).max(1);
        if u64::from(reliability.room(&self.limits)) < frames {
            return false;
        }
        if !state.talking {
            // The peer may have received our farewell, acked or not, and may have forgotten us since. A new epoch
            // implies all that the farewell says, so the farewell need not arrive.
            self.epochs += 1;
            reliability.renew(self.epochs);
        }
        state.talking = kind != Kind::Farewell;
        let marks = Some(reliability.launch(kind, payload, each, ticket, now, &self.limits));
        self.stats.frames_sent += frames;
        // A frame that finds the rail full counts as lost, and is retried.
        let _ = port.transmit(state.peer, &Envelope { job: self.job, marks, kind }, payload);
        true
    }

    /// Sends what waits for a peer, as far as there is room.
    ///
    /// What is sent is out of the backlog before it goes: its end may let a module go on, which sends to the same peer,
    /// so that this is called again from within.
    pub(crate) fn pump(&mut self, at: At, port: &mut impl Port) {
        while let Some(backlog) = self.peers[at].backlog.as_mut() {
            let writers_turn = backlog.requests.is_empty() || !backlog.writer_had_turn;
            if let Some(reply) = backlog.replies.pop_front() {
                if !self.put_on_rail(at, reply, port) {
                    return self.peers[at].backlog().replies.push_front(reply);
                }
            } else if writers_turn && let Some(writer) = backlog.writers.pop_front() {
                let more = self.write_chunk(at, writer, port);
                let in_order = self.ops.find(writer).is_some_and(|op| op.state.keeps_order())
                    && !V::has(Bug::AccumulatesOvertake);
                let backlog = self.peers[at].backlog();
                match more {
                    None => return backlog.writers.push_front(writer),
                    Some(true) if in_order => backlog.writers.push_front(writer),
                    Some(true) => backlog.writers.push_back(writer),
                    Some(false) => {}
                }
                backlog.writer_had_turn = true;
            } else if let Some(request) = backlog.requests.pop_front() {
                if !self.put_on_rail(at, request, port) {
                    return self.peers[at].backlog().requests.push_front(request);
                }
                self.peers[at].backlog().writer_had_turn = false;
            } else {
                self.peers[at].backlog = None;
            }
        }
    }

    /// Sends one frame of a writer, or a burst; `None` if there was no room.
    fn write_chunk(&mut self, at: At, writer: Ticket, port: &mut impl Port) -> Option<bool> {
        let burst = u64::from(self.burst_frames(at).max(1));
        let room = u64::from(self.payload_bytes_max(at));
        // The operation may have been abandoned.
        let Some(op) = self.ops.find_mut(writer) else { return Some(false) };
        let room = if op.state.goes_in_bursts() { room * burst } else { room };
        let Some((outgoing, more)) = op.state.next_chunk(writer, room) else { return Some(false) };
        if self.put_on_rail(at, outgoing, port) {
            return Some(more);
        }
        if let Some(op) = self.ops.find_mut(writer) {
            op.state.unsend(outgoing.payload.len);
        }
        None
    }

    /// How many chunks to this peer may go as one now.
    fn burst_frames(&self, at: At) -> u32 {
        let state = &self.peers[at];
        let most = u32::from(state.promises.burst_frames_max);
        match &state.reliability {
            Some(reliability) if most > 1 => reliability.burst_room(&self.limits).min(most),
            _ => 1,
        }
    }

    /// The longest payload of a frame to this peer.
    pub(crate) fn payload_bytes_max(&self, at: At) -> u32 {
        self.peers[at].promises.payload_bytes_max()
    }

    /// Lists the next deadline of a peer, unless an earlier one is listed: the timer then finds the later one.
    /// Deadlines are mostly postponed before they expire.
    pub(crate) fn tend(&mut self, at: At) {
        let state = &mut self.peers[at];
        let Some(deadline) = state.deadline(&self.limits) else { return };
        if state.listed.is_some_and(|listed| listed <= deadline) {
            return;
        }
        if let Some(listed) = state.listed.replace(deadline) {
            self.deadlines.remove(listed, state.peer);
        }
        self.deadlines.insert(deadline, state.peer);
    }
}
