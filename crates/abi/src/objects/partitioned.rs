//! Partitioned messages: one buffer, of which the sender releases parts, and of which the receiver asks for parts.
//!
//! A receive tells its sender when it is initialised how many messages it wants, one for each of its partitions, and
//! the number by which it knows them (its *plan*). The n-th plan of a receiver under a tag is for the n-th send to it
//! under that tag, which is how the standard pairs them. A send sends each message as soon as all partitions that
//! overlap it are ready. So the receive posts all it needs at its start, and neither waits for the other in a call.
//!
//! Plans and messages travel under group ids of their own, so nothing else in the communicator matches them. The send
//! hears of its plan in whichever thread turns the NIC, as services do: what is ready by then goes out even if the
//! program waits for something else.
//!
//! Invariants, cited below by number.
//!   I1. The program leaves a partition alone from the moment it is ready until the request is complete, and all of a
//!       receive until a partition has arrived.
//!   I2. Packed bytes, and the place for the plan, belong to a channel. The request keeps it, and while the plan is
//!       awaited its waker does.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, RwLock};
use std::task::{Poll, Wake, Waker};

use ferrywire_host::ErrorCode;
use ferrywire_host::nic::{Counter, Mask, Mode, Outcome, Peer, Posted, Received, Span, Ticket};
use ferrywire_host::{Coalesced, memory};
use ferrywire_mpi::comm::{TAG_MAX, Wanted};

use crate::convert::constants::{MPI_ERR_ARG, MPI_ERR_COUNT, MPI_ERR_NO_MEM, MPI_ERR_REQUEST};
use crate::convert::failure::{Failure, Owner, Result};
use crate::convert::handle::Shared;
use crate::convert::status::Status;
use crate::convert::types::{MPI_Datatype, MPI_Request};
use crate::objects::communicator::Comm;
use crate::objects::data::{self, Data};
use crate::objects::datatype;
use crate::objects::message::failed;
use crate::objects::recipe::{End, Next, Recipe};
use crate::objects::request::Request;

/// The buffer of a partitioned message: in place, or with room for its packed form.
struct Parts {
    /// All bytes, in packed form.
    bytes: Span,
    /// The partitions, if they have to be packed, and the room that `bytes` is.
    packed: Vec<Data>,
    _room: Box<[u8]>,
}

impl Parts {
    fn new(address: u64, partitions: u32, count: u64, datatype: MPI_Datatype) -> Result<Parts> {
        let too_many = || Failure::new(MPI_ERR_COUNT, "the partitions together are too large");
        let all = count.checked_mul(partitions.into()).ok_or_else(too_many)?;
        let whole = Data::new(address, all, datatype)?;
        if let Some(bytes) = whole.contiguous() {
            return Ok(Parts { bytes, packed: Vec::new(), _room: Box::default() });
        }
        let extent = datatype::find_committed(datatype)?.extent();
        let step = i64::try_from(count).ok().and_then(|count| extent.checked_mul(count));
        let step = step.ok_or_else(too_many)?;
        let at = |nth: u32| address.wrapping_add_signed(step.wrapping_mul(nth.into()));
        let packed = (0..partitions).map(|nth| Data::new(at(nth), count, datatype));
        let packed = packed.collect::<Result<_>>()?;
        let mut room = data::room(whole.bytes());
        Ok(Parts { bytes: memory::lend_mut(&mut room), packed, _room: room })
    }

    /// The bytes of a partition.
    fn part(&self, nth: u32) -> Span {
        let Some(data) = self.packed.get(nth as usize) else { return Span::EMPTY };
        self.bytes.part(u64::from(nth) * data.bytes(), data.bytes())
    }

    /// Packs a partition, if it has to be.
    fn load(&self, nth: u32) {
        if let Some(data) = self.packed.get(nth as usize) {
            data.pack_to(self.part(nth));
        }
    }

    /// Unpacks the first bytes of a partition, if it has to be.
    fn unload(&self, nth: u32, bytes: u64) {
        if let Some(data) = self.packed.get(nth as usize) {
            data.unpack_from(self.part(nth).part(0, bytes));
        }
    }
}

/// What a receive tells its sender.
#[derive(Clone, Copy)]
struct Plan {
    /// The number by which the receiver knows the messages.
    slot: u32,
    messages: u32,
    /// The bytes of each.
    bytes: u64,
}

const PLAN_BYTES: usize = 16;

