//! Creating and freeing communicators.
//!
//! Invariants, cited below by number.
//!   I1. Memory lent to a schedule lives in the recipe.

use std::ffi::c_int;

use ferrywire_host::ErrorCode;
use ferrywire_host::memory;
use ferrywire_host::nic::Posted;
use ferrywire_mpi::comm::TAG_MAX;
use ferrywire_mpi::info::Info;
use ferrywire_mpi::number_agreement::NumberPromise;
use ferrywire_runtime::{AGREEMENT_BYTES, Agreeing, Bridge, CreateError, Created};

use crate::calls::entry::entries;
use crate::convert::argument::{MessageTag, PeerRank};
use crate::convert::constants::{
    MPI_COMM_NULL, MPI_COMM_SELF, MPI_COMM_TYPE_HW_GUIDED, MPI_COMM_TYPE_HW_UNGUIDED,
    MPI_COMM_TYPE_RESOURCE_GUIDED, MPI_COMM_TYPE_SHARED, MPI_COMM_WORLD, MPI_CONGRUENT,
    MPI_ERR_ARG, MPI_ERR_COMM, MPI_IDENT, MPI_INFO_NULL, MPI_SIMILAR, MPI_UNDEFINED, MPI_UNEQUAL,
};
use crate::convert::failure::{Failure, Result};
use crate::convert::handle::{self, Shared};
use crate::convert::pointer::{Out, Text};
use crate::convert::status::Status;
use crate::convert::types::{MPI_Comm, MPI_Errhandler, MPI_Group, MPI_Info, MPI_Request};
use crate::objects::Plane;
use crate::objects::attribute::Attributes;
use crate::objects::comm::{self, Comm};
use crate::objects::errhandler::{self, Handler};
use crate::objects::info;
use crate::objects::process;
use crate::objects::recipe::{End, Next, Recipe};
use crate::objects::request::Request;
use crate::objects::session::{self, Creation};

/// Agrees with all members of a communicator on the number of a duplicate, and creates it.
struct Duplicating {
    instance: u16,
    promise: NumberPromise,
    /// The work space of the schedule.
    room: Box<[u8]>,
    /// The initial contents of the duplicate, and the location of its handle. Taken when it is created.
    copied: Option<Copied>,
}

impl Recipe for Duplicating {
    fn start(&mut self, comm: &Shared<Comm>) -> Result<Posted> {
        let who = Agreeing::Everyone { instance: self.instance };
        let room = memory::lend_mut(&mut self.room);
        // SAFETY: I1.
        let (posted, promise) = unsafe { comm.runtime().start_agreement(&who, room) };
        self.promise = promise;
        Ok(posted)
    }

    fn finish(&mut self, comm: &Shared<Comm>, end: End) -> Result<Next> {
        comm.process.done(end.outcome)?;
        let agreed = self.promise.take().ok_or(CreateError::NoFreeNumber)?;
        let members = comm.members.renumbered(agreed.claim.number());
        let origin = format!("a duplicate of {}", comm.title());
        let Copied { attributes, info, place } = self.copied.take().expect("it is made once");
        let mut new = Comm::made(Created { members, agreed }, origin, comm)?
            .with_topology(comm.topology().cloned());
        new.attributes = attributes;
        new.set_info(info);
        place.put(new)?;
        Ok(Next::Over(Status::EMPTY))
    }

    fn driver(&self, comm: &Comm) -> Plane {
        comm.process.first_plane()
    }
}

/// An instance for the next persistent collective of a communicator, and the communicator whose number it uses: the
/// same one, or one that serves only this purpose. Ranks may start persistent collectives in any order, so no two
/// live ones may share an instance, and a rank does not know which of them are live at other ranks. So each instance
/// is assigned once, and when none is left, all ranks agree on a further number. That number is free again when the
/// last collective under it is freed.
pub(crate) fn persistent_instance(comm: &Shared<Comm>) -> Result<(Shared<Comm>, u16)> {
    let mut space = comm.space();
    loop {
        let current = space.as_ref().unwrap_or(comm);
        if let Some(instance) = current.members.next_persistent_instance() {
            return Ok((Shared::clone(current), instance));
        }
        let created = comm.runtime().duplicate(comm.members.next_instance())?;
        let new = Comm::made(created, comm.title(), comm)?;
        *space = Some(handle::share(new.with_topology(comm.topology().cloned())));
    }
}

/// The location for a new communicator, which the program keeps valid until it is written.
pub(crate) struct NewComm(pub(crate) Out<MPI_Comm>);

// SAFETY: the program keeps it valid for whichever thread writes it.
unsafe impl Send for NewComm {}

impl NewComm {
    pub(crate) fn put(&self, comm: Comm) -> Result {
        self.0.put(MPI_Comm(handle::expose(handle::share(comm))))
    }
}

