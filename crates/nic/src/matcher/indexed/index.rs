//! Queue entries by key, in constant time however many there are.
//!
//! Entries live in an array of slots of half a cache line. Those with an equal key form a *run*, a
//! ring in order of age, and only the oldest of a run, its *leader*, hangs in the chain of a
//! bucket. A thousand equal keys thus cost their bucket's neighbours nothing, and the oldest entry
//! of a key is the first one found. Buckets are as many as there are runs, not entries.
//!
//! An index orders by the order of insertion; it does not compare ages, it only keeps them.

use alloc::vec;
use alloc::vec::Vec;
use core::mem::size_of;

use super::super::{Age, Item};
use crate::word::MatchWord;

/// Entries by key. Empty, it holds no memory.
#[derive(Debug)]
pub(super) struct Index {
    slots: Vec<Slot>,
    /// The first leader of each chain. None, or a power of two of them.
    buckets: Vec<u32>,
    /// How many leaders hang in the chains.
    runs: u32,
    len: u32,
    /// The first slot to use again, linked through `next`. See [`Index::insert`].
    free: u32,
}

/// One entry. The alignment keeps it from straddling two cache lines.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
pub(super) struct Slot {
    pub(super) key: MatchWord,
    pub(super) age: Age,
    /// The next younger entry of the run; the leader, after the youngest.
    next: u32,
    /// The next older entry of the run; the youngest, before the leader.
    prev: u32,
    /// The next leader of the bucket, or one of the marks below.
    chain: u32,
    pub(super) item: Item,
}

impl Index {
    /// Adds the youngest entry of its key, and says where it is.
    #[inline]
    pub(super) fn insert(&mut self, key: MatchWord, age: Age, item: Item) -> u32 {
        let at = self.claim();
        self.link(at, key, age, item);
        at
    }

    /// Adds the youngest entry of its key at a place that another index has chosen. An index
    /// is filled by this or by [`Index::insert`], never by both.
    #[inline]
    pub(super) fn insert_at(&mut self, at: u32, key: MatchWord, age: Age, item: Item) {
        if at as usize >= self.slots.len() {
            self.slots.resize(at as usize + 1, Slot::UNUSED);
        }
        self.link(at, key, age, item);
    }

    /// Removes an entry, wherever in its run it stands, and keeps its place for the next
    /// [`Index::insert`].
    #[inline]
    pub(super) fn remove(&mut self, at: u32) -> Item {
        let item = self.remove_at(at);
        self.slots[at as usize].next = self.free;
        self.free = at;
        item
    }

    /// Removes an entry that [`Index::insert_at`] added.
    #[inline]
    pub(super) fn remove_at(&mut self, at: u32) -> Item {
        let gone = self.slots[at as usize];
        assert!(gone.chain != UNUSED, "slot {at} has no entry to remove");
        let alone = gone.next == at;
        if !alone {
            self.slots[gone.prev as usize].next = gone.next;
            self.slots[gone.next as usize].prev = gone.prev;
        }
        if gone.chain != FOLLOWER {
            let heir = if alone { gone.chain } else { gone.next };
            if alone {
                self.runs -= 1;
            } else {
                self.slots[heir as usize].chain = gone.chain;
            }
            self.relink(gone.key, at, heir);
        }
        self.slots[at as usize].chain = UNUSED;
        self.len -= 1;
        gone.item
    }

    /// Forgets the places of past entries, so that [`Index::entries`] is as short as what comes.
    pub(super) fn forget(&mut self) {
        assert!(self.is_empty(), "an index is forgotten with {} entries", self.len);
        self.slots.clear();
        self.free = NONE;
    }

    /// The place of the oldest entry with this key.
    #[inline]
    pub(super) fn oldest(&self, key: MatchWord) -> Option<u32> {
        if self.is_empty() {
            return None;
        }
        let leader = self.leader(self.buckets[self.bucket(key)], key);
        (leader != NONE).then_some(leader)
    }

