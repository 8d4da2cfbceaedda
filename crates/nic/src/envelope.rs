//! The bytes at the head of every frame.
//!
//! An envelope is eight bytes (job, kind, flags, and two bytes for a queue or an operator), the marks of
//! the reliability layer if the rail needs it, and what its kind needs. `parse` takes any bytes without
//! panic and `emit` is its inverse: what one writes the other reads, and a byte that `parse`
//! would not read back the same is not accepted.

use crate::port::Operator;
use crate::types::{Key, Region, Span, Ticket};
use crate::word::MatchWord;

/// The head of a frame: everything but the payload.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Envelope {
    /// The job that the sender belongs to.
    pub job: u32,
    /// Sequence numbers and acknowledgements, on rails that need them.
    pub marks: Option<Marks>,
    /// What sort of frame this is.
    pub kind: Kind,
}

/// The sequence number of a frame, and what its sender has received from us.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Marks {
    /// The conversation that `sequence` counts in.
    pub epoch: u32,
    /// The number of this frame. An [`Kind::Ack`] has none of its own, and repeats the last.
    pub sequence: u32,
    /// The conversation that `ack` and `also` count in; zero if there is none.
    pub ack_epoch: u32,
    /// Every frame before this number has arrived.
    pub ack: u32,
    /// Bit `n`: the frame `ack + 1 + n` has arrived too.
    pub also: u64,
    /// An ack is wanted soon.
    pub asks: bool,
}

/// The sorts of frame, and what each says.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// Nothing but the marks.
    Ack,
    /// A message, whole. `secured` if it uses credit; otherwise it asks for an answer.
    Eager {
        /// What it says of itself.
        word: MatchWord,
        /// Room for it has been set aside.
        secured: bool,
        /// Whom to tell when it has matched.
        synchronous: Option<Ticket>,
    },
    /// A message that waits for a grant, or to be read where it is.
    Offer {
        /// What it says of itself.
        word: MatchWord,
        /// Room for its header has been set aside.
        secured: bool,
        /// It begins a sweep of held messages.
        first: bool,
        /// The send.
        ticket: Ticket,
        /// Where its bytes are.
        source: Span,
        /// What they can be read by, if they can.
        key: Key,
    },
    /// What became of the oldest unanswered message without credit.
    Answer {
        /// The queue pair that it was for.
        queue: u16,
        /// Whether it was taken; if not, its sender holds it.
        accepted: bool,
        /// Receives are waiting that it did not satisfy: the next might.
        wanted: bool,
        /// Credit that comes with it, in bytes.
        credit: u32,
    },
    /// Credit that comes back.
    Credit {
        /// The queue pair that it is for.
        queue: u16,
        /// Bytes.
        bytes: u32,
    },
    /// Asks for the held messages of a queue pair, in order.
    Invite {
        /// The queue pair.
        queue: u16,
    },
    /// The sender holds nothing for a queue pair any more.
    Vacant {
        /// The queue pair.
        queue: u16,
    },
    /// The sender has nothing more to say for now, and gives all its credit back.
    Farewell,
    /// A synchronous message has found its receive.
    Matched {
        /// The send.
        ticket: Ticket,
    },
    /// An offer has found its receive: the bytes may come.
    Grant {
        /// The send.
        ticket: Ticket,
        /// The receive.
        target: Ticket,
        /// Where the bytes go, and how many are wanted.
        into: Span,
        /// Whether these are the last of the message, and the receiver reads those before them.
        rest: bool,
    },
    /// Bytes that were granted or asked for.
    Chunk {
        /// The receive or get.
        ticket: Ticket,
        /// Where in it they belong.
        offset: u64,
    },
    /// A transfer is over, as seen from the other side.
    Done {
        /// The operation here that it ends.
        ticket: Ticket,
    },
    /// Takes an offer back, if nothing has matched it.
    Withdraw {
        /// The send.
        ticket: Ticket,
        /// What the offer said of itself.
        word: MatchWord,
    },
    /// The offer is taken back.
    Withdrawn {
        /// The send.
        ticket: Ticket,
    },
    /// Bytes for a region.
    Put {
        /// The put, which is told when the last frame is in place.
        ticket: Ticket,
        /// The region.
        region: Region,
        /// Where in it.
        offset: u64,
        /// Whether it is the put's last frame.
        last: bool,
        /// A counter to raise, with the last frame.
        notify: Option<u32>,
    },
    /// Asks for bytes of a region.
    Get {
        /// The get.
        ticket: Ticket,
        /// The bytes.
        from: Span,
    },
    /// Bytes to combine into a region.
    Accumulate {
        /// The accumulate, which is told when the last frame is combined.
        ticket: Ticket,
        /// The region.
        region: Region,
        /// Where in it.
        offset: u64,
        /// Whether it is the accumulate's last frame.
        last: bool,
        /// How to combine.
        operator: Operator,
    },
    /// Asks to change eight bytes of a region if they hold what is expected.
    Swap {
        /// The compare-and-swap.
        ticket: Ticket,
        /// The region.
        region: Region,
        /// Where in it.
        offset: u64,
        /// What the bytes must hold.
        expected: u64,
        /// What they will hold then.
        value: u64,
    },
    /// What the eight bytes held.
    Found {
        /// The compare-and-swap.
        ticket: Ticket,
        /// Their value.
        value: u64,
    },
    /// A one-sided operation named a region that is not there, or too much of it.
    Denied {
        /// The operation.
        ticket: Ticket,
    },
}

