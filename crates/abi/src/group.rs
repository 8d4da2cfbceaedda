use crate::failure::Result;
use crate::types::MPI_Group;
use ferrywire_mpi::group::Group;
pub fn find(_: MPI_Group) -> Result<Group> {
    Err(crate::failure::internal("later"))
}
