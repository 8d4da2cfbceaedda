//! Bursts: frames that are longer than a datagram. A burst is sealed as a whole, with one counter and one tag, and
//! leaves in parts, each a datagram with a header of its own.
//!
//! ```text
//! 0            2                      3                 4        8         16
//! | local rank | version | parts << 2 | form | part << 2 | source | counter | bytes of the sealed frame and its tag |
//! ```
//!
//! Parts are the same in length, except the last. The tag authenticates all of them with the header of the first.
//! So a part cannot be checked alone, and a stranger who sees the traffic can spoil a burst. It is then lost, and the
//! NIC sends its frames again, one by one, for as long as losses go on.

use super::seal::{DatagramHeader, Form, HEADER_BYTES, TAG_BYTES};

/// The most parts of a burst: datagrams that every kernel cuts from one piece.
pub(super) const PARTS_MAX: usize = 64;
/// The longest burst, with its headers: the largest payload of a UDP datagram over IPv4.
const BYTES_MAX: usize = 65_507;

/// How many frames of this length fit into a burst.
pub(super) fn frames_max(frame_bytes_max: u32) -> u16 {
    let frames = (BYTES_MAX / (HEADER_BYTES + part_bytes(frame_bytes_max))).clamp(1, PARTS_MAX);
    u16::try_from(frames).expect("there are few")
}

/// Length of a part, without its header. With it, the part is as long as the longest single frame.
pub(super) fn part_bytes(frame_bytes_max: u32) -> usize {
    frame_bytes_max as usize + TAG_BYTES
}

/// The header of a part, in clear.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Part {
    /// The header of the burst.
    pub(crate) header: DatagramHeader,
    pub(crate) at: u8,
    /// The number of the last part: at least 1.
    pub(crate) last: u8,
}

impl Part {
    /// Whether a datagram claims to be a part.
    #[inline(always)]
    pub(crate) fn is_one(datagram: &[u8]) -> bool {
        datagram.get(2).is_some_and(|mark| mark >> SHIFT != 0)
    }

    /// Parses the header of a part. `None` if it is not one.
    pub(crate) fn parse(datagram: &[u8]) -> Option<Part> {
        let mut head = *datagram.first_chunk::<HEADER_BYTES>()?;
        let (last, at) = (head[2] >> SHIFT, head[3] >> SHIFT);
        head[2] &= MARK;
        head[3] &= MARK;
        let header = DatagramHeader::parse(&head)?;
        (last > 0 && at <= last && header.form != Form::Wakeup).then_some(Part { header, at, last })
    }

    /// The first part of a burst of this many bytes in parts of `each`.
    ///
    /// # Panics
    /// If there are too many.
    pub(crate) fn first(header: DatagramHeader, bytes: usize, each: usize) -> Part {
        let parts = bytes.div_ceil(each);
        assert!((2..=PARTS_MAX).contains(&parts), "a burst of {parts} parts");
        Part { header, at: 0, last: u8::try_from(parts - 1).expect("there are few") }
    }

    /// Cuts the bytes of the burst, which are in two pieces, into datagrams. The kernel copies them faster from one place
    /// than it gathers them.
    #[inline(never)]
    pub(crate) fn cut(self, pieces: [&[u8]; 2], each: usize, into: &mut Vec<u8>) {
        let [mut front, mut rest] = pieces;
        for at in 0..=self.last {
            into.extend_from_slice(&Part { at, ..self }.emit());
            let bytes = front.split_off(..each.min(front.len())).unwrap_or_default();
            into.extend_from_slice(bytes);
            let more = (each - bytes.len()).min(rest.len());
            into.extend_from_slice(rest.split_off(..more).unwrap_or_default());
        }
    }

    /// The header as bytes.
    pub(crate) fn emit(&self) -> [u8; HEADER_BYTES] {
        let mut head = self.header.emit();
        head[2] |= self.last << SHIFT;
        head[3] |= self.at << SHIFT;
        head
    }
}

/// The upper six bits of two bytes of the header tell the parts.
const SHIFT: u32 = 2;
const MARK: u8 = (1 << SHIFT) - 1;

/// Bursts of which some parts have arrived. There are few at a time: the oldest gives way to a new one, and is lost.
#[derive(Default)]
pub(crate) struct Assembly {
    /// The oldest first.
    bursts: Vec<Partial>,
    /// The memory of the last burst that was whole, for the next.
    spare: Vec<u8>,
}

struct Partial {
    /// The header of its first part.
    first: Part,
    /// A bit for each part that is missing.
    missing: u64,
    /// That header, then the bytes: at least as long as the parts may be.
    bytes: Vec<u8>,
    /// Where the last part ends, if it is here.
    end: usize,
}

