//! One host of a job, as the launcher sees it: the command that reaches it, and the daemon at the other end.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, PipeWriter, Read, Write};
use std::net::IpAddr;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ferrywire_host::nic::Peer;
use ferrywire_host::{ErrorCode, Here, monotonic_ns};

use super::HostsError;
use super::recordings::RemoteRecordings;
use crate::run::host_list::Share;
use crate::run::options::Stdin;
use crate::run::report::RankEnding;
use crate::run::sys::{self, Ending, Pid, Signals};
use crate::run::wire::{self, Assignment, Broken, FrameKind, Frames, HostRecord, News, Order};

/// How far a host has come.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum RemoteStep {
    /// Not tried yet, or to be tried again.
    Waiting,
    /// The command that reaches it runs, and the daemon has not answered yet.
    Connecting,
    /// The daemon has been told what to start.
    Assigned,
    /// Its ranks run.
    Started,
    /// All its ranks have joined.
    Joined,
    /// Its ranks and its daemon have ended.
    Over,
}

/// What to do after the command that reached a host has ended.
pub(super) enum Lost {
    Again,
    ForGood(String),
}

/// A host.
pub(super) struct Remote {
    share: Share,
    /// The numbers of its ranks.
    here: Here,
    /// How many ranks have been spawned there, and how many have left since.
    pub(super) spawned: u32,
    pub(super) left: u32,
    /// The command that reaches it, as words.
    rsh: Vec<String>,
    assignment: Option<Box<Assignment>>,
    line: Option<DaemonChannel>,
    /// What the command wrote to its standard error.
    complained: Vec<u8>,
    pub(super) step: RemoteStep,
    /// When it reached this step.
    since: Instant,
    /// When it is tried again, or when it counts as late.
    until: Instant,
    tries: u32,
    /// All its ranks wait, and nothing changes there.
    pub(super) still: bool,
    /// No rank has made a call for the time of `--hang-timeout`; those that poll.
    pub(super) quiet: Option<Vec<u32>>,
    pub(super) waiting: Option<u32>,
    pub(super) absent: Option<(u32, Pid)>,
    /// Where other hosts reach it.
    place: DaemonAddress,
    /// Its suitable providers of libfabric.
    pub(super) providers: Vec<String>,
    pub(super) endings: Vec<RankEnding>,
    pub(super) recordings: RemoteRecordings,
    /// Pings since it last sent anything. They are counted, not timed, so that a launcher that was stopped itself does
    /// not take that for silence.
    unanswered: u32,
}

/// The command that reaches a host, while it runs.
struct DaemonChannel {
    child: Child,
    /// `None` once the daemon has been told to end, or is gone.
    orders: Option<PipeWriter>,
    /// Orders that did not fit into the pipe.
    backlog: VecDeque<u8>,
    news: Option<Frames>,
    complaints: Option<File>,
}

/// The port of a host, its addresses, and the machine that it is on.
type DaemonAddress = (u16, Vec<IpAddr>, Option<u64>);

impl Remote {
    pub(super) fn new(share: Share, here: Here, rsh: &str, assignment: Assignment) -> Remote {
        Remote {
            share,
            here,
            spawned: 0,
            left: 0,
            rsh: rsh.split_whitespace().map(str::to_owned).collect(),
            assignment: Some(Box::new(assignment)),
            line: None,
            complained: Vec::new(),
            step: RemoteStep::Waiting,
            since: Instant::now(),
            until: Instant::now(),
            tries: 0,
            still: false,
            quiet: None,
            waiting: None,
            absent: None,
            place: (0, Vec::new(), None),
            providers: Vec::new(),
            endings: Vec::new(),
            recordings: RemoteRecordings::default(),
            unanswered: 0,
        }
    }

    /// Its ranks, those that were spawned included.
    pub(super) fn ranks(&self) -> impl Iterator<Item = u32> {
        (0..self.share.ranks + self.spawned).map(|local_rank| self.here.rank(Peer(local_rank)).0)
    }

    /// Whether a rank runs on this host.
    pub(super) fn has(&self, rank: u32) -> bool {
        let local_rank = self.here.local_rank(Peer(rank));
        local_rank.is_some_and(|local_rank| local_rank.0 < self.share.ranks + self.spawned)
    }

    /// How many ranks run there.
    pub(super) fn load(&self) -> u32 {
        (self.share.ranks + self.spawned).saturating_sub(self.left)
    }

    /// The number of the spawned rank with this index.
    pub(super) fn number_of_spawned(&self, index: u32) -> u32 {
        self.here.rank(Peer(self.share.ranks + index)).0
    }

