//! The shared-memory rail: a ring for each pair that talks, made on first contact.
//!
//! Invariants, cited below by number.
//!   I1. A ring is used only by a struct that holds the plane it lies in.
//!   I2. There is one `Shm` and one `ShmInlet` for a rank in a plane: `open` is called once.

use std::cell::OnceCell;
use std::io;
use std::sync::Arc;

use ferrywire_nic::{Envelope, Key, Peer, Promises, Sent, Span, Ticket};

use crate::job;
use crate::rail::{Arrival, Inlet, NEAR, Rail};
use crate::shm::arena::FIRST_LINES;
use crate::shm::newcomers::Newcomers;
use crate::shm::plane::{Bell, Plane};
use crate::shm::ring::{Consumer, Event, LINE_BYTES, PLAIN_BYTES_MAX, Producer, Ring, Stuck};
use crate::shm::segment::{Process, Segment};
use crate::sys::reach;

/// The longest frame: a piece of a long message, 32 KB, and its envelope.
const FRAME_BYTES_MAX: u32 = (32 << 10) + 72;

/// Opens the rail for one rank in a plane. Once for each (I2).
pub(crate) fn open(plane: &Plane, me: u32, initial_credit_bytes: u32) -> (Shm, ShmInlet) {
    let ranks = plane.segment.ranks() as usize;
    let out = Shm {
        plane: plane.clone(),
        me,
        initial_credit_bytes,
        word: job::this_process().word,
        reaches: std::iter::repeat_with(OnceCell::new).take(ranks).collect(),
        rings: std::iter::repeat_with(|| None).take(ranks).collect(),
        stuck: Vec::new(),
        lost: Vec::new(),
        pressing: false,
    };
    let inlet = ShmInlet {
        newcomers: plane.newcomers(me),
        plane: plane.clone(),
        me,
        fenced: plane.segment.is_oversubscribed(),
        rings: Vec::new(),
        hand: 0,
    };
    (out, inlet)
}

/// The rail between two ranks that are both in this process, open at both ends: for tests of rails.
/// `oversubscribed` as in [`Segment::create`].
pub fn pair(oversubscribed: bool) -> io::Result<[(Shm, ShmInlet); 2]> {
    let segment = Arc::new(Segment::create(2, 0, oversubscribed)?);
    [0, 1].iter().for_each(|&rank| segment.introduce(rank, job::this_process()));
    let planes = [Plane::open(&segment, 0, 0, None)?, Plane::open(&segment, 0, 1, None)?];
    Ok([open(&planes[0], 0, 0), open(&planes[1], 1, 0)])
}

/// The half that sends.
pub struct Shm {
    plane: Plane,
    me: u32,
    /// Credit that everybody has with everybody from the beginning.
    initial_credit_bytes: u32,
    /// The identity of this process.
    word: u64,
    /// How the memory of each rank is reached, as far as we have tried.
    reaches: Vec<OnceCell<MemoryAccess>>,
    rings: Vec<Option<Box<Outgoing>>>,
    /// Peers whose ring was full, and what we knew to be taken from it then.
    stuck: Vec<(Peer, u32)>,
    lost: Vec<(Peer, io::Error)>,
    /// Something is new to do that nobody rings for: here, or for whoever drives the NIC. Kept, not found out by looking
    /// at each, since whoever leaves the library asks.
    pub(crate) pressing: bool,
}

/// How the memory of a rank is reached.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum MemoryAccess {
    /// It is that of this process.
    Here,
    /// The kernel moves bytes between this process and the one that we know by this number.
    There(i32),
    /// Not at all.
    Not,
}

struct Outgoing {
    producer: Producer,
    doorbell: Bell,
    fenced: bool,
    /// Where the ring is in the segment.
    at: u64,
}

impl Shm {
    /// The ring to `to`. It is made at the first frame.
    #[inline(always)]
    fn ring(&mut self, to: Peer) -> io::Result<&mut Outgoing> {
        let slot = &mut self.rings[to.0 as usize];
        match slot {
            Some(ring) => Ok(ring),
            None => {
                let (ring, at) = self.plane.connect(self.me, to.0)?;
                let producer = Producer::new(ring, FIRST_LINES);
                let doorbell = self.plane.doorbell(to.0);
                let fenced = self.plane.segment.is_oversubscribed();
                Ok(slot.insert(Box::new(Outgoing { producer, doorbell, fenced, at })))
            }
        }
    }

