//! Processes that come later: ports at which ranks connect, and ranks that are spawned.
//!
//! All processes under one launcher are peers of each other, whenever they were started. The *universe* is the
//! communicator of all of them, in which the rank of a process is its number as a peer. Two processes meet in it, each
//! the leader of a group, and the groups become the two sides of an intercommunicator ([`Bridge`]). How the leaders find
//! each other is all that differs: by the name of a port, by a socket, or because the launcher has told the child who
//! its parent is.
//!
//! Invariants, cited below by number.
//!   I1. Memory lent to an operation is on the stack of a call that waits for it.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::BorrowedFd;
use std::str::FromStr;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use ferrywire_host::ErrorCode;
use ferrywire_host::bootstrap::{Answer, Command, Request};
use ferrywire_host::nic::{MatchWord, Mode, Outcome, Peer, Posted};
use ferrywire_host::{AskError, Rank};
use ferrywire_mpi::collective as algorithm;
use ferrywire_mpi::comm::Comm as Members;
use ferrywire_mpi::group::Group;

use crate::comm::Comm;
use crate::comm_create::{Bridge, CreateError, Created, lend};
use crate::process::Process;

/// A port: where a rank accepts connections. Its name is text, which other processes get by whatever way.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Port {
    job: u32,
    peer: Peer,
    tag: u32,
}

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ferrywire:{:08x}:{}:{}", self.job, self.peer.0, self.tag)
    }
}

impl FromStr for Port {
    type Err = MeetError;

    fn from_str(name: &str) -> Result<Port, MeetError> {
        let parse = || {
            let mut parts = name.strip_prefix("ferrywire:")?.split(':');
            let job = u32::from_str_radix(parts.next()?, 16).ok()?;
            let (peer, tag) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
            (parts.next().is_none() && tag < VERDICTS).then_some(Port {
                job,
                peer: Peer(peer),
                tag,
            })
        };
        parse().ok_or_else(|| MeetError::NotAPort { name: name.to_owned() })
    }
}

/// Why two groups of processes were not connected.
#[derive(Debug)]
pub enum MeetError {
    /// The text is not the name of a port.
    NotAPort {
        /// The text.
        name: String,
    },
    /// The port is in a job of another launcher.
    AnotherJob,
    /// A rank accepts connections only at its own ports.
    NotOurs,
    /// The port is closed, or the rank that opened it is gone.
    Closed,
    /// The connection was not accepted in time.
    NotAccepted {
        /// How long the caller has waited.
        within: Duration,
    },
    /// The value of [`CONNECT_TIMEOUT`] is not a time.
    BadTimeout {
        /// The value.
        value: String,
    },
    /// The launcher could not start the programs.
    NotSpawned {
        /// Its reason.
        why: String,
    },
    /// The launcher could not be asked.
    Launcher(AskError),
    /// The socket between the two processes failed.
    Socket(io::Error),
    /// The root could not find the other group, for a reason of this kind, which it reports itself.
    AtRoot(MeetErrorKind),
    /// The groups found each other, and the rest failed.
    Create(CreateError),
}

/// What kind of a reason it is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum MeetErrorKind {
    /// The port is not valid.
    Port,
    /// Programs were not started.
    Spawn,
    /// Anything else.
    Other,
}

impl MeetError {
    /// Its kind.
    pub fn kind(&self) -> MeetErrorKind {
        match self {
            MeetError::NotAPort { .. }
            | MeetError::AnotherJob
            | MeetError::NotOurs
            | MeetError::Closed
            | MeetError::NotAccepted { .. } => MeetErrorKind::Port,
            MeetError::NotSpawned { .. } | MeetError::Launcher(_) => MeetErrorKind::Spawn,
            MeetError::AtRoot(kind) => *kind,
            MeetError::BadTimeout { .. } | MeetError::Socket(_) | MeetError::Create(_) => {
                MeetErrorKind::Other
            }
        }
    }
}

impl MeetError {
    /// Its code, with which the text of an error ends.
    pub fn code(&self) -> ErrorCode {
        match self {
            MeetError::NotAccepted { .. } => ErrorCode::PORT_TIMEOUT,
            MeetError::BadTimeout { .. } => ErrorCode::SETTING,
            MeetError::Create(error) => error.code(),
            other => match other.kind() {
                MeetErrorKind::Port => ErrorCode::PORT,
                MeetErrorKind::Spawn => ErrorCode::SPAWN,
                MeetErrorKind::Other => ErrorCode::SYSTEM,
            },
        }
    }
}

