//! The entries of one class by key, in constant time however many there are.
//!
//! Entries with an equal key form a *run*, a ring in order of insertion, and a run has one bucket,
//! which knows the place of its oldest entry, the *leader*, and the hash of its key. The price of
//! matching deep queues is the cache lines it touches. So a bucket that does not match is passed
//! over by its hash alone, and a run of one entry has no links at all: it costs the line of
//! its bucket and nothing else.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::mem::size_of;

use super::slots::Slots;
use crate::word::{Mask, MatchWord};

/// Runs by key. The entries are in [`Slots`], and the key is what `mask` leaves of their words;
/// both are the same for every call. Empty, it holds no memory.
#[derive(Debug, Default)]
pub(super) struct Runs {
    /// None, or a power of two of them, at least half of them empty. A run stands at the first
    /// place that was free at or behind the one its hash names.
    buckets: Box<[Bucket]>,
    /// Neighbours in the runs of several entries, by place.
    links: Vec<Link>,
    /// How many runs there are.
    len: u32,
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    hash: u32,
    /// The place of the oldest entry, with [`SEVERAL`] if it is not the only one.
    leader: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Link {
    /// The next younger entry of the run; the leader, after the youngest.
    next: u32,
    /// The next older entry of the run; the youngest, before the leader.
    prev: u32,
}

impl Runs {
    /// Adds the entry at `at` as the youngest of its key.
    #[inline]
    pub(super) fn insert(&mut self, at: u32, slots: &Slots, mask: Mask) {
        if self.len as usize * 2 >= self.buckets.len() {
            self.grow();
        }
        let key = slots.slot(at).word.masked(mask);
        let hash = hash(key);
        let bucket = self.find(hash, |leader| slots.slot(leader).word.masked(mask) == key);
        if self.buckets[bucket].leader == EMPTY {
            self.buckets[bucket] = Bucket { hash, leader: at };
            self.len += 1;
        } else {
            self.join(bucket, at);
        }
    }

    /// Removes the entry at `at`, wherever in its run it stands.
    #[inline]
    pub(super) fn remove(&mut self, at: u32, slots: &Slots, mask: Mask) {
        let key = slots.slot(at).word.masked(mask);
        let bucket = self
            .find(hash(key), |leader| leader == at || slots.slot(leader).word.masked(mask) == key);
        if self.buckets[bucket].leader == at {
            self.empty(bucket);
        } else {
            self.leave(bucket, at);
        }
    }

    /// The place of the oldest entry with this key.
    #[inline]
    pub(super) fn oldest(&self, key: MatchWord, slots: &Slots, mask: Mask) -> Option<u32> {
        if self.len == 0 {
            return None;
        }
        let bucket = self.find(hash(key), |leader| slots.slot(leader).word.masked(mask) == key);
        let leader = self.buckets[bucket].leader;
        (leader != EMPTY).then_some(leader & !SEVERAL)
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.buckets.len() * size_of::<Bucket>() + self.links.capacity() * size_of::<Link>()
    }

    /// The bucket of the run whose leader has the key, or the empty bucket where it would stand.
    #[inline]
    fn find(&self, hash: u32, has_key: impl Fn(u32) -> bool) -> usize {
        let last = self.buckets.len() - 1;
        let mut at = hash as usize & last;
        loop {
            let bucket = self.buckets[at];
            let empty = bucket.leader == EMPTY;
            if empty || bucket.hash == hash && has_key(bucket.leader & !SEVERAL) {
                return at;
            }
            at = (at + 1) & last;
        }
    }

    /// The entry at `at` follows the youngest of a run.
    fn join(&mut self, bucket: usize, at: u32) {
        let leader = self.buckets[bucket].leader & !SEVERAL;
        let room = at.max(leader) as usize + 1;
        if self.links.len() < room {
            self.links.resize(room, Link::default());
        }
        if self.buckets[bucket].leader == leader {
            self.buckets[bucket].leader = leader | SEVERAL;
            self.links[leader as usize] = Link { next: leader, prev: leader };
        }
        let youngest = self.links[leader as usize].prev;
        self.links[at as usize] = Link { next: leader, prev: youngest };
        self.links[youngest as usize].next = at;
        self.links[leader as usize].prev = at;
    }

