//! User code on the NIC: the client of the module engine.
//!
//! A module is WebAssembly that runs when a message arrives for it. It is compiled and run by a separate library,
//! `libferry_modules.so`, which is loaded with the first module: it contains a compiler, and a job without modules
//! neither waits for it nor pays for it. This crate finds that library ([`Engine::open`]), passes it bytes
//! ([`Engine::compile`]) and starts live modules ([`Code::start`]), which the NIC knows as [`ferrywire_nic::Module`]s, and
//! operators of reductions ([`Code::start_operator`]).
//! The interface between the two libraries is in [`abi`].

pub mod abi;
mod agree;
mod budget;
mod client;
mod fault;
mod find;
mod start;

pub use agree::agree;
pub use budget::{BadSetting, Budget};
pub use client::{Code, CodeOperator, Engine, Facts, Instance, Refusal};
pub use fault::ModuleFault;
pub use find::Unavailable;
pub use start::{Trouble, start, start_operator};

/// Options of clang for a module: no library, no entry, a small stack that traps on overflow, and only instructions
/// that every engine knows.
pub const CLANG_FLAGS: &[&str] = &[
    "--target=wasm32",
    "-mcpu=mvp",
    "-O2",
    "-Wall",
    "-ffreestanding",
    "-nostdlib",
    "-Wl,--no-entry",
    "-Wl,--stack-first",
    "-Wl,-z,stack-size=8192",
    "-Wl,--strip-all",
];
