//! A job on several hosts: the launcher starts a daemon on each, by ssh or the command of `--rsh`, and runs until all
//! have ended.
//!
//! Daemons talk only to the launcher; messages between ranks do not pass through it.

mod hang;
mod recordings;
mod remote;
mod suspicion;
mod table;
mod worlds;

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use ferrywire_host::bootstrap::Request;
use ferrywire_host::error_code::{ErrorCode, continued};
use ferrywire_host::secret::JobSecret;
use ferrywire_host::trace::RecordingClock;
use ferrywire_host::{Here, monotonic_ns};

use super::host_list::{self, Share};
use super::input::Input;
use super::job::{self, EndRequest};
use super::options::{Options, Stdin};
use super::output::Sink;
use super::plan;
use super::rail::{self, RailRequest};
use super::report::{self, DEADLOCK, RankEnding, RankName, Ranks, name_of};
use super::services::Services;
use super::sys::{self, Ending, Signals};
use super::watch::Watch;
use super::wire::{
    Assignment, FailureNews, FrameKind, Loss, Network, News, Order, Terminals, VERSION,
};
use super::{NoJob, hang_settings, job_number, mark_of, timeout_of};
use crate::job_facts::{AnsweringSource, FactsReport};
use crate::out;
use crate::trace::{ClockExchange, Recording};
use hang::HostsHang;
use remote::{Lost, Remote, RemoteStep};
use suspicion::{Condemned, Suspicions};
use table::ProgressTable;
use worlds::{Expected, World};

/// Why no daemon can be started on any host.
#[derive(Debug)]
pub(super) enum HostsError {
    /// The path of this program is unknown.
    NoSelf(io::Error),
    /// The command that reaches hosts does not start.
    Rsh { command: String, error: io::Error },
}

impl fmt::Display for HostsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HostsError::NoSelf(error) => write!(f, "cannot find the path of this program: {error}"),
            HostsError::Rsh { command, error } => write!(
                f,
                "cannot start `{command}` to reach the hosts: {error}; name another command with --rsh"
            ),
        }
    }
}

/// Runs a job on the hosts that the options name. Returns the exit code.
pub(super) fn run(options: &Options) -> Result<u8, NoJob> {
    let (errands, size) = plan::errands(options).map_err(NoJob::Plan)?;
    let shares = host_list::deal(&options.hosts, options.per_host, size);
    if options.dry_run {
        shares.iter().for_each(|share| out::line(told(share)));
        return Ok(0);
    }
    let os = |what| move |error| NoJob::Os { what, error };
    sys::hide_memory().map_err(os("keep the secret of the job out of core dumps"))?;
    let signals = Signals::take(job::SIGNALS).map_err(os("set up signal handling"))?;
    sys::raise_files().map_err(os("read the limit on open files"))?;
    let out = Sink::new(io::stdout()).map_err(os("use the standard output"))?;
    let err = Sink::new(io::stderr()).map_err(os("use the standard error"))?;
    let number = job_number();
    let mark = mark_of(number);
    let colours = std::env::var_os("NO_COLOR").is_none();
    let terminals = Terminals { out: out.is_terminal, err: err.is_terminal, colours };
    let network = Network {
        secret: JobSecret::draw().map_err(os("draw the secret of the job"))?,
        insecure: options.insecure,
        rail: options.rail.clone(),
        wanted: options.network.clone(),
    };
    let hang = hang_settings(options);
    let recording = Recording::begin(&options.recording, size).map_err(NoJob::Recording)?;
    let assignment = |share: &Share| Assignment {
        version: VERSION,
        job: number,
        mark: mark.clone(),
        size,
        parts: plan::clipped(&errands, share),
        label: options.label,
        terminals,
        files: options.files.clone(),
        stdin: options.stdin,
        network: network.clone(),
        fault_tolerant: options.fault_tolerant,
        hang_timeout: hang.timeout,
        recording_bytes_max: recording.as_ref().map(|recording| recording.bytes_max),
    };
    let rsh = options.rsh.clone().unwrap_or_else(|| "ssh".into());
    let remote = |(host, share): (u32, &Share)| {
        let here = Here::new(share.first, share.ranks, size, host);
        Remote::new(share.clone(), here, &rsh, assignment(share))
    };
    let remotes: Vec<Remote> = (0..).zip(&shares).map(remote).collect();
    let mut hosts = Hosts {
        table: ProgressTable::new(err.is_terminal),
        signals,
        worlds: vec![World::on(0..remotes.len())],
        expected: Vec::new(),
        services: Services::default(),
        remotes,
        input: Input::for_others(options.stdin),
        reader: options.stdin,
        hungry: 0,
        out,
        err,
        timeout: timeout_of(options),
        phase: HostsPhase::Running,
        failure: None,
        asked: None,
        gone: false,
        held: (false, false),
        told_unread: false,
        frame_bytes_max: u32::MAX,
        request: options.rail.clone(),
        begun: Instant::now(),
        fault_tolerant: options.fault_tolerant,
        losses: Vec::new(),
        suspicions: Suspicions::default(),
        ping_at: Instant::now(),
        hang: HostsHang::new(hang, number),
        recording,
        sending_until: Instant::now(),
    };
    hosts.start_some().map_err(NoJob::Hosts)?;
    Ok(hosts.run())
}

