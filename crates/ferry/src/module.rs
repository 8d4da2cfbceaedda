//! `ferry module`: compiles, checks and measures user code for the NIC.

mod cc;
mod check;
mod measure;
mod trial;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;
use ferrywire_modules::{Budget, Code, Engine, Trouble};

/// What can be done with a module.
#[derive(Subcommand)]
pub(crate) enum Module {
    /// Compiles C with ferry_module.h to WebAssembly, with clang and lld.
    #[command(disable_help_flag = true)]
    Cc {
        /// More arguments for clang.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<std::ffi::OsString>,
    },
    /// Prints whether the NIC accepts a module, what the module may do, and what it costs.
    Check {
        #[command(flatten)]
        of: Of,
    },
    /// Measures a module: compile time, and time and fuel for messages of several lengths.
    Bench {
        #[command(flatten)]
        of: Of,
        /// Calls for each length.
        #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..))]
        calls: u32,
    },
}

/// The module, the messages to try it with, and how to print the result.
#[derive(clap::Args)]
pub(crate) struct Of {
    /// The module: .wasm or .wat.
    file: PathBuf,
    /// The tag of the messages that the module is tried with.
    #[arg(long, default_value_t = 0)]
    tag: u32,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

impl Module {
    pub(crate) fn run(&self) -> ExitCode {
        let done = match self {
            Module::Cc { arguments } => return cc::compile(arguments),
            Module::Check { of } => compile(of).map(|code| check::check(of, &code)),
            Module::Bench { of, calls } => {
                compile(of).map(|code| measure::measure(of, &code, *calls))
            }
        };
        match done {
            Ok(code) => code,
            Err(why) => {
                eprintln!("ferry module: {why}");
                ExitCode::FAILURE
            }
        }
    }
}

/// Compiles a file, if the NIC accepts it.
fn compile(of: &Of) -> Result<Code, String> {
    let settings = |name: &str| std::env::var(name).ok();
    let bytes = std::fs::read(&of.file)
        .map_err(|error| format!("cannot read {}: {error}", of.file.display()))?;
    let engine = Engine::open(settings).map_err(|error| Trouble::Engine(error).to_string())?;
    let budget = Budget::read(settings).map_err(|error| error.to_string())?;
    engine
        .compile(&bytes, &budget)
        .map_err(|why| format!("the NIC rejects {}: {why}", of.file.display()))
}
