//! All rails of a rank as one: the rank itself is reached through loopback, others on this host through shared memory,
//! those on other hosts through the network, by whichever of its two rails the job has chosen.
//!
//! The shared-memory rail numbers peers by local rank, as its segment does; the others number them by rank in the job.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use ferrywire_nic::{Envelope, Key, Peer, Promises, Sent, Span, Ticket};

use crate::fabric::rail::{self as fabric, Fabric, FabricInlet};
use crate::here::Here;
use crate::loopback::{self, Loopback, LoopbackInlet};
use crate::net::Net;
use crate::rail::{Arrival, Inlet, Rail};
use crate::shm::plane::Plane;
use crate::shm::rail as shm;
use crate::shm::{Shm, ShmInlet};
use crate::udp::rail::{self as udp, Udp, UdpInlet};

/// Opens the rails of local rank `local_rank`, once.
pub(crate) fn open(plane: &Plane, local_rank: u32, initial_credit_bytes: u32) -> (Rails, Inlets) {
    let (shm, shm_inlet) = shm::open(plane, local_rank, initial_credit_bytes);
    let (far, far_inlet) = plane.net.as_ref().map(open_far).unzip();
    let here = Here::of(plane.net.as_ref(), &plane.segment);
    let me = here.rank(Peer(local_rank));
    let (loopback, loopback_inlet) = loopback::open(me, initial_credit_bytes);
    let rails = Rails { me, loopback, shm, far, here };
    let inlets = Inlets { loopback: loopback_inlet, shm: shm_inlet, far: far_inlet, here, rest: 0 };
    (rails, inlets)
}

fn open_far(net: &Arc<Net>) -> (NetworkRail, NetworkInlet) {
    match &net.endpoint {
        Some(endpoint) => {
            let (out, inlet) = fabric::open(net, endpoint);
            (NetworkRail::Fabric(out), NetworkInlet::Fabric(inlet))
        }
        None => {
            let (out, inlet) = udp::open(net);
            (NetworkRail::Udp(out), NetworkInlet::Udp(inlet))
        }
    }
}

/// The rail to other hosts, the same kind for all ranks of a job.
#[expect(clippy::large_enum_variant, reason = "each rank has one")]
enum NetworkRail {
    Udp(Udp),
    Fabric(Fabric),
}

enum NetworkInlet {
    Udp(UdpInlet),
    Fabric(FabricInlet),
}

/// The halves that send.
pub(crate) struct Rails {
    me: Peer,
    loopback: Loopback,
    pub(crate) shm: Shm,
    far: Option<NetworkRail>,
    here: Here,
}

/// Does the same on either network rail.
macro_rules! whichever {
    ($far:expr, $kind:ident, $rail:ident => $do:expr) => {
        match $far {
            $kind::Udp($rail) => $do,
            $kind::Fabric($rail) => $do,
        }
    };
}

impl Rail for NetworkRail {
    fn promises(&self, peer: Peer) -> Promises {
        whichever!(self, NetworkRail, rail => rail.promises(peer))
    }

    fn send(&mut self, to: Peer, envelope: &Envelope, payload: &[u8]) -> Sent {
        whichever!(self, NetworkRail, rail => rail.send(to, envelope, payload))
    }

    #[inline]
    fn flush(&mut self) {
        whichever!(self, NetworkRail, rail => rail.flush());
    }

    fn poll_room(&mut self, show: impl FnMut(Peer)) {
        whichever!(self, NetworkRail, rail => rail.poll_room(show));
    }

    fn poll_lost(&mut self, show: impl FnMut(Peer, io::Error)) {
        whichever!(self, NetworkRail, rail => rail.poll_lost(show));
    }

    fn is_stuck(&self) -> bool {
        whichever!(self, NetworkRail, rail => rail.is_stuck())
    }

    fn is_drained(&mut self) -> bool {
        whichever!(self, NetworkRail, rail => rail.is_drained())
    }

    fn timeout(&self) -> Option<Duration> {
        whichever!(self, NetworkRail, rail => rail.timeout())
    }

    fn forget(&mut self, peer: Peer) -> bool {
        whichever!(self, NetworkRail, rail => rail.forget(peer))
    }

    fn expose(&mut self, to: Peer, span: Span, ticket: Ticket) -> Key {
        whichever!(self, NetworkRail, rail => rail.expose(to, span, ticket))
    }

    fn conceal(&mut self, ticket: Ticket) {
        whichever!(self, NetworkRail, rail => rail.conceal(ticket));
    }

    fn get(&mut self, peer: Peer, from: Span, key: Key, into: Span, ticket: Ticket) -> bool {
        whichever!(self, NetworkRail, rail => rail.get(peer, from, key, into, ticket))
    }

