//! Modules at work: which message goes to which, what they ask for, what becomes of it.
//!
//! A message of a group that has [`MODULE_GROUP`] set goes to the group's module before anybody else sees it. If the
//! module is idle and the message is whole and under credit, it runs right where the frame arrived. Any
//! other message - an offer, one without credit, one behind another - takes the way of all messages: the module has a
//! receive of its own posted, in a group next to its own, and runs when that has got something. So
//! order, credit, refusal, rendezvous and retry are the same for modules as for everybody.
//!
//! ```text
//! frame --> idle? -- yes --> run --> deliver: matched as any message
//!             |               ^
//!             no              |
//!             +--> matcher, group INNER --> the module's receive
//! ```
//!
//! A message that a trap has ended goes on as if it had been let through, without its bytes: the receive that would
//! have got it gets a fault instead, and nothing overtakes it.
//!
//! What a module sends is kept in memory of the NIC's until it is on its way. If too much of it waits, the module takes
//! no further messages until there is less, and its senders come to feel that as they would with
//! any receiver that does not receive.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::canary::Bug;
use crate::counter::{Action, Counter};
use crate::module::{Hook, Message, Module, Trap, Verdict};
use crate::nic::{Nic, Variant};
use crate::op::{Owner, State};
use crate::peers::At;
use crate::port::Port;
use crate::receive::{Offer, Whole, outcome_of};
use crate::slab::Slab;
use crate::store::eager_bytes;
use crate::types::{Fault, Mode, Outcome, Peer, Posted, Received, Span, Ticket};
use crate::word::{Mask, MatchWord};

/// A group with this bit has a module, and its messages go there. The two bits below belong to the NIC.
pub const MODULE_GROUP: u16 = 1 << 15;
/// A message that waits for the module itself.
const INNER: u16 = 1 << 14;
/// A message that the module has let through.
const THROUGH: u16 = 1 << 13;
/// What is left of a message that a trap has ended. It takes the way of one that was let through, so that its
/// receive fails in its turn. Its length says what the trap was.
const ENDED: u16 = INNER | THROUGH;

/// No module's.
const NO_GROUP: u16 = 0;

/// Counters that a module has.
pub const MODULE_COUNTERS: u32 = 8;
/// Faults that wait for somebody who receives what they ended. More are only counted.
const FAULTS_MAX: usize = 16;

/// The logarithm of the most messages that a module which always traps is kept from in one go.
const BARRED_LOG_MAX: u32 = 10;
/// Runs of modules, after something has happened, before the NIC looks what else has.
const RUNS_PER_TURN_MAX: u32 = 64;
/// Sizes of memory for messages of modules: these, and what the longest needs.
const OUTBOX_BYTES: [u64; OUTBOXES - 1] = [256, 4096];
const OUTBOXES: usize = 3;

/// Where a module runs: its rank in its group, and who the others are.
pub struct Placement {
    /// The rank that it runs at.
    pub rank: u32,
    /// How many ranks the group has.
    pub size: u32,
    /// The process behind a rank.
    pub peer_of: Box<dyn Fn(u32) -> Option<Peer> + Send>,
}

/// What a module has done.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ModuleStats {
    /// Messages that it ran for.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Those that it let through.
    pub delivered: u64,
    /// Those that it consumed.
    pub consumed: u64,
    /// Messages that it sent or forwarded.
    pub sent: u64,
    /// Those of them that will not arrive, since the receiver is gone.
    pub lost: u64,
    /// Messages that a trap ended.
    pub faults: u64,
    /// Times that it took no more messages, since too much of what it sent was on its way.
    pub stalls: u64,
    /// Fuel that it used.
    pub fuel: u64,
    /// The last trap, and the word of the message that it ended.
    pub last_fault: Option<(MatchWord, Trap)>,
}

/// The modules of a NIC.
pub(crate) struct Modules {
    loaded: Vec<Loaded>,
    /// What is to be run as soon as the NIC has nothing else to do.
    due: VecDeque<(u16, Due)>,
    /// Messages of modules that are on their way.
    kept: Slab<Kept>,
    /// Where the next message of a module is put: small, middling or long. It is free again as soon as the rail has it.
    outboxes: [Option<Span>; OUTBOXES],
    /// Runs until others get their turn.
    runs_left: u32,
    /// The payload of the message that a module runs for, if it has changed it or it was not in a frame.
    scratch: Vec<u8>,
}

