//! Recovery from the death of ranks, in a job that continues without them. The terms are those of User Level Failure
//! Mitigation.
//!
//! The agreement service of crate `mpi`, which runs beside the application, makes all decisions.

use std::sync::Arc;

use ferrywire_host::{Rank, RunningService};
use ferrywire_mpi::agreement::{Agreement, Decision};
use ferrywire_mpi::comm::Comm as Members;
use ferrywire_mpi::number_agreement::agree_among_living;
use ferrywire_mpi::numbers::Claim;

use crate::comm_create::Created;
use crate::process::Process;

/// The job ends when a rank dies, so it has no agreement service.
#[derive(Clone, Copy, Debug)]
pub struct NotFaultTolerant;

/// Starts the agreement service of a rank.
pub(crate) fn open_agreement(rank: &'static Rank) -> Arc<RunningService<Agreement>> {
    let me = rank.driver().me();
    let (word, wanted) = (Agreement::word(me), Agreement::wanted());
    RunningService::open(
        rank,
        Agreement::new(me),
        word,
        wanted,
        Agreement::message_bytes_max(rank.driver().peers_max()),
    )
}

impl Process {
    /// Announces a new communicator to the agreement service.
    pub fn on_comm_created(&self, members: &Members) {
        if let Some(agreement) = &self.agreement {
            agreement.ask(|agreement| {
                agreement.on_made(members.number(), members.everyone(), members.state());
            });
        }
    }

    /// Forgets a freed communicator. Its number is not used again if a revocation of it may still be on its way.
    pub fn on_comm_freed(&self, members: &Members, claim: Option<Claim>) {
        self.rank().facts().forget(members.number());
        if let Some(agreement) = &self.agreement {
            agreement.ask(|agreement| agreement.on_freed(members.number()));
        }
        if let Some(claim) = claim.filter(|_| !members.is_reusable()) {
            claim.retire();
        }
    }

    /// Revokes a communicator at all ranks.
    pub fn revoke(&self, members: &Members) -> Result<(), NotFaultTolerant> {
        self.agreement()?.ask(|agreement| agreement.revoke(members.number()));
        Ok(())
    }

    /// Acknowledges the first `count` deaths in a communicator. Returns the number that are acknowledged.
    pub fn acknowledge_failed(
        &self,
        members: &Members,
        count: usize,
    ) -> Result<usize, NotFaultTolerant> {
        Ok(self.agreement()?.ask(|agreement| agreement.acknowledge(members.number(), count)))
    }

    /// Takes part in the next agreement of a communicator, and waits for the decision of all living members.
    pub fn agree(&self, members: &Members, words: Vec<u64>) -> Result<Decision, NotFaultTolerant> {
        let promise = self.agreement()?.ask(|agreement| agreement.agree(members.number(), words));
        // SAFETY: no memory is lent.
        Ok(unsafe { self.first_plane().wait_for(|_, _| promise.get().cloned()) })
    }

    /// Agrees with all living members of a communicator on another one without the dead. `None` if they have no free
    /// number in common.
    pub fn shrink(&self, members: &Members) -> Result<Option<Created>, NotFaultTolerant> {
        let agreed = agree_among_living(self.numbers(), self.plane_vote(), |words| {
            self.agree(members, words)
        })?;
        Ok(agreed.map(|(agreed, decision)| {
            let group = members.group().without(&decision.failed);
            let rank = group.rank_of(self.rank().driver().me()).expect("we live");
            Created { members: Members::new(group, rank, agreed.claim.number()), agreed }
        }))
    }

    fn agreement(&self) -> Result<&Arc<RunningService<Agreement>>, NotFaultTolerant> {
        self.agreement.as_ref().ok_or(NotFaultTolerant)
    }
}
