//! `ferry sim paper`: the figures of the documents that Ferrywire comes from, beside ours.

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
        let missed: usize = results.iter().map(|paper| paper.misses().count()).sum();
        ExitCode::from(u8::from(missed > 0))
    }
}

fn print(paper: &Paper) {
    out::line(format_args!("{}: {}\n", paper.name, paper.title));
    out::line(format_args!("{:<66} {:>10} {:<8} source", "the machine", "value", "unit"));
    for parameter in &paper.parameters {
        let source = match parameter.origin {
            Origin::Given(place) => format!("given: {place}"),
            Origin::Fitted(on) => format!("fitted on {on}"),
            Origin::Assumed(why) => format!("assumed: {why}"),
        };
        let value = number(parameter.value);
        let (what, unit) = (parameter.what, parameter.unit);
        out::line(format_args!("{what:<66} {value:>10} {unit:<8} {source}"));
    }
    out::line(format_args!(
        "\n{:<8} {:<57} {:>10} {:>10} {:<8} {:>7}",
        "figure", "", "document", "ours", "unit", "differs"
    ));
    for figure in &paper.figures {
        print_figure(figure);
    }
    let predicted = paper.figures.iter().filter(|figure| figure.role == Role::Predicted).count();
    let missed = paper.misses().count();
    out::line(format_args!("\n{predicted} predictions, {missed} missed\n"));
}

fn print_figure(figure: &Figure) {
    let theirs = match figure.theirs {
        Theirs::Value(value) => number(value),
        Theirs::Range(least, most) => format!("{}-{}", number(least), number(most)),
    };
    let role = match figure.role {
        Role::Given => "given",
        Role::Fitted => "fitted",
        Role::Predicted if figure.is_missed() => "MISSED",
        Role::Predicted => "predicted",
    };
    out::line(format_args!(
        "{:<8} {:<57} {theirs:>10} {:>10} {:<8} {:>+6.1}% {role}",
        figure.place,
        figure.what,
        number(figure.ours),
        figure.unit,
        figure.difference_percent(),
    ));
    if figure.differs()
        && let Some(reason) = figure.reason
    {
        out::line(format_args!("         because {reason}"));
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
