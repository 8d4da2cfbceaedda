//! The entries of one class by key, in constant time however many there are.
//!
//! Entries with an equal key form a *run*, a ring in order of insertion, and a hash table knows the oldest entry
//! of each run, its *leader*. Matching in deep queues costs cache misses and mispredicted branches. So the table
//! consists of groups of half a cache line; a run is told from the others of its group by a tag of seven bits, all
//! tags of a group are compared at once, and an entry is read only if its tag agrees. A run of one entry has no
//! links: it costs its group and nothing else.
//!
//! The first lookup, in the group that a hash names, nearly always decides, and only that is inlined into callers;
//! the rest is in functions that end in `_slowly`.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::mem::size_of;

use super::super::Age;
use super::slots::Slots;
use crate::word::{Mask, MatchWord};

/// Runs by key. The entries are in [`Slots`], and the key is their word under `mask`; both must be the same for
/// every call. Allocates nothing while empty.
#[derive(Debug, Default)]
pub(super) struct Runs {
    /// Empty, or a power of two of groups. They grow when a run finds no room in its group and half of all room is
    /// taken. A run is in the first group with room, starting from the one that its hash names.
    groups: Box<[Group]>,
    /// Neighbours in runs of several entries, by slot.
    links: Vec<Link>,
    /// The number of runs.
    len: u32,
}

/// At most six runs, in half a cache line.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(32))]
struct Group {
    /// A byte for each run, zero if there is none; and in the two bytes above them, how many runs found no room
    /// here and are in a later group.
    tags: u64,
    runs: [KeyRun; RUNS],
}

/// Entries with an equal key: the slot of the oldest, with [`SEVERAL`] if it is not the only one.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct KeyRun(u32);

impl KeyRun {
    /// The run of the entry at `at` and no other.
    #[inline]
    pub(super) fn single(at: u32) -> KeyRun {
        KeyRun(at)
    }

    /// The slot of the oldest entry.
    #[inline]
    pub(super) fn leader(self) -> u32 {
        self.0 & !SEVERAL
    }

    #[inline]
    fn is_single(self) -> bool {
        self.0 & SEVERAL == 0
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Link {
    /// The next younger entry of the run; after the youngest, the leader.
    next: u32,
    /// The next older entry of the run; before the leader, the youngest.
    prev: u32,
}

/// The result of a search: the run, and the slot of its leader.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    pub(super) at: u32,
    /// The group that its hash names; the run is in this one, or in a later one if that was full.
    wanted: usize,
    group: usize,
    run: usize,
}

impl Runs {
    /// Adds entries, which are the youngest of their key.
    #[inline(always)]
    pub(super) fn insert(&mut self, young: KeyRun, key: MatchWord, slots: &Slots, mask: Mask) {
        let hash = hash(key);
        let wanted = self.wanted_group(hash);
        if let Some(group) = self.groups.get_mut(wanted) {
            let run = first_byte(bytes_equal(group.tags, tag(hash)));
            if let Some(run) = group.runs.get_mut(run) {
                if slots.slot(run.leader()).word.masked(mask) == key {
                    return join(run, &mut self.links, young);
                }
            } else if group.tags < PASSED_ONE && !group.is_full() {
                group.insert(hash, young);
                self.len += 1;
                return;
            }
        }
        self.insert_slowly(young, key, slots, mask);
    }

    /// Appends the entry at `at` to a run that is not in the table.
    #[inline(always)]
    pub(super) fn join(&mut self, run: &mut KeyRun, at: u32) {
        join(run, &mut self.links, KeyRun::single(at));
    }

    /// Removes the entry at `at` from a run that is not in the table, and returns what is left.
    #[inline(always)]
    pub(super) fn leave(&mut self, mut run: KeyRun, at: u32) -> Option<KeyRun> {
        if run == KeyRun::single(at) {
            return None;
        }
        leave(&mut run, &mut self.links, at);
        Some(run)
    }