fn told(share: &Share) -> String {
    let ranks = share.first..share.first + share.ranks;
    let ranks: Vec<RankName> = ranks.map(RankName::of).collect();
    format!("{}: {}", share.name, Ranks(&ranks))
}

/// What went wrong first.
struct FirstFailure {
    why: String,
    /// The host that reported it.
    host: Option<String>,
    code: u8,
    /// The mistake that it follows from, and what all ranks were doing.
    verdict: Option<String>,
    lines: Vec<String>,
    /// A rank ended by itself.
    ended: bool,
    rank: Option<RankName>,
    weight: u32,
    /// When it was reported: a failure reported a moment later may still be the cause.
    at: Instant,
}

#[derive(Clone, Copy)]
enum HostsPhase {
    Running,
    /// All daemons have been told to end.
    Ending {
        leave_at: Instant,
    },
}

struct Hosts {
    table: ProgressTable,
    signals: Signals,
    remotes: Vec<Remote>,
    worlds: Vec<World>,
    /// Worlds that are being spawned.
    expected: Vec<Expected>,
    services: Services,
    input: Input,
    reader: Stdin,
    /// How many hosts have taken the last piece of input.
    hungry: usize,
    out: Sink,
    err: Sink,
    timeout: Option<(Instant, f64)>,
    phase: HostsPhase,
    failure: Option<FirstFailure>,
    asked: Option<EndRequest>,
    /// All hosts have been told that all ranks have joined.
    gone: bool,
    /// Whether hosts have been told to hold back what ranks write to standard output, and to standard error.
    held: (bool, bool),
    /// Hosts have been told that the output is not read any more.
    told_unread: bool,
    /// The longest frame that fits on all hosts.
    frame_bytes_max: u32,
    request: RailRequest,
    begun: Instant,
    /// The job continues when ranks die; `losses` are those that have.
    fault_tolerant: bool,
    losses: Vec<Loss>,
    suspicions: Suspicions,
    /// When hosts are pinged next.
    ping_at: Instant,
    /// Whether the job still goes on.
    hang: HostsHang,
    /// What becomes of the recordings of ranks, if there are any.
    recording: Option<Recording>,
    /// Until when hosts that send recordings may take.
    sending_until: Instant,
}

#[derive(Clone, Copy)]
enum HostsSource {
    Answering(AnsweringSource),
    Signals,
    News(usize),
    Complaints(usize),
    Orders(usize),
    Input,
    Sink,
}

