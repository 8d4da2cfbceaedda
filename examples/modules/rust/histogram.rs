//! Histogram, like `histogram.c`, which documents the messages: counts the messages of one tag as they arrive, by
//! length or by value, and leaves them unchanged.
//!
//!     RUSTFLAGS="-C link-arg=-zstack-size=8192 -C strip=symbols" \
//!         cargo build --release --target wasm32-unknown-unknown -p ferrywire-module --example histogram
#![cfg_attr(target_arch = "wasm32", no_std)]

use ferrywire_module::{Module, Verdict, length, raise, read_array, send, sender, tag};

const WATCH: u32 = 1_000_000;
const WATCH_ANSWER: u32 = 1_000_001;
const QUERY: u32 = 1_000_002;
const QUERY_ANSWER: u32 = 1_000_003;

const WITHOUT_VALUE: usize = 65;
const COUNTS: usize = 66;

#[derive(Clone, Copy)]
enum What {
    Lengths,
    Values,
}

struct Histogram {
    watched: Option<(u32, What)>,
    counts: [u64; COUNTS],
}

impl Histogram {
    /// The request in a watch message, if it is well formed.
    fn wanted() -> Option<(u32, What)> {
        if length() != 8 {
            return None;
        }
        let tag = u32::from_le_bytes(read_array(0));
        let is_tag = i32::try_from(tag).is_ok() && !(WATCH..=QUERY_ANSWER).contains(&tag);
        match u32::from_le_bytes(read_array(4)) {
            0 if is_tag => Some((tag, What::Lengths)),
            1 if is_tag => Some((tag, What::Values)),
            _ => None,
        }
    }

    fn begin(&mut self) {
        let wanted = Histogram::wanted();
        if wanted.is_some() {
            *self = Histogram { watched: wanted, counts: [0; COUNTS] };
        }
        let status = u32::from(wanted.is_none());
        send(sender(), WATCH_ANSWER, &status.to_le_bytes());
    }

    fn count(&mut self, what: What) {
        let at = match what {
            What::Lengths => bits(length() as u64),
            What::Values if length() >= 8 => bits(u64::from_le_bytes(read_array(0))),
            What::Values => WITHOUT_VALUE,
        };
        self.counts[at] += 1;
        raise(0, 1);
    }

    fn tell(&self) {
        let mut answer = [0; COUNTS * 8];
        for (bytes, count) in answer.chunks_exact_mut(8).zip(self.counts) {
            bytes.copy_from_slice(&count.to_le_bytes());
        }
        send(sender(), QUERY_ANSWER, &answer);
    }
}

impl Module for Histogram {
    fn on_message(&mut self) -> Verdict {
        match (tag(), self.watched) {
            (WATCH, _) => self.begin(),
            (QUERY, _) => self.tell(),
            (tag, Some((watched, what))) if tag == watched => {
                self.count(what);
                return Verdict::Deliver;
            }
            _ => return Verdict::Deliver,
        }
        Verdict::Consume
    }
}

/// The number of bits that it takes to write the value.
fn bits(value: u64) -> usize {
    (u64::BITS - value.leading_zeros()) as usize
}

ferrywire_module::module!(Histogram = Histogram { watched: None, counts: [0; COUNTS] });
