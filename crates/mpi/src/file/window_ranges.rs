//! The ranges of a rank in the window of an aggregator, as it tells them: a gap and a length for each, in 32 bits.

use std::ops::Range;

use super::view::FileRange;

/// Ranges in a window, as bytes to send.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct WindowRanges {
    /// Gaps from the range before, and lengths.
    pub encoded: Vec<u8>,
    /// Bytes in all ranges.
    pub bytes: u64,
    end: u64,
}

impl WindowRanges {
    /// Bytes of an encoded range.
    pub const EACH: u64 = 8;

    /// No ranges in a window that begins at `start`.
    pub fn new(start: u64) -> WindowRanges {
        WindowRanges { end: start, ..WindowRanges::default() }
    }

    /// Adds a range behind all others. The window has less than 4 GiB.
    pub fn push(&mut self, range: FileRange) {
        for number in [range.offset - self.end, range.bytes] {
            let number = u32::try_from(number).expect("a window has less than 4 GiB");
            self.encoded.extend_from_slice(&number.to_le_bytes());
        }
        self.end = range.end();
        self.bytes += range.bytes;
    }

    /// The ranges that another rank has encoded, in a window of our own. `None` if they do not fit in there.
    pub fn decode(encoded: &[u8], window: &Range<u64>) -> Option<Vec<FileRange>> {
        let mut end = window.start;
        let (pairs, rest) = encoded.as_chunks::<8>();
        let ranges = pairs.iter().map(|[a, b, c, d, e, f, g, h]| {
            let gap = u32::from_le_bytes([*a, *b, *c, *d]);
            let bytes = u32::from_le_bytes([*e, *f, *g, *h]).into();
            let offset = end + u64::from(gap);
            end = offset + bytes;
            (end <= window.end).then_some(FileRange { offset, bytes })
        });
        let ranges: Option<Vec<FileRange>> = ranges.collect();
        ranges.filter(|_| rest.is_empty())
    }
}

/// The bytes that any of these ranges have, as ranges that do not touch, in order.
pub fn runs_of(mut ranges: Vec<FileRange>) -> Vec<FileRange> {
    // This sort is fast for what consists of sorted pieces, and each member's ranges are sorted.
    ranges.sort_by_key(|range| range.offset);
    let mut runs: Vec<FileRange> = Vec::new();
    for range in ranges {
        match runs.last_mut() {
            Some(run) if range.offset <= run.end() => {
                run.bytes = run.bytes.max(range.end() - run.offset);
            }
            _ => runs.push(range),
        }
    }
    runs
}

/// The same ranges, with the gaps between them that have no more than `bytes_max` bytes.
pub fn without_short_gaps(runs: Vec<FileRange>, bytes_max: u64) -> Vec<FileRange> {
    let mut merged: Vec<FileRange> = Vec::new();
    for run in runs {
        match merged.last_mut() {
            Some(last) if run.offset - last.end() <= bytes_max => {
                last.bytes = run.end() - last.offset;
            }
            _ => merged.push(run),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(offset: u64, bytes: u64) -> FileRange {
        FileRange { offset, bytes }
    }

    #[test]
    fn ranges_come_back_and_stay_in_their_window() {
        let all = [range(10, 4), range(14, 1), range(30, 20)];
        let mut told = WindowRanges::new(5);
        all.into_iter().for_each(|range| told.push(range));
        assert_eq!(told.bytes, 25);
        assert_eq!(WindowRanges::decode(&told.encoded, &(5..50)), Some(all.to_vec()));
        assert_eq!(WindowRanges::decode(&told.encoded, &(5..49)), None);
        assert_eq!(WindowRanges::decode(&told.encoded[1..], &(5..50)), None);
    }

    #[test]
    fn runs_do_not_touch() {
        let runs = runs_of(vec![range(8, 2), range(0, 4), range(20, 1), range(2, 6), range(3, 1)]);
        assert_eq!(runs, [range(0, 10), range(20, 1)]);
        assert_eq!(without_short_gaps(runs.clone(), 9), runs);
        assert_eq!(without_short_gaps(runs, 10), [range(0, 21)]);
    }
}
