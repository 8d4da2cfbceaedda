//! `ferry doctor` as a user calls it. What is wrong with the machine is made up: limits, other MPIs, hosts.
//!
//! Invariants, cited below by number.
//!   D1. Between fork and exec, only async-signal-safe functions are called.

mod common;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use common::{Ended, FERRY, Folder, become_user, finish, forbid, is_root, limit};
use serde_json::Value;

/// A machine on which `PATH` has only what the test puts there.
struct Machine {
    folder: Folder,
}

impl Machine {
    fn new(name: &str) -> Machine {
        let folder = Folder::new(name);
        for part in ["bin", "target", "lib"] {
            fs::create_dir(folder.join(part)).expect("a folder");
        }
        // As cargo leaves it.
        folder.copy(Path::new(FERRY), "target/ferry");
        fs::write(folder.join("target/libmpi_abi.so"), "Ferrywire").expect("written");
        Machine { folder }
    }

    /// Puts a shell script into `PATH`.
    fn script(&self, name: &str, text: &str) {
        let path = self.folder.join("bin").join(name);
        // Not written by us: a process that another test forks meanwhile would keep it open for writing.
        let done = Command::new("sh")
            .args(["-c", "printf '%s\n' \"$1\" >\"$2\"", "sh", &format!("#!/bin/sh\n{text}")])
            .arg(&path)
            .status();
        assert!(done.is_ok_and(|status| status.success()));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("executable");
    }

    fn doctor(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.folder.join("target/ferry"));
        command.arg("doctor").args(arguments).env("PATH", self.folder.join("bin"));
        command.env_remove("LD_LIBRARY_PATH");
        command
    }

    fn run(&self, arguments: &[&str]) -> Ended {
        finish(self.doctor(arguments), &self.folder)
    }

    /// The finding about something, of a command that prints JSON.
    fn finding(&self, command: Command, about: &str) -> (Finding, Option<i32>) {
        let ended = finish(command, &self.folder);
        let report: Value = serde_json::from_str(&ended.out).expect(&ended.err);
        let findings = report["findings"].as_array().expect("a list");
        let found = findings.iter().find(|one| one["about"] == about);
        let found = found.unwrap_or_else(|| panic!("nothing about {about}: {}", ended.out));
        let text = |name: &str| found[name].as_str().unwrap_or_default().to_owned();
        let finding = Finding { verdict: text("verdict"), found: text("found"), fix: text("fix") };
        (finding, ended.status.code())
    }

    fn about(&self, arguments: &[&str], about: &str) -> (Finding, Option<i32>) {
        self.finding(self.doctor(&[&["--json"], arguments].concat()), about)
    }
}

#[derive(Debug)]
struct Finding {
    verdict: String,
    found: String,
    fix: String,
}

const ABOUT: [&str; 16] = [
    "installation",
    "cores",
    "shared memory",
    "memory",
    "single copy",
    "open files",
    "processes",
    "core files",
    "locked memory",
    "host name",
    "udp",
    "libfabric",
    "ssh",
    "mpicc, mpiexec",
    "library path",
    "libraries",
];

#[test]
fn every_check_has_a_verdict_and_fits_a_terminal() {
    let machine = Machine::new("doctor");
    let ended = machine.run(&[]);
    assert!(!ended.out.contains('\x1b'), "a pipe gets no colours: {}", ended.out);
    for about in ABOUT {
        let has = |line: &str| {
            let (verdict, rest) = line.split_at_checked(9).unwrap_or_default();
            let rest = rest.strip_prefix(about).is_some_and(|rest| rest.len() > 1);
            rest && ["ok", "warning", "problem"].contains(&verdict.trim_end())
        };
        assert!(ended.out.lines().any(has), "{about}: {}", ended.out);
    }
    // A path can be longer than a line, and is not broken.
    let too_long =
        |line: &&str| line.len() > 80 && line.trim_start().contains(' ') && line.starts_with(' ');
    assert_eq!(ended.out.lines().find(too_long), None);
    let last = ended.out.lines().last().unwrap_or_default();
    let problems = last.split(' ').next().and_then(|word| word.parse::<u32>().ok());
    let problems = problems.unwrap_or_else(|| panic!("the last line counts: {last}"));
    assert_eq!(ended.status.code(), Some(i32::from(problems > 0)), "{}", ended.out);
    assert_eq!(ended.err, "");

    let ended = machine.run(&["--json"]);
    let report: Value = serde_json::from_str(&ended.out).expect("JSON");
    let findings = report["findings"].as_array().expect("a list");
    let about: Vec<_> = findings.iter().filter_map(|one| one["about"].as_str()).collect();
    assert_eq!(about, ABOUT);
    for finding in findings {
        assert_eq!(finding["verdict"] == "ok", finding["fix"].is_null(), "{finding}");
    }
}

