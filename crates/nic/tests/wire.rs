//! Any bytes may arrive, and claim to be from any peer: none causes a panic, none takes more memory than its
//! share, none touches a span that was not lent, and what the parser accepts is exactly what would have been sent.

#[path = "common/lent.rs"]
mod lent;

use ferrywire_nic::{
    Envelope, Key, Kind, Marks, Mask, MatchWord, Mode, Nic, Operator, Peer, Posted, RailId, Region,
    Seal, Span, Ticket,
};
use lent::{Lent, OPEN, OPEN_BYTES, RAIL, Use, limits};
use proptest::prelude::*;

const JOB: u32 = 7;

/// Enough that some are strangers while others are idle.
const PEERS: u32 = 6;

proptest! {
    #[test]
    fn what_is_accepted_comes_out_as_it_went_in(mut bytes in bytes(), code in 0..KINDS, plain: bool) {
        // Most random bytes are not a frame; this raises the chance.
        if plain && bytes.len() > 8 {
            bytes[4] = code;
            bytes[5] &= 0x0f;
            bytes[6..8].fill(0);
        }
        if let Some((envelope, payload)) = Envelope::parse(&bytes) {
            prop_assert_eq!(frame(&envelope, payload), bytes);
        }
    }

    #[test]
    fn what_is_written_is_read(envelope in envelope(any::<u64>()), payload in bytes()) {
        let bytes = frame(&envelope, &payload);
        prop_assert!(bytes.len() <= Envelope::BYTES_MAX + payload.len());
        let (again, rest) = Envelope::parse(&bytes).expect("it was written by us");
        prop_assert_eq!(again, envelope);
        prop_assert_eq!(rest, &payload[..]);
        prop_assert_eq!(Envelope::job_of(&bytes), Some(envelope.job));
    }

    #[test]
    fn a_frame_that_is_cut_short_is_not_read_as_another(envelope in envelope(any::<u64>())) {
        let bytes = frame(&envelope, &[]);
        for len in 0..bytes.len() {
            prop_assert!(Envelope::parse(&bytes[..len]).is_none());
        }
    }

    #[test]
    fn a_nic_survives_any_frames(reliable: bool, events in prop::collection::vec(event(), 0..200)) {
        let mut port = Lent::new(Peer(0), reliable);
        let mut nic: Nic = Nic::new(Peer(0), JOB, limits());
        nic.open_piece(Span::new(OPEN, 0, OPEN_BYTES));
        nic.open_counter();
        for event in events {
            event.happen(&mut nic, &mut port);
            port.bring_own(&mut nic);
            let held = nic.holdings();
            let set_aside: u32 = held.stores.iter().map(|store| store.reserved).sum();
            prop_assert_eq!(set_aside, held.promised);
            for store in held.stores {
                prop_assert_eq!(store.stored, store.used);
            }
            prop_assert!(nic.is_within_budget());
            prop_assert!(nic.peers() <= PEERS as usize);
        }
        prop_assert!(nic.footprint() < 400_000, "{} bytes", nic.footprint());
    }
}

/// An event for the NIC under test.
#[derive(Clone, Debug)]
enum Event {
    /// Bytes arrive; half of them begin with the right job.
    Bytes(u32, RailId, bool, Vec<u8>),
    /// A valid envelope arrives.
    Frame(u32, RailId, Box<Envelope>, Vec<u8>),
    Send(u32, u32, u64, Mode),
    Receive(u32, u32, u64),
    Put(u32, u64, u64),
    Cancel(u64),
    Pass(u64),
}

impl Event {
    fn happen(self, nic: &mut Nic, port: &mut Lent) {
        match self {
            Event::Bytes(from, via, ours, mut bytes) => {
                if ours && bytes.len() >= 4 {
                    bytes[..4].copy_from_slice(&JOB.to_le_bytes());
                }
                nic.on_frame(Peer(from), via, Seal::Intact, &bytes, port);
            }
            Event::Frame(from, via, mut envelope, payload) => {
                envelope.job = JOB;
                if port.reliable {
                    envelope.marks = None;
                }
                nic.on_frame(Peer(from), via, Seal::Intact, &frame(&envelope, &payload), port);
            }
            Event::Send(to, tag, len, mode) => {
                let word = MatchWord::new(0, 0, tag);
                let source = port.lend(len, Use::Read);
                let posted = nic.post_send(Peer(to), word, source, mode, port);
                port.posted(posted, source);
            }
            Event::Put(to, offset, len) => {
                let source = port.lend(len, Use::Read);
                let posted = nic.post_put(Peer(to), source, OPEN, offset, None, port);
                port.posted(posted, source);
            }
            Event::Receive(from, tag, len) => {
                let word = MatchWord::new(0, from, tag);
                let mask = if tag == 0 { Mask::ANY_BOTH } else { Mask::EXACT };
                let into = port.lend(len, Use::Write);
                let posted = nic.post_receive(Some(Peer(from)), word, mask, into, port);
                port.posted(posted, into);
                if let Posted::Pending(ticket) = posted
                    && len % 3 == 0
                {
                    nic.cancel(ticket, port);
                }
            }
            Event::Cancel(bits) => nic.cancel(ticket(bits), port),
            Event::Pass(ns) => {
                port.now = port.now.after(ns);
                nic.on_timer(port);
                nic.on_room(Peer(1), port);
                while let Some((what, ticket)) = port.next_transfer() {
                    match what {
                        Use::Read => nic.on_read(ticket, port),
                        _ => nic.on_written(ticket, port),
                    }
                }
            }
        }
    }
}

