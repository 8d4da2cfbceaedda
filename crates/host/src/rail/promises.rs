//! The promises of every rail, in one list that each of them is tested against. A new rail adds one test
//! here. What the shared-memory rail promises beyond this is in `tests/rails.rs`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ferrywire_nic::{Envelope, Kind, MatchWord, Peer, Sent};

use super::faulty::{Faults, Faulty};
use super::recorder::Recorder;
use super::{Arrival, Inlet, Rail};
use crate::fabric;
use crate::job::LocalWire;
use crate::loopback;
use crate::net::tests::ranks;
use crate::shm;
use crate::udp;
use crate::udp::keys::Epochs;

/// Both ends of a rail, of ranks 0 and 1, and what has arrived at each.
struct Pair<R, I> {
    ends: [(R, I); 2],
    came: [Vec<(u32, Vec<u8>)>; 2],
}

/// Tests the whole list. `open` opens both ends.
fn keeps_its_promises<R: Rail, I: Inlet>(open: impl Fn() -> [(R, I); 2]) {
    carries_every_length(&mut Pair::new(open()));
    carries_both_ways_at_once(&mut Pair::new(open()));
    keeps_order_for_a_slow_reader(&mut Pair::new(open()));
    says_when_it_is_drained(&mut Pair::new(open()));
    has_no_memory_that_it_does_not_promise(&mut Pair::new(open()));
}

/// Frames of every length arrive whole. On a rail that may lose frames, one that is sent repeatedly arrives.
fn carries_every_length<R: Rail, I: Inlet>(pair: &mut Pair<R, I>) {
    for (tag, len) in (0..).zip(lengths(&pair.ends[0].0)) {
        pair.send_until_it_comes(0, tag, len);
    }
}

fn carries_both_ways_at_once<R: Rail, I: Inlet>(pair: &mut Pair<R, I>) {
    for tag in 0..200 {
        pair.send_until_it_comes(0, tag, 70);
        pair.send_until_it_comes(1, tag, 20);
    }
}

/// A reliable rail loses nothing that it has accepted and keeps the order, however late it is read. On
/// others, what arrives is what was sent.
fn keeps_order_for_a_slow_reader<R: Rail, I: Inlet>(pair: &mut Pair<R, I>) {
    let reliable = pair.ends[0].0.promises(Peer(1)).reliable;
    for tag in 0..2000 {
        pair.send(0, tag, tag as usize % 90);
        // Frames lost at a full socket say nothing about the rail.
        if !reliable && tag % 50 == 0 {
            pair.drive();
        }
    }
    pair.drive_until(|pair| pair.came[1].len() >= 2000 || !reliable && pair.is_quiet());
    let mut came = std::mem::take(&mut pair.came[1]);
    for (tag, bytes) in &came {
        assert_eq!(*bytes, payload(*tag, *tag as usize % 90), "it is whole");
    }
    if reliable {
        assert!((0..2000).eq(came.iter().map(|&(tag, _)| tag)), "all, in order, once");
    } else {
        came.dedup();
        assert!(came.len() > 1000, "most arrive: {}", came.len());
    }
}

fn says_when_it_is_drained<R: Rail, I: Inlet>(pair: &mut Pair<R, I>) {
    pair.send_until_it_comes(0, 1, 100);
    pair.drive_until(|pair| pair.ends[0].0.is_drained());
    assert!(!pair.ends[0].0.is_stuck());
}

fn has_no_memory_that_it_does_not_promise<R: Rail, I: Inlet>(pair: &mut Pair<R, I>) {
    let rail = &mut pair.ends[0].0;
    let promises = rail.promises(Peer(1));
    let (from, mut into) = ([1_u8; 8], [0_u8; 8]);
    let from = from.as_ptr().expose_provenance() as u64;
    let into = into.as_mut_ptr().expose_provenance() as u64;
    if !promises.gets {
        // SAFETY: both are ours, and of that length.
        assert!(unsafe { rail.read(Peer(1), from, into, 8) }.is_err());
    }
    if !promises.puts {
        // SAFETY: the same.
        assert!(unsafe { rail.write(Peer(1), from, into, 8) }.is_err());
    }
}

#[test]
fn shared_memory_keeps_its_promises() {
    for oversubscribed in [false, true] {
        keeps_its_promises(|| shm::pair(oversubscribed).expect("a segment"));
    }
}

/// What a rank sends to itself comes out at the same rank: two such rails, crossed, are a pair.
#[test]
fn loopback_keeps_its_promises() {
    keeps_its_promises(|| {
        let [(first, to_first), (second, to_second)] =
            [Peer(1), Peer(0)].map(|me| loopback::open(me, 0));
        [(first, to_second), (second, to_first)]
    });
}

#[test]
fn datagrams_keep_their_promises() {
    for wire in [LocalWire::Sealed(Epochs::USUAL), LocalWire::Insecure] {
        keeps_its_promises(|| {
            let nets = ranks(2, 1, wire);
            [0, 1].map(|rank| udp::rail::open(&nets[rank]))
        });
    }
}

#[test]
fn libfabric_keeps_its_promises() {
    for provider in ["tcp", "shm", "udp;ofi_rxd"] {
        if let Err(why) = fabric::look(provider) {
            println!("not tested: provider {provider}: {why}");
            continue;
        }
        keeps_its_promises(|| {
            let nets = ranks(2, 1, LocalWire::Fabric(provider));
            [0, 1].map(|rank| {
                let endpoint = nets[rank].endpoint.as_ref().expect("it was opened");
                fabric::rail::open(&nets[rank], &Arc::clone(endpoint))
            })
        });
    }
}

