//! A queue with a unit that helps to search it.
//!
//! Software keeps the whole queue as a list. The oldest entries are in the unit as well. The rest has spilled: it
//! waits until cells are free and moving it in is worth the commands. So whatever the unit finds is older than
//! anything that it does not hold, and software searches only the spilled part, and only when the unit found
//! nothing.

use alloc::vec::Vec;
use core::mem::size_of;

use super::super::{Age, Entry, Item, Work};
use super::unit::{Command, Response, Unit};
use crate::word::{Mask, MatchWord};

/// A list in order of age, and the unit that holds its front. Entries are loaded when `LEAST` of them have spilled.
#[derive(Debug)]
pub(super) struct Spill<const CELLS: usize, const BLOCK: usize, const LEAST: usize> {
    unit: Unit<CELLS, BLOCK>,
    nodes: Vec<Node>,
    len: usize,
    oldest: u32,
    youngest: u32,
    /// The oldest entry that is not in the unit.
    spilled: u32,
    spilled_len: usize,
    /// The first node to reuse, linked through `next`.
    free: u32,
    next_age: Age,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    entry: Entry,
    age: Age,
    next: u32,
    prev: u32,
}

impl<const CELLS: usize, const BLOCK: usize, const LEAST: usize> Spill<CELLS, BLOCK, LEAST> {
    pub(super) fn append(&mut self, entry: Entry) -> u32 {
        let node = Node { entry, age: self.next_age, next: NONE, prev: self.youngest };
        self.next_age += 1;
        let at = self.claim(node);
        match self.youngest {
            NONE => self.oldest = at,
            youngest => self.nodes[youngest as usize].next = at,
        }
        self.youngest = at;
        if self.spilled == NONE {
            self.spilled = at;
        }
        self.len += 1;
        self.spilled_len += 1;
        self.load_if_worthwhile();
        at
    }

    /// Takes the oldest entry that agrees, if it is older than `before`.
    pub(super) fn take(&mut self, word: MatchWord, mask: Mask, before: Age) -> Option<Item> {
        let at = match self.ask_unit(word, mask) {
            Some(at) => at,
            None => self.search(self.spilled, word, mask)?,
        };
        if self.nodes[at as usize].age >= before {
            // The unit has deleted what it found, and cannot put it back in order.
            if self.is_loaded(at) {
                self.reload();
            }
            return None;
        }
        let item = self.unlink(at);
        self.load_if_worthwhile();
        Some(item)
    }

    /// Finds the oldest entry that agrees and leaves it. Software does this, because the unit deletes what it
    /// finds.
    pub(super) fn find(&mut self, word: MatchWord, mask: Mask) -> Option<Item> {
        let at = self.search(self.oldest, word, mask)?;
        Some(self.nodes[at as usize].entry.item)
    }

