//! Blocking messages: every call, every length, wildcards against an oracle.
#![allow(missing_docs)]

mod common;

use common::{Random, local, seeds};
use ferrywire::{ANY, Comm, Plain, Source, Status, Tag};

#[test]
fn every_length_in_every_number_of_ranks() {
    for ranks in 1..=8 {
        local(ranks, |world| {
            let right = (world.rank() + 1) % ranks;
            let left = (world.rank() + ranks - 1) % ranks;
            for (tag, len) in (0u32..).zip([0, 1, 2, 7, 8, 100, 1024, 2048, 2049, 50_000]) {
                let data: Vec<u32> = (0..len).map(|at| at * 3 + world.rank()).collect();
                let expected: Vec<u32> = (0..len).map(|at| at * 3 + left).collect();
                let mut got = vec![0; len as usize];
                let status = world.sendrecv(&data, right, tag, &mut got, left, tag).unwrap();
                assert_eq!(status, Status { source: left, tag, count: len as usize });
                assert_eq!(got, expected);
            }
        });
    }
}

#[test]
fn what_is_received_may_be_shorter_than_the_buffer() {
    local(2, |world| {
        if world.rank() == 0 {
            world.send(&[1u16, 2], 1, 3).unwrap();
            world.send::<[u16]>(&[], 1, 4).unwrap();
        } else {
            let mut buffer = [9u16; 4];
            let status = world.receive(&mut buffer, 0, 3).unwrap();
            assert_eq!((buffer, status.count), ([1, 2, 9, 9], 2));
            assert_eq!(world.receive(&mut buffer[..], ANY, ANY).unwrap().count, 0);
        }
    });
}

#[test]
fn numbers_arrays_structs_and_slices_travel() {
    #[derive(Clone, Copy, Debug, PartialEq, Plain)]
    #[repr(C)]
    struct Point {
        place: [f32; 3],
        id: u32,
    }
    #[derive(Clone, Copy, Debug, PartialEq, Plain)]
    #[repr(transparent)]
    struct Meters(f64);
    #[derive(Clone, Copy, Debug, PartialEq, Plain)]
    #[repr(C, packed(2))]
    struct Packed(u16, u32);
    let point = Point { place: [1.0, 2.0, 3.0], id: 4 };
    local(1, |world| {
        world.send(&point, 0, 0).unwrap();
        assert_eq!(world.receive_one::<Point>(0, 0).unwrap().0, point);
        world.send(&vec![Meters(1.5); 3], 0, 0).unwrap();
        assert_eq!(world.receive_vec::<Meters>(0, 0).unwrap().0, [Meters(1.5); 3]);
        world.send(&[Packed(1, 2)], 0, 0).unwrap();
        assert_eq!(world.receive_one::<Packed>(0, 0).unwrap().0, Packed(1, 2));
        world.send(&[[1u8; 4]; 2], 0, 0).unwrap();
        assert_eq!(world.receive_vec::<[u8; 4]>(0, 0).unwrap().0, [[1; 4]; 2]);
        world.send(&-1_i128, 0, 0).unwrap();
        assert_eq!(world.receive_one::<i128>(0, 0).unwrap().0, -1);
    });
}

#[test]
fn a_synchronous_send_waits_for_its_receive() {
    local(2, |world| {
        if world.rank() == 0 {
            world.synchronous_send(&1, 1, 0).unwrap();
            // The receive has matched, so the message sent before it is here.
            assert!(world.iprobe(1, 1).unwrap().is_some());
            world.receive_one::<i32>(1, 1).unwrap();
            world.synchronous_send(&vec![1u8; 1 << 20], 1, 2).unwrap();
        } else {
            world.send(&2, 0, 1).unwrap();
            world.receive_one::<i32>(0, 0).unwrap();
            world.receive_vec::<u8>(0, 2).unwrap();
        }
    });
}

#[test]
fn a_probe_tells_without_receiving() {
    local(2, |world| {
        if world.rank() == 0 {
            assert_eq!(world.iprobe(1, 5).unwrap(), None);
            world.send(&[1u32, 2, 3], 1, 5).unwrap();
            world.send(&vec![0u8; 100_001], 1, 6).unwrap();
        } else {
            let seen = world.probe(ANY, ANY).unwrap();
            assert_eq!((seen.source, seen.tag, seen.bytes), (0, 5, 12));
            assert_eq!((seen.count::<u32>(), seen.count::<u64>()), (Some(3), None));
            assert_eq!(world.probe(0, 6).unwrap().bytes, 100_001);
            assert_eq!(world.receive_vec::<u32>(0, 5).unwrap().0, [1, 2, 3]);
            assert_eq!(world.receive_vec::<u8>(0, 6).unwrap().0.len(), 100_001);
            assert_eq!(world.iprobe(ANY, ANY).unwrap(), None);
        }
    });
}

