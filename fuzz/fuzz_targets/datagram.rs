//! Any datagram at the port of a rank.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| ferrywire_host::fuzzed::datagram(input));
