//! What ranks do with their windows, and a sequential model of what comes of it.
//!
//! A window has blocks, cells and a record. In each round a block has one use: one rank puts there and gets what it has
//! put, or all ranks get, or one rank changes it by operations whose order matters. All ranks add to the cells at any
//! time, and change the record under exclusive locks. So the plan knows what is there after a round, and what each
//! access finds.

use ferrywire_mpi::operation::{self, Number, Operation};
use ferrywire_nic::Operator;

use super::lock::Hold;
use crate::random::Random;

/// Blocks of a window.
pub const BLOCKS: u64 = 3;
/// Bytes of a block: more than a frame of most rails has.
pub const BLOCK_BYTES: u64 = 2048;
/// Widths of cells, one cell of each kind for each width.
pub const WIDTHS: [u64; 4] = [1, 2, 4, 8];
/// The bytes around a cell, itself included. The others stay zero.
pub const CELL_ROOM: u64 = 16;
/// Where the cells are.
pub const CELLS_AT: u64 = BLOCKS * BLOCK_BYTES;
/// Where the record is: equal numbers of eight bytes.
pub const RECORD_AT: u64 = CELLS_AT + 2 * CELL_ROOM * WIDTHS.len() as u64;
/// Bytes of the record.
pub const RECORD_BYTES: u64 = 512;
/// Bytes of a window.
pub const WINDOW_BYTES: u64 = RECORD_AT + RECORD_BYTES;

/// A number that all ranks change at the same time.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Cell {
    /// Ranks add to it; the index is that of its width.
    Sum(usize),
    /// Ranks increment it by compare-and-swap.
    Swapped(usize),
}

impl Cell {
    /// All cells of a window.
    pub fn all() -> impl Iterator<Item = Cell> {
        (0..WIDTHS.len()).flat_map(|width| [Cell::Sum(width), Cell::Swapped(width)])
    }

    /// Its width.
    pub fn width(self) -> u64 {
        let (Cell::Sum(width) | Cell::Swapped(width)) = self;
        WIDTHS[width]
    }

    /// Where the bytes around it begin.
    pub fn room(self) -> u64 {
        let place = match self {
            Cell::Sum(width) => 2 * width,
            Cell::Swapped(width) => 2 * width + 1,
        };
        CELLS_AT + CELL_ROOM * place as u64
    }

    /// Where it is, with neighbours on at least one side.
    pub fn offset(self) -> u64 {
        self.room() + self.width()
    }

    /// Its place in lists of all cells.
    pub fn index(self) -> usize {
        match self {
            Cell::Sum(width) => 2 * width,
            Cell::Swapped(width) => 2 * width + 1,
        }
    }
}

/// An access of one rank to the window of another, or to its own.
#[derive(Clone, Debug)]
pub struct PlannedAccess {
    /// Who accesses.
    pub origin: u32,
    /// Whose window.
    pub target: u32,
    /// In which round.
    pub round: usize,
    /// Whether it needs a lock.
    pub locked: bool,
    /// What it does.
    pub what: Accessing,
}

/// What an access does.
#[derive(Clone, Debug)]
pub enum Accessing {
    /// Writes.
    Put {
        /// Where.
        at: u64,
        /// What.
        bytes: Vec<u8>,
    },
    /// Reads.
    Get {
        /// Where.
        at: u64,
        /// What it finds.
        expected: Vec<u8>,
    },
    /// Combines.
    Accumulate {
        /// Where.
        at: u64,
        /// How.
        operator: Operator,
        /// With what.
        bytes: Vec<u8>,
    },
    /// Combines, and reads what was there.
    Fetch {
        /// Where.
        at: u64,
        /// How.
        operator: Operator,
        /// With what.
        bytes: Vec<u8>,
        /// What it finds.
        expected: Vec<u8>,
    },
    /// Compares and swaps.
    Swap {
        /// Where.
        at: u64,
        /// How many bytes.
        width: u64,
        /// What it compares with.
        compare: u64,
        /// What it stores.
        value: u64,
        /// What it finds.
        expected: u64,
    },
    /// Adds to a cell, while others do.
    Add {
        /// The cell.
        cell: Cell,
        /// The summand.
        value: u64,
        /// Whether it asks for the sum before.
        fetch: bool,
    },
    /// Increments a cell by compare-and-swap, while others do.
    Increment {
        /// The cell.
        cell: Cell,
    },
    /// Increments all numbers of the record: gets them, and puts them back. Needs an exclusive lock.
    Update,
    /// Gets the record, whose numbers are equal.
    Look,
}

