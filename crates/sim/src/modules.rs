//! Modules in a soak: what they do with each message, and what they have seen.
//!
//! A message of the modules' group has an errand: a route of ranks whose modules forward it, and what the last of them
//! does with it. Its first bytes hold its number and how far it has come; the rest of the errand is in the plan. So
//! whatever happens to it can be compared with the plan.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use ferrywire_nic::{
    Hook, Limits, MODULE_GROUP, MatchWord, Mode, Module, ModuleStats, Nic, Peer, Placement, Trap,
    Variant, Verdict,
};

use crate::port::SimPort;
use crate::random::Random;
use crate::script::{LONGEST, Message, Ranks, ranks};

/// All errands of a seed.
#[derive(Debug)]
pub struct Errands {
    /// The group of the modules.
    pub group: u16,
    size: u32,
    messages: BTreeMap<u64, (Message, Errand)>,
}

/// What modules do with a message.
#[derive(Clone, Debug)]
pub struct Errand {
    /// The ranks whose modules see it, in order.
    pub route: Vec<u32>,
    /// What the last of them does with it.
    action: ModuleAction,
    /// The message for which a module sends this one. None if the application sends it.
    pub cause: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
enum ModuleAction {
    Deliver,
    Change,
    Consume,
    /// Raises a counter and consumes the message.
    Raise {
        counter: u32,
        by: u64,
    },
    /// Tries to send `count` messages, of which the first `sent`, numbered from `first` on, are allowed; then delivers
    /// or consumes this one.
    Send {
        first: u64,
        sent: u64,
        count: u64,
        deliver: bool,
    },
    /// Arms a counter; the call for it sends another message. Consumes this one.
    Call {
        message: u64,
    },
    Trap(Trap),
    /// The message is too long for modules: none sees it.
    TooLong,
}

/// What the application learns of a message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fate {
    /// It is received.
    Delivered,
    /// The application learns nothing.
    Consumed,
    /// A receive fails.
    Ended(Trap),
}

impl Errands {
    /// Plans errands for messages numbered from `first` on.
    ///
    /// If modules may keep little, they depend on those of higher ranks only. In a cycle, each could wait for the next
    /// to take what it sends, as blocking sends can.
    pub fn plan(
        size: u32,
        first: u64,
        group: u16,
        limits: &Limits,
        random: &mut Random,
    ) -> (Vec<Message>, Errands) {
        let mut planner = Planner {
            size,
            group: MODULE_GROUP | group,
            pairs: random.pick(&[2, size, size]),
            hops: random.pick(&[[0; 6], [0, 0, 0, 1, 2, 4], [0, 0, 0, 1, 2, 4]]),
            actions: random.pick(&[7, 7, 50]),
            upward: limits.module_kept_bytes_max != u32::MAX,
            module_bytes_max: limits.module_bytes_max.into(),
            module_sends_max: limits.module_sends_max.into(),
            longest: random.pick(&[64, 3000, LONGEST]),
            next: first,
            traps: BTreeMap::new(),
            trapped_words: BTreeSet::new(),
            messages: BTreeMap::new(),
        };
        for _ in 0..random.between(1, 10) * u64::from(size).min(16) {
            planner.add(random);
        }
        let messages = planner.messages.values().map(|&(message, _)| message).collect();
        let errands = Errands { group: planner.group, size, messages: planner.messages };
        (messages, errands)
    }

    /// The errand of a message of the modules' group.
    pub fn errand(&self, id: u64) -> &Errand {
        &self.messages[&id].1
    }

    /// What the application learns of a message.
    pub fn fate(&self, id: u64) -> Fate {
        match self.errand(id).action {
            ModuleAction::Trap(trap) => Fate::Ended(trap),
            ModuleAction::TooLong => Fate::Ended(Trap::Length),
            ModuleAction::Send { sent, count, .. } if sent < count => Fate::Ended(Trap::Sends),
            ModuleAction::Deliver
            | ModuleAction::Change
            | ModuleAction::Send { deliver: true, .. } => Fate::Delivered,
            ModuleAction::Consume
            | ModuleAction::Raise { .. }
            | ModuleAction::Send { .. }
            | ModuleAction::Call { .. } => Fate::Consumed,
        }
    }

    /// The message to rank `target` that this fault has ended.
    pub fn ended(&self, target: u32, word: MatchWord, trap: Trap) -> Option<&Message> {
        let mut messages = self.messages.values().map(|(message, _)| message);
        messages.find(|message| {
            let here = message.word() == word && message.target == target;
            here && self.fate(message.id) == Fate::Ended(trap)
        })
    }

