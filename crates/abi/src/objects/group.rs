//! Groups of a program.

use std::ffi::c_int;

use ferrywire_mpi::group::Group;

use crate::convert::constants::{MPI_ERR_GROUP, MPI_GROUP_EMPTY, MPI_GROUP_NULL};
use crate::convert::failure::{Failure, Result};
use crate::convert::handle::{self, Kind};
use crate::convert::types::MPI_Group;

/// A group of the program.
pub(crate) struct GroupObject(Group);

impl Kind for GroupObject {
    const MARK: u32 = 0x4752_4f55;
    const ERROR: c_int = MPI_ERR_GROUP;
    const NAME: &'static str = "group";
}

/// Creates a handle of a group, which the program frees.
pub(crate) fn create(group: Group) -> MPI_Group {
    match group.size() {
        0 => MPI_GROUP_EMPTY,
        _ => MPI_Group(handle::expose(handle::share(GroupObject(group)))),
    }
}

/// The group that a handle names.
pub(crate) fn find(handle: MPI_Group) -> Result<Group> {
    match handle {
        MPI_GROUP_EMPTY => Ok(Group::whole(0)),
        MPI_GROUP_NULL => Err(Failure::new(MPI_ERR_GROUP, "the group is MPI_GROUP_NULL")),
        MPI_Group(address) => Ok(handle::find::<GroupObject>(address)?.0.clone()),
    }
}
