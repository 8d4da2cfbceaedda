//! Scenarios that need a world: a flood, and a reduction that its callers do not wait for.

mod common;

use std::sync::Arc;

use common::{Diary, fabric};
use ferrywire_mpi::collective::{self, Locality, Member, Naming};
use ferrywire_mpi::group::Group;
use ferrywire_nic::{
    Limits, Mask, MatchWord, Mode, Outcome, Peer, Posted, Promises, RailId, Span, Standard, Ticket,
};
use ferrywire_sim::port::{SUM, reduce_op};
use ferrywire_sim::world::World;

fn world(ranks: u32, limits: &Limits, reliable: bool) -> World<Standard, Diary> {
    let promises = Promises {
        rail: RailId(0),
        reliable,
        may_vanish: !reliable,
        puts: false,
        gets: false,
        frame_bytes_max: 2000,
        burst_frames_max: 1,
        initial_credit_bytes: 0,
    };
    let fabric = fabric(promises, reliable.then_some(64));
    World::new(1, fabric, limits, (0..ranks).map(|_| Diary::default()))
}

/// A rank that does not receive is sent far more than its budget. Its memory stays within the budget, the senders wait,
/// and in the end everything arrives, each sender's messages in order.
#[test]
fn a_flood_stays_within_the_budget_and_loses_nothing() {
    const SENDERS: u32 = 3;
    const MESSAGES: u32 = 2000;
    for reliable in [true, false] {
        let limits =
            Limits { unexpected_bytes_max: 64 << 10, credit_bytes: 8192, ..Limits::default() };
        let mut world = world(SENDERS + 1, &limits, reliable);
        let mut waiting = 0;
        for sender in 1..=SENDERS {
            world.act(Peer(sender), |_, context| {
                for number in 0..MESSAGES {
                    let bytes = [&number.to_le_bytes()[..], &[7; 996]].concat();
                    let source = Span::new(context.port.memory.lend(bytes), 0, 1000);
                    let word = MatchWord::new(0, sender, 1);
                    let posted =
                        context.nic.post_send(Peer(0), word, source, Mode::Standard, context.port);
                    waiting += u32::from(matches!(posted, Posted::Pending(_)));
                }
            });
        }
        while let Some(rank) = world.step() {
            assert!(world.nic(rank).is_within_budget());
        }
        let stores = world.nic(Peer(0)).holdings().stores;
        assert!(stores.iter().all(|store| store.used + store.reserved <= store.bytes_max));
        assert!(world.nic(Peer(0)).stats().refused > 0, "the flood was no flood");

        let mut expected = [0; SENDERS as usize + 1];
        for _ in 0..SENDERS * MESSAGES {
            let into = world.act(Peer(0), |_, context| context.port.memory.lend_filled(1000, 0));
            let posted = world.act(Peer(0), |_, context| {
                let word = MatchWord::new(0, 0, 1);
                context.nic.post_receive(None, word, Mask::ANY_SOURCE, into, context.port)
            });
            while let Some(rank) = world.step() {
                assert!(world.nic(rank).is_within_budget());
            }
            let outcome = match posted {
                Posted::Done(outcome) => outcome,
                Posted::Pending(ticket) => {
                    let &(told, outcome) = world.application(Peer(0)).told.last().expect("told");
                    assert_eq!(told, ticket);
                    outcome
                }
            };
            let Outcome::Received(received) = outcome else { panic!("{outcome:?}") };
            let number = world.memory(Peer(0)).bytes(into)[..4].try_into().expect("four bytes");
            let next = &mut expected[received.word.source() as usize];
            assert_eq!(u32::from_le_bytes(number), *next);
            *next += 1;
        }
        assert_eq!(expected, [0, MESSAGES, MESSAGES, MESSAGES]);
        for sender in 1..=SENDERS {
            assert_eq!(world.nic(Peer(sender)).holdings().tickets, 0, "of {waiting} that waited");
        }
    }
}

/// Application bypass: inner ranks of a reduction return at once while their children are late, and make no further
/// call; the sum arrives nevertheless.
#[test]
fn a_reduction_goes_on_without_its_callers() {
    const RANKS: u32 = 16;
    let mut world = world(RANKS, &Limits::default(), false);
    let group = Group::whole(RANKS);
    let begin = |world: &mut World<Standard, Diary>, rank: u32| {
        let me = Member {
            group_id: 3,
            group: &group,
            rank,
            locality: Locality::Unknown,
            naming: Naming::Ranks,
        };
        world.act(Peer(rank), |_, context| {
            let memory = &mut context.port.memory;
            let bytes = Span::new(memory.lend(u64::from(rank).to_le_bytes().into()), 0, 8);
            let room = collective::reduce_work_bytes(me, 0, reduce_op(SUM), 8);
            let work = memory.lend_filled(room, 0);
            let schedule = collective::reduce(me, 0, reduce_op(SUM), bytes, work);
            let posted = context.nic.post_schedule(Arc::new(schedule), 1, context.port);
            let Posted::Pending(ticket) = posted else { panic!("{posted:?}") };
            (ticket, bytes)
        })
    };
    // The even ranks, all inner ranks but the root, begin first; the odd ranks, all leaves, begin when everything
    // possible without them has happened.
    let early: Vec<_> = (0..RANKS).step_by(2).map(|rank| (rank, begin(&mut world, rank))).collect();
    world.run_until_quiet();
    for &(rank, (ticket, _)) in &early[1..] {
        let diary = &world.application(Peer(rank)).told;
        let released =
            |&(told, outcome): &(Ticket, Outcome)| told == ticket && outcome == Outcome::Released;
        assert!(diary.iter().any(released), "rank {rank} was kept waiting");
        assert!(diary.iter().all(|(_, outcome)| *outcome != Outcome::Done));
    }
    let (_, (root, sum)) = early[0];
    assert!(world.application(Peer(0)).told.is_empty(), "the root has nothing to go on with yet");

    for rank in (1..RANKS).step_by(2) {
        begin(&mut world, rank);
    }
    world.run_until_quiet();
    let told = &world.application(Peer(0)).told;
    assert!(told.iter().any(|(ticket, outcome)| *ticket == root && *outcome == Outcome::Done));
    assert_eq!(world.memory(Peer(0)).number(sum.region, 0), u64::from(RANKS * (RANKS - 1) / 2));
    for rank in 0..RANKS {
        assert_eq!(world.nic(Peer(rank)).holdings().runs, 0);
    }
}
