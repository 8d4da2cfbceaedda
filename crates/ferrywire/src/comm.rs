//! Communicators: their ranks, and blocking messages between them.
//!
//! Invariants, cited below by number.
//!   I1. A blocking call borrows its buffers until it returns, and returns when the operation is complete.

use std::fmt;
use std::sync::Arc;

use ferrywire_host::ErrorCode;
use ferrywire_host::nic::{MatchWord, Mode, Outcome, Peer, Posted, Probed as Seen, Ticket};
use ferrywire_host::{Keep, memory};
use ferrywire_mpi::comm::{Comm as Members, Wanted};
use ferrywire_mpi::numbers::Claim;
use ferrywire_runtime::call_name::rust_name;
use ferrywire_runtime::trace::{self, TracedCall};
use ferrywire_runtime::{
    self as runtime, CollectiveCall, CreateError, Created, Failure, Plane, Process, Rank, Source,
    TAG_MAX, Tag, With,
};

use crate::error::{Call, Error, Loss, WORLD};
use crate::job::Job;
use crate::plain::{self, Buffer, Plain, unit};
use crate::watch::{Collective, Entered, Watch};

/// A group of ranks that exchange messages, separate from those of any other communicator.
///
/// A clone is another handle to the same communicator; threads may share one handle or clone it. Messages between two
/// ranks arrive in the order in which they were sent. All ranks must call collectives, in the same order.
///
/// | calls | for |
/// |---|---|
/// | [`send`](Comm::send), [`receive`](Comm::receive), [`receive_vec`](Comm::receive_vec), [`sendrecv`](Comm::sendrecv) | blocking messages |
/// | [`isend`](Comm::isend), [`irecv`](Comm::irecv) | messages as futures that own their buffers |
/// | [`send_init`](Comm::send_init), [`recv_init`](Comm::recv_init) | messages that are prepared once and started many times |
/// | [`scope`](Comm::scope) | many messages at once, in borrowed buffers |
/// | [`probe`](Comm::probe), [`iprobe`](Comm::iprobe) | the next message, without receiving it |
/// | [`send_value`](Comm::send_value), [`receive_value`](Comm::receive_value) | anything that serde serialises |
/// | [`barrier`](Comm::barrier), [`broadcast`](Comm::broadcast), [`allreduce`](Comm::allreduce), … | collectives; with an `i` in front, as futures |
/// | [`gatherv`](Comm::gatherv), [`alltoallv`](Comm::alltoallv), … | collectives whose blocks differ in length |
/// | [`allreduce_with`](Comm::allreduce_with), [`scan_with`](Comm::scan_with), … | reductions with operators of your own |
/// | [`window`](Comm::window) | memory that all ranks read and write |
/// | [`File::open`](crate::File::open), [`FileOptions`](crate::FileOptions) | files that all ranks read and write |
/// | [`dup`](Comm::dup), [`split`](Comm::split) | further communicators |
/// | [`cartesian`](Comm::cartesian) | a communicator whose ranks are on a grid |
/// | [`Command::spawn`](crate::Command::spawn), [`Port::open`](crate::Port::open), [`connect`](Comm::connect) | programs that are started later or apart |
/// | [`load_module`](Comm::load_module) | a module that handles messages where they arrive |
/// | [`revoke`](Comm::revoke), [`shrink`](Comm::shrink), [`agree`](Comm::agree), [`failed`](Comm::failed) | recovery when ranks die |
#[derive(Clone)]
pub struct Comm {
    inner: Arc<Inner>,
}

struct Inner {
    job: Arc<Job>,
    name: Arc<str>,
    members: Members,
    /// The claim on the communicator's number, released when it is dropped. The world's number is never released.
    claim: Option<Claim>,
    /// The group id of the module, if the communicator can have one.
    module: Option<u16>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(group) = self.module {
            self.job.process.first_plane().unload(group);
        }
        self.job.process.on_comm_freed(&self.members, self.claim.take());
    }
}

/// The source, tag and length of a received message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Status {
    /// The rank that sent it.
    pub source: u32,
    /// Its tag.
    pub tag: u32,
    /// The number of items that it has.
    pub count: usize,
}

