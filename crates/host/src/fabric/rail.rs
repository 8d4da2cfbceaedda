//! The rail over libfabric: frames as messages between endpoints. The library delivers them whole, once and
//! in order. If the provider can, long messages are read out of the sender's memory: the sender registers it,
//! and its key goes with the offer.
//!
//! An endpoint is reached by its name, which only its own process knows. So the first sender to a peer sends
//! it its *endpoint address* in a sealed datagram, and asks for the peer's, repeatedly until it arrives; each
//! receiver of an address stores the name. A rank knows only the names of the peers that it talks to. The
//! datagram socket exists in every job of several hosts, and is also where threads sleep.

use std::cell::Cell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::BuildHasherDefault;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ferrywire_nic::{Envelope, Key, Mix, Peer, Promises, Sent, Span, Ticket};

use super::endpoint::{Endpoint, Given, Happened};
use super::endpoint_address::EndpointAddress;
use super::object::Registered;
use super::reads::{Ended, Reads};
use super::slots::MESSAGE_BYTES_MAX;
use crate::here::Here;
use crate::net::Net;
use crate::rail::{Arrival, FAR, Inlet, Rail};
use crate::udp::rail::{self as udp, Udp, UdpInlet};

/// Opens the rail for one rank, once.
pub(crate) fn open(net: &Arc<Net>, endpoint: &Arc<Endpoint>) -> (Fabric, FabricInlet) {
    let mail = Arc::new(InletNews::default());
    let (datagrams, datagrams_inlet) = udp::open(net);
    let out = Fabric {
        me: net.me.to_le_bytes(),
        exposed: HashMap::new(),
        reads: Reads::default(),
        over: Vec::new(),
        endpoint: Arc::clone(endpoint),
        mail: Arc::clone(&mail),
        datagrams,
        contacts: HashMap::default(),
        full: Vec::new(),
        lost: Vec::new(),
        pause: Pause::new(),
    };
    let inlet = FabricInlet {
        others: Others::of(net),
        endpoint: Arc::clone(endpoint),
        mail,
        datagrams: datagrams_inlet,
        rest: Cell::new(0),
    };
    (out, inlet)
}

/// The half that sends.
pub(crate) struct Fabric {
    /// Our rank, which precedes every frame.
    me: [u8; SOURCE_BYTES],
    /// Memory that others may read.
    exposed: HashMap<Ticket, Registered>,
    reads: Reads,
    /// Finished reads that have not been shown.
    over: Vec<Ticket>,
    endpoint: Arc<Endpoint>,
    mail: Arc<InletNews>,
    /// Carries endpoint addresses.
    datagrams: Udp,
    contacts: HashMap<Peer, Contact, BuildHasherDefault<Mix>>,
    /// Peers whose frames found no room, or whose names are not known yet.
    full: Vec<Peer>,
    /// Unreachable peers that have not been shown.
    lost: Vec<(Peer, io::Error)>,
    pause: Pause,
}

/// What is known of a peer.
enum Contact {
    /// Its address.
    Known(u64),
    /// It was last asked for its address at this time.
    Asked(Instant),
}

impl Rail for Fabric {
    fn promises(&self, _: Peer) -> Promises {
        Promises {
            rail: FAR,
            reliable: true,
            // The library takes up to a quarter of an hour to notice a cut cable.
            may_vanish: true,
            puts: false,
            gets: self.endpoint.reads(),
            frame_bytes_max: FRAME_BYTES_MAX,
            burst_frames_max: 1,
            initial_credit_bytes: 0,
        }
    }

