//! How communicators are made, and how they end.
//!
//! Whoever makes one has to agree with the other members on its number. That takes a small reduction, and
//! is written once, as a recipe: a call that waits performs it, one that does not begins it.
//!
//! Invariants, cited below by number.
//!   I1. What is lent to a schedule lives in the recipe, or on the stack of a call that waits.

use std::ffi::c_int;
use std::sync::{Arc, Mutex, PoisonError};

use ferrywire_host::memory;
use ferrywire_host::nic::{Consult, Mask, Mode, Outcome, Peer, Posted, Schedule, Span, Step};
use ferrywire_mpi::agreement::{Ballot, Promise, ROOM_BYTES, agree_by, agreement};
use ferrywire_mpi::collective::{self as algorithm, Combiner};
use ferrywire_mpi::comm::{Comm as Members, TAG_MAX};
use ferrywire_mpi::group::{self, Group, Want};
use ferrywire_mpi::numbers::COMMS_MAX;
use ferrywire_mpi::operation::{self, Number, Operation};

use crate::attribute::Attributes;
use crate::comm::{self, Comm};
use crate::constants::{
    MPI_COMM_NULL, MPI_COMM_SELF, MPI_COMM_TYPE_HW_GUIDED, MPI_COMM_TYPE_HW_UNGUIDED,
    MPI_COMM_TYPE_RESOURCE_GUIDED, MPI_COMM_TYPE_SHARED, MPI_COMM_WORLD, MPI_CONGRUENT,
    MPI_ERR_ARG, MPI_ERR_COMM, MPI_ERR_GROUP, MPI_ERR_OTHER, MPI_IDENT, MPI_SIMILAR, MPI_UNDEFINED,
    MPI_UNEQUAL,
};
use crate::entry::entries;
use crate::errhandler::{self, Handler};
use crate::failure::{Failure, Result};
use crate::handle::{self, Shared};
use crate::info;
use crate::message;
use crate::plane::{self, Agreed, Plane};
use crate::pointer::{Out, Text};
use crate::process;
use crate::request::{End, Next, Recipe, Request};
use crate::types::{MPI_Comm, MPI_Errhandler, MPI_Group, MPI_Info, MPI_Request, MPI_Status};

/// Those who agree.
enum Those {
    /// All of the communicator that the recipe is of, on both sides if it has two, in the call with this instance.
    Everyone { instance: u16 },
    /// Some of them, among whom we are `rank`, under a tag.
    Some { group: Group, rank: u32, tag: u32 },
}

/// Agrees on the number of a communicator, and makes it.
struct Agreement<M> {
    those: Those,
    promise: Promise,
    /// What the schedule works in.
    room: Box<[u8]>,
    /// Makes it. Taken when it is called.
    make: Option<M>,
}

impl<M: FnOnce(Agreed) -> Result + Send> Agreement<M> {
    fn new(those: Those, make: M) -> Agreement<M> {
        let (promise, room) = (Promise::default(), crate::data::room(ROOM_BYTES as u64));
        Agreement { those, promise, room, make: Some(make) }
    }
}

impl<M: FnOnce(Agreed) -> Result + Send> Recipe for Agreement<M> {
    fn start(&mut self, comm: &Shared<Comm>) -> Result<Posted> {
        let process = process::running()?;
        let (me, instance) = match &self.those {
            Those::Everyone { instance } => (comm.members.member_of_everyone(), *instance),
            Those::Some { group, rank, tag } => comm.members.part(group, *rank, *tag),
        };
        let room = memory::lend_mut(&mut self.room);
        let (schedule, promise) = agreement(me, &process.numbers, plane::vote()?, room);
        self.promise = promise;
        // SAFETY: I1.
        Ok(unsafe {
            self.driver(comm).submit(|nic, port| nic.post_schedule(schedule.into(), instance, port))
        })
    }

