//! Running modules: which messages they get, what they send, what becomes of a message.
//!
//! A message of a group that has [`MODULE_GROUP`] set goes to the group's module first. If the module is idle and
//! the message is whole and under credit, it runs while the frame is handled. Any other message (an offer, one
//! without credit, one behind another) takes the path of all messages: the module has a receive of its own posted,
//! in a group next to its own, and runs when the receive completes. So order, credit, refusal, rendezvous and
//! retry are the same for modules as for applications.
//!
//! ```text
//! frame --> idle? -- yes --> run --> deliver: matched as any message
//!             |               ^
//!             no              |
//!             +--> matcher, group INNER --> the module's receive
//! ```
//!
//! A message that a trap has ended goes on as if it had been let through, without its bytes: the receive that
//! would have got it fails instead, and nothing overtakes it.
//!
//! What a module sends is kept in memory of the NIC until it is sent. If too much of it waits, the module takes no
//! further messages until there is less, and its senders see a receiver that does not receive.

mod outbox;
mod running;
mod table;

use alloc::vec::Vec;

use crate::canary::Bug;
use crate::envelope::Kind;
use crate::module::{Hook, Module, Trap, Verdict};
use crate::nic::{Nic, Variant};
use crate::op::{OpState, Owner};
use crate::peers::At;
use crate::port::Port;
use crate::receive::{Offer, Whole, outcome_of};
use crate::store::eager_bytes;
use crate::types::{Fault, Outcome, Posted, Received, Span};
use crate::word::{Mask, MatchWord};
use running::Running;
use table::{Due, Loaded, ModuleReceive};

pub(crate) use table::Modules;
pub use table::{MODULE_COUNTERS, ModuleStats, Placement};

/// A group with this bit has a module, which gets its messages. The two bits below belong to the NIC.
pub const MODULE_GROUP: u16 = 1 << 15;
/// A message that waits for the module itself.
const INNER: u16 = 1 << 14;
/// A message that the module has let through.
const THROUGH: u16 = 1 << 13;
/// The rest of a message that a trap has ended. It takes the path of one that was let through, so that its receive
/// fails in order. Its length is the code of the trap.
const ENDED: u16 = INNER | THROUGH;

/// Faults that may wait for a receive. More are only counted.
const FAULTS_MAX: usize = 16;

/// Log2 of the most messages that a module which always traps is barred from at a time.
const BARRED_LOG_MAX: u32 = 10;
/// Module runs in one turn of the NIC.
const RUNS_PER_TURN_MAX: u32 = 64;

impl MatchWord {
    /// Whether the message goes to a module.
    #[inline(always)]
    pub(crate) const fn has_module(self) -> bool {
        self.bits() >> 63 != 0
    }

    fn with_group(self, group: u16) -> MatchWord {
        MatchWord::new(group, self.source(), self.tag())
    }

    fn outer(self) -> MatchWord {
        self.with_group(self.group() & !(INNER | THROUGH))
    }

    /// Whether this is the rest of a message that a trap has ended.
    #[inline(always)]
    pub(crate) const fn is_ended(self) -> bool {
        self.bits() >> 61 == ((MODULE_GROUP | ENDED) >> 13) as u64
    }

    /// The word that receives are compared with.
    #[inline(always)]
    pub(crate) fn to_match(self) -> MatchWord {
        if self.is_ended() { self.outer() } else { self }
    }
}

impl Modules {
    /// The outcome of a receive that gets this message, and where its bytes go: nowhere, if a trap has ended the
    /// message.
    #[inline(always)]
    pub(crate) fn outcome(&mut self, word: MatchWord, len: u64, into: Span) -> (Span, Outcome) {
        match word.is_ended() {
            true => (into.first(0), self.on_ended(word, len)),
            false => (into, outcome_of(word, len, into.len)),
        }
    }