#[test]
fn a_terminal_gets_colours_unless_no_color_is_set() {
    let machine = Machine::new("doctor-colours");
    let ferry = machine.folder.join("target/ferry");
    let line = format!("'{}' doctor", ferry.display());
    let on_terminal = |no_color: bool| {
        let mut command = Command::new("script");
        command.args(["-qec", &line, "/dev/null"]).env_remove("NO_COLOR");
        if no_color {
            command.env("NO_COLOR", "1");
        }
        finish(command, &machine.folder).out
    };
    if Command::new("script").arg("--version").output().is_err() {
        println!("not tested: there is no script(1)");
        return;
    }
    assert!(on_terminal(false).contains("\x1b[32mok"));
    assert!(!on_terminal(true).contains('\x1b'));
}

#[test]
fn limits_that_are_too_low_are_told_with_numbers() {
    let machine = Machine::new("doctor-limits");
    let limited = |resource, value| {
        let mut command = machine.doctor(&["--json"]);
        // SAFETY: by D1: `limit` makes one system call.
        unsafe { command.pre_exec(move || limit(resource, value)) };
        command
    };
    let (files, code) = machine.finding(limited(libc::RLIMIT_NOFILE, 26), "open files");
    assert_eq!((files.verdict.as_str(), code), ("problem", Some(1)), "{files:?}");
    assert_eq!(files.found, "26 (soft), 26 (hard), which is enough for 0 ranks");
    assert!(files.fix.contains("ulimit -Hn"), "{files:?}");
    let (memory, _) = machine.finding(limited(libc::RLIMIT_AS, 900 << 20), "memory");
    assert_eq!(memory.verdict, "warning", "{memory:?}");
    assert!(memory.found.ends_with("; ulimit -v is 900 MiB"), "{memory:?}");
    let (core, _) = machine.finding(limited(libc::RLIMIT_CORE, 0), "core files");
    assert!(core.verdict == "ok" && core.found.starts_with("off"), "{core:?}");
}

/// Where no process can be started, the checks that need one say so.
#[test]
fn a_machine_without_processes_is_examined_too() {
    if !is_root() {
        println!("not tested: no processes: this takes root, to become another user");
        return;
    }
    let machine = Machine::new("doctor-processes");
    let mut command = machine.doctor(&["--json"]);
    let settle = || become_user(SOMEBODY).and_then(|()| limit(libc::RLIMIT_NPROC, 1));
    // SAFETY: by D1: `settle` makes only system calls.
    unsafe { command.pre_exec(settle) };
    let (processes, code) = machine.finding(command, "processes");
    assert_eq!((processes.verdict.as_str(), code), ("problem", Some(1)), "{processes:?}");
    assert!(processes.found.starts_with("1 (ulimit -u), 1 used by this user; "), "{processes:?}");
}

/// A user number that no account has.
const SOMEBODY: u32 = 61_235;

/// Programs in Rust need no library, and those who build only them need no installation.
#[test]
fn a_missing_library_is_a_warning_until_it_is_installed() {
    let machine = Machine::new("doctor-installation");
    let (installation, code) = machine.about(&[], "installation");
    assert_eq!((installation.verdict.as_str(), code), ("ok", Some(0)), "{installation:?}");
    fs::remove_file(machine.folder.join("target/libmpi_abi.so")).expect("removed");
    let (installation, code) = machine.about(&[], "installation");
    assert_eq!((installation.verdict.as_str(), code), ("warning", Some(0)), "{installation:?}");
    assert_eq!(installation.fix, "build it with cargo build --release");
    // Cargo never builds in a folder of the name bin.
    fs::rename(machine.folder.join("bin"), machine.folder.join("other")).expect("renamed");
    fs::rename(machine.folder.join("target"), machine.folder.join("bin")).expect("renamed");
    let mut command = Command::new(machine.folder.join("bin/ferry"));
    command.args(["doctor", "--json"]);
    let (installation, code) = machine.finding(command, "installation");
    assert_eq!((installation.verdict.as_str(), code), ("problem", Some(1)), "{installation:?}");
    assert!(installation.fix.ends_with("install Ferrywire again"), "{installation:?}");
}

#[test]
fn single_copies_are_tried_between_two_processes() {
    let machine = Machine::new("doctor-copies");
    let mut command = machine.doctor(&["--json"]);
    // SAFETY: by D1: `forbid` makes only system calls.
    unsafe { command.pre_exec(|| forbid(libc::EPERM)) };
    let (copies, code) = machine.finding(command, "single copy");
    assert_eq!(copies.verdict, "warning", "{copies:?}");
    let said =
        "a process cannot read the memory of another (process_vm_readv: Operation not permitted";
    assert!(copies.found.starts_with(said), "{copies:?}");
    assert!(copies.fix.contains("--cap-add=SYS_PTRACE"), "{copies:?}");
    // Jobs work without: a warning is no failure.
    assert_eq!(code, Some(0));
}