    fn finish(&mut self, _: &Shared<Comm>, end: End) -> Result<Next> {
        if end.outcome != Outcome::Done {
            return Err(message::failed(end.outcome));
        }
        let agreed = self.promise.take().ok_or_else(no_number)?;
        let make = self.make.take().expect("it is made once");
        make(agreed.into())?;
        Ok(Next::Over(MPI_Status::EMPTY))
    }

    /// All agreements are in the first plane, where they take turns.
    fn driver(&self, comm: &Comm) -> Plane {
        Plane::first().unwrap_or(comm.driver())
    }
}

#[cold]
pub(crate) fn no_number() -> Failure {
    let why = format!(
        "the members have no number in common that is free: each can have {COMMS_MAX} communicators; free some"
    );
    Failure::new(MPI_ERR_OTHER, why)
}

/// Agrees with everybody of a communicator, or some of them, and makes another one.
fn agree(
    comm: Shared<Comm>,
    those: Those,
    make: impl FnOnce(Agreed) -> Result + Send + 'static,
) -> Result {
    let recipe: Box<dyn Recipe> = Box::new(Agreement::new(those, make));
    Request::perform(comm, recipe).map(|_| ())
}

/// An instance for the next persistent collective of a communicator, and the communicator whose number goes with it: the
/// same, or one that stands for nothing else. Ranks may start persistent collectives in any order, so that no two that
/// live may have an instance in common, and nobody knows which of them live at other ranks. So an instance is given
/// away once, and when there are no more, all ranks agree on a further number. It is free again when the last
/// collective under it has gone.
pub(crate) fn persistent_instance(comm: &Shared<Comm>) -> Result<(Shared<Comm>, u16)> {
    let mut space = comm.space();
    loop {
        let current = space.as_ref().unwrap_or(comm);
        if let Some(instance) = current.members.next_persistent_instance() {
            return Ok((Shared::clone(current), instance));
        }
        let (made, old) = (Made::default(), Shared::clone(comm));
        let place = made.clone();
        let those = Those::Everyone { instance: comm.members.next_instance() };
        agree(Shared::clone(comm), those, move |agreed| {
            let members = old.members.renumbered(agreed.claim.number());
            place.put(Comm::made(members, agreed, old.title(), &old)?);
            Ok(())
        })?;
        *space = Some(handle::share(made.take()));
    }
}

/// A communicator that the library makes for itself.
#[derive(Clone, Default)]
struct Made(Arc<Mutex<Option<Comm>>>);

impl Made {
    fn put(&self, comm: Comm) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(comm);
    }

    fn take(&self) -> Comm {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take().expect("it was made")
    }
}

/// A place for the new communicator, which the program keeps until it is there.
struct Place(Out<MPI_Comm>);

// SAFETY: the program keeps it for us, whichever thread fills it.
unsafe impl Send for Place {}

impl Place {
    fn put(&self, comm: Comm) -> Result {
        self.0.put(MPI_Comm(handle::expose(handle::share(comm))))
    }
}

/// What a duplicate begins with.
struct Copied {
    attributes: Attributes,
}

/// The recipe of a duplicate.
fn duplicate(
    handle: MPI_Comm,
    comm: &Shared<Comm>,
    newcomm: Out<MPI_Comm>,
    info: Option<MPI_Info>,
) -> Result<Box<dyn Recipe>> {
    let instance = comm.members.next_instance();
    let copied = Copied { attributes: comm.attributes.copy_for_dup(handle.0)? };
    let info = info.map_or_else(|| Ok(comm.info()), info::hints)?;
    let (place, old) = (Place(newcomm), Shared::clone(comm));
    let make = move |agreed: Agreed| {
        let members = old.members.renumbered(agreed.claim.number());
        let origin = format!("a duplicate of {}", old.title());
        let mut new = Comm::made(members, agreed, origin, &old)?;
        new.attributes = copied.attributes;
        new.set_info(info);
        place.put(new)
    };
    Ok(Box::new(Agreement::new(Those::Everyone { instance }, make)))
}