/// A message that could be received now.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Probed {
    /// The rank that sent it.
    pub source: u32,
    /// Its tag.
    pub tag: u32,
    /// Its length in bytes.
    pub bytes: usize,
}

impl Probed {
    /// The number of items of type `T` in the message, if its length is a multiple of their size.
    pub fn count<T: Plain>(&self) -> Option<usize> {
        self.bytes.is_multiple_of(unit::<T>()).then(|| self.bytes / unit::<T>())
    }
}

/// Calls on a communicator or a window that a rank makes by itself.
const ALONE: &[&str] = &["counters", "flush", "lock_all", "unlock_all", "wait"];

/// The arguments of a call, as an error reports them.
#[derive(Clone, Copy)]
pub(crate) struct What {
    pub(crate) name: &'static str,
    pub(crate) bytes: Option<u64>,
    pub(crate) peer: With,
    pub(crate) tag: Option<Tag>,
    /// The type of the items, if the call has any.
    pub(crate) item: Option<&'static str>,
}

impl Comm {
    pub(crate) fn world(job: Arc<Job>) -> Comm {
        let members = job.process.world(0);
        let world =
            Comm::new(Inner { job, name: WORLD.into(), members, claim: None, module: None });
        world.runtime().note_name(WORLD);
        trace::joined_in(const { rust_name("init") });
        world
    }

    fn new(inner: Inner) -> Comm {
        inner.job.process.on_comm_created(&inner.members);
        Comm { inner: Arc::new(inner) }
    }

    /// Wraps a communicator that was created from this one.
    pub(crate) fn made(&self, name: String, created: Created) -> Comm {
        let Created { members, agreed } = created;
        let (job, claim) = (Arc::clone(&self.inner.job), Some(agreed.claim));
        Comm::new(Inner { job, name: name.into(), members, claim, module: None })
    }

    /// Duplicates this communicator for a module.
    pub(crate) fn dup_for_module(&self, name: &str) -> Result<Comm, Error> {
        let what = self.what_all("load_module");
        let created = self.runtime().duplicate_with_module(self.next_instance());
        let Created { members, agreed } = created.map_err(|error| self.not_created(what, error))?;
        let (job, claim) = (Arc::clone(&self.inner.job), Some(agreed.claim));
        let module = Some(members.module_place().0);
        Ok(Comm::new(Inner { job, name: name.into(), members, claim, module }))
    }

    /// The error for a communicator that could not be created.
    pub(crate) fn not_created(&self, what: What, error: CreateError) -> Error {
        match error {
            CreateError::Failed(failure) => self.error_of(what, failure),
            CreateError::NoFreeNumber => Error::TooManyComms { call: self.call(what) },
            other => unreachable!("a group of our own: {other}"),
        }
    }

    pub(crate) fn members(&self) -> &Members {
        &self.inner.members
    }

    /// The group id of the module, if the communicator can have one.
    pub(crate) fn module_group(&self) -> Option<u16> {
        self.inner.module
    }

    /// The rank of the caller, from 0 to [`size`](Comm::size) - 1.
    pub fn rank(&self) -> u32 {
        self.inner.members.rank()
    }

    /// The number of ranks.
    pub fn size(&self) -> u32 {
        self.inner.members.group().size()
    }

    /// The name of the communicator in errors.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Creates another communicator of the same ranks, whose messages are kept apart from those of this one. All
    /// ranks must call it. A library that is handed a communicator should create its own this way.
    ///
    /// ```
    /// ferrywire::local(2, |world| {
    ///     let mine = world.dup().unwrap();
    ///     let other = 1 - world.rank();
    ///     mine.send(&1, other, 0).unwrap();
    ///     world.send(&2, other, 0).unwrap();
    ///     assert_eq!(world.receive_one::<i32>(other, 0).unwrap().0, 2);
    ///     assert_eq!(mine.receive_one::<i32>(other, 0).unwrap().0, 1);
    /// });
    /// ```
    pub fn dup(&self) -> Result<Comm, Error> {
        let what = self.what_all("dup");
        let created = self.runtime().duplicate(self.next_instance());
        let created = created.map_err(|error| self.not_created(what, error))?;
        Ok(self.made(format!("dup of {}", self.name()), created))
    }