    /// Takes numbers for ranks that are about to be spawned there.
    pub(super) fn take_numbers(&mut self, ranks: u32) -> Result<Range<u32>, String> {
        let first = self.number_of_spawned(self.spawned);
        let last = first.saturating_add(ranks - 1);
        if self.here.local_rank(Peer(last)).is_none() {
            return Err(format!("too many ranks have been spawned on {}", self.share.name));
        }
        self.spawned += ranks;
        Ok(first..last + 1)
    }

    /// Whether it has left too many pings unanswered.
    pub(super) fn is_mute(&self) -> bool {
        self.step == RemoteStep::Joined && self.unanswered > MUTE_PINGS_MAX
    }

    /// Sends a ping.
    pub(super) fn ping(&mut self) {
        self.unanswered += 1;
        self.order(&Order::Ping { sent_ns: monotonic_ns() });
    }

    /// The job continues without this host. Returns the ranks that are lost with it.
    pub(super) fn forsake(&mut self) -> Vec<u32> {
        self.step = RemoteStep::Over;
        self.ranks().collect()
    }

    /// Whether its daemon is a child of the launcher.
    pub(super) fn is_here(&self) -> bool {
        self.share.is_here
    }

    pub(super) fn name(&self) -> &str {
        &self.share.name
    }

    pub(super) fn come_to(&mut self, step: RemoteStep) {
        (self.step, self.since) = (step, Instant::now());
    }

    /// Its step and for how long it has been there, for the table on the terminal.
    pub(super) fn progress(&self, now: Instant) -> String {
        let step = match self.step {
            RemoteStep::Waiting if self.tries == 0 => "waits for its turn".into(),
            RemoteStep::Waiting => {
                format!("was not reached in try {}, will be tried again", self.tries)
            }
            RemoteStep::Connecting => format!("is being connected by {}", self.rsh[0]),
            RemoteStep::Assigned => "is connected, starts its ranks".into(),
            RemoteStep::Started => "runs its ranks, not all of which have joined".into(),
            RemoteStep::Joined => "has joined".into(),
            RemoteStep::Over => "has ended".into(),
        };
        let seconds = now.saturating_duration_since(self.since).as_secs();
        format!("{step} ({seconds} s)")
    }

    /// Whether one of its ranks reads the input.
    pub(super) fn reads(&self, stdin: Stdin) -> bool {
        match stdin {
            Stdin::None => false,
            Stdin::All => true,
            Stdin::Rank(rank) => self.has(rank),
        }
    }

    pub(super) fn pid(&self) -> Option<Pid> {
        self.line.as_ref().and_then(|line| Pid::try_from(line.child.id()).ok())
    }

    /// Whether its ranks, its daemon and the command that reached it have ended.
    pub(super) fn is_over(&self) -> bool {
        self.step == RemoteStep::Over && self.line.is_none()
    }

    /// Whether its daemon has not answered yet.
    pub(super) fn is_unreached(&self) -> bool {
        matches!(self.step, RemoteStep::Waiting | RemoteStep::Connecting)
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.step == RemoteStep::Waiting && now >= self.until
    }

    /// Starts the command that reaches the host and starts the daemon there.
    pub(super) fn start(&mut self, signals: &Signals) -> Result<(), HostsError> {
        let words = self.words().map_err(HostsError::NoSelf)?;
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        sys::set_apart(&mut command, signals);
        let failed = |error| HostsError::Rsh { command: words[0].display().to_string(), error };
        let mut child = command.spawn().map_err(failed)?;
        let orders = child.stdin.take().map(|pipe| PipeWriter::from(OwnedFd::from(pipe)));
        let news = child.stdout.take().map(|pipe| Frames::new(File::from(OwnedFd::from(pipe))));
        let complaints = child.stderr.take().map(|pipe| File::from(OwnedFd::from(pipe)));
        // A host that does not read must not block the launcher.
        for descriptor in [orders.as_ref().map(AsFd::as_fd), complaints.as_ref().map(AsFd::as_fd)] {
            descriptor.map(sys::never_block).transpose().map_err(failed)?;
        }
        self.line =
            Some(DaemonChannel { child, orders, backlog: VecDeque::new(), news, complaints });
        self.complained.clear();
        self.come_to(RemoteStep::Connecting);
        self.until = Instant::now() + CONNECT_MAX;
        self.tries += 1;
        Ok(())
    }

    /// The daemon has answered: sends it its assignment.
    pub(super) fn assign(&mut self) {
        if let Some(assignment) = self.assignment.take() {
            self.come_to(RemoteStep::Assigned);
            self.order(&Order::Start(assignment));
        }
    }

