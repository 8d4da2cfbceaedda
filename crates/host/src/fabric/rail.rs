//! The rail over libfabric: frames as messages between endpoints, which arrive whole, once and in order; the library sees to it.
//! Long messages are read out of the sender's memory, where the provider can: the sender registers it, and its key goes with the
//! offer.
//!
//! An endpoint is reached by its name, which only its own process knows. So who first sends to a peer sends it its *card*
//! in a sealed datagram, and wants the peer's in return, again and again until it is there; whoever gets a card notes the name.
//! Nobody knows more names than it has peers that it talks to. The socket of datagrams is there in every job of
//! several hosts, and is also where one sleeps.

use std::cell::Cell;
use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ferrywire_nic::{Envelope, Key, Peer, Promises, Sent, Span, Ticket};

use super::card::Card;
use super::endpoint::{Endpoint, Given, Happened, MESSAGE_BYTES_MAX, Registered};
use super::reads::{Ended, GIVE_BACK_WITHIN, Reads};
use crate::net::Net;
use crate::udp::rail::{self as udp, Udp, UdpInlet};

/// Opens the rail for one rank, once.
pub(crate) fn open(net: &Arc<Net>, endpoint: &Arc<Endpoint>) -> (Fabric, FabricInlet) {
    let mail = Arc::new(Mail::default());
    let (datagrams, datagrams_inlet) = udp::open(net);
    let out = Fabric {
        me: net.me.to_le_bytes(),
        exposed: HashMap::new(),
        reads: Reads::default(),
        read: Vec::new(),
        endpoint: Arc::clone(endpoint),
        mail: Arc::clone(&mail),
        datagrams,
        contacts: HashMap::new(),
        full: Vec::new(),
        lost: Vec::new(),
        pause: Pause::new(),
    };
    let inlet = FabricInlet {
        size: net.directory.size(),
        endpoint: Arc::clone(endpoint),
        mail,
        datagrams: datagrams_inlet,
        rest: Cell::new(0),
    };
    (out, inlet)
}

/// The half that sends.
pub(crate) struct Fabric {
    /// Our rank, as it stands before every frame.
    me: [u8; SOURCE_BYTES],
    /// Memory that others may read.
    exposed: HashMap<Ticket, Registered>,
    reads: Reads,
    /// Reads that are over, and have not been shown.
    read: Vec<Ticket>,
    endpoint: Arc<Endpoint>,
    mail: Arc<Mail>,
    /// For cards.
    datagrams: Udp,
    contacts: HashMap<Peer, Contact>,
    /// Peers whose frames found no room, or whose names we do not know yet.
    full: Vec<Peer>,
    /// Peers that cannot be reached, and have not been shown.
    lost: Vec<(Peer, io::Error)>,
    pause: Pause,
}

/// What we know of a peer.
enum Contact {
    /// Its address.
    Known(u64),
    /// It was last asked for its card then.
    Asked(Instant),
}

impl Fabric {
    pub(crate) fn promises(&self) -> Promises {
        Promises {
            reliable: true,
            puts: false,
            gets: self.endpoint.reads(),
            frame_bytes_max: FRAME_BYTES_MAX,
            welcome_bytes: 0,
        }
    }

