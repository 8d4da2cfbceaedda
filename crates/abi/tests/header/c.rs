//! Reads an MPI header as facts: constants, types and functions, in one spelling whoever wrote it. Parses only the
//! part of C that such headers use.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// A C type, as far as it matters to a caller.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Type {
    /// Whether the pointee is const.
    pub(crate) constant: bool,
    /// The type behind all pointers.
    pub(crate) base: String,
    /// The number of pointers.
    pub(crate) pointers: usize,
    /// The length of an array that is pointed to, as in `int (*)[3]`.
    pub(crate) array: String,
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let constant = if self.constant { "const " } else { "" };
        write!(f, "{constant}{}{}", self.base, self.array)?;
        if self.pointers > 0 {
            write!(f, " {}", "*".repeat(self.pointers))?;
        }
        Ok(())
    }
}

/// The parameters and the result of a function.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Signature {
    pub(crate) returns: Type,
    pub(crate) parameters: Vec<Type>,
    /// Whether it has variable arguments.
    pub(crate) open: bool,
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parameters: Vec<String> = self.parameters.iter().map(Type::to_string).collect();
        if self.open {
            parameters.push("...".into());
        }
        write!(f, "{}({})", self.returns, parameters.join(", "))
    }
}

/// The contents of a header.
#[derive(Debug, Default)]
pub(crate) struct Header {
    /// Numbers, with their types.
    pub(crate) constants: BTreeMap<String, String>,
    /// Types of callbacks.
    pub(crate) callbacks: BTreeMap<String, Signature>,
    /// Other types, with their definitions.
    pub(crate) types: BTreeMap<String, String>,
    pub(crate) functions: BTreeMap<String, Signature>,
    /// The names of their parameters.
    pub(crate) names: BTreeMap<String, Vec<String>>,
}

impl Header {
    pub(crate) fn parse(text: &str) -> Header {
        let mut header = Header::default();
        let (macros, code) = without_macros(&without_comments(text));
        let statements = statements(&code);
        // A parameter of a callback type is a pointer, whether it says so or not.
        let callbacks: BTreeSet<String> =
            statements.iter().filter_map(|it| callback_name(it)).collect();
        for statement in &statements {
            header.add(statement, &callbacks);
        }
        for (name, value) in &macros {
            if let Some(value) = constant(value, &macros) {
                header.constants.insert(name.clone(), value);
            }
        }
        header
    }

    fn add(&mut self, statement: &str, callbacks: &BTreeSet<String>) {
        if let Some((head, body)) = statement.split_once('{') {
            let (body, name) = body.rsplit_once('}').expect("a brace for each");
            if head.contains("enum") {
                self.add_numbers(body);
            }
            if head.contains("typedef") {
                let kind = if head.contains("enum") { "enum" } else { body };
                let kind = kind.split_whitespace().collect::<Vec<_>>().join(" ");
                self.types.insert(name.trim().into(), kind);
            }
            return;
        }
        let Some((head, parameters)) = split_parameters(statement) else {
            let words = words(statement.strip_prefix("typedef").unwrap_or(statement));
            if let (true, Some((name, kind))) =
                (statement.starts_with("typedef"), words.split_last())
            {
                // The struct that a handle points to does not matter.
                let kind = if kind[0] == "struct" { "handle".into() } else { kind.join(" ") };
                self.types.insert(name.clone(), kind);
            }
            return;
        };
        let head = words(&head.replace(['(', ')'], " "));
        let name = head.last().expect("a name").clone();
        let open = parameters.contains("...");
        let one = |text: &str| parse_type(text, callbacks);
        let parameters = parameters.split(',').map(str::trim);
        let parameters = parameters.filter(|it| *it != "void" && *it != "..." && !it.is_empty());
        let names = parameters.clone().map(parameter_name).collect();
        let parameters = parameters.map(one).collect();
        let is_type = head[0] == "typedef";
        let returns = one(&head[usize::from(is_type)..head.len() - 1].join(" "));
        let signature = Signature { returns, parameters, open };
        if is_type {
            self.callbacks.insert(name, signature);
        } else {
            self.names.insert(name.clone(), names);
            self.functions.insert(name, signature);
        }
    }

    fn add_numbers(&mut self, body: &str) {
        for item in body.split(',').filter(|item| !item.trim().is_empty()) {
            let (name, value) = item.split_once('=').expect("a value for each");
            let value = number(value.trim()).expect("a number");
            self.constants.insert(name.trim().into(), format!("int {value}"));
        }
    }

