//! One operation in progress, and its states.

use alloc::boxed::Box;

use crate::envelope::Kind;
use crate::matcher::Cell;
use crate::peers::Outgoing;
use crate::port::{Operator, StepRef};
use crate::receive::Offer;
use crate::types::{Peer, Region, Span, Ticket};
use crate::word::MatchWord;

#[derive(Debug)]
pub(crate) struct Op {
    pub(crate) owner: Owner,
    /// The peer without which the operation cannot end.
    pub(crate) peer: Option<Peer>,
    /// Whether it is counted in the peer's open operations.
    pub(crate) met: bool,
    /// Whether the peer may read its bytes in place.
    pub(crate) exposed: bool,
    /// Whether it is counted in the operations that need driving.
    pub(crate) driven: bool,
    /// A counter to raise when it ends.
    pub(crate) counter: Option<Ticket>,
    pub(crate) state: OpState,
}

/// What remains of an ended operation.
pub(crate) struct Closed {
    pub(crate) owner: Owner,
    pub(crate) counter: Option<Ticket>,
    pub(crate) exposed: bool,
}

/// The owner of an operation, which is told how it ends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Owner {
    User,
    Step(StepRef),
    /// The module of this group, which receives.
    Module(u16),
    /// A message that a module has sent, in memory of the NIC.
    Kept(Ticket),
    /// A copy of a message whose send has completed.
    Copied(Ticket),
    /// An operation that a trigger has started this one for, and that ends as this one does.
    Trigger(Ticket),
    /// No owner here: the operation serves a peer.
    Nobody,
}

#[derive(Debug)]
pub(crate) enum OpState {
    /// An eager message under credit. Ends when the rail has its bytes; a synchronous one, with this word, when it
    /// has matched.
    Flying { synchronous: Option<MatchWord> },
    /// A message without credit: not answered yet, or held.
    InLane(InLane),
    /// A synchronous message that has been accepted and, as far as we know, not matched.
    Accepted { word: MatchWord },
    /// An offer that its receiver has.
    Offered { word: MatchWord, source: Span },
    /// Bytes sent in chunks, to a receive or a get. The receiver reads the first `read` bytes itself, and has not
    /// reported that it has. If they are `owed`, it cannot, and they are sent after all others.
    Writing { source: Span, target: Ticket, sent: u64, frames_out: u32, read: u64, owed: bool },
    /// Bytes sent by a rail that writes into the peer's memory.
    Putting(Box<Putting>),
    /// A put or accumulate sent in frames.
    Streaming(Box<Streaming>),
    /// A compare-and-swap that waits for its result.
    Swapping,
    /// A receive in the posted queue, at `cell` of the matcher.
    Posted { into: Span, queue: u16, cell: Cell },
    /// A receive or get whose bytes are arriving, for a message of `len` bytes.
    Landing { into: Span, left: u64, word: MatchWord, len: u64 },
    /// A receive that reads some of its bytes while the sender writes the others.
    Sharing(Box<Sharing>),
    /// A receive that reads its bytes in place.
    Reading { sender: Ticket, into: Span, word: MatchWord, len: u64 },
    /// A message that a matched probe has taken and no receive has got yet.
    Taken { queue: u16, message: Ticket },
    /// A held message that a matched probe has taken; until it arrives, a receive for it is in the posted queue.
    Taking { from: Peer, queue: u16, cell: Cell },
    /// A taken held message that has arrived as an offer.
    TakenOffer { from: Peer, offer: Offer },
    /// A wait for a counter, or a schedule that has not begun.
    Waiting,
    /// A schedule.
    Running { run: Ticket },
    /// A trigger that has started this operation.
    Triggered { operation: Ticket },
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct InLane {
    pub(crate) word: MatchWord,
    pub(crate) source: Span,
    pub(crate) queue: u16,
    pub(crate) synchronous: bool,
    /// It went as an offer, not whole.
    pub(crate) offered: bool,
    /// The rail no longer needs its bytes.
    pub(crate) away: bool,
    /// To be cancelled as soon as its answer is known.
    pub(crate) cancelled: bool,
}

/// A transfer by a rail that writes into the peer's memory, piece by piece.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Putting {
    /// The whole message.
    pub(crate) source: Span,
    /// Bytes at the beginning that the receiver reads itself.
    pub(crate) read: u64,
    /// Where the remaining bytes go.
    pub(crate) into: Span,
    pub(crate) target: Ticket,
    /// How many of the remaining bytes are written.
    pub(crate) sent: u64,
    /// The receiver has read its part, if it has one.
    pub(crate) is_read: bool,
    /// The receiver cannot read its part, and gets it in chunks when the rest is written.
    pub(crate) owed: bool,
}

impl Putting {
    pub(crate) fn is_written(&self) -> bool {
        self.sent == self.into.len
    }

