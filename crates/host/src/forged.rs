//! Forged frames, by the million: whichever rank they claim to be from, a NIC behind a rail between hosts
//! touches no byte that is not lent for it, and never accepts a frame in the name of a rank of its own host.
//!
//! The attackers know the job, the tickets of all open operations, and what is lent where. `DATAGRAMS` is how
//! many datagrams they send, `SEED` the seed of the random numbers:
//!
//!     DATAGRAMS=10000000 cargo test --release -p ferrywire-host --lib forged -- --nocapture

use std::collections::HashMap;
use std::sync::Arc;

use ferrywire_nic::{
    Envelope, Key, Kind, Limits, Marks, Mask, MatchWord, Mode, Nic, Operator, Outcome, Peer, Port,
    Posted, Progress, Promises, Region, Seal, Sent, Span, StepRef, Ticket, Time,
};

use crate::fabric::rail::Others;
use crate::job::LocalWire;
use crate::net::Net;
use crate::net::tests::ranks;
use crate::rail::FAR;
use crate::udp::address::SocketAddress;
use crate::udp::keys::Epochs;
use crate::udp::rail::{Sources, open_one};
use crate::udp::seal::{DatagramHeader, Form, HEADER_BYTES, TAG_BYTES};

const JOB: u32 = 7;
/// Ranks on each of three hosts. The attack is on the first rank of the first host.
const EACH: u16 = 3;
const RANKS: u32 = 9;
const ME: Peer = Peer(0);
/// A region that others may write and read.
const OPEN: Region = Region(1);
const OPEN_BYTES: u64 = 1000;

#[test]
fn sealed_datagrams_are_not_forged_whoever_they_claim_to_be_from() {
    let nets = ranks(3, EACH, LocalWire::Sealed(Epochs { first: 0, frames: 1000 }));
    let (mut world, mut sources) = (World::new(false), Sources::default());
    let genuine = genuine(&nets);
    let taken = genuine.iter().filter(|one| world.take(&nets[0], &mut sources, one)).count();
    assert_eq!(taken, genuine.len(), "each counts once");
    let mut believed = 0;
    for number in 0..datagrams() {
        let datagram = match number % 4 {
            // Right headers before valid frames, and sniffed datagrams, changed or not.
            0 | 1 => world.datagram(Form::Sealed),
            2 => world.changed(&genuine),
            _ => genuine[world.dice.below(genuine.len())].clone(),
        };
        believed += u64::from(world.take(&nets[0], &mut sources, &datagram));
    }
    println!("sealed: {} datagrams, {believed} believed; {}", datagrams(), world.said());
    assert_eq!(believed, 0);
}

#[test]
fn forged_datagrams_that_are_not_sealed_touch_only_what_is_lent() {
    let nets = ranks(3, EACH, LocalWire::Insecure);
    let (mut world, mut sources) = (World::new(false), Sources::default());
    let mut believed = 0;
    for _ in 0..datagrams() {
        let datagram = world.datagram(Form::Plain);
        believed += u64::from(world.take(&nets[0], &mut sources, &datagram));
    }
    println!("insecure: {} datagrams, {believed} believed; {}", datagrams(), world.said());
    assert!(believed > 0 && world.port.reached > 0, "something got as far as memory");
}

#[test]
fn forged_messages_of_libfabric_touch_only_what_is_lent() {
    let nets = ranks(3, EACH, LocalWire::Insecure);
    let (mut world, others) = (World::new(true), Others::of(&nets[0]));
    let mut believed = 0;
    for _ in 0..datagrams() {
        let source = world.dice.source();
        let message = [&source.to_le_bytes()[..], &world.frame(source)].concat();
        if let Some((peer, frame)) = others.split(&message) {
            world.on_frame(peer, frame);
            believed += 1;
        }
    }
    println!("libfabric: {} messages, {believed} believed; {}", datagrams(), world.said());
    assert!(believed > 0 && world.port.reached > 0, "something got as far as memory");
}

/// The number of datagrams in each test.
fn datagrams() -> u64 {
    let number = std::env::var("DATAGRAMS").ok().map(|text| text.parse().expect("a number"));
    number.unwrap_or(100_000)
}

/// What a rank of another host has sent, across a change of keys.
fn genuine(nets: &[Arc<Net>]) -> Vec<Vec<u8>> {
    let (mut out, _) = crate::udp::rail::open(&nets[4]);
    (0..1500_u32).map(|number| out.sealed_for_tests(ME, &number.to_le_bytes())).collect()
}

/// The attacked rank: its NIC, with receives, sends and a region open.
struct World {
    nic: Nic,
    port: Lender,
    dice: Dice,
    /// The counter of datagrams that are not sealed.
    counter: u64,
    /// The next sequence number for each rank that attackers claim to be.
    sequences: HashMap<u32, u32>,
}

