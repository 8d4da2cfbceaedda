//! The loop of a job: it waits for signals, output, input, words of ranks and deadlines.

mod adopted;
mod close;
mod fault_tolerance;
mod hang;
mod spawn;
mod upward;

use std::io;
use std::ops::Range;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use ferrywire_host::bootstrap::late_launcher::AdoptedJob;
use ferrywire_host::bootstrap::{Member, NetworkConfig, Parent, Word};
use ferrywire_host::net::directory::Directory;
use ferrywire_host::nic::Peer;
use ferrywire_host::{Here, Segment, cores};

use super::far::Far;
use super::input::Input;
use super::output::{Gave, LINE_BYTES_MAX, Sink, Stream};
use super::reaper::Reaper;
use super::report::{Failure, RankName};
use super::services::Services;
use super::start::{Rank, Settings};
use super::sys::{self, Ending, Pid, Signals};
use super::watch::Watch;
use crate::trace::RecordingFolder;
pub(super) use fault_tolerance::FaultTolerance;
pub(super) use hang::{ANSWER_MAX, Hang, HangSettings, LOOK, SETTLE};
pub(super) use spawn::Spawning;
pub(super) use upward::Launcher;

/// How long ranks may take to end after SIGTERM before they get SIGKILL.
const GRACE: Duration = Duration::from_millis(300);

/// How long ranks may take to end after a signal from the user before they are killed.
pub(super) const SIGNAL_GRACE: Duration = Duration::from_secs(10);

/// A signal so soon after another is the same request: `timeout` and closing terminals signal a process and then its
/// group.
const SAME_REQUEST: Duration = Duration::from_millis(100);

/// How long a killed rank is waited for.
const KILLED_MAX: Duration = Duration::from_millis(400);

/// After such a silence, an incomplete line on a terminal is taken for a prompt.
const QUESTION: Duration = Duration::from_millis(100);

/// How many reapers a job starts. One that is killed is replaced; if this many are killed, the job fails.
const REAPERS_MAX: u32 = 8;

/// Signals that the launcher waits for. All but the first two are passed on to the ranks.
pub(super) const SIGNALS: &[i32] = &[
    libc::SIGCHLD,
    libc::SIGXFSZ,
    libc::SIGINT,
    libc::SIGTERM,
    libc::SIGHUP,
    libc::SIGQUIT,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGTSTP,
    libc::SIGCONT,
];

/// Whether a signal asks the job to end.
pub(super) fn is_meant_to_end(signal: i32) -> bool {
    matches!(signal, libc::SIGINT | libc::SIGQUIT | libc::SIGTERM | libc::SIGHUP)
}

/// A signal that asked the job to end, and when.
#[derive(Clone, Copy)]
pub(super) struct EndRequest {
    pub(super) signal: i32,
    pub(super) at: Instant,
}

impl EndRequest {
    pub(super) fn new(signal: i32) -> EndRequest {
        EndRequest { signal, at: Instant::now() }
    }

    /// Whether a signal now would be another request.
    pub(super) fn is_over(&self) -> bool {
        self.at.elapsed() >= SAME_REQUEST
    }

    /// When ranks that still run are killed.
    pub(super) fn deadline(&self) -> Instant {
        self.at + SIGNAL_GRACE
    }
}

/// A running job: the ranks of this host, and what the launcher or daemon knows about them.
pub(super) struct Job {
    pub(super) signals: Signals,
    pub(super) reaper: Reaper,
    pub(super) ranks: Vec<Rank>,
    pub(super) input: Input,
    pub(super) out: Sink,
    pub(super) err: Sink,
    /// The number of the job.
    pub(super) number: u32,
    /// The mark of the job, which all its processes have in their environment.
    pub(super) mark: String,
    /// Cores that its ranks may use.
    pub(super) cores: u32,
    pub(super) timeout: Option<(Instant, f64)>,
    /// The number of ranks in the whole job when it began, and the numbers of those on this host.
    pub(super) size: u32,
    pub(super) here: Here,
    /// The launcher, if this process is its daemon on a host.
    pub(super) launcher: Option<Launcher>,
    /// The connection to other hosts, if the job has any.
    pub(super) far: Option<Far>,
    /// The other hosts themselves, once all ranks of the beginning have joined.
    pub(super) others: Option<Others>,
    /// Present if the job continues when ranks die.
    pub(super) fault_tolerant: Option<FaultTolerance>,
    /// How ranks are started.
    pub(super) settings: Settings,
    /// The memory that the ranks of this host share, once they have joined.
    pub(super) segment: Option<Segment>,
    /// Ranks that are being spawned here, and how many worlds have been spawned on all hosts.
    pub(super) spawning: Vec<Spawning>,
    pub(super) worlds: u32,
    /// The names of ports that ranks have published.
    pub(super) services: Services,
    /// Present if others have started the ranks of the beginning.
    pub(super) adopted: Option<AdoptedJob>,
    /// Whether the job still goes on.
    pub(super) hang: Hang,
    /// Where the ranks of a daemon record what they do.
    pub(super) recordings: Option<RecordingFolder>,
    pub(super) course: Course,
}

