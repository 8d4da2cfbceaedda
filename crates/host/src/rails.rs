//! All rails of a rank as one: who is on this host is reached through shared memory, who is not through the network.
//!
//! The rail of this host counts ranks by their slots, as its memory does; all others count them as the job does.

use std::io;
use std::sync::Arc;

use ferrywire_nic::{Envelope, Peer, Promises, Sent, Ticket};

use crate::net::Net;
use crate::rail::{Arrival, Inlet, Rail};
use crate::shm::plane::Plane;
use crate::shm::rail as shm;
use crate::shm::{Shm, ShmInlet};
use crate::udp::rail::{self as udp, Udp, UdpInlet};

/// Opens the rails of the rank in slot `slot`, once.
pub(crate) fn open(plane: &Plane, slot: u32, welcome_bytes: u32) -> (Rails, Inlets) {
    let (shm, shm_inlet) = shm::open(plane, slot, welcome_bytes);
    let (udp, udp_inlet) = plane.net.as_ref().map(udp::open).unzip();
    let here = Here::of(plane.net.as_ref(), plane.segment.ranks());
    let rails = Rails { shm, udp, here };
    (rails, Inlets { shm: shm_inlet, udp: udp_inlet, here, rest: 0 })
}

/// Which ranks are on this host.
#[derive(Clone, Copy)]
pub(crate) struct Here {
    first: u32,
    ranks: u32,
}

impl Here {
    pub(crate) fn of(net: Option<&Arc<Net>>, ranks: u32) -> Here {
        Here { first: net.map_or(0, |net| net.first), ranks }
    }

    /// The slot of a rank, if it is here.
    #[inline(always)]
    pub(crate) fn slot(self, peer: Peer) -> Option<Peer> {
        let slot = peer.0.wrapping_sub(self.first);
        (slot < self.ranks).then_some(Peer(slot))
    }

    /// The rank in a slot.
    #[inline(always)]
    pub(crate) fn rank(self, slot: Peer) -> Peer {
        Peer(self.first + slot.0)
    }
}

/// The halves that send.
pub(crate) struct Rails {
    pub(crate) shm: Shm,
    udp: Option<Udp>,
    here: Here,
}

impl Rails {
    /// Whether there are rails that lose frames, and so time has to be kept.
    #[inline(always)]
    pub(crate) fn needs_time(&self) -> bool {
        self.udp.is_some()
    }

    /// Lets go what was collected for other hosts.
    #[inline(always)]
    pub(crate) fn flush(&mut self) {
        if let Some(udp) = &mut self.udp {
            udp.flush();
        }
    }

    /// See [`Shm::thirst`].
    #[must_use]
    pub(crate) fn thirst(&mut self, leaving: bool) -> bool {
        self.shm.thirst(leaving)
    }

    /// Whether everything that was sent has been taken on this host, and has left it for others.
    pub(crate) fn is_drained(&mut self) -> bool {
        self.shm.is_drained() && self.udp.as_ref().is_none_or(Udp::is_empty)
    }

    /// The slot of a peer whose memory is read or written, which the NIC does only where a rail promised it.
    fn near(&self, peer: Peer) -> io::Result<Peer> {
        self.here.slot(peer).ok_or_else(|| io::ErrorKind::Unsupported.into())
    }
}

impl Rail for Rails {
    fn promises(&self, peer: Peer) -> Promises {
        match (self.here.slot(peer), &self.udp) {
            (Some(slot), _) => self.shm.promises(slot),
            (None, Some(udp)) => udp.promises(),
            (None, None) => unreachable!("{peer:?} is in no job of this host"),
        }
    }

    fn attends(&self, peer: Peer) -> bool {
        self.here.slot(peer).is_some_and(|slot| self.shm.attends(slot))
    }

    #[inline(always)]
    fn send(&mut self, to: Peer, envelope: &Envelope, payload: &[u8]) -> Sent {
        match self.here.slot(to) {
            Some(slot) => self.shm.send(slot, envelope, payload),
            None => self.send_far(to, envelope, payload),
        }
    }

    fn notify(&mut self, to: Peer, ticket: Ticket, bytes: u64) -> Sent {
        match self.here.slot(to) {
            Some(slot) => self.shm.notify(slot, ticket, bytes),
            // Nothing was written there.
            None => Sent::Away,
        }
    }

    unsafe fn read(&mut self, peer: Peer, from: u64, into: u64, len: u64) -> io::Result<()> {
        let slot = self.near(peer)?;
        // SAFETY: the caller vouches.
        unsafe { self.shm.read(slot, from, into, len) }
    }

    unsafe fn write(&mut self, peer: Peer, from: u64, into: u64, len: u64) -> io::Result<()> {
        let slot = self.near(peer)?;
        // SAFETY: the caller vouches.
        unsafe { self.shm.write(slot, from, into, len) }
    }

    fn poll_room(&mut self, mut show: impl FnMut(Peer)) {
        let here = self.here;
        self.shm.poll_room(|slot| show(here.rank(slot)));
        if let Some(udp) = &mut self.udp {
            udp.poll_room(show);
        }
    }

    fn poll_lost(&mut self, mut show: impl FnMut(Peer, io::Error)) {
        let here = self.here;
        self.shm.poll_lost(|slot, error| show(here.rank(slot), error));
    }

    fn is_stuck(&self) -> bool {
        self.shm.is_stuck() || self.udp.as_ref().is_some_and(Udp::is_stuck)
    }
}

impl Rails {
    #[inline(never)]
    fn send_far(&mut self, to: Peer, envelope: &Envelope, payload: &[u8]) -> Sent {
        match &mut self.udp {
            Some(udp) => udp.send(to, envelope, payload),
            None => unreachable!("{to:?} is in no job of this host"),
        }
    }
}

/// The halves that take what has come.
pub(crate) struct Inlets {
    shm: ShmInlet,
    udp: Option<UdpInlet>,
    here: Here,
    /// Turns for which the socket is left alone: a look there is a call of the system, and where neighbours talk
    /// there is something to do without it.
    rest: u32,
}

impl Inlet for Inlets {
    #[inline(always)]
    fn poll(&mut self, limit: usize, mut take: impl FnMut(Peer, Arrival<'_>)) -> usize {
        let here = self.here;
        let taken = self.shm.poll(limit, |slot, arrival| take(here.rank(slot), arrival));
        if self.udp.is_none() { taken } else { taken + self.poll_far(taken > 0, take) }
    }

    fn is_ready(&self) -> bool {
        self.shm.is_ready()
    }
}

impl Inlets {
    #[inline(never)]
    fn poll_far(&mut self, busy: bool, mut take: impl FnMut(Peer, Arrival<'_>)) -> usize {
        let Some(udp) = &mut self.udp else { return 0 };
        if busy && self.rest > 0 {
            self.rest -= 1;
            return 0;
        }
        // What the socket complains about is told when something is sent.
        let taken = udp.poll(|peer, frame| take(peer, Arrival::Frame(frame))).unwrap_or(0);
        self.rest = if taken > 0 { 0 } else { REST_TURNS };
        taken
    }
}

/// How many turns in a row neighbours may keep us from looking further.
const REST_TURNS: u32 = 8;
