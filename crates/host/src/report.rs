//! What the NIC reports beside the outcomes of operations, until an application thread hears of it.
//!
//! The NIC reports under the lock of its driver, often on the agent's thread. User code must not run there, so reports
//! wait until an application thread polls or waits for this NIC; then it passes them on without the lock. Calls that
//! complete at once, by the short way, pass nothing on, so that they need not look.

use std::cell::Cell;
use std::collections::VecDeque;

use ferrywire_nic::Notice;

/// What a reporter hears.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Report {
    /// Something has happened.
    Happened {
        /// What.
        notice: Notice,
        /// When, by [`crate::monotonic_ns`].
        at_ns: u64,
    },
    /// As much as this has happened since, and is not reported, because the application was away for too long.
    Lost {
        /// Overflows.
        overflows: u64,
        /// Denied accesses.
        denials: u64,
    },
}

/// Hears reports, on an application thread that is inside a call. It may call the library, and hears of what happens
/// then when it has returned.
pub type Reporter = fn(Report);

/// The reports of a NIC that nobody has heard yet.
#[derive(Default)]
pub(crate) struct Reports {
    reporter: Option<Reporter>,
    queue: VecDeque<(Notice, u64)>,
    overflows_lost: u64,
    denials_lost: u64,
}

impl Reports {
    /// Collects reports for `reporter`.
    pub(crate) fn begin(&mut self, reporter: Reporter) {
        self.reporter = Some(reporter);
    }

    /// Whether this thread has to pass reports on.
    #[inline(always)]
    pub(crate) fn are_due(&self) -> bool {
        !self.queue.is_empty() && !HoldReports::is_held()
    }

    /// Adds a report, if anybody wants to hear it and there is room.
    pub(crate) fn add(&mut self, notice: Notice, at_ns: u64) {
        if self.reporter.is_none() {
            return;
        }
        if self.queue.len() < WAITING_MAX {
            return self.queue.push_back((notice, at_ns));
        }
        match notice {
            Notice::Overflow { .. } => self.overflows_lost += 1,
            Notice::Denied { .. } => self.denials_lost += 1,
        }
    }

    /// Takes all reports.
    pub(crate) fn take(&mut self) -> Reports {
        let empty = Reports { reporter: self.reporter, ..Reports::default() };
        std::mem::replace(self, empty)
    }

    /// Passes the reports on, oldest first, then how many were lost after them.
    pub(crate) fn tell(self) {
        let Reports { reporter, queue, overflows_lost: overflows, denials_lost: denials } = self;
        let Some(reporter) = reporter else { return };
        // What the reporter causes would otherwise be reported inside it, without end.
        let _held = HoldReports::new();
        queue.into_iter().for_each(|(notice, at_ns)| reporter(Report::Happened { notice, at_ns }));
        if overflows + denials > 0 {
            reporter(Report::Lost { overflows, denials });
        }
    }
}

/// Keeps this thread from passing reports on while it has a lock that user code may want.
#[must_use = "reports are held until it is dropped"]
pub struct HoldReports(());

impl HoldReports {
    /// Holds the reports.
    #[expect(clippy::new_without_default, reason = "it has an effect")]
    pub fn new() -> HoldReports {
        HELD.with(|held| held.set(held.get() + 1));
        HoldReports(())
    }

    fn is_held() -> bool {
        HELD.with(|held| held.get() > 0)
    }
}

impl Drop for HoldReports {
    fn drop(&mut self) {
        HELD.with(|held| held.set(held.get() - 1));
    }
}

thread_local! {
    /// How many holds this thread has.
    static HELD: Cell<u32> = const { Cell::new(0) };
}

/// Reports of a NIC that wait for an application thread; those that come later are counted only.
const WAITING_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use ferrywire_nic::{Peer, Region, Span};

    use super::*;

    thread_local! {
        static HEARD: RefCell<Vec<Report>> = const { RefCell::new(Vec::new()) };
    }

    fn hear(report: Report) {
        assert!(HoldReports::is_held(), "nothing is reported inside a reporter");
        HEARD.with_borrow_mut(|heard| heard.push(report));
    }

    fn denial(offset: u64) -> Notice {
        Notice::Denied { from: Peer(3), span: Span::new(Region(1), offset, 8) }
    }

    #[test]
    fn what_is_too_much_is_counted() {
        let mut reports = Reports::default();
        reports.add(denial(0), 1);
        assert!(!reports.are_due(), "nobody wants to hear it");
        reports.begin(hear);
        for at in 0..WAITING_MAX as u64 + 5 {
            reports.add(denial(at), at);
        }
        assert!(reports.are_due());
        reports.take().tell();
        assert!(!reports.are_due());
        let heard = HEARD.take();
        assert_eq!(heard.len(), WAITING_MAX + 1);
        assert_eq!(heard[1], Report::Happened { notice: denial(1), at_ns: 1 });
        assert_eq!(heard[WAITING_MAX], Report::Lost { overflows: 0, denials: 5 });
        reports.add(denial(7), 7);
        let held = HoldReports::new();
        assert!(!reports.are_due());
        drop(held);
        reports.take().tell();
        assert_eq!(HEARD.take(), [Report::Happened { notice: denial(7), at_ns: 7 }]);
    }
}
