//! What one thread leaves to another is done, by one at a time.

use loom::sync::Arc;
use loom::thread;

use crate::notes::Notes;
use crate::sync::{AtomicU32, Ordering, explore};

#[test]
fn whatever_is_left_is_done_by_one_at_a_time() {
    explore("notes", || {
        let todo = Arc::new([0, 0].map(AtomicU32::new));
        let notes = Arc::new(Notes::new(0));
        let ends = [0, 1].map(|me: usize| {
            let (todo, notes) = (Arc::clone(&todo), Arc::clone(&notes));
            thread::spawn(move || {
                // Relaxed: the note says that it is there. An addition: loom lets a plain store fall behind an
                // exchange that has not seen it.
                todo[me].fetch_add(1, Ordering::Relaxed);
                notes.leave(|done| {
                    *done += todo.iter().map(|one| one.swap(0, Ordering::Relaxed)).sum::<u32>()
                });
            })
        });
        for end in ends {
            end.join().expect("no thread panics");
        }
        notes.leave(|done| assert_eq!(*done, 2, "nothing is forgotten"));
    });
}
