//! The rail between hosts: frames as sealed datagrams. It loses, repeats and reorders frames as the network
//! does; the NIC's reliability deals with that.
//!
//! Frames of one turn to the same rank leave together, as a batch. As long as nothing has arrived from a
//! host, frames go to each of its addresses; afterwards only to the address that a genuine frame came from.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::BuildHasherDefault;
use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;

use ferrywire_nic::{Envelope, Mix, Peer, Promises, Sent};

use crate::net::Net;
use crate::net::directory::ADDRESSES_MAX;
use crate::rail::{Arrival, FAR, Inlet, Rail};
use crate::udp::address::SocketAddress;
use crate::udp::burst::{self, Assembly, Part};
use crate::udp::connected::Connected;
use crate::udp::keys::Epochs;
use crate::udp::replay::{REPLAY_WINDOW, ReplayWindow};
use crate::udp::seal::{Counter, DatagramHeader, Form, HEADER_BYTES, Opener, Sealer, TAG_BYTES};
use crate::udp::socket::{ReceiveBuffer, Target};

/// Opens the rail for one rank: once only, since its counters must not start again.
pub(crate) fn open(net: &Arc<Net>) -> (Udp, UdpInlet) {
    let out = Udp {
        net: Arc::clone(net),
        connected: Connected::new(&net.socket),
        routes: HashMap::default(),
        batch: Batch { to: None, bytes: Vec::with_capacity(BATCH_BYTES_MAX), each: 0 },
        burst: Vec::new(),
        part_bytes: burst::part_bytes(net.directory.frame_bytes_max()),
        full: Vec::new(),
    };
    let inlet = UdpInlet {
        net: Arc::clone(net),
        room: ReceiveBuffer::new(),
        sources: HashMap::default(),
        assembly: Assembly::default(),
    };
    (out, inlet)
}

/// The half that sends.
pub(crate) struct Udp {
    net: Arc<Net>,
    connected: Connected,
    routes: ByNumber<Peer, Route>,
    batch: Batch,
    /// Where a burst is sealed, before it is cut.
    burst: Vec<u8>,
    /// Length of the parts of a burst.
    part_bytes: usize,
    /// Peers whose frames did not fit.
    full: Vec<Peer>,
}

/// The ranks that have sent a genuine datagram.
pub(crate) type Sources = ByNumber<u32, Source>;

type ByNumber<K, V> = HashMap<K, V, BuildHasherDefault<Mix>>;

/// How to reach a rank.
struct Route {
    host: u32,
    local_rank: u16,
    counter: Counter,
    /// Seals for this rank; `None` in an insecure job.
    sealer: Option<Sealer>,
    /// Where genuine frames of its host have come from.
    known: Option<Target>,
}

/// Datagrams for one rank that have not left yet: all of one length, except that the last may be shorter.
struct Batch {
    to: Option<Peer>,
    bytes: Vec<u8>,
    each: usize,
}

impl Rail for Udp {
    fn promises(&self, _: Peer) -> Promises {
        Promises {
            rail: FAR,
            reliable: false,
            may_vanish: true,
            puts: false,
            gets: false,
            frame_bytes_max: self.net.directory.frame_bytes_max(),
            burst_frames_max: burst::frames_max(self.net.directory.frame_bytes_max()),
            initial_credit_bytes: 0,
        }
    }

    fn send(&mut self, to: Peer, envelope: &Envelope, payload: &[u8]) -> Sent {
        let mut head = [0; Envelope::BYTES_MAX];
        let head_bytes = envelope.emit(&mut head);
        self.send_bytes(to, &head[..head_bytes], payload)
    }

    #[inline]
    fn flush(&mut self) {
        self.let_all_go();
    }

    fn poll_room(&mut self, show: impl FnMut(Peer)) {
        if self.let_all_go() {
            self.full.drain(..).for_each(show);
        }
    }

    fn is_stuck(&self) -> bool {
        !self.full.is_empty()
    }

    fn is_drained(&mut self) -> bool {
        self.batch.to.is_none()
    }
}

