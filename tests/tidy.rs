//! Rules that a compiler does not enforce: which crate may import which, what the core may not know, and what no source
//! file may contain.
//!
//! Each rule is one test, and each failure prints the rule, its reason and the place. Manifests and sources are read as
//! text, line by line: a rule that needs a full parser does not belong here.
#![allow(missing_docs)]

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Every crate, by folder, and those of our crates that it may import. A crate missing from the table is a failure.
const ALLOWED: &[(&str, &[&str])] = &[
    ("nic", &[]),
    ("mpi", &["nic"]),
    ("modules", &["nic"]),
    ("host", &["nic"]),
    ("runtime", &["mpi", "host", "modules"]),
    ("ferrywire", &["mpi", "host", "modules", "runtime", "ferrywire/derive"]),
    ("abi", &["mpi", "host", "modules", "runtime"]),
    ("ferry", &["nic", "mpi", "host", "modules", "runtime", "ferrywire", "sim"]),
    ("sim", &["nic", "mpi", "modules"]),
    // The generated code names it.
    ("ferrywire/derive", &["ferrywire"]),
    ("host/loom", &[]),
    ("modules/engine", &["nic", "modules"]),
    ("modules/sdk", &[]),
];

/// What the tests of a crate may import in addition. The tests of the core run the existing collectives instead of
/// writing them a second time; modules are tested in jobs, and in the simulator.
const ALLOWED_IN_TESTS: &[(&str, &[&str])] =
    &[("nic", &["mpi"]), ("modules/engine", &["mpi", "ferrywire", "sim"])];

/// The most dependencies of the core.
const NIC_DEPENDENCIES_MAX: usize = 2;

#[test]
fn every_crate_has_a_row_in_the_table() {
    for krate in crates() {
        assert!(
            ALLOWED.iter().any(|(name, _)| *name == krate.name),
            "crates/{} has no row in ALLOWED. A crate exists where an import must be impossible, \
             so a crate of ours says what it may import before it imports it",
            krate.name
        );
        let package = format!("name = \"{}\"", package(&krate.name));
        assert!(krate.manifest.contains(&package), "crates/{}: {package}", krate.name);
    }
}

#[test]
fn crates_import_only_what_the_table_allows() {
    let mut breaches = Vec::new();
    for krate in crates() {
        let allowed = allowed(&krate.name);
        for import in krate.own_imports() {
            if !allowed.contains(&import.as_str()) {
                breaches.push(format!("{} imports {import}", krate.name));
            }
        }
        for import in krate.own_among(&krate.dependencies(&["dev-dependencies"])) {
            let row = ALLOWED_IN_TESTS.iter().find(|(name, _)| *name == krate.name);
            let in_tests = row.is_some_and(|(_, imports)| imports.contains(&import.as_str()));
            if !in_tests && !allowed.contains(&import.as_str()) {
                breaches.push(format!("tests of {} import {import}", krate.name));
            }
        }
        // A manifest is not the only way to import: a path works as well.
        for (place, line) in krate.code() {
            for (other, _) in ALLOWED {
                let named = names_crate(&line, &package(other));
                if named && *other != krate.name && !allowed.contains(other) {
                    breaches.push(format!("{place} names {other}"));
                }
            }
        }
    }
    hold(
        "arrows point toward nic, so that each crate can be read without those above it",
        breaches,
    );
}

/// Folders of `abi`, each of which may name those after it.
const ABI_LAYERS: [&str; 3] = ["calls", "objects", "convert"];

#[test]
fn abi_converts_before_it_calls() {
    let Some(abi) = find("abi") else { return };
    let mut breaches = Vec::new();
    for (place, line) in abi.code() {
        let layer = ABI_LAYERS.iter().position(|layer| place.contains(&format!("/src/{layer}/")));
        let Some(layer) = layer else { continue };
        for above in &ABI_LAYERS[..layer] {
            if line.contains(&format!("crate::{above}::")) {
                breaches.push(format!("{place} names {above}"));
            }
        }
    }
    hold(
        "arrows go from calls to objects to convert, so that another front can share them",
        breaches,
    );
}

