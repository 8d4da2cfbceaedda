//! The shared-memory rail: a ring for each pair of ranks that talks, created on first contact.
//!
//! Invariants, cited below by number.
//!   I1. A ring is used only by a struct that holds the plane it lies in, or its own arena.
//!   I2. There is one `Shm` and one `ShmInlet` for a rank in a plane: `open` is called once.

use std::cell::RefCell;
use std::io;
use std::sync::Arc;

use ferrywire_nic::{Envelope, Key, Peer, Promises, Sent, Span, Ticket};

use crate::job;
use crate::rail::{Arrival, Inlet, NEAR, Rail};
use crate::shm::access::MemoryAccess;
use crate::shm::arena::{Arena, FIRST_LINES};
use crate::shm::newcomers::Newcomers;
use crate::shm::plane::{Bell, PlacedRing, Plane};
use crate::shm::ring::{Consumer, Event, PLAIN_BYTES_MAX, Producer, Stuck, lines_max};
use crate::shm::segment::Segment;

/// The longest frame: a chunk of a long message, 32 KB, and its envelope.
const FRAME_BYTES_MAX: u32 = (32 << 10) + 72;

/// Initial credit of a pair of which one was spawned: 4,096 of them together stay within what a rank may hold.
const CREDIT_OF_SPAWNED: u32 = 8 << 10;

/// Opens the rail for one rank in a plane. Once for each (I2).
pub(crate) fn open(plane: &Plane, me: u32, initial_credit_bytes: u32) -> (Shm, ShmInlet) {
    let mut out = Shm {
        plane: plane.clone(),
        me,
        initial_credit_bytes,
        word: job::this_process().word,
        reaches: RefCell::default(),
        rings: Vec::new(),
        stuck: Vec::new(),
        lost: Vec::new(),
    };
    out.make_room_for(plane.segment.ranks());
    let inlet = ShmInlet {
        newcomers: plane.newcomers(me),
        plane: plane.clone(),
        me,
        fenced: plane.segment.is_fenced(),
        rings: Vec::new(),
        hand: 0,
    };
    (out, inlet)
}

/// The rail between two ranks that are both in this process, open at both ends: for tests of rails. `oversubscribed` as
/// in [`Segment::create`].
pub fn pair(oversubscribed: bool) -> io::Result<[(Shm, ShmInlet); 2]> {
    let segment = Arc::new(Segment::create(2, 0, oversubscribed)?);
    [0, 1].iter().for_each(|&rank| segment.introduce(rank, job::this_process()));
    let planes = [Plane::open(&segment, 0, 0, None)?, Plane::open(&segment, 0, 1, None)?];
    Ok([open(&planes[0], 0, 0), open(&planes[1], 1, 0)])
}

/// The sending half.
pub struct Shm {
    plane: Plane,
    me: u32,
    /// Credit that every rank has with every other from the beginning.
    initial_credit_bytes: u32,
    /// The identity of this process.
    word: u64,
    /// How the memory of each rank is reached, as far as we have tried.
    reaches: RefCell<Vec<Option<MemoryAccess>>>,
    /// For all ranks of the beginning, and for those spawned since that we have talked to.
    rings: Vec<Option<Box<Outgoing>>>,
    /// Peers whose ring was full, and how many slots we knew to be taken from it then.
    stuck: Vec<(Peer, u32)>,
    lost: Vec<(Peer, io::Error)>,
}

struct Outgoing {
    producer: Producer,
    doorbell: Bell,
    fenced: bool,
    /// The place of the ring in the segment.
    at: u64,
    /// The arena of the ring, if it has one of its own.
    alone: Option<Arena>,
}

impl Shm {
    /// Makes room for rings to ranks below this.
    fn make_room_for(&mut self, ranks: u32) {
        let ranks = (ranks as usize).max(self.rings.len());
        self.rings.resize_with(ranks, || None);
    }

    /// The ring to `to`, created for the first frame.
    #[inline(always)]
    fn ring(&mut self, to: Peer) -> io::Result<&mut Outgoing> {
        if self.rings.len() <= to.0 as usize {
            self.make_room_for(to.0 + 1);
        }
        let slot = &mut self.rings[to.0 as usize];
        match slot {
            Some(ring) => Ok(ring),
            None => {
                let PlacedRing { ring, at, alone } = self.plane.connect(self.me, to.0)?;
                let producer = Producer::new(ring, FIRST_LINES);
                let doorbell = self.plane.doorbell(to.0);
                let fenced = self.plane.segment.is_fenced();
                Ok(slot.insert(Box::new(Outgoing { producer, doorbell, fenced, at, alone })))
            }
        }
    }