impl World {
    fn new(fabric: bool) -> World {
        let limits = Limits { unexpected_bytes_max: 64 << 10, ..Limits::default() };
        let mut nic = Nic::new(ME, JOB, limits);
        nic.open_piece(Span::new(OPEN, 0, OPEN_BYTES));
        let port = Lender { fabric, ..Lender::default() };
        let mut world =
            World { nic, port, dice: Dice::new(), counter: 0, sequences: HashMap::new() };
        world.post();
        world
    }

    fn said(&self) -> String {
        format!("{} accesses to memory, all lent", self.port.reached)
    }

    /// Receives a datagram. True if it was accepted.
    fn take(&mut self, net: &Net, sources: &mut Sources, datagram: &[u8]) -> bool {
        let mut datagram = datagram.to_vec();
        let opened = open_one(net, sources, &SocketAddress::NOWHERE, &mut datagram);
        if let Some((peer, frame)) = &opened {
            self.on_frame(*peer, &datagram[frame.clone()]);
        }
        opened.is_some()
    }

    fn on_frame(&mut self, peer: Peer, frame: &[u8]) {
        assert!(is_far(peer), "{peer:?} is on our host, and was believed to speak by the network");
        self.nic.on_frame(peer, FAR, Seal::Intact, frame, &mut self.port);
        for ticket in std::mem::take(&mut self.port.reading) {
            self.nic.on_read(ticket, &mut self.port);
        }
        if self.dice.below(64) == 0 {
            self.port.now = self.port.now.after(1_000_000);
            self.nic.on_timer(&mut self.port);
        }
        if self.nic.is_busy() {
            self.nic.on_turn(&mut self.port);
        }
        if self.port.lent.len() < OPERATIONS {
            self.post();
        }
    }

    /// Posts again what has ended.
    fn post(&mut self) {
        while self.port.lent.len() < OPERATIONS {
            let World { nic, port, dice, .. } = self;
            let far = Peer(3 + dice.below_u32(RANKS - 3));
            let tag = dice.below_u32(4);
            let written = dice.below(3) > 0;
            let span = port.lend(dice.length(), written);
            let posted = match (written, dice.below(2)) {
                (true, 0) => {
                    let word = MatchWord::new(0, far.0, tag);
                    nic.post_receive(Some(far), word, Mask::EXACT, span, port)
                }
                (true, _) => {
                    nic.post_receive(None, MatchWord::new(0, 0, 0), Mask::ANY_BOTH, span, port)
                }
                (false, _) => {
                    let word = MatchWord::new(0, ME.0, tag);
                    nic.post_send(far, word, span, Mode::Standard, port)
                }
            };
            match posted {
                Posted::Done(_) => port.give_back(span),
                Posted::Pending(ticket) => port.begin(ticket, span),
            }
        }
    }

    /// A plausible header before a frame.
    fn datagram(&mut self, form: Form) -> Vec<u8> {
        let source = self.dice.source();
        self.counter += 1;
        let counter = match (form, self.dice.below(4)) {
            (Form::Sealed, 0) => self.dice.next(),
            (Form::Sealed, 1) => 1 << self.dice.below(64),
            (Form::Sealed, _) => u64::from(self.dice.below_u32(4000)),
            // A counter far ahead would close the replay window for all that follow.
            _ => self.counter - u64::from(self.dice.below_u32(8)).min(self.counter),
        };
        let local_rank = u16::from(self.dice.below(16) == 0);
        let mut datagram = DatagramHeader { local_rank, form, source, counter }.emit().to_vec();
        datagram.extend(self.frame(source));
        if form == Form::Sealed {
            datagram.extend([0; TAG_BYTES]);
        }
        datagram
    }

    /// A sniffed datagram with something changed.
    fn changed(&mut self, genuine: &[Vec<u8>]) -> Vec<u8> {
        let mut datagram = genuine[self.dice.below(genuine.len())].clone();
        match self.dice.below(3) {
            0 => {
                let mut header = DatagramHeader::parse(&datagram).expect("it is genuine");
                header.source = self.dice.source();
                datagram[..HEADER_BYTES].copy_from_slice(&header.emit());
                // Unless the source is the original one.
                if header.source == 4 {
                    datagram.pop();
                }
            }
            1 => datagram.truncate(self.dice.below(datagram.len())),
            _ => {
                let at = self.dice.below(datagram.len());
                datagram[at] ^= 1 << self.dice.below(8);
            }
        }
        datagram
    }

