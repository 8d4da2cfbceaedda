//! Files of Rust programs whose ranks are processes: random accesses against an array of bytes. With ranks as threads,
//! the same runs in `crates/ferrywire/tests/files.rs`.
//!
//! Each run has a new seed, which a failure prints:
//!
//!     SEED=7 cargo test -p ferrywire-ferry --test files

mod common;
#[path = "../../ferrywire/tests/common/random_files.rs"]
mod random_files;

use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;
use std::process::Command;

use common::{FERRY, Folder, MEMBER, finish, is_full, me};
use random_files::random_accesses;

/// A rank, for the test below.
#[test]
#[ignore = "is started by other tests, as a rank"]
fn member() {
    let given = |name| std::env::var(name).expect("the test sets it");
    let number = |name| given(name).parse::<u64>().expect("a number");
    let (path, seed) = (PathBuf::from(given("FILES_PATH")), number("FILES_SEED"));
    let rounds = u32::try_from(number("FILES_ROUNDS")).expect("a small number");
    let world = ferrywire::init().expect("a job");
    match seed % 3 {
        0 => random_accesses::<u8>(&world, &path, seed, rounds),
        1 => random_accesses::<f64>(&world, &path, seed, rounds),
        _ => random_accesses::<[u16; 3]>(&world, &path, seed, rounds),
    }
    .unwrap();
}

#[test]
fn processes_access_a_file_at_random() {
    let given = std::env::var("SEED").ok().map(|seed| seed.parse().expect("SEED is a number"));
    let (jobs, rounds) = match (given, is_full()) {
        (Some(_), _) => (1, 400),
        (None, true) => (30, 400),
        (None, false) => (6, 100),
    };
    for _ in 0..jobs {
        let seed: u64 = given.unwrap_or_else(|| RandomState::new().hash_one(0));
        let folder = Folder::new(&format!("files-{seed}"));
        let ranks = 1 + seed / 3 % 5;
        let mut job = Command::new(FERRY);
        job.args(["run", "-n", &ranks.to_string()]).arg(me()).args(MEMBER);
        job.env("FILES_PATH", folder.join("data")).env("FILES_SEED", seed.to_string());
        job.env("FILES_ROUNDS", rounds.to_string());
        let ended = finish(job, &folder);
        assert!(
            ended.status.success(),
            "SEED={seed} cargo test -p ferrywire-ferry --test files\n{}",
            ended.err
        );
    }
}
