//! What a program can do when ranks die, in a job that goes on without them.
//!
//! Everything is settled by the council of crate `mpi`, which lives beside the application.

use std::sync::Arc;

use ferrywire_host::Residence;
use ferrywire_mpi::agreement::agree_among_living;
use ferrywire_mpi::comm::Comm as Members;
use ferrywire_mpi::council::{Council, Verdict};
use ferrywire_mpi::numbers::Claim;

use crate::comm::{Comm, What};
use crate::error::Error;
use crate::job::Job;

/// What all ranks that live have agreed on.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Agreed {
    /// The flags of all, combined bit by bit: what all have is left.
    pub flags: u64,
    /// Ranks that are dead, in order.
    pub failed: Vec<u32>,
    /// Whether one of them has not been [acknowledged](Comm::acknowledge_failed) by all.
    pub is_news: bool,
}

/// A communicator has been made.
pub(crate) fn on_made(job: &Job, members: &Members) {
    if let Some(council) = &job.council {
        council.ask(|council| {
            council.on_made(members.number(), members.everyone(), members.standing());
        });
    }
}

/// It is gone. Its number is not used again if word of it may still be under way.
pub(crate) fn on_freed(job: &Job, members: &Members, claim: Option<Claim>) {
    if let Some(council) = &job.council {
        council.ask(|council| council.on_freed(members.number()));
    }
    if let Some(claim) = claim.filter(|_| !members.is_reusable()) {
        claim.retire();
    }
}

/// When ranks die. The job has to be started with `ferry run --on-death continue`; otherwise it ends with the first.
///
/// ```no_run
/// use ferrywire::{Error, Operation};
///
/// let world = ferrywire::init()?;
/// let mut comm = world.comm().clone();
/// let mut sum = 1;
/// while let Err(Error::RankLost { .. } | Error::Revoked { .. }) = comm.allreduce(&mut sum, Operation::Sum) {
///     comm.revoke()?;
///     comm = comm.shrink()?;
///     sum = 1;
/// }
/// # Ok::<(), Error>(())
/// ```
impl Comm {
    /// Ends everything in this communicator, at all ranks: calls that wait return [`Error::Revoked`], and so do all to
    /// come but those that are made for it. One rank that calls it will do.
    pub fn revoke(&self) -> Result<(), Error> {
        let number = self.members().number();
        self.council(self.what_all("revoke"))?.ask(|council| council.revoke(number));
        Ok(())
    }

    /// Whether a rank has revoked it.
    pub fn is_revoked(&self) -> bool {
        self.members().standing().is_revoked()
    }

    /// Another communicator, of the ranks that live, in their order. All of them must call it.
    pub fn shrink(&self) -> Result<Comm, Error> {
        let what = self.what_all("shrink");
        let settle = |words| self.settle(what, words);
        let Some((agreed, verdict)) = agree_among_living(&self.job().numbers, 0, settle)? else {
            return Err(Error::TooManyComms { call: self.call(what) });
        };
        let group = self.members().group().without(&verdict.failed);
        Ok(self.made(format!("what is left of {}", self.name()), group, agreed.claim))
    }

    /// Agrees on flags with all ranks that live. All of them must call it, and all get the same, whoever dies
    /// meanwhile.
    pub fn agree(&self, flags: u64) -> Result<Agreed, Error> {
        let Verdict { words, failed, is_news } =
            self.settle(self.what_all("agree"), vec![flags])?;
        Ok(Agreed { flags: words.first().copied().unwrap_or(0), failed, is_news })
    }

    /// The ranks that are dead, as far as this one knows, in the order in which it heard of them.
    pub fn failed(&self) -> Vec<u32> {
        self.driver().turn();
        let lost = self.members().standing().lost();
        lost.into_iter().filter_map(|peer| self.members().group().rank_of(peer)).collect()
    }

    /// This rank knows of the first `count` of them, and answers of how many it knows. When it knows of all it can
    /// receive from [`ANY`](crate::ANY) again: before, one of them might have been the sender.
    pub fn acknowledge_failed(&self, count: usize) -> Result<usize, Error> {
        let number = self.members().number();
        let council = self.council(self.what_all("acknowledge_failed"))?;
        Ok(council.ask(|council| council.acknowledge(number, count)))
    }

    /// Takes part in the next agreement, and waits for the verdict.
    fn settle(&self, what: What, words: Vec<u64>) -> Result<Verdict, Error> {
        let number = self.members().number();
        let promise = self.council(what)?.ask(|council| council.agree(number, words));
        // SAFETY: nothing is lent.
        Ok(unsafe { self.driver().wait_for(|_, _| promise.get().cloned()) })
    }

    fn council(&self, what: What) -> Result<&Arc<Residence<Council>>, Error> {
        let council = self.job().council.as_ref();
        council.ok_or_else(|| Error::NotLasting { call: self.call(what) })
    }
}