    /// A frame of any kind, with spans that are lent and spans that are not.
    fn frame(&mut self, source: u32) -> Vec<u8> {
        if self.dice.below(8) == 0 {
            let mut noise = JOB.to_le_bytes().to_vec();
            noise.extend((0..self.dice.below(100)).map(|_| self.dice.next().to_le_bytes()[0]));
            return noise;
        }
        let kind = self.kind(source);
        let marks = (!self.port.fabric).then(|| {
            let sequence = self.sequences.entry(source).or_insert(0);
            *sequence = sequence.wrapping_add(1);
            Marks { epoch: 1, sequence: *sequence - 1, ..Marks::default() }
        });
        let (mut head, payload) = ([0; Envelope::BYTES_MAX], self.dice.below(200));
        let len = Envelope { job: JOB, marks, kind }.emit(&mut head);
        [&head[..len], &vec![7; payload]].concat()
    }

    fn kind(&mut self, source: u32) -> Kind {
        let World { port, dice, .. } = self;
        let open: Vec<Ticket> = port.tickets().collect();
        let ticket = match open.is_empty() || dice.below(4) == 0 {
            true => Ticket::from_bits(dice.next()),
            false => open[dice.below(open.len())],
        };
        let word = MatchWord::new(0, source & 0xff_ffff, dice.below_u32(4));
        let span = port.some_span(dice);
        let offset = if dice.below(2) == 0 { dice.next() } else { u64::from(dice.below_u32(1200)) };
        let (region, last, secured) = (OPEN, dice.below(2) == 0, dice.below(2) == 0);
        match dice.below(15) {
            0 => Kind::Eager { word, secured, synchronous: last.then_some(ticket) },
            1..4 => {
                let key = if last { Key::NONE } else { Key(dice.next()) };
                Kind::Offer { word, secured, first: last, ticket, source: span, key }
            }
            4..6 => {
                let target = Ticket::from_bits(dice.next());
                Kind::Grant { ticket, target, into: span, rest: last }
            }
            6 => Kind::Chunk { ticket, offset },
            7 => Kind::Done { ticket },
            8 => Kind::Put { ticket, region, offset, last, notify: last.then_some(0) },
            9 => Kind::Get { ticket, from: Span { region, ..span } },
            10 => Kind::Accumulate { ticket, region, offset, last, operator: Operator(1) },
            11 => Kind::Swap { ticket, region, offset, width: 8, expected: 0, value: 1 },
            12 => Kind::Fetch { ticket, region, offset, operator: Operator(1) },
            13 => Kind::Answer { queue: 0, accepted: last, wanted: secured, credit: 4096 },
            _ => Kind::Withdraw { ticket, word },
        }
    }
}

fn is_far(peer: Peer) -> bool {
    (u32::from(EACH)..RANKS).contains(&peer.0)
}

/// The number of open operations.
const OPERATIONS: usize = 24;

/// A port that has lent spans, and checks each span that the NIC uses.
#[derive(Default)]
struct Lender {
    fabric: bool,
    now: Time,
    lent: Vec<Lent>,
    /// Memory that the NIC has claimed.
    claimed: Vec<Span>,
    /// Where the next span is lent. Nothing is lent twice.
    next: u64,
    /// Operations that ended before their ticket was known.
    ended: Vec<Ticket>,
    /// Reads that the NIC has asked for.
    reading: Vec<Ticket>,
    /// The number of accesses to memory.
    reached: u64,
}

struct Lent {
    span: Span,
    written: bool,
    ticket: Option<Ticket>,
}

impl Lender {
    fn lend(&mut self, len: u64, written: bool) -> Span {
        // With a gap that may not be touched.
        self.next += len + 4096;
        let span = Span::new(Region(0), (1 << 20) + self.next - len, len);
        self.lent.push(Lent { span, written, ticket: None });
        span
    }

    fn begin(&mut self, ticket: Ticket, span: Span) {
        if let Some(at) = self.ended.iter().position(|ended| *ended == ticket) {
            self.ended.swap_remove(at);
            return self.give_back(span);
        }
        let lent = self.lent.iter_mut().find(|lent| lent.span == span);
        lent.expect("it was lent").ticket = Some(ticket);
    }

    fn give_back(&mut self, span: Span) {
        self.lent.retain(|lent| lent.span != span);
    }

    fn tickets(&self) -> impl Iterator<Item = Ticket> {
        self.lent.iter().filter_map(|lent| lent.ticket)
    }

    /// A lent span, a part of one, one beyond it, or any.
    fn some_span(&self, dice: &mut Dice) -> Span {
        let lent = self.lent.get(dice.below(self.lent.len())).map_or(Span::EMPTY, |lent| lent.span);
        match dice.below(5) {
            0 => lent,
            1 => lent.first(dice.length()),
            2 => Span { len: lent.len + 1 + dice.length(), ..lent },
            3 => Span { offset: dice.next(), len: dice.length(), ..lent },
            _ => Span { offset: dice.next(), len: dice.next(), ..lent },
        }
    }

