//! A world that a test moves by hand: a few NICs, their memory, and the frames between them in plain queues. No
//! frame arrives and no time passes unless a test says so.
#![allow(dead_code, reason = "each test file uses its part of it")]

pub(crate) mod schedules;

use std::collections::{BTreeMap, VecDeque};

use ferrywire_nic::{
    Envelope, Holdings, Key, Kind, Limits, Mask, MatchWord, Mode, Nic, Notice, Operator, Outcome,
    Peer, Port, Posted, Probed, Progress, Promises, RailId, Received, Region, Seal, Sent, Span,
    StepRef, Ticket, Time,
};

pub(crate) const JOB: u32 = 0x5eed;

/// A rail that is ordered and lossless, and no more.
pub(crate) const PLAIN: Promises = Promises {
    rail: RailId(0),
    reliable: true,
    may_vanish: false,
    puts: false,
    gets: false,
    frame_bytes_max: 4096,
    burst_frames_max: 1,
    initial_credit_bytes: 0,
};

/// A rail that may lose, repeat and reorder.
pub(crate) const LOSSY: Promises = Promises { reliable: false, may_vanish: true, ..PLAIN };
pub(crate) const BURSTS: Promises = Promises { burst_frames_max: 44, ..LOSSY };

/// A rail that is ordered and lossless, and does not report peers that are gone.
pub(crate) const VANISHING: Promises = Promises { may_vanish: true, ..PLAIN };

/// A rail that is ordered and lossless, and can access the peer's memory.
pub(crate) const DIRECT: Promises = Promises { puts: true, gets: true, ..PLAIN };

/// The rail from a rank to itself.
pub(crate) const OWN: Promises = Promises { rail: RailId(u8::MAX), ..PLAIN };

/// Limits small enough for a test to reach.
pub(crate) fn limits() -> Limits {
    Limits {
        queues: 4,
        unexpected_bytes_max: 8192,
        eager_bytes_max: 512,
        credit_bytes: 2048,
        piece_bytes_max: 8192,
        sweep_frames_max: 4,
        // Tests follow a message by its ticket.
        copied_bytes_max: 0,
        ..Limits::default()
    }
}

/// A budget of `units` of 128 bytes and no credit: what does not fit is refused.
pub(crate) fn tight(units: u32) -> Limits {
    Limits { unexpected_bytes_max: units * 128, credit_bytes: 4096, ..limits() }
}

pub(crate) struct World {
    pub(crate) nics: Vec<Nic>,
    pub(crate) ports: Vec<Memory>,
    frames: BTreeMap<(usize, usize), VecDeque<Vec<u8>>>,
    transfers: VecDeque<(usize, Transfer)>,
    pub(crate) now: Time,
    /// A rank that does nothing, as if its process were stopped: frames to it wait in its ring, and its timers do
    /// not fire.
    pub(crate) stopped: Option<usize>,
}

/// The port of one NIC: memory by region, and a record of all calls.
pub(crate) struct Memory {
    me: Peer,
    now: Time,
    /// The exact time, if it is later than `now`.
    pub(crate) clock: Time,
    pub(crate) promises: Promises,
    regions: BTreeMap<Region, Vec<u8>>,
    out: Vec<(Peer, Vec<u8>)>,
    transfers: Vec<Transfer>,
    /// Peers whose users wait, as far as this port knows.
    pub(crate) attentive: Vec<Peer>,
    /// The rail has no room.
    pub(crate) full: bool,
    /// Reads from peers that are gone do not end.
    pub(crate) reads_on: bool,
    /// Peers that the NIC has given up.
    pub(crate) given_up: Vec<Peer>,
    /// Reductions wait for the user.
    pub(crate) slow: bool,
    pub(crate) put_off: Vec<StepRef>,
    pub(crate) armed: Option<Time>,
    pub(crate) completions: Vec<(Ticket, Outcome)>,
    /// What it has reported.
    pub(crate) notices: Vec<Notice>,
    /// Every frame sent, in order.
    pub(crate) sent: Vec<(Peer, Envelope)>,
    /// Lengths of all puts, and of all gets.
    pub(crate) puts: Vec<u64>,
    pub(crate) gets: Vec<u64>,
    /// Spans that the NIC has claimed.
    pub(crate) claimed: usize,
    /// Spans that peers may read.
    pub(crate) exposed: BTreeMap<Ticket, Span>,
    /// Exposing fails.
    pub(crate) shy: bool,
    /// The number of the first put or get that fails; all later ones fail too.
    pub(crate) reaches: usize,
}

