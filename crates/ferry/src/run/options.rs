//! The command line of `ferry run`: one table of options, and a parser for it.
//!
//! Clap, which parses the other commands, does not fit. MPI launchers write long options with one dash, separate
//! programs by a colon, and stop at the first word that is not an option; scripts rely on it. Every option may have
//! one dash or two, and be written `-name value` or `-name=value`.

mod table;

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

use ferrywire_host::ErrorCode;
use ferrywire_host::job_limits::{BadLimit, JobLimits, LIMIT_VARIABLE};
use serde::{Deserialize, Serialize};

use super::debugger::RankSet;
use super::host_list::{self, Host, HostListError};
use super::rail::RailRequest;
use super::rank_command::RankCommand;
use super::wire::Wanted;
use crate::trace::RecordingRequest;
use table::{Meaning, OptionRow, TABLE};

/// Everything that the command line says.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Options {
    pub(super) programs: Vec<Program>,
    /// For all programs, in the order given.
    pub(super) environment: Vec<(String, String)>,
    pub(super) inherit: Inherit,
    pub(super) label: bool,
    pub(super) files: Files,
    pub(super) stdin: Stdin,
    pub(super) timeout_seconds: Option<f64>,
    pub(super) hang_timeout_seconds: Option<f64>,
    /// A job whose ranks wait for each other for ever is reported, and not ended.
    pub(super) only_reports_deadlocks: bool,
    /// Where all facts of ranks are written with a verdict on them.
    pub(super) why_file: Option<PathBuf>,
    /// Mistakes in the use of MPI are looked for.
    pub(super) check: bool,
    pub(super) dry_run: bool,
    /// The hosts of the job. If the list is empty, or all are this machine, the launcher starts all ranks itself.
    pub(super) hosts: Vec<Host>,
    /// How many ranks each host takes before the next one.
    pub(super) per_host: Option<u32>,
    /// The command that reaches a host.
    pub(super) rsh: Option<String>,
    pub(super) network: Wanted,
    pub(super) insecure: bool,
    /// The job does not start if its frames are not sealed.
    sealed: bool,
    trusts_fabric: bool,
    pub(super) rail: RailRequest,
    /// The job continues when ranks die.
    pub(super) fault_tolerant: bool,
    /// Limits of the NIC of each rank.
    limits: JobLimits,
    /// What is recorded about the job.
    pub(super) recording: RecordingRequest,
    /// The ranks that run under gdb.
    pub(super) debugged: Option<RankSet>,
    /// The command line around the program of each rank.
    pub(super) rank_command: Option<RankCommand>,
    /// Options of other launchers that have no meaning here, as they were written.
    pub(super) ignored: Vec<String>,
}

/// One program and how often to start it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Program {
    /// The program and its arguments.
    pub(super) words: Vec<OsString>,
    /// `None` if the user gave no number.
    pub(super) ranks: Option<u32>,
    pub(super) environment: Vec<(String, String)>,
    /// `None` to inherit as `Options::inherit` says.
    pub(super) inherit: Option<Inherit>,
    pub(super) folder: Option<String>,
}

/// Which variables of the launcher's environment a program inherits.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) enum Inherit {
    #[default]
    All,
    Only(Vec<String>),
}

/// Files for the output of ranks, instead of the launcher's own output.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub(super) struct Files {
    pub(super) folder: Option<String>,
    /// Patterns in which `%r` stands for the rank.
    pub(super) out: Option<String>,
    pub(super) err: Option<String>,
}

/// Which ranks read the launcher's input.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(super) enum Stdin {
    None,
    All,
    Rank(u32),
}

impl Default for Stdin {
    fn default() -> Stdin {
        Stdin::Rank(0)
    }
}

/// What the command line asks for.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Asked {
    Run(Box<Options>),
    Help,
    Version,
}