    /// Its ranks run; other hosts reach them at `place`.
    pub(super) fn on_started(&mut self, place: DaemonAddress, providers: Vec<String>) {
        self.come_to(RemoteStep::Started);
        self.providers = providers;
        self.place = place;
    }

    /// Its record, for other hosts.
    pub(super) fn record(&self) -> HostRecord {
        let (port, addresses, machine) = self.place.clone();
        HostRecord { first: self.share.first, ranks: self.share.ranks, port, addresses, machine }
    }

    pub(super) fn order(&mut self, order: &Order) {
        // No daemon yet: what it has to know is sent when it answers.
        if self.is_unreached() {
            return;
        }
        let Some(line) = &mut self.line else { return };
        let words = serde_json::to_vec(order).expect("orders can be written");
        line.backlog.extend(wire::framed(FrameKind::Words, &words));
        self.send_orders();
    }

    pub(super) fn send_orders(&mut self) {
        let Some(line) = &mut self.line else { return };
        while let Some(orders) = line.orders.as_mut().filter(|_| !line.backlog.is_empty()) {
            match orders.write(line.backlog.make_contiguous()) {
                Ok(count) => drop(line.backlog.drain(..count)),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                // The daemon is gone; the end of the command tells why.
                Err(_) => line.orders = None,
            }
        }
    }

