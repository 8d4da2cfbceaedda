//! Decides from the answers of all ranks whether the job is stuck for ever. See decision 0056.

use std::collections::BTreeMap;

use ferrywire_host::facts::Facts;
use serde::{Deserialize, Serialize};

/// What a rank has answered, as far as a proof needs it.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct RankAnswer {
    /// A number that changes whenever the rank does anything that others may notice.
    pub(crate) activity: u64,
    /// It may go on by itself, something of it is on its way, or it has not answered.
    pub(crate) may_go_on: bool,
}

impl RankAnswer {
    /// The answer of a rank to this question. One that leaves the job need not wait in a call: it does nothing more.
    pub(crate) fn of(facts: &Facts, question: u32, leaves: bool) -> RankAnswer {
        let answer = &facts.answer;
        let waits = answer.waiter && !answer.other_threads || leaves;
        let may_go_on = answer.number != question || answer.in_flight || !waits;
        RankAnswer { activity: answer.activity, may_go_on }
    }
}

/// What all ranks have answered so far.
#[derive(Debug, Default)]
pub(crate) struct Proof {
    /// What they had done until they answered the question before.
    before: Option<BTreeMap<u32, u64>>,
}

/// What answers prove.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Proved {
    /// The ranks wait for ever.
    Stuck,
    /// Nothing yet: they have to be asked again, at once.
    AskAgain,
    /// Nothing: a rank may go on.
    MayGoOn,
}

impl Proof {
    /// Forgets what was answered: something has happened since.
    pub(crate) fn clear(&mut self) {
        self.before = None;
    }

