//! Which communicator a handle names.

use std::ops::Deref;
use std::sync::Arc;

use crate::convert::constants::{MPI_COMM_NULL, MPI_COMM_SELF, MPI_COMM_WORLD, MPI_ERR_COMM};
use crate::convert::failure::{Failure, Owner, Result};
use crate::convert::handle::{self, Object, Shared};
use crate::convert::types::MPI_Comm;
pub(crate) use crate::objects::communicator::{Comm, int};
use crate::objects::process;

/// What a handle names.
#[inline(always)]
pub(crate) fn find(handle: MPI_Comm) -> Result<&'static Object<Comm>> {
    match handle {
        MPI_COMM_WORLD => Ok(&process::running()?.world),
        MPI_COMM_SELF => Ok(&process::running()?.itself),
        MPI_COMM_NULL => Err(no_comm()),
        // Its driver takes nothing after MPI_Finalize.
        MPI_Comm(address) => process::running().and_then(|_| handle::find(address)),
    }
}

/// A share of what a handle names.
pub(crate) fn share_of(handle: MPI_Comm) -> Result<Shared<Comm>> {
    match handle {
        MPI_COMM_WORLD => Ok(Shared::clone(&process::running()?.world)),
        MPI_COMM_SELF => Ok(Shared::clone(&process::running()?.itself)),
        MPI_COMM_NULL => Err(no_comm()),
        MPI_Comm(address) => process::running().and_then(|_| handle::share_of(address)),
    }
}

/// Keeps a communicator while something goes on in it. Those that are there from the beginning stay in any
/// case, and are not counted: that would cost more than all else that a request remembers.
pub(crate) enum Hold {
    Predefined(&'static Shared<Comm>),
    Share(Shared<Comm>),
}

impl Hold {
    /// As what failures belong to.
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

/// Keeps what a handle names.
#[inline]
pub(crate) fn hold(handle: MPI_Comm) -> Result<Hold> {
    match handle {
        MPI_COMM_WORLD => Ok(Hold::Predefined(&process::running()?.world)),
        MPI_COMM_SELF => Ok(Hold::Predefined(&process::running()?.itself)),
        made => share_of(made).map(Hold::Share),
    }
}

#[cold]
fn no_comm() -> Failure {
    Failure::new(MPI_ERR_COMM, "MPI_COMM_NULL is no communicator")
}