impl Plan {
    fn emit(self) -> [u8; PLAN_BYTES] {
        let mut bytes = [0; PLAN_BYTES];
        bytes[..4].copy_from_slice(&self.slot.to_ne_bytes());
        bytes[4..8].copy_from_slice(&self.messages.to_ne_bytes());
        bytes[8..].copy_from_slice(&self.bytes.to_ne_bytes());
        bytes
    }

    fn parse(bytes: &[u8; PLAN_BYTES]) -> Plan {
        let [a, b, c, d, e, f, g, h, long @ ..] = *bytes;
        Plan {
            slot: u32::from_ne_bytes([a, b, c, d]),
            messages: u32::from_ne_bytes([e, f, g, h]),
            bytes: u64::from_ne_bytes(long),
        }
    }

    /// The part of the `total` bytes of a send that goes into a message. If there are more than the receive has room
    /// for, the last message has the rest, so that the receiver finds the error.
    fn span(self, message: u32, total: u64) -> (u64, u64) {
        let at = |message: u32| self.bytes.saturating_mul(message.into()).min(total);
        let end = if message + 1 == self.messages { total } else { at(message + 1) };
        (at(message), end - at(message))
    }

    /// Of the `partitions` partitions of a send, with `total` bytes together, those that a message consists of. One
    /// without bytes waits for the last partition, or for its share of partitions without bytes.
    fn needed(self, message: u32, partitions: u32, total: u64) -> Range<u32> {
        let (start, len) = self.span(message, total);
        let (start, end, whole) = match (total, len) {
            (0, _) => (u64::from(message), u64::from(message) + 1, u64::from(self.messages)),
            (_, 0) => (total - 1, total, total),
            _ => (start, start + len, total),
        };
        // In 128 bits, because the factors are not bounded.
        let (partitions, whole) = (u128::from(partitions), u128::from(whole));
        let narrow = |part: u128| u32::try_from(part).expect("there are fewer");
        let first = u128::from(start) * partitions / whole;
        narrow(first)..narrow((u128::from(end) * partitions).div_ceil(whole))
    }
}

/// A partitioned send.
pub(crate) struct SendChannel {
    comm: Shared<Comm>,
    to: Peer,
    partitions: u32,
    parts: Parts,
    listening: Coalesced<Listening>,
    state: Mutex<SendState>,
}

/// The receive of a plan.
struct Listening {
    wanted: Option<Wanted>,
    inbox: Box<[u8; PLAN_BYTES]>,
    ticket: Option<Ticket>,
}

/// How far a partitioned send is.
#[derive(Default)]
struct SendState {
    /// The plan, or why there will be none.
    plan: Option<std::result::Result<Plan, Outcome>>,
    /// For each message, the partitions that it consists of. Empty while there is no plan.
    needed: Vec<Range<u32>>,
    /// The round since the last start, until its messages are over.
    round: Option<SendRound>,
}

/// A round of a partitioned send.
struct SendRound {
    /// Raised when all partitions are ready and all messages are posted.
    counter: Counter,
    raised: bool,
    ready: Vec<bool>,
    /// The partitions that are not ready.
    left: u32,
    /// For each message, the partitions that it waits for. Empty while there is no plan.
    missing: Vec<usize>,
    posted: Vec<Posted>,
}

impl SendState {
    /// Makes the plan known to the round, and returns the messages that are due.
    fn lay_out(&mut self) -> Vec<u32> {
        let (Some(Ok(_)), Some(round)) = (self.plan, &mut self.round) else { return Vec::new() };
        let unready = |needed: &Range<u32>| {
            let ready = &round.ready[needed.start as usize..needed.end as usize];
            ready.iter().filter(|&&ready| !ready).count()
        };
        round.missing = self.needed.iter().map(unready).collect();
        let each = (0..).zip(&round.missing);
        each.filter(|&(_, &missing)| missing == 0).map(|(message, _)| message).collect()
    }

    /// The counter, if it has to be raised now: once in a round.
    fn end_of_posting(&mut self) -> Option<Counter> {
        let round = self.round.as_mut()?;
        let over = match self.plan? {
            Ok(plan) => round.left == 0 && round.posted.len() == plan.messages as usize,
            Err(_) => true,
        };
        (over && !std::mem::replace(&mut round.raised, true)).then_some(round.counter)
    }
}

