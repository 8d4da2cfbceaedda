//! The envelope: the header of every frame.
//!
//! An envelope is eight bytes (job, kind, flags, and two bytes for a queue or an operator), the marks of the
//! reliability layer if the rail needs it, and the fields of its kind. `parse` takes any bytes without panic and
//! `emit` is its inverse: what one writes the other reads, and bytes that `emit` would not reproduce are rejected.

use crate::port::Operator;
use crate::types::{Key, Region, Span, Ticket};
use crate::word::MatchWord;

/// The header of a frame: everything but the payload.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Envelope {
    /// The job of the sender.
    pub job: u32,
    /// Sequence numbers and acknowledgements, on rails that need them.
    pub marks: Option<Marks>,
    /// The kind of the frame.
    pub kind: Kind,
}

/// The sequence number of a frame, and what its sender has received from us.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Marks {
    /// The epoch of `sequence`.
    pub epoch: u32,
    /// The number of this frame. A [`Kind::Ack`] has no number of its own, and repeats the last.
    pub sequence: u32,
    /// The epoch of `ack` and `also`; zero if there is none.
    pub ack_epoch: u32,
    /// Every frame before this number has arrived.
    pub ack: u32,
    /// Bit `n`: frame `ack + 1 + n` has arrived too.
    pub also: u64,
    /// The sender wants an ack soon.
    pub asks: bool,
}

/// The kinds of frame, and their fields.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// Only the marks. On a reliable rail, which has none, the answer to [`Kind::Ask`].
    Ack,
    /// Asks for a sign of life, on a reliable rail whose peers may vanish.
    Ask,
    /// A whole message. `secured` if it uses credit; otherwise it asks for an answer.
    Eager {
        /// The match word.
        word: MatchWord,
        /// Room for the message is reserved.
        secured: bool,
        /// The send to notify when the message has matched.
        synchronous: Option<Ticket>,
    },
    /// A message that waits for a grant, or to be read in place. RTS in other MPIs.
    Offer {
        /// The match word.
        word: MatchWord,
        /// Room for the header is reserved.
        secured: bool,
        /// This offer begins a sweep of held messages.
        first: bool,
        /// The send.
        ticket: Ticket,
        /// Where the bytes are.
        source: Span,
        /// The key to read them with, if they can be read.
        key: Key,
    },
    /// The answer to the oldest unanswered message without credit.
    Answer {
        /// The queue pair of the message.
        queue: u16,
        /// Whether the message was accepted; if not, its sender holds it.
        accepted: bool,
        /// Receives are posted that the message did not match: the next one might.
        wanted: bool,
        /// Credit for later messages, in bytes.
        credit: u32,
    },
    /// Gives credit back to the sender.
    Credit {
        /// The queue pair.
        queue: u16,
        /// The credit, in bytes.
        bytes: u32,
    },
    /// Asks for the held messages of a queue pair, in order.
    Invite {
        /// The queue pair.
        queue: u16,
    },
    /// The sender no longer holds messages for a queue pair.
    Vacant {
        /// The queue pair.
        queue: u16,
    },
    /// The sender wants nothing for now, and gives all its credit back.
    Farewell,
    /// A synchronous message has matched.
    Matched {
        /// The send.
        ticket: Ticket,
    },
    /// An offer has matched: the bytes may come. CTS in other MPIs.
    Grant {
        /// The send.
        ticket: Ticket,
        /// The receive.
        target: Ticket,
        /// Where the bytes go, and how many are wanted.
        into: Span,
        /// Whether these are the last bytes of the message, and the receiver reads those before them.
        rest: bool,
    },
    /// Bytes that were granted or requested by a get. Data in other MPIs.
    Chunk {
        /// The receive or get.
        ticket: Ticket,
        /// Where in it the bytes belong.
        offset: u64,
    },
    /// The other side has finished a transfer. FIN in other MPIs.
    Done {
        /// The operation of the recipient that it ends.
        ticket: Ticket,
    },
    /// Withdraws an offer, if nothing has matched it.
    Withdraw {
        /// The send.
        ticket: Ticket,
        /// The match word of the offer.
        word: MatchWord,
    },
    /// Confirms that an offer is withdrawn.
    Withdrawn {
        /// The send.
        ticket: Ticket,
    },
    /// Bytes for a region.
    Put {
        /// The put, which gets a [`Kind::Done`] when the last frame is in place.
        ticket: Ticket,
        /// The region.
        region: Region,
        /// Where in the region.
        offset: u64,
        /// Whether it is the put's last frame.
        last: bool,
        /// A counter to raise with the last frame.
        notify: Option<u32>,
    },
    /// Requests bytes of a region.
    Get {
        /// The get.
        ticket: Ticket,
        /// The bytes.
        from: Span,
    },
    /// Bytes to combine into a region.
    Accumulate {
        /// The accumulate, which gets a [`Kind::Done`] when the last frame is combined.
        ticket: Ticket,
        /// The region.
        region: Region,
        /// Where in the region.
        offset: u64,
        /// Whether it is the accumulate's last frame.
        last: bool,
        /// The operator.
        operator: Operator,
    },
    /// Bytes to combine into a region, whose bytes before go back in chunks.
    Fetch {
        /// The fetch.
        ticket: Ticket,
        /// The region.
        region: Region,
        /// Where in the region.
        offset: u64,
        /// The operator.
        operator: Operator,
    },
    /// Requests a compare-and-swap of up to eight bytes of a region.
    Swap {
        /// The compare-and-swap.
        ticket: Ticket,
        /// The region.
        region: Region,
        /// Where in the region.
        offset: u64,
        /// How many bytes.
        width: u8,
        /// The value that the bytes must hold.
        expected: u64,
        /// The value to store then.
        value: u64,
    },
    /// The result of a compare-and-swap.
    Found {
        /// The compare-and-swap.
        ticket: Ticket,
        /// What the bytes held.
        value: u64,
    },
    /// Denies a one-sided operation: the region is not open, or too short.
    Denied {
        /// The operation.
        ticket: Ticket,
    },
}