/// What is wrong with a command line.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum BadOptions {
    Unknown {
        option: String,
        nearest: Option<&'static str>,
    },
    NoValue {
        option: String,
    },
    BadValue {
        option: String,
        value: String,
        wanted: &'static str,
    },
    Hosts(String),
    Limit {
        option: String,
        bad: BadLimit,
    },
    Unsupported {
        option: String,
        instead: &'static str,
    },
    /// `--sealed` was given together with this option.
    Unsealed {
        option: &'static str,
    },
    NoProgram,
    EmptyProgram,
    /// `--gdb` was given a list without an equals sign.
    SeparateRanks {
        list: String,
    },
    /// Both `--gdb` and `--rank-command` were given.
    TwoCommands,
}

impl BadOptions {
    pub(super) fn code(&self) -> ErrorCode {
        match self {
            BadOptions::Unknown { .. } => ErrorCode::UNKNOWN_OPTION,
            BadOptions::NoValue { .. }
            | BadOptions::BadValue { .. }
            | BadOptions::Limit { .. }
            | BadOptions::SeparateRanks { .. } => ErrorCode::OPTION_VALUE,
            BadOptions::Hosts(_) => ErrorCode::HOST_LIST,
            BadOptions::Unsupported { .. }
            | BadOptions::Unsealed { .. }
            | BadOptions::TwoCommands => ErrorCode::OPTION_CONFLICT,
            BadOptions::NoProgram | BadOptions::EmptyProgram => ErrorCode::NO_PROGRAM,
        }
    }
}

impl fmt::Display for BadOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadOptions::Unknown { option, nearest: Some(nearest) } => {
                write!(f, "unknown option {option}; did you mean {nearest}?")
            }
            BadOptions::Unknown { option, nearest: None } => {
                write!(f, "unknown option {option}; ferry run --help lists the options")
            }
            BadOptions::NoValue { option } => write!(f, "{option} needs a value"),
            BadOptions::BadValue { option, value, wanted } => {
                write!(f, "{option} {value}: expected {wanted}")
            }
            BadOptions::Hosts(why) => f.write_str(why),
            BadOptions::Limit { option, bad } => {
                write!(f, "{option} {bad}; ferry info --limits lists the limits")
            }
            BadOptions::Unsupported { option, instead } => {
                write!(f, "{option} is not supported; {instead}")
            }
            BadOptions::Unsealed { option } => write!(
                f,
                "--sealed forbids {option}, which sends frames neither encrypted nor authenticated: leave out one of them"
            ),
            BadOptions::NoProgram => {
                write!(f, "no program to run; for example: ferry run -n 4 ./program")
            }
            BadOptions::SeparateRanks { list } => {
                write!(f, "--gdb {list}: expected an equals sign before the ranks: --gdb={list}")
            }
            BadOptions::TwoCommands => write!(
                f,
                "--gdb and --rank-command both put a command around a rank's program: leave out one of them"
            ),
            BadOptions::EmptyProgram => write!(f, "no program before or after ':'"),
        }
    }
}

/// Parses the arguments of `ferry run` or `mpiexec`.
pub(super) fn parse(arguments: &[OsString]) -> Result<Asked, BadOptions> {
    let mut options = Options::default();
    let mut words = Words { arguments, at: 0 };
    loop {
        let mut program = Program::default();
        if let Some(asked) = parse_options(&mut words, &mut options, &mut program)? {
            return Ok(asked);
        }
        program.words = words.until_colon();
        if program.words.is_empty() {
            let alone = options.programs.is_empty() && words.is_empty();
            return Err(if alone { BadOptions::NoProgram } else { BadOptions::EmptyProgram });
        }
        options.programs.push(program);
        // The program ends at a colon or at the end of the command line.
        if words.next().is_none() {
            options.settle_rail()?;
            options.settle_command()?;
            options.settle_limits();
            return Ok(Asked::Run(Box::new(options)));
        }
    }
}

impl Options {
    /// Checks the options that put a command around a rank's program.
    fn settle_command(&self) -> Result<(), BadOptions> {
        let Some(ranks) = &self.debugged else { return Ok(()) };
        if self.rank_command.is_some() {
            return Err(BadOptions::TwoCommands);
        }
        let first = self.programs.first().and_then(|program| program.words.first()?.to_str());
        match first.filter(|word| *ranks == RankSet::All && RankSet::parse(word).is_some()) {
            Some(word) => Err(BadOptions::SeparateRanks { list: word.to_owned() }),
            None => Ok(()),
        }
    }

