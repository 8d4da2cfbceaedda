//! The port: everything that the NIC may ask of its environment.

use crate::envelope::Envelope;
use crate::types::{Key, Outcome, Peer, Span, Ticket, Time};
use crate::word::MatchWord;

/// Everything that the NIC may ask of its environment. The driver, the simulator and the tests implement it, and
/// the NIC cannot tell which of them it has.
///
/// A port must not call the NIC. It reports events (room on a rail, a finished transfer) after the call that it
/// serves has returned.
pub trait Port {
    /// The current time.
    fn now(&self) -> Time;

    /// What the rail to `peer` promises. The answer for a peer never changes, but puts and gets may be refused
    /// later.
    ///
    /// `peer` may be this process: a rank sends to itself as to any other. The rail that leads there is reliable, and
    /// no other process can write to it.
    fn promises(&self, peer: Peer) -> Promises;

    /// Whether a user thread of `peer`, which may be this process, is waiting for its NIC and so has time to move
    /// bytes. A hint: it affects speed only.
    fn attends(&self, peer: Peer) -> bool;

    /// Puts one frame on the rail to `to`: the envelope, then the bytes of `payload`, which are no longer needed
    /// when this returns.
    fn transmit(&mut self, to: Peer, envelope: &Envelope, payload: Span) -> Sent;

    /// Copies bytes of a frame into user memory.
    fn deliver(&mut self, bytes: &[u8], into: Span);

    /// Copies bytes of a put into an open region.
    fn store(&mut self, bytes: &[u8], into: Span) {
        self.deliver(bytes, into);
    }

    /// Copies user memory into a buffer of the NIC.
    fn load(&mut self, from: Span, into: &mut [u8]);

    /// Copies user memory to user memory.
    fn copy(&mut self, from: Span, into: Span);

    /// Combines `from` into `into`. If that has to wait (a user-defined operator runs on a user thread), the port
    /// answers [`Progress::Later`], and [`crate::Nic::on_reduced`] is called with `step` when it is done.
    fn reduce(&mut self, step: StepRef, operator: Operator, from: Span, into: Span) -> Progress;

    /// Combines bytes of a frame into user memory, atomically with respect to other such calls.
    fn accumulate(&mut self, operator: Operator, bytes: &[u8], into: Span);

    /// The same, and copies what was there into `before`, which is as long.
    fn fetch(&mut self, operator: Operator, bytes: &[u8], into: Span, before: Span) {
        self.copy(into, before);
        self.accumulate(operator, bytes, into);
    }

    /// Stores `value` into up to 8 bytes at `at` if they hold `expected`; returns what they held. Bytes that there are
    /// not are zero, and the first is the least significant.
    fn compare_swap(&mut self, at: Span, expected: u64, value: u64) -> u64;

    /// Starts to write `from` into memory of `to`, on a rail that promises puts. When it is done,
    /// [`crate::Nic::on_written`] is called here with `ticket`, and [`crate::Nic::on_landed`] at the peer with
    /// `notify`. If the peer's memory turns out to be unreachable, [`crate::Nic::on_put_refused`] is called here
    /// instead of both, however much has been written.
    fn put(&mut self, to: Peer, from: Span, into: Span, ticket: Ticket, notify: Ticket);

    /// Lets `to` read `span`, on a rail that promises gets, until [`Port::conceal`]. The key goes to the peer,
    /// which passes it to [`Port::get`]; [`Key::NONE`] if the span cannot be read after all. A second call for the
    /// same ticket returns the same key.
    fn expose(&mut self, to: Peer, span: Span, ticket: Ticket) -> Key;

    /// Ends the exposure made for `ticket`.
    fn conceal(&mut self, ticket: Ticket);

    /// Starts to read `from`, memory of `source` that it has exposed under `key`. When it is done,
    /// [`crate::Nic::on_read`] is called here with `ticket`, or [`crate::Nic::on_get_refused`] if the peer's
    /// memory is no longer reachable.
    fn get(&mut self, source: Peer, from: Span, key: Key, into: Span, ticket: Ticket);

    /// Allocates memory for a copy, or for what a module sends or receives, until [`Port::release`].
    fn claim(&mut self, bytes: u64) -> Span;

    /// Frees memory from [`Port::claim`].
    fn release(&mut self, span: Span);

    /// The time, as exactly as possible. [`Port::now`] is faster, and may lag.
    fn clock(&self) -> Time {
        self.now()
    }

