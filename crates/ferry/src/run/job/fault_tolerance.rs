//! A job that continues when ranks die (`--on-death continue`): the other ranks are told, and not ended.

use ferrywire_host::nic::Peer;

use super::super::report::Failure;
use super::super::sys;
use super::super::wire::{Loss, News};
use super::{Job, Phase};

/// What a fault-tolerant job keeps.
#[derive(Default)]
pub(in super::super) struct FaultTolerance {
    /// The ranks that died.
    pub(super) losses: Vec<Loss>,
}

impl Job {
    /// Whether the job continues when a rank ends: it is fault-tolerant, all ranks have joined, and it has not failed.
    pub(super) fn goes_on(&self) -> bool {
        let running = matches!(self.course.phase, Phase::Running);
        self.fault_tolerant.is_some()
            && self.course.admitted
            && running
            && self.course.failure.is_none()
    }

    /// A rank has ended, in whatever way: records the loss and tells the others.
    pub(super) fn go_on_without(&mut self, at: usize) {
        let rank = &self.ranks[at];
        let (number_of, name) = (rank.peer, rank.name);
        let (pid, had_left) = (rank.pid, rank.goodbye);
        let left_out = rank.hello.is_some() && !had_left;
        let failure = self
            .failure_of(at)
            .or_else(|| left_out.then_some(Failure::Unfinished { rank: name, pid }));
        if let Some(failure) = failure {
            let loss = Loss { why: failure.to_string(), code: failure.exit_code(), had_left };
            if let Some(launcher) = &self.launcher {
                launcher.tell(&News::Lost { rank: number_of, loss: loss.clone() });
            }
            if let Some(fault_tolerant) = &mut self.fault_tolerant {
                fault_tolerant.losses.push(loss);
            }
        }
        // Processes that it started end with it.
        if !self.ranks[at].group_gone {
            sys::signal_group(pid, libc::SIGKILL);
        }
        if !had_left {
            self.on_gone(&[number_of]);
        }
        self.all_wait(name.world());
    }

    /// Ranks are gone, on this host or another: tells the ranks of this host.
    pub(super) fn on_gone(&mut self, ranks: &[u32]) {
        let (Some(_), Some(segment)) = (&self.fault_tolerant, &self.segment) else { return };
        for &rank in ranks {
            if let Some(others) = &self.others {
                others.directory.mark_down(rank);
            }
            if let Some(Peer(local_rank)) = self.here.local_rank(Peer(rank)) {
                segment.mark_down(local_rank);
            }
        }
        self.tell_of_gone();
    }

    /// A rank of another host has left in order: tells the ranks of this host.
    pub(super) fn on_left(&self, rank: u32) {
        if let Some(others) = &self.others {
            others.directory.mark_left(rank);
        }
        self.tell_of_gone();
    }

    /// Makes the ranks of this host look which ranks are gone.
    fn tell_of_gone(&self) {
        if let Some(segment) = &self.segment {
            segment.tell_all();
        }
        if let Some(far) = &self.far {
            let group = &far.host_address.group;
            (0..).take(group.sockets.len()).for_each(|local_rank| group.wake(local_rank));
        }
    }

    /// A rank has been silent for too long, and a peer has given it up. Kills it if it still runs, so that all ranks
    /// agree that it is dead.
    pub(super) fn on_silent(&mut self, rank: u32) {
        if !self.goes_on() {
            return;
        }
        let here = self.ranks.iter().find(|one| one.peer == rank);
        match (here, &self.launcher) {
            (Some(rank), _) => {
                if rank.ending.is_none() {
                    sys::signal_group(rank.pid, libc::SIGKILL);
                }
            }
            (None, Some(launcher)) => launcher.tell(&News::Silent { rank }),
            (None, None) => {}
        }
    }
}