    /// Passes the limits to all ranks.
    fn settle_limits(&mut self) {
        if self.limits != JobLimits::default() {
            self.environment.push((LIMIT_VARIABLE.to_owned(), self.limits.to_string()));
        }
    }

    /// Combines the options about the rail, which may contradict each other.
    fn settle_rail(&mut self) -> Result<(), BadOptions> {
        let unsealed = match &self.rail {
            _ if self.insecure => Some("--insecure"),
            RailRequest::Fabric(_) => Some("--rail fabric"),
            RailRequest::Auto if self.trusts_fabric => Some("--trust-fabric"),
            _ => None,
        };
        match unsealed.filter(|_| self.sealed) {
            Some(option) => return Err(BadOptions::Unsealed { option }),
            None if self.trusts_fabric => self.rail = std::mem::take(&mut self.rail).trusting(),
            None => {}
        }
        Ok(())
    }
}

/// The lines of `--help` about options: those rows of the table that have a help text.
pub(super) fn lines_of_help() -> String {
    let lines = TABLE.iter().filter(|row| !row.help.is_empty());
    lines.map(|row| format!("  {:<26} {}\n", row.shown, row.help)).collect()
}

/// An option of `ferry run`, for its manual page and for completion.
pub(crate) struct DescribedOption {
    /// Without dashes.
    pub(crate) names: &'static [&'static str],
    /// The name of its value. `None` if it has none.
    pub(crate) value: Option<&'static str>,
    /// The value can be left out, and else follows an equals sign.
    pub(crate) value_is_optional: bool,
    pub(crate) help: &'static str,
}

/// The options of `ferry run` that its help shows.
pub(crate) fn described() -> impl Iterator<Item = DescribedOption> {
    TABLE.iter().filter(|row| !row.help.is_empty()).map(|row| {
        // The last spelling has the value: `-n N, -np N`.
        let shown = row.shown.rsplit(", ").next().unwrap_or_default();
        let optional = shown.split_once("[=").map(|(_, value)| value.trim_end_matches(']'));
        let value = optional.or(shown.split_once(' ').map(|(_, value)| value));
        let value_is_optional = optional.is_some();
        DescribedOption { names: row.names, value, value_is_optional, help: row.help }
    })
}

/// Parses the options before one program. `--help` and `--version` end the parsing.
fn parse_options(
    words: &mut Words<'_>,
    options: &mut Options,
    program: &mut Program,
) -> Result<Option<Asked>, BadOptions> {
    while let Some(word) = words.peek().and_then(OsStr::to_str) {
        // A single dash, or no dash, begins the program.
        let Some(name) = word.strip_prefix('-').filter(|name| !name.is_empty()) else { break };
        words.next();
        if name == "-" {
            break;
        }
        let (name, value) = match name.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (name, None),
        };
        let name = name.strip_prefix('-').unwrap_or(name);
        let option = word.split('=').next().unwrap_or(word).to_owned();
        let Some(row) = TABLE.iter().find(|row| row.names.contains(&name)) else {
            return Err(BadOptions::Unknown { option, nearest: nearest(name) });
        };
        let mut values = Values { option: &option, value, words };
        match row.meaning {
            Meaning::Help => return Ok(Some(Asked::Help)),
            Meaning::Version => return Ok(Some(Asked::Version)),
            _ => apply(row, &mut values, options, program)?,
        }
    }
    Ok(None)
}