    #[inline]
    pub(crate) fn send(&mut self, to: Peer, envelope: &Envelope, payload: &[u8]) -> Sent {
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

    /// Lets others read a span of ours, until [`Fabric::conceal`].
    pub(crate) fn expose(&mut self, span: Span, ticket: Ticket) -> Key {
        let known = self.exposed.get(&ticket).map(Registered::key);
        let key = known.or_else(|| {
            let registered = self.endpoint.expose(span.offset, span.len)?;
            let key = registered.key();
            self.exposed.insert(ticket, registered);
            Some(key)
        });
        key.map_or(Key::NONE, Key)
    }

    pub(crate) fn conceal(&mut self, ticket: Ticket) {
        self.exposed.remove(&ticket);
    }

    /// Begins to read memory of a peer.
    pub(crate) fn get(&mut self, peer: Peer, from: Span, key: Key, into: Span, ticket: Ticket) {
        match self.endpoint.prepare(into.offset, into.len) {
            Ok(registered) => {
                self.reads.begin(peer, from, key, into, ticket, registered);
                self.ask_for_pieces();
            }
            Err(code) => self.lose(peer, code),
        }
    }

    fn ask_for_pieces(&mut self) {
        let Fabric { endpoint, contacts, reads, .. } = self;
        let (mut strangers, mut lost, mut stalled) = (Vec::new(), Vec::new(), false);
        reads.ask(endpoint.read_bytes_max(), |peer, number, piece, registered| {
            let Some(&Contact::Known(address)) = contacts.get(&peer) else {
                strangers.push(peer);
                return false;
            };
            match endpoint.read(address, number, piece, registered) {
                Given::Away => return true,
                Given::Full => stalled = true,
                Given::Never(code) => lost.push((peer, code)),
            }
            false
        });
        reads.stalled = stalled || !strangers.is_empty();
        for peer in strangers {
            self.stick_unknown(peer);
        }
        for (peer, code) in lost {
            self.lose(peer, code);
        }
    }

    fn on_piece(&mut self, number: u32, code: i32) {
        match self.reads.end_piece(number, self.endpoint.read_bytes_max(), code) {
            Ended::Nothing => {}
            Ended::Read(ticket) => self.read.push(ticket),
            Ended::Peer(peer, code) => self.lose(peer, code),
        }
    }

    /// Nothing more is read from a peer. False if something is on its way; then the peer is shown by
    /// [`Fabric::poll_lost`] when the library is done with it.
    pub(crate) fn stop_reading(&mut self, peer: Peer) -> bool {
        self.reads.give_up(peer, libc::EHOSTDOWN)
    }

    /// Shows reads that are over.
    pub(crate) fn poll_read(&mut self, show: impl FnMut(Ticket)) {
        self.read.drain(..).for_each(show);
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

    /// Asks a peer for its card.
    fn ask(&mut self, peer: Peer) {
        self.tell(peer, true);
        if self.contacts.insert(peer, Contact::Asked(Instant::now())).is_none() {
            self.mail.awaited.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Gives a peer our card. If it gets lost, it is asked for again.
    fn tell(&mut self, peer: Peer, wants: bool) {
        let card = Card { wants, name: self.endpoint.name() };
        let _ = self.datagrams.send_bytes(peer, &card.emit(), &[]);
        let _ = self.datagrams.flush();
    }

    #[cold]
    fn lose(&mut self, peer: Peer, code: i32) {
        let why = self.endpoint.in_words(code);
        self.lost.push((peer, io::Error::other(format!("libfabric: {why}"))));
    }

    /// Shows peers to whom there is room again.
    pub(crate) fn poll_room(&mut self, mut show: impl FnMut(Peer)) {
        for letter in self.mail.take() {
            match letter {
                Letter::Card { from, wants, name } => self.on_card(from, wants, &name),
                Letter::Lost { peer, code } => self.lose(peer, code),
                Letter::Piece { number, code } => self.on_piece(number, code),
            }
        }
        let over = self.pause.is_over(self.endpoint.finished());
        if !self.reads.is_empty() {
            self.ask_for_pieces();
            self.look_for_overdue();
        }
        for peer in std::mem::take(&mut self.full) {
            match self.contacts.get(&peer) {
                Some(Contact::Known(_)) if over => show(peer),
                Some(Contact::Asked(at)) if at.elapsed() >= ASK_AGAIN => {
                    self.ask(peer);
                    self.full.push(peer);
                }
                _ => self.full.push(peer),
            }
        }
    }

    /// What the library reads into is the user's again once the call has ended. If the library does not let go of it, nobody
    /// may go on.
    fn look_for_overdue(&self) {
        if let Some(peer) = self.reads.overdue() {
            let seconds = GIVE_BACK_WITHIN.as_secs();
            eprintln!(
                "abort: libfabric has been reading from rank {}, which is gone, for {seconds} s, and may still write into memory \
                 of this rank",
                peer.0
            );
            std::process::abort();
        }
    }

    fn on_card(&mut self, from: Peer, wants: bool, name: &[u8]) {
        // A name does not change, so what is known stays.
        if !matches!(self.contacts.get(&from), Some(Contact::Known(_))) {
            match self.endpoint.meet(name) {
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

    /// Shows peers that cannot be reached any more, and why.
    pub(crate) fn poll_lost(&mut self, mut show: impl FnMut(Peer, io::Error)) {
        for (peer, error) in self.lost.drain(..) {
            self.full.retain(|full| *full != peer);
            show(peer, error);
        }
    }

    #[inline]
    pub(crate) fn is_stuck(&self) -> bool {
        let stuck = !self.full.is_empty() || !self.lost.is_empty() || self.mail.is_there();
        stuck || !self.read.is_empty() || self.reads.stalled || self.reads.is_waiting_to_give_up()
    }

    /// Whether nothing waits to leave.
    pub(crate) fn is_empty(&mut self) -> bool {
        self.datagrams.flush() && self.endpoint.is_drained() && self.reads.is_empty()
    }

    /// How long one may sleep: the library may have something to do that wakes nobody.
    pub(crate) fn patience(&self) -> Option<Duration> {
        match () {
            () if self.is_stuck() => Some(self.pause.length.max(PAUSE_MIN)),
            () if self.endpoint.wait().is_none() => Some(NAP),
            () if self.endpoint.is_manual => Some(LOOK),
            () => None,
        }
    }
}

/// How long not to try again after a peer's frame found no room. The library does not tell when there is some, so one
/// tries more and more rarely, or when something else has left.
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

/// What the inlet has for the half that sends.
#[derive(Default)]
struct Mail {
    there: AtomicBool,
    /// How many cards the half that sends waits for.
    awaited: AtomicU32,
    letters: Mutex<Vec<Letter>>,
}

enum Letter {
    Card {
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

impl Mail {
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

/// The half that takes what has come.
pub(crate) struct FabricInlet {
    /// How many ranks there are.
    size: u32,
    endpoint: Arc<Endpoint>,
    mail: Arc<Mail>,
    datagrams: UdpInlet,
    /// Turns for which the socket is left alone: few cards come, and a look for them is a call of the system.
    rest: Cell<u32>,
}

impl FabricInlet {
    /// Shows the frames that have come; answers how many things have happened.
    #[inline]
    pub(crate) fn poll(&mut self, limit: usize, mut take: impl FnMut(Peer, &[u8])) -> usize {
        let (size, mail) = (self.size, &self.mail);
        let happened = self.endpoint.poll(limit, |happened| match happened {
            Happened::Message(message) => {
                let source = message.split_first_chunk();
                let source = source.map(|(source, frame)| (u32::from_le_bytes(*source), frame));
                // Whoever there is not is not listened to.
                if let Some((source, frame)) = source.filter(|&(source, _)| source < size) {
                    take(Peer(source), frame);
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
        happened + self.poll_cards()
    }

    #[inline(never)]
    fn poll_cards(&mut self) -> usize {
        let mail = &self.mail;
        let came = self.datagrams.poll(|from, bytes| {
            if let Some(Card { wants, name }) = Card::parse(bytes) {
                mail.put(Letter::Card { from, wants, name: name.to_vec() });
            }
        });
        let came = came.unwrap_or(0);
        self.rest.set(if came > 0 { 0 } else { REST_TURNS });
        came
    }

    /// Whether there is something to show. Whoever asks is about to sleep, and may be woken at the socket.
    pub(crate) fn is_ready(&self) -> bool {
        self.rest.set(0);
        self.endpoint.is_ready()
    }
}

/// What stands before every frame: the rank of its sender.
const SOURCE_BYTES: usize = 4;
#[expect(clippy::cast_possible_truncation, reason = "it is some kilobytes")]
const FRAME_BYTES_MAX: u32 = (MESSAGE_BYTES_MAX - SOURCE_BYTES) as u32;
/// When a card has not come, it is asked for again.
const ASK_AGAIN: Duration = Duration::from_millis(4);
const PAUSE_MIN: Duration = Duration::from_micros(10);
const PAUSE_MAX: Duration = Duration::from_millis(1);
/// How long one sleeps where nothing wakes.
const NAP: Duration = Duration::from_micros(100);
/// How long the library may be left alone where it works only while it is called.
const LOOK: Duration = Duration::from_millis(10);
/// Turns between two looks for cards.
const REST_TURNS: u32 = 512;
