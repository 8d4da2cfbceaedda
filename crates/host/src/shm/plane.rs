//! A plane of a job: its ranks, with signals and rings separate from those of other planes.
//!
//! A rank opens a plane when it first uses it. Until then, frames for it wait in the senders' rings, and its doorbell
//! does not ring.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::net::Net;
use crate::shm::arena::{Arena, RING_BYTES};
use crate::shm::doorbell::{Arming, Doorbell, Sleeper};
use crate::shm::newcomers::Newcomers;
use crate::shm::ring::Ring;
use crate::shm::segment::{Attention, Segment};

/// A plane that a rank of this process has opened.
#[derive(Clone)]
pub(crate) struct Plane {
    pub(crate) segment: Arc<Segment>,
    arena: Arena,
    number: u32,
    /// The network, in a job of several hosts; there, waiting threads sleep at the rank's socket.
    pub(crate) net: Option<Arc<Net>>,
}

/// A ring, and its place in the segment.
pub(crate) struct PlacedRing {
    pub(crate) ring: Ring,
    pub(crate) at: u64,
    /// Its arena, if it has one of its own; else the plane has it.
    pub(crate) alone: Option<Arena>,
}

/// A doorbell, and how a thread that sleeps there is woken.
#[derive(Clone)]
pub(crate) struct Bell {
    pub(crate) doorbell: &'static Doorbell,
    wakeup: Option<(Arc<Net>, u16)>,
}

impl Bell {
    /// Called by a thread that has just made something visible to the rank.
    #[inline(always)]
    pub(crate) fn ring(&self, fenced: bool) {
        if self.doorbell.ring(fenced) {
            self.wake_at_socket();
        }
    }

    /// The same for something that can wait.
    #[inline(always)]
    pub(crate) fn ring_gently(&self, fenced: bool) {
        if self.doorbell.ring_gently(fenced) {
            self.wake_at_socket();
        }
    }

    #[cold]
    fn wake_at_socket(&self) {
        if let Some((net, local_rank)) = &self.wakeup {
            net.wake(*local_rank);
        }
    }

    /// Sleeps until the doorbell rings for `who` or, if it is armed for `who`, a datagram comes; at most for `timeout`,
    /// and not at all if it has been armed or has rung since it was as in `arming`.
    pub(crate) fn sleep(&self, arming: Arming, who: Sleeper, timeout: Option<Duration>) {
        match &self.wakeup {
            Some((net, _)) if arming.is_under(who) => {
                if self.doorbell.arming() == arming {
                    net.wait(Some(timeout.map_or(NAP_MAX, |time| time.min(NAP_MAX))));
                }
            }
            _ => self.doorbell.sleep(arming, who, timeout),
        }
    }
}

impl Plane {
    /// Opens a plane for rank `me`.
    pub(crate) fn open(
        segment: &Arc<Segment>,
        number: u32,
        me: u32,
        net: Option<Arc<Net>>,
    ) -> io::Result<Plane> {
        let arena = segment.open_plane(number, me)?;
        Ok(Plane { segment: Arc::clone(segment), arena, number, net })
    }

    /// Creates a ring from `from` to `to`, and announces it to `to`.
    pub(crate) fn connect(&self, from: u32, to: u32) -> io::Result<PlacedRing> {
        let spawned = from.max(to) >= self.segment.ranks();
        let alone = if spawned { Some(self.segment.claim_for_ring()?) } else { None };
        let (arena, taken) = match &alone {
            Some(arena) => (arena, 0),
            None => {
                let taken = self.segment.taken(self.number);
                (&self.arena, taken.fetch_add(RING_BYTES, Ordering::Relaxed))
            }
        };
        let (ring, label, at) = arena.make(taken)?;
        self.newcomers(to).push(at, label, from);
        Ok(PlacedRing { ring, at, alone })
    }

    /// Reserves more data lines for a ring.
    pub(crate) fn widen(&self, ring_at: u64, from: u32, to: u32) -> io::Result<()> {
        self.arena.widen(ring_at, from, to)
    }

