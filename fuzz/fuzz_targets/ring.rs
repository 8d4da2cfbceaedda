//! Any bytes that a peer writes into a ring in shared memory.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| ferrywire_host::fuzzed::ring(input));