    /// Whatever `push` wants to put into the ring to `to`, and a ring of the doorbell if it did.
    #[inline(always)]
    fn push(
        &mut self,
        to: Peer,
        len: usize,
        push: impl Fn(&mut Producer) -> Result<(), Stuck>,
    ) -> Sent {
        let ring = match self.ring(to) {
            Ok(ring) => ring,
            Err(error) => return self.lose(to, error),
        };
        match push(&mut ring.producer) {
            Ok(()) => {
                ring.doorbell.ring(ring.fenced);
                Sent::Away
            }
            Err(Stuck::Narrow) => match self.widen(to, len) {
                // It is empty and wide enough now.
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
                self.plane.doorbell(to.0).ring(self.plane.segment.is_oversubscribed());
                Sent::Away
            }
            _ => self.stick(to),
        }
    }

    #[cold]
    fn stick(&mut self, to: Peer) -> Sent {
        let seen = self.rings[to.0 as usize].as_ref().map_or(0, |ring| ring.producer.seen());
        self.pressing = true;
        match self.stuck.iter_mut().find(|(peer, _)| *peer == to) {
            Some(stuck) => stuck.1 = seen,
            None => self.stuck.push((to, seen)),
        }
        Sent::Full
    }

    /// A frame that is not a plain message, or not a short one, or that finds no room.
    #[inline(never)]
    fn send_any(&mut self, to: Peer, envelope: &Envelope, payload: &[u8]) -> Sent {
        let mut head = [0; Envelope::BYTES_MAX];
        let len = envelope.emit(&mut head);
        self.push(to, len + payload.len(), |ring| ring.push(&head[..len], payload))
    }