impl SendChannel {
    /// A send to rank `to`. It begins to wait for its plan.
    pub(crate) fn open(
        comm: &Shared<Comm>,
        (to, tag): (u32, u32),
        (address, partitions, count): (u64, u32, u64),
        datatype: MPI_Datatype,
    ) -> Result<Arc<SendChannel>> {
        let wanted = comm.members.plan_from(to, tag);
        let inbox = Box::new([0; PLAN_BYTES]);
        let channel = Arc::new(SendChannel {
            comm: Shared::clone(comm),
            to: comm.members.targets().peer_of(to),
            partitions,
            parts: Parts::new(address, partitions, count, datatype)?,
            listening: Coalesced::new(Listening { wanted: Some(wanted), inbox, ticket: None }),
            state: Mutex::default(),
        });
        channel.listen();
        Ok(channel)
    }

    fn state(&self) -> MutexGuard<'_, SendState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Posts the receive of the plan, or looks whether it is over.
    fn listen(self: &Arc<Self>) {
        let waker = Waker::from(Arc::clone(self));
        self.listening.request(|listening| {
            let Some(outcome) = self.hear(listening, &waker) else { return };
            let plan = match outcome {
                Outcome::Received(_) => Ok(Plan::parse(&listening.inbox)),
                other => Err(other),
            };
            let mut state = self.state();
            state.plan = Some(plan);
            if let Ok(plan) = plan {
                let needed = |nth| plan.needed(nth, self.partitions, self.parts.bytes.len);
                state.needed = (0..plan.messages).map(needed).collect();
            }
            let due = state.lay_out();
            drop(state);
            self.post(&due);
        });
    }

    fn hear(&self, listening: &mut Listening, waker: &Waker) -> Option<Outcome> {
        if let Some(wanted) = listening.wanted.take() {
            let into = memory::lend_mut(&mut listening.inbox[..]);
            // SAFETY: I2.
            match unsafe { self.comm.runtime().start_receive(wanted, into) } {
                Posted::Done(outcome) => return Some(outcome),
                Posted::Pending(ticket) => listening.ticket = Some(ticket),
            }
        }
        match self.comm.plane().poll(listening.ticket?, waker) {
            Poll::Ready(outcome) => {
                listening.ticket = None;
                Some(outcome)
            }
            Poll::Pending => None,
        }
    }

    /// Posts messages that are due. No lock is held: posting may wake other channels.
    fn post(&self, due: &[u32]) {
        let plan = self.state().plan;
        for &message in due {
            let Some(Ok(plan)) = plan else { break };
            let (at, len) = plan.span(message, self.parts.bytes.len);
            let word = self.comm.members.partition(plan.slot, message);
            let source = self.parts.bytes.part(at, len);
            // SAFETY: I1, I2.
            let posted =
                unsafe { self.comm.runtime().start_send((self.to, word), source, Mode::Standard) };
            if let Some(round) = &mut self.state().round {
                round.posted.push(posted);
            }
        }
        let counter = self.state().end_of_posting();
        if let Some(counter) = counter {
            self.comm.plane().raise_counter(counter);
        }
    }

    /// Makes partitions ready.
    pub(crate) fn make_ready(&self, nths: impl Iterator<Item = i64>) -> Result {
        let mut due = Vec::new();
        let mut state = self.state();
        let result = state.make_ready(self, nths, &mut due);
        drop(state);
        self.post(&due);
        result.map_err(|failure| failure.of(Arc::clone(&self.comm) as Arc<dyn Owner>))
    }
}

impl SendState {
    fn make_ready(
        &mut self,
        channel: &SendChannel,
        nths: impl Iterator<Item = i64>,
        due: &mut Vec<u32>,
    ) -> Result {
        let Some(round) = &mut self.round else {
            return Err(Failure::new(MPI_ERR_REQUEST, "the request is not active; start it first")
                .coded(ErrorCode::REQUEST_STATE));
        };
        for nth in nths {
            let nth = partition(nth, channel.partitions)?;
            if std::mem::replace(&mut round.ready[nth as usize], true) {
                let why = format!("partition {nth} is ready already");
                return Err(Failure::new(MPI_ERR_ARG, why).coded(ErrorCode::PARTITION));
            }
            channel.parts.load(nth);
            round.left -= 1;
            // Messages, and the partitions that they consist of, are in the same order.
            let first = self.needed.partition_point(|needed| needed.end <= nth);
            let end = self.needed.partition_point(|needed| needed.start <= nth);
            for (message, missing) in (0..).zip(&mut round.missing).take(end).skip(first) {
                *missing -= 1;
                if *missing == 0 {
                    due.push(message);
                }
            }
        }
        Ok(())
    }
}

