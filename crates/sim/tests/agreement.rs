//! Agreement, shrinking and revoking among ranks that die, on the production NIC.
//!
//! A kill is tried at every step of a small world, and at random moments of many others.

mod common;

use std::collections::BTreeSet;
use std::sync::Arc;

use common::fabric;
use ferrywire_mpi::agreement::{Agreement, CommState, Decision, Promise};
use ferrywire_mpi::group::Group;
use ferrywire_nic::{
    Action, Departure, Fault, Limits, Mode, Outcome, Peer, Posted, Promises, RailId, Region,
    Service, Span, Standard, Ticket,
};
use ferrywire_sim::fabric::Rule;
use ferrywire_sim::random::Random;
use ferrywire_sim::world::{Application, Context, World};

/// The number of the communicator of all ranks.
const NUMBER: u16 = 3;

/// A rank that agrees repeatedly, and shrinks when it learns of a death.
struct Delegate {
    agreement: Agreement,
    group: Group,
    state: Arc<CommState>,
    inbox: Option<(Ticket, Span)>,
    /// Its contribution to each agreement.
    flags: Vec<u64>,
    decisions: Vec<Decision>,
    promise: Option<Promise>,
    /// How long it pauses before each.
    pauses_ns: Vec<u64>,
    /// A receive that no rank sends to: it ends when the communicator is revoked.
    hanging: Option<Ticket>,
    hung: Option<Outcome>,
    revokes_at_ns: Option<u64>,
    woken: u32,
    sending: Vec<(Ticket, Region)>,
}

impl Delegate {
    fn new(me: u32, group: &Group, flags: Vec<u64>, pauses_ns: Vec<u64>) -> Delegate {
        Delegate {
            agreement: Agreement::new(Peer(me)),
            group: group.clone(),
            state: Arc::new(CommState::new(group.size())),
            inbox: None,
            flags,
            decisions: Vec::new(),
            promise: None,
            pauses_ns,
            hanging: None,
            hung: None,
            revokes_at_ns: None,
            woken: 0,
            sending: Vec::new(),
        }
    }

    fn listen(&mut self, context: &mut Context<'_, Standard>) {
        let bytes = Agreement::message_bytes_max(self.group.size());
        let into = Span::new(context.port.memory.lend(vec![0; bytes]), 0, bytes as u64);
        let (word, mask) = Agreement::wanted();
        loop {
            match context.nic.post_receive(None, word, mask, into, context.port) {
                Posted::Pending(ticket) => {
                    self.inbox = Some((ticket, into));
                    return;
                }
                Posted::Done(outcome) => self.take(outcome, into, context),
            }
        }
    }

    fn take(&mut self, outcome: Outcome, into: Span, context: &mut Context<'_, Standard>) {
        let Outcome::Received(got) = outcome else { panic!("a message was expected: {outcome:?}") };
        let bytes = context.port.memory.bytes(into.first(got.len)).to_vec();
        self.agreement.on_message(Peer(got.word.source()), &bytes);
        self.act(context);
    }

    /// Carries out the actions of the service, and joins the next agreement if the last is over.
    fn act(&mut self, context: &mut Context<'_, Standard>) {
        let me = context.nic.me();
        for action in self.agreement.take_actions() {
            if context.nic.end_for(&action, context.port) {
                continue;
            }
            let Action::Send { to, bytes } = action else { unreachable!("the others are done") };
            let len = bytes.len() as u64;
            let source = Span::new(context.port.memory.lend(bytes), 0, len);
            let word = Agreement::word(me);
            let posted = context.nic.post_send(to, word, source, Mode::Standard, context.port);
            if let Posted::Pending(ticket) = posted {
                self.sending.push((ticket, source.region));
            }
        }
        let over = self.promise.as_ref().and_then(|promise| promise.get().cloned());
        if let Some(decision) = over {
            self.promise = None;
            self.decisions.push(decision);
            if let Some(&pause) = self.pauses_ns.get(self.decisions.len()) {
                context.wake_in(pause);
            }
        }
    }
}

impl Application<Standard> for Delegate {
    fn on_wake(&mut self, context: &mut Context<'_, Standard>) {
        self.woken += 1;
        if self.woken == 1 {
            self.agreement.on_made(NUMBER, &self.group, &self.state);
            self.listen(context);
            if self.revokes_at_ns.is_some() || self.flags.is_empty() {
                // No rank sends to it.
                let wanted = ferrywire_mpi::comm::Comm::new(self.group.clone(), 0, NUMBER);
                let (word, mask) = {
                    let wanted = wanted.wanted(None, None);
                    (wanted.word, wanted.mask)
                };
                let posted = context.nic.post_receive(None, word, mask, Span::EMPTY, context.port);
                let Posted::Pending(ticket) = posted else { panic!("nobody sends it") };
                self.hanging = Some(ticket);
            }
            if let Some(ns) = self.revokes_at_ns.or(self.pauses_ns.first().copied()) {
                context.wake_in(ns);
            }
            return;
        }
        if self.revokes_at_ns.is_some() {
            self.agreement.revoke(NUMBER);
        } else if let Some(&flags) = self.flags.get(self.decisions.len()) {
            self.promise = Some(self.agreement.agree(NUMBER, vec![flags]));
        }
        self.act(context);
    }

