//! Checks `include/mpi.h` against the standard ABI, another header of it, the exports of the library, the table from
//! which they are generated, and the constants in its sources. Callers rely on the header, and no compiler would
//! notice a difference.
//!
//! `header/facts.txt` states the ABI, a line for each constant, type and function.

#[path = "header/c.rs"]
mod c;
mod common;
#[path = "header/rust.rs"]
mod rust;
#[path = "../table.rs"]
#[allow(dead_code, reason = "only the build script needs the modules of the bodies")]
mod table;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use c::{Header, Signature, Type};
use common::{Folder, include, library, other_header};
use rust::{Sources, to_c};
use table::{Function, Value};

/// The number of functions in the standard.
const FUNCTIONS: usize = 664;

#[test]
fn the_header_states_the_abi() {
    let header = ours();
    let facts = facts();
    compare("include/mpi.h", &header.facts(), "facts.txt", &facts);
    let plain = header.functions.keys().filter(|name| name.starts_with("MPI_")).count();
    assert_eq!(plain, FUNCTIONS);
}

#[test]
fn every_function_has_its_profiling_name() {
    let header = ours();
    for (name, signature) in &header.functions {
        let other = name.strip_prefix('P').map_or_else(|| format!("P{name}"), String::from);
        let twin = header.functions.get(&other).unwrap_or_else(|| panic!("no {other}"));
        assert_eq!(signature, twin, "{name} and {other}");
    }
}

/// MPICH's header, which others wrote from the same standard.
#[test]
fn another_header_of_the_abi_says_the_same() {
    let Some(path) = other_header() else {
        println!("not tested: bench/peers/install has not put MPICH on this machine");
        return;
    };
    let theirs = Header::parse(&fs::read_to_string(path).expect("text"));
    let twins: Vec<&String> =
        theirs.functions.keys().filter(|name| name.starts_with("MPI_")).collect();
    assert!(twins.len() > FUNCTIONS - 10, "{}", twins.len());
    let mut said = theirs.facts();
    // Extensions of MPICH.
    said.retain(|fact| !fact.split(' ').nth(1).unwrap_or_default().starts_with("MPIX_"));
    let mut facts = facts();
    facts.retain(|fact| !fact.split(' ').nth(1).unwrap_or_default().starts_with("MPIX_"));
    // MPICH's header declares the partitioned calls with large counts under the plain name, as before an erratum that
    // introduced separate names.
    for fact in facts.clone() {
        if fact.contains(" MPI_Psend_init") || fact.contains(" MPI_Precv_init") {
            facts.remove(&fact);
        }
    }
    said.retain(|fact| !fact.contains(" MPI_Psend_init") && !fact.contains(" MPI_Precv_init"));
    // The definitions of these types differ; `layouts_are_fixed` checks that their layouts do not.
    for name in ["MPI_Aint", "MPI_Offset", "MPI_Count"] {
        let its = |fact: &String| fact.starts_with(&format!("type {name} "));
        facts.retain(|fact| !its(fact));
        said.retain(|fact| !its(fact));
    }
    compare("MPICH", &said, "facts.txt", &facts);
}

