//! Memory that ranks of a host share besides their rings: a piece of the segment's file.

use std::fs::File;
use std::io;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::shm::segment::Segment;
use crate::sys::map::{self, Map};

/// A piece of the segment's file, mapped.
pub struct SharedMemory {
    file: Arc<File>,
    map: Map,
    offset: u64,
}

impl SharedMemory {
    /// Maps a piece that a rank has [claimed](Segment::claim_for_window).
    pub(crate) fn map(segment: &Segment, offset: u64, bytes: u64) -> io::Result<SharedMemory> {
        let file = Arc::clone(segment.shared_file());
        // A mapping is not empty.
        let map = Map::new(&file, offset, bytes.max(1))?;
        Ok(SharedMemory { file, map, offset })
    }

    /// Its first byte.
    #[inline]
    pub fn start(&self) -> NonNull<u8> {
        self.map.start()
    }

    /// The address of a byte of it, in this process.
    pub fn address(&self, at: u64) -> u64 {
        (self.start().as_ptr().expose_provenance() as u64).wrapping_add(at)
    }

    /// Reserves memory for a part of it, so that touching that part cannot fail. Other parts must not be touched.
    pub fn reserve(&self, at: u64, bytes: u64) -> io::Result<()> {
        if bytes == 0 { Ok(()) } else { map::reserve(&self.file, self.offset + at, bytes) }
    }

    /// Gives the memory of a part back. No rank may touch it afterwards.
    pub fn give_back(&self, at: u64, bytes: u64) {
        if bytes > 0 {
            // The kernel frees it with the file at the latest.
            let _ = map::give_back(&self.file, self.offset + at, bytes);
        }
    }
}
