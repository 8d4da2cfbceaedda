//! The end of a job: kills what still runs, writes all output, and reports what went wrong.

use std::iter::once;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use super::super::output::{Gave, Sink, Stream};
use super::super::reaper::Reaper;
use super::super::report::{self, Failure, RankEnding, name_of};
use super::super::sys;
use super::super::watch::Watch;
use super::super::wire::{AT_THE_END, Loss, News};
use super::{Job, children, is_meant_to_end};

/// How long to wait for processes that ranks left behind to end.
const SWEEP_MAX: Duration = Duration::from_millis(250);

/// How often a pipe is read after the end: enough to empty it, but not to follow a process that still writes.
const READS_AFTER_END_MAX: usize = 32;

impl Job {
    /// Ends what is left, and reports. Returns the exit code.
    pub(super) fn close(mut self) -> u8 {
        self.signal_groups(libc::SIGKILL);
        self.sweep();
        for rank in &mut self.ranks {
            drain(&mut rank.out, &mut self.out);
            drain(&mut rank.err, &mut self.err);
        }
        self.write_out();
        self.look_at_output();
        let mistakes = self.mistakes();
        if self.course.failure.is_none() && self.segment.is_some() {
            self.tell_facts(AT_THE_END);
        }
        self.send_recordings();
        match self.launcher.take() {
            None => {
                for line in self.report(&mistakes) {
                    self.err.say(&format!("ferry run: {line}"));
                }
                self.write_out();
            }
            Some(launcher) => launcher.tell_done(self.endings()),
        }
        let code = match &self.course.failure {
            Some(failure) => failure.exit_code(),
            None => match report::code_of_losses(self.losses(), &self.endings()) {
                0 if self.is_checked() && !mistakes.is_empty() => report::MISTAKEN,
                code => code,
            },
        };
        dismiss(self.reaper);
        code
    }

    /// Kills what ranks started and left behind, also outside of their groups: the orphans of our ranks become our
    /// children. Each that dies may leave us its own children.
    fn sweep(&self) {
        let until = Instant::now() + SWEEP_MAX;
        loop {
            while sys::reap().is_some() {}
            let left: Vec<_> =
                children().into_iter().filter(|pid| *pid != self.reaper.pid).collect();
            if left.is_empty() || Instant::now() >= until {
                return;
            }
            left.into_iter().for_each(|pid| sys::signal(pid, libc::SIGKILL));
            wait_for_wakeup(self, 10);
            while self.signals.poll().is_some() {}
        }
    }

    /// Writes what waits to be written, unless a signal asks to end. The launcher of a daemon may have to wait for the
    /// reader of its output, and pings the daemon meanwhile.
    fn write_out(&mut self) {
        loop {
            self.out.poll();
            self.err.poll();
            if self.out.is_empty() && self.err.is_empty() {
                return;
            }
            if wait_for_wakeup(self, 1000).contains(&Wakeup::Launcher) {
                self.on_launcher();
                let unwanted = self.course.asked.is_some() && (self.out.held || self.err.held);
                if self.launcher.is_none() || unwanted {
                    return;
                }
            }
            while let Some(signal) = self.signals.poll() {
                if is_meant_to_end(signal) {
                    return;
                }
            }
        }
    }

    /// Sends what the ranks have recorded to the launcher, when that has compared the clocks and asks for it. The recordings
    /// are not sent if a signal asks to end.
    fn send_recordings(&mut self) {
        let Some(folder) = self.recordings.take() else { return };
        if let Some(launcher) = &self.launcher {
            launcher.tell(&News::Recorded);
        }
        while self.launcher.is_some() && !self.course.recordings_wanted {
            if wait_for_wakeup(self, 1000).contains(&Wakeup::Launcher) {
                self.on_launcher();
            }
            while let Some(signal) = self.signals.poll() {
                if is_meant_to_end(signal) {
                    return;
                }
            }
        }
        if let Some(launcher) = &self.launcher {
            // If the launcher is gone, nobody misses them.
            let _ = launcher.send_recordings(&folder);
        }
    }

    /// How each rank ended that we started.
    fn endings(&self) -> Vec<RankEnding> {
        let ours = self.ranks.iter().filter(|rank| !rank.is_adopted);
        ours.map(|rank| (rank.name, rank.ending)).collect()
    }

    fn losses(&self) -> &[Loss] {
        self.fault_tolerant.as_ref().map_or(&[], |fault_tolerant| &fault_tolerant.losses)
    }

    fn report(&self, mistakes: &[String]) -> Vec<String> {
        let mistakes = mistakes.iter().cloned();
        let Some(failure) = &self.course.failure else {
            return mistakes.chain(report::survived(self.losses())).collect();
        };
        // The user ended the job by a signal, such as Ctrl-C: one line is enough.
        if let (Failure::Ended { .. }, Some(asked)) = (failure, self.course.asked)
            && i32::from(failure.exit_code()) == 128 + asked.signal
        {
            return vec![format!("ended by {}", name_of(asked.signal))];
        }
        let first = failure.rank();
        let mut others = self.endings();
        others.retain(|(rank, _)| Some(*rank) != first);
        let detail = match failure {
            // The ranks were ended by us, which says nothing.
            Failure::Stuck { lines, .. } => {
                let first = once(failure.to_string());
                return first.chain(indented(lines)).chain(mistakes).collect();
            }
            Failure::Explained { lines, failure, .. } => {
                indented(lines).chain(once(failure.to_string())).collect()
            }
            Failure::Panicked { place, .. } => vec![format!("  at {place}")],
            _ => Vec::new(),
        };
        let lines = once(failure.to_string()).chain(detail).chain(report::others(&others));
        lines.chain(mistakes).collect()
    }
}

fn indented(lines: &[String]) -> impl Iterator<Item = String> {
    lines.iter().map(|line| format!("  {line}"))
}

/// What woke the end of a job.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Wakeup {
    Signal,
    Launcher,
    Output,
}

/// Waits until a signal comes, or an order, or output can be written again.
fn wait_for_wakeup(job: &Job, timeout_ms: u64) -> Vec<Wakeup> {
    let mut watch = Watch::new();
    watch.read(job.signals.as_fd(), Wakeup::Signal);
    if let Some(launcher) = &job.launcher {
        watch.read(launcher.as_fd(), Wakeup::Launcher);
    }
    for sink in [&job.out, &job.err].into_iter().filter(|sink| sink.wants_to_write()) {
        watch.write(sink.as_fd(), Wakeup::Output);
    }
    watch.ready(Some(timeout_ms)).unwrap_or_default()
}

/// Reads what is in the pipe, whether or not a process still holds its other end.
fn drain(stream: &mut Option<Stream>, sink: &mut Sink) {
    let Some(mut open) = stream.take() else { return };
    for _ in 0..READS_AFTER_END_MAX {
        if open.poll(sink) != Gave::Something {
            break;
        }
    }
    open.flush(sink);
}

/// Ends the reaper, and reaps it.
fn dismiss(reaper: Reaper) {
    let pid = reaper.pid;
    reaper.dismiss();
    sys::wait_for(pid);
}
