//! The join socket of a host under another launcher: the first rank of the host opens it, and admits the other ranks as
//! our own launcher would.
//!
//! The kernel chooses the name of the join socket, in a space that belongs to the network namespace and to no file
//! system: any process there can connect. So each side proves itself to the other:
//!
//! - The kernel names the user of the other side. Any other user than ours is rejected, root included.
//! - Each side shows a token, which only ranks know, from the launcher's kvs. Between user namespaces the kernel may
//!   have no number for a user, and names the overflow user instead: there the token alone decides.
//! - A caller that sends nothing delays no other: the socket listens to all callers at once, to each for a limited
//!   time. When there are too many, the caller that has been silent longest is dropped; a rank among them connects
//!   again.

use std::collections::VecDeque;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::thread;
use std::time::{Duration, Instant};

use super::socket::{self, WaitMode};
use super::wire::{Hello, Member, Message, TOKEN_BYTES, Token, Unreadable};
use super::{BootstrapError, Files, LauncherChannel};
use crate::shm::Process;
use crate::sys::random;

/// The socket at which the other ranks of a host join.
pub struct JoinSocket {
    pub(super) listener: OwnedFd,
    /// What they have to know.
    pub address: JoinAddress,
}

/// What a rank has to know to join.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct JoinAddress {
    /// The name of the socket: letters and digits.
    pub name: String,
    /// The token that a rank shows.
    pub theirs: Token,
    /// The token that it is shown in return.
    pub ours: Token,
}

impl JoinAddress {
    /// The address as bytes: the tokens, then the name.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        [&self.theirs.0[..], &self.ours.0, self.name.as_bytes()].concat()
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Option<JoinAddress> {
        let (theirs, rest) = bytes.split_first_chunk()?;
        let (ours, name) = rest.split_first_chunk()?;
        let name = std::str::from_utf8(name).ok()?.to_owned();
        Some(JoinAddress { name, theirs: Token(*theirs), ours: Token(*ours) })
    }
}

/// A rank that has joined.
pub struct JoinedRank {
    pub(super) channel: OwnedFd,
    /// Its rank in the job.
    pub rank: u32,
    pub(super) hello: Hello,
    /// Its process.
    pub process: Process,
}

/// A process that has connected and not sent anything yet.
pub(super) struct Caller {
    channel: OwnedFd,
    /// Its process id, as the kernel numbers it here.
    pid: u32,
    /// Its user is ours for certain, not one that the kernel cannot name.
    is_our_user: bool,
    until: Instant,
}

impl JoinSocket {
    /// Opens a join socket, with a new name and new tokens.
    pub fn open() -> Result<JoinSocket, BootstrapError> {
        let what = "open a join socket for the ranks of this host";
        let (listener, name) = socket::listen().map_err(os(what))?;
        let draw = || draw_token().map_err(os(what));
        let address = JoinAddress { name, theirs: draw()?, ours: draw()? };
        Ok(JoinSocket { listener, address })
    }

    /// Waits for ranks `first + 1` and on, until there are `ranks` of them, counting the first, which is this process.
    pub fn accept_ranks(&self, first: u32, ranks: u32) -> Result<Vec<JoinedRank>, NotAll> {
        let mut joined: Vec<JoinedRank> = Vec::new();
        let mut callers = VecDeque::new();
        let mut until = Instant::now() + RANKS_WAIT_MAX;
        while joined.len() + 1 < ranks as usize {
            let here = joined.len() + 1;
            let not_all = |error| NotAll { here, error };
            let now = Instant::now();
            if until <= now {
                return Err(not_all(ErrorKind::TimedOut.into()));
            }
            let next =
                callers.front().map_or(until, |caller: &Caller| caller.until.min(until).max(now));
            let watched: Vec<BorrowedFd<'_>> = self.watched(&callers).collect();
            socket::wait_for_any(&watched, next - now).map_err(not_all)?;
            let is_expected = |rank| is_expected(rank, first, ranks, &joined);
            let more = self.poll(&mut callers, is_expected).map_err(not_all)?;
            if !more.is_empty() {
                until = Instant::now() + RANKS_WAIT_MAX;
            }
            joined.extend(more);
        }
        Ok(joined)
    }

