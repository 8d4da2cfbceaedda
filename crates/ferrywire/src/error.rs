//! Errors: the call, its arguments, why it failed, and what to do.

use std::fmt;
use std::sync::Arc;

use ferrywire_host::ErrorCode;
use ferrywire_mpi::numbers::COMMS_MAX;
use ferrywire_mpi::operation::{self, Operation};
use ferrywire_runtime::TAG_MAX;

/// Why a call failed.
#[derive(Clone, Eq, PartialEq)]
#[non_exhaustive]
pub enum Error {
    /// The message is longer than the buffer. The buffer holds the part that fits.
    Truncated {
        /// The call and its arguments.
        call: Box<Call>,
        /// Length of the message in bytes.
        bytes: u64,
    },
    /// The length of the message is not a multiple of the size of an item. The message has been consumed.
    Misfit {
        /// The call and its arguments.
        call: Box<Call>,
        /// Length of the message in bytes.
        bytes: u64,
        /// Size of one item in bytes.
        item_bytes: usize,
    },
    /// Another rank sent another type, or called another collective or the same one with another type. Only
    /// [`local`](crate::local) checks this, with debug assertions.
    WrongType {
        /// The call and its arguments.
        call: Box<Call>,
        /// The other rank, in this communicator.
        rank: u32,
        /// What the other rank sent or called.
        theirs: String,
        /// What this rank receives or calls.
        ours: String,
    },
    /// A rank that the call needs is lost: it has left the job, or cannot be reached.
    RankLost {
        /// The call and its arguments.
        call: Box<Call>,
        /// The lost rank in this communicator, if it is a member; in an intercommunicator, that of the remote group.
        rank: Option<u32>,
        /// The lost rank in the world of the caller, if it is in that one.
        world_rank: Option<u32>,
        /// How it was lost.
        loss: Loss,
    },
    /// The rank is outside the communicator.
    NoSuchRank {
        /// The call and its arguments.
        call: Box<Call>,
        /// The number of ranks in the communicator.
        size: u32,
    },
    /// The tag is out of range.
    NoSuchTag {
        /// The call and its arguments.
        call: Box<Call>,
    },
    /// The operation is not defined for this type of number.
    Unsuitable {
        /// The call and its arguments.
        call: Box<Call>,
        /// The operation.
        operation: Operation,
        /// The type of the numbers.
        number: operation::Number,
    },
    /// A buffer of a collective has the wrong length.
    WrongLength {
        /// The call and its arguments.
        call: Box<Call>,
        /// Which buffer.
        buffer: &'static str,
        /// The number of items that it has.
        items: usize,
        /// The number of items that it should have; for `alltoall`, the next multiple of the number of ranks.
        wanted: usize,
    },
    /// There is no such grid, or no such dimension of it.
    Topology {
        /// The call and its arguments.
        call: Box<Call>,
        /// The reason.
        why: String,
    },
    /// The items are not all in the part of the window that the rank has.
    OutsideWindow {
        /// The call and its arguments.
        call: Box<Call>,
        /// The first item.
        offset: usize,
        /// The number of items.
        items: usize,
        /// The number of items that the part has.
        len: usize,
    },
    /// A window could not be created, or has no lock or counter that the call needs.
    Window {
        /// The call and its arguments.
        call: Box<Call>,
        /// Its code.
        code: ErrorCode,
        /// The reason.
        why: String,
    },
    /// A file could not be opened or accessed, or the view of it is invalid. A collective call fails at all ranks.
    File {
        /// The call and its arguments.
        call: Box<Call>,
        /// The kind of the reason, as the standard library has it.
        kind: std::io::ErrorKind,
        /// Its code.
        code: ErrorCode,
        /// The reason.
        why: String,
    },
    /// A program could not be started, or ended before its ranks had joined the job.
    Spawn {
        /// The call and its arguments.
        call: Box<Call>,
        /// The reason.
        why: String,
    },
    /// A port is invalid or closed, or cannot be published or looked up.
    Port {
        /// The call and its arguments.
        call: Box<Call>,
        /// Its code.
        code: ErrorCode,
        /// The reason.
        why: String,
    },
    /// A rank has revoked the communicator.
    Revoked {
        /// The call and its arguments.
        call: Box<Call>,
    },
    /// The job ends when its first rank dies, so the calls for recovery are not available.
    NotFaultTolerant {
        /// The call and its arguments.
        call: Box<Call>,
    },
    /// The operation was cancelled, or another part of it failed.
    Cancelled {
        /// The call and its arguments.
        call: Box<Call>,
    },
    /// A value cannot be serialised, or the bytes are not a value of this type.
    Value {
        /// The call and its arguments.
        call: Box<Call>,
        /// What serde reports.
        why: String,
    },
    /// All numbers for communicators are in use.
    TooManyComms {
        /// The call and its arguments.
        call: Box<Call>,
    },
    /// A module could not be loaded, or failed to process a message.
    Module {
        /// The call and its arguments.
        call: Box<Call>,
        /// Its code.
        code: ErrorCode,
        /// The reason.
        why: String,
    },
    /// This process could not join its job.
    Join {
        /// Its code.
        code: ErrorCode,
        /// The reason.
        why: String,
    },
}

/// How a rank was lost.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Loss {
    /// The rank has left the job.
    Left,
    /// The rank panicked, which ended the job.
    Panicked,
    /// The rank did not end in time, so the job was ended.
    TimedOut,
    /// The operating system does not let this rank reach it, for the given reason.
    Unreachable(String),
}

/// The name and arguments of a call. The communicator is named unless it is the world.
pub type Call = ferrywire_runtime::Call<Arc<str>>;

impl std::error::Error for Error {}