impl Wake for SendChannel {
    fn wake(self: Arc<Self>) {
        self.listen();
    }
}

/// The request of a partitioned send.
pub(crate) struct SendRequest {
    channel: Arc<SendChannel>,
    /// The messages that are not known to be over, when all are posted.
    posted: Option<std::vec::IntoIter<Posted>>,
    failure: Option<Failure>,
}

impl SendRequest {
    pub(crate) fn new(channel: Arc<SendChannel>) -> SendRequest {
        SendRequest { channel, posted: None, failure: None }
    }

    /// Takes the messages of the round, which are all posted.
    fn take_posted(&mut self) -> Result {
        let mut state = self.channel.state();
        let round = state.round.take().expect("it was started");
        self.posted = Some(round.posted.into_iter());
        let plan = state.plan;
        drop(state);
        self.channel.comm.plane().close_counter(round.counter);
        match plan {
            Some(Err(outcome)) => Err(failed(outcome)),
            _ => Ok(()),
        }
    }

    fn note(&mut self, outcome: Outcome) {
        if outcome != Outcome::Done && self.failure.is_none() {
            self.failure = Some(failed(outcome));
        }
    }
}

impl Recipe for SendRequest {
    fn start(&mut self, comm: &Shared<Comm>) -> Result<Posted> {
        let counter = comm.plane().open_counter();
        self.posted = None;
        let mut state = self.channel.state();
        state.round = Some(SendRound {
            counter,
            raised: false,
            ready: vec![false; self.channel.partitions as usize],
            left: self.channel.partitions,
            missing: Vec::new(),
            posted: Vec::new(),
        });
        let due = state.lay_out();
        drop(state);
        self.channel.post(&due);
        Ok(comm.plane().start_wait_for_counter(counter, 1))
    }

    fn finish(&mut self, _: &Shared<Comm>, end: End) -> Result<Next> {
        match self.posted {
            None => self.take_posted()?,
            Some(_) => self.note(end.outcome),
        }
        while let Some(posted) = self.posted.as_mut().and_then(Iterator::next) {
            match posted {
                Posted::Done(outcome) => self.note(outcome),
                pending @ Posted::Pending(_) => return Ok(Next::Then(pending)),
            }
        }
        match self.failure.take() {
            None => Ok(Next::Over(Status::EMPTY)),
            Some(failure) => Err(failure),
        }
    }

    fn cancel(&mut self, _: &Comm, _: Option<Ticket>) -> Result {
        Err(no_cancel())
    }
}

/// A partitioned receive.
pub(crate) struct ReceiveChannel {
    comm: Shared<Comm>,
    slot: Slot,
    from: Peer,
    /// Source and tag, as the status tells them.
    word: (u32, u32),
    partitions: u32,
    parts: Parts,
    /// The messages since the last start, until they are over.
    round: Mutex<Option<ReceiveRound>>,
}

struct ReceiveRound {
    /// Raised by each message that is over.
    counter: Counter,
    messages: Vec<Posted>,
}

impl ReceiveChannel {
    /// A receive from rank `from`. It tells the sender its plan.
    pub(crate) fn open(
        comm: &Shared<Comm>,
        (from, tag): (u32, u32),
        (address, partitions, count): (u64, u32, u64),
        datatype: MPI_Datatype,
    ) -> Result<Arc<ReceiveChannel>> {
        if partitions > TAG_MAX {
            let why = format!("invalid number of partitions; a receive can have {TAG_MAX}");
            return Err(Failure::new(MPI_ERR_ARG, why).coded(ErrorCode::PARTITION));
        }
        let parts = Parts::new(address, partitions, count, datatype)?;
        let slot = Slot::claim()?;
        let bytes = parts.bytes.len.checked_div(partitions.into()).unwrap_or(0);
        let plan = Box::new(Plan { slot: slot.0, messages: partitions, bytes }.emit());
        let to = comm.members.plan_to(from, tag);
        // SAFETY: the driver keeps it until it is sent.
        let posted =
            unsafe { comm.runtime().start_send(to, memory::lend(&plan[..]), Mode::Standard) };
        if let Posted::Pending(ticket) = posted {
            comm.plane().detach(ticket, Some(plan));
        }
        Ok(Arc::new(ReceiveChannel {
            comm: Shared::clone(comm),
            slot,
            from: to.0,
            word: (from, tag),
            partitions,
            parts,
            round: Mutex::default(),
        }))
    }

