//! Messages that modules send: kept in memory of the NIC until the rail no longer needs them.

use super::THROUGH;
use super::table::ModuleReceive;
use crate::nic::{Nic, Variant};
use crate::op::{OpState, Owner};
use crate::port::Port;
use crate::types::{Mode, Outcome, Peer, Posted, Span, Ticket};
use crate::word::MatchWord;

/// Sizes of buffers for messages of modules. A third class holds the longest message.
const OUTBOX_BYTES: [u64; OUTBOXES - 1] = [256, 4096];
pub(super) const OUTBOXES: usize = 3;

/// The group of no module.
pub(super) const NO_GROUP: u16 = 0;

/// A message of a module in flight.
pub(super) struct SentByModule {
    pub(super) group: u16,
    pub(super) span: Span,
    /// The module has let it through.
    pub(super) passing: bool,
}

impl<V: Variant> Nic<V> {
    /// Cancels the module's receive if too much of what it sent is in flight.
    pub(super) fn stall_if_full(&mut self, group: u16, port: &mut impl Port) {
        let kept_bytes_max = self.limits.module_kept_bytes_max;
        let Some(at) = self.modules.find(group) else { return };
        let loaded = &self.modules.loaded[at];
        if loaded.kept_bytes <= u64::from(kept_bytes_max) || !self.is_waiting(at) {
            return;
        }
        if let ModuleReceive::Posted(ticket) = self.modules.loaded[at].slot {
            self.modules.loaded[at].slot = ModuleReceive::Stalled;
            self.modules.loaded[at].stats.stalls += 1;
            self.op_mut(ticket).owner = Owner::Nobody;
            self.begin_cancel(ticket, port);
        }
    }

    /// Sends bytes from a buffer of the NIC, since the module's own are valid only during this call.
    pub(super) fn send_kept(
        &mut self,
        group: u16,
        to: Peer,
        word: MatchWord,
        bytes: &[u8],
        port: &mut impl Port,
    ) {
        let len = bytes.len() as u64;
        let passing = word.group() & THROUGH != 0;
        let class = class_of(len);
        let room = OUTBOX_BYTES.get(class).copied().unwrap_or(self.limits.module_bytes_max.into());
        let outbox = *self.modules.outboxes[class].get_or_insert_with(|| port.claim(room));
        if len > 0 {
            port.deliver(bytes, outbox.first(len));
        }
        let kept = self.modules.kept.claim(SentByModule { group, span: outbox, passing });
        let owner = Owner::Kept(kept);
        let posted = self.begin_send(owner, to, word, outbox.first(len), Mode::Standard, port);
        // Under credit, it is over for the sender once it is on the rail, and can still be overtaken there.
        let secured = match posted {
            Posted::Done(outcome) => outcome == Outcome::Done,
            Posted::Pending(ticket) => matches!(self.op_mut(ticket).state, OpState::Flying { .. }),
        };
        self.modules.on_rail += u32::from(passing && secured);
        match posted {
            Posted::Pending(_) => {
                self.modules.outboxes[class] = None;
                if let Some(loaded) = self.modules.find_mut(group) {
                    loaded.kept_bytes += outbox.len;
                    loaded.passing += u32::from(passing);
                }
            }
            Posted::Done(outcome) => {
                self.modules.kept.release(kept);
                self.note_sent(group, outcome);
            }
        }
    }

    fn note_sent(&mut self, group: u16, outcome: Outcome) {
        if outcome != Outcome::Done
            && let Some(loaded) = self.modules.find_mut(group)
        {
            loaded.stats.lost += 1;
        }
    }

    /// Frees the buffer of a message that has been sent.
    pub(crate) fn on_kept(&mut self, kept: Ticket, outcome: Outcome, port: &mut impl Port) {
        let Some(SentByModule { group, span, passing }) = self.modules.kept.release(kept) else {
            return;
        };
        match &mut self.modules.outboxes[class_of(span.len)] {
            empty @ None => *empty = Some(span),
            Some(_) => port.release(span),
        }
        self.note_sent(group, outcome);
        let Some(loaded) = self.modules.find_mut(group) else { return };
        loaded.kept_bytes -= span.len;
        loaded.passing -= u32::from(passing);
        if loaded.slot == ModuleReceive::Stalled {
            self.listen(group, port);
        }
    }
}

/// The buffer class of a message.
fn class_of(len: u64) -> usize {
    OUTBOX_BYTES.iter().position(|&bytes| len <= bytes).unwrap_or(OUTBOX_BYTES.len())
}