impl Kind {
    /// Replies go before requests: whoever waits for one may be holding what others need.
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
                | Kind::Swap { .. }
        )
    }
}

impl Envelope {
    /// No envelope is longer.
    pub const BYTES_MAX: usize = HEAD_BYTES + MARKS_BYTES + 44;

    /// The job that a frame claims to belong to; the first thing looked at.
    pub fn job_of(raw: &[u8]) -> Option<u32> {
        raw.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
    }

    /// Reads the envelope that most frames have: of this job, without marks, a whole message under
    /// credit that nobody wants to hear of. Nothing if it is any other.
    #[inline]
    pub fn parse_plain(raw: &[u8], job: u32) -> Option<(MatchWord, &[u8])> {
        let (head, rest) = raw.split_first_chunk::<8>()?;
        let (word, payload) = rest.split_first_chunk::<8>()?;
        if u64::from_le_bytes(*head) != head_bits(job, EAGER, SECURED, 0) {
            return None;
        }
        Some((MatchWord::from_bits(u64::from_le_bytes(*word)), payload))
    }

    /// The two words of such an envelope, for rails that have a short way for short frames.
    #[inline]
    pub fn plain_words(&self) -> Option<[u64; 2]> {
        match (self.marks, self.kind) {
            (None, Kind::Eager { word, secured: true, synchronous: None }) => {
                Some([head_bits(self.job, EAGER, SECURED, 0), word.bits()])
            }
            _ => None,
        }
    }

    /// Reads the envelope at the head of a frame; what is left is the payload.
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
        // A flag that this kind does not have would not be written back.
        (flags.0 == 0).then_some((envelope, reader.0))
    }

    /// Writes the envelope, and answers how many bytes it took.
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
        // One store, so that whoever copies it need not wait for several.
        into[..8].copy_from_slice(&head_bits(self.job, code, flags.0, short).to_le_bytes());
        len
    }
}

/// The eight bytes that every envelope begins with, as a number.
#[inline]
fn head_bits(job: u32, code: u8, flags: u8, short: u16) -> u64 {
    u64::from(short) << 48 | u64::from(flags) << 40 | u64::from(code) << 32 | u64::from(job)
}

fn parse_kind(code: u8, flags: &mut Flags, short: u16, reader: &mut Reader<'_>) -> Option<Kind> {
    // Kinds that do not use the two short bytes have them zero.
    if short != 0 && !matches!(code, ANSWER | CREDIT | INVITE | VACANT | ACCUMULATE) {
        return None;
    }
    Some(match code {
        ACK => Kind::Ack,
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
        SWAP => Kind::Swap {
            ticket: reader.ticket()?,
            region: Region(reader.u32()?),
            offset: reader.u64()?,
            expected: reader.u64()?,
            value: reader.u64()?,
        },
        FOUND => Kind::Found { ticket: reader.ticket()?, value: reader.u64()? },
        DENIED => Kind::Denied { ticket: reader.ticket()? },
        _ => return None,
    })
}

/// Writes what a kind says beyond the head; answers its code and the two short bytes.
fn emit_kind(kind: &Kind, flags: &mut Flags, writer: &mut Writer<'_>) -> (u8, u16) {
    match *kind {
        Kind::Ack => (ACK, 0),
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
        Kind::Swap { ticket, region, offset, expected, value } => {
            writer.place(ticket, region, offset);
            writer.u64(expected);
            writer.u64(value);
            (SWAP, 0)
        }
        Kind::Found { ticket, value } => {
            writer.u64(ticket.bits());
            writer.u64(value);
            (FOUND, 0)
        }
        Kind::Denied { ticket } => writer.ticket(DENIED, ticket),
    }
}

/// The flag bits of a frame. Reading one takes it away, so that what is left was not understood.
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

    /// A key. That there is none is not said by one.
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

    /// A kind that says nothing but a ticket.
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
