//! Process grids: the number of processes along each dimension.

use std::cmp::Reverse;

/// The sides of a grid of `count` processes, of which some are given. The others are as close to each other as
/// possible, the longest first: the difference between the longest and the shortest is minimal, and among such grids
/// the sum is. None if there is no such grid.
pub fn balanced(count: u32, sides: &[Option<u32>]) -> Option<Vec<u32>> {
    let given = sides.iter().flatten().try_fold(1_u32, |all, &side| all.checked_mul(side))?;
    if given == 0 || !count.is_multiple_of(given) {
        return None;
    }
    let left = count / given;
    let open = sides.iter().filter(|side| side.is_none()).count();
    let mut search = Search { divisors: divisors(left), chosen: Vec::new(), best: None };
    search.split(left, open, search.divisors.len());
    let mut found = search.best?.into_iter();
    sides.iter().map(|side| side.or_else(|| found.next())).collect()
}

/// A search for factors that are close to each other.
struct Search {
    /// All divisors, ascending.
    divisors: Vec<u32>,
    /// Factors chosen so far, descending.
    chosen: Vec<u32>,
    /// The best grid so far.
    best: Option<Vec<u32>>,
}

impl Search {
    /// Splits `count` into `factors` more factors, among the first `end` divisors.
    fn split(&mut self, count: u32, factors: usize, end: usize) {
        if factors == 0 || count == 1 {
            if count == 1 {
                self.consider(factors);
            }
            return;
        }
        for at in 0..end {
            let factor = self.divisors[at];
            if !count.is_multiple_of(factor) || !reaches(factor, factors, count) {
                continue;
            }
            if self.is_hopeless(count / factor, factors - 1, factor) {
                // A larger factor leaves less for the others.
                return;
            }
            self.chosen.push(factor);
            self.split(count / factor, factors - 1, at + 1);
            self.chosen.pop();
        }
    }

    /// Compares the chosen factors, filled up with ones, with the best.
    fn consider(&mut self, ones: usize) {
        let mut found = self.chosen.clone();
        found.extend(std::iter::repeat_n(1, ones));
        // Of equals, the one with the longer side, as in other libraries.
        let key = |sides: &Vec<u32>| (spread(sides), Reverse(sides.clone()));
        if self.best.as_ref().is_none_or(|best| key(&found) < key(best)) {
            self.best = Some(found);
        }
    }

    /// Whether `factor` and `others` more factors with the product `count` cannot beat the best: the smallest of them
    /// is at most their mean.
    fn is_hopeless(&self, count: u32, others: usize, factor: u32) -> bool {
        let Some(best) = &self.best else { return false };
        let mean = match u32::try_from(others) {
            Ok(0) => f64::from(factor),
            Err(_) => 1.0,
            Ok(others) => f64::from(count).powf(1.0 / f64::from(others)) + ROUNDING,
        };
        let longest = *self.chosen.first().unwrap_or(&factor);
        f64::from(longest) - mean > f64::from(spread(best).0)
    }
}

/// The difference between the longest and the shortest side, and the sum of all.
fn spread(sides: &[u32]) -> (u32, u64) {
    let (longest, shortest) = (sides.first().unwrap_or(&0), sides.last().unwrap_or(&0));
    (longest - shortest, sides.iter().map(|&side| u64::from(side)).sum())
}

/// An upper bound for the rounding error of a root.
const ROUNDING: f64 = 1e-3;

/// Whether `factors` factors of this size have a product of at least `count`.
fn reaches(factor: u32, factors: usize, count: u32) -> bool {
    let mut all = 1_u64;
    (0..factors.min(u32::BITS as usize)).any(|_| {
        all *= u64::from(factor);
        all >= u64::from(count)
    })
}

/// All divisors, ascending.
fn divisors(count: u32) -> Vec<u32> {
    let small = (1..=count.isqrt()).filter(|&factor| count.is_multiple_of(factor));
    let small: Vec<u32> = small.collect();
    let large = small.iter().rev().map(|factor| count / factor);
    let mut all: Vec<u32> = small.iter().copied().chain(large).collect();
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(count: u32, sides: usize) -> Option<Vec<u32>> {
        balanced(count, &vec![None; sides])
    }

    #[test]
    fn sides_are_as_close_as_can_be() {
        assert_eq!(open(1, 3), Some(vec![1, 1, 1]));
        assert_eq!(open(6, 2), Some(vec![3, 2]));
        assert_eq!(open(7, 2), Some(vec![7, 1]));
        assert_eq!(open(16, 3), Some(vec![4, 2, 2]));
        assert_eq!(open(24, 3), Some(vec![4, 3, 2]));
        assert_eq!(open(72, 3), Some(vec![6, 4, 3]));
        // Not 20, 18 and 14, whose longest side is shorter.
        assert_eq!(open(5040, 3), Some(vec![21, 16, 15]));
        assert_eq!(open(7488, 3), Some(vec![26, 18, 16]));
        assert_eq!(open(1 << 30, 4), Some(vec![256, 256, 128, 128]));
        assert_eq!(open(2_147_483_647, 2), Some(vec![2_147_483_647, 1]));
        assert_eq!(open(1, 0), Some(vec![]));
        assert_eq!(open(2, 0), None);
    }

    /// Against exhaustive search.
    #[test]
    fn no_grid_is_closer() {
        fn all(count: u32, sides: usize, longest: u32) -> Vec<Vec<u32>> {
            if sides == 0 {
                return if count == 1 { vec![vec![]] } else { vec![] };
            }
            let fits = (1..=longest.min(count)).filter(|&side| count.is_multiple_of(side));
            let with = |side| {
                let rest = all(count / side, sides - 1, side).into_iter();
                rest.map(move |mut rest| {
                    rest.insert(0, side);
                    rest
                })
            };
            fits.flat_map(with).collect()
        }
        for count in (1..400).chain([720, 840, 1260, 5040, 6240, 7488]) {
            for sides in 1..5 {
                let closest = all(count, sides, count).iter().map(|grid| spread(grid)).min();
                let found = open(count, sides).expect("there is a grid");
                assert_eq!(Some(spread(&found)), closest, "{count}: {found:?}");
            }
        }
    }

    #[test]
    fn sides_that_are_given_stay() {
        assert_eq!(balanced(6, &[None, Some(3), None]), Some(vec![2, 3, 1]));
        assert_eq!(balanced(6, &[Some(2), Some(3)]), Some(vec![2, 3]));
        assert_eq!(balanced(7, &[None, Some(3), None]), None);
        assert_eq!(balanced(6, &[Some(2), Some(2)]), None);
    }

    #[test]
    fn many_sides_take_no_time() {
        for count in [720_720, 1_441_440, 367_567_200, 2_095_133_040] {
            for sides in 1..24 {
                let found = open(count, sides).expect("there is a grid");
                assert_eq!(found.iter().product::<u32>(), count);
                assert!(found.is_sorted_by(|one, next| one >= next), "{found:?}");
            }
        }
    }
}