impl Udp {
    /// Sends bytes in two parts.
    pub(crate) fn send_bytes(&mut self, to: Peer, head: &[u8], payload: &[u8]) -> Sent {
        let tag_bytes = if self.net.insecure { 0 } else { TAG_BYTES };
        let len = HEADER_BYTES + head.len() + payload.len() + tag_bytes;
        let is_burst = len > HEADER_BYTES + self.part_bytes;
        if (is_burst || !self.batch.takes(to, len)) && !self.let_all_go() {
            return self.stick(to);
        }
        let Some(route) = route(&mut self.routes, &self.net, to) else {
            // Frames to a rank that does not exist are dropped, as if it were silent.
            return Sent::Away;
        };
        let Some(counter) = route.counter.count() else {
            // No counter is used twice. The peer hears nothing more from us.
            return Sent::Away;
        };
        let header = DatagramHeader {
            local_rank: route.local_rank,
            form: form(&self.net),
            source: self.net.me,
            counter,
        };
        if is_burst {
            let bytes = head.len() + payload.len() + tag_bytes;
            let first = Part::first(header, bytes, self.part_bytes);
            let pieces = match &mut route.sealer {
                Some(sealer) => [sealed_burst(&mut self.burst, sealer, &first, head, payload), &[]],
                None => [head, payload],
            };
            first.cut(pieces, self.part_bytes, &mut self.batch.bytes);
            (self.batch.to, self.batch.each) = (Some(to), HEADER_BYTES + self.part_bytes);
            return Sent::Away;
        }
        let start = self.batch.bytes.len();
        self.batch.bytes.extend_from_slice(&header.emit());
        self.batch.bytes.extend_from_slice(head);
        self.batch.bytes.extend_from_slice(payload);
        if let Some(sealer) = &mut route.sealer {
            self.batch.bytes.extend_from_slice(&[0; TAG_BYTES]);
            sealer.seal(&header, &mut self.batch.bytes[start..]);
        }
        if self.batch.to.is_none() {
            (self.batch.to, self.batch.each) = (Some(to), len);
        }
        Sent::Away
    }

    /// The datagram that would leave.
    #[cfg(test)]
    pub(crate) fn sealed_for_tests(&mut self, to: Peer, frame: &[u8]) -> Vec<u8> {
        assert_eq!(self.send_bytes(to, frame, &[]), Sent::Away);
        self.batch.to = None;
        std::mem::take(&mut self.batch.bytes)
    }

    #[cold]
    fn stick(&mut self, to: Peer) -> Sent {
        if !self.full.contains(&to) {
            self.full.push(to);
        }
        Sent::Full
    }

    /// Sends what has been collected. False if the socket has no room for it.
    #[inline]
    pub(crate) fn let_all_go(&mut self) -> bool {
        match self.batch.to {
            None => true,
            Some(to) => self.let_go(to),
        }
    }

    fn let_go(&mut self, to: Peer) -> bool {
        let Some(route) = route(&mut self.routes, &self.net, to) else { return true };
        if route.known.is_none() {
            let heard = self.net.directory.heard(route.host);
            route.known = heard.map(|address| Target::new(address, route.local_rank));
        }
        let Batch { bytes, each, .. } = &mut self.batch;
        let sent = match &route.known {
            Some(target) => {
                match self.connected.send_batch(&self.net.socket, target, bytes, *each) {
                    Ok(sent) => sent,
                    // A datagram that cannot be sent is lost, like one that the network drops.
                    Err(_) => bytes.len(),
                }
            }
            None => {
                let port = self.net.directory.port(route.host);
                for address in self.net.directory.addresses(route.host).take(ADDRESSES_MAX) {
                    let target = Target::new(SocketAddr::new(address, port), route.local_rank);
                    let _ = self.net.socket.send_batch(&target, bytes, *each);
                }
                bytes.len()
            }
        };
        bytes.drain(..sent);
        let done = bytes.is_empty();
        if done {
            self.batch.to = None;
        }
        done
    }
}

