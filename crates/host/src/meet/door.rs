//! The door of a host whose launcher is not ours: its first rank opens it, the others come in and are welcomed as
//! our own launcher would.
//!
//! The kernel chooses the name of the door, in a space that belongs to the network namespace and to no file
//! system. Both sides ask the kernel who the other is, so it does not matter who else can see that name.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use super::socket::{self, Patience};
use super::wire::{Hello, Member, Message, Unreadable};
use super::{Files, Line, MeetError, trusts};

/// Where the other ranks of a host come in.
pub(crate) struct Door {
    listener: OwnedFd,
    /// What they have to know to find it: letters and digits.
    pub(crate) name: String,
}

/// A rank that has come in.
pub(crate) struct Guest {
    line: OwnedFd,
    /// Which rank it says it is.
    pub(crate) rank: u32,
    pub(crate) hello: Hello,
}

impl Door {
    pub(crate) fn open() -> Result<Door, MeetError> {
        let opened = socket::listen(GUEST_WAIT_MAX);
        let (listener, name) = opened.map_err(os("open a door for the ranks of this host"))?;
        Ok(Door { listener, name })
    }

    /// Waits for the next one of our own user. Others are let out again.
    pub(crate) fn next_guest(&self) -> Result<Guest, MeetError> {
        loop {
            let line = socket::accept(self.listener.as_fd())
                .map_err(os("wait for the other ranks of this host"))?;
            let uid = socket::peer_uid(line.as_fd()).map_err(os("ask who came in"))?;
            if trusts(socket::own_uid(), uid) {
                return Guest::hear(line);
            }
        }
    }
}

impl Guest {
    fn hear(line: OwnedFd) -> Result<Guest, MeetError> {
        let parcel = socket::receive(line.as_fd(), Patience::Wait).map_err(os("hear who came"))?;
        let (rank, hello) = parcel.bytes.split_first_chunk().ok_or(MeetError::Malformed)?;
        match Message::parse(hello) {
            Ok(Message::Hello(hello)) => Ok(Guest { line, rank: u32::from_le_bytes(*rank), hello }),
            Ok(_) | Err(Unreadable::Malformed) => Err(MeetError::Malformed),
            Err(Unreadable::Version(theirs)) => Err(MeetError::Version { theirs }),
        }
    }

    /// Tells the rank who it is, and gives it what [`super::Place::welcome`] gives.
    pub(crate) fn welcome(
        &self,
        member: Member,
        files: &[BorrowedFd<'_>],
    ) -> Result<(), MeetError> {
        let message = Message::Welcome { to: self.hello.pid, member }.emit();
        socket::send(self.line.as_fd(), &message, files, Patience::Wait)
            .map_err(os("hand the memory of the job over"))
    }

    /// Tells the rank that there is no job. If it does not hear that, it sees that we are gone.
    pub(crate) fn refuse(&self, text: &str) {
        let message = Message::Refused { to: self.hello.pid, text: text.to_owned() }.emit();
        let _ = socket::send(self.line.as_fd(), &message, &[], Patience::Now);
    }
}

/// Goes in as `rank`, and waits for a welcome.
pub(crate) fn enter(
    name: &str,
    rank: u32,
    probe_address: u64,
) -> Result<(Member, Files), MeetError> {
    let socket = socket::connect(name).map_err(os("reach the first rank of this host"))?;
    let line = Line { socket };
    line.check_launcher()?;
    let pid = std::process::id();
    let mut bytes = rank.to_le_bytes().to_vec();
    bytes.extend(Message::Hello(Hello { pid, probe_address }).emit());
    socket::send(line.socket.as_fd(), &bytes, &[], Patience::Wait)
        .map_err(os("say hello to the first rank of this host"))?;
    line.wait_for_welcome(pid)
}

fn os(what: &'static str) -> impl Fn(std::io::Error) -> MeetError {
    move |error| MeetError::Os { what, error }
}

/// How long the ranks of a host may take to come in. All of them are there already, and know where.
const GUEST_WAIT_MAX: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_comes_in_is_welcomed_or_refused() {
        let door = Door::open().expect("open");
        let name = door.name.clone();
        for welcome in [true, false] {
            let name = name.clone();
            let rank = std::thread::spawn(move || enter(&name, 5, 0xabcd));
            let guest = door.next_guest().expect("it came");
            assert_eq!((guest.rank, guest.hello.probe_address), (5, 0xabcd));
            let member =
                Member { rank: 5, size: 6, job: 7, crowded: false, lasting: false, way: None };
            let file = std::fs::File::open("/dev/zero").expect("a file");
            match welcome {
                true => guest.welcome(member.clone(), &[file.as_fd()]).expect("welcomed"),
                false => guest.refuse("no way"),
            }
            match rank.join().expect("no panic") {
                Ok((told, files)) => assert!(welcome && told == member && files.socket.is_none()),
                Err(error) => assert!(!welcome && error.to_string() == "no way", "{error}"),
            }
        }
    }

    #[test]
    fn a_door_that_nobody_opened_is_an_error() {
        assert!(enter("zzzzz", 0, 0).is_err());
    }
}