    /// What to wait for: the next caller, and what callers say.
    pub(super) fn watched<'a>(
        &'a self,
        callers: &'a VecDeque<Caller>,
    ) -> impl Iterator<Item = BorrowedFd<'a>> {
        let channels = callers.iter().map(|caller| caller.channel.as_fd());
        std::iter::once(self.listener.as_fd()).chain(channels)
    }

    /// Hears all callers that have said something, and accepts the next. Returns those that have joined. Never blocks.
    pub(super) fn poll(
        &self,
        callers: &mut VecDeque<Caller>,
        is_expected: impl Fn(u32) -> bool,
    ) -> io::Result<Vec<JoinedRank>> {
        let now = Instant::now();
        let mut joined: Vec<JoinedRank> = Vec::new();
        let newest = self.accept(callers)?;
        for caller in std::mem::take(callers).into_iter().chain(newest) {
            let is_new = |rank| is_expected(rank) && joined.iter().all(|other| other.rank != rank);
            match self.hear(&caller.channel, is_new) {
                Ok(Some((rank, hello))) => {
                    let process = hello.process(caller.pid);
                    joined.push(JoinedRank { channel: caller.channel, rank, hello, process });
                }
                Ok(None) if caller.until > now => callers.push_back(caller),
                Ok(None) => {}
                // A rank of another version, for example, is told why. A stranger is told nothing.
                Err(why) if caller.is_our_user => refuse(&caller.channel, NOBODY, &why),
                Err(_) => {}
            }
        }
        while callers.len() > CALLERS_MAX {
            callers.pop_front();
        }
        Ok(joined)
    }

    /// Accepts the next connection, if its user may be ours.
    fn accept(&self, callers: &mut VecDeque<Caller>) -> io::Result<Option<Caller>> {
        let channel = match socket::accept(self.listener.as_fd()) {
            Ok(channel) => channel,
            // The caller is gone again.
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::ConnectionAborted) =>
            {
                return Ok(None);
            }
            // Too many files are open: drop one caller.
            Err(error) => return callers.pop_front().map(|_| None).ok_or(error),
        };
        let Ok(peer) = socket::peer(channel.as_fd()) else { return Ok(None) };
        // Before it is answered, so that the kernel names the sender of all that comes after.
        if socket::attest(channel.as_fd()).is_err() {
            return Ok(None);
        }
        if !may_be_ours(peer.uid) {
            return Ok(None);
        }
        let is_our_user = peer.uid == socket::own_uid();
        let until = Instant::now() + CALLER_WAIT_MAX;
        Ok(Some(Caller { channel, pid: peer.pid, is_our_user, until }))
    }

    /// The rank and hello of a caller, if they have arrived; an error says why the caller is rejected.
    fn hear(
        &self,
        channel: &OwnedFd,
        is_expected: impl FnOnce(u32) -> bool,
    ) -> Result<Option<(u32, Hello)>, String> {
        let parcel = match socket::receive(channel.as_fd(), WaitMode::Now) {
            Ok(parcel) => parcel,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(error.to_string()),
        };
        let (rank, hello) = match Message::parse(&parcel.bytes) {
            Ok(Message::Enter { rank, token, hello }) if token == self.address.theirs => {
                (rank, hello)
            }
            Ok(Message::Enter { .. }) => return Err("wrong token for this job".into()),
            Ok(_) | Err(Unreadable::Malformed) => return Err(BootstrapError::Malformed.to_string()),
            Err(Unreadable::Version(theirs)) => {
                return Err(BootstrapError::Version { theirs }.to_string());
            }
        };
        if !is_expected(rank) {
            return Err(format!("rank {rank} is not on this host, or has already joined"));
        }
        let known = Message::Entered { token: self.address.ours.clone() }.emit();
        socket::send(channel.as_fd(), &known, &[], WaitMode::Now)
            .map_err(|error| error.to_string())?;
        Ok(Some((rank, hello)))
    }
}

/// Not all ranks of a host have joined.
pub struct NotAll {
    /// How many have, counting the first.
    pub here: usize,
    /// Why the first rank stopped waiting.
    pub error: io::Error,
}