/// Another communicator of the same ranks, which can have a module.
pub(crate) fn for_module(comm: &Shared<Comm>, instance: u16, name: &str) -> Result<Comm> {
    let (made, old) = (Made::default(), Shared::clone(comm));
    let place = made.clone();
    agree(Shared::clone(comm), Those::Everyone { instance }, move |agreed| {
        let members = old.members.renumbered(agreed.claim.number()).with_module();
        let origin = format!("a communicator with a module, of {}", old.title());
        place.put(Comm::made(members, agreed, origin, &old)?.with_module());
        Ok(())
    })?;
    let new = made.take();
    new.set_name(name.into());
    Ok(new)
}

/// Runs a schedule of a communicator to its end. What it is lent outlives the call. A call has one instance, under which
/// it runs all its schedules one after the other, so that all ranks count alike whatever errors one of them finds.
pub(crate) fn run(comm: &Comm, instance: u16, schedule: Schedule) -> Result {
    let schedule = Arc::new(schedule);
    // SAFETY: I1.
    let outcome = unsafe {
        plane::perform(comm.driver(), |nic, port| nic.post_schedule(schedule, instance, port))
    };
    message::sent(outcome)
}

/// What everybody of a communicator passes, in the order of `everyone`.
fn gather_from_everyone(comm: &Comm, instance: u16, mine: &[i64]) -> Result<Vec<i64>> {
    let me = comm.members.member_of_everyone();
    let mut mine = mine.to_vec();
    let mut all = vec![0; mine.len() * me.size() as usize];
    let (mine, all_span) = (lend(&mut mine), lend(&mut all));
    let mut work = crate::data::room(algorithm::allgather_work_bytes(me, mine.len));
    let work = memory::lend_mut(&mut work);
    run(comm, instance, algorithm::allgather(me, mine, all_span, work))?;
    Ok(all)
}

/// Numbers as a span.
fn lend(numbers: &mut [i64]) -> Span {
    let address = numbers.as_mut_ptr().expose_provenance() as u64;
    Span::new(memory::MEMORY, address, size_of_val(numbers) as u64)
}

/// Who is in the same group as we after a split of everybody: those of our side, and those of the other.
fn split(
    comm: &Shared<Comm>,
    instance: u16,
    color: Option<u32>,
    key: c_int,
    newcomm: Out<MPI_Comm>,
) -> Result {
    let mine = [color.map_or(-1, i64::from), i64::from(key)];
    let all = gather_from_everyone(comm, instance, &mine)?;
    let wants: Vec<Want> = all
        .chunks_exact(2)
        .map(|want| Want {
            color: u32::try_from(want[0]).ok(),
            key: i32::try_from(want[1]).expect("it was one"),
        })
        .collect();
    let members = &comm.members;
    let (ours, theirs) = match members.inter() {
        None => (wants, None),
        Some(inter) => {
            let (ours, theirs) = sides(&wants, members.group().size(), inter.is_first());
            (ours.to_vec(), Some((theirs.to_vec(), inter.is_first())))
        }
    };
    let me = members.rank();
    let group = group::split(&ours, me).map(|ranks| members.group().select(&ranks));
    let remote = theirs.map(|(theirs, first)| {
        let ranks = color.map(|color| group::of_color(&theirs, color)).unwrap_or_default();
        (members.targets().select(&ranks), first)
    });
    newcomm.put(MPI_COMM_NULL)?;
    let (place, old) = (Place(newcomm), Shared::clone(comm));
    agree(Shared::clone(comm), Those::Everyone { instance }, move |agreed| {
        let Some(group) = group else { return Ok(()) };
        let rank = rank_in(&group)?;
        let members = match remote {
            None => Members::new(group, rank, agreed.claim.number()),
            // Nobody over there wants the same.
            Some((remote, _)) if remote.size() == 0 => return Ok(()),
            Some((remote, first)) => {
                Members::between(group, rank, remote, first, agreed.claim.number())
            }
        };
        let origin = format!("a split of {}", old.title());
        place.put(Comm::made(members, agreed, origin, &old)?)
    })
}

