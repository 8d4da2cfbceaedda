//! Recovery from the death of ranks: `mpi-ext.h`. The names are those of User Level Failure Mitigation.
//!
//! In a job that continues when ranks die, the agreement service of crate `mpi` runs beside the application and makes
//! all decisions. In other jobs deaths are not reported, because the job ends with the first.

use std::ffi::c_int;

use ferrywire_host::ErrorCode;
use ferrywire_host::nic::Peer;
use ferrywire_mpi::group::Group;
use ferrywire_runtime as runtime;

use crate::calls::entry::entries;
use crate::convert::constants::{MPI_COMM_NULL, MPI_ERR_COMM, MPIX_ERR_PROC_FAILED};
use crate::convert::failure::{Failure, Result};
use crate::convert::handle;
use crate::convert::pointer::Out;
use crate::convert::types::{MPI_Comm, MPI_Group};
use crate::objects::comm::{self, Comm, int};
use crate::objects::group;
use crate::objects::process;

/// Creates a communicator of the survivors.
fn shrink(comm: &comm::Comm, newcomm: Out<MPI_Comm>) -> Result {
    if comm.members.inter().is_some() {
        let why = "an intercommunicator cannot be shrunk";
        return Err(Failure::new(MPI_ERR_COMM, why).coded(ErrorCode::INTERCOMM));
    }
    // An error that only this rank finds is reported after the agreement, so that later agreements still match.
    let place = newcomm.put(MPI_COMM_NULL);
    let shrunk = comm.process.shrink(&comm.members)?;
    place?;
    let created = shrunk.ok_or(runtime::CreateError::NoFreeNumber)?;
    let origin = format!("the survivors of {}", comm.title());
    let new = Comm::made(created, origin, comm)?;
    newcomm.put(MPI_Comm(handle::expose(handle::share(new))))
}

/// Makes a group of processes, which the program frees.
fn group_of(peers: &[Peer]) -> MPI_Group {
    group::create(Group::of(peers))
}

entries! {
    fn MPIX_Comm_revoke(comm: MPI_Comm) on comm {
        let comm = comm::find(comm)?;
        Ok(comm.process.revoke(&comm.members)?)
    }

    fn MPIX_Comm_is_revoked(comm: MPI_Comm, flag: Out<c_int>) on comm {
        // A revocation may have arrived that no turn has handled.
        process::first_plane()?.turn();
        flag.put(comm::find(comm)?.members.state().is_revoked().into())
    }

    fn MPIX_Comm_shrink(comm: MPI_Comm, newcomm: Out<MPI_Comm>) on comm {
        shrink(comm::find(comm)?, newcomm)
    }

    fn MPIX_Comm_agree(comm: MPI_Comm, flag: Out<c_int>) on comm {
        // A null flag is reported after the agreement, so that later agreements still match.
        let mine = flag.get();
        let bits = mine.as_ref().map_or(!0, |mine| u64::from(mine.cast_unsigned()));
        let comm = comm::find(comm)?;
        let decision = comm.process.agree(&comm.members, vec![bits])?;
        mine?;
        let all = decision.words.first().copied().unwrap_or(0);
        flag.put(u32::try_from(all).unwrap_or(0).cast_signed())?;
        match decision.is_news {
            false => Ok(()),
            true => {
                let why = format!(
                    "not all members have acknowledged the failure of ranks {:?}; the agreed flag is valid \
                     nevertheless",
                    decision.failed
                );
                Err(Failure::new(MPIX_ERR_PROC_FAILED, why))
            }
        }
    }

    fn MPIX_Comm_get_failed(comm: MPI_Comm, failedgrp: Out<MPI_Group>) on comm {
        process::first_plane()?.turn();
        failedgrp.put(group_of(&comm::find(comm)?.members.state().lost()))
    }

    fn MPIX_Comm_ack_failed(comm: MPI_Comm, num_to_ack: c_int, num_acked: Out<c_int>) on comm {
        let comm = comm::find(comm)?;
        let count = usize::try_from(num_to_ack).unwrap_or(0);
        let known = comm.process.acknowledge_failed(&comm.members, count)?;
        num_acked.put(int(u32::try_from(known).unwrap_or(u32::MAX)))
    }

    fn MPIX_Comm_failure_ack(comm: MPI_Comm) on comm {
        process::first_plane()?.turn();
        let comm = comm::find(comm)?;
        comm.process.acknowledge_failed(&comm.members, usize::MAX)?;
        Ok(())
    }

    fn MPIX_Comm_failure_get_acked(comm: MPI_Comm, failedgrp: Out<MPI_Group>) on comm {
        failedgrp.put(group_of(&comm::find(comm)?.members.state().acknowledged()))
    }
}
