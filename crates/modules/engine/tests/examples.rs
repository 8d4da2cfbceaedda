//! The example modules on ranks that are threads: each does what its first comment says, also beside other modules and
//! whatever its application does.
#![allow(missing_docs)]

mod support;

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use ferrywire::{ANY, Comm, Module, Operation, Trap, World};
use ferrywire_sim::random::Random;
use support::example::histogram::{self, What};
use support::example::{code, echo_as_text, pattern, queue, seeds, sum_of_tree, table, watched};

/// The longest message that modules take.
const LONGEST: usize = 64 << 10;

/// In one frame, at the eager limit, beyond it, and the longest.
const LENGTHS: [usize; 8] = [1, 7, 500, 4097, 8192, 8193, 40_000, LONGEST];

/// Runs a program with a module on `ranks` ranks. It returns when everything that was sent has been handled.
fn with_module(ranks: u32, code: &[u8], program: impl Fn(&World, &Module) + Sync) {
    watched(|| {
        ferrywire::local(ranks, |world| {
            let module = world.load_module("example", code).unwrap();
            program(world, &module);
            world.barrier().unwrap();
            assert_eq!(module.iprobe(ANY, ANY).unwrap(), None, "a message too many");
            module.unload().unwrap();
        })
    });
}

/// Sends a request and waits for the answer.
fn ask(module: &Comm, to: u32, tag: u32, request: &[u8]) -> Vec<u8> {
    module.send(request, to, tag).unwrap();
    module.receive_vec::<u8>(to, tag + 1).unwrap().0
}

/// The sum of a number over all ranks.
fn total(comm: &Comm, mut number: u64) -> u64 {
    comm.allreduce(&mut number, Operation::Sum).unwrap();
    number
}

// Broadcast.

#[test]
fn a_broadcast_reaches_every_rank_once_from_every_root() {
    let Some(code) = code("broadcast") else { return };
    for ranks in (2..=9).chain([32]) {
        let roots: Vec<u32> = if ranks < 32 { (0..ranks).collect() } else { vec![0, 13, 31] };
        with_module(ranks, &code, |world, broadcast| {
            let me = world.rank();
            for &root in &roots {
                for (number, len) in (0..).zip(LENGTHS) {
                    let (tag, expected) = (root * 8 + number, pattern(root, len));
                    if me == root {
                        broadcast.send(&expected[..], root, tag).unwrap();
                    } else {
                        let (bytes, status) = broadcast.receive_vec::<u8>(ANY, tag).unwrap();
                        assert!(bytes == expected, "{len} bytes of {root} at {me} of {ranks}");
                        assert_eq!(status.source, root);
                    }
                }
            }
            world.barrier().unwrap();
            let stats = broadcast.stats();
            let (all, own) = (roots.len() * LENGTHS.len(), LENGTHS.len());
            let own = if roots.contains(&me) { own } else { 0 };
            assert_eq!(stats.messages, all as u64, "one for each broadcast");
            assert_eq!((stats.consumed, stats.delivered), (own as u64, (all - own) as u64));
            assert_eq!((stats.faults, stats.lost), (0, 0));
            let sent = total(world, stats.sent);
            assert_eq!(sent, all as u64 * u64::from(ranks - 1), "one for each but the root");
        });
    }
}

#[test]
fn broadcasts_of_all_roots_go_on_at_the_same_time() {
    let Some(code) = code("broadcast") else { return };
    for ranks in [3, 9] {
        with_module(ranks, &code, |world, broadcast| {
            let me = world.rank();
            for round in 0..20 {
                let len = |root: u32| ((root * 1031 + round * 257) % 9000) as usize;
                broadcast.send(&pattern(me, len(me))[..], me, round).unwrap();
                for root in (0..ranks).filter(|&root| root != me) {
                    let (bytes, _) = broadcast.receive_vec::<u8>(root, round).unwrap();
                    assert!(bytes == pattern(root, len(root)), "round {round} of {root} at {me}");
                }
            }
        });
    }
}

// Echo.

fn everybody_asks_everybody(code: &[u8], ranks: u32) {
    with_module(ranks, code, |world, echo| {
        let me = world.rank();
        for to in 0..ranks {
            for (number, len) in (0..).zip([0].into_iter().chain(LENGTHS)) {
                let request = pattern(me, len);
                assert!(ask(echo, to, 2 * number, &request) == request, "{len} from {to} to {me}");
            }
        }
        world.barrier().unwrap();
        let stats = echo.stats();
        let asked = u64::from(ranks) * (LENGTHS.len() as u64 + 1);
        assert_eq!((stats.consumed, stats.sent, stats.delivered), (asked, asked, asked));
        assert_eq!(stats.messages, 2 * asked);
    });
}

