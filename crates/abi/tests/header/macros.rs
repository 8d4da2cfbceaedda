//! Expands macros of the sources that define several similar functions. Supports `macro_rules!` with one rule, as far
//! as the sources need it.

use std::collections::BTreeMap;

use crate::rust::closing;

/// A macro: its pattern and its body.
pub(crate) struct Macro<'a> {
    pub(crate) name: &'a str,
    pattern: Vec<Part>,
    body: &'a str,
}

/// A part of a pattern.
enum Part {
    /// `$name:kind`
    Variable { name: String, kind: String },
    /// `$( … ) separator operator`
    Repeat { parts: Vec<Part>, separator: Option<String>, once: bool },
    /// A literal word.
    Word(String),
}

/// The values of the variables of a pattern.
#[derive(Clone, Default)]
struct Bindings {
    values: BTreeMap<String, String>,
    /// For each repetition, its rounds.
    rounds: Vec<Vec<Bindings>>,
}

impl<'a> Macro<'a> {
    /// The macros that a text defines.
    pub(crate) fn all(text: &'a str) -> Vec<Macro<'a>> {
        let definitions = text.match_indices("macro_rules!");
        definitions.filter_map(|(at, word)| Macro::parse(&text[at + word.len()..])).collect()
    }

    fn parse(text: &'a str) -> Option<Macro<'a>> {
        let (name, rest) = text.split_once('{')?;
        let rules = &rest[..closing(rest, '{', '}')?];
        let pattern = rules.trim_start().strip_prefix('(')?;
        let end = closing(pattern, '(', ')')?;
        let (pattern, rest) = (&pattern[..end], &pattern[end + 1..]);
        let body = rest.trim_start().strip_prefix("=>")?.trim_start().strip_prefix('{')?;
        let body = &body[..closing(body, '{', '}')?];
        Some(Macro { name: name.trim(), pattern: parts(pattern)?, body })
    }

    /// Expands the macro with these arguments; `None` if they do not match.
    pub(crate) fn expand(&self, given: &str) -> Option<String> {
        let words = words(given);
        let (bindings, len) = bind(&self.pattern, &words, &[])?;
        (len == words.len()).then(|| replaced(self.body, &bindings))
    }
}

fn parts(pattern: &str) -> Option<Vec<Part>> {
    let mut parts = Vec::new();
    let mut rest = pattern;
    while let Some((before, after)) = rest.split_once('$') {
        parts.extend(words(before).into_iter().map(Part::Word));
        if after.starts_with('(') {
            let (inside, separator, operator, after) = repetition(after)?;
            let inside = self::parts(inside)?;
            parts.push(Part::Repeat { parts: inside, separator, once: operator == '?' });
            rest = after;
        } else {
            let (name, after) = after.split_once(':')?;
            let end = after.find(|c| !is_name(c)).unwrap_or(after.len());
            parts.push(Part::Variable { name: name.trim().into(), kind: after[..end].into() });
            rest = &after[end..];
        }
    }
    parts.extend(words(rest).into_iter().map(Part::Word));
    Some(parts)
}

/// The inside of a repetition whose bracket begins the text, its separator, its operator, and the rest.
fn repetition(text: &str) -> Option<(&str, Option<String>, char, &str)> {
    let inside = text.strip_prefix('(')?;
    let end = closing(inside, '(', ')')?;
    let mut after = inside[end + 1..].chars();
    let mut separator = None;
    loop {
        match after.next()? {
            operator @ ('*' | '+' | '?') => {
                return Some((&inside[..end], separator, operator, after.as_str()));
            }
            sign => separator = Some(sign.to_string()),
        }
    }
}

/// Matches a pattern with the beginning of the words, and returns how many it took. `stops` are the words that may
/// follow it.
fn bind(parts: &[Part], words: &[String], stops: &[String]) -> Option<(Bindings, usize)> {
    let mut bindings = Bindings::default();
    let mut at = 0;
    for (index, part) in parts.iter().enumerate() {
        let following = || firsts(&parts[index + 1..], stops);
        match part {
            Part::Word(word) => {
                if words.get(at)? != word {
                    return None;
                }
                at += 1;
            }
            Part::Variable { name, kind } => {
                let len = if kind == "ident" {
                    usize::from(words.get(at)?.starts_with(is_name))
                } else {
                    length_until(&words[at..], &following(), kind == "ty")
                };
                if len == 0 {
                    return None;
                }
                bindings.values.insert(name.clone(), joined(&words[at..at + len]));
                at += len;
            }
            Part::Repeat { parts, separator, once } => {
                let mut stops = following();
                stops.extend(separator.clone());
                let mut rounds = Vec::new();
                let mut from = at;
                while let Some((round, len)) = bind(parts, &words[from..], &stops) {
                    rounds.push(round);
                    at = from + len;
                    let parted = separator.is_none() || words.get(at) == separator.as_ref();
                    if *once || len == 0 || !parted {
                        break;
                    }
                    from = at + usize::from(separator.is_some());
                }
                bindings.rounds.push(rounds);
            }
        }
    }
    Some((bindings, at))
}

/// The words that the rest of a pattern may begin with.
fn firsts(parts: &[Part], stops: &[String]) -> Vec<String> {
    match parts.first() {
        None => stops.to_vec(),
        Some(Part::Word(word)) => vec![word.clone()],
        Some(Part::Variable { .. }) => Vec::new(),
        Some(Part::Repeat { parts: inside, .. }) => {
            let mut found = firsts(inside, &[]);
            found.extend(firsts(&parts[1..], stops));
            found
        }
    }
}

/// The number of words before one of `stops` outside of brackets.
fn length_until(words: &[String], stops: &[String], is_type: bool) -> usize {
    let mut depth = 0_i32;
    for (at, word) in words.iter().enumerate() {
        if depth == 0 && stops.contains(word) {
            return at;
        }
        match word.as_str() {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            "<" if is_type => depth += 1,
            ">" if is_type => depth -= 1,
            _ => {}
        }
    }
    words.len()
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Splits a text into names and single characters.
fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut grows = false;
    for c in text.chars() {
        match words.last_mut() {
            Some(last) if grows && is_name(c) => last.push(c),
            _ if !c.is_whitespace() => words.push(c.into()),
            _ => {}
        }
        grows = is_name(c);
    }
    words
}

/// Joins the words, with blanks where they are needed.
fn joined(words: &[String]) -> String {
    let mut text = String::new();
    for word in words {
        if text.ends_with(is_name) && word.starts_with(is_name) {
            text.push(' ');
        }
        text.push_str(word);
    }
    text
}

/// Replaces the variables in a text by their values.
fn replaced(text: &str, bindings: &Bindings) -> String {
    let mut done = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        done.push_str(before);
        if let Some((inside, separator, _, after)) =
            Some(after).filter(|it| it.starts_with('(')).and_then(repetition)
        {
            let rounds: Vec<String> = rounds_of(inside, bindings)
                .into_iter()
                .map(|round| replaced(inside, &round))
                .collect();
            done.push_str(&rounds.join(&separator.unwrap_or_default()));
            rest = after;
        } else {
            let end = after.find(|c| !is_name(c)).unwrap_or(after.len());
            let value = bindings.values.get(&after[..end]).map_or(&after[..end], String::as_str);
            done.push_str(value);
            rest = &after[end..];
        }
    }
    done + rest
}

/// The rounds of the repetition whose variables the text names, each with the outer bindings.
fn rounds_of(text: &str, outside: &Bindings) -> Vec<Bindings> {
    let named = |round: &Bindings| {
        text.split('$').skip(1).any(|it| {
            let end = it.find(|c| !is_name(c)).unwrap_or(it.len());
            round.values.contains_key(&it[..end])
        })
    };
    let rounds = outside.rounds.iter().find(|rounds| rounds.first().is_some_and(named));
    let inherit = |round: &Bindings| {
        let mut inside = round.clone();
        inside.values.extend(outside.values.clone());
        inside
    };
    rounds.map(|rounds| rounds.iter().map(inherit).collect()).unwrap_or_default()
}
