//! Counters of a NIC: generalised requests raise them, and so do the messages of partitioned receives and puts that
//! notify.

use ferrywire_host::nic::{Counter, Posted, Span};
use ferrywire_mpi::comm::Wanted;

use crate::plane::Plane;

impl Plane<'_> {
    /// Opens a counter, at 0.
    pub fn open_counter(self) -> Counter {
        // SAFETY: no memory is lent.
        unsafe { self.submit(|nic, _| nic.open_counter()) }
    }

    /// Starts to wait until the counter is at least `at_least`.
    pub fn start_wait_for_counter(self, counter: Counter, at_least: u64) -> Posted {
        // SAFETY: no memory is lent.
        unsafe { self.submit(|nic, _| nic.post_wait(counter, at_least)) }
    }

    /// Whether the counter has been raised.
    pub fn is_counter_raised(self, counter: Counter) -> bool {
        // SAFETY: no memory is lent.
        unsafe { self.submit(|nic, _| nic.counter(counter) > 0) }
    }

    /// The value of the counter.
    pub(crate) fn counter(self, counter: Counter) -> u64 {
        // SAFETY: no memory is lent.
        unsafe { self.submit(|nic, _| nic.counter(counter)) }
    }

    /// Sets the counter.
    pub(crate) fn set_counter(self, counter: Counter, value: u64) {
        // SAFETY: no memory is lent.
        unsafe { self.submit(|nic, port| nic.set_counter(counter, value, port)) };
    }

    /// Raises the counter by 1.
    pub fn raise_counter(self, counter: Counter) {
        // SAFETY: no memory is lent.
        unsafe { self.submit(|nic, port| nic.raise(counter, 1, port)) };
    }

    /// Closes the counter.
    pub fn close_counter(self, counter: Counter) {
        // SAFETY: no memory is lent.
        unsafe { self.submit(|nic, port| nic.close_counter(counter, port)) };
    }

    /// Starts a receive that raises the counter by 1 when it is over.
    ///
    /// # Safety
    /// The memory is lent until the operation is complete: no other code reads or writes it.
    pub unsafe fn start_counted_receive(
        self,
        Wanted { from, word, mask }: Wanted,
        into: Span,
        counter: Counter,
    ) -> Posted {
        // SAFETY: the caller's promise.
        unsafe {
            self.submit(|nic, port| {
                let posted = nic.post_receive(from, word, mask, into, port);
                match posted {
                    Posted::Done(_) => nic.raise(counter, 1, port),
                    Posted::Pending(ticket) => nic.count(ticket, counter),
                }
                posted
            })
        }
    }
}
