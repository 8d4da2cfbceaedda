//! Communicators: who takes part, and blocking messages between them.
//!
//! Invariants, cited below by number.
//!   I1. A blocking call borrows its buffers until it returns, and returns when the operation is over.

use std::fmt;
use std::sync::Arc;

use ferrywire_host::nic::{
    Fault, MatchWord, Mode, Nic, Outcome, Peer, Posted, Probed as Seen, Span, Ticket,
};
use ferrywire_host::{Driver, HostPort, memory};
use ferrywire_modules::ModuleFault;
use ferrywire_mpi::agreement::{ROOM_BYTES, agreement};
use ferrywire_mpi::collective::{Home, Member};
use ferrywire_mpi::comm::{Comm as Members, Wanted};
use ferrywire_mpi::group::{self, Group, Want};
use ferrywire_mpi::numbers::Claim;

use crate::address::{Rank, Source, TAG_MAX, Tag};
use crate::error::{Call, Error, Loss, WORLD, With};
use crate::fault;
use crate::job::Job;
use crate::plain::{self, Buffer, Plain, unit};
use crate::watch::{Collective, Entered, Watch};

/// Ranks that talk to each other, apart from all others.
///
/// A clone is another handle to the same communicator, and threads may share either. Messages between
/// two ranks arrive in the order in which they were sent. Collectives must be called by all ranks, in
/// the same order.
///
/// | calls | for |
/// |---|---|
/// | [`send`](Comm::send), [`receive`](Comm::receive), [`receive_vec`](Comm::receive_vec), [`sendrecv`](Comm::sendrecv) | messages, waiting |
/// | [`isend`](Comm::isend), [`irecv`](Comm::irecv) | messages, as futures that own their buffers |
/// | [`scope`](Comm::scope) | many messages at once, in borrowed buffers |
/// | [`probe`](Comm::probe), [`iprobe`](Comm::iprobe) | what would be received |
/// | [`send_value`](Comm::send_value), [`receive_value`](Comm::receive_value) | whatever serde serialises |
/// | [`barrier`](Comm::barrier), [`broadcast`](Comm::broadcast), [`allreduce`](Comm::allreduce), … | collectives; with an `i` in front, as futures |
/// | [`dup`](Comm::dup), [`split`](Comm::split) | other communicators |
/// | [`revoke`](Comm::revoke), [`shrink`](Comm::shrink), [`agree`](Comm::agree), [`failed`](Comm::failed) | when ranks die |
#[derive(Clone)]
pub struct Comm {
    inner: Arc<Inner>,
}

struct Inner {
    job: Arc<Job>,
    name: Arc<str>,
    members: Members,
    /// Its number goes back when it does. The world keeps its own.
    claim: Option<Claim>,
    /// The group id of its module, if it may have one.
    module: Option<u16>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(group) = self.module {
            self.job.driver.unload(group);
        }
        fault::on_freed(&self.job, &self.members, self.claim.take());
    }
}

/// What a receive got.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Status {
    /// Who sent it.
    pub source: u32,
    /// Under which tag.
    pub tag: u32,
    /// How many items it has.
    pub count: usize,
}

/// A message that could be received.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Probed {
    /// Who sent it.
    pub source: u32,
    /// Under which tag.
    pub tag: u32,
    /// How many bytes it has.
    pub bytes: usize,
}

impl Probed {
    /// How many items of `T` it has, if it has a whole number of them.
    pub fn count<T: Plain>(&self) -> Option<usize> {
        self.bytes.is_multiple_of(unit::<T>()).then(|| self.bytes / unit::<T>())
    }
}

/// What was asked for, in the few words that an error may need.
#[derive(Clone, Copy)]
pub(crate) struct What {
    pub(crate) name: &'static str,
    pub(crate) bytes: Option<u64>,
    pub(crate) with: With,
    pub(crate) tag: Option<Tag>,
    /// The type of its items, if it has any.
    pub(crate) item: Option<&'static str>,
}

impl Comm {
    pub(crate) fn world(job: Arc<Job>) -> Comm {
        let members = Members::new(Group::whole(job.driver.size()), job.driver.me().0, 0);
        fault::on_made(&job, &members);
        let inner = Inner { job, name: WORLD.into(), members, claim: None, module: None };
        Comm { inner: Arc::new(inner) }
    }

    pub(crate) fn made(&self, name: String, group: Group, claim: Claim) -> Comm {
        let job = Arc::clone(&self.inner.job);
        let rank = group.rank_of(job.driver.me()).expect("we are where we want to be");
        let members = Members::new(group, rank, claim.number());
        fault::on_made(&job, &members);
        let (name, claim) = (name.into(), Some(claim));
        Comm { inner: Arc::new(Inner { job, name, members, claim, module: None }) }
    }

