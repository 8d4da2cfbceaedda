//! What one peer and one queue pair owe each other: credit, held messages, refusals.
//!
//! The sender's half says how much room the peer has set aside for us, and which messages without
//! such room still wait for an answer or are held. The receiver's half says how much room we have
//! set aside, and from where on we cannot take messages in order (the floor).

use alloc::collections::VecDeque;

use crate::matcher::Age;
use crate::types::Ticket;

#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) queue: u16,
    /// Receiver: this lane is in its queue's list of lanes that hold messages for us.
    pub(crate) refused: bool,
    /// Receiver: an address is on its way, so a sweep will come.
    pub(crate) invited: bool,
    /// Sender: an answer has come since we last said farewell, so credit that comes is for us.
    pub(crate) established: bool,
    /// Receiver: the last search that had begun when this lane's last sweep did; zero if the sweep shows nothing to
    /// probes.
    pub(crate) swept_for: u32,
    /// Sender: bytes that the peer has set aside for us.
    pub(crate) credit: u32,
    /// Receiver: bytes that the peer may use from the beginning, and that we set aside when its
    /// first message comes.
    pub(crate) unmet: u32,
    /// Receiver: bytes that we have set aside and the peer may use.
    pub(crate) reserved: u32,
    /// Receiver: bytes set aside that the peer has used, are free again, and it does not know it.
    pub(crate) owed: u32,
    /// Receiver: a message has been refused that matched no receive older than this. Until it
    /// comes again, later ones may match older receives only, or they would overtake it.
    pub(crate) floor: Age,
    /// Sender: messages without credit, oldest first.
    pub(crate) waiting: Option<alloc::boxed::Box<HeldMessages>>,
}

/// No message is being held.
pub(crate) const NO_FLOOR: Age = Age::MAX;

impl Lane {
    pub(crate) fn new(queue: u16, initial_credit_bytes: u32) -> Lane {
        Lane {
            queue,
            refused: false,
            invited: false,
            established: initial_credit_bytes > 0,
            swept_for: 0,
            credit: initial_credit_bytes,
            unmet: initial_credit_bytes,
            reserved: 0,
            owed: 0,
            floor: NO_FLOOR,
            waiting: None,
        }
    }

    /// Whether the peer holds nothing for us that we know of.
    pub(crate) fn is_clear(&self) -> bool {
        !self.refused && self.floor == NO_FLOOR
    }

    pub(crate) fn is_holding(&self) -> bool {
        self.waiting.as_ref().is_some_and(|waiting| waiting.holding)
    }
}

/// Messages that their sender must keep, because no room was set aside for them.
///
/// ```text
/// 0         answered        sent            len
/// | refused  |  on the way   |  not yet sent |
/// ```
///
/// Until the first refusal everything is on the way, and an answer always speaks of the first
/// that is. Afterwards the lane is *holding*: messages go again only in sweeps, from the front,
/// and a sweep goes on past a refusal only while the receiver says that it wants something.
#[derive(Debug, Default)]
pub(crate) struct HeldMessages {
    messages: VecDeque<Ticket>,
    answered: usize,
    sent: usize,
    pub(crate) holding: bool,
    wanted: bool,
    invited: bool,
    first: bool,
}

impl HeldMessages {
    /// Adds a message. The caller sends it at once unless the lane is holding.
    pub(crate) fn push(&mut self, ticket: Ticket) {
        self.messages.push_back(ticket);
        if !self.holding {
            self.sent = self.messages.len();
        }
    }

    /// The message that the next answer speaks of; nothing if there is none on the way.
    pub(crate) fn unanswered(&self) -> Option<Ticket> {
        (self.answered < self.sent).then(|| self.messages[self.answered])
    }

    /// That message has been answered.
    pub(crate) fn on_answer(&mut self, accepted: bool, wanted: bool) {
        if accepted {
            self.messages.remove(self.answered);
            self.sent -= 1;
        } else {
            self.answered += 1;
            self.wanted = wanted;
            self.holding = true;
        }
    }

    pub(crate) fn on_invite(&mut self) {
        self.invited = self.holding;
    }

    /// The next message of the sweep, and whether it is the first of it.
    pub(crate) fn next(&mut self, in_flight_max: usize) -> Option<(Ticket, bool)> {
        if !self.holding {
            return None;
        }
        if self.invited && self.answered == self.sent {
            self.invited = false;
            self.answered = 0;
            self.sent = 0;
            self.first = true;
        }
        let may_go_on = self.first || self.answered == 0 || self.wanted;
        // Before the first address nothing may go: what is refused now was refused for want of
        // room, and everything behind it will be told the same.
        if self.invited || !may_go_on || self.sent - self.answered >= in_flight_max {
            return None;
        }
        let ticket = *self.messages.get(self.sent)?;
        self.sent += 1;
        Some((ticket, core::mem::take(&mut self.first)))
    }

    /// Takes out a message that is not on the way; false if it is, and must be answered first.
    pub(crate) fn remove(&mut self, ticket: Ticket) -> bool {
        let Some(at) = self.messages.iter().position(|&waiting| waiting == ticket) else {
            return false;
        };
        if (self.answered..self.sent).contains(&at) {
            return false;
        }
        self.messages.remove(at);
        if at < self.answered {
            self.answered -= 1;
            self.sent -= 1;
        }
        true
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        size_of::<HeldMessages>() + self.messages.capacity() * size_of::<Ticket>()
    }
}