    #[inline]
    fn send(&mut self, to: Peer, envelope: &Envelope, payload: &[u8]) -> Sent {
        let Some(&Contact::Known(address)) = self.contacts.get(&to) else {
            return self.stick_unknown(to);
        };
        let mut head = [0; Envelope::BYTES_MAX];
        let head_bytes = envelope.emit(&mut head);
        match self.endpoint.send(address, to.0, [&self.me, &head[..head_bytes], payload]) {
            Given::Away => {
                self.pause.end();
                Sent::Away
            }
            Given::Full => {
                self.pause.begin(self.endpoint.finished());
                self.stick(to)
            }
            Given::Never(code) => {
                self.lose(to, code);
                Sent::Away
            }
        }
    }

    fn expose(&mut self, _: Peer, span: Span, ticket: Ticket) -> Key {
        let known = self.exposed.get(&ticket).map(Registered::key);
        let key = known.or_else(|| {
            let registered = self.endpoint.expose(span)?;
            let key = registered.key();
            self.exposed.insert(ticket, registered);
            Some(key)
        });
        key.map_or(Key::NONE, Key)
    }

    fn conceal(&mut self, ticket: Ticket) {
        self.exposed.remove(&ticket);
    }

    fn get(&mut self, peer: Peer, from: Span, key: Key, into: Span, ticket: Ticket) -> bool {
        match self.endpoint.prepare(into) {
            Ok(registered) => {
                self.reads.begin(peer, (from, key), into, ticket, registered);
                self.ask_for_pieces();
            }
            Err(code) => self.lose(peer, code),
        }
        true
    }

    fn forget(&mut self, peer: Peer) -> bool {
        self.endpoint.forget(peer.0);
        self.full.retain(|full| *full != peer);
        self.reads.give_up(peer, libc::EHOSTDOWN)
    }

    fn poll_read(&mut self, show: impl FnMut(Ticket)) {
        self.over.drain(..).for_each(show);
    }

    fn poll_room(&mut self, mut show: impl FnMut(Peer)) {
        for letter in self.mail.take() {
            match letter {
                Letter::EndpointAddress { from, wants, name } => {
                    self.on_address(from, wants, &name)
                }
                Letter::Lost { peer, code } => self.lose(peer, code),
                Letter::Piece { number, code } => self.on_piece(number, code),
            }
        }
        let over = self.pause.is_over(self.endpoint.finished());
        if !self.reads.is_empty() {
            self.ask_for_pieces();
        }
        for peer in std::mem::take(&mut self.full) {
            match self.contacts.get(&peer) {
                Some(Contact::Known(_)) if over => show(peer),
                Some(Contact::Asked(last)) if last.elapsed() >= ASK_AGAIN => {
                    self.ask(peer);
                    self.full.push(peer);
                }
                _ => self.full.push(peer),
            }
        }
    }

    fn poll_lost(&mut self, mut show: impl FnMut(Peer, io::Error)) {
        for (peer, error) in self.lost.drain(..) {
            self.full.retain(|full| *full != peer);
            show(peer, error);
        }
    }

    #[inline]
    fn is_stuck(&self) -> bool {
        self.has_something_to_do()
    }

    fn is_drained(&mut self) -> bool {
        self.datagrams.let_all_go() && self.endpoint.is_drained() && self.reads.is_empty()
    }

    /// How long a thread may sleep: the library may have work to do that wakes no one.
    fn timeout(&self) -> Option<Duration> {
        match () {
            () if self.has_something_to_do() => Some(self.pause.length.max(PAUSE_MIN)),
            () if self.endpoint.wait().is_none() => Some(NAP),
            () if self.endpoint.is_manual => Some(LOOK),
            () => None,
        }
    }
}

impl Fabric {
    fn ask_for_pieces(&mut self) {
        let Fabric { endpoint, contacts, reads, .. } = self;
        let obstacles = reads.ask(endpoint, |peer| match contacts.get(&peer) {
            Some(&Contact::Known(address)) => Some(address),
            _ => None,
        });
        for peer in obstacles.strangers {
            self.stick_unknown(peer);
        }
        for (peer, code) in obstacles.lost {
            self.lose(peer, code);
        }
    }

