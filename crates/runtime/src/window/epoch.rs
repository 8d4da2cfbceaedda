//! Epochs: when accesses to a window are allowed, and when they are complete.
//!
//! An epoch orders accesses: a fence by a barrier, a group of ranks by empty messages, a lock by the word of its target.
//! On one host an access is complete when its call returns. Accesses through the NIC of the target may not be, so all that
//! ends an epoch waits for them first.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{Ordering, fence};
use std::sync::{MutexGuard, PoisonError};

use ferrywire_host::nic::{Fault, Mode, Outcome, Span};
use ferrywire_host::shm::Hold;

use super::{Window, WindowError, WindowResult};
use crate::comm::Comm;

/// How a target is locked.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Locking {
    /// Alone.
    Exclusive,
    /// Together with others.
    Shared,
    /// Not at all: the program knows that nobody else would hold a conflicting lock.
    Unchecked,
}

/// The epochs that are open at a rank.
#[derive(Debug, Default)]
pub(super) struct Epochs {
    /// A fence has opened one.
    fenced: bool,
    /// The ranks that may be accessed, since `start`.
    started: Option<Vec<u32>>,
    /// The ranks that may access us, since `post`, and have not said that they are done.
    posted: Option<Vec<u32>>,
    /// The ranks that are locked, and how.
    locked: BTreeMap<u32, Locking>,
    /// All ranks are locked by one call.
    all: Option<LockedAll>,
}

/// All ranks are locked: each when it is first accessed.
#[derive(Debug, Default)]
struct LockedAll {
    checked: bool,
    held: BTreeSet<u32>,
}

/// The rank may be accessed in an epoch of a passive target.
const PASSIVE: u64 = 1 << 32;
/// No rank is known to be open for accesses.
pub(super) const NOBODY: u64 = u64::MAX;

/// Tags of the messages between ranks of a group.
const POSTED: u32 = 0;
const COMPLETE: u32 = 1;

impl Window {
    /// Checks that an epoch allows accesses to a rank.
    #[inline]
    pub(super) fn begin_access(&self, comm: Comm<'_>, rank: u32) -> WindowResult {
        if self.is_open_for(rank) {
            return Ok(());
        }
        let mut epochs = self.epochs();
        let locked = epochs.locked.contains_key(&rank);
        let open = epochs.fenced
            || locked
            || epochs.started.as_ref().is_some_and(|ranks| ranks.contains(&rank));
        if open {
            self.note_open(&epochs, rank, if locked { PASSIVE } else { 0 });
            return Ok(());
        }
        let Some(all) = &mut epochs.all else { return Err(WindowError::NoEpoch(rank)) };
        if all.checked && !all.held.contains(&rank) {
            // Another thread of this rank waits for the same lock meanwhile.
            self.acquire(comm, rank, Hold::Shared)?;
            all.held.insert(rank);
        }
        self.note_open(&epochs, rank, PASSIVE);
        Ok(())
    }

    /// Whether it is known that an epoch allows accesses to a rank.
    #[inline]
    pub(super) fn is_open_for(&self, rank: u32) -> bool {
        self.open.load(Ordering::Relaxed) & !PASSIVE == rank.into()
    }

    /// Notes a rank that may be accessed, until an epoch ends.
    fn note_open(&self, _: &MutexGuard<'_, Epochs>, rank: u32, how: u64) {
        self.open.store(u64::from(rank) | how, Ordering::Relaxed);
    }

    /// Notes that an epoch ends or begins.
    fn note_change(&self, _: &MutexGuard<'_, Epochs>) {
        self.open.store(NOBODY, Ordering::Relaxed);
    }

    /// Takes the lock of a rank. If it is not free, and a rank has died that may hold it, that is an error.
    fn acquire(&self, comm: Comm<'_>, rank: u32, hold: Hold) -> WindowResult {
        if !is_here(comm, rank) {
            return self.acquire_remote(comm, rank, hold);
        }
        let mut hopeless = Ok(());
        let mut waiting = None;
        self.controls.of(rank).lock().acquire_unless(hold, || {
            waiting.get_or_insert_with(|| comm.plane().begin_wait());
            comm.plane().answer();
            hopeless = all_live(comm);
            hopeless.is_err()
        });
        hopeless
    }

    /// Releases the lock of a rank.
    fn release(&self, comm: Comm<'_>, rank: u32, hold: Hold) -> WindowResult {
        match is_here(comm, rank) {
            true => self.controls.of(rank).lock().release(hold),
            false => self.release_remote(comm, rank, hold)?,
        }
        Ok(())
    }

