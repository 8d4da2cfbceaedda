//! The channel of a rank to whatever started it.

use std::sync::{Arc, Barrier, Mutex, PoisonError};

use crate::bootstrap;
use crate::launcher::Kvs;

/// The channel to the launcher: ours, or another's.
pub(crate) struct ControlChannel(Channel);

enum Channel {
    Ours {
        channel: bootstrap::LauncherChannel,
        /// The job goes on when ranks die.
        fault_tolerant: bool,
    },
    Kvs(Mutex<Box<dyn Kvs>>),
    /// There is none: ranks are threads of one process, on hosts that are not.
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

    /// The rank has finalised: that it ends is no longer news. If nobody hears that, so be it: the launcher is gone,
    /// and the rank will be, soon.
    pub(crate) fn goodbye(&self) {
        let _ = match &self.0 {
            Channel::Ours { channel, .. } => channel.goodbye().is_ok(),
            Channel::Kvs(kvs) => {
                kvs.lock().unwrap_or_else(PoisonError::into_inner).goodbye().is_ok()
            }
            Channel::Threads(_) => true,
        };
    }

    /// Waits until all ranks have come so far. If nobody answers, there is nobody to wait for.
    pub(crate) fn wait_for_all(&self) {
        let _ = match &self.0 {
            Channel::Ours { channel, .. } => channel.wait_for_all().is_ok(),
            Channel::Kvs(kvs) => kvs.lock().unwrap_or_else(PoisonError::into_inner).fence().is_ok(),
            Channel::Threads(barrier) => barrier.wait().is_leader(),
        };
    }

    /// Whether the job goes on when ranks die.
    pub(crate) fn is_fault_tolerant(&self) -> bool {
        matches!(self.0, Channel::Ours { fault_tolerant: true, .. })
    }

    /// A rank has been silent for too long: all shall go on without it.
    pub(crate) fn silent(&self, rank: u32) {
        if let Channel::Ours { channel, fault_tolerant: true } = &self.0 {
            // Without a launcher there is no job.
            let _ = channel.silent(rank);
        }
    }

    /// Asks for the end of the whole job. False if nobody hears it.
    pub(crate) fn abort(&self, code: i32, text: &str) -> bool {
        match &self.0 {
            Channel::Ours { channel, .. } => channel.abort(code, text).is_ok(),
            Channel::Kvs(kvs) => {
                // Others do not show the reason.
                eprintln!("abort: {text}");
                kvs.lock().unwrap_or_else(PoisonError::into_inner).abort(code, text).is_ok()
            }
            Channel::Threads(_) => false,
        }
    }
}
