//! What fuzz targets call in this folder.

use std::io::{self, Cursor, Read, Write};

use super::host_record::{self, Excluded, HostRecord, NetworkRecord};
use super::kvs::Kvs;
use super::pmi::Pmi;
use super::{kvs_bootstrap, layout};
use crate::bootstrap::JoinAddress;

/// Parses a word of a rank.
pub(crate) fn words(text: &str) {
    if let Some(record) = host_record::read(text) {
        assert_eq!(
            host_record::read(&host_record::word(&record)),
            Some(record),
            "what is read can be written"
        );
    }
    kvs_bootstrap::fuzzed(text);
}

/// Parses a mapping of `size` ranks.
pub(crate) fn layout(mapping: &str, size: u32) {
    if let Some(neighbours) = layout::neighbours(mapping, size / 2, size) {
        assert!(neighbours.contains(&(size / 2)) && neighbours.len() <= size as usize);
    }
}

/// Talks to a launcher that gives these answers.
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

/// Valid words, as ranks store them.
pub(crate) fn seeds(join_socket: &JoinAddress) -> Vec<Vec<u8>> {
    let addresses = vec!["10.77.0.1".parse().expect("one"), "fe80::1".parse().expect("one")];
    let network = Some(NetworkRecord { port: 7001, frame_bytes_max: 1431, machine: 5, addresses });
    let records = [
        Ok(HostRecord { ranks: 2, join_socket: Some(join_socket.clone()), network }),
        Ok(HostRecord { ranks: 1, join_socket: None, network: None }),
        Err(Excluded::Mixed),
        Err(Excluded::Shut),
    ];
    let mut seeds: Vec<Vec<u8>> =
        records.iter().map(|record| host_record::word(record).into_bytes()).collect();
    seeds.push(format!("4711-{}", "07".repeat(32)).into_bytes());
    let maps = ["4 (vector,(0,2,2))", "7 (vector,[(0,1,2),1]x2,0)", "2 (vector,(0,1,2))"];
    seeds.extend(maps.map(|map| map.as_bytes().to_vec()));
    seeds
}

/// A stream that reads from a script, and discards what is written to it.
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
