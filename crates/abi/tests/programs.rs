//! C programs in `c/`, run by `ferry run` on a few ranks. Each checks its results and exits with 1 on an error.

mod common;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use common::{Folder, engine, ferry, is_full, library, other_header};

const PROGRAMS: &[&str] = &[
    "hello",
    "ring",
    "datatypes",
    "datatype_forms",
    "messages",
    "message_forms",
    "cancelled",
    "collectives",
    "collective_forms",
    "objects",
    "queries",
    "topologies",
    "windows",
    "window_forms",
    "crossed",
    "epochs",
    "atomicity",
    "files",
    "file_forms",
    "tool",
    "events",
    "planes",
    "lifetimes",
    "handlers",
    "making",
    "numbers",
    "sessions",
    "processes",
];

/// The limit for unexpected messages in a queue.
const BUDGET_KILOBYTES: u64 = 16 << 10;

/// One rank, a pair, and more ranks than this machine may have cores.
const RANKS: &[u32] = &[1, 2, 5];

#[test]
fn programs_run_on_any_number_of_ranks() {
    let folder = Folder::new("programs");
    for name in PROGRAMS {
        let program = compiled(ferry_cc(), name, &folder);
        for ranks in RANKS {
            let output = run(&program, *ranks);
            succeeded(&output, name);
            let text = String::from_utf8_lossy(&output.stdout);
            text.lines()
                .filter(|line| line.starts_with("not tested"))
                .for_each(|line| println!("{line}"));
        }
    }
}

/// A launcher is started when it is first needed.
#[test]
fn a_program_without_a_launcher_starts_programs() {
    let folder = Folder::new("alone");
    let program = compiled(ferry_cc(), "processes", &folder);
    let output = Command::new(&program).output().expect("it starts");
    succeeded(&output, "processes");
}

/// Where the system does not let processes reach each other's memory, their NICs do.
#[test]
fn windows_need_no_permission_of_the_system() {
    let folder = Folder::new("aloof");
    let program = compiled(ferry_cc(), "windows", &folder);
    let aloof = aloof(&folder);
    for ranks in RANKS {
        succeeded(&run_with(&program, *ranks, &[&aloof], &[]), "windows");
    }
}

/// Accesses that the NIC of the target refuses, which sees them only where the system does not let processes reach each
/// other's memory.
#[test]
fn refused_accesses_are_events() {
    let folder = Folder::new("refusals");
    let program = compiled(ferry_cc(), "events", &folder);
    let aloof = aloof(&folder);
    for ranks in [2, 5] {
        succeeded(&run_with(&program, ranks, &[&aloof], &["refusals"]), "events");
    }
}

/// A command that runs programs whose processes may not reach each other's memory.
fn aloof(folder: &Folder) -> String {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/tools/aloof.c");
    let aloof = folder.join("aloof");
    let mut compiler = Command::new("cc");
    let output = compiler.arg("-o").arg(&aloof).arg(source).output().expect("a compiler of C");
    succeeded(&output, "aloof");
    aloof.to_str().expect("a path of ours").to_owned()
}

/// Puts raise them, and they start operations. They are ours alone, so that MPICH cannot compile the program.
#[test]
fn counters_of_windows_are_raised() {
    let folder = Folder::new("counters");
    let program = compiled(ferry_cc(), "counters", &folder);
    for ranks in RANKS {
        succeeded(&run(&program, *ranks), "counters");
    }
}

/// Functions of the program that the NIC calls, from C.
#[test]
fn active_messages_are_handled() {
    let folder = Folder::new("active");
    let program = compiled(ferry_cc(), "active", &folder);
    for ranks in RANKS {
        succeeded(&run(&program, *ranks), "active");
    }
}

/// User code on the NIC, from C.
#[test]
fn modules_are_loaded_and_used() {
    if !is_full() {
        println!("not tested: the module engine takes minutes to build, and FULL is not set");
        return;
    }
    engine();
    let folder = Folder::new("modules");
    for name in ["modules", "nic_operators"] {
        let program = compiled(ferry_cc(), name, &folder);
        for ranks in RANKS {
            succeeded(&run(&program, *ranks), name);
        }
    }
}

/// More collectives than there are instances, and errors that only one rank finds.
#[test]
fn collectives_are_told_apart() {
    let folder = Folder::new("instances");
    let program = compiled(ferry_cc(), "instances", &folder);
    for ranks in [2, 4] {
        succeeded(&run(&program, ranks), "instances");
    }
}

