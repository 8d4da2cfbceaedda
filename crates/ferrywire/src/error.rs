//! What can go wrong, in words: which call, with whom, how many bytes, why, and what to do.

use std::fmt;
use std::sync::Arc;

use ferrywire_mpi::numbers::COMMS_MAX;
use ferrywire_mpi::operation::{self, Operation};
use ferrywire_runtime::TAG_MAX;

/// Why a call did not do what it was asked to.
#[derive(Clone, Eq, PartialEq)]
#[non_exhaustive]
pub enum Error {
    /// The message is longer than what it was to be received into. What fits is there.
    Truncated {
        /// What was asked for.
        call: Box<Call>,
        /// Bytes of the message.
        bytes: u64,
    },
    /// The message cannot be made of items of the type. It is gone.
    Misfit {
        /// What was asked for.
        call: Box<Call>,
        /// Bytes of the message.
        bytes: u64,
        /// Bytes of one item.
        item_bytes: usize,
    },
    /// Another rank has sent another type, or calls another collective or the same of another type. Told by
    /// [`local`](crate::local) in a build for tests.
    WrongType {
        /// What was asked for.
        call: Box<Call>,
        /// The other rank, as the communicator counts.
        rank: u32,
        /// What it sends or calls.
        theirs: String,
        /// What we receive or call.
        ours: String,
    },
    /// A rank without which this cannot be done is not there any more.
    RankLost {
        /// What was asked for.
        call: Box<Call>,
        /// The rank, as the communicator counts, if it is a member.
        rank: Option<u32>,
        /// The rank, as the world counts.
        world_rank: u32,
        /// What became of it.
        loss: Loss,
    },
    /// There is no such rank.
    NoSuchRank {
        /// What was asked for.
        call: Box<Call>,
        /// How many ranks the communicator has.
        size: u32,
    },
    /// There is no such tag.
    NoSuchTag {
        /// What was asked for.
        call: Box<Call>,
    },
    /// The operation makes no sense for such numbers.
    Unsuitable {
        /// What was asked for.
        call: Box<Call>,
        /// The operation.
        operation: Operation,
        /// The numbers.
        number: operation::Number,
    },
    /// A buffer of a collective has the wrong length.
    WrongLength {
        /// What was asked for.
        call: Box<Call>,
        /// Which buffer.
        buffer: &'static str,
        /// The items that it has.
        items: usize,
        /// The items that it should have, or a divisor of them.
        wanted: usize,
    },
    /// A rank has revoked the communicator, so that all go on elsewhere.
    Revoked {
        /// What was asked for.
        call: Box<Call>,
    },
    /// The job ends with the first rank that dies, so nothing can be done about it.
    NotFaultTolerant {
        /// What was asked for.
        call: Box<Call>,
    },
    /// It was taken back, or another part of it failed.
    Cancelled {
        /// What was asked for.
        call: Box<Call>,
    },
    /// A value cannot be made to bytes, or the bytes are no such value.
    Value {
        /// What was asked for.
        call: Box<Call>,
        /// What the serialiser says.
        why: String,
    },
    /// There are too many communicators.
    TooManyComms {
        /// What was asked for.
        call: Box<Call>,
    },
    /// A module could not be loaded, or did not come to an end.
    Module {
        /// What was asked for.
        call: Box<Call>,
        /// What stood in the way, or what it did.
        why: String,
    },
    /// This process could not join its job.
    Join {
        /// What stood in the way.
        why: String,
    },
}

/// What became of a rank.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Loss {
    /// It has left the job.
    Left,
    /// It panicked, and took the job with it.
    Panicked,
    /// It has not come to its end in time, and the job was ended.
    TimedOut,
    /// The machine does not let us reach it.
    Unreachable(String),
}

/// What was asked for. The communicator is named unless it is the world.
pub type Call = ferrywire_runtime::Call<Arc<str>>;

impl std::error::Error for Error {}

/// The same sentence as [`Display`](fmt::Display): it is what a `main` that returns an error prints, and `unwrap`.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Truncated { call, bytes } if call.peer.is_all() => write!(
                f,
                "{call}: another rank has {bytes} bytes; all ranks must pass buffers that fit"
            ),
            Error::Truncated { call, bytes } => write!(
                f,
                "{call}: the message has {bytes} bytes; receive into a longer buffer or use \
                 receive_vec"
            ),
            Error::Misfit { call, bytes, item_bytes } => write!(
                f,
                "{call}: the message has {bytes} bytes, which is no whole number of items of \
                 {item_bytes} bytes; receive the type that was sent"
            ),
            Error::WrongType { call, rank, theirs, ours } if call.peer.is_all() => write!(
                f,
                "{call}: rank {rank} calls {theirs}, this one {ours}; all ranks must call the same, with the same type"
            ),
            Error::WrongType { call, rank, theirs, ours } => write!(
                f,
                "{call}: rank {rank} sent {theirs}, and it is received as {ours}; receive the type that was sent"
            ),
            Error::RankLost { call, rank, world_rank, loss } => {
                write!(f, "{call}: ")?;
                match rank {
                    Some(rank) if rank == world_rank => write!(f, "rank {rank}")?,
                    Some(rank) => write!(f, "rank {rank}, which is rank {world_rank} of world,")?,
                    None => write!(f, "rank {world_rank} of world")?,
                }
                write!(f, " {loss}")
            }
            Error::NoSuchRank { call, size: 1 } => write!(f, "{call}: there is only rank 0"),
            Error::NoSuchRank { call, size } => {
                write!(f, "{call}: there are ranks 0 to {}", size - 1)
            }
            Error::NoSuchTag { call } => write!(f, "{call}: tags go from 0 to {TAG_MAX}"),
            Error::Unsuitable { call, operation, number } => {
                write!(f, "{call}: {operation:?} makes no sense for numbers of type {number:?}")
            }
            Error::WrongLength { call, buffer, items, wanted } => {
                write!(f, "{call}: {buffer} has {items} items; pass {wanted}")
            }
            Error::Revoked { call } => write!(
                f,
                "{call}: the communicator is revoked; shrink it, and go on in what is left"
            ),
            Error::NotFaultTolerant { call } => write!(
                f,
                "{call}: the job ends when a rank dies; start it with ferry run --on-death continue"
            ),
            Error::Cancelled { call } => write!(f, "{call}: cancelled"),
            Error::Value { call, why } => write!(
                f,
                "{call}: {why}; receive a value of the type that was sent, by receive_value what \
                 was sent by send_value"
            ),
            Error::TooManyComms { call } => write!(
                f,
                "{call}: a rank has {COMMS_MAX} communicators already; drop some before you make more"
            ),
            Error::Module { call, why } => write!(f, "{call}: {why}"),
            Error::Join { why } => write!(f, "this process cannot join its job: {why}"),
        }
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Loss::Left => write!(f, "has left the job"),
            Loss::Panicked => write!(f, "panicked; its own message says why"),
            Loss::TimedOut => write!(f, "has not ended in time (FERRY_LOCAL_TIMEOUT)"),
            Loss::Unreachable(why) => write!(f, "cannot be reached: {why}"),
        }
    }
}

/// The name of the communicator of all ranks.
pub(crate) const WORLD: &str = "world";