    /// Splits the ranks into new communicators, one for each color. In each of them the ranks are ordered by key, and
    /// by rank where keys are equal. A rank that passes `None` as color gets no communicator. All ranks must call it.
    ///
    /// ```
    /// ferrywire::local(5, |world| {
    ///     let half = world.split(world.rank() % 2, 0).unwrap().unwrap();
    ///     assert_eq!(half.size(), if world.rank() % 2 == 0 { 3 } else { 2 });
    ///     assert_eq!(half.rank(), world.rank() / 2);
    ///     assert!(world.split(None, 0).unwrap().is_none());
    /// });
    /// ```
    pub fn split(&self, color: impl Into<Option<u32>>, key: i32) -> Result<Option<Comm>, Error> {
        let color = color.into();
        let what = self.what_all("split");
        let (instance, wrong) = self.begin_collective(what);
        if let Some(error) = wrong {
            return Err(error);
        }
        let created = self.runtime().split(instance, color, key);
        let created = created.map_err(|error| self.not_created(what, error))?;
        let name = || format!("split {} of {}", color.unwrap_or(0), self.name());
        Ok(created.map(|created| self.made(name(), created)))
    }

    /// Sends a message, and returns when the buffer may be used again. That may be before or after the message is
    /// received: do not rely on either.
    ///
    /// ```
    /// ferrywire::local(2, |world| {
    ///     if world.rank() == 0 {
    ///         world.send(&[1.5, 2.5], 1, 7).unwrap();
    ///     } else {
    ///         let mut pair = [0.0; 2];
    ///         let status = world.receive(&mut pair, 0, 7).unwrap();
    ///         assert_eq!((pair, status.count), ([1.5, 2.5], 2));
    ///     }
    /// });
    /// ```
    pub fn send<B: Buffer + ?Sized>(
        &self,
        data: &B,
        to: impl Into<Rank>,
        tag: impl Into<Tag>,
    ) -> Result<(), Error> {
        self.send_in_mode("send", data, to.into(), tag.into(), Mode::Standard)
    }

    /// Like [`send`](Comm::send), but returns only after a receive has matched the message.
    pub fn synchronous_send<B: Buffer + ?Sized>(
        &self,
        data: &B,
        to: impl Into<Rank>,
        tag: impl Into<Tag>,
    ) -> Result<(), Error> {
        self.send_in_mode("synchronous_send", data, to.into(), tag.into(), Mode::Synchronous)
    }

    fn send_in_mode<B: Buffer + ?Sized>(
        &self,
        name: &'static str,
        data: &B,
        to: Rank,
        tag: Tag,
        mode: Mode,
    ) -> Result<(), Error> {
        let bytes = plain::bytes(data.items());
        let what = What::sending::<B::Item>(name, bytes, to, tag);
        let to = self.address(what, to, tag)?;
        let source = memory::lend(bytes);
        let _waits = self.watched(what);
        let name = match mode {
            Mode::Synchronous => const { rust_name("synchronous_send") },
            _ => const { rust_name("send") },
        };
        self.runtime().note_send(name, to, source.len);
        // SAFETY: I1.
        let outcome = unsafe { self.runtime().send_blocking(to, source, mode) };
        self.sent(what, outcome)
    }

