//! The launcher's side of the meeting: one place for each rank.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::MeetError;
use super::socket::{self, Parcel, Patience, Sender};
use super::wire::{Hello, Member, Message, Unreadable};
use crate::shm::Process;

/// Where a rank is expected, and the line to it once it has come.
pub struct Place {
    rank: u32,
    socket: OwnedFd,
    /// What the rank said of itself, and the process that the kernel saw saying it.
    taken: Option<(Hello, u32)>,
}

/// What a place has to tell its launcher.
#[derive(Debug)]
pub enum Word {
    /// The rank is here and waits for its welcome. Its process, with the number by which the kernel knows it here.
    Hello(Process),
    /// The rank waits until all ranks have said this.
    All,
    /// The rank has not heard of this one for too long, and goes on without it.
    Silent(u32),
    /// The rank has finalised.
    Goodbye,
    /// The rank wants the job to end.
    Abort {
        /// With this code.
        code: i32,
        /// And for this reason.
        text: String,
    },
    /// Somebody spoke who may not, or nonsense. He has been told; the place is as before.
    Refused(MeetError),
    /// Nobody holds the other end any more.
    Closed,
}

impl Place {
    /// A place, and the end that the process of the rank shall inherit.
    pub fn open(rank: u32) -> io::Result<(Place, OwnedFd)> {
        let (socket, theirs) = socket::pair()?;
        socket::attest(socket.as_fd())?;
        Ok((Place { rank, socket, taken: None }, theirs))
    }

    /// The next word, if there is one. Never blocks.
    pub fn poll(&mut self) -> io::Result<Option<Word>> {
        loop {
            match socket::receive(self.socket.as_fd(), Patience::Now) {
                Ok(parcel) => return Ok(Some(self.on_parcel(&parcel))),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                // The rank went without reading our last message. What it said before is still
                // there.
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Tells the rank who it is, and gives it the segment.
    ///
    /// In a job of several hosts, their directory and the socket of the rank follow the segment.
    pub fn welcome(&self, member: Member, files: &[BorrowedFd<'_>]) -> io::Result<()> {
        assert_eq!(member.rank, self.rank, "a welcome goes to its own rank");
        let (hello, _) = self.taken.expect("only who has said hello is welcomed");
        let message = Message::Welcome { to: hello.pid, member }.emit();
        socket::send(self.socket.as_fd(), &message, files, Patience::Now)
    }

    /// Tells the rank that all have said that they wait for each other.
    pub fn tell_all(&self) -> io::Result<()> {
        socket::send(self.socket.as_fd(), &Message::All.emit(), &[], Patience::Now)
    }

    /// Tells the rank, if it has come, that there will be no welcome.
    pub fn refuse(&self, text: &str) {
        if let Some((hello, _)) = self.taken {
            self.answer(hello.pid, text);
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
                self.answer(to, &error.to_string());
                Word::Refused(error)
            }
        }
    }

    fn judge(&mut self, sender: Sender, bytes: &[u8]) -> Result<Word, MeetError> {
        let own = socket::own_uid();
        if sender.uid != own {
            return Err(MeetError::StrangeRank { rank: self.rank, uid: sender.uid, own });
        }
        let message = Message::parse(bytes).map_err(|why| match why {
            Unreadable::Version(theirs) => MeetError::Version { theirs },
            Unreadable::Malformed => MeetError::Malformed,
        })?;
        match (message, self.taken) {
            (Message::Hello(hello), None) => {
                self.taken = Some((hello, sender.pid));
                Ok(Word::Hello(hello.process(sender.pid)))
            }
            (Message::Hello(_), Some((_, pid))) => {
                Err(MeetError::Taken { rank: self.rank, by: pid })
            }
            (Message::Goodbye, Some((_, pid))) if pid == sender.pid => Ok(Word::Goodbye),
            (Message::All, Some((_, pid))) if pid == sender.pid => Ok(Word::All),
            (Message::Silent { rank }, Some((_, pid))) if pid == sender.pid => {
                Ok(Word::Silent(rank))
            }
            (Message::Abort { code, text }, Some((_, pid))) if pid == sender.pid => {
                Ok(Word::Abort { code, text })
            }
            // A process that the rank forked speaks on the rank's line.
            (
                Message::Goodbye | Message::All | Message::Silent { .. } | Message::Abort { .. },
                _,
            ) => Err(MeetError::NotTheRank { rank: self.rank, pid: sender.pid }),
            (
                Message::Welcome { .. }
                | Message::Refused { .. }
                | Message::Enter { .. }
                | Message::Entered { .. },
                _,
            ) => Err(MeetError::Malformed),
        }
    }

    /// If there is no room, whoever sent so much without reading does not get this answer either.
    fn answer(&self, to: u32, text: &str) {
        let message = Message::Refused { to, text: text.to_owned() }.emit();
        let _ = socket::send(self.socket.as_fd(), &message, &[], Patience::Now);
    }
}

impl AsFd for Place {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
