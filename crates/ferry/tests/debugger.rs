//! `--gdb` and `--rank-command` as a user calls them. Terminals are windows of a tmux of the test's own.

mod common;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use common::tmux::{Tmux, is_there};
use common::{Ended, FERRY, Folder, MEMBER, TIMEOUT, finish, me, worker};

/// A rank that communicates: this test program, started once more.
#[test]
#[ignore = "is started by other tests, as a rank"]
fn member() {
    worker::rank();
}

fn run(folder: &Folder, arguments: &[&str]) -> Ended {
    let mut command = Command::new(FERRY);
    command.arg("run").args(arguments).env_remove("DISPLAY").env_remove("TMUX");
    finish(command, folder)
}

#[test]
fn a_command_is_put_around_each_rank() {
    let folder = Folder::new("rank-command");
    let ended = run(
        &folder,
        &[
            "-n",
            "2",
            "--rank-command",
            "env RANK=%r %s",
            "sh",
            "-c",
            "echo $RANK \"$0\" \"$1\"",
            "a",
            "b  c",
        ],
    );
    assert_eq!(ended.status.code(), Some(0), "{}", ended.err);
    let mut lines: Vec<&str> = ended.out.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["0 a b  c", "1 a b  c"]);
    // Within a word, for a shell.
    let command = "sh -c '%s; echo of %r'";
    let ended = run(&folder, &["-n", "1", "--rank-command", command, "echo", "it's", "a  b"]);
    assert_eq!(ended.out, "it's a  b\nof 0\n");
    // The exit code is that of the command.
    let ended = run(&folder, &["-n", "1", "--rank-command", "sh -c '%s; exit 7'", "true"]);
    assert_eq!(ended.status.code(), Some(7), "{}", ended.err);
    // On other hosts, too, which are this machine here.
    fs::write(folder.join("rsh"), "#!/bin/sh\nshift; exec \"$@\"\n").expect("written");
    let rsh = format!("sh {}", folder.join("rsh").display());
    let far = ["--hosts", "far", "--rsh", &rsh, "-n", "2", "--rank-command", "env R=%r %s"];
    let ended = run(&folder, &[&far[..], &["sh", "-c", "echo $R"]].concat());
    assert_eq!(ended.out.len(), "0\n1\n".len(), "{}{}", ended.out, ended.err);
    let ended = run(&folder, &["--dry-run", "--rank-command", "env A='b c' %s", "true"]);
    assert!(ended.out.contains("\n  as env 'A=b c' %s\n"), "{}", ended.out);
}

#[test]
fn mistakes_are_explained() {
    let folder = Folder::new("debugger-mistakes");
    for (line, code, said) in [
        (
            &["--rank-command", "valgrind", "true"][..],
            2,
            "--rank-command valgrind: expected a command line in which %s",
        ),
        (
            &["--rank-command", "nosuch %s", "true"],
            127,
            "--rank-command: cannot find the program nosuch in PATH",
        ),
        (
            &["--rank-commnad", "x %s", "true"],
            2,
            "unknown option --rank-commnad; did you mean --rank-command?",
        ),
        (&["--gdb=4", "-n", "4", "true"], 1, "--gdb=4: no rank 4 in a job of 4"),
        (&["--gdb", "0", "true"], 2, "--gdb 0: expected an equals sign before the ranks: --gdb=0"),
        (&["--gdb=all", "true"], 2, "--gdb all: expected a list of ranks such as 0,2-4"),
        (&["--gdb", "--hosts", "a,b", "true"], 1, "--gdb: the terminals are on this host"),
    ] {
        let ended = run(&folder, line);
        assert_eq!(ended.status.code(), Some(code), "{line:?}: {}", ended.err);
        assert!(ended.err.starts_with(&format!("ferry run: {said}")), "{line:?}: {}", ended.err);
    }
    if !is_there("gdb") {
        return;
    }
    let ended = run(&folder, &["--gdb", "-n", "2", "true"]);
    assert_eq!(ended.status.code(), Some(1));
    assert!(
        ended.err.contains("start the job inside tmux, or debug one rank, such as --gdb=0"),
        "{}",
        ended.err
    );
    let ended = run(&folder, &["--gdb", "-n", "1", "true"]);
    assert!(ended.err.contains("start the job in a terminal"), "{}", ended.err);
}

fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + TIMEOUT;
    while !holds() {
        assert!(Instant::now() < until, "never: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn inside_tmux_each_rank_has_gdb_in_a_window() {
    if !is_there("gdb") || !is_there("tmux") {
        return;
    }
    // A rank that is not named runs as ever.
    let tmux = Tmux::start("gdb-tmux", &format!("{FERRY} run -n 3 --gdb=0,2 sleep 1000"));
    tmux.shows("0", "ranks under gdb wait in windows of tmux for the command `run`");
    assert_eq!(tmux.windows(), ["rank 0", "rank 2"]);
    for window in ["1", "2"] {
        tmux.shows(window, "(gdb)");
    }
    // Ctrl-C reaches the program, as in any terminal.
    tmux.keys("1", "set startup-with-shell off");
    tmux.keys("1", "run");
    tmux.shows("1", "Starting program");
    // Gdb loses one that comes while it starts the program.
    eventually("Ctrl-C stops the program", || {
        tmux.command(&["send-keys", "-t", "job:1", "C-c"]);
        tmux.shown("1").contains("SIGINT")
    });
    // A debugger that is killed takes its window along, and ends the job.
    tmux.keys("1", "kill");
    tmux.keys("1", "y");
    tmux.keys("1", "shell kill -KILL $PPID");
    tmux.shows("0", "code 137");
    eventually("the windows close", || tmux.windows().is_empty());
}

/// A stand-in for xterm: it runs its command in a pseudo-terminal, in which somebody types `quit` again and again.
#[test]
fn with_a_display_each_rank_has_gdb_in_an_xterm() {
    if !is_there("gdb") || !is_there("script") {
        return;
    }
    let folder = Folder::new("gdb-xterm");
    let xterm = folder.join("xterm");
    let script = format!(
        "#!/bin/sh\ntitle=$2; shift 5\nwhile sleep 0.1; do echo quit; done |\nscript -qefc \"$*\" '{}'/\"$title\"\n",
        folder.0.display()
    );
    let written = Command::new("sh")
        .args(["-c", "printf %s \"$1\" >\"$2\" && chmod +x \"$2\"", "sh", &script])
        .arg(&xterm)
        .status();
    assert!(written.is_ok_and(|status| status.success()));
    let mut command = Command::new(FERRY);
    command.args(["run", "-n", "2", "--gdb", "sleep", "1000"]).env_remove("TMUX");
    let path = std::env::var("PATH").expect("a path");
    command.env("DISPLAY", ":0").env("PATH", format!("{}:{path}", folder.0.display()));
    let ended = finish(command, &folder);
    assert_eq!(ended.status.code(), Some(0), "{}", ended.err);
    assert!(ended.err.contains("wait in xterm windows"), "{}", ended.err);
    for rank in ["rank 0", "rank 1"] {
        let shows =
            || fs::read_to_string(folder.join(rank)).is_ok_and(|text| text.contains("(gdb)"));
        eventually(rank, shows);
    }

    // One that fails is an error with its words.
    let failing = "#!/bin/sh\necho \"cannot open display $DISPLAY\" >&2; exit 1\n";
    let written = Command::new("sh")
        .args(["-c", "printf %s \"$1\" >\"$2\"", "sh", failing])
        .arg(&xterm)
        .status();
    assert!(written.is_ok_and(|status| status.success()));
    let mut command = Command::new(FERRY);
    command.args(["run", "-n", "2", "--gdb", "sleep", "1000"]).env_remove("TMUX");
    command.env("DISPLAY", ":0").env("PATH", format!("{}:{path}", folder.0.display()));
    let ended = finish(command, &folder);
    assert_eq!(ended.status.code(), Some(1), "{}", ended.err);
    assert!(ended.err.contains("cannot open a terminal for rank 0: `"), "{}", ended.err);
    assert!(ended.err.contains("failed (exit status: 1): cannot open display :0"), "{}", ended.err);
}

#[test]
fn ranks_communicate_under_another_command_and_under_gdb() {
    let folder = Folder::new("gdb-ranks");
    let program = me();
    let program = program.to_str().expect("text");
    let around = ["-n", "3", "-x", "WORK=ring", "--rank-command", "sh -c '%s; exit $?'", program];
    let ended = run(&folder, &[&around[..], &MEMBER[..]].concat());
    assert_eq!(ended.status.code(), Some(0), "{}{}", ended.out, ended.err);
    assert_eq!(ended.out.matches(" exchanged 13 rounds").count(), 3, "{}", ended.out);
    if !is_there("gdb") || !is_there("tmux") {
        return;
    }
    let member = MEMBER.join(" ");
    let line = format!("{FERRY} run -n 3 --gdb=0-1 -x WORK=ring '{program}' {member}");
    let tmux = Tmux::start("gdb-ring", &line);
    tmux.shows("0", "for the command `run`");
    for window in ["1", "2"] {
        tmux.keys(window, "run");
    }
    for window in ["1", "2"] {
        tmux.shows(window, "exchanged 13 rounds");
        tmux.shows(window, "exited normally");
        tmux.keys(window, "quit");
    }
    tmux.shows("0", "rank 2 exchanged 13 rounds");
    tmux.shows("0", "code 0");
}

#[test]
fn one_rank_has_gdb_in_the_terminal_of_the_launcher() {
    if !is_there("gdb") || !is_there("tmux") {
        return;
    }
    let line = format!("env -u TMUX {FERRY} run -n 2 --gdb=1 -x A=b sh -c 'sleep 0.1'");
    let tmux = Tmux::start("gdb-here", &line);
    tmux.shows("0", "ranks under gdb wait in this terminal for the command `run`");
    tmux.shows("0", "(gdb)");
    tmux.keys("0", "show environment A");
    tmux.shows("0", "A = b");
    tmux.keys("0", "run");
    tmux.shows("0", "exited normally");
    tmux.keys("0", "quit");
    tmux.shows("0", "code 0");
    // The terminal is ours again.
    tmux.keys("0", "hello");
    tmux.shows("0", "read hello");
}

#[test]
fn ferry_terminal_is_not_for_people() {
    let folder = Folder::new("gdb-terminal");
    let mut command = Command::new(FERRY);
    command.arg("terminal");
    let ended = finish(command, &folder);
    assert_eq!(ended.status.code(), Some(1));
    assert!(ended.err.contains("this command is started by `ferry run --gdb`"), "{}", ended.err);
    assert!(Path::new(FERRY).exists());
}
