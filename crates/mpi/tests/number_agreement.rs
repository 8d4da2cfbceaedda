//! Random concurrent agreements on numbers, against what must hold in any order of events: all members get the same
//! number, no rank has a number twice, and everything ends.
//!
//!     cargo test -p ferrywire-mpi --test number_agreement
//!     RUNS=20000 cargo test -p ferrywire-mpi --test number_agreement -- --nocapture
//!     SEED=7 cargo test -p ferrywire-mpi --test number_agreement
//!
//! Messages are not modelled: a rank has the combined contributions at any moment after the last member has
//! contributed. That messages reach their agreement is tested with real ones, in `tests/matching`.

use std::sync::Arc;

use ferrywire_mpi::numbers::{Bits, COMMS_MAX, Claim, Numbers, Seat};
use ferrywire_nic::Peer;

#[test]
fn agreements_end_and_agree() {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let runs = number("RUNS").unwrap_or(RUNS);
    let seeds = number("SEED").map_or(0..runs, |seed| seed..seed + 1);
    for seed in seeds {
        if let Err(wrong) = World::new(seed, None).run() {
            panic!("SEED={seed} cargo test -p ferrywire-mpi --test number_agreement: {wrong}");
        }
    }
}

#[test]
fn planted_bugs_are_found() {
    for planted in [Planted::NoTurns, Planted::EarlyProposals, Planted::TurnsInLocalOrder] {
        let seed = (0..RUNS).find(|&seed| World::new(seed, Some(planted)).run().is_err());
        println!("{planted:?}: found by seed {seed:?}");
        assert!(seed.is_some(), "not found: {planted:?}");
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Planted {
    /// Every agreement has its turn at once.
    NoTurns,
    /// A rank proposes a stamp before all members take part.
    EarlyProposals,
    /// Each rank uses its own proposal, not the latest of all.
    TurnsInLocalOrder,
}

/// What a rank does on its own, in order.
#[derive(Clone, Copy, Debug)]
enum Task {
    Begin(usize),
    /// Waits until this agreement is over here.
    Wait(usize),
}

/// The progress of a rank in an agreement.
#[derive(Debug, Default)]
enum Stage {
    #[default]
    Absent,
    Joined(Seat),
    Proposed(Seat, u64),
    /// Waits for its turn; at this count of changes it was consulted in vain.
    Settled(Seat, Option<u64>),
    Offered(Seat, Box<Bits>),
    /// Has its number, until the claim is dropped.
    Over(u16, Option<Claim>),
}

struct Rank {
    numbers: Arc<Numbers>,
    tasks: Vec<Task>,
    /// One for each agreement.
    stages: Vec<Stage>,
    /// Counts events that may give an agreement its turn, after which the NIC consults again.
    changes: u64,
}

struct World {
    random: u64,
    planted: Option<Planted>,
    members: Vec<Vec<usize>>,
    ranks: Vec<Rank>,
    /// Contributions of the members so far: how many have joined; proposals; free numbers.
    joined: Vec<usize>,
    proposals: Vec<Vec<u64>>,
    ballots: Vec<Vec<Bits>>,
}

impl World {
    fn new(seed: u64, planted: Option<Planted>) -> World {
        let mut world = World {
            random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            planted,
            members: Vec::new(),
            ranks: Vec::new(),
            joined: Vec::new(),
            proposals: Vec::new(),
            ballots: Vec::new(),
        };
        let (size, count) = (2 + world.below(6), 1 + world.below(16));
        // Few numbers are left, so that agreements collide, but enough for all.
        let taken = u16::try_from(COMMS_MAX - count - world.below(3)).expect("few");
        let blocking = world.below(101);
        for rank in 0..size {
            let numbers = Numbers::new(Peer(u32::try_from(rank).expect("few")), taken);
            let stages = (0..count).map(|_| Stage::Absent).collect();
            world.ranks.push(Rank { numbers, tasks: Vec::new(), stages, changes: 0 });
        }
        for agreement in 0..count {
            let density = 20 + world.below(80);
            let mut members: Vec<usize> =
                (0..size).filter(|_| world.below(100) < density).collect();
            if members.is_empty() {
                members.push(world.below(size));
            }
            let waits = world.below(100) < blocking;
            for &member in &members {
                if waits {
                    // All ranks wait for these in the same order.
                    world.ranks[member]
                        .tasks
                        .extend([Task::Begin(agreement), Task::Wait(agreement)]);
                } else {
                    let at = world.below(world.ranks[member].tasks.len() + 1);
                    world.ranks[member].tasks.insert(at, Task::Begin(agreement));
                }
            }
            world.members.push(members);
            world.joined.push(0);
            world.proposals.push(Vec::new());
            world.ballots.push(Vec::new());
        }
        world
    }

    fn below(&mut self, bound: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        usize::try_from(self.random >> 33).expect("31 bits") % bound
    }

    /// Performs random possible events until there are none.
    fn run(mut self) -> Result<(), String> {
        loop {
            let (ranks, count) = (self.ranks.len(), self.members.len());
            let first = self.below(ranks * (count + 1));
            let places = (0..ranks * (count + 1)).map(|at| (first + at) % (ranks * (count + 1)));
            let mut moved = false;
            for place in places {
                let (rank, what) = (place / (count + 1), place % (count + 1));
                moved = match what.checked_sub(1) {
                    None => self.do_task(rank),
                    Some(agreement) => self.go_on(rank, agreement)?,
                };
                if moved {
                    break;
                }
            }
            if !moved {
                return self.judge();
            }
        }
    }

    fn do_task(&mut self, rank: usize) -> bool {
        let Some(&task) = self.ranks[rank].tasks.first() else { return false };
        match task {
            Task::Begin(agreement) => {
                let seat = Seat::new(&self.ranks[rank].numbers);
                self.joined[agreement] += 1;
                self.ranks[rank].stages[agreement] = Stage::Joined(seat);
            }
            Task::Wait(agreement) => {
                if !matches!(self.ranks[rank].stages[agreement], Stage::Over(..)) {
                    return false;
                }
            }
        }
        self.ranks[rank].tasks.remove(0);
        true
    }

    /// What the NIC of a rank does for an agreement, without the application.
    fn go_on(&mut self, rank: usize, agreement: usize) -> Result<bool, String> {
        let all = self.members[agreement].len();
        let gives_back = self.below(4) == 0;
        let changes = self.ranks[rank].changes;
        let stage = std::mem::take(&mut self.ranks[rank].stages[agreement]);
        let (next, moved) = match stage {
            Stage::Joined(seat)
                if self.joined[agreement] == all
                    || self.planted == Some(Planted::EarlyProposals) =>
            {
                let stamp = seat.propose();
                self.proposals[agreement].push(stamp);
                (Stage::Proposed(seat, stamp), true)
            }
            Stage::Proposed(seat, own) if self.proposals[agreement].len() == all => {
                let latest = self.proposals[agreement].iter().copied().max().unwrap_or(0);
                let stamp = match self.planted {
                    Some(Planted::NoTurns) => 0,
                    Some(Planted::TurnsInLocalOrder) => own,
                    _ => latest,
                };
                seat.settle(stamp);
                (Stage::Settled(seat, None), true)
            }
            Stage::Settled(seat, asked) if asked.is_none_or(|asked| asked < changes) => {
                match seat.offer() {
                    None => {
                        self.ranks[rank].stages[agreement] = Stage::Settled(seat, Some(changes));
                        // Others may go on; nothing has changed for them.
                        return Ok(true);
                    }
                    Some(free) => {
                        self.ballots[agreement].push(free);
                        (Stage::Offered(seat, Box::new(free)), true)
                    }
                }
            }
            Stage::Offered(seat, free) if self.ballots[agreement].len() == all => {
                let combine = |mut one: Bits, other: &Bits| {
                    one.iter_mut().zip(other).for_each(|(one, other)| *one &= other);
                    one
                };
                let common = self.ballots[agreement].iter().fold(*free, combine);
                let Some(claim) = seat.take(&common) else {
                    return Err(format!("agreement {agreement} has no number, and there are some"));
                };
                let number = claim.number();
                self.check(rank, agreement, number)?;
                (Stage::Over(number, Some(claim)), true)
            }
            Stage::Over(number, Some(claim)) if gives_back => {
                drop(claim);
                self.ranks[rank].stages[agreement] = Stage::Over(number, None);
                // This causes no new consultation.
                return Ok(true);
            }
            other => (other, false),
        };
        self.ranks[rank].stages[agreement] = next;
        self.ranks[rank].changes += u64::from(moved);
        Ok(moved)
    }

    fn check(&self, rank: usize, agreement: usize, number: u16) -> Result<(), String> {
        for &member in &self.members[agreement] {
            if let Stage::Over(other, _) = self.ranks[member].stages[agreement]
                && other != number
            {
                return Err(format!("agreement {agreement}: {number} here, {other} elsewhere"));
            }
        }
        let is_taken =
            |stage: &Stage| matches!(stage, Stage::Over(other, Some(_)) if *other == number);
        match self.ranks[rank].stages.iter().any(is_taken) {
            true => Err(format!("agreement {agreement}: rank {rank} has {number} twice")),
            false => Ok(()),
        }
    }

    fn judge(&self) -> Result<(), String> {
        for (agreement, members) in self.members.iter().enumerate() {
            for &member in members {
                let stage = &self.ranks[member].stages[agreement];
                if !matches!(stage, Stage::Over(..)) {
                    return Err(format!(
                        "agreement {agreement} is stuck at rank {member}: {stage:?}"
                    ));
                }
            }
        }
        Ok(())
    }
}

/// Number of worlds by default.
const RUNS: u64 = 2000;
