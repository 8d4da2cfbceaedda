//! The same seed gives the same history, line by line.

use std::cell::RefCell;
use std::rc::Rc;

use ferrywire_sim::soak;

fn history(seed: u64) -> Vec<String> {
    let lines = Rc::new(RefCell::new(Vec::new()));
    let told = Rc::clone(&lines);
    soak::run(seed, Some(Box::new(move |line| told.borrow_mut().push(line.to_owned()))));
    lines.take()
}

#[test]
fn a_seed_replays() {
    for seed in [0, 1, 6, 7, 10, 47, 68, 119] {
        let (first, second) = (history(seed), history(seed));
        assert!(first.len() > 10, "seed {seed}: nothing happened");
        let differ = first.iter().zip(&second).position(|(one, other)| one != other);
        assert_eq!(differ, None, "seed {seed}: the histories part");
        assert_eq!(first.len(), second.len(), "seed {seed}");
    }
}
