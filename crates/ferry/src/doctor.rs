//! `ferry doctor`: checks what commonly breaks MPI jobs on a machine, and on hosts that it reaches by ssh.
//!
//! | file | what it checks |
//! |---|---|
//! | `machine` | the installation, cores, memory, copies between processes, limits |
//! | `network` | the name of this host, datagrams, libfabric, ssh, other hosts |
//! | `other_mpis` | other MPIs in `PATH`, in `LD_LIBRARY_PATH` and where the loader looks |
//! | `probe` | commands with a time limit, control groups, limits of this process |

mod machine;
mod network;
mod other_mpis;
mod probe;

pub(crate) use probe::{in_path, output_of};

use std::fmt::Write;
use std::io::{IsTerminal, stdout};
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;

use crate::out;

/// Checks what commonly breaks MPI jobs on this machine, and on hosts.
///
/// Each line has a verdict: ok, warning or problem. What is not ok has a line that says how to fix it. The exit code is 1
/// if there is a problem, and 0 otherwise.
#[derive(Args)]
pub(crate) struct Doctor {
    /// Hosts of a job, which are reached as `ferry run --hosts` reaches them.
    #[arg(value_name = "HOST")]
    hosts: Vec<String>,
    /// How to run a command on a host: COMMAND HOST ...
    #[arg(long, value_name = "COMMAND", default_value = "ssh")]
    rsh: String,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "lowercase")]
enum Health {
    Ok,
    Warning,
    Problem,
}

/// What was found about one thing.
#[derive(Debug, Serialize)]
struct HealthCheck {
    about: String,
    verdict: Health,
    found: String,
    /// How to fix what is not ok.
    fix: Option<String>,
}

impl HealthCheck {
    fn ok(about: &str, found: impl Into<String>) -> HealthCheck {
        HealthCheck { about: about.into(), verdict: Health::Ok, found: found.into(), fix: None }
    }

    fn warning(about: &str, found: impl Into<String>, fix: impl Into<String>) -> HealthCheck {
        let fix = Some(fix.into());
        HealthCheck { about: about.into(), verdict: Health::Warning, found: found.into(), fix }
    }

    fn problem(about: &str, found: impl Into<String>, fix: impl Into<String>) -> HealthCheck {
        let fix = Some(fix.into());
        HealthCheck { about: about.into(), verdict: Health::Problem, found: found.into(), fix }
    }
}

/// All findings, and the worst verdict among them.
#[derive(Serialize)]
struct Diagnosis {
    verdict: Health,
    findings: Vec<HealthCheck>,
}

impl Doctor {
    pub(crate) fn run(&self) -> ExitCode {
        // First what forks: later checks start threads.
        let mut findings = machine::findings();
        findings.extend(network::findings());
        findings.extend(network::of_hosts(&self.hosts, &self.rsh));
        findings.extend(other_mpis::findings());
        let worst = findings.iter().map(|finding| finding.verdict).max().unwrap_or(Health::Ok);
        let diagnosis = Diagnosis { verdict: worst, findings };
        if self.json {
            out::json(&diagnosis);
        } else {
            let colours = stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
            out::line(diagnosis.told(colours).trim_end());
        }
        ExitCode::from(u8::from(worst == Health::Problem))
    }
}

impl Diagnosis {
    fn told(&self, colours: bool) -> String {
        let mut text = String::new();
        for finding in &self.findings {
            let (word, colour) = match finding.verdict {
                Health::Ok => ("ok", 32),
                Health::Warning => ("warning", 33),
                Health::Problem => ("problem", 31),
            };
            let word = format!("{word:<9}");
            let word = if colours { format!("\x1b[{colour}m{word}\x1b[0m") } else { word };
            let mut lines = out::wrapped(&finding.found, TEXT_COLUMNS).into_iter();
            // A longer name, such as that of a host, has a line of its own.
            let beside = finding.about.chars().count() <= ABOUT_COLUMNS;
            let first = beside.then(|| lines.next()).flatten().unwrap_or_default();
            let line = format!("{word}{:<ABOUT_COLUMNS$} {first}", finding.about);
            let _ = writeln!(text, "{}", line.trim_end());
            let fix = finding
                .fix
                .iter()
                .flat_map(|fix| out::wrapped(&format!("to fix: {fix}"), TEXT_COLUMNS));
            for line in lines.chain(fix) {
                let _ = writeln!(text, "{:INDENT$}{line}", "");
            }
        }
        let count = |verdict| self.findings.iter().filter(|one| one.verdict == verdict).count();
        let (problems, warnings) = (count(Health::Problem), count(Health::Warning));
        let many = |count: usize, word: &str| match count {
            1 => format!("1 {word}"),
            _ => format!("{count} {word}s"),
        };
        let (problems, warnings) = (many(problems, "problem"), many(warnings, "warning"));
        let _ = writeln!(text, "\n{problems}, {warnings}");
        text
    }
}

/// The column at which findings begin, and how long their lines are.
const INDENT: usize = 24;
const ABOUT_COLUMNS: usize = 14;
const TEXT_COLUMNS: usize = 80 - INDENT;
