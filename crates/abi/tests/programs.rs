//! Programs in C, in `c/`, run by `ferry run` on a few ranks. Each checks what it gets and exits with 1 if
//! that is wrong.

mod common;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use common::{Folder, ferry, library, other_header};

const PROGRAMS: &[&str] = &["hello", "ring", "datatypes", "planes"];

/// One rank, a pair, and more than this machine may have cores.
const RANKS: &[u32] = &[1, 2, 5];

#[test]
fn programs_run_on_any_number_of_ranks() {
    let folder = Folder::new("programs");
    for name in PROGRAMS {
        let program = compiled(ferry_cc(), name, &folder);
        for ranks in RANKS {
            succeeded(&run(&program, *ranks), name);
        }
    }
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

/// The point of a standard ABI: what was compiled and linked with another MPI runs on this one, as it is.
#[test]
fn what_mpich_has_linked_runs_unchanged() {
    let Some(header) = other_header() else {
        println!("not tested: bench/peers/install has not put MPICH on this machine");
        return;
    };
    let folder = Folder::new("theirs");
    let mpicc = header.with_file_name("../bin/mpicc_abi");
    for name in PROGRAMS {
        let program = compiled(Command::new(&mpicc), name, &folder);
        for ranks in RANKS {
            succeeded(&run(&program, *ranks), name);
        }
    }
}

/// The compiler that knows our header and library.
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

/// Runs a program with our library, which every program so finds by the name that the standard gives it. A
/// job that hangs is ended.
fn run(program: &Path, ranks: u32) -> Output {
    let library = library();
    let home = Folder::new(&format!("{}-{ranks}", program.display().to_string().replace('/', "-")));
    std::os::unix::fs::symlink(library, home.join("libmpi_abi.so.1")).expect("a link");
    let mut job = Command::new(ferry());
    job.args(["run", "--timeout", "60", "-n", &ranks.to_string()]).arg(program);
    job.env("LD_LIBRARY_PATH", &home.0).output().expect("ferry starts")
}

fn succeeded(output: &Output, name: &str) {
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{name}: {}\n{out}\n{err}", output.status);
}
