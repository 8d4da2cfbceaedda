//! Copies: of short messages on rails that may lose them, whose sends complete at once while a retry reads the copy,
//! and of what a fetch returns.

use crate::nic::{Nic, Variant};
use crate::op::Owner;
use crate::port::Port;
use crate::slab::Slab;
use crate::types::{Mode, Outcome, Peer, Posted, Span, Ticket};
use crate::word::MatchWord;

/// Copies in flight.
pub(crate) struct Copies {
    spans: Slab<Span>,
    /// Bytes charged for them.
    bytes: u64,
}

impl Copies {
    pub(crate) fn new() -> Copies {
        Copies { spans: Slab::new(), bytes: 0 }
    }

    pub(crate) fn count(&self) -> usize {
        self.spans.live()
    }
}

impl<V: Variant> Nic<V> {
    /// Whether a message of `owner` may be sent from a copy, so that the send completes at once. What a module
    /// sends is a copy already.
    pub(crate) fn may_copy(&self, owner: Owner, len: u64) -> bool {
        let is_copy = matches!(owner, Owner::Kept(_) | Owner::Copied(_));
        !is_copy && self.copies.bytes + cost(len) <= self.limits.copied_bytes_max.into()
    }

    /// Sends a message from a copy of it.
    pub(crate) fn send_copy(
        &mut self,
        to: Peer,
        word: MatchWord,
        source: Span,
        port: &mut impl Port,
    ) -> Posted {
        let copy = if source.len == 0 { Span::EMPTY } else { port.claim(source.len) };
        if source.len > 0 {
            port.copy(source, copy);
        }
        let copied = self.keep_copy(copy);
        match self.begin_send(Owner::Copied(copied), to, word, copy, Mode::Standard, port) {
            Posted::Pending(_) => Posted::Done(Outcome::Done),
            Posted::Done(outcome) => {
                self.on_copied(copied, port);
                Posted::Done(outcome)
            }
        }
    }

    /// Keeps a copy until its operation ends.
    pub(crate) fn keep_copy(&mut self, copy: Span) -> Ticket {
        self.copies.bytes += cost(copy.len);
        self.copies.spans.claim(copy)
    }

    /// Frees a copy: it has arrived, or the peer is gone.
    pub(crate) fn on_copied(&mut self, copied: Ticket, port: &mut impl Port) {
        let Some(copy) = self.copies.spans.release(copied) else { return };
        self.copies.bytes -= cost(copy.len);
        if copy.len > 0 {
            port.release(copy);
        }
    }
}

/// Bytes charged for a copy. Not zero for an empty message: there may be many.
fn cost(len: u64) -> u64 {
    len + COPY_BYTES
}

/// Approximate memory for a copy besides its bytes.
const COPY_BYTES: u64 = 128;
