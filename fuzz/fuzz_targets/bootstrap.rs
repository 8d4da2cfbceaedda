//! Any packet may come to the socket on which a rank joins its job.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| ferrywire_host::fuzzed::bootstrap(input));
