//! Ports and intercommunicators, with ranks that are threads. `crates/ferry/tests/spawn.rs` has what needs a launcher.
#![allow(missing_docs)]

mod common;

use std::thread;
use std::time::Duration;

use common::local;
use ferrywire::{Command, Error, InterComm, Port, World};

/// Splits the world, and connects the second part to the first, which has so many ranks.
fn halves(world: &World, first: u32) -> InterComm {
    let is_server = world.rank() < first;
    let group = world.split(u32::from(is_server), 0).unwrap().unwrap();
    let port = is_server.then(|| Port::open(&group).unwrap());
    let name = port.as_ref().map_or_else(String::new, |port| port.name().to_owned());
    let name = world.broadcast_value(name, 0).unwrap();
    match &port {
        Some(port) => port.accept().unwrap(),
        None => group.connect(&name).unwrap(),
    }
}

#[test]
fn groups_of_every_size_connect_and_merge() {
    for ranks in 2..=6 {
        for first in 1..ranks {
            local(ranks, |world| {
                let both = halves(world, first);
                let is_server = world.rank() < first;
                let sizes = if is_server { (first, ranks - first) } else { (ranks - first, first) };
                assert_eq!((both.size(), both.remote_size()), sizes);
                for remote in 0..both.remote_size() {
                    both.isend(vec![world.rank(); 3], remote, 1).unwrap().wait().unwrap();
                }
                let offset = if is_server { first } else { 0 };
                for remote in 0..both.remote_size() {
                    let (items, _) = both.irecv::<u32>(3, remote, 1).unwrap().wait().unwrap();
                    assert_eq!(items, [offset + remote; 3]);
                }
                let all = both.merge(!is_server).unwrap();
                assert_eq!((all.size(), all.rank()), (ranks, world.rank()));
                assert_eq!(all.allgather(&world.rank()).unwrap(), (0..ranks).collect::<Vec<_>>());
            });
        }
    }
}

#[test]
fn several_groups_connect_to_one_port() {
    local(5, |world| {
        let name = |port: Option<&Port>| port.map_or_else(String::new, |port| port.name().into());
        let group = world.split(world.rank().min(3), 0).unwrap().unwrap();
        let port = (world.rank() == 0).then(|| Port::open(&group).unwrap());
        let name = world.broadcast_value(name(port.as_ref()), 0).unwrap();
        match &port {
            Some(port) => {
                let clients: Vec<InterComm> = (0..3).map(|_| port.accept().unwrap()).collect();
                let mut sizes: Vec<u32> = clients.iter().map(InterComm::remote_size).collect();
                sizes.sort_unstable();
                assert_eq!(sizes, [1, 1, 2]);
                for client in &clients {
                    client.broadcast_to_remote(&client.remote_size(), 0).unwrap();
                }
            }
            None => {
                let server = group.connect(&name).unwrap();
                let mut size = 0;
                server.broadcast_from_remote(&mut size, 0).unwrap();
                assert_eq!(size, group.size());
            }
        }
    });
}

#[test]
fn what_is_no_port_is_an_error_at_all_ranks() {
    local(3, |world| {
        let error = world.connect("the harbour").unwrap_err();
        assert!(matches!(error, Error::Port { .. }));
        let why = match world.rank() {
            0 => {
                "\"the harbour\" is not the name of a port: pass what Port::name or Comm::look_up \
                 returned"
            }
            _ => "the root rank failed; it has the reason",
        };
        assert_eq!(error.to_string(), format!("connect: {why} [FW0712]"));
        // Ranks go on.
        world.barrier().unwrap();
    });
}

/// The client waits too briefly at first, so that calls are withdrawn before, while and after they are accepted.
#[test]
fn an_accept_is_never_paired_with_a_call_that_was_withdrawn() {
    let late = local(2, |world| {
        let group = world.split(world.rank(), 0).unwrap().unwrap();
        let port = (world.rank() == 0).then(|| Port::open(&group).unwrap());
        let name = port.as_ref().map_or_else(String::new, |port| port.name().to_owned());
        let name = world.broadcast_value(name, 0).unwrap();
        let mut late = 0;
        for round in 0..300u32 {
            let mut timeout = Duration::from_micros(u64::from(round % 11));
            let both = match &port {
                Some(port) => {
                    (0..round % 50 * 4).for_each(|_| thread::yield_now());
                    port.accept().unwrap()
                }
                None => loop {
                    timeout = 2 * timeout + Duration::from_micros(1);
                    match group.connect_timeout(&name, timeout) {
                        Ok(both) => break both,
                        Err(Error::Port { why, .. }) => {
                            assert!(why.contains("was not accepted within"), "{why}");
                            late += 1;
                        }
                        Err(error) => panic!("{error}"),
                    }
                },
            };
            both.send(&round, 0, 0).unwrap();
            assert_eq!(both.receive_one::<u32>(0, 0).unwrap().0, round);
        }
        late
    });
    assert!(late[1] > 0, "no call was withdrawn");
}

/// Whether the call is there when the port is closed, or comes later.
#[test]
fn a_call_at_a_port_that_is_dropped_is_an_error() {
    local(2, |world| {
        let group = world.split(world.rank(), 0).unwrap().unwrap();
        let port = (world.rank() == 0).then(|| Port::open(&group).unwrap());
        let name = port.as_ref().map_or_else(String::new, |port| port.name().to_owned());
        let name = world.broadcast_value(name, 0).unwrap();
        drop(port);
        if world.rank() == 1 {
            let error = group.connect_timeout(&name, Duration::from_millis(50)).unwrap_err();
            assert!(matches!(error, Error::Port { .. }), "{error}");
        }
        world.barrier().unwrap();
    });
}

#[test]
fn ranks_that_are_threads_cannot_spawn() {
    local(2, |world| {
        let error = Command::new("true").spawn(world).unwrap_err();
        assert!(matches!(error, Error::Spawn { .. }));
        let told = error.to_string();
        assert_eq!(told.contains("without a launcher"), world.rank() == 0, "{told}");
        let error = world.look_up("ocean").unwrap_err();
        assert!(error.to_string().contains("without a launcher"), "{error}");
    });
}

#[test]
fn a_rank_of_the_other_group_is_named_by_its_rank_there() {
    local(3, |world| {
        let both = halves(world, 1);
        if world.rank() == 0 {
            let error = both.send(&1u8, 2, 0).unwrap_err();
            assert_eq!(
                error.to_string(),
                "send of 1 byte to rank 2, tag 0, in connection of split 1 of world: invalid rank; ranks go \
                 from 0 to 1 [FW0101]"
            );
        }
    });
}
