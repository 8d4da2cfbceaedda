//! A random MPI program for a few ranks, derived from a seed.
//!
//! A program has phases. In a phase ranks create communicators, post sends, receives and collectives in any order,
//! probe, and cancel receives; only collectives wait, and all members call these in the same order. Then the ranks
//! fetch the messages that their receives have not matched, cancel receives that no message has matched, and enter a
//! barrier. So every program ends, whatever the wildcards match.

use ferrywire_mpi::group::Want;
use ferrywire_nic::Mode;
use ferrywire_sim::random::Random;

use crate::layout::{Elements, Layout, Room, Unit, unit, unit_bytes};

/// The program of all ranks.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) size: u32,
    /// Whether ranks create communicators concurrently, each in its own order. If not, they do so one after the other,
    /// all under one tag.
    pub(crate) at_once: bool,
    /// The first contains all ranks.
    pub(crate) comms: Vec<CommPlan>,
    pub(crate) messages: Vec<Message>,
    pub(crate) collectives: Vec<Collective>,
    /// For each phase, for each process.
    pub(crate) phases: Vec<Vec<Vec<Task>>>,
}

/// A communicator, with all its members.
#[derive(Debug)]
pub(crate) struct CommPlan {
    /// The communicator that it is created from.
    pub(crate) parent: usize,
    pub(crate) how: How,
    /// Its members in rank order; of an inter-communicator, those of the first group.
    pub(crate) left: Vec<u32>,
    /// The second group, or empty.
    pub(crate) right: Vec<u32>,
    /// The unit of its messages.
    pub(crate) unit: Unit,
    /// The longest message, in units.
    pub(crate) units_max: u64,
    /// The phases in which it exists.
    first: usize,
    last: usize,
}

/// How a communicator is created. Ranks are those of the parent.
#[derive(Clone, Debug)]
pub(crate) enum How {
    World,
    Dup,
    /// One of the groups of a split.
    Split {
        wants: Vec<Want>,
    },
    /// These ranks in this order.
    Select {
        ranks: Vec<u32>,
    },
    /// An inter-communicator of these two groups.
    Between {
        left: Vec<u32>,
        right: Vec<u32>,
    },
}

impl CommPlan {
    pub(crate) fn is_inter(&self) -> bool {
        !self.right.is_empty()
    }

    /// All processes in it, those of the first group before those of the second.
    pub(crate) fn members(&self) -> impl Iterator<Item = u32> + '_ {
        self.left.iter().chain(&self.right).copied()
    }

    /// The group that `process` is in.
    pub(crate) fn group_of(&self, process: u32) -> &[u32] {
        if self.left.contains(&process) { &self.left } else { &self.right }
    }

    /// The group that `process` sends to.
    pub(crate) fn targets_of(&self, process: u32) -> &[u32] {
        match self.is_inter() && self.left.contains(&process) {
            true => &self.right,
            false => &self.left,
        }
    }

    /// The rank of `process` in its group.
    pub(crate) fn rank_of(&self, process: u32) -> u32 {
        let rank = self.group_of(process).iter().position(|&member| member == process);
        u32::try_from(rank.expect("a member")).expect("few")
    }
}

/// A message from one process to another.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) id: usize,
    pub(crate) phase: usize,
    pub(crate) comm: usize,
    pub(crate) from: u32,
    pub(crate) to: u32,
    /// Messages without bytes have a unique tag.
    pub(crate) tag: u32,
    pub(crate) mode: Mode,
    pub(crate) elements: Elements,
}

impl Message {
    /// The memory that it is sent from. Its number is in the first eight bytes of the message.
    pub(crate) fn room(&self) -> Room {
        let id = self.id as u64;
        let mut room = self.elements.room(|at| pattern(id, at as u64));
        for (place, byte) in self.elements.places().into_iter().zip(id.to_le_bytes()) {
            let at = room.at(place);
            room.bytes[at] = byte;
        }
        room
    }

    /// Its bytes, collected one by one.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let room = self.room();
        self.elements.places().into_iter().map(|place| room.bytes[room.at(place)]).collect()
    }
}

