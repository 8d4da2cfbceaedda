//! Which test calls which function: writes `docs/functions.md` anew and compares. A function that no test of ours calls
//! is a failure, unless it is missing from the library.
//!
//! What a C program calls is what its compiled object refers to, so calls that macros make are found as well. What the
//! suites of others call is in `tests/mpich.calls` and `tests/mpi4py.calls`, which `tests/mpich --table` and
//! `tests/mpi4py --calls` write.

mod common;
#[path = "../table.rs"]
#[allow(dead_code, reason = "only the names and modules of functions are needed")]
mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Folder, include};
use ferrywire_runtime::call_name::C_NAMES;
use table::Function;

/// The chapters of the list, with the modules of `functions.txt` in them.
const CHAPTERS: &[(&str, &str)] = &[
    ("Point to point", "calls::point_to_point::"),
    ("Datatypes", "calls::datatypes::"),
    ("Collectives", "calls::collectives::"),
    ("Groups, communicators, attributes", "calls::communicators::"),
    ("Topologies", "calls::topologies::"),
    ("Environment, sessions, infos, handlers, handles as numbers", "calls::environment::"),
    ("Tools", "tool"),
    ("Windows", "calls::windows::"),
    ("Files", "calls::files::"),
    ("Processes", "calls::processes"),
];

/// Folders with C programs that check their results, and with others that only run.
const TESTS: &[&str] = &["crates/abi/tests/c", "crates/abi/tests/c/tools", "tests/*.d"];
const OTHERS: &[&str] = &["bench/mpi", "bench/hosts", "bench/modules", "bench/peers"];

/// The most programs that a row names.
const NAMED_MAX: usize = 4;

/// The calls of a program, a test or a suite by function.
type Callers = BTreeMap<String, BTreeSet<String>>;

/// The facts of a rank name calls by their place in a list.
#[test]
fn every_function_has_a_number() {
    let functions = functions();
    let small = |name: &&str| !functions.iter().any(|it| format!("{}_c", it.name) == **name);
    let table: Vec<&str> = functions.iter().map(|it| it.name.as_str()).filter(small).collect();
    let missing: Vec<_> = table.iter().filter(|name| !C_NAMES.contains(name)).collect();
    let unknown: Vec<_> = C_NAMES.iter().filter(|name| !table.contains(name)).collect();
    assert!(missing.is_empty() && unknown.is_empty(), "missing {missing:?}, unknown {unknown:?}");
}

#[test]
fn every_function_is_called_by_a_test() {
    let functions = functions();
    let known: BTreeSet<&str> = functions.iter().map(|function| function.name.as_str()).collect();
    let mut tests = callers(TESTS);
    for (name, path) in rust_tests() {
        for function in called_in_text(&fs::read_to_string(path).expect("text")) {
            if known.contains(function.as_str()) {
                tests.entry(function).or_default().insert(name.clone());
            }
        }
    }
    let text = document(&functions, &tests, &callers(OTHERS));
    let path = repository().join("docs/functions.md");
    if std::env::var_os("BLESS").is_some() {
        fs::write(&path, &text).expect("written");
    }
    let missing: Vec<&str> = functions
        .iter()
        .filter(|function| !tests.contains_key(&function.name))
        .map(|function| function.name.as_str())
        .collect();
    assert!(missing.is_empty(), "no test calls {}", missing.join(", "));
    let kept = fs::read_to_string(&path).unwrap_or_default();
    for (at, (kept, now)) in kept.lines().zip(text.lines()).enumerate() {
        assert_eq!(kept, now, "docs/functions.md:{}: {AGAIN}", at + 1);
    }
    assert_eq!(kept.lines().count(), text.lines().count(), "docs/functions.md: {AGAIN}");
}

const AGAIN: &str = "write it with `BLESS=1 cargo test -p ferrywire-abi --test functions`";

/// A program that no test runs would count for nothing.
#[test]
fn every_program_is_run_by_a_test() {
    let tests: String =
        rust_tests().into_iter().map(|(_, path)| fs::read_to_string(path).expect("text")).collect();
    for program in programs(&["crates/abi/tests/c"]) {
        let name = program.file_stem().expect("a name").to_str().expect("text");
        assert!(tests.contains(&format!("\"{name}\"")), "no test runs {name}.c");
    }
}

/// The functions of the table whose modules are in a chapter each.
fn functions() -> Vec<Function> {
    let functions = table::parse(include_str!("../functions.txt"));
    let functions = functions.unwrap_or_else(|error| panic!("{error}"));
    for Function { name, module, .. } in &functions {
        let count = CHAPTERS.iter().filter(|(_, prefix)| module.starts_with(prefix)).count();
        assert_eq!(count, 1, "{name}: no chapter, or two, for [{module}]");
    }
    functions
}

