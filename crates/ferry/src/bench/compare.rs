//! `ferry bench pingpong`, `oversubscribed`, `skew`, `wait` and `start`: Ferrywire beside other MPIs.
//!
//! All contenders are launched in turn, again and again, so that other load on the machine affects all alike.
//! Figures are medians of the runs, and targets are ratios of them.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;

use crate::out;

use super::contender::{BenchJob, Contender, default_folder};
use super::table::{Role, Summary, Table};
use super::target::{Judged, TARGETS, Target, TargetResult};

/// The options of every comparison.
#[derive(Args)]
pub(crate) struct CompareOptions {
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
    /// Repeat less within a launch, with more noise; targets are checked all the same.
    #[arg(long)]
    quick: bool,
    /// Do not judge times: fail only if something could not be measured.
    #[arg(long)]
    untimed: bool,
    /// How often each contender is launched.
    #[arg(long, default_value_t = RUNS_MIN, value_parser = clap::value_parser!(u32).range(i64::from(RUNS_MIN)..))]
    runs: u32,
    /// The folder that bench/peers/install has filled, or `none` to leave peers out.
    #[arg(long, value_name = "DIR")]
    peers: Option<PathBuf>,
}

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Comparison {
    Pingpong,
    Oversubscribed,
    Skew,
    Wait,
    Start,
}

/// The result of a comparison.
#[derive(Serialize)]
struct CompareReport<'a> {
    comparison: Comparison,
    quick: bool,
    runs: u32,
    processors: usize,
    rows: Vec<Summary<'a>>,
    targets: &'a [Judged],
    /// What could not be found or measured, one sentence each.
    notes: &'a [String],
}

impl Comparison {
    pub(crate) fn run(self, options: &CompareOptions) -> ExitCode {
        let (contenders, mut notes) = match options.folder() {
            Ok(folder) => Contender::find(folder.as_deref()),
            Err(cause) => {
                let (found, mut missing) = Contender::find(None);
                missing.push(format!("peers are left out: {cause}."));
                (found, missing)
            }
        };
        let jobs = self.jobs();
        let runs_any = |contender: &Contender| jobs.iter().any(|job| contender.runs(job.program));
        let contenders: Vec<Contender> = contenders.into_iter().filter(runs_any).collect();
        let table = measure(&contenders, jobs, options, &mut notes);
        let judged: Vec<Judged> =
            self.targets().iter().map(|target| target.judge(&table)).collect();
        if options.json {
            out::json(&CompareReport {
                comparison: self,
                quick: options.quick,
                runs: options.runs,
                processors: processors(),
                rows: table.summaries(),
                targets: &judged,
                notes: &notes,
            });
        } else {
            table.print(&judged);
            self.explain(options, &notes);
        }
        match exit_code(&contenders, &table, &judged) {
            TARGET_MISSED if options.untimed => ExitCode::SUCCESS,
            code => ExitCode::from(code),
        }
    }

    fn jobs(self) -> &'static [BenchJob] {
        match self {
            Comparison::Pingpong => &[
                BenchJob { program: "pingpong", ranks: 2, seconds_max: 60 },
                BenchJob { program: "queue", ranks: 2, seconds_max: 120 },
            ],
            Comparison::Oversubscribed => {
                &[BenchJob { program: "oversubscribed", ranks: 32, seconds_max: 120 }]
            }
            Comparison::Skew => &[BenchJob { program: "skew", ranks: 8, seconds_max: 60 }],
            Comparison::Wait => &[BenchJob { program: "wait", ranks: 2, seconds_max: 30 }],
            Comparison::Start => &[
                BenchJob { program: "start", ranks: 1, seconds_max: 60 },
                BenchJob { program: "start", ranks: 4, seconds_max: 60 },
                BenchJob { program: "start", ranks: 16, seconds_max: 60 },
                BenchJob { program: "start", ranks: 64, seconds_max: 120 },
            ],
        }
    }

    fn targets(self) -> &'static [Target] {
        if self == Comparison::Pingpong { TARGETS } else { &[] }
    }

    fn explain(self, options: &CompareOptions, notes: &[String]) {
        out::line("");
        out::line(format_args!(
            "medians of {} launches, in turn, on {} processors",
            options.runs,
            processors()
        ));
        if self == Comparison::Pingpong {
            out::line(
                "bare: at 0 bytes one cache line, at 8 bytes 56 bytes in the line of their flag, half a round trip;",
            );
            out::line("      from 4096 bytes on one copy of what the other core has just written");
            out::line("empty: Ferrywire's own figure at depth 0; best: the best peer");
        }
        notes.iter().for_each(out::line);
    }
}

