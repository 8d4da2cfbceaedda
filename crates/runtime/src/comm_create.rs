//! Creation of communicators.
//!
//! The members of a new communicator agree on its number, and on whether it may be in another plane than the first.
//! An agreement is one schedule ([`ferrywire_mpi::number_agreement`]); all of them run in the first plane, where they
//! take turns. A call takes one instance of its communicator and runs all its schedules under it, one after the
//! other, so that the counts of all ranks agree whatever errors one of them finds.
//!
//! Invariants, cited below by number.
//!   I1. Memory lent to a schedule is on the stack of a call that waits for it.

use std::fmt;
use std::sync::Arc;

use ferrywire_host::ErrorCode;
use ferrywire_host::memory;
use ferrywire_host::nic::{Consult, Mask, Mode, Outcome, Peer, Posted, Schedule, Span, Step};
use ferrywire_mpi::collective::{self as algorithm, ReduceOp};
use ferrywire_mpi::comm::Comm as Members;
use ferrywire_mpi::group::{self, Group, Want};
use ferrywire_mpi::number_agreement::{
    Agreed, NumberBallot, NumberPromise, ROOM_BYTES, agree_by, number_agreement,
};
use ferrywire_mpi::numbers::COMMS_MAX;
use ferrywire_mpi::operation::{self, Number, Operation};

use crate::comm::Comm;
use crate::failure::Failure;

/// A new communicator, which the front keeps.
pub struct Created {
    /// The members.
    pub members: Members,
    /// The result of the agreement.
    pub agreed: Agreed,
}

/// Why a communicator could not be created.
#[derive(Debug)]
pub enum CreateError {
    /// The agreement failed.
    Failed(Failure),
    /// The members have no free number in common.
    NoFreeNumber,
    /// This process is not in the group.
    NotInGroup,
    /// The group has members that are not in the communicator.
    GroupOutside,
    /// The communicator has one group, and the call needs two.
    NoRemoteGroup,
    /// The two groups have members in common.
    GroupsOverlap,
}

impl From<Failure> for CreateError {
    fn from(failure: Failure) -> CreateError {
        CreateError::Failed(failure)
    }
}

impl CreateError {
    /// Its code, with which the text of an error ends.
    pub fn code(&self) -> ErrorCode {
        match self {
            CreateError::Failed(failure) => failure.code(),
            CreateError::NoFreeNumber => ErrorCode::TOO_MANY_COMMS,
            CreateError::NotInGroup | CreateError::GroupOutside | CreateError::GroupsOverlap => {
                ErrorCode::GROUP
            }
            CreateError::NoRemoteGroup => ErrorCode::INTERCOMM,
        }
    }
}

impl fmt::Display for CreateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CreateError::Failed(failure) => write!(f, "{failure}"),
            CreateError::NoFreeNumber => write!(
                f,
                "the members have no free communicator number in common: a rank can have {COMMS_MAX} \
                 communicators; free some"
            ),
            CreateError::NotInGroup => write!(f, "the calling rank is not in the group"),
            CreateError::GroupOutside => {
                write!(f, "the group has members that are not in the communicator")
            }
            CreateError::NoRemoteGroup => write!(f, "the communicator is not an intercommunicator"),
            CreateError::GroupsOverlap => write!(f, "the two groups have members in common"),
        }
    }
}

/// The members of a communicator that agree on the number of a new one.
pub enum Agreeing<'a> {
    /// All of them, of both groups if there are two, in the call with this instance.
    Everyone {
        /// The instance.
        instance: u16,
    },
    /// A group of them, in which this process has rank `rank`.
    Group {
        /// The group.
        group: &'a Group,
        /// The rank of this process in it.
        rank: u32,
        /// Tells agreements of overlapping groups apart.
        tag: u32,
    },
}

/// Work space of [`Comm::start_agreement`], in bytes.
pub const AGREEMENT_BYTES: usize = ROOM_BYTES;

pub(crate) type Result<T> = std::result::Result<T, CreateError>;

