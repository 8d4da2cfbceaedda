//! Races of the document, in every order of their events: a receive that software posts while messages arrive, and one
//! that is posted to two interfaces.

use std::collections::VecDeque;

use ferrywire_nic::matcher::{Arrival, List, Matcher};
use ferrywire_nic::{Mask, MatchWord};

/// How software posts a receive when it keeps the unexpected queue, and hardware the posted one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Posting {
    /// It searches its queue, stops hardware from adding to it, searches what is new, and posts.
    ThreeSteps,
    /// It searches its queue and posts, and says which entry was the last. Hardware refuses if there is a newer one.
    Optimistic,
    /// It searches its queue and posts.
    Careless,
}

/// How two interfaces agree on who has a receive that was posted to both.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Claim {
    /// Each fetches and sets its flag when it has found it, and goes on searching if it was set.
    FetchAndSet,
    /// They do not.
    None,
}

/// Orders that are tried: whose event is next, bit by bit.
const ORDERS: u32 = 1 << 12;

/// The part of all orders that end right.
fn part(is_right: impl Fn(u32) -> bool) -> f64 {
    let right = (0..ORDERS).filter(|&order| is_right(order)).count();
    right as f64 / f64::from(ORDERS)
}

/// The receives of both races agree with all messages: the first message is for the first one.
fn word() -> MatchWord {
    MatchWord::new(1, 0, 0)
}

fn post(queue: &mut List, receive: u32) {
    queue.post(word(), Mask::EXACT, receive);
}

/// The oldest receive of hardware's queue, which it leaves.
fn find(queue: &mut List) -> Option<u32> {
    match queue.arrive(word(), queue.next_age(), || None) {
        Arrival::Matched(receive) => Some(receive),
        Arrival::Waiting(_) | Arrival::Refused => None,
    }
}

/// What software does next for its receive.
#[derive(Clone, Copy)]
enum PostingStep {
    Search,
    Stop,
    SearchNew,
    Post,
}

/// Software that posts receives, and hardware to which messages arrive.
struct PostingRace {
    posting: Posting,
    posted: List,
    /// Unexpected messages that have ever been added, and whether they are still there.
    unexpected: Vec<(u32, bool)>,
    /// Messages that wait while hardware adds nothing.
    stopped: Option<VecDeque<u32>>,
    step: PostingStep,
    receive: u32,
    /// Entries of the unexpected queue that software has seen.
    seen: usize,
    matched: Vec<(u32, u32)>,
}

/// Receives, and messages.
const COUNT: u32 = 2;

impl Posting {
    pub(super) fn right(self) -> f64 {
        part(|order| self.is_right(order))
    }

    /// Whether each receive gets its message if events come in this order.
    fn is_right(self, order: u32) -> bool {
        let mut race = PostingRace {
            posting: self,
            posted: List::default(),
            unexpected: Vec::new(),
            stopped: None,
            step: PostingStep::Search,
            receive: 0,
            seen: 0,
            matched: Vec::new(),
        };
        let mut messages = 0..COUNT;
        for bit in 0.. {
            let arrives = order >> bit.min(31) & 1 == 1;
            let next = if arrives || race.receive == COUNT { messages.next() } else { None };
            match next {
                Some(message) => race.arrive(message),
                None if race.receive < COUNT => race.go_on(),
                None => break,
            }
        }
        race.matched.sort_unstable();
        race.matched == [(0, 0), (1, 1)]
    }
}

impl PostingRace {
    fn arrive(&mut self, message: u32) {
        match (find(&mut self.posted), &mut self.stopped) {
            (Some(receive), _) => self.matched.push((message, receive)),
            (None, Some(held)) => held.push_back(message),
            (None, None) => self.unexpected.push((message, true)),
        }
    }

    /// Software's next step.
    fn go_on(&mut self) {
        self.step = match (self.step, self.posting) {
            (PostingStep::Search, _) => {
                self.seen = self.unexpected.len();
                if self.take(0) {
                    return;
                }
                match self.posting {
                    Posting::ThreeSteps => PostingStep::Stop,
                    Posting::Optimistic | Posting::Careless => PostingStep::Post,
                }
            }
            (PostingStep::Stop, _) => {
                self.stopped = Some(VecDeque::new());
                PostingStep::SearchNew
            }
            (PostingStep::SearchNew, _) => {
                if self.take(self.seen) {
                    return self.resume();
                }
                PostingStep::Post
            }
            (PostingStep::Post, Posting::Optimistic) if self.seen < self.unexpected.len() => {
                PostingStep::Search
            }
            (PostingStep::Post, _) => {
                post(&mut self.posted, self.receive);
                self.receive += 1;
                self.resume();
                PostingStep::Search
            }
        };
    }

    /// Searches software's queue from an entry on. If something is there, the receive is over.
    fn take(&mut self, from: usize) -> bool {
        let Some((message, waits)) = self.unexpected[from..].iter_mut().find(|(_, waits)| *waits)
        else {
            return false;
        };
        *waits = false;
        self.matched.push((*message, self.receive));
        self.receive += 1;
        self.step = PostingStep::Search;
        true
    }

    /// Hardware adds to the unexpected queue again.
    fn resume(&mut self) {
        for message in self.stopped.take().into_iter().flatten() {
            self.arrive(message);
        }
    }
}

impl Claim {
    pub(super) fn right(self) -> f64 {
        part(|order| self.is_right(order))
    }

    /// Whether two messages, one at each interface, get different receives if events come in this order.
    fn is_right(self, order: u32) -> bool {
        let mut interfaces = [List::default(), List::default()];
        for interface in &mut interfaces {
            (0..COUNT).for_each(|receive| post(interface, receive));
        }
        let mut claimed = [false; COUNT as usize];
        // What each has found and not claimed yet, and what it has.
        let (mut found, mut has) = ([None; 2], [None; 2]);
        for bit in 0..32 {
            let turn = (order >> bit & 1) as usize;
            let at = if has[turn].is_none() { turn } else { 1 - turn };
            if has[at].is_some() {
                break;
            }
            match found[at].take() {
                None => found[at] = find(&mut interfaces[at]),
                Some(receive) => {
                    let before = std::mem::replace(&mut claimed[receive as usize], true);
                    if !before || self == Claim::None {
                        has[at] = Some(receive);
                    }
                }
            }
        }
        matches!(has, [Some(one), Some(other)] if one != other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_steps_leave_no_order_in_which_a_message_misses_its_receive() {
        assert_eq!(Posting::ThreeSteps.right(), 1.0);
    }

    #[test]
    fn an_optimistic_post_is_refused_where_it_would_miss_a_message() {
        assert_eq!(Posting::Optimistic.right(), 1.0);
    }

    #[test]
    fn without_them_a_message_can_miss_its_receive() {
        // The message arrives between the search and the post.
        assert!(!Posting::Careless.is_right(0b10));
        assert!(Posting::Careless.is_right(0b11));
        let right = Posting::Careless.right();
        assert!(right > 0.0 && right < 1.0, "{right}");
    }

    #[test]
    fn a_claim_flag_gives_a_receive_to_one_interface() {
        assert_eq!(Claim::FetchAndSet.right(), 1.0);
        // Both find it before either has claimed it.
        assert!(!Claim::None.is_right(0b1010));
    }
}