    /// Removes the entry at `at` from anywhere in its run.
    #[inline(always)]
    pub(super) fn remove(&mut self, at: u32, key: MatchWord, slots: &Slots, mask: Mask) {
        let hash = hash(key);
        let wanted = self.wanted_group(hash);
        if self.groups[wanted].remove(hash, at) {
            self.len -= 1;
        } else {
            self.remove_slowly(at, key, slots, mask);
        }
    }

    /// Removes the oldest entry with this key if it is older than `before`, and returns its slot.
    #[inline(always)]
    pub(super) fn take(
        &mut self,
        key: MatchWord,
        slots: &Slots,
        mask: Mask,
        before: Age,
    ) -> Option<u32> {
        if self.len == 0 {
            return None;
        }
        let hash = hash(key);
        let wanted = self.wanted_group(hash);
        let Group { tags, runs } = &self.groups[wanted];
        let run = first_byte(bytes_equal(*tags, tag(hash)));
        if run < RUNS {
            let at = runs[run].leader();
            let slot = slots.slot(at);
            if slot.word.masked(mask) == key {
                let older = slot.age < before;
                if older {
                    self.remove_from(Found { at, wanted, group: wanted, run }, at);
                }
                return older.then_some(at);
            }
        } else if *tags < PASSED_ONE {
            return None;
        }
        self.take_slowly(key, slots, mask, before)
    }

    /// The oldest entry with this key.
    #[inline(always)]
    pub(super) fn oldest(&self, key: MatchWord, slots: &Slots, mask: Mask) -> Option<Found> {
        if self.len == 0 {
            return None;
        }
        let hash = hash(key);
        let wanted = self.wanted_group(hash);
        let Group { tags, runs } = &self.groups[wanted];
        let run = first_byte(bytes_equal(*tags, tag(hash)));
        if run < RUNS {
            let at = runs[run].leader();
            if slots.slot(at).word.masked(mask) == key {
                return Some(Found { at, wanted, group: wanted, run });
            }
        } else if *tags < PASSED_ONE {
            return None;
        }
        self.find_slowly(key, slots, mask)
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.groups.len() * size_of::<Group>() + self.links.capacity() * size_of::<Link>()
    }

    /// Finds the run with this key among all candidates in all groups where it can be.
    #[inline(never)]
    fn find_slowly(&self, key: MatchWord, slots: &Slots, mask: Mask) -> Option<Found> {
        let hash = hash(key);
        let wanted = self.wanted_group(hash);
        let mut group = wanted;
        loop {
            let Group { tags, runs } = &self.groups[group];
            let mut candidates = bytes_equal(*tags, tag(hash));
            while candidates != 0 {
                let run = first_byte(candidates);
                let at = runs[run].leader();
                if slots.slot(at).word.masked(mask) == key {
                    return Some(Found { at, wanted, group, run });
                }
                candidates &= candidates - 1;
            }
            if *tags < PASSED_ONE {
                return None;
            }
            group = self.next_group(group);
            // Every group may have been full at some time, so that none ends the search.
            if group == wanted {
                return None;
            }
        }
    }

    #[inline(never)]
    fn take_slowly(
        &mut self,
        key: MatchWord,
        slots: &Slots,
        mask: Mask,
        before: Age,
    ) -> Option<u32> {
        let found = self.find_slowly(key, slots, mask)?;
        let older = slots.slot(found.at).age < before;
        if older {
            self.remove_from(found, found.at);
        }
        older.then_some(found.at)
    }

    /// Inserts when the first lookup did not find the run of the entry, nor room for a new run in its group.
    #[inline(never)]
    fn insert_slowly(&mut self, young: KeyRun, key: MatchWord, slots: &Slots, mask: Mask) {
        if let Some(found) = self.oldest(key, slots, mask) {
            return join(&mut self.groups[found.group].runs[found.run], &mut self.links, young);
        }
        if self.len as usize >= self.groups.len() * RUNS / 2 {
            self.grow(slots, mask);
        }
        self.insert_run(hash(key), young);
    }