impl Comm<'_> {
    /// Starts an agreement on a number, in the first plane. When the schedule is complete, the promise holds the
    /// result; without one, it is [`CreateError::NoFreeNumber`].
    ///
    /// # Safety
    /// `room`, of [`AGREEMENT_BYTES`], stays lent until the schedule is complete.
    pub unsafe fn start_agreement(self, who: &Agreeing<'_>, room: Span) -> (Posted, NumberPromise) {
        let members = self.members();
        let (me, instance) = match *who {
            Agreeing::Everyone { instance } => (members.member_of_everyone(), instance),
            Agreeing::Group { group, rank, tag } => members.part(group, rank, tag),
        };
        let process = self.process();
        let (schedule, promise) =
            number_agreement(me, process.numbers(), process.plane_vote(), room);
        // SAFETY: the caller's promise.
        let posted = unsafe {
            let schedule = Arc::new(schedule);
            process.first_plane().submit(|nic, port| nic.post_schedule(schedule, instance, port))
        };
        (posted, promise)
    }

    /// Agrees on a number, and waits for the result.
    pub fn agree_on_number(self, who: &Agreeing<'_>) -> Result<Agreed> {
        let mut room = [0; AGREEMENT_BYTES];
        // SAFETY: I1.
        let (posted, promise) = unsafe { self.start_agreement(who, memory::lend_mut(&mut room)) };
        let process = self.process();
        let outcome = match posted {
            Posted::Done(outcome) => outcome,
            Posted::Pending(ticket) => process.first_plane().wait(ticket),
        };
        process.done(outcome)?;
        promise.take().ok_or(CreateError::NoFreeNumber)
    }

    fn created(self, who: &Agreeing<'_>, members: impl FnOnce(u16) -> Members) -> Result<Created> {
        let agreed = self.agree_on_number(who)?;
        Ok(Created { members: members(agreed.claim.number()), agreed })
    }

    /// Creates a communicator of the same members.
    pub fn duplicate(self, instance: u16) -> Result<Created> {
        let who = Agreeing::Everyone { instance };
        self.created(&who, |number| self.members().renumbered(number))
    }

    /// Creates a communicator of the same members, with a module.
    pub fn duplicate_with_module(self, instance: u16) -> Result<Created> {
        let who = Agreeing::Everyone { instance };
        self.created(&who, |number| self.members().renumbered(number).with_module())
    }

    /// Creates communicators of the members that pass the same color, ordered by key. `None` for a member without a
    /// color, and if no member of the other group passes the same color.
    pub fn split(self, instance: u16, color: Option<u32>, key: i32) -> Result<Option<Created>> {
        let mine = [color.map_or(-1, i64::from), i64::from(key)];
        let all = self.gather_from_everyone(instance, &mine)?;
        let wants: Vec<Want> = all
            .chunks_exact(2)
            .map(|want| Want {
                color: u32::try_from(want[0]).ok(),
                key: i32::try_from(want[1]).expect("it was one"),
            })
            .collect();
        let members = self.members();
        let (ours, theirs) = match members.inter() {
            None => (wants, None),
            Some(inter) => {
                let (ours, theirs) = sides(&wants, members.group().size(), inter.is_first());
                (ours.to_vec(), Some((theirs.to_vec(), inter.is_first())))
            }
        };
        let group = group::split(&ours, members.rank()).map(|ranks| members.group().select(&ranks));
        let remote = theirs.map(|(theirs, first)| {
            let ranks = color.map(|color| group::of_color(&theirs, color)).unwrap_or_default();
            (members.targets().select(&ranks), first)
        });
        let agreed = self.agree_on_number(&Agreeing::Everyone { instance })?;
        let Some(group) = group else { return Ok(None) };
        let rank = self.rank_in(&group)?;
        Ok(of_groups(group, rank, remote, agreed))
    }

    /// Creates a communicator of a group. All members call it; those outside the group get `None`.
    pub fn create(self, instance: u16, group: Group) -> Result<Option<Created>> {
        let members = self.members();
        if group.members().any(|peer| members.group().rank_of(peer).is_none()) {
            return Err(CreateError::GroupOutside);
        }
        let rank = group.rank_of(self.plane().me());
        let remote = match members.inter() {
            None => None,
            Some(inter) => {
                let first = inter.is_first();
                let all = self.gather_from_everyone(instance, &[rank.map_or(-1, i64::from)])?;
                let (_, theirs) = sides(&all, members.group().size(), first);
                let mut ranks: Vec<(i64, u32)> = theirs.iter().copied().zip(0..).collect();
                ranks.retain(|&(rank, _)| rank >= 0);
                ranks.sort_unstable();
                let ranks: Vec<u32> = ranks.into_iter().map(|(_, rank)| rank).collect();
                Some((inter.remote.select(&ranks), first))
            }
        };
        let agreed = self.agree_on_number(&Agreeing::Everyone { instance })?;
        Ok(rank.and_then(|rank| of_groups(group, rank, remote, agreed)))
    }

    /// Creates a communicator of a group. Only its members call it, with a tag that tells calls apart. `None` outside
    /// the group.
    pub fn create_among(self, group: Group, tag: u32) -> Result<Option<Created>> {
        let Some(rank) = group.rank_of(self.plane().me()) else { return Ok(None) };
        let agreed = self.agree_on_number(&Agreeing::Group { group: &group, rank, tag })?;
        Ok(of_groups(group, rank, None, agreed))
    }

    /// Merges the two groups of an intercommunicator.
    pub fn merge(self, instance: u16, high: bool) -> Result<Created> {
        let members = self.members();
        let inter = members.inter().ok_or(CreateError::NoRemoteGroup)?;
        let all = self.gather_from_everyone(instance, &[i64::from(high)])?;
        let (_, theirs) = sides(&all, members.group().size(), inter.is_first());
        let they_are_high = theirs.first().is_some_and(|&high| high != 0);
        let ours_first = if they_are_high == high { inter.is_first() } else { !high };
        let (ours, theirs) = (members.group(), &inter.remote);
        let group = if ours_first { ours.union(theirs) } else { theirs.union(ours) };
        let rank = self.rank_in(&group)?;
        let who = Agreeing::Everyone { instance };
        self.created(&who, |number| Members::new(group, rank, number))
    }

    /// The rank of this process in a group.
    fn rank_in(self, group: &Group) -> Result<u32> {
        group.rank_of(self.plane().me()).ok_or(CreateError::NotInGroup)
    }

    /// Gathers the numbers that all members pass, of both groups if there are two.
    pub(crate) fn gather_from_everyone(self, instance: u16, mine: &[i64]) -> Result<Vec<i64>> {
        let me = self.members().member_of_everyone();
        let mut mine = mine.to_vec();
        let mut all = vec![0; mine.len() * me.size() as usize];
        let (mine, all_span) = (lend(&mut mine), lend(&mut all));
        let bytes = algorithm::allgather_work_bytes(me, mine.len);
        let mut work = vec![0; usize::try_from(bytes).expect("a few words for each rank")];
        let schedule = algorithm::allgather(me, mine, all_span, memory::lend_mut(&mut work));
        // SAFETY: I1.
        unsafe { self.run(instance, schedule) }?;
        Ok(all)
    }
}

