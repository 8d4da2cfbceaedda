//! `ferry sim paper`: the figures of the documents that Ferrywire comes from, beside ours.

mod picture;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use ferrywire_sim::papers::{self, Figure, Origin, Paper, Role, Theirs};

use crate::out;

/// The options of a run of documents.
#[derive(Args)]
pub(crate) struct PaperRun {
    /// The document.
    #[arg(value_name = "NAME", value_parser = names(), required_unless_present = "all")]
    name: Option<String>,
    /// Run all documents.
    #[arg(long, conflicts_with = "name")]
    all: bool,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
    /// Write pictures, and a page that explains them, into this folder.
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,
}

fn names() -> clap::builder::PossibleValuesParser {
    papers::names().into()
}

impl PaperRun {
    /// Runs the documents; fails if a prediction is missed.
    pub(crate) fn run(self) -> ExitCode {
        let chosen = papers::names().filter(|&name| self.all || self.name.as_deref() == Some(name));
        let mut results = Vec::new();
        for paper in chosen.filter_map(papers::run) {
            if !self.json {
                print(&paper);
            }
            results.push(paper);
        }
        if self.json {
            out::json(&results);
        }
        if let Some(folder) = &self.svg {
            if let Err(error) = picture::write(&results, folder) {
                eprintln!("ferry: cannot write pictures to {}: {error}", folder.display());
                return ExitCode::FAILURE;
            }
            if !self.json {
                out::line(format_args!("pictures: {}", folder.join("index.html").display()));
            }
        }
        let missed: usize = results.iter().map(|paper| paper.misses().count()).sum();
        ExitCode::from(u8::from(missed > 0))
    }
}

fn print(paper: &Paper) {
    out::line(format_args!("{}: {}\n", paper.name, paper.title));
    out::line(format_args!("{:<60} {:>10} {:<8} source", "the machine", "value", "unit"));
    for parameter in &paper.parameters {
        let source = match parameter.origin {
            Origin::Given(place) => format!("given: {place}"),
            Origin::Fitted(on) => format!("fitted on {on}"),
            Origin::Assumed(why) => format!("assumed: {why}"),
        };
        let value = number(parameter.value);
        let (what, unit) = (parameter.what, parameter.unit);
        out::line(format_args!("{what:<60} {value:>10} {unit:<8} {source}"));
    }
    out::line(format_args!(
        "\n{:<8} {:<53} {:>10} {:>10} {:<8} {:>7}",
        "figure", "", "document", "ours", "unit", "differs"
    ));
    for figure in &paper.figures {
        print_figure(figure);
    }
    let predicted = || paper.figures.iter().filter(|figure| figure.role == Role::Predicted);
    let (all, missed) = (predicted().count(), paper.misses().count());
    let near = predicted().filter(|figure| !figure.differs()).count();
    out::line(format_args!(
        "\n{all} predictions: {near} near, {} not, for a reason, {missed} missed\n",
        all - near - missed
    ));
}

fn print_figure(figure: &Figure) {
    let (theirs, role) = (theirs_of(figure), role_of(figure));
    out::line(format_args!(
        "{:<8} {:<53} {theirs:>10} {:>10} {:<8} {:>+6.1}% {role}",
        figure.place,
        figure.what,
        number(figure.ours),
        figure.unit,
        figure.difference_percent(),
    ));
    if figure.differs()
        && let Some(reason) = figure.reason
    {
        for line in out::wrapped(&format!("because {reason}"), 70) {
            out::line(format_args!("         {line}"));
        }
    }
}

fn theirs_of(figure: &Figure) -> String {
    match figure.theirs {
        Theirs::Value(value) => number(value),
        Theirs::Range(least, most) => format!("{}-{}", number(least), number(most)),
    }
}

fn role_of(figure: &Figure) -> &'static str {
    match figure.role {
        Role::Given => "given",
        Role::Fitted => "fitted",
        Role::Predicted if figure.is_missed() => "MISSED",
        Role::Predicted => "predicted",
    }
}

/// A number with as many digits as a table needs.
fn number(value: f64) -> String {
    match value.abs() {
        large if large >= 100.0 => format!("{value:.0}"),
        medium if medium >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}
