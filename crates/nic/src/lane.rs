//! What one peer and one queue pair owe each other: credit, held messages, refusals.
//!
//! The sender's half says how much room the peer has reserved for us, and which messages without such room still
//! wait for an answer or are held. The receiver's half says how much room we have reserved, and from where on we
//! cannot take messages in order (the floor).

use alloc::collections::VecDeque;

use crate::matcher::Age;
use crate::types::Ticket;

#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) queue: u16,
    /// Receiver: the peer is in the queue pair's list of peers that hold messages for us.
    pub(crate) refused: bool,
    /// Receiver: an invite is on its way, so a sweep will come.
    pub(crate) invited: bool,
    /// Sender: an answer has come since our last farewell, so credit that arrives is ours.
    pub(crate) established: bool,
    /// Receiver: the last search that had begun when this lane's last sweep did; zero if the sweep shows nothing
    /// to probes.
    pub(crate) swept_for: u32,
    /// Sender: bytes that the peer has reserved for us.
    pub(crate) credit: u32,
    /// Receiver: initial credit of the peer, which we reserve when its first message comes.
    pub(crate) unmet: u32,
    /// Receiver: bytes that we have reserved and the peer may use.
    pub(crate) reserved: u32,
    /// Receiver: reserved bytes that the peer has used and that are free again, without its knowing.
    pub(crate) owed: u32,
    /// Receiver: a message was refused that matched no receive older than this. Until it comes again, later
    /// messages may match older receives only, or they would overtake it.
    pub(crate) floor: Age,
    /// Sender: messages without credit, oldest first.
    pub(crate) waiting: Option<alloc::boxed::Box<HeldMessages>>,
}

/// The floor when no message is held.
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

    /// Whether the peer, as far as we know, holds nothing for us.
    pub(crate) fn is_clear(&self) -> bool {
        !self.refused && self.floor == NO_FLOOR
    }

    /// Takes `bytes` from our credit, of which the peer gives `portion` at a time. True if it begins to run out: once
    /// where little is left, and again where nothing is.
    #[inline(always)]
    pub(crate) fn spend(&mut self, bytes: u32, portion: u32) -> bool {
        let (before, mark) = (self.credit, portion / 8);
        self.credit -= bytes;
        self.credit < mark.max(bytes) && (before >= mark || self.credit < bytes)
    }

    pub(crate) fn is_holding(&self) -> bool {
        self.waiting.as_ref().is_some_and(|waiting| waiting.holding)
    }
}

/// Messages that their sender must keep, because no room was reserved for them.
///
/// ```text
/// 0         answered        sent            len
/// | refused  |  on the way   |  not yet sent |
/// ```
///
/// Until the first refusal all messages are on the way, and an answer is always for the first of those. After it
/// the lane is *holding*: messages go again only in sweeps, from the front, and a sweep continues past a refusal
/// only while the receiver says that it wants something.
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

    /// The message that the next answer is for; `None` if no message is on the way.
    pub(crate) fn unanswered(&self) -> Option<Ticket> {
        (self.answered < self.sent).then(|| self.messages[self.answered])
    }

    /// The message at [`HeldMessages::unanswered`] has been answered.
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

    /// The next message of the sweep, and whether it begins the sweep.
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
        // Before the first invite no message may go: the refusal was for lack of room, and every later message
        // would be refused too.
        if self.invited || !may_go_on || self.sent - self.answered >= in_flight_max {
            return None;
        }
        let ticket = *self.messages.get(self.sent)?;
        self.sent += 1;
        Some((ticket, core::mem::take(&mut self.first)))
    }

    /// Removes a message that is not on the way; false if it is on the way and must be answered first.
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