/// The route to `to`. `None` if there is no such rank.
fn route<'a>(routes: &'a mut ByNumber<Peer, Route>, net: &Net, to: Peer) -> Option<&'a mut Route> {
    match routes.entry(to) {
        Entry::Occupied(entry) => Some(entry.into_mut()),
        Entry::Vacant(entry) => {
            let (host, local_rank) = net.directory.place(to.0)?;
            let sealer = || Sealer::new(net.keys.to(host, net.me, local_rank));
            let sealer = (!net.insecure).then(sealer);
            let counter = Counter::new(net.keys.epochs());
            Some(entry.insert(Route { host, local_rank, counter, sealer, known: None }))
        }
    }
}

/// The bytes of a sealed burst, without its header.
#[inline(never)]
fn sealed_burst<'a>(
    room: &'a mut Vec<u8>,
    sealer: &mut Sealer,
    first: &Part,
    head: &[u8],
    payload: &[u8],
) -> &'a [u8] {
    room.clear();
    room.extend_from_slice(&first.emit());
    room.extend_from_slice(head);
    room.extend_from_slice(payload);
    room.extend_from_slice(&[0; TAG_BYTES]);
    sealer.seal_behind(first.emit(), first.header.counter, room);
    &room[HEADER_BYTES..]
}

/// The form of all frames of the job.
fn form(net: &Net) -> Form {
    if net.insecure { Form::Plain } else { Form::Sealed }
}

impl Batch {
    /// Whether one more datagram of `len` bytes to `to` fits into the batch.
    fn takes(&self, to: Peer, len: usize) -> bool {
        let Some(before) = self.to else { return true };
        // Only the last may be shorter.
        let whole = self.bytes.len().is_multiple_of(self.each);
        before == to && whole && len <= self.each && self.bytes.len() + len <= BATCH_BYTES_MAX
    }
}

/// The half that receives.
pub(crate) struct UdpInlet {
    net: Arc<Net>,
    room: ReceiveBuffer,
    sources: Sources,
    assembly: Assembly,
}

pub(crate) struct Source {
    host: u32,
    /// Opens its datagrams; `None` in an insecure job.
    opener: Option<Opener>,
    window: ReplayWindow,
    /// The address last noted for its host.
    heard: SocketAddress,
}

impl Inlet for UdpInlet {
    fn poll(&mut self, _: usize, mut take: impl FnMut(Peer, Arrival<'_>)) -> usize {
        // Errors of the socket show when something is sent.
        self.poll_bytes(|peer, frame| take(peer, Arrival::Frame(FAR, frame))).unwrap_or(0)
    }

    fn is_ready(&self) -> bool {
        false
    }
}

impl UdpInlet {
    /// Shows the genuine frames that have arrived, each once; returns the number of datagrams of any sort.
    pub(crate) fn poll_bytes(&mut self, mut take: impl FnMut(Peer, &[u8])) -> io::Result<usize> {
        let UdpInlet { net, room, sources, assembly } = self;
        // Whether a new datagram came in the same piece.
        let mut news = false;
        net.socket.receive_many(room, |from, joined, datagram| {
            news &= joined;
            let opened = if Part::is_one(datagram) {
                open_part(net, sources, assembly, from, datagram)
            } else {
                let opened = open_one(net, sources, from, datagram);
                opened.map(|(peer, frame)| (peer, &datagram[frame]))
            };
            if let Some((peer, frame)) = opened {
                news = true;
                take(peer, frame);
            } else if news && is_astray(net, datagram) {
                net.socket.join_no_more();
            }
        })
    }
}

/// The source of a datagram and the place of its frame, if it is genuine and new.
#[inline]
pub(crate) fn open_one(
    net: &Net,
    sources: &mut Sources,
    from: &SocketAddress,
    datagram: &mut [u8],
) -> Option<(Peer, Range<usize>)> {
    let header = DatagramHeader::parse(datagram)?;
    // The kernel gives a datagram for a local rank that does not exist to any socket.
    if header.local_rank != net.local_rank || header.form != form(net) {
        return None;
    }
    let frame = match sources.entry(header.source) {
        Entry::Occupied(entry) => entry.into_mut().open(&header, datagram, from, net)?,
        // State is allocated only after a datagram proves genuine.
        Entry::Vacant(entry) => {
            let mut source = Source::new(net, header.source)?;
            let frame = source.open(&header, datagram, from, net)?;
            entry.insert(source);
            frame
        }
    };
    Some((Peer(header.source), frame))
}

/// Takes a part of a burst. Returns the source and the frame of the burst if it is genuine, new and now whole.
///
/// A part proves nothing. One that is not from a rank that has been heard, or not near what that rank has sent, is
/// rejected, and memory for the others is bounded.
#[inline(never)]
pub(crate) fn open_part<'a>(
    net: &Net,
    sources: &mut Sources,
    assembly: &'a mut Assembly,
    from: &SocketAddress,
    datagram: &[u8],
) -> Option<(Peer, &'a [u8])> {
    let part = Part::parse(datagram)?;
    let header = part.header;
    if header.local_rank != net.local_rank || header.form != form(net) {
        return None;
    }
    let source = sources.get_mut(&header.source)?;
    if !source.window.is_new(header.counter)
        || header.counter.saturating_sub(source.window.newest()) > REPLAY_WINDOW
    {
        return None;
    }
    let each = burst::part_bytes(net.directory.frame_bytes_max());
    let burst = assembly.take(&part, &datagram[HEADER_BYTES..], each)?;
    let frame = source.open(&header, burst, from, net)?;
    Some((Peer(header.source), &burst[frame]))
}

