//! Constants and types of callbacks in the sources of the library, and the C types that its Rust types stand for.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::c::{Signature, Type, number};

/// What the sources define.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    /// Named numbers, whatever their types.
    pub(crate) constants: BTreeSet<(String, i64)>,
    /// Types of callbacks, by name.
    pub(crate) callbacks: BTreeMap<String, Signature>,
}

impl Sources {
    pub(crate) fn read(folder: &Path) -> Sources {
        let mut texts = Vec::new();
        collect(folder, &mut texts);
        let mut sources = Sources::default();
        for text in texts.iter().map(|text| code_of(text)) {
            sources.add_callbacks(&text);
            sources.add_constants(&text);
        }
        sources
    }

    /// `MPI_NAME = number;` and `const MPI_NAME: kind = number;`
    fn add_constants(&mut self, text: &str) {
        for piece in text.split([';', '{', '}']) {
            let Some((left, right)) = piece.split_once('=') else { continue };
            let Some(value) = number(&right.trim().replace('_', "")) else { continue };
            let words = left.split(|c: char| !c.is_alphanumeric() && c != '_');
            // Names of types have lower-case letters.
            let shouted = |word: &&str| !word.contains(|c: char| c.is_ascii_lowercase());
            if let Some(name) = words.filter(|it| it.starts_with("MPI_")).find(shouted) {
                self.constants.insert((name.into(), value));
            }
        }
    }

    /// `type Name = Option<unsafe extern "C" fn(…) -> …>;`
    fn add_callbacks(&mut self, text: &str) {
        for (at, _) in text.match_indices("type ") {
            let Some((definition, _)) = text[at + 5..].split_once(';') else { continue };
            let Some((name, value)) = definition.split_once('=') else { continue };
            let Some((_, function)) = value.split_once(" fn(") else { continue };
            let Some((parameters, rest)) = function.split_once(')') else { continue };
            let mut parameters: Vec<&str> = parameters.split(',').map(str::trim).collect();
            parameters.retain(|it| !it.is_empty());
            let open = parameters.last() == Some(&"...");
            if open {
                parameters.pop();
            }
            let types = parameters.into_iter().map(|it| {
                let unnamed = it.split_once(": ").map_or(it, |(_, kind)| kind);
                to_c(unnamed)
            });
            let returns = rest.trim_start().strip_prefix("->").map_or("()", str::trim);
            let returns = to_c(returns.trim_end_matches('>'));
            let signature = Signature { returns, parameters: types.collect(), open };
            self.callbacks.insert(name.trim().into(), signature);
        }
    }
}

/// The C type that a type of the sources stands for.
pub(crate) fn to_c(kind: &str) -> Type {
    let plain = |base: &str, pointers: usize, constant: bool| Type {
        constant,
        base: base.into(),
        pointers,
        array: String::new(),
    };
    let kind = kind.trim();
    let behind = |inner: &str, constant: bool| {
        let mut found = to_c(inner);
        found.constant |= constant && found.pointers == 0;
        found.pointers += 1;
        found
    };
    let inside = |name: &str| kind.strip_prefix(name)?.strip_suffix('>');
    if let Some(inner) = inside("Out<") {
        return behind(inner, false);
    }
    if let Some(inner) = inside("In<") {
        return behind(inner, true);
    }
    if let Some(inner) = inside("Option<") {
        return to_c(inner);
    }
    if let Some(inner) = kind.strip_prefix("*mut ") {
        return behind(inner, false);
    }
    if let Some(inner) = kind.strip_prefix("*const ") {
        return behind(inner, true);
    }
    if let Some(array) = kind.strip_prefix('[') {
        let (inner, len) = array.trim_end_matches(']').split_once(';').expect("a length");
        let mut found = to_c(inner);
        found.array = format!("[{}]", len.trim());
        return found;
    }
    match kind {
        "()" | "c_void" => plain("void", 0, false),
        "c_char" => plain("char", 0, false),
        "c_int" | "PeerRank" | "SourceRank" | "RootRank" | "MessageTag" => plain("int", 0, false),
        "f64" => plain("double", 0, false),
        "Text" => plain("char", 1, true),
        "TextOut" => plain("char", 1, false),
        "Choice" => plain("void", 1, true),
        "ChoiceMut" => plain("void", 1, false),
        name => plain(name, 0, false),
    }
}

/// The text without comments, and without the contents of strings and characters.
fn code_of(text: &str) -> String {
    let mut code = String::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let skipped = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if c == '"' {
            1 + end_of_string(&rest[1..])
        } else if c == '\'' {
            length_of_character(rest)
        } else {
            code.push(c);
            c.len_utf8()
        };
        if c == '"' {
            // Enough of `extern "C"` that it stays a word.
            code.push_str("\"\"");
        }
        rest = &rest[skipped..];
    }
    code
}

fn end_of_string(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// The length of the character literal that begins here; of a lifetime, only the quote.
fn length_of_character(text: &str) -> usize {
    let mut rest = text.char_indices().skip(1);
    match rest.next() {
        Some((_, '\\')) => text[3..].find('\'').map_or(1, |at| at + 4),
        Some(_) => match rest.next() {
            Some((at, '\'')) => at + 1,
            _ => 1,
        },
        None => 1,
    }
}

fn collect(folder: &Path, texts: &mut Vec<String>) {
    for entry in fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("a source").path();
        if path.is_dir() {
            collect(&path, texts);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            texts.push(fs::read_to_string(&path).expect("text"));
        }
    }
}