/// One step of a rank's program.
#[derive(Clone, Copy, Debug)]
pub enum WindowStep {
    /// Completes all accesses, and waits until all ranks have.
    Fence,
    /// Compares the rank's own window with the model, after this round.
    Check(usize),
    /// Takes a lock.
    Lock(u32, Hold),
    /// Completes the accesses to a rank, and releases its lock.
    Unlock(u32, Hold),
    /// Completes the accesses to a rank.
    Flush(u32),
    /// Makes the access with this number.
    Access(usize),
    /// Does nothing for a while.
    Pause(u64),
}

/// What a window holds after a round.
#[derive(Clone, Debug)]
pub struct WindowModel {
    /// Its blocks.
    pub blocks: Vec<u8>,
    /// Its cells.
    pub cells: [u64; 2 * WIDTHS.len()],
    /// Each number of its record.
    pub record: u64,
}

/// The plan, known to all ranks.
#[derive(Debug)]
pub struct WindowPlan {
    /// Number of ranks.
    pub size: u32,
    /// The program of each rank.
    pub programs: Vec<Vec<WindowStep>>,
    /// All accesses, in an order that the model allows.
    pub accesses: Vec<PlannedAccess>,
    /// The windows of all ranks, before the first round and after each.
    pub models: Vec<Vec<WindowModel>>,
}

/// How a round orders its accesses.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Sync {
    /// By the fences at both ends only.
    Fences,
    /// Each access has a lock of its own.
    LockEach,
    /// A rank holds shared locks of all that it accesses.
    LockAll,
}

/// The use of a block in a round.
#[derive(Clone, Copy, Debug)]
enum Use {
    Puts { by: u32 },
    Gets,
    Changes { by: u32 },
}

impl WindowModel {
    fn new() -> WindowModel {
        let blocks = vec![0; usize::try_from(CELLS_AT).expect("a small window")];
        WindowModel { blocks, cells: [0; 2 * WIDTHS.len()], record: 0 }
    }

    /// Changes the model as an access does.
    pub fn apply(&mut self, what: &Accessing) {
        match what {
            Accessing::Put { at, bytes } => self.bytes(*at, bytes.len()).copy_from_slice(bytes),
            Accessing::Accumulate { at, operator, bytes }
            | Accessing::Fetch { at, operator, bytes, .. } => {
                operation::combine(*operator, bytes, self.bytes(*at, bytes.len()));
            }
            Accessing::Swap { at, width, compare, value, expected } if compare == expected => {
                let value = value.to_le_bytes();
                let held = self.bytes(*at, usize::try_from(*width).expect("a word"));
                held.copy_from_slice(&value[..held.len()]);
            }
            Accessing::Add { cell, value, .. } => self.cells[cell.index()] += value,
            Accessing::Increment { cell } => self.cells[cell.index()] += 1,
            Accessing::Update => self.record += 1,
            Accessing::Swap { .. } | Accessing::Get { .. } | Accessing::Look => {}
        }
    }

    fn bytes(&mut self, at: u64, len: usize) -> &mut [u8] {
        let at = usize::try_from(at).expect("a small window");
        &mut self.blocks[at..at + len]
    }
}

impl WindowPlan {
    /// A plan for so many ranks.
    pub fn new(size: u32, random: &mut Random) -> WindowPlan {
        let models = vec![vec![WindowModel::new(); size as usize]];
        let programs = vec![Vec::new(); size as usize];
        let mut plan = WindowPlan { size, programs, accesses: Vec::new(), models };
        for round in 0..random.between(1, ROUNDS_MAX) {
            plan.add_round(usize::try_from(round).expect("few rounds"), random);
        }
        plan
    }

    /// The window of a rank after a round; what it was before, with the round's number.
    pub fn model(&self, target: u32, rounds: usize) -> &WindowModel {
        &self.models[rounds][target as usize]
    }