struct Loaded {
    group: u16,
    /// Not here while it runs.
    module: Option<Box<dyn Module>>,
    placement: Placement,
    slot: Slot,
    /// Where messages land that do not come in one frame under credit.
    buffer: Span,
    counters: [Option<Counter>; MODULE_COUNTERS as usize],
    /// Messages that traps have ended and nobody has received.
    ended: usize,
    /// Runs, since the last that came to an end, that used all their fuel or time.
    streak: u32,
    /// Messages for which it does not run, since it would only trap again.
    barred: u32,
    /// Bytes of its messages that are on their way.
    kept_bytes: u64,
    /// Messages that it has let through and that wait for room.
    passing: u32,
    /// All but its fuel, which it counts itself.
    stats: ModuleStats,
    /// Fuel that its predecessors used.
    fuel_before: u64,
}

/// What the receive of a module is doing.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Slot {
    /// Posted. If it has not matched, nothing comes before the next message.
    Posted(Ticket),
    /// Over, and the module is about to run.
    Due,
    /// Not posted, since too much of what the module sent is on its way.
    Stalled,
}

/// Why a module is to be run.
#[derive(Clone, Copy, Debug)]
enum Due {
    Message(Outcome),
    Counter(u32),
}

/// A message of a module that is on its way.
struct Kept {
    group: u16,
    span: Span,
    /// It is one that the module has let through.
    passing: bool,
}

impl MatchWord {
    /// Whether a module is to see the message.
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

    /// Whether this is what is left of a message that a trap has ended.
    #[inline(always)]
    pub(crate) const fn is_ended(self) -> bool {
        self.bits() >> 61 == ((MODULE_GROUP | ENDED) >> 13) as u64
    }

    /// The word that a receive has to agree with.
    #[inline(always)]
    pub(crate) fn to_match(self) -> MatchWord {
        if self.is_ended() { self.outer() } else { self }
    }
}

impl Default for Modules {
    fn default() -> Modules {
        Modules {
            loaded: Vec::new(),
            due: VecDeque::new(),
            kept: Slab::new(),
            outboxes: [None; OUTBOXES],
            runs_left: RUNS_PER_TURN_MAX,
            scratch: Vec::new(),
        }
    }
}

impl Modules {
    /// Modules may run again.
    pub(crate) fn begin_turn(&mut self) {
        self.runs_left = RUNS_PER_TURN_MAX;
    }

    /// Whether modules may run any more before others get their turn.
    pub(crate) fn may_run(&self) -> bool {
        self.runs_left > 0
    }

    /// Messages of modules that are on their way.
    pub(crate) fn kept(&self) -> usize {
        self.kept.live()
    }

    #[inline(always)]
    pub(crate) fn is_idle(&self) -> bool {
        self.due.is_empty()
    }

    fn find(&self, group: u16) -> Option<usize> {
        self.loaded.iter().position(|loaded| loaded.group == group)
    }

    fn find_mut(&mut self, group: u16) -> Option<&mut Loaded> {
        self.loaded.iter_mut().find(|loaded| loaded.group == group)
    }

    /// How a receive ends that gets this message, and where the bytes go: nowhere, if a trap has ended it.
    #[inline(always)]
    pub(crate) fn outcome(&mut self, word: MatchWord, len: u64, into: Span) -> (Span, Outcome) {
        match word.is_ended() {
            true => (into.first(0), self.on_ended(word, len)),
            false => (into, outcome_of(word, len, into.len)),
        }
    }

    /// How a receive ends that has got what is left of a message.
    #[cold]
    pub(crate) fn on_ended(&mut self, word: MatchWord, len: u64) -> Outcome {
        let word = word.outer();
        if let Some(loaded) = self.find_mut(word.group()) {
            // Those that were there before the module was loaded are not among them.
            loaded.ended = loaded.ended.saturating_sub(1);
        }
        Outcome::Failed(Fault::Module { word, trap: Trap::from_code(len) })
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.loaded.capacity() * size_of::<Loaded>()
            + self.due.capacity() * size_of::<(u16, Due)>()
            + self.kept.heap_bytes()
            + self.scratch.capacity()
    }
}