impl Hosts {
    fn run(mut self) -> u8 {
        while self.remotes.iter().any(|remote| !remote.is_over()) && !self.is_left() {
            self.turn();
        }
        self.close()
    }

    fn is_left(&self) -> bool {
        let until = |leave_at: Instant| leave_at.max(self.sending_until);
        matches!(self.phase, HostsPhase::Ending { leave_at } if Instant::now() >= until(leave_at))
    }

    /// Starts daemons, some at a time: an ssh server accepts few logins at once.
    fn start_some(&mut self) -> Result<(), HostsError> {
        let now = Instant::now();
        let mut under_way =
            self.remotes.iter().filter(|remote| remote.step == RemoteStep::Connecting).count();
        for remote in &mut self.remotes {
            if under_way < CONNECTING_MAX && remote.is_due(now) {
                remote.start(&self.signals)?;
                under_way += 1;
            }
        }
        Ok(())
    }

    fn turn(&mut self) {
        let ready = self.watched().ready(self.wait_ms());
        let ready = ready.unwrap_or_else(|error| panic!("cannot wait for the hosts: {error}"));
        for source in ready {
            self.on_ready(source);
        }
        if matches!(self.phase, HostsPhase::Running)
            && let Err(bad) = self.start_some()
        {
            self.fail(bad.to_string(), 1);
        }
        self.on_time(Instant::now());
        self.watch_hang(Instant::now());
        self.table.poll(Instant::now(), &self.remotes, &mut self.err);
        self.out.poll();
        self.err.poll();
        self.hold_back();
        if let Some(error) = self.out.trouble.take() {
            self.fail(format!("cannot write the output of the ranks: {error}"), 1);
        }
    }

    fn watched(&self) -> Watch<HostsSource> {
        let mut watch = Watch::new();
        watch.read(self.signals.as_fd(), HostsSource::Signals);
        for (at, remote) in self.remotes.iter().enumerate() {
            if let Some(news) = remote.news() {
                watch.read(news, HostsSource::News(at));
            }
            if let Some(complaints) = remote.complaints() {
                watch.read(complaints, HostsSource::Complaints(at));
            }
            if let Some(orders) = remote.orders_waiting() {
                watch.write(orders, HostsSource::Orders(at));
            }
        }
        if let Some(source) = self.input.source_for_others().filter(|_| self.wants_input()) {
            watch.read(source, HostsSource::Input);
        }
        for sink in [&self.out, &self.err].into_iter().filter(|sink| !sink.is_empty()) {
            watch.write(sink.as_fd(), HostsSource::Sink);
        }
        if let Some(answering) = &self.hang.answering {
            answering
                .readers()
                .for_each(|(it, source)| watch.read(it, HostsSource::Answering(source)));
            answering
                .writers()
                .for_each(|(it, source)| watch.write(it, HostsSource::Answering(source)));
        }
        watch
    }

    /// Tells hosts to hold back output for which there is no room here, so that the writes of their ranks block. All
    /// other news is read all the time: a host must not be taken for dead because the output is not read.
    fn hold_back(&mut self) {
        let held = (self.out.is_held_back(self.held.0), self.err.is_held_back(self.held.1));
        if held != self.held {
            self.held = held;
            self.order_all(&Order::Hold { out: held.0, err: held.1 });
        }
        if self.out.broken && !self.told_unread {
            self.told_unread = true;
            self.order_all(&Order::Unread);
        }
    }

    /// Whether all hosts that read the input have taken the last piece.
    fn wants_input(&self) -> bool {
        let readers = self.remotes.iter().filter(|remote| remote.reads(self.reader)).count();
        readers > 0 && self.hungry >= readers
    }

