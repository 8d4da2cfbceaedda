//! One-sided operations: put, get, accumulate, fetch and compare-and-swap on open regions.
//!
//! They travel in frames, and the NIC that owns the region checks every frame against what its user has opened: a
//! peer can reach those bytes and no others.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;

use crate::canary::Bug;
use crate::counter::Counter;
use crate::envelope::Kind;
use crate::nic::{Nic, Variant};
use crate::op::{OpState, Owner, Stream, Streaming};
use crate::peers::At;
use crate::port::{Notice, Operator, Port};
use crate::types::{Fault, Outcome, Peer, Posted, Received, Region, Span, Ticket};
use crate::word::MatchWord;

/// What peers can reach under the number of a region.
#[derive(Debug, Default)]
pub(crate) struct OpenRegion {
    /// The ends of its pieces, by where they begin.
    pieces: BTreeMap<u64, u64>,
    /// The counters that puts into it can raise.
    counters: Arc<[Counter]>,
}

/// A frame of a put or an accumulate: its operation, where its bytes go, and whether it is the last.
pub(crate) struct Piece {
    pub(crate) ticket: Ticket,
    pub(crate) into: Span,
    pub(crate) last: bool,
}

impl<V: Variant> Nic<V> {
    /// Lets peers reach `piece`. Pieces of the same region may be adjacent, and do not overlap.
    pub fn open_piece(&mut self, piece: Span) {
        let end = piece.offset.saturating_add(piece.len);
        self.regions.entry(piece.region).or_default().pieces.insert(piece.offset, end);
    }

    /// Closes the piece of `region` that begins at `offset`. Operations that arrive later are denied.
    pub fn close_piece(&mut self, region: Region, offset: u64) {
        if let Some(open) = self.regions.get_mut(&region) {
            open.pieces.remove(&offset);
        }
    }

    /// Lets puts into `region` raise these counters, which peers name by their place. Puts of nothing can, too, wherever
    /// they go.
    pub fn set_region_counters(&mut self, region: Region, counters: Arc<[Counter]>) {
        self.regions.entry(region).or_default().counters = counters;
    }

    /// Closes a region. Operations that arrive later are denied.
    pub fn close_region(&mut self, region: Region) {
        self.regions.remove(&region);
    }

    /// Writes `source` into `region` of `to`, at `offset`. `notify` names a counter of the region, which is
    /// raised by one when all bytes are in place.
    pub fn post_put(
        &mut self,
        to: Peer,
        source: Span,
        region: Region,
        offset: u64,
        notify: Option<u32>,
        port: &mut impl Port,
    ) -> Posted {
        self.post_stream(to, source, Stream::Put { region, offset, notify }, port)
    }

    /// Combines `source` into `region` of `to`, at `offset`.
    pub fn post_accumulate(
        &mut self,
        to: Peer,
        source: Span,
        region: Region,
        offset: u64,
        operator: Operator,
        port: &mut impl Port,
    ) -> Posted {
        self.post_stream(to, source, Stream::Accumulate { region, offset, operator }, port)
    }

    fn post_stream(
        &mut self,
        to: Peer,
        source: Span,
        what: Stream,
        port: &mut impl Port,
    ) -> Posted {
        let posted = self.begin_stream(Owner::User, to, source, what, port);
        self.settle(port);
        posted
    }

    pub(crate) fn begin_stream(
        &mut self,
        owner: Owner,
        to: Peer,
        source: Span,
        what: Stream,
        port: &mut impl Port,
    ) -> Posted {
        let at = match self.contact(to, port) {
            Ok(at) => at,
            Err(fault) => return Posted::Done(Outcome::Failed(fault)),
        };
        let (Stream::Put { offset, .. } | Stream::Accumulate { offset, .. }) = what;
        if offset.checked_add(source.len).is_none() {
            return Posted::Done(Outcome::Failed(Fault::Denied));
        }
        let stream =
            Streaming { source, sent: 0, begun: false, denied: false, frames_out: 0, what };
        let ticket = self.open(owner, Some(at), OpState::Streaming(Box::new(stream)));
        self.write(at, ticket, port);
        Posted::Pending(ticket)
    }