impl<V: Variant> Nic<V> {
    /// From now on, messages of `group` go to `module`. Those that have come already go first.
    pub fn load(
        &mut self,
        group: u16,
        module: Box<dyn Module>,
        placement: Placement,
        port: &mut impl Port,
    ) {
        assert!(group & (MODULE_GROUP | INNER | THROUGH) == MODULE_GROUP, "a group for a module");
        assert!(self.modules.find(group).is_none(), "group {group:#x} has a module");
        let buffer = port.claim(self.limits.module_bytes_max.into());
        self.modules.loaded.push(Loaded {
            group,
            module: Some(module),
            placement,
            slot: Slot::Stalled,
            buffer,
            counters: [None; MODULE_COUNTERS as usize],
            ended: 0,
            streak: 0,
            barred: 0,
            kept_bytes: 0,
            passing: 0,
            stats: ModuleStats::default(),
            fuel_before: 0,
        });
        self.listen(group, port);
        self.settle(port);
    }

    /// Another module takes over, with what its predecessor has counted. Answers that one.
    pub fn replace(&mut self, group: u16, module: Box<dyn Module>) -> Option<Box<dyn Module>> {
        let loaded = self.modules.find_mut(group)?;
        (loaded.streak, loaded.barred) = (0, 0);
        let predecessor = loaded.module.replace(module);
        loaded.fuel_before += predecessor.as_ref().map_or(0, |module| module.fuel_used());
        predecessor
    }

    /// Takes a module out, with what waits for it and what it has let through and nobody has received. Messages
    /// that come later wait, as they do before it is loaded.
    pub fn unload(&mut self, group: u16, port: &mut impl Port) -> Option<Box<dyn Module>> {
        let at = self.modules.find(group)?;
        let loaded = self.modules.loaded.swap_remove(at);
        self.modules.due.retain(|&(other, _)| other != group);
        // What it sent is still on its way, and nobody counts it any more.
        let kept = self.modules.kept.iter_mut().filter(|kept| kept.group == group);
        kept.for_each(|kept| kept.group = NO_GROUP);
        match loaded.slot {
            Slot::Posted(ticket) => {
                // If it has matched, bytes may still land in its buffer.
                let kept = Kept { group: NO_GROUP, span: loaded.buffer, passing: false };
                let kept = self.modules.kept.claim(kept);
                self.op_mut(ticket).owner = Owner::Kept(kept);
                self.begin_cancel(ticket, port);
            }
            Slot::Due | Slot::Stalled => port.release(loaded.buffer),
        }
        for counter in loaded.counters.into_iter().flatten() {
            self.close_counter(counter, port);
        }
        self.discard(group, port);
        self.discard(group | INNER, port);
        self.settle(port);
        loaded.module
    }

    /// What a module has done.
    pub fn module_stats(&self, group: u16) -> Option<ModuleStats> {
        let loaded = &self.modules.loaded[self.modules.find(group)?];
        let fuel = loaded.module.as_ref().map_or(0, |module| module.fuel_used());
        Some(ModuleStats { fuel: loaded.fuel_before + fuel, ..loaded.stats })
    }

    /// A counter of a module, to wait for.
    pub fn module_counter(&mut self, group: u16, counter: u32) -> Option<Counter> {
        let at = self.modules.find(group)?;
        let place = self.modules.loaded[at].counters.get(counter as usize)?;
        Some(place.unwrap_or_else(|| {
            let opened = self.open_counter();
            self.modules.loaded[at].counters[counter as usize] = Some(opened);
            opened
        }))
    }