fn apply(
    row: &OptionRow,
    values: &mut Values<'_, '_>,
    options: &mut Options,
    program: &mut Program,
) -> Result<(), BadOptions> {
    match row.meaning {
        Meaning::Ranks => program.ranks = Some(values.positive()?),
        Meaning::Environment => program.environment.extend(values.variable()?),
        Meaning::GlobalEnvironment => options.environment.extend(values.variable()?),
        Meaning::Export => program.environment.extend(values.exported()?),
        Meaning::InheritAll => program.inherit = Some(Inherit::All),
        Meaning::InheritNone => program.inherit = Some(Inherit::Only(Vec::new())),
        Meaning::InheritList => program.inherit = Some(values.names()?),
        Meaning::GlobalInheritAll => options.inherit = Inherit::All,
        Meaning::GlobalInheritNone => options.inherit = Inherit::Only(Vec::new()),
        Meaning::GlobalInheritList => options.inherit = values.names()?,
        Meaning::Folder => program.folder = Some(values.take()?),
        Meaning::Label => options.label = true,
        Meaning::Output => options.files.folder = Some(values.take()?),
        Meaning::OutPattern => options.files.out = Some(values.take()?),
        Meaning::ErrPattern => options.files.err = Some(values.take()?),
        Meaning::Stdin => options.stdin = values.stdin()?,
        Meaning::Timeout => options.timeout_seconds = Some(values.seconds()?),
        Meaning::DryRun => options.dry_run = true,
        Meaning::Fine => {}
        Meaning::Ignored { values: count } => {
            for _ in 0..count {
                values.take()?;
            }
            options.ignored.push(values.option.to_owned());
        }
        Meaning::Hosts => {
            options.hosts.extend(host_list::listed(&values.take()?).map_err(bad_hosts)?);
        }
        Meaning::HostFile => {
            options.hosts.extend(host_list::in_file(&values.take()?).map_err(bad_hosts)?);
        }
        Meaning::PerHost => options.per_host = Some(values.positive()?),
        Meaning::Rsh => options.rsh = Some(values.take()?),
        Meaning::Ports => options.network.ports = Some(values.ports()?),
        Meaning::Interface => options.network.interface = Some(values.take()?),
        Meaning::Net => options.network.net = Some(values.net()?),
        Meaning::Insecure => options.insecure = true,
        Meaning::Sealed => options.sealed = true,
        Meaning::TrustFabric => options.trusts_fabric = true,
        Meaning::Rail => options.rail = values.rail()?,
        Meaning::HangTimeout => options.hang_timeout_seconds = Some(values.seconds()?),
        Meaning::WhyFile => options.why_file = Some(values.take()?.into()),
        Meaning::OnDeadlock => options.only_reports_deadlocks = values.on_deadlock()?,
        Meaning::Limit => options.limits = options.limits.then(values.limits()?),
        Meaning::Check => options.check = true,
        Meaning::OnDeath => options.fault_tolerant = values.on_death()?,
        Meaning::FaultTolerant { values: count } => {
            for _ in 0..count {
                values.take()?;
            }
            options.fault_tolerant = true;
        }
        Meaning::Trace => options.recording.trace = Some(values.take()?.into()),
        Meaning::Stats => match values.value.take() {
            Some(file) => options.recording.stats_file = Some(file.into()),
            None => options.recording.stats = true,
        },
        Meaning::Gdb => options.debugged = Some(values.ranks()?),
        Meaning::RankCommand => options.rank_command = Some(values.rank_command()?),
        Meaning::Unsupported { instead } => {
            let option = values.option.to_owned();
            return Err(BadOptions::Unsupported { option, instead });
        }
        Meaning::Help | Meaning::Version => {}
    }
    Ok(())
}