#[test]
fn echo_as_text_answers_everybody() {
    for ranks in [2, 3, 6, 9] {
        everybody_asks_everybody(&echo_as_text(), ranks);
    }
}

#[test]
fn echo_answers_everybody() {
    let Some(code) = code("echo") else { return };
    for ranks in [2, 4, 7, 32] {
        everybody_asks_everybody(&code, ranks);
    }
}

/// The rank that is asked makes no call until it learns, through plain memory, that the answers have arrived.
fn echo_while_computing(code: &[u8], ranks: u32) {
    let (computing, answered) = (AtomicBool::new(false), AtomicU32::new(0));
    with_module(ranks, code, |world, echo| {
        let responder = ranks - 1;
        if world.rank() == responder {
            computing.store(true, Ordering::SeqCst);
            let mut sum = 0u64;
            while answered.load(Ordering::SeqCst) < ranks - 1 {
                sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(7));
            }
            computing.store(false, Ordering::SeqCst);
        } else {
            while !computing.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            for (number, len) in (0..).zip(LENGTHS) {
                let request = pattern(world.rank(), len);
                assert!(ask(echo, responder, 2 * number, &request) == request);
            }
            assert!(computing.load(Ordering::SeqCst), "it answered while it computed");
            answered.fetch_add(1, Ordering::SeqCst);
        }
    });
}

#[test]
fn echo_answers_while_its_application_computes() {
    for ranks in [2, 3, 6] {
        echo_while_computing(&echo_as_text(), ranks);
        if let Some(code) = code("echo") {
            echo_while_computing(&code, ranks);
        }
    }
}

// Reduce.

/// Wastes a little time, or none, and yields the processor.
fn dawdle(random: &mut Random) {
    for _ in 0..random.below(4) {
        std::thread::yield_now();
    }
}

/// A rank's contribution to a reduction. Not all sums of these are exact, so their order shows.
fn vector(rank: u32, reduction: u32, len: usize) -> Vec<f64> {
    let element = |at: usize| f64::from(rank + 1) * 0.1 + f64::from(reduction) / 3.0 + at as f64;
    (0..len).map(element).collect()
}

#[test]
fn sums_are_exact_and_reductions_go_on_side_by_side() {
    const ROUNDS: u32 = 3;
    /// As many as a module has rows for.
    const PIPELINED: u32 = 32;
    let Some(code) = code("reduce") else { return };
    for seed in seeds(2) {
        for ranks in (2..=9).chain([32]) {
            println!("seed {seed}");
            let len_of = |reduction: u32| [1, 2, 17, 511, 512][(reduction % 5) as usize];
            with_module(ranks, &code, |world, reduce| {
                let me = world.rank();
                let mut random = Random::new(seed).split(me.into());
                for round in 0..ROUNDS {
                    let mut order: Vec<u32> = (0..PIPELINED).collect();
                    random.shuffle(&mut order);
                    for reduction in order {
                        let number = round * PIPELINED + reduction;
                        let mine = vector(me, number, len_of(number));
                        reduce.send(&mine, me, 2 * reduction).unwrap();
                        dawdle(&mut random);
                    }
                    if me == 0 {
                        for reduction in 0..PIPELINED {
                            let number = round * PIPELINED + reduction;
                            let (sum, _) = reduce.receive_vec::<f64>(0, 2 * reduction + 1).unwrap();
                            let all: Vec<Vec<f64>> = (0..ranks)
                                .map(|rank| vector(rank, number, len_of(number)))
                                .collect();
                            assert_eq!(sum, sum_of_tree(0, &all), "seed {seed} of {ranks} ranks");
                        }
                    }
                    world.barrier().unwrap();
                }
            });
        }
    }
}

/// The n-th vector of each rank belongs to the n-th reduction, though some ranks are ahead of others.
#[test]
fn a_tag_of_reductions_can_be_used_again_at_once() {
    let Some(code) = code("reduce") else { return };
    for ranks in [2, 5, 8] {
        with_module(ranks, &code, |world, reduce| {
            let mut random = Random::new(world.rank().into());
            for number in 0..32u32 {
                reduce.send(&[f64::from(number + world.rank())], world.rank(), 6).unwrap();
                dawdle(&mut random);
            }
            if world.rank() == 0 {
                for number in 0..32 {
                    let sum = reduce.receive_one::<f64>(0, 7).unwrap().0;
                    assert_eq!(sum, f64::from(ranks * number + ranks * (ranks - 1) / 2));
                }
            }
        });
    }
}

// Steal.

