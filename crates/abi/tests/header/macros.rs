//! Macros of the sources that define several functions alike: what their uses expand to. Knows macros with
//! one rule whose pattern is one flat repetition, or none.

use std::collections::BTreeMap;

use crate::rust::closing;

/// A macro: what it is given, and what it makes of it.
pub(crate) struct Macro<'a> {
    pub(crate) name: &'a str,
    pattern: Vec<Part>,
    body: &'a str,
}

/// A part of a pattern.
enum Part {
    /// `$name:kind`
    Variable { name: String, one_word: bool },
    /// What has to stand there.
    Word(String),
}

impl<'a> Macro<'a> {
    /// The macros that a text defines.
    pub(crate) fn all(text: &'a str) -> Vec<Macro<'a>> {
        text.match_indices("macro_rules!")
            .filter_map(|(at, _)| Macro::parse(&text[at + 12..]))
            .collect()
    }

    fn parse(text: &'a str) -> Option<Macro<'a>> {
        let (name, rest) = text.split_once('{')?;
        let rules = &rest[..closing(rest, '{', '}')?];
        let pattern = rules.trim_start().strip_prefix('(')?;
        let end = closing(pattern, '(', ')')?;
        let (pattern, rest) = (&pattern[..end], &pattern[end + 1..]);
        let body = rest.trim_start().strip_prefix("=>")?.trim_start().strip_prefix('{')?;
        let body = &body[..closing(body, '{', '}')?];
        let flat = repetition(pattern).map_or(pattern, |(_, inside, _)| inside);
        Some(Macro { name: name.trim(), pattern: parts(flat)?, body })
    }

    /// What the macro makes of what it is given; nothing, if that does not fit.
    pub(crate) fn expand(&self, given: &str) -> Option<String> {
        let words = words(given);
        let mut rest = &words[..];
        let mut rounds = Vec::new();
        while !rest.is_empty() {
            rounds.push(self.bind(&mut rest)?);
        }
        let mut expanded = String::new();
        let mut body = self.body;
        while let Some((before, inside, after)) = repetition(body) {
            expanded += &replaced(before, rounds.first()?);
            for round in &rounds {
                expanded += &replaced(inside, round);
            }
            body = after;
        }
        Some(expanded + &replaced(body, rounds.first()?))
    }

    fn bind(&self, rest: &mut &[String]) -> Option<BTreeMap<String, String>> {
        let mut bound = BTreeMap::new();
        for (at, part) in self.pattern.iter().enumerate() {
            match part {
                Part::Word(word) => {
                    let (first, others) = rest.split_first()?;
                    if first != word {
                        return None;
                    }
                    *rest = others;
                }
                Part::Variable { name, one_word } => {
                    let len = match self.pattern.get(at + 1) {
                        _ if *one_word => 1,
                        Some(Part::Word(next)) => length_until(rest, next)?,
                        _ => rest.len(),
                    };
                    bound.insert(name.clone(), joined(rest.get(..len)?));
                    *rest = &rest[len..];
                }
            }
        }
        Some(bound)
    }
}

/// The first `$( … )*` of a text, with what is before and after it.
fn repetition(text: &str) -> Option<(&str, &str, &str)> {
    let at = text.find("$(")?;
    let inside = &text[at + 2..];
    let end = closing(inside, '(', ')')?;
    let after = inside[end + 1..].trim_start_matches([',', ';', ' ']);
    let after = after.strip_prefix(['*', '+']).unwrap_or(after);
    Some((&text[..at], &inside[..end], after))
}

fn parts(pattern: &str) -> Option<Vec<Part>> {
    let words = words(pattern);
    let mut parts = Vec::new();
    let mut at = 0;
    while let Some(word) = words.get(at) {
        if let Some(name) = word.strip_prefix('$') {
            // A repetition inside of a repetition is more than this knows.
            let kind = words.get(at + 2).filter(|_| !name.is_empty())?;
            parts.push(Part::Variable { name: name.into(), one_word: kind == "ident" });
            at += 3;
        } else {
            parts.push(Part::Word(word.clone()));
            at += 1;
        }
    }
    Some(parts)
}

/// How many words there are before the next `end` that stands in no bracket.
fn length_until(words: &[String], end: &str) -> Option<usize> {
    let mut depth = 0_i32;
    for (at, word) in words.iter().enumerate() {
        if depth == 0
            && word == end
            && !(end == ":" && words.get(at + 1).is_some_and(|it| it == ":"))
        {
            return Some(at);
        }
        match word.as_str() {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            _ => {}
        }
    }
    None
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Names, variables with their `$`, and single signs.
fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut grows = false;
    for c in text.chars() {
        match words.last_mut() {
            Some(last) if grows && is_name(c) => last.push(c),
            _ if !c.is_whitespace() => words.push(c.into()),
            _ => {}
        }
        grows = is_name(c) || c == '$';
    }
    words
}

/// The words as they stood, with blanks where they are needed.
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

/// The text with what its variables stand for.
fn replaced(text: &str, bound: &BTreeMap<String, String>) -> String {
    let mut done = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        let end = after.find(|c| !is_name(c)).unwrap_or(after.len());
        done.push_str(before);
        match bound.get(&after[..end]) {
            Some(value) => done.push_str(value),
            None => done.push_str(&after[..end]),
        }
        rest = &after[end..];
    }
    done + rest
}
