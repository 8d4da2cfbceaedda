//! What fuzz targets call of this folder.

use std::io::{self, Cursor, Read, Write};

use super::berth::{self, Berth, Kept, Reach};
use super::board::Board;
use super::pmi::Pmi;
use super::{layout, together};
use crate::meet::Invitation;

/// The words that ranks leave for each other.
pub(crate) fn words(text: &str) {
    if let Some(berth) = berth::read(text) {
        assert_eq!(berth::read(&berth::word(&berth)), Some(berth), "what is read can be written");
    }
    together::fuzzed(text);
}

/// A map of `size` ranks.
pub(crate) fn layout(mapping: &str, size: u32) {
    if let Some(neighbours) = layout::neighbours(mapping, size / 2, size) {
        assert!(neighbours.contains(&(size / 2)) && neighbours.len() <= size as usize);
    }
}

/// A launcher that answers this.
pub(crate) fn pmi(answers: &[u8]) {
    let stream = Box::new(Script(Cursor::new(answers.to_vec())));
    let Ok(mut pmi) = Pmi::begin_with(stream, "a fuzzer", None, Some(0)) else { return };
    if pmi.size() < 1 << 12 {
        let _ = pmi.neighbours();
    }
    let _ = pmi.put("key", "word");
    let _ = pmi.fence();
    while pmi.get(0, "key").is_ok() {}
    let _ = pmi.goodbye();
}

/// Words as they are on boards.
pub(crate) fn seeds(door: &Invitation) -> Vec<Vec<u8>> {
    let addresses = vec!["10.77.0.1".parse().expect("one"), "fe80::1".parse().expect("one")];
    let way = Some(Reach { port: 7001, frame_bytes_max: 1431, machine: 5, addresses });
    let berths = [
        Ok(Berth { ranks: 2, door: Some(door.clone()), way }),
        Ok(Berth { ranks: 1, door: None, way: None }),
        Err(Kept::Mixed),
        Err(Kept::Shut),
    ];
    let mut seeds: Vec<Vec<u8>> =
        berths.iter().map(|berth| berth::word(berth).into_bytes()).collect();
    seeds.push(format!("4711-{}", "07".repeat(32)).into_bytes());
    let maps = ["4 (vector,(0,2,2))", "7 (vector,[(0,1,2),1]x2,0)", "2 (vector,(0,1,2))"];
    seeds.extend(maps.map(|map| map.as_bytes().to_vec()));
    seeds
}

/// Reads what was written before, and takes whatever is said.
struct Script(Cursor<Vec<u8>>);

impl Read for Script {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Write for Script {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
