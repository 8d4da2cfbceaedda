//! The planes of one rank, for the thread that answers for all of them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::driver::Shared;

/// The planes that a rank has opened.
#[derive(Clone, Default)]
pub(crate) struct OwnPlanes(Arc<Planes>);

#[derive(Default)]
struct Planes {
    open: Mutex<Vec<Weak<Shared>>>,
    /// Held by the thread that answers.
    answering: Mutex<()>,
}

impl OwnPlanes {
    /// The rank has opened a plane.
    pub(crate) fn add(&self, plane: &Arc<Shared>) {
        self.open().push(Arc::downgrade(plane));
    }

    /// All planes but this one.
    pub(crate) fn others(&self, this: &Shared) -> Vec<Arc<Shared>> {
        let open = self.open();
        let open = open.iter().filter_map(Weak::upgrade);
        open.filter(|plane| !std::ptr::eq(&**plane, this)).collect()
    }

    /// The right to answer. `None` while another thread does.
    pub(crate) fn begin_answer(&self) -> Option<MutexGuard<'_, ()>> {
        self.0.answering.try_lock().ok()
    }

    fn open(&self) -> MutexGuard<'_, Vec<Weak<Shared>>> {
        self.0.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
