//! What a program can do when ranks die: `mpi-ext.h`. The names are those of User Level Failure Mitigation.
//!
//! Everything is settled by the council of crate `mpi`, which lives beside the application in a job that goes on
//! without its dead. Elsewhere nobody is told of deaths, since the job ends with the first.

use std::ffi::c_int;
use std::sync::Arc;

use ferrywire_host::nic::Peer;
use ferrywire_host::{Rank, Residence};
use ferrywire_mpi::agreement::agree_among_living;
use ferrywire_mpi::comm::Comm as Members;
use ferrywire_mpi::council::{Council, Verdict};
use ferrywire_mpi::group::Group;
use ferrywire_mpi::numbers::Claim;

use crate::comm::{self, Comm, int};
use crate::constants::{MPI_COMM_NULL, MPI_ERR_COMM, MPI_ERR_UNSUPPORTED_OPERATION};
use crate::entry::entries;
use crate::failure::{Failure, Result};
use crate::group;
use crate::handle;
use crate::making;
use crate::plane::{self, Plane};
use crate::pointer::Out;
use crate::process;
use crate::types::{MPI_Comm, MPI_Group};

/// A rank has died, and what was asked for cannot be done without it.
pub(crate) const MPIX_ERR_PROC_FAILED: c_int = 101;
/// A rank has died who might have sent what is to be received from anybody.
pub(crate) const MPIX_ERR_PROC_FAILED_PENDING: c_int = 102;
/// The communicator is revoked.
pub(crate) const MPIX_ERR_REVOKED: c_int = 103;

/// Of a call in a revoked communicator.
#[cold]
pub(crate) fn revoked() -> Failure {
    Failure::new(MPIX_ERR_REVOKED, "the communicator is revoked")
}

/// Of a receive from anybody, when the program does not know of a death.
#[cold]
pub(crate) fn pending(peer: Peer) -> Failure {
    let rank = peer.0;
    let why = format!(
        "rank {rank} of MPI_COMM_WORLD has left the job, and might have sent it; MPIX_Comm_ack_failed lets it go on"
    );
    Failure::new(MPIX_ERR_PROC_FAILED_PENDING, why)
}

/// The council of this rank, if the job goes on when ranks die.
pub(crate) fn open_council(
    rank: &'static Rank,
    known: [&Members; 2],
) -> Option<Arc<Residence<Council>>> {
    if !rank.is_lasting() {
        return None;
    }
    let me = rank.me();
    let mut council = Council::new(me);
    for members in known {
        council.on_made(members.number(), members.everyone(), members.standing());
    }
    let (word, wanted) = (Council::word(me), Council::wanted());
    Some(Residence::open(rank, council, word, wanted, Council::message_bytes_max(rank.size())))
}

/// A communicator has been made.
pub(crate) fn on_made(members: &Members) {
    if let Ok(council) = council() {
        council.ask(|council| {
            council.on_made(members.number(), members.everyone(), members.standing());
        });
    }
}

/// It is gone. Its number is not used again if word of it may still be under way.
pub(crate) fn on_freed(members: &Members, claim: Option<Claim>) {
    if let Ok(council) = council() {
        council.ask(|council| council.on_freed(members.number()));
    }
    if let Some(claim) = claim.filter(|_| !members.is_reusable()) {
        claim.retire();
    }
}

fn council() -> Result<&'static Arc<Residence<Council>>> {
    process::running()?.council.as_ref().ok_or_else(|| {
        let why = "the job ends when a rank dies; start it with `ferry run --on-death continue`";
        Failure::new(MPI_ERR_UNSUPPORTED_OPERATION, why)
    })
}

/// Takes part in the next agreement of a communicator, and waits for the verdict.
fn agree(comm: &Comm, words: Vec<u64>) -> Result<Verdict> {
    let promise = council()?.ask(|council| council.agree(comm.members.number(), words));
    // SAFETY: nothing is lent.
    Ok(unsafe { plane::wait_for(Plane::first()?, |_, _| promise.get().cloned()) })
}

