//! The launcher's side of the bootstrap: one rank socket for each rank.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::BootstrapError;
use super::join_socket::JoinedRank;
use super::request::{Answer, Request};
use super::socket::{self, Parcel, Sender, WaitMode};
use super::wire::{Hello, Member, Message, Unreadable};
use crate::shm::Process;

/// The socket on which the launcher expects a rank, and talks to it once it has joined.
pub struct RankSocket {
    rank: u32,
    socket: OwnedFd,
    /// The rank's hello, and the process that sent it according to the kernel.
    taken: Option<(Hello, u32)>,
}

/// A message from a rank socket to its launcher.
#[derive(Debug)]
pub enum Word {
    /// The rank has come and waits for its join reply. Its process, with the process id by which the kernel knows it
    /// here.
    Hello(Process),
    /// The rank waits until all ranks have said this.
    All,
    /// The rank has not heard of this rank for too long, and continues without it.
    Silent(u32),
    /// The rank asks for something, and waits for the answer.
    Request(Request),
    /// The rank has finalised.
    Goodbye,
    /// The rank asks for the job to end.
    Abort {
        /// The exit code.
        code: i32,
        /// The reason.
        text: String,
    },
    /// An unauthorised or malformed message. Its sender has been told; the rank socket is unchanged.
    Refused(BootstrapError),
    /// The other end is closed everywhere.
    Closed,
}

impl RankSocket {
    /// Opens a rank socket, and the end that the process of the rank inherits.
    pub fn open(rank: u32) -> io::Result<(RankSocket, OwnedFd)> {
        let (socket, theirs) = socket::pair()?;
        socket::attest(socket.as_fd())?;
        Ok((RankSocket { rank, socket, taken: None }, theirs))
    }

    /// The rank socket of a rank that has joined at a join socket.
    pub(super) fn of_joined(joined: JoinedRank) -> (u32, Process, RankSocket) {
        let JoinedRank { channel: socket, rank, hello, process } = joined;
        let taken = Some((hello, process.pid_outside));
        (rank, process, RankSocket { rank, socket, taken })
    }

    /// The next message, if there is one. Never blocks.
    pub fn poll(&mut self) -> io::Result<Option<Word>> {
        loop {
            match socket::receive(self.socket.as_fd(), WaitMode::Now) {
                Ok(parcel) => return Ok(Some(self.on_parcel(&parcel))),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                // The rank went without reading our last message. What it said before is still there.
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Tells the process which rank it is, and hands it the segment.
    ///
    /// In a job of several hosts, their directory and the socket of the rank follow the segment.
    pub fn send_join_reply(&self, member: Member, files: &[BorrowedFd<'_>]) -> io::Result<()> {
        assert_eq!(member.rank, self.rank, "a join reply goes to its own rank");
        let (hello, _) = self.taken.expect("a join reply follows a hello");
        let message = Message::JoinReply { to: hello.pid, member }.emit();
        socket::send(self.socket.as_fd(), &message, files, WaitMode::Now)
    }

    /// Tells the rank that all ranks have said that they wait for each other.
    pub fn tell_all(&self) -> io::Result<()> {
        socket::send(self.socket.as_fd(), &Message::All.emit(), &[], WaitMode::Now)
    }

    /// Answers the rank's request.
    pub fn answer(&self, answer: Answer) -> io::Result<()> {
        socket::send(self.socket.as_fd(), &Message::Answer(answer).emit(), &[], WaitMode::Now)
    }

    /// Tells the rank, if it has come, that there will be no join reply.
    pub fn refuse(&self, text: &str) {
        if let Some((hello, _)) = self.taken {
            self.refuse_process(hello.pid, text);
        }
    }

    fn on_parcel(&mut self, parcel: &Parcel) -> Word {
        let Some(sender) = parcel.sender else { return Word::Closed };
        match self.judge(sender, &parcel.bytes) {
            Ok(word) => word,
            Err(error) => {
                let to = match Message::parse(&parcel.bytes) {
                    Ok(Message::Hello(hello)) => hello.pid,
                    _ => sender.pid,
                };
                self.refuse_process(to, &error.to_string());
                Word::Refused(error)
            }
        }
    }

    fn judge(&mut self, sender: Sender, bytes: &[u8]) -> Result<Word, BootstrapError> {
        let own = socket::own_uid();
        if sender.uid != own {
            return Err(BootstrapError::StrangeRank { rank: self.rank, uid: sender.uid, own });
        }
        let message = Message::parse(bytes).map_err(|why| match why {
            Unreadable::Version(theirs) => BootstrapError::Version { theirs },
            Unreadable::Malformed => BootstrapError::Malformed,
        })?;
        match (message, self.taken) {
            (Message::Hello(hello), None) => {
                self.taken = Some((hello, sender.pid));
                Ok(Word::Hello(hello.process(sender.pid)))
            }
            (Message::Hello(_), Some((_, pid))) => {
                Err(BootstrapError::Taken { rank: self.rank, by: pid })
            }
            (Message::Goodbye, Some((_, pid))) if pid == sender.pid => Ok(Word::Goodbye),
            (Message::All, Some((_, pid))) if pid == sender.pid => Ok(Word::All),
            (Message::Silent { rank }, Some((_, pid))) if pid == sender.pid => {
                Ok(Word::Silent(rank))
            }
            (Message::Request(request), Some((_, pid))) if pid == sender.pid => {
                Ok(Word::Request(request))
            }
            (Message::Abort { code, text }, Some((_, pid))) if pid == sender.pid => {
                Ok(Word::Abort { code, text })
            }
            // A process that the rank forked speaks on the rank's socket.
            (
                Message::Goodbye
                | Message::All
                | Message::Silent { .. }
                | Message::Request(_)
                | Message::Abort { .. },
                _,
            ) => Err(BootstrapError::NotTheRank { rank: self.rank, pid: sender.pid }),
            (
                Message::JoinReply { .. }
                | Message::Answer(_)
                | Message::Refused { .. }
                | Message::Enter { .. }
                | Message::Entered { .. },
                _,
            ) => Err(BootstrapError::Malformed),
        }
    }

    /// Sends a refusal. If there is no room, the peer has not read its earlier answers, and does not get this one.
    fn refuse_process(&self, to: u32, text: &str) {
        let message = Message::Refused { to, text: text.to_owned() }.emit();
        let _ = socket::send(self.socket.as_fd(), &message, &[], WaitMode::Now);
    }
}

impl AsFd for RankSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
