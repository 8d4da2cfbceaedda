//! How the ranks of a job find each other: through the launcher, on a socket that each inherits.
//!
//! A rank says hello and waits. When all have said hello, the launcher tells each its rank and hands it the job's
//! segment, a file without a name. Nothing in the file system can be found, squatted or left behind, and both sides ask
//! the kernel about the other. See decision 0014.
//!
//! | side | type | calls |
//! |---|---|---|
//! | rank | [`Bootstrap`], then [`LauncherChannel`] | [`from_environment`], `join`; `ask`, `goodbye`, `abort` |
//! | launcher | [`RankSocket`], one for each rank | `open`; `poll`, `send_join_reply`, `refuse`, `answer` |
//!
//! Under another launcher, the first rank of a host takes the launcher's part and opens a join socket
//! (`join_socket.rs`). A rank that asks for something which only our launcher can do starts one (`late_launcher.rs`).

// Public only for tests that attack it from outside: no other code may rely on these names.
#[doc(hidden)]
pub mod join_socket;
pub mod late_launcher;
mod rank_socket;
#[doc(hidden)]
pub mod request;
mod socket;
#[doc(hidden)]
pub mod wire;

use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd, RawFd};

use crate::error_code::ErrorCode;
use crate::shm::Process;
pub(crate) use join_socket::{JoinAddress, JoinSocket, JoinedRank, NotAll, enter};
pub use rank_socket::{RankSocket, Word};
pub use request::{Answer, Command, Request};
use socket::{Parcel, WaitMode};
pub use wire::{Hello, Member, NetworkConfig, Parent, TEXT_BYTES_MAX, VERSION};
use wire::{MESSAGE_BYTES_MAX, Message, Unreadable};

/// The environment variable in which a rank finds the file descriptor of its socket.
pub const VARIABLE: &str = "FERRY_BOOTSTRAP";

/// Why a process could not join its job.
#[derive(Debug)]
pub enum BootstrapError {
    /// The variable does not hold a number.
    NotANumber {
        /// What it holds.
        value: String,
    },
    /// The number does not name the launcher's socket.
    NotASocket {
        /// The number.
        number: RawFd,
        /// The error of the system.
        error: io::Error,
    },
    /// The other end of our socket was created by another user.
    StrangeLauncher {
        /// That user.
        uid: u32,
        /// Our user.
        own: u32,
    },
    /// The process that said hello belongs to another user.
    StrangeRank {
        /// The rank on whose socket it spoke.
        rank: u32,
        /// That user.
        uid: u32,
        /// Our user.
        own: u32,
    },
    /// Another process of this rank has joined before.
    Taken {
        /// The rank.
        rank: u32,
        /// That process.
        by: u32,
    },
    /// A process that is not the rank spoke for it.
    NotTheRank {
        /// The rank.
        rank: u32,
        /// The process.
        pid: u32,
    },
    /// Two processes of one rank wait on the same socket.
    Crossed {
        /// Our process.
        own: u32,
        /// The process that the answer was for.
        other: u32,
    },
    /// The process that answers at the join socket of this host does not know the token of the job.
    NotTheFirst,
    /// The launcher refused us.
    Refused {
        /// The reason.
        text: String,
    },
    /// The launcher closed the socket.
    LauncherGone,
    /// The other side speaks another version.
    Version {
        /// That version.
        theirs: u16,
    },
    /// The other side sent no valid message, or not the one that was due.
    Malformed,
    /// A request to the launcher is too long.
    TooLong,
    /// The join reply came without a segment: this process may have no descriptor left.
    NoSegment,
    /// A system call failed.
    Os {
        /// What the call was for.
        what: &'static str,
        /// The error of the system.
        error: io::Error,
    },
}

impl BootstrapError {
    /// Its code, with which the text of an error ends.
    pub fn code(&self) -> ErrorCode {
        match self {
            BootstrapError::NotASocket { .. }
            | BootstrapError::Taken { .. }
            | BootstrapError::Crossed { .. } => ErrorCode::JOIN_CHILD,
            BootstrapError::StrangeLauncher { .. }
            | BootstrapError::StrangeRank { .. }
            | BootstrapError::NotTheRank { .. }
            | BootstrapError::NotTheFirst => ErrorCode::JOIN_USER,
            BootstrapError::LauncherGone => ErrorCode::LAUNCHER_GONE,
            BootstrapError::Version { .. } | BootstrapError::Malformed => ErrorCode::JOIN_VERSION,
            BootstrapError::NoSegment => ErrorCode::OPEN_FILES,
            BootstrapError::Os { .. } => ErrorCode::SYSTEM,
            BootstrapError::NotANumber { .. }
            | BootstrapError::Refused { .. }
            | BootstrapError::TooLong => ErrorCode::JOIN,
        }
    }
}

