//! Counters of the NIC that the program raises, for generalised requests.

use ferrywire_host::nic::{Counter, Posted};

use crate::process::Process;

impl Process {
    /// Opens a counter, at 0, in the first plane.
    pub fn open_counter(&self) -> Counter {
        // SAFETY: no memory is lent.
        unsafe { self.first_plane().submit(|nic, _| nic.open_counter()) }
    }

    /// Starts to wait until the counter is raised.
    pub fn start_wait_for_counter(&self, counter: Counter) -> Posted {
        // SAFETY: no memory is lent.
        unsafe { self.first_plane().submit(|nic, _| nic.post_wait(counter, 1)) }
    }

    /// Whether the counter has been raised.
    pub fn is_counter_raised(&self, counter: Counter) -> bool {
        self.rank().driver().inspect(|nic| nic.counter(counter) > 0)
    }

    /// Raises the counter by 1.
    pub fn raise_counter(&self, counter: Counter) {
        // SAFETY: no memory is lent.
        unsafe { self.first_plane().submit(|nic, port| nic.raise(counter, 1, port)) };
    }

    /// Closes the counter.
    pub fn close_counter(&self, counter: Counter) {
        // SAFETY: no memory is lent.
        unsafe { self.first_plane().submit(|nic, port| nic.close_counter(counter, port)) };
    }
}