pub(crate) enum Transfer {
    Put { to: Peer, from: Span, into: Span, ticket: Ticket, notify: Ticket },
    Get { source: Peer, from: Span, key: Key, into: Span, ticket: Ticket },
}

impl World {
    pub(crate) fn new(ranks: u32, promises: Promises, limits: &Limits) -> World {
        World {
            nics: (0..ranks).map(|rank| Nic::new(Peer(rank), JOB, limits.clone())).collect(),
            ports: (0..ranks).map(|rank| Memory::new(Peer(rank), promises)).collect(),
            frames: BTreeMap::new(),
            transfers: VecDeque::new(),
            now: Time(0),
            stopped: None,
        }
    }

    /// Two ranks that have exchanged messages in both directions, so that each has credit.
    pub(crate) fn acquainted(promises: Promises, limits: &Limits) -> World {
        let mut world = World::new(2, promises, limits);
        for (from, to) in [(0, 1), (1, 0)] {
            let (source, into) = (world.lend(from, b"hello"), world.room(to, 5));
            let receive = world.receive(to, from, 0xffff, into);
            let send = world.send(from, to, 0xffff, source);
            world.calm();
            assert_eq!(world.outcome(from, send), Some(Outcome::Done));
            assert!(world.outcome(to, receive).is_some());
        }
        world.clear_records();
        world
    }

    /// Clears the records of the ports.
    pub(crate) fn clear_records(&mut self) {
        for port in &mut self.ports {
            port.sent.clear();
            port.puts.clear();
            port.gets.clear();
        }
    }

    /// Calls one NIC, and collects what it sends.
    pub(crate) fn act<T>(
        &mut self,
        rank: usize,
        act: impl FnOnce(&mut Nic, &mut Memory) -> T,
    ) -> T {
        let port = &mut self.ports[rank];
        port.now = self.now;
        let answer = act(&mut self.nics[rank], port);
        for (to, frame) in port.out.drain(..) {
            self.frames.entry((rank, index(to))).or_default().push_back(frame);
        }
        self.transfers.extend(port.transfers.drain(..).map(|transfer| (rank, transfer)));
        answer
    }

    // Memory.

    pub(crate) fn lend(&mut self, rank: usize, bytes: &[u8]) -> Span {
        self.ports[rank].lend(bytes)
    }

    pub(crate) fn room(&mut self, rank: usize, len: usize) -> Span {
        self.lend(rank, &vec![0; len])
    }

    pub(crate) fn bytes(&self, rank: usize, span: Span) -> &[u8] {
        self.ports[rank].at(span)
    }

    /// Takes lent memory back; the test fails if it is accessed afterwards.
    pub(crate) fn take_back(&mut self, rank: usize, span: Span) {
        self.ports[rank].regions.remove(&span.region).expect("it was lent");
    }

    // Posts.

    pub(crate) fn send(&mut self, from: usize, to: usize, tag: u32, source: Span) -> Posted {
        self.send_as(Mode::Standard, from, to, tag, source)
    }

    pub(crate) fn send_as(
        &mut self,
        mode: Mode,
        from: usize,
        to: usize,
        tag: u32,
        source: Span,
    ) -> Posted {
        let word = word(from, tag);
        self.act(from, |nic, port| nic.post_send(peer(to), word, source, mode, port))
    }

    pub(crate) fn send_text(&mut self, from: usize, to: usize, tag: u32, text: &[u8]) -> Posted {
        let source = self.lend(from, text);
        self.send(from, to, tag, source)
    }

    pub(crate) fn receive(&mut self, at: usize, from: usize, tag: u32, into: Span) -> Posted {
        self.act(at, |nic, port| {
            nic.post_receive(Some(peer(from)), word(from, tag), Mask::EXACT, into, port)
        })
    }

    /// A receive that matches any message of the group.
    pub(crate) fn receive_any(&mut self, at: usize, into: Span) -> Posted {
        self.act(at, |nic, port| nic.post_receive(None, word(0, 0), Mask::ANY_BOTH, into, port))
    }