fn is_expected(rank: u32, first: u32, ranks: u32, joined: &[JoinedRank]) -> bool {
    let is_of_this_host =
        rank.checked_sub(first).is_some_and(|local_rank| local_rank > 0 && local_rank < ranks);
    is_of_this_host && joined.iter().all(|other| other.rank != rank)
}

impl JoinedRank {
    /// Tells the process which rank it is, and hands it what [`super::RankSocket::send_join_reply`] hands over.
    pub(crate) fn send_join_reply(
        &self,
        member: Member,
        files: &[BorrowedFd<'_>],
    ) -> Result<(), BootstrapError> {
        let message = Message::JoinReply { to: self.process.pid, member }.emit();
        socket::send(self.channel.as_fd(), &message, files, WaitMode::Wait)
            .map_err(os("hand over the job's shared memory"))
    }

    /// Tells the rank that there is no job. If this does not arrive, the rank sees that we are gone.
    pub(crate) fn refuse(&self, text: &str) {
        refuse(&self.channel, self.process.pid, text);
    }
}

fn refuse(channel: &OwnedFd, to: u32, text: &str) {
    let message = Message::Refused { to, text: text.to_owned() }.emit();
    let _ = socket::send(channel.as_fd(), &message, &[], WaitMode::Now);
}

/// Joins as `rank`, and waits for the join reply.
pub fn enter(
    address: &JoinAddress,
    rank: u32,
    process: Process,
) -> Result<(Member, Files), BootstrapError> {
    let hello = Hello::of(process);
    let until = Instant::now() + RANKS_WAIT_MAX;
    let mut has_been_there = false;
    let channel = loop {
        match LauncherChannel::of_rank(address, rank, hello) {
            // The first rank dropped us before it heard us, because there were too many other callers.
            Err(BootstrapError::LauncherGone) if Instant::now() < until => {
                thread::sleep(AGAIN_AFTER)
            }
            Err(BootstrapError::Os { error, .. })
                if has_been_there && error.kind() == ErrorKind::ConnectionRefused =>
            {
                return Err(BootstrapError::LauncherGone);
            }
            channel => break channel?,
        }
        has_been_there = true;
    };
    channel.wait_for_join_reply(hello.pid)
}

impl LauncherChannel {
    /// Connects to the first rank of this host. Both sides have proved themselves when this returns.
    pub(super) fn of_rank(
        address: &JoinAddress,
        rank: u32,
        hello: Hello,
    ) -> Result<LauncherChannel, BootstrapError> {
        let reach = os("connect to the first rank of this host");
        let channel = LauncherChannel { socket: socket::connect(&address.name).map_err(reach)? };
        let uid = channel.launcher_uid()?;
        if !may_be_ours(uid) {
            return Err(BootstrapError::StrangeLauncher { uid, own: socket::own_uid() });
        }
        let token = address.theirs.clone();
        channel.say(
            &Message::Enter { rank, token, hello },
            "send hello to the first rank of this host",
        )?;
        let hear = os("receive from the first rank of this host");
        socket::limit_wait(channel.socket.as_fd(), RANKS_WAIT_MAX).map_err(&hear)?;
        let parcel = channel.hear()?;
        socket::limit_wait(channel.socket.as_fd(), Duration::ZERO).map_err(&hear)?;
        match Message::parse(&parcel.bytes) {
            Ok(Message::Entered { token }) if token == address.ours => Ok(channel),
            Ok(Message::Entered { .. }) => Err(BootstrapError::NotTheFirst),
            Ok(Message::Refused { text, .. }) => Err(BootstrapError::Refused { text }),
            Ok(_) | Err(Unreadable::Malformed) => Err(BootstrapError::Malformed),
            Err(Unreadable::Version(theirs)) => Err(BootstrapError::Version { theirs }),
        }
    }
}

/// Whether a process of this user may belong to our job: the user is ours, or one that the kernel cannot name.
fn may_be_ours(uid: u32) -> bool {
    uid == socket::own_uid() || uid == overflow_uid()
}

/// The number by which the kernel names a user that has none in our namespace.
fn overflow_uid() -> u32 {
    let told = fs::read_to_string("/proc/sys/kernel/overflowuid").ok();
    told.and_then(|told| told.trim().parse().ok()).unwrap_or(OVERFLOW_UID)
}

fn draw_token() -> io::Result<Token> {
    let mut token = Token([0; TOKEN_BYTES]);
    random::fill(&mut token.0)?;
    Ok(token)
}

pub(super) fn os(what: &'static str) -> impl Fn(io::Error) -> BootstrapError {
    move |error| BootstrapError::Os { what, error }
}

/// How long the first rank waits for the next rank to join. All of them are running already, and know the address.
const RANKS_WAIT_MAX: Duration = Duration::from_secs(60);
/// How long a caller may stay silent. A rank speaks at once.
const CALLER_WAIT_MAX: Duration = Duration::from_secs(5);
/// How many callers may be silent at the same time.
const CALLERS_MAX: usize = 64;
/// When a rank that was dropped connects again.
const AGAIN_AFTER: Duration = Duration::from_millis(10);
/// The default number of the overflow user.
const OVERFLOW_UID: u32 = 65_534;
/// Stands for the process id of an unknown caller.
const NOBODY: u32 = 0;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::this_process;