impl fmt::Display for MeetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MeetError::NotAPort { name } => write!(
                f,
                "\"{name}\" is not the name of a port: pass what MPI_Open_port or MPI_Lookup_name returned"
            ),
            MeetError::AnotherJob => write!(
                f,
                "the port is in a job of another launcher: start both programs with one ferry run (`ferry run -n 2 \
                 ./a : -n 2 ./b`), or let one spawn the other"
            ),
            MeetError::NotOurs => {
                write!(
                    f,
                    "another rank opened the port, and only that one accepts connections there"
                )
            }
            MeetError::Closed => {
                write!(f, "the port is closed, or the rank that opened it is gone")
            }
            MeetError::NotAccepted { within } => {
                write!(f, "the connection was not accepted within {} s", within.as_secs_f64())
            }
            MeetError::BadTimeout { value } => {
                write!(f, "{CONNECT_TIMEOUT}={value}: expected a number of seconds")
            }
            MeetError::NotSpawned { why } => write!(f, "{why}"),
            MeetError::Launcher(error) => write!(f, "{error}"),
            MeetError::Socket(error) => {
                write!(f, "cannot talk to the other process at the socket: {error}")
            }
            MeetError::AtRoot(_) => write!(f, "the root rank failed; it has the reason"),
            MeetError::Create(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for MeetError {}

impl From<CreateError> for MeetError {
    fn from(error: CreateError) -> MeetError {
        MeetError::Create(error)
    }
}

impl From<AskError> for MeetError {
    fn from(error: AskError) -> MeetError {
        MeetError::Launcher(error)
    }
}

/// The result of a meeting.
type Met<T> = Result<T, MeetError>;

/// Another leader, and the tag under which we exchange messages with it.
type OtherLeader = (Peer, u32);

/// The members of the universe, as `rank` sees them, under a number that is predefined.
pub(crate) fn universe(rank: &Rank, number: u16) -> Members {
    Members::new(Group::whole(PEERS_MAX), rank.driver().me().0, number)
}

/// The peers that match words can name.
const PEERS_MAX: u32 = MatchWord::SOURCE_MAX + 1;

/// Who chose the tag of a meeting: the peer with the lower number, that with the higher one, or a parent, whose child
/// has no number yet. So two processes that both choose one at the same time choose different ones.
#[derive(Clone, Copy)]
enum Chooser {
    Lower = 0,
    Higher = 1,
    Parent = 2,
}

impl Process {
    /// Opens a port of this rank.
    pub fn open_port(&self) -> Port {
        let tag = self.ports.fetch_add(1, Ordering::Relaxed) & (VERDICTS - 1);
        Port { job: self.rank().job(), peer: self.rank().driver().me(), tag }
    }

    /// Closes a port of this rank. Those who wait for a connection there are told.
    pub fn close_port(&self, name: &str) -> Met<()> {
        let port: Port = name.parse()?;
        self.check_own(port)?;
        let universe = self.in_universe();
        let wanted = universe.members().wanted(None, Some(port.tag));
        while universe.probe(wanted, false).map_err(CreateError::from)?.is_some() {
            let caller = self.hear_caller(port)?;
            if !self.has_withdrawn(caller) {
                // A caller that cannot be told is gone.
                let _ = self.tell(caller, CLOSED);
            }
        }
        Ok(())
    }

    /// The universe, during a call.
    fn in_universe(&self) -> Comm<'_> {
        Comm::new(self.first_plane(), self.universe())
    }

    /// A tag for a meeting, which no other meeting with the same process has for a while.
    fn meeting_tag(&self, chooser: Chooser) -> u32 {
        let count = self.meetings.fetch_add(1, Ordering::Relaxed);
        (count << 2 | chooser as u32) & (VERDICTS - 1)
    }

    fn meeting_tag_with(&self, other: Peer) -> u32 {
        let me = self.rank().driver().me();
        self.meeting_tag(if me.0 < other.0 { Chooser::Lower } else { Chooser::Higher })
    }

    fn check_own(&self, port: Port) -> Met<()> {
        match port {
            Port { job, .. } if job != self.rank().job() => Err(MeetError::AnotherJob),
            Port { peer, .. } if peer != self.rank().driver().me() => Err(MeetError::NotOurs),
            _ => Ok(()),
        }
    }

    /// Calls at a port, and waits until it accepts. The caller confirms that, unless it has waited for too long: then it
    /// has withdrawn its call, and the acceptor turns to the next one.
    fn call(&self, name: &str, timeout: Option<Duration>) -> Met<OtherLeader> {
        let port: Port = name.parse()?;
        if port.job != self.rank().job() {
            return Err(MeetError::AnotherJob);
        }
        if !self.rank().driver().knows(port.peer) {
            return Err(MeetError::NotAPort { name: name.to_owned() });
        }
        let within = timeout.map_or_else(connect_timeout, Ok)?;
        let deadline = Instant::now().checked_add(within);
        let tag = self.meeting_tag_with(port.peer);
        let acceptor = (port.peer, tag);
        let universe = self.in_universe();
        let mut number = [i64::from(tag)];
        let address = universe.members().address(port.peer.0, port.tag);
        // SAFETY: I1.
        let sent = unsafe { universe.send_blocking(address, lend(&mut number), Mode::Standard) };
        if sent != Outcome::Done {
            return Err(MeetError::Closed);
        }
        match self.hear(acceptor, deadline) {
            Ok(Some(ACCEPTED)) => {
                self.tell(acceptor, CONFIRMED)?;
                Ok(acceptor)
            }
            Ok(Some(_)) | Err(_) => Err(MeetError::Closed),
            Ok(None) => {
                // An acceptor that cannot be told is gone.
                let _ = self.tell(acceptor, WITHDRAWN);
                Err(MeetError::NotAccepted { within })
            }
        }
    }

    /// Waits for the next call at a port of ours.
    fn hear_caller(&self, port: Port) -> Met<OtherLeader> {
        let universe = self.in_universe();
        let wanted = universe.members().wanted(None, Some(port.tag));
        let mut number = [0];
        // SAFETY: I1.
        match unsafe { universe.receive(wanted, lend(&mut number)) } {
            Outcome::Received(got) => {
                let tag = u32::try_from(number[0]).unwrap_or(0) & (VERDICTS - 1);
                Ok((Peer(got.word.source()), tag))
            }
            other => Err(CreateError::Failed(self.failure(other)).into()),
        }
    }

    /// Tells another leader what becomes of a call.
    fn tell(&self, (peer, tag): OtherLeader, word: i64) -> Met<()> {
        let universe = self.in_universe();
        let address = universe.members().address(peer.0, verdict_tag(tag));
        let mut word = [word];
        // SAFETY: I1.
        let sent = unsafe { universe.send_blocking(address, lend(&mut word), Mode::Standard) };
        Ok(self.done(sent).map_err(CreateError::Failed)?)
    }

    /// Waits until another leader tells what becomes of a call; `None` if it does not before the deadline.
    fn hear(&self, (peer, tag): OtherLeader, deadline: Option<Instant>) -> Met<Option<i64>> {
        let universe = self.in_universe();
        let wanted = universe.members().wanted(Some(peer.0), Some(verdict_tag(tag)));
        let mut word = [0];
        // SAFETY: I1.
        let outcome = match unsafe { universe.start_receive(wanted, lend(&mut word)) } {
            Posted::Done(outcome) => outcome,
            Posted::Pending(ticket) => match deadline {
                None => universe.plane().wait(ticket),
                Some(deadline) => universe.plane().wait_or_cancel(ticket, deadline),
            },
        };
        match outcome {
            Outcome::Received(_) => Ok(Some(word[0])),
            Outcome::Cancelled => Ok(None),
            other => Err(CreateError::Failed(self.failure(other)).into()),
        }
    }

    /// Whether a caller has withdrawn its call already, or is gone.
    fn has_withdrawn(&self, caller: OtherLeader) -> bool {
        let (peer, tag) = caller;
        let universe = self.in_universe();
        let wanted = universe.members().wanted(Some(peer.0), Some(verdict_tag(tag)));
        match universe.probe(wanted, false) {
            Ok(None) => false,
            Ok(Some(_)) => matches!(self.hear(caller, None), Ok(Some(WITHDRAWN)) | Err(_)),
            Err(_) => true,
        }
    }

    /// Accepts the next call at a port of ours.
    fn accept_caller(&self, name: &str) -> Met<OtherLeader> {
        let port: Port = name.parse()?;
        self.check_own(port)?;
        loop {
            let caller = self.hear_caller(port)?;
            // A caller that is gone, or goes, makes room for the next one.
            if !self.has_withdrawn(caller)
                && self.tell(caller, ACCEPTED).is_ok()
                && matches!(self.hear(caller, None), Ok(Some(CONFIRMED)))
            {
                return Ok(caller);
            }
        }
    }

    /// Has the launcher start programs.
    fn start_programs(&self, commands: Vec<Command>) -> Met<OtherLeader> {
        let tag = self.meeting_tag(Chooser::Parent);
        match self.rank().ask(&Request::Spawn { tag, commands })? {
            Answer::Spawned(world) => {
                let first = world.first().map_or(0, |range| range.start);
                Ok((Peer(first), tag))
            }
            Answer::NotSpawned(why) => {
                Err(MeetError::NotSpawned { why: String::from_utf8_lossy(&why).into_owned() })
            }
            _ => Err(MeetError::NotSpawned { why: "the launcher gave no valid answer".into() }),
        }
    }

    /// Publishes the name of a port under that of a service. False if the service has a port already.
    pub fn publish(&self, service: &str, port: &str) -> Result<bool, AskError> {
        let (service, port) = (service.into(), port.into());
        Ok(self.rank().ask(&Request::Publish { service, port })? == Answer::Done)
    }

    /// Publishes it no longer. False if it was not published.
    pub fn unpublish(&self, service: &str) -> Result<bool, AskError> {
        Ok(self.rank().ask(&Request::Unpublish { service: service.into() })? == Answer::Done)
    }

    /// The port of a service, if it is published.
    pub fn look_up(&self, service: &str) -> Result<Option<String>, AskError> {
        Ok(match self.rank().ask(&Request::LookUp { service: service.into() })? {
            Answer::Port(port) => Some(String::from_utf8_lossy(&port).into_owned()),
            _ => None,
        })
    }
}

