//! The peer table: what the NIC knows of each process that it has met.
//!
//! A peer is added on first contact. When it has been idle for long, each side says farewell, giving its credit
//! back. Once both have, and enough time has passed for any stray repeat to be gone, the peer is forgotten. No
//! timer does this: each new contact checks a few old peers.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::hash::{BuildHasherDefault, Hasher};

use hashbrown::HashMap;

use crate::envelope::Kind;
use crate::lane::Lane;
use crate::limits::Limits;
use crate::port::Promises;
use crate::reliability::Reliability;
use crate::silence::Silence;
use crate::types::{Peer, Span, Ticket, Time};

/// What we know of one peer.
#[derive(Debug)]
pub(crate) struct PeerState {
    pub(crate) peer: Peer,
    pub(crate) promises: Promises,
    /// Declared down. Such a peer is never forgotten, so that it stays down.
    pub(crate) down: bool,
    /// Our last frame to the peer was not a farewell.
    pub(crate) talking: bool,
    /// The last frame from the peer was not a farewell.
    pub(crate) peer_talking: bool,
    /// It was heard since its silence was last checked.
    pub(crate) heard: bool,
    /// Operations open with this peer.
    pub(crate) open: u32,
    /// Messages of this peer in the store.
    pub(crate) stored: u32,
    pub(crate) active_at: Time,
    pub(crate) lanes: Vec<Lane>,
    pub(crate) backlog: Option<Box<Backlog>>,
    pub(crate) reliability: Option<Box<Reliability>>,
    /// On reliable rails whose peers may vanish; on others, the reliability layer has it.
    pub(crate) silence: Option<Box<Silence>>,
    /// The deadline under which the NIC lists this peer.
    pub(crate) listed: Option<Time>,
}

/// Frames that wait for room on the rail, or for frames in flight to be acked.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    pub(crate) replies: VecDeque<Outgoing>,
    pub(crate) requests: VecDeque<Outgoing>,
    /// Operations with bytes to send, served round-robin, one frame each.
    pub(crate) writers: VecDeque<Ticket>,
    /// The last frame that was not a reply came from a writer.
    pub(crate) writer_had_turn: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Outgoing {
    pub(crate) kind: Kind,
    pub(crate) payload: Span,
    pub(crate) ticket: Option<Ticket>,
}

/// Position of a peer in the table. Valid until a peer is forgotten, which happens only between two events, in
/// `Nic::settle`. Builds with assertions check it at every use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At {
    slot: u32,
    /// How many peers had been forgotten when this position was found.
    #[cfg(debug_assertions)]
    forgotten: u32,
}

#[derive(Debug, Default)]
pub(crate) struct Peers {
    slots: Vec<PeerState>,
    index: HashMap<Peer, u32, BuildHasherDefault<Mix>>,
    /// The peer found last: often the next one, too.
    recent: core::cell::Cell<Option<(Peer, u32)>>,
    /// Where the search for forgettable peers stopped.
    hand: usize,
    #[cfg(debug_assertions)]
    forgotten: u32,
}

impl PeerState {
    /// Frames that the peer has not acknowledged.
    pub(crate) fn unacked(&self) -> usize {
        self.reliability.as_ref().map_or(0, |reliability| reliability.unacked())
    }

    /// When its timer is due next.
    pub(crate) fn deadline(&self, limits: &Limits) -> Option<Time> {
        match (&self.reliability, &self.silence) {
            (Some(reliability), _) => reliability.deadline(),
            (None, Some(silence)) => silence.deadline(limits),
            (None, None) => None,
        }
    }

    /// Whether we want nothing from the peer, and it has everything that we sent.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.open == 0
            && self.backlog.is_none()
            && self.lanes.iter().all(|lane| lane.waiting.is_none())
            && self.reliability.as_ref().is_none_or(|reliability| reliability.is_acked())
            && self.silence.as_ref().is_none_or(|silence| !silence.owes())
    }

    /// Whether both sides have said farewell and nothing of either is left.
    pub(crate) fn is_forgettable(&self) -> bool {
        !self.talking
            && !self.peer_talking
            && !self.down
            && self.is_at_rest()
            && self.stored == 0
            && self.lanes.iter().all(Lane::is_clear)
            && self.reliability.as_ref().is_none_or(|reliability| reliability.is_idle())
    }

    /// The length of a message that is sent whole if it does not have to match first.
    #[inline(always)]
    pub(crate) fn whole(&self, len: u64, limits: &Limits) -> Option<u32> {
        let bytes_max = self.promises.payload_bytes_max().min(limits.eager_bytes_max);
        u32::try_from(len).ok().filter(|&len| len <= bytes_max)
    }

    /// The lane of a queue pair, if it has been used.
    #[inline(always)]
    pub(crate) fn open_lane(&mut self, queue: u16) -> Option<&mut Lane> {
        self.lanes.iter_mut().find(|lane| lane.queue == queue)
    }

    #[inline(always)]
    pub(crate) fn lane(&mut self, queue: u16) -> &mut Lane {
        match self.lanes.iter().position(|lane| lane.queue == queue) {
            Some(at) => &mut self.lanes[at],
            None => self.add_lane(queue),
        }
    }

    #[cold]
    fn add_lane(&mut self, queue: u16) -> &mut Lane {
        self.lanes.reserve_exact(1);
        self.lanes.push(Lane::new(queue, self.promises.initial_credit_bytes));
        self.lanes.last_mut().expect("just pushed")
    }

    pub(crate) fn backlog(&mut self) -> &mut Backlog {
        self.backlog.get_or_insert_default()
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        let waiting = self.lanes.iter().filter_map(|lane| lane.waiting.as_ref());
        self.lanes.capacity() * size_of::<Lane>()
            + waiting.map(|waiting| waiting.heap_bytes()).sum::<usize>()
            + self.backlog.as_ref().map_or(0, |backlog| backlog.heap_bytes())
            + self.reliability.as_ref().map_or(0, |reliability| reliability.heap_bytes())
            + self.silence.as_ref().map_or(0, |_| size_of::<Silence>())
    }
}

