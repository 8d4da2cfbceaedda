//! How many frames may be out to one peer: more while all of them arrive, fewer when some are lost.
//!
//! As TCP does it (RFC 5681): the number doubles with every round trip up to a threshold, and grows by one from
//! there on. A loss halves it, once for all frames of a round trip; silence brings it down to the least there is.

/// The bound on frames to one peer.
#[derive(Debug)]
pub(crate) struct Congestion {
    /// Frames that may be out.
    frames: u32,
    /// Up to here, every arrival makes room for one more.
    threshold: u32,
    /// Arrivals since `frames` last grew, beyond the threshold.
    arrivals: u32,
    /// What is lost of the frames before this one is part of a loss that has been counted.
    counted_before: u32,
}

impl Congestion {
    pub(crate) fn new() -> Congestion {
        Congestion { frames: FRAMES_FIRST, threshold: u32::MAX, arrivals: 0, counted_before: 0 }
    }

    /// Frames that may be out.
    pub(crate) fn frames(&self) -> u32 {
        self.frames
    }

    /// So many frames have arrived, and more could have gone.
    pub(crate) fn on_arrivals(&mut self, count: u32, frames_max: u32) {
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

    /// Later frames have overtaken frame `sequence`; `next` is the one that has not been sent yet.
    pub(crate) fn on_loss(&mut self, sequence: u32, next: u32) {
        if is_before(sequence, self.counted_before) {
            return;
        }
        self.counted_before = next;
        self.threshold = (self.frames / 2).max(FRAMES_MIN);
        self.frames = self.threshold;
    }

    /// Nothing has been heard for too long.
    pub(crate) fn on_silence(&mut self, next: u32) {
        self.counted_before = next;
        self.threshold = (self.frames / 2).max(FRAMES_MIN);
        self.frames = FRAMES_MIN;
    }
}

/// Whether sequence number `a` comes before `b`, around the wrap.
fn is_before(a: u32, b: u32) -> bool {
    (1..1 << 31).contains(&b.wrapping_sub(a))
}

/// A first burst that hardly any network minds (RFC 6928 says ten, of full packets).
const FRAMES_FIRST: u32 = 16;
/// With fewer, a loss would be noticed only by silence: three have to overtake.
const FRAMES_MIN: u32 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_doubles_up_to_the_limit_and_one_loss_counts_once() {
        let mut congestion = Congestion::new();
        congestion.on_arrivals(16, 64);
        assert_eq!(congestion.frames(), 32);
        congestion.on_arrivals(40, 64);
        assert_eq!(congestion.frames(), 64);
        congestion.on_loss(100, 164);
        congestion.on_loss(120, 170);
        assert_eq!(congestion.frames(), 32);
        congestion.on_loss(164, 180);
        assert_eq!(congestion.frames(), 16);
        congestion.on_arrivals(16, 64);
        assert_eq!(congestion.frames(), 17);
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
