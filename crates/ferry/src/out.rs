//! What goes to the standard output.

use std::fmt::Display;
use std::io::{ErrorKind, Write, stdout};

use serde::Serialize;

/// Prints a line. If nobody reads it any more (`ferry ... | head`), there is nothing left to do.
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

/// Prints a document.
pub(crate) fn json(document: &impl Serialize) {
    line(serde_json::to_string_pretty(document).expect("reports are plain data"));
}