    /// Adds a run whose key is not in the table.
    fn insert_run(&mut self, hash: u32, run: KeyRun) {
        self.len += 1;
        let mut group = self.wanted_group(hash);
        while self.groups[group].is_full() {
            self.groups[group].pass();
            group = self.next_group(group);
        }
        self.groups[group].insert(hash, run);
    }

    #[inline(always)]
    fn remove_from(&mut self, found: Found, at: u32) {
        let group = &mut self.groups[found.group];
        let run = &mut group.runs[found.run];
        if *run != KeyRun::single(at) {
            return leave(run, &mut self.links, at);
        }
        group.clear(found.run);
        self.len -= 1;
        if found.group != found.wanted {
            self.unpass(found);
        }
    }

    /// Removes an entry that is in a run of several, or not in the group that its hash names.
    #[inline(never)]
    fn remove_slowly(&mut self, at: u32, key: MatchWord, slots: &Slots, mask: Mask) {
        let found = self.oldest(key, slots, mask).expect("an entry is in the run of its key");
        self.remove_from(found, at);
    }

    /// Undoes the counts of a removed run that was in a later group.
    #[inline(never)]
    fn unpass(&mut self, found: Found) {
        let mut group = found.wanted;
        while group != found.group {
            self.groups[group].unpass();
            group = self.next_group(group);
        }
    }

    /// Doubles the groups. Each run moves once for each doubling, so an insertion pays for a constant number of
    /// moves.
    #[cold]
    fn grow(&mut self, slots: &Slots, mask: Mask) {
        let groups = vec![Group::default(); (self.groups.len() * 2).max(1)];
        let before = core::mem::replace(&mut self.groups, groups.into_boxed_slice());
        self.len = 0;
        for group in before {
            let runs = (0..RUNS).filter(|&run| group.tags >> (run * 8) & 0xff != 0);
            for run in runs.map(|run| group.runs[run]) {
                let key = slots.slot(run.leader()).word.masked(mask);
                self.insert_run(hash(key), run);
            }
        }
    }

    #[inline]
    fn wanted_group(&self, hash: u32) -> usize {
        hash as usize & self.groups.len().wrapping_sub(1)
    }

    #[inline]
    fn next_group(&self, group: usize) -> usize {
        (group + 1) & (self.groups.len() - 1)
    }
}

impl Group {
    #[inline]
    fn is_full(&self) -> bool {
        self.tags & TOP_BITS == TOP_BITS
    }

    #[inline]
    fn insert(&mut self, hash: u32, run: KeyRun) {
        let at = first_byte(!self.tags & TOP_BITS);
        self.tags |= tag(hash) << (at * 8);
        self.runs[at] = run;
    }

    /// Removes the run of the single entry at `at`, if the first lookup finds it.
    #[inline]
    fn remove(&mut self, hash: u32, at: u32) -> bool {
        let run = first_byte(bytes_equal(self.tags, tag(hash)));
        let found = self.runs.get(run) == Some(&KeyRun::single(at));
        if found {
            self.clear(run);
        }
        found
    }

    #[inline]
    fn clear(&mut self, run: usize) {
        self.tags &= !(0xff << (run * 8));
    }

    /// Counts a run that goes on to the next group.
    fn pass(&mut self) {
        if self.tags < PASSED_MAX {
            self.tags += PASSED_ONE;
        }
    }

