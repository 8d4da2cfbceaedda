//! Something that the program says is complete, such as a generalised request: a counter of the NIC that it raises.

use ferrywire_host::nic::{Counter, Posted};

use crate::process::Process;

impl Process {
    /// A new counter, at 0, in the first plane.
    pub fn open_counter(&self) -> Counter {
        // SAFETY: nothing is lent.
        unsafe { self.first_plane().submit(|nic, _| nic.open_counter()) }
    }

    /// Begins to wait until it has been raised.
    pub fn start_wait_for_counter(&self, counter: Counter) -> Posted {
        // SAFETY: nothing is lent.
        unsafe { self.first_plane().submit(|nic, _| nic.post_wait(counter, 1)) }
    }

    /// Whether it has been raised.
    pub fn is_counter_raised(&self, counter: Counter) -> bool {
        self.rank().inspect(|nic| nic.counter(counter) > 0)
    }

    /// Raises it by 1.
    pub fn raise_counter(&self, counter: Counter) {
        // SAFETY: nothing is lent.
        unsafe { self.first_plane().submit(|nic, port| nic.raise(counter, 1, port)) };
    }

    /// It is not used any more.
    pub fn close_counter(&self, counter: Counter) {
        // SAFETY: nothing is lent.
        unsafe { self.first_plane().submit(|nic, port| nic.close_counter(counter, port)) };
    }
}