/// What a receive or a probe matches. None stands for any.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pattern {
    pub(crate) comm: usize,
    pub(crate) from: Option<u32>,
    pub(crate) tag: Option<u32>,
}

impl Pattern {
    /// Whether a message with this source and tag matches.
    pub(crate) fn matches(&self, source: u32, tag: u32) -> bool {
        self.from.is_none_or(|from| from == source) && self.tag.is_none_or(|wanted| wanted == tag)
    }
}

/// A collective on a communicator.
#[derive(Debug)]
pub(crate) struct Collective {
    pub(crate) comm: usize,
    pub(crate) kind: Kind,
    /// Whether the call waits for the end.
    pub(crate) blocking: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Barrier,
    /// From this process.
    Broadcast {
        root: u32,
        len: u64,
    },
    /// Sums of so many numbers.
    Allreduce {
        numbers: u64,
    },
    /// Blocks of different lengths, up to about this.
    Alltoall {
        len: u64,
    },
}

/// One operation of a process.
#[derive(Clone, Debug)]
pub(crate) enum Task {
    /// Creates a communicator together with its other members.
    Make(usize),
    Free(usize),
    Send(usize),
    Receive {
        pattern: Pattern,
        into: Elements,
    },
    /// Cancels one of the open receives.
    Cancel {
        choice: u64,
    },
    /// Probes, and receives the message found.
    Take {
        pattern: Pattern,
        into: Elements,
    },
    Collective(usize),
}

impl Plan {
    pub(crate) fn new(seed: u64) -> Plan {
        let root = Random::new(seed);
        let mut random = root.split(1);
        let size = random.small(2, 8);
        let world = CommPlan {
            parent: 0,
            how: How::World,
            left: (0..size).collect(),
            right: Vec::new(),
            unit: unit(&mut random),
            units_max: 1,
            first: 0,
            last: usize::MAX,
        };
        let mut plan = Plan {
            size,
            at_once: seed.is_multiple_of(2),
            comms: vec![world],
            messages: Vec::new(),
            collectives: Vec::new(),
            phases: Vec::new(),
        };
        for phase in 0..index(random.between(1, 3)) {
            let before = plan.comms.len();
            for _ in 0..random.between(u64::from(phase == 0), 3) {
                plan.make(phase, &mut random);
            }
            let mut tasks = plan.phase(phase, &mut random);
            for (process, tasks) in (0..).zip(&mut tasks) {
                tasks.splice(0..0, plan.makes_and_ends(phase, before, process));
            }
            plan.phases.push(tasks);
        }
        plan
    }

    fn alive(&self, phase: usize) -> Vec<usize> {
        let lives = |comm: &CommPlan| comm.first <= phase && phase <= comm.last;
        (0..self.comms.len()).filter(|&comm| lives(&self.comms[comm])).collect()
    }