    /// Gives the memory of all rings to and from spawned ranks back, because this rank is gone.
    pub(crate) fn forget_all(&self) {
        for ring in self.rings.iter().flatten() {
            ring.alone.iter().for_each(|arena| arena.give_back(ring.at));
        }
    }

    /// Gives the memory of the ring to a spawned rank back, which is gone.
    pub(crate) fn forget(&mut self, peer: Peer) {
        if let Some(slot) = self.rings.get_mut(peer.0 as usize)
            && let Some(ring) = slot.take_if(|ring| ring.alone.is_some())
        {
            self.stuck.retain(|(stuck, _)| *stuck != peer);
            ring.alone.iter().for_each(|arena| arena.give_back(ring.at));
        }
    }

    /// Runs `push` on the ring to `to`, and rings the doorbell if it succeeded.
    #[inline(always)]
    fn push(
        &mut self,
        to: Peer,
        len: usize,
        can_wait: bool,
        push: impl Fn(&mut Producer) -> Result<(), Stuck>,
    ) -> Sent {
        let ring = match self.ring(to) {
            Ok(ring) => ring,
            Err(error) => return self.lose(to, error),
        };
        match push(&mut ring.producer) {
            Ok(()) => {
                match can_wait {
                    true => ring.doorbell.ring_gently(ring.fenced),
                    false => ring.doorbell.ring(true),
                }
                Sent::Away
            }
            Err(Stuck::Narrow) => match self.widen(to, len) {
                // The ring is empty and wide enough now.
                Ok(()) => self.push_again(to, &push),
                Err(error) => self.lose(to, error),
            },
            Err(Stuck::Full) => self.stick(to),
        }
    }

    #[cold]
    fn push_again(&mut self, to: Peer, push: &impl Fn(&mut Producer) -> Result<(), Stuck>) -> Sent {
        match self.rings[to.0 as usize].as_mut().map(|ring| push(&mut ring.producer)) {
            Some(Ok(())) => {
                self.plane.doorbell(to.0).ring(true);
                Sent::Away
            }
            _ => self.stick(to),
        }
    }

    #[cold]
    fn stick(&mut self, to: Peer) -> Sent {
        // A ring may be full of what could wait.
        self.plane.doorbell(to.0).ring(true);
        let seen = self.rings[to.0 as usize].as_ref().map_or(0, |ring| ring.producer.seen());
        match self.stuck.iter_mut().find(|(peer, _)| *peer == to) {
            Some(stuck) => stuck.1 = seen,
            None => self.stuck.push((to, seen)),
        }
        Sent::Full
    }

    /// Sends a frame that is not a plain message, or not short, or finds no room.
    #[inline(never)]
    fn send_any(&mut self, to: Peer, envelope: &Envelope, payload: &[u8]) -> Sent {
        let mut head = [0; Envelope::BYTES_MAX];
        let len = envelope.emit(&mut head);
        let can_wait = envelope.kind.can_wait();
        self.push(to, len + payload.len(), can_wait, |ring| ring.push(&head[..len], payload))
    }