impl CompareOptions {
    fn folder(&self) -> Result<Option<PathBuf>, String> {
        match &self.peers {
            None => default_folder().map(Some),
            Some(path) if path.as_os_str() == "none" => Ok(None),
            Some(path) => Ok(Some(path.clone())),
        }
    }
}

/// Launches all contenders in turn, as often as the options say.
fn measure(
    contenders: &[Contender],
    jobs: &[BenchJob],
    options: &CompareOptions,
    notes: &mut Vec<String>,
) -> Table {
    let columns: Vec<(&'static str, Role)> =
        contenders.iter().map(|contender| (contender.name, contender.role)).collect();
    let mut table = Table::new(&columns);
    let mut failures: Vec<(&str, BenchJob)> = Vec::new();
    for run in 1..=options.runs {
        if std::io::stderr().is_terminal() {
            eprintln!("run {run} of {}", options.runs);
        }
        for &job in jobs {
            for contender in contenders.iter().filter(|contender| contender.runs(job.program)) {
                let failed = failures.iter().filter(|&&at| at == (contender.name, job)).count();
                if failed >= FAILURES_MAX {
                    continue;
                }
                match contender.launch(job, options.quick) {
                    Ok(figures) => {
                        figures.iter().for_each(|figure| table.add(contender.name, figure));
                    }
                    Err(cause) => {
                        failures.push((contender.name, job));
                        let ranks = job.ranks;
                        notes.push(format!("{}, {ranks} ranks: {cause}.", contender.name));
                    }
                }
            }
        }
    }
    table
}

/// The exit code: 2 if a required figure is missing, 1 if a target is missed.
fn exit_code(contenders: &[Contender], table: &Table, judged: &[Judged]) -> u8 {
    let any = |result| judged.iter().any(|judged| judged.result == result);
    let ours = contenders.iter().find(|contender| contender.role == Role::Ours);
    let is_silent = ours.is_some_and(|ours| !table.has(ours.name));
    let is_empty = !contenders.iter().any(|contender| table.has(contender.name));
    if any(TargetResult::NotMeasured) || is_silent || is_empty {
        2
    } else {
        if any(TargetResult::Missed) { TARGET_MISSED } else { 0 }
    }
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

const TARGET_MISSED: u8 = 1;
const RUNS_MIN: u32 = 5;
/// A contender that fails so often at a job is not launched for it again.
const FAILURES_MAX: usize = 2;

#[cfg(test)]
mod tests {
    use super::super::figure::Figure;
    use super::super::target::To;
    use super::*;

    #[test]
    fn a_miss_is_1_and_what_is_missing_is_2() {
        let mut table = Table::new(&[("bare", Role::Bare), ("ferrywire", Role::Ours)]);
        let target = Target { figure: "latency bytes=8", ratio_max: 1.25, to: To::Bare };
        let code =
            |table: &Table| exit_code(&Contender::find(None).0, table, &[target.judge(table)]);
        assert_eq!(code(&table), 2);
        table.add("ferrywire", &Figure::parse("latency bytes=8 ns=250").expect("a figure"));
        assert_eq!(code(&table), 2);
        table.add("bare", &Figure::parse("latency bytes=8 ns=200").expect("a figure"));
        assert_eq!(code(&table), 0);
        table.add("ferrywire", &Figure::parse("latency bytes=8 ns=270").expect("a figure"));
        assert_eq!(code(&table), 1);
    }

    #[test]
    fn every_job_has_a_program() {
        use Comparison::{Oversubscribed, Pingpong, Skew, Start, Wait};
        for job in
            [Pingpong, Oversubscribed, Skew, Wait, Start].iter().flat_map(|which| which.jobs())
        {
            assert!(super::super::contender::source(job.program).contains("int main("));
        }
    }
}