#[test]
fn each_task_is_stolen_once() {
    const TASKS: u32 = 60;
    let Some(code) = code("steal") else { return };
    for seed in seeds(2) {
        for ranks in [2, 3, 5, 8, 32] {
            println!("seed {seed}");
            let stolen = Mutex::new(HashSet::new());
            let left = AtomicU32::new(ranks * TASKS);
            with_module(ranks, &code, |world, steal| {
                let mut random = Random::new(seed).split(world.rank().into());
                let anybody = |random: &mut Random| random.small(0, ranks - 1);
                let (mut pushed, mut mine) = (0, Vec::new());
                while pushed < TASKS || left.load(Ordering::SeqCst) > 0 {
                    if pushed < TASKS && random.percent(60) {
                        let to = anybody(&mut random);
                        let task = queue::task(world.rank(), pushed);
                        let (status, ..) = queue::answer(&ask(steal, to, queue::PUSH, &task));
                        assert_eq!(status, queue::OK, "seed {seed}");
                        pushed += 1;
                    } else {
                        let victim = anybody(&mut random);
                        let answer = ask(steal, victim, queue::STEAL, &0u32.to_le_bytes());
                        match queue::answer(&answer) {
                            (queue::OK, _, Some(task)) => {
                                mine.push(task);
                                left.fetch_sub(1, Ordering::SeqCst);
                            }
                            (queue::NONE, 0, None) => std::thread::yield_now(),
                            other => panic!("seed {seed}: {other:?}"),
                        }
                    }
                }
                let mut stolen = stolen.lock().unwrap();
                for task in mine {
                    assert!(stolen.insert(task), "seed {seed}: {task:?} was stolen twice");
                }
            });
            assert_eq!(stolen.into_inner().unwrap().len(), (ranks * TASKS) as usize);
        }
    }
}

#[test]
fn a_thief_gets_the_oldest_task_and_the_rank_itself_the_newest() {
    let Some(code) = code("steal") else { return };
    with_module(2, &code, |world, steal| {
        if world.rank() == 0 {
            for number in 0..5 {
                ask(steal, 1, queue::PUSH, &queue::task(0, number));
            }
            let answer = ask(steal, 1, queue::STEAL, &0u32.to_le_bytes());
            assert_eq!(queue::answer(&answer), (queue::OK, 4, Some((0, 0))));
        }
        world.barrier().unwrap();
        if world.rank() == 1 {
            let answer = ask(steal, 1, queue::STEAL, &0u32.to_le_bytes());
            assert_eq!(queue::answer(&answer), (queue::OK, 3, Some((0, 4))));
        }
    });
}

#[test]
fn waiting_thieves_are_served_in_order_and_released() {
    let Some(code) = code("steal") else { return };
    for ranks in [2, 4, 9, 32] {
        with_module(ranks, &code, |world, steal| {
            let me = world.rank();
            // One after the other, so that their order is known.
            for thief in 1..ranks {
                if me == thief {
                    steal.send(&1u32, 0, queue::STEAL).unwrap();
                    // The answer to a second request means that the first has arrived, and waits.
                    let bad = ask(steal, 0, queue::RELEASE, b"no release");
                    assert_eq!(queue::answer(&bad).0, queue::BAD);
                }
                world.barrier().unwrap();
            }
            if me == 0 {
                for number in 1..ranks {
                    let pushed = ask(steal, 0, queue::PUSH, &queue::task(0, number));
                    assert_eq!(queue::answer(&pushed), (queue::OK, 0, None));
                }
            } else {
                let (answer, _) = steal.receive_vec::<u8>(0, queue::STEAL + 1).unwrap();
                assert_eq!(queue::answer(&answer), (queue::OK, 0, Some((0, me))));
                steal.send(&1u32, 0, queue::STEAL).unwrap();
                ask(steal, 0, queue::RELEASE, b"no release");
            }
            world.barrier().unwrap();
            if me == 0 {
                assert_eq!(queue::answer(&ask(steal, 0, queue::RELEASE, b"")).0, queue::OK);
            } else {
                let (answer, _) = steal.receive_vec::<u8>(0, queue::STEAL + 1).unwrap();
                assert_eq!(queue::answer(&answer), (queue::NONE, 0, None));
            }
        });
    }
}

