//! The costs of sealing, of rejecting what is not genuine, and of the sockets between hosts, over loopback.
//! Prints figures; needs two idle cores.
//!
//!     cargo run --release -p ferrywire-host --example udp

use std::hint::black_box;
use std::io::IoSlice;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ferrywire_host::udp::group::Group;
use ferrywire_host::udp::keys::{Chain, Epochs, Keyring, Secret};
use ferrywire_host::udp::replay::ReplayWindow;
use ferrywire_host::udp::seal::{
    Counter, DatagramHeader, Form, HEADER_BYTES, Opener, Sealer, TAG_BYTES,
};
use ferrywire_host::udp::socket::{Datagram, ReceiveBuffer, Socket, Target};

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
/// A datagram between hosts with an MTU of 1500.
const DATAGRAM_BYTES: usize = 1400;

fn main() {
    for len in [64, 1400] {
        seal(len);
    }
    for len in [64, 1400] {
        turn_away(len);
    }
    for len in [64, 1400] {
        round_trips("bare send and receive", len, &mut bare());
        round_trips("socket", len, &mut ours(false));
        round_trips("socket, sealed", len, &mut ours(true));
    }
    let ways = [
        ("one call each", Way { many: false, batch: false, joins: false, sealed: false }),
        ("many in a call", Way { many: true, batch: false, joins: false, sealed: false }),
        ("batches", Way { many: false, batch: true, joins: false, sealed: false }),
        ("batches, joined", Way { many: false, batch: true, joins: true, sealed: false }),
        ("batches, joined, sealed", Way { many: false, batch: true, joins: true, sealed: true }),
    ];
    for (name, way) in ways {
        stream(name, way);
    }
}

/// The best of many rounds: the cost without disturbance.
fn best(rounds: usize, mut round: impl FnMut() -> f64) -> f64 {
    (0..rounds).map(|_| round()).fold(f64::INFINITY, f64::min)
}

fn ns(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e9
}

/// The chain with which rank 0 of one host seals for a local rank of another.
fn chain(local_rank: u16) -> Chain {
    Keyring::new(&Secret::new(&[7; 32]), 0, 2, Epochs::USUAL).to(1, 0, local_rank)
}

fn seals(local_rank: u16) -> (Sealer, Opener) {
    (Sealer::new(chain(local_rank)), Opener::new(chain(local_rank)))
}

/// Like a rail: the header says which datagrams are worth decrypting.
fn open(opener: &mut Opener, window: &ReplayWindow, local_rank: u16, datagram: &mut [u8]) -> bool {
    DatagramHeader::parse(datagram).is_some_and(|header| {
        let is_for_us = header.local_rank == local_rank && header.form == Form::Sealed;
        is_for_us && window.is_new(header.counter) && opener.open(&header, datagram).is_some()
    })
}

fn header(counter: u64, local_rank: u16) -> DatagramHeader {
    DatagramHeader { local_rank, form: Form::Sealed, source: 0, counter }
}

fn seal(len: usize) {
    let (mut sealer, mut opener) = seals(0);
    let (mut counter, window) = (Counter::new(Epochs::USUAL), ReplayWindow::new());
    let mut datagram = vec![1; HEADER_BYTES + len + TAG_BYTES];
    let sealing = best(200, || {
        let from = Instant::now();
        for _ in 0..200 {
            let number = counter.count().expect("there are many");
            sealer.seal(&header(number, 0), black_box(&mut datagram));
        }
        ns(from) / 200.0
    });
    let opening = best(200, || {
        let from = Instant::now();
        for _ in 0..200 {
            // Copied, because it is opened in place; the copy is part of the figure.
            let mut copy = [0; 2000];
            copy[..datagram.len()].copy_from_slice(&datagram);
            let copy = black_box(&mut copy[..datagram.len()]);
            assert!(open(&mut opener, &window, 0, copy));
        }
        ns(from) / 200.0
    });
    let [fast, slow] =
        [sealing, opening].map(|ns| f64::from(u32::try_from(len).expect("short")) / ns);
    println!(
        "seal {len:4} B: {sealing:5.0} ns, {fast:4.2} GB/s; open: {opening:5.0} ns, {slow:4.2} GB/s"
    );
}

