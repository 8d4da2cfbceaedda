//! Canaries: NICs with planted bugs, to check that the soak finds them.

use ferrywire_nic::canary::Bug;
use ferrywire_nic::matcher::{
    Age, Arrival, Cell, Entry, Indexed, Item, List, Matcher, Post, Queue,
};
use ferrywire_nic::{Mask, MatchWord, Variant};

use crate::soak::{SeedResult, run_variant};
use crate::world::Trace;

/// A NIC with a bug.
pub struct Canary {
    /// Its name.
    pub name: &'static str,
    /// What is wrong with it.
    pub what: &'static str,
    /// Where the bug is.
    fault: Fault,
    /// The first seed of a range that must find it.
    pub first: u64,
    /// Only an assertion finds it in so few seeds, so builds without assertions skip it.
    pub asserted: bool,
}

/// Where a bug is.
enum Fault {
    Nic(Bug),
    WildcardOrder,
}

impl Canary {
    /// Runs one seed on it.
    pub fn run(&self, seed: u64, trace: Option<Trace>) -> SeedResult {
        match self.fault {
            Fault::WildcardOrder => run_variant::<WildcardOrder>(seed, trace),
            Fault::Nic(bug) => {
                plant(bug);
                run_variant::<Planted>(seed, trace)
            }
        }
    }
}