    /// A whole message has arrived that a module may have to see.
    #[inline(never)]
    pub(crate) fn on_called(&mut self, at: At, whole: Whole, payload: &[u8], port: &mut impl Port) {
        let Whole { word, secured, synchronous } = whole;
        let group = word.group();
        if group & THROUGH != 0 && self.peers[at].peer == self.me {
            let word = if word.is_ended() { word } else { word.outer() };
            return self.on_eager::<true, false>(at, Whole { word, ..whole }, payload, port);
        }
        if group & (INNER | THROUGH) != 0 {
            self.stats.malformed += 1;
            return;
        }
        let idle = self.modules.find(group).filter(|&found| self.is_listening(found));
        let early = V::BUG == Some(Bug::RunsAgain);
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
                self.reply(at, crate::envelope::Kind::Matched { ticket: sender }, port);
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

    /// The header of a message has arrived that a module may have to see: the word under which it is
    /// matched.
    #[cold]
    pub(crate) fn redirect(&mut self, at: At, offer: Offer) -> Option<Offer> {
        let group = offer.word.group();
        let word = match group & (INNER | THROUGH) {
            0 => offer.word.with_group(group | INNER),
            THROUGH if self.peers[at].peer == self.me => offer.word.outer(),
            ENDED if self.peers[at].peer == self.me => offer.word,
            _ => {
                self.stats.malformed += 1;
                return None;
            }
        };
        Some(Offer { word, ..offer })
    }

    /// Whether the module has nothing to do, nothing waits for it, and nothing that it has let through can
    /// be overtaken.
    fn is_listening(&self, at: usize) -> bool {
        let passed = self.modules.loaded[at].passing == 0 && self.loopback.is_empty();
        (passed || V::BUG == Some(Bug::PassingIgnored)) && self.is_waiting(at)
    }

    /// Whether its receive is posted and has not matched.
    fn is_waiting(&self, at: usize) -> bool {
        let Slot::Posted(ticket) = self.modules.loaded[at].slot else { return false };
        matches!(self.ops.find(ticket), Some(op) if matches!(op.state, State::Posted { .. }))
    }

    /// Posts the receive of a module that has none, unless too much of what it sent is on its way.
    fn listen(&mut self, group: u16, port: &mut impl Port) {
        let kept_bytes_max = self.limits.module_kept_bytes_max;
        let Some(loaded) = self.modules.find_mut(group) else { return };
        if loaded.kept_bytes > u64::from(kept_bytes_max) {
            loaded.stats.stalls += u64::from(loaded.slot != Slot::Stalled);
            loaded.slot = Slot::Stalled;
            return;
        }
        let (buffer, word) = (loaded.buffer, MatchWord::new(group | INNER, 0, 0));
        let owner = Owner::Module(group);
        let slot = match self.begin_receive(owner, None, word, Mask::ANY_BOTH, buffer, port) {
            Posted::Pending(ticket) => Slot::Posted(ticket),
            Posted::Done(outcome) => {
                self.modules.due.push_back((group, Due::Message(outcome)));
                Slot::Due
            }
        };
        if let Some(loaded) = self.modules.find_mut(group) {
            loaded.slot = slot;
        }
    }

    /// The receive of a module is over.
    pub(crate) fn on_module_received(&mut self, group: u16, outcome: Outcome) {
        if let Some(loaded) = self.modules.find_mut(group) {
            loaded.slot = Slot::Due;
            self.modules.due.push_back((group, Due::Message(outcome)));
        }
    }

    /// A counter has reached what a module armed it for.
    pub(crate) fn on_module_counter(&mut self, group: u16, counter: u32) {
        self.modules.due.push_back((group, Due::Counter(counter)));
    }

    /// Runs a module whose time has come. False if there is none.
    pub(crate) fn run_due(&mut self, port: &mut impl Port) -> bool {
        let Some((group, due)) = self.modules.due.pop_front() else { return false };
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
            // Its sender died under way.
            Due::Message(_) => self.listen(group, port),
        }
        true
    }

    /// Runs a module for a message that has landed in its buffer.
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