/// The cost of a stranger's datagram, from the moment that a rank has received it.
fn turn_away(len: usize) {
    let (mut sealer, mut opener) = seals(0);
    let mut genuine = vec![1; HEADER_BYTES + len + TAG_BYTES];
    sealer.seal(&header(7, 0), &mut genuine);
    let ring = Keyring::new(&Secret::new(&[7; 32]), 1, 2, Epochs::USUAL);
    let mut window = ReplayWindow::new();
    assert!(window.accept(7), "the first time it counts");
    let forged = [&header(8, 0).emit()[..], &genuine[HEADER_BYTES..]].concat();
    let plain = DatagramHeader { form: Form::Plain, ..header(7, 0) };
    let next = [&header(Epochs::USUAL.frames, 0).emit()[..], &genuine[HEADER_BYTES..]].concat();
    let costs = [
        ("forged", forged.clone()),
        ("of the next epoch", next),
        ("repeated", genuine.clone()),
        ("for another local rank", [&header(7, 1).emit()[..], &forged[HEADER_BYTES..]].concat()),
        ("not sealed", [&plain.emit()[..], &genuine[HEADER_BYTES..]].concat()),
    ]
    .map(|(name, datagram)| {
        let ns = best(200, || {
            let from = Instant::now();
            for _ in 0..200 {
                // As above.
                let mut copy = [0; 2000];
                let copy = &mut copy[..datagram.len()];
                copy.copy_from_slice(&datagram);
                assert!(!open(&mut opener, &window, 0, black_box(copy)));
            }
            ns(from) / 200.0
        });
        format!("{name} {ns:.0} ns")
    });
    // Nothing is stored for a rank that has not been heard yet.
    let unheard = best(200, || {
        let from = Instant::now();
        for _ in 0..200 {
            let mut copy = [0; 2000];
            let copy = &mut copy[..forged.len()];
            copy.copy_from_slice(&forged);
            let mut opener = Opener::new(ring.from(0, 0, 0));
            assert!(!open(&mut opener, &ReplayWindow::new(), 0, black_box(copy)));
        }
        ns(from) / 200.0
    });
    println!(
        "turn away {len:4} B: {}, in the name of a rank that has not been heard {unheard:.0} ns",
        costs.join(", ")
    );
}

/// One end of a conversation: sends `len` bytes, and polls once.
trait End: Send {
    fn send(&mut self, len: usize);
    fn poll(&mut self) -> bool;
}

struct Bare {
    socket: UdpSocket,
    to: SocketAddr,
}

fn bare() -> [Box<dyn End>; 2] {
    let sockets = [(); 2].map(|()| {
        let socket = UdpSocket::bind((HERE, 0)).expect("bound");
        socket.set_nonblocking(true).expect("set");
        socket
    });
    let to = [1, 0].map(|at: usize| sockets[at].local_addr().expect("bound"));
    let mut to = to.into_iter();
    sockets.map(|socket| -> Box<dyn End> { Box::new(Bare { socket, to: to.next().expect("two") }) })
}

impl End for Bare {
    fn send(&mut self, len: usize) {
        self.socket.send_to(&[0; 2000][..len], self.to).expect("sent");
    }

    fn poll(&mut self) -> bool {
        self.socket.recv_from(&mut [0; 2000]).is_ok()
    }
}

struct Ours {
    socket: Socket,
    room: ReceiveBuffer,
    to: Target,
    local_rank: u16,
    seals: Option<(Sealer, Counter, Opener)>,
}

fn ours(sealed: bool) -> [Box<dyn End>; 2] {
    let group = Group::open(2, None, HERE).expect("opened");
    let to = SocketAddr::new(HERE, group.port);
    let mut ends = group.sockets.into_iter().zip(0..).map(|(socket, local_rank)| -> Box<dyn End> {
        let seals = sealed.then(|| {
            let counter = Counter::new(Epochs::USUAL);
            (Sealer::new(chain(1 - local_rank)), counter, Opener::new(chain(local_rank)))
        });
        let socket = Socket::new(socket, true);
        let to = Target::new(to, 1 - local_rank);
        Box::new(Ours { socket, room: ReceiveBuffer::new(), to, local_rank, seals })
    });
    std::array::from_fn(|_| ends.next().expect("two"))
}

impl End for Ours {
    fn send(&mut self, len: usize) {
        let mut bytes = [0; 2000];
        let local_rank = 1 - self.local_rank;
        let bytes = match &mut self.seals {
            Some((sealer, counter, _)) => {
                let bytes = &mut bytes[..HEADER_BYTES + len + TAG_BYTES];
                let number = counter.count().expect("there are many");
                sealer.seal(&header(number, local_rank), bytes);
                bytes
            }
            None => {
                bytes[..2].copy_from_slice(&local_rank.to_be_bytes());
                &mut bytes[..len]
            }
        };
        self.socket.send(&self.to, &[IoSlice::new(bytes)]).expect("sent");
    }

    fn poll(&mut self) -> bool {
        let (seals, local_rank, window) = (&mut self.seals, self.local_rank, ReplayWindow::new());
        let taken = self.socket.receive_many(&mut self.room, |_, _, datagram| {
            if let Some((_, _, opener)) = seals {
                assert!(open(opener, &window, local_rank, datagram));
            }
        });
        taken.expect("received") > 0
    }
}

