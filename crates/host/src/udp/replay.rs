//! Replay protection: which datagrams of one source have already arrived.
//!
//! A datagram that an attacker records and sends again is as genuine as the first time. Its counter gives it
//! away: each counter is accepted once, in any order, as long as it is less than [`REPLAY_WINDOW`] behind the
//! newest. Older ones are rejected unseen; a late original is then lost, which may always happen on this rail.
//!
//! Only counters of genuine datagrams may be accepted here: a forger who could move the window would shut out
//! the real source.

/// How far behind the newest a counter may be, exclusive.
pub const REPLAY_WINDOW: u64 = 1024;

const WORD_BITS: u64 = u64::BITS as u64;
const WORDS: usize = (REPLAY_WINDOW / WORD_BITS) as usize;
const _: () = assert!(REPLAY_WINDOW.is_power_of_two() && REPLAY_WINDOW >= WORD_BITS);

/// The replay window of one source.
#[derive(Clone, Debug, Default)]
pub struct ReplayWindow {
    /// The highest counter accepted; also 0 before the first.
    newest: u64,
    /// One bit for each counter in `newest - REPLAY_WINDOW + 1 ..= newest`, at its remainder by
    /// `REPLAY_WINDOW`: whether it was accepted.
    seen: [u64; WORDS],
}

impl ReplayWindow {
    /// A window that has seen nothing.
    #[must_use]
    pub fn new() -> ReplayWindow {
        ReplayWindow::default()
    }

    /// Accepts `counter`, once. Only for datagrams that have proved genuine.
    #[must_use]
    pub fn accept(&mut self, counter: u64) -> bool {
        if counter > self.newest {
            self.forget_between(counter);
            self.newest = counter;
        } else if !self.is_new(counter) {
            return false;
        }
        let (word, bit) = place(counter);
        self.seen[word] |= bit;
        true
    }

    /// Whether `counter` would be accepted: a cheap check before decryption.
    #[must_use]
    pub fn is_new(&self, counter: u64) -> bool {
        if counter > self.newest {
            return true;
        }
        let (word, bit) = place(counter);
        self.newest - counter < REPLAY_WINDOW && self.seen[word] & bit == 0
    }

    /// The highest counter accepted, or 0.
    #[must_use]
    pub fn newest(&self) -> u64 {
        self.newest
    }

    /// Clears the bits of the counters after `newest` up to `counter`: they belong to counters that are now too old.
    fn forget_between(&mut self, counter: u64) {
        let mut left = counter - self.newest;
        if left >= REPLAY_WINDOW {
            self.seen.fill(0);
            return;
        }
        // `counter` is higher, so `newest + 1` does not overflow.
        let mut at = (self.newest + 1) % REPLAY_WINDOW;
        while left > 0 {
            let (word, first) = place(at);
            let bits = left.min(WORD_BITS - at % WORD_BITS);
            // `bits` ones, from the bit `first` up.
            let ones = (u64::MAX >> (WORD_BITS - bits)) * first;
            self.seen[word] &= !ones;
            at = (at + bits) % REPLAY_WINDOW;
            left -= bits;
        }
    }
}

/// Where the bit of a counter is.
fn place(counter: u64) -> (usize, u64) {
    let at = counter % REPLAY_WINDOW;
    let word = usize::try_from(at / WORD_BITS).expect("a window is small");
    (word, 1 << (at % WORD_BITS))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// The same as a set of all accepted counters.
    #[derive(Default)]
    struct Naive {
        accepted: BTreeSet<u64>,
    }

    impl Naive {
        fn accept(&mut self, counter: u64) -> bool {
            let newest = self.accepted.last().copied().unwrap_or(0);
            let old = newest.checked_sub(REPLAY_WINDOW).is_some_and(|oldest| counter <= oldest);
            !old && self.accepted.insert(counter)
        }
    }

    /// Where a run of counters begins: at both ends of the range, and where an epoch changes.
    fn start() -> impl Strategy<Value = u64> {
        prop_oneof![Just(0), Just(u64::MAX - 5000), Just((7 << 32) - 300), any::<u64>()]
    }

    /// Steps from one counter to the next, mostly small, in both directions.
    fn step() -> impl Strategy<Value = i64> {
        let window = i64::try_from(REPLAY_WINDOW).expect("it is small");
        prop_oneof![
            8 => -3..6_i64,
            4 => -70..70_i64,
            2 => -window - 2..window + 3,
            1 => prop_oneof![Just(window - 1), Just(window), Just(window + 1), Just(-window)],
            1 => 0..1_i64 << 40,
        ]
    }

    proptest! {
        #[test]
        fn the_window_agrees_with_a_plain_list(
            start in start(),
            steps in prop::collection::vec(step(), 0..600),
        ) {
            let (mut window, mut naive) = (ReplayWindow::new(), Naive::default());
            let mut counter = start;
            for step in steps {
                counter = counter.saturating_add_signed(step);
                let expected = naive.accept(counter);
                // `is_new` changes nothing.
                prop_assert_eq!(window.is_new(counter), expected, "counter {}", counter);
                prop_assert_eq!(window.accept(counter), expected, "counter {}", counter);
                prop_assert!(!window.is_new(counter));
                prop_assert_eq!(window.newest(), naive.accepted.last().copied().unwrap_or(0));
            }
        }
    }

    #[test]
    fn the_edge_is_exact() {
        let mut window = ReplayWindow::new();
        assert!(window.accept(5000));
        assert!(!window.accept(5000 - REPLAY_WINDOW), "too old");
        assert!(window.accept(5000 - REPLAY_WINDOW + 1), "just not too old");
        assert!(!window.accept(5000 - REPLAY_WINDOW + 1), "a repeat");
    }

    #[test]
    fn the_last_counter_of_all_counts_once() {
        let mut window = ReplayWindow::new();
        assert!(window.accept(u64::MAX - 1));
        assert!(window.accept(u64::MAX));
        assert!(!window.accept(u64::MAX));
        assert!(!window.accept(u64::MAX - 1));
        assert!(!window.accept(0));
    }

    #[test]
    fn the_first_counter_of_all_counts_once() {
        let mut window = ReplayWindow::new();
        assert!(window.accept(0));
        assert!(!window.accept(0));
    }
}