impl Kind {
    /// Whether a NIC may leave it untouched while its application is away and nobody waits for what it brings: a whole
    /// message that no sender waits for and no module handles, or the end of an operation.
    #[inline(always)]
    pub fn can_wait(&self) -> bool {
        match self {
            Kind::Eager { word, secured, synchronous } => {
                *secured && synchronous.is_none() && !word.has_module()
            }
            Kind::Done { .. } => true,
            _ => false,
        }
    }

    /// Whether this is a reply. Replies go before requests: a peer that waits for one may hold what others need.
    /// So does [`Kind::Ask`], for which no operation waits.
    pub fn is_reply(&self) -> bool {
        !matches!(
            self,
            Kind::Eager { .. }
                | Kind::Offer { .. }
                | Kind::Vacant { .. }
                | Kind::Farewell
                | Kind::Chunk { .. }
                | Kind::Withdraw { .. }
                | Kind::Put { .. }
                | Kind::Get { .. }
                | Kind::Accumulate { .. }
                | Kind::Fetch { .. }
                | Kind::Swap { .. }
        )
    }

    /// The kind of the chunk that begins this many bytes further on. Other kinds have no further frames.
    pub(crate) fn beyond(self, bytes: u64) -> Kind {
        match self {
            Kind::Chunk { ticket, offset } => {
                Kind::Chunk { ticket, offset: offset.saturating_add(bytes) }
            }
            other => other,
        }
    }
}

impl Envelope {
    /// The longest envelope.
    pub const BYTES_MAX: usize = HEAD_BYTES + MARKS_BYTES + 44;

    /// The job that a frame claims to belong to; checked before anything else.
    pub fn job_of(raw: &[u8]) -> Option<u32> {
        raw.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
    }

    /// Parses the most common envelope: of this job, without marks, a whole message under credit that is not
    /// synchronous. `None` for any other.
    #[inline]
    pub fn parse_plain(raw: &[u8], job: u32) -> Option<(MatchWord, &[u8])> {
        let (head, rest) = raw.split_first_chunk::<8>()?;
        let (word, payload) = rest.split_first_chunk::<8>()?;
        if u64::from_le_bytes(*head) != head_bits(job, EAGER, SECURED, 0) {
            return None;
        }
        Some((MatchWord::from_bits(u64::from_le_bytes(*word)), payload))
    }