    fn poll_read(&mut self, show: impl FnMut(Ticket)) {
        whichever!(self, NetworkRail, rail => rail.poll_read(show));
    }
}

impl Inlet for NetworkInlet {
    fn poll(&mut self, limit: usize, take: impl FnMut(Peer, Arrival<'_>)) -> usize {
        whichever!(self, NetworkInlet, inlet => inlet.poll(limit, take))
    }

    fn is_ready(&self) -> bool {
        whichever!(self, NetworkInlet, inlet => inlet.is_ready())
    }
}

impl Rails {
    /// Whether a rail may lose frames, so that timers are needed.
    #[inline(always)]
    pub(crate) fn needs_time(&self) -> bool {
        matches!(self.far, Some(NetworkRail::Udp(_)))
    }

    /// Whether the rails need polling even when nothing is outstanding: other hosts may want an answer.
    #[inline(always)]
    pub(crate) fn needs_care(&self) -> bool {
        self.far.is_some()
    }

    /// Whether nothing that was sent waits for a flush or a turn.
    #[inline(always)]
    pub(crate) fn is_flushed(&self) -> bool {
        self.far.is_none() && self.loopback.is_empty()
    }

    /// Whether frames from this rank to itself wait for a turn. No doorbell rings for them.
    #[inline(always)]
    pub(crate) fn has_own_frames(&self) -> bool {
        !self.loopback.is_empty()
    }

    /// See [`Shm::want_room`].
    #[must_use]
    pub(crate) fn want_room(&mut self, leaving: bool) -> bool {
        self.shm.want_room(leaving)
    }

    /// Notes that the memory of a peer on this host has become inaccessible.
    pub(crate) fn lose_access(&mut self, peer: Peer) {
        if let Some(local_rank) = self.here.local_rank(peer) {
            self.shm.lose_access(local_rank);
        }
    }

    /// The local rank of a peer whose memory is read or written, which the NIC does only where a rail promised it.
    fn near(&self, peer: Peer) -> io::Result<Peer> {
        self.here.local_rank(peer).ok_or_else(|| io::ErrorKind::Unsupported.into())
    }

    /// The rail to a peer on another host.
    fn far(&mut self, peer: Peer) -> &mut NetworkRail {
        match &mut self.far {
            Some(far) => far,
            None => unreachable!("{peer:?} is in no job of this host"),
        }
    }

    #[inline(never)]
    fn send_own(&mut self, envelope: &Envelope, payload: &[u8]) -> Sent {
        self.loopback.send(self.me, envelope, payload)
    }

    #[inline(never)]
    fn send_far(&mut self, to: Peer, envelope: &Envelope, payload: &[u8]) -> Sent {
        self.far(to).send(to, envelope, payload)
    }
}

impl Rail for Rails {
    fn promises(&self, peer: Peer) -> Promises {
        match (self.here.local_rank(peer), &self.far) {
            _ if peer == self.me => self.loopback.promises(peer),
            (Some(local_rank), _) => self.shm.promises(local_rank),
            (None, Some(far)) => far.promises(peer),
            (None, None) => unreachable!("{peer:?} is in no job of this host"),
        }
    }

    #[inline(always)]
    fn send(&mut self, to: Peer, envelope: &Envelope, payload: &[u8]) -> Sent {
        match self.here.local_rank(to) {
            _ if to == self.me => self.send_own(envelope, payload),
            Some(local_rank) => self.shm.send(local_rank, envelope, payload),
            None => self.send_far(to, envelope, payload),
        }
    }

    #[inline(always)]
    fn flush(&mut self) {
        if let Some(far) = &mut self.far {
            far.flush();
        }
    }

    fn poll_room(&mut self, mut show: impl FnMut(Peer)) {
        let here = &self.here;
        self.loopback.poll_room(&mut show);
        self.shm.poll_room(|local_rank| show(here.rank(local_rank)));
        if let Some(far) = &mut self.far {
            far.poll_room(show);
        }
    }

    fn poll_lost(&mut self, mut show: impl FnMut(Peer, io::Error)) {
        let here = &self.here;
        self.shm.poll_lost(|local_rank, error| show(here.rank(local_rank), error));
        if let Some(far) = &mut self.far {
            far.poll_lost(show);
        }
    }

    fn is_stuck(&self) -> bool {
        self.far.as_ref().is_some_and(NetworkRail::is_stuck)
            || self.shm.is_stuck()
            || self.loopback.is_stuck()
    }

    fn is_drained(&mut self) -> bool {
        self.loopback.is_drained()
            && self.shm.is_drained()
            && self.far.as_mut().is_none_or(NetworkRail::is_drained)
    }

