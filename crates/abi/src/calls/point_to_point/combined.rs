//! Several requests as one.

use ferrywire_host::nic::{Outcome, Posted, Ticket};

use crate::convert::failure::Result;
use crate::convert::handle::Shared;
use crate::convert::status::Status;
use crate::objects::Plane;
use crate::objects::comm::Comm;
use crate::objects::recipe::{End, Next, Recipe};
use crate::objects::request::Request;

/// Several parts, of which the last gives the status of the whole. They may be in different planes.
pub(crate) struct Combined {
    parts: Vec<Request>,
}

impl Combined {
    /// Combines these. Inactive parts are started with the whole, the last part first.
    pub(crate) fn recipe(parts: Vec<Request>) -> Box<dyn Recipe> {
        Box::new(Combined { parts })
    }

    /// The first part that is pending, which is the one waited for.
    fn first(&self) -> Option<&Request> {
        self.parts.iter().find(|part| part.pending().is_some())
    }

    fn pending(&self) -> Posted {
        let ticket = self.first().and_then(Request::pending);
        ticket.map_or(Posted::Done(Outcome::Done), Posted::Pending)
    }
}

impl Recipe for Combined {
    fn start(&mut self, _: &Shared<Comm>) -> Result<Posted> {
        let mut idle = self.parts.iter_mut().rev().filter(|part| !part.is_active());
        idle.try_for_each(Request::start)?;
        Ok(self.pending())
    }

    fn finish(&mut self, _: &Shared<Comm>, end: End) -> Result<Next> {
        // Only the first was waited for: another part with the same ticket is in another plane.
        let first = self.parts.iter_mut().find(|part| part.pending().is_some());
        if let (Some(part), Some(ticket)) = (first, end.ticket) {
            part.hear(ticket, end.outcome);
        }
        match self.pending() {
            Posted::Done(_) => {
                let mut status = Status::EMPTY;
                for part in &mut self.parts {
                    status = part.wait()?;
                }
                Ok(Next::Over(status))
            }
            pending => Ok(Next::Then(pending)),
        }
    }

    fn cancel(&mut self, _: &Comm, _: Option<Ticket>) -> Result {
        self.parts.iter_mut().try_for_each(Request::cancel)
    }

    fn driver(&self, comm: &Comm) -> Plane {
        self.first().map_or(comm.plane(), Request::driver)
    }
}
