//! The modules of a NIC: loading, replacing, unloading, and their state.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::ops::{Deref, DerefMut};

use super::outbox::{NO_GROUP, OUTBOXES, SentByModule};
use super::{INNER, MODULE_GROUP, RUNS_PER_TURN_MAX, THROUGH};
use crate::counter::Counter;
use crate::module::{Module, Trap};
use crate::nic::{Nic, Variant};
use crate::op::Owner;
use crate::port::Port;
use crate::slab::Slab;
use crate::types::{Outcome, Peer, Span, Ticket};
use crate::word::MatchWord;

/// Number of counters of a module.
pub const MODULE_COUNTERS: u32 = 8;

/// Where a module runs: its rank in its group, and the processes of the others.
pub struct Placement {
    /// The rank that the module runs at.
    pub rank: u32,
    /// The size of the group.
    pub size: u32,
    /// The process of a rank.
    pub peer_of: Box<dyn Fn(u32) -> Option<Peer> + Send>,
}

/// Counters of what a module has done.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ModuleStats {
    /// Messages that it ran for.
    pub messages: u64,
    /// Bytes of those messages.
    pub bytes: u64,
    /// Messages that it let through.
    pub delivered: u64,
    /// Messages that it consumed.
    pub consumed: u64,
    /// Messages that it sent or forwarded.
    pub sent: u64,
    /// Sent messages that will not arrive, because the receiver is gone.
    pub lost: u64,
    /// Messages that a trap ended.
    pub faults: u64,
    /// Times that it stopped taking messages, because too much of what it sent was in flight.
    pub stalls: u64,
    /// Fuel used.
    pub fuel: u64,
    /// The last trap, and the match word of the message that it ended.
    pub last_fault: Option<(MatchWord, Trap)>,
}

/// The modules of a NIC. Most NICs have none, and allocate nothing.
#[derive(Default)]
pub(crate) struct Modules {
    table: Option<Box<Table>>,
    /// Whether a module may be due. Checked at each event, even without modules.
    awaited: bool,
}

/// The state that exists once a module has been loaded.
pub(crate) struct Table {
    pub(super) loaded: Vec<Loaded>,
    /// Modules to run as soon as the NIC has nothing else to do.
    pub(super) due: VecDeque<(u16, Due)>,
    /// Messages of modules in flight.
    pub(super) kept: Slab<SentByModule>,
    /// Buffers for the next message of a module: small, medium and long. Each is free again as soon as the rail
    /// has the message.
    pub(super) outboxes: [Option<Span>; OUTBOXES],
    /// Messages under credit that modules have let through and that have not come back to us.
    pub(super) on_rail: u32,
    /// Module runs left in this turn.
    pub(super) runs_left: u32,
    /// The payload of the current message, once the module has changed it.
    pub(super) scratch: Vec<u8>,
}

/// A module, and what the NIC knows of it.
pub(super) struct Loaded {
    pub(super) group: u16,
    /// `None` while the module runs.
    pub(super) module: Option<Box<dyn Module>>,
    pub(super) placement: Placement,
    pub(super) slot: ModuleReceive,
    /// Where messages land that do not come in one frame under credit.
    pub(super) buffer: Span,
    pub(super) counters: [Option<Counter>; MODULE_COUNTERS as usize],
    /// Messages that traps have ended and no receive has got yet.
    pub(super) ended: usize,
    /// Consecutive runs that used up fuel, time, stack or sends.
    pub(super) streak: u32,
    /// Messages for which it does not run, because it would probably trap again.
    pub(super) barred: u32,
    /// Bytes of its messages in flight.
    pub(super) kept_bytes: u64,
    /// Messages that it has let through and that wait for room.
    pub(super) passing: u32,
    /// All counters but the fuel, which the module counts.
    pub(super) stats: ModuleStats,
    /// Fuel used by its predecessors.
    pub(super) fuel_before: u64,
}

/// The state of a module's receive.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum ModuleReceive {
    /// Posted. While it has not matched, no message waits for the module.
    Posted(Ticket),
    /// About to be posted, or complete and the module about to run.
    Due,
    /// Not posted, because too much of what the module sent is in flight.
    Stalled,
}

/// Why a module is to run.
#[derive(Clone, Copy, Debug)]
pub(super) enum Due {
    Message(Outcome),
    Counter(u32),
}

impl Default for Table {
    fn default() -> Table {
        Table {
            loaded: Vec::new(),
            due: VecDeque::new(),
            kept: Slab::new(),
            outboxes: [None; OUTBOXES],
            on_rail: 0,
            runs_left: RUNS_PER_TURN_MAX,
            scratch: Vec::new(),
        }
    }
}

