//! `ferry sim`: the NIC in a simulated world.

mod canary;
mod soak;

use std::process::ExitCode;

use clap::Subcommand;

/// What to simulate.
#[derive(Subcommand)]
pub(crate) enum Sim {
    /// Runs random programs under random faults, seed by seed, and checks every promise.
    Soak(soak::Soak),
}

impl Sim {
    /// Simulates it.
    pub(crate) fn run(self) -> ExitCode {
        match self {
            Sim::Soak(soak) => soak.run(),
        }
    }
}