impl Source {
    /// A rank of another host. Ranks of our own host use shared memory, where the kernel vouches for their
    /// identity; a frame from the network in their name would be trusted as much, so it is rejected.
    #[cold]
    fn new(net: &Net, rank: u32) -> Option<Source> {
        let (host, _) = net.directory.place(rank).filter(|&(host, _)| host != net.host)?;
        let opener = || Opener::new(net.keys.from(host, rank, net.local_rank));
        let opener = (!net.insecure).then(opener);
        Some(Source { host, opener, window: ReplayWindow::new(), heard: SocketAddress::NOWHERE })
    }

    #[inline]
    fn open(
        &mut self,
        header: &DatagramHeader,
        datagram: &mut [u8],
        from: &SocketAddress,
        net: &Net,
    ) -> Option<Range<usize>> {
        if !self.window.is_new(header.counter) {
            return None;
        }
        let frame = match &mut self.opener {
            Some(opener) => opener.open(header, datagram)?,
            None => HEADER_BYTES..datagram.len(),
        };
        let new = self.window.accept(header.counter);
        debug_assert!(new, "it was new before it was opened");
        if self.heard != *from {
            self.heard = *from;
            if let Some(address) = from.socket_addr() {
                net.directory.note_heard(self.host, address.ip());
            }
        }
        Some(frame)
    }
}

/// Whether a rejected datagram is genuine, but for another local rank of our host: the kernel has joined it
/// to one of ours. The check destroys its contents.
///
/// The header, which is in clear, is not believed, so strangers cannot forge this. They can replay what they
/// have sniffed, so only datagrams that came in one piece with a new one are checked. A kernel that joins
/// like that does so from the start: the first key of two ranks is enough to detect it.
#[cold]
fn is_astray(net: &Net, datagram: &mut [u8]) -> bool {
    let Some(header) = DatagramHeader::parse(datagram) else { return false };
    if header.local_rank == net.local_rank || header.form != form(net) {
        return false;
    }
    if net.insecure {
        return true;
    }
    let Epochs { first, frames } = net.keys.epochs();
    let place = net.directory.place(header.source).filter(|&(host, _)| host != net.host);
    place.is_some_and(|(host, _)| {
        let is_first = header.counter.wrapping_sub(first) < frames;
        let chain = || net.keys.from(host, header.source, header.local_rank);
        is_first && Opener::new(chain()).open(&header, datagram).is_some()
    })
}

/// The longest batch: what the kernel takes in one piece.
const BATCH_BYTES_MAX: usize = 60_000;

#[cfg(test)]
mod tests {
    use std::io::IoSlice;
    use std::time::Duration;

    use super::*;
    use crate::job::LocalWire;
    use crate::net::tests::{HERE, ranks};
    use crate::udp::keys::Epochs;

    /// The sources of the frames that a rank accepts, once this many datagrams have arrived.
    fn taken_from(inlet: &mut UdpInlet, datagrams: usize) -> Vec<u32> {
        let (mut came, mut sources) = (0, Vec::new());
        while came < datagrams {
            let timeout = Some(Duration::from_secs(10));
            assert!(inlet.net.socket.wait(None, timeout).expect("waited"), "only {came} came");
            came += inlet.poll_bytes(|from, _| sources.push(from.0)).expect("received");
        }
        sources
    }

