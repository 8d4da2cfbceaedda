//! Memory of requests that are over, for those to come.
//!
//! A program has windows of messages, begins them all and waits for them all, and allocators are at their
//! slowest with that. Each thread keeps what it has let go, whoever it was that made it.

use std::cell::RefCell;

use super::Request;
use crate::convert::handle::Room;

thread_local! {
    static ROOMS: RefCell<Vec<Room<Request>>> = const { RefCell::new(Vec::new()) };
}

/// Memory for a request.
#[inline]
pub(super) fn room() -> Room<Request> {
    // A thread that is about to end has none.
    let spare = ROOMS.try_with(|rooms| rooms.borrow_mut().pop());
    spare.ok().flatten().unwrap_or_else(Box::new_uninit)
}

/// Keeps memory for a request, unless there is enough.
#[inline]
pub(super) fn keep(room: Room<Request>) {
    _ = ROOMS.try_with(|rooms| {
        let mut rooms = rooms.borrow_mut();
        if rooms.len() < ROOMS_MAX {
            rooms.push(room);
        }
    });
}

/// What a thread keeps: windows are rarely larger.
const ROOMS_MAX: usize = 1024;
