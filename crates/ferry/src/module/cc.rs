//! `ferry module cc`: clang, told how to make a module.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use ferrywire_modules::CLANG_FLAGS;

use crate::home::Home;

/// Compiles. Returns only if there is no clang.
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
        "ferry module cc: {} cannot be started: {error}; modules in C need clang and lld (on Debian: \
         apt install clang lld), and FERRY_MODULE_CC names another clang",
        name.display()
    );
    ExitCode::from(127)
}