/// What everybody passed, ours and theirs.
fn sides<T>(all: &[T], ours: u32, first: bool) -> (&[T], &[T]) {
    match first {
        true => all.split_at(ours as usize),
        false => {
            let (theirs, ours) = all.split_at(all.len() - ours as usize);
            (ours, theirs)
        }
    }
}

/// Our rank in a group of which we are a member.
fn rank_in(group: &Group) -> Result<u32> {
    let me = process::running()?.driver.me();
    group.rank_of(me).ok_or_else(|| Failure::new(MPI_ERR_GROUP, "we are not in the group"))
}

/// A communicator of the members of a group, which everybody of `comm` asks for.
fn create(comm: &Shared<Comm>, instance: u16, group: Group, newcomm: Out<MPI_Comm>) -> Result {
    newcomm.put(MPI_COMM_NULL)?;
    let outside = group.members().any(|peer| comm.members.group().rank_of(peer).is_none());
    if outside {
        return Err(Failure::new(
            MPI_ERR_GROUP,
            "the group has members that the communicator lacks",
        ));
    }
    let me = process::running()?.driver.me();
    let rank = group.rank_of(me);
    let remote = match comm.members.inter() {
        None => None,
        Some(inter) => {
            let first = inter.is_first();
            let all = gather_from_everyone(comm, instance, &[rank.map_or(-1, i64::from)])?;
            let (_, theirs) = sides(&all, comm.members.group().size(), first);
            let mut ranks: Vec<(i64, u32)> = theirs.iter().copied().zip(0..).collect();
            ranks.retain(|&(rank, _)| rank >= 0);
            ranks.sort_unstable();
            let ranks: Vec<u32> = ranks.into_iter().map(|(_, rank)| rank).collect();
            Some((inter.remote.select(&ranks), first))
        }
    };
    let (place, old) = (Place(newcomm), Shared::clone(comm));
    agree(Shared::clone(comm), Those::Everyone { instance }, move |agreed| {
        let Some(rank) = rank else { return Ok(()) };
        let members = match remote {
            None => Members::new(group, rank, agreed.claim.number()),
            Some((remote, _)) if remote.size() == 0 => return Ok(()),
            Some((remote, first)) => {
                Members::between(group, rank, remote, first, agreed.claim.number())
            }
        };
        let origin = format!("a part of {}", old.title());
        place.put(Comm::made(members, agreed, origin, &old)?)
    })
}

/// A communicator of the members of a group, which only they ask for, under a tag of their own.
fn create_among(
    comm: &Shared<Comm>,
    group: Group,
    tag: u32,
    newcomm: Out<MPI_Comm>,
    handler: Option<Handler>,
) -> Result {
    newcomm.put(MPI_COMM_NULL)?;
    let Some(rank) = group.rank_of(process::running()?.driver.me()) else { return Ok(()) };
    let (place, old) = (Place(newcomm), Shared::clone(comm));
    let those = Those::Some { group: group.clone(), rank, tag };
    agree(Shared::clone(comm), those, move |agreed| {
        let members = Members::new(group, rank, agreed.claim.number());
        let origin = format!("a part of {}", old.title());
        let new = Comm::made(members, agreed, origin, &old)?;
        if let Some(handler) = handler {
            new.set_handler(handler);
        }
        place.put(new)
    })
}

/// The leader of a group that is to be one side of a communicator, and how it reaches the other's.
struct Bridge<'a> {
    local: &'a Shared<Comm>,
    instance: u16,
    leader: u32,
    /// At the leader: the communicator, the rank of the other leader there, and the tag.
    across: Option<(Shared<Comm>, u32, u32)>,
}

