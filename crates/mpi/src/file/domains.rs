//! Who accesses which part of a file in a collective call.

use std::ops::Range;

use super::view::FileRange;

/// Parts of a file without gaps between them, one for each aggregator: the rank that accesses it for all.
#[derive(Clone, Debug)]
pub struct Domains {
    start: u64,
    end: u64,
    /// The length of each part but the last, which begins at a multiple of `block`.
    part: u64,
    block: u64,
    count: u32,
}

impl Domains {
    /// Cuts a range of a file into `count` parts at multiples of `block`.
    pub fn new(range: Range<u64>, count: u32, block: u64) -> Domains {
        assert!(count > 0 && block > 0 && range.start < range.end, "something to cut");
        let first = range.start - range.start % block;
        let part = (range.end - first).div_ceil(count.into()).next_multiple_of(block);
        Domains { start: range.start, end: range.end, part, block, count }
    }

    /// The part of an aggregator. It may be empty.
    pub fn of(&self, aggregator: u32) -> Range<u64> {
        assert!(aggregator < self.count, "it has a part");
        let first = self.start - self.start % self.block;
        let start = self.part.saturating_mul(aggregator.into()).saturating_add(first);
        let end = start.saturating_add(self.part).min(self.end);
        start.max(self.start).min(self.end)..end.max(self.start)
    }

    /// What an aggregator accesses next, if `from` is the first offset at or after which there is data: at most
    /// `bytes_max` bytes, and as many whole blocks as possible.
    pub fn window(&self, aggregator: u32, from: u64, bytes_max: u64) -> Range<u64> {
        let part = self.of(aggregator);
        let start = (from - from % self.block).max(part.start).min(part.end);
        let end = start.saturating_add(bytes_max);
        let aligned = end - end % self.block;
        let end = if aligned > start { aligned } else { end };
        start..end.min(part.end)
    }
}

/// Adjacent accesses of at least this many bytes are not worth to be brought together.
const LARGE_BYTES_MIN: u64 = 256 << 10;

/// Whether it is worth to bring the accesses of several ranks together, which are within these bounds: they interleave,
/// or touch and are small.
pub fn are_worth_gathering(bounds: &[FileRange]) -> bool {
    let mut bounds = bounds.to_vec();
    bounds.sort_unstable_by_key(|range| range.offset);
    bounds.windows(2).any(|pair| {
        let small = pair.iter().any(|range| range.bytes < LARGE_BYTES_MIN);
        pair[1].offset < pair[0].end() || small && pair[1].offset == pair[0].end()
    })
}

/// The ranks that access the file, in their order: one of each host, or `wanted` of them, evenly from all hosts.
/// `host_of` has for each rank the lowest rank of its host.
pub fn choose_aggregators(host_of: &[u32], wanted: Option<u32>) -> Vec<u32> {
    let ranks = || (0..).zip(host_of);
    let hosts = ranks().filter(|(rank, host)| rank == *host).count();
    let wanted = wanted.map_or(hosts, |wanted| wanted.max(1) as usize).min(host_of.len());
    // The first rank of each host comes before the second of any.
    let mut in_turn: Vec<(usize, u32)> = ranks()
        .map(|(rank, host)| {
            let place = ranks().filter(|(other, of)| *of == host && *other < rank).count();
            (place, rank)
        })
        .collect();
    in_turn.sort_unstable();
    let mut chosen: Vec<u32> = in_turn.into_iter().take(wanted).map(|(_, rank)| rank).collect();
    chosen.sort_unstable();
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_the_range_and_are_cut_at_blocks() {
        for start in [0_u64, 1, 99, 100, 4711] {
            for len in [1_u64, 99, 100, 101, 1234] {
                for count in 1..8 {
                    let domains = Domains::new(start..start + len, count, 100);
                    let mut end = start;
                    for aggregator in 0..count {
                        let part = domains.of(aggregator);
                        if part.is_empty() {
                            continue;
                        }
                        assert_eq!(part.start, end, "{start} {len} {count}");
                        assert!(end == start || end.is_multiple_of(100));
                        end = part.end;
                        let mut at = part.start;
                        while at < part.end {
                            let window = domains.window(aggregator, at, 250);
                            assert!(window.contains(&at) && window.end - window.start <= 250);
                            at = window.end;
                        }
                    }
                    assert_eq!(end, start + len);
                }
            }
        }
    }

    #[test]
    fn accesses_that_interleave_or_are_small_neighbours_are_gathered() {
        let gathers = |bounds: &[(u64, u64)]| {
            let bounds = bounds.iter().map(|&(offset, bytes)| FileRange { offset, bytes });
            are_worth_gathering(&bounds.collect::<Vec<_>>())
        };
        assert!(!gathers(&[(0, 10)]));
        assert!(gathers(&[(10, 10), (0, 10)]));
        assert!(!gathers(&[(11, 10), (0, 10)]));
        assert!(gathers(&[(1 << 20, 1 << 20), (0, 1 << 21)]));
        assert!(!gathers(&[(1 << 20, 1 << 20), (0, 1 << 20)]));
        assert!(gathers(&[(1 << 20, 10), (0, 1 << 20)]));
    }

    #[test]
    fn aggregators_come_from_all_hosts() {
        let hosts = [0, 0, 0, 3, 3, 0, 6];
        assert_eq!(choose_aggregators(&hosts, None), [0, 3, 6]);
        assert_eq!(choose_aggregators(&hosts, Some(2)), [0, 3]);
        assert_eq!(choose_aggregators(&hosts, Some(5)), [0, 1, 3, 4, 6]);
        assert_eq!(choose_aggregators(&hosts, Some(99)).len(), 7);
        assert_eq!(choose_aggregators(&hosts, Some(0)), [0]);
    }
}
