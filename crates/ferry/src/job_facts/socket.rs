//! The socket at which the launcher of several hosts tells the facts of all ranks, and the side that asks there.
//!
//! Its name is abstract, so that no file is left behind, and has the number of the job and the process id of the
//! launcher. Only processes of the same user get an answer, and only those are believed.

use std::collections::VecDeque;
use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::Duration;

use super::{FactsReport, JobNotFound, Snapshot};
use crate::run::user_of;

/// The launcher's side.
pub(crate) struct Answering {
    listener: UnixListener,
    clients: Vec<Client>,
}

struct Client {
    stream: UnixStream,
    /// It waits for facts.
    wants: bool,
    /// What is to be written to it.
    backlog: VecDeque<u8>,
    gone: bool,
}

/// What a descriptor of it belongs to.
#[derive(Clone, Copy)]
pub(crate) enum AnsweringSource {
    Listener,
    /// A client, by its index.
    Client(usize),
}

impl Answering {
    pub(crate) fn open(job: u32) -> io::Result<Answering> {
        let listener = UnixListener::bind_addr(&address(job, std::process::id())?)?;
        listener.set_nonblocking(true)?;
        Ok(Answering { listener, clients: Vec::new() })
    }

    /// The descriptors to wait for until they can be read.
    pub(crate) fn readers(&self) -> impl Iterator<Item = (BorrowedFd<'_>, AnsweringSource)> {
        let is_quiet = |client: &Client| client.backlog.is_empty();
        let clients = (0..).zip(&self.clients).filter(move |(_, client)| is_quiet(client));
        let clients = clients.map(|(at, it)| (it.stream.as_fd(), AnsweringSource::Client(at)));
        std::iter::once((self.listener.as_fd(), AnsweringSource::Listener)).chain(clients)
    }

    /// Those to wait for until they can be written.
    pub(crate) fn writers(&self) -> impl Iterator<Item = (BorrowedFd<'_>, AnsweringSource)> {
        let clients = (0..).zip(&self.clients).filter(|(_, client)| !client.backlog.is_empty());
        clients.map(|(at, it)| (it.stream.as_fd(), AnsweringSource::Client(at)))
    }

    pub(crate) fn on_ready(&mut self, source: AnsweringSource) {
        match source {
            AnsweringSource::Listener => self.accept(),
            AnsweringSource::Client(at) => self.clients[at].on_ready(),
        }
    }

    /// Forgets clients that are gone. To be called when no source is to be used any more.
    pub(crate) fn tidy(&mut self) {
        self.clients.retain(|client| !client.gone);
    }

    fn accept(&mut self) {
        let Ok((stream, _)) = self.listener.accept() else { return };
        let is_own = user_of(stream.as_fd()).is_ok_and(is_ours);
        if is_own && self.clients.len() < CLIENTS_MAX && stream.set_nonblocking(true).is_ok() {
            let backlog = VecDeque::new();
            self.clients.push(Client { stream, wants: false, backlog, gone: false });
        }
    }

    /// Whether somebody wants facts.
    pub(crate) fn is_wanted(&self) -> bool {
        self.clients.iter().any(|client| client.wants && !client.gone)
    }

    /// Tells facts to all who want them.
    pub(crate) fn answer(&mut self, report: &mut FactsReport) {
        let bytes = report.emit();
        let length = u32::try_from(bytes.len()).expect("facts are short").to_le_bytes();
        for client in self.clients.iter_mut().filter(|client| client.wants) {
            client.wants = false;
            client.backlog.extend(length);
            client.backlog.extend(&bytes);
            client.write();
        }
    }
}

impl Client {
    fn on_ready(&mut self) {
        if !self.backlog.is_empty() {
            return self.write();
        }
        let mut request = [0];
        match self.stream.read(&mut request) {
            Ok(1) => self.wants = true,
            Err(error) if is_for_now(&error) => {}
            _ => self.gone = true,
        }
    }

    fn write(&mut self) {
        while !self.backlog.is_empty() {
            match self.stream.write(self.backlog.make_contiguous()) {
                Ok(count) => drop(self.backlog.drain(..count)),
                Err(error) if is_for_now(&error) => return,
                Err(_) => {
                    self.gone = true;
                    self.backlog.clear();
                }
            }
        }
    }
}

/// The side that asks.
pub(super) struct Asking(UnixStream);