    pub(crate) fn probe(&mut self, rank: usize, word: MatchWord, mask: Mask) -> Option<Probed> {
        self.act(rank, |nic, port| nic.probe(word, mask, port))
    }

    pub(crate) fn take(
        &mut self,
        rank: usize,
        word: MatchWord,
        mask: Mask,
    ) -> Option<(Ticket, Probed)> {
        self.act(rank, |nic, port| nic.take(word, mask, port))
    }

    pub(crate) fn cancel(&mut self, rank: usize, posted: Posted) {
        self.act(rank, |nic, port| nic.cancel(ticket(posted), port));
    }

    // The rails.

    pub(crate) fn waiting(&self, from: usize, to: usize) -> usize {
        self.frames.get(&(from, to)).map_or(0, VecDeque::len)
    }

    /// The kinds of the frames on their way.
    pub(crate) fn on_the_way(&self, from: usize, to: usize) -> Vec<Kind> {
        let frames = self.frames.get(&(from, to)).into_iter().flatten();
        frames.map(|frame| Envelope::parse(frame).expect("our own").0.kind).collect()
    }

    pub(crate) fn deliver_next(&mut self, from: usize, to: usize) -> bool {
        let Some(frame) = self.frames_between(from, to).pop_front() else { return false };
        self.arrive(from, to, &frame);
        true
    }

    pub(crate) fn arrive(&mut self, from: usize, to: usize, frame: &[u8]) {
        let via = if from == to { OWN.rail } else { PLAIN.rail };
        self.arrive_by(via, from, to, frame);
    }

    /// Delivers a frame by the given rail.
    pub(crate) fn arrive_by(&mut self, via: RailId, from: usize, to: usize, frame: &[u8]) {
        self.act(to, |nic, port| nic.on_frame(peer(from), via, Seal::Intact, frame, port));
    }

    /// Delivers a forged frame.
    pub(crate) fn forge(&mut self, from: usize, to: usize, kind: Kind, payload: &[u8]) {
        let frame = frame(&Envelope { job: JOB, marks: None, kind }, payload);
        self.arrive(from, to, &frame);
    }

    /// Takes the next frame off the rail; the test may deliver it later, or never.
    pub(crate) fn lose(&mut self, from: usize, to: usize) -> Vec<u8> {
        self.frames_between(from, to).pop_front().expect("a frame to lose")
    }

    pub(crate) fn lose_all(&mut self) {
        self.frames.clear();
    }

    /// Delivers the next frame, and leaves it on the rail to arrive again.
    pub(crate) fn repeat(&mut self, from: usize, to: usize) {
        let frame = self.frames_between(from, to).front().expect("a frame to repeat").clone();
        self.arrive(from, to, &frame);
    }

    /// Swaps the next two frames.
    pub(crate) fn swap(&mut self, from: usize, to: usize) {
        self.frames_between(from, to).swap(0, 1);
    }

    fn frames_between(&mut self, from: usize, to: usize) -> &mut VecDeque<Vec<u8>> {
        self.frames.entry((from, to)).or_default()
    }

    /// Delays the next put or get.
    pub(crate) fn put_off_transfer(&mut self) -> (usize, Transfer) {
        self.transfers.pop_front().expect("a put or get")
    }

    /// Resumes a delayed put or get.
    pub(crate) fn resume_transfer(&mut self, transfer: (usize, Transfer)) {
        self.transfers.push_back(transfer);
    }

    /// Finishes the next put or get.
    pub(crate) fn finish_transfer(&mut self) -> bool {
        let Some((rank, transfer)) = self.transfers.pop_front() else { return false };
        match transfer {
            Transfer::Put { ticket, .. } if !self.ports[rank].can_still_reach() => {
                self.act(rank, |nic, port| nic.on_put_refused(ticket, port));
            }
            Transfer::Get { ticket, .. } if !self.ports[rank].can_still_reach() => {
                self.act(rank, |nic, port| nic.on_get_refused(ticket, port));
            }
            Transfer::Put { to, from, into, ticket, notify } => {
                let bytes = self.bytes(rank, from).to_vec();
                self.ports[index(to)].at_mut(into).copy_from_slice(&bytes);
                self.act(rank, |nic, port| nic.on_written(ticket, port));
                self.act(index(to), |nic, port| nic.on_landed(peer(rank), notify, from.len, port));
            }
            Transfer::Get { source, from, key, into, ticket } => {
                let mut exposed = self.ports[index(source)].exposed.iter();
                let exposed = exposed.find(|(ticket, _)| ticket.bits() == key.0);
                assert_eq!(exposed.map(|(_, span)| span.first(from.len)), Some(from));
                let bytes = self.bytes(index(source), from).to_vec();
                self.ports[rank].at_mut(into).copy_from_slice(&bytes);
                self.act(rank, |nic, port| nic.on_read(ticket, port));
            }
        }
        true
    }