impl Assembly {
    /// Takes a part of `each` bytes, or fewer if it is the last. Returns the burst, as one datagram with the header of
    /// its first part, once all of it is here.
    pub(crate) fn take(&mut self, part: &Part, bytes: &[u8], each: usize) -> Option<&mut [u8]> {
        let is_last = part.at == part.last;
        if bytes.len() > each || bytes.len() < each && !is_last {
            return None;
        }
        let first = Part { at: 0, ..*part };
        let found = self.bursts.iter().position(|burst| burst.first == first);
        let place = found.unwrap_or_else(|| self.begin(first, each));
        let burst = &mut self.bursts[place];
        let start = HEADER_BYTES + usize::from(part.at) * each;
        let end = start + bytes.len();
        burst.bytes[start..end].copy_from_slice(bytes);
        burst.missing &= !(1 << part.at);
        if is_last {
            burst.end = end;
        }
        if burst.missing > 0 {
            return None;
        }
        let Partial { bytes, end, .. } = self.bursts.remove(place);
        self.spare = bytes;
        Some(&mut self.spare[..end])
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.bursts.is_empty()
    }

    /// Begins a burst, and returns its place.
    fn begin(&mut self, first: Part, each: usize) -> usize {
        let mut bytes = std::mem::take(&mut self.spare);
        if self.bursts.len() == BURSTS_MAX {
            bytes = self.bursts.remove(0).bytes;
        }
        let len = HEADER_BYTES + (usize::from(first.last) + 1) * each;
        if bytes.len() < len {
            bytes.resize(len, 0);
        }
        bytes[..HEADER_BYTES].copy_from_slice(&first.emit());
        let missing = u64::MAX >> (u64::BITS - 1 - u32::from(first.last));
        self.bursts.push(Partial { first, missing, bytes, end: 0 });
        self.bursts.len() - 1
    }
}

/// Bursts of which parts may be here at a time, from all sources: half a megabyte.
const BURSTS_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    fn header(counter: u64) -> DatagramHeader {
        DatagramHeader { local_rank: 3, form: Form::Sealed, source: 7, counter }
    }

    #[test]
    fn the_header_of_a_part_is_read_as_it_was_written_and_is_not_that_of_a_frame() {
        for (at, last) in [(0, 1), (1, 1), (5, 43), (63, 63)] {
            let part = Part { header: header(9), at, last };
            assert!(Part::is_one(&part.emit()));
            assert_eq!(Part::parse(&part.emit()), Some(part));
            assert_eq!(DatagramHeader::parse(&part.emit()), None);
        }
        assert!(!Part::is_one(&header(9).emit()));
        assert_eq!(Part::parse(&header(9).emit()), None);
        assert_eq!(Part::parse(&Part { header: header(9), at: 3, last: 2 }.emit()), None);
        let wakeup = DatagramHeader { form: Form::Wakeup, ..header(9) };
        assert_eq!(Part::parse(&Part { header: wakeup, at: 0, last: 2 }.emit()), None);
    }

    /// The parts of a burst, each with its header.
    fn cut(counter: u64, bytes: &[u8], each: usize) -> Vec<Vec<u8>> {
        let first = Part::first(header(counter), bytes.len(), each);
        let (one, two) = bytes.split_at(bytes.len() / 3);
        let mut parts = Vec::new();
        first.cut([one, two], each, &mut parts);
        parts.chunks(HEADER_BYTES + each).map(<[u8]>::to_vec).collect()
    }

    fn give(assembly: &mut Assembly, datagram: &[u8], each: usize) -> Option<Vec<u8>> {
        let part = Part::parse(datagram).expect("it is one");
        assembly.take(&part, &datagram[HEADER_BYTES..], each).map(|bytes| bytes.to_vec())
    }

    #[test]
    fn parts_make_the_burst_in_any_order_also_between_others_and_twice() {
        let bytes: Vec<u8> = (0..=255).cycle().take(1234).collect();
        let (each, mut assembly) = (100, Assembly::default());
        let [these, those] = [1, 2].map(|counter| cut(counter, &bytes, each));
        assert_eq!(these.len(), 13);
        let mut whole = Vec::new();
        for (one, other) in these.iter().rev().zip(&those) {
            for datagram in [one, one, other] {
                whole.extend(give(&mut assembly, datagram, each));
            }
        }
        assert_eq!(whole.len(), 2);
        assert!(whole.iter().all(|burst| burst[HEADER_BYTES..] == bytes));
    }

    #[test]
    fn memory_is_bounded_and_the_oldest_gives_way() {
        let (each, mut assembly) = (100, Assembly::default());
        for counter in 0..1000 {
            let parts = cut(counter, &[7; 250], each);
            assert_eq!(give(&mut assembly, &parts[0], each), None);
            assert!(assembly.bursts.len() <= BURSTS_MAX);
        }
        let newest = cut(999, &[7; 250], each);
        assert_eq!(give(&mut assembly, &newest[1], each), None);
        assert!(give(&mut assembly, &newest[2], each).is_some());
        // A part of a wrong length is none.
        let part = Part::parse(&newest[0]).expect("it is one");
        assert!(assembly.take(&part, &[0; 99], each).is_none());
        assert!(assembly.take(&part, &[0; 101], each).is_none());
    }
}
