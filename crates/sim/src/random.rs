//! The one source of randomness. Everything that happens in a simulation follows from its seed.

/// A small generator (SplitMix64): fast, good enough for schedules, the same everywhere.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The sequence that `seed` names.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// A separate sequence for one purpose, so that a change in one does not shift the others.
    #[must_use]
    pub fn split(&self, purpose: u64) -> Random {
        let mut child = Random(self.0 ^ purpose.wrapping_mul(0xd134_2543_de82_ef95));
        child.any();
        child
    }

    /// Any number.
    pub fn any(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        assert!(limit > 0, "there is no number below zero");
        // The high half of a product: no division, and a bias too small to matter here.
        ((u128::from(self.any()) * u128::from(limit)) >> 64) as u64
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// Like [`Random::between`], for ranks and tags.
    pub fn small(&mut self, low: u32, high: u32) -> u32 {
        u32::try_from(self.between(low.into(), high.into())).expect("it is at most `high`")
    }

    /// True in `percent` of a hundred cases.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of `choices`.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[usize::try_from(self.below(choices.len() as u64)).expect("an index")]
    }

    /// Shuffles `items`.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = usize::try_from(self.below(last as u64 + 1)).expect("an index");
            items.swap(last, other);
        }
    }
}
