//! The command of Ferrywire.
// A few files with system calls allow unsafe code for themselves.
#![deny(unsafe_code)]

mod bench;
mod command_line;
mod compile;
mod doctor;
mod explain;
mod home;
mod info;
mod install;
mod job_facts;
mod loader;
mod module;
mod out;
mod run;
mod sim;
mod top;
mod trace;
mod why;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};

use compile::Language;

/// An MPI whose network interface is software.
#[derive(Parser)]
#[command(name = "ferry", version)]
struct Ferry {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measures a part of Ferrywire on this machine, and checks it against targets.
    #[command(subcommand)]
    Bench(bench::Bench),
    /// Compiles C with mpi.h and links it with the library, like `mpicc`.
    #[command(disable_help_flag = true)]
    Cc {
        /// Arguments for the compiler, or `-show`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    Completion(command_line::Completion),
    /// Compiles C++ with mpi.h and links it with the library, like `mpicxx`.
    #[command(disable_help_flag = true)]
    Cxx {
        /// Arguments for the compiler, or `-show`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    Doctor(doctor::Doctor),
    Explain(explain::Explain),
    Info(info::Info),
    Install(install::Install),
    Man(command_line::Man),
    /// Compiles, checks and measures user code for the NIC.
    #[command(subcommand)]
    Module(module::Module),
    Report(trace::TraceReport),
    /// Starts the ranks of a job, on this machine or on several. `ferry run --help` describes its options.
    #[command(disable_help_flag = true)]
    Run {
        /// Options, program and arguments.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Runs the NIC in a simulated world.
    #[command(subcommand)]
    Sim(sim::Sim),
    Top(top::Top),
    Why(why::Why),
}

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    // Clap does not parse the arguments of `run`, `cc` and `cxx`: it could not express the options of `run`, and
    // those of a compiler are passed through. It knows these commands only to list them.
    let called = words.first().and_then(|word| Path::new(word).file_name()?.to_str());
    if called.is_some_and(run::answers_to) {
        return run::run(&words[1..]);
    }
    if let Some(language) = called.and_then(Language::of_command) {
        return compile::compile(language, &words[1..]);
    }
    if let Some(language) = words.get(1).and_then(|word| Language::of_subcommand(word)) {
        return compile::compile(language, &words[2..]);
    }
    if words.get(1).is_some_and(|word| word == "run") {
        return run::run(&words[2..]);
    }
    // Started by `ferry run` on the hosts of a job, never by people.
    if words.get(1).is_some_and(|word| word == "daemon") {
        return run::run_daemon();
    }
    // Started by a rank of a job that has no launcher of ours.
    if words.get(1).is_some_and(|word| word == "adopt") {
        return run::run_adopted(run::stays(&words[2..]));
    }
    // Started by `ferry run --gdb` in the terminals that it opens.
    if words.get(1).is_some_and(|word| word == run::TERMINAL_COMMAND) {
        return run::run_terminal(&words[2..]);
    }
    match Ferry::parse().command {
        Command::Run { arguments } => run::run(&arguments),
        Command::Bench(bench) => bench.run(),
        Command::Cc { arguments } => compile::compile(Language::C, &arguments),
        Command::Completion(completion) => completion.run(Ferry::command()),
        Command::Cxx { arguments } => compile::compile(Language::Cxx, &arguments),
        Command::Doctor(doctor) => doctor.run(),
        Command::Explain(explain) => explain.run(),
        Command::Info(info) => info.run(),
        Command::Install(install) => install.run(Ferry::command()),
        Command::Man(man) => man.run(Ferry::command()),
        Command::Module(module) => module.run(),
        Command::Report(report) => report.run(),
        Command::Sim(sim) => sim.run(),
        Command::Top(top) => top.run(),
        Command::Why(why) => why.run(),
    }
}
