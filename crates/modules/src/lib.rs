//! User code on the NIC: the client of the module engine.
//!
//! A module is WebAssembly that runs when a message has come for it. What compiles and runs it is a library of
//! its own, `libferry_modules.so`, loaded when the first module is: it carries a compiler, and a job without
//! modules neither waits for it nor pays for it. This crate finds that library ([`Engine::open`]), hands it
//! bytes ([`Engine::compile`]) and makes live modules of the result ([`Code::start`]), which the NIC knows as
//! [`ferrywire_nic::Module`]s. What the two libraries say to each other is in [`abi`].

pub mod abi;
mod agree;
mod budget;
mod client;
mod fault;
mod find;
mod start;

pub use agree::agree;
pub use budget::{BadSetting, Budget};
pub use client::{Code, Engine, Facts, Instance, Refusal};
pub use fault::ModuleFault;
pub use find::Unavailable;
pub use start::{Trouble, start};

/// How clang makes a module: no library, no entry, a small stack that traps where it ends, and no
/// instruction that an old engine would not know.
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
