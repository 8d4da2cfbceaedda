//! What exactly to start: finds the programs, and builds their environments.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt::{self, Write as _};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use ferrywire_host::ErrorCode;
use ferrywire_host::bootstrap::Command;
use serde::{Deserialize, Serialize};

use super::debugger::{Debugger, NoDebugger};
use super::host_list::{self, Share};
use super::options::{Files, Inherit, Options, Program, Stdin};
use super::program::{self, NoProgram};
use super::rank_command::RankCommand;
use super::report::{RankName, Ranks};
use super::start::Settings;
use super::wire::{Assignment, Errand};

/// A job before its start.
pub(super) struct Plan {
    pub(super) parts: Vec<Part>,
    /// The first rank of this host.
    pub(super) first: u32,
    /// The number of ranks in the whole job.
    pub(super) size: u32,
    pub(super) label: bool,
    pub(super) files: Files,
}

/// One program of a plan, and its ranks.
pub(super) struct Part {
    /// The number of the program in the job, from 0 on.
    pub(super) program: u32,
    pub(super) file: PathBuf,
    /// The program's own name and its arguments, as the user wrote them.
    pub(super) words: Vec<OsString>,
    pub(super) first: u32,
    pub(super) ranks: u32,
    pub(super) folder: Option<PathBuf>,
    /// The environment before `set`. `None` to inherit the launcher's.
    pub(super) base: Option<BTreeMap<OsString, OsString>>,
    pub(super) set: Vec<(String, String)>,
    around: Option<Around>,
    /// Ranks that run under a debugger.
    pub(super) debugger: Option<Debugger>,
}

/// The command line around the program of each rank, and where its command is.
struct Around {
    command: RankCommand,
    /// `None` if the program itself is the command.
    file: Option<PathBuf>,
}

impl Around {
    fn find(
        command: Option<&RankCommand>,
        folder: &Path,
        path: Option<&OsStr>,
    ) -> Result<Option<Around>, BadPlan> {
        let Some(command) = command else { return Ok(None) };
        let found = command.name().map(|name| program::find(name, folder, path)).transpose();
        let file = found.map_err(BadPlan::RankCommand)?;
        Ok(Some(Around { command: command.clone(), file }))
    }
}

/// A program that a rank asks for.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Spawned {
    /// Its number among those asked for together, from 0 on.
    pub(super) program: u32,
    pub(super) words: Vec<OsString>,
    /// Its first rank in the new world, and how many it has.
    pub(super) first: u32,
    pub(super) ranks: u32,
    pub(super) folder: PathBuf,
    /// Where it is looked for, if not in `PATH`.
    pub(super) path: Option<OsString>,
}

/// Why a job cannot be planned.
#[derive(Debug)]
pub(super) enum BadPlan {
    Program(NoProgram),
    NoFolder {
        folder: PathBuf,
    },
    TooManyRanks,
    NoReader {
        rank: u32,
        size: u32,
    },
    /// The command of `--rank-command` is not found.
    RankCommand(NoProgram),
    Debugger(NoDebugger),
}

impl BadPlan {
    pub(super) fn exit_code(&self) -> u8 {
        match self {
            BadPlan::Program(error) | BadPlan::RankCommand(error) => error.exit_code(),
            BadPlan::NoFolder { .. }
            | BadPlan::TooManyRanks
            | BadPlan::NoReader { .. }
            | BadPlan::Debugger(_) => 1,
        }
    }
}

impl BadPlan {
    pub(super) fn code(&self) -> ErrorCode {
        match self {
            BadPlan::Program(error) | BadPlan::RankCommand(error) => error.code(),
            BadPlan::Debugger(_) => ErrorCode::DEBUGGER,
            BadPlan::NoFolder { .. } => ErrorCode::NO_FOLDER,
            BadPlan::NoReader { .. } | BadPlan::TooManyRanks => ErrorCode::OPTION_VALUE,
        }
    }
}

