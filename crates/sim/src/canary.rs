//! Planted bugs: NICs that are wrong on purpose, to see that the soak finds them.

use ferrywire_nic::canary::Bug;
use ferrywire_nic::matcher::{
    Age, Arrival, Cell, Entry, Indexed, Item, List, Matcher, Post, Queue,
};
use ferrywire_nic::{Mask, MatchWord, Variant};

use crate::soak::{Verdict, run_variant};

/// A NIC with a bug.
pub struct Canary {
    /// What it is called.
    pub name: &'static str,
    /// What is wrong with it.
    pub what: &'static str,
    /// Runs one seed on it.
    pub run: fn(seed: u64, trace: bool) -> Verdict,
}

/// All of them.
pub const CANARIES: &[Canary] = &[
    Canary {
        name: "wildcard-order",
        what: "a message prefers an exact receive to an older wildcard",
        run: run_variant::<WildcardOrder>,
    },
    Canary {
        name: "floor-ignored",
        what: "after a refusal, later messages may match any receive",
        run: run_variant::<FloorIgnored>,
    },
    Canary {
        name: "ack-forgets",
        what: "an ack with a gap in it acks the missing frame, too",
        run: run_variant::<AckForgets>,
    },
    Canary {
        name: "repeat-accepted",
        what: "a frame that has been here before is taken once more",
        run: run_variant::<RepeatAccepted>,
    },
    Canary {
        name: "stale-instance",
        what: "messages of a schedule do not say which instance they are of",
        run: run_variant::<StaleInstance>,
    },
    Canary {
        name: "budget-leak",
        what: "a stored message that is cut off stays on the books",
        run: run_variant::<BudgetLeak>,
    },
    Canary {
        name: "ticket-leak",
        what: "a cancelled receive leaves its ticket behind",
        run: run_variant::<TicketLeak>,
    },
    Canary {
        name: "forwarded-twice",
        what: "what a module forwards is sent twice",
        run: run_variant::<ForwardedTwice>,
    },
    Canary {
        name: "runs-again",
        what: "a module runs for a message before it is known whether there is room for it",
        run: run_variant::<RunsAgain>,
    },
    Canary {
        name: "passing-ignored",
        what: "a module takes a message while one that it has let through waits for room",
        run: run_variant::<PassingIgnored>,
    },
];

/// A message prefers an exact receive to an older wildcard.
pub struct WildcardOrder;
/// See [`Bug::FloorIgnored`].
pub struct FloorIgnored;
/// See [`Bug::AckForgets`].
pub struct AckForgets;
/// See [`Bug::RepeatAccepted`].
pub struct RepeatAccepted;
/// See [`Bug::StaleInstance`].
pub struct StaleInstance;
/// See [`Bug::BudgetLeak`].
pub struct BudgetLeak;
/// See [`Bug::TicketLeak`].
pub struct TicketLeak;
/// See [`Bug::ForwardedTwice`].
pub struct ForwardedTwice;
/// See [`Bug::RunsAgain`].
pub struct RunsAgain;
/// See [`Bug::PassingIgnored`].
pub struct PassingIgnored;

impl Variant for WildcardOrder {
    type Matcher = Hasty;
}

impl Variant for FloorIgnored {
    type Matcher = Indexed;
    const BUG: Option<Bug> = Some(Bug::FloorIgnored);
}

impl Variant for AckForgets {
    type Matcher = Indexed;
    const BUG: Option<Bug> = Some(Bug::AckForgets);
}

impl Variant for RepeatAccepted {
    type Matcher = Indexed;
    const BUG: Option<Bug> = Some(Bug::RepeatAccepted);
}

impl Variant for StaleInstance {
    type Matcher = Indexed;
    const BUG: Option<Bug> = Some(Bug::StaleInstance);
}

impl Variant for BudgetLeak {
    type Matcher = Indexed;
    const BUG: Option<Bug> = Some(Bug::BudgetLeak);
}

impl Variant for TicketLeak {
    type Matcher = Indexed;
    const BUG: Option<Bug> = Some(Bug::TicketLeak);
}

impl Variant for ForwardedTwice {
    type Matcher = Indexed;
    const BUG: Option<Bug> = Some(Bug::ForwardedTwice);
}

impl Variant for RunsAgain {
    type Matcher = Indexed;
    const BUG: Option<Bug> = Some(Bug::RunsAgain);
}

impl Variant for PassingIgnored {
    type Matcher = Indexed;
    const BUG: Option<Bug> = Some(Bug::PassingIgnored);
}

/// The plain list, but a message looks at exact receives first, whatever their age.
#[derive(Default)]
pub struct Hasty {
    list: List,
    exact: Vec<(MatchWord, Age, Item, Cell)>,
}

impl Hasty {
    fn forget(&mut self, item: Item) -> Item {
        self.exact.retain(|&(_, _, exact, _)| exact != item);
        item
    }
}

impl Matcher for Hasty {
    fn post(&mut self, word: MatchWord, mask: Mask, item: Item) -> Post {
        let age = self.list.next_age();
        let post = self.list.post(word, mask, item);
        if let (Post::Waiting(cell), Mask::EXACT) = (post, mask) {
            self.exact.push((word, age, item, cell));
        }
        post
    }

    fn arrive(
        &mut self,
        word: MatchWord,
        before: Age,
        keep: impl FnOnce() -> Option<Item>,
    ) -> Arrival {
        let exact = self.exact.iter().find(|&&(wanted, age, ..)| wanted == word && age < before);
        if let Some(&(_, _, item, cell)) = exact {
            self.list.remove_receive(cell);
            return Arrival::Matched(self.forget(item));
        }
        let arrival = self.list.arrive(word, before, keep);
        if let Arrival::Matched(item) = arrival {
            self.forget(item);
        }
        arrival
    }

    fn probe(&mut self, word: MatchWord, mask: Mask) -> Option<Item> {
        self.list.probe(word, mask)
    }

    fn take(&mut self, word: MatchWord, mask: Mask) -> Option<Item> {
        self.list.take(word, mask)
    }

    fn remove_receive(&mut self, cell: Cell) -> Item {
        let item = self.list.remove_receive(cell);
        self.forget(item)
    }

    fn remove_message(&mut self, cell: Cell) -> Item {
        self.list.remove_message(cell)
    }

    fn next_age(&self) -> Age {
        self.list.next_age()
    }

    fn len(&self, queue: Queue) -> usize {
        self.list.len(queue)
    }

    fn dump(&self, queue: Queue, show: impl FnMut(Entry)) {
        self.list.dump(queue, show);
    }

    fn heap_bytes(&self) -> usize {
        self.list.heap_bytes()
    }
}