    /// All facts, one per line. The profiling names add none.
    pub(crate) fn facts(&self) -> BTreeSet<String> {
        let constants = self.constants.iter().map(|(name, it)| format!("constant {name} {it}"));
        let types = self.types.iter().map(|(name, it)| format!("type {name} {it}"));
        let callbacks = self.callbacks.iter().map(|(name, it)| format!("callback {name} {it}"));
        let functions = self.functions.iter().filter(|(name, _)| !name.starts_with('P'));
        let functions = functions.map(|(name, it)| format!("function {name} {it}"));
        constants.chain(types).chain(callbacks).chain(functions).collect()
    }
}

fn words(text: &str) -> Vec<String> {
    text.replace('*', " * ").split_whitespace().map(String::from).collect()
}

fn without_comments(text: &str) -> String {
    let mut clean = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("/*") {
        clean.push_str(before);
        clean.push(' ');
        rest = after.split_once("*/").map_or("", |(_, after)| after);
    }
    clean + rest
}

/// The macros with their values, and the text without them.
fn without_macros(text: &str) -> (BTreeMap<String, String>, String) {
    let mut macros = BTreeMap::new();
    let mut code = String::new();
    for line in text.replace("\\\n", " ").lines() {
        let line = line.trim();
        if let Some(definition) = line.strip_prefix("#define") {
            let definition = definition.trim();
            let (name, value) =
                definition.split_once(char::is_whitespace).unwrap_or((definition, ""));
            macros.insert(name.to_string(), value.trim().to_string());
        } else if !line.starts_with('#') && !line.starts_with("extern \"C\"") {
            code.push_str(line);
            code.push('\n');
        }
    }
    (macros, code)
}

/// The statements between semicolons, outside of braces.
fn statements(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut depth = 0_i32;
    let mut current = String::new();
    for c in code.chars() {
        match c {
            '{' => depth += 1,
            // The last brace closes the one that is opened for C++.
            '}' if depth == 0 => continue,
            '}' => depth -= 1,
            ';' if depth == 0 => {
                found.push(std::mem::take(&mut current).trim().to_string());
                continue;
            }
            _ => {}
        }
        current.push(c);
    }
    found
}

/// The text before the parameters, and the parameters.
fn split_parameters(statement: &str) -> Option<(&str, &str)> {
    let inner = statement.strip_suffix(')')?;
    inner.rfind('(').map(|at| (&inner[..at], &inner[at + 1..]))
}

fn callback_name(statement: &str) -> Option<String> {
    let (head, _) = split_parameters(statement.strip_prefix("typedef")?)?;
    words(&head.replace(['(', ')'], " ")).pop()
}

/// A type, with or without the name of a parameter after it.
fn parse_type(text: &str, callbacks: &BTreeSet<String>) -> Type {
    let arrays: Vec<&str> = text.match_indices('[').map(|(at, _)| &text[at..]).collect();
    let array = arrays.get(1).copied().unwrap_or_default().to_string();
    let words = words(text.split('[').next().unwrap_or_default());
    let stars = words.iter().filter(|word| *word == "*").count();
    let base = words.iter().find(|word| *word != "const" && *word != "*").expect("a type").clone();
    let callback = usize::from(stars == 0 && callbacks.contains(&base));
    let pointers = stars + usize::from(!arrays.is_empty()) + callback;
    // That a function may not change its own copy does not matter.
    let constant = pointers > 0 && words[0] == "const";
    Type { constant, base, pointers, array }
}

fn parameter_name(text: &str) -> String {
    words(text.split('[').next().unwrap_or_default()).pop().expect("a name")
}

/// The number in `((type)0x20)`, `42` or the name of another constant, with its type.
fn constant(value: &str, macros: &BTreeMap<String, String>) -> Option<String> {
    if let Some(other) = macros.get(value) {
        return constant(other, macros);
    }
    if let Some(plain) = number(value) {
        return Some(format!("int {plain}"));
    }
    let inner = value.strip_prefix("((")?.strip_suffix(')')?;
    let (kind, plain) = inner.split_once(')')?;
    let kind: String = kind.chars().filter(|c| !c.is_whitespace()).collect();
    Some(format!("{kind} {}", number(plain.trim())?))
}

pub(crate) fn number(text: &str) -> Option<i64> {
    match text.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}
