//! Looks up the communicator that a handle names.

use std::ops::Deref;
use std::sync::Arc;

use crate::convert::constants::{MPI_COMM_NULL, MPI_COMM_SELF, MPI_COMM_WORLD, MPI_ERR_COMM};
use crate::convert::failure::{Failure, Owner, Result};
use crate::convert::handle::{self, Object, Shared};
use crate::convert::types::MPI_Comm;
pub(crate) use crate::objects::communicator::{Comm, int};
use crate::objects::process;

/// The communicator that a handle names.
#[inline(always)]
pub(crate) fn find(handle: MPI_Comm) -> Result<&'static Object<Comm>> {
    match handle {
        MPI_COMM_WORLD => Ok(&process::initialized()?.world),
        MPI_COMM_SELF => Ok(&process::initialized()?.itself),
        MPI_COMM_NULL => Err(no_comm()),
        // When the job is left, its driver accepts no operations.
        MPI_Comm(address) => process::running().and_then(|_| handle::find(address)),
    }
}

/// A share of the communicator that a handle names.
pub(crate) fn share_of(handle: MPI_Comm) -> Result<Shared<Comm>> {
    match handle {
        MPI_COMM_WORLD => Ok(Shared::clone(&process::initialized()?.world)),
        MPI_COMM_SELF => Ok(Shared::clone(&process::initialized()?.itself)),
        MPI_COMM_NULL => Err(no_comm()),
        MPI_Comm(address) => process::running().and_then(|_| handle::share_of(address)),
    }
}

/// Keeps a communicator alive while an operation in it is in progress. The predefined ones live anyway and are not
/// counted: counting would cost more than everything else in a request.
pub(crate) enum Hold {
    Predefined(&'static Shared<Comm>),
    Share(Shared<Comm>),
}

impl Hold {
    /// The communicator as the owner of failures.
    pub(crate) fn owner(&self) -> Arc<dyn Owner> {
        Arc::clone(&**self) as Arc<dyn Owner>
    }
}

impl Deref for Hold {
    type Target = Shared<Comm>;

    #[inline]
    fn deref(&self) -> &Shared<Comm> {
        match self {
            Hold::Predefined(comm) => comm,
            Hold::Share(comm) => comm,
        }
    }
}

/// Keeps the communicator that a handle names.
#[inline]
pub(crate) fn hold(handle: MPI_Comm) -> Result<Hold> {
    match handle {
        MPI_COMM_WORLD => Ok(Hold::Predefined(&process::initialized()?.world)),
        MPI_COMM_SELF => Ok(Hold::Predefined(&process::initialized()?.itself)),
        made => share_of(made).map(Hold::Share),
    }
}

#[cold]
fn no_comm() -> Failure {
    Failure::new(MPI_ERR_COMM, "the communicator is MPI_COMM_NULL")
}