impl fmt::Display for BadPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadPlan::Program(error) => write!(f, "{error}"),
            BadPlan::RankCommand(error) => write!(f, "--rank-command: {error}"),
            BadPlan::Debugger(error) => write!(f, "{error}"),
            BadPlan::NoFolder { folder } => {
                write!(f, "cannot start in {}: no such folder", folder.display())
            }
            BadPlan::NoReader { rank, size } => {
                write!(f, "--stdin {rank}: no rank {rank} in a job of {size}")
            }
            BadPlan::TooManyRanks => write!(f, "too many ranks: the number must fit into 32 bits"),
        }
    }
}

impl Plan {
    pub(super) fn new(options: &Options) -> Result<Plan, BadPlan> {
        let mut parts = Vec::new();
        let mut size: u32 = 0;
        for (number, program) in (0..).zip(&options.programs) {
            parts.push(Part::new(number, program, size, options)?);
            let ranks = ranks_of(program, options);
            size = size.checked_add(ranks).ok_or(BadPlan::TooManyRanks)?;
        }
        check_reader(options, size)?;
        if let Some(ranks) = &options.debugged {
            let debugger = Debugger::choose(ranks.clone(), size).map_err(BadPlan::Debugger)?;
            parts.iter_mut().for_each(|part| part.debugger = Some(debugger.clone()));
        }
        Ok(Plan { parts, first: 0, size, label: options.label, files: options.files.clone() })
    }

    /// The plan of a job whose ranks others have started.
    pub(super) fn of_others(size: u32) -> Plan {
        Plan { parts: Vec::new(), first: 0, size, label: false, files: Files::default() }
    }

    /// The plan of a daemon, from the launcher's assignment.
    pub(super) fn assigned(assignment: Assignment) -> Result<Plan, BadPlan> {
        let Assignment { size, parts, label, files, .. } = assignment;
        let first = parts.first().map_or(0, |errand| errand.first);
        let parts = parts.into_iter().map(Part::assigned).collect::<Result<_, _>>()?;
        Ok(Plan { parts, first, size, label, files })
    }

    /// Whether a rank runs under a debugger in the terminal of the launcher.
    pub(super) fn is_debugged_here(&self) -> bool {
        self.parts.iter().filter_map(|part| part.debugger.as_ref()).any(Debugger::is_here)
    }

    /// The number of ranks on this host.
    pub(super) fn ranks(&self) -> u32 {
        self.parts.iter().map(|part| part.ranks).sum()
    }

    /// The plan in words, for `--dry-run`.
    pub(super) fn told(&self, cores: u32, oversubscribed: bool) -> String {
        let mut text = String::new();
        for part in &self.parts {
            let ranks = part.first..part.first + part.ranks;
            let ranks: Vec<RankName> = ranks.map(RankName::of).collect();
            let words: Vec<String> = part.words.iter().skip(1).map(|word| quoted(word)).collect();
            let file = quoted(part.file.as_os_str());
            let line = format!("{}: {file} {}", Ranks(&ranks), words.join(" "));
            let _ = writeln!(text, "{}", line.trim_end());
            if let Some(folder) = &part.folder {
                let _ = writeln!(text, "  in {}", folder.display());
            }
            if let Some(around) = &part.around {
                let _ = writeln!(text, "  as {}", around.command.text());
            }
            if let Some(debugger) = &part.debugger {
                let debugged: Vec<RankName> = part.debugged().map(RankName::of).collect();
                if !debugged.is_empty() {
                    let place = debugger.place();
                    let _ = writeln!(text, "  {} under gdb, {place}", Ranks(&debugged));
                }
            }
            for (name, value) in &part.set {
                let _ = writeln!(text, "  with {name}={}", quoted(OsStr::new(value)));
            }
        }
        let waiting = if oversubscribed { "waiting ranks sleep" } else { "waiting ranks may spin" };
        let _ = write!(text, "{} ranks on {cores} cores: {waiting}", self.size);
        text
    }
}