impl Bridge<'_> {
    /// Tells the other side something, and everybody here what the other side tells. As many numbers
    /// go as come.
    fn exchange(&self, mine: &[i64]) -> Result<Vec<i64>> {
        let mut theirs = vec![0; mine.len()];
        if let Some((comm, other, tag)) = &self.across {
            let mut mine = mine.to_vec();
            swap(comm, *other, *tag, lend(&mut mine), lend(&mut theirs))?;
        }
        let me = self.local.members.member();
        let schedule = algorithm::broadcast(me, self.leader, lend(&mut theirs));
        run(self.local, self.instance, schedule)?;
        Ok(theirs)
    }

    /// Combines numbers of all members of both sides.
    fn combine(&self, operation: Operation, mine: &[u64]) -> Result<Vec<u64>> {
        let me = self.local.members.member();
        let mut ours: Vec<i64> = mine.iter().map(|word| word.cast_signed()).collect();
        let mut work = vec![0; mine.len()];
        let operator = operation::operator(operation, Number::U64).expect("it makes sense");
        let combiner = Combiner { operator, element_bytes: 8, commutative: true };
        let bytes = lend(&mut ours);
        let schedule = algorithm::allreduce(me, combiner, bytes, bytes, lend(&mut work));
        run(self.local, self.instance, schedule)?;
        let theirs = self.exchange(&ours)?;
        let both = ours.iter().zip(theirs);
        Ok(both
            .map(|(ours, theirs)| {
                let mut both = theirs.to_ne_bytes();
                operation::combine(operator, &ours.to_ne_bytes(), &mut both);
                u64::from_ne_bytes(both)
            })
            .collect())
    }

    /// The other group, and whether ours comes first where both are counted.
    fn meet(&self) -> Result<(Group, bool)> {
        let group = self.local.members.group();
        let mut ours: Vec<i64> = group.members().map(|peer| i64::from(peer.0)).collect();
        let sizes = self.exchange(&[ours.len() as i64])?;
        let theirs = usize::try_from(sizes[0]).unwrap_or(0);
        let first = ours[self.leader as usize];
        let size = ours.len();
        ours.insert(0, first);
        ours.resize(1 + size.max(theirs), 0);
        let answer = self.exchange(&ours)?;
        let peers: Option<Vec<Peer>> =
            answer[1..=theirs].iter().map(|&peer| u32::try_from(peer).ok().map(Peer)).collect();
        let peers = peers.ok_or_else(|| crate::failure::internal("a peer that is none"))?;
        if peers.iter().any(|&peer| group.rank_of(peer).is_some()) {
            return Err(Failure::new(MPI_ERR_COMM, "the two groups have members in common"));
        }
        Ok((Group::of(&peers), first < answer[0]))
    }

    /// A number and a plane on which both sides agree.
    fn agree(&self) -> Result<Agreed> {
        let process = process::running()?;
        let agreed = agree_by(
            &process.numbers,
            plane::vote()?,
            |stamp| Ok(self.combine(Operation::Max, &[stamp])?[0]),
            |whom, bytes| self.consult(whom, bytes),
            |ballot| {
                let common = self.combine(Operation::BitAnd, ballot)?;
                Ok(Ballot::try_from(common).expect("as many as were sent"))
            },
        );
        // Whatever came of it, others may have waited for their turn.
        // SAFETY: it lends nothing.
        unsafe { process.driver.submit(|nic, port| nic.on_change(port)) };
        agreed?.map(Agreed::from).ok_or_else(no_number)
    }

    /// Waits for our turn.
    fn consult(&self, whom: Arc<dyn Consult>, bytes: &mut [u8]) -> Result {
        let members = &self.local.members;
        let mut schedule = Schedule::new(members.group_id(), members.rank());
        schedule.push(Step::Consult { whom, bytes: memory::lend_mut(bytes) }, &[]);
        let (driver, instance) = (Plane::first()?, self.instance);
        // SAFETY: I1.
        let outcome = unsafe {
            plane::perform(driver, |nic, port| {
                nic.on_change(port);
                nic.post_schedule(schedule.into(), instance, port)
            })
        };
        message::sent(outcome)
    }

    /// Makes the communicator between the two.
    fn build(&self, newintercomm: Out<MPI_Comm>, handler: Option<Handler>) -> Result {
        let (remote, first) = self.meet()?;
        let agreed = self.agree()?;
        let members = &self.local.members;
        let (group, rank) = (members.group().clone(), members.rank());
        let between = Members::between(group, rank, remote, first, agreed.claim.number());
        let origin = format!("a bridge from {}", self.local.title());
        let new = Comm::made(between, agreed, origin, self.local)?;
        if let Some(handler) = handler {
            new.set_handler(handler);
        }
        Place(newintercomm).put(new)
    }
}

