//! Units that walk down queues in a store with banks, cycle by cycle.

use std::collections::{HashMap, VecDeque};

use ferrywire_nic::matcher::{Arrival, List, Matcher, Queue};
use ferrywire_nic::{Mask, MatchWord};

use crate::random::Random;

/// The header store and the units that search it.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeaderStore {
    pub(super) matchers: usize,
    pub(super) queues: usize,
    pub(super) banks: usize,
    /// Receives in each queue.
    pub(super) depth: usize,
}

/// A search of one queue, until the header that matches.
#[derive(Clone, Debug)]
struct HeaderSearch {
    queue: usize,
    /// The banks of the headers that it reads.
    banks: Vec<usize>,
}

/// A search that a unit is busy with.
struct ActiveSearch {
    search: HeaderSearch,
    read: usize,
}

/// Headers that are compared in a cycle, while messages arrive faster than they are matched.
pub(super) fn rate(store: &HeaderStore, messages: usize) -> f64 {
    let searches = searches(store, messages);
    let compared: usize = searches.iter().map(|search| search.banks.len()).sum();
    compared as f64 / cycles(store, searches) as f64
}

/// What matching messages has to read. Our list says how far it looks. Each message is for a random receive of a random
/// queue, which is then posted anew, in whatever header is free.
fn searches(store: &HeaderStore, messages: usize) -> Vec<HeaderSearch> {
    let mut random = Random::new(7);
    let headers = store.queues * store.depth;
    let mut free: Vec<usize> = (0..2 * headers).collect();
    random.shuffle(&mut free);
    let mut free = VecDeque::from(free);
    let mut queues: Vec<(List, HashMap<u32, usize>)> = Vec::new();
    let word = |receive: u32| MatchWord::new(1, 0, receive);
    for _ in 0..store.queues {
        let (mut list, mut places) = (List::default(), HashMap::new());
        for receive in (0..).take(store.depth) {
            list.post(word(receive), Mask::EXACT, receive);
            places.insert(receive, free.pop_front().expect("there are enough"));
        }
        queues.push((list, places));
    }
    let below = |random: &mut Random, most: usize| {
        usize::try_from(random.below(most as u64)).expect("it was one")
    };
    let search = |_| {
        let queue = below(&mut random, store.queues);
        let wanted = u32::try_from(below(&mut random, store.depth)).expect("few receives");
        let (list, places) = &mut queues[queue];
        let mut order = Vec::new();
        list.dump(Queue::Posted, |entry| order.push(entry.item));
        let before = list.work(Queue::Posted).searched;
        let found = list.arrive(word(wanted), list.next_age(), || None);
        assert_eq!(found, Arrival::Matched(wanted), "every message has a receive");
        let read = usize::try_from(list.work(Queue::Posted).searched - before).expect("few");
        let banks = order[..read].iter().map(|item| places[item] % store.banks).collect();
        free.push_back(places[&wanted]);
        places.insert(wanted, free.pop_front().expect("one has just come back"));
        list.post(word(wanted), Mask::EXACT, wanted);
        HeaderSearch { queue, banks }
    };
    (0..messages).map(search).collect()
}

/// Cycles until all searches are over. A unit reads one header in a cycle, if no older search wants the same bank, and
/// stays behind those that began earlier in the same queue.
fn cycles(store: &HeaderStore, searches: Vec<HeaderSearch>) -> u64 {
    let mut waiting = VecDeque::from(searches);
    let mut active: Vec<ActiveSearch> = Vec::new();
    let mut cycles = 0;
    while !(waiting.is_empty() && active.is_empty()) {
        while active.len() < store.matchers
            && let Some(search) = waiting.pop_front()
        {
            active.push(ActiveSearch { search, read: 0 });
        }
        let mut taken = vec![false; store.banks];
        // How far the last older search in each queue was when the cycle began.
        let mut reached = vec![usize::MAX; store.queues];
        for ActiveSearch { search, read } in &mut active {
            let limit = std::mem::replace(&mut reached[search.queue], *read);
            let bank = search.banks[*read];
            if *read < limit && !taken[bank] {
                taken[bank] = true;
                *read += 1;
            }
        }
        active.retain(|one| one.read < one.search.banks.len());
        cycles += 1;
    }
    cycles
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search(queue: usize, banks: &[usize]) -> HeaderSearch {
        HeaderSearch { queue, banks: banks.into() }
    }

    fn store(matchers: usize, queues: usize, banks: usize) -> HeaderStore {
        HeaderStore { matchers, queues, banks, depth: 20 }
    }

    #[test]
    fn units_search_different_queues_at_the_same_time() {
        let both = || vec![search(0, &[0, 1, 2]), search(1, &[3, 4, 5])];
        assert_eq!([1, 2].map(|units| cycles(&store(units, 2, 8), both())), [6, 3]);
    }

    #[test]
    fn the_port_of_a_bank_serves_the_older_search() {
        let both = vec![search(0, &[0, 0, 0]), search(1, &[0])];
        assert_eq!(cycles(&store(2, 2, 8), both), 4);
    }

    #[test]
    fn a_unit_stays_behind_the_older_one_in_its_queue() {
        let both = vec![search(0, &[0, 1, 2, 3]), search(0, &[0, 1, 2, 3])];
        assert_eq!(cycles(&store(2, 1, 8), both), 5);
    }

    #[test]
    fn more_units_never_slow_each_other_down() {
        let rates = [1, 4, 16].map(|units| rate(&store(units, 32, 64), 300));
        assert_eq!(rates[0], 1.0);
        assert!(rates[1] > 3.0 && rates[2] > rates[1] && rates[2] <= 16.0, "{rates:?}");
    }
}