impl fmt::Display for BootstrapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use BootstrapError as E;
        match self {
            E::NotANumber { value } => write!(
                f,
                "{VARIABLE} is '{value}', which is not a number; only ferry run should set it"
            ),
            E::NotASocket { number, error } => write!(
                f,
                "{VARIABLE} is {number}, which is not the launcher's socket in this process ({error}). A \
                 program that a rank starts cannot join its job (unset {VARIABLE} to run it alone), and a \
                 wrapper between ferry run and a rank must not close inherited file descriptors"
            ),
            E::StrangeLauncher { uid, own } => write!(
                f,
                "the launcher runs as user {uid}, but this process as user {own}; start both as the same user"
            ),
            E::StrangeRank { rank, uid, own } => write!(
                f,
                "a process of user {uid} tried to join a job of user {own} as rank {rank}; start both as the \
                 same user"
            ),
            E::Taken { rank, by } => write!(
                f,
                "rank {rank} has already joined as pid {by}. A program that a rank starts cannot join its job; \
                 unset {VARIABLE} to run it alone"
            ),
            E::NotTheRank { rank, pid } => {
                write!(
                    f,
                    "pid {pid} sent a message in the name of rank {rank}, but is not that rank"
                )
            }
            E::Crossed { own, other } => write!(
                f,
                "pids {own} and {other} tried to join as the same rank at the same time; a rank is one process"
            ),
            E::NotTheFirst => write!(
                f,
                "the process that answers at the join socket of this host does not know the job's token; \
                 another process has taken the socket's name"
            ),
            E::Refused { text } => write!(f, "{text}"),
            E::LauncherGone => write!(f, "the launcher has exited; the job is over"),
            E::Version { theirs } => write!(
                f,
                "the other side uses version {theirs} of the bootstrap protocol, this side version {VERSION}; \
                 use the ferry that came with the library"
            ),
            E::Malformed => write!(
                f,
                "received an invalid message on the bootstrap socket; use the ferry that came with the library"
            ),
            E::TooLong => write!(
                f,
                "the request is too long: commands, arguments and names have at most {MESSAGE_BYTES_MAX} bytes together"
            ),
            E::NoSegment => write!(
                f,
                "the job's shared memory did not arrive; this process may have no free file descriptor left \
                 (ulimit -n)"
            ),
            E::Os { what, error } => write!(f, "cannot {what}: {error}"),
        }
    }
}

impl std::error::Error for BootstrapError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            BootstrapError::NotASocket { error, .. } | BootstrapError::Os { error, .. } => {
                Some(error)
            }
            _ => None,
        }
    }
}

/// The bootstrap socket that this process was started with.
#[derive(Debug)]
pub struct Bootstrap {
    value: String,
}

/// The bootstrap socket that the environment names. `None` without a launcher: a job of one.
pub fn from_environment(read: impl Fn(&str) -> Option<String>) -> Option<Bootstrap> {
    read(VARIABLE).map(|value| Bootstrap { value })
}

impl Bootstrap {
    /// Says hello, and waits until all ranks of the job have. Returns the membership in the job, the files that came
    /// with it, and the channel to the launcher.
    ///
    /// `process` describes this process to the others.
    pub fn join(
        self,
        process: Process,
    ) -> Result<(Member, Files, LauncherChannel), BootstrapError> {
        let number = self.value.trim().parse().ok();
        let number: RawFd = number.ok_or(BootstrapError::NotANumber { value: self.value })?;
        let socket = socket::inherited(number)
            .map_err(|error| BootstrapError::NotASocket { number, error })?;
        let channel = LauncherChannel { socket };
        channel.check_launcher()?;
        channel.say(&Message::Hello(Hello::of(process)), "send hello to the launcher")?;
        let (member, files) = channel.wait_for_join_reply(process.pid)?;
        Ok((member, files, channel))
    }
}

/// The files that come with the join reply.
#[derive(Debug)]
pub struct Files {
    /// The segment of the ranks on this host.
    pub segment: OwnedFd,
    /// The directory of the other hosts, if there are any.
    pub directory: Option<OwnedFd>,
    /// The socket that reaches them.
    pub socket: Option<OwnedFd>,
}

