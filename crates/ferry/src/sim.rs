//! `ferry sim`: the NIC in a simulated world.

mod canary;
mod scale;
mod soak;

use std::process::ExitCode;

use clap::Subcommand;

/// What to simulate.
#[derive(Subcommand)]
pub(crate) enum Sim {
    /// Runs random programs under random faults, seed by seed, and checks every promise.
    Soak(soak::Soak),
    /// Runs collectives on as many ranks as asked for, and says what each costs.
    Scale(scale::Scale),
}

impl Sim {
    /// Simulates it.
    pub(crate) fn run(self) -> ExitCode {
        match self {
            Sim::Soak(soak) => soak.run(),
            Sim::Scale(scale) => scale.run(),
        }
    }
}