/// All canaries.
pub const CANARIES: &[Canary] = &[
    Canary {
        name: "wildcard-order",
        what: "a message prefers an exact receive to an older wildcard",
        fault: Fault::WildcardOrder,
        first: 0,
        asserted: false,
    },
    Canary {
        name: "floor-ignored",
        what: "after a refusal, later messages may match any receive",
        fault: Fault::Nic(Bug::FloorIgnored),
        first: 0,
        asserted: false,
    },
    Canary {
        name: "ack-forgets",
        what: "an ack with a gap in it acks the missing frame, too",
        fault: Fault::Nic(Bug::AckForgets),
        first: 0,
        asserted: false,
    },
    Canary {
        name: "repeat-accepted",
        what: "a frame that has been here before is taken once more",
        fault: Fault::Nic(Bug::RepeatAccepted),
        first: 0,
        asserted: false,
    },
    Canary {
        name: "stale-instance",
        what: "messages of a schedule do not say which instance they are of",
        fault: Fault::Nic(Bug::StaleInstance),
        first: 0,
        asserted: false,
    },
    Canary {
        name: "budget-leak",
        what: "a stored message that is cut off stays on the books",
        fault: Fault::Nic(Bug::BudgetLeak),
        first: 0,
        asserted: false,
    },
    Canary {
        name: "ticket-leak",
        what: "a cancelled receive leaves its ticket behind",
        fault: Fault::Nic(Bug::TicketLeak),
        first: 0,
        asserted: false,
    },
    Canary {
        name: "forwarded-twice",
        what: "what a module forwards is sent twice",
        fault: Fault::Nic(Bug::ForwardedTwice),
        first: 0,
        asserted: false,
    },
    Canary {
        name: "runs-again",
        what: "a module runs for a message before it is known whether there is room for it",
        fault: Fault::Nic(Bug::RunsAgain),
        first: 0,
        asserted: false,
    },
    Canary {
        name: "shown-twice",
        what: "a probe sees a held message that a receive is waiting for",
        fault: Fault::Nic(Bug::ShownTwice),
        first: 101_000,
        asserted: false,
    },
    Canary {
        name: "passing-ignored",
        what: "a module takes a message while one that it has let through waits for room",
        fault: Fault::Nic(Bug::PassingIgnored),
        first: 12_000,
        asserted: false,
    },
    Canary {
        name: "cancel-ignored",
        what: "a synchronous message that has gone out is not taken back",
        fault: Fault::Nic(Bug::CancelIgnored),
        first: 0,
        asserted: false,
    },
    Canary {
        name: "withdrawn-too-late",
        what: "a message is taken back although it has matched",
        fault: Fault::Nic(Bug::WithdrawnTooLate),
        first: 0,
        asserted: false,
    },
    Canary {
        name: "forged-source",
        what: "a frame counts as its sender's, whichever rail it came by",
        fault: Fault::Nic(Bug::ForgedSource),
        first: 0,
        asserted: false,
    },
    Canary {
        name: "offer-unchecked",
        what: "the place of an offer's bytes may be beyond the end of memory",
        fault: Fault::Nic(Bug::OfferUnchecked),
        first: 0,
        asserted: false,
    },
    Canary {
        name: "credit-astray",
        what: "credit for a message that was stored goes to somebody else than its sender",
        fault: Fault::Nic(Bug::CreditAstray),
        first: 0,
        asserted: false,
    },
    Canary {
        name: "forgets-under-way",
        what: "peers are forgotten while the places of others in the table are in use",
        fault: Fault::Nic(Bug::ForgetsUnderWay),
        first: 2_000,
        asserted: true,
    },
    Canary {
        name: "starts-over",
        what: "a put that goes on in chunks begins anew, though a part of it has arrived",
        fault: Fault::Nic(Bug::StartsOver),
        first: 0,
        asserted: false,
    },
    Canary {
        name: "never-given-up",
        what: "a silent peer is never given up",
        fault: Fault::Nic(Bug::NeverGivenUp),
        first: 0,
        asserted: false,
    },
    Canary {
        name: "never-answered",
        what: "a peer that is asked for a sign of life does not answer",
        fault: Fault::Nic(Bug::NeverAnswered),
        first: 0,
        asserted: false,
    },
    Canary {
        name: "short-unmarked",
        what: "a short message goes out without marks on a rail that may lose it",
        fault: Fault::Nic(Bug::ShortUnmarked),
        first: 0,
        asserted: false,
    },
    Canary {
        name: "short-overtakes-backlog",
        what: "a short message overtakes frames that wait for room on the rail",
        fault: Fault::Nic(Bug::ShortOvertakesBacklog),
        first: 0,
        asserted: false,
    },
    Canary {
        name: "short-overtakes-held",
        what: "a short message overtakes messages that its sender holds",
        fault: Fault::Nic(Bug::ShortOvertakesHeld),
        first: 0,
        asserted: false,
    },
    Canary {
        name: "short-unpaid",
        what: "a short message goes out without credit",
        fault: Fault::Nic(Bug::ShortUnpaid),
        first: 0,
        asserted: false,
    },
    Canary {
        name: "awaited-overtakes",
        what: "a receive is awaited although an older one may get its message",
        fault: Fault::Nic(Bug::AwaitedOvertakes),
        first: 0,
        asserted: false,
    },
    Canary {
        name: "awaited-skips-stored",
        what: "a receive is awaited although an older message is stored",
        fault: Fault::Nic(Bug::AwaitedSkipsStored),
        first: 0,
        asserted: false,
    },
    Canary {
        name: "awaited-misses-offer",
        what: "an awaited receive does not see that a long message is offered",
        fault: Fault::Nic(Bug::AwaitedMissesOffer),
        first: 0,
        asserted: false,
    },
    Canary {
        name: "awaited-before-module",
        what: "a receive is awaited although a module handles its messages",
        fault: Fault::Nic(Bug::AwaitedBeforeModule),
        first: 16_000,
        asserted: false,
    },
    Canary {
        name: "fetches-late",
        what: "a fetch returns what is there after its own change",
        fault: Fault::Nic(Bug::FetchesLate),
        first: 0,
        asserted: false,
    },
    Canary {
        name: "swaps-too-wide",
        what: "a compare-and-swap of a short word compares and stores eight bytes",
        fault: Fault::Nic(Bug::SwapsTooWide),
        first: 0,
        asserted: false,
    },
    Canary {
        name: "accumulates-overtake",
        what: "an accumulate changes memory before all of an earlier one has",
        fault: Fault::Nic(Bug::AccumulatesOvertake),
        first: 0,
        asserted: false,
    },
];

/// A message prefers an exact receive to an older wildcard.
pub struct WildcardOrder;

impl Variant for WildcardOrder {
    type Matcher = Hasty;
}

/// The production NIC with the bug that was planted last on this thread. The choice is made at run time, so that
/// another bug does not mean compiling another NIC.
pub struct Planted;

thread_local! {
    static PLANTED: std::cell::Cell<Option<Bug>> = const { std::cell::Cell::new(None) };
}

/// Plants a bug in all NICs of the variant [`Planted`] on this thread.
pub fn plant(bug: Bug) {
    PLANTED.set(Some(bug));
}

impl Variant for Planted {
    type Matcher = Indexed;

    fn has(bug: Bug) -> bool {
        PLANTED.get() == Some(bug)
    }
}

/// The plain list, except that a message prefers exact receives, whatever their age.
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