    fn wait_ms(&self) -> Option<u64> {
        let phase = match self.phase {
            HostsPhase::Running => {
                let ending = self.asked.map(|asked| asked.deadline() + ENDING_MAX);
                self.timeout.map(|(at, _)| at).into_iter().chain(ending).min()
            }
            HostsPhase::Ending { leave_at } => Some(leave_at.max(self.sending_until)),
        };
        let hosts = self.remotes.iter().filter_map(Remote::deadline);
        let ping = self.gone.then_some(self.ping_at);
        phase
            .into_iter()
            .chain(hosts)
            .chain(self.table.deadline())
            .chain(ping)
            .chain(self.suspicions.deadline())
            .chain(self.hang_deadline())
            .min()
            .map(sys::ms_until)
    }

    fn on_time(&mut self, now: Instant) {
        if !matches!(self.phase, HostsPhase::Running) {
            return;
        }
        if let Some((_, seconds)) = self.timeout.filter(|(at, _)| now >= *at) {
            return self.fail(
                format!("the job ran longer than {seconds} s (--timeout or MPIEXEC_TIMEOUT)"),
                124,
            );
        }
        if let Some(late) = self.remotes.iter().find(|remote| remote.is_late(now)) {
            self.fail(late.silence(self.begun.elapsed()), 1);
        }
        self.check_deadlines(now);
        self.ping(now);
        self.judge_silence(now);
    }

    /// Kills ranks that others have given up, so that all ranks agree which are dead.
    fn judge_silence(&mut self, now: Instant) {
        let ranks: Vec<usize> = self.remotes.iter().map(|remote| remote.ranks().count()).collect();
        for condemned in self.suspicions.judge(now, &ranks) {
            let doomed = match condemned {
                Condemned::Rank(rank) => vec![rank],
                Condemned::Host(at) => self.remotes[at].ranks().collect(),
            };
            for rank in doomed {
                if let Some(remote) = self.remotes.iter_mut().find(|remote| remote.has(rank)) {
                    remote.order(&Order::Kill(rank));
                }
            }
        }
    }

    fn on_ready(&mut self, source: HostsSource) {
        match source {
            HostsSource::Answering(source) => {
                if let Some(answering) = &mut self.hang.answering {
                    answering.on_ready(source);
                }
            }
            HostsSource::Signals => self.on_signals(),
            HostsSource::News(at) => self.hear(at),
            HostsSource::Complaints(at) => self.remotes[at].note_complaints(),
            HostsSource::Orders(at) => self.remotes[at].send_orders(),
            HostsSource::Input => self.feed(),
            HostsSource::Sink => {}
        }
    }

    fn on_signals(&mut self) {
        while let Some(signal) = self.signals.poll() {
            match signal {
                libc::SIGCHLD => self.on_children(),
                libc::SIGXFSZ => {}
                libc::SIGTSTP => {
                    self.order_all(&Order::Signal(libc::SIGTSTP));
                    sys::stop_self();
                }
                // Ctrl-\ on a terminal.
                libc::SIGQUIT if self.can_say_why() => self.say_why(),
                other if job::is_meant_to_end(other) => self.on_end_request(other),
                other => self.order_all(&Order::Signal(other)),
            }
        }
    }

    /// A signal asks the job to end. Hosts pass the first on to their ranks; the second kills the job.
    fn on_end_request(&mut self, signal: i32) {
        let code = u8::try_from(128 + signal).unwrap_or(1);
        match self.asked {
            None => {
                self.asked = Some(EndRequest::new(signal));
                if self.remotes.iter().any(Remote::is_unreached) {
                    let why = format!("{} came before all hosts were reached", name_of(signal));
                    return self.fail(ErrorCode::HOST_UNREACHED.ends(why), code);
                }
                self.order_all(&Order::Signal(signal));
            }
            Some(asked) if asked.is_over() => {
                let why = format!("killed the job at a second signal, {}", name_of(signal));
                self.fail(ErrorCode::SECOND_SIGNAL.ends(why), code);
                self.sending_until = Instant::now();
                self.phase = HostsPhase::Ending { leave_at: self.sending_until };
            }
            Some(_) => {}
        }
    }

