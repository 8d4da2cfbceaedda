//! Every matcher against the plain list, on random operations from one seed.
//!
//! Both do the same operation and must give the same answer; from time to time their whole contents are compared.
//! Queues go through phases in which they grow to thousands of entries and are drained again, with few keys and
//! with many, with and without wildcards.

use std::cell::Cell as Shared;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Once;

use ferrywire_nic::matcher::{
    Age, Alpu, Arrival, Cell, Entry, Indexed, Item, List, Matcher, Post, Queue,
};
use ferrywire_nic::{Mask, MatchWord};

#[test]
fn indexed_agrees_with_the_list() {
    compare::<Indexed>(Masks::OfMpi);
}

#[test]
fn alpu_agrees_with_the_list() {
    compare::<Alpu>(Masks::Any);
}

#[test]
fn other_units_agree_with_the_list() {
    compare::<Alpu<128, 8, 8>>(Masks::Any);
    compare::<Alpu<128, 32, 1>>(Masks::Any);
}

/// The masks that a matcher takes.
#[derive(Clone, Copy, PartialEq)]
enum Masks {
    OfMpi,
    Any,
}

/// How many different words there are: few make long runs of equal keys and many matches, many make tables grow.
#[derive(Clone, Copy)]
struct Keys {
    groups: u64,
    sources: u64,
    tags: u64,
}

const KEYS: [Keys; 4] = [
    Keys { groups: 1, sources: 1, tags: 1 },
    Keys { groups: 2, sources: 3, tags: 3 },
    Keys { groups: 2, sources: 30, tags: 30 },
    Keys { groups: 3, sources: 100_000, tags: 100_000 },
];

const WILD_PERCENT: [u64; 4] = [0, 10, 25, 50];

fn compare<M: Matcher>(masks: Masks) {
    let seed = setting("SEED", 1);
    let operations = setting("OPERATIONS", 200_000);
    announce_failures();
    STEP.set((seed, operations, 0));
    let mut random = Random(seed);
    for keys in KEYS {
        for wild_percent in WILD_PERCENT {
            let mut pair = Pair::<M>::new(random.split(), keys, masks, wild_percent);
            pair.run(operations / (KEYS.len() * WILD_PERCENT.len()) as u64);
        }
    }
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a whole number"))
}

thread_local! {
    /// Seed, operations requested, and operations done. A failure prints them first.
    static STEP: Shared<(u64, u64, u64)> = const { Shared::new((0, 0, 0)) };
}

/// Prints the seed from a panic hook, because a failure may be an assertion inside a matcher.
fn announce_failures() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let report = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let (seed, operations, step) = STEP.get();
            eprintln!("seed {seed} step {step}; replay with");
            eprintln!(
                "SEED={seed} OPERATIONS={operations} cargo test -p ferrywire-nic --test model"
            );
            report(panic);
        }));
    });
}

/// The matcher under test beside the oracle, and what waits in both.
struct Pair<M> {
    random: Random,
    keys: Keys,
    masks: Masks,
    wild_percent: u64,
    oracle: List,
    subject: M,
    receives: BTreeMap<Item, Waiting>,
    messages: BTreeMap<Item, Waiting>,
    next_item: Item,
    /// The word of the stream that is under way.
    stream: MatchWord,
}

/// An entry, and its cell in each of the two: cells are private to a matcher.
#[derive(Clone, Copy)]
struct Waiting {
    word: MatchWord,
    mask: Mask,
    oracle: Cell,
    subject: Cell,
}

impl<M: Matcher> Pair<M> {
    fn new(random: Random, keys: Keys, masks: Masks, wild_percent: u64) -> Pair<M> {
        let (oracle, subject) = (List::default(), M::default());
        assert_eq!(subject.heap_bytes(), 0, "a matcher that holds nothing holds no memory");
        let (receives, messages) = (BTreeMap::new(), BTreeMap::new());
        let (next_item, stream) = (0, MatchWord::from_bits(0));
        Pair {
            random,
            keys,
            masks,
            wild_percent,
            oracle,
            subject,
            receives,
            messages,
            next_item,
            stream,
        }
    }

    /// Phases in turn: a mix of operations, streams, one queue grows, streams beside it, both shrink, the other grows.
    fn run(&mut self, operations: u64) {
        let mut left = operations;
        let phases: [fn(&mut Self); 8] = [
            Self::mixed,
            Self::streaming,
            Self::growing_posted,
            Self::streaming,
            Self::draining,
            Self::mixed,
            Self::growing_unexpected,
            Self::draining,
        ];
        for phase in phases.into_iter().cycle() {
            let length = self.random.below(4000).min(left);
            for _ in 0..length {
                self.step(phase);
            }
            self.compare_all();
            left -= length;
            if left == 0 {
                break;
            }
        }
        while !(self.receives.is_empty() && self.messages.is_empty()) {
            self.step(Self::draining);
        }
        self.compare_all();
    }

