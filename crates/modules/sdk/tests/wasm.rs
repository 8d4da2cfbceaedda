//! The Rust examples, compiled to WebAssembly: they export the hooks, import only what the NIC offers, and fit into the
//! memory of a module.
#![allow(missing_docs)]

use std::path::{Path, PathBuf};
use std::process::Command;

const TARGET: &str = "wasm32-unknown-unknown";
const PAGES_MAX: u64 = 16;

#[test]
fn the_examples_are_modules() {
    if !is_installed() {
        println!("{TARGET} is not installed: modules in Rust are not tested, those in C are");
        return;
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let sdk = folder.join("libferrywire_module.rlib");
    compile(&here("src/lib.rs"), &sdk, &["--crate-name=ferrywire_module", "--crate-type=rlib"]);
    for name in ["echo", "histogram"] {
        let source = here(&format!("../../../examples/modules/rust/{name}.rs"));
        let module = folder.join(format!("{name}.wasm"));
        let sdk = format!("--extern=ferrywire_module={}", sdk.display());
        let stack = "-Clink-arg=-zstack-size=8192";
        compile(&source, &module, &["--crate-type=cdylib", "-Cstrip=symbols", stack, &sdk]);
        let bytes = std::fs::read(&module).expect("the compiler wrote the module");
        let found = Interface::of(&bytes);
        println!("{name}: {} bytes, {found:?}", bytes.len());
        for hook in ["on_load", "on_message", "on_counter", "memory"] {
            assert!(found.exports.iter().any(|export| export == hook), "{name} lacks {hook}");
        }
        assert!(found.imports.iter().all(|module| module == "ferry"), "{name}: {found:?}");
        assert!(found.pages <= PAGES_MAX, "{name}: {found:?}");
    }
}

fn is_installed() -> bool {
    let answer = rustc().args(["--print=target-libdir", "--target", TARGET]).output();
    let answer = answer.expect("rustc runs");
    let folder = String::from_utf8(answer.stdout).expect("a path is text");
    Path::new(folder.trim()).is_dir()
}

fn compile(source: &Path, into: &Path, options: &[&str]) {
    let mut command = rustc();
    command.args(["--edition=2024", "--target", TARGET, "-Copt-level=s", "-Cpanic=abort"]);
    command.args(options).arg("-o").arg(into).arg(source);
    let outcome = command.status().expect("rustc runs");
    assert!(outcome.success(), "{command:?}");
}

fn rustc() -> Command {
    Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
}

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Imports and exports of a module, read from its sections.
#[derive(Debug, Default)]
struct Interface {
    /// The module name of each import.
    imports: Vec<String>,
    exports: Vec<String>,
    /// Initial memory.
    pages: u64,
}

impl Interface {
    fn of(bytes: &[u8]) -> Interface {
        assert_eq!(&bytes[..8], b"\0asm\x01\0\0\0");
        let mut found = Interface::default();
        let mut rest = &bytes[8..];
        while let Some((&section, after)) = rest.split_first() {
            rest = after;
            let len = usize::try_from(number(&mut rest)).expect("a section is short");
            let (mut body, after) = rest.split_at(len);
            rest = after;
            match section {
                2 => found.read_imports(&mut body),
                5 => found.read_memory(&mut body),
                7 => found.read_exports(&mut body),
                _ => {}
            }
        }
        found
    }

    fn read_imports(&mut self, body: &mut &[u8]) {
        for _ in 0..number(body) {
            self.imports.push(name(body));
            name(body);
            assert_eq!(number(body), 0, "only functions are imported");
            number(body);
        }
    }

    fn read_memory(&mut self, body: &mut &[u8]) {
        assert_eq!(number(body), 1, "one memory");
        number(body); // Whether there is a maximum, which follows the minimum.
        self.pages = number(body);
    }

    fn read_exports(&mut self, body: &mut &[u8]) {
        for _ in 0..number(body) {
            self.exports.push(name(body));
            number(body);
            number(body);
        }
    }
}

/// A LEB128 number: seven bits per byte, lowest first.
fn number(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..).step_by(7) {
        let (&byte, rest) = bytes.split_first().expect("a number ends");
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            break;
        }
    }
    value
}

fn name(bytes: &mut &[u8]) -> String {
    let len = usize::try_from(number(bytes)).expect("a name is short");
    let (name, rest) = bytes.split_at(len);
    *bytes = rest;
    String::from_utf8(name.to_vec()).expect("a name is text")
}
