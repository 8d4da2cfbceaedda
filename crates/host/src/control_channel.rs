//! The control channel of a rank to its launcher.

use std::fmt;
use std::sync::{Arc, Barrier, Mutex, PoisonError};

use crate::bootstrap::{self, Answer, BootstrapError, Request};
use crate::launcher::Kvs;

/// The channel to the launcher, which is ours or another one.
pub(crate) struct ControlChannel(Channel);

/// Why the launcher does not answer.
#[derive(Debug)]
pub enum AskError {
    /// There is none.
    NoLauncher,
    /// It is not ours, and has no such service.
    AnotherLauncher,
    /// The channel to it failed.
    Channel(BootstrapError),
}

impl fmt::Display for AskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AskError::NoLauncher => write!(
                f,
                "this process was started without a launcher, which would do this: start it with ferry run or mpiexec"
            ),
            AskError::AnotherLauncher => write!(
                f,
                "the launcher that started this process cannot do this: start it with ferry run or Ferrywire's mpiexec"
            ),
            AskError::Channel(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for AskError {}

enum Channel {
    Ours {
        channel: bootstrap::LauncherChannel,
        /// Held between a request and its answer.
        asking: Mutex<()>,
        /// The job continues when ranks die.
        fault_tolerant: bool,
    },
    Kvs(Mutex<Box<dyn Kvs>>),
    /// No launcher: ranks are threads of one process, on simulated hosts.
    Threads(Arc<Barrier>),
}

impl ControlChannel {
    pub(crate) fn ours(
        channel: bootstrap::LauncherChannel,
        fault_tolerant: bool,
    ) -> ControlChannel {
        ControlChannel(Channel::Ours { channel, asking: Mutex::default(), fault_tolerant })
    }

    pub(crate) fn kvs(kvs: Box<dyn Kvs>) -> ControlChannel {
        ControlChannel(Channel::Kvs(Mutex::new(kvs)))
    }

    pub(crate) fn threads(barrier: &Arc<Barrier>) -> ControlChannel {
        ControlChannel(Channel::Threads(Arc::clone(barrier)))
    }

    /// Tells the launcher that the rank has finalised, so that its exit does not count as a failure. Errors are
    /// ignored: the launcher is gone, and the rank will soon be, too.
    pub(crate) fn goodbye(&self) {
        let _ = match &self.0 {
            Channel::Ours { channel, .. } => channel.goodbye().is_ok(),
            Channel::Kvs(kvs) => {
                kvs.lock().unwrap_or_else(PoisonError::into_inner).goodbye().is_ok()
            }
            Channel::Threads(_) => true,
        };
    }

    /// Waits until all ranks have called this. Errors are ignored: without a launcher there are no ranks to wait for.
    pub(crate) fn wait_for_all(&self) {
        let _ = match &self.0 {
            Channel::Ours { channel, .. } => channel.wait_for_all().is_ok(),
            Channel::Kvs(kvs) => kvs.lock().unwrap_or_else(PoisonError::into_inner).fence().is_ok(),
            Channel::Threads(barrier) => barrier.wait().is_leader(),
        };
    }

    /// Whether the job continues when ranks die.
    pub(crate) fn is_fault_tolerant(&self) -> bool {
        matches!(self.0, Channel::Ours { fault_tolerant: true, .. })
    }

    /// Reports a rank that has been silent for too long, so that all ranks continue without it.
    pub(crate) fn silent(&self, rank: u32) {
        if let Channel::Ours { channel, fault_tolerant: true, .. } = &self.0 {
            // Without a launcher there is no job.
            let _ = channel.silent(rank);
        }
    }

    /// Asks our launcher, and waits for its answer.
    pub(crate) fn ask(&self, request: &Request) -> Result<Answer, AskError> {
        match &self.0 {
            Channel::Ours { channel, asking, .. } => {
                let _asking = asking.lock().unwrap_or_else(PoisonError::into_inner);
                channel.ask(request).map_err(AskError::Channel)
            }
            Channel::Kvs(_) => Err(AskError::AnotherLauncher),
            Channel::Threads(_) => Err(AskError::NoLauncher),
        }
    }

    /// Asks the launcher to end the whole job. False if the launcher cannot be reached.
    pub(crate) fn abort(&self, code: i32, text: &str) -> bool {
        match &self.0 {
            Channel::Ours { channel, .. } => channel.abort(code, text).is_ok(),
            Channel::Kvs(kvs) => {
                // Other launchers do not show the reason.
                eprintln!("abort: {text}");
                kvs.lock().unwrap_or_else(PoisonError::into_inner).abort(code, text).is_ok()
            }
            Channel::Threads(_) => false,
        }
    }
}