    /// The bytes of a message as the application receives them.
    pub fn delivered_bytes(&self, message: &Message) -> Vec<u8> {
        let Errand { route, action, .. } = self.errand(message.id);
        let mut bytes = bytes_at(message, route.len() - 1);
        if matches!(action, ModuleAction::Change) {
            change(&mut bytes);
        }
        bytes
    }

    /// Loads the module of rank `me`.
    pub fn load<V: Variant>(
        self: &Arc<Errands>,
        me: u32,
        log: &Arc<Mutex<Log>>,
        nic: &mut Nic<V>,
        port: &mut SimPort,
    ) {
        let courier =
            Courier { errands: Arc::clone(self), log: Arc::clone(log), calls: VecDeque::new() };
        let peer_of = Box::new(|rank| Some(Peer(rank)));
        let placement = Placement { rank: me, size: self.size, peer_of };
        nic.load(self.group, Box::new(courier), placement, port);
    }

    /// Compares what modules have seen with the plan. If no rank died, each module on the route of a message sees it
    /// once; otherwise at most once.
    pub fn check_seen(&self, logs: &[Log], dead: Ranks, violations: &mut Vec<String>) {
        for (message, Errand { route, action, .. }) in self.messages.values() {
            for (hop, &rank) in route.iter().enumerate() {
                let seen = &logs[rank as usize].seen;
                let times = seen.get(&(message.id, hop)).copied().unwrap_or(0);
                let wanted = u32::from(!matches!(action, ModuleAction::TooLong));
                if times > wanted || times < wanted && message.needs & dead == 0 {
                    violations.push(format!(
                        "the module of rank {rank} has seen message {} {times} times at hop {hop}",
                        message.id
                    ));
                }
            }
        }
    }

    /// Compares the NIC's statistics of a module with the module's own log.
    pub fn check_stats(
        &self,
        rank: u32,
        log: &Log,
        stats: &ModuleStats,
        dead: Ranks,
    ) -> Option<String> {
        let runs = log.seen.values().map(|&times| u64::from(times)).sum();
        let lost = if dead == 0 { 0 } else { stats.lost };
        let known = [runs, log.moved, lost];
        let found = [stats.messages, stats.sent, stats.lost];
        let too_long = self.messages.values().filter(|(message, errand)| {
            message.target == rank
                && message.needs & dead == 0
                && matches!(errand.action, ModuleAction::TooLong)
        });
        let traps = log.traps + too_long.count() as u64;
        let right = found == known && (stats.faults == traps || dead != 0 && stats.faults > traps);
        (!right).then(|| format!("its module has done {known:?} and {traps} traps, not {stats:?}"))
    }
}

/// What the module of one rank has seen and done.
#[derive(Clone, Debug, Default)]
pub struct Log {
    /// How often the module ran for a message, and at which hop of its route.
    pub seen: BTreeMap<(u64, usize), u32>,
    /// Messages that it sent in its own name, in order.
    pub sent: Vec<u64>,
    /// Messages that it sent or forwarded.
    pub moved: u64,
    /// How often it trapped.
    pub traps: u64,
    /// Expected values of its counters.
    pub raised: [u64; ferrywire_nic::MODULE_COUNTERS as usize],
    /// What went wrong.
    pub complaints: Vec<String>,
}

/// The module of every rank.
struct Courier {
    errands: Arc<Errands>,
    log: Arc<Mutex<Log>>,
    /// Messages to send when it is called by [`CALLS`], in order.
    calls: VecDeque<u64>,
}

/// The counter that calls modules. Its value is the number of calls so far.
const CALLS: u32 = 7;

impl Module for Courier {
    fn on_message(&mut self, hook: &mut dyn Hook) -> Result<Verdict, Trap> {
        let log = Arc::clone(&self.log);
        let log = &mut *log.lock().unwrap_or_else(PoisonError::into_inner);
        let verdict = self.run(hook, log);
        log.traps += u64::from(verdict.is_err());
        verdict
    }

    fn on_counter(&mut self, counter: u32, hook: &mut dyn Hook) -> Result<(), Trap> {
        let log = Arc::clone(&self.log);
        let log = &mut *log.lock().unwrap_or_else(PoisonError::into_inner);
        match self.calls.pop_front() {
            Some(message) if counter == CALLS => self.send(message, hook, log),
            _ => {
                log.complaints.push(format!("counter {counter} calls and nobody has asked it to"));
                Ok(())
            }
        }
    }

    fn fuel_used(&self) -> u64 {
        0
    }
}

