//! Jobs: communicators, ranks that leave, ranks that panic.
#![allow(missing_docs)]

mod common;

use std::panic::catch_unwind;

use common::{local, watched};
use ferrywire::{ANY, Comm, Operation, World};

#[test]
fn splits_of_every_size_by_color_and_key() {
    for ranks in 1..=8u32 {
        local(ranks, |world| {
            for colors in 1..=3 {
                let color = world.rank() % colors;
                let backwards = -i32::try_from(world.rank()).unwrap();
                let part = world.split(color, backwards).unwrap().unwrap();
                let members: Vec<u32> =
                    (0..ranks).rev().filter(|rank| rank % colors == color).collect();
                assert_eq!(part.size() as usize, members.len());
                assert_eq!(members[part.rank() as usize], world.rank());
                assert_eq!(part.allgather(&world.rank()).unwrap(), members);
                let next = (part.rank() + 1) % part.size();
                part.send(&world.rank(), next, 0).unwrap();
                let (from, status) = part.receive_one::<u32>(ANY, 0).unwrap();
                assert_eq!(from, members[status.source as usize]);
            }
            let odd = world.split((world.rank() % 2 == 1).then_some(5), 0).unwrap();
            assert_eq!(odd.is_some(), world.rank() % 2 == 1);
            if let Some(odd) = odd {
                assert_eq!(odd.name(), "split 5 of world");
                let again = odd.split(0, 0).unwrap().unwrap().dup().unwrap();
                assert_eq!(again.name(), "dup of split 0 of split 5 of world");
                let mut sum = 1;
                again.allreduce(&mut sum, Operation::Sum).unwrap();
                assert_eq!(sum, ranks / 2);
            }
        });
    }
}

#[test]
fn communicators_keep_their_messages_apart() {
    local(2, |world| {
        let other = 1 - world.rank();
        let comms: Vec<Comm> = (0..20).map(|_| world.dup().unwrap()).collect();
        for (number, comm) in (0u32..).zip(&comms) {
            comm.send(&number, other, 0).unwrap();
        }
        for (number, comm) in (0u32..20).zip(&comms).rev() {
            assert_eq!(comm.receive_one::<u32>(ANY, ANY).unwrap().0, number);
        }
        assert_eq!(world.iprobe(ANY, ANY).unwrap(), None);
    });
}

#[test]
fn a_communicator_outlives_the_world() {
    local(2, |world| {
        let comm: Comm = world.comm().clone();
        let thread = std::thread::spawn(move || {
            let other = 1 - comm.rank();
            comm.sendrecv(&1, other, 0, &mut 0, other, 0).unwrap();
        });
        thread.join().unwrap();
    });
}

#[test]
fn numbers_of_communicators_are_used_again_and_come_to_an_end() {
    local(2, |world| {
        for _ in 0..5_000 {
            world.dup().unwrap();
        }
        let mut kept = Vec::new();
        let error = loop {
            match world.dup() {
                Ok(comm) => kept.push(comm),
                Err(error) => break error,
            }
        };
        // Three are predefined.
        assert_eq!(kept.len(), 4_093);
        assert_eq!(
            error.to_string(),
            "dup: a rank already has 4096 communicators, the maximum; drop some first [FW0303]"
        );
        kept.pop();
        assert!(world.dup().is_ok());
    });
}

#[test]
fn a_job_of_one() {
    let world = ferrywire::init().unwrap();
    assert_eq!((world.rank(), world.size()), (0, 1));
    world.barrier().unwrap();
    world.send(&5, 0, 0).unwrap();
    assert_eq!(world.receive_one::<i32>(0, 0).unwrap().0, 5);
    assert_eq!(format!("{world:?}"), "world, rank 0 of 1");
}

/// Runs four ranks of which rank 1 panics while the others run `others`; the panic must reach the caller.
fn panics_while(others: impl Fn(&World) + Sync + std::panic::RefUnwindSafe) {
    let panic = watched(|| {
        catch_unwind(|| {
            ferrywire::local(4, |world| match world.rank() {
                1 => panic!("the ship sinks"),
                _ => others(world),
            })
        })
    });
    assert_eq!(*panic.unwrap_err().downcast::<&str>().unwrap(), "the ship sinks");
}

#[test]
fn a_panic_ends_whatever_the_others_wait_for() {
    let lost = |error: ferrywire::Error| {
        let text = error.to_string();
        assert!(text.ends_with("rank 1 panicked; its own message says why [FW0701]"), "{text}");
    };
    panics_while(|world| lost(world.receive(&mut 0u8, 1, 0).unwrap_err()));
    panics_while(|world| lost(world.receive(&mut 0u8, ANY, 0).unwrap_err()));
    panics_while(|world| lost(world.receive_vec::<u8>(ANY, ANY).unwrap_err()));
    panics_while(|world| lost(world.probe(ANY, ANY).unwrap_err()));
    panics_while(|world| lost(world.barrier().unwrap_err()));
    // The survivors lose each other too; otherwise some would wait for ever.
    panics_while(|world| lost(world.receive(&mut 0u8, world.rank(), 0).unwrap_err()));
    panics_while(|world| lost(world.irecv::<u8>(1, ANY, 0).unwrap().wait().unwrap_err()));
    panics_while(|world| {
        let request = world.irecv::<u8>(1, ANY, 0).unwrap();
        lost(common::block_on(request).unwrap_err());
    });
}

#[test]
fn a_panic_in_the_midst_of_traffic() {
    for lap in 0..20u32 {
        let panic = watched(|| {
            catch_unwind(|| {
                ferrywire::local(4, |world| {
                    let (rank, size) = (world.rank(), world.size());
                    let data = vec![rank; 100_000];
                    let mut got = vec![0u32; 100_000];
                    for round in 0..100 {
                        if rank == 2 && round == lap {
                            drop(world.isend(data, 0, 7).unwrap());
                            std::panic::panic_any(lap);
                        }
                        let (right, left) = ((rank + 1) % size, (rank + size - 1) % size);
                        if world.sendrecv(&data, right, 0, &mut got, left, 0).is_err() {
                            return;
                        }
                    }
                })
            })
        });
        assert_eq!(*panic.unwrap_err().downcast::<u32>().unwrap(), lap);
    }
}

#[test]
fn results_come_in_the_order_of_ranks() {
    assert_eq!(local(6, |world| world.rank() * 2), [0, 2, 4, 6, 8, 10]);
}