    /// Removes an entry from anywhere in the queue. The unit has no command for this, so it is reloaded.
    pub(super) fn remove(&mut self, at: u32) -> Item {
        let loaded = self.is_loaded(at);
        let item = self.unlink(at);
        if loaded {
            self.reload();
        }
        item
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn next_age(&self) -> Age {
        self.next_age
    }

    pub(super) fn work(&self) -> Work {
        Work { loaded: self.len - self.spilled_len, ..self.unit.work }
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = Entry> {
        self.walk(self.oldest).map(|at| self.nodes[at as usize].entry)
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.unit.heap_bytes() + self.nodes.capacity() * size_of::<Node>()
    }

    fn ask_unit(&mut self, word: MatchWord, mask: Mask) -> Option<u32> {
        // An empty unit is not worth a lookup, unless software has no such rules.
        if self.spilled_len == self.len && LEAST > 1 {
            return None;
        }
        match self.unit.look(word, mask) {
            Some(Response::MatchSuccess { tag }) => Some(tag),
            Some(Response::MatchFailure) => None,
            other => panic!("a look outside insert mode is answered by {other:?}"),
        }
    }

    fn search(&mut self, from: u32, word: MatchWord, mask: Mask) -> Option<u32> {
        let mut searched = 0;
        let found = self.walk(from).find(|&at| {
            searched += 1;
            let Entry { word: stored, mask: wanted, .. } = self.nodes[at as usize].entry;
            (word.bits() ^ stored.bits()) & wanted.bits() & mask.bits() == 0
        });
        self.unit.work.searched += searched;
        found
    }

    fn walk(&self, from: u32) -> impl Iterator<Item = u32> {
        let some = |at: u32| (at != NONE).then_some(at);
        core::iter::successors(some(from), move |&at| some(self.nodes[at as usize].next))
    }

    fn is_loaded(&self, at: u32) -> bool {
        let age = self.nodes[at as usize].age;
        self.spilled == NONE || age < self.nodes[self.spilled as usize].age
    }

    /// Removes an entry from the list. The caller keeps the unit in step.
    fn unlink(&mut self, at: u32) -> Item {
        let Node { entry, next, prev, .. } = self.nodes[at as usize];
        if !self.is_loaded(at) {
            self.spilled_len -= 1;
            if self.spilled == at {
                self.spilled = next;
            }
        }
        match prev {
            NONE => self.oldest = next,
            _ => self.nodes[prev as usize].next = next,
        }
        match next {
            NONE => self.youngest = prev,
            _ => self.nodes[next as usize].prev = prev,
        }
        self.nodes[at as usize].next = self.free;
        self.free = at;
        self.len -= 1;
        entry.item
    }

    fn claim(&mut self, node: Node) -> u32 {
        let at = self.free;
        if at == NONE {
            let at = u32::try_from(self.nodes.len()).ok().filter(|&at| at != NONE);
            self.nodes.push(node);
            return at.expect("a queue has room for 2^32 - 1 entries");
        }
        self.free = self.nodes[at as usize].next;
        self.nodes[at as usize] = node;
        at
    }

    fn reload(&mut self) {
        self.unit.command(Command::Reset);
        self.spilled = self.oldest;
        self.spilled_len = self.len;
        self.load_if_worthwhile();
    }

    /// Insert mode costs two commands however many entries it brings.
    fn load_if_worthwhile(&mut self) {
        let free = CELLS - (self.len - self.spilled_len);
        if self.spilled_len >= LEAST && free >= LEAST {
            self.load();
        }
    }

    fn load(&mut self) {
        let Some(Response::StartAcknowledge { free }) = self.unit.command(Command::StartInsert)
        else {
            panic!("insert mode is acknowledged")
        };
        for _ in 0..free.min(self.spilled_len) {
            let Node { entry, next, .. } = self.nodes[self.spilled as usize];
            let tag = self.spilled;
            self.unit.command(Command::Insert { word: entry.word, mask: entry.mask, tag });
            self.spilled = next;
            self.spilled_len -= 1;
        }
        self.unit.command(Command::StopInsert);
    }
}

impl<const CELLS: usize, const BLOCK: usize, const LEAST: usize> Default
    for Spill<CELLS, BLOCK, LEAST>
{
    fn default() -> Self {
        Spill {
            unit: Unit::default(),
            nodes: Vec::new(),
            len: 0,
            oldest: NONE,
            youngest: NONE,
            spilled: NONE,
            spilled_len: 0,
            free: NONE,
            next_age: 0,
        }
    }
}

const NONE: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: u32 = 256;
    const BLOCK: u32 = 16;

    type Spill = super::Spill<{ FULL as usize }, { BLOCK as usize }, { BLOCK as usize }>;

    fn entry(item: Item) -> Entry {
        Entry { word: MatchWord::new(1, 2, item), mask: Mask::EXACT, item }
    }

    fn queue_of(count: u32) -> Spill {
        let mut queue = Spill::default();
        (0..count).for_each(|item| _ = queue.append(entry(item)));
        queue
    }

    fn take(queue: &mut Spill, item: Item, before: Age) -> Option<Item> {
        queue.take(entry(item).word, Mask::EXACT, before)
    }

    #[test]
    fn what_does_not_fit_spills_and_moves_in_when_cells_are_free() {
        let mut queue = queue_of(FULL + 100);
        assert_eq!(queue.spilled_len, 100);
        for item in 0..BLOCK - 1 {
            assert_eq!(take(&mut queue, item, Age::MAX), Some(item));
        }
        assert_eq!((queue.spilled_len, queue.work().searched), (100, 0));
        assert_eq!(take(&mut queue, BLOCK, Age::MAX), Some(BLOCK));
        assert_eq!(queue.spilled_len, 100 - BLOCK as usize);
    }

    #[test]
    fn software_searches_the_spilled_part_only() {
        let mut queue = queue_of(FULL + 100);
        assert_eq!(take(&mut queue, FULL + 9, Age::MAX), Some(FULL + 9));
        assert_eq!(queue.work().searched, 10);
    }

    #[test]
    fn an_entry_that_is_too_young_stays_in_its_place() {
        let mut queue = queue_of(40);
        assert_eq!(take(&mut queue, 5, 5), None);
        assert_eq!(queue.work().resets, 1);
        assert!(queue.entries().map(|entry| entry.item).eq(0..40));
        assert_eq!(take(&mut queue, 5, 6), Some(5));
    }

    #[test]
    fn a_removed_entry_is_gone_from_the_unit() {
        let mut queue = queue_of(40);
        assert_eq!((queue.remove(39), queue.remove(7)), (39, 7));
        assert_eq!(take(&mut queue, 7, Age::MAX), None);
        assert_eq!(take(&mut queue, 39, Age::MAX), None);
        assert_eq!((queue.len(), queue.work().resets), (38, 1));
    }
}