#[test]
fn a_compiler_of_one_mpi_and_a_launcher_of_another_are_a_problem() {
    let machine = Machine::new("doctor-others");
    let (commands, _) = machine.about(&[], "mpicc, mpiexec");
    assert_eq!(commands.verdict, "ok", "{commands:?}");

    machine.script("mpicc", "echo 'mpicc: Open MPI 5.0.7 (Language: C)'");
    let (commands, code) = machine.about(&[], "mpicc, mpiexec");
    assert_eq!((commands.verdict.as_str(), code), ("warning", Some(0)), "{commands:?}");
    assert!(commands.found.starts_with("mpicc is Open MPI, in "), "{commands:?}");

    let link = machine.folder.join("bin/mpiexec");
    symlink("../target/ferry", &link).expect("a link");
    let (commands, code) = machine.about(&[], "mpicc, mpiexec");
    assert_eq!((commands.verdict.as_str(), code), ("problem", Some(1)), "{commands:?}");
    assert!(commands.found.contains("; mpiexec is Ferrywire ("), "{commands:?}");
    assert!(commands.fix.contains("first in PATH"), "{commands:?}");

    let mpicc = machine.folder.join("bin/mpicc");
    fs::remove_file(&mpicc).expect("removed");
    symlink("../target/ferry", &mpicc).expect("a link");
    let (commands, code) = machine.about(&[], "mpicc, mpiexec");
    assert_eq!((commands.verdict.as_str(), code), ("ok", Some(0)), "{commands:?}");
}

#[test]
fn a_library_that_takes_the_place_of_ours_is_a_warning() {
    let machine = Machine::new("doctor-library");
    let with = |name: &str, text: &str| {
        fs::write(machine.folder.join("lib").join(name), text).expect("written");
        let mut command = machine.doctor(&["--json"]);
        command.env("LD_LIBRARY_PATH", machine.folder.join("lib"));
        machine.finding(command, "library path").0
    };
    let path = with("libmpi.so.40", "Open MPI v5.0.7");
    assert_eq!(path.verdict, "ok", "{path:?}");
    assert!(path.found.ends_with("libmpi.so.40 of Open MPI"), "{path:?}");
    let path = with("libmpi_abi.so.1", "MPICH Version: 5.0");
    assert_eq!(path.verdict, "warning", "{path:?}");
    assert!(path.found.contains("libmpi_abi.so.1 of MPICH"), "{path:?}");
    assert!(path.fix.contains("out of LD_LIBRARY_PATH"), "{path:?}");
}

#[test]
fn hosts_are_reached_as_a_job_reaches_them() {
    let machine = Machine::new("doctor-hosts");
    // Takes the options of ssh, and runs the command here.
    machine.script(
        "ssh",
        "PATH=/usr/bin:/bin
         [ \"$1\" = -V ] && { echo 'OpenSSH_0' >&2; exit; }
         [ \"$1 $2\" = '-o BatchMode=yes' ] || exit 9
         host=$3; shift 3
         case $host in
             closed) echo \"$host: Permission denied (publickey).\" >&2; exit 255 ;;
             chatty) echo 'Welcome!' ;;
             older) [ \"$1\" = true ] || { echo 'ferry 0.0.1'; exit; } ;;
             bare) [ \"$1\" = true ] || { echo \"sh: $1: not found\" >&2; exit 127; } ;;
         esac
         exec \"$@\"",
    );
    let hosts = ["good", "closed", "chatty", "older", "bare", "localhost"];
    let about = |host: &str| machine.about(&hosts, host);
    let own = concat!("ferry ", env!("CARGO_PKG_VERSION"));
    let (good, code) = about("good");
    assert_eq!((good.verdict.as_str(), code), ("ok", Some(1)), "others fail: {good:?}");
    assert!(good.found.ends_with(&format!("; it has {own}, as this host")), "{good:?}");
    let problem = |host: &str, found: &str, fix: &str| {
        let (finding, code) = about(host);
        assert_eq!((finding.verdict.as_str(), code), ("problem", Some(1)), "{finding:?}");
        assert!(finding.found.contains(found) && finding.fix.contains(fix), "{finding:?}");
    };
    let said = "`ssh -o BatchMode=yes closed true` ended with 255: closed: Permission denied";
    problem("closed", said, "by hand");
    problem("chatty", "prints something: Welcome!", "login scripts");
    problem("older", &format!("it has ferry 0.0.1, and this host {own}"), "install Ferrywire");
    problem("bare", "but it has no ", "install Ferrywire");
    assert_eq!(about("localhost").0.verdict, "ok");
    assert_eq!(machine.about(&["good"], "good").1, Some(0));

    machine.script("elsewhere", "shift; exec \"$@\"");
    machine.script("true", "exit 0");
    let (far, code) = machine.about(&["--rsh", "elsewhere", "far"], "far");
    assert_eq!((far.verdict.as_str(), code), ("ok", Some(0)), "{far:?}");
    let (none, _) = machine.about(&["--rsh", "/no/such", "far"], "far");
    assert!(none.found.starts_with("`/no/such far true` does not start"), "{none:?}");
}