impl Part {
    fn new(number: u32, program: &Program, first: u32, options: &Options) -> Result<Part, BadPlan> {
        let base = base_of(program.inherit.as_ref().unwrap_or(&options.inherit));
        // The program's own variables come last and override the others.
        let set: Vec<_> = options.environment.iter().chain(&program.environment).cloned().collect();
        let folder = program.folder.as_ref().map(PathBuf::from);
        if let Some(folder) = folder.as_ref().filter(|folder| !folder.is_dir()) {
            return Err(BadPlan::NoFolder { folder: folder.clone() });
        }
        let path = variable("PATH", base.as_ref(), &set);
        let from = absolute(folder.as_deref().unwrap_or(Path::new("")));
        let file =
            program::find(&program.words[0], &from, path.as_deref()).map_err(BadPlan::Program)?;
        let around = Around::find(options.rank_command.as_ref(), &from, path.as_deref())?;
        Ok(Part {
            program: number,
            file,
            words: program.words.clone(),
            first,
            ranks: ranks_of(program, options),
            folder,
            base,
            set,
            around,
            debugger: None,
        })
    }

    /// The file and the words that start a rank.
    pub(super) fn command_of(&self, rank: u32) -> (PathBuf, Vec<OsString>) {
        let program = || {
            let arguments = self.words.iter().skip(1).cloned();
            [self.file.clone().into_os_string()].into_iter().chain(arguments).collect::<Vec<_>>()
        };
        if let Some(debugger) = self.debugger.as_ref().filter(|debugger| debugger.has(rank)) {
            return debugger.of_program(&program());
        }
        match &self.around {
            None => (self.file.clone(), self.words.clone()),
            Some(around) => {
                let words = around.command.of_rank(rank, &program());
                (around.file.clone().unwrap_or_else(|| self.file.clone()), words)
            }
        }
    }

    /// Its ranks that run under a debugger.
    pub(super) fn debugged(&self) -> impl Iterator<Item = u32> {
        let has = |rank: &u32| self.debugger.as_ref().is_some_and(|debugger| debugger.has(*rank));
        (self.first..self.first + self.ranks).filter(has)
    }

    /// A program that a rank asked for. It gets the environment of the first program of the job.
    pub(super) fn spawned(wanted: Spawned, settings: &Settings) -> Result<Part, BadPlan> {
        let Spawned { program, words, first, ranks, folder, path } = wanted;
        let folder = absolute(&folder);
        if !folder.is_dir() {
            return Err(BadPlan::NoFolder { folder });
        }
        let (base, set) = (settings.base.clone(), settings.set.clone());
        let path = path.or_else(|| variable("PATH", base.as_ref(), &set));
        let file = program::find(&words[0], &folder, path.as_deref()).map_err(BadPlan::Program)?;
        let (folder, around, debugger) = (Some(folder), None, None);
        Ok(Part { program, file, words, first, ranks, folder, base, set, around, debugger })
    }

    /// The value that a variable will have for the program, before the launcher sets its own.
    pub(super) fn variable(&self, name: &str) -> Option<OsString> {
        variable(name, self.base.as_ref(), &self.set)
    }

    fn assigned(errand: Errand) -> Result<Part, BadPlan> {
        let Errand { program, words, first, ranks, folder, base, set, rank_command } = errand;
        if !folder.is_dir() {
            return Err(BadPlan::NoFolder { folder });
        }
        let base = base.into_iter().collect();
        let path = variable("PATH", Some(&base), &set);
        let file = program::find(&words[0], &folder, path.as_deref()).map_err(BadPlan::Program)?;
        let around = Around::find(rank_command.as_ref(), &folder, path.as_deref())?;
        let (folder, base, debugger) = (Some(folder), Some(base), None);
        Ok(Part { program, file, words, first, ranks, folder, base, set, around, debugger })
    }
}

