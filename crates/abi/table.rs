//! Parses `functions.txt`, the table of functions, for the build script and for the test of the headers.

use std::collections::{BTreeMap, BTreeSet};

/// A function of the library.
#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) name: String,
    /// The module of its body, as a path from the root of the crate.
    pub(crate) module: String,
    pub(crate) arguments: Vec<(String, Value)>,
    /// Whether it has variable arguments after the others.
    pub(crate) is_variadic: bool,
    pub(crate) answer: Value,
}

/// An argument or the answer of a function.
#[derive(Clone, Debug)]
pub(crate) struct Value {
    /// The kind, with its direction and the length of an array.
    pub(crate) kind: String,
    pub(crate) rust: String,
    /// The type in C, as the test of the headers writes it: `const` first, then the base, then all pointers.
    pub(crate) c: String,
}

/// Parses the table. An error begins with the name of the file and the line.
pub(crate) fn parse(text: &str) -> Result<Vec<Function>, String> {
    let mut table = Table::default();
    let rows = rows(text)?;
    for (line, row) in &rows {
        table.add(row).map_err(|why| located(*line, &why))?;
    }
    let unused = table.kinds.keys().find(|kind| !table.used.contains(*kind));
    if let Some(kind) = unused {
        return Err(format!("functions.txt: no function has an argument of kind `{kind}`"));
    }
    Ok(table.functions)
}

/// The rows with their line numbers, without comments; an indented line continues the row before it.
fn rows(text: &str) -> Result<Vec<(usize, String)>, String> {
    let mut rows: Vec<(usize, String)> = Vec::new();
    for (at, line) in text.lines().enumerate() {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        if line.starts_with(' ') {
            let (_, row) = rows.last_mut().ok_or_else(|| located(at + 1, "no row to continue"))?;
            row.push(' ');
            row.push_str(line.trim());
        } else {
            rows.push((at + 1, line.trim_end().to_string()));
        }
    }
    Ok(rows)
}

fn located(line: usize, why: &str) -> String {
    format!("functions.txt:{line}: {why}")
}

#[derive(Default)]
struct Table {
    /// The name in brackets above the current row.
    section: String,
    kinds: BTreeMap<String, Kind>,
    /// The kinds that functions use.
    used: BTreeSet<String>,
    functions: Vec<Function>,
}

/// The types of a kind: one, or one for each variant of a function.
#[derive(Clone)]
struct Kind {
    rust: Vec<String>,
    c: Vec<String>,
}

impl Table {
    fn add(&mut self, row: &str) -> Result<(), String> {
        if let Some(section) = row.strip_prefix('[') {
            let section = section.strip_suffix(']').ok_or("a section without its bracket")?;
            if self.functions.iter().any(|function| function.module == section) {
                return Err(format!("a second section [{section}]"));
            }
            self.section = section.into();
            return Ok(());
        }
        match self.section.as_str() {
            "" => Err("a row above the first section".into()),
            "kinds" => self.add_kind(row),
            _ => self.add_functions(row),
        }
    }

    /// `kind | Rust | C | meaning`
    fn add_kind(&mut self, row: &str) -> Result<(), String> {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let [name, rust, c, _meaning] = cells[..] else {
            return Err(format!("a kind has 4 cells, not {}", cells.len()));
        };
        let list = |cell: &str| cell.split(", ").map(String::from).collect::<Vec<_>>();
        let kind = Kind { rust: list(rust), c: list(c) };
        if kind.rust.len() != kind.c.len() || kind.c.len() > 2 {
            return Err(format!("`{name}` needs one type in Rust and in C, or two"));
        }
        match self.kinds.insert(name.into(), kind) {
            Some(_) => Err(format!("`{name}` is defined twice")),
            None => Ok(()),
        }
    }

