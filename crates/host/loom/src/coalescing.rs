//! Coalesced work: every request is served, by one thread at a time.

use loom::sync::Arc;
use loom::thread;

use crate::coalesced::Coalesced;
use crate::sync::{AtomicU32, Ordering, explore};

#[test]
fn whatever_is_left_is_done_by_one_at_a_time() {
    explore("coalesced", || {
        let todo = Arc::new([0, 0].map(AtomicU32::new));
        let coalesced = Arc::new(Coalesced::new(0));
        let ends = [0, 1].map(|me: usize| {
            let (todo, coalesced) = (Arc::clone(&todo), Arc::clone(&coalesced));
            thread::spawn(move || {
                // Relaxed: the request orders it. An addition, because loom lets a plain store fall behind an exchange
                // that has not seen it.
                todo[me].fetch_add(1, Ordering::Relaxed);
                coalesced.request(|done| {
                    *done += todo.iter().map(|one| one.swap(0, Ordering::Relaxed)).sum::<u32>()
                });
            })
        });
        for end in ends {
            end.join().expect("no thread panics");
        }
        coalesced.request(|done| assert_eq!(*done, 2, "nothing is forgotten"));
    });
}
