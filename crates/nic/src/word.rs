//! The match word of a message, and the mask of a receive.
//!
//! Matching is one comparison of 64 bits: group, source and tag share a word, and a receive has a mask of the bits
//! that must agree. MPI's four kinds of receive are four masks; other masks are legal for the matchers that take
//! them.

/// Group, source and tag of a message, packed so that matching is one comparison.
///
/// ```text
/// 63        48 47              24 23               0
/// |   group   |      source      |       tag       |
/// ```
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct MatchWord(u64);

impl MatchWord {
    /// The largest source that fits.
    pub const SOURCE_MAX: u32 = (1 << 24) - 1;
    /// The largest tag that fits.
    pub const TAG_MAX: u32 = (1 << 24) - 1;

    /// Packs the three parts. A part that does not fit is a bug of the caller.
    #[inline(always)]
    pub fn new(group: u16, source: u32, tag: u32) -> MatchWord {
        assert!(source <= Self::SOURCE_MAX, "a source fits 24 bits");
        assert!(tag <= Self::TAG_MAX, "a tag fits 24 bits");
        MatchWord(u64::from(group) << 48 | u64::from(source) << 24 | u64::from(tag))
    }

    /// Decodes a word from a frame.
    #[inline]
    pub const fn from_bits(bits: u64) -> MatchWord {
        MatchWord(bits)
    }

    /// Encodes the word for a frame.
    #[inline]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// The group id, which keeps communicators apart.
    #[inline]
    pub const fn group(self) -> u16 {
        (self.0 >> 48) as u16
    }

    /// The rank of the sender in its group.
    #[inline]
    pub const fn source(self) -> u32 {
        (self.0 << 16 >> 40) as u32
    }

    /// The tag.
    #[inline]
    pub const fn tag(self) -> u32 {
        (self.0 << 40 >> 40) as u32
    }

    /// Whether a message with this word satisfies a receive that wants `wanted` under `mask`.
    #[inline]
    pub const fn agrees(self, wanted: MatchWord, mask: Mask) -> bool {
        (self.0 ^ wanted.0) & mask.0 == 0
    }

    /// This word with the bits outside `mask` set to zero.
    #[inline]
    pub const fn masked(self, mask: Mask) -> MatchWord {
        MatchWord(self.0 & mask.0)
    }
}

/// The bits of a match word that a receive insists on.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Mask(u64);

impl Mask {
    /// Group, source and tag must agree.
    pub const EXACT: Mask = Mask(!0);
    /// Any source matches.
    pub const ANY_SOURCE: Mask = Mask(!((MatchWord::SOURCE_MAX as u64) << 24));
    /// Any tag matches.
    pub const ANY_TAG: Mask = Mask(!(MatchWord::TAG_MAX as u64));
    /// Any source and any tag match; only the group must agree.
    pub const ANY_BOTH: Mask = Mask(0xffff << 48);

    /// An arbitrary mask. Not every matcher takes one.
    pub const fn from_bits(bits: u64) -> Mask {
        Mask(bits)
    }

    /// The bits that must agree.
    pub const fn bits(self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_come_back() {
        let word = MatchWord::new(0xbeef, 0x12_3456, 0xfe_dcba);
        assert_eq!((word.group(), word.source(), word.tag()), (0xbeef, 0x12_3456, 0xfe_dcba));
        assert_eq!(MatchWord::from_bits(word.bits()), word);
    }

    #[test]
    fn each_mask_looks_at_its_parts_only() {
        let word = MatchWord::new(1, 2, 3);
        let table = [
            (Mask::EXACT, [false, false]),
            (Mask::ANY_SOURCE, [true, false]),
            (Mask::ANY_TAG, [false, true]),
            (Mask::ANY_BOTH, [true, true]),
        ];
        for (mask, [other_source, other_tag]) in table {
            assert!(word.agrees(word, mask));
            assert_eq!(word.agrees(MatchWord::new(1, 9, 3), mask), other_source);
            assert_eq!(word.agrees(MatchWord::new(1, 2, 9), mask), other_tag);
            assert!(!word.agrees(MatchWord::new(9, 2, 3), mask));
        }
    }
}
