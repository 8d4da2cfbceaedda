//! `ferry bench`: measures Ferrywire, alone and beside other MPIs.

mod bare;
mod callgrind;
mod compare;
mod contender;
mod figure;
#[allow(unsafe_code)]
mod machine;
mod matching;
mod table;
mod target;
mod worker;
mod workload;

use std::process::ExitCode;

use clap::Subcommand;

use compare::Comparison;
pub(crate) use figure::{Figure, Unit};

/// What can be measured.
#[derive(Subcommand)]
pub(crate) enum Bench {
    /// Time and instructions of one post and match, by queue, mix, position and depth.
    Match(matching::MatchOptions),
    /// Latency, message rate, bandwidth and long queues between two ranks, beside other MPIs and the bare
    /// machine.
    Pingpong(compare::CompareOptions),
    /// Many ranks on few cores, beside other MPIs.
    Oversubscribed(compare::CompareOptions),
    /// What a reduction costs its callers while some of them are late, beside other MPIs.
    Skew(compare::CompareOptions),
    /// What it costs to wait for a message, and how soon its arrival is noticed, beside other MPIs.
    Wait(compare::CompareOptions),
    /// How long a job takes to start and end, beside other MPIs.
    Start(compare::CompareOptions),
    /// Measures the machine itself, for `pingpong`.
    #[command(hide = true)]
    Bare(bare::BareOptions),
    /// A rank of Ferrywire's own measurements.
    #[command(hide = true)]
    Worker(worker::Worker),
    /// The second process of `bare`.
    #[command(hide = true)]
    Partner(bare::Partner),
}

impl Bench {
    pub(crate) fn run(&self) -> ExitCode {
        match self {
            Bench::Match(options) => options.run(),
            Bench::Pingpong(options) => Comparison::Pingpong.run(options),
            Bench::Oversubscribed(options) => Comparison::Oversubscribed.run(options),
            Bench::Skew(options) => Comparison::Skew.run(options),
            Bench::Wait(options) => Comparison::Wait.run(options),
            Bench::Start(options) => Comparison::Start.run(options),
            Bench::Bare(options) => options.run(),
            Bench::Worker(worker) => worker.run(),
            Bench::Partner(partner) => partner.run(),
        }
    }
}