    fn add_round(&mut self, round: usize, random: &mut Random) {
        let mut models = self.models[round].clone();
        let sync = random.pick(&[Sync::Fences, Sync::LockEach, Sync::LockAll]);
        let uses: Vec<Vec<Use>> = (0..self.size)
            .map(|_| {
                let mut one = || {
                    let by = random.small(0, self.size - 1);
                    random.pick(&[Use::Puts { by }, Use::Gets, Use::Changes { by }])
                };
                (0..BLOCKS).map(|_| one()).collect()
            })
            .collect();
        for origin in 0..self.size {
            let mut writer = RoundWriter {
                origin,
                round,
                sync,
                locked: Vec::new(),
                steps: vec![WindowStep::Fence],
                plan: self,
                models: &mut models,
            };
            for _ in 0..random.between(0, TURNS_MAX) {
                let target = random.small(0, writer.plan.size - 1);
                writer.add(target, &uses[target as usize], random);
            }
            let RoundWriter { mut steps, locked, .. } = writer;
            steps.extend(locked.into_iter().map(|to| WindowStep::Unlock(to, Hold::Shared)));
            steps.extend([WindowStep::Fence, WindowStep::Check(round + 1)]);
            self.programs[origin as usize].extend(steps);
        }
        self.models.push(models);
    }
}

/// Writes the steps of one rank in one round.
struct RoundWriter<'a> {
    origin: u32,
    round: usize,
    sync: Sync,
    /// The ranks that are locked until the end of the round.
    locked: Vec<u32>,
    steps: Vec<WindowStep>,
    plan: &'a mut WindowPlan,
    models: &'a mut [WindowModel],
}

impl RoundWriter<'_> {
    /// Adds some accesses to one target, if what was drawn is allowed.
    fn add(&mut self, target: u32, uses: &[Use], random: &mut Random) {
        if random.percent(10) {
            self.steps.push(WindowStep::Pause(random.between(100, 100_000)));
        }
        let hold = match self.sync {
            Sync::LockEach => random.pick(&[Hold::Exclusive, Hold::Shared]),
            Sync::LockAll | Sync::Fences => Hold::Shared,
        };
        let block = random.below(BLOCKS);
        let block_use = uses[usize::try_from(block).expect("a block")];
        let mut chosen = Vec::new();
        for _ in 0..random.between(1, TOGETHER_MAX) {
            let what = match block_use {
                Use::Puts { by } if by == self.origin => self.put(target, block, random),
                Use::Changes { by } if by == self.origin => self.change(target, block, random),
                Use::Gets if random.percent(40) => self.get(target, block, random),
                _ => self.common(target, hold, random),
            };
            self.models[target as usize].apply(&what);
            chosen.push(what);
        }
        match self.sync {
            Sync::Fences => {}
            Sync::LockEach => self.steps.push(WindowStep::Lock(target, hold)),
            Sync::LockAll if self.locked.contains(&target) => {}
            Sync::LockAll => {
                self.locked.push(target);
                self.steps.push(WindowStep::Lock(target, hold));
            }
        }
        for what in chosen {
            self.push(target, what, random);
        }
        if self.sync == Sync::LockEach {
            self.steps.push(WindowStep::Unlock(target, hold));
        }
    }

    fn push(&mut self, target: u32, what: Accessing, random: &mut Random) {
        // Until a flush, what an earlier access has written may be missing, or may come later. Accumulates keep their
        // order without one, and the order of changes to cells does not matter.
        let unflushed = matches!(
            what,
            Accessing::Accumulate { .. } | Accessing::Add { .. } | Accessing::Increment { .. }
        );
        if !unflushed || random.percent(10) {
            self.steps.push(WindowStep::Flush(target));
        }
        self.steps.push(WindowStep::Access(self.plan.accesses.len()));
        let (origin, round, locked) = (self.origin, self.round, self.sync != Sync::Fences);
        self.plan.accesses.push(PlannedAccess { origin, target, round, locked, what });
    }

    /// An access to what all ranks change.
    fn common(&self, target: u32, hold: Hold, random: &mut Random) -> Accessing {
        let width = usize::try_from(random.below(WIDTHS.len() as u64)).expect("a width");
        // Cells of one byte must not overflow.
        let full = self.models[target as usize].cells.iter().any(|&held| held > 250);
        match random.below(4) {
            0 | 1 if !full => {
                let (value, fetch) = (random.between(1, 3), random.percent(50));
                Accessing::Add { cell: Cell::Sum(width), value, fetch }
            }
            2 if !full => Accessing::Increment { cell: Cell::Swapped(width) },
            // In rounds without exclusive locks nobody updates.
            _ if hold == Hold::Exclusive => Accessing::Update,
            _ => Accessing::Look,
        }
    }

    fn put(&self, target: u32, block: u64, random: &mut Random) -> Accessing {
        if random.percent(30) {
            return self.get(target, block, random);
        }
        let (at, len) = place(block, BLOCK_BYTES, random);
        Accessing::Put { at, bytes: any_bytes(len, random) }
    }

    fn get(&self, target: u32, block: u64, random: &mut Random) -> Accessing {
        let (at, len) = place(block, BLOCK_BYTES, random);
        Accessing::Get { at, expected: self.held(target, at, len) }
    }

    fn change(&self, target: u32, block: u64, random: &mut Random) -> Accessing {
        match random.below(6) {
            0 => self.get(target, block, random),
            1 => self.swap(target, block, random),
            2 => {
                let operations =
                    [Operation::Sum, Operation::BitXor, Operation::Replace, Operation::Keep];
                let (at, len) = place(block, FETCH_BYTES_MAX, random);
                Accessing::Fetch {
                    at,
                    operator: any_operator(&operations, random),
                    bytes: any_bytes(len, random),
                    expected: self.held(target, at, len),
                }
            }
            _ => {
                let operations = [Operation::Sum, Operation::Max, Operation::Replace];
                let (at, len) = place(block, BLOCK_BYTES, random);
                let operator = any_operator(&operations, random);
                Accessing::Accumulate { at, operator, bytes: any_bytes(len, random) }
            }
        }
    }

    fn swap(&self, target: u32, block: u64, random: &mut Random) -> Accessing {
        let width = random.pick(&WIDTHS);
        let at = block * BLOCK_BYTES + width * random.below(BLOCK_BYTES / width);
        let held = self.held(target, at, width);
        let number = |bytes: &[u8]| {
            let mut wide = [0; 8];
            wide[..bytes.len()].copy_from_slice(bytes);
            u64::from_le_bytes(wide)
        };
        let expected = number(&held);
        let compare = if random.percent(50) { expected } else { number(&any_bytes(width, random)) };
        Accessing::Swap { at, width, compare, value: number(&any_bytes(width, random)), expected }
    }

    fn held(&self, target: u32, at: u64, len: u64) -> Vec<u8> {
        let range = usize::try_from(at).expect("small")..usize::try_from(at + len).expect("small");
        self.models[target as usize].blocks[range].to_vec()
    }
}

