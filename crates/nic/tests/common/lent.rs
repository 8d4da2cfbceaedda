//! A port for NICs that get arbitrary frames. It fails when the NIC touches a span that was not lent, or that the
//! user has back.

use std::collections::{BTreeMap, VecDeque};

use ferrywire_nic::{
    Envelope, Key, Limits, Nic, Operator, Outcome, Peer, Port, Posted, Progress, Promises, RailId,
    Region, Seal, Sent, Span, StepRef, Ticket, Time,
};

/// The rail that leads to every other peer.
pub(crate) const RAIL: RailId = RailId(0);

/// The rail that leads back to the NIC itself.
const OWN_RAIL: RailId = RailId(u8::MAX);

/// Limits that a few short messages reach.
pub(crate) fn limits() -> Limits {
    Limits {
        unexpected_bytes_max: 4096,
        eager_bytes_max: 256,
        credit_bytes: 1024,
        early_bytes_max: 1000,
        // Short, so that peers part and are forgotten within a few events.
        ask_ns: 100_000_000,
        silence_ns_max: 1_000_000_000,
        idle_ns_max: 2_000_000_000,
        ..Limits::default()
    }
}

/// The longest frame.
pub(crate) const FRAME_BYTES_MAX: u32 = 250;

/// The region that peers may reach, and its length.
pub(crate) const OPEN: Region = Region(1);
pub(crate) const OPEN_BYTES: u64 = 1000;

/// The permitted access to lent memory.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Use {
    Read,
    Write,
    Both,
}

pub(crate) struct Lent {
    me: Peer,
    pub(crate) now: Time,
    pub(crate) reliable: bool,
    regions: BTreeMap<Region, (u64, Use)>,
    /// The region lent to each operation in progress.
    of: BTreeMap<Ticket, Region>,
    /// Operations that have ended since the last post.
    ended: Vec<Ticket>,
    /// Puts and gets in progress.
    transfers: Vec<(Use, Ticket)>,
    last: Region,
    /// Frames from the NIC to itself.
    own: VecDeque<Vec<u8>>,
    /// Frames sent to others, if the test records them.
    pub(crate) sent: Option<Vec<(Peer, Vec<u8>)>>,
}

impl Lent {
    pub(crate) fn new(me: Peer, reliable: bool) -> Lent {
        Lent {
            me,
            now: Time(0),
            reliable,
            regions: BTreeMap::from([(OPEN, (OPEN_BYTES, Use::Both))]),
            of: BTreeMap::new(),
            ended: Vec::new(),
            transfers: Vec::new(),
            last: OPEN,
            own: VecDeque::new(),
            sent: None,
        }
    }

    /// Lends user memory to one operation.
    pub(crate) fn lend(&mut self, len: u64, access: Use) -> Span {
        self.last.0 += 1;
        self.regions.insert(self.last, (len, access));
        Span::new(self.last, 0, len)
    }

    /// Records the operation that `span` was lent to. When it ends, the user has the memory back.
    pub(crate) fn posted(&mut self, posted: Posted, span: Span) {
        let ended = std::mem::take(&mut self.ended);
        match posted {
            Posted::Pending(ticket) if !ended.contains(&ticket) => {
                self.of.insert(ticket, span.region);
            }
            _ => {
                self.regions.remove(&span.region);
            }
        }
    }

    /// Brings the NIC the frames that it has sent to itself.
    pub(crate) fn bring_own(&mut self, nic: &mut Nic) {
        while let Some(frame) = self.own.pop_front() {
            nic.on_frame(self.me, OWN_RAIL, Seal::Intact, &frame, self);
        }
    }

    /// Finishes the next put or get.
    pub(crate) fn next_transfer(&mut self) -> Option<(Use, Ticket)> {
        self.transfers.pop()
    }

    #[track_caller]
    fn check(&self, span: Span, wanted: Use) {
        if span.len == 0 {
            return;
        }
        let lent = self.regions.get(&span.region);
        let end = span.offset.checked_add(span.len);
        let fits = lent.is_some_and(|&(len, access)| {
            (access == wanted || access == Use::Both) && end.is_some_and(|end| end <= len)
        });
        assert!(fits, "{wanted:?} of {span:?}, which nobody has lent: {lent:?}");
    }
}

