//! What a request does, step by step.

use ferrywire_host::nic::{Outcome, Posted, Ticket};

use crate::convert::failure::Result;
use crate::convert::handle::Shared;
use crate::convert::status::Status;
use crate::objects::Plane;
use crate::objects::communicator::Comm;

/// What is to be done, and what is to be done when it is over.
pub(crate) trait Recipe: Send {
    /// Begins.
    fn start(&mut self, comm: &Shared<Comm>) -> Result<Posted>;

    /// A part is over. Says what the whole came to, or which part comes next.
    fn finish(&mut self, comm: &Shared<Comm>, end: End) -> Result<Next>;

    /// Whether it is over for the program when the NIC lets the caller of a schedule go. If so, the
    /// recipe sees to it that what the schedule still needs lives on.
    fn may_be_released(&self) -> bool {
        false
    }

    /// Whether it waits for a message, and for nothing else.
    fn is_receive(&self) -> bool {
        false
    }

    /// Takes it back, if it is not too late.
    fn cancel(&mut self, comm: &Comm, pending: Option<Ticket>) -> Result {
        if let Some(ticket) = pending {
            self.driver(comm).cancel(ticket);
        }
        Ok(())
    }

    /// Who knows the ticket of what was posted last.
    fn driver(&self, comm: &Comm) -> Plane {
        comm.plane()
    }

    /// The status that the program shall see, where something of the user's has a say in it.
    fn query(&mut self, _status: &mut Status) -> Result {
        Ok(())
    }

    /// The program has no request for it any more.
    fn freed(&mut self) -> Result {
        Ok(())
    }
}

/// The end of a part.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End {
    /// Its ticket, if it had one.
    pub(crate) ticket: Option<Ticket>,
    /// What it came to.
    pub(crate) outcome: Outcome,
}

/// How a recipe goes on.
pub(crate) enum Next {
    /// It is over.
    Over(Status),
    /// Another part of it has been posted.
    Then(Posted),
}