#[test]
fn values_travel() {
    use serde::{Deserialize, Serialize};
    #[derive(Debug, Deserialize, PartialEq, Serialize)]
    enum Task {
        Add(i64, i64),
        Say { text: String, times: Option<u8> },
        Stop,
    }
    local(2, |world| {
        let tasks = [
            Task::Add(1, -2),
            Task::Say { text: "ahoy".repeat(10_000), times: Some(3) },
            Task::Stop,
        ];
        if world.rank() == 0 {
            for task in &tasks {
                world.send_value(task, 1, 0).unwrap();
            }
        } else {
            for task in &tasks {
                assert_eq!(world.receive_value::<Task>(ANY, 0).unwrap().0, *task);
            }
        }
        let value = world.broadcast_value(vec![world.rank(); 3], 1).unwrap();
        assert_eq!(value, [1, 1, 1]);
    });
}

/// One message of a random program. Its first item is its number.
#[derive(Clone, Copy, Debug)]
struct Message {
    number: u32,
    from: u32,
    to: u32,
    tag: u32,
    items: u32,
}

fn program(seed: u64, ranks: u32, count: u32) -> Vec<Message> {
    let mut random = Random(seed);
    let message = |number| {
        let items = match random.below(10) {
            0 => 1 + random.below(30_000),
            1..3 => 1 + random.below(3_000),
            _ => 1 + random.below(40),
        };
        let (from, to) = (random.below(ranks), random.below(ranks));
        Message { number, from, to, tag: random.below(4), items }
    };
    (0..count).map(message).collect()
}

/// Receives the remaining messages in some order with some wildcards. From each source, a receive may only get the
/// first message that it matches.
fn receive_all(world: &Comm, mut left: Vec<Message>, random: &mut Random) {
    while !left.is_empty() {
        let some = left[random.below(u32::try_from(left.len()).unwrap()) as usize];
        let source = if random.one_in(2) { Source::Any } else { some.from.into() };
        let tag = if random.one_in(3) { Tag::Any } else { some.tag.into() };
        let (items, status) = receive_somehow(world, source, tag, random);
        let agrees = |message: &&Message| {
            let source = source == Source::Any || source == message.from.into();
            let tag = tag == Tag::Any || tag == message.tag.into();
            source && tag && message.from == status.source
        };
        let first = *left.iter().find(agrees).expect("somebody has sent it");
        let got = (items[0], status.tag, status.count, items.len());
        let len = first.items as usize;
        assert_eq!(got, (first.number, first.tag, len, len), "asked for {source}, {tag}");
        assert!(items[1..].iter().all(|&item| item == first.number));
        left.retain(|message| message.number != first.number);
    }
}

fn receive_somehow(
    world: &Comm,
    source: Source,
    tag: Tag,
    random: &mut Random,
) -> (Vec<u32>, Status) {
    let mut buffer = vec![0; 30_000];
    let status = match random.below(5) {
        0 => return world.receive_vec(source, tag).unwrap(),
        1 => return world.irecv(30_000, source, tag).unwrap().wait().unwrap(),
        2 => {
            let seen = world.probe(source, tag).unwrap();
            world.receive(&mut buffer, seen.source, seen.tag).unwrap()
        }
        3 => world.scope(|s| s.receive(&mut buffer, source, tag).wait()).unwrap().unwrap(),
        _ => world.receive(&mut buffer, source, tag).unwrap(),
    };
    buffer.truncate(status.count);
    (buffer, status)
}

#[test]
fn random_programs_match_in_order() {
    for seed in seeds(12) {
        let ranks = 1 + u32::try_from(seed % 5).unwrap();
        println!("SEED={seed} cargo test -p ferrywire --test messages random_programs");
        let program = program(seed, ranks, 1500);
        local(ranks, |world| {
            let me = world.rank();
            let mut random = Random(seed << 8 | u64::from(me));
            std::thread::scope(|threads| {
                threads.spawn(|| {
                    // The sends do not wait, because the receiver takes the messages in another order.
                    let mut sent = Vec::new();
                    for message in program.iter().filter(|message| message.from == me) {
                        let data = vec![message.number; message.items as usize];
                        let request = world.isend(data, message.to, message.tag).unwrap();
                        sent.extend((message.number % 2 == 0).then_some(request));
                    }
                    sent.into_iter().for_each(|request| drop(request.wait().unwrap()));
                });
                let ours = program.iter().filter(|message| message.to == me).copied().collect();
                receive_all(world, ours, &mut random);
            });
        });
    }
}