    /// Adds a communicator, or several of one split.
    fn make(&mut self, phase: usize, random: &mut Random) {
        let within: Vec<usize> = self.alive(phase);
        let within: Vec<usize> =
            within.into_iter().filter(|&comm| !self.comms[comm].is_inter()).collect();
        let parent = random.pick(&within);
        let members = self.comms[parent].left.clone();
        let mut shuffled: Vec<u32> = (0..).take(members.len()).collect();
        random.shuffle(&mut shuffled);
        let processes = |ranks: &[u32]| -> Vec<u32> {
            ranks.iter().map(|&rank| members[rank as usize]).collect()
        };
        let made: Vec<(How, Vec<u32>, Vec<u32>)> = match random.below(4) {
            0 => vec![(How::Dup, members.clone(), Vec::new())],
            1 => {
                let want = |random: &mut Random| Want {
                    color: (!random.percent(10)).then(|| random.small(0, 2)),
                    key: random.pick(&[-1, 0, 0, 5]),
                };
                let wants: Vec<Want> = members.iter().map(|_| want(random)).collect();
                let of_color = |color: u32| {
                    let mut ranks: Vec<(i32, u32)> = (0..)
                        .zip(&wants)
                        .filter(|(_, want)| want.color == Some(color))
                        .map(|(rank, want)| (want.key, rank))
                        .collect();
                    ranks.sort_unstable();
                    ranks.into_iter().map(|(_, rank)| members[rank as usize]).collect::<Vec<_>>()
                };
                let groups = (0..3).map(of_color).filter(|group| !group.is_empty());
                groups
                    .map(|group| (How::Split { wants: wants.clone() }, group, Vec::new()))
                    .collect()
            }
            2 if members.len() > 1 => {
                let left = random.between(1, members.len() as u64 - 1);
                let both = random.between(left + 1, members.len() as u64);
                let (left, right) = shuffled[..index(both)].split_at(index(left));
                let (first, second) = (processes(left), processes(right));
                vec![(How::Between { left: left.into(), right: right.into() }, first, second)]
            }
            _ => {
                let ranks = &shuffled[..index(random.between(1, members.len() as u64))];
                vec![(How::Select { ranks: ranks.into() }, processes(ranks), Vec::new())]
            }
        };
        for (how, left, right) in made {
            let last = if random.percent(30) { phase } else { usize::MAX };
            // A communicator outlives its parent.
            let (unit, units_max, first) = (unit(random), 1, phase);
            self.comms.push(CommPlan { parent, how, left, right, unit, units_max, first, last });
        }
    }

    /// The first operations of a process: frees communicators of the previous phase, then creates new ones.
    fn makes_and_ends(&self, phase: usize, before: usize, process: u32) -> Vec<Task> {
        let is_in = |comm: usize| self.comms[comm].members().any(|member| member == process);
        let ended = (0..before).filter(|&comm| self.comms[comm].last.wrapping_add(1) == phase);
        let ends = ended.filter(|&comm| comm > 0 && is_in(comm)).map(Task::Free);
        let mut made: Vec<usize> = (before..self.comms.len()).filter(|&comm| is_in(comm)).collect();
        if self.at_once {
            // All ranks duplicate a communicator in the same order; children of a new one follow it.
            let is_free = |&comm: &usize| {
                let CommPlan { parent, how, .. } = &self.comms[comm];
                *parent < before && !matches!(how, How::Dup)
            };
            let (mut free, bound): (Vec<usize>, Vec<usize>) = made.into_iter().partition(is_free);
            let turned = free.len().min(1) * (process as usize % free.len().max(1));
            free.rotate_left(turned);
            made = [free, bound].concat();
        }
        ends.chain(made.into_iter().map(Task::Make)).collect()
    }

    /// Sends, receives and collectives, for each process.
    fn phase(&mut self, phase: usize, random: &mut Random) -> Vec<Vec<Task>> {
        let mut tasks: Vec<Vec<Task>> = vec![Vec::new(); self.size as usize];
        let earlier = self.messages.len();
        for comm in self.alive(phase) {
            self.add_messages(phase, comm, random);
        }
        let wildcards = random.pick(&[0, 20, 50, 90]);
        for message in &self.messages[earlier..] {
            tasks[message.from as usize].push(Task::Send(message.id));
            let comm = &self.comms[message.comm];
            for task in receives_for(comm, message, wildcards, random) {
                tasks[message.to as usize].push(task);
            }
        }
        for tasks in &mut tasks {
            for _ in 0..random.below(3) {
                tasks.push(Task::Cancel { choice: random.any() });
            }
            random.shuffle(tasks);
        }
        for comm in self.alive(phase) {
            for _ in 0..random.below(4) {
                self.add_collective(comm, random);
                let new = self.collectives.len() - 1;
                for member in self.comms[comm].members().map(|member| member as usize) {
                    // After all previous collectives: their order is the same everywhere.
                    let is_earlier = |task: &Task| matches!(task, Task::Collective(_));
                    let after = tasks[member].iter().rposition(is_earlier).map_or(0, |at| at + 1);
                    let at = random.between(after as u64, tasks[member].len() as u64);
                    tasks[member].insert(index(at), Task::Collective(new));
                }
            }
        }
        tasks
    }

