//! The associative unit: cells that compare a match word all at once.
//!
//! Cells are filled in order of age and without holes, so the first cell that agrees is the oldest entry. It is
//! deleted at once, by shifting the younger cells up. Entries come in only in *insert mode*, during which a lookup
//! that fails is held, and repeated when the mode ends: its entry may be among those being inserted.

use alloc::vec::Vec;
use core::mem::size_of;

use super::super::Work;
use crate::word::{Mask, MatchWord};

/// Commands from software to the unit.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Command {
    /// Enter insert mode; answered by [`Response::StartAcknowledge`].
    StartInsert,
    /// Fill the next cell. Only in insert mode, and only as often as was acknowledged.
    Insert {
        /// The bits to compare.
        word: MatchWord,
        /// The mask of bits that count.
        mask: Mask,
        /// The tag to return when the cell agrees: the position in software's list.
        tag: u32,
    },
    /// Leave insert mode; answered only if a lookup was held.
    StopInsert,
    /// Empty all cells.
    Reset,
}

/// Responses of the unit to software.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Response {
    /// Insert mode is entered.
    StartAcknowledge {
        /// Free cells, which may be filled before the mode ends.
        free: usize,
    },
    /// The oldest cell that agrees, which is deleted.
    MatchSuccess {
        /// The tag that came with the cell's [`Command::Insert`].
        tag: u32,
    },
    /// No cell agrees.
    MatchFailure,
}

/// One unit of `CELLS` cells in blocks of `BLOCK`, the parts that find their own first match. It allocates block by
/// block, as its cells fill.
#[derive(Debug, Default)]
pub(super) struct Unit<const CELLS: usize, const BLOCK: usize> {
    blocks: Vec<Block<BLOCK>>,
    filled: usize,
    inserting: bool,
    held: Option<(MatchWord, Mask)>,
    pub(super) work: Work,
}

impl<const CELLS: usize, const BLOCK: usize> Unit<CELLS, BLOCK> {
    /// Executes a command, and returns the response if there is one. A command in the wrong mode is a bug of
    /// software; hardware would drop it silently.
    pub(super) fn command(&mut self, command: Command) -> Option<Response> {
        let inserts = matches!(command, Command::Insert { .. } | Command::StopInsert);
        assert!(inserts == self.inserting, "{command:?} with insert mode {}", self.inserting);
        match command {
            Command::StartInsert => {
                self.inserting = true;
                self.work.insert_modes += 1;
                Some(Response::StartAcknowledge { free: CELLS - self.filled })
            }
            Command::Insert { word, mask, tag } => {
                self.insert(word, mask, tag);
                None
            }
            Command::StopInsert => {
                self.inserting = false;
                let (word, mask) = self.held.take()?;
                self.look(word, mask)
            }
            Command::Reset => {
                self.work.resets += 1;
                self.filled = 0;
                self.blocks.iter_mut().for_each(|block| block.valid = 0);
                None
            }
        }
    }

    /// Looks up the oldest cell that agrees, and deletes it. `None` in insert mode means that the lookup is held;
    /// the next one has to wait until it is answered.
    ///
    /// In a unit of receives the mask is in the cell and `mask` is exact; in a unit of messages it is the other
    /// way round.
    pub(super) fn look(&mut self, word: MatchWord, mask: Mask) -> Option<Response> {
        assert!(self.held.is_none(), "a look while another is held");
        self.work.looks += 1;
        let found = self.blocks.iter().enumerate().find_map(|(block, cells)| {
            let agree = cells.agree(word, mask);
            (agree != 0).then(|| (block, agree.trailing_zeros() as usize))
        });
        if let Some((block, cell)) = found {
            self.work.successes += 1;
            let tag = self.blocks[block].tags[cell];
            self.delete(block, cell);
            return Some(Response::MatchSuccess { tag });
        }
        if self.inserting {
            self.work.held += 1;
            self.held = Some((word, mask));
            return None;
        }
        Some(Response::MatchFailure)
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.blocks.capacity() * size_of::<Block<BLOCK>>()
    }

    fn insert(&mut self, word: MatchWord, mask: Mask, tag: u32) {
        assert!(self.filled < CELLS, "an insert into a full unit");
        let (block, cell) = (self.filled / BLOCK, self.filled % BLOCK);
        if block == self.blocks.len() {
            self.blocks.push(Block::default());
        }
        self.blocks[block].fill(cell, (word.bits(), mask.bits(), tag));
        self.filled += 1;
        self.work.inserts += 1;
    }

    /// Deletes a cell: every cell behind it moves up by one, across blocks.
    fn delete(&mut self, block: usize, cell: usize) {
        let mut follower = None;
        for behind in self.blocks[block + 1..].iter_mut().rev() {
            follower = behind.shift(0, follower);
        }
        self.blocks[block].shift(cell, follower);
        self.filled -= 1;
    }
}

/// Cells side by side, so that one instruction compares several.
#[derive(Debug)]
struct Block<const CELLS: usize> {
    words: [u64; CELLS],
    masks: [u64; CELLS],
    tags: [u32; CELLS],
    /// One bit for each cell, the first cell lowest.
    valid: u32,
}

impl<const CELLS: usize> Default for Block<CELLS> {
    fn default() -> Block<CELLS> {
        const { assert!(CELLS <= u32::BITS as usize) }
        Block { words: [0; CELLS], masks: [0; CELLS], tags: [0; CELLS], valid: 0 }
    }
}