impl Port for Lent {
    fn now(&self) -> Time {
        self.now
    }

    fn attends(&self, peer: Peer) -> bool {
        peer.0.is_multiple_of(2)
    }

    fn promises(&self, peer: Peer) -> Promises {
        let own = peer == self.me;
        let direct = self.reliable && matches!(peer, Peer(2 | 3));
        Promises {
            rail: if own { OWN_RAIL } else { RAIL },
            reliable: self.reliable || own,
            may_vanish: !own && (!self.reliable || peer.0 % 2 == 1),
            puts: direct && peer == Peer(2),
            gets: direct,
            frame_bytes_max: FRAME_BYTES_MAX,
            burst_frames_max: 1,
            initial_credit_bytes: 0,
        }
    }

    fn transmit(&mut self, to: Peer, envelope: &Envelope, payload: Span) -> Sent {
        self.check(payload, Use::Read);
        if to == Peer(1) && self.now.0 % 2 == 1 {
            return Sent::Full;
        }
        if to == self.me {
            self.own.push_back(frame(envelope, payload));
        } else if let Some(sent) = &mut self.sent {
            sent.push((to, frame(envelope, payload)));
        }
        Sent::Away
    }

    fn deliver(&mut self, bytes: &[u8], into: Span) {
        assert_eq!(bytes.len() as u64, into.len);
        self.check(into, Use::Write);
    }

    fn load(&mut self, from: Span, into: &mut [u8]) {
        assert_eq!(into.len() as u64, from.len);
        self.check(from, Use::Read);
    }

    fn copy(&mut self, from: Span, into: Span) {
        assert_eq!(from.len, into.len);
        self.check(from, Use::Read);
        self.check(into, Use::Write);
    }

    fn reduce(&mut self, _: StepRef, _: Operator, from: Span, into: Span) -> Progress {
        self.check(from, Use::Read);
        self.check(into, Use::Write);
        Progress::Done
    }

    fn accumulate(&mut self, _: Operator, bytes: &[u8], into: Span) {
        assert_eq!(bytes.len() as u64, into.len);
        self.check(into, Use::Write);
    }

    fn compare_swap(&mut self, at: Span, expected: u64, _: u64) -> u64 {
        self.check(at, Use::Write);
        expected
    }

    // The other span is memory of the peer, which has named it itself.
    fn put(&mut self, _: Peer, from: Span, into: Span, ticket: Ticket, _: Ticket) {
        assert_eq!(from.len, into.len);
        self.check(from, Use::Read);
        self.transfers.push((Use::Write, ticket));
    }

    fn expose(&mut self, _: Peer, span: Span, _: Ticket) -> Key {
        self.check(span, Use::Read);
        if span.len.is_multiple_of(2) { Key(span.len) } else { Key::NONE }
    }

    fn conceal(&mut self, _: Ticket) {}

    fn get(&mut self, _: Peer, from: Span, _: Key, into: Span, ticket: Ticket) {
        assert_eq!(from.len, into.len);
        self.check(into, Use::Write);
        self.transfers.push((Use::Read, ticket));
    }

    fn claim(&mut self, bytes: u64) -> Span {
        self.lend(bytes, Use::Both)
    }

    fn release(&mut self, span: Span) {
        assert!(self.regions.remove(&span.region).is_some(), "{span:?} was claimed");
    }

    fn complete(&mut self, ticket: Ticket, _: Outcome) {
        match self.of.remove(&ticket) {
            Some(region) => {
                self.regions.remove(&region);
            }
            None => self.ended.push(ticket),
        }
    }

    fn arm(&mut self, _: Option<Time>) {}
}

/// A frame with a payload of some bytes: the port has none.
fn frame(envelope: &Envelope, payload: Span) -> Vec<u8> {
    let mut frame = vec![0; Envelope::BYTES_MAX];
    let head = envelope.emit(frame.first_chunk_mut().expect("as long"));
    frame.truncate(head);
    frame.resize(head + usize::try_from(payload.len).expect("short"), 7);
    frame
}