    fn on_complete(
        &mut self,
        ticket: Ticket,
        outcome: Outcome,
        context: &mut Context<'_, Standard>,
    ) {
        if self.hanging == Some(ticket) {
            self.hung = Some(outcome);
        } else if let Some((_, into)) = self.inbox.filter(|(inbox, _)| *inbox == ticket) {
            self.take(outcome, into, context);
            self.listen(context);
        }
    }

    fn on_peer_down(&mut self, peer: Peer, context: &mut Context<'_, Standard>) {
        self.agreement.on_gone(peer, Departure::Died);
        self.act(context);
    }
}

/// A world of such ranks, on lossy or lossless rails.
fn world(
    seed: u64,
    reliable: bool,
    delegates: impl Iterator<Item = Delegate>,
) -> World<Standard, Delegate> {
    let promises = Promises {
        rail: RailId(0),
        reliable,
        may_vanish: !reliable,
        puts: false,
        gets: false,
        frame_bytes_max: 1500,
        burst_frames_max: 1,
        initial_credit_bytes: 0,
    };
    let fabric = fabric(promises, reliable.then_some(4));
    let mut world = World::new(seed, fabric, &Limits::default(), delegates);
    world.rules = vec![Rule::Lose { percent: 5 }, Rule::Reorder { percent: 20, by_ns: 20_000 }];
    world.detection_ns = 3_000;
    world.detection_spread_ns = 30_000;
    world
}

/// Checks the decision of each agreement, whichever ranks died and when.
fn judge(world: &World<Standard, Delegate>, agreements: usize, context: &str) {
    let ranks: Vec<Peer> = (0..world.size()).map(Peer).collect();
    for nth in 0..agreements {
        // Uniform: includes decisions of ranks that have died since.
        let decisions: Vec<(Peer, &Decision)> = ranks
            .iter()
            .filter_map(|&rank| Some((rank, world.application(rank).decisions.get(nth)?)))
            .collect();
        for &rank in ranks.iter().filter(|&&rank| !world.is_dead(rank)) {
            let there = world.application(rank).decisions.len() > nth;
            assert!(there, "{context}: {rank:?} has no decision {nth}");
        }
        let Some((_, first)) = decisions.first() else { continue };
        for (rank, decision) in &decisions {
            assert_eq!(decision, first, "{context}: {rank:?} differs in agreement {nth}");
        }
        let failed: BTreeSet<u32> = first.failed.iter().copied().collect();
        // No live rank is reported dead.
        let slandered = failed.iter().find(|&&rank| !world.is_dead(Peer(rank)));
        assert_eq!(slandered, None, "{context}: agreement {nth}");
        // The flags of all participants: every live rank took part, and perhaps some of the dead.
        let flags = |rank: &Peer| world.application(*rank).flags[nth];
        let living = ranks.iter().filter(|&&rank| !world.is_dead(rank)).map(flags);
        let all = ranks.iter().map(flags).fold(!0, |all, one| all & one);
        let most = living.fold(!0, |all, one| all & one);
        assert_eq!(first.words[0] & !most, 0, "{context}: a bit that somebody lacks");
        assert_eq!(all & !first.words[0], 0, "{context}: a bit is missing that all have");
    }
}

fn delegates(random: &mut Random, size: u32, agreements: usize) -> Vec<Delegate> {
    let group = Group::whole(size);
    (0..size)
        .map(|me| {
            let flags = (0..agreements).map(|_| random.below(1 << 16) | 1 << 20).collect();
            let pauses = (0..agreements).map(|_| random.below(20_000)).collect();
            Delegate::new(me, &group, flags, pauses)
        })
        .collect()
}

#[test]
fn all_agree_when_nobody_dies() {
    for size in 1..20 {
        let mut random = Random::new(u64::from(size));
        let mut world = world(1, size % 2 == 0, delegates(&mut random, size, 4).into_iter());
        world.begin();
        world.run_until_quiet();
        judge(&world, 4, &format!("{size} ranks"));
        assert!(world.application(Peer(0)).decisions.iter().all(|one| one.failed.is_empty()));
    }
}

