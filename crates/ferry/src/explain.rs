//! `ferry explain`: what the codes of errors mean.
//!
//! The codes and their titles are in `ferrywire_host::error_code`, and the explanations in `explain/explanations.txt`:
//! a heading for each code, paragraphs, and examples that are indented by four blanks. The page of the book is made of
//! both.

use std::io::{IsTerminal, stdout};
use std::process::ExitCode;

use clap::Args;
use ferrywire_host::ErrorCode;
use ferrywire_host::error_code::{ERROR_CHAPTERS, ErrorRow};
use serde::Serialize;

use crate::out;
use crate::run;

/// Explains the code with which the text of an error ends, or lists all codes.
#[derive(Args)]
pub(crate) struct Explain {
    /// A code such as FW0104, 104 for short, or a word to look for. Without it, all codes are listed.
    code: Option<String>,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

/// A code, as it is printed.
#[derive(Serialize)]
struct Explained {
    code: String,
    chapter: &'static str,
    title: &'static str,
    explanation: &'static str,
}

impl Explain {
    pub(crate) fn run(&self) -> ExitCode {
        match &self.code {
            None => self.list(),
            Some(asked) => match found(asked) {
                Ok((chapter, row)) => self.explain(chapter, row),
                Err(why) => {
                    eprintln!("ferry explain: {}", ErrorCode::OPTION_VALUE.ends(why));
                    return ExitCode::from(2);
                }
            },
        }
        ExitCode::SUCCESS
    }

    fn list(&self) {
        if self.json {
            let all: Vec<Explained> =
                rows().map(|(chapter, row)| explained(chapter, row)).collect();
            return out::json(&all);
        }
        for (nth, chapter) in ERROR_CHAPTERS.iter().enumerate() {
            let before = if nth == 0 { "" } else { "\n" };
            out::line(format_args!("{before}{}", chapter.title));
            for row in chapter.rows {
                out::line(format_args!("  {}  {}", row.code, row.title));
            }
        }
    }

    fn explain(&self, chapter: &'static str, row: &'static ErrorRow) {
        let explained = explained(chapter, row);
        if self.json {
            return out::json(&explained);
        }
        out::line(format_args!("{}: {}", explained.code, explained.title));
        for block in blocks(explained.explanation) {
            out::line("");
            match block {
                Block::Example(example) => out::line(example),
                Block::Paragraph(text) => {
                    out::wrapped(text, columns()).into_iter().for_each(out::line);
                }
            }
        }
    }
}

/// All codes, with the title of their chapter.
fn rows() -> impl Iterator<Item = (&'static str, &'static ErrorRow)> {
    ERROR_CHAPTERS.iter().flat_map(|chapter| chapter.rows.iter().map(|row| (chapter.title, row)))
}

fn explained(chapter: &'static str, row: &'static ErrorRow) -> Explained {
    let explanation = explanations().find(|(code, _)| *code == row.code.to_string());
    Explained {
        code: row.code.to_string(),
        chapter,
        title: row.title,
        explanation: explanation.map_or("", |(_, text)| text),
    }
}

/// The codes and texts of all explanations.
fn explanations() -> impl Iterator<Item = (&'static str, &'static str)> {
    let entries = EXPLANATIONS.split("\n# ").skip(1);
    entries.filter_map(|entry| entry.split_once('\n')).map(|(code, text)| (code, text.trim_end()))
}

const EXPLANATIONS: &str = include_str!("explain/explanations.txt");

/// A part of an explanation.
enum Block<'a> {
    Paragraph(&'a str),
    /// Lines that are not wrapped.
    Example(&'a str),
}

fn blocks(text: &str) -> impl Iterator<Item = Block<'_>> {
    text.split("\n\n").map(|block| match block.starts_with("    ") {
        true => Block::Example(block),
        false => Block::Paragraph(block),
    })
}

/// The code that a user means, or what comes near.
fn found(asked: &str) -> Result<(&'static str, &'static ErrorRow), String> {
    // Whoever passes the whole text of an error means its code.
    let code = asked.rfind("[FW").map_or(asked, |at| &asked[at..]);
    let word = code.trim().trim_matches(['[', ']', '.', ':', ',']).to_uppercase();
    let digits = word.strip_prefix("FW").unwrap_or(&word);
    let number: Option<u16> = digits.parse().ok();
    if let Some(known) = rows().find(|(_, row)| Some(row.code.number()) == number) {
        return Ok(known);
    }
    let near: Vec<String> =
        near(asked, digits).iter().map(|row| format!("{} ({})", row.code, row.title)).collect();
    Err(match near.is_empty() {
        true => format!("there is no code {asked}; ferry explain lists all codes"),
        false => format!("there is no code {asked}; near it: {}", near.join(", ")),
    })
}

/// Codes that somebody may have meant: those whose number differs little, or whose title, chapter or explanation has the
/// word.
fn near(asked: &str, digits: &str) -> Vec<&'static ErrorRow> {
    let mut near: Vec<&ErrorRow> = Vec::new();
    if digits.bytes().any(|byte| byte.is_ascii_digit()) {
        let padded = format!("{digits:0>4}");
        let number: u16 = padded.parse().unwrap_or(0);
        let is_near =
            |row: &ErrorRow| run::distance(&padded, &format!("{:04}", row.code.number())) <= 1;
        near.extend(rows().map(|(_, row)| row).filter(|row| is_near(row)));
        near.sort_by_key(|row| row.code.number().abs_diff(number));
    } else {
        let asked = asked.to_lowercase();
        let has = |text: &str| text.to_lowercase().contains(&asked);
        let titles = rows().filter(|(_, row)| has(row.title));
        let chapters = rows().filter(|(chapter, _)| has(chapter));
        let texts = rows().filter(|(chapter, row)| has(explained(chapter, row).explanation));
        for (_, row) in titles.chain(chapters).chain(texts) {
            if !near.iter().any(|known| known.code == row.code) {
                near.push(row);
            }
        }
    }
    near.truncate(NEAR_MAX);
    near
}

