//! The binomial tree: the parent of a rank is the rank with its lowest set bit cleared.
//!
//! Ranks are counted from the root, so the root is 0. A rank and all ranks below it are a contiguous run.

/// The children of a rank, nearest first.
pub(super) fn children(relative: u32, size: u32) -> impl Iterator<Item = u32> {
    let limit =
        if relative == 0 { size.next_power_of_two() } else { relative & relative.wrapping_neg() };
    (0..32)
        .map(|bit| 1 << bit)
        .take_while(move |&reach| reach < limit)
        .map(move |reach| relative + reach)
        .filter(move |&child| child < size)
}

/// The children of a rank, farthest first: the one with the most ranks below it.
pub(super) fn children_far_first(relative: u32, size: u32) -> impl Iterator<Item = u32> {
    let near: Vec<u32> = children(relative, size).collect();
    near.into_iter().rev()
}

/// The parent of any rank but the root.
pub(super) fn parent(relative: u32) -> u32 {
    relative & (relative - 1)
}

/// The number of ranks in the subtree of a rank, itself included.
pub(super) fn subtree(relative: u32, size: u32) -> u32 {
    match relative {
        0 => size,
        _ => (relative & relative.wrapping_neg()).min(size - relative),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rank_but_the_root_is_a_child_of_exactly_one() {
        for size in 1..=64 {
            let mut parents = vec![0; size as usize];
            for rank in 0..size {
                for child in children(rank, size) {
                    parents[child as usize] += 1;
                    assert_eq!(parent(child), rank);
                }
            }
            assert_eq!(parents[0], 0);
            assert!(parents[1..].iter().all(|&count| count == 1), "size {size}: {parents:?}");
        }
    }

    #[test]
    fn a_subtree_is_a_rank_and_the_subtrees_of_its_children() {
        for size in 1..=64 {
            for rank in 0..size {
                let below: u32 = children(rank, size).map(|child| subtree(child, size)).sum();
                assert_eq!(subtree(rank, size), 1 + below, "rank {rank} of {size}");
            }
        }
    }
}