/// A waiting thread runs the operators of reductions in other planes. A preloaded library sets the number of cores.
#[test]
fn operators_run_whichever_plane_a_rank_waits_in() {
    let folder = Folder::new("operators");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/tools/cores.c");
    let cores = folder.join("libcores.so");
    let mut compiler = ferry_cc();
    compiler.args(["-shared", "-fPIC", "-std=c99", "-Wall", "-Wextra", "-Werror", "-o"]);
    succeeded(&compiler.arg(&cores).arg(&source).output().expect("a compiler"), "cores");
    let program = compiled(ferry_cc(), "operators", &folder);
    for preload in [None, Some(cores.as_path())] {
        succeeded(&run_in(preload, &program, 4, &[], &[]), "operators");
    }
}

/// Four ranks are the fewest that form rows and columns.
#[test]
fn communicators_are_made_at_the_same_time() {
    let folder = Folder::new("making");
    succeeded(&run(&compiled(ferry_cc(), "making", &folder), 4), "making");
}

#[test]
fn every_rank_says_hello() {
    let folder = Folder::new("hello");
    let output = run(&compiled(ferry_cc(), "hello", &folder), 3);
    succeeded(&output, "hello");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["hello from 0 of 3", "hello from 1 of 3", "hello from 2 of 3"]);
}

/// Limits are those of the launcher, of the environment, or of control variables, and else those of the library.
#[test]
fn limits_are_set_for_all_ranks() {
    let folder = Folder::new("limits");
    let program = compiled(ferry_cc(), "limits", &folder);
    let limits = |options: &[&str], wanted: &[&str]| {
        succeeded(&run_with(&program, 3, options, wanted), &options.join(" "));
    };
    limits(&[], &["8192", "65536", "16777216"]);
    limits(&["--limit", "eager=0,budget=64K"], &["0", "43690", "65536"]);
    limits(&["--limit", "eager=32K", "--limit", "credit=1K"], &["32768", "1024", "16777216"]);
    limits(&["-genv", "FERRY_LIMIT=budget=32M"], &["8192", "65536", "33554432"]);
    limits(&["--limit", "eager=32K"], &["write", "ferrywire_credit_bytes", "2048"]);
    limits(&[], &["write", "ferrywire_eager_bytes_max", "100"]);
    limits(&[], &["refuse", "ferrywire_eager_bytes_max", "32769"]);
}

#[test]
fn ranks_with_different_limits_do_not_start() {
    let folder = Folder::new("other-limits");
    let program = compiled(ferry_cc(), "limits", &folder);
    let path = program.to_str().expect("text");
    let second = [":", "-n", "1", "-x", "FERRY_TEST_RANK=1", path, "differ"];
    let output = run_with(&program, 1, &[], &[["differ"].as_slice(), &second].concat());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{said}");
    assert!(said.contains("set the same for all ranks"), "{said}");
    assert!(said.contains("[FW0716]"), "{said}");
}

