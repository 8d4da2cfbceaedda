//! Collects what the ranks of all hosts have recorded, and compares the clocks of the hosts.
//!
//! Clocks are compared by pings: some in a row when the ranks of a host have been started, one a second while the job runs,
//! and some in a row when they have ended. Then the daemon is asked for the recordings.

use std::time::{Duration, Instant};

use ferrywire_host::ErrorCode;
use ferrywire_host::trace::RecordingClock;

use super::{Hosts, Order, RankName, Ranks, Remote};
use crate::trace::{ClockComparison, ClockExchange, HostClock, HostRecordings};

/// The recordings of a host, as far as they have come, and its clock.
#[derive(Default)]
pub(super) struct RemoteRecordings {
    pub(super) received: HostRecordings,
    comparison: ClockComparison,
    /// Its ranks were started, so that there should be recordings.
    are_expected: bool,
    /// All that there is has arrived.
    pub(super) are_whole: bool,
    row: PingRow,
}

/// Pings of which each is sent when the one before has been answered.
#[derive(Clone, Copy, Default)]
enum PingRow {
    #[default]
    None,
    /// So many are left when the ranks have been started.
    Beginning(u32),
    /// So many are left before the recordings are asked for.
    End(u32),
}

impl Hosts {
    /// The ranks of a host have been started.
    pub(super) fn begin_recording(&mut self, at: usize) {
        if self.recording.is_none() {
            return;
        }
        let remote = &mut self.remotes[at];
        remote.recordings.are_expected = true;
        // The clock of this host needs no comparison.
        if !remote.is_here() {
            remote.recordings.row = PingRow::Beginning(ROW);
            remote.ping();
        }
    }

    /// A host has answered a ping.
    pub(super) fn on_pong(&mut self, at: usize, exchange: ClockExchange) {
        let remote = &mut self.remotes[at];
        if !remote.recordings.are_expected || remote.is_here() {
            return;
        }
        remote.recordings.comparison.add(exchange);
        match remote.recordings.row {
            PingRow::None => {}
            PingRow::Beginning(0) => {
                remote.recordings.comparison.end_beginning();
                remote.recordings.row = PingRow::None;
            }
            PingRow::Beginning(left) => {
                remote.recordings.row = PingRow::Beginning(left - 1);
                remote.ping();
            }
            PingRow::End(left) => self.continue_end(at, left),
        }
    }

    /// All ranks of a host have ended, and it waits to be asked for what they have recorded.
    pub(super) fn on_recorded(&mut self, at: usize) {
        let remote = &mut self.remotes[at];
        remote.recordings.comparison.begin_end();
        let pings = if remote.is_here() { 0 } else { ROW };
        self.continue_end(at, pings);
    }

    fn continue_end(&mut self, at: usize, left: u32) {
        self.wait_longer();
        let remote = &mut self.remotes[at];
        match left.checked_sub(1) {
            Some(left) => {
                remote.recordings.row = PingRow::End(left);
                remote.ping();
            }
            None => {
                remote.recordings.row = PingRow::None;
                remote.order(&Order::SendRecordings);
            }
        }
    }

    /// A rank's recording follows.
    pub(super) fn on_recording(
        &mut self,
        at: usize,
        rank: String,
        bytes: u64,
        clock: RecordingClock,
    ) {
        self.wait_longer();
        self.remotes[at].recordings.received.begin(rank, bytes, clock);
    }

    pub(super) fn on_recording_piece(&mut self, at: usize, piece: &[u8]) {
        self.wait_longer();
        self.remotes[at].recordings.received.add(piece);
    }

    /// Recordings are on their way: they may take as long as something comes, unless the user wants to end at once.
    fn wait_longer(&mut self) {
        let now = Instant::now();
        if !self.is_left() {
            self.sending_until = now + PIECE_MAX;
        }
    }

    /// Writes the trace and the statistics, and tells the user about them.
    pub(super) fn end_recording(&mut self) {
        let Some(recording) = self.recording.take() else { return };
        let (mut parts, mut lines) = (Vec::new(), Vec::new());
        for remote in &self.remotes {
            let recordings = &remote.recordings;
            let clock = match remote.is_here() {
                true => HostClock::default(),
                false => recordings.comparison.clock(),
            };
            let (of_host, missing) = recordings.received.parts(remote.name(), &clock);
            parts.extend(of_host);
            lines.extend(missing);
            if recordings.are_expected && !recordings.are_whole {
                lines.push(lost(remote));
            }
        }
        let lines = recording.end(parts, lines);
        lines.iter().for_each(|line| eprintln!("ferry run: {line}"));
    }
}

fn lost(remote: &Remote) -> String {
    let ranks: Vec<RankName> = remote.ranks().map(RankName::of).collect();
    ErrorCode::TRACE_OF_HOST.ends(format_args!(
        "what {} recorded on {} is missing: the host was lost, or the job was killed, before all of it was sent",
        Ranks(&ranks),
        remote.name()
    ))
}

/// How many pings there are in a row.
const ROW: u32 = 16;
/// How long a piece of a recording may take on a slow connection.
const PIECE_MAX: Duration = Duration::from_secs(5);