    #[cold]
    fn widen(&mut self, to: Peer, len: usize) -> io::Result<()> {
        let Some(ring) = self.rings[to.0 as usize].as_mut() else { return Ok(()) };
        let (now, wider) = ring.producer.wider(len);
        match self.plane.widen(ring.at, now, wider) {
            Ok(()) => ring.producer.widen(wider),
            // Frames that fit now still fit; only a frame that never did is lost.
            Err(_) if lines_max(len) <= now => {
                ring.producer.give_up_widening();
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    #[cold]
    fn lose(&mut self, peer: Peer, error: io::Error) -> Sent {
        self.lost.push((peer, error));
        Sent::Full
    }

    /// The credit that `peer` and we have with each other from the beginning. Nobody knows how many ranks will be
    /// spawned, so that pairs with one of those have little.
    fn credit_with(&self, peer: Peer) -> u32 {
        let spawned = peer.0.max(self.me) >= self.plane.segment.ranks();
        let most = if spawned { CREDIT_OF_SPAWNED } else { u32::MAX };
        self.initial_credit_bytes.min(most)
    }

    /// How the memory of `peer` is reached: found out once.
    fn reach(&self, peer: Peer) -> MemoryAccess {
        let mut reaches = self.reaches.borrow_mut();
        let at = peer.0 as usize;
        if reaches.len() <= at {
            reaches.resize(at + 1, None);
        }
        *reaches[at].get_or_insert_with(|| {
            MemoryAccess::find(self.word, self.plane.segment.process(peer.0))
        })
    }

    /// Records that the system no longer lets us reach the memory of `peer`.
    pub(crate) fn lose_access(&mut self, peer: Peer) {
        // It is known, or else it would not have been tried.
        if let Some(reach) = self.reaches.get_mut().get_mut(peer.0 as usize) {
            *reach = Some(MemoryAccess::Not);
        }
    }
}

impl Rail for Shm {
    fn promises(&self, peer: Peer) -> Promises {
        let reaches = self.reach(peer) != MemoryAccess::Not;
        Promises {
            rail: NEAR,
            reliable: true,
            // The kernel reports the end of every process on this host.
            may_vanish: false,
            puts: reaches,
            gets: reaches,
            frame_bytes_max: FRAME_BYTES_MAX,
            burst_frames_max: 1,
            initial_credit_bytes: self.credit_with(peer),
        }
    }

    fn attends(&self, peer: Peer) -> bool {
        // Where ranks share cores, a waiting peer has no core to spare: it would have to be scheduled first.
        !self.plane.segment.is_oversubscribed() && self.plane.attention(peer.0).is_paid()
    }

    #[inline(always)]
    fn send(&mut self, to: Peer, envelope: &Envelope, payload: &[u8]) -> Sent {
        // Most frames. If their ring is full, or does not exist yet, they take the general path.
        if payload.len() <= PLAIN_BYTES_MAX
            && let Some(words) = envelope.plain_words()
            && let Some(Some(ring)) = self.rings.get_mut(to.0 as usize)
            && ring.producer.push_plain(words, payload)
        {
            match envelope.kind.can_wait() {
                true => ring.doorbell.ring_gently(ring.fenced),
                false => ring.doorbell.ring(true),
            }
            return Sent::Away;
        }
        self.send_any(to, envelope, payload)
    }

    fn notify(&mut self, to: Peer, ticket: Ticket, bytes: u64) -> Sent {
        // It ends an operation.
        self.push(to, 16, true, |ring| ring.push_landed(ticket.bits(), bytes))
    }

    unsafe fn read(&mut self, peer: Peer, from: u64, into: u64, len: u64) -> io::Result<()> {
        // SAFETY: the caller vouches for `into`. `from` is lent by its rank until we tell it that we are done.
        unsafe { self.reach(peer).read(from, into, len) }
    }

    unsafe fn write(&mut self, peer: Peer, from: u64, into: u64, len: u64) -> io::Result<()> {
        // SAFETY: the caller vouches for `from`. `into` is lent by its rank until we tell it that we are done.
        unsafe { self.reach(peer).write(from, into, len) }
    }

    fn poll_room(&mut self, mut show: impl FnMut(Peer)) {
        let rings = &mut self.rings;
        self.stuck.retain(|&(peer, seen)| {
            // Other calls may have looked since, so the count at that time decides.
            let moved = rings[peer.0 as usize].as_mut().is_none_or(|ring| {
                ring.producer.look();
                ring.producer.seen() != seen
            });
            if moved {
                show(peer);
            }
            !moved
        });
    }

    fn poll_lost(&mut self, mut show: impl FnMut(Peer, io::Error)) {
        self.lost.drain(..).for_each(|(peer, error)| show(peer, error));
    }

    fn is_stuck(&self) -> bool {
        !self.stuck.is_empty() || !self.lost.is_empty()
    }

    /// Peers that are gone do not count.
    fn is_drained(&mut self) -> bool {
        let plane = &self.plane;
        (0..).zip(&mut self.rings).all(|(rank, ring)| {
            ring.as_mut().is_none_or(|ring| ring.producer.is_drained() || plane.is_gone(rank))
        })
    }

    /// On one host, memory is read by its address, and the kernel checks permission.
    fn expose(&mut self, _: Peer, _: Span, _: Ticket) -> Key {
        Key(0)
    }
}

impl Shm {
    /// Asks to be woken when there is room for what is stuck or, if `leaving`, when anything is taken. True if that has
    /// happened already, for which no wake-up will come.
    #[must_use]
    pub(crate) fn want_room(&mut self, leaving: bool) -> bool {
        let mut moved = false;
        for (rank, ring) in (0..).zip(&mut self.rings) {
            let Some(ring) = ring else { continue };
            let stuck = self.stuck.iter().find(|(peer, _)| *peer == Peer(rank));
            if stuck.is_some() || leaving && !ring.producer.is_drained() {
                moved |= ring.producer.want_room();
                moved |= stuck.is_some_and(|&(_, seen)| ring.producer.seen() != seen);
            }
        }
        moved
    }
}

/// The receiving half.
pub struct ShmInlet {
    plane: Plane,
    me: u32,
    /// Rings to us that peers have created.
    newcomers: &'static Newcomers,
    fenced: bool,
    rings: Vec<Incoming>,
    /// The ring that is polled first, in turn.
    hand: usize,
}

struct Incoming {
    from: Peer,
    consumer: Consumer,
    /// The sender's doorbell, rung when there is room.
    doorbell: Bell,
    /// The place of the ring in the segment, and its arena, if it has one of its own.
    at: u64,
    alone: Option<Arena>,
}

impl ShmInlet {
    #[cold]
    fn take_newcomers(&mut self) {
        let (rings, plane) = (&mut self.rings, &self.plane);
        plane.take_newcomers(self.me, |from, PlacedRing { ring, at, alone }| {
            let (doorbell, consumer) = (plane.doorbell(from), Consumer::new(ring));
            rings.push(Incoming { from: Peer(from), consumer, doorbell, at, alone });
        });
    }

    /// As [`Shm::forget_all`].
    pub(crate) fn forget_all(&self) {
        for ring in &self.rings {
            ring.alone.iter().for_each(|arena| arena.give_back(ring.at));
        }
    }

    /// Gives the memory of the ring from a spawned rank back, which is gone. What it still holds is lost.
    pub(crate) fn forget(&mut self, peer: Peer) {
        self.rings.retain(|ring| {
            let forgotten = ring.from == peer && ring.alone.is_some();
            if forgotten {
                ring.alone.iter().for_each(|arena| arena.give_back(ring.at));
            }
            !forgotten
        });
        self.hand = 0;
    }
}

impl ShmInlet {
    /// Shows the next arrival, if there is one.
    #[inline(always)]
    pub(crate) fn poll_one(&mut self, take: impl FnOnce(Peer, Arrival<'_>)) -> bool {
        if !self.newcomers.is_empty() {
            self.take_newcomers();
        }
        let (len, fenced) = (self.rings.len(), self.fenced);
        for _ in 0..len {
            // So that a sender without pause is not always first.
            self.hand = if self.hand + 1 < len { self.hand + 1 } else { 0 };
            let Incoming { from, consumer, doorbell, .. } = &mut self.rings[self.hand];
            let Some(event) = consumer.peek() else { continue };
            if let Some(arrival) = arrival(event) {
                take(*from, arrival);
            }
            if consumer.advance(fenced) | consumer.rest(fenced) {
                doorbell.ring(fenced);
            }
            return true;
        }
        false
    }
}

/// What a slot of a ring brings; `None` if the slot is invalid.
#[inline(always)]
fn arrival(event: Event<'_>) -> Option<Arrival<'_>> {
    match event {
        Event::Frame(raw) => Some(Arrival::Frame(NEAR, raw)),
        Event::Landed { ticket, bytes } => {
            Some(Arrival::Landed { ticket: Ticket::from_bits(ticket), bytes })
        }
        Event::Broken => None,
    }
}

impl Inlet for ShmInlet {
    #[inline]
    fn poll(&mut self, limit: usize, mut take: impl FnMut(Peer, Arrival<'_>)) -> usize {
        if !self.newcomers.is_empty() {
            self.take_newcomers();
        }
        let fenced = self.fenced;
        let mut taken = 0;
        let len = self.rings.len();
        for turn in 0..len {
            let at = if len == 1 { 0 } else { (self.hand + turn) % len };
            let Incoming { from, consumer, doorbell, .. } = &mut self.rings[at];
            while taken < limit {
                let Some(event) = consumer.peek() else { break };
                if let Some(arrival) = arrival(event) {
                    take(*from, arrival);
                }
                taken += 1;
                if consumer.advance(fenced) {
                    doorbell.ring(fenced);
                }
            }
            if consumer.rest(fenced) {
                doorbell.ring(fenced);
            }
        }
        // So that a sender without pause is not always first.
        self.hand = if taken > 0 && len > 1 { (self.hand + 1) % len } else { self.hand };
        taken
    }

    fn is_ready(&self) -> bool {
        !self.newcomers.is_empty() || self.rings.iter().any(|ring| ring.consumer.is_ready())
    }
}