/// What to start on several hosts, and the number of ranks. The daemons find the programs.
pub(super) fn errands(options: &Options) -> Result<(Vec<Errand>, u32), BadPlan> {
    if options.debugged.is_some() {
        return Err(BadPlan::Debugger(NoDebugger::Remote));
    }
    let mut errands = Vec::new();
    let mut size: u32 = 0;
    for (number, program) in (0..).zip(&options.programs) {
        let inherit = program.inherit.as_ref().unwrap_or(&options.inherit);
        let ranks = ranks_of(program, options);
        errands.push(Errand {
            program: number,
            words: program.words.clone(),
            first: size,
            ranks,
            folder: absolute(program.folder.as_ref().map_or(Path::new(""), Path::new)),
            base: base_of(inherit).map_or_else(|| std::env::vars_os().collect(), Vec::from_iter),
            set: options.environment.iter().chain(&program.environment).cloned().collect(),
            rank_command: options.rank_command.clone(),
        });
        size = size.checked_add(ranks).ok_or(BadPlan::TooManyRanks)?;
    }
    check_reader(options, size)?;
    Ok((errands, size))
}

/// What a rank asks for, and the number of ranks.
pub(super) fn spawned(commands: &[Command]) -> Result<(Vec<Spawned>, u32), String> {
    let text = |bytes: &[u8]| OsStr::from_bytes(bytes).to_owned();
    let mut parts = Vec::new();
    let mut first: u32 = 0;
    for (program, command) in (0..).zip(commands) {
        let words = command.words.iter().map(|word| text(word)).collect();
        let folder = PathBuf::from(text(&command.folder));
        let path = (!command.path.is_empty()).then(|| text(&command.path));
        let ranks = command.ranks;
        parts.push(Spawned { program, words, first, ranks, folder, path });
        first = first.checked_add(ranks).ok_or_else(|| BadPlan::TooManyRanks.to_string())?;
    }
    match first {
        0 => Err("there is no program to start".into()),
        size => Ok((parts, size)),
    }
}

/// How many ranks a program has: as many as the user said; else as many as the hosts take, if it is the only one.
fn ranks_of(program: &Program, options: &Options) -> u32 {
    program.ranks.unwrap_or_else(|| match options.programs.len() {
        1 => host_list::capacity(&options.hosts, options.per_host),
        _ => 1,
    })
}

/// The parts of the errands that fall on the ranks of one host.
pub(super) fn clipped(errands: &[Errand], share: &Share) -> Vec<Errand> {
    let end = share.first + share.ranks;
    let clip = |errand: &Errand| {
        let first = errand.first.max(share.first);
        let ranks = (errand.first + errand.ranks).min(end).checked_sub(first)?;
        (ranks > 0).then(|| Errand { first, ranks, ..errand.clone() })
    };
    errands.iter().filter_map(clip).collect()
}

fn check_reader(options: &Options, size: u32) -> Result<(), BadPlan> {
    match options.stdin {
        Stdin::Rank(rank) if rank >= size => Err(BadPlan::NoReader { rank, size }),
        _ => Ok(()),
    }
}

fn absolute(folder: &Path) -> PathBuf {
    std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/")).join(folder)
}

fn base_of(inherit: &Inherit) -> Option<BTreeMap<OsString, OsString>> {
    let Inherit::Only(names) = inherit else { return None };
    let named = |name: &OsString| names.iter().any(|wanted| name == OsStr::new(wanted));
    Some(std::env::vars_os().filter(|(name, _)| named(name)).collect())
}

/// The value that a variable will have for the program.
fn variable(
    name: &str,
    base: Option<&BTreeMap<OsString, OsString>>,
    set: &[(String, String)],
) -> Option<OsString> {
    let given = set.iter().rev().find(|(given, _)| given == name);
    match (given, base) {
        (Some((_, value)), _) => Some(value.into()),
        (None, Some(base)) => base.get(OsStr::new(name)).cloned(),
        (None, None) => std::env::var_os(name),
    }
}

/// A word, quoted for a shell.
fn quoted(word: &OsStr) -> String {
    let text = word.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+%@".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.into_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_when_they_need_it() {
        assert_eq!(quoted(OsStr::new("a.out")), "a.out");
        assert_eq!(quoted(OsStr::new("a b")), "'a b'");
        assert_eq!(quoted(OsStr::new("it's")), r"'it'\''s'");
        assert_eq!(quoted(OsStr::new("")), "''");
    }
}
