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
        let may_go_on =
            answer.number != question || answer.in_flight || answer.several_planes || !waits;
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
}