    fn step(&mut self, phase: fn(&mut Self)) {
        let (seed, operations, step) = STEP.get();
        STEP.set((seed, operations, step + 1));
        phase(self);
        assert_eq!(self.subject.next_age(), self.oracle.next_age());
        for (queue, waiting) in
            [(Queue::Posted, &self.receives), (Queue::Unexpected, &self.messages)]
        {
            let lengths = (self.subject.len(queue), self.oracle.len(queue));
            assert_eq!(lengths, (waiting.len(), waiting.len()), "{queue:?}");
        }
        if self.random.below(500) == 0 {
            self.compare_all();
        }
    }

    fn mixed(&mut self) {
        match self.random.below(100) {
            0..36 => self.post(),
            36..72 => self.arrive(80),
            72..80 => self.probe(),
            80..86 => self.take(),
            86..93 => self.remove_receive(),
            _ => self.remove_message(),
        }
    }

    fn growing_posted(&mut self) {
        match self.random.below(100) {
            0..88 => self.post(),
            88..94 => self.arrive(50),
            94..97 => self.remove_receive(),
            _ => self.probe(),
        }
    }

    fn growing_unexpected(&mut self) {
        match self.random.below(100) {
            0..88 => self.arrive(95),
            88..92 => self.post(),
            92..94 => self.take(),
            94..97 => self.remove_message(),
            _ => self.probe(),
        }
    }

    fn draining(&mut self) {
        match self.random.below(100) {
            0..45 => self.arrive(0),
            45..90 => self.take(),
            90..94 => self.remove_receive(),
            94..98 => self.remove_message(),
            _ => self.probe(),
        }
    }

    /// Runs of receives and messages with one word, as in a stream, which change places now and then; sometimes one
    /// of the youngest leaves.
    fn streaming(&mut self) {
        match self.random.below(100) {
            0..3 => self.stream = self.wanted_word(),
            3..6 => self.stream = self.message_word(),
            6..38 => self.post_one(self.stream),
            38..42 => self.post(),
            42..74 => self.arrive_one(self.stream, 70),
            74..78 => self.arrive(70),
            78..84 => self.probe(),
            84..88 => self.take(),
            88..94 => self.remove_young_receive(),
            _ => self.remove_young_message(),
        }
    }

    fn post(&mut self) {
        let word = self.wanted_word();
        self.post_one(word);
    }

    fn post_one(&mut self, word: MatchWord) {
        let (mask, item) = (self.mask(), self.next_item());
        let oracle = self.oracle.post(word, mask, item);
        let subject = self.subject.post(word, mask, item);
        match (oracle, subject) {
            (Post::Matched(a), Post::Matched(b)) if a == b => _ = self.messages.remove(&a),
            (Post::Waiting(oracle), Post::Waiting(subject)) => {
                let word = word.masked(mask);
                self.receives.insert(item, Waiting { word, mask, oracle, subject });
            }
            _ => panic!("post {word:?} {mask:?}: list {oracle:?}, subject {subject:?}"),
        }
    }

    fn arrive(&mut self, keep_percent: u64) {
        let word = self.message_word();
        self.arrive_one(word, keep_percent);
    }

    fn arrive_one(&mut self, word: MatchWord, keep_percent: u64) {
        let (before, item) = (self.before(), self.next_item());
        let keep = self.random.percent(keep_percent).then_some(item);
        let oracle = self.oracle.arrive(word, before, || keep);
        let mut asked = false;
        let subject = self.subject.arrive(word, before, || {
            asked = true;
            keep
        });
        match (oracle, subject) {
            (Arrival::Matched(a), Arrival::Matched(b)) if a == b && !asked => {
                self.receives.remove(&a);
            }
            (Arrival::Waiting(oracle), Arrival::Waiting(subject)) => {
                self.messages.insert(item, Waiting { word, mask: Mask::EXACT, oracle, subject });
            }
            (Arrival::Refused, Arrival::Refused) => {}
            _ => panic!("arrive {word:?} before {before}: list {oracle:?}, subject {subject:?}"),
        }
    }

    fn probe(&mut self) {
        let (word, mask) = (self.wanted_word(), self.mask());
        same((word, mask), self.oracle.probe(word, mask), self.subject.probe(word, mask));
    }

    fn take(&mut self) {
        let (word, mask) = (self.wanted_word(), self.mask());
        let taken = same((word, mask), self.oracle.take(word, mask), self.subject.take(word, mask));
        taken.map(|item| self.messages.remove(&item));
    }