/// Exchanges bytes with another rank, apart from everything that users and collectives do.
fn swap(comm: &Comm, other: u32, tag: u32, mine: Span, theirs: Span) -> Result {
    let driver = comm.driver();
    let (peer, out, back) = comm.members.pair(other, tag);
    // SAFETY: I1.
    let receive = unsafe {
        driver.submit(|nic, port| nic.post_receive(Some(peer), back, Mask::EXACT, theirs, port))
    };
    // SAFETY: I1.
    let sent = unsafe {
        plane::perform(driver, |nic, port| nic.post_send(peer, out, mine, Mode::Standard, port))
    };
    let received = match receive {
        Posted::Done(outcome) => outcome,
        Posted::Pending(ticket) => plane::wait(driver, ticket),
    };
    message::sent(sent)?;
    match received {
        Outcome::Received(_) => Ok(()),
        other => Err(message::failed(other)),
    }
}

/// One communicator of both sides of another.
fn merge(comm: &Shared<Comm>, high: bool, newcomm: Out<MPI_Comm>) -> Result {
    let instance = comm.members.next_instance();
    let Some(inter) = comm.members.inter() else {
        return Err(Failure::new(MPI_ERR_COMM, "the communicator has one side only"));
    };
    let all = gather_from_everyone(comm, instance, &[i64::from(high)])?;
    let (_, theirs) = sides(&all, comm.members.group().size(), inter.is_first());
    let they_are_high = theirs.first().is_some_and(|&high| high != 0);
    let ours_first = if they_are_high == high { inter.is_first() } else { !high };
    let (ours, theirs) = (comm.members.group(), &inter.remote);
    let group = if ours_first { ours.union(theirs) } else { theirs.union(ours) };
    let (place, old) = (Place(newcomm), Shared::clone(comm));
    agree(Shared::clone(comm), Those::Everyone { instance }, move |agreed| {
        let rank = rank_in(&group)?;
        let members = Members::new(group, rank, agreed.claim.number());
        let origin = format!("both sides of {}", old.title());
        place.put(Comm::made(members, agreed, origin, &old)?)
    })
}

/// How alike two communicators are.
fn compare(one: MPI_Comm, other: MPI_Comm) -> Result<c_int> {
    let (first, second) = (comm::find(one)?, comm::find(other)?);
    if std::ptr::eq(first, second) {
        return Ok(MPI_IDENT);
    }
    let (first, second) = (&first.members, &second.members);
    if first.inter().is_some() != second.inter().is_some() {
        return Ok(MPI_UNEQUAL);
    }
    let groups = [(first.group(), second.group()), (first.targets(), second.targets())];
    Ok(if groups.iter().all(|(one, other)| one == other) {
        MPI_CONGRUENT
    } else if groups.iter().all(|(one, other)| one.has_same_members(other)) {
        MPI_SIMILAR
    } else {
        MPI_UNEQUAL
    })
}

pub(crate) fn free(comm: Out<MPI_Comm>) -> Result {
    let handle = comm.get()?;
    if handle == MPI_COMM_WORLD || handle == MPI_COMM_SELF {
        return Err(Failure::new(MPI_ERR_COMM, "MPI_COMM_WORLD and MPI_COMM_SELF cannot be freed"));
    }
    comm::find(handle)?.attributes.delete_all(handle.0)?;
    handle::take::<Comm>(handle.0)?;
    comm.put(MPI_COMM_NULL)
}