    fn add_messages(&mut self, phase: usize, comm: usize, random: &mut Random) {
        let tags = random.pick(&[1, 2, 4]);
        for _ in 0..random.below(4 * self.comms[comm].members().count() as u64) {
            let plan = &self.comms[comm];
            let members: Vec<u32> = plan.members().collect();
            let from = random.pick(&members);
            let layout = Layout::random(&plan.unit, random);
            let count = match random.below(10) {
                0 => 0,
                1..=6 => random.between(1, 3),
                7 | 8 => random.between(1, 20),
                _ => random.between(1, 200),
            };
            let id = self.messages.len();
            let units = layout.units * count;
            let message = Message {
                id,
                phase,
                comm,
                from,
                to: random.pick(plan.targets_of(from)),
                tag: match units {
                    0 => 1000 + u32::try_from(id).expect("few messages"),
                    _ => random.small(0, tags - 1),
                },
                mode: random.pick(&[Mode::Standard, Mode::Standard, Mode::Synchronous]),
                elements: Elements { layout, count },
            };
            self.messages.push(message);
            let plan = &mut self.comms[comm];
            plan.units_max = plan.units_max.max(units);
        }
    }

    fn add_collective(&mut self, comm: usize, random: &mut Random) {
        let members: Vec<u32> = self.comms[comm].members().collect();
        let kind = match random.below(4) {
            0 => Kind::Barrier,
            1 => {
                let root = random.pick(&members);
                Kind::Broadcast { root, len: random.pick(&[0, 8, 300, 5000]) }
            }
            2 => Kind::Allreduce { numbers: random.pick(&[1, 4, 300]) },
            _ => Kind::Alltoall { len: random.pick(&[0, 7, 300, 3000]) },
        };
        self.collectives.push(Collective { comm, kind, blocking: random.percent(50) });
    }

    /// Whether both communicators exist in the same phase.
    pub(crate) fn overlap(&self, one: usize, other: usize) -> bool {
        let (one, other) = (&self.comms[one], &self.comms[other]);
        one.first <= other.last && other.first <= one.last
    }

    /// A description in one line.
    pub(crate) fn describe(&self) -> String {
        format!(
            "{} ranks, {} communicators, {} phases, {} messages, {} collectives",
            self.size,
            self.comms.len(),
            self.phases.len(),
            self.messages.len(),
            self.collectives.len()
        )
    }
}

/// A receive or a probe for a message, which may match another one; and now and then a receive that no message will
/// match.
fn receives_for(
    comm: &CommPlan,
    message: &Message,
    wildcards: u64,
    random: &mut Random,
) -> Vec<Task> {
    let source = comm.rank_of(message.from);
    let room = |random: &mut Random| {
        let units = match random.below(10) {
            // Too short for some.
            0 => random.between(1, comm.units_max),
            1..=3 => (message.elements.bytes() / unit_bytes(&comm.unit)).max(1),
            _ => comm.units_max,
        };
        Layout::random_apart(&comm.unit, units, random)
    };
    let pattern = Pattern {
        comm: message.comm,
        from: (!random.percent(wildcards)).then_some(source),
        tag: (!random.percent(wildcards)).then_some(message.tag),
    };
    let mut tasks = Vec::new();
    match random.percent(15) {
        true => tasks.push(Task::Take { pattern, into: room(random) }),
        false => tasks.push(Task::Receive { pattern, into: room(random) }),
    }
    if random.percent(8) {
        let pattern = Pattern { tag: Some(NOBODYS_TAG), ..pattern };
        tasks.push(Task::Receive { pattern, into: room(random) });
    }
    tasks
}

/// A byte of something with this number, different from its neighbours and from those of others.
pub(crate) fn pattern(id: u64, at: u64) -> u8 {
    (id.wrapping_mul(167).wrapping_add(at.wrapping_mul(31)) ^ (at >> 7)).to_le_bytes()[0]
}

fn index(number: u64) -> usize {
    usize::try_from(number).expect("a small number")
}

const NOBODYS_TAG: u32 = 999;