    /// The two words of such an envelope, for rails with a fast path for short frames.
    #[inline]
    pub fn plain_words(&self) -> Option<[u64; 2]> {
        match (self.marks, self.kind) {
            (None, Kind::Eager { word, secured: true, synchronous: None }) => {
                Some([head_bits(self.job, EAGER, SECURED, 0), word.bits()])
            }
            _ => None,
        }
    }

    /// Parses the envelope at the start of a frame; the rest is the payload.
    pub fn parse(raw: &[u8]) -> Option<(Envelope, &[u8])> {
        let mut reader = Reader(raw);
        let job = reader.u32()?;
        let code = reader.u8()?;
        let mut flags = Flags(reader.u8()?);
        let short = reader.u16()?;
        let marks = match flags.take(SEQUENCED) {
            true => Some(Marks { asks: flags.take(ASKS), ..reader.marks()? }),
            false => None,
        };
        let kind = parse_kind(code, &mut flags, short, &mut reader)?;
        let envelope = Envelope { job, marks, kind };
        // A flag that this kind does not have could not be emitted again.
        (flags.0 == 0).then_some((envelope, reader.0))
    }

    /// Writes the envelope, and returns its length.
    pub fn emit(&self, into: &mut [u8; Envelope::BYTES_MAX]) -> usize {
        let mut writer = Writer { bytes: into, len: HEAD_BYTES };
        let mut flags = Flags(0);
        flags.put(SEQUENCED, self.marks.is_some());
        if let Some(marks) = &self.marks {
            flags.put(ASKS, marks.asks);
            writer.marks(marks);
        }
        let (code, short) = emit_kind(&self.kind, &mut flags, &mut writer);
        let len = writer.len;
        // One store, so that a copy need not wait for several.
        into[..8].copy_from_slice(&head_bits(self.job, code, flags.0, short).to_le_bytes());
        len
    }
}

/// The first eight bytes of every envelope, as a number.
#[inline]
fn head_bits(job: u32, code: u8, flags: u8, short: u16) -> u64 {
    u64::from(short) << 48 | u64::from(flags) << 40 | u64::from(code) << 32 | u64::from(job)
}

fn parse_kind(code: u8, flags: &mut Flags, short: u16, reader: &mut Reader<'_>) -> Option<Kind> {
    // The two short bytes are zero in kinds that do not use them.
    if short != 0 && !matches!(code, ANSWER | CREDIT | INVITE | VACANT | ACCUMULATE | FETCH | SWAP)
    {
        return None;
    }
    Some(match code {
        ACK => Kind::Ack,
        ASK => Kind::Ask,
        EAGER => Kind::Eager {
            word: reader.word()?,
            secured: flags.take(SECURED),
            synchronous: if flags.take(SYNCHRONOUS) { Some(reader.ticket()?) } else { None },
        },
        OFFER => Kind::Offer {
            word: reader.word()?,
            secured: flags.take(SECURED),
            first: flags.take(FIRST),
            ticket: reader.ticket()?,
            source: reader.span()?,
            key: if flags.take(READABLE) { reader.key()? } else { Key::NONE },
        },
        ANSWER => Kind::Answer {
            queue: short,
            accepted: flags.take(ACCEPTED),
            wanted: flags.take(WANTED),
            credit: reader.u32()?,
        },
        CREDIT => Kind::Credit { queue: short, bytes: reader.u32()? },
        INVITE => Kind::Invite { queue: short },
        VACANT => Kind::Vacant { queue: short },
        FAREWELL => Kind::Farewell,
        MATCHED => Kind::Matched { ticket: reader.ticket()? },
        GRANT => {
            let (ticket, target, into) = (reader.ticket()?, reader.ticket()?, reader.span()?);
            Kind::Grant { ticket, target, into, rest: flags.take(REST) }
        }
        CHUNK => Kind::Chunk { ticket: reader.ticket()?, offset: reader.u64()? },
        DONE => Kind::Done { ticket: reader.ticket()? },
        WITHDRAW => Kind::Withdraw { ticket: reader.ticket()?, word: reader.word()? },
        WITHDRAWN => Kind::Withdrawn { ticket: reader.ticket()? },
        PUT => Kind::Put {
            ticket: reader.ticket()?,
            region: Region(reader.u32()?),
            offset: reader.u64()?,
            last: flags.take(LAST),
            notify: if flags.take(NOTIFY) { Some(reader.u32()?) } else { None },
        },
        GET => Kind::Get { ticket: reader.ticket()?, from: reader.span()? },
        ACCUMULATE => Kind::Accumulate {
            ticket: reader.ticket()?,
            region: Region(reader.u32()?),
            offset: reader.u64()?,
            last: flags.take(LAST),
            operator: Operator(short),
        },
        FETCH => Kind::Fetch {
            ticket: reader.ticket()?,
            region: Region(reader.u32()?),
            offset: reader.u64()?,
            operator: Operator(short),
        },
        SWAP => Kind::Swap {
            ticket: reader.ticket()?,
            region: Region(reader.u32()?),
            offset: reader.u64()?,
            width: u8::try_from(short).ok().filter(|width| (1..=8).contains(width))?,
            expected: reader.u64()?,
            value: reader.u64()?,
        },
        FOUND => Kind::Found { ticket: reader.ticket()?, value: reader.u64()? },
        DENIED => Kind::Denied { ticket: reader.ticket()? },
        _ => return None,
    })
}