#[test]
fn nic_depends_on_no_crate_of_ours_and_on_at_most_two_others() {
    let Some(nic) = find("nic") else { return };
    let own = nic.own_imports();
    assert!(
        own.is_empty(),
        "nic points to nothing: every other crate stands on it. Found: {own:?}"
    );
    let names = nic.dependencies(&["dependencies", "build-dependencies"]);
    assert!(
        names.len() <= NIC_DEPENDENCIES_MAX,
        "nic depends on at most {NIC_DEPENDENCIES_MAX} crates: the core must be readable to the \
         bottom, and build where there is no operating system. Found: {names:?}"
    );
}

#[test]
fn sim_and_host_never_meet() {
    for (one, other) in [("sim", "host"), ("host", "sim")] {
        let Some(krate) = find(one) else { continue };
        assert!(
            !krate.own_imports().contains(&other.to_string()),
            "{one} imports {other}: they are two worlds for one NIC, and a NIC that passes in one \
             proves something about the other only if neither leans on the other"
        );
    }
}

#[test]
fn mpi_imports_only_nic_among_ours() {
    let Some(mpi) = find("mpi") else { return };
    let own = mpi.own_imports();
    assert!(
        own.iter().all(|name| name == "nic"),
        "mpi is the meaning of MPI without an operating system, so of ours it imports nic alone. \
         Found: {own:?}"
    );
}

#[test]
fn the_logic_forbids_unsafe() {
    for name in ["nic", "mpi", "sim"] {
        let Some(krate) = find(name) else { continue };
        assert!(
            krate.root().lines().any(|line| line.trim() == "#![forbid(unsafe_code)]"),
            "crates/{name}/src/lib.rs must say #![forbid(unsafe_code)]: the logic touches no \
             memory but its own, and unsafe lives where the machine is"
        );
    }
}

#[test]
fn nic_is_no_std() {
    let Some(nic) = find("nic") else { return };
    assert!(
        nic.root().lines().any(|line| line.trim() == "#![no_std]"),
        "crates/nic/src/lib.rs must say #![no_std]: a core without an operating system has no \
         clock, no thread and no file to be surprised by"
    );
    let breaches = nic.code().filter(|(_, line)| names_path(line, "std")).map(place).collect();
    hold("nic never names std outside of tests: what it needs comes through Port", breaches);
}

#[test]
fn nic_speaks_no_mpi() {
    let Some(nic) = find("nic") else { return };
    let breaches = nic
        .code()
        .filter(|(_, line)| {
            let line = without_strings(line);
            let communicator = line.to_lowercase().contains("communicator");
            communicator || words(&line).any(|word| word.starts_with("MPI_"))
        })
        .map(place)
        .collect();
    hold("nic knows groups, words and tickets; MPI's objects are the business of mpi", breaches);
}

#[test]
fn only_the_runtime_asks_a_nic_for_something() {
    let asks = [
        "wait_around",
        "wait_for_around",
        ".submit(",
        "nic.post_",
        ".rank().post_and_wait(",
        ".rank().wait",
    ];
    let mut breaches = Vec::new();
    for front in ["abi", "ferrywire"].into_iter().filter_map(find) {
        let is_breach = |(_, line): &(String, String)| asks.iter().any(|ask| line.contains(ask));
        breaches.extend(front.code().filter(is_breach).map(place));
    }
    hold(
        "a front converts; what MPI asks of a NIC, and how it waits for that, is in the runtime",
        breaches,
    );
}

#[test]
fn only_one_file_of_the_runtime_waits_for_a_driver() {
    let Some(runtime) = find("runtime") else { return };
    let waits = ["wait_around", "wait_for_around", "driver.perform", "driver.wait", ".rank().wait"];
    let is_breach = |(place, line): &(String, String)| {
        !place.contains("src/plane.rs") && waits.iter().any(|wait| line.contains(wait))
    };
    hold(
        "whoever waits looks at all planes if a user-defined operator may wait there: by plane.rs",
        runtime.code().filter(is_breach).map(place).collect(),
    );
}

