//! One operation in progress, and the states that it can be in.

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
    /// The peer without which it cannot end.
    pub(crate) peer: Option<Peer>,
    /// Whether it counts among the peer's open operations.
    pub(crate) met: bool,
    /// Whether the peer may read its bytes where they are.
    pub(crate) exposed: bool,
    /// A counter to raise when it ends.
    pub(crate) counter: Option<Ticket>,
    pub(crate) state: OpState,
}

/// What is left of an operation that has ended.
pub(crate) struct Closed {
    pub(crate) owner: Owner,
    pub(crate) counter: Option<Ticket>,
    pub(crate) exposed: bool,
}

/// Who wants to know how it ends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Owner {
    User,
    Step(StepRef),
    /// The module of this group receives.
    Module(u16),
    /// A module has sent it, and its bytes are ours.
    Kept(Ticket),
    /// For whoever sent it, it is over: its bytes are a copy of ours.
    Copied(Ticket),
    /// We serve a peer; it is the peer that waits.
    Nobody,
}

#[derive(Debug)]
pub(crate) enum OpState {
    /// An eager message under credit. Over when the rail has its bytes; one that is synchronous, with this word, when
    /// it has matched.
    Flying { synchronous: Option<MatchWord> },
    /// A message without credit: not answered yet, or held.
    InLane(InLane),
    /// A synchronous message that is out of our hands and has not matched, as far as we know.
    Accepted { word: MatchWord },
    /// An offer that its receiver knows of.
    Offered { word: MatchWord, source: Span },
    /// Bytes on their way in chunks, to a receive or a get. The receiver may read as many as `read` at the beginning, and
    /// has not said that it has; if they are `owed` it cannot, and they go when all others have gone.
    Writing { source: Span, target: Ticket, sent: u64, frames_out: u32, read: u64, owed: bool },
    /// Bytes on their way by a rail that writes into the peer's memory.
    Putting(Box<Putting>),
    /// A put or accumulate on its way in frames.
    Streaming(Box<Streaming>),
    /// A compare-and-swap that waits for what it found.
    Swapping,
    /// A receive in the posted queue. Its cell is set as soon as the matcher has told it.
    Posted { into: Span, queue: u16, cell: Cell },
    /// A receive or get whose bytes are coming, for a message of `len` bytes.
    Landing { into: Span, left: u64, word: MatchWord, len: u64 },
    /// A receive that reads some of its bytes, while the others come.
    Sharing(Box<Sharing>),
    /// A receive that reads its bytes where they are.
    Reading { sender: Ticket, into: Span, word: MatchWord, len: u64 },
    /// A message that a matched probe has taken, and no receive has got.
    Taken { queue: u16, message: Ticket },
    /// A held message that a matched probe has taken; it waits in the posted queue for it to come.
    Taking { from: Peer, queue: u16, cell: Cell },
    /// Such a message, when it has come: an offer.
    TakenOffer { from: Peer, offer: Offer },
    /// A wait for a counter.
    Waiting,
    /// A schedule.
    Running { run: Ticket },
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
    /// To be taken back as soon as its answer is known.
    pub(crate) cancelled: bool,
}

/// A transfer by a rail that writes into the peer's memory, piece by piece.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Putting {
    /// The whole message.
    pub(crate) source: Span,
    /// Bytes at its beginning that the receiver reads itself.
    pub(crate) read: u64,
    /// Where the others go.
    pub(crate) into: Span,
    pub(crate) target: Ticket,
    /// How many of these have gone.
    pub(crate) sent: u64,
    /// The receiver has read what it wanted to read itself, if anything.
    pub(crate) is_read: bool,
    /// It cannot, and gets these bytes in chunks when the others are written.
    pub(crate) owed: bool,
}

impl Putting {
    pub(crate) fn is_written(&self) -> bool {
        self.sent == self.into.len
    }

    /// Goes on in chunks, from where the rail has come to.
    pub(crate) fn in_chunks(self) -> OpState {
        let Putting { source, read, target, sent, is_read, owed, .. } = self;
        let (sent, unread) = (read + sent, if is_read { 0 } else { read });
        OpState::Writing { source, target, sent, frames_out: 0, read: unread, owed }
    }
}

/// A transfer that both sides work at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sharing {
    pub(crate) sender: Ticket,
    /// Bytes at the beginning that we read.
    pub(crate) reading: u64,
    /// Bytes that are not in place.
    pub(crate) left: u64,
    pub(crate) word: MatchWord,
    pub(crate) into: Span,
}

/// A put or accumulate, frame by frame. If it is denied it ends when the rail needs none of its
/// bytes any more.
#[derive(Debug)]
pub(crate) struct Streaming {
    pub(crate) source: Span,
    pub(crate) sent: u64,
    pub(crate) begun: bool,
    pub(crate) denied: bool,
    pub(crate) frames_out: u32,
    pub(crate) what: Stream,
}

/// Receives and sends by the thousand are open at the same time; what makes an operation large and
/// is rare is boxed.
const _: () = assert!(size_of::<OpState>() <= 56);

/// What a stream of frames does at its target.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stream {
    Put { region: Region, offset: u64, notify: Option<u32> },
    Accumulate { region: Region, offset: u64, operator: Operator },
}

impl OpState {
    /// All of `source` on its way in chunks.
    pub(crate) fn writing(source: Span, target: Ticket) -> OpState {
        OpState::Writing { source, target, sent: 0, frames_out: 0, read: 0, owed: false }
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
                // Elements of up to 16 bytes are not cut in two.
                let payload = source.part(*sent, (room & !15).min(source.len - *sent));
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

    /// The last chunk found no room.
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
