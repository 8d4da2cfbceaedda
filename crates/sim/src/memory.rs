//! The memory of a simulated rank: regions of bytes that its application has lent.

use ferrywire_nic::{Region, Span};

/// Regions by number.
#[derive(Debug, Default)]
pub struct Memory {
    regions: Vec<Vec<u8>>,
    /// Numbers of regions that are no longer lent.
    free: Vec<Region>,
}

impl Memory {
    /// Lends a new region with these bytes.
    pub fn lend(&mut self, bytes: Vec<u8>) -> Region {
        if let Some(region) = self.free.pop() {
            self.regions[region.0 as usize] = bytes;
            return region;
        }
        self.regions.push(bytes);
        Region(u32::try_from(self.regions.len() - 1).expect("few regions"))
    }

    /// Lends a new region of `len` equal bytes and returns it as a span.
    pub fn lend_filled(&mut self, len: u64, byte: u8) -> Span {
        let bytes = vec![byte; usize::try_from(len).expect("it fits the machine")];
        Span::new(self.lend(bytes), 0, len)
    }

    /// Ends the loan of a region; its number is used again.
    pub fn take_back(&mut self, region: Region) {
        self.regions[region.0 as usize] = Vec::new();
        self.free.push(region);
    }

    /// The bytes of a span.
    pub fn bytes(&self, span: Span) -> &[u8] {
        if span.len == 0 {
            return &[];
        }
        &self.regions[span.region.0 as usize][range(span)]
    }

    /// The bytes of a span, mutable.
    pub fn bytes_mut(&mut self, span: Span) -> &mut [u8] {
        if span.len == 0 {
            return &mut [];
        }
        &mut self.regions[span.region.0 as usize][range(span)]
    }

    /// The number in eight bytes.
    pub fn number(&self, region: Region, offset: u64) -> u64 {
        let bytes = self.bytes(Span::new(region, offset, 8));
        u64::from_le_bytes(bytes.try_into().expect("eight bytes"))
    }

    /// Adds the numbers of `bytes`, eight bytes each, to those of `into`.
    pub fn add(&mut self, bytes: &[u8], into: Span) {
        for (sum, term) in self.bytes_mut(into).chunks_exact_mut(8).zip(bytes.chunks_exact(8)) {
            let old = u64::from_le_bytes(sum.try_into().expect("eight bytes"));
            let term = u64::from_le_bytes(term.try_into().expect("eight bytes"));
            sum.copy_from_slice(&old.wrapping_add(term).to_le_bytes());
        }
    }
}

fn range(span: Span) -> std::ops::Range<usize> {
    let start = usize::try_from(span.offset).expect("it fits the machine");
    start..start + usize::try_from(span.len).expect("it fits the machine")
}