#[test]
fn no_code_is_left_for_later() {
    let mut breaches = Vec::new();
    for krate in crates() {
        for (path, text) in krate.files("") {
            for (number, line) in text.lines().enumerate() {
                let unfinished = line.contains("todo!") || line.contains("unimplemented!");
                if unfinished || words(line).any(|word| word == "TODO" || word == "FIXME") {
                    breaches.push(format!("{}:{}", path.display(), number + 1));
                }
            }
        }
    }
    hold("what is in the tree works; what is missing is in the list of issues", breaches);
}

#[test]
fn every_file_opens_with_what_it_is() {
    let breaches = crates()
        .iter()
        .flat_map(Crate::sources)
        .filter(|(_, text)| !text.starts_with("//!"))
        .map(|(path, _)| path.display().to_string())
        .collect();
    hold("a source file opens with //!, so that its first screen says what it is for", breaches);
}

#[test]
fn a_crate_names_one_type_by_each_name() {
    let mut breaches = Vec::new();
    for krate in crates() {
        let mut known: HashMap<String, String> = HashMap::new();
        let mut is_one_of_several = false;
        for (place, line) in krate.code() {
            // Of a type that has a form for each sort of machine, or for a feature, a build has one.
            let name = defined_type(&line).filter(|_| !is_one_of_several);
            is_one_of_several = line.starts_with("#[cfg");
            let Some(name) = name else { continue };
            if let Some(other) = known.insert(name.to_string(), place.clone()) {
                breaches.push(format!("{place}: {name} is the name of another type at {other}"));
            }
        }
    }
    hold("a reader who searches for a type finds one, so no two of a crate share a name", breaches);
}

/// The most named functions between a user's call and the rail.
const PATH_MAX: usize = 7;

#[test]
fn the_path_of_a_short_message_is_what_the_architecture_says() {
    let page = fs::read_to_string(repository().join("docs/ARCHITECTURE.md")).expect("the page");
    let rows = page.lines().skip_while(|line| !line.starts_with("| function | where |")).skip(2);
    let path: Vec<(&str, &str)> = rows
        .take_while(|line| line.starts_with('|'))
        .filter_map(|line| {
            let mut cells = line.split('|').map(|cell| cell.trim().trim_matches('`')).skip(1);
            Some((cells.next()?, cells.next()?))
        })
        .collect();
    let Some(((rail, _), before)) = path.split_last() else { panic!("the table is gone") };
    assert_eq!(*rail, "transmit", "the last row is the rail");
    assert!(before.len() <= PATH_MAX, "more than {PATH_MAX} functions from MPI_Send to the rail");
    for (index, (name, file)) in path.iter().enumerate() {
        let text = fs::read_to_string(repository().join(file)).expect(file);
        let defines = |line: &&str| {
            line.contains(&format!("fn {name} ")) || line.contains(&format!("fn {name}("))
        };
        assert_eq!(text.lines().filter(defines).count(), 1, "definitions of {name} in {file}");
        // The front's request travels down as a closure, so any earlier file may have the call.
        let calls = |(_, file): &(&str, &str)| {
            let text = fs::read_to_string(repository().join(file)).expect(file);
            text.lines().any(|line| line.contains(&format!("{name}(")) && !defines(&line))
        };
        assert!(index == 0 || path[..=index].iter().any(calls), "nothing on the path calls {name}");
    }
}

#[test]
fn settings_are_read_at_the_top_only() {
    let mut breaches = Vec::new();
    for name in ["nic", "mpi", "sim", "modules"] {
        let Some(krate) = find(name) else { continue };
        let reads = |line: &str| {
            let grouped = line.contains("std::{") && words(line).any(|word| word == "env");
            grouped || names_path(line, "std::env") || names_path(line, "env")
        };
        breaches.extend(krate.code().filter(|(_, line)| reads(line)).map(place));
    }
    hold(
        "environment variables are read in host and ferry alone, once, and handed down by value: \
         the same call then does the same thing in every world",
        breaches,
    );
}