#[test]
fn a_queue_says_when_it_is_full_and_when_no_other_rank_may_wait() {
    let Some(code) = code("steal") else { return };
    with_module(2, &code, |world, steal| {
        if world.rank() == 1 {
            for number in 0..queue::TASKS_MAX {
                let pushed = ask(steal, 0, queue::PUSH, &queue::task(1, number));
                assert_eq!(queue::answer(&pushed), (queue::OK, number + 1, None));
            }
            let refused = ask(steal, 0, queue::PUSH, &queue::task(1, 9999));
            assert_eq!(queue::answer(&refused), (queue::FULL, queue::TASKS_MAX, None));
            for number in 0..queue::TASKS_MAX {
                let answer = ask(steal, 0, queue::STEAL, &1u32.to_le_bytes());
                let left = queue::TASKS_MAX - 1 - number;
                assert_eq!(queue::answer(&answer), (queue::OK, left, Some((1, number))));
            }
            for _ in 0..queue::WAITING_MAX {
                steal.send(&1u32, 0, queue::STEAL).unwrap();
            }
            let answer = ask(steal, 0, queue::STEAL, &1u32.to_le_bytes());
            assert_eq!(queue::answer(&answer), (queue::FULL, 0, None));
            assert_eq!(queue::answer(&ask(steal, 0, queue::RELEASE, b"")).0, queue::OK);
            for _ in 0..queue::WAITING_MAX {
                let (answer, _) = steal.receive_vec::<u8>(0, queue::STEAL + 1).unwrap();
                assert_eq!(queue::answer(&answer), (queue::NONE, 0, None));
            }
            for (tag, bad) in [(queue::PUSH, 31), (queue::STEAL, 0), (queue::RELEASE, 1), (6, 32)] {
                let answer = ask(steal, 0, tag, &[0; 64][..bad]);
                assert_eq!(queue::answer(&answer), (queue::BAD, 0, None), "{bad} bytes for {tag}");
            }
        }
        world.barrier().unwrap();
        assert_eq!(steal.stats().faults, 0);
    });
}

// Histogram.

/// The next message of a random program: a tag, of which 5 is watched, and bytes.
fn any_message(random: &mut Random) -> (u32, Vec<u8>) {
    let len = match random.below(4) {
        0 => random.below(9),
        1 => random.below(300),
        2 => random.below(9000),
        _ => 8,
    };
    let mut bytes = pattern(random.small(0, u32::MAX - 1), usize::try_from(len).unwrap());
    if let Some(value) = bytes.first_chunk_mut::<8>() {
        *value = (random.any() >> random.below(64)).to_le_bytes();
    }
    (random.pick(&[4, 5, 5, 6]), bytes)
}

#[test]
fn what_passes_a_histogram_is_counted_and_stays_as_it_is() {
    const MESSAGES: usize = 60;
    const WATCHED: u32 = 5;
    let Some(code) = code("histogram") else { return };
    for what in [What::Lengths, What::Values] {
        for ranks in [2, 3, 5, 9, 32] {
            with_module(ranks, &code, |world, module| {
                let (me, left) = (world.rank(), (world.rank() + ranks - 1) % ranks);
                let program = |sender: u32| {
                    let mut random = Random::new(u64::from(ranks)).split(sender.into());
                    (0..MESSAGES).map(|_| any_message(&mut random)).collect::<Vec<_>>()
                };
                let watch = histogram::watch(WATCHED, what);
                let status: Vec<u32> = ask_numbers(module, me, histogram::WATCH, &watch);
                assert_eq!(status, [0]);
                world.barrier().unwrap();
                let to = (me + 1) % ranks;
                let (ours, theirs) = (program(me), program(left));
                std::thread::scope(|scope| {
                    // Sends may wait for receives.
                    scope.spawn(|| {
                        for (tag, bytes) in &ours {
                            module.send(&bytes[..], to, *tag).unwrap();
                        }
                    });
                    for (tag, expected) in &theirs {
                        let (bytes, status) = module.receive_vec::<u8>(left, ANY).unwrap();
                        assert_eq!(status.tag, *tag, "in order");
                        assert!(bytes == *expected, "unchanged");
                    }
                });
                let mut counts = [0; histogram::COUNTS];
                let watched = theirs.iter().filter(|(tag, _)| *tag == WATCHED);
                watched.for_each(|(_, bytes)| counts[histogram::place(what, bytes)] += 1);
                module.wait(0, counts.iter().sum()).unwrap();
                let found = ask_numbers::<u32, u64>(module, me, histogram::QUERY, &[]);
                assert_eq!(found, counts, "{what:?} at {me} of {ranks}");
            });
        }
    }
}

fn ask_numbers<T: ferrywire::Plain, U: ferrywire::Plain>(
    module: &Comm,
    to: u32,
    tag: u32,
    request: &[T],
) -> Vec<U> {
    module.send(request, to, tag).unwrap();
    module.receive_vec(to, tag + 1).unwrap().0
}

