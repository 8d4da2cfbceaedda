//! Finding the engine library, and the errors when it is not the right one.
//!
//! None of these tests needs a built engine.
#![allow(missing_docs)]

use std::path::{Path, PathBuf};
use std::process::Command;

use ferrywire_modules::abi::{ENTRY, LIBRARY, VERSION};
use ferrywire_modules::{Engine, Unavailable};

#[test]
fn a_library_of_another_version_is_told_apart() {
    let path = library(
        "other-version",
        "static unsigned table[64] = {999}; void *ferry_module_engine(void) { return table; }",
    );
    let error = refused(&path);
    assert_eq!(error, Unavailable::Version { path: path.clone(), found: 999 });
    let text = error.to_string();
    assert!(text.contains("has interface version 999"), "{text}");
    assert!(text.contains(&format!("version {VERSION} is needed")), "{text}");
    assert!(text.contains("cargo build --release -p ferrywire-engine"), "{text}");
}

#[test]
fn a_library_without_the_entry_is_no_engine() {
    let path = library("no-entry", "int something_else(void) { return 1; }");
    let text = refused(&path).to_string();
    assert!(text.contains(&format!("it does not export {}", ENTRY.to_str().unwrap())), "{text}");
}

#[test]
fn a_library_without_a_table_is_no_engine() {
    let path = library("no-table", "void *ferry_module_engine(void) { return 0; }");
    let text = refused(&path).to_string();
    assert!(text.contains("its function table is null"), "{text}");
}

#[test]
fn a_file_that_is_no_library_says_so() {
    let path = folder().join("no-library.so");
    std::fs::write(&path, "this is text").unwrap();
    assert!(matches!(refused(&path), Unavailable::Broken { .. }));
}

/// Settings belong to the whole process, so another process is started to ask.
#[test]
fn a_missing_library_says_what_where_and_how() {
    let nowhere = folder().join("nowhere").join(LIBRARY);
    let text = asked_elsewhere(&nowhere);
    assert!(text.contains("modules need the library libferry_modules.so"), "{text}");
    assert!(text.contains("build it with `cargo build --release -p ferrywire-engine`"), "{text}");
    assert!(text.contains(&format!("looked for at {}", nowhere.display())), "{text}");
}

#[test]
fn the_setting_names_the_only_place() {
    let path = library(
        "setting",
        "static unsigned table[64] = {77}; void *ferry_module_engine(void) { return table; }",
    );
    assert!(asked_elsewhere(&path).contains("has interface version 77"));
}

/// The error when the setting names this file.
fn asked_elsewhere(engine: &Path) -> String {
    let settings =
        |name: &str| (name == "FERRY_MODULE_ENGINE").then(|| engine.display().to_string());
    Engine::open(settings).err().expect("the setting names no engine").to_string()
}

fn refused(path: &Path) -> Unavailable {
    Engine::load(path).err().expect("it is no engine")
}

/// A shared library from a few lines of C.
fn library(name: &str, text: &str) -> PathBuf {
    let source = folder().join(format!("{name}.c"));
    let library = folder().join(format!("{name}.so"));
    std::fs::write(&source, text).unwrap();
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .args([&library, &source])
        .status()
        .expect("whoever builds Ferrywire has a C compiler");
    assert!(built.success());
    library
}

fn folder() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("boundary");
    std::fs::create_dir_all(&folder).unwrap();
    folder
}
