//! `ferry sim`: the NIC in a simulated world.

mod canary;
mod paper;
mod scale;
mod soak;

use std::process::ExitCode;

use clap::Subcommand;

/// What to simulate.
#[derive(Subcommand)]
pub(crate) enum Sim {
    /// Runs random programs under random faults, seed by seed, and checks every guarantee of the NIC.
    Soak(soak::Soak),
    /// Runs collectives on many ranks, and prints what each costs.
    Scale(scale::Scale),
    /// Runs the NIC on the machines of the documents that it comes from, and compares its figures with theirs.
    Paper(paper::PaperRun),
}

impl Sim {
    pub(crate) fn run(self) -> ExitCode {
        match self {
            Sim::Soak(soak) => soak.run(),
            Sim::Scale(scale) => scale.run(),
            Sim::Paper(paper) => paper.run(),
        }
    }
}