/// Writes the fields of a kind; returns its code and the two short bytes.
fn emit_kind(kind: &Kind, flags: &mut Flags, writer: &mut Writer<'_>) -> (u8, u16) {
    match *kind {
        Kind::Ack => (ACK, 0),
        Kind::Ask => (ASK, 0),
        Kind::Eager { word, secured, synchronous } => {
            flags.put(SECURED, secured);
            flags.put(SYNCHRONOUS, synchronous.is_some());
            writer.u64(word.bits());
            if let Some(ticket) = synchronous {
                writer.u64(ticket.bits());
            }
            (EAGER, 0)
        }
        Kind::Offer { word, secured, first, ticket, source, key } => {
            flags.put(SECURED, secured);
            flags.put(FIRST, first);
            flags.put(READABLE, key != Key::NONE);
            writer.u64(word.bits());
            writer.u64(ticket.bits());
            writer.span(source);
            if key != Key::NONE {
                writer.u64(key.0);
            }
            (OFFER, 0)
        }
        Kind::Answer { queue, accepted, wanted, credit } => {
            flags.put(ACCEPTED, accepted);
            flags.put(WANTED, wanted);
            writer.u32(credit);
            (ANSWER, queue)
        }
        Kind::Credit { queue, bytes } => {
            writer.u32(bytes);
            (CREDIT, queue)
        }
        Kind::Invite { queue } => (INVITE, queue),
        Kind::Vacant { queue } => (VACANT, queue),
        Kind::Farewell => (FAREWELL, 0),
        Kind::Matched { ticket } => writer.ticket(MATCHED, ticket),
        Kind::Grant { ticket, target, into, rest } => {
            flags.put(REST, rest);
            writer.u64(ticket.bits());
            writer.u64(target.bits());
            writer.span(into);
            (GRANT, 0)
        }
        Kind::Chunk { ticket, offset } => {
            writer.u64(ticket.bits());
            writer.u64(offset);
            (CHUNK, 0)
        }
        Kind::Done { ticket } => writer.ticket(DONE, ticket),
        Kind::Withdraw { ticket, word } => {
            writer.u64(ticket.bits());
            writer.u64(word.bits());
            (WITHDRAW, 0)
        }
        Kind::Withdrawn { ticket } => writer.ticket(WITHDRAWN, ticket),
        Kind::Put { ticket, region, offset, last, notify } => {
            flags.put(LAST, last);
            flags.put(NOTIFY, notify.is_some());
            writer.place(ticket, region, offset);
            if let Some(counter) = notify {
                writer.u32(counter);
            }
            (PUT, 0)
        }
        Kind::Get { ticket, from } => {
            writer.u64(ticket.bits());
            writer.span(from);
            (GET, 0)
        }
        Kind::Accumulate { ticket, region, offset, last, operator } => {
            flags.put(LAST, last);
            writer.place(ticket, region, offset);
            (ACCUMULATE, operator.0)
        }
        Kind::Fetch { ticket, region, offset, operator } => {
            writer.place(ticket, region, offset);
            (FETCH, operator.0)
        }
        Kind::Swap { ticket, region, offset, width, expected, value } => {
            writer.place(ticket, region, offset);
            writer.u64(expected);
            writer.u64(value);
            (SWAP, width.into())
        }
        Kind::Found { ticket, value } => {
            writer.u64(ticket.bits());
            writer.u64(value);
            (FOUND, 0)
        }
        Kind::Denied { ticket } => writer.ticket(DENIED, ticket),
    }
}

