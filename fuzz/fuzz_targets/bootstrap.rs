//! Any packet on the socket by which a rank joins its job.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| ferrywire_host::fuzzed::bootstrap(input));
