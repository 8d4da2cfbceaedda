//! The line of a rank to whatever started it.

use std::sync::{Arc, Barrier, Mutex, PoisonError};

use crate::boot::Board;
use crate::meet;

/// The line to the launcher: ours, or another's.
pub(crate) struct Line(Kind);

enum Kind {
    Ours {
        line: meet::Line,
        /// The job goes on when ranks die.
        lasting: bool,
    },
    Board(Mutex<Box<dyn Board>>),
    /// There is none: ranks are threads of one process, on hosts that are not.
    Threads(Arc<Barrier>),
}

impl Line {
    pub(crate) fn ours(line: meet::Line, lasting: bool) -> Line {
        Line(Kind::Ours { line, lasting })
    }

    pub(crate) fn board(board: Box<dyn Board>) -> Line {
        Line(Kind::Board(Mutex::new(board)))
    }

    pub(crate) fn threads(barrier: &Arc<Barrier>) -> Line {
        Line(Kind::Threads(Arc::clone(barrier)))
    }

    /// The rank has finalised: that it ends is no longer news. If nobody hears that, so be it: the launcher is gone,
    /// and the rank will be, soon.
    pub(crate) fn goodbye(&self) {
        let _ = match &self.0 {
            Kind::Ours { line, .. } => line.goodbye().is_ok(),
            Kind::Board(board) => {
                board.lock().unwrap_or_else(PoisonError::into_inner).goodbye().is_ok()
            }
            Kind::Threads(_) => true,
        };
    }

    /// Waits until all ranks have come so far. If nobody answers, there is nobody to wait for.
    pub(crate) fn wait_for_all(&self) {
        let _ = match &self.0 {
            Kind::Ours { line, .. } => line.wait_for_all().is_ok(),
            Kind::Board(board) => {
                board.lock().unwrap_or_else(PoisonError::into_inner).fence().is_ok()
            }
            Kind::Threads(barrier) => barrier.wait().is_leader(),
        };
    }

    /// Whether the job goes on when ranks die.
    pub(crate) fn is_lasting(&self) -> bool {
        matches!(self.0, Kind::Ours { lasting: true, .. })
    }

    /// A rank has been silent for too long: all shall go on without it.
    pub(crate) fn silent(&self, rank: u32) {
        if let Kind::Ours { line, lasting: true } = &self.0 {
            // Without a launcher there is no job.
            let _ = line.silent(rank);
        }
    }

    /// Asks for the end of the whole job. False if nobody hears it.
    pub(crate) fn abort(&self, code: i32, text: &str) -> bool {
        match &self.0 {
            Kind::Ours { line, .. } => line.abort(code, text).is_ok(),
            Kind::Board(board) => {
                // Others do not show the reason.
                eprintln!("abort: {text}");
                board.lock().unwrap_or_else(PoisonError::into_inner).abort(code, text).is_ok()
            }
            Kind::Threads(_) => false,
        }
    }
}