#[test]
fn a_histogram_counts_nothing_before_it_is_asked_to_and_begins_anew() {
    let Some(code) = code("histogram") else { return };
    with_module(2, &code, |world, module| {
        if world.rank() == 0 {
            let counted = || ask_numbers::<u32, u64>(module, 1, histogram::QUERY, &[]);
            let watch =
                |numbers: &[u32]| ask_numbers::<u32, u32>(module, 1, histogram::WATCH, numbers);
            module.send(b"abc", 1, 7).unwrap();
            assert_eq!(counted(), [0; histogram::COUNTS]);
            for bad in [&[7][..], &[7, 2], &[u32::MAX, 0], &[histogram::QUERY, 0], &[7, 0, 0]] {
                assert_eq!(watch(bad), [1], "{bad:?}");
            }
            for _ in 0..2 {
                assert_eq!(watch(&histogram::watch(7, What::Lengths)), [0]);
                module.send(b"abc", 1, 7).unwrap();
                module.send(b"abc", 1, 8).unwrap();
                let counts = counted();
                assert_eq!((counts[2], counts.iter().sum::<u64>()), (1, 1));
            }
        } else {
            for tag in [7, 7, 8, 7, 8] {
                assert_eq!(module.receive_vec::<u8>(0, tag).unwrap().0, b"abc");
            }
        }
    });
}

// Table.

/// Each key belongs to one rank, which so knows its value; all ranks use all tables at the same time.
#[test]
fn tables_answer_as_a_map_does() {
    const OPERATIONS: usize = 300;
    let Some(code) = code("table") else { return };
    for seed in seeds(3) {
        for ranks in [2, 3, 6, 9, 32] {
            println!("seed {seed}");
            with_module(ranks, &code, |world, module| {
                let me = world.rank();
                let mut random = Random::new(seed).split(u64::from(ranks) << 32 | u64::from(me));
                let mut oracle = HashMap::new();
                let mut done = 0;
                while done < OPERATIONS / ranks.div_ceil(9) as usize {
                    // Several at once; answers of one rank to requests of one kind arrive in order.
                    let batch: Vec<_> = (0..random.between(1, 6))
                        .map(|_| {
                            let key = random.below(24) * u64::from(ranks) + u64::from(me);
                            let at = u32::try_from(key / 5 % u64::from(ranks)).unwrap();
                            let (tag, asked, expected) =
                                table::operation(&mut random, key, &mut oracle);
                            module.send(&asked[..], at, tag).unwrap();
                            (at, tag, expected)
                        })
                        .collect();
                    done += batch.len();
                    for (at, tag, expected) in batch {
                        let (bytes, _) = module.receive_vec::<u8>(at, tag + 1).unwrap();
                        assert_eq!(table::answer(&bytes), expected, "seed {seed} tag {tag}");
                    }
                }
            });
        }
    }
}

#[test]
fn additions_of_all_ranks_are_atomic() {
    const ADDITIONS: u64 = 50;
    let Some(code) = code("table") else { return };
    for ranks in [2, 5, 9] {
        let seen = Mutex::new(HashSet::new());
        with_module(ranks, &code, |world, module| {
            for _ in 0..ADDITIONS {
                let asked = table::request(77, &1u64.to_le_bytes());
                let (status, value) = table::answer(&ask(module, 0, table::ADD, &asked));
                assert_eq!(status, table::OK);
                let sum = u64::from_le_bytes(value.try_into().unwrap());
                assert!(seen.lock().unwrap().insert(sum), "{sum} was seen twice");
            }
            world.barrier().unwrap();
            let (_, value) = table::answer(&ask(module, 0, table::GET, &table::request(77, &[])));
            assert_eq!(value, (ADDITIONS * u64::from(ranks)).to_le_bytes());
        });
    }
}

#[test]
fn a_table_fills_up_and_empties_and_says_what_is_bad() {
    let Some(code) = code("table") else { return };
    with_module(2, &code, |world, module| {
        if world.rank() == 1 {
            let ask = |tag, key, value: &[u8]| {
                table::answer(&ask(module, 0, tag, &table::request(key, value)))
            };
            // Keys that collide in one run of slots: half of them share their high bits.
            let key = |number: u64| if number.is_multiple_of(2) { number << 40 } else { number };
            for number in 0..table::KEYS_MAX {
                assert_eq!(ask(table::PUT, key(number), &number.to_le_bytes()).0, table::OK);
            }
            assert_eq!(ask(table::PUT, u64::MAX, b"").0, table::FULL);
            assert_eq!(ask(table::ADD, u64::MAX, &[0; 8]).0, table::FULL);
            assert_eq!(ask(table::PUT, key(9), b"other").0, table::OK, "it is there already");
            let mut random = Random::new(1);
            let mut order: Vec<u64> = (0..table::KEYS_MAX).collect();
            random.shuffle(&mut order);
            for (at, &number) in order.iter().enumerate() {
                assert_eq!(ask(table::DELETE, key(number), b"").0, table::OK);
                assert_eq!(ask(table::GET, key(number), b"").0, table::NONE);
                let other = order.get(at + 1).copied().filter(|&other| other != 9);
                if let Some(other) = other {
                    let expected = (table::OK, other.to_le_bytes().to_vec());
                    assert_eq!(ask(table::GET, key(other), b""), expected);
                }
            }
            for (tag, len) in [(table::PUT, 49), (table::GET, 1), (table::ADD, 7), (8, 0)] {
                assert_eq!(ask(tag, 1, &[0; 64][..len]), (table::BAD, vec![]));
            }
        }
    });
}