/// Both wrappers keep every promise except those that they break on purpose.
#[test]
fn wrappers_keep_the_promises_that_are_left() {
    let around = |wrap: fn(shm::Shm) -> Recorder<shm::Shm>| {
        shm::pair(false).expect("a segment").map(|(rail, inlet)| (wrap(rail), inlet))
    };
    keeps_its_promises(|| around(Recorder::new));
    for seed in 0..5 {
        keeps_its_promises(|| {
            let faults = Faults { lost: 10, twice: 10, late: 10 };
            let ends = shm::pair(false).expect("a segment");
            ends.map(|(rail, inlet)| (Faulty::new(rail, faults, seed), inlet))
        });
    }
}

#[test]
fn a_recorder_has_seen_what_comes() {
    let ends = shm::pair(false).expect("a segment");
    let mut pair = Pair::new(ends.map(|(rail, inlet)| (Recorder::new(rail), inlet)));
    keeps_order_for_a_slow_reader(&mut pair);
    let tags = pair.ends[0].0.frames.iter().map(|(to, frame)| {
        assert_eq!(*to, Peer(1));
        frame_of(frame).0
    });
    assert!((0..2000).eq(tags));
}

#[test]
fn faults_happen_as_often_as_they_should() {
    let faults = Faults { lost: 10, twice: 20, late: 30 };
    let ends = shm::pair(false).expect("a segment");
    let mut pair = Pair::new(ends.map(|(rail, inlet)| (Faulty::new(rail, faults, 5), inlet)));
    keeps_order_for_a_slow_reader(&mut pair);
    let [lost, twice, late] = pair.ends[0].0.happened;
    assert!((100..300).contains(&lost), "{lost} of 2,000");
    assert!((150..550).contains(&twice), "{twice}");
    assert!((200..900).contains(&late), "{late}");
}

impl<R: Rail, I: Inlet> Pair<R, I> {
    fn new(ends: [(R, I); 2]) -> Pair<R, I> {
        Pair { ends, came: [Vec::new(), Vec::new()] }
    }

    /// Lets both ends do their work.
    fn drive(&mut self) {
        for ((rail, inlet), came) in self.ends.iter_mut().zip(&mut self.came) {
            rail.flush();
            rail.poll_room(|_| {});
            rail.poll_lost(|peer, error| panic!("{peer:?} is lost: {error}"));
            inlet.poll(64, |_, arrival| match arrival {
                Arrival::Frame(_, frame) => came.push(frame_of(frame)),
                Arrival::Landed { .. } => panic!("nothing was written"),
            });
        }
    }

    fn drive_until(&mut self, mut done: impl FnMut(&mut Self) -> bool) {
        let end = Instant::now() + Duration::from_secs(20);
        while !done(self) {
            assert!(Instant::now() < end, "it does not go on");
            self.drive();
        }
    }

    /// Whether nothing more arrives.
    fn is_quiet(&mut self) -> bool {
        let before = self.came[1].len();
        let end = Instant::now() + Duration::from_millis(30);
        while Instant::now() < end {
            self.drive();
        }
        self.came[1].len() == before
    }

    fn send(&mut self, who: usize, tag: u32, len: usize) {
        let other = Peer(u32::from(who == 0));
        let payload = payload(tag, len);
        self.drive_until(|pair| {
            pair.ends[who].0.send(other, &envelope(tag), &payload) == Sent::Away
        });
    }

    fn send_until_it_comes(&mut self, who: usize, tag: u32, len: usize) {
        let reliable = self.ends[who].0.promises(Peer(u32::from(who == 0))).reliable;
        let end = Instant::now() + Duration::from_secs(20);
        loop {
            self.send(who, tag, len);
            let timeout = Instant::now() + Duration::from_millis(if reliable { 20_000 } else { 3 });
            while Instant::now() < timeout {
                self.drive();
                let came = std::mem::take(&mut self.came[1 - who]);
                // On rails that may delay frames, earlier ones may come as well.
                if came.iter().any(|came| *came == (tag, payload(tag, len))) {
                    assert!(!reliable || came.len() == 1, "once");
                    return;
                }
            }
            assert!(!reliable && Instant::now() < end, "frame {tag} of {len} bytes does not come");
        }
    }
}

fn frame_of(frame: &[u8]) -> (u32, Vec<u8>) {
    let (envelope, payload) = Envelope::parse(frame).expect("a frame is whole");
    let Kind::Eager { word, .. } = envelope.kind else { panic!("only those are sent") };
    (word.tag(), payload.to_vec())
}

fn envelope(tag: u32) -> Envelope {
    let kind = Kind::Eager { word: MatchWord::new(0, 0, tag), secured: true, synchronous: None };
    Envelope { job: 0, marks: None, kind }
}

/// Short lengths, those around edges that a rail may have, and the longest.
fn lengths(rail: &impl Rail) -> Vec<usize> {
    let head = envelope(0).emit(&mut [0; Envelope::BYTES_MAX]);
    let max = rail.promises(Peer(1)).frame_bytes_max as usize - head;
    let edges = [100, 1400, 4096, 16_384].into_iter().flat_map(|edge| edge - 2..=edge + 2);
    (0..=80).chain(edges).filter(|&len| len < max).chain([max - 1, max]).collect()
}

fn payload(tag: u32, len: usize) -> Vec<u8> {
    (tag..).map(|byte| (byte % 251).to_le_bytes()[0]).take(len).collect()
}