    /// `name [/ name_c] (argument: kind, …) [-> kind]`
    fn add_functions(&mut self, row: &str) -> Result<(), String> {
        let (names, rest) = row.split_once('(').ok_or("a function without arguments")?;
        let (arguments, answer) = rest.rsplit_once(')').ok_or("no `)` after the arguments")?;
        let names: Vec<&str> = names.split('/').map(str::trim).collect();
        match names[..] {
            [_] => {}
            [small, large] if large == format!("{small}_c") => {}
            _ => return Err("a second name is the first with `_c`, and there is no third".into()),
        }
        let answer = match answer.trim() {
            "" => "error",
            arrow => arrow.strip_prefix("->").ok_or("no `->` before the answer")?.trim(),
        };
        let mut arguments: Vec<&str> = arguments.split(',').map(str::trim).collect();
        arguments.retain(|argument| !argument.is_empty());
        let is_variadic = arguments.last() == Some(&"...");
        if is_variadic {
            arguments.pop();
        }
        let named =
            |text| split_argument(text).ok_or_else(|| format!("`{text}` is not `name: kind`"));
        let arguments = arguments.into_iter().map(named).collect::<Result<Vec<_>, _>>()?;
        check_lengths(&arguments)?;
        let mut differ = false;
        for (variant, name) in names.iter().enumerate() {
            let mut value = |text: &str| {
                let kind = self.kind(text)?;
                if kind.c.len() > names.len() {
                    return Err(format!("`{text}` has two types, and {name} has no variant"));
                }
                differ |= kind.c.len() == 2;
                let [rust, c] =
                    [&kind.rust, &kind.c].map(|types| types[variant % types.len()].clone());
                Ok(Value { kind: text.into(), rust, c })
            };
            let values = arguments.iter().map(|(name, kind)| Ok(((*name).into(), value(kind)?)));
            let arguments = values.collect::<Result<Vec<_>, String>>()?;
            let answer = value(answer)?;
            if self.functions.iter().any(|function| function.name == *name) {
                return Err(format!("{name} has two rows"));
            }
            let (name, module) = ((*name).into(), self.section.clone());
            self.functions.push(Function { name, module, arguments, is_variadic, answer });
        }
        if names.len() == 2 && !differ {
            return Err("the variants do not differ in any argument".into());
        }
        Ok(())
    }

    /// The types of an argument of this kind, such as `inout request[count]`.
    fn kind(&mut self, text: &str) -> Result<Kind, String> {
        let (direction, plain) = split_direction(text);
        let (plain, array) = plain.split_once('[').map_or((plain, ""), |(name, _)| (name, "[]"));
        let own = match direction {
            "in" => vec![format!("{plain}{array}")],
            "out" => vec![format!("out {plain}")],
            _ => vec![format!("inout {plain}"), format!("out {plain}")],
        };
        if let Some(row) = own.iter().find(|row| self.kinds.contains_key(*row)) {
            self.used.insert(row.clone());
            return Ok(self.kinds[row].clone());
        }
        let kind = self.kinds.get(plain).ok_or_else(|| format!("unknown kind `{text}`"))?;
        self.used.insert(plain.into());
        let (wrapper, constant) = if direction == "in" { ("In", "const ") } else { ("Out", "") };
        Ok(Kind {
            rust: kind.rust.iter().map(|rust| format!("{wrapper}<{rust}>")).collect(),
            c: kind.c.iter().map(|c| format!("{constant}{c} *")).collect(),
        })
    }
}

fn split_argument(text: &str) -> Option<(&str, &str)> {
    text.split_once(": ").map(|(name, kind)| (name.trim(), kind.trim()))
}

fn split_direction(kind: &str) -> (&str, &str) {
    match kind.split_once(' ') {
        Some((direction @ ("out" | "inout"), plain)) => (direction, plain),
        _ => ("in", kind),
    }
}

/// Checks that names differ, and that the length of each array is another argument.
fn check_lengths(arguments: &[(&str, &str)]) -> Result<(), String> {
    for (at, (name, kind)) in arguments.iter().enumerate() {
        if arguments[..at].iter().any(|(other, _)| other == name) {
            return Err(format!("two arguments have the name `{name}`"));
        }
        let Some((_, length)) = kind.split_once('[') else { continue };
        let length = length.strip_suffix(']').ok_or_else(|| format!("no `]` in `{kind}`"))?;
        let is_length = |(other, kind): &(&str, &str)| {
            let (_, plain) = split_direction(kind);
            *other == length && ["int", "size", "count"].contains(&plain)
        };
        if !length.is_empty() && !arguments.iter().any(is_length) {
            return Err(format!(
                "`{length}`, the length of `{name}`, is no int, size or count here"
            ));
        }
    }
    Ok(())
}
