//! Entry points of the fuzz targets: each function takes any bytes, as a stranger, a peer or a launcher may
//! send them, and must neither panic nor use memory without limit. Only built for fuzzing.
//!
//! Invariants, cited below by number.
//!   F1. Rings are leaked, so they live for ever.

use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

use crate::bootstrap::join_socket::JoinSocket;
use crate::bootstrap::request::{Answer, Command, Request};
use crate::bootstrap::wire::{Hello, Member, Message, NetworkConfig, TOKEN_BYTES, Token};
use crate::launcher;
use crate::net::directory::{Directory, Host};
use crate::secret::JobSecret;
use crate::shm::ring::{
    CacheLine, Consumer, Control, DATA_LINES_MAX, Event, Producer, Ring, SLOTS, Slot,
};
use crate::sys::map;
use crate::udp::keys::{Epochs, Keyring, Secret};
use crate::udp::seal::{Counter, DatagramHeader, Form, HEADER_BYTES, Opener, Sealer, TAG_BYTES};

/// A packet at the bootstrap or at the join socket.
pub fn bootstrap(bytes: &[u8]) {
    if let Ok(message) = Message::parse(bytes) {
        let said = message.emit();
        // Invalid text is repaired when it is parsed.
        assert_eq!(Message::parse(&said).as_ref(), Ok(&message), "what is understood can be said");
    }
}

/// What a launcher's kvs returns: the record of a host, that of the job, and the map of ranks.
pub fn kvs(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    launcher::fuzzed::words(text);
    if let Some((size, mapping)) = text.split_once(' ') {
        let size = size.parse::<u16>().unwrap_or(2);
        launcher::fuzzed::layout(mapping, u32::from(size));
    }
}

/// A launcher that speaks PMI: all its answers.
pub fn pmi(bytes: &[u8]) {
    launcher::fuzzed::pmi(bytes);
}

/// Datagrams at the port of a rank, one after the other, each after a byte with half its length.
pub fn datagram(mut bytes: &[u8]) {
    let mut opener = Opener::new(keyring(1).from(0, SOURCE, LOCAL_RANK));
    while let Some((&len, rest)) = bytes.split_first() {
        let (datagram, after) = rest.split_at(rest.len().min(usize::from(len) * 2));
        bytes = after;
        let mut datagram = datagram.to_vec();
        let Some(header) = DatagramHeader::parse(&datagram) else { continue };
        assert_eq!(
            DatagramHeader::parse(&header.emit()),
            Some(header),
            "what is read can be written"
        );
        if let Some(plain) = opener.open(&header, &mut datagram) {
            assert!(plain.end <= datagram.len() && header.form == Form::Sealed);
        }
    }
}

const SOURCE: u32 = 2;
const LOCAL_RANK: u16 = 1;

/// The keys of one of two hosts, with short epochs.
fn keyring(own: u32) -> Keyring {
    Keyring::new(&Secret::new(&[7; 32]), own, 2, EPOCHS)
}

const EPOCHS: Epochs = Epochs { first: 0, frames: 2 };

/// The directory that a rank is handed.
pub fn directory(bytes: &[u8]) {
    let Ok(file) = map::memory_file(bytes.len() as u64) else { return };
    file.write_all_at(bytes, 0).expect("memory");
    map::seal_length(&file).expect("it can be sealed");
    let Ok(directory) = Directory::open(OwnedFd::from(file)) else { return };
    for rank in [0, 1, 2, directory.size().saturating_sub(1), directory.size(), u32::MAX] {
        if let Some((host, _)) = directory.place(rank) {
            assert!(directory.addresses(host).count() <= 4);
            let _ = (directory.ranks(host), directory.port(host), directory.heard(host));
        }
        directory.mark_down(rank);
        let _ = directory.is_gone(rank);
    }
}

/// A ring that another process writes to at will: one slot of 64 bytes between two polls.
pub fn ring(bytes: &[u8]) {
    // F1: one for all inputs, zeroed before each.
    thread_local!(static RING: Ring = new_ring());
    let ring = RING.with(|ring| *ring);
    crate::shm::ring::fuzzed::wipe(&ring);
    let mut consumer = Consumer::new(ring);
    let mut producer = Producer::new(ring, 8);
    for (number, slot) in (0..SLOTS).zip(bytes.chunks(64)) {
        crate::shm::ring::fuzzed::write(&ring, number, slot);
        match consumer.peek() {
            Some(Event::Frame(frame)) => {
                let _ = frame.iter().fold(0_u8, |sum, byte| sum ^ byte);
            }
            Some(Event::Landed { .. } | Event::Broken) | None => {}
        }
        consumer.advance(true);
        let _ = producer.look();
        let _ = producer.push(&slot[..slot.len().min(16)], slot);
    }
}