/// The channel of a rank to its launcher.
#[derive(Debug)]
pub struct LauncherChannel {
    socket: OwnedFd,
}

impl LauncherChannel {
    /// Tells the launcher that the rank has finalised, so that its exit does not count as a failure.
    pub fn goodbye(&self) -> Result<(), BootstrapError> {
        self.say(&Message::Goodbye, "send goodbye to the launcher")
    }

    /// Waits until all ranks of the job have called this, or the launcher is gone.
    pub fn wait_for_all(&self) -> Result<(), BootstrapError> {
        self.say(&Message::All, "tell the launcher that this rank waits")?;
        let parcel = socket::receive(self.socket.as_fd(), WaitMode::Wait)
            .map_err(|error| BootstrapError::Os { what: "receive from the launcher", error })?;
        match Message::parse(&parcel.bytes) {
            Ok(Message::All) => Ok(()),
            _ if parcel.bytes.is_empty() => Err(BootstrapError::LauncherGone),
            _ => Err(BootstrapError::Malformed),
        }
    }

    /// Reports that `rank` has been silent for too long, so that all ranks continue without it.
    pub fn silent(&self, rank: u32) -> Result<(), BootstrapError> {
        self.say(&Message::Silent { rank }, "report a silent rank to the launcher")
    }

    /// Asks the launcher for something, and waits for its answer.
    pub fn ask(&self, request: &Request) -> Result<Answer, BootstrapError> {
        let message = Message::Request(request.clone());
        if message.emit().len() > MESSAGE_BYTES_MAX {
            return Err(BootstrapError::TooLong);
        }
        self.say(&message, "ask the launcher")?;
        match Message::parse(&self.hear()?.bytes) {
            Ok(Message::Answer(answer)) => Ok(answer),
            _ => Err(BootstrapError::Malformed),
        }
    }

    /// Asks the launcher to end the whole job. Text beyond [`TEXT_BYTES_MAX`] is cut.
    pub fn abort(&self, code: i32, text: &str) -> Result<(), BootstrapError> {
        let message = Message::Abort { code, text: text.to_owned() };
        self.say(&message, "ask the launcher to end the job")
    }

    fn check_launcher(&self) -> Result<(), BootstrapError> {
        let (uid, own) = (self.launcher_uid()?, socket::own_uid());
        if uid == own { Ok(()) } else { Err(BootstrapError::StrangeLauncher { uid, own }) }
    }

    fn launcher_uid(&self) -> Result<u32, BootstrapError> {
        socket::peer(self.socket.as_fd())
            .map(|peer| peer.uid)
            .map_err(|error| BootstrapError::Os { what: "find out who runs the launcher", error })
    }

    fn say(&self, message: &Message, what: &'static str) -> Result<(), BootstrapError> {
        let sent = socket::send(self.socket.as_fd(), &message.emit(), &[], WaitMode::Wait);
        sent.map_err(|error| match error.kind() {
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => {
                BootstrapError::LauncherGone
            }
            _ => BootstrapError::Os { what, error },
        })
    }

    fn hear(&self) -> Result<Parcel, BootstrapError> {
        let parcel = socket::receive(self.socket.as_fd(), WaitMode::Wait).map_err(|error| {
            match error.kind() {
                io::ErrorKind::ConnectionReset => BootstrapError::LauncherGone,
                _ => BootstrapError::Os { what: "receive from the launcher", error },
            }
        })?;
        if parcel.bytes.is_empty() { Err(BootstrapError::LauncherGone) } else { Ok(parcel) }
    }

    fn wait_for_join_reply(&self, own: u32) -> Result<(Member, Files), BootstrapError> {
        let parcel = self.hear()?;
        match Message::parse(&parcel.bytes) {
            Ok(Message::JoinReply { to, .. } | Message::Refused { to, .. }) if to != own => {
                Err(BootstrapError::Crossed { own, other: to })
            }
            Ok(Message::JoinReply { member, .. }) => {
                let mut files = parcel.descriptors.into_iter();
                let segment = files.next().ok_or(BootstrapError::NoSegment)?;
                let (directory, socket) = (files.next(), files.next());
                Ok((member, Files { segment, directory, socket }))
            }
            Ok(Message::Refused { text, .. }) => Err(BootstrapError::Refused { text }),
            Ok(_) | Err(Unreadable::Malformed) => Err(BootstrapError::Malformed),
            Err(Unreadable::Version(theirs)) => Err(BootstrapError::Version { theirs }),
        }
    }
}

#[cfg(test)]
mod tests;