    /// The entry at `at` leaves a run of several.
    fn leave(&mut self, bucket: usize, at: u32) {
        let leader = self.buckets[bucket].leader & !SEVERAL;
        assert!(self.buckets[bucket].leader != leader, "place {at} is in no run");
        let Link { next, prev } = self.links[at as usize];
        self.links[prev as usize].next = next;
        self.links[next as usize].prev = prev;
        let leader = if leader == at { next } else { leader };
        let several = if next == prev { 0 } else { SEVERAL };
        self.buckets[bucket].leader = leader | several;
    }

    /// Empties a bucket, and moves up those behind it that would not be found past a gap.
    #[inline]
    fn empty(&mut self, mut gap: usize) {
        let last = self.buckets.len() - 1;
        let mut at = gap;
        self.len -= 1;
        loop {
            at = (at + 1) & last;
            let bucket = self.buckets[at];
            if bucket.leader == EMPTY {
                break;
            }
            let wanted = bucket.hash as usize & last;
            if at.wrapping_sub(wanted) & last >= at.wrapping_sub(gap) & last {
                self.buckets[gap] = bucket;
                gap = at;
            }
        }
        self.buckets[gap].leader = EMPTY;
    }

    /// Twice the buckets. Each run moves once for each doubling, so that an insertion pays for a
    /// constant number of moves; no entry is touched.
    #[cold]
    fn grow(&mut self) {
        let count = (self.buckets.len() * 2).max(BUCKETS_MIN);
        let empty = Bucket { hash: 0, leader: EMPTY };
        let before = core::mem::replace(&mut self.buckets, vec![empty; count].into_boxed_slice());
        for &run in before.iter().filter(|bucket| bucket.leader != EMPTY) {
            let bucket = self.find(run.hash, |_| false);
            self.buckets[bucket] = run;
        }
    }
}

/// A multiplication folded on itself: the three parts of a match word are small numbers, often in
/// step with each other, and each must reach every bit of the outcome.
#[inline]
fn hash(key: MatchWord) -> u32 {
    let (low, high) = key.bits().carrying_mul(0x9e37_79b9_7f4a_7c15, 0);
    ((low ^ high) >> 32) as u32
}

/// In `leader`: no run stands here.
const EMPTY: u32 = u32::MAX;
/// In `leader`: the run has links.
const SEVERAL: u32 = 1 << 31;
const BUCKETS_MIN: usize = 8;

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
            self.runs.insert(at, &self.slots, MASK);
            at
        }

        fn remove(&mut self, at: u32) -> u32 {
            self.runs.remove(at, &self.slots, MASK);
            self.slots.remove(at)
        }

        fn drain(&mut self, number: u32) -> Vec<u32> {
            let mut items = Vec::new();
            while let Some(at) = self.runs.oldest(key(number), &self.slots, MASK) {
                items.push(self.remove(at));
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

    /// Keys that want the same bucket, the last one: those behind it begin again at the first.
    #[test]
    fn keys_that_want_one_bucket_stay_apart() {
        let last = BUCKETS_MIN - 1;
        let wants_last = |&number: &u32| hash(key(number)) as usize & last == last;
        let mates: Vec<u32> = (0..).filter(wants_last).take(3).collect();
        for first in 0..3 {
            let mut queue = Queue::default();
            for round in 0..2 {
                mates.iter().for_each(|&mate| _ = queue.insert(mate, mate * 2 + round));
            }
            assert_eq!(queue.runs.buckets.len(), BUCKETS_MIN, "the keys still meet");
            for turn in 0..3 {
                let mate = mates[(first + turn) % 3];
                assert_eq!(queue.drain(mate), [mate * 2, mate * 2 + 1]);
            }
        }
    }

    #[test]
    fn growing_keeps_every_run_in_order() {
        let mut queue = Queue::default();
        (0..3000).for_each(|item| _ = queue.insert(item % 1000, item));
        assert!(queue.runs.buckets.len() >= 2000);
        for number in 0..1000 {
            assert_eq!(queue.drain(number), [number, number + 1000, number + 2000]);
        }
    }

    #[test]
    fn equal_keys_need_no_more_buckets_and_single_ones_no_links() {
        let mut queue = Queue::default();
        (0..1000).for_each(|item| _ = queue.insert(3, item));
        assert_eq!(queue.runs.buckets.len(), BUCKETS_MIN);
        let mut queue = Queue::default();
        (0..1000).for_each(|item| _ = queue.insert(item, item));
        assert_eq!(queue.runs.links.len(), 0);
    }
}