impl Options {
    /// Takes from the environment what no option sets. `read` reads a variable.
    pub(super) fn completed(
        mut self,
        read: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Options, BadOptions> {
        if let (None, Some(value)) = (self.timeout_seconds, read(TIMEOUT_VARIABLE)) {
            let value = value.to_string_lossy().into_owned();
            let Some(seconds) = seconds_in(&value) else {
                let option = TIMEOUT_VARIABLE.to_owned();
                return Err(BadOptions::BadValue { option, value, wanted: SECONDS });
            };
            self.timeout_seconds = Some(seconds);
        }
        let wanted = read(CHECK_VARIABLE).is_some_and(|value| !value.is_empty() && value != "0");
        self.check |= wanted;
        if self.check {
            self.environment.push((CHECK_VARIABLE.into(), "1".into()));
        }
        Ok(self)
    }
}

/// The variable by which MPI launchers limit the time of a job.
const TIMEOUT_VARIABLE: &str = "MPIEXEC_TIMEOUT";

/// The variable by which ranks know that they are checked.
const CHECK_VARIABLE: &str = "FERRY_CHECK";

fn seconds_in(value: &str) -> Option<f64> {
    value.parse().ok().filter(|&seconds| seconds > 0.0 && seconds < 1e9)
}

const SECONDS: &str = "a number of seconds above 0";

fn bad_hosts(bad: HostListError) -> BadOptions {
    BadOptions::Hosts(bad.to_string())
}

/// A cursor over the words of the command line.
struct Words<'a> {
    arguments: &'a [OsString],
    at: usize,
}

impl<'a> Words<'a> {
    fn peek(&self) -> Option<&'a OsStr> {
        self.arguments.get(self.at).map(OsString::as_os_str)
    }

    fn next(&mut self) -> Option<&'a OsStr> {
        let word = self.peek()?;
        self.at += 1;
        Some(word)
    }

    fn is_empty(&self) -> bool {
        self.at >= self.arguments.len()
    }

    fn until_colon(&mut self) -> Vec<OsString> {
        let rest = self.arguments.get(self.at..).unwrap_or_default();
        let count = rest.iter().position(|word| word == ":").unwrap_or(rest.len());
        self.at += count;
        rest[..count].to_vec()
    }
}

/// The values of one option.
struct Values<'a, 'w> {
    option: &'a str,
    /// The value after an equals sign.
    value: Option<String>,
    words: &'a mut Words<'w>,
}

impl Values<'_, '_> {
    fn take(&mut self) -> Result<String, BadOptions> {
        if let Some(value) = self.value.take() {
            return Ok(value);
        }
        let Some(word) = self.words.next().filter(|word| *word != ":") else {
            return Err(BadOptions::NoValue { option: self.option.to_owned() });
        };
        let text = word.to_str().map(str::to_owned);
        text.ok_or_else(|| self.bad(word.to_string_lossy().into_owned(), "text in UTF-8"))
    }

    fn bad(&self, value: String, wanted: &'static str) -> BadOptions {
        BadOptions::BadValue { option: self.option.to_owned(), value, wanted }
    }

    fn positive(&mut self) -> Result<u32, BadOptions> {
        let value = self.take()?;
        match value.parse() {
            Ok(number) if number > 0 => Ok(number),
            _ => Err(self.bad(value, "a number of ranks, 1 or more")),
        }
    }

    fn seconds(&mut self) -> Result<f64, BadOptions> {
        let value = self.take()?;
        seconds_in(&value).ok_or_else(|| self.bad(value, SECONDS))
    }

    fn stdin(&mut self) -> Result<Stdin, BadOptions> {
        let value = self.take()?;
        match value.as_str() {
            "none" => Ok(Stdin::None),
            "all" => Ok(Stdin::All),
            _ => match value.parse() {
                Ok(rank) => Ok(Stdin::Rank(rank)),
                Err(_) => Err(self.bad(value, "none, all or a rank")),
            },
        }
    }

    /// `end` or `continue`: whether the job continues when a rank dies.
    fn on_death(&mut self) -> Result<bool, BadOptions> {
        let value = self.take()?;
        match value.as_str() {
            "end" => Ok(false),
            "continue" => Ok(true),
            _ => Err(self.bad(value, "end or continue")),
        }
    }

    fn on_deadlock(&mut self) -> Result<bool, BadOptions> {
        let value = self.take()?;
        match value.as_str() {
            "end" => Ok(false),
            "report" => Ok(true),
            _ => Err(self.bad(value, "end or report")),
        }
    }

    /// `NAME=BYTES,NAME=BYTES`.
    fn limits(&mut self) -> Result<JobLimits, BadOptions> {
        let value = self.take()?;
        value.parse().map_err(|bad| BadOptions::Limit { option: self.option.to_owned(), bad })
    }

