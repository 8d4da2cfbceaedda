//! Groups of a program.

use std::ffi::c_int;

use ferrywire_mpi::group::Group;

use crate::convert::constants::{MPI_ERR_GROUP, MPI_GROUP_EMPTY, MPI_GROUP_NULL};
use crate::convert::failure::{Failure, Result};
use crate::convert::handle::{self, Kind, Shared};
use crate::convert::types::MPI_Group;
use crate::objects::session::Session;

/// A group of the program.
pub(crate) struct GroupObject {
    group: Group,
    /// The session that it comes from, if any.
    session: Option<Shared<Session>>,
}

impl Kind for GroupObject {
    const MARK: u32 = 0x4752_4f55;
    const ERROR: c_int = MPI_ERR_GROUP;
    const NAME: &'static str = "group";
}

/// Creates a handle of a group, which the program frees.
pub(crate) fn create(group: Group) -> MPI_Group {
    create_in(None, group)
}

/// Creates a handle of a group that comes from a session, if there is one.
pub(crate) fn create_in(session: Option<Shared<Session>>, group: Group) -> MPI_Group {
    match group.size() {
        0 => MPI_GROUP_EMPTY,
        _ => MPI_Group(handle::expose(handle::share(GroupObject { group, session }))),
    }
}

/// The group that a handle names.
pub(crate) fn find(handle: MPI_Group) -> Result<Group> {
    match handle {
        MPI_GROUP_EMPTY => Ok(Group::whole(0)),
        MPI_GROUP_NULL => Err(Failure::new(MPI_ERR_GROUP, "the group is MPI_GROUP_NULL")),
        MPI_Group(address) => Ok(handle::find::<GroupObject>(address)?.group.clone()),
    }
}

/// The session that a group comes from, if any.
pub(crate) fn session_of(handle: MPI_Group) -> Option<Shared<Session>> {
    handle::find::<GroupObject>(handle.0).ok()?.session.clone()
}
