//! Accesses through the NIC of the target.
//!
//! A put or an accumulate that is not long is posted from a copy, and is complete after the next flush of its target. All
//! others wait for their end. Accumulates of one rank to another change memory in the order of their calls: the NIC keeps
//! the order of accumulates, and a fetch waits for those before it.
//!
//! Invariants, cited below by number.
//!   I1. A call waits until its operations are over, or keeps the copy that they read until then.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::mem::ManuallyDrop;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use ferrywire_host::memory::{lend, lend_mut};
use ferrywire_host::nic::{Fault, Nic, Operator, Outcome, Peer, Posted, Region, Span, Ticket};
use ferrywire_host::shm::Hold;
use ferrywire_host::{HoldReports, HostPort};
use ferrywire_mpi::datatype::Memory;

use super::access::TargetData;
use super::element::{Change, with_gaps, without_gaps};
use super::epoch::all_live;
use super::exposed::{GRANTED, LockRequest, REQUEST_BYTES, lock_region};
use super::{Window, WindowError, WindowResult};
use crate::comm::Comm;

/// Elements of a target that its NIC accesses.
#[derive(Clone, Copy)]
pub(super) struct Remote {
    pub(super) rank: u32,
    pub(super) peer: Peer,
    pub(super) region: Region,
    /// The address of the first element.
    pub(super) address: u64,
}

/// Accesses that are not known to be complete, by target.
#[derive(Default)]
pub(super) struct PostedAccesses {
    by_rank: BTreeMap<u32, Vec<PostedAccess>>,
}

/// An access that reads a copy. It is dropped when the access is over, and not if the process ends before.
struct PostedAccess {
    tickets: Vec<Ticket>,
    copy: ManuallyDrop<Arc<[u8]>>,
}

/// The longest access that is made from a copy.
const COPIED_BYTES_MAX: usize = 64 << 10;
/// Accesses to one target that are posted before the first of them is waited for.
const POSTED_MAX: usize = 256;
/// How long a rank that waits for a lock of another host is away before it asks again.
const PATIENCE_MIN: Duration = Duration::from_micros(20);
const PATIENCE_MAX: Duration = Duration::from_millis(1);

impl Window {
    /// Writes `bytes`, the packed form of the elements.
    pub(super) fn put_remote(
        &self,
        comm: Comm<'_>,
        data: TargetData<'_>,
        remote: Remote,
        bytes: &[u8],
    ) -> WindowResult {
        let Remote { peer, region, .. } = remote;
        let runs = remote.runs(data, bytes.len());
        self.write(comm, remote, runs, bytes, |nic, port, source, address| {
            nic.post_put(peer, source, region, address, None, port)
        })
    }

    /// Reads elements into `bytes`, in packed form.
    pub(super) fn get_remote(
        &self,
        comm: Comm<'_>,
        data: TargetData<'_>,
        remote: Remote,
        bytes: &mut [u8],
    ) -> WindowResult {
        let Remote { peer, region, .. } = remote;
        let into = lend_mut(bytes);
        let runs = remote.runs(data, bytes.len());
        self.wait_for_runs(comm, remote, &runs, |nic, port, run| {
            let from = Span::new(region, run.address, run.len);
            nic.post_get(peer, from, into.part(run.at, run.len), port)
        })
    }

    /// Combines `source`, the packed form of as many elements, into those of the target. `before` gets what they were.
    pub(super) fn accumulate_remote(
        &self,
        comm: Comm<'_>,
        data: TargetData<'_>,
        remote: Remote,
        change: Change,
        source: &[u8],
        before: Option<&mut [u8]>,
    ) -> WindowResult {
        let runs = remote.runs(data, source.len());
        if !change.has_gap() {
            return self.accumulate_runs(comm, remote, runs, change, source, before);
        }
        // Elements with gaps go as they are in memory.
        let values = runs.into_iter().step_by(2);
        let element = |(at, value): (u64, Run)| Run { address: value.address, at, len: 8 };
        let runs = (0..).step_by(8).zip(values).map(element).collect();
        let source = with_gaps(source);
        let Some(before) = before else {
            return self.accumulate_runs(comm, remote, runs, change, &source, None);
        };
        let mut elements = source.clone();
        self.accumulate_runs(comm, remote, runs, change, &source, Some(&mut elements))?;
        before.copy_from_slice(&without_gaps(&elements));
        Ok(())
    }

    fn accumulate_runs(
        &self,
        comm: Comm<'_>,
        remote: Remote,
        runs: Vec<Run>,
        change: Change,
        source: &[u8],
        before: Option<&mut [u8]>,
    ) -> WindowResult {
        let Remote { rank, peer, region, .. } = remote;
        let operator = change.operator;
        let width = change.memory_bytes();
        // SAFETY: no memory is lent.
        let frame = unsafe { comm.plane().submit(|nic, port| nic.fetch_bytes_max(peer, port)) };
        let Some(before) = before else {
            // A NIC divides long accumulates so that it divides no element whose length divides 32.
            let runs = if 32 % width == 0 { runs } else { pieces(&runs, frame / width * width) };
            return self.write(comm, remote, runs, source, |nic, port, source, address| {
                nic.post_accumulate(peer, source, region, address, operator, port)
            });
        };
        self.finish(comm, Some(rank))?;
        let (source, into) = (lend(source), lend_mut(before));
        let runs = pieces(&runs, frame / width * width);
        self.wait_for_runs(comm, remote, &runs, |nic, port, run| {
            let [source, into] = [source, into].map(|span| span.part(run.at, run.len));
            nic.post_fetch(peer, source, region, run.address, operator, into, port)
        })
    }

