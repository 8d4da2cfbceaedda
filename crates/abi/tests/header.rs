//! Checks `include/mpi.h` against the standard ABI, another header of it, the exports of the library, and the
//! definitions in its sources. Callers rely on the header, and no compiler would notice a difference.
//!
//! `header/facts.txt` states the ABI, a line for each constant, type and function.

#[path = "header/c.rs"]
mod c;
mod common;
#[path = "header/macros.rs"]
mod macros;
#[path = "header/rust.rs"]
mod rust;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use c::{Header, Signature, Type};
use common::{Folder, include, library, other_header};
use rust::Sources;

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
fn the_sources_define_what_the_headers_declare() {
    let all = ["mpi.h", "ferry.h", "mpi-ext.h"]
        .map(|name| fs::read_to_string(include().join(name)).expect("a header"));
    let header = Header::parse(&all.join("\n"));
    let sources = Sources::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    let mut differences = Vec::new();
    for (name, defined) in &sources.functions {
        match header.functions.get(name) {
            None => differences.push(format!("{name} is not in the header")),
            Some(declared) => {
                if let Some(difference) = difference(&header, &sources, declared, defined) {
                    differences
                        .push(format!("{name}: {difference}\n    {declared}\n    {defined}"));
                }
            }
        }
    }
    for (name, _) in header.functions.iter().filter(|(name, _)| !name.starts_with('P')) {
        match (sources.functions.contains_key(name), sources.unsupported.contains(name)) {
            (true, true) => differences.push(format!("{name} is defined, and in unsupported! too")),
            (false, false) => differences
                .push(format!("{name} is not defined by entries!, answers! or unsupported!")),
            _ => {}
        }
    }
    println!(
        "{} functions compared, {} unsupported",
        sources.functions.len(),
        sources.unsupported.len()
    );
    assert!(differences.is_empty(), "\n{}", differences.join("\n"));
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

/// What a caller that trusts the header would get wrong.
fn difference(
    header: &Header,
    sources: &Sources,
    declared: &Signature,
    defined: &Signature,
) -> Option<String> {
    if !fits(header, sources, &declared.returns, &defined.returns) {
        return Some("returns something else".into());
    }
    // Variable arguments are not compared.
    if declared.parameters.len() != defined.parameters.len() {
        return Some("takes another number of arguments".into());
    }
    let pairs = declared.parameters.iter().zip(&defined.parameters).enumerate();
    let wrong = |(at, (c, rust)): (usize, (&Type, &Type))| {
        (!fits(header, sources, c, rust)).then(|| format!("argument {} is {c}, not {rust}", at + 1))
    };
    pairs.filter_map(wrong).next()
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
        let like = |one: &Signature| {
            difference(header, sources, callback, one).is_none() && callback.open == one.open
        };
        return declared.pointers == defined.pointers + 1 && ours.iter().any(like);
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

fn facts() -> BTreeSet<String> {
    let facts = include_str!("header/facts.txt").lines();
    facts.filter(|line| !line.starts_with('#')).map(String::from).collect()
}