impl Comm<'_> {
    /// Connects the group to another at a port. Only the root passes the name of the port, and how long it waits until
    /// the other group accepts: as long as [`CONNECT_TIMEOUT`] says, unless it passes a time.
    pub fn connect(
        self,
        instance: u16,
        root: u32,
        port: Option<&str>,
        timeout: Option<Duration>,
    ) -> Met<Created> {
        self.bridge_to(instance, root, port.map(|port| self.process().call(port, timeout)))
    }

    /// Waits at a port of the root until another group connects. Only the root passes the name of the port.
    pub fn accept(self, instance: u16, root: u32, port: Option<&str>) -> Met<Created> {
        self.bridge_to(instance, root, port.map(|port| self.process().accept_caller(port)))
    }

    /// Starts programs, and connects the group to the world of their ranks. Only the root passes the programs.
    pub fn spawn(self, instance: u16, root: u32, commands: Option<Vec<Command>>) -> Met<Created> {
        let process = self.process();
        self.bridge_to(instance, root, commands.map(|commands| process.start_programs(commands)))
    }

    /// Connects the world of a spawned rank to the group that spawned it; `None` for other ranks.
    pub fn meet_parents(self, instance: u16) -> Met<Option<Created>> {
        let Some(parent) = self.process().rank().parent() else { return Ok(None) };
        let first = self.members().rank() == 0;
        let leader = first.then_some(Ok((Peer(parent.peer), parent.tag)));
        self.bridge_to(instance, 0, leader).map(Some)
    }

    /// Connects this process to the one at the other end of a socket. `None` if that is in another job.
    pub fn join(self, instance: u16, socket: BorrowedFd<'_>) -> Met<Option<Created>> {
        let process = self.process();
        let me = process.rank().driver().me();
        let words = [JOIN_MAGIC, process.rank().job(), me.0, process.meeting_tag(Chooser::Lower)];
        let theirs = swap_words(socket, words).map_err(MeetError::Socket)?;
        let [magic, job, other, tag] = theirs;
        let known = process.rank().driver().knows(Peer(other)) && Peer(other) != me;
        if magic != JOIN_MAGIC || job != words[1] || !known {
            return Ok(None);
        }
        let tag = if me.0 < other { words[3] } else { tag & (VERDICTS - 1) };
        self.bridge_to(instance, 0, Some(Ok((Peer(other), tag)))).map(Some)
    }

    /// Creates the intercommunicator. The root passes the leader of the other group, or why it did not find it.
    fn bridge_to(self, instance: u16, root: u32, other: Option<Met<OtherLeader>>) -> Met<Created> {
        let mut verdict = [match &other {
            Some(Err(error)) => error.kind() as i64,
            _ => MET,
        }];
        let me = self.members().member();
        let schedule = algorithm::broadcast(me, root, lend(&mut verdict));
        // SAFETY: I1.
        unsafe { self.run(instance, schedule) }.map_err(CreateError::Failed)?;
        let other = other.transpose()?;
        if verdict[0] != MET {
            let kinds = [MeetErrorKind::Port, MeetErrorKind::Spawn];
            let kind = kinds.into_iter().find(|kind| *kind as i64 == verdict[0]);
            return Err(MeetError::AtRoot(kind.unwrap_or(MeetErrorKind::Other)));
        }
        let universe = self.process().in_universe();
        let across = other.map(|(peer, tag)| (universe, peer.0, tag));
        Ok(Bridge { local: self, instance, leader: root, across }.create()?)
    }
}

