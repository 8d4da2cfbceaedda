//! A cache of a processor, with the lines that it really holds.

/// A set-associative cache that replaces the least recently used line of a set.
#[derive(Clone, Debug)]
pub struct Cache {
    ways: usize,
    line_bytes: u64,
    /// The lines of each set, the most recently used last.
    sets: Vec<Vec<u64>>,
}

impl Cache {
    /// An empty cache.
    pub fn new(bytes: u64, ways: usize, line_bytes: u64) -> Cache {
        let sets = (0..bytes / (ways as u64 * line_bytes)).map(|_| Vec::new()).collect();
        Cache { ways, line_bytes, sets }
    }

    /// Bytes of a line.
    pub fn line_bytes(&self) -> u64 {
        self.line_bytes
    }

    /// Uses a line, which is in the cache afterwards. False if it was not there.
    pub fn touch(&mut self, line: u64) -> bool {
        let set = usize::try_from(line % self.sets.len() as u64).expect("few sets");
        let lines = &mut self.sets[set];
        let found = lines.iter().position(|&held| held == line);
        if let Some(at) = found {
            lines.remove(at);
        } else if lines.len() == self.ways {
            lines.remove(0);
        }
        lines.push(line);
        found.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_line_of_a_set_goes() {
        let mut cache = Cache::new(4 * 32, 2, 32);
        assert!(!cache.touch(0) && !cache.touch(2) && !cache.touch(1));
        assert!(cache.touch(0));
        assert!(!cache.touch(4), "the third line of an even set");
        assert!(cache.touch(0) && cache.touch(1));
        assert!(!cache.touch(2));
    }
}