    /// Fails the job if a host has not ended in time after a signal: its daemon should have killed the ranks.
    fn check_deadlines(&mut self, now: Instant) {
        let until = |asked: &EndRequest| (asked.deadline() + ENDING_MAX).max(self.sending_until);
        let asked = self.asked.filter(|asked| now >= until(asked));
        if let Some(EndRequest { signal, .. }) = asked {
            let busy: Vec<&str> =
                self.remotes.iter().filter(|host| !host.is_over()).map(Remote::name).collect();
            let seconds = (job::SIGNAL_GRACE + ENDING_MAX).as_secs();
            let (signal_name, hosts) = (name_of(signal), busy.join(", "));
            let why = format!("hosts that have not ended {seconds} s after {signal_name}: {hosts}");
            let why = ErrorCode::HOST_NOT_ENDED.ends(why);
            self.fail(why, u8::try_from(128 + signal).unwrap_or(1));
        }
    }

    fn on_children(&mut self) {
        while let Some((pid, ending)) = sys::reap() {
            if let Some(at) = self.remotes.iter().position(|remote| remote.pid() == Some(pid)) {
                self.on_ended(at, ending);
            }
        }
    }

    /// The command that reaches a host has ended. What it said before is taken in first.
    fn on_ended(&mut self, at: usize, ending: Ending) {
        while self.remotes[at].news().is_some_and(readable) {
            self.hear(at);
        }
        self.remotes[at].note_complaints();
        match self.remotes[at].on_ended(ending) {
            // The host is over, or will be tried again.
            None | Some(Lost::Again) => {}
            Some(Lost::ForGood(why)) => self.lose(at, why),
        }
    }

    fn hear(&mut self, at: usize) {
        let frames = match self.remotes[at].hear() {
            Ok(frames) => frames,
            Err(why) => return self.fail(why, 1),
        };
        for (kind, bytes) in frames {
            if kind != FrameKind::Words {
                self.table.remove(&mut self.err);
            }
            match kind {
                FrameKind::Out => self.out.pass_on(at, &bytes),
                FrameKind::Err => self.err.pass_on(at, &bytes),
                FrameKind::Words => match self.remotes[at].news_in(&bytes) {
                    Ok(news) => self.on_news(at, news),
                    Err(why) => self.fail(why, 1),
                },
                FrameKind::Facts => match FactsReport::parse(&bytes) {
                    Some(report) => self.on_facts(at, report),
                    None => self.fail(self.remotes[at].strange("facts that cannot be read"), 1),
                },
                FrameKind::Trace => self.on_recording_piece(at, &bytes),
            }
        }
    }