    /// Waits for a message and receives it into a buffer. The message may be shorter than the buffer; a longer one is
    /// an error. Source and tag may be [`ANY`](crate::ANY).
    pub fn receive<B: Buffer + ?Sized>(
        &self,
        into: &mut B,
        from: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> Result<Status, Error> {
        let (from, tag) = (from.into(), tag.into());
        let bytes = plain::bytes_mut(into.items_mut());
        let what = What::receiving::<B::Item>("receive", bytes, from, tag);
        let wanted = self.wanted(what, from, tag)?;
        let into = memory::lend_mut(bytes);
        let mut waits = self.watched(what);
        self.runtime().note_receive(const { rust_name("receive") }, wanted, into.len);
        // SAFETY: I1.
        let outcome = unsafe { self.runtime().receive(wanted, into) };
        if let Some(call) = &mut waits.traced {
            call.received(outcome);
        }
        self.received(what, B::UNIT, outcome)
    }

    /// Receives a single item.
    pub fn receive_one<T: Plain>(
        &self,
        from: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> Result<(T, Status), Error> {
        let mut one = plain::zeroed::<T>(1);
        let status = self.receive(&mut one[0], from, tag)?;
        Ok((one[0], status))
    }

    /// Receives a message of any length. The message is matched once, so no other thread can receive it between the
    /// query of its length and its receipt, whatever the source and tag.
    ///
    /// ```
    /// use ferrywire::ANY;
    /// ferrywire::local(3, |world| {
    ///     if world.rank() > 0 {
    ///         world.send(&vec![7u16; world.rank() as usize], 0, 1).unwrap();
    ///     } else {
    ///         for _ in 1..world.size() {
    ///             let (items, status) = world.receive_vec::<u16>(ANY, 1).unwrap();
    ///             assert_eq!(items.len(), status.source as usize);
    ///         }
    ///     }
    /// });
    /// ```
    pub fn receive_vec<T: Plain>(
        &self,
        from: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> Result<(Vec<T>, Status), Error> {
        self.receive_sized("receive_vec", from.into(), tag.into())
    }

    pub(crate) fn receive_sized<T: Plain>(
        &self,
        name: &'static str,
        from: Source,
        tag: Tag,
    ) -> Result<(Vec<T>, Status), Error> {
        let what = What::of_any_length::<T>(name, from, tag);
        let wanted = self.wanted(what, from, tag)?;
        let waits = self.watched(what);
        self.runtime().note_receive(rust_name(name), wanted, u64::MAX);
        let taken = self.runtime().take(wanted, true);
        drop(waits);
        let taken = taken.map_err(|failure| self.error_of(what, failure))?;
        let (ticket, seen) = taken.expect("a message was waited for");
        let bytes = size(seen.len);
        let whole = bytes.is_multiple_of(unit::<T>());
        // A message that is not a whole number of items is received into an empty buffer, so that it is consumed.
        let mut items = plain::zeroed::<T>(if whole { bytes / unit::<T>() } else { 0 });
        let outcome = self.receive_taken(ticket, plain::bytes_mut(&mut items));
        if !whole {
            let (call, item_bytes) = (self.call(what), unit::<T>());
            return Err(Error::Misfit { call, bytes: seen.len, item_bytes });
        }
        let status = self.received(what, unit::<T>(), outcome)?;
        items.truncate(status.count);
        Ok((items, status))
    }

    fn receive_taken(&self, ticket: Ticket, into: &mut [u8]) -> Outcome {
        let into = memory::lend_mut(into);
        // SAFETY: I1.
        match unsafe { self.runtime().start_taken(ticket, into) } {
            Posted::Done(outcome) => outcome,
            Posted::Pending(ticket) => self.plane().wait(ticket),
        }
    }

    /// Sends and receives at the same time, so that two ranks that exchange messages cannot deadlock.
    ///
    /// ```
    /// ferrywire::local(4, |world| {
    ///     let (rank, size) = (world.rank(), world.size());
    ///     let mut from_left = 0;
    ///     world.sendrecv(&rank, (rank + 1) % size, 0, &mut from_left, (rank + size - 1) % size, 0).unwrap();
    ///     assert_eq!(from_left, (rank + size - 1) % size);
    /// });
    /// ```
    pub fn sendrecv<B: Buffer + ?Sized, C: Buffer + ?Sized>(
        &self,
        data: &B,
        to: impl Into<Rank>,
        send_tag: impl Into<Tag>,
        into: &mut C,
        from: impl Into<Source>,
        receive_tag: impl Into<Tag>,
    ) -> Result<Status, Error> {
        let (to, send_tag, from, receive_tag) =
            (to.into(), send_tag.into(), from.into(), receive_tag.into());
        self.scope(|scope| {
            let received = scope.receive(into, from, receive_tag);
            let sent = scope.send(data, to, send_tag);
            if let Err(error) = sent.wait() {
                received.cancel();
                return Err(error);
            }
            received.wait()
        })?
    }

    /// Waits for a message, and describes it without receiving it.
    ///
    /// If another thread could receive it in between, use [`receive_vec`](Comm::receive_vec) instead.
    pub fn probe(&self, from: impl Into<Source>, tag: impl Into<Tag>) -> Result<Probed, Error> {
        let (from, tag) = (from.into(), tag.into());
        let what = What { item: None, ..What::of_any_length::<u8>("probe", from, tag) };
        let wanted = self.wanted(what, from, tag)?;
        let _waits = self.watched(what);
        self.runtime().note_receive(const { rust_name("probe") }, wanted, u64::MAX);
        let seen = self.runtime().probe(wanted, true);
        let seen = seen.map_err(|failure| self.error_of(what, failure))?;
        Ok(probed(seen.expect("a message was waited for")))
    }

    /// Describes the message that could be received now, if there is one.
    pub fn iprobe(
        &self,
        from: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> Result<Option<Probed>, Error> {
        let (from, tag) = (from.into(), tag.into());
        let what = What { item: None, ..What::of_any_length::<u8>("iprobe", from, tag) };
        let _call = traced(what.name);
        let wanted = self.wanted(what, from, tag)?;
        let seen = self.runtime().probe(wanted, false);
        Ok(seen.map_err(|failure| self.error_of(what, failure))?.map(probed))
    }

    /// This process as a rank of its job.
    pub(crate) fn process(&self) -> &Process {
        &self.inner.job.process
    }

    /// The plane that runs the operations of this communicator.
    #[inline(always)]
    pub(crate) fn plane(&self) -> Plane<'_> {
        self.process().first_plane()
    }

    /// This communicator as the runtime sees it.
    #[inline(always)]
    pub(crate) fn runtime(&self) -> runtime::Comm<'_> {
        runtime::Comm::new(self.plane(), &self.inner.members)
    }

    /// Counts a collective that this rank skips because it found an error before starting it.
    pub(crate) fn leave_out(&self) {
        self.next_instance();
        self.inner.members.leave_out();
    }

    /// The number of the next collective. It is the same on all ranks, because they call collectives in the same
    /// order.
    pub(crate) fn next_instance(&self) -> u16 {
        self.inner.members.next_instance()
    }

    /// The peer behind a rank, and the match word of a message that is about to be sent to it.
    pub(crate) fn address(
        &self,
        what: What,
        to: Rank,
        tag: Tag,
    ) -> Result<(Peer, MatchWord), Error> {
        let (peer, word) = self.checked_address(what, to, tag)?;
        self.note_sent(what, peer, word);
        Ok((peer, word))
    }

    /// The peer behind a rank, and the match word of messages to it.
    pub(crate) fn checked_address(
        &self,
        what: What,
        to: Rank,
        tag: Tag,
    ) -> Result<(Peer, MatchWord), Error> {
        let to = self.rank_of(what, to.0)?;
        let Tag::Number(tag) = tag else {
            return Err(Error::NoSuchTag { call: self.call(what) });
        };
        let tag = self.tag_of(what, tag)?;
        Ok(self.inner.members.address(to, tag))
    }

    /// Records the type of a message that is about to be sent, if types are watched.
    pub(crate) fn note_sent(&self, what: What, peer: Peer, word: MatchWord) {
        if let Some((watch, item)) = self.type_watch(what) {
            watch.on_send(peer, word, item);
        }
    }

    /// The match word and mask of a receive.
    pub(crate) fn wanted(&self, what: What, from: Source, tag: Tag) -> Result<Wanted, Error> {
        let source = match from {
            Source::Rank(rank) => Some(self.rank_of(what, rank)?),
            Source::Any => None,
        };
        let number = match tag {
            Tag::Number(tag) => Some(self.tag_of(what, tag)?),
            Tag::Any => None,
        };
        Ok(self.inner.members.wanted(source, number))
    }

    /// Checks that a rank exists.
    pub(crate) fn rank_of(&self, what: What, rank: i64) -> Result<u32, Error> {
        let rank = u32::try_from(rank).ok().filter(|&rank| rank < self.inner.members.reach());
        rank.ok_or_else(|| match self.is_revoked() {
            true => Error::Revoked { call: self.call(what) },
            false => {
                let size = self.members().targets().size();
                Error::NoSuchRank { call: self.call(what), size }
            }
        })
    }

    fn tag_of(&self, what: What, tag: i64) -> Result<u32, Error> {
        let tag = u32::try_from(tag).ok().filter(|&tag| tag <= TAG_MAX);
        tag.ok_or_else(|| Error::NoSuchTag { call: self.call(what) })
    }

    /// The result of a send.
    pub(crate) fn sent(&self, what: What, outcome: Outcome) -> Result<(), Error> {
        match outcome {
            Outcome::Done => Ok(()),
            other => Err(self.error(what, other)),
        }
    }

    /// The result of a receive.
    pub(crate) fn received(
        &self,
        what: What,
        unit: usize,
        outcome: Outcome,
    ) -> Result<Status, Error> {
        let Outcome::Received(got) = outcome else { return Err(self.error(what, outcome)) };
        self.check_type(what, got.word)?;
        let bytes = size(got.len);
        if !bytes.is_multiple_of(unit) {
            let call = self.call(what);
            return Err(Error::Misfit { call, bytes: got.len, item_bytes: unit });
        }
        Ok(Status { source: got.word.source(), tag: got.word.tag(), count: bytes / unit })
    }

    /// The watch over message types, and the type of this message. Messages of a module's communicator are not
    /// watched: the module makes its own.
    fn type_watch(&self, what: What) -> Option<(&Watch, &'static str)> {
        let watch = self.inner.job.watch.as_deref().filter(|_| self.inner.module.is_none())?;
        Some((watch, what.item?))
    }

    /// Checks that a message is received as the type that was sent.
    pub(crate) fn check_type(&self, what: What, word: MatchWord) -> Result<(), Error> {
        let Some((watch, received)) = self.type_watch(what) else { return Ok(()) };
        match watch.on_received(self.plane().me(), word, received) {
            None => Ok(()),
            Some(sent) => Err(Error::WrongType {
                call: self.call(what),
                rank: word.source(),
                theirs: sent.into(),
                ours: received.into(),
            }),
        }
    }

    /// The number of this call of a collective, which is the same on all ranks, and an error if another rank has
    /// called a different collective.
    pub(crate) fn begin_collective(&self, what: What) -> (u16, Option<Error>) {
        let instance = self.next_instance();
        let Some(watch) = &self.inner.job.watch else { return (instance, None) };
        let Inner { members, .. } = &*self.inner;
        let (of, size) = ((members.group().peer_of(0), members.number(), instance), self.size());
        let ours = Collective { rank: self.rank(), name: what.name, item: what.item };
        let theirs = watch.on_collective(of, size, ours);
        let error = theirs.map(|theirs| Error::WrongType {
            call: self.call(what),
            rank: theirs.rank,
            theirs: theirs.to_string(),
            ours: ours.to_string(),
        });
        (instance, error)
    }

    /// Records a call in the facts of the rank, and that this rank waits in it, until the result is dropped.
    pub(crate) fn enter(&self, what: What) -> InCall<'_> {
        let entered = self.watched(what);
        let name = rust_name(what.name);
        let root = match what.peer {
            With::Root(root) => u32::try_from(root.0).ok(),
            With::All | With::To(_) | With::From(_) => None,
        };
        match what.peer {
            With::To(rank) => self.runtime().note_call(name, u32::try_from(rank.0).ok()),
            With::All | With::Root(_) if !ALONE.contains(&what.name) => {
                let nonblocking = what.name.starts_with('i') && what.name != "init";
                let call = CollectiveCall { name, root, nonblocking, ..CollectiveCall::default() };
                self.runtime().note_collective(call);
            }
            _ => self.runtime().note_call(name, None),
        }
        entered
    }

    /// Records that this rank waits in a call, until the result is dropped.
    #[inline]
    pub(crate) fn watched(&self, what: What) -> InCall<'_> {
        self.waiting_in(what.name, what)
    }

