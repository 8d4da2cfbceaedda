//! `ferry bench`: one file for each thing that is measured.

mod callgrind;
mod matching;
mod workload;

use std::process::ExitCode;

use clap::Subcommand;

/// What can be measured.
#[derive(Subcommand)]
pub(crate) enum Bench {
    /// Time and instructions of one post and match, by queue, mix, position and depth.
    Match(matching::Options),
}

impl Bench {
    pub(crate) fn run(&self) -> ExitCode {
        match self {
            Bench::Match(options) => options.run(),
        }
    }
}