    fn on_news(&mut self, at: usize, news: News) {
        let host = self.remotes[at].name().to_owned();
        match news {
            News::Here { version } if version != VERSION => {
                let why = format!(
                    "the ferry on {host} has protocol version {version}, and this one {VERSION}: install the same there"
                );
                self.fail(ErrorCode::HOST_VERSION.ends(why), 1);
            }
            News::Here { .. } => {
                self.remotes[at].assign();
                if self.told_unread {
                    self.remotes[at].order(&Order::Unread);
                }
                self.remotes[at].order(&Order::Hold { out: self.held.0, err: self.held.1 });
            }
            News::Started { port, addresses, machine, frame_bytes_max, providers } => {
                self.remotes[at].on_started((port, addresses, machine), providers);
                self.frame_bytes_max = self.frame_bytes_max.min(frame_bytes_max);
                self.begin_recording(at);
            }
            News::Waiting { rank } => {
                self.remotes[at].waiting = Some(rank);
                self.judge_absence();
            }
            News::Absent { rank, pid } => {
                self.remotes[at].absent = Some((rank, pid));
                self.judge_absence();
            }
            News::Joined => {
                self.remotes[at].come_to(RemoteStep::Joined);
                let all = self.remotes.iter().all(|remote| remote.step == RemoteStep::Joined);
                if all && !self.gone {
                    self.table.remove(&mut self.err);
                    self.go();
                }
            }
            News::AllWait { world } => self.on_all_wait(at, world),
            News::Request { rank, request } => {
                // Launcher and daemon are the same program.
                if let Some(request) = Request::from_bytes(&request) {
                    self.on_request(at, rank, &request);
                }
            }
            News::Spawned { world } => self.on_spawned(at, world),
            News::NotSpawned { world, why } => {
                self.on_not_spawned(world, &format!("on {host}: {why}"));
            }
            News::Left { rank } => {
                self.remotes[at].left += 1;
                self.tell_others(at, &Order::Left(rank));
            }
            News::Lost { rank, mut loss } => {
                loss.why = continued(&loss.why, format_args!(", on {host}"));
                let had_left = loss.had_left;
                self.losses.push(loss);
                if !had_left {
                    self.remotes[at].left += 1;
                    self.tell_others(at, &Order::Gone(vec![rank]));
                }
            }
            News::Silent { rank } => {
                if let Some(of) = self.remotes.iter().position(|remote| remote.has(rank)) {
                    self.suspicions.note(at, of, rank, Instant::now());
                }
            }
            News::Pong { sent_ns, received_ns, answered_ns } => {
                let returned_ns = monotonic_ns();
                let exchange = ClockExchange { sent_ns, returned_ns, received_ns, answered_ns };
                self.on_pong(at, exchange);
            }
            News::Still { still } => self.on_still(at, still),
            News::Quiet { quiet, polling } => self.remotes[at].quiet = quiet.then_some(polling),
            News::Answers { question, waiting, answers } => {
                self.on_answers(at, question, waiting, answers);
            }
            News::Hungry => self.hungry += 1,
            News::Failed { failure } => self.on_failed(host, failure),
            News::NotStarted { why, code } => {
                self.remotes[at].come_to(RemoteStep::Over);
                self.fail(format!("on {host}: {why}"), code);
            }
            News::Recorded => self.on_recorded(at),
            News::Recording { rank, bytes, clock_ns, clock_time } => {
                let clock = RecordingClock { ns: clock_ns, time: clock_time };
                self.on_recording(at, rank, bytes, clock);
            }
            News::NoRecording { rank, why } => {
                self.remotes[at].recordings.received.miss(&rank, &why);
            }
            News::AllSent => self.remotes[at].recordings.are_whole = true,
            News::Done { endings } => {
                self.remotes[at].on_done(endings);
                self.forget_answers_of(at);
                self.on_over(at);
            }
        }
    }

    /// All ranks have joined: chooses the rail, and tells all hosts to go.
    fn go(&mut self) {
        self.gone = true;
        let candidates: Vec<(&str, &[String])> =
            self.remotes.iter().map(|remote| (remote.name(), &remote.providers[..])).collect();
        let provider = match rail::choose(&self.request, &candidates) {
            // A single host needs no rail to others.
            Err(why) if self.remotes.len() > 1 => return self.fail(ErrorCode::RAIL.ends(why), 1),
            chosen => chosen.unwrap_or(None),
        };
        if let Some(provider) = provider.as_deref().filter(|_| self.remotes.len() > 1) {
            self.table.remove(&mut self.err);
            self.err.say(&format!("ferry run: {}", rail::warning(provider)));
        }
        let hosts = self.remotes.iter().map(Remote::record).collect();
        let frame_bytes_max = self.frame_bytes_max;
        self.order_all(&Order::Go { hosts, frame_bytes_max, provider });
    }

    /// A host is lost, with all its ranks: fails the job, unless it is fault-tolerant.
    fn lose(&mut self, at: usize, why: String) {
        let goes_on = self.fault_tolerant && self.gone && matches!(self.phase, HostsPhase::Running);
        if !goes_on {
            return self.fail(why, 1);
        }
        self.forget_answers_of(at);
        let ranks = self.remotes[at].forsake();
        self.losses.push(Loss { why, code: 1, had_left: false });
        self.tell_others(at, &Order::Gone(ranks));
        self.on_over(at);
    }

