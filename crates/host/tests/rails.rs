//! What the shared-memory rail promises beyond `src/rail/promises.rs`: it says when it is full, grows for
//! long frames, and delivers notices among frames.
//!
//! Random tests start from `SEED`, and a failure prints it:
//!
//!     SEED=7 cargo test -p ferrywire-host --test rails

use std::collections::VecDeque;

use ferrywire_host::rail::{Arrival, Inlet, Rail};
use ferrywire_host::shm;
use ferrywire_nic::{Envelope, Kind, MatchWord, Peer, Sent, Ticket};

/// One end of a rail.
type End<R, I> = (R, I);

/// Tests all promises. `open` opens the ends of ranks 0 and 1.
fn conforms<R: Rail, I: Inlet>(open: impl Fn() -> [End<R, I>; 2]) {
    carries_every_length_in_order(open());
    says_full_and_recovers(open());
    grows_for_a_long_frame(open());
    keeps_everything_for_a_slow_reader(open());
    carries_notices_among_frames(open());
    carries_both_ways_at_once(open());
    reaches_memory_where_it_promises_to(open());
    let first = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok());
    for seed in first.map_or(0..SEEDS, |seed| seed..seed + 1) {
        println!("SEED={seed} cargo test -p ferrywire-host --test rails");
        agrees_with_a_queue(open(), seed);
    }
}

fn carries_every_length_in_order<R: Rail, I: Inlet>([mut zero, mut one]: [End<R, I>; 2]) {
    for (tag, len) in (0..).zip(lengths(&zero.0)) {
        let payload = payload(tag, len);
        assert_eq!(zero.0.send(ONE, &envelope(tag), &payload), Sent::Away, "{len} bytes");
        assert!(one.1.is_ready());
        assert_eq!(take(&mut one.1, 10), [Event::Frame(tag, payload)], "{len} bytes");
        assert!(!one.1.is_ready());
    }
}

fn says_full_and_recovers<R: Rail, I: Inlet>([mut zero, mut one]: [End<R, I>; 2]) {
    for len in [8, 100, 3000] {
        let mut sent = fill(&mut zero.0, len);
        assert!(zero.0.is_stuck());
        assert_eq!(room(&mut zero.0), [], "nothing has been taken");
        let mut taken = 0;
        // Everything before the refusal arrives, and then there is room.
        while taken < sent {
            taken += tags(&take(&mut one.1, 7), taken);
        }
        assert_eq!(take(&mut one.1, 7), []);
        assert_eq!(room(&mut zero.0), [ONE]);
        assert_eq!(room(&mut zero.0), [], "it is shown once");
        assert!(!zero.0.is_stuck());
        assert_eq!(zero.0.send(ONE, &envelope(sent), &payload(sent, len)), Sent::Away);
        sent += 1;
        assert_eq!(tags(&take(&mut one.1, 7), taken), sent - taken);
    }
}

/// Room is shown even if a notice has used some meanwhile.
fn grows_for_a_long_frame<R: Rail, I: Inlet>([mut zero, mut one]: [End<R, I>; 2]) {
    let long = frame_payload_max(&zero.0);
    assert_eq!(zero.0.send(ONE, &envelope(0), &payload(0, 60)), Sent::Away);
    // It may have to wait until earlier frames have been taken.
    let mut sent = zero.0.send(ONE, &envelope(1), &payload(1, long));
    let mut events = take(&mut one.1, 10);
    while sent == Sent::Full {
        events.extend(take(&mut one.1, 10));
        assert_eq!(zero.0.notify(ONE, Ticket::from_bits(3), 4), Sent::Away);
        assert_eq!(room(&mut zero.0), [ONE]);
        sent = zero.0.send(ONE, &envelope(1), &payload(1, long));
    }
    events.extend(take(&mut one.1, 10));
    events.retain(|event| matches!(event, Event::Frame(..)));
    let expected = [Event::Frame(0, payload(0, 60)), Event::Frame(1, payload(1, long))];
    assert!(events == expected, "in order and whole");
}