    /// A list of ranks after an equals sign, or all.
    fn ranks(&mut self) -> Result<RankSet, BadOptions> {
        let Some(list) = self.value.take() else { return Ok(RankSet::All) };
        RankSet::parse(&list).ok_or_else(|| self.bad(list, RankSet::WANTED))
    }

    fn rank_command(&mut self) -> Result<RankCommand, BadOptions> {
        let line = self.take()?;
        RankCommand::parse(&line).ok_or_else(|| self.bad(line, RankCommand::WANTED))
    }

    /// `LOW-HIGH`.
    fn ports(&mut self) -> Result<(u16, u16), BadOptions> {
        let value = self.take()?;
        let range = value.split_once('-').map(|(low, high)| (low.parse(), high.parse()));
        match range {
            Some((Ok(low), Ok(high))) if 0 < low && low <= high => Ok((low, high)),
            _ => Err(self.bad(value, "a range of ports such as 7000-7099")),
        }
    }

    /// `ADDRESS/BITS`.
    fn net(&mut self) -> Result<(IpAddr, u8), BadOptions> {
        let value = self.take()?;
        let parts = value.split_once('/').map(|(net, bits)| (net.parse(), bits.parse()));
        match parts {
            Some((Ok(net), Ok(bits))) if bits <= if IpAddr::is_ipv4(&net) { 32 } else { 128 } => {
                Ok((net, bits))
            }
            _ => Err(self.bad(value, "a network such as 10.1.0.0/16")),
        }
    }

    fn rail(&mut self) -> Result<RailRequest, BadOptions> {
        let value = self.take()?;
        RailRequest::parse(&value)
            .ok_or_else(|| self.bad(value, "auto, udp, fabric or fabric:PROVIDER"))
    }

    /// `NAME,NAME`: the only variables to inherit.
    fn names(&mut self) -> Result<Inherit, BadOptions> {
        Ok(Inherit::Only(self.take()?.split(',').map(str::to_owned).collect()))
    }

    /// `NAME=VALUE`, or `NAME VALUE` as in Hydra.
    fn variable(&mut self) -> Result<Option<(String, String)>, BadOptions> {
        let first = self.take()?;
        if let Some((name, value)) = first.split_once('=') {
            return Ok(Some((name.to_owned(), value.to_owned())));
        }
        Ok(Some((first, self.take()?)))
    }

    /// `NAME=VALUE`, or `NAME` alone as in Open MPI, which changes nothing: the variable is inherited anyway.
    fn exported(&mut self) -> Result<Option<(String, String)>, BadOptions> {
        let word = self.take()?;
        Ok(word.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned())))
    }
}

/// The known option that is closest to `name`, if it is close enough to be meant.
fn nearest(name: &str) -> Option<&'static str> {
    let names = TABLE.iter().flat_map(|row| row.names.iter());
    let close = names.map(|known| (distance(name, known), *known)).min()?;
    let enough = close.0 <= 1 + name.len() / 4;
    enough.then(|| table::spelled(close.1))
}

/// The edit distance between two words: how many letters to add, drop, change, or swap with their neighbour.
pub(crate) fn distance(one: &str, other: &str) -> usize {
    let [one, other] = [one, other].map(|word| word.chars().collect::<Vec<char>>());
    // Row by row: the distances between the first letters of both. A swap needs the row before the last.
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=other.len()).collect();
    for at in 1..=one.len() {
        let mut row = vec![at];
        for column in 1..=other.len() {
            let differs = one[at - 1] != other[column - 1];
            let changed = last[column - 1] + usize::from(differs);
            let mut least = changed.min(last[column] + 1).min(row[column - 1] + 1);
            if at > 1
                && column > 1
                && one[at - 1] == other[column - 2]
                && one[at - 2] == other[column - 1]
            {
                least = least.min(before[column - 2] + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[other.len()]
}

#[cfg(test)]
mod tests;
