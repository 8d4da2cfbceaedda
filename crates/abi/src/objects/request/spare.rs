//! Reuses the memory of completed requests.
//!
//! Programs start a window of messages and wait for all of them, which is the slowest pattern for allocators. Each
//! thread keeps the memory that it freed, whichever thread allocated it.

use std::cell::RefCell;

use super::Request;
use crate::convert::handle::Room;

thread_local! {
    static ROOMS: RefCell<Vec<Room<Request>>> = const { RefCell::new(Vec::new()) };
}

/// Memory for a request.
#[inline]
pub(super) fn room() -> Room<Request> {
    // A thread that is about to end has lost its list.
    let spare = ROOMS.try_with(|rooms| rooms.borrow_mut().pop());
    spare.ok().flatten().unwrap_or_else(Box::new_uninit)
}

/// Keeps the memory of a request for reuse, unless the thread has enough.
#[inline]
pub(super) fn keep(room: Room<Request>) {
    _ = ROOMS.try_with(|rooms| {
        let mut rooms = rooms.borrow_mut();
        if rooms.len() < ROOMS_MAX {
            rooms.push(room);
        }
    });
}

/// How many a thread keeps. Windows are rarely larger.
const ROOMS_MAX: usize = 1024;
