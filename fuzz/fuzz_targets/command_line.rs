//! Any command line of the launcher, and any hostfile.
#![no_main]

use libfuzzer_sys::fuzz_target;

// The launcher is a program without a library, so its sources are included here.
#[allow(dead_code, unused_imports, unsafe_code, reason = "a part of it is fuzzed")]
#[path = "../../crates/ferry/src/fuzzed.rs"]
mod ferry;

use ferry::{home, job_facts, out, run, trace, why};

fuzz_target!(|input: &[u8]| run::fuzzed::command_line(input));