/// What the ranks of this host need to know about the other hosts.
pub(super) struct Others {
    /// The addresses of all hosts, and which of their ranks are gone.
    directory: Directory,
    /// The provider of libfabric that connects them; `None` for UDP.
    provider: Option<String>,
    /// How many ranks run on this machine, those of other hosts on it included.
    neighbours: u32,
}

/// How far the job has come.
pub(super) struct Course {
    phase: Phase,
    failure: Option<Failure>,
    admitted: bool,
    /// What a daemon has told its launcher: that a rank waits, that all have joined, that a rank will not join.
    told_waiting: bool,
    told_joined: bool,
    told_absent: bool,
    /// The launcher of a daemon has asked for what the ranks have recorded.
    recordings_wanted: bool,
    /// The signal by which the user asked the job to end. It was passed on to the ranks.
    asked: Option<EndRequest>,
    reapers: u32,
    /// The user has been told that a line was too long.
    noted_cut: bool,
}

impl Course {
    pub(super) fn new() -> Course {
        Course {
            phase: Phase::Running,
            failure: None,
            admitted: false,
            told_waiting: false,
            told_joined: false,
            told_absent: false,
            recordings_wanted: false,
            asked: None,
            reapers: 1,
            noted_cut: false,
        }
    }
}

#[derive(Clone, Copy)]
enum Phase {
    Running,
    /// The ranks have got SIGTERM.
    Ending {
        kill_at: Instant,
    },
    Killed {
        leave_at: Instant,
    },
}

/// What a descriptor of the loop belongs to. Numbers are indices of ranks or pipes.
#[derive(Clone, Copy)]
enum JobSource {
    Signals,
    Launcher,
    RankSocket(usize),
    Callers,
    Out(usize),
    Err(usize),
    Input,
    InputPipe(usize),
    Sink,
}

impl Job {
    /// Runs the job to its end. Returns the exit code.
    pub(super) fn run(mut self) -> u8 {
        while self.ranks.iter().any(|rank| rank.ending.is_none()) && !self.is_left() {
            self.turn();
        }
        self.close()
    }

    /// Whether to stop waiting: a rank has not even died of SIGKILL in time.
    fn is_left(&self) -> bool {
        matches!(self.course.phase, Phase::Killed { leave_at } if Instant::now() >= leave_at)
    }

    fn turn(&mut self) {
        let ready = self.watched().ready(self.wait_ms());
        let ready = ready.unwrap_or_else(|error| panic!("cannot wait for the ranks: {error}"));
        if ready.is_empty() {
            self.show_questions();
        }
        for source in ready {
            self.on_ready(source);
        }
        self.on_time(Instant::now());
        self.look(Instant::now());
        self.out.poll();
        self.err.poll();
        self.look_at_output();
        if self.out.broken {
            // The output is not read any more: the writes of ranks fail, as on a pipe of their own.
            self.ranks.iter_mut().for_each(|rank| rank.out = None);
        }
    }

    /// Fails the job if output was lost, as a rank would that writes itself.
    fn look_at_output(&mut self) {
        if let Some(error) = self.out.trouble.take() {
            self.fail(Failure::NoOutput { error });
        }
    }