/// One of our crates, as text.
struct Crate {
    name: String,
    folder: PathBuf,
    manifest: String,
}

impl Crate {
    /// The crate in a folder of `crates/`, if it exists.
    fn at(name: &str) -> Option<Crate> {
        let folder = repository().join("crates").join(name);
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).ok()?;
        Some(Crate { name: name.to_string(), folder, manifest })
    }

    /// Those of our crates that the manifest names. Tests may import no more than the code: a crate whose tests need a
    /// higher one is tested in the wrong place.
    fn own_imports(&self) -> Vec<String> {
        self.own_among(&self.dependencies(&["dependencies", "build-dependencies"]))
    }

    fn own_among(&self, names: &[String]) -> Vec<String> {
        names.iter().filter_map(|name| folder_of(name)).filter(|name| *name != self.name).collect()
    }

    /// Names of the packages in the given tables of the manifest, including target-specific ones.
    fn dependencies(&self, tables: &[&str]) -> Vec<String> {
        let mut names = Vec::new();
        let mut inside = false;
        for line in self.manifest.lines().map(str::trim) {
            if let Some(header) = line.strip_prefix('[') {
                let header = header.trim_end_matches(']');
                let is_table = |name: &str| {
                    tables
                        .iter()
                        .any(|table| name == *table || name.ends_with(&format!(".{table}")))
                };
                inside = is_table(header);
                // `[dependencies.name]` is a dependency too.
                if let Some((table, name)) = header.rsplit_once('.')
                    && is_table(table)
                {
                    names.push(name.to_string());
                }
            } else if inside && !line.starts_with('#') && line.contains('=') {
                let key = line.split(['=', '.']).next().unwrap_or_default();
                names.push(renamed(line).unwrap_or(key.trim()).trim_matches('"').to_string());
            }
        }
        names
    }

    /// Text of the crate's root.
    fn root(&self) -> String {
        fs::read_to_string(self.folder.join("src/lib.rs")).expect("the crate has a lib.rs")
    }

    /// Every source file of the crate, with its path from the root of the repository.
    fn sources(&self) -> Vec<(PathBuf, String)> {
        self.files("src")
    }

    /// Every Rust file below `part` of the crate's folder: sources, tests, benches, examples.
    fn files(&self, part: &str) -> Vec<(PathBuf, String)> {
        let mut found = Vec::new();
        collect(&self.folder.join(part), &mut found);
        found.sort();
        found
    }

    /// Every line of code with its place, without comments. Test modules are at the bottom of a file, so the code of a
    /// file ends where they begin.
    fn code(&self) -> impl Iterator<Item = (String, String)> {
        self.sources().into_iter().filter(|(path, _)| !is_test(path)).flat_map(|(path, text)| {
            let mut lines = Vec::new();
            let mut pending = false;
            for (number, line) in text.lines().enumerate() {
                let is_module = line.starts_with("mod ") && line.ends_with('{');
                if pending && is_module {
                    break;
                }
                pending = line.trim() == "#[cfg(test)]" || pending && line.starts_with("#[");
                let place = format!("{}:{}", path.display(), number + 1);
                lines.push((place, without_comment(line).to_string()));
            }
            lines
        })
    }
}

/// The name of the type that a line defines, if it begins a definition.
fn defined_type(line: &str) -> Option<&str> {
    if line.starts_with(' ') {
        return None;
    }
    let mut words =
        words(line).skip_while(|word| matches!(*word, "pub" | "crate" | "super" | "in"));
    let keyword = words.next()?;
    matches!(keyword, "struct" | "enum" | "union" | "trait" | "type").then(|| words.next())?
}

/// Fails with the rule and all places that violate it.
fn hold(rule: &str, breaches: Vec<String>) {
    assert!(breaches.is_empty(), "{rule}. Broken here:\n  {}", breaches.join("\n  "));
}

