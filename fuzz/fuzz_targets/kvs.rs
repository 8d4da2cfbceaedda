//! Any value in the KVS of a launcher: those of hosts, that of the job, the map of ranks.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| ferrywire_host::fuzzed::kvs(input));