/// A number for a string that all who pass it have in common.
fn tag_of(text: &str) -> u32 {
    // The FNV-1a hash: alike on all ranks, whatever library they use. A tag has 24 bits, and gets them all.
    let mix = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    let hash = text.bytes().fold(0x811c_9dc5, mix);
    hash >> 24 ^ hash & TAG_MAX
}

entries! {
    fn MPI_Comm_dup(comm: MPI_Comm, newcomm: Out<MPI_Comm>) on comm {
        let old = comm::share_of(comm)?;
        let recipe = duplicate(comm, &old, newcomm, None)?;
        Request::perform(old, recipe).map(|_| ())
    }

    fn MPI_Comm_dup_with_info(comm: MPI_Comm, info: MPI_Info, newcomm: Out<MPI_Comm>) on comm {
        let old = comm::share_of(comm)?;
        let recipe = duplicate(comm, &old, newcomm, Some(info))?;
        Request::perform(old, recipe).map(|_| ())
    }

    fn MPI_Comm_idup(comm: MPI_Comm, newcomm: Out<MPI_Comm>, request: Out<MPI_Request>) on comm {
        let old = comm::share_of(comm)?;
        let recipe = duplicate(comm, &old, newcomm, None)?;
        request.put(Request::begin(old, recipe)?)
    }

    fn MPI_Comm_idup_with_info(
        comm: MPI_Comm, info: MPI_Info, newcomm: Out<MPI_Comm>, request: Out<MPI_Request>,
    ) on comm {
        let old = comm::share_of(comm)?;
        let recipe = duplicate(comm, &old, newcomm, Some(info))?;
        request.put(Request::begin(old, recipe)?)
    }

    fn MPI_Comm_split(comm: MPI_Comm, color: c_int, key: c_int, newcomm: Out<MPI_Comm>) on comm {
        let comm = comm::share_of(comm)?;
        let instance = comm.members.next_instance();
        let color = match (color, u32::try_from(color)) {
            (MPI_UNDEFINED, _) => None,
            (_, Ok(color)) => Some(color),
            _ => {
                let why = format!("the color is {color}, and must be MPI_UNDEFINED or at least 0");
                return Err(Failure::new(MPI_ERR_ARG, why));
            }
        };
        split(&comm, instance, color, key, newcomm)
    }

    fn MPI_Comm_split_type(
        comm: MPI_Comm, split_type: c_int, key: c_int, info: MPI_Info, newcomm: Out<MPI_Comm>,
    ) on comm {
        let comm = comm::share_of(comm)?;
        let instance = comm.members.next_instance();
        // Ranks of a host share its memory; what other parts it has is not ours to know.
        let hints = info::hints(info)?;
        let resource = hints.value("mpi_hw_resource_type");
        let shared = match split_type {
            MPI_COMM_TYPE_SHARED => true,
            MPI_COMM_TYPE_HW_GUIDED | MPI_COMM_TYPE_RESOURCE_GUIDED => {
                resource == Some("mpi_shared_memory")
            }
            MPI_COMM_TYPE_HW_UNGUIDED | MPI_UNDEFINED => false,
            other => {
                let why = format!("{other} is no way to split a communicator");
                return Err(Failure::new(MPI_ERR_ARG, why));
            }
        };
        let color = match shared {
            true => Some(process::running()?.driver.first_here().0),
            false => None,
        };
        split(&comm, instance, color, key, newcomm)
    }

    fn MPI_Comm_create(comm: MPI_Comm, group: MPI_Group, newcomm: Out<MPI_Comm>) on comm {
        let comm = comm::share_of(comm)?;
        let instance = comm.members.next_instance();
        create(&comm, instance, crate::group::find(group)?, newcomm)
    }

    fn MPI_Comm_create_group(
        comm: MPI_Comm, group: MPI_Group, tag: c_int, newcomm: Out<MPI_Comm>,
    ) on comm {
        let group = crate::group::find(group)?;
        create_among(&comm::share_of(comm)?, group, tag.cast_unsigned(), newcomm, None)
    }

    fn MPI_Comm_create_from_group(
        group: MPI_Group, stringtag: Text, _info: MPI_Info, errhandler: MPI_Errhandler,
        newcomm: Out<MPI_Comm>,
    ) {
        let world = Shared::clone(&process::running()?.world);
        let tag = tag_of(&stringtag.get()?);
        let handler = errhandler::find(errhandler::Sort::Comm, errhandler)?;
        create_among(&world, crate::group::find(group)?, tag, newcomm, Some(handler))
    }

    fn MPI_Intercomm_create(
        local_comm: MPI_Comm, local_leader: c_int, peer_comm: MPI_Comm, remote_leader: c_int,
        tag: c_int, newintercomm: Out<MPI_Comm>,
    ) on local_comm {
        let local = comm::share_of(local_comm)?;
        let instance = local.members.next_instance();
        let leader = local.target(local_leader)?.ok_or_else(|| no_leader(local_leader))?;
        let across = if local.members.rank() == leader {
            let peers = comm::share_of(peer_comm)?;
            let other = peers.target(remote_leader)?.ok_or_else(|| no_leader(remote_leader))?;
            Some((peers, other, tag.cast_unsigned()))
        } else {
            None
        };
        Bridge { local: &local, instance, leader, across }.build(newintercomm, None)
    }

    fn MPI_Intercomm_create_from_groups(
        local_group: MPI_Group, local_leader: c_int, remote_group: MPI_Group,
        remote_leader: c_int, stringtag: Text, info: MPI_Info, errhandler: MPI_Errhandler,
        newintercomm: Out<MPI_Comm>,
    ) {
        let _ = info;
        let process = process::running()?;
        let (ours, theirs) = (crate::group::find(local_group)?, crate::group::find(remote_group)?);
        let tag = tag_of(&stringtag.get()?);
        let handler = errhandler::find(errhandler::Sort::Comm, errhandler)?;
        // A communicator of our side for the time being.
        let mut handle = MPI_COMM_NULL;
        let place = Out::to(&mut handle);
        create_among(&process.world, ours.clone(), tag, place, None)?;
        let local = comm::share_of(handle)?;
        let instance = local.members.next_instance();
        let leader = local.target(local_leader)?.ok_or_else(|| no_leader(local_leader))?;
        let across = (local.members.rank() == leader).then(|| {
            let other = u32::try_from(remote_leader).ok().filter(|&rank| rank < theirs.size());
            let other = other.ok_or_else(|| no_leader(remote_leader))?;
            Ok((Shared::clone(&process.world), theirs.peer_of(other).0, tag))
        });
        let bridge = Bridge { local: &local, instance, leader, across: across.transpose()? };
        bridge.build(newintercomm, Some(handler))?;
        drop(local);
        free(Out::to(&mut handle))
    }

    fn MPI_Intercomm_merge(
        intercomm: MPI_Comm, high: c_int, newintracomm: Out<MPI_Comm>,
    ) on intercomm {
        merge(&comm::share_of(intercomm)?, high != 0, newintracomm)
    }

    fn MPI_Comm_compare(comm1: MPI_Comm, comm2: MPI_Comm, result: Out<c_int>) on comm1 {
        result.put(compare(comm1, comm2)?)
    }

    fn MPI_Comm_free(comm: Out<MPI_Comm>) {
        free(comm)
    }

    fn MPI_Comm_disconnect(comm: Out<MPI_Comm>) {
        // Everything that is under way has to be over; what others still send us is theirs to wait for.
        free(comm)
    }

    fn MPI_Comm_get_parent(parent: Out<MPI_Comm>) {
        parent.put(MPI_COMM_NULL)
    }
}

#[cold]
fn no_leader(rank: c_int) -> Failure {
    Failure::new(MPI_ERR_ARG, format!("rank {rank} cannot lead"))
}
