//! `ferry module cc`: clang, with the options that make a module.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use ferrywire_modules::CLANG_FLAGS;

use crate::home::Home;

/// Compiles. Returns only if clang does not start: otherwise it replaces this process.
pub(crate) fn compile(arguments: &[OsString]) -> ExitCode {
    let home = match Home::find() {
        Ok(home) => home,
        Err(why) => {
            eprintln!("ferry module cc: {why}");
            return ExitCode::FAILURE;
        }
    };
    let name = std::env::var_os("FERRY_MODULE_CC").unwrap_or_else(|| "clang".into());
    let error =
        Command::new(&name).args(CLANG_FLAGS).arg("-I").arg(home.include).args(arguments).exec();
    eprintln!(
        "ferry module cc: cannot start {}: {error}; install clang and lld (on Debian: apt install clang lld), or set \
         FERRY_MODULE_CC to another clang",
        name.display()
    );
    ExitCode::from(127)
}