    /// Rank 1 joins at this socket, and is recognised.
    fn comes_in(join_socket: &JoinSocket, address: JoinAddress) -> JoinedRank {
        let rank = thread::spawn(move || enter(&address, 1, this_process()));
        let mut joined = join_socket.accept_ranks(0, 2).ok().expect("it comes");
        let joined = joined.pop().expect("one");
        assert_eq!((joined.rank, joined.process), (1, this_process()));
        joined.refuse("enough");
        let answer = rank.join().expect("no panic");
        assert!(
            matches!(&answer, Err(BootstrapError::Refused { text }) if text == "enough"),
            "{answer:?}"
        );
        joined
    }

    #[test]
    fn any_number_of_silent_callers_delays_no_rank() {
        let join_socket = JoinSocket::open().expect("a join socket");
        let connect = |_| socket::connect(&join_socket.address.name).expect("anybody can connect");
        let silent: Vec<OwnedFd> = (0..2 * CALLERS_MAX).map(connect).collect();
        comes_in(&join_socket, join_socket.address.clone());
        drop(silent);
    }

    #[test]
    fn a_caller_without_the_token_is_refused() {
        let join_socket = JoinSocket::open().expect("a join socket");
        let zeros = Token([0; TOKEN_BYTES]);
        let forged = JoinAddress { theirs: zeros, ..join_socket.address.clone() };
        let stranger = thread::spawn(move || enter(&forged, 1, this_process()));
        comes_in(&join_socket, join_socket.address.clone());
        // The socket is closed, as after a start.
        drop(join_socket);
        let answer = stranger.join().expect("no panic");
        let refused =
            matches!(&answer, Err(BootstrapError::Refused { text }) if text.contains("token"));
        // It may be too late, and find the socket closed.
        let is_late =
            matches!(answer, Err(BootstrapError::LauncherGone | BootstrapError::Os { .. }));
        assert!(refused || is_late, "{answer:?}");
    }

    #[test]
    fn a_join_socket_that_does_not_know_the_token_is_not_believed() {
        let join_socket = JoinSocket::open().expect("a join socket");
        let address = JoinAddress { ours: Token([0; TOKEN_BYTES]), ..join_socket.address.clone() };
        let rank = thread::spawn(move || enter(&address, 1, this_process()));
        let _joined = join_socket.accept_ranks(0, 2).ok().expect("it comes");
        let answer = rank.join().expect("no panic");
        assert!(matches!(answer, Err(BootstrapError::NotTheFirst)), "{answer:?}");
    }