    #[test]
    fn frames_that_claim_to_be_from_the_receivers_host_are_turned_away() {
        for wire in [LocalWire::Sealed(Epochs::USUAL), LocalWire::Insecure] {
            let nets = ranks(2, 3, wire);
            let (_, mut inlet) = open(&nets[0]);
            // The ranks of its own host, itself included, have the job's secret.
            for net in &nets[..3] {
                let (mut out, _) = open(net);
                assert_eq!(out.send_bytes(Peer(0), b"frame", &[]), Sent::Away);
                assert!(out.let_all_go());
            }
            assert_eq!(taken_from(&mut inlet, 3), [0; 0], "{wire:?}");
            let (mut out, _) = open(&nets[4]);
            assert_eq!(out.send_bytes(Peer(0), b"frame", &[]), Sent::Away);
            assert!(out.let_all_go());
            assert_eq!(taken_from(&mut inlet, 1), [4], "{wire:?}");
        }
    }

    #[test]
    fn of_what_is_not_sealed_only_an_insecure_job_takes_any_and_only_from_other_hosts() {
        for wire in [LocalWire::Sealed(Epochs::USUAL), LocalWire::Insecure] {
            let nets = ranks(2, 3, wire);
            let (_, mut inlet) = open(&nets[0]);
            let to = Target::new(SocketAddr::new(HERE, nets[0].directory.port(0)), 0);
            for source in (0..8).chain([u32::MAX]) {
                let header =
                    DatagramHeader { local_rank: 0, form: Form::Plain, source, counter: 1 }.emit();
                let parts = [IoSlice::new(&header), IoSlice::new(b"frame")];
                nets[5].socket.send(&to, &parts).expect("sent");
            }
            let expected: &[u32] = if wire.is_insecure() { &[3, 4, 5] } else { &[] };
            assert_eq!(taken_from(&mut inlet, 9), expected, "{wire:?}");
        }
    }

    /// Rank 0 of a host sends `frames` frames to rank 1 of another: the counters of those that leave, and the
    /// numbers in those that are accepted.
    fn send_frames(epochs: Epochs, frames: u64) -> (Vec<u64>, Vec<u64>) {
        let nets = ranks(2, 1, LocalWire::Sealed(epochs));
        let ((mut out, _), (_, mut inlet)) = (open(&nets[0]), open(&nets[1]));
        let (mut counters, mut taken) = (Vec::new(), Vec::new());
        for number in 0..frames {
            assert_eq!(out.send_bytes(Peer(1), &number.to_le_bytes(), &[]), Sent::Away);
            if number % 40 == 39 || number == frames - 1 {
                let left = out.batch.bytes.chunks(out.batch.each.max(1));
                counters
                    .extend(left.filter_map(DatagramHeader::parse).map(|header| header.counter));
                assert!(out.let_all_go());
                while inlet.net.socket.wait(None, Some(Duration::ZERO)).expect("waited") {
                    let take = |_, frame: &[u8]| {
                        taken.push(u64::from_le_bytes(frame.try_into().expect("a number")));
                    };
                    inlet.poll_bytes(take).expect("received");
                }
            }
        }
        (counters, taken)
    }

    #[test]
    fn keys_change_every_thousand_frames_and_nothing_is_lost_by_it() {
        for first in [0, (1 << 32) - 1500, (1 << 63) - 10] {
            let (counters, taken) = send_frames(Epochs { first, frames: 1000 }, 10_000);
            assert!(counters.iter().copied().eq(first..first + 10_000), "from {first}");
            assert!(taken.iter().copied().eq(0..10_000), "from {first}: {}", taken.len());
        }
    }

    #[test]
    fn at_the_end_of_the_counter_nothing_is_sent_any_more() {
        let first = u64::MAX - 2499;
        let (counters, taken) = send_frames(Epochs { first, frames: 1000 }, 6000);
        assert!(counters.iter().copied().eq(first..=u64::MAX), "{} have left", counters.len());
        assert!(taken.iter().copied().eq(0..2500), "{} were taken", taken.len());
    }

