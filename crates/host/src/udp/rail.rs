//! The rail between hosts: frames as sealed datagrams. It loses, repeats and reorders what the network does; all
//! that is the NIC's business.
//!
//! Frames of one turn that go to the same rank leave together, as a train. A host that has not been heard yet is
//! tried at each of its addresses; from then on it is reached where a genuine frame came from.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::BuildHasherDefault;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use ferrywire_nic::{Envelope, Mix, Peer, Promises, Sent};

use crate::net::Net;
use crate::net::directory::ADDRESSES_MAX;
use crate::udp::address::Address;
use crate::udp::replay::Window;
use crate::udp::seal::{Counter, Form, HEADER_BYTES, Header, Opener, Sealer, TAG_BYTES, epoch};
use crate::udp::socket::{Room, Target};
use crate::udp::straight::Straight;

/// Opens the rail for one rank: once, since its counters must not begin anew.
pub(crate) fn open(net: &Arc<Net>) -> (Udp, UdpInlet) {
    let out = Udp {
        net: Arc::clone(net),
        straight: Straight::new(&net.socket),
        ways: HashMap::default(),
        sealers: HashMap::default(),
        train: Train { to: None, bytes: Vec::with_capacity(TRAIN_BYTES_MAX), each: 0 },
        full: Vec::new(),
    };
    let inlet = UdpInlet {
        opener: Opener::new(&net.secret, net.host, net.slot, net.insecure),
        net: Arc::clone(net),
        room: Room::new(),
        sources: HashMap::default(),
    };
    (out, inlet)
}

/// The half that sends.
pub(crate) struct Udp {
    net: Arc<Net>,
    straight: Straight,
    ways: ByNumber<Peer, Way>,
    sealers: ByNumber<u32, Sealer>,
    train: Train,
    /// Peers whose frames found no room.
    full: Vec<Peer>,
}

type ByNumber<K, V> = HashMap<K, V, BuildHasherDefault<Mix>>;

/// How a rank is reached.
struct Way {
    host: u32,
    slot: u16,
    counter: Counter,
    /// Where its host has been heard.
    known: Option<Target>,
}

/// Datagrams for one rank that have not left yet: all of one length but the last, which may be shorter.
struct Train {
    to: Option<Peer>,
    bytes: Vec<u8>,
    each: usize,
}

impl Udp {
    pub(crate) fn promises(&self) -> Promises {
        Promises {
            reliable: false,
            puts: false,
            gets: false,
            frame_bytes_max: self.net.directory.frame_bytes_max(),
            welcome_bytes: 0,
        }
    }

    pub(crate) fn send(&mut self, to: Peer, envelope: &Envelope, payload: &[u8]) -> Sent {
        let mut head = [0; Envelope::BYTES_MAX];
        let head_bytes = envelope.emit(&mut head);
        self.send_bytes(to, &head[..head_bytes], payload)
    }

    /// The same for bytes in two parts, whatever they mean.
    pub(crate) fn send_bytes(&mut self, to: Peer, head: &[u8], payload: &[u8]) -> Sent {
        let tag_bytes = if self.net.insecure { 0 } else { TAG_BYTES };
        let len = HEADER_BYTES + head.len() + payload.len() + tag_bytes;
        if !self.train.takes(to, len) && !self.flush() {
            return self.stick(to);
        }
        let Some(way) = way(&mut self.ways, &self.net, to) else {
            // A rank that there is not gets nothing, and its silence says so.
            return Sent::Away;
        };
        let form = if self.net.insecure { Form::Plain } else { Form::Sealed };
        let counter = way.counter.count();
        let header = Header { slot: way.slot, form, source: self.net.me, counter };
        let start = self.train.bytes.len();
        self.train.bytes.extend_from_slice(&header.emit());
        self.train.bytes.extend_from_slice(head);
        self.train.bytes.extend_from_slice(payload);
        if form == Form::Sealed {
            self.train.bytes.extend_from_slice(&[0; TAG_BYTES]);
            let net = &self.net;
            let host = way.host;
            let sealer = self.sealers.entry(host).or_insert_with(|| Sealer::new(&net.secret, host));
            sealer.seal(&header, &mut self.train.bytes[start..]);
        }
        if self.train.to.is_none() {
            (self.train.to, self.train.each) = (Some(to), len);
        }
        Sent::Away
    }

    #[cold]
    fn stick(&mut self, to: Peer) -> Sent {
        if !self.full.contains(&to) {
            self.full.push(to);
        }
        Sent::Full
    }

    /// Lets go what has been collected. False if the socket has no room for it.
    #[inline]
    pub(crate) fn flush(&mut self) -> bool {
        match self.train.to {
            None => true,
            Some(to) => self.let_go(to),
        }
    }