    /// Uncounts a run that went on and has left. A saturated count stays as it is.
    fn unpass(&mut self) {
        if self.tags < PASSED_MAX {
            self.tags -= PASSED_ONE;
        }
    }
}

/// Appends entries to a run.
#[inline(always)]
fn join(run: &mut KeyRun, links: &mut Vec<Link>, young: KeyRun) {
    let (leader, first) = (run.leader(), young.leader());
    let room = leader.max(first) as usize + 1;
    if links.len() < room {
        add_links(links, room);
    }
    let before = if run.is_single() { leader } else { links[leader as usize].prev };
    let last = if young.is_single() { first } else { links[first as usize].prev };
    links[before as usize].next = first;
    links[first as usize].prev = before;
    links[last as usize].next = leader;
    links[leader as usize].prev = last;
    *run = KeyRun(leader | SEVERAL);
}

/// Removes the entry at `at` from a run of several.
#[inline(always)]
fn leave(run: &mut KeyRun, links: &mut [Link], at: u32) {
    assert!(!run.is_single(), "place {at} is not in the run of its key");
    let Link { next, prev } = links[at as usize];
    links[prev as usize].next = next;
    links[next as usize].prev = prev;
    let leader = run.leader();
    let leader = if leader == at { next } else { leader };
    let several = if next == prev { 0 } else { SEVERAL };
    *run = KeyRun(leader | several);
}

#[cold]
fn add_links(links: &mut Vec<Link>, room: usize) {
    links.resize(room, Link::default());
}

/// A multiplication folded on itself: the three parts of a match word are small numbers, often correlated, and
/// each must affect every bit of the result. Small numbers leave little in the upper half of the product, hence
/// the constant that is mixed in first.
#[inline]
fn hash(key: MatchWord) -> u32 {
    let (low, high) = (key.bits() ^ 0x243f_6a88_85a3_08d3).carrying_mul(0x9e37_79b9_7f4a_7c15, 0);
    ((low ^ high) >> 32) as u32
}

/// Seven bits of the hash that do not name the group, and the top bit, so that a tag is never zero.
#[inline]
fn tag(hash: u32) -> u64 {
    u64::from(hash >> 25 | 0x80)
}

/// The top bit of each byte of `tags` that equals `tag`, and sometimes of one that does not: the subtraction
/// borrows from the byte above a match. Keys are compared in any case.
#[inline]
fn bytes_equal(tags: u64, tag: u64) -> u64 {
    let differ = tags ^ (LOW_BITS * tag);
    differ.wrapping_sub(LOW_BITS) & !differ & TOP_BITS
}

/// The index of the first byte with its top bit set; `RUNS` or more if there is none.
#[inline]
fn first_byte(top_bits: u64) -> usize {
    top_bits.trailing_zeros() as usize / 8
}

/// Runs of a group: with the tags, they fill half a cache line.
const RUNS: usize = 6;
const LOW_BITS: u64 = 0x0000_0101_0101_0101;
const TOP_BITS: u64 = 0x0000_8080_8080_8080;
/// One run that found no room, in the two bytes above the tags, and the most that these can count.
const PASSED_ONE: u64 = 1 << 48;
const PASSED_MAX: u64 = 0xffff << 48;
/// In a [`KeyRun`]: it has links.
const SEVERAL: u32 = 1 << 31;

const _: () = assert!(size_of::<Group>() == 32);

#[cfg(test)]
mod tests {
    use super::super::Class;
    use super::*;

    const MASK: Mask = Mask::EXACT;

    #[derive(Default)]
    struct Queue {
        runs: Runs,
        slots: Slots,
    }

    impl Queue {
        fn insert(&mut self, number: u32, item: u32) -> u32 {
            let at = self.slots.insert(key(number), 0, item, Class::Exact);
            self.runs.insert(KeyRun::single(at), key(number), &self.slots, MASK);
            at
        }

        fn remove(&mut self, at: u32) -> u32 {
            self.runs.remove(at, self.slots.slot(at).word, &self.slots, MASK);
            self.slots.remove(at)
        }

        fn drain(&mut self, number: u32) -> Vec<u32> {
            let mut items = Vec::new();
            while let Some(found) = self.runs.oldest(key(number), &self.slots, MASK) {
                items.push(self.remove(found.at));
            }
            items
        }
    }

    fn key(number: u32) -> MatchWord {
        MatchWord::new(1, number, number)
    }