fn event() -> impl Strategy<Value = Event> {
    let payload = || prop::collection::vec(any::<u8>(), 0..300);
    // Small numbers name tickets, regions and queues that exist.
    let number = prop_oneof![0..4u64, (0..4u64).prop_map(|n| n | 1 << 32), any::<u64>()];
    prop_oneof![
        3 => (0..PEERS, via(), prop::bool::weighted(0.5), bytes())
            .prop_map(|(from, via, ours, bytes)| Event::Bytes(from, via, ours, bytes)),
        6 => (0..PEERS, via(), envelope(number.clone()), payload())
            .prop_map(|(from, via, envelope, payload)| {
                Event::Frame(from, via, envelope.into(), payload)
            }),
        2 => (0..PEERS, 0..3u32, 0..1000u64, mode())
            .prop_map(|(to, tag, len, mode)| Event::Send(to, tag, len, mode)),
        1 => (0..PEERS, 0..2000u64, 0..1000u64)
            .prop_map(|(to, offset, len)| Event::Put(to, offset, len)),
        2 => (0..PEERS, 0..3u32, 0..1000u64)
            .prop_map(|(from, tag, len)| Event::Receive(from, tag, len)),
        1 => number.prop_map(Event::Cancel),
        1 => (0..2 * limits().idle_ns_max).prop_map(Event::Pass),
    ]
}

/// Most frames come by the rail that leads to their sender.
fn via() -> impl Strategy<Value = RailId> {
    prop_oneof![9 => Just(RAIL), 1 => Just(RailId(1))]
}

fn mode() -> impl Strategy<Value = Mode> {
    prop_oneof![Just(Mode::Standard), Just(Mode::Synchronous)]
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..120)
}

/// Any envelope, with numbers from `number`.
fn envelope(number: impl Strategy<Value = u64> + Clone) -> impl Strategy<Value = Envelope> {
    let marks = (0..4u32, 0..70u32, 0..4u32, 0..70u32, any::<u64>(), any::<bool>()).prop_map(
        |(epoch, sequence, ack_epoch, ack, also, asks)| Marks {
            epoch,
            sequence,
            ack_epoch,
            ack,
            also,
            asks,
        },
    );
    let numbers = prop::collection::vec(number, 7);
    (any::<u32>(), prop::option::of(marks), 0..KINDS, numbers, any::<u8>(), 0..9u16).prop_map(
        |(job, marks, code, numbers, flags, short)| {
            let kind = kind(code, &numbers, flags, short);
            Envelope { job, marks, kind }
        },
    )
}

fn kind(code: u8, numbers: &[u64], flags: u8, short: u16) -> Kind {
    let [a, b, c, d, e] = *numbers.first_chunk().expect("seven numbers");
    let [.., x, y] = *numbers else { unreachable!("seven numbers") };
    let (word, ticket, other) = (MatchWord::from_bits(a), ticket(b), ticket(c));
    let region = Region(u32::try_from(d & 0xffff_ffff).expect("32 bits"));
    let small = u32::try_from(e & 0xffff_ffff).expect("32 bits");
    let span = Span::new(region, x, y);
    let (one, two) = (flags & 1 != 0, flags & 2 != 0);
    match code {
        0 => Kind::Ack,
        1 => Kind::Eager { word, secured: one, synchronous: two.then_some(ticket) },
        2 => Kind::Offer { word, secured: one, first: two, ticket, source: span, key: Key(c) },
        3 => Kind::Answer { queue: short, accepted: one, wanted: two, credit: small },
        4 => Kind::Credit { queue: short, bytes: small },
        5 => Kind::Invite { queue: short },
        6 => Kind::Vacant { queue: short },
        7 => Kind::Matched { ticket },
        8 => Kind::Grant { ticket, target: other, into: span, rest: span.len.is_multiple_of(2) },
        9 => Kind::Chunk { ticket, offset: x },
        10 => Kind::Done { ticket },
        11 => Kind::Withdraw { ticket, word },
        12 => Kind::Withdrawn { ticket },
        13 => Kind::Put { ticket, region, offset: x, last: one, notify: two.then_some(small) },
        14 => Kind::Get { ticket, from: span },
        15 => Kind::Accumulate { ticket, region, offset: x, last: one, operator: Operator(short) },
        16 => Kind::Swap { ticket, region, offset: x, width: 1 + flags % 8, expected: c, value: y },
        17 => Kind::Found { ticket, value: x },
        18 => Kind::Denied { ticket },
        19 => Kind::Farewell,
        20 => Kind::Ask,
        21 => Kind::Fetch { ticket, region, offset: x, operator: Operator(short) },
        _ => unreachable!("there are no more kinds"),
    }
}

const KINDS: u8 = 22;

/// Makes a ticket by parsing a `Done` frame (code 9).
fn ticket(bits: u64) -> Ticket {
    let done = [&[0, 0, 0, 0, 9, 0, 0, 0], &bits.to_le_bytes()[..]].concat();
    match Envelope::parse(&done) {
        Some((Envelope { kind: Kind::Done { ticket }, .. }, [])) => ticket,
        other => panic!("{other:?} is not a ticket"),
    }
}

fn frame(envelope: &Envelope, payload: &[u8]) -> Vec<u8> {
    let mut head = [0; Envelope::BYTES_MAX];
    let len = envelope.emit(&mut head);
    [&head[..len], payload].concat()
}
