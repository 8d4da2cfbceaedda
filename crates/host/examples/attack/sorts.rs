//! The attacks: each sort is one idea of how a rank might be deceived.

use ferrywire_host::nic::{Envelope, Key, Kind, MatchWord, Region, Span, Ticket};
use ferrywire_host::udp::seal::{DatagramHeader, Form, HEADER_BYTES};

use crate::tap::Heard;

/// What is sent in one call.
pub(crate) enum Shot {
    One(Vec<u8>),
    /// Datagrams of `each` bytes, which the kernel takes, and may deliver, in one piece.
    Batch {
        bytes: Vec<u8>,
        each: usize,
    },
}

pub(crate) struct Attacker {
    pub(crate) heard: Heard,
    random: u64,
}

/// How many local ranks and ranks there may be.
const LOCAL_RANKS: usize = 4;
const RANKS: usize = 8;

/// Sorts that need nothing sniffed, and all of them.
const BLIND: u64 = 7;
const ALL: u64 = 18;

impl Attacker {
    pub(crate) fn new(heard: Heard) -> Attacker {
        Attacker { heard, random: 1 }
    }

    /// The next attack, and its sort.
    pub(crate) fn shot(&mut self, number: u64) -> (&'static str, Shot) {
        let sorts = if self.heard.is_empty() { BLIND } else { ALL };
        let (sort, bytes) = match number % sorts {
            0 => ("junk", self.noise(1400)),
            1 => ("empty", Vec::new()),
            2 => ("truncated", self.forged(Form::Sealed, |bytes, cut| bytes.truncate(cut))),
            3 => ("forged", self.forged(Form::Sealed, |_, _| ())),
            4 => ("wakeup", self.header(Form::Wakeup).emit().to_vec()),
            5 => ("plain", self.forged(Form::Plain, |_, _| ())),
            // Another version, another form, or a local rank that does not exist.
            6 => ("unheard-of", self.forged(Form::Sealed, |bytes, at| bytes[at % 4] ^= 0x55)),
            7 => ("repeated", self.genuine(|_, _| ())),
            8 => ("flipped", self.genuine(|bytes, at| bytes[at] ^= 1 << (at % 8))),
            9 => ("cut", self.genuine(|bytes, at| bytes.truncate(at))),
            10 => ("longer", self.genuine(|bytes, at| bytes.extend_from_within(at..))),
            11 => ("other-local-rank", self.renamed(|header| header.local_rank ^= 1)),
            12 => ("other-source", self.renamed(|header| header.source ^= 1)),
            // Ahead of everything sniffed, so that the replay window would move if it were believed.
            13 => ("ahead", self.renamed(|header| header.counter += 1 << 20)),
            14 => ("other-epoch", self.renamed(|header| header.counter += 1 << 24)),
            15 => ("unsealed", self.renamed(|header| header.form = Form::Plain)),
            // What the victim has sent to another host, back to the victim.
            16 => ("reflected", self.heard.went(self.random).to_vec()),
            _ => return ("joined", self.joined()),
        };
        (sort, Shot::One(bytes))
    }

    /// The next attack on a job that is not sealed, in the name of one of the `near` first ranks, which are the victim
    /// and its neighbours. If they were believed, they could name addresses in each other's memory.
    pub(crate) fn shot_as_neighbour(&mut self, number: u64, near: usize) -> (&'static str, Shot) {
        let source = u32::try_from(self.below(near)).expect("a rank");
        let local_rank = u16::try_from(self.below(near)).expect("a local rank");
        let heard = self.genuine(|_, _| ());
        let header =
            DatagramHeader { local_rank, form: Form::Plain, source, counter: self.next() >> 8 };
        let frame = heard.get(HEADER_BYTES..).unwrap_or_default();
        let (sort, frame) = match (number % 5, Envelope::job_of(frame)) {
            (0, _) | (_, None) => ("frame-of-a-neighbour", frame.to_vec()),
            (1 | 2, Some(job)) => {
                ("offer-of-a-neighbour", self.emitted(job, |any| any.offer(source)))
            }
            (3, Some(job)) => ("grant-of-a-neighbour", self.emitted(job, Attacker::grant)),
            (_, Some(job)) => ("put-of-a-neighbour", self.emitted(job, Attacker::put)),
        };
        (sort, Shot::One([&header.emit()[..], &frame].concat()))
    }