    fn waiting_in(&self, name: &'static str, what: What) -> InCall<'_> {
        let watch = self.inner.job.watch.as_deref();
        InCall {
            traced: traced(name),
            _entered: watch.map(|watch| watch.enter(self.plane().me().0, self.call(what))),
        }
    }

    /// Waits in a call until an operation is complete.
    pub(crate) fn wait_for(&self, what: What, ticket: Ticket) -> Outcome {
        let _waits = self.waiting_in("wait", what);
        self.plane().wait(ticket)
    }

    /// Leaves an operation to the driver, which drops `keep` when it is complete. Cancels it first if it is revocable.
    pub(crate) fn abandon(&self, ticket: Ticket, revocable: bool, keep: Option<Keep>) {
        if revocable {
            self.plane().cancel(ticket);
        }
        self.plane().detach(ticket, keep);
    }

    /// The error of an operation that failed.
    pub(crate) fn error(&self, what: What, outcome: Outcome) -> Error {
        self.error_of(what, self.process().failure(outcome))
    }

    /// The error of an operation whose failure is known.
    pub(crate) fn error_of(&self, what: What, failure: Failure) -> Error {
        let call = self.call(what);
        match failure {
            Failure::Truncated { bytes, .. } => Error::Truncated { call, bytes },
            Failure::PeerDown { peer, unreachable, .. } => self.lost(call, peer, unreachable),
            Failure::Module(fault) => {
                let code = ErrorCode::MODULE_FAILED;
                Error::Module { call, code, why: fault.to_string() }
            }
            Failure::Revoked => Error::Revoked { call },
            _ if self.is_revoked() => Error::Revoked { call },
            _ => Error::Cancelled { call },
        }
    }

    fn lost(&self, call: Box<Call>, peer: Peer, unreachable: Option<String>) -> Error {
        let Inner { job, members, .. } = &*self.inner;
        let (peer, loss) = match (job.process.lost().peer(), unreachable) {
            (Some(culprit), _) if job.process.lost().is_late() => (culprit, Loss::TimedOut),
            (Some(culprit), _) => (culprit, Loss::Panicked),
            (None, Some(why)) => (peer, Loss::Unreachable(why)),
            (None, None) => (peer, Loss::Left),
        };
        let rank = members.targets().rank_of(peer);
        let world_rank = (0..).zip(job.process.rank().world()).find(|&(_, member)| member == peer);
        Error::RankLost { call, rank, world_rank: world_rank.map(|(rank, _)| rank), loss }
    }

    pub(crate) fn what_all(&self, name: &'static str) -> What {
        What { name, bytes: None, peer: With::All, tag: None, item: None }
    }

    #[cold]
    pub(crate) fn call(&self, what: What) -> Box<Call> {
        let What { name, bytes, peer, tag, .. } = what;
        let comm = (&*self.inner.name != WORLD).then(|| Arc::clone(&self.inner.name));
        Box::new(Call { name, comm, peer, tag, bytes })
    }
}

impl What {
    pub(crate) fn sending<T: Plain>(name: &'static str, bytes: &[u8], to: Rank, tag: Tag) -> What {
        let (bytes, item) = (Some(bytes.len() as u64), Some(T::type_name()));
        What { name, bytes, peer: With::To(to), tag: Some(tag), item }
    }