    /// Delivers everything on the way, in order; no time passes.
    pub(crate) fn run_until_quiet(&mut self) {
        for _ in 0..100_000 {
            let lines: Vec<_> = self.frames.keys().copied().collect();
            let mut moved = self.finish_transfer();
            for rank in 0..self.nics.len() {
                if self.nics[rank].is_busy() && self.stopped != Some(rank) {
                    self.act(rank, |nic, port| nic.on_turn(port));
                    moved = true;
                }
            }
            for (from, to) in lines {
                moved |= self.stopped != Some(to) && self.deliver_next(from, to);
            }
            if !moved {
                return;
            }
        }
        panic!("the world does not come to rest");
    }

    // Time.

    /// Makes the port's `now` lag the exact clock by `ns`.
    pub(crate) fn fall_behind(&mut self, rank: usize, ns: u64) {
        self.ports[rank].clock = self.now.after(ns);
    }

    /// Advances time by `ns`. Timers fire meanwhile, and what they send stays on the rails.
    pub(crate) fn pass(&mut self, ns: u64) {
        let end = self.now.after(ns);
        while let Some(at) = self.next_timer().filter(|&at| at <= end) {
            self.fire(at);
        }
        self.now = end;
    }

    fn next_timer(&self) -> Option<Time> {
        let ports = self.ports.iter().enumerate();
        ports.filter(|&(rank, _)| self.stopped != Some(rank)).filter_map(|(_, p)| p.armed).min()
    }

    fn fire(&mut self, at: Time) {
        self.now = self.now.max(at);
        for rank in 0..self.nics.len() {
            let due = self.ports[rank].armed.is_some_and(|armed| armed <= self.now);
            if due && self.stopped != Some(rank) {
                self.ports[rank].armed = None;
                self.act(rank, |nic, port| nic.on_timer(port));
            }
        }
    }

    /// Delivers everything and fires every timer, until no frame and no timer is left.
    pub(crate) fn calm(&mut self) {
        self.run_until_quiet();
        for _ in 0..10_000 {
            let Some(at) = self.next_timer() else { return };
            self.fire(at);
            self.run_until_quiet();
        }
        panic!("timers without end");
    }

    // Inspection.

    pub(crate) fn outcome(&self, rank: usize, posted: Posted) -> Option<Outcome> {
        match posted {
            Posted::Done(outcome) => Some(outcome),
            Posted::Pending(ticket) => self.ports[rank].outcome(ticket),
        }
    }

    pub(crate) fn holdings(&self, rank: usize) -> Holdings {
        self.nics[rank].holdings()
    }

    #[track_caller]
    pub(crate) fn assert_received(&self, rank: usize, posted: Posted, into: Span, bytes: &[u8]) {
        match self.outcome(rank, posted) {
            Some(Outcome::Received(Received { len, .. })) => {
                assert_eq!(len, bytes.len() as u64);
                assert_eq!(self.bytes(rank, into.first(len)), bytes);
            }
            other => panic!("{other:?} instead of {} bytes", bytes.len()),
        }
    }

    #[track_caller]
    pub(crate) fn assert_done(&self, rank: usize, posted: Posted) {
        assert_eq!(self.outcome(rank, posted), Some(Outcome::Done));
    }

    #[track_caller]
    pub(crate) fn assert_pending(&self, rank: usize, posted: Posted) {
        assert_eq!(self.outcome(rank, posted), None);
    }

    /// Checks that nothing is left at the end: no ticket, no timer, no byte in a store.
    #[track_caller]
    pub(crate) fn assert_quiet(&mut self) {
        self.calm();
        for rank in 0..self.nics.len() {
            self.assert_empty(rank);
        }
    }