    /// A frame as neighbours write it: without marks, since their rail loses nothing.
    fn emitted(&mut self, job: u32, kind: impl FnOnce(&mut Attacker) -> Kind) -> Vec<u8> {
        let mut bytes = [0; Envelope::BYTES_MAX];
        let len = Envelope { job, marks: None, kind: kind(self) }.emit(&mut bytes);
        [&bytes[..len], &self.noise(100)].concat()
    }

    fn offer(&mut self, source: u32) -> Kind {
        let tag = u32::try_from(self.below(4)).expect("a tag");
        let (word, ticket) = (MatchWord::new(0, source, tag), Ticket::from_bits(self.next()));
        let bytes = self.span();
        Kind::Offer { word, secured: true, first: false, ticket, source: bytes, key: Key(0) }
    }

    fn grant(&mut self) -> Kind {
        let [ticket, target] =
            [self.next(), self.next()].map(|bits| Ticket::from_bits(bits & 0xffff));
        Kind::Grant { ticket, target, into: self.span(), rest: false }
    }

    fn put(&mut self) -> Kind {
        let (ticket, offset) = (Ticket::from_bits(self.next()), self.next());
        Kind::Put { ticket, region: Region(0), offset, last: true, notify: None }
    }

    /// A span anywhere in an address space.
    fn span(&mut self) -> Span {
        let len = u64::try_from(1 + self.below(100_000)).expect("short");
        Span::new(Region(0), self.next() >> 17, len)
    }

    fn header(&mut self, form: Form) -> DatagramHeader {
        let local_rank = u16::try_from(self.below(LOCAL_RANKS)).expect("a local rank");
        let source = u32::try_from(self.below(RANKS)).expect("a rank");
        DatagramHeader { local_rank, form, source, counter: self.next() >> 40 }
    }

    /// A right header and noise, changed at some place.
    fn forged(&mut self, form: Form, change: impl FnOnce(&mut Vec<u8>, usize)) -> Vec<u8> {
        let mut bytes = [&self.header(form).emit()[..], &self.noise(200)].concat();
        change(&mut bytes, self.below(HEADER_BYTES + 200));
        bytes
    }

    /// A sniffed datagram, changed at some place.
    fn genuine(&mut self, change: impl FnOnce(&mut Vec<u8>, usize)) -> Vec<u8> {
        let random = self.next();
        let mut bytes = self.heard.came(random).to_vec();
        let at = self.below(bytes.len());
        change(&mut bytes, at);
        bytes
    }

    /// A sniffed datagram with a changed header.
    fn renamed(&mut self, change: impl FnOnce(&mut DatagramHeader)) -> Vec<u8> {
        self.genuine(|bytes, _| {
            if let Some(mut header) = DatagramHeader::parse(bytes) {
                change(&mut header);
                bytes[..HEADER_BYTES].copy_from_slice(&header.emit());
            }
        })
    }

    /// A sniffed datagram behind a forgery for the next local rank: where the kernel delivers both in one
    /// piece, a genuine datagram comes to a rank that it is not for.
    fn joined(&mut self) -> Shot {
        let genuine = self.genuine(|_, _| ());
        let mut bytes = genuine.clone();
        if let Some(mut header) = DatagramHeader::parse(&genuine) {
            header.local_rank ^= 1;
            bytes[..HEADER_BYTES].copy_from_slice(&header.emit());
        }
        let each = bytes.len();
        bytes.extend(genuine);
        Shot::Batch { bytes, each }
    }

    fn noise(&mut self, len_max: usize) -> Vec<u8> {
        let len = self.below(len_max);
        let mut bytes = Vec::with_capacity(len + 8);
        while bytes.len() < len {
            bytes.extend_from_slice(&self.next().to_le_bytes());
        }
        bytes.truncate(len);
        bytes
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() >> 33).expect("31 bits") % end.max(1)
    }

    /// Random numbers (xorshift).
    fn next(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }
}