    fn round(&self) -> MutexGuard<'_, Option<ReceiveRound>> {
        self.round.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a partition has arrived. An inactive request has nothing to wait for.
    pub(crate) fn has_arrived(&self, nth: i64) -> Result<bool> {
        let nth = partition(nth, self.partitions)
            .map_err(|failure| failure.of(Arc::clone(&self.comm) as Arc<dyn Owner>))?;
        let mut round = self.round();
        let Some(round) = round.as_mut() else { return Ok(true) };
        let message = &mut round.messages[nth as usize];
        if let Posted::Pending(ticket) = *message {
            let Some(outcome) = self.comm.plane().test(ticket) else { return Ok(false) };
            self.end(nth, message, outcome);
        }
        Ok(true)
    }

    /// Notes the end of a message.
    fn end(&self, nth: u32, message: &mut Posted, outcome: Outcome) {
        if let Outcome::Received(got) = outcome {
            self.parts.unload(nth, got.len);
        }
        *message = Posted::Done(outcome);
    }
}

/// The request of a partitioned receive.
pub(crate) struct ReceiveRequest(pub(crate) Arc<ReceiveChannel>);

impl Recipe for ReceiveRequest {
    fn start(&mut self, comm: &Shared<Comm>) -> Result<Posted> {
        let channel = &*self.0;
        let counter = comm.plane().open_counter();
        let each = channel.parts.bytes.len.checked_div(channel.partitions.into()).unwrap_or(0);
        let mut messages = Vec::with_capacity(channel.partitions as usize);
        for nth in 0..channel.partitions {
            let word = comm.members.partition(channel.slot.0, nth);
            let wanted = Wanted { from: Some(channel.from), word, mask: Mask::EXACT };
            let into = channel.parts.bytes.part(u64::from(nth) * each, each);
            // SAFETY: I1, I2.
            messages.push(unsafe { comm.plane().start_counted_receive(wanted, into, counter) });
        }
        for (nth, message) in (0..).zip(&mut messages) {
            if let Posted::Done(outcome) = *message {
                channel.end(nth, message, outcome);
            }
        }
        *channel.round() = Some(ReceiveRound { counter, messages });
        Ok(comm.plane().start_wait_for_counter(counter, channel.partitions.into()))
    }

    fn finish(&mut self, comm: &Shared<Comm>, _: End) -> Result<Next> {
        let channel = &*self.0;
        let mut place = channel.round();
        let ReceiveRound { counter, mut messages } = place.take().expect("it was started");
        let mut failure = None;
        let mut len = 0;
        for (nth, message) in (0..).zip(&mut messages) {
            if let Posted::Pending(ticket) = *message {
                // It is over, or the counter would be lower.
                let outcome = comm.plane().wait(ticket);
                channel.end(nth, message, outcome);
            }
            match *message {
                Posted::Done(Outcome::Received(got)) => len += got.len,
                Posted::Done(other) if failure.is_none() => failure = Some(failed(other)),
                _ => {}
            }
        }
        drop(place);
        comm.plane().close_counter(counter);
        let (source, tag) = channel.word;
        let word = comm.members.wanted(Some(source), Some(tag)).word;
        match failure {
            None => Ok(Next::Over(Status::of(&Received { word, len }))),
            Some(failure) => Err(failure),
        }
    }

    fn cancel(&mut self, _: &Comm, _: Option<Ticket>) -> Result {
        Err(no_cancel())
    }
}

/// A partitioned message to or from MPI_PROC_NULL. It is complete when it is started.
pub(crate) struct NullRequest(pub(crate) Status);

impl Recipe for NullRequest {
    fn start(&mut self, _: &Shared<Comm>) -> Result<Posted> {
        Ok(Posted::Done(Outcome::Done))
    }

    fn finish(&mut self, _: &Shared<Comm>, _: End) -> Result<Next> {
        Ok(Next::Over(self.0))
    }
}

/// A number by which this process knows a partitioned receive. Released with it.
struct Slot(u32);

/// The numbers in use, and the one after the last that was claimed: a freed one is not used again soon.
static SLOTS: LazyLock<Mutex<(HashSet<u32>, u32)>> = LazyLock::new(Mutex::default);