/// A communicator of a group, or between two. `None` if the remote group is empty.
fn of_groups(
    group: Group,
    rank: u32,
    remote: Option<(Group, bool)>,
    agreed: Agreed,
) -> Option<Created> {
    let number = agreed.claim.number();
    let members = match remote {
        None => Members::new(group, rank, number),
        Some((remote, _)) if remote.size() == 0 => return None,
        Some((remote, first)) => Members::between(group, rank, remote, first, number),
    };
    Some(Created { members, agreed })
}

/// Lends numbers as a span.
pub(crate) fn lend(numbers: &mut [i64]) -> Span {
    let address = numbers.as_mut_ptr().expose_provenance() as u64;
    Span::new(memory::MEMORY, address, size_of_val(numbers) as u64)
}

/// Splits what all members passed into that of the local and that of the remote group.
fn sides<T>(all: &[T], ours: u32, first: bool) -> (&[T], &[T]) {
    match first {
        true => all.split_at(ours as usize),
        false => {
            let (theirs, ours) = all.split_at(all.len() - ours as usize);
            (ours, theirs)
        }
    }
}

/// Two groups that become the two sides of an intercommunicator. Each has a leader, and the leaders share a
/// communicator.
pub struct Bridge<'a> {
    /// A communicator of the local group.
    pub local: Comm<'a>,
    /// The instance of the call in it.
    pub instance: u16,
    /// The rank of the local leader in it.
    pub leader: u32,
    /// At the leader: the communicator of the leaders, the rank of the other leader in it, and the tag.
    pub across: Option<(Comm<'a>, u32, u32)>,
}

