//! Memory of the NIC's own: copies of short messages, and what modules send and receive.
//!
//! Copies come and go with every short message to another host, so what they leave is kept for the next.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use ferrywire_nic::{Mix, Span};

use crate::memory;

/// What is claimed, by address, and what was and can be again.
#[derive(Default)]
pub(crate) struct Claims {
    used: HashMap<u64, Box<[u8]>, BuildHasherDefault<Mix>>,
    /// Of [`CELL_BYTES`] each.
    free: Vec<Box<[u8]>>,
}

impl Claims {
    /// Memory of so many bytes.
    pub(crate) fn claim(&mut self, bytes: u64) -> Span {
        let wanted = memory::size(bytes);
        let mut memory = if wanted <= CELL_BYTES {
            self.free.pop().unwrap_or_else(|| vec![0; CELL_BYTES].into())
        } else {
            vec![0; wanted].into()
        };
        let span = memory::lend_mut(&mut memory[..wanted]);
        self.used.insert(span.offset, memory);
        span
    }

    /// What was claimed is free again.
    pub(crate) fn release(&mut self, span: Span) {
        let Some(memory) = self.used.remove(&span.offset) else { return };
        if memory.len() == CELL_BYTES && self.free.len() < FREE_MAX {
            self.free.push(memory);
        }
    }
}

/// What a message has that fits into a datagram.
const CELL_BYTES: usize = 2048;
/// Cells that are kept.
const FREE_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_claimed_is_nobody_elses_and_short_ones_are_used_again() {
        let mut claims = Claims::default();
        let spans = [1, CELL_BYTES as u64, CELL_BYTES as u64 + 1].map(|bytes| claims.claim(bytes));
        let addresses = spans.map(|span| span.offset);
        assert!(addresses[0] != addresses[1] && addresses[1] != addresses[2]);
        assert_eq!(spans.map(|span| span.len), [1, 2048, 2049]);
        for span in spans {
            claims.release(span);
        }
        assert_eq!((claims.used.len(), claims.free.len()), (0, 2));
        assert!(addresses.contains(&claims.claim(8).offset));
    }
}
