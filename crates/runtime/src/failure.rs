//! Converts faults of the NIC to errors that a front can report. No other file does.

use std::fmt;

use ferrywire_host::nic::{Fault, Outcome, Peer};
use ferrywire_modules::ModuleFault;

use crate::process::Process;

/// Why an operation failed.
#[derive(Clone, Debug)]
pub enum Failure {
    /// The message is longer than the buffer.
    Truncated {
        /// The rank that sent it.
        source: u32,
        /// Its tag.
        tag: u32,
        /// Its length in bytes.
        bytes: u64,
    },
    /// A process that the operation needs has left the job or died.
    PeerDown {
        /// The process.
        peer: Peer,
        /// Its rank in the world of this process, if it has one.
        rank: Option<u32>,
        /// Why it cannot be reached, if it did not leave by itself.
        unreachable: Option<String>,
    },
    /// The communicator is revoked.
    Revoked,
    /// The operation was cancelled.
    Cancelled,
    /// A module ended the message.
    Module(ModuleFault),
    /// Another part of the operation failed.
    Abandoned,
    /// An outcome that the operation cannot have.
    Unexpected(Outcome),
}

impl Process {
    /// The result of an operation that returns nothing.
    #[inline]
    pub fn done(&self, outcome: Outcome) -> Result<(), Failure> {
        match outcome {
            Outcome::Done => Ok(()),
            other => Err(self.failure(other)),
        }
    }

    /// The failure that `outcome` stands for.
    #[cold]
    pub fn failure(&self, outcome: Outcome) -> Failure {
        match outcome {
            Outcome::Failed(Fault::Truncated { word, len, .. }) => {
                Failure::Truncated { source: word.source(), tag: word.tag(), bytes: len }
            }
            Outcome::Failed(Fault::PeerDown(peer)) => {
                let rank = (0..).zip(self.rank().world()).find(|&(_, member)| member == peer);
                let rank = rank.map(|(rank, _)| rank);
                let unreachable = self.rank().trouble(peer);
                match unreachable {
                    None => self.rank().note_missing(peer),
                    Some(_) => self.rank().note_unreachable(peer),
                }
                Failure::PeerDown { peer, rank, unreachable }
            }
            Outcome::Failed(Fault::Revoked) => Failure::Revoked,
            Outcome::Failed(Fault::Module { word, trap }) => {
                Failure::Module(ModuleFault::of(word, trap))
            }
            Outcome::Failed(Fault::Abandoned) => Failure::Abandoned,
            Outcome::Cancelled => Failure::Cancelled,
            other => Failure::Unexpected(other),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Truncated { source, tag, bytes } => write!(
                f,
                "the message from rank {source} with tag {tag} has {bytes} bytes, more than the receive buffer \
                 holds"
            ),
            Failure::PeerDown { rank, unreachable, .. } => {
                match rank {
                    Some(rank) => write!(f, "rank {rank} of MPI_COMM_WORLD")?,
                    None => write!(f, "a rank that is not in MPI_COMM_WORLD")?,
                }
                match unreachable {
                    Some(why) => write!(f, " cannot be reached: {why}"),
                    None => write!(f, " has left the job"),
                }
            }
            Failure::Revoked => write!(f, "the communicator is revoked"),
            Failure::Cancelled => write!(f, "the operation was cancelled"),
            Failure::Module(fault) => write!(f, "{fault}"),
            Failure::Abandoned => write!(f, "another part of the operation failed"),
            Failure::Unexpected(outcome) => write!(f, "the operation ended with {outcome:?}"),
        }
    }
}