    #[track_caller]
    pub(crate) fn assert_empty(&self, rank: usize) {
        let mut held = self.holdings(rank);
        let mut promised = core::mem::take(&mut held.promised);
        for store in core::mem::take(&mut held.stores) {
            promised -= store.reserved;
            assert_eq!((store.stored, store.used), (0, 0), "rank {rank} keeps messages");
            assert_eq!(store.fragments_in_use, 0, "rank {rank} keeps fragments");
            assert!(store.reserved <= store.bytes_max);
        }
        assert_eq!(promised, 0, "rank {rank} has promised what it has not set aside");
        assert_eq!(held, Holdings::default(), "rank {rank} holds something");
        assert!(self.ports[rank].exposed.is_empty(), "rank {rank} lets others read");
    }
}

impl Memory {
    pub(crate) fn new(me: Peer, promises: Promises) -> Memory {
        Memory {
            me,
            now: Time(0),
            clock: Time(0),
            promises,
            regions: BTreeMap::new(),
            out: Vec::new(),
            transfers: Vec::new(),
            attentive: Vec::new(),
            full: false,
            reads_on: false,
            given_up: Vec::new(),
            slow: false,
            put_off: Vec::new(),
            armed: None,
            completions: Vec::new(),
            notices: Vec::new(),
            sent: Vec::new(),
            puts: Vec::new(),
            gets: Vec::new(),
            claimed: 0,
            exposed: BTreeMap::new(),
            shy: false,
            reaches: usize::MAX,
        }
    }

    pub(crate) fn lend(&mut self, bytes: &[u8]) -> Span {
        let number = self.regions.last_key_value().map_or(1, |(region, _)| region.0 + 1);
        self.regions.insert(Region(number), bytes.to_vec());
        Span::new(Region(number), 0, bytes.len() as u64)
    }

    pub(crate) fn at(&self, span: Span) -> &[u8] {
        if span.len == 0 {
            return &[];
        }
        let region = self.regions.get(&span.region).expect("memory that is lent");
        &region[range(span)]
    }

    pub(crate) fn at_mut(&mut self, span: Span) -> &mut [u8] {
        if span.len == 0 {
            return &mut [];
        }
        let region = self.regions.get_mut(&span.region).expect("memory that is lent");
        &mut region[range(span)]
    }

    pub(crate) fn outcome(&self, ticket: Ticket) -> Option<Outcome> {
        let mut ends = self.completions.iter().filter(|(ended, _)| *ended == ticket);
        let end = ends.next_back().map(|&(_, outcome)| outcome);
        let earlier: Vec<_> = ends.map(|&(_, outcome)| outcome).collect();
        assert!(
            earlier.iter().all(|&outcome| outcome == Outcome::Released),
            "{ticket} ended more than once: {earlier:?} then {end:?}"
        );
        end
    }

    /// Counts sent frames by kind.
    pub(crate) fn count(&self, sort: impl Fn(&Kind) -> bool) -> usize {
        self.sent.iter().filter(|(_, envelope)| sort(&envelope.kind)).count()
    }
}

impl Memory {
    /// Counts a put or a get. False if it fails.
    fn can_still_reach(&mut self) -> bool {
        self.reaches = self.reaches.saturating_sub(usize::from(self.reaches != usize::MAX));
        self.reaches > 0
    }
}

impl Port for Memory {
    fn now(&self) -> Time {
        self.now
    }

    fn clock(&self) -> Time {
        self.now.max(self.clock)
    }

    fn attends(&self, peer: Peer) -> bool {
        self.attentive.contains(&peer)
    }

    fn promises(&self, peer: Peer) -> Promises {
        if peer == self.me { OWN } else { self.promises }
    }

    fn transmit(&mut self, to: Peer, envelope: &Envelope, payload: Span) -> Sent {
        if self.full {
            return Sent::Full;
        }
        let frame = frame(envelope, self.at(payload));
        assert!(frame.len() <= self.promises(to).burst_bytes_max() as usize, "a frame too long");
        self.out.push((to, frame));
        self.sent.push((to, *envelope));
        Sent::Away
    }

    fn deliver(&mut self, bytes: &[u8], into: Span) {
        self.at_mut(into).copy_from_slice(bytes);
    }