/// All our crates, nested ones included.
fn crates() -> Vec<Crate> {
    let mut found = Vec::new();
    for name in folders_in("") {
        found.extend(Crate::at(&name));
        found.extend(folders_in(&name).iter().filter_map(|inner| Crate::at(inner)));
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    assert!(
        found.iter().any(|krate| krate.name == "nic"),
        "no crates/nic: looked in the wrong place"
    );
    found
}

/// Names of folders, relative to `crates/`.
fn folders_in(name: &str) -> Vec<String> {
    let entries = fs::read_dir(repository().join("crates").join(name)).expect("a folder");
    let inner = entries.filter_map(|entry| {
        let entry = entry.expect("it can be listed");
        let own = entry.file_name().to_str()?.to_string();
        entry.path().is_dir().then(|| if name.is_empty() { own } else { format!("{name}/{own}") })
    });
    inner.collect()
}

fn find(name: &str) -> Option<Crate> {
    crates().into_iter().find(|krate| krate.name == name)
}

fn allowed(name: &str) -> &'static [&'static str] {
    ALLOWED.iter().find(|(row, _)| *row == name).map_or(&[], |(_, allowed)| allowed)
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The package in the folder: `nic` holds `ferrywire-nic`, `ferrywire` holds itself.
fn package(folder: &str) -> String {
    match folder {
        "ferrywire" => "ferrywire".into(),
        "ferrywire/derive" => "ferrywire-derive".into(),
        "host/loom" => "ferrywire-host-loom".into(),
        "modules/engine" => "ferrywire-engine".into(),
        "modules/sdk" => "ferrywire-module".into(),
        _ => format!("ferrywire-{folder}"),
    }
}

/// The folder of one of our packages.
fn folder_of(package_name: &str) -> Option<String> {
    let row = ALLOWED.iter().find(|(folder, _)| package(folder) == package_name);
    row.map(|(folder, _)| folder.to_string())
}

/// The real name in `short = { package = "real", .. }`.
fn renamed(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once("package")?;
    let rest = rest.trim_start().strip_prefix('=')?;
    rest.split('"').nth(1)
}

/// Every `.rs` file below `folder`, with its path from the root of the repository.
fn collect(folder: &Path, found: &mut Vec<(PathBuf, String)>) {
    for entry in fs::read_dir(folder).expect("a source folder can be read") {
        let path = entry.expect("a source folder can be listed").path();
        if path.is_dir() {
            collect(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            let text = fs::read_to_string(&path).expect("a source file is text");
            let short = path.strip_prefix(repository()).expect("inside the repository");
            found.push((short.to_path_buf(), text));
        }
    }
}

/// Whether the whole file is a test: `tests.rs`, or in a folder `tests`.
fn is_test(path: &Path) -> bool {
    path.file_stem().is_some_and(|stem| stem == "tests")
        || path.components().any(|part| part.as_os_str() == "tests")
}

/// The line up to its comment. A `//` inside a string does not begin one.
fn without_comment(line: &str) -> &str {
    let mut quoted = false;
    let mut escaped = false;
    let bytes = line.as_bytes();
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'/' if !quoted && bytes.get(at + 1) == Some(&b'/') => return &line[..at],
            _ => {}
        }
    }
    line
}

/// The line without string literals: text for people may use any word.
fn without_strings(line: &str) -> String {
    line.split('"').step_by(2).collect::<Vec<_>>().join(" ")
}

/// The identifiers of a line.
fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// Whether the line names `path` as the beginning of a path: `std` in `std::fmt`, in `::std::fmt` and in `extern crate
/// std;`, not in `no_std` nor in `other::std::fmt`.
fn names_path(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| {
        let before = line[..at].strip_suffix("::").unwrap_or(&line[..at]);
        let inside = |c: char| c.is_alphanumeric() || c == '_' || c == '>';
        let begins = !before.ends_with(inside);
        let after = &line[at + path.len()..];
        let named = after.starts_with("::") || after.starts_with(';');
        begins && (named || line.contains("extern crate") && after.starts_with(' '))
    })
}

/// Whether the line names the crate of `package` in code.
fn names_crate(line: &str, package: &str) -> bool {
    names_path(&without_strings(line), &package.replace('-', "_"))
}

fn place((place, line): (String, String)) -> String {
    format!("{place}: {}", line.trim())
}