    /// Stores `value` in an element if it is `expected`. `before` gets what it was.
    pub(super) fn compare_swap_remote(
        &self,
        comm: Comm<'_>,
        remote: Remote,
        expected: &[u8],
        value: &[u8],
        before: &mut [u8],
    ) -> WindowResult {
        let Remote { rank, peer, region, address } = remote;
        let width = value.len();
        if !(1..=8).contains(&width) {
            let why = "a compare-and-swap between hosts has at most eight bytes";
            return Err(WindowError::NotBetweenHosts(why));
        }
        self.finish(comm, Some(rank))?;
        let [expected, value] = [expected, value].map(|bytes| {
            let mut wide = [0; 8];
            wide[..width].copy_from_slice(bytes);
            u64::from_le_bytes(wide)
        });
        let word = Span::new(region, address, width as u64);
        // SAFETY: no memory is lent.
        let outcome = unsafe {
            comm.plane()
                .perform(|nic, port| nic.post_compare_swap(peer, word, expected, value, port))
        };
        match outcome {
            Outcome::Found(found) => before.copy_from_slice(&found.to_le_bytes()[..width]),
            other => return Err(failure(comm, rank, other)),
        }
        Ok(())
    }

    /// Takes the lock of a rank of another host.
    pub(super) fn acquire_remote(&self, comm: Comm<'_>, rank: u32, hold: Hold) -> WindowResult {
        let mut patience = PATIENCE_MIN;
        while !self.ask_lock(comm, rank, LockRequest::Acquire(hold))? {
            all_live(comm)?;
            std::thread::sleep(patience);
            patience = (patience * 2).min(PATIENCE_MAX);
        }
        Ok(())
    }

    /// Releases the lock of a rank of another host.
    pub(super) fn release_remote(&self, comm: Comm<'_>, rank: u32, hold: Hold) -> WindowResult {
        self.ask_lock(comm, rank, LockRequest::Release(hold)).map(|_| ())
    }

    /// Sends a request to the lock of a rank. Returns whether it was granted.
    fn ask_lock(&self, comm: Comm<'_>, rank: u32, request: LockRequest) -> WindowResult<bool> {
        let peer = comm.members().group().peer_of(rank);
        let region = lock_region(Region(self.controls.of(rank).part().region));
        let request = request.code().to_le_bytes();
        let mut answer = [0; REQUEST_BYTES];
        let (source, into) = (lend(&request), lend_mut(&mut answer));
        // The caller may have the lock of the epochs.
        let _held = HoldReports::new();
        // SAFETY: I1.
        let outcome = unsafe {
            comm.plane().perform(|nic, port| {
                nic.post_fetch(peer, source, region, 0, Operator(0), into, port)
            })
        };
        match outcome {
            Outcome::Received(_) => Ok(u64::from_le_bytes(answer) == GRANTED),
            other => Err(failure(comm, rank, other)),
        }
    }

    /// Waits until the accesses to a rank, or to all, are complete. Of several failures it returns the first.
    pub(super) fn finish(&self, comm: Comm<'_>, rank: Option<u32>) -> WindowResult {
        // Held while we wait, because another thread that flushes must wait for the same accesses. Who hears reports may
        // access the window.
        let _held = HoldReports::new();
        let mut posted = self.posted();
        let mut result = Ok(());
        match rank {
            Some(rank) => {
                let accesses = posted.by_rank.get_mut(&rank).map(std::mem::take);
                result = finish_all(comm, rank, accesses.unwrap_or_default());
            }
            None => {
                for (rank, accesses) in std::mem::take(&mut posted.by_rank) {
                    result = result.and(finish_all(comm, rank, accesses));
                }
            }
        }
        result
    }