    fn attends(&self, peer: Peer) -> bool {
        self.here.local_rank(peer).is_some_and(|local_rank| self.shm.attends(local_rank))
    }

    fn timeout(&self) -> Option<Duration> {
        self.far.as_ref().and_then(NetworkRail::timeout)
    }

    fn forget(&mut self, peer: Peer) -> bool {
        if let Some(local_rank) = self.here.local_rank(peer) {
            self.shm.forget(local_rank);
        }
        self.far.as_mut().is_none_or(|far| far.forget(peer))
    }

    fn expose(&mut self, to: Peer, span: Span, ticket: Ticket) -> Key {
        match self.here.local_rank(to) {
            Some(local_rank) => self.shm.expose(local_rank, span, ticket),
            None => self.far(to).expose(to, span, ticket),
        }
    }

    fn conceal(&mut self, ticket: Ticket) {
        if let Some(far) = &mut self.far {
            far.conceal(ticket);
        }
    }

    fn get(&mut self, peer: Peer, from: Span, key: Key, into: Span, ticket: Ticket) -> bool {
        self.here.local_rank(peer).is_none() && self.far(peer).get(peer, from, key, into, ticket)
    }

    fn poll_read(&mut self, show: impl FnMut(Ticket)) {
        if let Some(far) = &mut self.far {
            far.poll_read(show);
        }
    }

    unsafe fn read(&mut self, peer: Peer, from: u64, into: u64, len: u64) -> io::Result<()> {
        let local_rank = self.near(peer)?;
        // SAFETY: the caller vouches.
        unsafe { self.shm.read(local_rank, from, into, len) }
    }

    unsafe fn write(&mut self, peer: Peer, from: u64, into: u64, len: u64) -> io::Result<()> {
        let local_rank = self.near(peer)?;
        // SAFETY: the caller vouches.
        unsafe { self.shm.write(local_rank, from, into, len) }
    }

    fn notify(&mut self, to: Peer, ticket: Ticket, bytes: u64) -> Sent {
        match self.here.local_rank(to) {
            Some(local_rank) => self.shm.notify(local_rank, ticket, bytes),
            // Nothing was written there.
            None => Sent::Away,
        }
    }
}

/// The halves that receive.
pub(crate) struct Inlets {
    loopback: LoopbackInlet,
    shm: ShmInlet,
    far: Option<NetworkInlet>,
    here: Here,
    /// Turns for which the network is not polled: a poll is a system call, and while local ranks send there
    /// is work without it.
    rest: u32,
}

impl Inlet for Inlets {
    #[inline(always)]
    fn poll(&mut self, limit: usize, mut take: impl FnMut(Peer, Arrival<'_>)) -> usize {
        let here = &self.here;
        let mut taken =
            self.shm.poll(limit, |local_rank, arrival| take(here.rank(local_rank), arrival));
        if self.loopback.is_ready() {
            taken += self.poll_own(limit, &mut take);
        }
        if self.far.is_none() { taken } else { taken + self.poll_far(limit, taken > 0, take) }
    }

    fn is_ready(&self) -> bool {
        self.far.as_ref().is_some_and(NetworkInlet::is_ready)
            || self.shm.is_ready()
            || self.loopback.is_ready()
    }
}

impl Inlets {
    /// Forgets all peers, because this rank is gone.
    pub(crate) fn forget_all(&self) {
        self.shm.forget_all();
    }

    /// Forgets a peer that is gone.
    pub(crate) fn forget(&mut self, peer: Peer) {
        if let Some(local_rank) = self.here.local_rank(peer) {
            self.shm.forget(local_rank);
        }
    }

    /// Shows the next frame from a rank of this host, if there is one.
    #[inline(always)]
    pub(crate) fn poll_near(&mut self, take: impl FnOnce(Peer, Arrival<'_>)) -> bool {
        let here = &self.here;
        self.shm.poll_one(|local_rank, arrival| take(here.rank(local_rank), arrival))
    }

    #[inline(never)]
    fn poll_own(&mut self, limit: usize, take: impl FnMut(Peer, Arrival<'_>)) -> usize {
        self.loopback.poll(limit, take)
    }

    #[inline(never)]
    fn poll_far(&mut self, limit: usize, busy: bool, take: impl FnMut(Peer, Arrival<'_>)) -> usize {
        let Some(far) = &mut self.far else { return 0 };
        if busy && self.rest > 0 {
            self.rest -= 1;
            return 0;
        }
        let taken = far.poll(limit, take);
        self.rest = if taken > 0 { 0 } else { REST_TURNS };
        taken
    }
}

/// How many turns in a row traffic on this host may defer a poll of the network.
const REST_TURNS: u32 = 8;
