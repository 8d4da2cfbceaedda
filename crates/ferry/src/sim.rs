//! `ferry sim`: the NIC in a simulated world.

mod canary;
mod machine;
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
    /// Runs operations on more and more ranks of machines of today, and compares their times with laws and bounds.
    Machine(machine::MachineRun),
}

impl Sim {
    pub(crate) fn run(self) -> ExitCode {
        match self {
            Sim::Soak(soak) => soak.run(),
            Sim::Scale(scale) => scale.run(),
            Sim::Paper(paper) => paper.run(),
            Sim::Machine(machine) => machine.run(),
        }
    }
}

/// The peak resident memory of this process, as the kernel reports it.
fn peak_rss_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}
