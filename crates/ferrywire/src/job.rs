//! The state that all communicators of a rank share.

use std::sync::Arc;

use ferrywire_host::Rank;
use ferrywire_runtime::{Lost, Process};

use crate::watch::Watch;

/// A rank in its job. It is dropped with the rank's last communicator, and then the rank leaves the job.
pub(crate) struct Job {
    pub(crate) process: Process,
    /// The watch over all ranks, if they are threads of this process and are watched.
    pub(crate) watch: Option<Arc<Watch>>,
}

impl Job {
    pub(crate) fn new(rank: Rank, lost: Arc<Lost>, watch: Option<Arc<Watch>>) -> Job {
        Job { process: Process::new(rank, PREDEFINED, false).sharing(lost), watch }
    }
}

/// The number of predefined communicators: the world, whose number is 0, and the universe, whose number is 2 as in C, so
/// that Rust programs and others meet in it. Number 1 is that of `MPI_COMM_SELF`.
const PREDEFINED: u16 = 3;
