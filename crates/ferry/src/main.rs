//! The command of Ferrywire.
#![deny(unsafe_code)]

mod bench;
mod out;
mod sim;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// An MPI whose network interface is software.
#[derive(Parser)]
#[command(name = "ferry", version)]
struct Ferry {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measures a part of Ferrywire on this machine, and judges it.
    #[command(subcommand)]
    Bench(bench::Bench),
    /// Runs the NIC in a simulated world.
    #[command(subcommand)]
    Sim(sim::Sim),
}

fn main() -> ExitCode {
    match Ferry::parse().command {
        Command::Bench(bench) => bench.run(),
        Command::Sim(sim) => sim.run(),
    }
}