/// Kills each rank in turn after each event in turn, and a second rank some events later.
#[test]
fn a_kill_at_every_step_leaves_one_decision() {
    let mut runs = 0;
    for (size, reliable) in [(2, true), (3, true), (4, false), (5, true)] {
        for victim in 0..size {
            for step in 0_u64.. {
                let mut random = Random::new(u64::from(size));
                let delegates = delegates(&mut random, size, 2);
                let mut world = world(step, reliable, delegates.into_iter());
                world.begin();
                if (0..step).any(|_| world.step().is_none()) {
                    break;
                }
                world.kill_at(world.now().0, Peer(victim));
                // The next leader, most often.
                let second = Peer((victim + 1) % size);
                if step % 3 == 0 && size > 2 {
                    let later = world.now().0 + (step % 7) * 3_000;
                    world.kill_at(later, second);
                }
                world.run_until_quiet();
                judge(&world, 2, &format!("{size} ranks, {victim} killed after step {step}"));
                runs += 1;
            }
        }
    }
    println!("{runs} worlds");
    assert!(runs > 500);
}

#[test]
fn any_number_of_deaths_at_any_time_leaves_one_decision() {
    for seed in 0..runs() {
        let mut random = Random::new(seed);
        let size = u32::try_from(random.between(2, 12)).expect("few");
        let delegates = delegates(&mut random, size, 3);
        let mut world = world(seed, random.percent(50), delegates.into_iter());
        for rank in 0..size {
            if random.percent(40) {
                world.kill_at(random.below(120_000), Peer(rank));
            }
        }
        world.begin();
        world.run_until_quiet();
        judge(&world, 3, &format!("seed {seed}"));
    }
}

/// A rank that dies before any has joined is in the decision of all: that is what a shrunk communicator excludes.
#[test]
fn the_dead_of_before_are_agreed_on() {
    for seed in 0..runs() / 4 {
        let mut random = Random::new(seed);
        let size = u32::try_from(random.between(3, 12)).expect("few");
        let mut delegates = delegates(&mut random, size, 1);
        delegates.iter_mut().for_each(|one| one.pauses_ns[0] += 100);
        let mut world = world(seed, random.percent(50), delegates.into_iter());
        let dead: Vec<u32> = (0..size).filter(|_| random.percent(30)).collect();
        dead.iter().for_each(|&rank| world.kill_at(1, Peer(rank)));
        world.begin();
        world.run_until_quiet();
        judge(&world, 1, &format!("seed {seed}"));
        let living = (0..size).find(|rank| !dead.contains(rank));
        if let Some(rank) = living {
            assert_eq!(world.application(Peer(rank)).decisions[0].failed, dead, "seed {seed}");
        }
    }
}

/// A rank that left in order disturbs no running operation, and takes no part in further agreements.
#[test]
fn who_has_left_ends_nothing() {
    let group = Group::whole(3);
    let state = Arc::new(CommState::new(group.size()));
    let mut agreement = Agreement::new(Peer(0));
    agreement.on_made(NUMBER, &group, &state);
    agreement.on_gone(Peer(2), Departure::Left);
    assert_eq!((agreement.take_actions(), state.lost()), (vec![], vec![]));
    agreement.on_gone(Peer(1), Departure::Died);
    let ended = agreement.take_actions();
    assert!(ended.iter().any(|action| matches!(action, Action::EndShared { .. })), "{ended:?}");
    assert_eq!(state.lost(), [Peer(1)]);
    let decision = agreement.agree(NUMBER, vec![5]).get().cloned().expect("nobody else is there");
    assert_eq!((decision.words, decision.failed), (vec![5], vec![1, 2]));
}

/// If one live rank has heard of a revocation, all live ranks do, and pending operations in the communicator end.
#[test]
fn word_of_a_revocation_reaches_all_who_live() {
    for seed in 0..runs() {
        let mut random = Random::new(seed);
        let size = u32::try_from(random.between(2, 12)).expect("few");
        let group = Group::whole(size);
        let mut delegates: Vec<Delegate> =
            (0..size).map(|me| Delegate::new(me, &group, Vec::new(), Vec::new())).collect();
        delegates[0].revokes_at_ns = Some(random.below(5_000));
        let mut world = world(seed, random.percent(50), delegates.into_iter());
        // The revoking rank may die while it sends the notices.
        if random.percent(70) {
            world.kill_at(random.below(9_000), Peer(0));
        }
        if random.percent(50) {
            world.kill_at(random.below(9_000), Peer(1));
        }
        world.begin();
        world.run_until_quiet();
        let living: Vec<Peer> = (0..size).map(Peer).filter(|&rank| !world.is_dead(rank)).collect();
        let told = |rank: &Peer| world.application(*rank).state.is_revoked();
        let any = living.iter().any(told);
        assert!(!any || living.iter().all(told), "seed {seed}");
        for &rank in &living {
            let hung = world.application(rank).hung;
            let revoked = hung == Some(Outcome::Failed(Fault::Revoked));
            let bereft = matches!(hung, Some(Outcome::Failed(Fault::PeerDown(_))));
            // A receive from any source: the dead rank might have sent to it.
            assert!(revoked || bereft || !any && hung.is_none(), "seed {seed}: {rank:?} {hung:?}");
        }
    }
}

/// Number of worlds for each test; the variable `RUNS` overrides it.
fn runs() -> u64 {
    std::env::var("RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(2000)
}