    /// Completes the accesses of a passive epoch, to all ranks or to one.
    #[inline]
    pub fn flush(&self, comm: Comm<'_>, rank: Option<u32>) -> WindowResult {
        let open = self.open.load(Ordering::Relaxed);
        if rank.is_none_or(|rank| open != u64::from(rank) | PASSIVE) {
            let epochs = self.epochs();
            let locked = match rank {
                Some(rank) => epochs.locked.contains_key(&rank),
                None => !epochs.locked.is_empty(),
            };
            if !locked && epochs.all.is_none() {
                let why = "no lock is held whose accesses could be flushed";
                return Err(WindowError::WrongEpoch(why));
            }
        }
        self.settle(comm, rank)
    }

    /// Completes accesses, to all ranks or to one.
    fn settle(&self, comm: Comm<'_>, rank: Option<u32>) -> WindowResult {
        if self.exposed.get().is_some() {
            self.finish(comm, rank)?;
        }
        self.sync();
        Ok(())
    }

    /// Orders accesses to the memory of the window.
    pub fn sync(&self) {
        fence(Ordering::SeqCst);
    }

    /// A fence: all accesses before it are complete everywhere. `opens` says whether accesses may follow.
    pub fn fence(&self, comm: Comm<'_>, opens: bool) -> WindowResult {
        {
            let mut epochs = self.epochs();
            if epochs.started.is_some() || epochs.is_locked() {
                let why = "a fence while another access epoch is open";
                return Err(WindowError::WrongEpoch(why));
            }
            epochs.fenced = opens;
            self.note_change(&epochs);
        }
        // All others take part in the barrier, so we do, too, if an access has failed.
        let settled = self.settle(comm, None);
        let instance = comm.members().next_instance();
        // SAFETY: a barrier has no memory.
        unsafe { comm.perform(instance, comm.barrier()) }?;
        settled
    }

    /// Lets some ranks access our memory.
    pub fn post(&self, comm: Comm<'_>, ranks: Vec<u32>) -> WindowResult {
        {
            let mut epochs = self.epochs();
            if epochs.posted.is_some() {
                return Err(WindowError::WrongEpoch("the window is exposed already"));
            }
            epochs.posted = Some(ranks.clone());
        }
        self.sync();
        ranks.into_iter().try_for_each(|rank| tell(comm, rank, POSTED))
    }

    /// Opens an access epoch for some ranks, and waits until they let us.
    pub fn start(&self, comm: Comm<'_>, ranks: Vec<u32>) -> WindowResult {
        {
            let mut epochs = self.epochs();
            if epochs.started.is_some() || epochs.is_locked() {
                return Err(WindowError::WrongEpoch("an access epoch is open already"));
            }
            epochs.fenced = false;
            epochs.started = Some(ranks.clone());
            self.note_change(&epochs);
        }
        ranks.into_iter().try_for_each(|rank| hear(comm, rank, POSTED))
    }

    /// Ends the access epoch that `start` has opened.
    pub fn complete(&self, comm: Comm<'_>) -> WindowResult {
        let started = self.end(|epochs| epochs.started.take());
        let Some(ranks) = started else {
            return Err(WindowError::WrongEpoch("no access epoch has been started"));
        };
        let settled = self.settle(comm, None);
        ranks.into_iter().try_for_each(|rank| tell(comm, rank, COMPLETE))?;
        settled
    }

    /// Waits until all that may access us are done, or checks. Returns whether they are.
    pub fn end_exposure(&self, comm: Comm<'_>, wait: bool) -> WindowResult<bool> {
        let posted = self.epochs().posted.take();
        let Some(mut ranks) = posted else {
            return Err(WindowError::WrongEpoch("the window is not exposed"));
        };
        while let Some(&rank) = ranks.last() {
            let wanted = comm.members().wanted(Some(rank), Some(COMPLETE));
            if !wait && comm.probe(wanted, false)?.is_none() {
                self.epochs().posted = Some(ranks);
                return Ok(false);
            }
            hear(comm, rank, COMPLETE)?;
            ranks.pop();
        }
        self.sync();
        Ok(true)
    }

