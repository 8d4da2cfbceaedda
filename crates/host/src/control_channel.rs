//! The control channel of a rank to its launcher.

use std::sync::{Arc, Barrier, Mutex, PoisonError};

use crate::bootstrap;
use crate::launcher::Kvs;

/// The channel to the launcher, which is ours or another one.
pub(crate) struct ControlChannel(Channel);

enum Channel {
    Ours {
        channel: bootstrap::LauncherChannel,
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
        ControlChannel(Channel::Ours { channel, fault_tolerant })
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
        if let Channel::Ours { channel, fault_tolerant: true } = &self.0 {
            // Without a launcher there is no job.
            let _ = channel.silent(rank);
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
