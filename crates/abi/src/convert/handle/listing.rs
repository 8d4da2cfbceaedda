//! The handles that a program has and has not freed, if they are listed. Requests are known without: see
//! `objects/request/spare.rs`.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// An object that the program has handles of.
#[derive(Clone, Copy)]
pub(crate) struct Listed {
    /// The handle.
    pub(crate) handle: usize,
    /// The name of its kind.
    pub(crate) kind: &'static str,
    /// How often the program has to free it.
    pub(crate) shares: usize,
}

static IS_ON: AtomicBool = AtomicBool::new(false);
static LISTED: Mutex<BTreeMap<usize, Listed>> = Mutex::new(BTreeMap::new());

fn list() -> MutexGuard<'static, BTreeMap<usize, Listed>> {
    LISTED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Lists all handles from now on.
pub(crate) fn list_objects() {
    IS_ON.store(true, Ordering::Relaxed);
}

/// The handles that the program has.
pub(crate) fn listed() -> Vec<Listed> {
    list().values().copied().collect()
}

/// The program gets a handle.
#[inline]
pub(super) fn add(handle: usize, kind: &'static str) {
    if IS_ON.load(Ordering::Relaxed) {
        list().entry(handle).or_insert(Listed { handle, kind, shares: 0 }).shares += 1;
    }
}

/// The program has freed a handle.
#[inline]
pub(super) fn remove(handle: usize) {
    if IS_ON.load(Ordering::Relaxed) {
        let mut list = list();
        if let Some(listed) = list.get_mut(&handle) {
            listed.shares -= 1;
            if listed.shares == 0 {
                list.remove(&handle);
            }
        }
    }
}
