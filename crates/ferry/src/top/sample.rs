//! Looks at the ranks of a job.

use std::time::Duration;

#[cfg(feature = "live")]
use ferrywire_host::facts::Stage;
use ferrywire_host::monotonic_ns;

use crate::job_facts::{JobFacts, JobNotFound};
use crate::why::Seen;

/// All ranks of a job, as they were at some time.
#[derive(Clone, Default)]
pub(super) struct Sample {
    /// When that was, by the monotonic clock.
    pub(super) at_ns: u64,
    /// The number of the question that the ranks were asked.
    pub(super) question: u32,
    pub(super) seen: Vec<Seen>,
}

impl Sample {
    /// Looks at all ranks.
    pub(super) fn take(job: &mut JobFacts) -> Result<Sample, JobNotFound> {
        let snapshot = job.ask_for_counts()?;
        Ok(Sample { at_ns: monotonic_ns(), question: snapshot.question, seen: snapshot.ranks })
    }

    /// Whether any rank is still in the job.
    #[cfg(feature = "live")]
    pub(super) fn is_alive(&self) -> bool {
        let is_in = |seen: &Seen| {
            seen.times.is_some() && seen.ending.is_none() && seen.facts.stage != Stage::Finalized
        };
        self.seen.iter().any(is_in)
    }

    /// What the program of the ranks is called, and how long the first of them has run.
    pub(super) fn program(&self) -> (&str, Duration) {
        let oldest = self.seen.iter().filter_map(|seen| seen.times.as_ref());
        let oldest = oldest.max_by_key(|times| times.running);
        oldest.map_or(("a job", Duration::ZERO), |times| (&times.program, times.running))
    }
}
