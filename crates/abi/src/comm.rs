//! Which communicator a handle names, and what a program asks about one.

use std::ffi::c_int;
use std::ops::Deref;
use std::sync::Arc;

pub(crate) use crate::communicator::{Comm, int};
use crate::constants::{MPI_COMM_NULL, MPI_COMM_SELF, MPI_COMM_WORLD, MPI_ERR_COMM, MPI_UNDEFINED};
use crate::entry::entries;
use crate::failure::{Failure, Owner, Result};
use crate::handle::{self, Object, Shared};
use crate::info;
use crate::pointer::Out;
use crate::process;
use crate::types::{MPI_Comm, MPI_Info};

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

entries! {
    fn MPI_Comm_rank(comm: MPI_Comm, rank: Out<c_int>) on comm {
        rank.put(int(find(comm)?.members.rank()))
    }

    fn MPI_Topo_test(comm: MPI_Comm, status: Out<c_int>) on comm {
        // No communicator has a topology yet.
        find(comm)?;
        status.put(MPI_UNDEFINED)
    }

    fn MPI_Comm_get_info(comm: MPI_Comm, info_used: Out<MPI_Info>) on comm {
        info_used.put(info::create(find(comm)?.info()))
    }

    fn MPI_Comm_set_info(comm: MPI_Comm, info: MPI_Info) on comm {
        let mut hints = find(comm)?.info();
        for (key, value) in info::hints(info)?.entries() {
            hints.set(key, value);
        }
        find(comm)?.set_info(hints);
        Ok(())
    }

    fn MPI_Comm_size(comm: MPI_Comm, size: Out<c_int>) on comm {
        size.put(int(find(comm)?.members.group().size()))
    }
}