    /// Gives all hosts but `on` an order.
    fn tell_others(&mut self, on: usize, order: &Order) {
        for (at, remote) in self.remotes.iter_mut().enumerate() {
            if at != on {
                remote.order(order);
            }
        }
    }

    /// Pings all hosts at intervals. A host that has not answered for too long is lost.
    fn ping(&mut self, now: Instant) {
        if !self.gone || now < self.ping_at {
            return;
        }
        self.ping_at = now + PING_EVERY;
        self.remotes.iter_mut().for_each(Remote::ping);
        let mute = self.remotes.iter().position(Remote::is_mute);
        if let Some(at) = mute {
            let remote = &mut self.remotes[at];
            let why = format!(
                "lost {}: it has not answered for {} s",
                remote.name(),
                remote::MUTE_PINGS_MAX
            );
            remote.cut();
            self.lose(at, ErrorCode::HOST_LOST.ends(why));
        }
    }

    /// Fails the job if a rank has ended without joining while another waits for it.
    fn judge_absence(&mut self) {
        let waiting = self.remotes.iter().find_map(|remote| remote.waiting);
        let absent = self.remotes.iter().find_map(|remote| Some((remote.absent?, remote.name())));
        if let (Some(waiting), Some(((rank, pid), host))) = (waiting, absent) {
            let why = format!(
                "rank {rank} (pid {pid}, on {host}) ended (exit code 0) without joining, and rank {waiting} waits for it"
            );
            let why = ErrorCode::NOT_JOINED.ends(why);
            self.fail_with(why, 1, Some(RankName::of(rank)), 0);
        }
    }

    fn feed(&mut self) {
        let order = match self.input.piece_for_others() {
            Some(piece) => Order::Feed(piece),
            None => {
                self.input.close();
                Order::FeedEnd
            }
        };
        self.hungry = 0;
        for remote in self.remotes.iter_mut().filter(|remote| remote.reads(self.reader)) {
            remote.order(&order);
        }
    }

    fn order_all(&mut self, order: &Order) {
        self.remotes.iter_mut().for_each(|remote| remote.order(order));
    }

    fn fail(&mut self, why: String, code: u8) {
        self.fail_with(why, code, None, 0);
    }

    /// Fails the job.
    fn fail_with(&mut self, why: String, code: u8, rank: Option<RankName>, weight: u32) {
        self.note_failure(FirstFailure::new(why, code, rank, weight));
        self.end();
    }

    /// A host reports a failure. The job ends at once, or when it is known what others were doing.
    fn on_failed(&mut self, host: String, failure: FailureNews) {
        let FailureNews { why, code, rank, weight, may_be_explained, ended } = failure;
        let first = FirstFailure::new(why, code, rank, weight);
        self.note_failure(FirstFailure { host: Some(host), ended, ..first });
        let explains = may_be_explained && self.can_say_why();
        match explains || self.hang.explains() {
            true => self.explain(Instant::now()),
            false => self.end(),
        }
    }

    /// Keeps the first failure, unless a weightier one arrives at the same moment: a rank that dies takes others with
    /// it, and their hosts may report sooner.
    fn note_failure(&mut self, failure: FirstFailure) {
        let counts = self.failure.as_ref().is_none_or(|first| {
            failure.weight > first.weight && failure.at - first.at < SAME_MOMENT
        });
        if counts {
            self.failure = Some(failure);
        }
    }

    /// Ends all ranks.
    fn end(&mut self) {
        if matches!(self.phase, HostsPhase::Running) {
            self.table.leave(&self.remotes, &mut self.err);
            self.order_all(&Order::End);
            self.remotes.iter_mut().for_each(Remote::call_off);
            self.phase = HostsPhase::Ending { leave_at: Instant::now() + ENDING_MAX };
        }
    }

