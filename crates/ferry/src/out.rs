//! Printing to the standard output.

use std::fmt::Display;
use std::io::{ErrorKind, Write, stdout};

use serde::Serialize;

/// Prints a line. Exits if the reader has closed the pipe (`ferry ... | head`).
pub(crate) fn line(text: impl Display) {
    match writeln!(stdout(), "{text}") {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::BrokenPipe => std::process::exit(0),
        Err(error) => {
            eprintln!("ferry: cannot write to the standard output: {error}");
            std::process::exit(1);
        }
    }
}

/// Prints a JSON document.
pub(crate) fn json(document: &impl Serialize) {
    line(serde_json::to_string_pretty(document).expect("reports are plain data"));
}