fn round_trips(name: &str, len: usize, [here, there]: &mut [Box<dyn End>; 2]) {
    let over = AtomicBool::new(false);
    let half = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                if there.poll() {
                    there.send(len);
                }
            }
        });
        let half = best(300, || {
            let from = Instant::now();
            for _ in 0..50 {
                here.send(len);
                while !here.poll() {}
            }
            ns(from) / 100.0
        });
        over.store(true, Ordering::Relaxed);
        half
    });
    println!("half round trip {len:4} B, {name}: {half:.0} ns");
}

/// How to send a megabyte.
#[derive(Clone, Copy)]
struct Way {
    many: bool,
    batch: bool,
    joins: bool,
    sealed: bool,
}

const STREAM_DATAGRAMS: usize = (1 << 20) / DATAGRAM_BYTES;

fn stream(name: &str, way: Way) {
    let group = Group::open(2, None, HERE).expect("opened");
    let [back, to] =
        [0, 1].map(|local_rank| Target::new(SocketAddr::new(HERE, group.port), local_rank));
    let mut sockets = group.sockets.into_iter().map(|socket| Socket::new(socket, way.joins));
    let [here, there] = std::array::from_fn(|_| sockets.next().expect("two"));
    let over = AtomicBool::new(false);
    let (ns, lost) = std::thread::scope(|scope| {
        scope.spawn(|| answer(&there, &back, way.sealed, &over));
        let mut sender = Stream {
            socket: &here,
            to,
            sealer: way.sealed.then(|| Sealer::new(chain(1))),
            counter: Counter::new(Epochs::USUAL),
            bytes: vec![0; STREAM_DATAGRAMS * DATAGRAM_BYTES],
        };
        let (mut room, mut lost) = (ReceiveBuffer::new(), 0);
        let ns = best(200, || {
            let from = Instant::now();
            sender.send(way);
            let mut answered = false;
            while !answered {
                answered = here.receive_many(&mut room, |_, _, _| ()).expect("received") > 0;
                if from.elapsed() > Duration::from_millis(100) {
                    lost += 1;
                    // The other side starts again.
                    here.send(&to, &[IoSlice::new(&[0, 1])]).expect("sent");
                    std::thread::sleep(Duration::from_millis(20));
                    while here.receive_many(&mut room, |_, _, _| ()).expect("received") > 0 {}
                    return f64::INFINITY;
                }
            }
            ns(from)
        });
        over.store(true, Ordering::Relaxed);
        (ns, lost)
    });
    let megabyte = f64::from(u32::try_from(STREAM_DATAGRAMS * DATAGRAM_BYTES).expect("small"));
    println!(
        "1 MB in {STREAM_DATAGRAMS} datagrams, {name}: {:.0} us, {:.2} GB/s, {lost} of 200 not whole",
        ns / 1e3,
        megabyte / ns
    );
}

struct Stream<'a> {
    socket: &'a Socket,
    to: Target,
    sealer: Option<Sealer>,
    counter: Counter,
    bytes: Vec<u8>,
}

impl Stream<'_> {
    fn send(&mut self, way: Way) {
        // Like a rail: one batch is on its way while the next is sealed.
        for batch in self.bytes.chunks_mut(DATAGRAM_BYTES * 46) {
            for datagram in batch.chunks_mut(DATAGRAM_BYTES) {
                let header = header(self.counter.count().expect("there are many"), 1);
                match &mut self.sealer {
                    Some(sealer) => sealer.seal(&header, datagram),
                    None => datagram[..HEADER_BYTES].copy_from_slice(&header.emit()),
                }
            }
            let datagrams = batch.chunks(DATAGRAM_BYTES);
            if way.batch {
                self.socket.send_batch(&self.to, batch, DATAGRAM_BYTES).expect("sent");
            } else if way.many {
                let all: Vec<_> = datagrams.map(|bytes| Datagram { to: &self.to, bytes }).collect();
                self.socket.send_many(&all).expect("sent");
            } else {
                for datagram in datagrams {
                    self.socket.send(&self.to, &[IoSlice::new(datagram)]).expect("sent");
                }
            }
        }
    }
}

/// Answers each megabyte with one datagram.
fn answer(socket: &Socket, to: &Target, sealed: bool, over: &AtomicBool) {
    let (mut opener, window) = (Opener::new(chain(1)), ReplayWindow::new());
    let (mut room, mut count) = (ReceiveBuffer::new(), 0);
    while !over.load(Ordering::Relaxed) {
        let taken = socket.receive_many(&mut room, |_, _, datagram| {
            if datagram.len() < DATAGRAM_BYTES {
                count = 0;
                return;
            }
            assert!(!sealed || open(&mut opener, &window, 1, datagram));
            count += 1;
        });
        taken.expect("received");
        if count == STREAM_DATAGRAMS {
            count = 0;
            socket.send(to, &[IoSlice::new(&[0, 0])]).expect("sent");
        }
    }
}
