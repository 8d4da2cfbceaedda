//! `ferry cc` and `ferry cxx`, also called `mpicc` and `mpicxx`: the compiler of this machine, with the
//! options for mpi.h and the library.
//!
//! The wrapper is this program, not a script: it finds the installation from its own path, so that the
//! installation can be moved, and arguments with blanks or quotes reach the compiler unchanged.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use ferrywire_host::ErrorCode;

use crate::home::{Home, NoHome};
use crate::out;

/// The language to compile.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Language {
    C,
    Cxx,
}

impl Language {
    /// The language of a wrapper, by the name that it was called by.
    pub(crate) fn of_command(name: &str) -> Option<Language> {
        match name {
            "mpicc" => Some(Language::C),
            "mpicxx" | "mpic++" => Some(Language::Cxx),
            _ => None,
        }
    }

    /// The language of a subcommand of `ferry`.
    pub(crate) fn of_subcommand(name: &OsStr) -> Option<Language> {
        match name.to_str()? {
            "cc" => Some(Language::C),
            "cxx" => Some(Language::Cxx),
            _ => None,
        }
    }

    /// The default compiler, and the variable that names another.
    fn compiler(self) -> (&'static str, &'static str) {
        match self {
            Language::C => ("cc", "FERRY_CC"),
            Language::Cxx => ("c++", "FERRY_CXX"),
        }
    }

    /// The usual name of the wrapper, for messages.
    fn wrapper(self) -> &'static str {
        match self {
            Language::C => "mpicc",
            Language::Cxx => "mpicxx",
        }
    }
}

/// What to print instead of compiling.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Show {
    /// The whole command.
    Command,
    /// The options for compiling.
    Compile,
    /// The options for linking.
    Link,
    /// The folder of the header.
    IncludeFolders,
    /// The folder of the library.
    LibraryFolders,
    /// The library.
    Libraries,
    /// The compiler that is called.
    Compiler,
    /// The name and version of the implementation: build tools look for a number in it.
    Version,
}

/// Options of the wrappers of MPICH, Open MPI and others that print instead of compiling.
const SHOWS: &[(&str, Show)] = &[
    ("-show", Show::Command),
    ("--show", Show::Command),
    ("-showme", Show::Command),
    ("--showme", Show::Command),
    ("-compile_info", Show::Compile),
    ("-compile-info", Show::Compile),
    ("-show-compile-info", Show::Compile),
    ("--show-compile-info", Show::Compile),
    ("-showme:compile", Show::Compile),
    ("--showme:compile", Show::Compile),
    ("--cflags", Show::Compile),
    ("-link_info", Show::Link),
    ("-link-info", Show::Link),
    ("-show-link-info", Show::Link),
    ("--show-link-info", Show::Link),
    ("-showme:link", Show::Link),
    ("--showme:link", Show::Link),
    ("--libs", Show::Link),
    ("-showme:incdirs", Show::IncludeFolders),
    ("--showme:incdirs", Show::IncludeFolders),
    ("-showme:libdirs", Show::LibraryFolders),
    ("--showme:libdirs", Show::LibraryFolders),
    ("-showme:libs", Show::Libraries),
    ("--showme:libs", Show::Libraries),
    ("-showme:command", Show::Compiler),
    ("--showme:command", Show::Compiler),
    ("-showme:version", Show::Version),
    ("--showme:version", Show::Version),
];

/// Options after which a compiler does not link.
const NOT_LINKING: &[&str] = &["-c", "-E", "-S", "-M", "-MM", "-fsyntax-only"];

/// Why nothing was compiled.
enum NotCompiled {
    Home(NoHome),
    NoCompiler { name: String, setting: &'static str, error: io::Error },
}

impl fmt::Display for NotCompiled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotCompiled::Home(reason) => write!(f, "{reason}"),
            NotCompiled::NoCompiler { name, setting, error } => write!(
                f,
                "cannot start the compiler {name}: {error}; install it, or name another in {setting}"
            ),
        }
    }
}

/// Compiles, links, or prints how. Returns after printing or on failure; otherwise the compiler replaces this process.
pub(crate) fn compile(language: Language, arguments: &[OsString]) -> ExitCode {
    match start(language, arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            let code = match reason {
                NotCompiled::Home(_) => ErrorCode::INSTALLATION,
                NotCompiled::NoCompiler { .. } => ErrorCode::COMPILER,
            };
            eprintln!("{}: {}", language.wrapper(), code.ends(&reason));
            ExitCode::from(match reason {
                NotCompiled::Home(_) => 1,
                NotCompiled::NoCompiler { .. } => 127,
            })
        }
    }
}