fn new_ring() -> Ring {
    let slots: Vec<Slot> = (0..SLOTS).map(|_| Slot::default()).collect();
    let lines: Vec<CacheLine> = (0..DATA_LINES_MAX).map(|_| CacheLine::default()).collect();
    let control: &Control = Box::leak(Box::default());
    Ring { control, slots: slots.leak(), lines: lines.leak() }
}

/// Valid inputs for each target, from which fuzzing starts.
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let hello = Hello { pid: 4711, word: 99, probe_address: 0x7fff_0000_1000 };
    let member = Member {
        rank: 1,
        size: 2,
        spawned: None,
        job: 99,
        oversubscribed: true,
        fault_tolerant: false,
        network: None,
    };
    let command = Command { words: vec![b"worker".to_vec()], ranks: 2, ..Command::default() };
    let secret = JobSecret::filled::<()>(|bytes| Ok(bytes.fill(7))).expect("filled");
    let network = Some(NetworkConfig { secret, insecure: false, fabric: Some("tcp".into()) });
    let token = Token([5; TOKEN_BYTES]);
    let said = [
        Message::Hello(hello),
        Message::Enter { rank: 1, token: token.clone(), hello },
        Message::Entered { token },
        Message::JoinReply { to: 4711, member: member.clone() },
        Message::JoinReply { to: 4711, member: Member { network, ..member } },
        Message::Refused { to: 4711, text: "the job's memory cannot be had".into() },
        Message::All,
        Message::Goodbye,
        Message::Silent { rank: 1 },
        Message::Request(Request::Spawn { tag: 1, commands: vec![command] }),
        Message::Request(Request::Publish { service: b"ocean".to_vec(), port: b"port".to_vec() }),
        Message::Answer(Answer::Spawned(vec![2..4, 9..10])),
        Message::Answer(Answer::NotSpawned(b"no such file".to_vec())),
        Message::Abort { code: 7, text: "the grid is empty".into() },
    ];
    let mut seeds: Vec<_> = said.iter().map(|word| ("bootstrap", word.emit().to_vec())).collect();
    let join_socket = JoinSocket::open().expect("a join socket");
    seeds.extend(
        launcher::fuzzed::seeds(&join_socket.address).into_iter().map(|word| ("kvs", word)),
    );
    let mut sealer = Sealer::new(keyring(0).to(1, SOURCE, LOCAL_RANK));
    let mut counter = Counter::new(EPOCHS);
    let mut all = Vec::new();
    for len in [0, 64, 300, 20, 2] {
        let mut datagram = vec![7; HEADER_BYTES + len + TAG_BYTES];
        let counter = counter.count().expect("the first");
        let header =
            DatagramHeader { local_rank: LOCAL_RANK, form: Form::Sealed, source: SOURCE, counter };
        sealer.seal(&header, &mut datagram);
        for datagram in [datagram, DatagramHeader { form: Form::Wakeup, ..header }.emit().to_vec()]
        {
            all.push(u8::try_from(datagram.len() / 2).expect("short"));
            all.extend(&datagram);
        }
        seeds.push(("datagram", all.clone()));
    }
    let host = |first, port, address: &str| Host {
        first,
        ranks: 2,
        port,
        addresses: vec![address.parse().expect("an address")],
    };
    let hosts = [host(0, 7001, "10.0.0.1"), host(2, 7002, "fe80::1")];
    let list = Directory::create(&hosts, 1400).expect("memory");
    let mut bytes =
        vec![0; usize::try_from(list.file().metadata().expect("ours").len()).expect("short")];
    list.file().read_exact_at(&mut bytes, 0).expect("memory");
    seeds.push(("directory", bytes));
    let ring = new_ring();
    let mut producer = Producer::new(ring, 8);
    producer.push(&[1; 16], &[2; 20]).expect("room");
    producer.push(&[1; 16], &[2; 200]).expect("room");
    producer.push_landed(3, 4).expect("room");
    seeds.push(("ring", crate::shm::ring::fuzzed::read(&ring, 3)));
    seeds
}