    /// Runs a module for a message, and says whether it has changed it: then it is in `scratch`.
    #[inline]
    fn run(
        &mut self,
        at: usize,
        word: MatchWord,
        payload: &[u8],
        scratch: &mut Vec<u8>,
        port: &mut impl Port,
    ) -> (Result<Verdict, Trap>, bool) {
        self.modules.runs_left = self.modules.runs_left.saturating_sub(1);
        if payload.len() > self.limits.module_bytes_max as usize {
            return (Err(Trap::Length), false);
        }
        let loaded = &mut self.modules.loaded[at];
        if loaded.barred > 0 {
            loaded.barred -= 1;
            return (Err(Trap::Barred), false);
        }
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
        let verdict = module.on_message(&mut running);
        let Running { changed, sent, .. } = running;
        let loaded = &mut self.modules.loaded[at];
        loaded.module = Some(module);
        let stats = &mut loaded.stats;
        stats.messages += 1;
        stats.bytes += payload.len() as u64;
        stats.sent += u64::from(sent);
        match verdict {
            Ok(Verdict::Deliver) => stats.delivered += 1,
            Ok(Verdict::Consume) => stats.consumed += 1,
            // Other traps take no time that others would miss.
            Err(trap) => {
                loaded.streak += u32::from(matches!(trap, Trap::Fuel | Trap::Time));
                loaded.barred = barred_for(loaded.streak, self.limits.module_traps_max);
                return (verdict, changed);
            }
        }
        loaded.streak = 0;
        (verdict, changed)
    }

    fn run_counter(&mut self, at: usize, group: u16, counter: u32, port: &mut impl Port) {
        self.modules.runs_left = self.modules.runs_left.saturating_sub(1);
        let loaded = &mut self.modules.loaded[at];
        let mut module = loaded.module.take().expect("a module does not run twice at once");
        let (rank, size) = (loaded.placement.rank, loaded.placement.size);
        let word = MatchWord::new(group, rank, 0);
        let mut scratch = Vec::new();
        let mut running = Running {
            nic: self,
            port,
            at,
            rank,
            size,
            word,
            payload: &[],
            scratch: &mut scratch,
            changed: false,
            sent: 0,
        };
        let ended = module.on_counter(counter, &mut running);
        let sent = running.sent;
        let loaded = &mut self.modules.loaded[at];
        loaded.module = Some(module);
        loaded.stats.sent += u64::from(sent);
        if let Err(trap) = ended {
            self.note_fault(group, word, trap);
        }
        self.stall_if_full(group, port);
    }

    fn note_fault(&mut self, group: u16, word: MatchWord, trap: Trap) {
        if let Some(loaded) = self.modules.find_mut(group) {
            loaded.stats.faults += 1;
            loaded.stats.last_fault = Some((word, trap));
        }
    }

    /// A trap has ended a message. Whoever receives it, or would have received it, gets the fault.
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

    /// Takes back the receive of a module if too much of what it sent is on its way.
    fn stall_if_full(&mut self, group: u16, port: &mut impl Port) {
        let kept_bytes_max = self.limits.module_kept_bytes_max;
        let Some(at) = self.modules.find(group) else { return };
        let loaded = &self.modules.loaded[at];
        if loaded.kept_bytes <= u64::from(kept_bytes_max) || !self.is_waiting(at) {
            return;
        }
        if let Slot::Posted(ticket) = self.modules.loaded[at].slot {
            self.modules.loaded[at].slot = Slot::Stalled;
            self.modules.loaded[at].stats.stalls += 1;
            self.op_mut(ticket).owner = Owner::Nobody;
            self.begin_cancel(ticket, port);
        }
    }