impl NewComm {
    /// Writes a communicator that was created from another, or MPI_COMM_NULL.
    fn put_created(
        &self,
        created: Option<Created>,
        parent: &Comm,
        origin: impl FnOnce(String) -> String,
    ) -> Result {
        match created {
            None => self.0.put(MPI_COMM_NULL),
            Some(created) => self.put(Comm::made(created, origin(parent.title()), parent)?),
        }
    }
}

/// The initial contents of a duplicate, and the location of its handle.
struct Copied {
    attributes: Attributes,
    info: Info,
    place: NewComm,
}

/// Makes the recipe of a duplicate.
fn duplicate(
    handle: MPI_Comm,
    comm: &Shared<Comm>,
    instance: u16,
    newcomm: Out<MPI_Comm>,
    info: Option<MPI_Info>,
) -> Result<Box<dyn Recipe>> {
    let attributes = comm.attributes.copy_for_dup(handle.0)?;
    let info = info.map_or_else(|| Ok(comm.info()), info::hints)?;
    let copied = Some(Copied { attributes, info, place: NewComm(newcomm) });
    let (promise, room) =
        (NumberPromise::default(), crate::objects::data::room(AGREEMENT_BYTES as u64));
    Ok(Box::new(Duplicating { instance, promise, room, copied }))
}

/// Creates another communicator of the same ranks, which can have a module.
pub(crate) fn for_module(comm: &Comm, instance: u16, name: &str) -> Result<Comm> {
    let created = comm.runtime().duplicate_with_module(instance)?;
    let origin = format!("a communicator with a module, of {}", comm.title());
    let new = Comm::made(created, origin, comm)?.with_module();
    new.set_name(name.into());
    Ok(new)
}

/// Splits a communicator by color.
fn split(
    comm: &Comm,
    instance: u16,
    color: Option<u32>,
    key: c_int,
    newcomm: Out<MPI_Comm>,
) -> Result {
    newcomm.put(MPI_COMM_NULL)?;
    let created = comm.runtime().split(instance, color, key)?;
    NewComm(newcomm).put_created(created, comm, |title| format!("a split of {title}"))
}

/// Creates a communicator of a group without a parent. `None` outside the group.
fn create_from_group(group: MPI_Group, tag: u32, handler: &Handler) -> Result<Option<Comm>> {
    let common = &process::running()?.common;
    let members = crate::objects::group::find(group)?;
    let Some(created) = common.runtime().create_among(members, tag)? else { return Ok(None) };
    let new = Comm::made(created, "a communicator of a group".into(), common)?
        .with_session(crate::objects::group::session_of(group));
    new.set_handler(handler.clone());
    Ok(Some(new))
}

/// Creates an intercommunicator of two groups without a parent.
fn create_from_groups(
    (local_group, local_leader): (MPI_Group, PeerRank),
    (remote_group, remote_leader): (MPI_Group, PeerRank),
    tag: u32,
    handler: &Handler,
) -> Result<Comm> {
    let remote = crate::objects::group::find(remote_group)?;
    // A temporary communicator of the local group.
    let local = create_from_group(local_group, tag, handler)?.ok_or(CreateError::NotInGroup)?;
    let instance = local.members.next_instance();
    let leader = local.target(local_leader)?.ok_or_else(|| no_leader(local_leader))?;
    let across = if local.members.rank() == leader {
        let other = remote_leader.below(remote.size()).ok_or_else(|| no_leader(remote_leader))?;
        let common = Shared::clone(&process::running()?.common);
        Some((common, remote.peer_of(other).0, tag))
    } else {
        None
    };
    bridge(&local, instance, leader, across)
}

/// Creates an intercommunicator. `across` is passed at the leader: the communicator of the leaders, the rank of the
/// other leader, and the tag.
fn bridge(
    local: &Comm,
    instance: u16,
    leader: u32,
    across: Option<(Shared<Comm>, u32, u32)>,
) -> Result<Comm> {
    let across = across.as_ref().map(|(comm, other, tag)| (comm.runtime(), *other, *tag));
    let created = Bridge { local: local.runtime(), instance, leader, across }.create()?;
    Comm::made(created, format!("an intercommunicator from {}", local.title()), local)
}

/// The color of this rank in a split by type. The only hardware that is known here is the host, whose ranks share its
/// memory; the other resources are process sets.
fn split_color(split_type: c_int, hints: &Info) -> Result<Option<u32>> {
    let here = Some(process::running()?.rank().first_here().0);
    let by_hardware = || here.filter(|_| hints.value(RESOURCE_TYPE) == Some(SHARED_MEMORY));
    match split_type {
        MPI_COMM_TYPE_SHARED | MPI_COMM_TYPE_HW_UNGUIDED => Ok(here),
        MPI_COMM_TYPE_HW_GUIDED => Ok(by_hardware()),
        MPI_COMM_TYPE_RESOURCE_GUIDED => match hints.value("mpi_pset_name") {
            None => Ok(by_hardware()),
            Some(name) => session::color_of_set(name),
        },
        MPI_UNDEFINED => Ok(None),
        other => Err(Failure::new(MPI_ERR_ARG, format!("invalid split type {other}"))
            .coded(ErrorCode::SPLIT)),
    }
}