fn start(language: Language, arguments: &[OsString]) -> Result<(), NotCompiled> {
    let home = Home::find().map_err(NotCompiled::Home)?;
    let (compiler, setting) = language.compiler();
    // Not CC: it is often set to mpicc. The value may be several words, such as a cache and a compiler.
    let chosen = std::env::var(setting).ok().filter(|chosen| !chosen.trim().is_empty());
    let chosen = chosen.unwrap_or_else(|| compiler.into());
    let compiler: Vec<OsString> = chosen.split_whitespace().map(OsString::from).collect();
    let mut show = None;
    let mut words = Vec::new();
    for argument in arguments {
        match shown_by(argument) {
            Some(what) => show = Some(what),
            None => words.push(argument.clone()),
        }
    }
    let links = links(&words);
    let whole = |links: bool| {
        let mut line = [compiler.clone(), words.clone(), to_compile(&home)].concat();
        if links {
            line.extend(to_link(&home));
        }
        line
    };
    match show {
        // Without a file, show the options for linking, too.
        Some(Show::Command) => out::line(spelled(&whole(links || words.is_empty()))),
        Some(Show::Compile) => out::line(spelled(&to_compile(&home))),
        Some(Show::Link) => out::line(spelled(&to_link(&home))),
        Some(Show::IncludeFolders) => out::line(spelled(&[home.include.into()])),
        Some(Show::LibraryFolders) => out::line(spelled(&[home.lib.into()])),
        Some(Show::Libraries) => out::line("mpi_abi"),
        Some(Show::Compiler) => out::line(spelled(&compiler)),
        Some(Show::Version) => {
            let (wrapper, version) = (language.wrapper(), env!("CARGO_PKG_VERSION"));
            out::line(format_args!("{wrapper}: Ferrywire {version} (MPI 5.0)"));
        }
        None => {
            home.check_header().map_err(NotCompiled::Home)?;
            if links {
                home.prepare_to_link().map_err(NotCompiled::Home)?;
            }
            let line = whole(links);
            let error = Command::new(&line[0]).args(&line[1..]).exec();
            let name = line[0].to_string_lossy().into_owned();
            return Err(NotCompiled::NoCompiler { name, setting, error });
        }
    }
    Ok(())
}

fn shown_by(argument: &OsStr) -> Option<Show> {
    SHOWS.iter().find(|(option, _)| argument == *option).map(|(_, show)| *show)
}

/// Whether a compiler would link with these arguments: they name a file, and no option stops it earlier.
fn links(words: &[OsString]) -> bool {
    let is_file = |word: &OsString| word == "-" || !word.as_bytes().starts_with(b"-");
    words.iter().any(is_file) && !words.iter().any(|word| NOT_LINKING.iter().any(|no| word == no))
}

/// Options for compiling. They follow the user's arguments, so that the user's own folders come first.
fn to_compile(home: &Home) -> Vec<OsString> {
    vec![joined("-I", &home.include)]
}

/// Options for linking, with a path by which the program finds the library when it runs: RUNPATH rather than
/// RPATH, so that LD_LIBRARY_PATH can choose another library of the same ABI.
fn to_link(home: &Home) -> Vec<OsString> {
    let path = joined("-Wl,--enable-new-dtags,-rpath,", &home.lib);
    vec![joined("-L", &home.lib), path, "-lmpi_abi".into()]
}

fn joined(option: &str, path: &std::path::Path) -> OsString {
    let mut word = OsString::from(option);
    word.push(path);
    word
}

/// The words, quoted for a shell and for CMake's FindMPI, which knows only double quotes, and only after an option.
fn spelled(words: &[OsString]) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_=+,./:@%".contains(c);
    let spelled = words.iter().map(|word| {
        let word = word.to_string_lossy();
        if !word.is_empty() && word.chars().all(plain) {
            return word.into_owned();
        }
        match ["-I", "-L", "-Wl,"]
            .iter()
            .find_map(|option| Some((option, word.strip_prefix(option)?)))
        {
            Some((option, rest)) => {
                let special = |c: char| r#"\"$`"#.contains(c);
                let rest: String = rest
                    .chars()
                    .flat_map(|c| special(c).then_some('\\').into_iter().chain([c]))
                    .collect();
                format!("{option}\"{rest}\"")
            }
            None => format!("'{}'", word.replace('\'', r"'\''")),
        }
    });
    spelled.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split_whitespace().map(OsString::from).collect()
    }

    #[test]
    fn links_only_when_a_compiler_would() {
        assert!(links(&words("a.c -o a")));
        assert!(links(&words("-x c -")));
        assert!(!links(&words("-c a.c")));
        assert!(!links(&words("a.c -E")));
        assert!(!links(&words("--version")));
        assert!(!links(&words("")));
    }

    #[test]
    fn words_are_spelled_for_a_shell() {
        assert_eq!(spelled(&["a b".into(), "-DX=\"1\"".into()]), "'a b' '-DX=\"1\"'");
        assert_eq!(spelled(&["it's".into(), "".into()]), r"'it'\''s' ''");
        assert_eq!(spelled(&words("cc -I/x")), "cc -I/x");
        assert_eq!(
            spelled(&["-I/a $b".into(), "-Wl,-rpath,/a b".into()]),
            r#"-I"/a \$b" -Wl,"-rpath,/a b""#
        );
    }
}