    /// Shows `rank` the rings that lead to it and that it has not been shown before.
    pub(crate) fn take_newcomers(&self, rank: u32, show: impl FnMut(u32, PlacedRing)) {
        self.take_mapped(rank, |at| self.segment.arena_of_ring(at), show);
    }

    /// The same, where `map` maps rings that are not in the arena of the plane.
    fn take_mapped(
        &self,
        rank: u32,
        map: impl Fn(u64) -> io::Result<Arena>,
        mut show: impl FnMut(u32, PlacedRing),
    ) {
        let ranks = self.segment.ranks_so_far();
        self.newcomers(rank).take(ranks, |at| {
            let alone = match self.arena.label(at).is_some() {
                true => None,
                false => match map(at) {
                    Ok(arena) => Some(arena),
                    // The ring is not heard, but those below it are. At the end there is no ring at all.
                    Err(_) => return self.segment.ring_below(at),
                },
            };
            let arena = alone.as_ref().unwrap_or(&self.arena);
            let label = arena.label(at)?;
            let (from, below) = (label.from(), label.below());
            if let Some(ring) = arena.ring(at).filter(|_| from < ranks) {
                show(from, PlacedRing { ring, at, alone });
            }
            Some(below)
        });
    }

    /// Ranks that are, were or may come to be in this plane. Spawned ones are in the first plane only.
    pub(crate) fn ranks_so_far(&self) -> u32 {
        match self.number {
            0 => self.segment.ranks_so_far(),
            _ => self.segment.ranks(),
        }
    }

    /// Its number.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// Whether `rank` is not in this plane and never will be.
    pub(crate) fn is_gone(&self, rank: u32) -> bool {
        self.segment.is_gone(self.number, rank)
    }

    /// The doorbell of a rank.
    pub(crate) fn doorbell(&self, rank: u32) -> Bell {
        let local_rank = u16::try_from(rank).unwrap_or(u16::MAX);
        Bell {
            doorbell: &self.segment.signals(self.number, rank).doorbell,
            wakeup: self.net.as_ref().map(|net| (Arc::clone(net), local_rank)),
        }
    }

    /// Wakes threads that sleep at their sockets, because a rank has left or died.
    pub(crate) fn wake_all(&self) {
        if let Some(net) = &self.net {
            (0..self.segment.ranks_so_far())
                .filter_map(|local_rank| u16::try_from(local_rank).ok())
                .for_each(|local_rank| {
                    net.wake(local_rank);
                });
        }
    }

    /// The rings that lead to a rank and that it has not been shown.
    pub(crate) fn newcomers(&self, rank: u32) -> &'static Newcomers {
        &self.segment.signals(self.number, rank).newcomers
    }

    /// Whether an application thread of a rank waits.
    pub(crate) fn attention(&self, rank: u32) -> &'static Attention {
        &self.segment.signals(self.number, rank).attention
    }
}

/// How long a thread sleeps at a socket without looking. A wakeup may be lost, or go astray when the ranks of a host
/// leave one after the other and no process is left that keeps their sockets open.
const NAP_MAX: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    /// A ring that cannot be mapped does not hide those of others.
    #[test]
    fn newcomers_are_taken_around_one_that_cannot_be_mapped() {
        let segment = Arc::new(Segment::create(1, 7, false).expect("memory"));
        segment.grow_to(5, false).expect("room");
        let planes: Vec<Plane> =
            (0..5).map(|me| Plane::open(&segment, 0, me, None).expect("a plane")).collect();
        let taken = |broken: &[u64]| {
            let mut found = Vec::new();
            let map = |at| match broken.contains(&at) {
                true => Err(io::ErrorKind::OutOfMemory.into()),
                false => segment.arena_of_ring(at),
            };
            planes[0].take_mapped(0, map, |from, _| found.push(from));
            found
        };
        let connect = || -> Vec<u64> {
            (1..5).map(|from| planes[from as usize].connect(from, 0).expect("a ring").at).collect()
        };
        let places = connect();
        assert_eq!(taken(&[places[3], places[1]]), [3, 1]);
        let places = connect();
        assert_eq!(taken(&[places[0]]), [4, 3, 2]);
        connect();
        assert_eq!(taken(&[]), [4, 3, 2, 1]);
        assert_eq!(taken(&[]), []);
    }
}
