//! Any bytes on the control channel between the launcher and its daemons.
#![no_main]

use std::cell::RefCell;
use std::fs::File;

use libfuzzer_sys::fuzz_target;

// The launcher is a program without a library, so its sources are included here.
#[allow(dead_code, unused_imports, unsafe_code, reason = "a part of it is fuzzed")]
#[path = "../../crates/ferry/src/fuzzed.rs"]
mod ferry;

use ferry::{home, job_facts, out, run, trace, why};

thread_local!(static PIPE: RefCell<File> = RefCell::new(tempfile()));

fn tempfile() -> File {
    let path = std::env::temp_dir().join(format!("ferry-fuzz-control-{}", std::process::id()));
    let file = File::options().read(true).write(true).create(true).truncate(true).open(&path);
    let file = file.expect("a file");
    std::fs::remove_file(&path).expect("ours");
    file
}

fuzz_target!(|input: &[u8]| PIPE.with_borrow_mut(|pipe| run::fuzzed::control(input, pipe)));
