//! What a program can do when ranks die, in a job that goes on without them.
//!
//! Everything is settled by the agreement of crate `mpi`, which lives beside the application.

use ferrywire_mpi::agreement::Decision;
use ferrywire_runtime::NotFaultTolerant;

use crate::comm::Comm;
use crate::error::Error;

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
        self.tolerant("revoke", self.process().revoke(self.members()))
    }

    /// Whether a rank has revoked it.
    pub fn is_revoked(&self) -> bool {
        self.members().state().is_revoked()
    }

    /// Another communicator, of the ranks that live, in their order. All of them must call it.
    pub fn shrink(&self) -> Result<Comm, Error> {
        match self.tolerant("shrink", self.process().shrink(self.members()))? {
            Some(created) => Ok(self.made(format!("what is left of {}", self.name()), created)),
            None => Err(Error::TooManyComms { call: self.call(self.what_all("shrink")) }),
        }
    }

    /// Agrees on flags with all ranks that live. All of them must call it, and all get the same, whoever dies
    /// meanwhile.
    pub fn agree(&self, flags: u64) -> Result<Agreed, Error> {
        let agreed = self.process().agree(self.members(), vec![flags]);
        let Decision { words, failed, is_news } = self.tolerant("agree", agreed)?;
        Ok(Agreed { flags: words.first().copied().unwrap_or(0), failed, is_news })
    }

    /// The ranks that are dead, as far as this one knows, in the order in which it heard of them.
    pub fn failed(&self) -> Vec<u32> {
        self.plane().turn();
        let lost = self.members().state().lost();
        lost.into_iter().filter_map(|peer| self.members().group().rank_of(peer)).collect()
    }

    /// This rank knows of the first `count` of them, and answers of how many it knows. When it knows of all it can
    /// receive from [`ANY`](crate::ANY) again: before, one of them might have been the sender.
    pub fn acknowledge_failed(&self, count: usize) -> Result<usize, Error> {
        let known = self.process().acknowledge_failed(self.members(), count);
        self.tolerant("acknowledge_failed", known)
    }

    /// What came of a call that only a job has that goes on without its dead.
    fn tolerant<T>(
        &self,
        name: &'static str,
        answer: Result<T, NotFaultTolerant>,
    ) -> Result<T, Error> {
        answer.map_err(|_| Error::NotFaultTolerant { call: self.call(self.what_all(name)) })
    }
}