    fn load(&mut self, from: Span, into: &mut [u8]) {
        into.copy_from_slice(self.at(from));
    }

    fn copy(&mut self, from: Span, into: Span) {
        let bytes = self.at(from).to_vec();
        self.at_mut(into).copy_from_slice(&bytes);
    }

    fn reduce(&mut self, step: StepRef, operator: Operator, from: Span, into: Span) -> Progress {
        let bytes = self.at(from).to_vec();
        self.accumulate(operator, &bytes, into);
        if self.slow {
            self.put_off.push(step);
            return Progress::Later;
        }
        Progress::Done
    }

    /// The only operator adds bytes.
    fn accumulate(&mut self, operator: Operator, bytes: &[u8], into: Span) {
        assert_eq!(operator, SUM);
        for (sum, byte) in self.at_mut(into).iter_mut().zip(bytes) {
            *sum = sum.wrapping_add(*byte);
        }
    }

    fn compare_swap(&mut self, at: Span, expected: u64, value: u64) -> u64 {
        let bytes = self.at_mut(at);
        let found = u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
        if found == expected {
            bytes.copy_from_slice(&value.to_le_bytes());
        }
        found
    }

    fn put(&mut self, to: Peer, from: Span, into: Span, ticket: Ticket, notify: Ticket) {
        assert!(self.promises.puts);
        self.puts.push(from.len);
        self.transfers.push(Transfer::Put { to, from, into, ticket, notify });
    }

    fn expose(&mut self, _: Peer, span: Span, ticket: Ticket) -> Key {
        assert!(self.promises.gets);
        if self.shy {
            return Key::NONE;
        }
        assert_eq!(*self.exposed.entry(ticket).or_insert(span), span);
        Key(ticket.bits())
    }

    fn conceal(&mut self, ticket: Ticket) {
        self.exposed.remove(&ticket).expect("it was exposed");
    }

    fn get(&mut self, source: Peer, from: Span, key: Key, into: Span, ticket: Ticket) {
        assert!(self.promises.gets);
        self.gets.push(from.len);
        self.transfers.push(Transfer::Get { source, from, key, into, ticket });
    }

    fn claim(&mut self, bytes: u64) -> Span {
        self.claimed += 1;
        self.lend(&vec![0; usize::try_from(bytes).expect("small")])
    }

    fn release(&mut self, span: Span) {
        self.claimed -= 1;
        self.regions.remove(&span.region).expect("memory that was claimed");
    }

    fn complete(&mut self, ticket: Ticket, outcome: Outcome) {
        self.completions.push((ticket, outcome));
    }

    fn report(&mut self, notice: Notice) {
        self.notices.push(notice);
    }

    fn give_up(&mut self, peer: Peer) -> Progress {
        self.given_up.push(peer);
        if self.reads_on { Progress::Later } else { Progress::Done }
    }

    fn arm(&mut self, at: Option<Time>) {
        self.armed = at;
    }
}

pub(crate) const SUM: Operator = Operator(1);

/// A word in group 0, which uses the first queue pair.
pub(crate) fn word(from: usize, tag: u32) -> MatchWord {
    MatchWord::new(0, peer(from).0, tag)
}

pub(crate) fn peer(rank: usize) -> Peer {
    Peer(u32::try_from(rank).expect("few ranks"))
}

#[track_caller]
pub(crate) fn ticket(posted: Posted) -> Ticket {
    match posted {
        Posted::Pending(ticket) => ticket,
        Posted::Done(outcome) => panic!("over already: {outcome:?}"),
    }
}

pub(crate) fn frame(envelope: &Envelope, payload: &[u8]) -> Vec<u8> {
    let mut head = [0; Envelope::BYTES_MAX];
    let len = envelope.emit(&mut head);
    [&head[..len], payload].concat()
}

/// Bytes with a pattern that shows misplacement.
pub(crate) fn pattern(len: usize) -> Vec<u8> {
    (0u8..251).cycle().take(len).collect()
}

fn index(peer: Peer) -> usize {
    peer.0 as usize
}

fn range(span: Span) -> core::ops::Range<usize> {
    let start = usize::try_from(span.offset).expect("an offset in memory");
    start..start + usize::try_from(span.len).expect("a length in memory")
}
