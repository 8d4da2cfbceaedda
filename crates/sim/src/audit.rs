//! Checks of NICs that hold whatever their ranks do: nothing leaked, memory within its budget, credit in order.

use ferrywire_nic::{Limits, Mask, MatchWord, Nic, Peer, Span, Variant};

use crate::world::{Application, World};

/// Runs a world until nothing happens any more. Stops at a violation: a budget that is exceeded, or too much virtual
/// time.
pub(crate) fn run<V: Variant, A: Application<V>>(
    world: &mut World<V, A>,
    bound_ns: u64,
) -> Vec<String> {
    world.begin();
    while let Some(rank) = world.step() {
        if let Some(violation) = check_budget(world.nic(rank), world.handled()) {
            return vec![format!("rank {}: {violation}", rank.0)];
        }
        if world.now().0 > bound_ns {
            return vec![format!("not finished after {bound_ns} ns")];
        }
    }
    Vec::new()
}

/// Checks the budget at every step by the counters; and now and then audits the counters.
fn check_budget<V: Variant>(nic: &Nic<V>, step: u64) -> Option<String> {
    if !nic.is_within_budget() {
        return Some("over its budget".into());
    }
    if !step.is_multiple_of(STEPS_PER_AUDIT) {
        return None;
    }
    let holdings = nic.holdings();
    let reserved: u32 = holdings.stores.iter().map(|store| store.reserved).sum();
    let honest = holdings.stores.iter().all(|store| store.stored == store.used);
    (!honest || reserved != holdings.promised).then(|| format!("wrong books: {holdings:?}"))
}

/// An audit takes longer than most steps.
const STEPS_PER_AUDIT: u64 = 16;

/// Receives what is left of dead ranks and of collectives that they broke. Without a death nothing may be left.
pub(crate) fn drain<V: Variant, A: Application<V>>(
    groups: &[u16],
    someone_dies: bool,
    world: &mut World<V, A>,
    violations: &mut Vec<String>,
) {
    // Each message received makes room for one that a sender holds, perhaps in a group already visited; and held
    // messages are seen by the second look.
    let mut idle_looks = 0;
    while idle_looks < 2 {
        idle_looks += 1;
        for rank in alive(world) {
            for &group in groups {
                let word = MatchWord::new(group, 0, 0);
                while let Some((ticket, seen)) = world
                    .act(rank, |_, context| context.nic.take(word, Mask::ANY_BOTH, context.port))
                {
                    idle_looks = 0;
                    if !someone_dies {
                        violations.push(format!("rank {} has {seen:?} left over", rank.0));
                    }
                    world.act(rank, |_, context| {
                        context.nic.post_taken(ticket, Span::EMPTY, context.port)
                    });
                    world.run_until_quiet();
                }
            }
        }
        world.run_until_quiet();
    }
}

pub(crate) fn check_leaks<V: Variant, A: Application<V>>(
    world: &World<V, A>,
    violations: &mut Vec<String>,
) {
    for rank in alive(world) {
        let holdings = world.nic(rank).holdings();
        let lists = [
            holdings.tickets,
            holdings.driven,
            holdings.runs,
            holdings.posted,
            holdings.unexpected,
            holdings.timers,
            holdings.kept,
            holdings.backlog,
            holdings.early_bytes,
        ];
        let stores = holdings.stores.iter();
        let stored = stores.map(|s| s.stored as usize + s.used as usize + s.fragments_in_use);
        let reserved: u32 = holdings.stores.iter().map(|store| store.reserved).sum();
        if lists.iter().any(|&count| count > 0) || stored.sum::<usize>() > 0 {
            violations.push(format!("rank {} has leaked: {holdings:?}", rank.0));
        }
        let exposed = world.exposed(rank);
        if exposed > 0 {
            violations.push(format!("rank {} lets others read {exposed} spans", rank.0));
        }
        if reserved != holdings.promised {
            violations.push(format!("rank {} has lost credit: {holdings:?}", rank.0));
        }
    }
}

/// Checks credit in a quiet world: a sender has no more credit than the receiver has reserved for it, and reserved
/// credit was given in whole portions and taken from no other sender.
pub(crate) fn check_credit<V: Variant, A: Application<V>>(
    limits: &Limits,
    world: &World<V, A>,
    violations: &mut Vec<String>,
) {
    let alive = alive(world);
    for (&giver, &user) in
        alive.iter().flat_map(|giver| alive.iter().map(move |user| (giver, user)))
    {
        let welcome = world.initial_credit_bytes(user, giver);
        for queue in 0..limits.queues {
            let held = world.nic(user).credit(giver, queue).map_or(welcome, |credit| credit.held);
            let credit = world.nic(giver).credit(user, queue);
            let (given, owed) = credit.map_or((welcome, 0), |credit| (credit.given, credit.owed));
            if held > given {
                violations.push(format!(
                    "rank {} may use {held} bytes at rank {} in queue {queue}, which has set aside {given}",
                    user.0, giver.0
                ));
            }
            // Where messages are refused, freed credit returns to the store in pieces of any size.
            let portion = limits.credit_bytes.max(1);
            let given = given + owed;
            let whole = given == 0
                || given.checked_sub(welcome).is_some_and(|more| more.is_multiple_of(portion));
            if !whole && world.nic(giver).stats().refused == 0 {
                violations.push(format!(
                    "rank {} has set aside {given} bytes for rank {} in queue {queue}, {welcome} of them at \
                     first and the others in portions of {portion}: some are somebody else's",
                    giver.0, user.0
                ));
            }
        }
    }
}

fn alive<V: Variant, A: Application<V>>(world: &World<V, A>) -> Vec<Peer> {
    (0..world.size()).map(Peer).filter(|&rank| !world.is_dead(rank)).collect()
}