impl Modules {
    /// Begins a turn: modules may run again.
    pub(crate) fn begin_turn(&mut self) {
        if let Some(table) = &mut self.table {
            table.runs_left = RUNS_PER_TURN_MAX;
        }
    }

    /// Whether modules may still run in this turn.
    pub(crate) fn may_run(&self) -> bool {
        self.table.as_ref().is_none_or(|table| table.runs_left > 0)
    }

    /// A message that a module has let through has come back to us.
    pub(super) fn on_back(&mut self, secured: bool) {
        if let Some(table) = &mut self.table {
            table.on_rail = table.on_rail.saturating_sub(u32::from(secured));
        }
    }

    /// Messages of modules in flight.
    pub(crate) fn kept(&self) -> usize {
        self.table.as_ref().map_or(0, |table| table.kept.live())
    }

    #[inline(always)]
    pub(crate) fn is_idle(&self) -> bool {
        !self.awaited
    }

    /// Makes a module due.
    pub(super) fn push_due(&mut self, group: u16, due: Due) {
        self.awaited = true;
        self.deref_mut().due.push_back((group, due));
    }

    /// The next module to run.
    pub(super) fn next_due(&mut self) -> Option<(u16, Due)> {
        let due = &mut self.table.as_mut()?.due;
        let next = due.pop_front();
        self.awaited = !due.is_empty();
        next
    }

    pub(super) fn find(&self, group: u16) -> Option<usize> {
        self.table.as_ref()?.loaded.iter().position(|loaded| loaded.group == group)
    }

    pub(super) fn find_mut(&mut self, group: u16) -> Option<&mut Loaded> {
        self.table.as_mut()?.loaded.iter_mut().find(|loaded| loaded.group == group)
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.table.as_ref().map_or(0, |table| {
            size_of::<Table>()
                + table.loaded.capacity() * size_of::<Loaded>()
                + table.due.capacity() * size_of::<(u16, Due)>()
                + table.kept.heap_bytes()
                + table.scratch.capacity()
        })
    }
}

/// A caller that has found a module, or something left by one, knows that there is a table.
impl Deref for Modules {
    type Target = Table;

    #[inline]
    fn deref(&self) -> &Table {
        self.table.as_ref().expect("a module has been loaded")
    }
}

impl DerefMut for Modules {
    #[inline]
    fn deref_mut(&mut self) -> &mut Table {
        self.table.as_mut().expect("a module has been loaded")
    }
}

impl<V: Variant> Nic<V> {
    /// Loads `module`: messages of `group` go to it, those that have already arrived first.
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
        self.modules.table.get_or_insert_default().loaded.push(Loaded {
            group,
            module: Some(module),
            placement,
            slot: ModuleReceive::Stalled,
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

    /// Replaces a module, keeping its counters; returns the predecessor.
    pub fn replace(&mut self, group: u16, module: Box<dyn Module>) -> Option<Box<dyn Module>> {
        let loaded = self.modules.find_mut(group)?;
        (loaded.streak, loaded.barred) = (0, 0);
        let predecessor = loaded.module.replace(module);
        loaded.fuel_before += predecessor.as_ref().map_or(0, |module| module.fuel_used());
        predecessor
    }

    /// Unloads a module, and drops the messages that wait for it and those that it has let through and no receive
    /// has got. Later messages wait, as before it was loaded.
    pub fn unload(&mut self, group: u16, port: &mut impl Port) -> Option<Box<dyn Module>> {
        let at = self.modules.find(group)?;
        let loaded = self.modules.loaded.swap_remove(at);
        self.modules.due.retain(|&(other, _)| other != group);
        // What it sent is still in flight, and is no longer counted.
        let kept = self.modules.kept.iter_mut().filter(|kept| kept.group == group);
        kept.for_each(|kept| kept.group = NO_GROUP);
        match loaded.slot {
            ModuleReceive::Posted(ticket) => {
                // If the receive has matched, bytes may still land in the buffer.
                let kept = SentByModule { group: NO_GROUP, span: loaded.buffer, passing: false };
                let kept = self.modules.kept.claim(kept);
                self.op_mut(ticket).owner = Owner::Kept(kept);
                self.begin_cancel(ticket, port);
            }
            ModuleReceive::Due | ModuleReceive::Stalled => port.release(loaded.buffer),
        }
        for counter in loaded.counters.into_iter().flatten() {
            self.close_counter(counter, port);
        }
        self.discard(group, port);
        self.discard(group | INNER, port);
        self.settle(port);
        loaded.module
    }

    /// The counters of a module.
    pub fn module_stats(&self, group: u16) -> Option<ModuleStats> {
        let at = self.modules.find(group)?;
        let loaded = &self.modules.loaded[at];
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
}