    /// `peer` has been silent for too long. [`Progress::Later`] if bytes are still being read from its memory: then
    /// [`crate::Nic::on_peer_down`] is called when none are, because the memory that they go to belongs to the user
    /// again once its operation has ended.
    fn give_up(&mut self, _peer: Peer) -> Progress {
        Progress::Done
    }

    /// Tells the owner of `ticket` that its operation has ended. May be called before the post that returns the
    /// ticket has returned.
    fn complete(&mut self, ticket: Ticket, outcome: Outcome);

    /// Reports something that the user may want to know, though it is the end of no operation here. It happens rarely.
    fn report(&mut self, _notice: Notice) {}

    /// Asks for one [`crate::Nic::on_timer`] at or after `at`, or with `None` for no call. Replaces the previous
    /// request.
    fn arm(&mut self, at: Option<Time>);
}

/// What the NIC reports beside the outcomes of operations.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Notice {
    /// There was no room for a message that no receive waits for. Its sender holds it, and what follows it in the queue
    /// pair, until there is room. Reported for the first message that a peer holds.
    Overflow {
        /// The sender.
        from: Peer,
        /// Match word of the message.
        word: MatchWord,
        /// Length of the message in bytes.
        len: u64,
    },
    /// A frame of a one-sided operation was denied: it wants bytes that are not open.
    Denied {
        /// The peer that sent it.
        from: Peer,
        /// The bytes that it wants.
        span: Span,
    },
}

/// Names a rail. The NIC accepts a frame as a peer's only if it came by the rail that leads to that peer, so a
/// stranger on a network cannot impersonate a neighbour in shared memory.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RailId(pub u8);

/// What a rail promises. The NIC adds only what is missing.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Promises {
    /// The rail: every frame from the peer comes by it.
    pub rail: RailId,
    /// Every frame arrives, once, and in the order in which it was sent.
    pub reliable: bool,
    /// Peers may vanish without a notice: their host dies or is cut off, and nothing reports it. So a peer that is
    /// silent for too long is given up. Always the case on rails that are not reliable, where a lost peer looks like
    /// lost frames; never together with `puts`, whose end is not watched for.
    pub may_vanish: bool,
    /// The rail can write into the peer's memory.
    pub puts: bool,
    /// The rail can read the peer's memory.
    pub gets: bool,
    /// The longest frame, envelope and payload together.
    pub frame_bytes_max: u32,
    /// The longest burst, in frames: consecutive chunks of a message that the rail carries as one, and loses as one. 1
    /// on rails that carry no bursts, and on reliable ones.
    pub burst_frames_max: u16,
    /// Credit that each side has with the other in each queue pair before first contact, in bytes. The budget of a
    /// queue pair grows by this much with each peer, so it is meant for rails with few peers; reliable rails only.
    pub initial_credit_bytes: u32,
}

impl Promises {
    /// The longest frame or burst, envelope and payload together.
    #[must_use]
    pub fn burst_bytes_max(&self) -> u32 {
        let more = u32::from(self.burst_frames_max.saturating_sub(1));
        self.frame_bytes_max + more * self.payload_bytes_max()
    }

    /// The longest payload of a frame.
    #[inline]
    pub(crate) fn payload_bytes_max(&self) -> u32 {
        self.frame_bytes_max - ENVELOPE_BYTES_MAX
    }
}

const ENVELOPE_BYTES_MAX: u32 = 76;
const _: () = assert!(ENVELOPE_BYTES_MAX as usize == Envelope::BYTES_MAX);

/// The result of [`Port::transmit`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Sent {
    /// The frame is on the rail.
    Away,
    /// The rail has no room. [`crate::Nic::on_room`] will be called when it has.
    Full,
}

/// Whether the port has finished.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Progress {
    /// Finished.
    Done,
    /// Not yet; the port reports the end later.
    Later,
}

/// Whether the rail vouches for the sender of a frame.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Seal {
    /// The sender is authentic: the frame's tag was right, or no other process can write there.
    Intact,
    /// The sender is not authentic. The frame creates no state and gets no answer.
    Broken,
}

/// Names a reduction operator. Only the port knows what it does.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Operator(pub u16);

/// Names a step of a running schedule.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct StepRef {
    pub(crate) run: Ticket,
    pub(crate) step: u16,
}