// All examples.

/// Every example, by name. As text if clang is missing.
fn all_examples() -> Option<[Vec<u8>; 6]> {
    Some([
        code("broadcast")?,
        code("echo")?,
        code("reduce")?,
        code("steal")?,
        code("histogram")?,
        code("table")?,
    ])
}

/// Uses each module a little. `round` tells one use from the next.
fn use_all(world: &World, modules: &[Module], round: u32) {
    let [broadcast, echo, reduce, steal, histogram, table] = modules else { panic!("six") };
    let (me, ranks) = (world.rank(), world.size());
    let to = (me + 1) % ranks;
    // Long operations begin first and are waited for last.
    let root = round % ranks;
    let message = pattern(round, 300 * round as usize);
    if me == root {
        broadcast.send(&message[..], root, round).unwrap();
    }
    reduce.send(&[f64::from(me + round); 3], me, 2 * round).unwrap();
    let task = queue::task(me, round);
    assert_eq!(queue::answer(&ask(steal, to, queue::PUSH, &task)).0, queue::OK);
    histogram.send(&[me; 5], to, 9).unwrap();
    let request = pattern(me, 100);
    assert_eq!(ask(echo, to, 2 * round, &request), request);
    let asked = table::request(me.into(), &u64::from(round).to_le_bytes());
    assert_eq!(table::answer(&ask(table, to, table::PUT, &asked)).0, table::OK);
    let (_, value) = table::answer(&ask(table, to, table::GET, &asked[..8]));
    assert_eq!(value, u64::from(round).to_le_bytes());
    assert_eq!(histogram.receive_vec::<u32>(ANY, 9).unwrap().0, [(me + ranks - 1) % ranks; 5]);
    let answer = ask(steal, to, queue::STEAL, &0u32.to_le_bytes());
    assert_eq!(queue::answer(&answer), (queue::OK, 0, Some((me, round))));
    if me != root {
        assert!(broadcast.receive_vec::<u8>(root, round).unwrap().0 == message);
    }
    if me == 0 {
        let sum = f64::from(ranks * round + ranks * (ranks - 1) / 2);
        assert_eq!(reduce.receive_vec::<f64>(0, 2 * round + 1).unwrap().0, [sum; 3]);
    }
}

/// Loads all examples.
fn load_all(world: &World, codes: &[Vec<u8>]) -> Vec<Module> {
    codes.iter().map(|code| world.load_module("one of six", code).unwrap()).collect()
}

#[test]
fn all_examples_work_at_once_and_those_that_trap_disturb_nobody() {
    let Some(codes) = all_examples() else { return };
    for ranks in [2, 5, 9] {
        watched(|| {
            ferrywire::local(ranks, |world| {
                let modules = load_all(world, &codes);
                let trapping = world.load_module("another reduce", &codes[2]).unwrap();
                for round in 0..20 {
                    // Seven bytes are not a whole number of doubles.
                    trapping.send(&[0u8; 7], (world.rank() + 1) % ranks, 2 * round).unwrap();
                    use_all(world, &modules, round);
                }
                world.barrier().unwrap();
                for (module, code) in modules.iter().zip(0..) {
                    assert_eq!(module.stats().faults, 0, "module {code}");
                }
                let from = (world.rank() + ranks - 1) % ranks;
                // Sixteen faults are kept for receives that match; the others are only counted.
                for round in 0..16 {
                    let error = trapping.receive(&mut [0u8; 7], from, 2 * round).unwrap_err();
                    let text = error.to_string();
                    let why = format!(
                        "the module failed on the message from rank {from} with tag {}: it ",
                        2 * round
                    );
                    assert!(text.contains(&why) && text.contains("another reduce"), "{text}");
                }
                let stats = trapping.stats();
                assert_eq!((stats.faults, stats.delivered, stats.consumed), (20, 0, 0));
                assert_eq!(stats.messages, 20, "such traps are quick, and it goes on running");
                let last = stats.last_fault.unwrap();
                assert_eq!((last.source, last.tag), (from, 38));
                world.barrier().unwrap();
            })
        });
    }
}