/// What a caller is told.
const ACCEPTED: i64 = 1;
const CLOSED: i64 = 0;
/// What a caller tells.
const CONFIRMED: i64 = 2;
const WITHDRAWN: i64 = 3;

/// The setting that says for how many seconds a caller waits at a port.
pub const CONNECT_TIMEOUT: &str = "FERRY_CONNECT_TIMEOUT";

/// Without the setting: as long as with MPICH. MPI 5.0 §11.8.4 wants a call to time out eventually.
const CONNECT_TIMEOUT_DEFAULT: Duration = Duration::from_secs(180);

/// How long a caller waits at a port, unless the call says so.
fn connect_timeout() -> Met<Duration> {
    let Ok(value) = std::env::var(CONNECT_TIMEOUT) else { return Ok(CONNECT_TIMEOUT_DEFAULT) };
    seconds(&value).ok_or(MeetError::BadTimeout { value })
}

/// A time in seconds, if the text is one.
pub fn seconds(text: &str) -> Option<Duration> {
    text.trim().parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
}

/// What the root tells its group if it has found the other leader, apart from the kinds of errors.
const MET: i64 = -1;

/// The tag under which two leaders tell each other what becomes of a call. Ports and meetings have the lower half of all tags.
fn verdict_tag(meeting: u32) -> u32 {
    meeting | VERDICTS
}