    /// All ranks have answered a question.
    pub(crate) fn on_answers(&mut self, answers: &BTreeMap<u32, RankAnswer>) -> Proved {
        if answers.is_empty() || answers.values().any(|answer| answer.may_go_on) {
            self.before = None;
            return Proved::MayGoOn;
        }
        let now = answers.iter().map(|(&rank, answer)| (rank, answer.activity)).collect();
        if self.before.as_ref() == Some(&now) {
            return Proved::Stuck;
        }
        self.before = Some(now);
        Proved::AskAgain
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(activity: [u64; 3]) -> BTreeMap<u32, RankAnswer> {
        let answer = |activity| RankAnswer { activity, may_go_on: false };
        (0..).zip(activity.map(answer)).collect()
    }

    #[test]
    fn the_same_answer_twice_is_a_proof() {
        let mut proof = Proof::default();
        assert_eq!(proof.on_answers(&answers([1, 2, 3])), Proved::AskAgain);
        assert_eq!(proof.on_answers(&answers([1, 2, 4])), Proved::AskAgain, "rank 2 did something");
        assert_eq!(proof.on_answers(&answers([1, 2, 4])), Proved::Stuck);
        proof.clear();
        assert_eq!(proof.on_answers(&answers([1, 2, 4])), Proved::AskAgain, "it begins anew");
    }

    #[test]
    fn a_rank_that_may_go_on_proves_nothing() {
        let mut proof = Proof::default();
        assert_eq!(proof.on_answers(&BTreeMap::new()), Proved::MayGoOn);
        assert_eq!(proof.on_answers(&answers([1, 2, 3])), Proved::AskAgain);
        let mut busy = answers([1, 2, 3]);
        busy.get_mut(&1).expect("a rank").may_go_on = true;
        assert_eq!(proof.on_answers(&busy), Proved::MayGoOn);
        assert_eq!(proof.on_answers(&answers([1, 2, 3])), Proved::AskAgain);
    }

    #[test]
    fn an_answer_counts_only_for_its_question() {
        let mut facts = Facts::default();
        (facts.answer.number, facts.answer.waiter) = (7, true);
        let goes_on = |facts: &Facts, leaves| RankAnswer::of(facts, 7, leaves).may_go_on;
        assert!(!goes_on(&facts, false));
        assert!(RankAnswer::of(&facts, 8, false).may_go_on);
        facts.answer.in_flight = true;
        assert!(goes_on(&facts, false) && goes_on(&facts, true));
        (facts.answer.in_flight, facts.answer.waiter) = (false, false);
        assert!(goes_on(&facts, false) && !goes_on(&facts, true));
    }

    /// What ranks of the model leave out of their answers.
    #[derive(Clone, Copy, Eq, PartialEq)]
    enum Omits {
        Nothing,
        /// Frames that are not acknowledged.
        Unacknowledged,
        /// Frames that were sent and received.
        Activity,
    }

    /// Ranks that react to what arrives, on a network that delays everything as it likes, while a launcher asks.
    struct Model {
        random: u64,
        omits: Omits,
        /// Frames under way: to whom, from whom, how many more it causes, and whether it is an acknowledgement.
        network: Vec<(usize, usize, u32, bool)>,
        unacknowledged: [u64; RANKS],
        activity: [u64; RANKS],
    }

    const RANKS: usize = 3;

    impl Model {
        fn draw(&mut self, below: usize) -> usize {
            // An xorshift generator.
            self.random ^= self.random << 13;
            self.random ^= self.random >> 7;
            self.random ^= self.random << 17;
            usize::try_from(self.random >> 33).expect("31 bits") % below
        }

        fn send(&mut self, to: usize, from: usize, causes: u32) {
            self.unacknowledged[from] += 1;
            self.activity[from] += 1;
            self.network.push((to, from, causes, false));
        }

        /// One of the frames under way arrives, whichever was sent first.
        fn deliver(&mut self) {
            if self.network.is_empty() {
                return;
            }
            let at = self.draw(self.network.len());
            let (to, from, causes, is_ack) = self.network.swap_remove(at);
            if is_ack {
                return self.unacknowledged[to] -= 1;
            }
            self.activity[to] += 1;
            self.network.push((from, to, 0, true));
            if causes > 0 {
                let next = self.draw(RANKS);
                self.send(next, to, causes - 1);
            }
        }

        fn answer(&self, rank: usize) -> RankAnswer {
            let in_flight = self.unacknowledged[rank] > 0 && self.omits != Omits::Unacknowledged;
            let activity = if self.omits == Omits::Activity { 0 } else { self.activity[rank] };
            RankAnswer { activity, may_go_on: in_flight }
        }

        /// Asks until the ranks seem to be stuck; whether they are.
        fn is_right(&mut self) -> bool {
            let mut proof = Proof::default();
            loop {
                let mut answers = BTreeMap::new();
                while answers.len() < RANKS {
                    for _ in 0..self.draw(4) {
                        self.deliver();
                    }
                    let rank = self.draw(RANKS);
                    let number = u32::try_from(rank).expect("few");
                    answers.entry(number).or_insert_with(|| self.answer(rank));
                }
                if proof.on_answers(&answers) == Proved::Stuck {
                    return self.network.iter().all(|&(.., is_ack)| is_ack);
                }
            }
        }
    }

    fn wrong_proofs(omits: Omits) -> usize {
        let wrong = |&seed: &u64| {
            let (network, none) = (Vec::new(), [0; RANKS]);
            let random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
            let mut model = Model { random, omits, network, unacknowledged: none, activity: none };
            for from in 0..RANKS {
                let to = model.draw(RANKS);
                model.send(to, from, 12);
            }
            !model.is_right()
        };
        (1..=5000).filter(wrong).count()
    }

    /// However late frames and answers are, nothing is on its way when ranks are taken to be stuck. Without either half of
    /// an answer, that would not be so.
    #[test]
    fn nothing_is_on_its_way_when_ranks_are_stuck() {
        assert_eq!(wrong_proofs(Omits::Nothing), 0);
        assert!(wrong_proofs(Omits::Unacknowledged) > 0);
        assert!(wrong_proofs(Omits::Activity) > 0);
    }
}