/// How many codes are offered instead of one that does not exist.
const NEAR_MAX: usize = 5;

/// How wide paragraphs may be: as the terminal, but not so wide that lines are hard to follow.
fn columns() -> usize {
    let stdout = stdout();
    let terminal = stdout.is_terminal().then(|| run::columns_of(&stdout)).flatten();
    terminal.map_or(COLUMNS, |columns| usize::from(columns).clamp(20, COLUMNS_MAX))
}

const COLUMNS: usize = 80;
const COLUMNS_MAX: usize = 100;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn every_code_has_one_explanation_and_every_explanation_a_code() {
        let codes: Vec<String> = rows().map(|(_, row)| row.code.to_string()).collect();
        let explained: Vec<&str> = explanations().map(|(code, _)| code).collect();
        // In the order of the table, so that each is there once.
        assert_eq!(explained, codes);
        for (code, text) in explanations() {
            assert!(text.len() > 20, "{code}");
        }
    }

    #[test]
    fn no_number_is_used_twice_and_each_is_in_its_chapter() {
        let mut used = BTreeSet::new();
        for (nth, chapter) in ERROR_CHAPTERS.iter().enumerate() {
            for row in chapter.rows {
                assert!(used.insert(row.code), "{} is used twice", row.code);
                assert_eq!(usize::from(row.code.number() / 100), nth, "{}", row.code);
            }
        }
    }

    #[test]
    fn explanations_refer_to_codes_that_exist() {
        let codes: BTreeSet<String> = rows().map(|(_, row)| row.code.to_string()).collect();
        for (code, text) in explanations() {
            for other in text.match_indices("FW").map(|(at, _)| &text[at..at + 6]) {
                assert!(codes.contains(other), "{code} refers to {other}");
            }
        }
    }

    /// A code that nothing produces is a promise that nobody keeps.
    #[test]
    fn every_code_is_produced_somewhere() {
        let mut sources = String::new();
        for krate in ["host", "runtime", "ferrywire", "abi", "ferry"] {
            read_all(&crates().join(krate).join("src"), &mut sources);
        }
        for (_, row) in rows() {
            let name = format!("ErrorCode::{}", row.name);
            let is_used = sources.match_indices(&name).any(|(at, _)| {
                !sources[at + name.len()..]
                    .starts_with(|next: char| next.is_ascii_alphanumeric() || next == '_')
            });
            assert!(is_used, "nothing produces {} ({})", row.code, row.name);
        }
    }

    fn read_all(folder: &Path, sources: &mut String) {
        for entry in fs::read_dir(folder).expect("a folder of sources") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                read_all(&path, sources);
            } else if path.extension().is_some_and(|end| end == "rs")
                && !path.ends_with("error_code.rs")
                && !path.ends_with("explain.rs")
            {
                *sources += &fs::read_to_string(path).expect("a source");
            }
        }
    }

    /// Texts are compared with files, and in tests; both have the codes.
    #[test]
    fn texts_of_nearly_all_codes_are_compared() {
        let mut compared = String::new();
        for list in [
            "abi/tests/c/errors.txt",
            "abi/tests/programs.rs",
            "ferry/tests/errors.txt",
            "ferry/src/why/tests.rs",
            "modules/engine/tests/examples.rs",
        ] {
            compared += &fs::read_to_string(crates().join(list)).expect("a list of texts");
        }
        let broken = crates().join("../examples/broken/list.toml");
        compared += &fs::read_to_string(broken).expect("a list of verdicts");
        read_all(&crates().join("ferrywire/tests"), &mut compared);
        read_all(&crates().join("ferry/tests"), &mut compared);
        let codes = rows().map(|(_, row)| row.code.to_string());
        let without: Vec<String> = codes.filter(|code| !compared.contains(code.as_str())).collect();
        assert_eq!(without, NOT_COMPARED, "the list may only become shorter");
    }

    /// Codes of texts that no test compares yet. No further code may be here.
    const NOT_COMPARED: &[&str] =
        &["FW0513", "FW0702", "FW0710", "FW0821", "FW1004", "FW1011", "FW1012"];

    /// After a change: `BLESS=1 cargo test -p ferrywire-ferry explain`.
    #[test]
    fn the_book_has_all_codes() {
        let path = crates().join("../docs/book/src/errors.md");
        let page = page();
        if std::env::var_os("BLESS").is_some() {
            fs::write(&path, &page).expect("written");
        }
        let book = fs::read_to_string(&path).expect("a page of the book");
        assert!(book == page, "docs/book/src/errors.md differs from the table of codes");
    }

    /// The page of the book.
    fn page() -> String {
        let mut page = String::from(PREFACE);
        for chapter in ERROR_CHAPTERS {
            page += &format!("\n## {}\n", chapter.title);
            for row in chapter.rows {
                page += &format!("\n### {}: {}\n", row.code, row.title);
                for block in blocks(explained(chapter.title, row).explanation) {
                    page += &match block {
                        Block::Paragraph(text) => format!("\n{}\n", text.replace('<', "&lt;")),
                        Block::Example(text) => {
                            let lines: Vec<&str> =
                                text.lines().map(|line| line.get(4..).unwrap_or("")).collect();
                            format!("\n```text\n{}\n```\n", lines.join("\n"))
                        }
                    };
                }
            }
        }
        page
    }

    const PREFACE: &str = "\
# All errors

The text of each error that Ferrywire prints or returns ends with a code in brackets, such as `[FW0104]`. The code stays the
same in all versions, whatever the text. `ferry explain FW0104` prints what is said here about it, and `ferry explain` lists
all codes.
";

    fn crates() -> &'static Path {
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the folder of all crates")
    }

    #[test]
    fn codes_are_understood_however_they_are_written() {
        for asked in [
            "FW0104",
            "fw0104",
            "0104",
            "104",
            "[FW0104]",
            "fw104",
            " FW0104. ",
            "short [FW0101]: long [FW0104]",
        ] {
            let (_, row) = found(asked).ok().unwrap_or_else(|| panic!("{asked} is a code"));
            assert_eq!(row.code, ErrorCode::TRUNCATED, "{asked}");
        }
    }

    #[test]
    fn what_is_near_is_offered() {
        let why = |asked| found(asked).err().unwrap_or_else(|| panic!("{asked} is no code"));
        assert!(why("FW0140").contains("FW0104 (message longer"), "{}", why("FW0140"));
        assert!(why("deadlock").contains("FW0901"), "{}", why("deadlock"));
        assert!(why("circle").contains("FW0901"), "{}", why("circle"));
        assert!(why("xyz").contains("lists all codes"));
    }
}