    fn let_go(&mut self, to: Peer) -> bool {
        let Some(way) = way(&mut self.ways, &self.net, to) else { return true };
        if way.known.is_none() {
            let heard = self.net.directory.heard(way.host);
            way.known = heard.map(|address| Target::new(address, way.slot));
        }
        let Train { bytes, each, .. } = &mut self.train;
        let sent = match &way.known {
            Some(target) => {
                match self.straight.send_train(&self.net.socket, target, bytes, *each) {
                    Ok(sent) => sent,
                    // What cannot be sent is lost like anything that the network loses.
                    Err(_) => bytes.len(),
                }
            }
            None => {
                let port = self.net.directory.port(way.host);
                for address in self.net.directory.addresses(way.host).take(ADDRESSES_MAX) {
                    let target = Target::new(SocketAddr::new(address, port), way.slot);
                    let _ = self.net.socket.send_train(&target, bytes, *each);
                }
                bytes.len()
            }
        };
        bytes.drain(..sent);
        let done = bytes.is_empty();
        if done {
            self.train.to = None;
        }
        done
    }

    /// Shows peers to whom there is room again.
    pub(crate) fn poll_room(&mut self, show: impl FnMut(Peer)) {
        if self.flush() {
            self.full.drain(..).for_each(show);
        }
    }

    pub(crate) fn is_stuck(&self) -> bool {
        !self.full.is_empty()
    }

    /// Whether nothing waits to leave.
    pub(crate) fn is_empty(&self) -> bool {
        self.train.to.is_none()
    }
}

/// How `to` is reached, if there is such a rank.
fn way<'a>(ways: &'a mut ByNumber<Peer, Way>, net: &Net, to: Peer) -> Option<&'a mut Way> {
    match ways.entry(to) {
        Entry::Occupied(entry) => Some(entry.into_mut()),
        Entry::Vacant(entry) => {
            let (host, slot) = net.directory.place(to.0)?;
            Some(entry.insert(Way { host, slot, counter: Counter::new(), known: None }))
        }
    }
}

impl Train {
    /// Whether one more datagram of `len` bytes to `to` may be added.
    fn takes(&self, to: Peer, len: usize) -> bool {
        let Some(before) = self.to else { return true };
        // The last may be shorter, and then it is the last.
        let whole = self.bytes.len().is_multiple_of(self.each);
        before == to && whole && len <= self.each && self.bytes.len() + len <= TRAIN_BYTES_MAX
    }
}

/// The half that takes what has come.
pub(crate) struct UdpInlet {
    net: Arc<Net>,
    opener: Opener,
    room: Room,
    /// Ranks that have sent something genuine.
    sources: ByNumber<u32, Source>,
}

struct Source {
    window: Window,
    host: u32,
    /// The address that its host is known to be heard at.
    heard: Address,
}

impl UdpInlet {
    /// Shows the genuine frames that have come, each once; answers how many datagrams of any sort there were.
    pub(crate) fn poll(&mut self, mut take: impl FnMut(Peer, &[u8])) -> io::Result<usize> {
        let UdpInlet { net, opener, room, sources } = self;
        // Whether something new has come in the same piece.
        let mut news = false;
        net.socket.receive_many(room, |from, joined, datagram| {
            news &= joined;
            let newest = |header: &Header| match sources.get(&header.source) {
                None => Some(0),
                Some(source) if source.window.is_new(header.counter) => {
                    Some(epoch(source.window.newest()))
                }
                Some(_) => None,
            };
            let opened = opener.open(datagram, newest);
            let genuine = opened.and_then(|(header, frame)| {
                let source = match sources.entry(header.source) {
                    Entry::Occupied(entry) => entry.into_mut(),
                    Entry::Vacant(entry) => {
                        // Whoever has the secret may still be confused about who there is.
                        let (host, _) = net.directory.place(header.source)?;
                        entry.insert(Source {
                            window: Window::new(),
                            host,
                            heard: Address::NOWHERE,
                        })
                    }
                };
                if !source.window.accept(header.counter) {
                    return None;
                }
                if source.heard != *from {
                    source.heard = *from;
                    if let Some(address) = from.socket_addr() {
                        net.directory.note_heard(source.host, address.ip());
                    }
                }
                Some((Peer(header.source), frame))
            });
            match genuine {
                Some((peer, frame)) => {
                    news = true;
                    take(peer, &datagram[frame]);
                }
                None if news && opener.is_astray(datagram) => net.socket.join_no_more(),
                None => {}
            }
        })
    }
}

/// The longest train: what the kernel takes in one piece.
const TRAIN_BYTES_MAX: usize = 60_000;