    /// Sends bytes that a module has no room for beyond this call.
    fn send_kept(
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
        let kept = self.modules.kept.claim(Kept { group, span: outbox, passing });
        let owner = Owner::Kept(kept);
        match self.begin_send(owner, to, word, outbox.first(len), Mode::Standard, port) {
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

    /// The memory of something kept is free again.
    pub(crate) fn on_kept(&mut self, kept: Ticket, outcome: Outcome, port: &mut impl Port) {
        let Some(Kept { group, span, passing }) = self.modules.kept.release(kept) else { return };
        match &mut self.modules.outboxes[class_of(span.len)] {
            empty @ None => *empty = Some(span),
            Some(_) => port.release(span),
        }
        self.note_sent(group, outcome);
        let Some(loaded) = self.modules.find_mut(group) else { return };
        loaded.kept_bytes -= span.len;
        loaded.passing -= u32::from(passing);
        if loaded.slot == Slot::Stalled {
            self.listen(group, port);
        }
    }
}

/// For how many messages a module does not run that has used all its fuel or time so often in a row. That is
/// time that others do not get: so it costs less and less, and a module
/// that has come to its senses is soon found out.
fn barred_for(streak: u32, traps_max: u32) -> u32 {
    match streak.checked_sub(traps_max) {
        None => 0,
        Some(more) => 1 << more.min(BARRED_LOG_MAX),
    }
}

/// Which outbox a message goes to.
fn class_of(len: u64) -> usize {
    OUTBOX_BYTES.iter().position(|&bytes| len <= bytes).unwrap_or(OUTBOX_BYTES.len())
}

/// A module that runs, and what it can reach.
struct Running<'a, V: Variant, P: Port> {
    nic: &'a mut Nic<V>,
    port: &'a mut P,
    at: usize,
    rank: u32,
    size: u32,
    word: MatchWord,
    payload: &'a [u8],
    scratch: &'a mut Vec<u8>,
    changed: bool,
    sent: u32,
}

impl<V: Variant, P: Port> Running<'_, V, P> {
    fn may_send(&mut self, to: u32, len: usize) -> Result<Peer, Trap> {
        let limits = &self.nic.limits;
        if self.sent >= limits.module_sends_max {
            return Err(Trap::Sends);
        }
        if len > limits.module_bytes_max as usize {
            return Err(Trap::Length);
        }
        let peer =
            (to < self.size).then(|| (self.nic.modules.loaded[self.at].placement.peer_of)(to));
        let peer = peer.flatten().ok_or(Trap::Rank)?;
        self.sent += 1;
        Ok(peer)
    }

    fn counter(&mut self, counter: u32) -> Result<Counter, Trap> {
        let group = self.word.group();
        self.nic.module_counter(group, counter).ok_or(Trap::Counter)
    }
}

impl<V: Variant, P: Port> Hook for Running<'_, V, P> {
    fn message(&self) -> Message<'_> {
        Message {
            rank: self.rank,
            size: self.size,
            sender: self.word.source(),
            tag: self.word.tag(),
            payload: if self.changed { self.scratch } else { self.payload },
        }
    }

    fn payload_mut(&mut self) -> &mut [u8] {
        if !self.changed {
            self.scratch.clear();
            self.scratch.extend_from_slice(self.payload);
            self.changed = true;
        }
        self.scratch
    }

    fn forward(&mut self, to: u32) -> Result<(), Trap> {
        let len = self.payload().len();
        let peer = self.may_send(to, len)?;
        let Running { nic, port, word, changed, scratch, payload, .. } = self;
        let bytes = if *changed { scratch } else { *payload };
        nic.send_kept(word.group(), peer, *word, bytes, *port);
        if V::BUG == Some(Bug::ForwardedTwice) {
            nic.send_kept(word.group(), peer, *word, bytes, *port);
        }
        Ok(())
    }

    fn send(&mut self, to: u32, tag: u32, bytes: &[u8]) -> Result<(), Trap> {
        if tag > MatchWord::TAG_MAX {
            return Err(Trap::Tag);
        }
        let peer = self.may_send(to, bytes.len())?;
        let group = self.word.group();
        self.nic.send_kept(group, peer, MatchWord::new(group, self.rank, tag), bytes, self.port);
        Ok(())
    }

    fn raise(&mut self, counter: u32, by: u64) -> Result<(), Trap> {
        let counter = self.counter(counter)?;
        self.nic.raise_counter(counter.0, by, self.port);
        Ok(())
    }

    fn arm(&mut self, counter: u32, at_least: u64) -> Result<(), Trap> {
        let (group, opened) = (self.word.group(), self.counter(counter)?);
        let action = Action::Module { group, counter };
        if self.nic.counters.set(opened, at_least, action).is_some() {
            self.nic.on_module_counter(group, counter);
        }
        Ok(())
    }

    fn now(&self) -> u64 {
        self.port.clock().0
    }
}