    pub(super) fn orders_waiting(&self) -> Option<BorrowedFd<'_>> {
        let line = self.line.as_ref()?;
        line.orders.as_ref().filter(|_| !line.backlog.is_empty()).map(AsFd::as_fd)
    }

    pub(super) fn news(&self) -> Option<BorrowedFd<'_>> {
        self.line.as_ref()?.news.as_ref().map(AsFd::as_fd)
    }

    pub(super) fn complaints(&self) -> Option<BorrowedFd<'_>> {
        self.line.as_ref()?.complaints.as_ref().map(AsFd::as_fd)
    }

    /// All frames that have arrived.
    pub(super) fn hear(&mut self) -> Result<Vec<(FrameKind, Vec<u8>)>, String> {
        let Some(line) = &mut self.line else { return Ok(Vec::new()) };
        let Some(news) = &mut line.news else { return Ok(Vec::new()) };
        self.unanswered = 0;
        let mut frames = Vec::new();
        let mut heard = news.poll();
        while heard.is_ok() {
            match news.next() {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => return Ok(frames),
                Err(broken) => heard = Err(broken),
            }
        }
        line.news = None;
        match heard {
            Err(Broken::Strange(text)) => Err(self.strange(&text)),
            // How the command ended is known when it is reaped.
            _ => Ok(frames),
        }
    }

    pub(super) fn news_in(&self, bytes: &[u8]) -> Result<News, String> {
        wire::understood(bytes).map_err(|broken| match broken {
            Broken::Strange(text) => self.strange(&text),
            Broken::Gone => self.strange(""),
        })
    }

    pub(super) fn strange(&self, text: &str) -> String {
        let host = self.name();
        ErrorCode::HOST_OUTPUT.ends(format_args!(
            "{host} answers with something that is not from the daemon of ferry: '{text}'; login scripts must not print \
             anything, and {host} needs the same ferry as this host"
        ))
    }

    pub(super) fn note_complaints(&mut self) {
        let Some(line) = &mut self.line else { return };
        let mut bytes = [0; 4096];
        while let Some(file) = &mut line.complaints {
            match file.read(&mut bytes) {
                Ok(0) => line.complaints = None,
                Ok(length) => self.complained.extend(&bytes[..length]),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return,
                Err(_) => line.complaints = None,
            }
            // The last lines matter most.
            let too_long = self.complained.len().saturating_sub(COMPLAINT_BYTES_MAX);
            self.complained.drain(..too_long);
        }
    }

    pub(super) fn on_done(&mut self, endings: Vec<RankEnding>) {
        self.endings = endings;
        self.come_to(RemoteStep::Over);
        // The daemon is done and gets no more orders.
        if let Some(line) = &mut self.line {
            line.orders = None;
        }
    }

    /// The command that reached it has ended. `None` if that was expected.
    pub(super) fn on_ended(&mut self, ending: Ending) -> Option<Lost> {
        self.line = None;
        let before = self.step;
        match before {
            RemoteStep::Over => return None,
            // A second try may succeed: some ssh servers refuse many logins at once.
            RemoteStep::Connecting if self.tries < TRIES_MAX && !is_missing(ending) => {
                self.come_to(RemoteStep::Waiting);
                self.until = Instant::now() + RETRY_AFTER * self.tries;
                return Some(Lost::Again);
            }
            _ => self.come_to(RemoteStep::Over),
        }
        let complaint = String::from_utf8_lossy(&self.complained);
        let complaint = complaint.trim();
        let said = if complaint.is_empty() { "it printed nothing" } else { complaint };
        let (host, command) = (self.name(), self.command());
        let ended = match ending {
            Ending::Exit(code) => format!("ended with exit code {code}"),
            Ending::Signal(signal) => format!("died of {}", crate::run::report::name_of(signal)),
        };
        Some(Lost::ForGood(match before {
            RemoteStep::Connecting if is_missing(ending) => {
                ErrorCode::HOST_WITHOUT_FERRY.ends(format_args!(
                    "cannot start the daemon on {host}: `{command}` {ended}: {said}; install the same ferry there, at the \
                     same path as here"
                ))
            }
            RemoteStep::Connecting => ErrorCode::HOST_UNREACHED
                .ends(format_args!("cannot reach {host}: `{command}` {ended}: {said}")),
            _ => ErrorCode::HOST_LOST.ends(format_args!(
                "lost {host} with {} ranks: `{command}` {ended}: {said}",
                self.share.ranks
            )),
        }))
    }

    /// The command that starts the daemon, as words. On this machine it does not need `rsh`.
    fn words(&self) -> io::Result<Vec<OsString>> {
        let mut words: Vec<OsString> = Vec::new();
        if !self.share.is_here {
            words.extend(self.rsh.iter().chain([&self.share.name]).map(OsString::from));
        }
        words.extend([std::env::current_exe()?.into_os_string(), "daemon".into()]);
        Ok(words)
    }

    fn command(&self) -> String {
        let words = self.words().unwrap_or_default();
        words.iter().map(|word| word.display().to_string()).collect::<Vec<_>>().join(" ")
    }

    /// When it is tried again, or counts as late.
    pub(super) fn deadline(&self) -> Option<Instant> {
        matches!(self.step, RemoteStep::Waiting | RemoteStep::Connecting | RemoteStep::Assigned)
            .then_some(self.until)
    }

    pub(super) fn is_late(&self, now: Instant) -> bool {
        matches!(self.step, RemoteStep::Connecting | RemoteStep::Assigned) && now >= self.until
    }

    /// The error message for a host that does not answer.
    pub(super) fn silence(&self, after: Duration) -> String {
        let (host, command, seconds) = (self.name(), self.command(), after.as_secs());
        let complaint = String::from_utf8_lossy(&self.complained);
        let complaint = complaint.trim();
        let said = if complaint.is_empty() { String::new() } else { format!(": {complaint}") };
        ErrorCode::HOST_LATE.ends(match self.step {
            RemoteStep::Assigned => {
                format!("{host} has not started its ranks within {seconds} s{said}")
            }
            _ => format!(
                "cannot reach {host}: `{command}` has not answered within {seconds} s{said}"
            ),
        })
    }

    /// The job has failed elsewhere: a host that has not started its ranks does not start them.
    pub(super) fn call_off(&mut self) {
        match self.step {
            RemoteStep::Waiting => self.come_to(RemoteStep::Over),
            RemoteStep::Connecting => {
                self.come_to(RemoteStep::Over);
                self.cut();
            }
            _ => {}
        }
    }

    /// The warning for a host that did not end in time: ranks may be left there.
    pub(super) fn left_over(&self) -> Option<String> {
        let daemon = self.line.is_some() && self.step != RemoteStep::Over;
        daemon.then(|| {
            format!(
                "{} did not end in time: its ranks are killed when it notices the lost connection",
                self.name()
            )
        })
    }

    /// Kills the command that reaches the host. A daemon that loses its launcher kills its ranks.
    pub(super) fn cut(&mut self) {
        let Some(line) = &mut self.line else { return };
        (line.orders, line.news) = (None, None);
        if let Ok(pid) = Pid::try_from(line.child.id()) {
            sys::signal_group(pid, libc::SIGTERM);
        }
    }
}

/// Whether a shell reports by its exit code that a program is missing or cannot be run.
fn is_missing(ending: Ending) -> bool {
    matches!(ending, Ending::Exit(126 | 127))
}

/// How long a host may take to answer and to start its ranks.
const CONNECT_MAX: Duration = Duration::from_secs(60);
/// How often a host is tried.
const TRIES_MAX: u32 = 3;
/// How many pings, one per second, a host may leave unanswered: as long as ranks wait for each other.
pub(super) const MUTE_PINGS_MAX: u32 = 10;
/// How long to wait after the first failed try; after the second, twice as long.
const RETRY_AFTER: Duration = Duration::from_millis(500);
/// How much of the command's standard error is kept.
const COMPLAINT_BYTES_MAX: usize = 2000;
