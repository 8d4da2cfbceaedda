//! Random accesses in random epochs, with ranks as threads, against a model that runs them one after the other.
//!
//! Each run has a new seed, which a failure prints:
//!
//!     SEED=7 cargo test -p ferrywire --test epochs
//!
//! In each round, each block of each part has a use, so that what is there after the round, and what each access
//! finds, follows from the seed. With `FULL` in the environment there are more jobs and rounds.
#![allow(missing_docs)]

mod common;

use std::hash::{BuildHasher, RandomState};

use common::{Random, local};
use ferrywire::LockKind::{Exclusive, Shared};
use ferrywire::{Error, LockKind, Number, Operation, Part, Window, World};

/// Blocks of a part, and items of a block.
const BLOCKS: usize = 6;
const BLOCK: usize = 8;
/// Accesses that a rank tries to find in a round.
const ACCESSES: u32 = 16;
/// The most rounds of a job.
const ROUNDS_MAX: u32 = 200;

/// Operations whose order does not matter.
const COMMON: [Operation; 4] =
    [Operation::Sum, Operation::BitXor, Operation::Max, Operation::BitOr];

/// Unsigned numbers, which the model has in 64 bits.
trait Item: Number + TryFrom<u64, Error: std::fmt::Debug> + Into<u64> {
    const MASK: u64;
}

impl Item for u8 {
    const MASK: u64 = 0xff;
}

impl Item for u32 {
    const MASK: u64 = 0xffff_ffff;
}

impl Item for u64 {
    const MASK: u64 = !0;
}