/// The key that names what ranks share in a split by type, and its only value that is known here.
const RESOURCE_TYPE: &str = "mpi_hw_resource_type";
const SHARED_MEMORY: &str = "mpi_shared_memory";

/// Compares two communicators.
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
        return Err(Failure::new(MPI_ERR_COMM, "MPI_COMM_WORLD and MPI_COMM_SELF cannot be freed")
            .coded(ErrorCode::PREDEFINED));
    }
    comm::find(handle)?.attributes.delete_all(handle.0)?;
    handle::take::<Comm>(handle.0)?;
    process::running()?.forget_parent(handle);
    comm.put(MPI_COMM_NULL)
}

/// The tag that a string stands for, the same at all ranks that pass it.
fn tag_of(text: &str) -> u32 {
    // The FNV-1a hash, the same on all ranks. Its 32 bits are folded into the 24 bits of a tag.
    let mix = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    let hash = text.bytes().fold(0x811c_9dc5, mix);
    hash >> 24 ^ hash & TAG_MAX
}

entries! {
    fn MPI_Comm_dup(comm: MPI_Comm, newcomm: Out<MPI_Comm>) on comm {
        let old = comm::share_of(comm)?;
        old.note_collective(CALL);
        let instance = old.members.next_instance();
        let recipe = duplicate(comm, &old, instance, newcomm, None)?;
        Request::perform(old, recipe).map(|_| ())
    }

    fn MPI_Comm_dup_with_info(comm: MPI_Comm, info: MPI_Info, newcomm: Out<MPI_Comm>) on comm {
        let old = comm::share_of(comm)?;
        old.note_collective(CALL);
        let instance = old.members.next_instance();
        let recipe = duplicate(comm, &old, instance, newcomm, Some(info))?;
        Request::perform(old, recipe).map(|_| ())
    }

    fn MPI_Comm_idup(comm: MPI_Comm, newcomm: Out<MPI_Comm>, request: Out<MPI_Request>) on comm {
        let old = comm::share_of(comm)?;
        old.note_collective(CALL);
        let instance = old.members.next_nonblocking_instance();
        let recipe = duplicate(comm, &old, instance, newcomm, None)?;
        request.put(Request::begin(old, recipe)?)
    }

    fn MPI_Comm_idup_with_info(
        comm: MPI_Comm, info: MPI_Info, newcomm: Out<MPI_Comm>, request: Out<MPI_Request>,
    ) on comm {
        let old = comm::share_of(comm)?;
        old.note_collective(CALL);
        let instance = old.members.next_nonblocking_instance();
        let recipe = duplicate(comm, &old, instance, newcomm, Some(info))?;
        request.put(Request::begin(old, recipe)?)
    }

    fn MPI_Comm_split(comm: MPI_Comm, color: c_int, key: c_int, newcomm: Out<MPI_Comm>) on comm {
        let comm = comm::share_of(comm)?;
        comm.note_collective(CALL);
        let instance = comm.members.next_instance();
        let color = match (color, u32::try_from(color)) {
            (MPI_UNDEFINED, _) => None,
            (_, Ok(color)) => Some(color),
            _ => {
                let why = format!("invalid color {color}; it must be MPI_UNDEFINED or at least 0");
                return Err(Failure::new(MPI_ERR_ARG, why).coded(ErrorCode::SPLIT));
            }
        };
        split(&comm, instance, color, key, newcomm)
    }

    fn MPI_Comm_split_type(
        comm: MPI_Comm, split_type: c_int, key: c_int, info: MPI_Info, newcomm: Out<MPI_Comm>,
    ) on comm {
        let comm = comm::share_of(comm)?;
        comm.note_collective(CALL);
        let instance = comm.members.next_instance();
        let color = split_color(split_type, &info::hints(info)?)?;
        newcomm.put(MPI_COMM_NULL)?;
        let created = comm.runtime().split(instance, color, key)?;
        if split_type != MPI_COMM_TYPE_HW_UNGUIDED {
            return NewComm(newcomm).put_created(created, &comm, |title| format!("a split of {title}"));
        }
        // Without a guide, parts are smaller than the whole, and the caller learns what they share.
        let whole = comm.members.group().size();
        let Some(part) = created.filter(|created| created.members.group().size() < whole) else { return Ok(()) };
        if info != MPI_INFO_NULL {
            info::find(info)?.set(RESOURCE_TYPE, SHARED_MEMORY);
        }
        NewComm(newcomm).put_created(Some(part), &comm, |title| format!("a split of {title}"))
    }

    fn MPI_Comm_create(comm: MPI_Comm, group: MPI_Group, newcomm: Out<MPI_Comm>) on comm {
        let comm = comm::share_of(comm)?;
        comm.note_collective(CALL);
        let instance = comm.members.next_instance();
        let group = crate::objects::group::find(group)?;
        newcomm.put(MPI_COMM_NULL)?;
        let created = comm.runtime().create(instance, group)?;
        NewComm(newcomm).put_created(created, &comm, |title| format!("a part of {title}"))
    }

    fn MPI_Comm_create_group(
        comm: MPI_Comm, group: MPI_Group, tag: MessageTag, newcomm: Out<MPI_Comm>,
    ) on comm {
        let group = crate::objects::group::find(group)?;
        let comm = comm::find(comm)?;
        newcomm.put(MPI_COMM_NULL)?;
        let created = comm.runtime().create_among(group, tag.bits())?;
        NewComm(newcomm).put_created(created, comm, |title| format!("a part of {title}"))
    }

    fn MPI_Comm_create_from_group(
        group: MPI_Group, stringtag: Text, _info: MPI_Info, errhandler: MPI_Errhandler,
        newcomm: Out<MPI_Comm>,
    ) {
        let handler = errhandler::find(errhandler::ErrhandlerKind::Comm, errhandler)?;
        newcomm.put(MPI_COMM_NULL)?;
        let created = stringtag.get().and_then(|tag| create_from_group(group, tag_of(&tag), &handler));
        match created.map_err(of_new(&handler))? {
            None => Ok(()),
            Some(new) => NewComm(newcomm).put(new),
        }
    }

    fn MPI_Intercomm_create(
        local_comm: MPI_Comm, local_leader: PeerRank, peer_comm: MPI_Comm, remote_leader: PeerRank,
        tag: MessageTag, newintercomm: Out<MPI_Comm>,
    ) on local_comm {
        let local = comm::share_of(local_comm)?;
        local.note_collective(CALL);
        let instance = local.members.next_instance();
        let leader = local.target(local_leader)?.ok_or_else(|| no_leader(local_leader))?;
        let across = if local.members.rank() == leader {
            let peers = comm::share_of(peer_comm)?;
            let other = peers.target(remote_leader)?.ok_or_else(|| no_leader(remote_leader))?;
            Some((peers, other, tag.bits()))
        } else {
            None
        };
        NewComm(newintercomm).put(bridge(&local, instance, leader, across)?)
    }

    fn MPI_Intercomm_create_from_groups(
        local_group: MPI_Group, local_leader: PeerRank, remote_group: MPI_Group,
        remote_leader: PeerRank, stringtag: Text, _info: MPI_Info, errhandler: MPI_Errhandler,
        newintercomm: Out<MPI_Comm>,
    ) {
        let handler = errhandler::find(errhandler::ErrhandlerKind::Comm, errhandler)?;
        newintercomm.put(MPI_COMM_NULL)?;
        let (local, remote) = ((local_group, local_leader), (remote_group, remote_leader));
        let created = stringtag.get().and_then(|tag| create_from_groups(local, remote, tag_of(&tag), &handler));
        NewComm(newintercomm).put(created.map_err(of_new(&handler))?)
    }

    fn MPI_Intercomm_merge(
        intercomm: MPI_Comm, high: c_int, newintracomm: Out<MPI_Comm>,
    ) on intercomm {
        let comm = comm::find(intercomm)?;
        comm.note_collective(CALL);
        let created = comm.runtime().merge(comm.members.next_instance(), high != 0)?;
        NewComm(newintracomm).put_created(Some(created), comm, |title| format!("the merged groups of {title}"))
    }

    fn MPI_Comm_compare(comm1: MPI_Comm, comm2: MPI_Comm, result: Out<c_int>) on comm1 {
        result.put(compare(comm1, comm2)?)
    }

    fn MPI_Comm_free(comm: Out<MPI_Comm>) {
        free(comm)
    }

    fn MPI_Comm_disconnect(comm: Out<MPI_Comm>) {
        // The program's own operations must be complete; other ranks wait for theirs themselves.
        free(comm)
    }
}

/// Errors of a call that creates a communicator with this error handler belong to it.
fn of_new(handler: &Handler) -> impl FnOnce(Failure) -> Failure {
    move |failure| failure.of(Creation::of("the new communicator", handler, MPI_COMM_NULL.0))
}

#[cold]
fn no_leader(rank: PeerRank) -> Failure {
    Failure::new(
        MPI_ERR_ARG,
        format!("invalid leader rank {rank}; pass a rank of the communicator"),
    )
    .coded(ErrorCode::RANK)
}