#[test]
fn a_bad_message_ends_with_an_error_at_whoever_receives_it() {
    let Some(code) = code("reduce") else { return };
    with_module(3, &code, |world, reduce| {
        // The receive or the fault may come first, and any call may receive.
        for posted_first in [true, false] {
            if world.rank() == 1 {
                let early = posted_first.then(|| reduce.irecv::<u8>(16, 2, 4).unwrap());
                world.barrier().unwrap();
                world.barrier().unwrap();
                let error = match early {
                    Some(request) => request.wait().unwrap_err(),
                    None => reduce.receive(&mut [0u8; 16], ANY, 4).unwrap_err(),
                };
                let why = "the module failed on the message from rank 2 with tag 4: it executed `unreachable` \
                           (a panic or abort) [FW1103]";
                assert!(error.to_string().ends_with(why), "{error}");
            } else {
                world.barrier().unwrap();
                if world.rank() == 2 {
                    // Rank 2 is no child of rank 1.
                    reduce.synchronous_send(&[0u8; 16], 1, 4).unwrap();
                }
                world.barrier().unwrap();
            }
        }
        let stats = reduce.stats();
        if world.rank() == 1 {
            assert_eq!((stats.faults, stats.messages, stats.consumed), (2, 2, 0));
            assert_eq!(stats.last_fault.unwrap().trap, Trap::Unreachable);
        } else {
            assert_eq!((stats.faults, stats.last_fault), (0, None));
        }
        // The module works as before.
        world.barrier().unwrap();
        reduce.send(&[1.0], world.rank(), 4).unwrap();
        if world.rank() == 0 {
            assert_eq!(reduce.receive_one::<f64>(0, 5).unwrap().0, 3.0);
        }
    });
}

/// These calls probe before they receive. A message that has ended is found, without its bytes, and receiving it
/// returns the error.
#[test]
fn a_bad_message_ends_with_an_error_at_ranks_that_do_not_know_its_length() {
    let Some(code) = code("reduce") else { return };
    for fault_first in [true, false] {
        with_module(2, &code, |world, reduce| {
            let why = "the module failed on the message from rank 0 with tag 4: it executed `unreachable` \
                       (a panic or abort) [FW1103]";
            for way in 0..3 {
                if world.rank() == 0 {
                    if !fault_first {
                        // Rank 1 is about to enter its call, or in it.
                        world.receive_vec::<u8>(1, 0).unwrap();
                        std::thread::yield_now();
                    }
                    reduce.synchronous_send(&[0u8; 7], 1, 4).unwrap();
                    world.send(b"sent", 1, 0).unwrap();
                } else {
                    if fault_first {
                        world.receive_vec::<u8>(0, 0).unwrap();
                    } else {
                        world.send(b"come", 0, 0).unwrap();
                    }
                    let error = match way {
                        0 => reduce.receive_vec::<u8>(0, 4).unwrap_err(),
                        1 => {
                            let seen = reduce.probe(ANY, 4).unwrap();
                            assert_eq!((seen.source, seen.tag, seen.bytes), (0, 4, 0));
                            reduce.receive(&mut [0u64; 1], 0, 4).unwrap_err()
                        }
                        _ => {
                            while reduce.iprobe(0, ANY).unwrap().is_none() {}
                            reduce.receive_vec::<f64>(ANY, ANY).unwrap_err()
                        }
                    };
                    assert!(error.to_string().ends_with(why), "{error}");
                    if !fault_first {
                        world.receive_vec::<u8>(0, 0).unwrap();
                    }
                    assert_eq!(reduce.iprobe(ANY, ANY).unwrap(), None, "it is told once");
                }
                world.barrier().unwrap();
            }
        });
    }
}

// Loading, replacing and unloading.

#[test]
fn a_module_that_replaces_another_has_its_statistics_and_a_state_of_its_own() {
    let Some([_, echo, .., table]) = all_examples() else { return };
    for ranks in [1, 2, 5] {
        with_module(ranks, &table, |world, module| {
            let (me, to) = (world.rank(), (world.rank() + 1) % ranks);
            let key = table::request(me.into(), &[]);
            let get = || table::answer(&ask(module, to, table::GET, &key)).0;
            let put = [&key[..], b"value"].concat();
            assert_eq!(table::answer(&ask(module, to, table::PUT, &put)).0, table::OK);
            assert_eq!(get(), table::OK);
            world.barrier().unwrap();
            let before = module.stats();
            assert_eq!((before.messages, before.consumed, before.sent), (4, 2, 2));

            module.replace(&table).unwrap();
            assert_eq!(module.stats(), before, "what was counted stays");
            world.barrier().unwrap();
            assert_eq!(get(), table::NONE, "what was kept does not");
            world.barrier().unwrap();
            let after = module.stats();
            assert_eq!((after.messages, after.consumed, after.sent), (6, 3, 3));
            assert!(after.fuel > before.fuel && after.bytes > before.bytes);

            // It need not be the same module.
            module.replace(&echo).unwrap();
            assert_eq!(ask(module, to, 8, b"hello"), b"hello");
            world.barrier().unwrap();
            assert_eq!(module.stats().messages, 8);

            // Code that cannot replace the module does not, and all ranks keep the present one.
            let culprit = ranks - 1;
            let code = if me == culprit { &b"no code"[..] } else { &table };
            let text = module.replace(code).unwrap_err().to_string();
            if me != culprit {
                assert!(text.contains(&format!("rank {culprit} failed; ")), "{text}");
            }
            assert_eq!(ask(module, to, 8, b"again"), b"again");
        });
    }
}

