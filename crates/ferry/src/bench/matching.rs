//! `ferry bench match`: what a post and match costs at every depth, checked against targets.
//!
//! Times are medians of several repetitions with warm caches. Other load on the machine makes them longer and
//! never shorter, so a case that misses its target is measured again a few times, and its lowest median counts.
//! With `--untimed` instructions are judged instead, which are the same on a busy machine.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde::Serialize;

use crate::out;

use super::callgrind;
use super::workload::{
    COUNTED_STEPS, Case, DEPTHS, Effort, KINDS, MIXES, Mix, POSITIONS, Position, SIDES, Side,
    WorkloadKind,
};

/// The longest post and match of the indexed matcher, at any depth.
const NS_MAX: f64 = 60.0;
/// The largest ratio between the deepest queue and one entry.
const RATIO_MAX: f64 = 4.0;
/// The most instructions of a post and match of the indexed matcher, at any depth, and some for other compilers.
const INSTRUCTIONS_MAX: f64 = 450.0;
/// The largest ratio of them between the deepest queue and one entry.
const INSTRUCTIONS_RATIO_MAX: f64 = 2.6;
const ATTEMPTS_MAX: usize = 3;
/// Beyond this depth, the list and the ALPU are not counted: it would take too long under callgrind.
const COUNTED_DEPTH_MAX: u32 = 256;

/// The options of `ferry bench match`.
#[derive(Args)]
pub(crate) struct MatchOptions {
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
    /// Measure for seconds instead of a minute, with more noise; targets are checked all the same.
    #[arg(long)]
    quick: bool,
    /// Judge instructions instead of times, for a machine that is busy.
    #[arg(long)]
    untimed: bool,
    /// Run the cases whose instructions are counted, under callgrind.
    #[arg(long, hide = true)]
    counted: bool,
}

/// The result of `ferry bench match`.
#[derive(Serialize)]
struct MatchReport {
    cases: Vec<Measured>,
    /// Why instructions were not counted, if they were not.
    no_instructions: Option<String>,
    result: MatchResult,
    instructions: Option<Instructions>,
}

#[derive(Serialize)]
struct Measured {
    #[serde(flatten)]
    case: Case,
    ns: f64,
    instructions: Option<f64>,
}

/// The targets, and the worst values that were measured.
#[derive(Serialize)]
struct MatchResult {
    ns_max: f64,
    ns_worst: f64,
    ratio_max: f64,
    ratio_worst: f64,
    /// How many medians missed their target and were measured again.
    repeated: usize,
    holds: bool,
}

/// The same, in instructions.
#[derive(Serialize)]
struct Instructions {
    max: f64,
    worst: f64,
    ratio_max: f64,
    ratio_worst: f64,
    holds: bool,
}

impl MatchOptions {
    pub(crate) fn run(&self) -> ExitCode {
        if self.counted {
            counted_cases(self.quick).for_each(Case::count);
            return ExitCode::SUCCESS;
        }
        let report = self.report();
        if self.json {
            out::json(&report);
        } else {
            report.print();
        }
        let holds = if self.untimed {
            match &report.instructions {
                Some(instructions) => instructions.holds,
                None => return ExitCode::from(2),
            }
        } else {
            report.result.holds
        };
        if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }

    fn report(&self) -> MatchReport {
        let effort = self.effort();
        let mut cases: Vec<Measured> = cases()
            .map(|case| Measured { case, ns: case.measure(effort), instructions: None })
            .collect();
        let repeated = if self.untimed { 0 } else { repeat_misses(&mut cases, effort) };
        let no_instructions = count_instructions(&mut cases, self.quick).err();
        let result = MatchResult::of(&cases, repeated);
        let instructions = no_instructions.is_none().then(|| Instructions::of(&cases));
        MatchReport { cases, no_instructions, result, instructions }
    }

    fn effort(&self) -> Effort {
        if self.quick {
            Effort { repetitions: 5, repetition: Duration::from_millis(1) }
        } else {
            Effort { repetitions: 7, repetition: Duration::from_millis(5) }
        }
    }
}

