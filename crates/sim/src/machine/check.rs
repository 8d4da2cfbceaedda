//! Check: what a machine takes for the programs of our own benchmarks.

use ferrywire_nic::{Limits, Span, Standard};

use super::today::MachineFile;
use super::{Cluster, HostProgram, Operation};

/// What two ranks exchange, and what is in their queues meanwhile.
#[derive(Clone, Copy, Debug, Default)]
pub struct PingPong {
    /// Bytes of each message.
    pub bytes: u64,
    /// Receives that are posted before, at both ranks, and match nothing.
    pub posted: u32,
    /// Messages that have arrived before, at both ranks, and no receive wants.
    pub unexpected: u32,
}

/// The tags of messages and receives that only fill queues begin here.
const OTHER: u32 = 1;

/// Trips. The first ones are warm-up.
const TRIPS: usize = 20;

impl PingPong {
    /// Whether a machine says something about it: longer messages do not go in frames on every rail.
    pub fn is_known(self) -> bool {
        self.bytes <= u64::from(Limits::default().eager_bytes_max)
    }

    /// Half a round trip.
    pub fn half_ns(self, file: &MachineFile) -> f64 {
        let mut cluster = Cluster::<Standard>::new(file.machine(), &Limits::default(), 2);
        let mut programs = [HostProgram::default(), HostProgram::default()];
        for (rank, program) in (0..).zip(&mut programs) {
            for at in 0..self.unexpected {
                program.send(1 - rank, OTHER + self.posted + at, Span::EMPTY);
            }
            program.meet();
            let own: Vec<Operation> = (0..self.posted)
                .map(|at| program.receive(1 - rank, OTHER + at, Span::EMPTY))
                .collect();
            let [source, into] = [0; 2].map(|_| cluster.lend(rank, self.bytes));
            for turn in 0..2 * TRIPS {
                if rank == 0 && turn % 2 == 0 {
                    program.note();
                }
                let operation = match turn % 2 == rank as usize {
                    true => program.send(1 - rank, 0, source),
                    false => program.receive(1 - rank, 0, into),
                };
                program.wait(&[operation]);
            }
            program.meet();
            for at in 0..self.posted {
                program.send(1 - rank, OTHER + at, Span::EMPTY);
            }
            program.wait(&own);
        }
        (0..).zip(programs).for_each(|(rank, program)| cluster.program(rank, program));
        let trips = &cluster.run()[0];
        (trips[TRIPS - 1].ns - trips[TRIPS / 2].ns) / (TRIPS - 1 - TRIPS / 2) as f64 / 2.0
    }
}

#[cfg(test)]
mod tests {
    use super::super::today;
    use super::*;

    fn half_ns(bytes: u64) -> f64 {
        let file = today::named("laptop").expect("it is listed");
        PingPong { bytes, ..PingPong::default() }.half_ns(&file)
    }

    /// The table "What it says" of docs/perf/README.md.
    #[test]
    fn a_laptop_has_the_latencies_that_our_benchmark_has_measured() {
        for (bytes, measured) in
            [(0, 323.0), (8, 317.0), (64, 471.0), (512, 640.0), (4096, 1458.0), (8192, 2166.0)]
        {
            let off = half_ns(bytes) / measured - 1.0;
            assert!(off.abs() < 0.25, "{bytes} bytes: {off:+.2}");
        }
    }

    #[test]
    fn full_queues_cost_nothing_with_the_production_matcher() {
        let file = today::named("laptop").expect("it is listed");
        let full = PingPong { bytes: 8, posted: 50, unexpected: 50 };
        assert!((full.half_ns(&file) / half_ns(8) - 1.0).abs() < 0.01);
    }
}