#[test]
fn modules_come_and_go() {
    let Some(codes) = all_examples() else { return };
    watched(|| {
        ferrywire::local(4, |world| {
            for round in 0..12 {
                let modules = load_all(world, &codes);
                // State is fresh each time.
                let empty = ask(&modules[3], 0, queue::STEAL, &0u32.to_le_bytes());
                assert_eq!(queue::answer(&empty), (queue::NONE, 0, None));
                world.barrier().unwrap();
                use_all(world, &modules, round);
                world.barrier().unwrap();
                for (at, module) in modules.into_iter().enumerate() {
                    match at % 2 {
                        0 => module.unload().unwrap(),
                        // Dropping the module unloads it, too.
                        _ => drop(module),
                    }
                }
            }
        })
    });
}

#[test]
fn a_module_that_is_unloaded_is_gone_for_all_handles() {
    let code = echo_as_text();
    watched(|| {
        ferrywire::local(2, |world| {
            let module = world.load_module("echo", &code).unwrap();
            let other = module.clone();
            let to = 1 - world.rank();
            assert_eq!(ask(&module, to, 0, b"hello"), b"hello");
            module.unload().unwrap();
            assert_eq!(other.stats(), Default::default());
            let error = other.wait(0, 1).unwrap_err().to_string();
            assert!(error.ends_with("the module has been unloaded [FW1104]"), "{error}");
            let error = other.wait(8, 1).unwrap_err().to_string();
            assert!(error.ends_with("modules have counters 0 to 7 [FW1104]"), "{error}");
            world.barrier().unwrap();
        })
    });
}

#[test]
fn code_that_differs_between_ranks_or_does_not_compile_is_an_error_everywhere() {
    let good = echo_as_text();
    let other = [&good[..], b" ;; other"].concat();
    for ranks in [2, 3, 6] {
        for culprit in [0, ranks - 1] {
            watched(|| {
                ferrywire::local(ranks, |world| {
                    let mine = world.rank() == culprit;
                    let load = |bad: &[u8]| {
                        let code = if mine { bad } else { &good };
                        world.load_module("echo", code).map(|_| ()).unwrap_err().to_string()
                    };
                    let text = load(&other);
                    let differs = if culprit == 0 { 1 } else { culprit };
                    let why = format!("rank {differs} passed different code from rank 0 [FW1102]");
                    assert!(text.ends_with(&why), "{text}");

                    for bad in [&b"no code"[..], b"", b"\0asm", b"(module (func $x"] {
                        let text = load(bad);
                        let why = format!("rank {culprit} failed; its own error says why [FW1102]");
                        assert!(text.starts_with("load_module"), "{text}");
                        assert_eq!(text.ends_with(&why), !mine, "{text}");
                        assert!(text.len() > "load_module: ".len(), "{text}");
                    }

                    // If all ranks fail, each reports its own reason.
                    let text = world.load_module("bad", b"no code").map(|_| ()).unwrap_err();
                    assert!(!text.to_string().contains("its own error says why"), "{text}");

                    // Everything works as before.
                    let echo = world.load_module("echo", &good).unwrap();
                    let to = (world.rank() + 1) % ranks;
                    assert_eq!(ask(&echo, to, 0, b"hello"), b"hello");
                    echo.unload().unwrap();
                })
            });
        }
    }
}

#[test]
fn statistics_say_what_was_done() {
    let code = echo_as_text();
    with_module(2, &code, |world, echo| {
        assert_eq!(echo.stats(), Default::default());
        world.barrier().unwrap();
        if world.rank() == 0 {
            ask(echo, 1, 0, &[1; 100]);
            ask(echo, 1, 2, &[1; 20]);
        }
        world.barrier().unwrap();
        let stats = echo.stats();
        let (asked, answered) = if world.rank() == 0 { (0, 2) } else { (2, 0) };
        assert_eq!((stats.messages, stats.bytes), (2, 120));
        assert_eq!((stats.consumed, stats.sent, stats.delivered), (asked, asked, answered));
        assert_eq!((stats.faults, stats.lost, stats.last_fault), (0, 0, None));
        assert!(stats.fuel > 0);
    });
}