impl MatchResult {
    fn of(cases: &[Measured], repeated: usize) -> MatchResult {
        let indexed =
            || cases.iter().filter(|measured| measured.case.matcher == WorkloadKind::Indexed);
        let ns_worst = indexed().map(|measured| measured.ns).fold(0.0, f64::max);
        let ratio_worst = indexed().map(|measured| ratio(cases, measured)).fold(0.0, f64::max);
        let holds = ns_worst <= NS_MAX && ratio_worst <= RATIO_MAX;
        MatchResult { ns_max: NS_MAX, ns_worst, ratio_max: RATIO_MAX, ratio_worst, repeated, holds }
    }
}

impl Instructions {
    fn of(cases: &[Measured]) -> Instructions {
        let indexed =
            || cases.iter().filter(|measured| measured.case.matcher == WorkloadKind::Indexed);
        let counted = || indexed().filter_map(|measured| measured.instructions);
        let worst = counted().fold(0.0, f64::max);
        let deepest = |measured: &&Measured| measured.case.depth == DEPTHS[DEPTHS.len() - 1];
        let ratios = indexed().filter(deepest).filter_map(|measured| {
            Some(measured.instructions? / shallow(cases, measured).instructions?)
        });
        let ratio_worst = ratios.fold(0.0, f64::max);
        let some = worst > 0.0 && ratio_worst > 0.0;
        let holds = some && worst <= INSTRUCTIONS_MAX && ratio_worst <= INSTRUCTIONS_RATIO_MAX;
        let (max, ratio_max) = (INSTRUCTIONS_MAX, INSTRUCTIONS_RATIO_MAX);
        Instructions { max, worst, ratio_max, ratio_worst, holds }
    }

    fn print(&self) {
        line("indexed, the most instructions at any depth", self.worst, self.max, "");
        line("indexed, 65,536 deep against 1 deep", self.ratio_worst, self.ratio_max, "x");
    }
}

impl MatchReport {
    fn print(&self) {
        self.print_table("ns per post + match", |measured| Some(measured.ns));
        match &self.no_instructions {
            None => self.print_table("instructions", |measured| measured.instructions),
            Some(cause) => out::line(format_args!("instructions: - ({cause})\n")),
        }
        self.result.print();
        if let Some(instructions) = &self.instructions {
            instructions.print();
        }
    }

    fn print_table(&self, title: &str, value: impl Fn(&Measured) -> Option<f64>) {
        out::line(format_args!("{title}"));
        print!("{:11} {:14} {:9} {:8}", "queue", "mix", "position", "matcher");
        DEPTHS.iter().for_each(|&depth| print!(" {:>10}", grouped(depth)));
        out::line("");
        for row in self.cases.chunks(DEPTHS.len()) {
            let values: Vec<Option<f64>> = row.iter().map(&value).collect();
            if values.iter().any(Option::is_some) {
                print_row(row[0].case, &values);
            }
        }
        out::line("");
    }
}

impl MatchResult {
    fn print(&self) {
        line("indexed, the longest at any depth", self.ns_worst, self.ns_max, "ns");
        line("indexed, 65,536 deep against 1 deep", self.ratio_worst, self.ratio_max, "x");
        if self.repeated > 0 {
            out::line(format_args!(
                "{} medians missed their target at first and were measured again",
                self.repeated
            ));
        }
    }
}

fn line(name: &str, worst: f64, max: f64, unit: &str) {
    let word = if worst <= max { "holds" } else { "does not hold" };
    out::line(format_args!("{name:48} {worst:6.1} {unit:2}, at most {max:4} {unit:2}: {word}"));
}

/// All cases, the depths of a row next to each other.
fn cases() -> impl Iterator<Item = Case> {
    let rows = SIDES.into_iter().flat_map(|queue| MIXES.map(|mix| (queue, mix)));
    let rows = rows.flat_map(|(queue, mix)| POSITIONS.map(|position| (queue, mix, position)));
    let rows = rows.flat_map(|row| KINDS.map(|matcher| (row, matcher)));
    rows.flat_map(|((queue, mix, position), matcher)| {
        DEPTHS.map(|depth| Case { queue, mix, position, matcher, depth })
    })
}

/// The cases whose instructions are counted, in the order of counting.
fn counted_cases(quick: bool) -> impl Iterator<Item = Case> {
    let ends = [DEPTHS[0], DEPTHS[DEPTHS.len() - 1]];
    cases().filter(move |case| match case.matcher {
        WorkloadKind::Indexed if quick => {
            case.position == Position::Random && ends.contains(&case.depth)
        }
        WorkloadKind::Indexed => true,
        WorkloadKind::Alpu | WorkloadKind::List => !quick && case.depth <= COUNTED_DEPTH_MAX,
    })
}

