//! The command as a user calls it: what it prints, and how it exits.

use std::process::{Command, Output};

fn ferry(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ferry")).args(arguments).output().expect("ferry starts")
}

fn json(output: &Output) -> serde_json::Value {
    serde_json::from_slice(&output.stdout).expect("one JSON document")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What takes long is done if `FULL` is in the environment, as in CI.
fn is_full() -> bool {
    let full = std::env::var_os("FULL").is_some();
    if !full {
        println!("not tested: takes long, and FULL is not set");
    }
    full
}

#[test]
fn a_soak_reports_what_it_covered() {
    let output = ferry(&["sim", "soak", "--seeds", "5", "--json"]);
    assert!(output.status.success());
    let report = json(&output);
    assert_eq!(report["seeds"], 5);
    assert_eq!(report["violations"], serde_json::json!([]));
    assert!(report["coverage"]["messages"].as_u64() > Some(0));
}

#[test]
fn a_planted_bug_fails_the_soak_and_names_its_seed() {
    let output = ferry(&["sim", "soak", "--bug", "repeat-accepted"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stdout).starts_with("seed "), "{}", text(&output.stdout));
}

/// A world that panics prints its seed and the command that replays it, which prints the trace up to the panic.
#[test]
fn a_panic_names_its_world_and_leaves_its_trace() {
    let output = ferry(&["sim", "soak", "--bug", PANICS]);
    assert!(!output.status.success());
    let said = text(&output.stderr);
    assert!(said.starts_with("seed ") && said.contains("panicked"), "{said}");
    let replay =
        said.lines().find_map(|line| line.strip_prefix("replay: ferry ")).expect("a command");
    let arguments: Vec<&str> = replay.split(' ').collect();
    let again = ferry(&arguments);
    assert!(!again.status.success());
    assert_eq!(text(&again.stderr), said, "the same panic");
    let trace = text(&again.stdout);
    let last = trace.lines().last().unwrap_or_default();
    assert!(trace.lines().count() > 10 && last.contains(" us  rank "), "{trace}");
}

/// A planted bug that an assertion finds, not an oracle.
const PANICS: &str = "ticket-leak";

/// The first seeds never find this bug; a fresh range does.
#[test]
fn a_fresh_range_finds_what_the_first_seeds_miss() {
    if !is_full() {
        return;
    }
    let soak = |first| {
        let range = ["--first", first, "--seeds", "400"];
        ferry(&[&["sim", "soak", "--bug", "passing-ignored"][..], &range[..]].concat())
    };
    let old = soak("0");
    assert!(old.status.success(), "{}", text(&old.stdout));
    assert_eq!(text(&old.stdout), "not found in 400 seeds from 0\n");
    let fresh = soak("12000");
    assert_eq!(fresh.status.code(), Some(1));
    assert!(text(&fresh.stdout).starts_with("seed 12"), "{}", text(&fresh.stdout));
}

/// The same word gives the same range, and another word another.
#[test]
fn seeds_follow_from_a_word() {
    let first = |word: &str| {
        let output = ferry(&["sim", "soak", "--seeds", "1", "--first-from", word, "--json"]);
        assert!(output.status.success(), "{}", text(&output.stdout));
        json(&output)["first"].as_u64().expect("a seed")
    };
    let seed = first("0123456789abcdef");
    assert_eq!(seed, first("0123456789abcdef"));
    assert_ne!(seed, first("0123456789abcdee"));
    assert!(seed >= 1 << 32, "beyond what people type");
}

#[test]
fn all_canaries_are_found() {
    if !is_full() {
        return;
    }
    let output = ferry(&["sim", "soak", "--canary", "--json"]);
    assert!(output.status.success(), "{}", text(&output.stdout));
    let findings = json(&output);
    let findings = findings.as_array().expect("a list");
    assert!(findings.len() >= 5);
    assert!(findings.iter().all(|finding| finding["seed"].is_u64()));
}

#[test]
fn a_small_scale_run_holds_its_targets() {
    let output = ferry(&["sim", "scale", "--ranks", "100", "--json"]);
    assert!(output.status.success(), "{}", text(&output.stdout));
    let report = json(&output);
    assert_eq!(report["right"], true);
    assert!(report["bytes_before_contact"].as_u64() <= Some(1024));
    assert!(report["bytes_per_peer_max"].as_u64() <= Some(512));
}

#[test]
fn a_trace_is_the_same_twice() {
    let trace = || {
        let output = ferry(&["sim", "soak", "--first", "10", "--seeds", "1", "--trace"]);
        let lines: Vec<String> = text(&output.stdout).lines().map(str::to_owned).collect();
        // The last two lines say how long it took.
        lines[..lines.len() - 2].to_vec()
    };
    let first = trace();
    assert!(first.len() > 50);
    assert_eq!(first, trace());
}

#[test]
fn mistakes_are_explained() {
    let output = ferry(&["sim", "sok"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("'soak'"), "{}", text(&output.stderr));
    let output = ferry(&["sim", "soak", "--bug", "nothing"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("wildcard-order"), "{}", text(&output.stderr));
}

#[test]
fn the_bare_machine_is_measured_without_any_peer() {
    if !is_full() {
        return;
    }
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        return; // An exchange needs two processors.
    }
    let output = ferry(&["bench", "pingpong", "--peers", "none", "--quick", "--json"]);
    let report = json(&output);
    assert_eq!(report["runs"], 5);
    let rows = report["rows"].as_array().expect("a list");
    for bytes in [0, 8, 4096, 4 << 20] {
        let figure = format!("latency bytes={bytes}");
        let row = rows.iter().find(|row| row["figure"] == figure.as_str()).expect("the row");
        assert!(row["medians"]["bare"].as_f64() > Some(0.0), "{row}");
        assert_eq!(row["runs"]["bare"].as_array().map(Vec::len), Some(5));
    }
}

#[test]
fn a_comparison_takes_at_least_five_runs() {
    let output = ferry(&["bench", "wait", "--runs", "4"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("4 is not in 5.."), "{}", text(&output.stderr));
}

#[test]
fn a_comparison_with_nobody_has_not_measured_anything() {
    if !is_full() {
        return;
    }
    let output = ferry(&["bench", "wait", "--peers", "/nowhere", "--quick"]);
    if text(&output.stdout).contains("ferrywire is left out") {
        assert_eq!(output.status.code(), Some(2));
    }
    assert!(text(&output.stdout).contains("mpich is left out"), "{}", text(&output.stdout));
}