    /// The descriptors to wait for.
    fn watched(&self) -> Watch<JobSource> {
        let mut watch = Watch::new();
        watch.read(self.signals.as_fd(), JobSource::Signals);
        if let Some(launcher) = &self.launcher {
            watch.read(launcher.as_fd(), JobSource::Launcher);
        }
        for caller in self.adopted.iter().flat_map(AdoptedJob::watched) {
            watch.read(caller, JobSource::Callers);
        }
        for (at, rank) in self.ranks.iter().enumerate() {
            if let Some(rank_socket) = &rank.rank_socket {
                watch.read(rank_socket.as_fd(), JobSource::RankSocket(at));
            }
            if let Some(stream) = rank.out.as_ref().filter(|_| !self.out.is_full()) {
                watch.read(stream.pipe.as_fd(), JobSource::Out(at));
            }
            if let Some(stream) = rank.err.as_ref().filter(|_| !self.err.is_full()) {
                watch.read(stream.pipe.as_fd(), JobSource::Err(at));
            }
        }
        for (at, pipe) in self.input.busy() {
            watch.write(pipe, JobSource::InputPipe(at));
        }
        if let Some(source) = self.input.source() {
            watch.read(source, JobSource::Input);
        }
        for sink in [&self.out, &self.err].into_iter().filter(|sink| sink.wants_to_write()) {
            watch.write(sink.as_fd(), JobSource::Sink);
        }
        watch
    }

    /// How long to wait until the next deadline.
    fn wait_ms(&self) -> Option<u64> {
        let phase = match self.course.phase {
            Phase::Running => {
                let ending = self.course.asked.map(|asked| asked.deadline());
                self.timeout.map(|(at, _)| at).into_iter().chain(ending).min()
            }
            Phase::Ending { kill_at } => Some(kill_at),
            Phase::Killed { leave_at } => Some(leave_at),
        };
        let question = self.has_question().then(|| Instant::now() + QUESTION);
        [phase, question, self.look_at()].into_iter().flatten().min().map(sys::ms_until)
    }

    fn on_ready(&mut self, source: JobSource) {
        match source {
            JobSource::Signals => self.on_signals(),
            JobSource::Launcher => self.on_launcher(),
            JobSource::Callers => self.on_callers(),
            JobSource::RankSocket(at) => {
                self.hear(at);
                self.judge(&[]);
            }
            JobSource::Out(at) => {
                read(&mut self.ranks[at].out, &mut self.out);
                self.note_cut(at);
            }
            JobSource::Err(at) => {
                read(&mut self.ranks[at].err, &mut self.err);
                self.note_cut(at);
            }
            JobSource::Input => self.input.on_readable(),
            JobSource::InputPipe(at) => {
                self.input.on_empty(at);
                self.tell_if_hungry();
            }
            // Written at the end of each turn.
            JobSource::Sink => {}
        }
    }

    /// Tells the user, once, that a line is too long to be kept whole.
    fn note_cut(&mut self, at: usize) {
        let rank = &self.ranks[at];
        let was_cut = |stream: &Option<Stream>| stream.as_ref().is_some_and(|it| it.was_cut);
        if !self.course.noted_cut && (was_cut(&rank.out) || was_cut(&rank.err)) {
            self.course.noted_cut = true;
            let (rank, most) = (rank.name, LINE_BYTES_MAX >> 20);
            self.err.say(&format!(
                "ferry run: rank {rank} writes a line of more than {most} MiB, which is passed on in pieces: output of \
                 other ranks may appear between them"
            ));
        }
    }

    fn on_time(&mut self, now: Instant) {
        match self.course.phase {
            Phase::Running => {
                if let Some((_, seconds)) = self.timeout.filter(|(at, _)| now >= *at) {
                    let running = self.running();
                    self.fail(Failure::TimeOut { seconds, running });
                } else if let Some(asked) =
                    self.course.asked.filter(|asked| now >= asked.deadline())
                {
                    let running = self.running();
                    self.fail(Failure::Ignored { signal: asked.signal, running });
                    self.kill();
                }
            }
            Phase::Ending { kill_at } if now >= kill_at => self.kill(),
            Phase::Ending { .. } | Phase::Killed { .. } => {}
        }
    }