    /// Locks the window of a rank.
    pub fn lock(&self, comm: Comm<'_>, rank: u32, locking: Locking) -> WindowResult {
        {
            let mut epochs = self.epochs();
            if epochs.started.is_some() || epochs.all.is_some() || epochs.locked.contains_key(&rank)
            {
                return Err(WindowError::WrongEpoch("an access epoch is open already"));
            }
            epochs.fenced = false;
            epochs.locked.insert(rank, locking);
            self.note_change(&epochs);
        }
        let acquired = locking.hold().map_or(Ok(()), |hold| self.acquire(comm, rank, hold));
        if acquired.is_err() {
            self.end(|epochs| epochs.locked.remove(&rank));
        }
        acquired
    }

    /// Unlocks the window of a rank.
    pub fn unlock(&self, comm: Comm<'_>, rank: u32) -> WindowResult {
        let locking = self.end(|epochs| epochs.locked.remove(&rank));
        let Some(locking) = locking else {
            return Err(WindowError::WrongEpoch("the window of this rank is not locked"));
        };
        let settled = self.settle(comm, Some(rank));
        locking.hold().map_or(Ok(()), |hold| self.release(comm, rank, hold))?;
        settled
    }

    /// Locks the windows of all ranks, together with others.
    pub fn lock_all(&self, checked: bool) -> WindowResult {
        let mut epochs = self.epochs();
        if epochs.started.is_some() || epochs.is_locked() {
            return Err(WindowError::WrongEpoch("an access epoch is open already"));
        }
        epochs.fenced = false;
        self.note_change(&epochs);
        epochs.all = Some(LockedAll { checked, held: BTreeSet::new() });
        Ok(())
    }

    /// Unlocks the windows of all ranks.
    pub fn unlock_all(&self, comm: Comm<'_>) -> WindowResult {
        let all = self.end(|epochs| epochs.all.take());
        let Some(all) = all else {
            return Err(WindowError::WrongEpoch("the windows of all ranks are not locked"));
        };
        let mut result = self.settle(comm, None);
        for rank in all.held {
            result = result.and(self.release(comm, rank, Hold::Shared));
        }
        result
    }

    /// Checks that no epoch is open that another call has to close.
    pub(super) fn check_free(&self) -> WindowResult {
        let epochs = self.epochs();
        if epochs.started.is_some() || epochs.posted.is_some() || epochs.is_locked() {
            return Err(WindowError::WrongEpoch("an epoch of the window is still open"));
        }
        Ok(())
    }

    /// Ends an epoch.
    fn end<T>(&self, end: impl FnOnce(&mut Epochs) -> T) -> T {
        let mut epochs = self.epochs();
        self.note_change(&epochs);
        end(&mut epochs)
    }

    fn epochs(&self) -> MutexGuard<'_, Epochs> {
        self.epochs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Epochs {
    fn is_locked(&self) -> bool {
        self.all.is_some() || !self.locked.is_empty()
    }
}

impl Locking {
    fn hold(self) -> Option<Hold> {
        match self {
            Locking::Exclusive => Some(Hold::Exclusive),
            Locking::Shared => Some(Hold::Shared),
            Locking::Unchecked => None,
        }
    }
}

/// Whether a rank is on this host, where the words of its locks are.
fn is_here(comm: Comm<'_>, rank: u32) -> bool {
    comm.process().rank().is_here(comm.members().group().peer_of(rank))
}

/// Sends an empty message.
fn tell(comm: Comm<'_>, rank: u32, tag: u32) -> WindowResult {
    let address = comm.members().address(rank, tag);
    // SAFETY: the message is empty.
    let outcome = unsafe { comm.send_blocking(address, Span::EMPTY, Mode::Standard) };
    Ok(comm.process().done(outcome)?)
}

/// Waits for an empty message.
fn hear(comm: Comm<'_>, rank: u32, tag: u32) -> WindowResult {
    let wanted = comm.members().wanted(Some(rank), Some(tag));
    // SAFETY: the message is empty.
    match unsafe { comm.receive(wanted, Span::EMPTY) } {
        Outcome::Received(_) => Ok(()),
        other => Err(comm.process().failure(other).into()),
    }
}

/// An error if a member has died.
pub(super) fn all_live(comm: Comm<'_>) -> WindowResult {
    // What others have said of it may not have been looked at.
    comm.plane().turn();
    match comm.members().state().lost().first() {
        None => Ok(()),
        Some(&peer) => Err(comm.process().failure(Outcome::Failed(Fault::PeerDown(peer))).into()),
    }
}