impl Backlog {
    fn heap_bytes(&self) -> usize {
        size_of::<Backlog>()
            + (self.replies.capacity() + self.requests.capacity()) * size_of::<Outgoing>()
            + self.writers.capacity() * size_of::<Ticket>()
    }
}

impl Peers {
    #[inline(always)]
    pub(crate) fn find(&self, peer: Peer) -> Option<At> {
        if let Some((recent, slot)) = self.recent.get()
            && recent == peer
        {
            return Some(self.at(slot));
        }
        self.find_in_index(peer)
    }

    #[inline(always)]
    fn at(&self, slot: u32) -> At {
        At {
            slot,
            #[cfg(debug_assertions)]
            forgotten: self.forgotten,
        }
    }

    #[inline(always)]
    fn slot(&self, at: At) -> usize {
        #[cfg(debug_assertions)]
        assert_eq!(at.forgotten, self.forgotten, "{at:?} is from before a peer was forgotten");
        at.slot as usize
    }

    #[inline(never)]
    fn find_in_index(&self, peer: Peer) -> Option<At> {
        let slot = self.index.get(&peer).copied()?;
        self.recent.set(Some((peer, slot)));
        Some(self.at(slot))
    }

    /// Adds a peer that is not in the table.
    pub(crate) fn add(&mut self, peer: Peer, promises: Promises, now: Time) -> At {
        let Promises { reliable, may_vanish, puts, .. } = promises;
        assert!(
            reliable || may_vanish,
            "a rail that loses frames does not notice that a peer is gone"
        );
        assert!(!(may_vanish && puts), "a put to a peer that is gone would never end");
        let slot = u32::try_from(self.slots.len()).expect("fewer than 2^32 peers");
        if self.slots.len() == self.slots.capacity() {
            self.slots.reserve_exact(self.slots.len() / 4 + 2);
        }
        self.slots.push(PeerState {
            peer,
            promises,
            down: false,
            talking: false,
            peer_talking: false,
            heard: false,
            open: 0,
            stored: 0,
            active_at: now,
            lanes: Vec::new(),
            backlog: None,
            reliability: None,
            silence: (reliable && may_vanish).then(Box::default),
            listed: None,
        });
        self.index.insert(peer, slot);
        self.at(slot)
    }

    /// Advances to the next peer, and returns it if it has been idle for long. The last `newcomers` entries are
    /// skipped.
    pub(crate) fn next_if_rested(
        &mut self,
        newcomers: usize,
        now: Time,
        limits: &Limits,
    ) -> Option<At> {
        let old = self.slots.len().saturating_sub(newcomers);
        if old == 0 {
            return None;
        }
        self.hand = (self.hand + 1) % old;
        let rested = now.since(self.slots[self.hand].active_at) > limits.idle_ns_max;
        rested.then(|| self.at(u32::try_from(self.hand).expect("an index of the table")))
    }

    /// Forgets a peer. The last entry before the newcomers takes its position, and the last newcomer takes that
    /// entry's.
    pub(crate) fn forget(&mut self, at: At, newcomers: usize) {
        self.recent.set(None);
        let slot = self.slot(at);
        let last = self.slots.len() - newcomers - 1;
        self.slots.swap(slot, last);
        let state = self.slots.swap_remove(last);
        self.index.remove(&state.peer);
        for moved in [slot, last] {
            if let Some(state) = self.slots.get(moved) {
                let place = u32::try_from(moved).expect("an index of the table");
                self.index.insert(state.peer, place);
            }
        }
        #[cfg(debug_assertions)]
        {
            self.forgotten += 1;
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &PeerState> {
        self.slots.iter()
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        // A bucket is a key, a value and a control byte; an eighth of the buckets are empty.
        let buckets = (self.index.capacity() * 8 / 7).next_power_of_two();
        let index = if self.index.capacity() == 0 {
            0
        } else {
            buckets * (size_of::<(Peer, u32)>() + 1) + 16
        };
        self.slots.capacity() * size_of::<PeerState>()
            + index
            + self.slots.iter().map(PeerState::heap_bytes).sum::<usize>()
    }
}

impl core::ops::Index<At> for Peers {
    type Output = PeerState;

    #[inline]
    fn index(&self, at: At) -> &PeerState {
        &self.slots[self.slot(at)]
    }
}

impl core::ops::IndexMut<At> for Peers {
    #[inline]
    fn index_mut(&mut self, at: At) -> &mut PeerState {
        let slot = self.slot(at);
        &mut self.slots[slot]
    }
}

/// A hasher that spreads small integers over a table. Peers are numbered by the job, so no attacker chooses the
/// keys.
#[derive(Debug, Default)]
pub struct Mix(u64);

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u32(u32::from(byte));
        }
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(value.into());
    }

    fn write_u64(&mut self, value: u64) {
        let mixed = (self.0 ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }
}
