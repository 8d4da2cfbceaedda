//! `ferry sim machine`: operations on more and more ranks of machines of today.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use ferrywire_host::ErrorCode;
use ferrywire_sim::machine::Topology;
use ferrywire_sim::machine::check::PingPong;
use ferrywire_sim::machine::growth::{self, Growth, GrowthOptions, GrowthReport, Law};
use ferrywire_sim::machine::today::{self, MachineFile};
use serde::Serialize;

use super::peak_rss_bytes;
use crate::bench::{Figure, Unit};
use crate::out;

/// The options of a run of machines.
#[derive(Args)]
pub(crate) struct MachineRun {
    /// A machine (laptop, hpc, cloud, dpu), or a file that describes one. Without it, all machines are run.
    #[arg(value_name = "NAME|FILE")]
    name: Option<String>,
    /// The most ranks to simulate.
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = clap::value_parser!(u32).range(2..=16_777_216))]
    ranks: u32,
    /// Another network.
    #[arg(long, value_name = "NETWORK")]
    topology: Option<TopologyName>,
    /// Let one rank in a thousand, at least one, begin each operation so many microseconds late.
    #[arg(long, value_name = "US", default_value_t = 0.0, value_parser = lateness)]
    stragglers: f64,
    /// Compare the machine with measured times of messages between two ranks: what `ferry run -n 2 ferry bench worker
    /// pingpong`, or `queue`, has printed. Nothing else is run.
    #[arg(long, value_name = "FILE", requires = "name", conflicts_with_all = ["ranks", "stragglers", "json"])]
    check: Option<PathBuf>,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

/// A network that a machine can have instead of its own.
#[derive(Clone, Copy, ValueEnum)]
enum TopologyName {
    /// One switch, however many ranks there are.
    OneSwitch,
    /// A tree of switches with 64 ports.
    FatTree,
    /// Groups of switches with 64 ports: up to 262,656 ranks.
    Dragonfly,
}

#[derive(Serialize)]
struct MachineResult {
    name: String,
    machine: MachineFile,
    ranks: u32,
    late_us: f64,
    #[serde(flatten)]
    report: GrowthReport,
    peak_rss_bytes: Option<u64>,
    holds: bool,
}

fn lateness(text: &str) -> Result<f64, String> {
    let us: f64 = text.parse().map_err(|_| "it is not a number".to_owned())?;
    match us.is_finite() && us >= 0.0 {
        true => Ok(us),
        false => Err("nobody is early".into()),
    }
}

impl MachineRun {
    /// Runs the machines; fails if an operation grows worse than its law, or has a wrong result.
    pub(crate) fn run(self) -> ExitCode {
        let machines = match self.machines() {
            Ok(machines) => machines,
            Err(why) => {
                eprintln!("ferry: {}", ErrorCode::OPTION_VALUE.ends(why));
                return ExitCode::from(2);
            }
        };
        if let Some(measured) = &self.check {
            return match check(&machines[0].1, measured) {
                Ok(holds) => ExitCode::from(u8::from(!holds)),
                Err(why) => {
                    eprintln!("ferry: {}", ErrorCode::OPTION_VALUE.ends(why));
                    ExitCode::from(2)
                }
            };
        }
        let results: Vec<_> =
            machines.into_iter().map(|(name, machine)| self.run_one(name, machine)).collect();
        if self.json {
            out::json(&results);
        }
        ExitCode::from(u8::from(!results.iter().all(|result| result.holds)))
    }

    /// The machines that are asked for, by name.
    fn machines(&self) -> Result<Vec<(String, MachineFile)>, String> {
        let known = |name: &str| today::named(name).map(|file| (name.to_owned(), file));
        let mut machines: Vec<_> = match &self.name {
            None => today::names().filter_map(known).collect(),
            Some(name) => match known(name) {
                Some(machine) => vec![machine],
                None => vec![(name.clone(), read(name)?)],
            },
        };
        if let Some(network) = self.topology {
            machines.iter_mut().for_each(|(_, machine)| machine.topology = network.topology());
        }
        Ok(machines)
    }

    fn run_one(&self, name: String, machine: MachineFile) -> MachineResult {
        let ranks = self.ranks.min(machine.ranks_max());
        if !self.json {
            print_machine(&name, &machine);
        }
        let options = GrowthOptions { ranks, late_us: self.stragglers };
        let report = growth::run(&machine, options);
        let holds = report.holds();
        let late_us = self.stragglers;
        let peak_rss_bytes = peak_rss_bytes();
        let result = MachineResult { name, machine, ranks, late_us, report, peak_rss_bytes, holds };
        if !self.json {
            print_result(&result);
        }
        result
    }
}

impl TopologyName {
    fn topology(self) -> Topology {
        match self {
            TopologyName::OneSwitch => Topology::OneSwitch,
            TopologyName::FatTree => Topology::FatTree { ports: 64 },
            TopologyName::Dragonfly => Topology::Dragonfly { ports: 64 },
        }
    }
}

fn read(path: &str) -> Result<MachineFile, String> {
    if !Path::new(path).exists() {
        let names: Vec<_> = today::names().collect();
        return Err(format!(
            "{path} is no machine and no file: expected one of {}",
            names.join(", ")
        ));
    }
    let text = std::fs::read_to_string(path).map_err(|why| format!("cannot read {path}: {why}"))?;
    MachineFile::parse(&text).map_err(|why| format!("{path} describes no machine: {why}"))
}