    /// Reads `from`, a span of `source`'s memory, into `into`, which has the same length.
    pub fn post_get(
        &mut self,
        source: Peer,
        from: Span,
        into: Span,
        port: &mut impl Port,
    ) -> Posted {
        assert_eq!(from.len, into.len, "a get reads as much as it has room for");
        // A get is not a message and has no match word.
        let word = MatchWord::default();
        if into.len == 0 {
            return Posted::Done(Outcome::Received(Received { word, len: 0 }));
        }
        let state = OpState::Landing { into, left: into.len, word, len: into.len };
        self.post_request(source, state, |ticket| Kind::Get { ticket, from }, Span::EMPTY, port)
    }

    /// Combines `source` into `region` of `to`, at `offset`, and gets what was there into `before`, which is as long. No
    /// other accumulate comes in between. It is at most one frame: [`Nic::fetch_bytes_max`].
    #[expect(clippy::too_many_arguments, reason = "two spans, a place and an operator")]
    pub fn post_fetch(
        &mut self,
        to: Peer,
        source: Span,
        region: Region,
        offset: u64,
        operator: Operator,
        before: Span,
        port: &mut impl Port,
    ) -> Posted {
        assert_eq!(source.len, before.len, "a fetch reads as much as it changes");
        let len = source.len;
        assert!(len > 0 && len <= self.fetch_bytes_max(to, port), "a fetch is one frame");
        let state = OpState::Landing { into: before, left: len, word: MatchWord::default(), len };
        let kind = |ticket| Kind::Fetch { ticket, region, offset, operator };
        self.post_request(to, state, kind, source, port)
    }

    /// The most that a fetch from this peer can have: elements whose length divides 32 fit without a rest.
    pub fn fetch_bytes_max(&self, to: Peer, port: &impl Port) -> u64 {
        u64::from(port.promises(to).payload_bytes_max()) & !31
    }

    /// Stores `value` into `word`, up to eight bytes of `to`, if they hold `expected`. The outcome says what they held.
    pub fn post_compare_swap(
        &mut self,
        to: Peer,
        word: Span,
        expected: u64,
        value: u64,
        port: &mut impl Port,
    ) -> Posted {
        let Span { region, offset, len } = word;
        let width = u8::try_from(len).ok().filter(|width| (1..=8).contains(width));
        let width = width.expect("a word has at most eight bytes");
        let kind = |ticket| Kind::Swap { ticket, region, offset, width, expected, value };
        self.post_request(to, OpState::Swapping, kind, Span::EMPTY, port)
    }

    fn post_request(
        &mut self,
        to: Peer,
        state: OpState,
        kind: impl FnOnce(Ticket) -> Kind,
        payload: Span,
        port: &mut impl Port,
    ) -> Posted {
        let at = match self.contact(to, port) {
            Ok(at) => at,
            Err(fault) => return Posted::Done(Outcome::Failed(fault)),
        };
        let ticket = self.open(Owner::User, Some(at), state);
        self.send(at, kind(ticket), payload, None, port);
        self.settle(port);
        Posted::Pending(ticket)
    }

    pub(crate) fn on_put(
        &mut self,
        at: At,
        Piece { ticket, into, last }: Piece,
        notify: Option<u32>,
        payload: &[u8],
        port: &mut impl Port,
    ) {
        if !self.is_open(into) {
            return self.deny(at, ticket, into, port);
        }
        if !payload.is_empty() {
            port.store(payload, into);
        }
        if last {
            self.reply(at, Kind::Done { ticket }, port);
        }
        if let Some(Counter(counter)) =
            notify.and_then(|number| self.counter_of(into.region, number))
        {
            self.raise_counter(counter, 1, port);
        }
    }

    pub(crate) fn on_accumulate(
        &mut self,
        at: At,
        Piece { ticket, into, last }: Piece,
        operator: Operator,
        payload: &[u8],
        port: &mut impl Port,
    ) {
        if !self.is_open(into) {
            return self.deny(at, ticket, into, port);
        }
        port.accumulate(operator, payload, into);
        if last {
            self.reply(at, Kind::Done { ticket }, port);
        }
    }

