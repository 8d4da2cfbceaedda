//! The example modules, compiled as by `ferry module cc`, and what their tests share.

use std::collections::HashMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use ferrywire_modules::CLANG_FLAGS;

/// The code of `examples/modules/NAME.c`. None, with a message, if this machine cannot compile it.
pub(crate) fn code(name: &'static str) -> Option<Vec<u8>> {
    type Compiled = HashMap<&'static str, Result<Vec<u8>, Missing>>;
    static COMPILED: LazyLock<Mutex<Compiled>> = LazyLock::new(Mutex::default);
    let mut compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    match compiled.entry(name).or_insert_with(|| compile(name)) {
        Ok(code) => Some(code.clone()),
        Err(Missing(tool)) => {
            println!("not tested: there is no {tool}");
            None
        }
    }
}

/// `examples/modules/echo.wat`, which needs no compiler.
pub(crate) fn echo_as_text() -> Vec<u8> {
    std::fs::read(repository().join("examples/modules/echo.wat")).expect("it is there")
}

/// A tool that this machine does not have.
struct Missing(&'static str);

fn compile(name: &str) -> Result<Vec<u8>, Missing> {
    let Ok(linker) = Command::new("clang").arg("-print-prog-name=wasm-ld").output() else {
        return Err(Missing("clang"));
    };
    // clang prints a path if it finds the linker, and just the name otherwise.
    if !String::from_utf8_lossy(&linker.stdout).contains('/') {
        return Err(Missing("wasm-ld"));
    }
    let source = repository().join("examples/modules").join(name).with_extension("c");
    // Test programs may run in parallel.
    let wasm =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}.wasm", std::process::id()));
    let compiled = Command::new("clang")
        .args(CLANG_FLAGS)
        .args(["-Wextra", "-Werror", "-I"])
        .arg(repository().join("include"))
        .arg(&source)
        .arg("-o")
        .arg(&wasm)
        .output()
        .expect("clang was there a moment ago");
    assert!(compiled.status.success(), "{name}: {}", String::from_utf8_lossy(&compiled.stderr));
    let code = std::fs::read(&wasm).expect("clang has written it");
    std::fs::remove_file(&wasm).expect("it is ours");
    Ok(code)
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

/// Aborts the process with a message if the test hangs.
pub(crate) fn watched<R>(test: impl FnOnce() -> R) -> R {
    let (over, watch) = channel::<()>();
    let name = thread::current().name().unwrap_or("a test").to_string();
    thread::spawn(move || {
        if watch.recv_timeout(TIMEOUT) == Err(RecvTimeoutError::Timeout) {
            // Not `eprintln`, which the test harness would capture.
            let _ = writeln!(std::io::stderr(), "{name} hangs");
            std::process::abort();
        }
    });
    let result = test();
    drop(over);
    result
}

const TIMEOUT: Duration = Duration::from_secs(60);

/// The seeds of this run: `SEED=7 cargo test` repeats one, and `RUNS` sets their number.
pub(crate) fn seeds(count: u64) -> std::ops::Range<u64> {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse().ok());
    match (number("SEED"), number("RUNS")) {
        (Some(seed), _) => seed..seed + 1,
        (None, runs) => 0..runs.unwrap_or(count),
    }
}

/// Bytes that identify their owner and their length.
pub(crate) fn pattern(whose: u32, len: usize) -> Vec<u8> {
    let mut random = ferrywire_sim::random::Random::new(u64::from(whose) << 32 | len as u64);
    let mut bytes: Vec<u8> =
        (0..len.div_ceil(8)).flat_map(|_| random.any().to_le_bytes()).collect();
    bytes.truncate(len);
    bytes
}

/// Requests and answers of `steal.c`.
pub(crate) mod queue {
    pub(crate) const PUSH: u32 = 0;
    pub(crate) const STEAL: u32 = 2;
    pub(crate) const RELEASE: u32 = 4;
    pub(crate) const OK: u32 = 0;
    pub(crate) const NONE: u32 = 1;
    pub(crate) const FULL: u32 = 2;
    pub(crate) const BAD: u32 = 3;
    pub(crate) const TASKS_MAX: u32 = 1024;
    pub(crate) const WAITING_MAX: u32 = 60;

    /// The 32 bytes of a task.
    pub(crate) fn task(owner: u32, number: u32) -> [u8; 32] {
        let mut bytes = [0x5a; 32];
        bytes[..4].copy_from_slice(&owner.to_le_bytes());
        bytes[28..].copy_from_slice(&number.to_le_bytes());
        bytes
    }