    fn remove_receive(&mut self) {
        let picked = self.random.pick(&self.receives);
        self.remove_one_receive(picked);
    }

    fn remove_young_receive(&mut self) {
        let picked = self.random.pick_young(&self.receives);
        self.remove_one_receive(picked);
    }

    fn remove_one_receive(&mut self, picked: Option<(Item, Waiting)>) {
        let Some((item, waiting)) = picked else { return };
        self.receives.remove(&item);
        assert_eq!(self.oracle.remove_receive(waiting.oracle), item);
        assert_eq!(self.subject.remove_receive(waiting.subject), item);
    }

    fn remove_message(&mut self) {
        let picked = self.random.pick(&self.messages);
        self.remove_one_message(picked);
    }

    fn remove_young_message(&mut self) {
        let picked = self.random.pick_young(&self.messages);
        self.remove_one_message(picked);
    }

    fn remove_one_message(&mut self, picked: Option<(Item, Waiting)>) {
        let Some((item, waiting)) = picked else { return };
        self.messages.remove(&item);
        assert_eq!(self.oracle.remove_message(waiting.oracle), item);
        assert_eq!(self.subject.remove_message(waiting.subject), item);
    }

    fn compare_all(&self) {
        for queue in [Queue::Posted, Queue::Unexpected] {
            let oracle = dump(&self.oracle, queue);
            let subject = dump(&self.subject, queue);
            assert!(oracle == subject, "{queue:?}: list {oracle:?}, subject {subject:?}");
        }
    }

    /// The word of a receive: often that of a waiting message.
    fn wanted_word(&mut self) -> MatchWord {
        match self.random.pick(&self.messages) {
            Some((_, message)) if self.random.percent(70) => message.word,
            _ => self.random.word(self.keys),
        }
    }

    /// The word of a message: often that of a posted receive, with random bits in place of its wildcards.
    fn message_word(&mut self) -> MatchWord {
        let word = self.random.word(self.keys);
        match self.random.pick(&self.receives) {
            Some((_, receive)) if self.random.percent(70) => {
                let open = word.bits() & !receive.mask.bits();
                MatchWord::from_bits(receive.word.bits() | open)
            }
            _ => word,
        }
    }

    fn mask(&mut self) -> Mask {
        if !self.random.percent(self.wild_percent) {
            return Mask::EXACT;
        }
        match self.random.below(10) {
            0..3 => Mask::ANY_SOURCE,
            3..6 => Mask::ANY_TAG,
            6..8 => Mask::ANY_BOTH,
            _ if self.masks == Masks::OfMpi => Mask::ANY_SOURCE,
            _ => Mask::from_bits(self.random.next()),
        }
    }

    /// Mostly no floor.
    fn before(&mut self) -> Age {
        match self.random.below(8) {
            0 => self.random.below(self.oracle.next_age() + 1),
            _ => Age::MAX,
        }
    }

    fn next_item(&mut self) -> Item {
        self.next_item += 1;
        self.next_item
    }
}

fn same<T: Copy + Debug + PartialEq>(asked: impl Debug, oracle: T, subject: T) -> T {
    assert!(oracle == subject, "{asked:?}: list {oracle:?}, subject {subject:?}");
    oracle
}

fn dump(matcher: &impl Matcher, queue: Queue) -> Vec<Entry> {
    let mut entries = Vec::new();
    matcher.dump(queue, |entry| entries.push(entry));
    entries
}

/// Splitmix64: small, and the same on every platform.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    fn split(&mut self) -> Random {
        Random(self.next())
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    fn word(&mut self, keys: Keys) -> MatchWord {
        let group = self.below(keys.groups);
        let source = self.below(keys.sources);
        let tag = self.below(keys.tags);
        MatchWord::from_bits(group << 48 | source << 24 | tag)
    }

    /// A random entry of a map. The distribution is not uniform, but any entry may be picked.
    fn pick(&mut self, map: &BTreeMap<Item, Waiting>) -> Option<(Item, Waiting)> {
        let (&first, _) = map.first_key_value()?;
        let (&last, _) = map.last_key_value()?;
        let from = u64::from(first) + self.below(u64::from(last - first) + 1);
        let from = Item::try_from(from).expect("between two items");
        map.range(from..).next().map(|(&item, &waiting)| (item, waiting))
    }

    /// One of the youngest entries of a map.
    fn pick_young(&mut self, map: &BTreeMap<Item, Waiting>) -> Option<(Item, Waiting)> {
        let back = usize::try_from(self.below(8)).expect("a small number");
        map.iter().rev().take(back + 1).next_back().map(|(&item, &waiting)| (item, waiting))
    }
}