    fn close(mut self) -> u8 {
        self.table.remove(&mut self.err);
        let left: Vec<String> = self.remotes.iter().filter_map(Remote::left_over).collect();
        self.remotes.iter_mut().for_each(Remote::cut);
        let mistakes = self.mistakes();
        for line in self.report(&mistakes) {
            self.err.say(&format!("ferry run: {line}"));
        }
        for line in left {
            self.err.say(&format!("ferry run: {line}"));
        }
        self.write_out();
        self.end_recording();
        match &self.failure {
            Some(failure) => failure.code,
            None => match report::code_of_losses(&self.losses, &self.endings()) {
                0 if self.is_checked() && !mistakes.is_empty() => report::MISTAKEN,
                code => code,
            },
        }
    }

    /// Writes what waits to be written, unless a signal asks to end.
    fn write_out(&mut self) {
        loop {
            self.out.poll();
            self.err.poll();
            if self.out.is_empty() && self.err.is_empty() {
                return;
            }
            let mut watch = Watch::new();
            watch.read(self.signals.as_fd(), ());
            for sink in [&self.out, &self.err].into_iter().filter(|sink| !sink.is_empty()) {
                watch.write(sink.as_fd(), ());
            }
            let _ = watch.ready(Some(1000));
            while let Some(signal) = self.signals.poll() {
                if job::is_meant_to_end(signal) {
                    return;
                }
            }
        }
    }

    /// How the ranks of all hosts ended, ordered by rank.
    fn endings(&self) -> Vec<RankEnding> {
        let mut endings: Vec<_> =
            self.remotes.iter().flat_map(|remote| remote.endings.iter().copied()).collect();
        endings.sort_unstable_by_key(|&(rank, _)| rank);
        endings
    }

    fn report(&self, mistakes: &[String]) -> Vec<String> {
        let Some(failure) = &self.failure else {
            let mistakes = mistakes.iter().cloned();
            return mistakes.chain(report::survived(&self.losses)).collect();
        };
        if let Some(EndRequest { signal, .. }) = self.asked
            && failure.rank.is_some()
            && i32::from(failure.code) == 128 + signal
        {
            return vec![format!("ended by {}", name_of(signal))];
        }
        let lines = failure.lines.iter().map(|line| format!("  {line}"));
        if failure.code == DEADLOCK && failure.verdict.is_none() && !failure.lines.is_empty() {
            // The ranks were ended by us, which says nothing.
            return std::iter::once(failure.told()).chain(lines).collect();
        }
        let mut endings = self.endings();
        endings.retain(|&(rank, _)| Some(rank) != failure.rank);
        let cause = failure.verdict.iter().cloned().chain(lines);
        cause.chain([failure.told()]).chain(report::others(&endings)).collect()
    }
}

impl FirstFailure {
    fn new(why: String, code: u8, rank: Option<RankName>, weight: u32) -> FirstFailure {
        let at = Instant::now();
        let (host, verdict, lines, ended) = (None, None, Vec::new(), false);
        FirstFailure { why, host, code, verdict, lines, ended, rank, weight, at }
    }

    fn told(&self) -> String {
        match &self.host {
            Some(host) => continued(&self.why, format_args!(", on {host}")),
            None => self.why.clone(),
        }
    }
}

fn readable(descriptor: BorrowedFd<'_>) -> bool {
    let mut watch = Watch::new();
    watch.read(descriptor, ());
    watch.ready(Some(0)).is_ok_and(|ready| !ready.is_empty())
}

/// How many hosts are connected to at the same time.
const CONNECTING_MAX: usize = 32;
/// How often hosts are pinged.
const PING_EVERY: Duration = Duration::from_secs(1);
/// How long daemons may take to end their ranks: a little more than their own deadlines.
const ENDING_MAX: Duration = Duration::from_millis(1500);
/// Failures that are reported so close together may have one cause.
const SAME_MOMENT: Duration = Duration::from_millis(100);