    /// The outcome of a receive that gets the rest of a message.
    #[cold]
    fn on_ended(&mut self, word: MatchWord, len: u64) -> Outcome {
        let word = word.outer();
        if let Some(loaded) = self.find_mut(word.group()) {
            // Messages from before the module was loaded are not counted.
            loaded.ended = loaded.ended.saturating_sub(1);
        }
        Outcome::Failed(Fault::Module { word, trap: Trap::from_code(len) })
    }
}

impl<V: Variant> Nic<V> {
    /// Handles a whole message of a group with a module.
    #[inline(never)]
    pub(crate) fn on_called(&mut self, at: At, whole: Whole, payload: &[u8], port: &mut impl Port) {
        let Whole { word, secured, synchronous } = whole;
        let group = word.group();
        if group & THROUGH != 0 && self.peers[at].peer == self.me {
            self.modules.on_back(secured);
            let word = if word.is_ended() { word } else { word.outer() };
            self.on_eager::<true, false>(at, Whole { word, ..whole }, payload, port);
            return self.discard_if_unloaded(word.outer().group(), port);
        }
        if group & (INNER | THROUGH) != 0 {
            self.stats.malformed += 1;
            return;
        }
        let idle = self.modules.find(group).filter(|&found| self.is_listening(found));
        let early = V::has(Bug::RunsAgain);
        let Some(found) = idle.filter(|_| early || secured) else {
            let word = word.with_group(group | INNER);
            return self.on_eager::<true, false>(at, Whole { word, ..whole }, payload, port);
        };
        let queue = self.queue_of(group);
        let Ok(len) = u32::try_from(payload.len()) else { unreachable!("frames are short") };
        let bytes = eager_bytes(len);
        if secured && self.pay(at, queue, true, bytes).is_none() {
            return;
        }
        let mut scratch = core::mem::take(&mut self.modules.scratch);
        let (verdict, changed) = self.run(found, word, payload, &mut scratch, port);
        if verdict == Ok(Verdict::Deliver) {
            let payload = if changed { &scratch[..] } else { payload };
            match secured {
                true => self.on_eager::<true, true>(at, whole, payload, port),
                false => self.on_eager::<true, false>(at, whole, payload, port),
            }
        } else if secured {
            self.owe(at, queue, bytes, port);
            if let Some(sender) = synchronous {
                self.reply(at, Kind::Matched { ticket: sender }, port);
            }
        }
        self.modules.scratch = scratch;
        if let Err(trap) = verdict {
            self.on_trap(group, word, trap, port);
        }
        if self.modules.loaded[found].kept_bytes > 0 {
            self.stall_if_full(group, port);
        }
    }

    /// Handles the offer of a group with a module: chooses the word under which it is matched.
    #[cold]
    pub(crate) fn on_offer_called(
        &mut self,
        at: At,
        offer: Offer,
        secured: bool,
        first: bool,
        port: &mut impl Port,
    ) {
        let group = offer.word.group();
        let word = match group & (INNER | THROUGH) {
            0 => offer.word.with_group(group | INNER),
            THROUGH if self.peers[at].peer == self.me => offer.word.outer(),
            ENDED if self.peers[at].peer == self.me => offer.word,
            _ => {
                self.stats.malformed += 1;
                return;
            }
        };
        self.on_offer(at, Offer { word, ..offer }, secured, first, port);
        if group & THROUGH != 0 {
            self.discard_if_unloaded(word.outer().group(), port);
        }
    }

    /// Drops what a module has let through and what comes back only after it was unloaded, as [`Nic::unload`] drops
    /// what has come back before.
    fn discard_if_unloaded(&mut self, group: u16, port: &mut impl Port) {
        if self.modules.find(group).is_none() {
            self.discard(group, port);
        }
    }

    /// Whether the module is idle, nothing waits for it, and nothing that it has let through can be overtaken.
    fn is_listening(&self, at: usize) -> bool {
        let passed = self.modules.loaded[at].passing == 0 && self.modules.on_rail == 0;
        (passed || V::has(Bug::PassingIgnored)) && self.is_waiting(at)
    }

