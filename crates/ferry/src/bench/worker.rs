//! The ranks of Ferrywire's own measurements: the programs of `bench/peers`, written against the Rust
//! interface. Each does what the C program of the same name does, and prints the same figures.

mod oversubscribed;
mod pingpong;
mod queue;
mod skew;
mod wait;

use std::fmt::Arguments;
use std::process::ExitCode;
use std::time::Instant;

use clap::{Args, ValueEnum};
use ferrywire::{Error, World};

use super::figure::median;
use super::machine::pin;
use crate::out;

/// `ferry bench worker`: the program that a rank runs.
#[derive(Args)]
pub(crate) struct Worker {
    program: BenchProgram,
    /// Repeat less often.
    #[arg(long)]
    quick: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum BenchProgram {
    Pingpong,
    Queue,
    Oversubscribed,
    Skew,
    Wait,
    Start,
}

impl Worker {
    pub(crate) fn run(&self) -> ExitCode {
        let began = Instant::now();
        let world = match ferrywire::init() {
            Ok(world) => world,
            Err(error) => {
                eprintln!("{error}");
                return ExitCode::FAILURE;
            }
        };
        let stage = Stage::new(world, self.quick);
        let init_ms = began.elapsed().as_secs_f64() * 1e3;
        let worked = match self.program {
            BenchProgram::Pingpong => pingpong::run(&stage),
            BenchProgram::Queue => queue::run(&stage),
            BenchProgram::Oversubscribed => oversubscribed::run(&stage),
            BenchProgram::Skew => skew::run(&stage),
            BenchProgram::Wait => wait::run(&stage),
            BenchProgram::Start => {
                stage.end(init_ms);
                return ExitCode::SUCCESS;
            }
        };
        match worked {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => stage.world.abort(1, error),
        }
    }
}

/// What all programs share.
struct Stage {
    world: World,
    quick: bool,
    /// How often a measurement is repeated; the figure is the median.
    rounds: usize,
}

impl Stage {
    fn new(world: World, quick: bool) -> Stage {
        // Ranks that have a core each are pinned to it.
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let (rank, ranks) = (world.rank() as usize, world.size() as usize);
        if ranks <= cores {
            // Without permission they stay unpinned.
            let _ = pin(rank % cores);
        }
        Stage { world, quick, rounds: if quick { 5 } else { 11 } }
    }

    /// The other rank of two.
    fn other(&self) -> u32 {
        1 - self.world.rank()
    }

    /// Nanoseconds of one of the `count` operations that `work` does: the median of the rounds.
    fn typical_ns(
        &self,
        count: usize,
        mut work: impl FnMut(usize) -> Result<(), Error>,
    ) -> Result<f64, Error> {
        work(count)?; // Warm-up.
        let mut took = Vec::with_capacity(self.rounds);
        for _ in 0..self.rounds {
            let from = Instant::now();
            work(count)?;
            took.push(ns_since(from) / count as f64);
        }
        Ok(median(&mut took))
    }

    /// Waits until both ranks are here, and what each has sent to the other before has arrived.
    fn meet(&self) -> Result<(), Error> {
        let none: [u8; 0] = [];
        let other = self.other();
        self.world.sendrecv(&none, other, HERE, &mut [0_u8; 0], other, HERE)?;
        Ok(())
    }

    /// Prints a figure, on rank 0 only.
    fn figure(&self, figure: Arguments<'_>) {
        if self.world.rank() == 0 {
            out::line(figure);
        }
    }

    fn end(self, init_ms: f64) {
        let (rank, ranks) = (self.world.rank(), self.world.size());
        let from = Instant::now();
        drop(self);
        if rank == 0 {
            let finalize_ms = from.elapsed().as_secs_f64() * 1e3;
            out::line(format_args!("init ranks={ranks} ms={init_ms:.2}"));
            out::line(format_args!("finalize ranks={ranks} ms={finalize_ms:.2}"));
        }
    }
}

fn ns_since(from: Instant) -> f64 {
    from.elapsed().as_secs_f64() * 1e9
}

const HERE: u32 = 30_001;
