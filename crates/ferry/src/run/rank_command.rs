//! The command line around each rank's program that `--rank-command` gives, such as `valgrind %s`.

use std::ffi::{OsStr, OsString};

use serde::{Deserialize, Serialize};

/// A command line in which `%s` stands for the program with its arguments, and `%r` for the rank.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(super) struct RankCommand {
    words: Vec<String>,
}

impl RankCommand {
    /// What `--rank-command` expects.
    pub(super) const WANTED: &str =
        "a command line in which %s stands for the program, such as 'valgrind %s'";

    /// Splits a command line into words as a shell does. `None` if a quotation mark is not closed, or nothing stands for
    /// the program.
    pub(super) fn parse(line: &str) -> Option<RankCommand> {
        let words = shlex::split(line)?;
        words.iter().any(|word| word.contains(PROGRAM)).then_some(RankCommand { words })
    }

    /// The name of the command, unless that is the program itself.
    pub(super) fn name(&self) -> Option<&OsStr> {
        self.words.first().filter(|name| !name.contains(PROGRAM)).map(OsStr::new)
    }

    /// The words for a rank and its program. A word that contains more than `%s` gets the program quoted for a shell:
    /// it is for `sh -c '%s 2>errors.%r'`.
    pub(super) fn of_rank(&self, rank: u32, program: &[OsString]) -> Vec<OsString> {
        let mut words = Vec::new();
        for word in &self.words {
            if word == PROGRAM {
                words.extend_from_slice(program);
                continue;
            }
            let word = word.replace(RANK, &rank.to_string());
            words.push(if word.contains(PROGRAM) {
                word.replace(PROGRAM, &quoted(program)).into()
            } else {
                word.into()
            });
        }
        words
    }

    /// The command line as text, for `--dry-run`.
    pub(super) fn text(&self) -> String {
        let line = shlex::try_join(self.words.iter().map(String::as_str)).unwrap_or_default();
        // A shell would take it as it is.
        line.replace("'%s'", PROGRAM)
    }
}

const PROGRAM: &str = "%s";
const RANK: &str = "%r";

/// The words of a program, quoted for a shell.
fn quoted(program: &[OsString]) -> String {
    let words: Vec<_> = program.iter().map(|word| word.to_string_lossy()).collect();
    // Only a null byte cannot be quoted, and no argument can contain one.
    shlex::try_join(words.iter().map(AsRef::as_ref)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_rank(line: &str, program: &[&str]) -> Vec<OsString> {
        let program: Vec<OsString> = program.iter().map(OsString::from).collect();
        RankCommand::parse(line).expect(line).of_rank(3, &program)
    }

    #[test]
    fn the_program_and_the_rank_are_filled_in() {
        assert_eq!(of_rank("valgrind %s", &["/a", "b c"]), ["valgrind", "/a", "b c"]);
        assert_eq!(of_rank("v --log=x.%r %s -z", &["/a"]), ["v", "--log=x.3", "/a", "-z"]);
        assert_eq!(of_rank("'a b' \"%s\" c\\ d", &["/a"]), ["a b", "/a", "c d"]);
        assert_eq!(of_rank("%s", &["/a", ""]), ["/a", ""]);
        // Valgrind replaces this itself.
        assert_eq!(of_rank("v --log=x.%p %s", &["/a"]), ["v", "--log=x.%p", "/a"]);
    }

    #[test]
    fn within_a_word_the_program_is_quoted_for_a_shell() {
        let line = of_rank("sh -c '%s 2>e.%r'", &["/a b", "it's"]);
        assert_eq!(line, ["sh", "-c", r#"'/a b' "it's" 2>e.3"#]);
    }

    #[test]
    fn what_names_no_program_or_is_not_closed_is_refused() {
        for line in ["", "valgrind", "valgrind '%s", "time % s"] {
            assert_eq!(RankCommand::parse(line), None, "{line}");
        }
    }

    #[test]
    fn the_name_of_the_command_is_its_first_word() {
        let name = |line| RankCommand::parse(line).expect(line).name().map(OsStr::to_owned);
        assert_eq!(name("valgrind -q %s"), Some("valgrind".into()));
        assert_eq!(name("%s"), None);
    }
}