impl Asking {
    pub(super) fn connect(job: u32, launcher: u32) -> io::Result<Asking> {
        let stream = UnixStream::connect_addr(&address(job, launcher)?)?;
        if !user_of(stream.as_fd()).is_ok_and(is_ours) {
            return Err(ErrorKind::PermissionDenied.into());
        }
        stream.set_read_timeout(Some(ANSWER_MAX))?;
        Ok(Asking(stream))
    }

    /// Asks for the facts of all ranks, which are brought up to date first.
    pub(super) fn ask(&mut self) -> Result<Snapshot, JobNotFound> {
        let report = self.answer().map_err(|error| {
            let is_over = matches!(
                error.kind(),
                ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe | ErrorKind::ConnectionReset
            );
            if is_over { JobNotFound::Over } else { JobNotFound::NoAnswer(error) }
        })?;
        let (question, ranks) = (report.question, report.seen());
        Ok(Snapshot { question, is_whole: true, ranks })
    }

    fn answer(&mut self) -> io::Result<FactsReport> {
        self.0.write_all(&[ASK])?;
        let mut length = [0; 4];
        self.0.read_exact(&mut length)?;
        let length = u32::from_le_bytes(length);
        let mut bytes = Vec::new();
        (&mut self.0).take(length.into()).read_to_end(&mut bytes)?;
        let is_whole = u32::try_from(bytes.len()) == Ok(length);
        let report = FactsReport::parse(&bytes).filter(|_| is_whole);
        report.ok_or_else(|| io::Error::other("it runs another version of ferry"))
    }
}

/// The numbers of the jobs whose launchers answer on this host, with the process ids of these.
pub(super) fn launchers() -> Vec<(u32, u32)> {
    let text = fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let mut found: Vec<(u32, u32)> = text.lines().filter_map(named).collect();
    // A connection has the name of its listener, too.
    found.sort_unstable();
    found.dedup();
    found
}

/// The job and the launcher that a line of `/proc/net/unix` names.
fn named(line: &str) -> Option<(u32, u32)> {
    let (_, name) = line.split_once(&format!(" @{NAME}"))?;
    let (job, launcher) = name.trim_end_matches('@').split_once('-')?;
    Some((u32::from_str_radix(job, 16).ok()?, launcher.parse().ok()?))
}

fn address(job: u32, launcher: u32) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("{NAME}{job:08x}-{launcher}"))
}

fn is_ours(user: u32) -> bool {
    use std::os::unix::fs::MetadataExt;
    fs::metadata("/proc/self").is_ok_and(|own| own.uid() == user)
}

fn is_for_now(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// How names of sockets begin.
const NAME: &str = "ferrywire-facts-";
/// What a client sends when it wants facts.
const ASK: u8 = b'a';
/// How many clients are answered at the same time.
const CLIENTS_MAX: usize = 16;
/// How long the launcher may take to collect facts. Usually it takes as long as a message to each host and back.
const ANSWER_MAX: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_the_job_and_its_launcher() {
        let line =
            "0000000000000000: 00000002 00000000 00010000 0001 01 49 @ferrywire-facts-00c0ffee-123";
        assert_eq!(named(line), Some((0xc0_ffee, 123)));
        assert_eq!(named("0: 2 0 1 1 01 49 @ferrywire-facts-zz-1"), None);
        assert_eq!(named("0: 2 0 1 1 01 49 /run/socket"), None);
    }

    #[test]
    fn whoever_asks_gets_the_facts() {
        let job = 0xfeed_0000 | std::process::id() & 0xffff;
        let mut answering = Answering::open(job).expect("a socket");
        assert!(launchers().contains(&(job, std::process::id())));
        let client = std::thread::spawn(move || {
            let mut asking = Asking::connect(job, std::process::id()).expect("it listens");
            let first = asking.ask().expect("an answer").question;
            (first, asking.ask().expect("an answer").question)
        });
        let mut told = 0;
        while told < 2 {
            let sources: Vec<AnsweringSource> =
                answering.readers().chain(answering.writers()).map(|(_, source)| source).collect();
            sources.into_iter().for_each(|source| answering.on_ready(source));
            if answering.is_wanted() {
                told += 1;
                answering.answer(&mut FactsReport { question: told, ..FactsReport::default() });
            }
            answering.tidy();
            std::thread::yield_now();
        }
        assert_eq!(client.join().expect("it ends"), (1, 2));
    }
}
