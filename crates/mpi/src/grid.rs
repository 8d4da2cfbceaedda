//! Grids: how many processes stand along each side.

/// The sides of a grid of `count` processes, of which some are given. The others are as close to each other
/// as they can be, the longest first: the longest is as short as possible, then the second, and so on. None if
/// there is no such grid.
pub fn balanced(count: u32, sides: &[Option<u32>]) -> Option<Vec<u32>> {
    let given = sides.iter().flatten().try_fold(1_u32, |all, &side| all.checked_mul(side))?;
    if given == 0 || !count.is_multiple_of(given) {
        return None;
    }
    let left = count / given;
    let open = sides.iter().filter(|side| side.is_none()).count();
    let mut found = Vec::new();
    if !split(left, open, &divisors(left), &mut found) {
        return None;
    }
    let mut found = found.into_iter();
    sides.iter().map(|side| side.or_else(|| found.next())).collect()
}

/// Splits `count` into so many factors, none larger than the one before it. Factors are among `divisors`,
/// which are in order, and the last of which is the largest that may be used.
fn split(count: u32, factors: usize, divisors: &[u32], found: &mut Vec<u32>) -> bool {
    if factors == 0 || count == 1 {
        found.extend(std::iter::repeat_n(1, factors));
        return count == 1;
    }
    for (at, &factor) in divisors.iter().enumerate() {
        if count.is_multiple_of(factor) && reaches(factor, factors, count) {
            found.push(factor);
            if split(count / factor, factors - 1, &divisors[..=at], found) {
                return true;
            }
            found.pop();
        }
    }
    false
}

/// Whether so many factors of this size are at least `count`.
fn reaches(factor: u32, factors: usize, count: u32) -> bool {
    let mut all = 1_u64;
    (0..factors.min(u32::BITS as usize)).any(|_| {
        all *= u64::from(factor);
        all >= u64::from(count)
    })
}

/// All divisors, the smallest first.
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
        assert_eq!(open(1 << 30, 4), Some(vec![256, 256, 128, 128]));
        assert_eq!(open(2_147_483_647, 2), Some(vec![2_147_483_647, 1]));
        assert_eq!(open(1, 0), Some(vec![]));
        assert_eq!(open(2, 0), None);
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