const VERDICTS: u32 = 1 << 23;

/// The first word that two processes exchange at a socket.
const JOIN_MAGIC: u32 = u32::from_le_bytes(*b"FJN1");

/// Exchanges words with the process at the other end of a socket.
fn swap_words<const N: usize>(socket: BorrowedFd<'_>, words: [u32; N]) -> io::Result<[u32; N]> {
    // A copy of the descriptor, which is closed here.
    let mut socket = File::from(socket.try_clone_to_owned()?);
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
    socket.write_all(&bytes)?;
    let mut theirs = vec![0; bytes.len()];
    socket.read_exact(&mut theirs)?;
    let mut words = theirs.chunks_exact(4);
    let mut next = || {
        let word = words.next().and_then(|word| word.try_into().ok());
        u32::from_be_bytes(word.unwrap_or_default())
    };
    Ok(std::array::from_fn(|_| next()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_ports_are_read_back() {
        let port = Port { job: 0x1234_abcd, peer: Peer(7), tag: 3 };
        assert_eq!(port.to_string().parse::<Port>().expect("a port"), port);
        for name in
            ["", "ferrywire:", "ferrywire:1:2", "ferrywire:1:2:3:4", "ferrywire:1:2:16777216"]
        {
            assert!(name.parse::<Port>().is_err(), "{name}");
        }
    }
}