fn keeps_everything_for_a_slow_reader<R: Rail, I: Inlet>([mut zero, mut one]: [End<R, I>; 2]) {
    let (mut sent, mut taken) = (0, 0);
    while taken < 2000 {
        while sent < 2000
            && zero.0.send(ONE, &envelope(sent), &payload(sent, sent as usize % 90)) == Sent::Away
        {
            sent += 1;
        }
        for event in take(&mut one.1, 1) {
            assert_eq!(event, Event::Frame(taken, payload(taken, taken as usize % 90)));
            taken += 1;
        }
        room(&mut zero.0);
    }
}

fn carries_notices_among_frames<R: Rail, I: Inlet>([mut zero, mut one]: [End<R, I>; 2]) {
    let ticket = Ticket::from_bits(7 << 32 | 9);
    assert_eq!(zero.0.send(ONE, &envelope(0), &[1]), Sent::Away);
    assert_eq!(zero.0.notify(ONE, ticket, 1 << 40), Sent::Away);
    assert_eq!(zero.0.send(ONE, &envelope(1), &[2]), Sent::Away);
    let expected =
        [Event::Frame(0, vec![1]), Event::Landed(ticket.bits(), 1 << 40), Event::Frame(1, vec![2])];
    assert_eq!(take(&mut one.1, 10), expected);
    let mut notices = 0;
    while zero.0.notify(ONE, ticket, notices) == Sent::Away {
        notices += 1;
    }
    let events: Vec<Event> = std::iter::from_fn(|| take(&mut one.1, 1).pop()).collect();
    assert!((0..).zip(&events).all(|(n, event)| *event == Event::Landed(ticket.bits(), n)));
    assert_eq!((events.len() as u64, room(&mut zero.0)), (notices, vec![ONE]));
}

fn carries_both_ways_at_once<R: Rail, I: Inlet>([mut zero, mut one]: [End<R, I>; 2]) {
    for tag in 0..500 {
        assert_eq!(zero.0.send(ONE, &envelope(tag), &payload(tag, 70)), Sent::Away);
        assert_eq!(one.0.send(Peer(0), &envelope(tag), &payload(tag, 20)), Sent::Away);
        assert_eq!(take(&mut one.1, 2), [Event::Frame(tag, payload(tag, 70))]);
        assert_eq!(take(&mut zero.1, 2), [Event::Frame(tag, payload(tag, 20))]);
    }
}

fn reaches_memory_where_it_promises_to<R: Rail, I: Inlet>([mut zero, _one]: [End<R, I>; 2]) {
    let promises = zero.0.promises(ONE);
    let (theirs, mut mine) = (payload(3, 5000), vec![0; 5000]);
    if promises.gets {
        let (from, into) = (theirs.as_ptr().expose_provenance(), mine.as_mut_ptr());
        // SAFETY: `mine` is ours, and of that length.
        let read = unsafe { zero.0.read(ONE, from as u64, into.expose_provenance() as u64, 5000) };
        read.expect("it promised");
        assert!(mine == theirs);
    }
    mine.fill(9);
    let mut theirs = theirs;
    if promises.puts {
        let (from, into) = (mine.as_ptr().expose_provenance(), theirs.as_mut_ptr());
        // SAFETY: `mine` is ours, and of that length.
        let write =
            unsafe { zero.0.write(ONE, from as u64, into.expose_provenance() as u64, 5000) };
        write.expect("it promised");
        assert!(mine == theirs);
    }
}

/// Both ends do random things, and a queue for each direction predicts what must come out.
fn agrees_with_a_queue<R: Rail, I: Inlet>(mut ends: [End<R, I>; 2], seed: u64) {
    let mut random = Random(seed);
    let mut queues = [VecDeque::new(), VecDeque::new()];
    let mut refused = [false; 2];
    let lens = lengths(&ends[0].0);
    for tag in 0..STEPS {
        let who = random.below(2);
        let other = Peer(u32::from(who == 0));
        let (rail, inlet) = &mut ends[who];
        match random.below(8) {
            0..4 => {
                // Mostly short, sometimes of any length.
                let kinds = if random.below(4) == 0 { lens.len() } else { 8 };
                let payload = payload(tag, lens[random.below(kinds)]);
                match rail.send(other, &envelope(tag), &payload) {
                    Sent::Away => queues[who].push_back(Event::Frame(tag, payload)),
                    Sent::Full => refused[who] = true,
                }
            }
            4 => match rail.notify(other, Ticket::from_bits(u64::from(tag)), 5) {
                Sent::Away => queues[who].push_back(Event::Landed(u64::from(tag), 5)),
                Sent::Full => refused[who] = true,
            },
            5..7 => {
                for event in take(inlet, random.below(40)) {
                    assert_eq!(Some(event), queues[1 - who].pop_front(), "seed {seed}");
                }
            }
            _ => {
                let shown = room(rail);
                assert!(shown.is_empty() || refused[who], "seed {seed}");
                refused[who] &= shown.is_empty();
            }
        }
    }
    // A refused sender is shown room once everything is taken; nothing is left.
    for who in [0, 1] {
        while let Some(event) = take(&mut ends[1 - who].1, 1).pop() {
            assert_eq!(Some(event), queues[who].pop_front(), "seed {seed}");
        }
        assert!(take(&mut ends[1 - who].1, 1).is_empty() && queues[who].is_empty(), "seed {seed}");
        assert_eq!(!room(&mut ends[who].0).is_empty(), refused[who], "seed {seed}");
    }
}