    /// Parses an answer: its status, how many tasks are left, and the task.
    pub(crate) fn answer(bytes: &[u8]) -> (u32, u32, Option<(u32, u32)>) {
        let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four"));
        let task = (bytes.len() > 8).then(|| {
            let (owner, which) = (number(8), number(36));
            assert_eq!(bytes[8..], task(owner, which), "a task that nobody pushed");
            (owner, which)
        });
        (number(0), number(4), task)
    }
}

/// Requests and answers of `table.c`.
pub(crate) mod table {
    use std::collections::HashMap;

    use ferrywire_sim::random::Random;

    pub(crate) const PUT: u32 = 0;
    pub(crate) const GET: u32 = 2;
    pub(crate) const ADD: u32 = 4;
    pub(crate) const DELETE: u32 = 6;
    pub(crate) const OK: u32 = 0;
    pub(crate) const NONE: u32 = 1;
    pub(crate) const FULL: u32 = 2;
    pub(crate) const SIZE: u32 = 3;
    pub(crate) const BAD: u32 = 4;
    pub(crate) const KEYS_MAX: u64 = 1536;

    pub(crate) fn request(key: u64, value: &[u8]) -> Vec<u8> {
        [&key.to_le_bytes()[..], value].concat()
    }

    /// Parses an answer: its status, and the value.
    pub(crate) fn answer(bytes: &[u8]) -> (u32, Vec<u8>) {
        let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four"));
        assert_eq!(number(4) as usize, bytes.len() - 8, "it says how long its value is");
        (number(0), bytes[8..].to_vec())
    }

    /// A random operation, as a tag and a request, and the expected answer.
    pub(crate) fn operation(
        random: &mut Random,
        key: u64,
        oracle: &mut HashMap<u64, Vec<u8>>,
    ) -> (u32, Vec<u8>, (u32, Vec<u8>)) {
        match random.below(5) {
            0 | 1 => {
                let len = random.pick(&[0, 1, 7, 8, 8, 8, 9, 47, 48]);
                let value: Vec<u8> = (0..len).map(|_| random.any().to_le_bytes()[3]).collect();
                let asked = request(key, &value);
                oracle.insert(key, value);
                (PUT, asked, (OK, vec![]))
            }
            2 => {
                let expected = oracle.get(&key).map_or((NONE, vec![]), |value| (OK, value.clone()));
                (GET, request(key, &[]), expected)
            }
            3 => {
                let by = random.any();
                let asked = request(key, &by.to_le_bytes());
                let value = oracle.entry(key).or_insert_with(|| vec![0; 8]);
                let Ok(old) = <[u8; 8]>::try_from(&value[..]) else {
                    return (ADD, asked, (SIZE, vec![]));
                };
                *value = u64::from_le_bytes(old).wrapping_add(by).to_le_bytes().to_vec();
                (ADD, asked, (OK, value.clone()))
            }
            _ => {
                let status = if oracle.remove(&key).is_some() { OK } else { NONE };
                (DELETE, request(key, &[]), (status, vec![]))
            }
        }
    }
}

/// Requests and answers of `histogram.c`.
pub(crate) mod histogram {
    pub(crate) const WATCH: u32 = 1_000_000;
    pub(crate) const QUERY: u32 = 1_000_002;
    pub(crate) const COUNTS: usize = 66;

    /// What is counted.
    #[derive(Clone, Copy, Debug, Eq, PartialEq)]
    pub(crate) enum What {
        Lengths,
        Values,
    }

    pub(crate) fn watch(tag: u32, what: What) -> [u32; 2] {
        [tag, u32::from(what == What::Values)]
    }

    /// The bucket that a message is counted in.
    pub(crate) fn place(what: What, message: &[u8]) -> usize {
        let value = match (what, message.first_chunk::<8>()) {
            (What::Lengths, _) => message.len() as u64,
            (What::Values, Some(first)) => u64::from_le_bytes(*first),
            (What::Values, None) => return 65,
        };
        (0..64).filter(|bit| value >> bit != 0).count()
    }
}

/// The result of `reduce.c`, bit by bit: children first, then the rank's own vector.
pub(crate) fn sum_of_tree(rank: u32, vectors: &[Vec<f64>]) -> Vec<f64> {
    let size = u32::try_from(vectors.len()).expect("few");
    let children: Vec<Vec<f64>> = [2 * rank + 1, 2 * rank + 2]
        .into_iter()
        .filter(|&child| child < size)
        .map(|child| sum_of_tree(child, vectors))
        .collect();
    let mut own = vectors[rank as usize].clone();
    for (at, sum) in own.iter_mut().enumerate() {
        if let Some(both) = children.iter().map(|child| child[at]).reduce(|one, other| one + other)
        {
            *sum += both;
        }
    }
    own
}