/// Who does what with a block in a round.
#[derive(Clone, Copy)]
enum Use {
    /// One rank does everything, and finds what it did before.
    Owned(u32),
    /// All ranks read.
    Read,
    /// All ranks change it by the same operation.
    Common(Operation),
    /// All ranks add, under exclusive locks if the round has them.
    Added,
    /// One rank writes once, by a put that notifies.
    Notified(u32),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Epoch {
    Fence,
    LockAll,
    /// Shared locks of all parts, one by one.
    Locks,
    /// A lock for each access.
    LockEach,
}

#[derive(Clone, Debug)]
enum What {
    Put,
    PutNotify,
    Get,
    Accumulate(Operation),
    FetchOp(Operation),
    FetchAdd,
    CompareExchange(u64),
    /// A get and a put, under an exclusive lock.
    Add,
}

#[derive(Clone, Debug)]
struct Access {
    what: What,
    target: u32,
    first: usize,
    values: Vec<u64>,
    /// What is there before it, if that follows from the plan.
    before: Option<Vec<u64>>,
    lock: LockKind,
    flush: bool,
}

struct Round {
    epoch: Epoch,
    /// The accesses of each rank.
    accesses: Vec<Vec<Access>>,
    /// Where puts that notify write, for each target: the first item and the values.
    puts: Vec<Vec<(usize, Vec<u64>)>>,
    /// The parts of all ranks, and their counters, after the round.
    parts: Vec<Vec<u64>>,
    notified: Vec<u64>,
}

fn combined(operation: Operation, old: u64, value: u64, mask: u64) -> u64 {
    match operation {
        Operation::Sum => old.wrapping_add(value) & mask,
        Operation::BitXor => old ^ value,
        Operation::BitOr => old | value,
        Operation::Max => old.max(value),
        Operation::Replace => value,
        other => unreachable!("{other:?} is not planned"),
    }
}

/// Plans the rounds of all ranks, and runs them one access after the other.
fn plan(random: &mut Random, ranks: u32, rounds: u32, mask: u64) -> Vec<Round> {
    let mut parts = vec![vec![0; BLOCKS * BLOCK]; ranks as usize];
    let mut notified = vec![0; ranks as usize];
    let mut round = || {
        let epochs = [Epoch::Fence, Epoch::LockAll, Epoch::Locks, Epoch::LockEach];
        let epoch = epochs[random.below(4) as usize];
        let uses: Vec<Vec<Use>> =
            (0..ranks).map(|_| (0..BLOCKS).map(|_| use_of(random, ranks)).collect()).collect();
        let mut accesses = vec![Vec::new(); ranks as usize];
        let mut puts = vec![Vec::new(); ranks as usize];
        let mut written = vec![[false; BLOCKS]; ranks as usize];
        for (rank, accesses) in (0..).zip(&mut accesses) {
            for _ in 0..ACCESSES {
                let (target, block) = (random.below(ranks), place(random, BLOCKS));
                let usage = uses[target as usize][block];
                let written = &mut written[target as usize][block];
                let Some(what) = what_of(random, usage, rank, epoch, *written, mask) else {
                    continue;
                };
                *written = true;
                let access = access(random, what, usage, target, block, &mut parts, mask);
                if matches!(access.what, What::PutNotify) {
                    notified[target as usize] += 1;
                    puts[target as usize].push((access.first, access.values.clone()));
                }
                accesses.push(access);
            }
        }
        Round { epoch, accesses, puts, parts: parts.clone(), notified: notified.clone() }
    };
    (0..rounds).map(|_| round()).collect()
}

fn use_of(random: &mut Random, ranks: u32) -> Use {
    let owner = random.below(ranks);
    match random.below(5) {
        0 => Use::Read,
        1 => Use::Common(COMMON[random.below(4) as usize]),
        2 => Use::Added,
        3 => Use::Notified(owner),
        _ => Use::Owned(owner),
    }
}

/// What a rank does with a block, if it may do anything.
fn what_of(
    random: &mut Random,
    usage: Use,
    rank: u32,
    epoch: Epoch,
    written: bool,
    mask: u64,
) -> Option<What> {
    let operations = [Operation::Sum, Operation::BitXor, Operation::Max, Operation::Replace];
    let operation = operations[random.below(4) as usize];
    match usage {
        Use::Read => Some(What::Get),
        Use::Common(common) => Some(What::Accumulate(common)),
        Use::Added if epoch == Epoch::LockEach => Some(What::Add),
        Use::Added => Some(What::FetchAdd),
        Use::Notified(owner) => (rank == owner && !written).then_some(What::PutNotify),
        Use::Owned(owner) if owner != rank => None,
        Use::Owned(_) => Some(match random.below(6) {
            0 => What::Put,
            1 => What::Get,
            2 => What::Accumulate(operation),
            3 => What::FetchOp(operation),
            4 => What::FetchAdd,
            _ => What::CompareExchange(number(random) & mask),
        }),
    }
}

/// An access to a block, which the model makes at once.
fn access(
    random: &mut Random,
    mut what: What,
    usage: Use,
    target: u32,
    block: usize,
    parts: &mut [Vec<u64>],
    mask: u64,
) -> Access {
    let is_single = matches!(what, What::FetchOp(_) | What::FetchAdd | What::CompareExchange(_));
    let count = if is_single { 1 } else { 1 + place(random, BLOCK) };
    let first = block * BLOCK + place(random, BLOCK - count + 1);
    let values: Vec<u64> = (0..count).map(|_| number(random) & mask).collect();
    let items = &mut parts[target as usize][first..first + count];
    // Half of the exchanges find what they expect.
    if let What::CompareExchange(expected) = &mut what
        && random.one_in(2)
    {
        *expected = items[0];
    }
    let before = matches!(usage, Use::Owned(_) | Use::Read).then(|| items.to_vec());
    for (item, &value) in items.iter_mut().zip(&values) {
        *item = match what {
            What::Get => *item,
            What::Put | What::PutNotify => value,
            What::Accumulate(operation) | What::FetchOp(operation) => {
                combined(operation, *item, value, mask)
            }
            What::FetchAdd | What::Add => combined(Operation::Sum, *item, value, mask),
            What::CompareExchange(expected) if *item == expected => value,
            What::CompareExchange(_) => *item,
        };
    }
    let alone = matches!(what, What::Add) || random.one_in(2);
    let lock = if alone { Exclusive } else { Shared };
    Access { what, target, first, values, before, lock, flush: random.one_in(3) }
}

fn place(random: &mut Random, limit: usize) -> usize {
    random.below(u32::try_from(limit).expect("parts are short")) as usize
}

fn number(random: &mut Random) -> u64 {
    u64::from(random.below(u32::MAX)) << 32 | u64::from(random.below(u32::MAX))
}

/// Makes an access, and returns what it has found.
fn perform<T: Item>(part: &Part<'_, T>, access: &Access) -> Result<Option<Vec<T>>, Error> {
    let Access { ref what, first, ref values, .. } = *access;
    let values: Vec<T> = values.iter().map(|&value| item(value)).collect();
    let get = || {
        let mut found = values.clone();
        part.get(first, &mut found).map(|()| found)
    };
    let found = match *what {
        What::Put => return part.put(first, &values).map(|()| None),
        What::PutNotify => return part.put_notify(first, &values, 0).map(|()| None),
        What::Get => get()?,
        What::Accumulate(operation) => {
            return part.accumulate(first, &values, operation).map(|()| None);
        }
        What::FetchOp(operation) => vec![part.fetch_op(first, values[0], operation)?],
        What::FetchAdd => vec![part.fetch_add(first, values[0])?],
        What::CompareExchange(expected) => {
            let swapped = part.compare_exchange(first, item(expected), values[0])?;
            let (is_swapped, found) = (swapped.is_ok(), swapped.unwrap_or_else(|found| found));
            assert_eq!(is_swapped, found.into() == expected, "{access:?}");
            vec![found]
        }
        What::Add => {
            let found = get()?;
            let sum = |old: T, value: T| old.into().wrapping_add(value.into()) & T::MASK;
            let sums = found.iter().zip(&values).map(|(&old, &value)| item(sum(old, value)));
            part.put(first, &sums.collect::<Vec<T>>())?;
            found
        }
    };
    Ok(Some(found))
}

fn item<T: Item>(value: u64) -> T {
    T::try_from(value).expect("the model has no others")
}

/// Makes an access, and checks what it has found.
fn check<T: Item>(part: &Part<'_, T>, access: &Access) -> Result<(), Error> {
    let found = perform(part, access)?;
    if let (Some(found), Some(before)) = (found, &access.before) {
        let found: Vec<u64> = found.into_iter().map(Into::into).collect();
        assert_eq!(found, *before, "found by {access:x?}");
    }
    Ok(())
}

/// Makes the accesses of a rank in a round.
fn perform_all<T: Item>(
    window: &mut Window<T>,
    epoch: Epoch,
    accesses: &[Access],
) -> Result<(), Error> {
    match epoch {
        Epoch::Fence => window.fence(|epoch| {
            let (early, late) = accesses.split_at(accesses.len() / 2);
            early.iter().try_for_each(|access| check(&epoch.part(access.target)?, access))?;
            epoch.fence()?;
            late.iter().try_for_each(|access| check(&epoch.part(access.target)?, access))
        })?,
        Epoch::LockAll => {
            let all = window.lock_all()?;
            for access in accesses {
                check(&all.part(access.target)?, access)?;
                if access.flush {
                    all.flush()?;
                }
            }
            all.unlock()
        }
        Epoch::Locks => {
            let locks: Result<Vec<_>, _> =
                (0..window.size()).map(|rank| window.lock(rank, Shared)).collect();
            let locks = locks?;
            for access in accesses {
                let part = &locks[access.target as usize];
                check(part, access)?;
                if access.flush {
                    part.flush()?;
                }
            }
            // Guards that are dropped keep their errors for the next call.
            drop(locks);
            window.lock(0, Shared)?.unlock()
        }
        Epoch::LockEach => {
            for access in accesses {
                let part = window.lock(access.target, access.lock)?;
                check(&part, access)?;
                if access.flush {
                    part.flush()?;
                }
                part.unlock()?;
            }
            Ok(())
        }
    }
}

/// Checks that what has notified this rank is there, also while others are still in their epochs.
fn check_notified<T: Item>(window: &Window<T>, me: u32, round: &Round) -> Result<(), Error> {
    let part = window.lock(me, Shared)?;
    for (first, values) in &round.puts[me as usize] {
        let mut found = vec![item::<T>(0); values.len()];
        part.get(*first, &mut found)?;
        let found: Vec<u64> = found.into_iter().map(Into::into).collect();
        assert_eq!(found, *values, "put to item {first} of rank {me}, {:?}", round.epoch);
    }
    part.unlock()
}

/// Runs the plan, and compares the part of this rank with the model after each round.
fn run<T: Item>(world: &World, plan: &[Round]) -> Result<(), Error> {
    let me = world.rank();
    let mut window = world.window::<T>(BLOCKS * BLOCK)?;
    let counters = window.counters(1)?;
    for (number, round) in plan.iter().enumerate() {
        perform_all(&mut window, round.epoch, &round.accesses[me as usize])?;
        // The end of the epochs of all ranks completes their puts, and so does what the counter says.
        match number % 2 {
            0 => world.barrier()?,
            _ => counters.wait(0, round.notified[me as usize])?,
        }
        check_notified(&window, me, round)?;
        world.barrier()?;
        let mut mine = [item::<T>(0); BLOCKS * BLOCK];
        window.lock(me, Shared)?.get(0, &mut mine)?;
        let mine = mine.map(Into::into);
        let at = format!("round {number}, {:?}, rank {me}", round.epoch);
        assert_eq!(mine[..], round.parts[me as usize], "{at}");
        assert_eq!(counters.read(0)?, round.notified[me as usize], "{at}");
        world.barrier()?;
    }
    window.free()
}

fn random_accesses<T: Item>() {
    let given = std::env::var("SEED").ok().map(|seed| seed.parse().expect("SEED is a number"));
    let is_full = std::env::var_os("FULL").is_some();
    // A given seed may have failed in any round.
    let (jobs, rounds) = match (given, is_full) {
        (Some(_), _) => (1, ROUNDS_MAX),
        (None, true) => (40, ROUNDS_MAX),
        (None, false) => (10, ROUNDS_MAX / 5),
    };
    for _ in 0..jobs {
        let seed = given.unwrap_or_else(|| RandomState::new().hash_one(0));
        println!("SEED={seed} cargo test -p ferrywire --test epochs");
        let mut random = Random(seed);
        let ranks = 1 + random.below(5);
        let plan = plan(&mut random, ranks, rounds, T::MASK);
        local(ranks, |world| run::<T>(world, &plan).unwrap());
    }
}

#[test]
fn random_accesses_to_bytes() {
    random_accesses::<u8>();
}

#[test]
fn random_accesses_to_words() {
    random_accesses::<u32>();
}

#[test]
fn random_accesses_to_long_words() {
    random_accesses::<u64>();
}
