//! The control channel of a rank to its launcher.

use std::fmt;
use std::sync::{Arc, Barrier, Mutex, OnceLock, PoisonError};

use crate::bootstrap::{self, Answer, BootstrapError, Request, late_launcher};
use crate::launcher::Kvs;
use crate::shm::Segment;

/// The channel to the launcher, which is ours or another one.
pub(crate) struct ControlChannel {
    channel: Channel,
    /// The channel to a launcher of ours that was started when it was first needed.
    late: OnceLock<OurChannel>,
}

/// Why the launcher does not answer.
#[derive(Debug)]
pub enum AskError {
    /// Ranks are threads of one process.
    NoLauncher,
    /// It is not ours, and the job is on several hosts.
    AnotherLauncher,
    /// The channel to it failed.
    Channel(BootstrapError),
}

impl fmt::Display for AskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AskError::NoLauncher => write!(
                f,
                "the ranks are threads of one process, without a launcher, which would do this: start the program with \
                 ferry run"
            ),
            AskError::AnotherLauncher => write!(
                f,
                "the job is on several hosts, and the launcher that started it cannot do this: start it with ferry run \
                 or Ferrywire's mpiexec"
            ),
            AskError::Channel(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for AskError {}

enum Channel {
    Ours {
        channel: OurChannel,
        /// The job continues when ranks die.
        fault_tolerant: bool,
    },
    /// No launcher: the rank is alone.
    Alone,
    Kvs(Mutex<Box<dyn Kvs>>),
    /// No launcher: ranks are threads of one process, on simulated hosts.
    Threads(Arc<Barrier>),
}

/// The channel to a launcher of ours.
struct OurChannel {
    channel: bootstrap::LauncherChannel,
    /// Held between a request and its answer.
    asking: Mutex<()>,
}

impl OurChannel {
    fn new(channel: bootstrap::LauncherChannel) -> OurChannel {
        OurChannel { channel, asking: Mutex::default() }
    }

    fn ask(&self, request: &Request) -> Result<Answer, AskError> {
        let _asking = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
        self.channel.ask(request).map_err(AskError::Channel)
    }
}

/// What became of the attempt to have the launcher end the job.
pub(crate) enum AbortOutcome {
    /// It ends us with all the others.
    IsUnderWay,
    /// The launcher has been told, and this process has to end itself.
    EndYourself,
    /// Nobody has been told the reason.
    Untold,
}

impl ControlChannel {
    fn new(channel: Channel) -> ControlChannel {
        ControlChannel { channel, late: OnceLock::new() }
    }

    pub(crate) fn ours(
        channel: bootstrap::LauncherChannel,
        fault_tolerant: bool,
    ) -> ControlChannel {
        ControlChannel::new(Channel::Ours { channel: OurChannel::new(channel), fault_tolerant })
    }

    pub(crate) fn alone() -> ControlChannel {
        ControlChannel::new(Channel::Alone)
    }

    /// Whether the rank was started by a launcher, or is a thread among others.
    pub(crate) fn is_alone(&self) -> bool {
        matches!(self.channel, Channel::Alone)
    }

    pub(crate) fn kvs(kvs: Box<dyn Kvs>) -> ControlChannel {
        ControlChannel::new(Channel::Kvs(Mutex::new(kvs)))
    }

    pub(crate) fn threads(barrier: &Arc<Barrier>) -> ControlChannel {
        ControlChannel::new(Channel::Threads(Arc::clone(barrier)))
    }

    /// Tells the launcher that the rank has finalised, so that its exit does not count as a failure. Errors are
    /// ignored: the launcher is gone, and the rank will soon be, too.
    pub(crate) fn goodbye(&self) {
        let _ = match &self.channel {
            Channel::Ours { channel, .. } => channel.channel.goodbye().is_ok(),
            Channel::Kvs(kvs) => {
                kvs.lock().unwrap_or_else(PoisonError::into_inner).goodbye().is_ok()
            }
            Channel::Alone | Channel::Threads(_) => true,
        };
        if let Some(late) = self.late.get() {
            let _ = late.channel.goodbye();
        }
    }

    /// Waits until all ranks have called this. Errors are ignored: without a launcher there are no ranks to wait for.
    pub(crate) fn wait_for_all(&self) {
        let _ = match &self.channel {
            Channel::Ours { channel, .. } => channel.channel.wait_for_all().is_ok(),
            Channel::Kvs(kvs) => kvs.lock().unwrap_or_else(PoisonError::into_inner).fence().is_ok(),
            Channel::Alone => true,
            Channel::Threads(barrier) => barrier.wait().is_leader(),
        };
    }

    /// Whether the job continues when ranks die.
    pub(crate) fn is_fault_tolerant(&self) -> bool {
        matches!(self.channel, Channel::Ours { fault_tolerant: true, .. })
    }

    /// Reports a rank that has been silent for too long, so that all ranks continue without it.
    pub(crate) fn silent(&self, rank: u32) {
        if let Channel::Ours { channel, fault_tolerant: true } = &self.channel {
            // Without a launcher there is no job.
            let _ = channel.channel.silent(rank);
        }
    }

    /// Asks a launcher of ours, and waits for its answer. If none started the job, and all of it is in `segment`, one is
    /// started now.
    pub(crate) fn ask(
        &self,
        request: &Request,
        segment: Option<&Segment>,
        me: u32,
    ) -> Result<Answer, AskError> {
        match &self.channel {
            Channel::Ours { channel, .. } => channel.ask(request),
            Channel::Threads(_) => Err(AskError::NoLauncher),
            Channel::Alone | Channel::Kvs(_) => {
                let segment = segment.ok_or(AskError::AnotherLauncher)?;
                if let Some(late) = self.late.get() {
                    return late.ask(request);
                }
                let channel = late_launcher::connect(segment, me).map_err(AskError::Channel)?;
                self.late.get_or_init(|| OurChannel::new(channel)).ask(request)
            }
        }
    }

    /// Asks the launcher to end the whole job.
    pub(crate) fn abort(&self, code: i32, text: &str) -> AbortOutcome {
        let told = match &self.channel {
            Channel::Ours { channel, .. } => channel.channel.abort(code, text).is_ok(),
            Channel::Kvs(kvs) => {
                // Other launchers do not show the reason.
                eprintln!("abort: {text}");
                kvs.lock().unwrap_or_else(PoisonError::into_inner).abort(code, text).is_ok()
            }
            Channel::Threads(_) => false,
            Channel::Alone => {
                let late = self.late.get();
                return match late.is_some_and(|late| late.channel.abort(code, text).is_ok()) {
                    true => AbortOutcome::EndYourself,
                    false => AbortOutcome::Untold,
                };
            }
        };
        if told { AbortOutcome::IsUnderWay } else { AbortOutcome::Untold }
    }
}