    /// A get is a grant without an offer: we write what the peer wants to read.
    pub(crate) fn on_get(&mut self, at: At, target: Ticket, from: Span, port: &mut impl Port) {
        if from.len == 0 || !self.is_open(from) {
            return self.deny(at, target, from, port);
        }
        let state = OpState::writing(from, target);
        let ticket = self.open(Owner::Nobody, Some(at), state);
        self.write(at, ticket, port);
    }

    /// What was there goes back from a copy, because it changes.
    pub(crate) fn on_fetch(
        &mut self,
        at: At,
        target: Ticket,
        into: Span,
        operator: Operator,
        payload: &[u8],
        port: &mut impl Port,
    ) {
        if into.len == 0 || !self.is_open(into) {
            return self.deny(at, target, into, port);
        }
        let before = port.claim(into.len);
        port.fetch(operator, payload, into, before);
        if V::has(Bug::FetchesLate) {
            port.copy(into, before);
        }
        let copied = self.keep_copy(before);
        let state = OpState::writing(before, target);
        let ticket = self.open(Owner::Copied(copied), Some(at), state);
        self.write(at, ticket, port);
    }

    pub(crate) fn on_swap(
        &mut self,
        at: At,
        ticket: Ticket,
        word: Span,
        expected: u64,
        value: u64,
        port: &mut impl Port,
    ) {
        let word = if V::has(Bug::SwapsTooWide) { Span { len: 8, ..word } } else { word };
        if !self.is_open(word) {
            return self.deny(at, ticket, word, port);
        }
        let value = port.compare_swap(word, expected, value);
        self.reply(at, Kind::Found { ticket, value }, port);
    }

    pub(crate) fn on_found(&mut self, at: At, ticket: Ticket, value: u64, port: &mut impl Port) {
        let Some(op) = self.op_with(at, ticket) else { return };
        match op.state {
            OpState::Swapping => self.complete(ticket, Outcome::Found(value), port),
            _ => self.stats.malformed += 1,
        }
    }

    /// Denies a peer what its operation `ticket` wants.
    #[cold]
    fn deny(&mut self, at: At, ticket: Ticket, span: Span, port: &mut impl Port) {
        port.report(Notice::Denied { from: self.peers[at].peer, span });
        self.reply(at, Kind::Denied { ticket }, port);
    }

    pub(crate) fn on_denied(&mut self, at: At, ticket: Ticket, port: &mut impl Port) {
        let refusal = Outcome::Failed(Fault::Denied);
        // Each frame of a stream may be denied; the first denial ends it.
        let peer = self.peers[at].peer;
        let Some(op) = self.ops.find_mut(ticket).filter(|op| op.peer == Some(peer)) else {
            return;
        };
        match &mut op.state {
            OpState::Streaming(stream) if stream.frames_out > 0 => stream.denied = true,
            OpState::Streaming(_) | OpState::Swapping | OpState::Landing { .. } => {
                self.complete(ticket, refusal, port);
            }
            _ => self.stats.malformed += 1,
        }
    }

    /// The counter of a region by which peers call it.
    fn counter_of(&self, region: Region, number: u32) -> Option<Counter> {
        self.regions.get(&region)?.counters.get(number as usize).copied()
    }

    fn is_open(&self, span: Span) -> bool {
        let Some(OpenRegion { pieces, .. }) = self.regions.get(&span.region) else { return false };
        if span.len == 0 {
            return true;
        }
        let Some(end) = span.offset.checked_add(span.len) else { return false };
        let mut reached = span.offset;
        // Each piece leads to the one that begins where it ends.
        loop {
            let Some((_, &piece_end)) = pieces.range(..=reached).next_back() else { return false };
            if end <= piece_end {
                return true;
            }
            if piece_end <= reached {
                return false;
            }
            reached = piece_end;
        }
    }
}