#[test]
fn the_header_compiles_without_warnings() {
    let folder = Folder::new("compiles");
    let source = folder.join("empty.c");
    fs::write(
        &source,
        "#include <mpi.h>\n#include <mpi.h>\nint main(void) { return MPI_SUCCESS; }\n",
    )
    .expect("written");
    let strict = ["-Wall", "-Wextra", "-pedantic", "-Werror", "-fsyntax-only"];
    for (compiler, language, standard) in
        [("cc", "c", "-std=c99"), ("cc", "c", "-std=c11"), ("c++", "c++", "-std=c++11")]
    {
        let mut command = Command::new(compiler);
        command.args(strict).args([standard, "-x", language]).arg("-I").arg(include());
        let Ok(output) = command.arg(&source).output() else {
            println!("not tested: there is no {compiler}");
            continue;
        };
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn layouts_are_fixed() {
    let Some(ours) = layout(&include(), "mpi.h") else {
        println!("not tested: there is no cc");
        return;
    };
    let expected = "MPI_Aint 8 signed\nMPI_Offset 8 signed\nMPI_Count 8 signed\n\
                    MPI_Status 32 aligned 4\nMPI_SOURCE 0\nMPI_TAG 4\nMPI_ERROR 8\nMPI_internal 12\n\
                    MPI_Comm 8\nMPI_T_enum 8\nMPI_T_cb_safety 4\nMPI_User_function * 8\n";
    assert_eq!(ours, expected);
    if let Some(path) = other_header() {
        let folder = path.parent().expect("a folder");
        assert_eq!(layout(folder, "mpi_abi.h").expect("there is a compiler"), ours);
    } else {
        println!("not tested: bench/peers/install has not put MPICH on this machine");
    }
}

#[test]
fn the_library_exports_what_the_header_declares() {
    let library = library();
    let Ok(output) = Command::new("nm").args(["-D", "--defined-only"]).arg(library).output() else {
        println!("not tested: there is no nm");
        return;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let symbols = String::from_utf8_lossy(&output.stdout).into_owned();
    let names = symbols.lines().filter_map(|line| line.rsplit(' ').next());
    let exported: BTreeSet<String> = names
        .filter(|name| name.starts_with("MPI_") || name.starts_with("PMPI_"))
        .map(String::from)
        .collect();
    let declared = ours().functions.into_keys().collect();
    compare("libmpi_abi.so", &exported, "include/mpi.h", &declared);
}

#[test]
fn the_table_has_the_functions_of_the_headers() {
    let functions = table();
    let of_the_standard = functions.iter().filter(|function| function.name.starts_with("MPI_"));
    assert_eq!(of_the_standard.count(), FUNCTIONS);
    let listed = functions.into_iter().map(|function| function.name).collect();
    let declared = all_headers().functions.into_keys().filter(|name| !name.starts_with('P'));
    compare("functions.txt", &listed, "the headers", &declared.collect());
}

#[test]
fn the_table_has_the_arguments_of_the_headers() {
    let header = all_headers();
    let sources = Sources::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    let mut differences = Vec::new();
    for Function { name, arguments, is_variadic, answer, .. } in table() {
        let declared = &header.functions[&name];
        let names: Vec<&String> = arguments.iter().map(|(name, _)| name).collect();
        if names != header.names[&name].iter().collect::<Vec<_>>() || is_variadic != declared.open {
            differences.push(format!("{name} has the arguments {:?}", header.names[&name]));
            continue;
        }
        let mut check = |what: &str, declared: &Type, value: &Value| {
            if declared.to_string() != value.c {
                let Value { kind, c, .. } = value;
                differences.push(format!("{name}: {what} is `{declared}`; `{kind}` is `{c}`"));
            } else if !fits(&header, &sources, declared, &to_c(&value.rust)) {
                let Value { kind, rust, c } = value;
                differences.push(format!("kind `{kind}`: `{rust}` in Rust is not `{c}` in C"));
            }
        };
        check("the answer", &declared.returns, &answer);
        for (declared, (name, value)) in declared.parameters.iter().zip(&arguments) {
            check(name, declared, value);
        }
    }
    assert!(differences.is_empty(), "\n{}", differences.join("\n"));
}

#[test]
fn mistakes_in_the_table_are_reported_with_their_line() {
    let kinds = "[kinds]\nerror | c_int | int |\nsize | c_int, MPI_Count | int, MPI_Count |\n";
    let mistakes = [
        ("MPI_X (a: thing)", "unknown kind `thing`"),
        ("MPI_X (a: size)", "`size` has two types, and MPI_X has no variant"),
        ("MPI_X / MPI_Y (a: size)", "a second name is the first with `_c`, and there is no third"),
        ("MPI_X / MPI_X_c (a: error)", "the variants do not differ in any argument"),
        ("MPI_X (a: error[n])", "`n`, the length of `a`, is no int, size or count here"),
        ("MPI_X (a: error, a: error)", "two arguments have the name `a`"),
        ("MPI_X (error)", "`error` is not `name: kind`"),
        ("MPI_X (a: error) error", "no `->` before the answer"),
        ("MPI_X ()\nMPI_X ()", "MPI_X has two rows"),
        ("MPI_X", "a function without arguments"),
        ("MPI_X ()\n[calls]", "a second section [calls]"),
    ];
    for (rows, why) in mistakes {
        let error = table::parse(&format!("{kinds}[calls]\n{rows}\n")).expect_err(rows);
        let line = 4 + rows.lines().count();
        assert_eq!(error, format!("functions.txt:{line}: {why}"));
    }
    let unused = table::parse(&format!("{kinds}[calls]\nMPI_X ()\n")).expect_err("unused");
    assert_eq!(unused, "functions.txt: no function has an argument of kind `size`");
}

#[test]
fn the_sources_number_as_the_header_does() {
    let header = ours();
    let sources = Sources::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    let mut differences = Vec::new();
    for (name, value) in &sources.constants {
        match header.constants.get(name).and_then(|it| it.rsplit(' ').next()?.parse().ok()) {
            Some(declared) if *value == declared => {}
            Some(declared) => differences.push(format!("{name} is {declared}, not {value}")),
            None => differences.push(format!("{name} is not in the header")),
        }
    }
    println!("{} constants compared", sources.constants.len());
    assert!(differences.is_empty(), "\n{}", differences.join("\n"));
}

/// Whether a value of the declared type can be passed as the defined one.
fn fits(header: &Header, sources: &Sources, declared: &Type, defined: &Type) -> bool {
    // The library does not write what the header declares const. With two pointers, const says nothing about the
    // first, and the standard omits it for arrays of arrays.
    let promise = defined.pointers != 1 || !defined.array.is_empty() || !declared.constant;
    let kept = promise || defined.constant;
    if let Some(callback) = header.callbacks.get(&declared.base) {
        let Some(ours) = sources.callbacks.get(&defined.base) else {
            return declared.base == defined.base;
        };
        // A function is passed as a pointer, and our callback types are pointers already.
        return declared.pointers == defined.pointers + 1
            && is_called_as(header, sources, callback, ours);
    }
    // Where the header declares `void *`, any pointer will do.
    if declared.base == "void" && declared.pointers == 1 && defined.pointers > 0 {
        return kept;
    }
    // Where the kind of a handle does not matter, the sources use an integer of its size.
    let same = declared.base == defined.base
        || match header.types.get(&declared.base).map(String::as_str) {
            Some("enum") => defined.base == "int",
            Some("handle") => defined.base == "usize",
            _ => false,
        };
    same && kept && declared.pointers == defined.pointers && declared.array == defined.array
}

/// Whether the library calls a callback with what the header declares.
fn is_called_as(
    header: &Header,
    sources: &Sources,
    declared: &Signature,
    ours: &Signature,
) -> bool {
    let fits = |declared, ours| fits(header, sources, declared, ours);
    let mut arguments = declared.parameters.iter().zip(&ours.parameters);
    fits(&declared.returns, &ours.returns)
        && declared.parameters.len() == ours.parameters.len()
        && declared.open == ours.open
        && arguments.all(|(declared, ours)| fits(declared, ours))
}

/// Fails with the entries that only one of two lists has.
fn compare(one: &str, left: &BTreeSet<String>, other: &str, right: &BTreeSet<String>) {
    let only = |a: &BTreeSet<String>, b: &BTreeSet<String>| {
        a.difference(b).map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
    };
    assert!(
        left == right,
        "only in {one}:\n{}\nonly in {other}:\n{}",
        only(left, right),
        only(right, left)
    );
}

/// The sizes and offsets of types that callers and library share, as a compiler sees them.
fn layout(include: &Path, header: &str) -> Option<String> {
    let folder = Folder::new(&format!("layout-{}", header.len()));
    let (source, program) = (folder.join("layout.c"), folder.join("layout"));
    let text = r#"
#include <stddef.h>
#include <stdio.h>
#define SIZE(type) printf("%s %d\n", #type, (int)sizeof(type))
#define NUMBER(type) printf("%s %d %s\n", #type, (int)sizeof(type), (type)-1 < 0 ? "signed" : "unsigned")
#define PLACE(field) printf("%s %d\n", #field, (int)offsetof(MPI_Status, field))
struct aligned { char one; MPI_Status status; };
int main(void) {
    NUMBER(MPI_Aint);
    NUMBER(MPI_Offset);
    NUMBER(MPI_Count);
    printf("MPI_Status %d aligned %d\n", (int)sizeof(MPI_Status), (int)offsetof(struct aligned, status));
    PLACE(MPI_SOURCE);
    PLACE(MPI_TAG);
    PLACE(MPI_ERROR);
    PLACE(MPI_internal);
    SIZE(MPI_Comm);
    SIZE(MPI_T_enum);
    SIZE(MPI_T_cb_safety);
    SIZE(MPI_User_function *);
    return 0;
}
"#;
    fs::write(&source, format!("#include <{header}>\n{text}")).expect("written");
    let mut compiler = Command::new("cc");
    compiler.arg("-I").arg(include).arg(&source).arg("-o").arg(&program);
    let output = compiler.output().ok()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let output = Command::new(&program).output().expect("it runs");
    Some(String::from_utf8(output.stdout).expect("text"))
}

fn ours() -> Header {
    Header::parse(&fs::read_to_string(include().join("mpi.h")).expect("include/mpi.h"))
}

/// The declarations of all headers.
fn all_headers() -> Header {
    let texts = ["mpi.h", "ferry.h", "mpi-ext.h"]
        .map(|name| fs::read_to_string(include().join(name)).expect("a header"));
    Header::parse(&texts.join("\n"))
}

fn table() -> Vec<Function> {
    table::parse(include_str!("../functions.txt")).unwrap_or_else(|error| panic!("{error}"))
}

fn facts() -> BTreeSet<String> {
    let facts = include_str!("header/facts.txt").lines();
    facts.filter(|line| !line.starts_with('#')).map(String::from).collect()
}