impl Bridge<'_> {
    /// Creates the intercommunicator.
    pub fn create(&self) -> Result<Created> {
        let (remote, first) = self.exchange_groups()?;
        let agreed = self.agree()?;
        let members = self.local.members();
        let (group, rank) = (members.group().clone(), members.rank());
        let members = Members::between(group, rank, remote, first, agreed.claim.number());
        Ok(Created { members, agreed })
    }

    /// Exchanges numbers with the other group: the leaders swap them, then each broadcasts to its group. Both send
    /// the same number of them.
    fn exchange(&self, mine: &[i64]) -> Result<Vec<i64>> {
        let mut theirs = vec![0; mine.len()];
        if let Some((comm, other, tag)) = self.across {
            let mut mine = mine.to_vec();
            swap(comm, other, tag, lend(&mut mine), lend(&mut theirs))?;
        }
        let me = self.local.members().member();
        let schedule = algorithm::broadcast(me, self.leader, lend(&mut theirs));
        // SAFETY: I1.
        unsafe { self.local.run(self.instance, schedule) }?;
        Ok(theirs)
    }

    /// Combines numbers of all members of both groups.
    fn combine(&self, operation: Operation, mine: &[u64]) -> Result<Vec<u64>> {
        let me = self.local.members().member();
        let mut ours: Vec<i64> = mine.iter().map(|word| word.cast_signed()).collect();
        let mut work = vec![0; mine.len()];
        let operator = operation::operator(operation, Number::U64).expect("it makes sense");
        let reduce_op = ReduceOp { operator, element_bytes: 8, commutative: true };
        let bytes = lend(&mut ours);
        let schedule = algorithm::allreduce(me, reduce_op, bytes, bytes, lend(&mut work));
        // SAFETY: I1.
        unsafe { self.local.run(self.instance, schedule) }?;
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

    /// The other group, and whether the local group comes first in the common order.
    fn exchange_groups(&self) -> Result<(Group, bool)> {
        let group = self.local.members().group();
        let mut ours: Vec<i64> = group.members().map(|peer| i64::from(peer.0)).collect();
        let sizes = self.exchange(&[ours.len() as i64])?;
        let theirs = usize::try_from(sizes[0]).unwrap_or(0);
        let first = ours[self.leader as usize];
        let size = ours.len();
        ours.insert(0, first);
        ours.resize(1 + size.max(theirs), 0);
        let answer = self.exchange(&ours)?;
        let peers: Vec<Peer> = answer[1..=theirs]
            .iter()
            .map(|&peer| Peer(u32::try_from(peer).expect("it was one")))
            .collect();
        if peers.iter().any(|&peer| group.rank_of(peer).is_some()) {
            return Err(CreateError::GroupsOverlap);
        }
        Ok((Group::of(&peers), first < answer[0]))
    }

    /// Agrees on a number across both groups.
    fn agree(&self) -> Result<Agreed> {
        let process = self.local.process();
        let agreed = agree_by(
            process.numbers(),
            process.plane_vote(),
            |stamp| Ok::<_, CreateError>(self.combine(Operation::Max, &[stamp])?[0]),
            |whom, bytes| self.wait_for_turn(whom, bytes),
            |ballot| {
                let common = self.combine(Operation::BitAnd, ballot)?;
                Ok(NumberBallot::try_from(common).expect("as many as were sent"))
            },
        );
        // Whatever the result, other agreements may have waited for their turn.
        // SAFETY: no memory is lent.
        unsafe { process.first_plane().submit(|nic, port| nic.on_change(port)) };
        agreed?.ok_or(CreateError::NoFreeNumber)
    }

    fn wait_for_turn(&self, whom: Arc<dyn Consult>, bytes: &mut [u8]) -> Result<()> {
        let members = self.local.members();
        let mut schedule = Schedule::new(members.group_id(), members.rank());
        schedule.push(Step::Consult { whom, bytes: memory::lend_mut(bytes) }, &[]);
        let (process, instance) = (self.local.process(), self.instance);
        // SAFETY: I1.
        let outcome = unsafe {
            process.first_plane().perform(|nic, port| {
                nic.on_change(port);
                nic.post_schedule(schedule.into(), instance, port)
            })
        };
        Ok(process.done(outcome)?)
    }
}

/// Exchanges bytes with another rank, kept apart from the messages of users and collectives.
fn swap(comm: Comm<'_>, other: u32, tag: u32, mine: Span, theirs: Span) -> Result<()> {
    let (plane, process) = (comm.plane(), comm.process());
    let (peer, out, back) = comm.members().pair(other, tag);
    // SAFETY: I1.
    let receive = unsafe {
        plane.submit(|nic, port| nic.post_receive(Some(peer), back, Mask::EXACT, theirs, port))
    };
    // SAFETY: I1.
    let sent = unsafe { comm.send_blocking((peer, out), mine, Mode::Standard) };
    let received = match receive {
        Posted::Done(outcome) => outcome,
        Posted::Pending(ticket) => plane.wait(ticket),
    };
    process.done(sent)?;
    match received {
        Outcome::Received(_) => Ok(()),
        other => Err(process.failure(other).into()),
    }
}