fn document(functions: &[Function], tests: &Callers, others: &Callers) -> String {
    let (mpich, mpi4py) = (suite("mpich.calls"), suite("mpi4py.calls"));
    let of = |prefix: &str| -> Vec<&str> {
        let in_chapter = functions.iter().filter(|function| function.module.starts_with(prefix));
        in_chapter.map(|function| function.name.as_str()).collect()
    };
    let all = of("");
    let standard: Vec<&str> = all.iter().copied().filter(|name| name.starts_with("MPI_")).collect();
    let large = standard.iter().filter(|name| name.ends_with("_c")).count();
    let mut text = format!(
        "# Functions and the tests that call them\n\n\
         The standard ABI has {} functions: {}, and {large} variants of them with large counts, whose names end in\n\
         `_c`. The library also exports each of them with the prefix `PMPI_`, which is not counted. The list has\n\
         {} more, which are our own and those of ULFM.\n\n\
         *Tests* are programs in `crates/abi/tests/c` and `tests/*.d`, and tests in Rust. *Others* are benchmarks.\n\
         *MPICH* is the number of tests of MPICH's suite that call the function, run in CI and pass. *mpi4py* says\n\
         whether its suite calls the function in CI. A program calls what its object file refers to; what mpi4py\n\
         calls was recorded while its suite ran. Written by:\n\n    \
         tests/mpich --table\n    \
         tests/mpi4py -n 1,2,4 --rungs R0-R13,R15 --calls\n    \
         BLESS=1 cargo test -p ferrywire-abi --test functions\n\n\
         | chapter | functions | tests | MPICH | mpi4py |\n|---|---:|---:|---:|---:|\n",
        standard.len(),
        standard.len() - large,
        all.len() - standard.len(),
    );
    let chapters = CHAPTERS.iter().map(|(title, prefix)| (*title, of(prefix)));
    let chapters: Vec<_> = chapters.filter(|(_, names)| !names.is_empty()).collect();
    for (title, names) in chapters.iter().chain([&("All", all.clone())]) {
        let count =
            |called: &dyn Fn(&str) -> bool| names.iter().filter(|name| called(name)).count();
        let (by_tests, by_mpich, by_mpi4py) = (
            count(&|name| tests.contains_key(name)),
            count(&|name| mpich.contains_key(name)),
            count(&|name| mpi4py.contains_key(name)),
        );
        let _ =
            writeln!(text, "| {title} | {} | {by_tests} | {by_mpich} | {by_mpi4py} |", names.len());
    }
    for (title, names) in chapters {
        let _ = write!(
            text,
            "\n## {title}\n\n| function | tests | others | MPICH | mpi4py |\n|---|---|---|---:|---|\n"
        );
        for name in names {
            let (tests, others) = (named(tests.get(name)), named(others.get(name)));
            let mpich = mpich.get(name).map_or("", String::as_str);
            let mpi4py = if mpi4py.contains_key(name) { "yes" } else { "" };
            let _ = writeln!(text, "| `{name}` | {tests} | {others} | {mpich} | {mpi4py} |");
        }
    }
    text
}

/// The first few callers, and how many there are more.
fn named(callers: Option<&BTreeSet<String>>) -> String {
    let callers: Vec<&str> = callers.into_iter().flatten().map(String::as_str).collect();
    let shown = callers[..callers.len().min(NAMED_MAX)].join(", ");
    match callers.len().saturating_sub(NAMED_MAX) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// What the programs in these folders call. `PMPI_X` is a call of `MPI_X`.
fn callers(folders: &[&str]) -> Callers {
    let objects = Folder::new(&format!("objects-{}", folders.len()));
    let object = objects.join("object.o");
    let mut callers = Callers::new();
    for program in programs(folders) {
        let mut compiler = Command::new("cc");
        compiler.args(["-c", "-w", "-I"]).arg(include()).arg("-o").arg(&object).arg(&program);
        let output = compiler.output().expect("a compiler of C");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{}: {said}", program.display());
        let output = Command::new("nm").arg("--undefined-only").arg(&object).output().expect("nm");
        let symbols = String::from_utf8(output.stdout).expect("text");
        for symbol in symbols.lines().filter_map(|line| line.rsplit(' ').next()) {
            let name = symbol.strip_prefix('P').filter(|rest| rest.starts_with("MPI_"));
            let caller = title_of(&program);
            callers.entry(name.unwrap_or(symbol).into()).or_default().insert(caller);
        }
    }
    callers
}

/// The name of a program: with its folder, unless it is one of `crates/abi/tests/c`.
fn title_of(program: &Path) -> String {
    let name = program.with_extension("");
    let name = name.strip_prefix(repository()).expect("it is in the repository");
    let short = name.strip_prefix("crates/abi/tests/c").unwrap_or(name);
    short.display().to_string()
}

/// The C programs in these folders, of which the last part may be `*.d`.
fn programs(folders: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for folder in folders {
        let folders = match folder.strip_suffix("/*.d") {
            None => vec![repository().join(folder)],
            Some(above) => {
                let inside = entries(&repository().join(above));
                inside.into_iter().filter(|path| path.to_string_lossy().ends_with(".d")).collect()
            }
        };
        for path in folders.iter().flat_map(|folder| entries(folder)) {
            if path.extension().is_some_and(|ending| ending == "c") {
                found.push(path);
            }
        }
    }
    found
}

/// The tests in Rust of all crates, with their names.
fn rust_tests() -> Vec<(String, PathBuf)> {
    let crates = entries(&repository().join("crates"));
    let files = crates.iter().map(|folder| folder.join("tests")).filter(|folder| folder.is_dir());
    let files = files.flat_map(|folder| entries(&folder));
    let files = files.filter(|path| path.extension().is_some_and(|ending| ending == "rs"));
    files.map(|path| (title_of(&path) + ".rs", path)).collect()
}

/// The functions that a text calls: names that begin as ours do, with `(` behind them.
fn called_in_text(text: &str) -> BTreeSet<String> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let places = text.match_indices('(').map(|(at, _)| &text[..at]);
    let words = places.map(|before| &before[before.trim_end_matches(is_name).len()..]);
    words.filter(|word| word.starts_with("MPI_")).map(String::from).collect()
}

/// What a suite of others calls: a function in each line, and how many of its tests do.
fn suite(name: &str) -> BTreeMap<String, String> {
    let text = fs::read_to_string(repository().join("tests").join(name)).expect("a list of calls");
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let split = lines.map(|line| line.split_once("  ").unwrap_or((line, "")));
    split.map(|(name, count)| (name.to_owned(), count.to_owned())).collect()
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries =
        fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    paths
}

fn repository() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).expect("two folders above").to_path_buf()
}