    fn is_lent(&self, span: Span, written: bool) -> bool {
        let lent = |lent: &Lent| lent.written == written && contains(&lent.span, span);
        let open = contains(&Span::new(OPEN, 0, OPEN_BYTES), span);
        let claimed = self.claimed.iter().any(|whole| contains(whole, span));
        span.len == 0 || open || claimed || self.lent.iter().any(lent)
    }

    fn check(&mut self, what: &str, span: Span, written: bool) {
        self.reached += 1;
        assert!(self.is_lent(span, written), "{what} {span:?}, which is not lent");
    }
}

fn contains(whole: &Span, span: Span) -> bool {
    let start = span.offset.checked_sub(whole.offset);
    let end = start.and_then(|start| start.checked_add(span.len));
    whole.region == span.region && end.is_some_and(|end| end <= whole.len)
}

impl Port for Lender {
    fn now(&self) -> Time {
        self.now
    }

    fn promises(&self, peer: Peer) -> Promises {
        assert!(is_far(peer), "{peer:?} is on our host, and was met by the network");
        Promises {
            rail: FAR,
            reliable: self.fabric,
            may_vanish: true,
            puts: false,
            gets: self.fabric,
            frame_bytes_max: 1400,
            burst_frames_max: 1,
            initial_credit_bytes: 0,
        }
    }

    fn attends(&self, _: Peer) -> bool {
        false
    }

    fn transmit(&mut self, to: Peer, _: &Envelope, payload: Span) -> Sent {
        assert!(is_far(to), "{to:?} gets nothing by the network");
        self.check("sends", payload, false);
        Sent::Away
    }

    fn deliver(&mut self, bytes: &[u8], into: Span) {
        assert_eq!(bytes.len() as u64, into.len);
        self.check("writes", into, true);
    }

    fn load(&mut self, from: Span, into: &mut [u8]) {
        assert_eq!(into.len() as u64, from.len);
        self.check("loads", from, false);
    }

    fn copy(&mut self, from: Span, into: Span) {
        assert_eq!(from.len, into.len);
        self.check("copies", from, false);
        self.check("copies to", into, true);
    }

    fn reduce(&mut self, _: StepRef, _: Operator, _: Span, _: Span) -> Progress {
        panic!("nobody has asked for it");
    }

    fn accumulate(&mut self, _: Operator, bytes: &[u8], into: Span) {
        assert_eq!(bytes.len() as u64, into.len);
        self.check("combines into", into, true);
    }

    fn compare_swap(&mut self, at: Span, expected: u64, _: u64) -> u64 {
        self.check("swaps", at, true);
        expected
    }

    fn put(&mut self, to: Peer, from: Span, into: Span, _: Ticket, _: Ticket) {
        panic!("writes {from:?} to {into:?} of {to:?}, which no rail between hosts does");
    }

    fn expose(&mut self, _: Peer, span: Span, _: Ticket) -> Key {
        self.check("exposes", span, false);
        Key(1)
    }

    fn conceal(&mut self, _: Ticket) {}

    fn get(&mut self, source: Peer, _: Span, _: Key, into: Span, ticket: Ticket) {
        assert!(self.fabric && is_far(source), "{source:?} is not read by the network");
        self.check("reads into", into, true);
        self.reading.push(ticket);
    }

    fn claim(&mut self, bytes: u64) -> Span {
        self.next += bytes + 4096;
        let span = Span::new(Region(2), self.next - bytes, bytes);
        self.claimed.push(span);
        span
    }

    fn release(&mut self, span: Span) {
        self.claimed.retain(|claimed| *claimed != span);
    }

    fn complete(&mut self, ticket: Ticket, _: Outcome) {
        match self.lent.iter().position(|lent| lent.ticket == Some(ticket)) {
            Some(at) => drop(self.lent.swap_remove(at)),
            None => self.ended.push(ticket),
        }
    }

    fn arm(&mut self, _: Option<Time>) {}
}

/// Random numbers (xorshift).
struct Dice(u64);

impl Dice {
    fn new() -> Dice {
        let seed = std::env::var("SEED").ok().map(|text| text.parse().expect("a number"));
        let seed: u64 = seed.unwrap_or(7);
        println!("SEED={seed}");
        Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() >> 33) as usize % end.max(1)
    }

    fn below_u32(&mut self, end: u32) -> u32 {
        u32::try_from(self.below(end as usize)).expect("it is below")
    }

    /// Any rank of the job, or another number.
    fn source(&mut self) -> u32 {
        match self.below(16) {
            0 => self.below_u32(u32::MAX),
            _ => self.below_u32(RANKS + 1),
        }
    }

    fn length(&mut self) -> u64 {
        [0, 1, 100, 1000, 5000, 100_000][self.below(6)]
    }
}
