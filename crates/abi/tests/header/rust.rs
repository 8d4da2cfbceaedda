//! The functions that the sources of the library define, as C would declare them. Parses only the text between `fn`
//! and the body in `entries!`, `answers!` and `unsupported!`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::c::{Signature, Type, number};
use crate::macros::Macro;

/// What the sources define.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    pub(crate) functions: BTreeMap<String, Signature>,
    /// Functions that are not implemented.
    pub(crate) unsupported: BTreeSet<String>,
    /// Named numbers, whatever their types.
    pub(crate) constants: BTreeSet<(String, i64)>,
    /// Types of callbacks, by name. Two files may use the same name.
    pub(crate) callbacks: BTreeMap<String, Vec<Signature>>,
}

/// The variant of a function, which determines the types of sizes.
#[derive(Clone, Copy)]
enum Sizes {
    Small,
    Large,
}

impl Sources {
    pub(crate) fn read(folder: &Path) -> Sources {
        let mut texts = Vec::new();
        collect(folder, &mut texts);
        let mut texts: Vec<String> = texts.iter().map(|text| code_of(text)).collect();
        let macros: Vec<String> = texts.iter().flat_map(|text| expansions(text)).collect();
        texts.extend(macros);
        let mut sources = Sources::default();
        for text in &texts {
            sources.add_callbacks(text);
            sources.add_constants(text);
        }
        for text in &texts {
            for block in blocks(text, "entries!").chain(blocks(text, "answers!")) {
                sources.add_functions(block);
            }
            for block in blocks(text, "unsupported!") {
                sources.unsupported.extend(block.split_whitespace().map(String::from));
            }
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
                to_c(unnamed, Sizes::Small)
            });
            let returns = rest.trim_start().strip_prefix("->").map_or("()", str::trim);
            let returns = to_c(returns.trim_end_matches('>'), Sizes::Small);
            let signature = Signature { returns, parameters: types.collect(), open };
            self.callbacks.entry(name.trim().into()).or_default().push(signature);
        }
    }

    /// Any number of `fn name [/ large] (arguments) [on object] [-> answer] { … }`.
    fn add_functions(&mut self, block: &str) {
        let mut rest = block;
        while let Some((_, after)) = rest.split_once("fn ") {
            let (names, after) = after.split_once('(').expect("arguments");
            let end = closing(after, '(', ')').expect("the end of the arguments");
            let arguments = &after[..end];
            let after = &after[end + 1..];
            let (between, after) = after.split_once('{').expect("a body");
            let answer = between.split_once("->").map_or("c_int", |(_, kind)| kind.trim());
            for (name, sizes) in names.split('/').zip([Sizes::Small, Sizes::Large]) {
                let parameters = list(arguments).into_iter().map(|argument| {
                    let (_, kind) = argument.split_once(':').expect("a type");
                    to_c(kind.trim(), sizes)
                });
                let signature = Signature {
                    returns: to_c(answer, sizes),
                    parameters: parameters.collect(),
                    open: false,
                };
                self.functions.insert(name.trim().into(), signature);
            }
            rest = &after[closing(after, '{', '}').expect("the end of the body")..];
        }
    }
}

/// The C type that a type of the sources stands for.
fn to_c(kind: &str, sizes: Sizes) -> Type {
    let plain = |base: &str, pointers: usize, constant: bool| Type {
        constant,
        base: base.into(),
        pointers,
        array: String::new(),
    };
    let kind = kind.trim();
    let behind = |inner: &str, constant: bool| {
        let mut found = to_c(inner, sizes);
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
        return to_c(inner, sizes);
    }
    if let Some(inner) = kind.strip_prefix("*mut ") {
        return behind(inner, false);
    }
    if let Some(inner) = kind.strip_prefix("*const ") {
        return behind(inner, true);
    }
    if let Some(array) = kind.strip_prefix('[') {
        let (inner, len) = array.trim_end_matches(']').split_once(';').expect("a length");
        let mut found = to_c(inner, sizes);
        found.array = format!("[{}]", len.trim());
        return found;
    }
    match (kind.rsplit("::").next().unwrap_or(kind), sizes) {
        ("()", _) => plain("void", 0, false),
        ("c_void", _) => plain("void", 0, false),
        ("c_char", _) => plain("char", 0, false),
        ("c_int" | "PeerRank" | "SourceRank" | "RootRank" | "MessageTag", _)
        | ("Size" | "Displacement", Sizes::Small) => plain("int", 0, false),
        ("f64" | "c_double", _) => plain("double", 0, false),
        ("Size" | "Address", Sizes::Large) => plain("MPI_Count", 0, false),
        ("Displacement", Sizes::Large) | ("Address", Sizes::Small) => plain("MPI_Aint", 0, false),
        ("Text", _) => plain("char", 1, true),
        ("TextOut", _) => plain("char", 1, false),
        ("Choice", _) => plain("void", 1, true),
        ("ChoiceMut", _) => plain("void", 1, false),
        (name, _) => plain(name, 0, false),
    }
}

/// Splits arguments at commas outside of brackets.
fn list(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let (mut depth, mut from) = (0_i32, 0);
    for (at, c) in text.char_indices() {
        match c {
            '<' | '(' | '[' => depth += 1,
            '>' | ')' | ']' => depth -= 1,
            ',' if depth == 0 => {
                found.push(text[from..at].trim());
                from = at + 1;
            }
            _ => {}
        }
    }
    found.push(text[from..].trim());
    found.retain(|item| !item.is_empty());
    found
}

/// Expands the uses of the macros that a file defines.
fn expansions(text: &str) -> Vec<String> {
    let mut expanded = Vec::new();
    for one in Macro::all(text) {
        let name = format!("{}!", one.name);
        expanded.extend(blocks(text, &name).filter_map(|given| one.expand(given)));
    }
    expanded
}

/// The text in the braces after each use of a macro.
fn blocks<'a>(text: &'a str, name: &'a str) -> impl Iterator<Item = &'a str> {
    text.match_indices(name).filter_map(move |(at, _)| {
        let after = text[at + name.len()..].trim_start().strip_prefix('{')?;
        // `$(…)` occurs in a macro that defines functions itself.
        let block = &after[..closing(after, '{', '}')?];
        (!block.contains('$')).then_some(block)
    })
}

/// The position of the bracket that closes one opened before the text.
pub(crate) fn closing(text: &str, open: char, close: char) -> Option<usize> {
    let mut depth = 0_i32;
    for (at, c) in text.char_indices() {
        if c == open {
            depth += 1;
        } else if c == close && depth == 0 {
            return Some(at);
        } else if c == close {
            depth -= 1;
        }
    }
    None
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