    /// Whether the module's receive is posted and has not matched.
    fn is_waiting(&self, at: usize) -> bool {
        let ModuleReceive::Posted(ticket) = self.modules.loaded[at].slot else { return false };
        matches!(self.ops.find(ticket), Some(op) if matches!(op.state, OpState::Posted { .. }))
    }

    /// Posts the module's receive, unless too much of what it sent is in flight.
    fn listen(&mut self, group: u16, port: &mut impl Port) {
        let kept_bytes_max = self.limits.module_kept_bytes_max;
        let Some(loaded) = self.modules.find_mut(group) else { return };
        if loaded.kept_bytes > u64::from(kept_bytes_max) {
            loaded.stats.stalls += u64::from(loaded.slot != ModuleReceive::Stalled);
            loaded.slot = ModuleReceive::Stalled;
            return;
        }
        // No longer stalled: what ends while the receive is posted must not post another one into the same buffer.
        loaded.slot = ModuleReceive::Due;
        let (buffer, word) = (loaded.buffer, MatchWord::new(group | INNER, 0, 0));
        let owner = Owner::Module(group);
        let slot = match self.begin_receive(owner, None, word, Mask::ANY_BOTH, buffer, port) {
            Posted::Pending(ticket) => ModuleReceive::Posted(ticket),
            Posted::Done(outcome) => {
                self.modules.push_due(group, Due::Message(outcome));
                ModuleReceive::Due
            }
        };
        if let Some(loaded) = self.modules.find_mut(group) {
            loaded.slot = slot;
        }
    }

    /// The module's receive has completed.
    pub(crate) fn on_module_received(&mut self, group: u16, outcome: Outcome) {
        if let Some(loaded) = self.modules.find_mut(group) {
            loaded.slot = ModuleReceive::Due;
            self.modules.push_due(group, Due::Message(outcome));
        }
    }

    /// A counter has reached the value that a module armed it for.
    pub(crate) fn on_module_counter(&mut self, group: u16, counter: u32) {
        self.modules.push_due(group, Due::Counter(counter));
    }

    /// Runs the next module that is due. False if there is none.
    pub(crate) fn run_due(&mut self, port: &mut impl Port) -> bool {
        let Some((group, due)) = self.modules.next_due() else { return false };
        let Some(at) = self.modules.find(group) else { return true };
        match due {
            Due::Counter(counter) => self.run_counter(at, group, counter, port),
            Due::Message(Outcome::Received(Received { word, len })) => {
                self.run_received(at, word.outer(), len, port);
                self.listen(group, port);
            }
            Due::Message(Outcome::Failed(Fault::Truncated { word, .. })) => {
                self.on_trap(group, word.outer(), Trap::Length, port);
                self.listen(group, port);
            }
            // The sender died during the transfer.
            Due::Message(_) => self.listen(group, port),
        }
        true
    }

    /// Runs a module for a message in its buffer.
    fn run_received(&mut self, at: usize, word: MatchWord, len: u64, port: &mut impl Port) {
        let Loaded { group, buffer, .. } = self.modules.loaded[at];
        let mut bytes = alloc::vec![0; usize::try_from(len).expect("it fits the buffer")];
        port.load(buffer.first(len), &mut bytes);
        let mut scratch = core::mem::take(&mut self.modules.scratch);
        let (verdict, changed) = self.run(at, word, &bytes, &mut scratch, port);
        let payload = if changed { &scratch } else { &bytes };
        match verdict {
            Ok(Verdict::Deliver) => {
                let word = word.with_group(group | THROUGH);
                self.send_kept(group, self.me, word, payload, port);
            }
            Ok(Verdict::Consume) => {}
            Err(trap) => self.on_trap(group, word, trap, port),
        }
        self.modules.scratch = scratch;
    }

