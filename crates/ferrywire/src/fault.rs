//! Recovery from the death of ranks, in a job that continues without them.
//!
//! The agreement service of crate `mpi`, which runs beside the application, makes all decisions.

use ferrywire_mpi::agreement::Decision;
use ferrywire_runtime::NotFaultTolerant;

use crate::comm::Comm;
use crate::error::Error;

/// The result of an agreement among the surviving ranks.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Agreed {
    /// The bitwise AND of the flags of all ranks.
    pub flags: u64,
    /// The dead ranks, in ascending order.
    pub failed: Vec<u32>,
    /// Whether some of them have not been [acknowledged](Comm::acknowledge_failed) by all ranks.
    pub is_news: bool,
}

/// Recovery when ranks die. Start the job with `ferry run --on-death continue`; otherwise it ends with the first
/// death.
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
    /// Revokes the communicator on all ranks: waiting calls return [`Error::Revoked`], and so do all later ones
    /// except those for recovery. It is enough that one rank calls it.
    pub fn revoke(&self) -> Result<(), Error> {
        self.tolerant("revoke", self.process().revoke(self.members()))
    }

    /// Whether a rank has revoked the communicator.
    pub fn is_revoked(&self) -> bool {
        self.members().state().is_revoked()
    }

    /// Creates a communicator of the surviving ranks, in the same order. All of them must call it.
    pub fn shrink(&self) -> Result<Comm, Error> {
        match self.tolerant("shrink", self.process().shrink(self.members()))? {
            Some(created) => Ok(self.made(format!("the survivors of {}", self.name()), created)),
            None => Err(Error::TooManyComms { call: self.call(self.what_all("shrink")) }),
        }
    }

    /// Agrees on flags with all surviving ranks. All of them must call it, and all get the same result, even if ranks
    /// die meanwhile.
    pub fn agree(&self, flags: u64) -> Result<Agreed, Error> {
        let agreed = self.process().agree(self.members(), vec![flags]);
        let Decision { words, failed, is_news } = self.tolerant("agree", agreed)?;
        Ok(Agreed { flags: words.first().copied().unwrap_or(0), failed, is_news })
    }

    /// The ranks that this one knows to be dead, in the order in which it learned of them.
    pub fn failed(&self) -> Vec<u32> {
        self.plane().turn();
        let lost = self.members().state().lost();
        lost.into_iter().filter_map(|peer| self.members().group().rank_of(peer)).collect()
    }

    /// Acknowledges the first `count` ranks of [`failed`](Comm::failed), and returns how many are acknowledged.
    /// Receives from [`ANY`](crate::ANY) work again once all are: before, a dead rank might have been the sender.
    pub fn acknowledge_failed(&self, count: usize) -> Result<usize, Error> {
        let known = self.process().acknowledge_failed(self.members(), count);
        self.tolerant("acknowledge_failed", known)
    }

    /// Converts the answer of a call that only a fault-tolerant job supports.
    fn tolerant<T>(
        &self,
        name: &'static str,
        answer: Result<T, NotFaultTolerant>,
    ) -> Result<T, Error> {
        answer.map_err(|_| Error::NotFaultTolerant { call: self.call(self.what_all(name)) })
    }
}