    /// After the first datagram of a new epoch, those of the previous one are late.
    #[test]
    fn what_is_late_or_comes_twice_counts_once_also_where_the_key_changes() {
        let epochs = Epochs { first: 0, frames: 1000 };
        let nets = ranks(2, 1, LocalWire::Sealed(epochs));
        let ((mut out, _), (_, mut inlet)) = (open(&nets[0]), open(&nets[1]));
        let made = (0..3000_u64).map(|number| out.sealed_for_tests(Peer(1), &number.to_le_bytes()));
        let mut datagrams: Vec<Vec<u8>> = made.collect();
        // Hundreds change places, across the edges of epochs, and each comes twice.
        datagrams.chunks_mut(700).for_each(<[Vec<u8>]>::reverse);
        let mut taken = Vec::new();
        for datagram in datagrams.iter().flat_map(|one| [one, one]) {
            let from = SocketAddress::NOWHERE;
            let opened = open_one(&nets[1], &mut inlet.sources, &from, &mut datagram.clone());
            taken.extend(
                opened.map(|_| DatagramHeader::parse(datagram).expect("it has one").counter),
            );
        }
        taken.sort_unstable();
        assert!(taken.into_iter().eq(0..3000));
    }

    #[test]
    fn strangers_make_no_state_whoever_they_claim_to_be() {
        let nets = ranks(2, 2, LocalWire::Sealed(Epochs::USUAL));
        let (_, mut inlet) = open(&nets[0]);
        for source in 0..5 {
            for counter in [0, 1 << 24, 1 << 25, u64::MAX] {
                let header = DatagramHeader { local_rank: 0, form: Form::Sealed, source, counter };
                let mut datagram = [&header.emit()[..], &[7; 60]].concat();
                let from = SocketAddress::NOWHERE;
                let opened = open_one(&nets[0], &mut inlet.sources, &from, &mut datagram);
                assert!(opened.is_none() && inlet.sources.is_empty());
            }
        }
    }

    /// The parts of a burst from rank 0 to rank 1, after a frame that makes rank 0 known there.
    fn parts_of_burst(out: &mut Udp, inlet: &mut UdpInlet, frame: &[u8]) -> Vec<Vec<u8>> {
        let mut hello = out.sealed_for_tests(Peer(1), b"hello");
        let from = SocketAddress::NOWHERE;
        assert!(open_one(&inlet.net, &mut inlet.sources, &from, &mut hello).is_some());
        let each = HEADER_BYTES + out.part_bytes;
        out.sealed_for_tests(Peer(1), frame).chunks(each).map(<[u8]>::to_vec).collect()
    }

    fn frame_of(inlet: &mut UdpInlet, part: &[u8]) -> Option<Vec<u8>> {
        let UdpInlet { net, sources, assembly, .. } = inlet;
        let opened = open_part(net, sources, assembly, &SocketAddress::NOWHERE, part);
        opened.map(|(from, frame)| {
            assert_eq!(from, Peer(0));
            frame.to_vec()
        })
    }

    #[test]
    fn a_burst_arrives_whole_and_once() {
        for wire in [LocalWire::Sealed(Epochs::USUAL), LocalWire::Insecure] {
            let nets = ranks(2, 1, wire);
            let ((mut out, _), (_, mut inlet)) = (open(&nets[0]), open(&nets[1]));
            let longest = out.promises(Peer(1)).burst_bytes_max() as usize;
            for len in [longest, longest / 2, 2000] {
                let frame: Vec<u8> = (0..=255).cycle().take(len).collect();
                // By the socket.
                assert_eq!(out.send_bytes(Peer(1), b"hello", &[]), Sent::Away);
                assert_eq!(out.send_bytes(Peer(1), &frame[..50], &frame[50..]), Sent::Away);
                assert!(out.let_all_go());
                let mut taken: Vec<Vec<u8>> = Vec::new();
                while taken.len() < 2 {
                    let timeout = Some(Duration::from_secs(10));
                    assert!(inlet.net.socket.wait(None, timeout).expect("waited"), "it comes");
                    inlet.poll_bytes(|_, frame| taken.push(frame.to_vec())).expect("received");
                }
                assert!(taken == [b"hello".to_vec(), frame.clone()], "{wire:?}, {len} bytes");
                // In any order, and twice.
                let mut parts = parts_of_burst(&mut out, &mut inlet, &frame);
                parts.reverse();
                let found: Vec<_> = [&parts, &parts]
                    .into_iter()
                    .flatten()
                    .filter_map(|part| frame_of(&mut inlet, part))
                    .collect();
                assert!(found == [frame], "{wire:?}, {len} bytes");
            }
        }
    }