    /// Runs `body` on a thread that the kernel takes for another user's. `None` if that would need root.
    fn as_user<T: Send + 'static>(
        uid: u32,
        body: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let become_and_do = move || {
            // Not through the C library, which would change all threads.
            // SAFETY: takes numbers only, and changes no thread but this one, which ends soon.
            let code = unsafe { libc::syscall(libc::SYS_setresuid, -1, uid, -1) };
            (code == 0).then(body)
        };
        let done = thread::spawn(become_and_do).join().expect("no panic");
        if done.is_none() {
            println!("not tested: it takes root to play another user");
        }
        done
    }

    /// A caller of this user, with the right token or a wrong one, which has spoken before the join socket listens.
    fn caller(uid: u32, join_socket: &JoinSocket, has_token: bool) -> Option<OwnedFd> {
        let JoinAddress { name, theirs, .. } = join_socket.address.clone();
        let token = if has_token { theirs } else { Token([0; TOKEN_BYTES]) };
        let hello = Hello { pid: 1, word: 99, probe_address: 0 };
        as_user(uid, move || {
            let channel = socket::connect(&name).expect("anybody can connect");
            let word = Message::Enter { rank: 1, token, hello }.emit();
            socket::send(channel.as_fd(), &word, &[], WaitMode::Now).expect("there is room");
            channel
        })
    }

    fn was_told_nothing(channel: &OwnedFd) -> bool {
        // Closed with unread bytes, which is an error on the other side, or without.
        match socket::receive(channel.as_fd(), WaitMode::Wait) {
            Ok(parcel) => parcel.bytes.is_empty(),
            Err(error) => error.kind() == ErrorKind::ConnectionReset,
        }
    }

    const ANOTHER: u32 = 61_402;

    #[test]
    fn another_user_is_not_let_in_though_it_has_the_token() {
        let join_socket = JoinSocket::open().expect("a join socket");
        let Some(channel) = caller(ANOTHER, &join_socket, true) else { return };
        comes_in(&join_socket, join_socket.address.clone());
        assert!(was_told_nothing(&channel));
    }

    /// In a user namespace, the kernel has one number for all users that it cannot name.
    #[test]
    fn a_caller_of_an_unknown_user_learns_nothing_without_the_token() {
        let join_socket = JoinSocket::open().expect("a join socket");
        let Some(channel) = caller(overflow_uid(), &join_socket, false) else { return };
        comes_in(&join_socket, join_socket.address.clone());
        assert!(was_told_nothing(&channel));
    }

    #[test]
    fn a_join_socket_of_another_user_is_not_believed() {
        let join_socket = JoinSocket::open().expect("a join socket");
        let address = join_socket.address.clone();
        let answer = as_user(ANOTHER, move || enter(&address, 1, this_process()).err());
        assert!(
            matches!(
                answer,
                None | Some(Some(BootstrapError::StrangeLauncher { own: ANOTHER, .. }))
            ),
            "{answer:?}"
        );
    }

    #[test]
    fn a_rank_that_joins_twice_is_refused() {
        let join_socket = JoinSocket::open().expect("a join socket");
        let come = |rank| {
            let address = join_socket.address.clone();
            thread::spawn(move || enter(&address, rank, this_process()).err())
        };
        let twice = [come(1), come(1)];
        let joined = thread::scope(|scope| {
            let joined = scope.spawn(|| join_socket.accept_ranks(0, 3).ok().expect("they come"));
            // One of them is refused before the last comes.
            let until = Instant::now() + CALLER_WAIT_MAX;
            while !twice.iter().any(thread::JoinHandle::is_finished) && Instant::now() < until {
                thread::yield_now();
            }
            let last = come(2);
            let joined = joined.join().expect("no panic");
            joined.iter().for_each(|rank| rank.refuse("enough"));
            last.join().expect("no panic");
            joined
        });
        let ranks: Vec<u32> = joined.iter().map(|rank| rank.rank).collect();
        assert_eq!(ranks, [1, 2]);
        let told =
            twice.map(|rank| rank.join().expect("no panic").expect("not joined").to_string());
        let refused = told.iter().filter(|text| text.contains("has already joined")).count();
        assert_eq!(refused, 1, "{told:?}");
    }

    #[test]
    fn each_rank_comes_in_once_and_only_those_of_this_host() {
        let process = this_process();
        let (channel, hello) = (socket::pair().expect("a pair").0, Hello::of(process));
        let joined = [JoinedRank { channel, rank: 5, hello, process }];
        let expected: Vec<u32> = (0..9).filter(|&rank| is_expected(rank, 4, 4, &joined)).collect();
        assert_eq!(expected, [6, 7]);
    }
}