    #[test]
    fn an_entry_leaves_the_middle_the_front_and_the_back_of_its_run() {
        for gone in 0..4 {
            let mut queue = Queue::default();
            let places: Vec<u32> = (0..4).map(|item| queue.insert(7, item)).collect();
            assert_eq!(queue.remove(places[gone]), places[gone]);
            let rest: Vec<u32> = (0..4).filter(|&item| item as usize != gone).collect();
            assert_eq!(queue.drain(7), rest);
            assert!(queue.runs.is_empty());
        }
    }

    #[test]
    fn a_run_grows_again_after_it_shrank_to_one() {
        let mut queue = Queue::default();
        let places = [0, 1].map(|item| queue.insert(7, item));
        queue.remove(places[0]);
        queue.insert(7, 2);
        assert_eq!(queue.drain(7), [1, 2]);
    }

    /// More keys than a group has room for, all of which want the last group: the others continue at the first.
    #[test]
    fn keys_that_want_one_group_stay_apart() {
        let wants_last = |&number: &u32| hash(key(number)) & 3 == 3;
        let mates: Vec<u32> = (0..).filter(wants_last).take(RUNS + 3).collect();
        for first in 0..mates.len() {
            let mut queue = Queue::default();
            for round in 0..2 {
                mates.iter().for_each(|&mate| _ = queue.insert(mate, mate * 2 + round));
            }
            assert_eq!(queue.runs.groups.len(), 4, "the keys still meet");
            for turn in 0..mates.len() {
                let mate = mates[(first + turn) % mates.len()];
                assert_eq!(queue.drain(mate), [mate * 2, mate * 2 + 1]);
            }
            assert!(queue.runs.groups.iter().all(|group| group.tags == 0));
        }
    }

    #[test]
    fn a_group_that_lost_count_keeps_the_search_going() {
        let mut group = Group::default();
        (0..70_000).for_each(|_| group.pass());
        (0..70_000).for_each(|_| group.unpass());
        assert_eq!(group.tags, PASSED_MAX);
    }

    /// Fills each of four groups in turn with runs that want it, until one has to go on, and removes the others
    /// again. Then every group has been passed, and a search must still end.
    #[test]
    fn a_search_ends_when_every_group_has_been_passed() {
        let mut queue = Queue::default();
        let places: Vec<u32> = (0..9).map(|number| queue.insert(number, 0)).collect();
        places.into_iter().for_each(|at| _ = queue.remove(at));
        for group in 0..4 {
            let mut wanting = (100..).filter(|&number| hash(key(number)) & 3 == group);
            let mut places = Vec::new();
            while queue.runs.groups[group as usize].tags < PASSED_ONE {
                places.push(queue.insert(wanting.next().expect("one in four"), 0));
            }
            // The last one has gone on.
            places.pop();
            places.into_iter().for_each(|at| _ = queue.remove(at));
        }
        assert_eq!(queue.runs.groups.len(), 4);
        assert!(queue.runs.groups.iter().all(|group| group.tags >= PASSED_ONE));
        assert!(queue.runs.oldest(key(7), &queue.slots, MASK).is_none());
    }

    #[test]
    fn growing_keeps_every_run_in_order() {
        let mut queue = Queue::default();
        (0..3000).for_each(|item| _ = queue.insert(item % 1000, item));
        assert!(queue.runs.groups.len() * RUNS >= 2000);
        for number in 0..1000 {
            assert_eq!(queue.drain(number), [number, number + 1000, number + 2000]);
        }
    }

    #[test]
    fn equal_keys_need_one_group_and_single_ones_no_links() {
        let mut queue = Queue::default();
        (0..1000).for_each(|item| _ = queue.insert(3, item));
        assert_eq!(queue.runs.groups.len(), 1);
        let mut queue = Queue::default();
        (0..1000).for_each(|item| _ = queue.insert(item, item));
        assert_eq!(queue.runs.links.len(), 0);
    }
}