    /// Posts a write of each run: from a copy, or waits until they are over.
    pub(super) fn write(
        &self,
        comm: Comm<'_>,
        remote: Remote,
        runs: Vec<Run>,
        bytes: &[u8],
        post: impl Fn(&mut Nic, &mut HostPort, Span, u64) -> Posted,
    ) -> WindowResult {
        if bytes.len() > COPIED_BYTES_MAX {
            let source = lend(bytes);
            return self.wait_for_runs(comm, remote, &runs, |nic, port, run| {
                post(nic, port, source.part(run.at, run.len), run.address)
            });
        }
        let _held = HoldReports::new();
        let mut posted = self.posted();
        let accesses = posted.by_rank.entry(remote.rank).or_default();
        if accesses.len() >= POSTED_MAX {
            finish_all(comm, remote.rank, std::mem::take(accesses))?;
        }
        let copy: Arc<[u8]> = bytes.into();
        let source = lend(&copy);
        let mut tickets = Vec::new();
        let mut failed = None;
        for run in runs {
            // SAFETY: I1.
            let posted = unsafe {
                comm.plane()
                    .submit(|nic, port| post(nic, port, source.part(run.at, run.len), run.address))
            };
            match posted {
                Posted::Pending(ticket) => tickets.push(ticket),
                Posted::Done(outcome) => failed = failed.or(error_of(comm, remote.rank, outcome)),
            }
        }
        accesses.push(PostedAccess { tickets, copy: ManuallyDrop::new(copy) });
        failed.map_or(Ok(()), Err)
    }

    /// Posts an operation for each run, and waits until they are over.
    pub(super) fn wait_for_runs(
        &self,
        comm: Comm<'_>,
        remote: Remote,
        runs: &[Run],
        post: impl Fn(&mut Nic, &mut HostPort, Run) -> Posted,
    ) -> WindowResult {
        let mut failed = None;
        for some in runs.chunks(POSTED_MAX) {
            let post_one = |&run: &Run| {
                // SAFETY: I1.
                unsafe { comm.plane().submit(|nic, port| post(nic, port, run)) }
            };
            let posts: Vec<Posted> = some.iter().map(post_one).collect();
            for posted in posts {
                let outcome = match posted {
                    Posted::Done(outcome) => outcome,
                    Posted::Pending(ticket) => comm.plane().wait(ticket),
                };
                failed = failed.or(error_of(comm, remote.rank, outcome));
            }
        }
        failed.map_or(Ok(()), Err)
    }

    fn posted(&self) -> MutexGuard<'_, PostedAccesses> {
        self.posted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn finish_all(comm: Comm<'_>, rank: u32, accesses: Vec<PostedAccess>) -> WindowResult {
    let mut failed = None;
    for PostedAccess { tickets, copy } in accesses {
        for ticket in tickets {
            failed = failed.or(error_of(comm, rank, comm.plane().wait(ticket)));
        }
        drop(ManuallyDrop::into_inner(copy));
    }
    failed.map_or(Ok(()), Err)
}

fn error_of(comm: Comm<'_>, rank: u32, outcome: Outcome) -> Option<WindowError> {
    match outcome {
        Outcome::Done | Outcome::Received(_) => None,
        other => Some(failure(comm, rank, other)),
    }
}

#[cold]
fn failure(comm: Comm<'_>, rank: u32, outcome: Outcome) -> WindowError {
    match outcome {
        Outcome::Failed(Fault::Denied) => WindowError::OutOfRange { rank, place: None },
        other => comm.process().failure(other).into(),
    }
}

/// Adjacent bytes of a target.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Run {
    pub(super) address: u64,
    /// Where they are in the packed form.
    pub(super) at: u64,
    pub(super) len: u64,
}

impl Remote {
    /// The elements as runs of adjacent bytes.
    pub(super) fn runs(self, data: TargetData<'_>, bytes: usize) -> Vec<Run> {
        let collector = RunCollector { address: self.address, runs: RefCell::default() };
        // Only the lengths matter: the collector reads nothing.
        let mut packed = vec![0; bytes];
        data.datatype.pack(data.count, &collector, &mut packed);
        collector.runs.into_inner()
    }
}

/// Divides runs so that none is longer than `most`.
fn pieces(runs: &[Run], most: u64) -> Vec<Run> {
    let divide = |run: &Run| {
        let Run { address, at, len } = *run;
        let starts = (0..len).step_by(usize::try_from(most).expect("a frame"));
        starts.map(move |skip| Run {
            address: address + skip,
            at: at + skip,
            len: most.min(len - skip),
        })
    };
    runs.iter().flat_map(divide).collect()
}

/// Memory that only notes which of its bytes are wanted.
struct RunCollector {
    address: u64,
    runs: RefCell<Vec<Run>>,
}

impl Memory for RunCollector {
    fn load(&self, offset: i64, into: &mut [u8]) {
        let mut runs = self.runs.borrow_mut();
        let at = runs.last().map_or(0, |run| run.at + run.len);
        let (address, len) = (self.address.wrapping_add_signed(offset), into.len() as u64);
        match runs.last_mut() {
            Some(last) if last.address + last.len == address => last.len += len,
            _ => runs.push(Run { address, at, len }),
        }
    }

    fn store(&mut self, _: i64, _: &[u8]) {
        unreachable!("it only notes what is read");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_divided_so_that_none_is_too_long() {
        let runs = [Run { address: 100, at: 0, len: 10 }, Run { address: 200, at: 10, len: 4 }];
        let divided: Vec<_> =
            pieces(&runs, 4).iter().map(|run| (run.address, run.at, run.len)).collect();
        assert_eq!(divided, [(100, 0, 4), (104, 4, 4), (108, 8, 2), (200, 10, 4)]);
    }
}
