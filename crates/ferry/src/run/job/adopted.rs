//! Ranks that this launcher has not started: those of a job that it has adopted. They come when they first ask for
//! something, and count from then on.

use std::io;
use std::time::Instant;

use ferrywire_host::Segment;
use ferrywire_host::bootstrap::late_launcher::AdoptedJob;

use super::super::start::Rank;
use super::super::sys::{self, Ending, Pid};
use super::super::watch::Watch;
use super::Job;

impl Job {
    /// Takes over ranks that others have started, and their memory.
    pub(in super::super) fn adopt(
        &mut self,
        ranks: Vec<Rank>,
        segment: Segment,
        adopted: AdoptedJob,
    ) {
        self.ranks = ranks;
        self.segment = Some(segment);
        self.adopted = Some(adopted);
        self.course.admitted = true;
    }

    /// Waits until the first rank has come. False if none has in time.
    pub(in super::super) fn wait_for_first(&mut self, until: Instant) -> io::Result<bool> {
        while self.ranks.iter().all(|rank| rank.hello.is_none()) {
            let mut watch = Watch::new();
            let callers = self.adopted.iter().flat_map(AdoptedJob::watched);
            callers.for_each(|caller| watch.read(caller, ()));
            if watch.ready(Some(sys::ms_until(until)))?.is_empty() {
                return Ok(false);
            }
            self.on_callers();
        }
        Ok(true)
    }

    /// Hears ranks that come.
    pub(super) fn on_callers(&mut self) {
        let Some(adopted) = &mut self.adopted else { return };
        let is_expected = |rank: u32| {
            let rank = self.ranks.get(rank as usize);
            rank.is_some_and(|rank| rank.is_adopted && rank.hello.is_none())
        };
        // Without descriptors nobody can come in; a rank that waits is told when this process ends.
        let came = adopted.poll(is_expected).unwrap_or_default();
        for (number, process, rank_socket) in came {
            let rank = &mut self.ranks[number as usize];
            rank.pid = Pid::try_from(process.pid_outside).unwrap_or(0);
            rank.hello = Some(process);
            rank.rank_socket = Some(rank_socket);
            rank.ending = None;
        }
    }

    /// An adopted rank has closed its socket: its process has ended, or it has left the job.
    pub(super) fn on_adopted_gone(&mut self, at: usize) {
        let rank = &mut self.ranks[at];
        if rank.is_adopted && rank.ending.is_none() {
            rank.ending = Some(Ending::Exit(0));
            self.judge(&[at]);
        }
    }

    /// Signals adopted ranks that have come: their processes only, since their groups are those of others.
    pub(super) fn signal_adopted(&self, signal: i32) {
        for rank in self.ranks.iter().filter(|rank| rank.is_adopted && rank.ending.is_none()) {
            sys::signal(rank.pid, signal);
        }
    }
}