#[test]
fn shm_conforms() {
    conforms(|| shm::pair(false).expect("a segment"));
    conforms(|| shm::pair(true).expect("a segment"));
}

/// What arrived, as the tests record it.
#[derive(Clone, Debug, Eq, PartialEq)]
enum Event {
    Frame(u32, Vec<u8>),
    Landed(u64, u64),
}

fn take(inlet: &mut impl Inlet, limit: usize) -> Vec<Event> {
    let mut events = Vec::new();
    let taken = inlet.poll(limit, |_, arrival| {
        events.push(match arrival {
            Arrival::Landed { ticket, bytes } => Event::Landed(ticket.bits(), bytes),
            Arrival::Frame(_, raw) => {
                let (envelope, payload) = Envelope::parse(raw).expect("a frame is whole");
                let Kind::Eager { word, .. } = envelope.kind else { panic!("only those are sent") };
                Event::Frame(word.tag(), payload.to_vec())
            }
        });
    });
    assert_eq!(taken, events.len());
    assert!(taken <= limit);
    events
}

/// Sends until there is no more room; returns how many frames left.
fn fill(rail: &mut impl Rail, len: usize) -> u32 {
    let away = |&tag: &u32| rail.send(ONE, &envelope(tag), &payload(tag, len)) == Sent::Away;
    u32::try_from((0..1 << 20).take_while(away).count()).expect("it ends")
}

/// Checks that these are frames from `first` on; returns how many.
fn tags(events: &[Event], first: u32) -> u32 {
    let in_order =
        (first..).zip(events).all(|(n, event)| matches!(event, Event::Frame(tag, _) if *tag == n));
    assert!(in_order, "from {first}: {events:?}");
    u32::try_from(events.len()).expect("few")
}

fn room(rail: &mut impl Rail) -> Vec<Peer> {
    let mut peers = Vec::new();
    rail.poll_room(|peer| peers.push(peer));
    rail.poll_lost(|peer, error| panic!("{peer:?} is lost: {error}"));
    peers
}

fn envelope(tag: u32) -> Envelope {
    let kind = Kind::Eager { word: MatchWord::new(0, 0, tag), secured: true, synchronous: None };
    Envelope { job: 0, marks: None, kind }
}

/// Short lengths, those around every edge that a rail may have, and the longest.
fn lengths(rail: &impl Rail) -> Vec<usize> {
    let max = frame_payload_max(rail);
    let edges = [100, 4000, 4096, 8192, 16_384].into_iter().flat_map(|edge| edge - 2..=edge + 2);
    (0..=140).chain(edges).filter(|&len| len < max).chain([max - 1, max]).collect()
}

fn frame_payload_max(rail: &impl Rail) -> usize {
    let head = envelope(0).emit(&mut [0; Envelope::BYTES_MAX]);
    rail.promises(ONE).frame_bytes_max as usize - head
}

fn payload(tag: u32, len: usize) -> Vec<u8> {
    (tag..).map(|byte| (byte % 251).to_le_bytes()[0]).take(len).collect()
}

struct Random(u64);

impl Random {
    /// A number below `end`: splitmix64.
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((x ^ x >> 31) % end as u64).expect("below a usize")
    }
}

const ONE: Peer = Peer(1);
const SEEDS: u64 = 50;
const STEPS: u32 = 3000;