/// The most by which a prediction may differ from what was measured.
const DIFFERENCE_PERCENT_MAX: f64 = 25.0;

/// Compares a machine with measured figures, and says whether all are near.
fn check(machine: &MachineFile, measured: &Path) -> Result<bool, String> {
    let name = measured.display();
    let text =
        std::fs::read_to_string(measured).map_err(|why| format!("cannot read {name}: {why}"))?;
    let figures = text.lines().filter_map(Figure::parse);
    let known: Vec<_> = figures.filter_map(|figure| Some((exchange(&figure)?, figure))).collect();
    if known.is_empty() {
        return Err(format!("{name} has no time of messages between two ranks"));
    }
    out::line(format_args!("{:<36} {:>12} {:>12} {:>9}", "ns", "measured", "machine", "differs"));
    let mut holds = true;
    for (exchange, figure) in known {
        let predicted = exchange.half_ns(machine);
        let differs = (predicted / figure.value - 1.0) * 100.0;
        holds &= differs.abs() <= DIFFERENCE_PERCENT_MAX;
        out::line(format_args!(
            "{:<36} {:>12.1} {predicted:>12.1} {differs:>+8.1}%{}",
            figure.name,
            figure.value,
            if differs.abs() <= DIFFERENCE_PERCENT_MAX { "" } else { " MISSED" }
        ));
    }
    Ok(holds)
}

/// What a figure is of, if a machine says something about it.
fn exchange(figure: &Figure) -> Option<PingPong> {
    let mut words = figure.name.split(' ');
    let name = words.next()?;
    let value = |key: &str| {
        let (_, value) =
            words.clone().filter_map(|word| word.split_once('=')).find(|one| one.0 == key)?;
        value.parse::<u32>().ok()
    };
    let exchange = match name {
        "latency" => PingPong { bytes: value("bytes")?.into(), ..PingPong::default() },
        "posted" => PingPong { bytes: 8, posted: value("depth")?, unexpected: 0 },
        "unexpected" => PingPong { bytes: 8, posted: 0, unexpected: value("depth")? },
        _ => return None,
    };
    (figure.unit == Unit::Ns && exchange.is_known()).then_some(exchange)
}

fn print_machine(name: &str, machine: &MachineFile) {
    out::line(format_args!("{name}: {}\n", machine.about));
    out::line(format_args!("{:<22} {:>10} source", "number", "value"));
    for (name, number) in machine.numbers.all() {
        out::line(format_args!("{name:<22} {:>10} {}", number.value, number.source.text()));
    }
}

fn print_result(result: &MachineResult) {
    let report = &result.report;
    for growth in &report.growths {
        print_growth(growth);
    }
    out::line(format_args!(
        "\n{}: NIC state of a rank before first contact: {} bytes",
        result.name, report.bytes_before_contact
    ));
    if let Some(bytes) = result.peak_rss_bytes {
        out::line(format_args!(
            "memory of the whole simulation at its peak: {:.2} GB",
            bytes as f64 / 1e9
        ));
    }
    out::line(format_args!(
        "{}, {}\n",
        if report.right { "all results right" } else { "RESULTS WRONG" },
        if report.growths.iter().any(|growth| growth.worse) {
            "SOMETHING GROWS WORSE THAN ITS LAW"
        } else {
            "nothing grows worse than its law"
        }
    ));
}

fn print_growth(growth: &Growth) {
    let of = match growth.law {
        Law::Logarithm => "log2 n",
        Law::Line => "n",
        Law::Square => "n^2",
    };
    let line = growth.line;
    out::line(format_args!(
        "\n{}: {} + {} {of} us, off by {:.1} %{}; bound: {}",
        growth.name,
        number(line.a_us),
        number(line.b_us),
        line.off * 100.0,
        if growth.worse { ": WORSE THAN ITS LAW" } else { "" },
        growth.bound
    ));
    out::line(format_args!(
        "{:>10} {:>12} {:>12} {:>12} {:>8} {:>12} {:>12} {:>8}",
        "ranks", "us", "law", "bound", "x bound", "frames/rank", "bytes/rank", "real s"
    ));
    for point in &growth.points {
        let factor = match point.bound_us > 0.0 {
            true => format!("{:.2}", point.us / point.bound_us),
            false => "-".into(),
        };
        out::line(format_args!(
            "{:>10} {:>12} {:>12} {:>12} {factor:>8} {:>12.1} {:>12} {:>8.2}",
            point.ranks,
            number(point.us),
            number(point.law_us),
            number(point.bound_us),
            point.frames_per_rank,
            point.bytes_per_rank,
            point.real_seconds
        ));
    }
}

/// A time, or a part of one that may be small.
fn number(us: f64) -> String {
    match us.abs() {
        large if large >= 1000.0 => format!("{us:.0}"),
        medium if medium >= 1.0 => format!("{us:.2}"),
        _ => format!("{us:.4}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_that_a_machine_says_something_about_are_known() {
        let known = |line: &str| exchange(&Figure::parse(line).expect("a figure"));
        let found = known("posted source=any depth=1024 ns=400").expect("it is known");
        assert_eq!((found.bytes, found.posted, found.unexpected), (8, 1024, 0));
        assert_eq!(known("latency bytes=512 ns=640").map(|found| found.bytes), Some(512));
        for unknown in
            ["latency bytes=65536 ns=1", "arrived depth=0 ns=1", "rate bytes=8 window=64 ns=1"]
        {
            assert!(known(unknown).is_none(), "{unknown}");
        }
    }
}
