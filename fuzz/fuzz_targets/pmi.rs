//! Any answer of a launcher over PMI.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| ferrywire_host::fuzzed::pmi(input));