impl Courier {
    fn run(&mut self, hook: &mut dyn Hook, log: &mut Log) -> Result<Verdict, Trap> {
        let errands = Arc::clone(&self.errands);
        let head = hook.payload().first_chunk().map_or(u64::MAX, |head| u64::from_le_bytes(*head));
        let (id, hop) = (id_of(head), (head >> HOP_AT) as usize);
        let Some((message, errand)) = errands.messages.get(&id) else {
            log.complaints.push("a module runs for what nobody sent".into());
            return Ok(Verdict::Consume);
        };
        *log.seen.entry((id, hop)).or_default() += 1;
        let right = errand.route.get(hop) == Some(&hook.rank())
            && hook.sender() == message.source
            && hook.tag() == message.tag
            && hook.payload() == bytes_at(message, hop);
        if !right {
            log.complaints.push(format!("a module has seen {message:?} wrong at hop {hop}"));
        }
        if let Some(&next) = errand.route.get(hop + 1) {
            hook.payload_mut()[..8].copy_from_slice(&head_of(id, hop + 1));
            log.moved += 1;
            hook.forward(next)?;
            return Ok(Verdict::Consume);
        }
        match errand.action {
            ModuleAction::Deliver | ModuleAction::TooLong => Ok(Verdict::Deliver),
            ModuleAction::Consume => Ok(Verdict::Consume),
            ModuleAction::Change => {
                change(hook.payload_mut());
                Ok(Verdict::Deliver)
            }
            ModuleAction::Raise { counter, by } => {
                log.raised[counter as usize] += by;
                hook.raise(counter, by)?;
                Ok(Verdict::Consume)
            }
            ModuleAction::Send { first, sent, count, deliver } => {
                for message in first..first + sent {
                    self.send(message, hook, log)?;
                }
                if sent < count {
                    hook.send(0, 0, &[])?;
                }
                Ok(if deliver { Verdict::Deliver } else { Verdict::Consume })
            }
            ModuleAction::Call { message } => {
                self.calls.push_back(message);
                log.raised[CALLS as usize] += 1;
                let times = log.raised[CALLS as usize];
                // The result is the same whether the counter has its value already or not.
                if id.is_multiple_of(2) {
                    hook.raise(CALLS, 1)?;
                    hook.arm(CALLS, times)?;
                } else {
                    hook.arm(CALLS, times)?;
                    hook.raise(CALLS, 1)?;
                }
                Ok(Verdict::Consume)
            }
            ModuleAction::Trap(Trap::Rank) => hook.forward(hook.size()).map(|()| Verdict::Consume),
            ModuleAction::Trap(trap) => Err(trap),
        }
    }

    fn send(&self, id: u64, hook: &mut dyn Hook, log: &mut Log) -> Result<(), Trap> {
        let (message, errand) = &self.errands.messages[&id];
        log.sent.push(id);
        log.moved += 1;
        hook.send(errand.route[0], message.tag, &bytes_at(message, 0))
    }
}

/// Plans messages and their errands.
struct Planner {
    size: u32,
    group: u16,
    /// Applications send among the first ranks only.
    pairs: u32,
    /// Choices for the number of further hops.
    hops: [u32; 6],
    /// The higher, the more messages are just delivered.
    actions: u64,
    /// Whether modules depend on those of higher ranks only.
    upward: bool,
    module_bytes_max: u64,
    module_sends_max: u64,
    longest: u64,
    next: u64,
    /// Messages ended by traps, by rank: the NIC keeps the faults of so many.
    traps: BTreeMap<u32, u32>,
    /// Source, target and tag of those.
    trapped_words: BTreeSet<(u32, u32, u32)>,
    messages: BTreeMap<u64, (Message, Errand)>,
}

impl Planner {
    /// A message that an application sends.
    fn add(&mut self, random: &mut Random) {
        let source = random.small(0, self.pairs - 1);
        let id = self.claim();
        let mut len = self.len(random);
        let first = random.small(0, self.pairs - 1);
        let mut route = vec![first];
        let mut action = ModuleAction::TooLong;
        if len <= self.module_bytes_max {
            self.lengthen(&mut route, random);
            action = self.action(id, source, &route, random);
        } else if !self.may_trap(first) {
            (len, action) = (self.module_bytes_max, ModuleAction::Deliver);
        }
        let mode = random.pick(&[Mode::Standard, Mode::Standard, Mode::Synchronous, Mode::Ready]);
        self.keep(Message { id, len, mode, ..self.blank(source) }, route, action, None, random);
    }