    /// Another communicator of the same ranks, which can have a module.
    pub(crate) fn dup_for_module(&self, name: &str) -> Result<Comm, Error> {
        let claim = self.agree_on_number(self.what_all("load_module"))?;
        let job = Arc::clone(&self.inner.job);
        let members = self.inner.members.renumbered(claim.number()).with_module();
        fault::on_made(&job, &members);
        let (name, module) = (name.into(), Some(members.module_place().0));
        Ok(Comm { inner: Arc::new(Inner { job, name, members, claim: Some(claim), module }) })
    }

    pub(crate) fn members(&self) -> &Members {
        &self.inner.members
    }

    /// The group id of its module, if it may have one.
    pub(crate) fn module_group(&self) -> Option<u16> {
        self.inner.module
    }

    /// Our rank: from 0 to one less than the [size](Comm::size).
    pub fn rank(&self) -> u32 {
        self.inner.members.rank()
    }

    /// How many ranks there are.
    pub fn size(&self) -> u32 {
        self.inner.members.group().size()
    }

    /// What errors call it.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Another communicator of the same ranks, whose messages never meet those of this one. All ranks
    /// must call it. A library that is handed a communicator makes its own this way.
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
        let claim = self.agree_on_number(self.what_all("dup"))?;
        let group = self.inner.members.group().clone();
        Ok(self.made(format!("dup of {}", self.name()), group, claim))
    }

    /// Splits the ranks: those who pass the same color come together, in the order of their keys, and
    /// of their ranks where keys are equal. Who passes no color gets no communicator. All ranks must
    /// call it.
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
        let mine = [i64::from(color.is_some()), color.unwrap_or(0).into(), key.into()];
        let all = self.allgather(&mine)?;
        let claim = self.agree_on_number(self.what_all("split"))?;
        let wants: Vec<Want> = all.iter().map(want).collect();
        let Some(ranks) = group::split(&wants, self.rank()) else { return Ok(None) };
        let name = format!("split {} of {}", color.unwrap_or(0), self.name());
        Ok(Some(self.made(name, self.inner.members.group().select(&ranks), claim)))
    }

    /// A number that no communicator of any rank here has.
    fn agree_on_number(&self, what: What) -> Result<Claim, Error> {
        let Inner { job, members, .. } = &*self.inner;
        let mut room = [0; ROOM_BYTES];
        let span = memory::lend_mut(&mut room);
        let (schedule, promise) = agreement(members.member(), &job.numbers, 0, span);
        let (schedule, instance) = (Arc::new(schedule), members.next_instance());
        // SAFETY: I1.
        let outcome = unsafe {
            self.driver().perform(|nic, port| nic.post_schedule(schedule, instance, port))
        };
        self.sent(what, outcome)?;
        match promise.take() {
            Some(agreed) => Ok(agreed.claim),
            None => Err(Error::TooManyComms { call: self.call(what) }),
        }
    }

    /// Sends, and returns when the buffer may be used again. That may be before it is received, or
    /// not: do not rely on either.
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

    /// Like [`send`](Comm::send), and returns only when a receive has been found for it.
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
        let (peer, word) = self.address(what, to, tag)?;
        let source = memory::lend(bytes);
        let _waits = self.enter(what);
        // SAFETY: I1.
        let outcome = unsafe {
            self.driver().perform(|nic, port| nic.post_send(peer, word, source, mode, port))
        };
        self.sent(what, outcome)
    }

    /// Receives into a buffer, and waits for it. The message may be shorter than the buffer; a longer
    /// one is an error. [`ANY`](crate::ANY) source or tag will do.
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
        let _waits = self.enter(what);
        // SAFETY: I1.
        let outcome = unsafe { self.driver().perform(self.post_receive(wanted, into)) };
        self.received(what, B::UNIT, outcome)
    }

    /// Receives one value.
    pub fn receive_one<T: Plain>(
        &self,
        from: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> Result<(T, Status), Error> {
        let mut one = plain::zeroed::<T>(1);
        let status = self.receive(&mut one[0], from, tag)?;
        Ok((one[0], status))
    }

    /// Receives a message of any length. Nobody else can get between finding out its length and receiving
    /// it, whatever source and tag.
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
        let (ticket, seen) =
            self.wait_for(what, wanted, |nic, port| nic.take(wanted.word, wanted.mask, port))?;
        let bytes = size(seen.len);
        let whole = bytes.is_multiple_of(unit::<T>());
        // What is no whole number of items is received nowhere, so that it is not in the way.
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
        unsafe { self.driver().perform(|nic, port| nic.post_taken(ticket, into, port)) }
    }

    /// Sends and receives at the same time, so that two ranks that do it with each other both get on.
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

    /// Waits for a message, and says what it is without receiving it.
    ///
    /// If another thread may receive it meanwhile, use [`receive_vec`](Comm::receive_vec) instead.
    pub fn probe(&self, from: impl Into<Source>, tag: impl Into<Tag>) -> Result<Probed, Error> {
        let (from, tag) = (from.into(), tag.into());
        let what = What { item: None, ..What::of_any_length::<u8>("probe", from, tag) };
        let wanted = self.wanted(what, from, tag)?;
        let seen =
            self.wait_for(what, wanted, |nic, port| nic.probe(wanted.word, wanted.mask, port))?;
        Ok(probed(seen))
    }

    /// Says what message could be received now, if there is one.
    pub fn iprobe(
        &self,
        from: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> Result<Option<Probed>, Error> {
        let (from, tag) = (from.into(), tag.into());
        let what = What { item: None, ..What::of_any_length::<u8>("iprobe", from, tag) };
        let wanted = self.wanted(what, from, tag)?;
        self.driver().turn();
        // SAFETY: it lends nothing.
        let looked = unsafe {
            self.driver().submit(|nic, port| {
                let seen = nic.probe(wanted.word, wanted.mask, port);
                seen.map(Ok).or_else(|| self.hopeless(nic, wanted).map(Err))
            })
        };
        match looked {
            None => Ok(None),
            Some(Ok(seen)) => Ok(Some(probed(seen))),
            Some(Err(fault)) => Err(self.error(what, Outcome::Failed(fault))),
        }
    }

    /// Looks until it finds something, or until there is nothing to be found any more.
    fn wait_for<T>(
        &self,
        what: What,
        wanted: Wanted,
        mut find: impl FnMut(&mut Nic, &mut HostPort) -> Option<T>,
    ) -> Result<T, Error> {
        let _waits = self.enter(what);
        // SAFETY: it lends nothing.
        let found = unsafe {
            self.driver().wait_for(|nic, port| {
                find(nic, port).map(Ok).or_else(|| self.hopeless(nic, wanted).map(Err))
            })
        };
        found.map_err(|fault| self.error(what, Outcome::Failed(fault)))
    }

    /// Why what is wanted will not come, if so.
    fn hopeless(&self, nic: &Nic, wanted: Wanted) -> Option<Fault> {
        let lost = || self.inner.job.lost.peer().filter(|_| wanted.from.is_none());
        nic.hopeless(wanted.word, wanted.from).or_else(|| lost().map(Fault::PeerDown))
    }

    /// What posts a receive.
    pub(crate) fn post_receive(
        &self,
        wanted: Wanted,
        into: Span,
    ) -> impl FnOnce(&mut Nic, &mut HostPort) -> Posted + '_ {
        let Wanted { from, word, mask } = wanted;
        move |nic, port| {
            // From anybody: the NIC does not know that nobody will send any more.
            if from.is_none()
                && let Some(peer) = self.inner.job.lost.peer()
            {
                return Posted::Done(Outcome::Failed(Fault::PeerDown(peer)));
            }
            nic.post_receive(from, word, mask, into, port)
        }
    }

    pub(crate) fn job(&self) -> &Arc<Job> {
        &self.inner.job
    }

    pub(crate) fn driver(&self) -> &Driver {
        &self.inner.job.driver
    }

    /// We, as collectives want to know.
    pub(crate) fn member(&self) -> Member<'_> {
        let home = match self.driver() {
            driver if driver.has_other_hosts() => Home::Spread,
            driver if driver.is_crowded() => Home::Crowded,
            _ => Home::Near,
        };
        Member { home, ..self.inner.members.member() }
    }

    /// Counts a collective that this rank leaves out: it has found an error before the collective began.
    pub(crate) fn leave_out(&self) {
        self.next_instance();
        self.inner.members.leave_out();
    }

    /// The number of the next collective: alike on all ranks, since all call them in the same order.
    pub(crate) fn next_instance(&self) -> u16 {
        self.inner.members.next_instance()
    }

    /// The process behind a rank, and what a message to it says of itself.
    pub(crate) fn address(
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
        let (peer, word) = self.inner.members.address(to, tag);
        if let Some((watch, item)) = self.type_watch(what) {
            watch.on_send(peer, word, item);
        }
        Ok((peer, word))
    }

    /// What a receive insists on.
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

    /// A rank that exists.
    pub(crate) fn rank_of(&self, what: What, rank: i64) -> Result<u32, Error> {
        let rank = u32::try_from(rank).ok().filter(|&rank| rank < self.inner.members.reach());
        rank.ok_or_else(|| match self.is_revoked() {
            true => Error::Revoked { call: self.call(what) },
            false => Error::NoSuchRank { call: self.call(what), size: self.size() },
        })
    }

    fn tag_of(&self, what: What, tag: i64) -> Result<u32, Error> {
        let tag = u32::try_from(tag).ok().filter(|&tag| tag <= TAG_MAX);
        tag.ok_or_else(|| Error::NoSuchTag { call: self.call(what) })
    }

    /// What a send came to.
    pub(crate) fn sent(&self, what: What, outcome: Outcome) -> Result<(), Error> {
        match outcome {
            Outcome::Done => Ok(()),
            other => Err(self.error(what, other)),
        }
    }

    /// What a receive came to.
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

    /// What watches the types of messages, and the type of this one. Modules make messages of their own.
    fn type_watch(&self, what: What) -> Option<(&Watch, &'static str)> {
        let watch = self.inner.job.watch.as_deref().filter(|_| self.inner.module.is_none())?;
        Some((watch, what.item?))
    }

    /// Whether a message has been received as what it was sent.
    pub(crate) fn check_type(&self, what: What, word: MatchWord) -> Result<(), Error> {
        let Some((watch, received)) = self.type_watch(what) else { return Ok(()) };
        match watch.on_received(self.driver().me(), word, received) {
            None => Ok(()),
            Some(sent) => Err(Error::WrongType {
                call: self.call(what),
                rank: word.source(),
                theirs: sent.into(),
                ours: received.into(),
            }),
        }
    }

    /// The number of the collective that is called, which is alike on all ranks; and what is wrong if another rank has
    /// called a different one.
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

    /// Says that this rank waits in a call, until what this gives is dropped.
    pub(crate) fn enter(&self, what: What) -> Option<Entered<'_>> {
        let watch = self.inner.job.watch.as_deref()?;
        Some(watch.enter(self.driver().me().0, self.call(what)))
    }

    /// The one place where a fault becomes an error.
    pub(crate) fn error(&self, what: What, outcome: Outcome) -> Error {
        match outcome {
            Outcome::Failed(Fault::Truncated { len, .. }) => {
                Error::Truncated { call: self.call(what), bytes: len }
            }
            Outcome::Failed(Fault::PeerDown(peer)) => self.lost(what, peer),
            Outcome::Failed(Fault::Module { word, trap }) => {
                let fault = ModuleFault::of(word, trap);
                Error::Module { call: self.call(what), why: fault.to_string() }
            }
            Outcome::Failed(Fault::Revoked) => Error::Revoked { call: self.call(what) },
            _ if self.is_revoked() => Error::Revoked { call: self.call(what) },
            _ => Error::Cancelled { call: self.call(what) },
        }
    }

    fn lost(&self, what: What, peer: Peer) -> Error {
        let Inner { job, members, .. } = &*self.inner;
        let (peer, loss) = match (job.lost.peer(), job.driver.trouble(peer)) {
            (Some(culprit), _) if job.lost.is_late() => (culprit, Loss::TimedOut),
            (Some(culprit), _) => (culprit, Loss::Panicked),
            (None, Some(why)) => (peer, Loss::Unreachable(why)),
            (None, None) => (peer, Loss::Left),
        };
        let (call, rank) = (self.call(what), members.group().rank_of(peer));
        Error::RankLost { call, rank, world_rank: peer.0, loss }
    }

    pub(crate) fn what_all(&self, name: &'static str) -> What {
        What { name, bytes: None, with: With::All, tag: None, item: None }
    }

    #[cold]
    pub(crate) fn call(&self, what: What) -> Box<Call> {
        let What { name, bytes, with, tag, .. } = what;
        Box::new(Call { name, comm: Arc::clone(&self.inner.name), bytes, with, tag })
    }
}