    /// Runs a module for a message; tells whether the message has changed and is now in `scratch`.
    #[inline]
    fn run(
        &mut self,
        at: usize,
        word: MatchWord,
        payload: &[u8],
        scratch: &mut Vec<u8>,
        port: &mut impl Port,
    ) -> (Result<Verdict, Trap>, bool) {
        if payload.len() > self.limits.module_bytes_max as usize {
            return (Err(Trap::Length), false);
        }
        let loaded = &mut self.modules.loaded[at];
        if loaded.barred > 0 {
            loaded.barred -= 1;
            return (Err(Trap::Barred), false);
        }
        let (verdict, changed) =
            self.call(at, word, payload, scratch, port, |module, hook| module.on_message(hook));
        let traps_max = self.limits.module_traps_max;
        let loaded = &mut self.modules.loaded[at];
        loaded.stats.messages += 1;
        loaded.stats.bytes += payload.len() as u64;
        match verdict {
            Ok(Verdict::Deliver) => loaded.stats.delivered += 1,
            Ok(Verdict::Consume) => loaded.stats.consumed += 1,
            Err(Trap::Fuel | Trap::Time | Trap::Stack | Trap::Sends) => {
                loaded.streak += 1;
                loaded.barred = barred_for(loaded.streak, traps_max);
            }
            // Other traps cost little time.
            Err(_) => {}
        }
        if verdict.is_ok() {
            loaded.streak = 0;
        }
        (verdict, changed)
    }

    fn run_counter(&mut self, at: usize, group: u16, counter: u32, port: &mut impl Port) {
        let word = MatchWord::new(group, self.modules.loaded[at].placement.rank, 0);
        let mut scratch = Vec::new();
        let (ended, _) = self.call(at, word, &[], &mut scratch, port, |module, hook| {
            module.on_counter(counter, hook)
        });
        if let Err(trap) = ended {
            self.note_fault(group, word, trap);
        }
        self.stall_if_full(group, port);
    }

    /// Calls a module; tells whether it has changed the payload.
    #[inline(always)]
    fn call<R>(
        &mut self,
        at: usize,
        word: MatchWord,
        payload: &[u8],
        scratch: &mut Vec<u8>,
        port: &mut impl Port,
        hook: impl FnOnce(&mut dyn Module, &mut dyn Hook) -> R,
    ) -> (R, bool) {
        self.modules.runs_left = self.modules.runs_left.saturating_sub(1);
        let loaded = &mut self.modules.loaded[at];
        let mut module = loaded.module.take().expect("a module does not run twice at once");
        let (rank, size) = (loaded.placement.rank, loaded.placement.size);
        let mut running = Running {
            nic: self,
            port,
            at,
            rank,
            size,
            word,
            payload,
            scratch,
            changed: false,
            sent: 0,
        };
        let answer = hook(&mut *module, &mut running);
        let Running { changed, sent, .. } = running;
        let loaded = &mut self.modules.loaded[at];
        loaded.module = Some(module);
        loaded.stats.sent += u64::from(sent);
        (answer, changed)
    }

    fn note_fault(&mut self, group: u16, word: MatchWord, trap: Trap) {
        if let Some(loaded) = self.modules.find_mut(group) {
            loaded.stats.faults += 1;
            loaded.stats.last_fault = Some((word, trap));
        }
    }

    /// A trap has ended a message. The receive that gets it, or would have got it, fails.
    #[cold]
    fn on_trap(&mut self, group: u16, word: MatchWord, trap: Trap, port: &mut impl Port) {
        self.note_fault(group, word, trap);
        let Some(loaded) = self.modules.find_mut(group) else { return };
        if loaded.ended < FAULTS_MAX {
            loaded.ended += 1;
            let word = word.with_group(group | ENDED);
            self.send_kept(group, self.me, word, &[0; Trap::ALL.len()][..trap.code()], port);
        }
    }
}

/// For how many messages a module does not run after so many consecutive runs that used up fuel, time, stack or
/// sends. Such runs take time from other work: so they become rarer and rarer, yet a module that recovers is soon
/// noticed.
fn barred_for(streak: u32, traps_max: u32) -> u32 {
    match streak.checked_sub(traps_max) {
        None => 0,
        Some(more) => 1 << more.min(BARRED_LOG_MAX),
    }
}