    #[test]
    fn a_burst_that_was_changed_is_turned_away_and_the_next_one_is_not() {
        let nets = ranks(2, 1, LocalWire::Sealed(Epochs::USUAL));
        let ((mut out, _), (_, mut inlet)) = (open(&nets[0]), open(&nets[1]));
        let frame = vec![7; 10_000];
        for at in [HEADER_BYTES, HEADER_BYTES + 700] {
            for part in 0..Part::parse(&parts_of_burst(&mut out, &mut inlet, &frame)[0])
                .expect("it is one")
                .last
            {
                let mut parts = parts_of_burst(&mut out, &mut inlet, &frame);
                parts[usize::from(part)][at] ^= 1;
                assert!(parts.iter().all(|part| frame_of(&mut inlet, part).is_none()));
            }
        }
        let parts = parts_of_burst(&mut out, &mut inlet, &frame);
        let found: Vec<_> = parts.iter().filter_map(|part| frame_of(&mut inlet, part)).collect();
        assert!(found == [frame]);
    }

    #[test]
    fn parts_of_strangers_make_no_state() {
        let nets = ranks(2, 1, LocalWire::Sealed(Epochs::USUAL));
        let (_, mut inlet) = open(&nets[1]);
        let part_bytes = burst::part_bytes(nets[1].directory.frame_bytes_max());
        for source in 0..4 {
            let header = DatagramHeader { local_rank: 0, form: Form::Sealed, source, counter: 1 };
            let mut datagrams = Vec::new();
            let first = Part::first(header, 3 * part_bytes, part_bytes);
            first.cut([&vec![1; 3 * part_bytes], &[]], part_bytes, &mut datagrams);
            for datagram in datagrams.chunks(HEADER_BYTES + part_bytes) {
                assert!(frame_of(&mut inlet, datagram).is_none());
            }
        }
        assert!(inlet.sources.is_empty() && inlet.assembly.is_empty());
        // Nor do those of a rank that has been heard, if they are far from what it has sent.
        let (mut out, _) = open(&nets[0]);
        parts_of_burst(&mut out, &mut inlet, &[7; 10_000]);
        for counter in [REPLAY_WINDOW + 1, 1 << 40, u64::MAX] {
            let header = DatagramHeader { local_rank: 0, form: Form::Sealed, source: 0, counter };
            let part = [&Part { header, at: 0, last: 3 }.emit()[..], &vec![1; part_bytes]].concat();
            assert!(frame_of(&mut inlet, &part).is_none());
        }
        assert!(inlet.assembly.is_empty());
    }

    #[test]
    fn what_goes_astray_shows_if_it_is_genuine() {
        for wire in [LocalWire::Sealed(Epochs::USUAL), LocalWire::Insecure] {
            let nets = ranks(2, 2, wire);
            let made =
                |from: usize, to: u32| open(&nets[from]).0.sealed_for_tests(Peer(to), b"frame");
            assert!(is_astray(&nets[0], &mut made(2, 1)), "{wire:?}");
            assert!(!is_astray(&nets[0], &mut made(2, 0)), "it is for us");
            let mut forged = made(2, 1);
            forged[20] ^= 1;
            assert_eq!(is_astray(&nets[0], &mut forged), wire.is_insecure());
            for form in [Form::Wakeup, Form::Plain] {
                let wakeup = DatagramHeader { local_rank: 1, form, source: 2, counter: 0 };
                let astray = wire.is_insecure() && form == Form::Plain;
                assert_eq!(is_astray(&nets[0], &mut wakeup.emit()), astray, "{wire:?}");
            }
        }
    }
}
