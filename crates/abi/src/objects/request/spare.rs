//! Reuses the memory of completed requests, and knows which requests are not completed.
//!
//! Programs start a window of messages and wait for all of them, which is the slowest pattern for allocators. Each
//! thread keeps the memory that it freed, whichever thread allocated it.
//!
//! All memory that was allocated for requests is listed, and most of it is allocated once. So when the program ends, the
//! requests that it has left behind are known, though no call that starts or completes one has counted them.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Request;
use crate::convert::handle::{self, Room};

/// The memory that a thread keeps for reuse.
struct Spare(Vec<Room<Request>>);

impl Drop for Spare {
    fn drop(&mut self) {
        self.0.drain(..).for_each(|room| forget(room.as_ptr().addr()));
    }
}

thread_local! {
    static ROOMS: RefCell<Spare> = const { RefCell::new(Spare(Vec::new())) };
}

/// The addresses of all memory for requests, as long as [`LISTED`].
static ALLOCATED: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());
/// Whether all memory is listed: not if the program once had more requests than are worth listing.
static LISTED: AtomicBool = AtomicBool::new(true);

fn allocated() -> MutexGuard<'static, BTreeSet<usize>> {
    ALLOCATED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Memory for a request.
#[inline]
pub(super) fn room() -> Room<Request> {
    // A thread that is about to end has lost its list.
    let spare = ROOMS.try_with(|rooms| rooms.borrow_mut().0.pop());
    spare.ok().flatten().unwrap_or_else(allocate)
}

#[cold]
#[inline(never)]
fn allocate() -> Room<Request> {
    let room: Room<Request> = Box::new_uninit();
    if LISTED.load(Ordering::Relaxed) {
        let mut allocated = allocated();
        allocated.insert(room.as_ptr().addr());
        if allocated.len() > LISTED_MAX {
            allocated.clear();
            LISTED.store(false, Ordering::Relaxed);
        }
    }
    room
}

/// Keeps the memory of a request for reuse, unless the thread has enough.
#[inline]
pub(super) fn keep(room: Room<Request>) {
    let mut room = Some(room);
    _ = ROOMS.try_with(|rooms| {
        let rooms = &mut rooms.borrow_mut().0;
        if rooms.len() < ROOMS_MAX {
            rooms.extend(room.take());
        }
    });
    if let Some(surplus) = room {
        forget(surplus.as_ptr().addr());
    }
}

/// The memory at this address is about to be freed.
#[cold]
#[inline(never)]
pub(super) fn forget(address: usize) {
    if LISTED.load(Ordering::Relaxed) {
        allocated().remove(&address);
    }
}

/// The handles of requests that the program has neither completed nor freed; `None` if they are not known.
pub(super) fn left_behind() -> Option<Vec<usize>> {
    let is_there = |handle: &usize| handle::find::<Request>(*handle).is_ok();
    let allocated = allocated();
    let listed = LISTED.load(Ordering::Relaxed);
    listed.then(|| allocated.iter().copied().filter(is_there).collect())
}

/// How many a thread keeps. Windows are rarely larger.
const ROOMS_MAX: usize = 1024;
/// How many are listed.
const LISTED_MAX: usize = 1 << 14;