    /// Plans what the module at the end of a route does, and the messages that it sends.
    fn action(&mut self, id: u64, source: u32, route: &[u32], random: &mut Random) -> ModuleAction {
        let at = route[route.len() - 1];
        let can_send = !self.upward || at + 1 < self.size;
        let needs = ranks([source]) | ranks(route.iter().copied());
        match random.below(10) {
            0 if self.may_trap(at) => {
                ModuleAction::Trap(random.pick(&[Trap::Unreachable, Trap::Rank]))
            }
            1 | 2 if can_send => {
                let most = random.pick(&[1, 1, 4]);
                let sent = random.between(1, most).min(self.module_sends_max);
                let over = sent == self.module_sends_max && random.percent(30) && self.may_trap(at);
                let first = self.next;
                let to = (!self.upward || source > at).then_some(source);
                for _ in 0..sent {
                    self.add_caused(id, at, to.filter(|_| random.percent(50)), needs, random);
                }
                let deliver = random.percent(50);
                ModuleAction::Send { first, sent, count: sent + u64::from(over), deliver }
            }
            3 if can_send => {
                let message = self.next;
                self.add_caused(id, at, None, needs, random);
                ModuleAction::Call { message }
            }
            _ => self.last_deed(random),
        }
    }

    fn last_deed(&self, random: &mut Random) -> ModuleAction {
        match random.below(self.actions) {
            0 => ModuleAction::Consume,
            1 | 2 => ModuleAction::Raise { counter: random.small(0, 3), by: random.between(1, 9) },
            3 | 4 => ModuleAction::Change,
            _ => ModuleAction::Deliver,
        }
    }

    /// A message that the module at `source` sends for another one.
    fn add_caused(
        &mut self,
        cause: u64,
        source: u32,
        to: Option<u32>,
        needs: Ranks,
        random: &mut Random,
    ) {
        let id = self.claim();
        let first = to.unwrap_or_else(|| self.after(source, random));
        let mut route = vec![first];
        if to.is_none() {
            self.lengthen(&mut route, random);
        }
        let action = self.last_deed(random);
        let len = self.len(random).min(self.module_bytes_max);
        let message = Message { id, len, needs, ..self.blank(source) };
        self.keep(message, route, action, Some(cause), random);
    }

    fn keep(
        &mut self,
        message: Message,
        route: Vec<u32>,
        action: ModuleAction,
        cause: Option<u64>,
        random: &mut Random,
    ) {
        let Message { id, source, .. } = message;
        let target = route[route.len() - 1];
        let trapped = match action {
            ModuleAction::Trap(_) | ModuleAction::TooLong => true,
            ModuleAction::Send { sent, count, .. } => sent < count,
            _ => false,
        };
        let mut tag = random.small(0, 2);
        // A fault has nothing but the match word, so there is at most one for each word and rank.
        if trapped && !self.trapped_words.insert((source, target, tag)) {
            tag = 1000 + u32::try_from(id).expect("few messages");
        }
        let message = Message {
            target,
            tag,
            needs: message.needs | ranks([source]) | ranks(route.iter().copied()),
            ..message
        };
        self.messages.insert(id, (message, Errand { route, action, cause }));
    }

    fn blank(&self, source: u32) -> Message {
        let (group, mode) = (self.group, Mode::Standard);
        Message { id: 0, source, target: 0, group, tag: 0, len: 0, mode, needs: 0 }
    }

    fn claim(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    fn len(&self, random: &mut Random) -> u64 {
        match random.below(4) {
            0 => random.between(8, 40),
            1 => random.between(8, 300),
            2 => random.between(8, self.longest),
            _ => random.between(8, self.longest.min(self.module_bytes_max + 2)),
        }
    }

    /// Extends a route by some hops.
    fn lengthen(&self, route: &mut Vec<u32>, random: &mut Random) {
        for _ in 0..random.pick(&self.hops) {
            let at = route[route.len() - 1];
            if self.upward && at + 1 == self.size {
                return;
            }
            route.push(self.after(at, random));
        }
    }

    /// A rank that the module at `at` may send to.
    fn after(&self, at: u32, random: &mut Random) -> u32 {
        random.small(if self.upward { at + 1 } else { 0 }, self.size - 1)
    }

    fn may_trap(&mut self, at: u32) -> bool {
        let traps = self.traps.entry(at).or_default();
        *traps += 1;
        *traps <= TRAPS_MAX
    }
}

/// The most traps at one rank: the NIC keeps the faults of so many until a receive asks for them.
const TRAPS_MAX: u32 = 16;

/// Bit position of the hop count in the first bytes of a message.
const HOP_AT: u32 = 56;

/// The number of the message with these first bytes.
pub fn id_of(head: u64) -> u64 {
    head & ((1 << HOP_AT) - 1)
}

fn head_of(id: u64, hop: usize) -> [u8; 8] {
    (id | (hop as u64) << HOP_AT).to_le_bytes()
}

/// The bytes of a message at this hop.
fn bytes_at(message: &Message, hop: usize) -> Vec<u8> {
    let mut bytes = message.bytes();
    bytes[..8].copy_from_slice(&head_of(message.id, hop));
    bytes
}

fn change(bytes: &mut [u8]) {
    bytes[8..].iter_mut().for_each(|byte| *byte = !*byte);
}