    fn on_signals(&mut self) {
        while let Some(signal) = self.signals.poll() {
            match signal {
                libc::SIGCHLD => self.on_children(),
                // A file or the job's memory exceeds the limit on file sizes: the failing call reports it.
                libc::SIGXFSZ => {}
                libc::SIGTSTP => {
                    self.signal_groups(libc::SIGTSTP);
                    // SIGCONT resumes this process, and is then the next signal here.
                    sys::stop_self();
                }
                // Ctrl-\ on a terminal.
                libc::SIGQUIT if self.can_say_why() => self.say_why(),
                other => self.pass_on(other),
            }
        }
    }

    /// Passes a signal on to the ranks. A second request to end kills them.
    fn pass_on(&mut self, signal: i32) {
        match self.course.asked {
            Some(asked) if is_meant_to_end(signal) => {
                if asked.is_over() {
                    self.course.failure.get_or_insert(Failure::Killed { signal });
                    self.kill();
                }
                return;
            }
            None if is_meant_to_end(signal) => self.course.asked = Some(EndRequest::new(signal)),
            _ => {}
        }
        self.signal_groups(signal);
    }

    /// Reaps all children that have ended: one SIGCHLD may stand for several.
    fn on_children(&mut self) {
        let mut fresh = Vec::new();
        while let Some((pid, ending)) = sys::reap() {
            if pid == self.reaper.pid {
                self.replace_reaper();
            } else if let Some(at) = self.ranks.iter().position(|rank| rank.pid == pid) {
                self.on_ended(at, ending);
                fresh.push(at);
            }
        }
        for rank in self.ranks.iter_mut().filter(|rank| rank.ending.is_some()) {
            if !rank.group_gone && !sys::signal_group(rank.pid, 0) {
                rank.group_gone = true;
                self.reaper.forget(rank.pid);
            }
        }
        self.judge(&fresh);
    }

    /// A rank has ended. What it said before is taken in first.
    fn on_ended(&mut self, at: usize, ending: Ending) {
        self.hear(at);
        self.ranks[at].ending = Some(ending);
    }

    fn replace_reaper(&mut self) {
        if self.course.reapers >= REAPERS_MAX {
            self.fail(Failure::NoReaper { tried: self.course.reapers });
            return;
        }
        let groups = self.ranks.iter().filter(|rank| !rank.group_gone).map(|rank| rank.pid);
        match Reaper::start(&self.mark, groups) {
            Ok(reaper) => {
                self.reaper = reaper;
                self.course.reapers += 1;
            }
            Err(_) => self.fail(Failure::NoReaper { tried: self.course.reapers }),
        }
    }

    /// Takes in all words of one rank.
    fn hear(&mut self, at: usize) {
        while let Some(rank_socket) = &mut self.ranks[at].rank_socket {
            match rank_socket.poll() {
                Ok(None) => return,
                Ok(Some(word)) => self.on_word(at, word),
                Err(_) => self.on_closed(at),
            }
        }
    }

    fn on_closed(&mut self, at: usize) {
        self.ranks[at].rank_socket = None;
        self.on_adopted_gone(at);
    }

    fn on_word(&mut self, at: usize, word: Word) {
        let rank = &mut self.ranks[at];
        match word {
            Word::Hello(process) => rank.hello = Some(process),
            Word::Goodbye => {
                rank.goodbye = true;
                let rank = rank.peer;
                self.tell_left(rank);
            }
            Word::All => {
                rank.waits_for_all = true;
                let world = rank.name.world();
                self.all_wait(world);
            }
            Word::Abort { code, text } => {
                if rank.is_adopted {
                    // It ends itself.
                    rank.ending = Some(Ending::Exit(u8::try_from(code).unwrap_or(1)));
                }
                let (rank, pid) = (rank.name, rank.pid);
                self.fail(Failure::Abort { rank, pid, code, text });
            }
            Word::Silent(silent) => self.on_silent(silent),
            Word::Request(request) => self.on_request(at, &request),
            // The process that was refused has been told, and reports it itself.
            Word::Refused(_) => {}
            Word::Closed => self.on_closed(at),
        }
    }

