//! What all communicators of a rank have in common.

use std::sync::Arc;

use ferrywire_host::Rank;
use ferrywire_runtime::{Lost, Process};

use crate::watch::Watch;

/// A rank in its job. When the last communicator goes, so does this, and the rank leaves the job.
pub(crate) struct Job {
    pub(crate) process: Process,
    /// What knows of all ranks, if they share this process and are watched.
    pub(crate) watch: Option<Arc<Watch>>,
}

impl Job {
    pub(crate) fn new(rank: Rank, lost: Arc<Lost>, watch: Option<Arc<Watch>>) -> Job {
        Job { process: Process::new(rank, PREDEFINED, false).sharing(lost), watch }
    }
}

/// Communicators that are there from the beginning: the world, whose number is 0.
const PREDEFINED: u16 = 1;
