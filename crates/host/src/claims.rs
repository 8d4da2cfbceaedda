//! Memory of the NIC itself: copies of short messages, and what modules send and receive.
//!
//! Copies come and go with every short message to another host, so freed memory is kept for the next one. It is in
//! cells of a few sizes, none much larger than the message and what the NIC accounts for it: the limit on copies is a
//! limit on memory.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use ferrywire_nic::{Mix, Span};

use crate::memory;

/// Claimed memory by address, and freed cells.
#[derive(Default)]
pub(crate) struct Claims {
    used: HashMap<u64, Box<[u8]>, BuildHasherDefault<Mix>>,
    /// Cells by size, the smallest first.
    free: [Vec<Box<[u8]>>; SIZES],
}

impl Claims {
    /// Claims memory of this many bytes.
    pub(crate) fn claim(&mut self, bytes: u64) -> Span {
        let wanted = memory::size(bytes);
        let mut memory = match size_of_cell(wanted) {
            Some((at, bytes)) => self.free[at].pop().unwrap_or_else(|| vec![0; bytes].into()),
            None => vec![0; wanted].into(),
        };
        let span = memory::lend_mut(&mut memory[..wanted]);
        self.used.insert(span.offset, memory);
        span
    }

    /// Frees memory that was claimed.
    pub(crate) fn release(&mut self, span: Span) {
        let Some(memory) = self.used.remove(&span.offset) else { return };
        if let Some((at, _)) = size_of_cell(memory.len())
            && self.free[at].len() < FREE_MAX
        {
            self.free[at].push(memory);
        }
    }
}

/// The index and size of the smallest cell with room for this many bytes; `None` if there is no such size.
fn size_of_cell(bytes: usize) -> Option<(usize, usize)> {
    (0..SIZES).map(|at| (at, CELL_BYTES_MIN << at)).find(|&(_, size)| bytes <= size)
}

const CELL_BYTES_MIN: usize = 128;
/// Cells of up to 2 KiB: more than fits into a datagram.
const SIZES: usize = 5;
/// Free cells that are kept of each size.
const FREE_MAX: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_do_not_overlap_and_short_ones_are_reused() {
        let mut claims = Claims::default();
        let spans = [1, 2048, 2049].map(|bytes| claims.claim(bytes));
        let addresses = spans.map(|span| span.offset);
        assert!(addresses[0] != addresses[1] && addresses[1] != addresses[2]);
        assert_eq!(spans.map(|span| span.len), [1, 2048, 2049]);
        for span in spans {
            claims.release(span);
        }
        assert_eq!((claims.used.len(), claims.free.iter().flatten().count()), (0, 2));
        assert_eq!(claims.claim(8).offset, addresses[0]);
    }

    #[test]
    fn no_cell_is_much_larger_than_what_is_in_it() {
        for bytes in 1..=2048 {
            let (_, size) = size_of_cell(bytes).expect("there is one");
            assert!(size >= bytes && size <= 2 * bytes.max(CELL_BYTES_MIN), "{bytes} in {size}");
        }
        assert_eq!(size_of_cell(2049), None);
    }
}
