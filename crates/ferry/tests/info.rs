//! `ferry info FILE` as a user calls it, compared with what the dynamic linker does with the same program.

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Ended, FERRY, Folder, finish};
use serde_json::Value;

/// Stand-ins for the libraries of three MPIs, for a library that needs one, and for an installation of ours.
struct Machine {
    folder: Folder,
}

impl Machine {
    fn new(name: &str) -> Machine {
        let machine = Machine { folder: Folder::new(name) };
        for folder in ["target", "openmpi", "other", "mpich", "hdf5"] {
            fs::create_dir(machine.folder.join(folder)).expect("a folder");
        }
        machine.folder.copy(Path::new(FERRY), "target/ferry");
        machine.library("target", "libmpi_abi.so.1", "Ferrywire", &[]);
        fs::rename(machine.path("target/libmpi_abi.so.1"), machine.path("target/libmpi_abi.so"))
            .expect("renamed");
        machine.link("libmpi_abi.so", "target/libmpi_abi.so.1");
        machine.library("other", "libmpi_abi.so.1", "MPICH Version: 5.0", &[]);
        machine.link("libmpi_abi.so.1", "other/libmpi_abi.so");
        machine.library("openmpi", "libmpi.so.40", "Open MPI v5.0.7", &[]);
        machine.link("libmpi.so.40", "openmpi/libmpi.so");
        machine.library("mpich", "libmpi.so.12", "MPICH Version: 4.3", &[]);
        machine.link("libmpi.so.12", "mpich/libmpi.so");
        machine
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn link(&self, target: &str, name: &str) {
        std::os::unix::fs::symlink(target, self.path(name)).expect("a link");
    }

    fn cc(&self, arguments: &[&str]) {
        let mut compiler = Command::new("cc");
        compiler.args(arguments).current_dir(&self.folder.0).env_remove("LD_LIBRARY_PATH");
        let ended = finish(compiler, &self.folder);
        assert!(ended.status.success(), "{arguments:?}: {}", ended.err);
    }

    /// Makes a library of an MPI that says whose it is.
    fn library(&self, folder: &str, name: &str, maker: &str, more: &[&str]) {
        let text = format!(
            "const char mpi_maker[] = \"{maker}\";\nint MPI_Init(int *a, char ***b) {{ return a == 0 && b == 0; }}\n\
             int PMPI_Init(int *a, char ***b) {{ return MPI_Init(a, b); }}\n"
        );
        fs::write(self.path("library.c"), text).expect("written");
        let (soname, out) = (format!("-Wl,-soname,{name}"), format!("{folder}/{name}"));
        self.cc(&[&["-shared", "-fPIC", &soname, "-o", &out, "library.c"], more].concat());
    }

    /// Makes a program that calls MPI.
    fn program(&self, name: &str, options: &[&str]) {
        let text =
            "int MPI_Init(int *, char ***);\nint main(void) { return MPI_Init(0, 0) < 0; }\n";
        fs::write(self.path("program.c"), text).expect("written");
        self.cc(&[&["program.c", "-o", name], options].concat());
    }

    fn info(&self, arguments: &[&str], library_path: Option<&str>) -> Ended {
        let mut command = Command::new(self.path("target/ferry"));
        command.arg("info").args(arguments).current_dir(&self.folder.0);
        match library_path {
            Some(folder) => command.env("LD_LIBRARY_PATH", self.path(folder)),
            None => command.env_remove("LD_LIBRARY_PATH"),
        };
        finish(command, &self.folder)
    }

    fn json(&self, file: &str, library_path: Option<&str>) -> (Value, Option<i32>) {
        let ended = self.info(&["--json", file], library_path);
        let report = serde_json::from_str(&ended.out);
        (report.unwrap_or_else(|_| panic!("{}{}", ended.out, ended.err)), ended.status.code())
    }

    /// What the dynamic linker loads for a library of a program: its path, or nothing.
    fn loaded(&self, program: &str, library: &str, library_path: Option<&str>) -> Option<PathBuf> {
        let mut command = Command::new("ldd");
        command.arg(self.path(program));
        match library_path {
            Some(path) => command.env("LD_LIBRARY_PATH", path),
            None => command.env_remove("LD_LIBRARY_PATH"),
        };
        let ended = finish(command, &self.folder);
        let line = ended.out.lines().find(|line| line.trim().starts_with(library));
        let place = line?.split(" => ").nth(1)?.split(" (").next()?;
        (place != "not found").then(|| fs::canonicalize(place).expect("it is there"))
    }

    /// Compares the answer about a program with what the dynamic linker does, under `ferry run` and without it.
    fn agrees(&self, program: &str, library: &str, library_path: Option<&str>) -> Value {
        let (report, _) = self.json(program, library_path);
        let found = report["libraries"].as_array().expect("a list");
        let found = found.iter().find(|one| one["name"] == library).expect("needed");
        let file =
            |how: &str| found[how]["file"].as_str().map(|path| fs::canonicalize(path).expect(path));
        let theirs = library_path.map(|folder| self.path(folder).display().to_string());
        let alone = self.loaded(program, library, theirs.as_deref());
        assert_eq!(file("alone"), alone, "{program} alone: {report}");
        let own = self.path("target").display().to_string();
        let under = theirs.map_or(own.clone(), |theirs| format!("{own}:{theirs}"));
        let under = self.loaded(program, library, Some(&under));
        assert_eq!(file("under_ferry_run"), under, "{program} under ferry run: {report}");
        report
    }
}

#[test]
fn programs_of_the_standard_abi_fit_wherever_they_were_linked() {
    let machine = Machine::new("info-fits");
    let other = machine.path("other").display().to_string();
    let (new, old) = (
        format!("-Wl,--enable-new-dtags,-rpath,{other}"),
        format!("-Wl,--disable-new-dtags,-rpath,{other}"),
    );
    machine.program("plain", &["-Lother", "-lmpi_abi"]);
    machine.program("runpath", &["-Lother", "-lmpi_abi", &new]);
    machine.program("rpath", &["-Lother", "-lmpi_abi", &old]);
    let origin = "-Wl,--enable-new-dtags,-rpath,$ORIGIN/target";
    machine.program("origin", &["-Lother", "-lmpi_abi", origin]);
    for program in ["plain", "runpath", "origin"] {
        for library_path in [None, Some("other"), Some("target"), Some("openmpi")] {
            let report = machine.agrees(program, "libmpi_abi.so.1", library_path);
            assert_eq!(report["fit"], "fits", "{report}");
        }
    }
    let ended = machine.info(&["./plain"], None);
    assert_eq!(ended.status.code(), Some(0));
    let verdict = "./plain fits: it needs libmpi_abi.so.1, and ferry run loads that of Ferrywire\n";
    assert!(ended.out.starts_with(verdict), "{}", ended.out);
    assert!(ended.out.contains("without it   is not found\n"), "{}", ended.out);

    // An RPATH comes before LD_LIBRARY_PATH, and so before our folder.
    let report = machine.agrees("rpath", "libmpi_abi.so.1", None);
    assert_eq!(report["fit"], "wrong-library", "{report}");
    let verdict = report["verdict"].as_str().unwrap_or_default();
    assert!(verdict.contains("found by RPATH, is of MPICH; link it with"), "{verdict}");
    assert_eq!(machine.info(&["rpath"], None).status.code(), Some(1));
}

#[test]
fn programs_of_other_mpis_must_be_compiled_again() {
    let machine = Machine::new("info-others");
    let cases = [
        ("openmpi", "libmpi.so.40", "Open MPI"),
        ("mpich", "libmpi.so.12", "the older ABI of MPICH"),
    ];
    for (folder, library, family) in cases {
        let (search, path) = (format!("-L{folder}"), format!("-Wl,-rpath,$ORIGIN/{folder}"));
        machine.program("a.out", &[&search, "-lmpi", &path]);
        machine.agrees("a.out", library, None);
        let ended = machine.info(&["a.out"], None);
        assert_eq!(ended.status.code(), Some(1));
        let said: String = ended.out.lines().take(3).collect::<Vec<_>>().join(" ");
        assert!(said.starts_with("a.out must be compiled again with "), "{said}");
        assert!(said.contains(&format!("it needs {library} of {family}")), "{said}");
        assert!(ended.out.lines().all(|line| line.len() <= 80 || !line.trim().contains(' ')));
    }
}

/// A program for the standard ABI whose HDF5 is for Open MPI would load two MPIs.
#[test]
fn a_library_that_needs_another_mpi_is_found() {
    let machine = Machine::new("info-indirect");
    machine.library(
        "hdf5",
        "libhdf5.so.1",
        "none",
        &["-Lopenmpi", "-Wl,--no-as-needed", "-lmpi", "-Wl,-rpath,$ORIGIN/../openmpi"],
    );
    machine.link("libhdf5.so.1", "hdf5/libhdf5.so");
    let needs = [
        "-Ltarget",
        "-lmpi_abi",
        "-Lhdf5",
        "-Wl,--no-as-needed",
        "-lhdf5",
        "-Wl,-rpath,$ORIGIN/hdf5",
    ];
    machine.program("a.out", &[&needs[..], &["-Wl,-rpath-link,openmpi"]].concat());
    let report = machine.agrees("a.out", "libmpi.so.40", None);
    assert_eq!(report["fit"], "compile-again", "{report}");
    let libraries = report["libraries"].as_array().expect("a list");
    let other = libraries.iter().find(|one| one["name"] == "libmpi.so.40").expect("found");
    assert!(
        other["needed_by"].as_str().is_some_and(|path| path.ends_with("hdf5/libhdf5.so.1")),
        "{report}"
    );
}

#[test]
fn what_does_not_use_mpi_is_told_and_what_is_no_program_is_an_error() {
    let machine = Machine::new("info-none");
    let (report, code) = machine.json("/bin/sh", None);
    assert_eq!((&report["fit"], code), (&Value::from("no-mpi"), Some(0)), "{report}");
    // A name is looked up in PATH.
    assert_eq!(machine.json("sh", None).0["fit"], "no-mpi");
    // The command contains what programs in Rust contain.
    let (report, code) = machine.json("target/ferry", None);
    assert_eq!((&report["fit"], code), (&Value::from("fits"), Some(0)), "{report}");
    let (report, code) = machine.json("target/libmpi_abi.so", None);
    assert_eq!((&report["fit"], code), (&Value::from("no-mpi"), Some(0)), "{report}");

    fs::write(machine.path("text"), "hello").expect("written");
    fs::write(machine.path("damaged"), b"\x7fELF\x02\x01\x01and then nothing").expect("written");
    fs::write(machine.path("lost"), "#!/no/such/interpreter\n").expect("written");
    fs::write(machine.path("empty"), "").expect("written");
    for (file, said) in [
        ("nosuch", "cannot find nosuch, neither here nor in PATH"),
        ("./nosuch", "cannot read ./nosuch: No such file or directory"),
        ("target", "target is a folder: name a program"),
        ("text", "text is neither an ELF file nor a script"),
        ("empty", "empty is neither an ELF file nor a script"),
        ("damaged", "damaged is a damaged ELF file"),
        ("lost", "cannot find /no/such/interpreter, the interpreter of lost"),
    ] {
        let ended = machine.info(&[file], None);
        assert_eq!(ended.status.code(), Some(2), "{file}: {}", ended.out);
        assert!(ended.err.starts_with(&format!("ferry info: {said}")), "{file}: {}", ended.err);
    }
}

#[test]
fn a_script_is_as_its_interpreter_and_python_as_its_mpi4py() {
    let machine = Machine::new("info-scripts");
    let script = |name: &str, first: &str| {
        fs::write(machine.path(name), format!("{first}\nimport os\nos.mkdir('was-run')\n"))
            .expect("written");
        fs::set_permissions(machine.path(name), fs::Permissions::from_mode(0o755))
            .expect("executable");
    };
    script("shell", "#!/bin/sh -e");
    let (report, code) = machine.json("shell", None);
    assert_eq!((&report["fit"], code), (&Value::from("no-mpi"), Some(0)), "{report}");
    if Command::new("python3").arg("--version").output().is_err() {
        println!("not tested: there is no python3");
        return;
    }
    script("solver.py", "#!/usr/bin/env python3");
    fs::create_dir(machine.path("mpi4py")).expect("a folder");
    fs::write(machine.path("mpi4py/__init__.py"), "raise SystemError('was imported')\n")
        .expect("written");
    let module = |folder: &str, library: &str| {
        fs::write(
            machine.path("module.c"),
            "int MPI_Init(int *, char ***);\nint use(void) { return MPI_Init(0, 0); }\n",
        )
        .expect("written");
        let search = format!("-L{folder}");
        machine.cc(&["-shared", "-fPIC", "-o", "mpi4py/MPI.abi3.so", "module.c", &search, library]);
        machine.json("solver.py", None)
    };
    let (report, code) = module("other", "-lmpi_abi");
    assert_eq!((&report["fit"], code), (&Value::from("fits"), Some(0)), "{report}");
    let (report, code) = module("openmpi", "-lmpi");
    assert_eq!((&report["fit"], code), (&Value::from("compile-again"), Some(1)), "{report}");
    let verdict = report["verdict"].as_str().unwrap_or_default();
    assert!(verdict.contains("--no-binary mpi4py mpi4py; mpi4py in "), "{verdict}");
    assert!(verdict.ends_with(" is for Open MPI"), "{verdict}");
    assert!(!machine.path("was-run").exists(), "the script is only read");
}

#[test]
fn without_a_file_the_rails_are_listed() {
    let machine = Machine::new("info-rails");
    let ended = machine.info(&[], None);
    assert_eq!(ended.status.code(), Some(0));
    let names: Vec<_> = ended.out.lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(names.iter().filter(|name| !name.is_empty()).count(), 4, "{}", ended.out);
}