    fn on_piece(&mut self, number: u32, code: i32) {
        match self.reads.end_piece(number, code) {
            Ended::Nothing => {}
            Ended::Read(ticket) => self.over.push(ticket),
            Ended::Peer(peer, code) => self.lose(peer, code),
        }
    }

    #[cold]
    fn stick_unknown(&mut self, to: Peer) -> Sent {
        if !self.contacts.contains_key(&to) {
            self.ask(to);
        }
        self.stick(to)
    }

    #[cold]
    fn stick(&mut self, to: Peer) -> Sent {
        if !self.full.contains(&to) {
            self.full.push(to);
        }
        Sent::Full
    }

    /// Asks a peer for its address.
    fn ask(&mut self, peer: Peer) {
        self.tell(peer, true);
        let now = Instant::now();
        match self.contacts.entry(peer) {
            Entry::Occupied(mut known) => {
                if let Contact::Asked(last) = known.get_mut() {
                    *last = now;
                }
            }
            Entry::Vacant(unknown) => {
                unknown.insert(Contact::Asked(now));
                self.mail.awaited.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Sends a peer our address. If it is lost, the peer asks again.
    fn tell(&mut self, peer: Peer, wants: bool) {
        let address = EndpointAddress { wants, name: self.endpoint.name() };
        let _ = self.datagrams.send_bytes(peer, &address.emit(), &[]);
        let _ = self.datagrams.let_all_go();
    }

    #[cold]
    fn lose(&mut self, peer: Peer, code: i32) {
        let why = self.endpoint.in_words(code);
        self.lost.push((peer, io::Error::other(format!("libfabric: {why}"))));
    }

    fn on_address(&mut self, from: Peer, wants: bool, name: &[u8]) {
        // A name does not change, so a known one stays.
        if !matches!(self.contacts.get(&from), Some(Contact::Known(_))) {
            match self.endpoint.insert_address(name) {
                Ok(address) => {
                    if self.contacts.insert(from, Contact::Known(address)).is_some() {
                        self.mail.awaited.fetch_sub(1, Ordering::Relaxed);
                    }
                }
                Err(code) => self.lose(from, code),
            }
        }
        if wants {
            self.tell(from, false);
        }
    }

    #[inline]
    fn has_something_to_do(&self) -> bool {
        let stuck = !self.full.is_empty() || !self.lost.is_empty() || self.mail.is_there();
        stuck || !self.over.is_empty() || self.reads.stalled
    }
}

/// How long to wait after a frame found no room. The library does not tell when there is room, so retries
/// become rarer, unless another message has left.
struct Pause {
    until: Option<Instant>,
    length: Duration,
    /// How many messages had left when it began.
    finished: u64,
}

impl Pause {
    fn new() -> Pause {
        Pause { until: None, length: PAUSE_MIN, finished: 0 }
    }

    #[inline(always)]
    fn end(&mut self) {
        if self.until.is_some() {
            *self = Pause::new();
        }
    }

    #[cold]
    fn begin(&mut self, finished: u64) {
        let again = self.until.is_some() && self.finished == finished;
        self.length = if again { (2 * self.length).min(PAUSE_MAX) } else { PAUSE_MIN };
        self.until = Some(Instant::now() + self.length);
        self.finished = finished;
    }

    fn is_over(&self, finished: u64) -> bool {
        self.finished != finished || self.until.is_none_or(|until| Instant::now() >= until)
    }
}

/// News from the inlet for the half that sends.
#[derive(Default)]
struct InletNews {
    there: AtomicBool,
    /// How many addresses the half that sends waits for.
    awaited: AtomicU32,
    letters: Mutex<Vec<Letter>>,
}

enum Letter {
    EndpointAddress {
        from: Peer,
        wants: bool,
        name: Vec<u8>,
    },
    Lost {
        peer: Peer,
        code: i32,
    },
    /// A piece of a read is over.
    Piece {
        number: u32,
        code: i32,
    },
}

impl InletNews {
    #[inline(always)]
    fn is_there(&self) -> bool {
        self.there.load(Ordering::Relaxed)
    }

    fn put(&self, letter: Letter) {
        self.letters.lock().unwrap_or_else(PoisonError::into_inner).push(letter);
        self.there.store(true, Ordering::Relaxed);
    }

    fn take(&self) -> Vec<Letter> {
        self.there.store(false, Ordering::Relaxed);
        std::mem::take(&mut *self.letters.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The half that receives.
pub(crate) struct FabricInlet {
    others: Others,
    endpoint: Arc<Endpoint>,
    mail: Arc<InletNews>,
    datagrams: UdpInlet,
    /// Turns for which the socket is not polled: few addresses come, and a poll is a system call.
    rest: Cell<u32>,
}

impl Inlet for FabricInlet {
    #[inline]
    fn poll(&mut self, limit: usize, mut take: impl FnMut(Peer, Arrival<'_>)) -> usize {
        let (others, mail) = (self.others, &self.mail);
        let happened = self.endpoint.poll(limit, |happened| match happened {
            Happened::Message(message) => {
                if let Some((source, frame)) = others.split(message) {
                    take(source, Arrival::Frame(FAR, frame));
                }
            }
            Happened::Read { token, code } => mail.put(Letter::Piece { number: token, code }),
            Happened::Lost { token: Some(peer), code } => {
                mail.put(Letter::Lost { peer: Peer(peer), code });
            }
            Happened::Lost { token: None, .. } => {}
        });
        let rest = self.rest.get();
        if rest > 0 && mail.awaited.load(Ordering::Relaxed) == 0 {
            self.rest.set(rest - 1);
            return happened;
        }
        happened + self.poll_addresses()
    }

    /// Whether there is something to show. The caller is about to sleep, and may be woken at the socket.
    fn is_ready(&self) -> bool {
        self.rest.set(0);
        self.endpoint.is_ready()
    }
}

impl FabricInlet {
    #[inline(never)]
    fn poll_addresses(&mut self) -> usize {
        let mail = &self.mail;
        let came = self.datagrams.poll_bytes(|from, bytes| {
            if let Some(EndpointAddress { wants, name }) = EndpointAddress::parse(bytes) {
                mail.put(Letter::EndpointAddress { from, wants, name: name.to_vec() });
            }
        });
        let came = came.unwrap_or(0);
        self.rest.set(if came > 0 { 0 } else { REST_TURNS });
        came
    }
}

/// The ranks of other hosts: those that a frame may come from. Ranks of our own host use shared memory, where
/// the kernel vouches for their identity; a frame from the network in their name would be trusted as much, so
/// it is rejected.
#[derive(Clone, Copy)]
pub(crate) struct Others {
    here: Here,
    peers_max: u32,
}

impl Others {
    pub(crate) fn of(net: &Net) -> Others {
        let (first, ranks) = net.directory.ranks(net.host);
        let size = net.directory.size();
        let here = Here::new(first, ranks, size, net.host);
        Others { here, peers_max: net.directory.peers_max() }
    }

    /// The rank that a message claims to be from, if it is one of them, and the frame in it.
    #[inline(always)]
    pub(crate) fn split(self, message: &[u8]) -> Option<(Peer, &[u8])> {
        let (source, frame) = message.split_first_chunk::<SOURCE_BYTES>()?;
        let source = Peer(u32::from_le_bytes(*source));
        let is_other = source.0 < self.peers_max && self.here.local_rank(source).is_none();
        is_other.then_some((source, frame))
    }
}

/// The length of the sender's rank, which precedes every frame.
const SOURCE_BYTES: usize = 4;
#[expect(clippy::cast_possible_truncation, reason = "it is some kilobytes")]
const FRAME_BYTES_MAX: u32 = (MESSAGE_BYTES_MAX - SOURCE_BYTES) as u32;
/// How long to wait for an address before asking again.
const ASK_AGAIN: Duration = Duration::from_millis(4);
const PAUSE_MIN: Duration = Duration::from_micros(10);
const PAUSE_MAX: Duration = Duration::from_millis(1);
/// How long a thread sleeps if nothing can wake it.
const NAP: Duration = Duration::from_micros(100);
/// How long the library may go uncalled if it works only while it is called.
const LOOK: Duration = Duration::from_millis(10);
/// Turns between two polls for addresses.
const REST_TURNS: u32 = 512;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::look;
    use crate::job::LocalWire;
    use crate::net::tests::{HERE, ranks};

    #[test]
    fn only_frames_in_the_names_of_other_hosts_ranks_are_taken() {
        for provider in ["tcp", "shm", "udp;ofi_rxd"] {
            if let Err(why) = look(provider) {
                println!("not tested: provider {provider}: {why}");
                continue;
            }
            let nets = ranks(2, 3, LocalWire::Fabric(provider));
            let endpoint = nets[1].endpoint.as_ref().expect("it was opened");
            let (_, mut inlet) = open(&nets[1], endpoint);
            let attacker = Endpoint::open(provider, std::iter::once(HERE)).expect("it is there");
            let victim = attacker.insert_address(endpoint.name()).expect("it has a name");
            let claims = [u32::MAX, 7, 6, 0, 1, 2, 3, 4, 5];
            let (begun, mut taken) = (Instant::now(), Vec::new());
            for claim in claims {
                let claim = claim.to_le_bytes();
                while attacker.send(victim, 0, [&claim, b"frame", &[]]) != Given::Away {
                    assert!(begun.elapsed() < Duration::from_secs(60), "{provider} has no room");
                    attacker.poll(8, |_| ());
                    inlet.poll(8, |from, _| taken.push(from.0));
                }
            }
            // The last claim is accepted, and messages arrive in order.
            while taken.last() != Some(&5) {
                assert!(begun.elapsed() < Duration::from_secs(60), "{provider}: {taken:?}");
                attacker.poll(8, |_| ());
                inlet.poll(8, |from, _| taken.push(from.0));
            }
            assert_eq!(taken, [3, 4, 5], "{provider}");
        }
    }

    /// A peer that takes nothing must not hold all slots.
    #[test]
    fn a_peer_that_takes_nothing_leaves_room_for_others() {
        if let Err(why) = look("tcp") {
            println!("not tested: provider tcp: {why}");
            return;
        }
        let open = || Endpoint::open("tcp", std::iter::once(HERE)).expect("it is there");
        let (sender, silent, living) = (open(), open(), open());
        let [to_silent, to_living] = [&silent, &living]
            .map(|peer| sender.insert_address(peer.name()).expect("it has a name"));
        let begun = Instant::now();
        let in_time = || assert!(begun.elapsed() < Duration::from_secs(60), "nothing moves");
        let message = [7; 8 << 10];
        let mut arrived = 0;
        // Both are connected when the first message has arrived.
        for (number, (to, peer)) in (0..).zip([(to_silent, &silent), (to_living, &living)]) {
            while arrived <= number {
                in_time();
                if arrived == number {
                    sender.send(to, number, [&message, &[], &[]]);
                }
                sender.poll(8, |_| ());
                peer.poll(8, |_| arrived = number + 1);
            }
        }
        let mut refused_since = Instant::now();
        while refused_since.elapsed() < Duration::from_millis(300) {
            in_time();
            if sender.send(to_silent, 0, [&message, &[], &[]]) == Given::Away {
                refused_since = Instant::now();
            }
            sender.poll(8, |_| ());
        }
        while sender.send(to_living, 1, [&message, &[], &[]]) != Given::Away {
            in_time();
            sender.poll(8, |_| ());
        }
    }
}