/// The same text as [`Display`](fmt::Display), because `unwrap` and a `main` that returns an error print it.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error {
    /// Its code, with which its text ends. `ferry explain` explains it.
    pub fn code(&self) -> ErrorCode {
        match self {
            Error::Truncated { call, .. } if call.peer.is_all() => ErrorCode::COLLECTIVE_LENGTH,
            Error::Truncated { .. } => ErrorCode::TRUNCATED,
            Error::Misfit { .. } => ErrorCode::MISFIT,
            Error::WrongType { .. } => ErrorCode::WRONG_TYPE,
            Error::RankLost { loss: Loss::Unreachable(_), .. } => ErrorCode::RANK_UNREACHABLE,
            Error::RankLost { .. } => ErrorCode::RANK_LEFT,
            Error::NoSuchRank { .. } => ErrorCode::RANK,
            Error::NoSuchTag { .. } => ErrorCode::TAG,
            Error::Unsuitable { .. } => ErrorCode::OPERATION,
            Error::WrongLength { .. } => ErrorCode::WRONG_LENGTH,
            Error::Topology { .. } => ErrorCode::TOPOLOGY,
            Error::OutsideWindow { .. } => ErrorCode::WINDOW_RANGE,
            Error::Spawn { .. } => ErrorCode::SPAWN,
            Error::Revoked { .. } => ErrorCode::REVOKED,
            Error::NotFaultTolerant { .. } => ErrorCode::NOT_FAULT_TOLERANT,
            Error::Cancelled { .. } => ErrorCode::CANCELLED,
            Error::Value { .. } => ErrorCode::VALUE,
            Error::TooManyComms { .. } => ErrorCode::TOO_MANY_COMMS,
            Error::Window { code, .. }
            | Error::File { code, .. }
            | Error::Port { code, .. }
            | Error::Module { code, .. }
            | Error::Join { code, .. } => *code,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.code().ends(Uncoded(self)))
    }
}

/// An error without its code.
struct Uncoded<'a>(&'a Error);

impl fmt::Display for Uncoded<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Error::Truncated { call, bytes } if call.peer.is_all() => write!(
                f,
                "{call}: another rank passed {bytes} bytes; all ranks must pass buffers of matching sizes"
            ),
            Error::Truncated { call, bytes } => write!(
                f,
                "{call}: the message has {bytes} bytes; receive into a longer buffer or use \
                 receive_vec"
            ),
            Error::Misfit { call, bytes, item_bytes } => write!(
                f,
                "{call}: the message has {bytes} bytes, which is not a multiple of the item size, {item_bytes} \
                 bytes; receive the type that was sent"
            ),
            Error::WrongType { call, rank, theirs, ours } if call.peer.is_all() => write!(
                f,
                "{call}: rank {rank} calls {theirs}, but this rank calls {ours}; all ranks must make the same \
                 call with the same type"
            ),
            Error::WrongType { call, rank, theirs, ours } => write!(
                f,
                "{call}: rank {rank} sent {theirs}, but it is received as {ours}; receive the type that was \
                 sent"
            ),
            Error::RankLost { call, rank, world_rank, loss } => {
                write!(f, "{call}: ")?;
                match (rank, world_rank) {
                    (Some(rank), Some(world_rank)) if rank != world_rank => {
                        write!(f, "rank {rank}, which is rank {world_rank} of world,")?;
                    }
                    (Some(rank), _) => write!(f, "rank {rank}")?,
                    (None, Some(world_rank)) => write!(f, "rank {world_rank} of world")?,
                    (None, None) => write!(f, "a rank of another world")?,
                }
                write!(f, " {loss}")
            }
            Error::NoSuchRank { call, size: 1 } => {
                write!(f, "{call}: invalid rank; the only rank is 0")
            }
            Error::NoSuchRank { call, size } => {
                write!(f, "{call}: invalid rank; ranks go from 0 to {}", size - 1)
            }
            Error::NoSuchTag { call } => {
                write!(f, "{call}: invalid tag; tags go from 0 to {TAG_MAX}")
            }
            Error::Unsuitable { call, operation, number } => {
                write!(f, "{call}: {operation:?} is not defined for numbers of type {number:?}")
            }
            Error::WrongLength { call, buffer, items, wanted } => {
                write!(f, "{call}: {buffer} has {items} items; pass {wanted}")
            }
            Error::OutsideWindow { call, offset, items, len } => {
                let end = offset.saturating_add(*items);
                write!(
                    f,
                    "{call}: items {offset} to {end} are not in the part of that rank, which has {len} items"
                )
            }
            Error::Topology { call, why }
            | Error::Window { call, why, .. }
            | Error::File { call, why, .. }
            | Error::Spawn { call, why }
            | Error::Port { call, why, .. } => {
                write!(f, "{call}: {why}")
            }
            Error::Revoked { call } => write!(
                f,
                "{call}: the communicator is revoked; shrink it and continue with the survivors"
            ),
            Error::NotFaultTolerant { call } => write!(
                f,
                "{call}: the job ends when a rank dies; start it with ferry run --on-death continue"
            ),
            Error::Cancelled { call } => {
                write!(f, "{call}: the operation was cancelled, or another part of it failed")
            }
            Error::Value { call, why } => write!(
                f,
                "{call}: {why}; receive the type that was sent, and what send_value sent with receive_value"
            ),
            Error::TooManyComms { call } => write!(
                f,
                "{call}: a rank already has {COMMS_MAX} communicators, the maximum; drop some first"
            ),
            Error::Module { call, why, .. } => write!(f, "{call}: {why}"),
            Error::Join { why, .. } => write!(f, "this process cannot join its job: {why}"),
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