    #[inline]
    pub(super) fn slot(&self, at: u32) -> &Slot {
        &self.slots[at as usize]
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len as usize
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// All entries with their places, in no order.
    pub(super) fn entries(&self) -> impl Iterator<Item = (u32, &Slot)> {
        (0..).zip(&self.slots).filter(|(_, slot)| slot.chain != UNUSED)
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Slot>() + self.buckets.capacity() * size_of::<u32>()
    }

    #[inline]
    fn claim(&mut self) -> u32 {
        let at = self.free;
        if at == NONE {
            let at = u32::try_from(self.slots.len()).ok().filter(|&at| at < SLOTS_MAX);
            self.slots.push(Slot::UNUSED);
            return at.expect("an index has room for 2^30 entries");
        }
        self.free = self.slots[at as usize].next;
        at
    }

    #[inline]
    fn link(&mut self, at: u32, key: MatchWord, age: Age, item: Item) {
        debug_assert!(self.slots[at as usize].chain == UNUSED);
        if self.runs as usize >= self.buckets.len() {
            self.grow();
        }
        let bucket = self.bucket(key);
        let first = self.buckets[bucket];
        let leader = self.leader(first, key);
        let slot = if leader == NONE {
            self.buckets[bucket] = at;
            self.runs += 1;
            Slot { key, age, next: at, prev: at, chain: first, item }
        } else {
            let youngest = self.slots[leader as usize].prev;
            self.slots[youngest as usize].next = at;
            self.slots[leader as usize].prev = at;
            Slot { key, age, next: leader, prev: youngest, chain: FOLLOWER, item }
        };
        self.slots[at as usize] = slot;
        self.len += 1;
    }

    /// The leader of the run of `key` in the chain that begins with `at`, or none.
    #[inline]
    fn leader(&self, mut at: u32, key: MatchWord) -> u32 {
        while at != NONE {
            let slot = &self.slots[at as usize];
            if slot.key == key {
                break;
            }
            at = slot.chain;
        }
        at
    }

    /// Puts `heir` where the chain of `key` had the leader `gone`.
    #[inline]
    fn relink(&mut self, key: MatchWord, gone: u32, heir: u32) {
        let bucket = self.bucket(key);
        let mut at = self.buckets[bucket];
        if at == gone {
            self.buckets[bucket] = heir;
            return;
        }
        while self.slots[at as usize].chain != gone {
            at = self.slots[at as usize].chain;
        }
        self.slots[at as usize].chain = heir;
    }

    /// Twice the buckets. Each run moves once for each doubling, so that an insertion pays for a
    /// constant number of moves.
    #[cold]
    fn grow(&mut self) {
        let count = (self.buckets.len() * 2).max(BUCKETS_MIN);
        let chains = core::mem::replace(&mut self.buckets, vec![NONE; count]);
        for mut at in chains {
            while at != NONE {
                let Slot { key, chain, .. } = self.slots[at as usize];
                let bucket = self.bucket(key);
                self.slots[at as usize].chain = self.buckets[bucket];
                self.buckets[bucket] = at;
                at = chain;
            }
        }
    }

    /// A multiplication folded on itself: the three parts of a match word are small numbers,
    /// often in step with each other, and each must reach every bit of the outcome.
    #[inline]
    fn bucket(&self, key: MatchWord) -> usize {
        let (low, high) = key.bits().carrying_mul(0x9e37_79b9_7f4a_7c15, 0);
        ((low ^ high) >> 32) as usize & (self.buckets.len() - 1)
    }
}

impl Default for Index {
    fn default() -> Index {
        Index { slots: Vec::new(), buckets: Vec::new(), runs: 0, len: 0, free: NONE }
    }
}

impl Slot {
    const UNUSED: Slot = Slot {
        key: MatchWord::from_bits(0),
        age: 0,
        next: NONE,
        prev: NONE,
        chain: UNUSED,
        item: 0,
    };
}

/// No slot: the end of a chain or of the free slots.
const NONE: u32 = u32::MAX;
/// In `chain`: an entry behind its leader, in no chain.
const FOLLOWER: u32 = u32::MAX - 1;
/// In `chain`: a slot without an entry.
const UNUSED: u32 = u32::MAX - 2;
/// Places leave two bits for their owner; see `Posted`.
const SLOTS_MAX: u32 = 1 << 30;
const BUCKETS_MIN: usize = 4;

const _: () = assert!(size_of::<Slot>() == 32);

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u32) -> MatchWord {
        MatchWord::new(1, number, number)
    }

    fn drain(index: &mut Index, key: MatchWord) -> Vec<Item> {
        let mut items = Vec::new();
        while let Some(at) = index.oldest(key) {
            items.push(index.remove(at));
        }
        items
    }

    #[test]
    fn an_entry_leaves_the_middle_the_front_and_the_back_of_its_run() {
        for gone in 0..4 {
            let mut index = Index::default();
            let places: Vec<u32> =
                (0..4).map(|item| index.insert(key(7), u64::from(item), item)).collect();
            assert_eq!(index.remove(places[gone]), places[gone]);
            let rest: Vec<Item> = (0..4).filter(|&item| item as usize != gone).collect();
            assert_eq!(drain(&mut index, key(7)), rest);
            assert!(index.is_empty() && index.runs == 0);
        }
    }

    #[test]
    fn keys_of_one_bucket_stay_apart() {
        let mut index = Index::default();
        index.grow();
        let bucket = index.bucket(key(0));
        let mates: Vec<u32> = (0..)
            .filter(|&number| index.bucket(key(number)) == bucket)
            .take(BUCKETS_MIN - 1)
            .collect();
        for round in 0..2 {
            for &mate in &mates {
                index.insert(key(mate), 0, mate * 2 + round);
            }
        }
        assert_eq!(index.buckets.len(), BUCKETS_MIN, "the keys still share a bucket");
        for &mate in mates[1..].iter().chain(&mates[..1]) {
            assert_eq!(drain(&mut index, key(mate)), [mate * 2, mate * 2 + 1]);
        }
    }

    #[test]
    fn growing_keeps_every_run_in_order() {
        let mut index = Index::default();
        for item in 0..3000 {
            index.insert(key(item % 1000), 0, item);
        }
        assert!(index.buckets.len() >= 1000);
        for number in 0..1000 {
            assert_eq!(drain(&mut index, key(number)), [number, number + 1000, number + 2000]);
        }
    }

    #[test]
    fn equal_keys_need_no_more_buckets() {
        let mut index = Index::default();
        (0..1000).for_each(|item| _ = index.insert(key(3), 0, item));
        assert_eq!(index.buckets.len(), BUCKETS_MIN);
    }

    #[test]
    fn slots_are_used_again() {
        let mut index = Index::default();
        for item in 0..1000 {
            let at = index.insert(key(item), 0, item);
            assert_eq!((at, index.remove(at)), (0, item));
        }
    }
}