/// Messages sent before MPI_Finalize arrive, even if no request is left to wait for them.
#[test]
fn what_was_sent_before_the_end_arrives() {
    let folder = Folder::new("finalize");
    let program = compiled(ferry_cc(), "finalize", &folder);
    for what in ["buffered", "attached", "freed", "collective"] {
        let sizes = ["1000", "100000", "67108864"];
        for bytes in &sizes[..if is_full() { 3 } else { 2 }] {
            succeeded(&run_with(&program, 2, &[], &[what, bytes]), &format!("{what} {bytes}"));
        }
    }
    succeeded(&run_with(&program, 2, &[], &["many", "60000"]), "many");
    succeeded(&run_with(&program, 2, &[], &["unmatched", "1000"]), "unmatched");
    let output = run_with(&program, 2, &["--on-death", "continue"], &["dead", "67108864"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{said}");
}

/// What a process learns about its start: the number of its program among several, the same before MPI_Init as after.
#[test]
fn programs_learn_how_they_were_started() {
    let folder = Folder::new("started");
    let program = compiled(ferry_cc(), "started", &folder);
    let path = program.to_str().expect("text");
    let two = [["0", ":", "-n", "2", path, "1", ":"].as_slice(), &["-n", "1", path, "2"]].concat();
    succeeded(&run_with(&program, 1, &[], &two), "started");
}

/// A process that opens sessions without MPI_Init leaves its job when it exits, if it has closed them all. One that has
/// left with MPI_Finalize cannot come back.
#[test]
fn sessions_begin_and_end_without_the_world() {
    let folder = Folder::new("sessions");
    let program = compiled(ferry_cc(), "sessions", &folder);
    for ranks in [1, 4] {
        succeeded(&run_with(&program, ranks, &[], &["alone"]), "alone");
    }
    succeeded(&run_with(&program, 2, &[], &["late"]), "late");
    let output = run_with(&program, 2, &[], &["open"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{said}");
    assert!(said.contains("without finalising"), "{said}");
}

/// Partitioned messages, also from several threads.
#[test]
fn partitions_arrive_when_they_are_ready() {
    let folder = Folder::new("partitioned");
    let mut compiler = ferry_cc();
    compiler.arg("-pthread");
    let program = compiled(compiler, "partitioned", &folder);
    for ranks in RANKS {
        succeeded(&run(&program, *ranks), "partitioned");
    }
}

/// A communicator does not keep a large work space of its last collective.
#[test]
fn large_collectives_give_their_memory_back() {
    let folder = Folder::new("memory");
    succeeded(&run(&compiled(ferry_cc(), "memory", &folder), 2), "memory");
}

/// A leak checker finds no leaks of this library.
#[test]
fn nothing_is_lost_when_a_program_ends() {
    if Command::new("valgrind").arg("--version").output().is_err() {
        println!("not tested: no valgrind");
        return;
    }
    let folder = Folder::new("lost");
    let program = compiled(ferry_cc(), "hello", &folder);
    let memcheck = Path::new("valgrind");
    let path = program.to_str().expect("text");
    let kinds = "--errors-for-leak-kinds=definite";
    let arguments = ["--leak-check=full", kinds, "--error-exitcode=9", path];
    succeeded(&run_with(memcheck, 2, &[], &arguments), "hello");
}

/// A forked child of a rank may make queries, exec and exit; calls that drive the job are refused.
#[test]
fn children_of_a_rank_do_not_speak_for_it() {
    let folder = Folder::new("forks");
    let program = compiled(ferry_cc(), "forks", &folder);
    for ranks in RANKS {
        succeeded(&run(&program, *ranks), "forks");
    }
}

/// A rank dies, and the others continue.
#[test]
fn survivors_continue() {
    let folder = Folder::new("faults");
    let program = compiled(ferry_cc(), "faults", &folder);
    let output = run_with(&program, 4, &["--on-death", "continue"], &[]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("died of SIGKILL; the job went on without it"), "{said}");
    assert_eq!(
        String::from_utf8_lossy(&output.stdout).trim_end(),
        "MPI_Wait of 4 bytes from any rank, tag 2, in MPI_COMM_WORLD: rank 3 of MPI_COMM_WORLD, a possible sender, has \
         left the job; call MPIX_Comm_ack_failed to continue [FW0703]"
    );
}

/// A deadlock is proved although communicators are in different planes: with one rank on two cores.
#[test]
fn deadlocks_in_several_planes_are_proved() {
    const DEADLOCK: i32 = 35;
    let folder = Folder::new("stuck");
    let program = compiled(ferry_cc(), "stuck", &folder);
    for ranks in [1, 2] {
        for (how, call) in [("receive", "MPI_Recv"), ("any", "MPI_Waitany")] {
            let output = run_with(&program, ranks, &["--timeout", "30"], &[how]);
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(DEADLOCK), "{how}: {said}");
            assert!(
                said.starts_with("ferry run: deadlock: ") && said.contains(call),
                "{how}: {said}"
            );
        }
    }
}

/// The lock of a window whose holder has died is an error for those that want it.
#[test]
fn locks_of_dead_ranks_are_waited_for_in_vain() {
    let folder = Folder::new("dead_holder");
    let program = compiled(ferry_cc(), "dead_holder", &folder);
    let output = run_with(&program, 3, &["--on-death", "continue"], &[]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{said}");
}

/// A rank that ends regularly does not count as dead, also in a job that continues when ranks die.
#[test]
fn ranks_that_have_ended_are_not_dead() {
    let folder = Folder::new("endings");
    let program = compiled(ferry_cc(), "endings", &folder);
    for ranks in [2, 4, 8] {
        succeeded(&run_with(&program, ranks, &["--on-death", "continue"], &[]), "endings");
    }
}

/// Threads of a rank make calls at the same time, and each gets its own results.
#[test]
fn threads_call_at_the_same_time() {
    let folder = Folder::new("threads");
    let mut compiler = ferry_cc();
    compiler.arg("-pthread");
    let program = compiled(compiler, "threads", &folder);
    for ranks in [2, 4] {
        succeeded(&run(&program, ranks), "threads");
    }
}

/// Operations that are posted before a rank sleeps make progress, whatever its agent did before; both where ranks
/// have their own cores and where they share one. Delays are measured on a quiet machine with a limit of 5 ms, as the
/// head of the program says; here the limit is only far below the time that a rank sleeps.
#[test]
fn ranks_do_not_wait_for_one_that_is_away() {
    let folder = Folder::new("wakeups");
    let mut compiler = ferry_cc();
    compiler.arg("-pthread");
    let program = compiled(compiler, "wakeups", &folder);
    let (count, seconds) = if is_full() { ("8", "4") } else { ("3", "1") };
    for (ranks, before) in [(2, &[][..]), (2, &["taskset", "-c", "0"]), (5, &[])] {
        for arguments in [["again", count, "120"], ["random", seconds, "120"]] {
            let output = run_with(&program, ranks, before, &arguments);
            succeeded(&output, &format!("{ranks} ranks, {before:?}: wakeups {arguments:?}"));
        }
    }
}

/// A profiling tool, preloaded or linked before the library, sees the calls of the program.
#[test]
fn a_tool_counts_calls() {
    let folder = Folder::new("profiled");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/tools/counts.c");
    let tool = folder.join("libcounts.so");
    let mut compiler = ferry_cc();
    compiler.args(["-shared", "-fPIC", "-std=c99", "-Wall", "-Wextra", "-Werror", "-o"]);
    succeeded(&compiler.arg(&tool).arg(&source).output().expect("a compiler"), "counts");
    let program = compiled(ferry_cc(), "profiled", &folder);
    let preload = format!("LD_PRELOAD={}", tool.display());
    let loaded = run_with(&program, 3, &["env", &preload], &[]);
    let mut compiler = ferry_cc();
    compiler.arg(&source);
    let linked = run(&compiled(compiler, "profiled", &folder), 3);
    for output in [loaded, linked] {
        succeeded(&output, "profiled");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let mut lines: Vec<&str> = text.lines().collect();
        lines.sort_unstable();
        let said = [
            "rank 0: 6 sends, 0 receives, 1 reductions, level 3",
            "rank 1: 0 sends, 3 receives, 1 reductions, level 3",
            "rank 2: 0 sends, 3 receives, 1 reductions, level 3",
            "the program says hello",
            "the program says hello",
            "the program says hello",
        ];
        assert_eq!(lines, said);
    }
}

/// The texts that a program gets when it makes a mistake. After changing a text, read it as a user would, and
/// regenerate `c/errors.txt`: `BLESS=1 cargo test -p ferrywire-abi --test programs errors`.
#[test]
fn errors_say_what_is_wrong() {
    let folder = Folder::new("errors");
    let output = run(&compiled(ferry_cc(), "errors", &folder), 2);
    succeeded(&output, "errors");
    let said = String::from_utf8(output.stdout).expect("text");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/errors.txt");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, &said).expect("written");
    }
    let expected = std::fs::read_to_string(&path).expect("a list of texts");
    for (said, expected) in said.lines().zip(expected.lines()) {
        assert_eq!(said, expected);
    }
    assert_eq!(said.lines().count(), expected.lines().count());
}

/// What a user sees when no handler handles an error.
#[test]
fn fatal_errors_end_the_job_and_say_why() {
    let folder = Folder::new("fatal");
    let program = compiled(ferry_cc(), "fatal", &folder);
    for (what, code, why) in [
        (
            "rank",
            6,
            "aborted the job with code 6: MPI_Send of 16 bytes to rank 2, tag 3, in MPI_COMM_WORLD: \
             invalid rank; ranks go from 0 to 1 [FW0101]",
        ),
        (
            "truncation",
            15,
            "aborted the job with code 15: MPI_Recv of 4 bytes from rank 0, tag 3, in \
             MPI_COMM_WORLD: the message from rank 0 with tag 3 has 16 bytes, more than the receive buffer holds [FW0104]",
        ),
        ("early", 16, "ferrywire: MPI_Comm_rank: MPI_Init has not been called [FW0005]"),
        ("late", 16, "ferrywire: MPI_Barrier: MPI_Finalize has been called [FW0005]"),
        ("abort", 42, "MPI_Abort was called for MPI_COMM_WORLD with code 42 [FW0801]"),
    ] {
        let output = run_with(&program, 2, &[], &[what]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{what}: {said}");
        assert!(said.contains(why), "{what}: {said}");
    }
}

/// However a job ends, the output of its ranks is shown: whole lines of all, and everything of the one that ended it.
#[test]
fn what_was_printed_before_the_end_is_shown() {
    let folder = Folder::new("lastwords");
    let mut compiler = ferry_cc();
    compiler.arg("-pthread");
    let program = compiled(compiler, "lastwords", &folder);
    for how in ["abort", "error", "input", "assert"] {
        let output = run_with(&program, 3, &[], &[how]);
        assert!(!output.status.success(), "{how}");
        let shown = String::from_utf8_lossy(&output.stdout).into_owned();
        let mut lines: Vec<&str> = shown.lines().collect();
        lines.sort_unstable();
        let all = ["last words", "rank 0 was here", "rank 1 was here", "rank 2 was here"];
        // An assertion ends the process without calling the library.
        assert_eq!(lines, all[usize::from(how == "assert")..], "{how}");
    }
}

/// A rank that does not receive holds no more than its budget, and neither does a sender.
#[test]
fn a_flood_is_held_back() {
    let folder = Folder::new("flood");
    let program = compiled(ferry_cc(), "flood", &folder);
    let output = run_with(&program, 2, &[], &["100000"]);
    succeeded(&output, "flood");
    let text = String::from_utf8_lossy(&output.stdout);
    // "rank 0: before 232 most 1016 after 1016 KB, 2.52 s"
    for (rank, kilobytes_max) in [(0, 4 << 10), (1, BUDGET_KILOBYTES + (2 << 10))] {
        let line = text.lines().find(|line| line.starts_with(&format!("rank {rank}:")));
        let line = line.expect("each rank says what it took");
        let number = |name: &str| -> u64 {
            let rest = line.split_once(name).expect("it is in the line").1;
            rest.split_whitespace().next().and_then(|it| it.parse().ok()).expect("a number")
        };
        let grown = number("most").max(number("after")) - number("before");
        assert!(grown <= kilobytes_max, "{line}");
        // Otherwise nothing was held, and the test shows nothing.
        assert!(rank == 0 || grown > BUDGET_KILOBYTES / 2, "{line}");
    }
}

/// The purpose of a standard ABI: a program compiled and linked with another MPI runs on this one unchanged.
#[test]
fn what_mpich_has_linked_runs_unchanged() {
    let Some(header) = other_header() else {
        println!("not tested: bench/peers/install has not put MPICH on this machine");
        return;
    };
    let folder = Folder::new("theirs");
    let counts = if is_full() { RANKS } else { &[2] };
    let mpicc = header.with_file_name("../bin/mpicc_abi");
    for name in PROGRAMS {
        let program = compiled(Command::new(&mpicc), name, &folder);
        for ranks in counts {
            succeeded(&run(&program, *ranks), name);
        }
    }
}

/// The compiler with our header and library.
fn ferry_cc() -> Command {
    library();
    let mut command = Command::new(ferry());
    command.arg("cc");
    command
}

fn compiled(mut compiler: Command, name: &str, folder: &Folder) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/c/{name}.c"));
    let program = folder.join(name);
    compiler.args(["-std=c99", "-Wall", "-Wextra", "-Werror", "-O1", "-o"]);
    let output = compiler.arg(&program).arg(source).output().expect("a compiler of C");
    succeeded(&output, name);
    program
}

/// Runs a program with our library, which it finds under the standard name. A job that hangs is ended.
fn run(program: &Path, ranks: u32) -> Output {
    run_with(program, ranks, &[], &[])
}

/// The same, behind another command, and with arguments.
fn run_with(program: &Path, ranks: u32, before: &[&str], arguments: &[&str]) -> Output {
    run_in(None, program, ranks, before, arguments)
}

/// The same with a preloaded library, which the launcher loads too.
fn run_in(
    preload: Option<&Path>,
    program: &Path,
    ranks: u32,
    before: &[&str],
    arguments: &[&str],
) -> Output {
    let library = library();
    let home = Folder::new(&format!("{}-{ranks}", program.display().to_string().replace('/', "-")));
    std::os::unix::fs::symlink(library, home.join("libmpi_abi.so.1")).expect("a link");
    let mut job = Command::new(ferry());
    job.args(["run", "--timeout", "60", "-n", &ranks.to_string()]).args(before);
    job.arg(program).args(arguments);
    job.envs(preload.map(|library| ("LD_PRELOAD", library)));
    job.env("LD_LIBRARY_PATH", &home.0).output().expect("ferry starts")
}

fn succeeded(output: &Output, name: &str) {
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{name}: {}\n{out}\n{err}", output.status);
}