/// Word, mask and tag of a cell that moves to another.
type Moving = (u64, u64, u32);

impl<const CELLS: usize> Block<CELLS> {
    /// One bit for each valid cell that agrees.
    fn agree(&self, word: MatchWord, mask: Mask) -> u32 {
        let mut agree = 0;
        for cell in 0..CELLS {
            let differ = (self.words[cell] ^ word.bits()) & self.masks[cell] & mask.bits();
            agree |= u32::from(differ == 0) << cell;
        }
        agree & self.valid
    }

    fn fill(&mut self, cell: usize, (word, mask, tag): Moving) {
        self.words[cell] = word;
        self.masks[cell] = mask;
        self.tags[cell] = tag;
        self.valid |= 1 << cell;
    }

    /// Drops `cell`, moves those behind it up and `follower` in at the end. Returns what was in `cell`, if
    /// anything.
    fn shift(&mut self, cell: usize, follower: Option<Moving>) -> Option<Moving> {
        let out = (self.words[cell], self.masks[cell], self.tags[cell]);
        let was_valid = self.valid >> cell & 1 == 1;
        self.words[cell..].rotate_left(1);
        self.masks[cell..].rotate_left(1);
        self.tags[cell..].rotate_left(1);
        // Valid cells have no holes: one cell fewer is one bit fewer at the top.
        self.valid >>= u32::from(was_valid);
        if let Some(moving) = follower {
            self.fill(CELLS - 1, moving);
        }
        was_valid.then_some(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: u32 = 256;
    const BLOCK: u32 = 16;

    type Unit = super::Unit<{ FULL as usize }, { BLOCK as usize }>;

    fn word(tag: u32) -> MatchWord {
        MatchWord::new(1, 2, tag)
    }

    fn insert(unit: &mut Unit, mask: Mask, tag: u32) {
        assert_eq!(unit.command(Command::Insert { word: word(tag), mask, tag }), None);
    }

    /// A unit with these tags, in this order, each matching exactly.
    fn unit_of(tags: impl Iterator<Item = u32>) -> Unit {
        let mut unit = Unit::default();
        unit.command(Command::StartInsert);
        tags.for_each(|tag| insert(&mut unit, Mask::EXACT, tag));
        unit.command(Command::StopInsert);
        unit
    }

    fn success(tag: u32) -> Option<Response> {
        Some(Response::MatchSuccess { tag })
    }

    #[test]
    fn a_look_that_fails_in_insert_mode_is_held_and_repeated() {
        let mut unit = Unit::default();
        assert_eq!(unit.look(word(5), Mask::EXACT), Some(Response::MatchFailure));
        let start = unit.command(Command::StartInsert);
        assert_eq!(start, Some(Response::StartAcknowledge { free: FULL as usize }));
        insert(&mut unit, Mask::EXACT, 4);
        assert_eq!(unit.look(word(4), Mask::EXACT), success(4));
        assert_eq!(unit.look(word(5), Mask::EXACT), None);
        insert(&mut unit, Mask::EXACT, 5);
        assert_eq!(unit.command(Command::StopInsert), success(5));
        assert_eq!((unit.work.held, unit.work.looks), (1, 4));
    }

    #[test]
    fn a_held_look_may_fail_in_the_end() {
        let mut unit = Unit::default();
        unit.command(Command::StartInsert);
        assert_eq!(unit.look(word(5), Mask::EXACT), None);
        assert_eq!(unit.command(Command::StopInsert), Some(Response::MatchFailure));
    }

    #[test]
    fn cells_move_up_across_blocks() {
        let count = 3 * BLOCK;
        for gone in 0..count {
            let mut unit = unit_of(0..count);
            assert_eq!(unit.look(word(gone), Mask::EXACT), success(gone));
            for tag in (0..count).filter(|&tag| tag != gone) {
                assert_eq!(unit.look(MatchWord::new(1, 0, 0), Mask::ANY_BOTH), success(tag));
            }
            assert_eq!(unit.filled, 0);
            assert_eq!(unit.look(word(gone), Mask::EXACT), Some(Response::MatchFailure));
        }
    }

    #[test]
    fn the_oldest_cell_wins_whatever_its_mask() {
        let mut unit = Unit::default();
        unit.command(Command::StartInsert);
        insert(&mut unit, Mask::ANY_TAG, 1);
        insert(&mut unit, Mask::EXACT, 2);
        unit.command(Command::StopInsert);
        assert_eq!(unit.look(word(2), Mask::EXACT), success(1));
        assert_eq!(unit.look(word(2), Mask::EXACT), success(2));
    }

    #[test]
    fn reset_empties_the_unit() {
        let mut unit = unit_of(0..FULL);
        unit.command(Command::Reset);
        assert_eq!(unit.look(word(3), Mask::EXACT), Some(Response::MatchFailure));
        let start = unit.command(Command::StartInsert);
        assert_eq!(start, Some(Response::StartAcknowledge { free: FULL as usize }));
    }

    #[test]
    #[should_panic(expected = "insert mode false")]
    fn an_insert_needs_insert_mode() {
        Unit::default().command(Command::Insert { word: word(1), mask: Mask::EXACT, tag: 1 });
    }
}
