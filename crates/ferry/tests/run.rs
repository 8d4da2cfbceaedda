//! `ferry run` as a user calls it: what it starts, what it prints, how it exits, what it leaves behind.
//!
//! Programs are small shell scripts. A rank that has to join is this test program itself, started once
//! more as `member`.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use ferrywire_host::{bootstrap, job};

const FERRY: &str = env!("CARGO_BIN_EXE_ferry");

/// No test waits longer than this for anything.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Whether tests shall do all that they can, as CI does. Without `FULL` in the environment they leave out what takes long.
fn is_full() -> bool {
    std::env::var_os("FULL").is_some()
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(FERRY);
    command.arg("run").args(arguments).stdin(Stdio::null());
    command
}

fn run(arguments: &[&str]) -> Output {
    finish(command(arguments))
}

/// Runs a job of which each rank runs the script.
fn shell(ranks: &str, script: &str) -> Output {
    run(&["-n", ranks, "sh", "-c", script])
}

/// Runs a command to its end, under a watchdog.
fn finish(mut command: Command) -> Output {
    let child =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("ferry starts");
    watched(child)
}

/// Waits for the end of a job; one that does not end is killed, and the test fails.
fn watched(child: Child) -> Output {
    let pid = child.id();
    let waiter = thread::spawn(move || child.wait_with_output().expect("an end"));
    let until = Instant::now() + TIMEOUT;
    while !waiter.is_finished() {
        if Instant::now() > until {
            signal(pid, "KILL");
            panic!("the job has not ended");
        }
        thread::sleep(Duration::from_millis(2));
    }
    waiter.join().expect("no panic")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn out(output: &Output) -> String {
    text(&output.stdout)
}

fn err(output: &Output) -> String {
    text(&output.stderr)
}

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

fn signal(pid: u32, name: &str) {
    let sent = Command::new("kill").args([format!("-{name}"), pid.to_string()]).status();
    assert!(sent.expect("kill runs").success());
}

/// Whether a process is gone, or is a zombie that its parent has not reaped yet.
fn is_gone(pid: u32) -> bool {
    match fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim().starts_with('Z')),
        Err(_) => true,
    }
}

fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + TIMEOUT;
    while !holds() {
        assert!(Instant::now() < until, "never: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// A launcher that is killed if its test fails.
struct Launcher(Child);

impl Drop for Launcher {
    fn drop(&mut self) {
        // Fails if it has ended, as it should have.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A job that is running, and what it prints.
struct Running {
    launcher: Launcher,
    out: BufReader<ChildStdout>,
}

impl Running {
    fn new(arguments: &[&str]) -> Running {
        let mut command = command(arguments);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("ferry starts");
        let out = BufReader::new(child.stdout.take().expect("a pipe"));
        Running { launcher: Launcher(child), out }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.out.read_line(&mut line).expect("a line");
        line.trim_end().to_owned()
    }

    /// Reads `count` lines with a number each.
    fn numbers(&mut self, count: usize) -> Vec<u32> {
        (0..count).map(|_| self.line().parse().expect("a number")).collect()
    }

    fn pid(&self) -> u32 {
        self.launcher.0.id()
    }

    /// Waits until the reaper has set its name.
    fn wait_for_reaper(&self) -> u32 {
        eventually("there is a reaper", || self.reaper().is_some());
        self.reaper().expect("a reaper")
    }

    fn reaper(&self) -> Option<u32> {
        let pid = self.pid();
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
        let is_reaper = |child: &u32| {
            fs::read_to_string(format!("/proc/{child}/comm"))
                .is_ok_and(|comm| comm == "ferry-reaper\n")
                && !is_gone(*child)
        };
        children.split_whitespace().filter_map(|word| word.parse().ok()).find(is_reaper)
    }

    fn end(mut self) -> Output {
        let pid = self.pid();
        let watchdog = thread::spawn(move || {
            let until = Instant::now() + TIMEOUT;
            while !is_gone(pid) {
                if Instant::now() > until {
                    signal(pid, "KILL");
                }
                thread::sleep(Duration::from_millis(5));
            }
        });
        let mut stdout = Vec::new();
        self.out.read_to_end(&mut stdout).expect("read to the end");
        let mut stderr = Vec::new();
        let mut pipe = self.launcher.0.stderr.take().expect("a pipe");
        pipe.read_to_end(&mut stderr).expect("read to the end");
        let status = self.launcher.0.wait().expect("an end");
        watchdog.join().expect("no panic");
        Output { status, stdout, stderr }
    }
}

/// A folder that is removed with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("ferry-run-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder");
        Folder(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().expect("text")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn every_rank_knows_who_it_is_and_a_healthy_job_is_silent() {
    let output = shell("5", "echo $FERRY_RANK of $FERRY_SIZE");
    assert_eq!(sorted(&out(&output)), ["0 of 5", "1 of 5", "2 of 5", "3 of 5", "4 of 5"]);
    assert_eq!(err(&output), "");
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn more_ranks_than_cores_are_fine() {
    let output = run(&["-n", "100", "true"]);
    assert_eq!((output.status.code(), err(&output)), (Some(0), String::new()));
}

#[test]
fn several_programs_are_one_job() {
    let script = "echo $0 $FERRY_RANK $FERRY_SIZE";
    let output =
        run(&["-n", "1", "sh", "-c", script, "a", ":", "-n", "2", "sh", "-c", script, "b"]);
    assert_eq!(sorted(&out(&output)), ["a 0 3", "b 1 3", "b 2 3"]);
}

#[test]
fn the_environment_is_exported_and_can_be_changed() {
    let script = "echo $A $B $C $D";
    let mut job =
        command(&["-genv", "B=all", "-x", "C=one", "-env", "D", "two", "sh", "-c", script]);
    job.env("A", "kept");
    assert_eq!(out(&finish(job)), "kept all one two\n");
    let mut job = command(&["-envnone", "-x", "B=1", "/bin/sh", "-c", "echo $A-$B-$FERRY_RANK"]);
    job.env("A", "hidden");
    assert_eq!(out(&finish(job)), "-1-0\n");
}

#[test]
fn an_empty_environment_is_enough() {
    let mut job = command(&["-n", "2", "sh", "-c", "echo $FERRY_RANK"]);
    job.env_clear();
    let output = finish(job);
    assert_eq!(sorted(&out(&output)), ["0", "1"]);
    assert_eq!(err(&output), "");
}

#[test]
fn a_program_starts_in_its_folder() {
    let folder = Folder::new("wdir");
    for option in ["--wdir", "-wdir", "--chdir"] {
        let output = run(&[option, folder.path(), "pwd", "-P"]);
        let expected = fs::canonicalize(folder.path()).expect("there");
        assert_eq!(out(&output).trim_end(), expected.to_str().expect("text"));
    }
    let output = run(&["--wdir", "/no/such/folder", "pwd"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(err(&output).contains("/no/such/folder"));
}

#[test]
fn labels_name_the_rank_of_each_line() {
    let output = run(&["-n", "2", "--label", "sh", "-c", "echo a; echo b >&2"]);
    assert_eq!(sorted(&out(&output)), ["[0] a", "[1] a"]);
    assert_eq!(sorted(&err(&output)), ["[0] b", "[1] b"]);
}

#[test]
fn long_lines_of_two_ranks_are_never_mixed() {
    // Each line repeats one letter, is longer than a pipe takes at once, and is written in pieces.
    let script = r#"
        letter=$(echo ab | cut -c $((FERRY_RANK + 1)))
        piece=$(printf "%1500s" "" | tr " " $letter)
        for line in $(seq 40); do
            for part in 1 2 3 4 5 6; do printf %s $piece; done
            echo
        done"#;
    let output = shell("2", script);
    let text = out(&output);
    assert_eq!(text.lines().count(), 80);
    for line in text.lines() {
        assert_eq!(line.len(), 9000);
        assert!(line.bytes().all(|byte| byte == line.as_bytes()[0]), "mixed: {line}");
    }
}

/// Each of two ranks prints lines that repeat its letter a million times, in pieces, also from two hosts.
#[test]
fn very_long_lines_stay_whole() {
    let folder = Folder::new("long");
    let rsh = rsh(&folder, EVERYWHERE_IS_HERE);
    let script = r#"
        letter=$(echo ab | cut -c $((FERRY_RANK + 1)))
        for line in 1 2 3; do
            for part in 1 2 3 4; do head -c 250000 /dev/zero | tr "\0" $letter; sleep 0.02; done
            echo
        done"#;
    for hosts in [&[][..], &["--rsh", &rsh, "--hosts", "east,west"]] {
        let output = run(&[hosts, &["-n", "2", "sh", "-c", script]].concat());
        let text = out(&output);
        assert_eq!(text.lines().count(), 6, "{}", err(&output));
        for line in text.lines() {
            assert_eq!(line.len(), 1_000_000);
            assert!(line.bytes().all(|byte| byte == line.as_bytes()[0]), "mixed");
        }
        assert_eq!(err(&output), "");
    }
}

#[test]
fn a_line_too_long_to_be_kept_is_noted_once() {
    let script = r#"head -c 9000000 /dev/zero | tr "\0" x; echo"#;
    let output = shell("2", script);
    assert_eq!(output.stdout.iter().filter(|byte| **byte == b'x').count(), 18_000_000);
    let note = " writes a line of more than 4 MiB, which is passed on in pieces";
    assert_eq!(err(&output).matches(note).count(), 1, "{}", err(&output));
}

#[test]
fn the_last_line_needs_no_end_and_bytes_are_kept() {
    let output = run(&["printf", r"a\nb"]);
    assert_eq!(out(&output), "a\nb");
    let output = run(&["sh", "-c", "head -c 3000000 /dev/zero"]);
    assert_eq!(output.stdout.len(), 3_000_000);
    assert!(output.stdout.iter().all(|byte| *byte == 0));
}

#[test]
fn output_goes_to_a_file_for_each_rank() {
    let folder = Folder::new("output");
    let target = format!("{}/deep/er", folder.path());
    let script = "echo out $FERRY_RANK; echo err $FERRY_RANK >&2";
    let output = run(&["-n", "2", "--output", &target, "sh", "-c", script]);
    assert_eq!((out(&output), err(&output)), (String::new(), String::new()));
    for rank in 0..2 {
        let read = |name: &str| fs::read_to_string(format!("{target}/rank.{rank}.{name}"));
        assert_eq!(read("out").expect("written"), format!("out {rank}\n"));
        assert_eq!(read("err").expect("written"), format!("err {rank}\n"));
    }
    let pattern = format!("{}/o.%r", folder.path());
    run(&["-outfile-pattern", &pattern, "echo", "x"]);
    let written = fs::read_to_string(format!("{}/o.0", folder.path()));
    assert_eq!(written.expect("written"), "x\n");
}

fn with_input(arguments: &[&str], input: &str) -> Output {
    let mut command = command(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("ferry starts");
    let mut pipe = child.stdin.take().expect("a pipe");
    let input = input.to_owned();
    let writer = thread::spawn(move || {
        // The job need not read it.
        let _ = pipe.write_all(input.as_bytes());
    });
    let output = watched(child);
    writer.join().expect("no panic");
    output
}

#[test]
fn input_goes_to_rank_0_or_to_whom_it_is_said() {
    let script = "cat | sed s/^/$FERRY_RANK:/";
    let output = with_input(&["-n", "3", "sh", "-c", script], "x\ny\n");
    assert_eq!(out(&output), "0:x\n0:y\n");
    let output = with_input(&["-n", "3", "--stdin", "2", "sh", "-c", script], "x\n");
    assert_eq!(out(&output), "2:x\n");
    let output = with_input(&["-n", "3", "--stdin", "none", "sh", "-c", script], "x\n");
    assert_eq!(out(&output), "");
    let long = "line\n".repeat(20_000);
    let output = with_input(&["-n", "3", "--stdin", "all", "sh", "-c", "wc -c"], &long);
    assert_eq!(sorted(&out(&output)), ["100000"; 3]);
}

#[test]
fn a_job_that_does_not_read_its_input_leaves_it() {
    let script = format!("{FERRY} run -n 2 true; {FERRY} run sh -c 'read x; echo got $x'; cat");
    let mut outer = Command::new("sh");
    outer.args(["-c", &script]).stdin(Stdio::piped());
    outer.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = outer.spawn().expect("a shell");
    child.stdin.take().expect("a pipe").write_all(b"one\ntwo\n").expect("written");
    assert_eq!(out(&watched(child)), "got one\ntwo\n");
}

#[test]
fn a_time_out_ends_the_job() {
    for option in ["--timeout", "-timeout"] {
        let output = run(&["-n", "2", option, "0.1", "sleep", "1000"]);
        assert_eq!(output.status.code(), Some(124));
        assert!(err(&output).contains("longer than 0.1 s"), "{}", err(&output));
        assert!(err(&output).contains("ranks 0-1"), "{}", err(&output));
    }
    assert_eq!(run(&["--timeout", "1000", "true"]).status.code(), Some(0));
}

#[test]
fn the_environment_may_say_the_time_out() {
    let with = |value: &str, arguments: &[&str]| {
        let mut command = command(arguments);
        command.env("MPIEXEC_TIMEOUT", value);
        finish(command)
    };
    let output = with("0.1", &["-n", "2", "sleep", "1000"]);
    assert_eq!(output.status.code(), Some(124), "{}", err(&output));
    assert!(err(&output).contains("longer than 0.1 s"), "{}", err(&output));
    // An option wins.
    assert_eq!(with("0.1", &["--timeout", "1000", "sleep", "0.3"]).status.code(), Some(0));
    let output = with("soon", &["true"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(err(&output).contains("MPIEXEC_TIMEOUT soon"), "{}", err(&output));
}

/// In a job of several programs, each rank learns which one it runs.
#[test]
fn ranks_learn_which_program_they_run() {
    let script = "echo $FERRY_RANK runs $FERRY_PROGRAM";
    let output = run(&[
        "-n", "2", "sh", "-c", script, ":", "-n", "1", "sh", "-c", script, ":", "sh", "-c", script,
    ]);
    let text = out(&output);
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["0 runs 0", "1 runs 0", "2 runs 1", "3 runs 2"]);
}

#[test]
fn the_exit_code_is_that_of_the_first_rank_that_failed() {
    let output = shell("3", "[ $FERRY_RANK = 1 ] && exit 7; sleep 1000");
    assert_eq!(output.status.code(), Some(7));
    let report = err(&output);
    let lines: Vec<&str> = report.lines().collect();
    assert!(lines[0].starts_with("ferry run: rank 1 (pid "), "{report}");
    assert!(lines[0].ends_with("ended with exit code 7 [FW0802]"), "{report}");
    assert_eq!(lines[1], "ferry run: then ranks 0, 2 died of SIGTERM");
    assert_eq!(lines.len(), 2);
}

#[test]
fn a_rank_that_dies_of_a_signal_is_named_by_it() {
    let output = shell("2", "[ $FERRY_RANK = 0 ] && kill -SEGV $$; sleep 1000");
    assert_eq!(output.status.code(), Some(139));
    assert!(err(&output).contains("rank 0"), "{}", err(&output));
    assert!(err(&output).contains("died of SIGSEGV"), "{}", err(&output));
}

#[test]
fn what_a_rank_wrote_comes_before_the_report() {
    let output = shell("1", "echo the reason >&2; exit 3");
    assert!(err(&output).starts_with("the reason\nferry run: rank 0"), "{}", err(&output));
}

#[test]
fn a_rank_that_ignores_the_request_is_killed() {
    let script = "[ $FERRY_RANK = 0 ] && { read x; exit 5; }; trap '' TERM; echo ready; \
                  while :; do sleep 1000; done";
    let mut command = command(&["-n", "2", "sh", "-c", script]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("ferry starts");
    let mut line = String::new();
    let mut reader = BufReader::new(child.stdout.take().expect("a pipe"));
    reader.read_line(&mut line).expect("ready");
    child.stdin.take().expect("a pipe").write_all(b"go\n").expect("written");
    let output = watched(child);
    assert_eq!(output.status.code(), Some(5));
    assert!(err(&output).contains("rank 1 died of SIGKILL"), "{}", err(&output));
}

#[test]
fn signals_are_passed_on() {
    for name in ["USR1", "USR2", "HUP", "TERM", "INT"] {
        let script =
            format!("trap 'echo got; exit 0' {name}; echo ready; while :; do sleep 0.01; done");
        let mut job = Running::new(&["-n", "2", "sh", "-c", &script]);
        assert_eq!((job.line(), job.line()), ("ready".into(), "ready".into()));
        signal(job.pid(), name);
        let output = job.end();
        assert_eq!(out(&output), "got\ngot\n", "{name}: {}", err(&output));
        assert_eq!(output.status.code(), Some(0), "{name}");
    }
}

#[test]
fn an_interrupt_ends_the_job_in_one_line() {
    let mut job = Running::new(&["-n", "2", "sh", "-c", "echo ready; exec sleep 1000"]);
    assert_eq!((job.line(), job.line()), ("ready".into(), "ready".into()));
    signal(job.pid(), "INT");
    let output = job.end();
    assert_eq!(output.status.code(), Some(130));
    assert_eq!(err(&output), "ferry run: ended by SIGINT\n");
}

/// A rank that ignores signals.
const DEAF: &str = "trap '' INT TERM HUP; echo ready; while :; do sleep 0.01; done";

#[test]
fn any_second_signal_kills() {
    for (first, second, code) in [("INT", "INT", 130), ("TERM", "INT", 130), ("INT", "TERM", 143)] {
        let mut job = Running::new(&["sh", "-c", DEAF]);
        assert_eq!(job.line(), "ready");
        signal(job.pid(), first);
        // A signal that comes at once counts as the same request.
        eventually("a second signal ends it", || {
            signal(job.pid(), second);
            thread::sleep(Duration::from_millis(20));
            is_gone(job.pid())
        });
        let output = job.end();
        assert_eq!(output.status.code(), Some(code));
        let said = format!("killed the job at a second signal, SIG{second}");
        assert!(err(&output).contains(&said), "{}", err(&output));
    }
}

#[test]
fn ranks_that_ignore_a_signal_are_killed_after_a_while() {
    if !is_full() {
        return println!("not tested: takes ten seconds, and FULL is not set");
    }
    let mut job = Running::new(&["-n", "2", "sh", "-c", DEAF]);
    assert_eq!((job.line(), job.line()), ("ready".into(), "ready".into()));
    signal(job.pid(), "TERM");
    let output = job.end();
    assert_eq!(output.status.code(), Some(143));
    let said = "ferry run: killed ranks 0-1, still running 10 s after SIGTERM [FW0809]\n";
    assert!(err(&output).starts_with(said), "{}", err(&output));
}

/// `timeout` sends its signal to the launcher and to its group, so that it arrives twice.
#[test]
fn a_signal_that_comes_twice_at_once_is_one_request() {
    let script =
        "trap 'sleep 0.5; echo saved; exit 0' TERM; echo ready; while :; do sleep 0.01; done";
    // Two signals are one request within a tenth of a second, and a busy machine may take longer to send them.
    let told_at_once = (0..10).any(|_| {
        let mut job = Running::new(&["sh", "-c", script]);
        assert_eq!(job.line(), "ready");
        let begun = Instant::now();
        signal(job.pid(), "TERM");
        signal(job.pid(), "TERM");
        let at_once = begun.elapsed() < Duration::from_millis(50);
        let output = job.end();
        if at_once {
            let told = (out(&output), output.status.code());
            assert_eq!(told, ("saved\n".to_owned(), Some(0)));
        }
        at_once
    });
    assert!(told_at_once, "the machine is too slow to send two signals at once");
}

/// Makes a command for `--rsh`, whose arguments are the name of a host and what to run there.
fn rsh(folder: &Folder, script: &str) -> String {
    let rsh = folder.0.join("rsh");
    fs::write(&rsh, format!("#!/bin/sh\n{script}\n")).expect("written");
    fs::set_permissions(&rsh, fs::Permissions::from_mode(0o755)).expect("executable");
    rsh.to_str().expect("text").to_owned()
}

/// Every host is this machine.
const EVERYWHERE_IS_HERE: &str = r#"shift; exec "$@""#;

#[test]
fn ranks_of_several_hosts_that_ignore_a_signal_are_killed_after_a_while() {
    if !is_full() {
        return println!("not tested: takes ten seconds, and FULL is not set");
    }
    let folder = Folder::new("deaf");
    let rsh = rsh(&folder, EVERYWHERE_IS_HERE);
    let mut job =
        Running::new(&["--rsh", &rsh, "--hosts", "east,west", "-n", "2", "sh", "-c", DEAF]);
    assert_eq!((job.line(), job.line()), ("ready".into(), "ready".into()));
    signal(job.pid(), "TERM");
    let output = job.end();
    assert_eq!(output.status.code(), Some(143));
    let said = err(&output);
    assert!(said.contains("still running 10 s after SIGTERM, on "), "{said}");
}

#[test]
fn a_signal_ends_a_job_whose_hosts_are_not_reached() {
    let folder = Folder::new("unreached");
    let rsh = rsh(&folder, "echo reached > $0.log; exec sleep 1000");
    let job = Running::new(&["--rsh", &rsh, "--hosts", "east,west", "-n", "2", "true"]);
    eventually("it is connecting", || fs::metadata(format!("{rsh}.log")).is_ok());
    signal(job.pid(), "TERM");
    let output = job.end();
    assert_eq!(output.status.code(), Some(143));
    assert!(err(&output).contains("before all hosts were reached"), "{}", err(&output));
}

/// A reader that pauses, such as `less`, does not end a job on several hosts: its ranks wait.
#[test]
fn output_that_nobody_reads_for_long_is_not_the_end() {
    let folder = Folder::new("unread");
    let (me, rsh) = (std::env::current_exe().expect("a path"), rsh(&folder, EVERYWHERE_IS_HERE));
    let me = me.to_str().expect("text");
    let mut job = command(&["--rsh", &rsh, "--hosts", "east,west", "-n", "2"]);
    job.args([me, "member", "--exact", "--ignored", "--nocapture"]).env("ROLE", "talkative");
    job.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = job.spawn().expect("ferry starts");
    let mut output = child.stdout.take().expect("a pipe");
    let mut first = [0; 64];
    output.read_exact(&mut first).expect("they talk");
    // Longer than a host may be silent.
    thread::sleep(Duration::from_secs(13));
    let reader = thread::spawn(move || {
        let mut rest = Vec::new();
        output.read_to_end(&mut rest).expect("read to the end");
        rest
    });
    let ended = watched(child);
    assert_eq!(ended.status.code(), Some(0), "{}", err(&ended));
    let shown = [&first[..], &reader.join().expect("no panic")].concat();
    let lines = text(&shown).lines().filter(|line| line.len() == TALK_BYTES).count();
    assert_eq!(lines, 2 * TALK_LINES);
}

/// What a talkative member prints: more than the pipes and the launcher together can hold.
const TALK_LINES: usize = 30_000;
const TALK_BYTES: usize = 200;

#[test]
fn a_reader_that_goes_ends_a_job_on_several_hosts() {
    let folder = Folder::new("gone");
    let rsh = rsh(&folder, EVERYWHERE_IS_HERE);
    let job =
        ["--rsh", &rsh, "--hosts", "east,west", "-n", "2", "sh", "-c", "while echo y; do :; done"];
    let mut job = Running::new(&job);
    assert_eq!(job.line(), "y");
    let Running { mut launcher, out } = job;
    drop(out);
    let pid = launcher.0.id();
    eventually("it ends", || is_gone(pid));
    let mut said = String::new();
    let mut pipe = launcher.0.stderr.take().expect("a pipe");
    pipe.read_to_string(&mut said).expect("text");
    assert!(said.contains("SIGPIPE") || said.contains("Broken pipe"), "{said}");
}

#[test]
fn this_machine_is_here_whatever_it_is_called() {
    let folder = Folder::new("here");
    let list = folder.0.join("hosts");
    let name = fs::read_to_string("/proc/sys/kernel/hostname").expect("a name");
    fs::write(&list, format!("localhost slots=2\n{} slots=1\n", name.trim())).expect("written");
    let list = list.to_str().expect("text");
    let here = ["sh", "-c", "echo $FERRY_SIZE"];
    for (options, size) in [
        (&["--hostfile", list][..], "3"),
        (&["--hosts", "127.0.0.1:2"], "2"),
        (&["--hosts", name.trim()], "1"),
        (&["-N", "2"], "2"),
        (&["--hostfile", list, "-np", "4"], "4"),
    ] {
        // The job would fail if it called `rsh`.
        let output = run(&[&["--rsh", "false"], options, &here].concat());
        assert_eq!(output.status.code(), Some(0), "{options:?}: {}", err(&output));
        let expected = vec![size; size.parse().expect("a number")];
        assert_eq!(sorted(&out(&output)), expected, "{options:?}");
    }
    // The same among other hosts.
    let rsh = rsh(&folder, r#"[ $1 = east ] || exit 127; shift; exec "$@""#);
    let output = run(&[&["--rsh", &rsh, "--hosts", "localhost,east"][..], &here].concat());
    assert_eq!(sorted(&out(&output)), ["2", "2"], "{}", err(&output));
}

#[test]
fn a_stopped_job_goes_on() {
    let mut job = Running::new(&["sh", "-c", "echo $$; read x; exec sleep 1000"]);
    let rank = job.numbers(1)[0];
    let state = |pid: u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(')').and_then(|(_, rest)| rest.trim().chars().next())
    };
    let launcher = job.pid();
    signal(launcher, "TSTP");
    eventually("the launcher stops", || state(launcher) == Some('T'));
    eventually("the rank stops", || state(rank) == Some('T'));
    signal(launcher, "CONT");
    eventually("the rank goes on", || state(rank) != Some('T'));
    signal(launcher, "INT");
    assert_eq!(job.end().status.code(), Some(130));
}

#[test]
fn a_killed_launcher_leaves_no_process() {
    // Each rank has two children that would outlive it; one of them has left its process group.
    let script = "sleep 1000 & echo $!; setsid sh -c 'echo $$; exec sleep 1000' & echo $$; wait";
    let mut job = Running::new(&["-n", "3", "sh", "-c", script]);
    let pids = job.numbers(9);
    let reaper = job.wait_for_reaper();
    signal(job.pid(), "KILL");
    for pid in pids {
        eventually("all are gone", || is_gone(pid));
    }
    eventually("the reaper is gone", || is_gone(reaper));
    assert_eq!(job.end().status.signal(), Some(9));
}

#[test]
fn a_killed_reaper_is_replaced() {
    let mut job = Running::new(&["-n", "2", "sh", "-c", "sleep 1000 & echo $!; echo $$; wait"]);
    let pids = job.numbers(4);
    let first = job.wait_for_reaper();
    signal(first, "KILL");
    eventually("there is another", || job.reaper().is_some_and(|reaper| reaper != first));
    assert!(pids.iter().all(|pid| !is_gone(*pid)));
    signal(job.pid(), "KILL");
    for pid in pids {
        eventually("the second reaper knows them all", || is_gone(pid));
    }
    job.end();
}

#[test]
fn reapers_that_are_killed_without_end_end_the_job() {
    let mut job = Running::new(&["sh", "-c", "echo $$; exec sleep 1000"]);
    let rank = job.numbers(1)[0];
    eventually("the launcher gives up", || {
        if let Some(reaper) = job.reaper() {
            let _ = Command::new("kill").args(["-KILL", &reaper.to_string()]).output();
        }
        is_gone(rank)
    });
    let output = job.end();
    assert_eq!(output.status.code(), Some(1));
    let said = err(&output);
    assert!(said.contains("guards the job") && said.contains("[FW0811]"), "{said}");
}

#[test]
fn a_grandchild_that_keeps_the_output_open_is_not_waited_for() {
    let output = shell("2", "sleep 1000 & echo $!");
    assert_eq!(output.status.code(), Some(0));
    for line in out(&output).lines() {
        assert!(is_gone(line.parse().expect("a number")));
    }
}

#[test]
fn a_grandchild_that_left_its_group_is_found() {
    let folder = Folder::new("escaped");
    let file = format!("{}/pid", folder.path());
    let script = "setsid sh -c 'echo $$ > $0.new; mv $0.new $0; exec sleep 1000' $0 & \
                  until [ -s $0 ]; do sleep 0.01; done";
    let output = run(&["sh", "-c", script, &file]);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    let escaped = fs::read_to_string(&file).expect("written");
    assert!(is_gone(escaped.trim().parse().expect("a number")));
}

#[test]
fn a_reader_that_goes_ends_the_job() {
    let mut job = Running::new(&["-n", "2", "yes"]);
    assert_eq!(job.line(), "y");
    let Running { mut launcher, out: reader } = job;
    drop(reader);
    let mut report = String::new();
    launcher.0.stderr.take().expect("a pipe").read_to_string(&mut report).expect("read");
    assert_eq!(launcher.0.wait().expect("an end").code(), Some(141), "{report}");
}

#[test]
fn a_program_that_cannot_be_started_is_one_sentence() {
    let said = |arguments: &[&str]| {
        let output = run(arguments);
        assert_eq!(err(&output).lines().count(), 1, "{}", err(&output));
        (output.status.code(), err(&output))
    };
    let (code, report) = said(&["-n", "4", "./no/such"]);
    assert!(code == Some(127) && report.contains("no/such"), "{report}");
    let (code, report) = said(&["no-such-program"]);
    assert!(code == Some(127) && report.contains("in PATH"), "{report}");
    let (code, report) = said(&["/etc/passwd"]);
    assert!(code == Some(126) && report.contains("/etc/passwd"), "{report}");
    let folder = Folder::new("unfit");
    let file = format!("{}/unfit", folder.path());
    fs::write(&file, "#!/no/such/interpreter\n").expect("written");
    Command::new("chmod").args(["+x", &file]).status().expect("chmod runs");
    let (code, report) = said(&["-n", "2", &file]);
    assert!(code == Some(126) && report.contains(&file), "{report}");
    let (code, report) = said(&["-n", "2"]);
    assert!(code == Some(2) && report.contains("no program"), "{report}");
    let (code, report) = said(&["--lable", "true"]);
    assert!(code == Some(2) && report.contains("--label"), "{report}");
}

#[test]
fn a_dry_run_starts_nothing() {
    let output = run(&[
        "--dry-run",
        "-n",
        "2",
        "-x",
        "A=b c",
        "sh",
        "-c",
        "exit 3",
        ":",
        "-wdir",
        "/",
        "true",
    ]);
    assert_eq!(output.status.code(), Some(0));
    let told = out(&output);
    assert!(told.contains("ranks 0-1: ") && told.contains("sh -c 'exit 3'"), "{told}");
    assert!(told.contains("with A='b c'") && told.contains("rank 2: "), "{told}");
    assert!(told.contains("in /\n"), "{told}");
}

#[test]
fn it_answers_to_the_names_of_others() {
    let folder = Folder::new("names");
    for name in ["mpiexec", "mpirun"] {
        let link = folder.0.join(name);
        std::os::unix::fs::symlink(FERRY, &link).expect("a link");
        let mut command = Command::new(&link);
        command.args(["--bind-to", "core", "--mca", "btl", "self", "--oversubscribe", "-np", "2"]);
        command.args(["sh", "-c", "echo $FERRY_RANK"]).stdin(Stdio::null());
        let output = finish(command);
        assert_eq!(sorted(&out(&output)), ["0", "1"]);
        assert_eq!(
            err(&output),
            "ferry run: ignored, no meaning here: --bind-to, --mca\n",
            "one note for all"
        );
    }
}

#[test]
fn a_launcher_says_whose_it_is() {
    let said = out(&run(&["--version"]));
    assert!(said.starts_with("Ferrywire ") && said.contains("MPI 5.0"), "{said}");
}

#[test]
fn help_is_printed() {
    for arguments in [&["--help"][..], &["-h"], &["-n", "2", "-help"]] {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(0));
        assert!(out(&output).contains("--timeout SECONDS"));
    }
    let list = Command::new(FERRY).arg("--help").output().expect("ferry starts");
    assert!(out(&list).contains("run"));
}

/// A program that asks a question.
const ASKS: &str = r#"if [ $FERRY_RANK = 0 ]; then printf "how many? "; read n; echo got $n; fi"#;

/// A program that prints through another one, which buffers as the C library does.
const BUFFERS: &str =
    r#"if [ $FERRY_RANK = 0 ]; then (echo begun; read n; echo got $n) | tr x y; fi"#;

/// Runs a job on a terminal, which script(1) makes. Sends `typed` when `until` has been shown.
fn on_a_terminal(program: &str, options: &str, until: &str, typed: &str) -> Option<String> {
    let mut job = Command::new("script");
    job.args(["-qec", &format!("{FERRY} run -n 2 {options} sh -c '{program}'"), "/dev/null"]);
    job.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let Ok(child) = job.spawn() else {
        eprintln!("not tested: there is no command 'script' to make a terminal");
        return None;
    };
    let mut terminal = Launcher(child);
    let mut input = terminal.0.stdin.take().expect("a pipe");
    let mut output = terminal.0.stdout.take().expect("a pipe");
    let mut shown = Vec::new();
    let mut byte = [0];
    while output.read(&mut byte).is_ok_and(|count| count == 1) {
        shown.push(byte[0]);
        if text(&shown).ends_with(until) {
            input.write_all(typed.as_bytes()).expect("typed");
        }
    }
    Some(text(&shown))
}

#[test]
fn a_question_on_a_terminal_is_shown_and_answered() {
    let Some(shown) = on_a_terminal(ASKS, "", "how many? ", "5\n") else { return };
    assert!(shown.contains("got 5"), "{shown}");
    let Some(shown) = on_a_terminal(ASKS, "--label", "how many? ", "5\n") else { return };
    assert!(shown.contains("\x1b[31m[0]\x1b[0m how many? "), "{shown}");
    let Some(shown) = on_a_terminal(ASKS, "--label -x A=1", "how many? ", "\x03") else { return };
    assert!(shown.contains("ended by SIGINT"), "{shown}");
}

#[test]
fn on_a_terminal_a_line_is_shown_at_once_and_as_it_is() {
    let Some(shown) = on_a_terminal(BUFFERS, "--timeout 30", "begun\r\n", "5\n") else { return };
    assert!(shown.contains("begun\r\n") && shown.contains("got 5\r\n"), "{shown:?}");
    assert!(!shown.contains("\r\r"), "{shown:?}");
}

/// Runs a job whose ranks are this program, in the role `role`.
fn members(ranks: &str, role: &str) -> Output {
    let me = std::env::current_exe().expect("a path");
    let me = me.to_str().expect("text");
    let mut job = command(&["-n", ranks, me, "member", "--exact", "--ignored", "--nocapture"]);
    job.env("ROLE", role);
    finish(job)
}

/// A rank, for the tests below.
#[test]
#[ignore = "is started by other tests, as a rank"]
fn member() {
    let read = |name: &str| std::env::var(name).ok();
    let Some(role) = read("ROLE") else { return };
    let rank = read("FERRY_RANK").expect("started by ferry run");
    if role == "absent" && rank == "1" {
        std::process::exit(0);
    }
    let join = || {
        let invited = bootstrap::from_environment(read).expect("invited");
        invited.join(job::this_process())
    };
    let (member, _segment, line) = match join() {
        Ok(joined) => joined,
        Err(error) => {
            eprintln!("rank {rank} hears: {error}");
            std::process::exit(9);
        }
    };
    println!("member {} of {}, oversubscribed {}", member.rank, member.size, member.oversubscribed);
    match role.as_str() {
        "abort" if rank == "2" => {
            line.abort(42, "the grid is empty").expect("said");
            thread::sleep(TIMEOUT);
        }
        "unfinished" if rank == "1" => std::process::exit(0),
        "talkative" => {
            let line = "x".repeat(TALK_BYTES);
            (0..TALK_LINES).for_each(|_| println!("{line}"));
        }
        "twice" => eprintln!("{}", join().expect_err("refused")),
        "abort" | "unfinished" => thread::sleep(TIMEOUT),
        _ => {}
    }
    line.goodbye().expect("said");
    std::process::exit(0);
}

#[test]
fn members_meet_and_part() {
    let output = members("200", "plain");
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    assert_eq!(err(&output), "");
    for rank in [0, 99, 199] {
        assert!(out(&output).contains(&format!("member {rank} of 200, oversubscribed true")));
    }
}

#[test]
fn an_abort_ends_the_job_with_its_code_and_text() {
    let output = members("3", "abort");
    assert_eq!(output.status.code(), Some(42));
    let report = err(&output);
    assert!(report.starts_with("ferry run: rank 2 (pid "), "{report}");
    assert!(report.contains("with code 42: the grid is empty"), "{report}");
}

#[test]
fn a_rank_that_never_joins_ends_the_job() {
    let output = members("3", "absent");
    assert_eq!(output.status.code(), Some(1));
    let report = err(&output);
    assert!(report.contains("ended (exit code 0) without joining, and rank"), "{report}");
    assert!(report.contains("rank 1 (pid "), "{report}");
}

#[test]
fn a_rank_that_ends_without_a_goodbye_ends_the_job() {
    let output = members("3", "unfinished");
    assert_eq!(output.status.code(), Some(1));
    assert!(err(&output).contains("rank 1 (pid "), "{}", err(&output));
    assert!(err(&output).contains("without finalising"), "{}", err(&output));
}

#[test]
fn a_second_join_is_refused_and_harms_nobody() {
    let output = members("2", "twice");
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    assert!(err(&output).contains("rank 0 has already joined as pid "), "{}", err(&output));
    assert!(err(&output).contains("rank 1 has already joined as pid "), "{}", err(&output));
}

#[test]
fn without_memory_for_the_members_the_user_hears_why_once() {
    let me = std::env::current_exe().expect("a path");
    let mut job = Command::new("sh");
    // A limit on the size of files also limits the job's memory, and must not crash the launcher.
    let script = "ulimit -f 0; exec \"$0\" run -n 2 \"$1\" member --exact --ignored --nocapture";
    job.args(["-c", script, FERRY]).arg(me).env("ROLE", "plain").stdin(Stdio::null());
    let output = finish(job);
    assert_eq!(output.status.code(), Some(1), "{}", err(&output));
    let report = err(&output);
    let why = "the limit on the size of files is lower (ulimit -f)";
    assert_eq!(report.matches(why).count(), 1, "{report}");
    assert!(report.starts_with("ferry run: cannot share ") && !report.contains("-v"), "{report}");
    assert!(report.contains(" [FW0807]\n"), "{report}");
}

#[test]
fn input_for_a_rank_that_is_not_there_is_a_mistake() {
    let output = run(&["-n", "2", "--stdin", "2", "true"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(err(&output).contains("no rank 2 in a job of 2"), "{}", err(&output));
}

#[test]
fn a_parent_that_ignores_its_children_does_not_confuse_us() {
    let mut job = Command::new("sh");
    job.args(["-c", "trap '' CHLD; exec \"$0\" run -n 3 sh -c 'exit $FERRY_RANK'", FERRY]);
    let code = finish(job).status.code();
    assert!(matches!(code, Some(1 | 2)), "{code:?}");
}

#[test]
fn a_signal_that_our_parent_ignores_is_ignored() {
    let mut job = Command::new("sh");
    let script = "trap '' HUP; exec \"$0\" run sh -c 'echo ready; read x; echo done'";
    job.args(["-c", script, FERRY]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = job.stderr(Stdio::piped()).spawn().expect("a shell");
    let pid = child.id();
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    assert_eq!(lines.next().expect("a line").expect("text"), "ready");
    signal(pid, "HUP");
    child.stdin.take().expect("a pipe").write_all(b"go\n").expect("written");
    assert_eq!(lines.next().expect("a line").expect("text"), "done");
    assert_eq!(watched(child).status.code(), Some(0));
}
