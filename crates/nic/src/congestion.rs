//! Congestion control: how many frames may be in flight to one peer.
//!
//! As in TCP (RFC 5681): the number doubles with every round trip up to a threshold, and then grows by one. A loss
//! halves it, once for all frames of a round trip; silence brings it down to the minimum.

/// The bound on frames to one peer.
#[derive(Debug)]
pub(crate) struct Congestion {
    /// Frames that may be in flight.
    frames: u32,
    /// Below this, every arrival adds one frame.
    threshold: u32,
    /// Arrivals since `frames` last grew, above the threshold.
    arrivals: u32,
    /// Losses of frames before this one belong to a loss that has been counted.
    counted_before: u32,
    /// Frames that have to arrive before the network counts as calm again.
    until_calm: u32,
}

impl Congestion {
    pub(crate) fn new() -> Congestion {
        Congestion {
            frames: FRAMES_FIRST,
            threshold: u32::MAX,
            arrivals: 0,
            counted_before: 0,
            until_calm: 0,
        }
    }

    /// Frames that may be in flight.
    pub(crate) fn frames(&self) -> u32 {
        self.frames
    }

    /// Whether no frame has been lost for long, so that it pays to lose several as one.
    pub(crate) fn is_calm(&self) -> bool {
        self.until_calm == 0
    }

    /// `count` frames have arrived; `was_full` if the limit was reached before.
    pub(crate) fn on_arrivals(&mut self, count: u32, was_full: bool, frames_max: u32) {
        self.until_calm = self.until_calm.saturating_sub(count);
        if !was_full {
            return;
        }
        if self.frames < self.threshold {
            self.frames += count;
        } else {
            self.arrivals += count;
            if self.arrivals >= self.frames {
                self.arrivals -= self.frames;
                self.frames += 1;
            }
        }
        self.frames = self.frames.min(frames_max.max(FRAMES_MIN));
    }

    /// Later frames have overtaken frame `sequence`; `next` is the next to be sent.
    pub(crate) fn on_loss(&mut self, sequence: u32, next: u32) {
        self.until_calm = CALM_FRAMES;
        if is_before(sequence, self.counted_before) {
            return;
        }
        self.counted_before = next;
        self.threshold = (self.frames / 2).max(FRAMES_MIN);
        self.frames = self.threshold;
    }

    /// A retry timeout has passed without an ack.
    pub(crate) fn on_silence(&mut self, next: u32) {
        self.until_calm = CALM_FRAMES;
        self.counted_before = next;
        self.threshold = (self.frames / 2).max(FRAMES_MIN);
        self.frames = FRAMES_MIN;
    }
}

/// Whether sequence number `a` comes before `b`, modulo 2^32.
fn is_before(a: u32, b: u32) -> bool {
    (1..1 << 31).contains(&b.wrapping_sub(a))
}

/// The first burst, small enough for almost any network (RFC 6928 allows ten full packets).
const FRAMES_FIRST: u32 = 16;
/// With fewer frames in flight, a loss is noticed only by a timeout: detection takes three later frames.
const FRAMES_MIN: u32 = 4;
/// Where fewer frames than this arrive between two losses, bursts cost more than they save.
const CALM_FRAMES: u32 = 2048;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_doubles_up_to_the_limit_and_one_loss_counts_once() {
        let mut congestion = Congestion::new();
        congestion.on_arrivals(16, true, 64);
        assert_eq!(congestion.frames(), 32);
        congestion.on_arrivals(40, true, 64);
        assert_eq!(congestion.frames(), 64);
        congestion.on_loss(100, 164);
        congestion.on_loss(120, 170);
        assert_eq!(congestion.frames(), 32);
        congestion.on_loss(164, 180);
        assert_eq!(congestion.frames(), 16);
        congestion.on_arrivals(16, true, 64);
        assert_eq!(congestion.frames(), 17);
    }

    #[test]
    fn it_is_calm_until_a_loss_and_again_after_many_arrivals() {
        let mut congestion = Congestion::new();
        assert!(congestion.is_calm());
        congestion.on_loss(0, 10);
        congestion.on_arrivals(CALM_FRAMES - 1, false, 64);
        assert!(!congestion.is_calm());
        congestion.on_arrivals(1, false, 64);
        assert!(congestion.is_calm());
        congestion.on_silence(20);
        assert!(!congestion.is_calm());
    }

    #[test]
    fn silence_leaves_the_least() {
        let mut congestion = Congestion::new();
        for next in 0..10 {
            congestion.on_silence(next);
        }
        assert_eq!(congestion.frames(), FRAMES_MIN);
    }
}