/// A communicator of those who live.
fn shrink(comm: &comm::Comm, newcomm: Out<MPI_Comm>) -> Result {
    if comm.members.inter().is_some() {
        let why = "only communicators of one group can be shrunk";
        return Err(Failure::new(MPI_ERR_COMM, why));
    }
    // What only this rank finds wrong is told when all have agreed: later agreements have to fit together.
    let place = newcomm.put(MPI_COMM_NULL);
    let process = process::running()?;
    let agreed = agree_among_living(&process.numbers, plane::vote()?, |words| agree(comm, words))?;
    place?;
    let (agreed, verdict) = agreed.ok_or_else(making::no_number)?;
    let group = comm.members.group().without(&verdict.failed);
    let rank = group.rank_of(process.driver.me()).expect("we live");
    let members = Members::new(group, rank, agreed.claim.number());
    let origin = format!("what is left of {}", comm.title());
    let new = Comm::made(members, agreed.into(), origin, comm)?;
    newcomm.put(MPI_Comm(handle::expose(handle::share(new))))
}

/// Processes as a group that the program frees.
fn group_of(peers: &[Peer]) -> MPI_Group {
    group::create(Group::of(peers))
}

entries! {
    fn MPIX_Comm_revoke(comm: MPI_Comm) on comm {
        let number = comm::find(comm)?.members.number();
        council()?.ask(|council| council.revoke(number));
        Ok(())
    }

    fn MPIX_Comm_is_revoked(comm: MPI_Comm, flag: Out<c_int>) on comm {
        // Somebody may have said so, and nobody has looked.
        Plane::first()?.turn();
        flag.put(comm::find(comm)?.members.standing().is_revoked().into())
    }

    fn MPIX_Comm_shrink(comm: MPI_Comm, newcomm: Out<MPI_Comm>) on comm {
        shrink(comm::find(comm)?, newcomm)
    }

    fn MPIX_Comm_agree(comm: MPI_Comm, flag: Out<c_int>) on comm {
        // A flag that is not there is told when all have agreed: later agreements have to fit together.
        let mine = flag.get();
        let bits = mine.as_ref().map_or(!0, |mine| u64::from(mine.cast_unsigned()));
        let verdict = agree(comm::find(comm)?, vec![bits])?;
        mine?;
        let all = verdict.words.first().copied().unwrap_or(0);
        flag.put(u32::try_from(all).unwrap_or(0).cast_signed())?;
        match verdict.is_news {
            false => Ok(()),
            true => {
                let why = format!(
                    "ranks have died that not all have acknowledged: {:?}; the flag is agreed on all the same",
                    verdict.failed
                );
                Err(Failure::new(MPIX_ERR_PROC_FAILED, why))
            }
        }
    }

    fn MPIX_Comm_get_failed(comm: MPI_Comm, failedgrp: Out<MPI_Group>) on comm {
        Plane::first()?.turn();
        failedgrp.put(group_of(&comm::find(comm)?.members.standing().lost()))
    }

    fn MPIX_Comm_ack_failed(comm: MPI_Comm, num_to_ack: c_int, num_acked: Out<c_int>) on comm {
        let number = comm::find(comm)?.members.number();
        let count = usize::try_from(num_to_ack).unwrap_or(0);
        let known = council()?.ask(|council| council.acknowledge(number, count));
        num_acked.put(int(u32::try_from(known).unwrap_or(u32::MAX)))
    }

    fn MPIX_Comm_failure_ack(comm: MPI_Comm) on comm {
        Plane::first()?.turn();
        let number = comm::find(comm)?.members.number();
        council()?.ask(|council| council.acknowledge(number, usize::MAX));
        Ok(())
    }

    fn MPIX_Comm_failure_get_acked(comm: MPI_Comm, failedgrp: Out<MPI_Group>) on comm {
        failedgrp.put(group_of(&comm::find(comm)?.members.standing().acknowledged()))
    }
}