impl Slot {
    fn claim() -> Result<Slot> {
        let mut slots = SLOTS.lock().unwrap_or_else(PoisonError::into_inner);
        let (used, next) = &mut *slots;
        if used.len() > TAG_MAX as usize {
            let why = "there are too many partitioned receives; free some";
            return Err(Failure::new(MPI_ERR_NO_MEM, why));
        }
        while !used.insert(*next) {
            *next = (*next + 1) & TAG_MAX;
        }
        let slot = Slot(*next);
        *next = (*next + 1) & TAG_MAX;
        Ok(slot)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        SLOTS.lock().unwrap_or_else(PoisonError::into_inner).0.remove(&self.0);
    }
}

/// What a partitioned request is, for calls of any thread.
#[derive(Clone)]
pub(crate) enum Channel {
    Send(Arc<SendChannel>),
    Receive(Arc<ReceiveChannel>),
    /// To or from MPI_PROC_NULL, with this many partitions.
    Null(u32),
}

/// The partitioned requests by handle: threads use them while another thread waits for the request.
static CHANNELS: LazyLock<RwLock<HashMap<usize, Channel>>> = LazyLock::new(RwLock::default);

/// Prepares the request of a channel.
pub(crate) fn prepare(
    comm: Shared<Comm>,
    recipe: Box<dyn Recipe>,
    channel: Channel,
) -> MPI_Request {
    let request = Request::prepare(comm, recipe);
    CHANNELS.write().unwrap_or_else(PoisonError::into_inner).insert(request.0, channel);
    request
}

/// The channel of a partitioned request.
pub(crate) fn find(request: MPI_Request) -> Result<Channel> {
    let channels = CHANNELS.read().unwrap_or_else(PoisonError::into_inner);
    let none = || Failure::new(MPI_ERR_REQUEST, "the request is not that of a partitioned message");
    channels.get(&request.0).cloned().ok_or_else(none)
}

/// Forgets a request that the program frees, if it is partitioned.
pub(crate) fn forget(request: MPI_Request) {
    CHANNELS.write().unwrap_or_else(PoisonError::into_inner).remove(&request.0);
}

/// Checks that a partition exists.
pub(crate) fn partition(nth: i64, partitions: u32) -> Result<u32> {
    u32::try_from(nth).ok().filter(|&nth| nth < partitions).ok_or_else(|| {
        let why = match partitions {
            0 => format!("invalid partition {nth}; there is none"),
            _ => format!("invalid partition {nth}; they go from 0 to {}", partitions - 1),
        };
        Failure::new(MPI_ERR_ARG, why).coded(ErrorCode::PARTITION)
    })
}

fn no_cancel() -> Failure {
    Failure::new(MPI_ERR_REQUEST, "partitioned messages cannot be cancelled")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_all_bytes_and_wait_for_the_partitions_that_they_consist_of() {
        for (partitions, messages, each, total) in [
            (4, 3, 4, 12),
            (3, 4, 3, 12),
            (6, 1, 12, 12),
            (1, 6, 2, 12),
            (4, 4, 6, 12),
            (4, 2, 2, 12),
        ] {
            let plan = Plan { slot: 0, messages, bytes: each };
            let spans: Vec<(u64, u64)> = (0..messages).map(|nth| plan.span(nth, total)).collect();
            assert_eq!(spans.iter().map(|(_, len)| len).sum::<u64>(), total);
            let part = total / u64::from(partitions);
            for (nth, (start, len)) in (0..).zip(spans) {
                let needed = plan.needed(nth, partitions, total);
                let last = u64::from(partitions) - 1;
                let expected = match len {
                    0 => last..last + 1,
                    _ => start / part..(start + len).div_ceil(part),
                };
                assert_eq!(u64::from(needed.start)..u64::from(needed.end), expected);
            }
        }
        let nothing = Plan { slot: 0, messages: 2, bytes: 0 };
        assert_eq!([0, 1].map(|nth| nothing.needed(nth, 3, 0)), [0..2, 1..3]);
        assert_eq!(nothing.needed(1, 0, 0), 0..0);
    }

    #[test]
    fn a_plan_arrives_as_it_was_sent() {
        let plan = Plan::parse(&Plan { slot: 7, messages: 1 << 20, bytes: 1 << 40 }.emit());
        assert_eq!((plan.slot, plan.messages, plan.bytes), (7, 1 << 20, 1 << 40));
    }
}