    /// Checks whether all ranks have joined, and whether one has failed. `fresh` are the ranks that have just ended.
    fn judge(&mut self, fresh: &[usize]) {
        self.tell_who_waits();
        let waiting = self.ranks.iter().position(|rank| rank.hello.is_some());
        let due = !self.course.admitted && matches!(self.course.phase, Phase::Running);
        if let Some(waiting) = waiting.filter(|_| due) {
            if self.ranks.iter().all(|rank| rank.hello.is_some()) {
                self.all_are_here();
            } else if let Some(failure) = self.absent(waiting) {
                self.fail(failure);
            }
        }
        self.judge_spawned();
        if self.goes_on() {
            return fresh.iter().for_each(|at| self.go_on_without(*at));
        }
        let failures = fresh.iter().filter_map(|at| self.failure_of(*at));
        // The first of the heaviest: of two deaths at one moment, it is unknown which came first.
        if let Some(failure) = failures.rev().max_by_key(Failure::weight) {
            self.fail(failure);
        }
    }

    /// The failure of a rank that has ended without joining, while `waiting` has joined.
    fn absent(&self, waiting: usize) -> Option<Failure> {
        let at = self
            .ranks
            .iter()
            .position(|rank| rank.ending == Some(Ending::Exit(0)) && rank.hello.is_none())?;
        let (absent, waiting) = (&self.ranks[at], self.ranks[waiting].name);
        Some(Failure::Absent { rank: absent.name, pid: absent.pid, waiting })
    }

    /// The failure, if any, that the end of a rank means.
    fn failure_of(&self, at: usize) -> Option<Failure> {
        let rank = &self.ranks[at];
        let (name, pid) = (rank.name, rank.pid);
        match rank.ending? {
            _ if rank.dismissed => None,
            Ending::Exit(0) => {
                let unfinished = rank.hello.is_some() && !rank.goodbye;
                let others = self.ranks.iter().any(|other| other.ending.is_none());
                (unfinished && others).then_some(match rank.is_adopted {
                    false => Failure::Unfinished { rank: name, pid },
                    true => Failure::Vanished { rank: name, pid },
                })
            }
            ending => Some(Failure::Ended { rank: name, pid, ending }),
        }
    }

    /// All ranks of all hosts have said hello: creates the segment and sends each rank its join reply.
    fn admit(&mut self, others: Option<Others>) {
        self.course.admitted = true;
        let here = number(self.ranks.len());
        let neighbours = others.as_ref().map_or(0, |others| others.neighbours);
        let oversubscribed = cores::oversubscribed(here.max(neighbours), self.cores);
        let segment = match Segment::create(here, self.number, oversubscribed) {
            Ok(segment) => segment,
            Err(error) => return self.fail(Failure::NoSegment { size: here, error }),
        };
        segment.note_cores(self.cores);
        self.segment = Some(segment);
        self.others = others;
        self.ranks.iter().for_each(|rank| self.introduce(rank));
        let mut failure = None;
        for rank in &self.ranks {
            if let Err(error) = self.send_join_reply(rank, self.size, None)
                && !has_left(&error)
            {
                let rank = Failure::NoJoinReply { rank: rank.name, pid: rank.pid, error };
                failure.get_or_insert(rank);
            }
        }
        if let Some(failure) = failure {
            self.fail(failure);
        }
    }

    /// Fills in the entry of a rank in the segment.
    fn introduce(&self, rank: &Rank) {
        if let (Some(segment), Some(process)) = (&self.segment, rank.hello)
            && let Some(Peer(local_rank)) = self.here.local_rank(Peer(rank.peer))
        {
            segment.introduce(local_rank, process);
        }
    }

    /// Tells a rank of a world of `size` ranks who it is, and hands it the segment and the means to reach other hosts.
    fn send_join_reply(
        &self,
        rank: &Rank,
        size: u32,
        spawned: Option<(Parent, Vec<Range<u32>>)>,
    ) -> io::Result<()> {
        let (Some(rank_socket), Some(segment)) = (&rank.rank_socket, &self.segment) else {
            return Ok(());
        };
        let mut files = vec![segment.file().as_fd()];
        let local_rank = self.here.local_rank(Peer(rank.peer)).map_or(0, |it| it.0 as usize);
        let network = self.far.as_ref().zip(self.others.as_ref()).map(|(far, others)| {
            let socket = far.host_address.group.sockets[local_rank].as_fd();
            files.extend([others.directory.file().as_fd(), socket]);
            let (secret, insecure) = (far.network.secret.clone(), far.network.insecure);
            NetworkConfig { secret, insecure, fabric: others.provider.clone() }
        });
        let member = Member {
            rank: rank.peer,
            size,
            spawned,
            job: self.number,
            oversubscribed: segment.is_oversubscribed(),
            fault_tolerant: self.fault_tolerant.is_some(),
            network,
        };
        rank_socket.send_join_reply(member, &files)
    }