/// A part of a block in whole words: all of it, or a few words near its beginning, which others meet.
fn place(block: u64, most: u64, random: &mut Random) -> (u64, u64) {
    let words = most / WORD_BYTES;
    let first = if random.percent(50) { 0 } else { random.below(8) };
    let count = match random.below(4) {
        0 | 1 => random.between(1, 8),
        2 => random.between(1, words),
        _ => words,
    };
    let first = first.min(words - 1);
    (block * BLOCK_BYTES + first * WORD_BYTES, count.min(words - first) * WORD_BYTES)
}

fn any_bytes(len: u64, random: &mut Random) -> Vec<u8> {
    let words = (0..len.div_ceil(WORD_BYTES)).flat_map(|_| random.any().to_le_bytes());
    words.take(usize::try_from(len).expect("a small window")).collect()
}

fn any_operator(operations: &[Operation], random: &mut Random) -> Operator {
    let number = random.pick(&NUMBERS);
    operation::operator(random.pick(operations), number).expect("integers have all operations")
}

/// The operator that adds to a cell.
pub fn adding(cell: Cell) -> Operator {
    let (Cell::Sum(width) | Cell::Swapped(width)) = cell;
    operation::operator(Operation::Sum, NUMBERS[width]).expect("integers have sums")
}

/// Numbers of all widths.
const NUMBERS: [Number; WIDTHS.len()] = [Number::U8, Number::U16, Number::U32, Number::U64];

/// Accesses to blocks are of whole words, except swaps.
pub const WORD_BYTES: u64 = 8;

/// The longest fetch: on every rail it is one frame.
const FETCH_BYTES_MAX: u64 = 128;

const ROUNDS_MAX: u64 = 4;

/// How often a rank makes accesses in a round.
const TURNS_MAX: u64 = 6;

/// How many accesses it makes to the same target before others.
const TOGETHER_MAX: u64 = 3;