    /// Continues in chunks from where the rail stopped.
    pub(crate) fn in_chunks(self) -> OpState {
        let Putting { source, read, target, sent, is_read, owed, .. } = self;
        let (sent, unread) = (read + sent, if is_read { 0 } else { read });
        OpState::Writing { source, target, sent, frames_out: 0, read: unread, owed }
    }
}

/// A transfer shared by both sides.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sharing {
    pub(crate) sender: Ticket,
    /// Bytes at the beginning that we read.
    pub(crate) reading: u64,
    /// Bytes that are not in place yet.
    pub(crate) left: u64,
    pub(crate) word: MatchWord,
    pub(crate) into: Span,
}

/// A put or accumulate, frame by frame. A denied one ends when the rail needs none of its bytes any more.
#[derive(Debug)]
pub(crate) struct Streaming {
    pub(crate) source: Span,
    pub(crate) sent: u64,
    pub(crate) begun: bool,
    pub(crate) denied: bool,
    pub(crate) frames_out: u32,
    pub(crate) what: Stream,
}

/// Thousands of receives and sends are open at the same time, so rare and large states are boxed.
const _: () = assert!(size_of::<OpState>() <= 56);

/// What a stream of frames does at its target.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stream {
    Put { region: Region, offset: u64, notify: Option<u32> },
    Accumulate { region: Region, offset: u64, operator: Operator },
}

impl OpState {
    /// Whether an operation that begins like this needs the NIC for more than the bytes of a frame. Where the application
    /// is not the owner, something goes on when it ends.
    #[inline(always)]
    pub(crate) fn needs_driving(&self, owner: Owner, eager_bytes_max: u32) -> bool {
        if !matches!(owner, Owner::User) {
            return true;
        }
        match self {
            OpState::Flying { .. }
            | OpState::InLane(_)
            | OpState::Accepted { .. }
            | OpState::Offered { .. }
            | OpState::Taken { .. }
            | OpState::Taking { .. }
            | OpState::TakenOffer { .. } => false,
            OpState::Posted { into, .. } => into.len > u64::from(eager_bytes_max),
            _ => true,
        }
    }

    /// Sends all of `source` in chunks.
    pub(crate) fn writing(source: Span, target: Ticket) -> OpState {
        OpState::Writing { source, target, sent: 0, frames_out: 0, read: 0, owed: false }
    }

    /// Whether its frames go before those of operations that began later: accumulates change memory in their order.
    pub(crate) fn keeps_order(&self) -> bool {
        let OpState::Streaming(stream) = self else { return false };
        matches!(stream.what, Stream::Accumulate { .. })
    }

    /// Whether consecutive frames of the operation may go as one.
    pub(crate) fn goes_in_bursts(&self) -> bool {
        matches!(self, OpState::Writing { .. })
    }

    /// The next frame of an operation that has bytes to send, and whether more follow.
    pub(crate) fn next_chunk(&mut self, me: Ticket, room: u64) -> Option<(Outgoing, bool)> {
        match self {
            OpState::Writing { source, target, sent, frames_out, read, owed } => {
                if *sent == source.len && core::mem::take(owed) {
                    (*source, *sent) = (source.first(core::mem::take(read)), 0);
                }
                let payload = source.part(*sent, room.min(source.len - *sent));
                let kind = Kind::Chunk { ticket: *target, offset: *sent };
                *sent += payload.len;
                *frames_out += 1;
                Some((Outgoing { kind, payload, ticket: Some(me) }, *sent < source.len || *owed))
            }
            OpState::Streaming(stream) => {
                let Streaming { source, sent, begun, denied, frames_out, what } = &mut **stream;
                if *denied || *begun && *sent == source.len {
                    return None;
                }
                // Elements whose length divides 32 are not split.
                let payload = source.part(*sent, (room & !31).min(source.len - *sent));
                let last = *sent + payload.len == source.len;
                let kind = what.frame(me, *sent, last);
                *sent += payload.len;
                *begun = true;
                *frames_out += 1;
                Some((Outgoing { kind, payload, ticket: Some(me) }, !last))
            }
            _ => None,
        }
    }

    /// Takes back the last chunk, which found no room.
    pub(crate) fn unsend(&mut self, bytes: u64) {
        match self {
            OpState::Writing { sent, frames_out, .. } => {
                *sent -= bytes;
                *frames_out -= 1;
            }
            OpState::Streaming(stream) => {
                stream.frames_out -= 1;
                stream.sent -= bytes;
                stream.begun = stream.sent > 0;
            }
            _ => {}
        }
    }
}

impl Stream {
    fn frame(&self, ticket: Ticket, sent: u64, last: bool) -> Kind {
        match *self {
            Stream::Put { region, offset, notify } => Kind::Put {
                ticket,
                region,
                offset: offset + sent,
                last,
                notify: notify.filter(|_| last),
            },
            Stream::Accumulate { region, offset, operator } => {
                Kind::Accumulate { ticket, region, offset: offset + sent, last, operator }
            }
        }
    }
}