    pub(crate) fn receiving<T: Plain>(
        name: &'static str,
        bytes: &[u8],
        from: Source,
        tag: Tag,
    ) -> What {
        let bytes = Some(bytes.len() as u64);
        What { bytes, ..What::of_any_length::<T>(name, from, tag) }
    }

    /// A receive of a message of any length.
    pub(crate) fn of_any_length<T: Plain>(name: &'static str, from: Source, tag: Tag) -> What {
        let item = Some(T::type_name());
        What { name, bytes: None, peer: With::From(from), tag: Some(tag), item }
    }
}

impl fmt::Debug for Comm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, rank {} of {}", self.name(), self.rank(), self.size())
    }
}

fn probed(seen: Seen) -> Probed {
    Probed { source: seen.word.source(), tag: seen.word.tag(), bytes: size(seen.len) }
}

/// Converts a length on the wire, which has 64 bits.
pub(crate) fn size(bytes: u64) -> usize {
    usize::try_from(bytes).expect("what another rank has in memory would fit into ours")
}

/// A call that this rank is in, until it is dropped.
pub(crate) struct InCall<'a> {
    _entered: Option<Entered<'a>>,
    traced: Option<TracedCall>,
}

/// Records a call in the trace of this rank, if there is one, until the result is dropped.
#[inline]
pub(crate) fn traced(name: &'static str) -> Option<TracedCall> {
    trace::is_on().then(|| TracedCall::begin(rust_name(name)))
}
