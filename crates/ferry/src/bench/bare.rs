//! What the machine does without any MPI: lower bounds that our figures are compared with.
//!
//! `ferry bench bare` prints them in the form of [`super::figure`], each under the name of the
//! figure that it bounds:
//!
//! - `latency bytes=0`: one cache line there and back, halved;
//! - `latency bytes=8`: the same with 56 bytes in the line of the flag;
//! - `latency bytes=4096` and more: one copy of what the other core has just written.
//!
//! It runs in a process of its own, so that its caller is not pinned with it, and it starts a
//! partner on another core for each figure.

use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Instant;

use clap::{Args, Subcommand};

use crate::out;

use super::figure::median;
use super::machine::pin;

#[allow(unsafe_code)]
mod exchange;

use exchange::{First, Second, Silent};

/// The options of `ferry bench bare`.
#[derive(Args)]
pub(crate) struct BareOptions {
    /// Repeat less often.
    #[arg(long)]
    quick: bool,
}

/// `ferry bench partner`: the second side of an exchange. The memory is the standard input.
#[derive(Args)]
pub(crate) struct Partner {
    #[command(subcommand)]
    exchange: Exchange,
    /// How many times to answer.
    #[arg(long)]
    trips: u32,
}

/// What the two processes exchange.
#[derive(Clone, Copy, Debug, Subcommand)]
enum Exchange {
    Flag,
    Line,
    Copy { bytes: usize },
}

impl BareOptions {
    pub(crate) fn run(&self) -> ExitCode {
        let exchanges = [Exchange::Flag, Exchange::Line].into_iter();
        for exchange in exchanges.chain(COPIED_BYTES.map(|bytes| Exchange::Copy { bytes })) {
            match exchange.measure(self.quick) {
                Ok(ns) => out::line(format_args!("latency bytes={} ns={ns:.1}", exchange.bounds())),
                Err(cause) => {
                    eprintln!("ferry: {cause}");
                    return ExitCode::from(2);
                }
            }
        }
        ExitCode::SUCCESS
    }
}

impl Partner {
    pub(crate) fn run(&self) -> ExitCode {
        match self.answer() {
            Ok(()) => ExitCode::SUCCESS,
            Err(cause) => {
                eprintln!("ferry: {cause}");
                ExitCode::from(2)
            }
        }
    }

    fn answer(&self) -> Result<(), String> {
        pin(1).map_err(|cause| format!("cannot pin to the second processor: {cause}"))?;
        let mut second = Second::new(&std::io::stdin())
            .map_err(|cause| format!("cannot map the standard input: {cause}"))?;
        let mut trips = 0..self.trips;
        match self.exchange {
            Exchange::Flag => trips.try_for_each(|_| second.flag()),
            Exchange::Line => trips.try_for_each(|_| second.line()),
            Exchange::Copy { bytes } => trips.try_for_each(|_| second.fill(bytes)),
        }
        .map_err(|Silent| "the first side does not answer".to_string())
    }
}

impl Exchange {
    /// Nanoseconds one way: the median of several rounds.
    fn measure(self, quick: bool) -> Result<f64, String> {
        pin(0).map_err(|cause| format!("cannot pin to the first processor: {cause}"))?;
        let (mut first, file) =
            First::new().map_err(|cause| format!("cannot create shared memory: {cause}"))?;
        let (rounds, trips) = self.effort(quick);
        // One more round, to warm up.
        let mut partner = self.start_partner((rounds + 1) * trips, file.into())?;
        let times: Result<Vec<f64>, Silent> =
            (0..=rounds).map(|_| self.round(&mut first, trips)).collect();
        if times.is_err() {
            // It may have ended by itself; in both cases it is waited for below.
            let _ = partner.kill();
        }
        let status =
            partner.wait().map_err(|cause| format!("cannot wait for the partner: {cause}"))?;
        let mut times = times.map_err(|Silent| format!("the partner does not answer: {status}"))?;
        Ok(median(&mut times[1..]))
    }

    fn start_partner(self, trips: u32, memory: Stdio) -> Result<Child, String> {
        let program = std::env::current_exe()
            .map_err(|cause| format!("cannot find the path of this program: {cause}"))?;
        let mut command = Command::new(program);
        command.args(["bench", "partner", "--trips", &trips.to_string()]);
        match self {
            Exchange::Flag => command.arg("flag"),
            Exchange::Line => command.arg("line"),
            Exchange::Copy { bytes } => command.args(["copy", &bytes.to_string()]),
        };
        let child = command.stdin(memory).spawn();
        child.map_err(|cause| format!("cannot start the partner: {cause}"))
    }

    fn round(self, first: &mut First, trips: u32) -> Result<f64, Silent> {
        let start = Instant::now();
        match self {
            Exchange::Flag => (0..trips).try_for_each(|_| first.flag())?,
            Exchange::Line => (0..trips).try_for_each(|_| {
                std::hint::black_box(first.line([0; 56])?);
                Ok(())
            })?,
            Exchange::Copy { bytes } => {
                let mut into = vec![1; bytes];
                let mut ns = 0.0;
                for _ in 0..trips {
                    ns += first.copy(&mut into)?.as_secs_f64() * 1e9;
                }
                return Ok(ns / f64::from(trips));
            }
        }
        Ok(start.elapsed().as_secs_f64() * 1e9 / f64::from(2 * trips))
    }

    /// How many rounds, and how many trips in a round.
    fn effort(self, quick: bool) -> (u32, u32) {
        match self {
            Exchange::Flag | Exchange::Line if quick => (5, 10_000),
            Exchange::Flag | Exchange::Line => (11, 50_000),
            Exchange::Copy { .. } if quick => (5, 20),
            Exchange::Copy { bytes } if bytes <= 65536 => (11, 400),
            Exchange::Copy { .. } => (11, 60),
        }
    }

    /// The size of the message whose latency this exchange bounds.
    fn bounds(self) -> usize {
        match self {
            Exchange::Flag => 0,
            Exchange::Line => 8,
            Exchange::Copy { bytes } => bytes,
        }
    }
}

const COPIED_BYTES: [usize; 6] = [4 << 10, 8 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20];