    #[cold]
    fn widen(&mut self, to: Peer, len: usize) -> io::Result<()> {
        let Some(ring) = self.rings[to.0 as usize].as_mut() else { return Ok(()) };
        let (now, wider) = ring.producer.wider(len);
        match self.plane.widen(ring.at, now, wider) {
            Ok(()) => ring.producer.widen(wider),
            // What fits now goes on fitting; only a frame that never did is lost.
            Err(_) if len <= now as usize * LINE_BYTES => {
                ring.producer.give_up_widening();
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    #[cold]
    fn lose(&mut self, peer: Peer, error: io::Error) -> Sent {
        self.pressing = true;
        self.lost.push((peer, error));
        Sent::Full
    }

    /// How the memory of `peer` is reached: found out once.
    fn reach(&self, peer: Peer) -> MemoryAccess {
        let found = &self.reaches[peer.0 as usize];
        *found.get_or_init(|| self.find(self.plane.segment.process(peer.0)))
    }

    /// The system does not let us reach the memory of `peer` any more.
    pub(crate) fn lose_access(&mut self, peer: Peer) {
        self.reaches[peer.0 as usize] = OnceCell::from(MemoryAccess::Not);
    }

    /// The kernel takes the number of a process as the caller counts, and nobody has told us how we count this one: in a
    /// container of our own it may have another number for us, or none. So each number that others know it by is tried.
    fn find(&self, process: Process) -> MemoryAccess {
        if process.word == 0 {
            return MemoryAccess::Not;
        }
        if process.word == self.word {
            return MemoryAccess::Here;
        }
        let pids = [process.pid_outside, process.pid].into_iter();
        let mut pids = pids.filter_map(|pid| i32::try_from(pid).ok()).filter(|&pid| pid > 0);
        pids.find(|&pid| holds_word(pid, process)).map_or(MemoryAccess::Not, MemoryAccess::There)
    }
}

/// Whether this number leads to that very process, and we may look into its memory: we try. Another process may have the
/// number, and even something at the same address, but not the word.
fn holds_word(pid: i32, process: Process) -> bool {
    let mut found = 0_u64;
    let here = (&raw mut found).expose_provenance();
    let Ok(there) = usize::try_from(process.probe) else { return false };
    // SAFETY: `found` is ours, and eight bytes long.
    let read = unsafe { reach::read(pid, there, here, 8) };
    // The kernel has written it, which the compiler does not know.
    read.is_ok() && std::hint::black_box(found) == process.word
}

impl Rail for Shm {
    fn promises(&self, peer: Peer) -> Promises {
        let reaches = self.reach(peer) != MemoryAccess::Not;
        Promises {
            rail: NEAR,
            reliable: true,
            puts: reaches,
            gets: reaches,
            frame_bytes_max: FRAME_BYTES_MAX,
            initial_credit_bytes: self.initial_credit_bytes,
        }
    }

    fn attends(&self, peer: Peer) -> bool {
        // Where ranks share cores, whoever waits has none to spare: its turn would have to come first.
        !self.plane.segment.is_oversubscribed() && self.plane.attention(peer.0).is_paid()
    }

    #[inline(always)]
    fn send(&mut self, to: Peer, envelope: &Envelope, payload: &[u8]) -> Sent {
        // Most frames. If their ring is full, or not there yet, they take the way of all others.
        if payload.len() <= PLAIN_BYTES_MAX
            && let Some(words) = envelope.plain_words()
            && let Some(Some(ring)) = self.rings.get_mut(to.0 as usize)
            && ring.producer.push_plain(words, payload)
        {
            ring.doorbell.ring(ring.fenced);
            return Sent::Away;
        }
        self.send_any(to, envelope, payload)
    }

    fn notify(&mut self, to: Peer, ticket: Ticket, bytes: u64) -> Sent {
        self.push(to, 16, |ring| ring.push_landed(ticket.bits(), bytes))
    }

    unsafe fn read(&mut self, peer: Peer, from: u64, into: u64, len: u64) -> io::Result<()> {
        let [from, into, len] = [from, into, len].map(address);
        match self.reach(peer) {
            // SAFETY: the caller vouches for `into`.
            MemoryAccess::There(pid) => unsafe { reach::read(pid, from, into, len) },
            MemoryAccess::Not => Err(io::ErrorKind::PermissionDenied.into()),
            MemoryAccess::Here => {
                // SAFETY: as above. `from` is lent by another rank of this process until we tell it
                // that we are done.
                unsafe { copy_here(from, into, len) };
                Ok(())
            }
        }
    }

    unsafe fn write(&mut self, peer: Peer, from: u64, into: u64, len: u64) -> io::Result<()> {
        let [from, into, len] = [from, into, len].map(address);
        match self.reach(peer) {
            // SAFETY: the caller vouches for `from`.
            MemoryAccess::There(pid) => unsafe { reach::write(pid, into, from, len) },
            MemoryAccess::Not => Err(io::ErrorKind::PermissionDenied.into()),
            MemoryAccess::Here => {
                // SAFETY: as above. `into` is lent by another rank of this process until we tell it
                // that we are done.
                unsafe { copy_here(from, into, len) };
                Ok(())
            }
        }
    }

    fn poll_room(&mut self, mut show: impl FnMut(Peer)) {
        let rings = &mut self.rings;
        self.stuck.retain(|&(peer, seen)| {
            // Somebody else may have looked since, so what counts is what it was then.
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

    /// By everybody who still can.
    fn is_drained(&mut self) -> bool {
        let plane = &self.plane;
        (0..).zip(&mut self.rings).all(|(rank, ring)| {
            ring.as_mut().is_none_or(|ring| ring.producer.is_drained() || plane.is_gone(rank))
        })
    }

    /// On one host memory can be read by its address, and the kernel sees to who may.
    fn expose(&mut self, _: Peer, _: Span, _: Ticket) -> Key {
        Key(0)
    }
}

impl Shm {
    /// Wants to be woken when there is room for what is stuck, or when anything is taken if we are
    /// about to leave. True if that is so already, and nobody will wake us.
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

/// The half that takes what has come.
pub struct ShmInlet {
    plane: Plane,
    me: u32,
    /// Rings to us that somebody has made.
    newcomers: &'static Newcomers,
    fenced: bool,
    rings: Vec<Incoming>,
    /// The ring that is looked at first, in turn.
    hand: usize,
}

struct Incoming {
    from: Peer,
    consumer: Consumer,
    /// Of whoever sends, to tell that there is room.
    doorbell: Bell,
}

impl ShmInlet {
    #[cold]
    fn take_newcomers(&mut self) {
        let (rings, plane) = (&mut self.rings, &self.plane);
        plane.take_newcomers(self.me, |from, ring: Ring| {
            let doorbell = plane.doorbell(from);
            rings.push(Incoming { from: Peer(from), consumer: Consumer::new(ring), doorbell });
        });
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
            let Incoming { from, consumer, doorbell } = &mut self.rings[at];
            while taken < limit {
                match consumer.peek() {
                    None => break,
                    Some(Event::Frame(raw)) => take(*from, Arrival::Frame(NEAR, raw)),
                    Some(Event::Landed { ticket, bytes }) => {
                        let ticket = Ticket::from_bits(ticket);
                        take(*from, Arrival::Landed { ticket, bytes });
                    }
                    Some(Event::Broken) => {}
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
        // Whoever sends without pause is not always first.
        self.hand = if taken > 0 && len > 1 { (self.hand + 1) % len } else { self.hand };
        taken
    }

    fn is_ready(&self) -> bool {
        !self.newcomers.is_empty() || self.rings.iter().any(|ring| ring.consumer.is_ready())
    }
}

/// Addresses and lengths travel as 64 bits, whatever the machine.
fn address(number: u64) -> usize {
    usize::try_from(number).expect("addresses of this machine fit its words")
}

/// Copies within this process.
///
/// # Safety
/// `len` bytes at `from` may be read, and at `into` written.
unsafe fn copy_here(from: usize, into: usize, len: usize) {
    let from: *const u8 = std::ptr::with_exposed_provenance(from);
    let into: *mut u8 = std::ptr::with_exposed_provenance_mut(into);
    // SAFETY: the caller vouches. `copy`, since a rank may send to itself what it receives.
    unsafe { std::ptr::copy(from, into, len) };
}