    /// The job has failed: ends the ranks. The first failure is the one that is reported.
    fn fail(&mut self, failure: Failure) {
        let failure = match self.course.failure {
            None => self.explained(failure),
            Some(_) => failure,
        };
        if matches!(self.course.phase, Phase::Running) {
            self.tell_failure(&failure);
            self.tell_facts_of(&failure);
        }
        self.course.failure.get_or_insert(failure);
        self.end();
    }

    fn end(&mut self) {
        if matches!(self.course.phase, Phase::Running) {
            self.signal_groups(libc::SIGTERM);
            self.signal_adopted(libc::SIGTERM);
            // A stopped process does not receive SIGTERM until it continues.
            self.signal_groups(libc::SIGCONT);
            self.course.phase = Phase::Ending { kill_at: Instant::now() + GRACE };
        }
    }

    fn kill(&mut self) {
        self.signal_groups(libc::SIGKILL);
        self.signal_adopted(libc::SIGKILL);
        self.course.phase = Phase::Killed { leave_at: Instant::now() + KILLED_MAX };
    }

    fn signal_groups(&self, signal: i32) {
        for rank in self.ranks.iter().filter(|rank| !rank.group_gone) {
            sys::signal_group(rank.pid, signal);
        }
    }

    fn has_question(&self) -> bool {
        let waits = |stream: &Option<Stream>| stream.as_ref().is_some_and(Stream::waits);
        self.out.is_terminal && self.ranks.iter().any(|rank| waits(&rank.out))
            || self.err.is_terminal && self.ranks.iter().any(|rank| waits(&rank.err))
    }

    fn show_questions(&mut self) {
        let (out, err) = (self.out.is_terminal, self.err.is_terminal);
        for rank in &mut self.ranks {
            if let Some(stream) = rank.out.as_mut().filter(|_| out) {
                stream.flush(&mut self.out);
            }
            if let Some(stream) = rank.err.as_mut().filter(|_| err) {
                stream.flush(&mut self.err);
            }
        }
    }

    /// The rank at index `at`, as the whole job counts.
    fn number_of(&self, at: usize) -> u32 {
        self.ranks[at].peer
    }

    fn running(&self) -> Vec<RankName> {
        let running = self.ranks.iter().filter(|rank| rank.ending.is_none());
        running.map(|rank| rank.name).collect()
    }
}

/// Reads a stream that is ready; drops it at its end.
fn read(stream: &mut Option<Stream>, sink: &mut Sink) {
    if let Some(open) = stream
        && open.poll(sink) == Gave::End
    {
        open.flush(sink);
        *stream = None;
    }
}

/// Whether the rank has closed its socket. Its exit status arrives separately.
fn has_left(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}

fn number(at: usize) -> u32 {
    u32::try_from(at).expect("ranks are counted in 32 bits")
}

/// The children of this process.
fn children() -> Vec<Pid> {
    let own = sys::own_pid();
    match std::fs::read_to_string(format!("/proc/self/task/{own}/children")) {
        Ok(text) => text.split_whitespace().filter_map(|word| word.parse().ok()).collect(),
        // A kernel that does not list them.
        Err(_) => children_by_search(own),
    }
}

fn children_by_search(own: Pid) -> Vec<Pid> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<Pid>().ok());
    pids.filter(|pid| parent_of(*pid) == Some(own)).collect()
}

/// The parent of a process, from `/proc/PID/stat`: `pid (name) state parent ...`, where the name may hold anything.
fn parent_of(pid: Pid) -> Option<Pid> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    text.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_are_found_either_way() {
        let mut child = std::process::Command::new("cat")
            .stdin(std::process::Stdio::piped())
            .spawn()
            .expect("cat starts");
        let pid = Pid::try_from(child.id()).expect("small");
        assert_eq!(parent_of(pid), Some(sys::own_pid()));
        assert!(children_by_search(sys::own_pid()).contains(&pid));
        drop(child.stdin.take());
        child.wait().expect("cat ends");
    }
}
