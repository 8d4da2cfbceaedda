//! The parts that a request executes.

use ferrywire_host::nic::{Outcome, Posted, Ticket};
use ferrywire_runtime::Trigger;

use crate::convert::constants::MPI_ERR_UNSUPPORTED_OPERATION;
use crate::convert::failure::{Failure, Result};
use crate::convert::handle::Shared;
use crate::convert::status::Status;
use crate::objects::Plane;
use crate::objects::communicator::Comm;

/// The parts of a request, each posted when the one before is complete.
pub(crate) trait Recipe: Send {
    /// Posts the first part.
    fn start(&mut self, comm: &Shared<Comm>) -> Result<Posted>;

    /// Posts the first part, which begins when a trigger fires. Only messages and collectives can do so: the NIC starts
    /// them, and nobody else is there.
    fn arm(&mut self, _: &Shared<Comm>, _: Trigger<'_>) -> Result<Posted> {
        let why =
            "only messages and collectives can be started by a counter, and no buffered sends";
        Err(Failure::new(MPI_ERR_UNSUPPORTED_OPERATION, why))
    }

    /// Handles the end of a part. Returns the final status, or the next part.
    fn finish(&mut self, comm: &Shared<Comm>, end: End) -> Result<Next>;

    /// Whether the request is complete when the schedule releases its caller. If so, the recipe keeps alive what the
    /// schedule still needs.
    fn may_be_released(&self) -> bool {
        false
    }

    /// Whether it has one part, which is handled only when the program asks for the request.
    fn ends_when_asked(&self) -> bool {
        false
    }

    /// Whether it only waits for a message.
    fn is_receive(&self) -> bool {
        false
    }

    /// Cancels it, if it is not too late.
    fn cancel(&mut self, comm: &Comm, pending: Option<Ticket>) -> Result {
        if let Some(ticket) = pending {
            self.driver(comm).cancel(ticket);
        }
        Ok(())
    }

    /// The plane of the ticket that was posted last.
    fn driver(&self, comm: &Comm) -> Plane {
        comm.plane()
    }

    /// Adjusts the status that the program sees, where a callback of the program determines it.
    fn query(&mut self, _status: &mut Status) -> Result {
        Ok(())
    }

    /// The call that made the request, as reports name it.
    fn origin(&self, _: &Comm, _persistent: bool) -> String {
        "request".into()
    }

    /// Called when the program has freed the request.
    fn freed(&mut self) -> Result {
        Ok(())
    }
}

/// The end of a part.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End {
    /// Its ticket, if it had one.
    pub(crate) ticket: Option<Ticket>,
    /// Its outcome.
    pub(crate) outcome: Outcome,
}

/// The error of data that would have to be packed when a trigger fires.
#[cold]
pub(crate) fn not_contiguous() -> Failure {
    let why = "an operation that a counter starts sends only contiguous data";
    Failure::new(MPI_ERR_UNSUPPORTED_OPERATION, why)
}

/// How a recipe continues.
pub(crate) enum Next {
    /// It is complete.
    Over(Status),
    /// Its next part has been posted.
    Then(Posted),
}
