//! The way out: everything that the NIC may ask of the world.

use crate::envelope::Envelope;
use crate::types::{Key, Outcome, Peer, Span, Ticket, Time};

/// Everything the NIC may ask of the world. The driver, the simulator and the tests implement it;
/// the NIC never learns which of them it is talking to.
///
/// A port must not call the NIC: what it has to say (room again, a transfer that is over) it says
/// after the call that it is serving has returned.
pub trait Port {
    /// The time.
    fn now(&self) -> Time;

    /// What the rail to `peer` promises. The answer for a peer never changes, but puts and gets may be refused later.
    fn promises(&self, peer: Peer) -> Promises;

    /// Whether a thread of `peer`'s user, who may be us, waits for its NIC right now and so has time
    /// to move bytes. A guess: nothing but speed depends on it.
    fn attends(&self, peer: Peer) -> bool;

    /// Puts one frame on the rail to `to`: the envelope, then the bytes of `payload`, which are
    /// no longer needed when this returns.
    fn transmit(&mut self, to: Peer, envelope: &Envelope, payload: Span) -> Sent;

    /// Copies bytes of a frame into user memory.
    fn deliver(&mut self, bytes: &[u8], into: Span);

    /// Copies user memory into bytes of the NIC's own.
    fn load(&mut self, from: Span, into: &mut [u8]);

    /// Copies user memory to user memory.
    fn copy(&mut self, from: Span, into: Span);

    /// Combines `from` into `into`. If it must wait for somebody (an operator of the user's runs
    /// on a thread of the user's), the port answers [`Progress::Later`], and
    /// [`crate::Nic::on_reduced`] is called with `step` when it is done.
    fn reduce(&mut self, step: StepRef, operator: Operator, from: Span, into: Span) -> Progress;

    /// Combines bytes of a frame into user memory, in one step as seen by other such calls.
    fn accumulate(&mut self, operator: Operator, bytes: &[u8], into: Span);

    /// Puts `value` into the 8 bytes at `at` if they hold `expected`; answers what they held.
    fn compare_swap(&mut self, at: Span, expected: u64, value: u64) -> u64;

    /// Begins to write `from` into memory of `to`, on a rail that promises puts. When it is over,
    /// [`crate::Nic::on_written`] is called here with `ticket`, and [`crate::Nic::on_landed`] there
    /// with `notify`. If it turns out that the peer's memory cannot be reached any more, [`crate::Nic::on_put_refused`] is
    /// called here instead of both, whatever part has been written.
    fn put(&mut self, to: Peer, from: Span, into: Span, ticket: Ticket, notify: Ticket);

    /// Lets `to` read `span`, on a rail that promises gets, until [`Port::conceal`]. What the rail calls it goes to the
    /// peer, and comes back there in [`Port::get`]; [`Key::NONE`] if it cannot be read after all. Whoever asks again for a
    /// ticket gets the same answer.
    fn expose(&mut self, to: Peer, span: Span, ticket: Ticket) -> Key;

    /// Nobody has to read any more what was exposed for `ticket`.
    fn conceal(&mut self, ticket: Ticket);

    /// Begins to read `from`, which is memory of `source` that it has exposed under `key`. When it is over,
    /// [`crate::Nic::on_read`] is called here with `ticket`, or [`crate::Nic::on_get_refused`] if the peer's memory cannot be
    /// reached any more.
    fn get(&mut self, source: Peer, from: Span, key: Key, into: Span, ticket: Ticket);

    /// Memory for a copy, or for what a module sends or receives, until it is released.
    fn claim(&mut self, bytes: u64) -> Span;

    /// Memory that was claimed is free again.
    fn release(&mut self, span: Span);

    /// Something is left to do that waits for nobody: [`crate::Nic::on_turn`] is to be called soon.
    /// [`crate::Nic::is_busy`] says so, too.
    fn call_again(&mut self) {}

    /// The time, as exactly as it can be told. [`Port::now`] is quicker, and may be late.
    fn clock(&self) -> Time {
        self.now()
    }

    /// Tells the owner of `ticket` that its operation is over. May be called before the post that
    /// returns the ticket has returned.
    fn complete(&mut self, ticket: Ticket, outcome: Outcome);

    /// Asks for one [`crate::Nic::on_timer`] at or after `at`, or for none. Replaces the previous
    /// request.
    fn arm(&mut self, at: Option<Time>);
}

/// Names a rail to the NIC. A frame counts as a peer's only if it came by the rail that leads to that peer, so a
/// stranger on a network cannot speak for a neighbour in shared memory.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RailId(pub u8);

/// What a rail promises. The NIC adds only what is missing.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Promises {
    /// Which rail it is: what comes from the peer comes by this one.
    pub rail: RailId,
    /// Every frame arrives, once, in the order in which it was sent.
    pub reliable: bool,
    /// It can write into memory of the peer.
    pub puts: bool,
    /// It can read memory of the peer.
    pub gets: bool,
    /// The longest frame that it carries: envelope and payload.
    pub frame_bytes_max: u32,
    /// Credit that each side has with the other in each queue pair before they have met, in bytes.
    /// The budget of a queue pair grows by as much with each peer, so this is for
    /// rails with few; and only for reliable ones.
    pub initial_credit_bytes: u32,
}

impl Promises {
    /// The longest payload that a frame can have.
    #[inline]
    pub(crate) fn payload_bytes_max(&self) -> u32 {
        self.frame_bytes_max - ENVELOPE_BYTES_MAX
    }
}

const ENVELOPE_BYTES_MAX: u32 = 76;
const _: () = assert!(ENVELOPE_BYTES_MAX as usize == Envelope::BYTES_MAX);

/// What became of a frame.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Sent {
    /// It is on the rail.
    Away,
    /// The rail has no room. [`crate::Nic::on_room`] will be called when it has.
    Full,
}

/// Whether something is done.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Progress {
    /// It is.
    Done,
    /// It will be, and its end will be told.
    Later,
}

/// What the rail knows about who sent a frame.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Seal {
    /// The rail vouches for the sender: its tag was right, or nobody else can write there.
    Intact,
    /// The rail does not. The frame makes no state and gets no answer.
    Broken,
}

/// Names an operator to the port; what it does to bytes is none of the NIC's business.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Operator(pub u16);

/// Names a step of a running schedule to the port.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct StepRef {
    pub(crate) run: Ticket,
    pub(crate) step: u16,
}