impl What {
    pub(crate) fn sending<T: Plain>(name: &'static str, bytes: &[u8], to: Rank, tag: Tag) -> What {
        let (bytes, item) = (Some(bytes.len() as u64), Some(T::type_name()));
        What { name, bytes, with: With::To(to), tag: Some(tag), item }
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

    /// A receive of whatever length the message has.
    pub(crate) fn of_any_length<T: Plain>(name: &'static str, from: Source, tag: Tag) -> What {
        let item = Some(T::type_name());
        What { name, bytes: None, with: With::From(from), tag: Some(tag), item }
    }
}

impl fmt::Debug for Comm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, rank {} of {}", self.name(), self.rank(), self.size())
    }
}

/// What a rank wants of a split, as it travelled.
fn want(sent: &[i64; 3]) -> Want {
    let [wants, color, key] = *sent;
    let color = u32::try_from(color).expect("it was one");
    Want { color: (wants != 0).then_some(color), key: i32::try_from(key).expect("it was one") }
}

fn probed(seen: Seen) -> Probed {
    Probed { source: seen.word.source(), tag: seen.word.tag(), bytes: size(seen.len) }
}

/// Lengths travel as 64 bits.
pub(crate) fn size(bytes: u64) -> usize {
    usize::try_from(bytes).expect("what another rank has in memory would fit into ours")
}