/// The flag bits of a frame. Taking one clears it, so that bits left over are unknown.
struct Flags(u8);

impl Flags {
    fn take(&mut self, flag: u8) -> bool {
        let set = self.0 & flag != 0;
        self.0 &= !flag;
        set
    }

    fn put(&mut self, flag: u8, set: bool) {
        if set {
            self.0 |= flag;
        }
    }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*bytes)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take().map(u8::from_le_bytes)
    }

    fn u16(&mut self) -> Option<u16> {
        self.take().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    fn word(&mut self) -> Option<MatchWord> {
        self.u64().map(MatchWord::from_bits)
    }

    fn ticket(&mut self) -> Option<Ticket> {
        self.u64().map(Ticket::from_bits)
    }

    /// Reads a key. [`Key::NONE`] is invalid here: a flag says it instead.
    fn key(&mut self) -> Option<Key> {
        self.u64().map(Key).filter(|&key| key != Key::NONE)
    }

    fn span(&mut self) -> Option<Span> {
        Some(Span { region: Region(self.u32()?), offset: self.u64()?, len: self.u64()? })
    }

    fn marks(&mut self) -> Option<Marks> {
        Some(Marks {
            epoch: self.u32()?,
            sequence: self.u32()?,
            ack_epoch: self.u32()?,
            ack: self.u32()?,
            also: self.u64()?,
            asks: false,
        })
    }
}

struct Writer<'a> {
    bytes: &'a mut [u8; Envelope::BYTES_MAX],
    len: usize,
}

impl Writer<'_> {
    fn put<const N: usize>(&mut self, bytes: [u8; N]) {
        self.bytes[self.len..self.len + N].copy_from_slice(&bytes);
        self.len += N;
    }

    fn u32(&mut self, value: u32) {
        self.put(value.to_le_bytes());
    }

    fn u64(&mut self, value: u64) {
        self.put(value.to_le_bytes());
    }

    fn span(&mut self, span: Span) {
        self.u32(span.region.0);
        self.u64(span.offset);
        self.u64(span.len);
    }

    fn marks(&mut self, marks: &Marks) {
        self.u32(marks.epoch);
        self.u32(marks.sequence);
        self.u32(marks.ack_epoch);
        self.u32(marks.ack);
        self.u64(marks.also);
    }

    /// Writes a kind whose only field is a ticket.
    fn ticket(&mut self, code: u8, ticket: Ticket) -> (u8, u16) {
        self.u64(ticket.bits());
        (code, 0)
    }

    fn place(&mut self, ticket: Ticket, region: Region, offset: u64) {
        self.u64(ticket.bits());
        self.u32(region.0);
        self.u64(offset);
    }
}

const HEAD_BYTES: usize = 8;
const MARKS_BYTES: usize = 24;

const SEQUENCED: u8 = 1;
const ASKS: u8 = 2;
const SECURED: u8 = 4;
const SYNCHRONOUS: u8 = 8;
const FIRST: u8 = 16;
const READABLE: u8 = 32;
const ACCEPTED: u8 = 4;
const WANTED: u8 = 8;
const REST: u8 = 4;
const LAST: u8 = 4;
const NOTIFY: u8 = 8;

const ACK: u8 = 0;
const EAGER: u8 = 1;
const OFFER: u8 = 2;
const ANSWER: u8 = 3;
const CREDIT: u8 = 4;
const INVITE: u8 = 5;
const MATCHED: u8 = 6;
const GRANT: u8 = 7;
const CHUNK: u8 = 8;
const DONE: u8 = 9;
const WITHDRAW: u8 = 10;
const WITHDRAWN: u8 = 11;
const PUT: u8 = 12;
const GET: u8 = 13;
const ACCUMULATE: u8 = 14;
const SWAP: u8 = 15;
const FOUND: u8 = 16;
const DENIED: u8 = 17;
const VACANT: u8 = 18;
const FAREWELL: u8 = 19;
const ASK: u8 = 20;
const FETCH: u8 = 21;