fn count_instructions(cases: &mut [Measured], quick: bool) -> Result<(), String> {
    let mut arguments = vec!["bench", "match", "--counted"];
    if quick {
        arguments.push("--quick");
    }
    let counts = callgrind::count("counting_mark", &arguments)?;
    let expected = counted_cases(quick).count();
    if counts.len() != expected {
        return Err(format!("callgrind counted {} cases of {expected}", counts.len()));
    }
    for (case, count) in counted_cases(quick).zip(counts) {
        let measured = cases.iter_mut().find(|measured| measured.case == case);
        measured.expect("a counted case is a case").instructions =
            Some(count as f64 / COUNTED_STEPS as f64);
    }
    Ok(())
}

/// Measures cases that miss a target again, and keeps the lowest median. Returns how many there were.
fn repeat_misses(cases: &mut [Measured], effort: Effort) -> usize {
    let mut repeated = 0;
    for at in 0..cases.len() {
        if cases[at].case.matcher != WorkloadKind::Indexed || !misses(cases, at) {
            continue;
        }
        repeated += 1;
        for _ in 0..ATTEMPTS_MAX {
            if !misses(cases, at) {
                break;
            }
            cases[at].ns = cases[at].ns.min(cases[at].case.measure(effort));
        }
    }
    repeated
}

fn misses(cases: &[Measured], at: usize) -> bool {
    cases[at].ns > NS_MAX || ratio(cases, &cases[at]) > RATIO_MAX
}

/// The ratio to a queue of one entry, if this is the deepest queue; 1 otherwise.
fn ratio(cases: &[Measured], measured: &Measured) -> f64 {
    if measured.case.depth != DEPTHS[DEPTHS.len() - 1] {
        return 1.0;
    }
    measured.ns / shallow(cases, measured).ns
}

/// The same with one entry.
fn shallow<'a>(cases: &'a [Measured], measured: &Measured) -> &'a Measured {
    let shallow = Case { depth: DEPTHS[0], ..measured.case };
    cases.iter().find(|other| other.case == shallow).expect("every row has every depth")
}

fn print_row(case: Case, values: &[Option<f64>]) {
    print!("{:11} {:14} ", name_of_queue(case.queue), name_of_mix(case.mix));
    print!("{:9} {:8}", name_of_position(case.position), name_of_matcher(case.matcher));
    for value in values {
        match value {
            Some(value) => print!(" {value:>10.1}"),
            None => print!(" {:>10}", "-"),
        }
    }
    out::line("");
}

fn name_of_queue(queue: Side) -> &'static str {
    match queue {
        Side::Posted => "posted",
        Side::Unexpected => "unexpected",
    }
}

fn name_of_mix(mix: Mix) -> &'static str {
    match mix {
        Mix::Exact => "exact",
        Mix::AnySource => "10% any source",
        Mix::AnyTag => "10% any tag",
    }
}

fn name_of_position(position: Position) -> &'static str {
    match position {
        Position::End => "end",
        Position::Random => "random",
    }
}

fn name_of_matcher(matcher: WorkloadKind) -> &'static str {
    match matcher {
        WorkloadKind::Indexed => "indexed",
        WorkloadKind::Alpu => "alpu",
        WorkloadKind::List => "list",
    }
}

/// A number with commas: 65536 as 65,536.
fn grouped(number: u32) -> String {
    match number {
        0..1000 => number.to_string(),
        _ => format!("{},{:03}", grouped(number / 1000), number % 1000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        assert_eq!([1, 4096, 65536, 1_000_007].map(grouped), ["1", "4,096", "65,536", "1,000,007"]);
    }

    #[test]
    fn a_row_has_every_depth_in_order() {
        let all: Vec<Case> = cases().collect();
        assert_eq!(all.len(), 2 * 3 * 2 * 3 * DEPTHS.len());
        for row in all.chunks(DEPTHS.len()) {
            assert!(row.iter().map(|case| case.depth).eq(DEPTHS));
            assert!(row.iter().all(|case| Case { depth: 1, ..*case } == row[0]));
        }
    }
}
