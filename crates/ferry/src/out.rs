//! Printing to the standard output.

use std::fmt::Display;
use std::io::{ErrorKind, Write, stdout};

use ferrywire_host::ErrorCode;
use serde::Serialize;

/// Prints a line. Exits if the reader has closed the pipe (`ferry ... | head`).
pub(crate) fn line(text: impl Display) {
    match writeln!(stdout(), "{text}") {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::BrokenPipe => std::process::exit(0),
        Err(error) => {
            let why = format_args!("cannot write to the standard output: {error}");
            eprintln!("ferry: {}", ErrorCode::OUTPUT.ends(why));
            std::process::exit(1);
        }
    }
}

/// Prints a JSON document.
pub(crate) fn json(document: &impl Serialize) {
    line(serde_json::to_string_pretty(document).expect("reports are plain data"));
}

/// Breaks a text into lines of at most so many columns, at blanks. A longer word, such as a path, has a line of its own.
pub(crate) fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= columns => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}
