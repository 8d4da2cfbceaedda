//! Growth: what operations take on more and more ranks of a machine, beside laws and lower bounds.
//!
//! Each rank has its own production NIC. For each number of ranks a job is started, and runs one operation after the
//! other. All but the start-up are measured between ranks that have been in contact before.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Instant;

use ferrywire_mpi::collective;
use ferrywire_mpi::group::Group;
use ferrywire_nic::{Limits, Span, Standard};
use serde::Serialize;

use super::today::MachineFile;
use super::{Cluster, HostProgram, Machine, Runner, rounded};
use crate::random::Random;
use crate::scale::{ALLREDUCE, BARRIER, BROADCAST, Room, ScalePlan, member};

/// How far, and under what conditions.
#[derive(Clone, Copy, Debug)]
pub struct GrowthOptions {
    /// The most ranks.
    pub ranks: u32,
    /// How late one rank in a thousand begins each operation, at least one.
    pub late_us: f64,
}

/// What a machine takes for each operation.
#[derive(Clone, Debug, Serialize)]
pub struct GrowthReport {
    /// Bytes of NIC state of a rank before it contacts another one.
    pub bytes_before_contact: u64,
    /// The operations.
    pub growths: Vec<Growth>,
    /// Whether every rank had the right result each time.
    pub right: bool,
}

/// One operation on more and more ranks.
#[derive(Clone, Debug, Serialize)]
pub struct Growth {
    /// Its name.
    pub name: &'static str,
    /// What its time should grow with.
    pub law: Law,
    /// The lower bound, as a formula.
    pub bound: &'static str,
    /// The line of its law through the points.
    pub line: FittedLine,
    /// The line of the next steeper law.
    pub steeper: FittedLine,
    /// Whether it grows worse than its law.
    pub worse: bool,
    /// From few ranks to many.
    pub points: Vec<GrowthPoint>,
}

/// One operation on one number of ranks.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct GrowthPoint {
    /// Number of ranks.
    pub ranks: u32,
    /// From the moment at which the last rank begins until the last one has finished.
    pub us: f64,
    /// What the fitted law says.
    pub law_us: f64,
    /// What no algorithm can go below.
    pub bound_us: f64,
    /// Frames that a rank has sent, on average.
    pub frames_per_rank: f64,
    /// Bytes of NIC state of a rank afterwards, on average.
    pub bytes_per_rank: u64,
    /// Wall-clock time of the simulation.
    pub real_seconds: f64,
}

/// What a time grows with.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Law {
    /// The logarithm of the number of ranks, to base 2.
    Logarithm,
    /// The number of ranks.
    Line,
    /// Its square.
    Square,
}

/// A time of `a + b f(n)`, where f is what a law grows with.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct FittedLine {
    /// The part that all have.
    pub a_us: f64,
    /// What each step of the law adds.
    pub b_us: f64,
    /// The root of the mean square by which points are off, as a part of their mean.
    pub off: f64,
}

/// An operation that is run.
#[derive(Clone, Copy)]
enum Subject {
    StartUp,
    Collective(&'static ScalePlan),
    Put,
    Alltoall,
}

const SUBJECTS: [Subject; 6] = [
    Subject::StartUp,
    Subject::Collective(&BARRIER),
    Subject::Collective(&BROADCAST),
    Subject::Collective(&ALLREDUCE),
    Subject::Put,
    Subject::Alltoall,
];

/// The most ranks of an alltoall: what a simulation has to hold grows with the square of their number.
pub const ALLTOALL_RANKS_MAX: u32 = 512;

/// A law holds if its line is off by no more than this, or if no steeper law fits better.
const OFF_MAX: f64 = 0.1;

/// Runs all operations on more and more ranks.
pub fn run(file: &MachineFile, options: GrowthOptions) -> GrowthReport {
    let machine = file.machine();
    let mut growths: Vec<Growth> = SUBJECTS.iter().map(|subject| subject.growth()).collect();
    let mut right = true;
    let mut bytes_before_contact = 0;
    for ranks in counts(options.ranks.min(file.ranks_max())) {
        let mut job = Job::new(&machine, ranks, options);
        bytes_before_contact = job.bytes_per_rank();
        for (subject, growth) in SUBJECTS.iter().zip(&mut growths) {
            if ranks <= subject.ranks_max() {
                let bound_us = subject.bound_us(file, &machine, ranks);
                growth.points.push(GrowthPoint { bound_us, ..job.point(*subject, file) });
            }
        }
        right &= job.right;
    }
    growths.iter_mut().for_each(Growth::fit);
    GrowthReport { bytes_before_contact, growths, right }
}

/// Powers of two, of four beyond a few thousand, and the most.
fn counts(most: u32) -> Vec<u32> {
    let next = |&count: &u32| count.checked_mul(if count < 4096 { 2 } else { 4 });
    let mut counts: Vec<u32> =
        std::iter::successors(Some(2), next).take_while(|&count| count < most).collect();
    // Two that are close would only take time.
    if counts.last().is_some_and(|&last| last > 4096 && last > most / 2) {
        counts.pop();
    }
    counts.push(most);
    counts
}

impl Subject {
    fn growth(self) -> Growth {
        let (name, law, bound) = match self {
            Subject::StartUp => {
                ("start-up", Law::Line, "hosts that start each other: ceil(log2 hosts) starts")
            }
            Subject::Collective(plan) => (plan.name, Law::Logarithm, "the fastest tree, O(log n)"),
            Subject::Put => ("put", Law::Logarithm, "two rounds: there and back"),
            Subject::Alltoall => ("alltoall", Law::Line, "(n - 1) g"),
        };
        let none = FittedLine::default();
        Growth { name, law, bound, line: none, steeper: none, worse: false, points: Vec::new() }
    }

    fn ranks_max(self) -> u32 {
        match self {
            Subject::Alltoall => ALLTOALL_RANKS_MAX,
            _ => u32::MAX,
        }
    }

    fn bound_us(self, file: &MachineFile, machine: &Machine, ranks: u32) -> f64 {
        let ns = match self {
            Subject::StartUp => {
                let rounds = f64::from(file.hosts(ranks).next_power_of_two().ilog2());
                (file.numbers.start_ms.value + rounds * file.numbers.start_host_ms.value) * 1e6
            }
            // What any rank has to say must reach all others.
            Subject::Collective(plan) => {
                let bytes = if plan.name == BARRIER.name { 0 } else { NUMBER_BYTES };
                fastest_tree_ns(ranks, machine.round_ns(bytes), machine.send_gap_ns(bytes))
            }
            Subject::Put => machine.round_ns(NUMBER_BYTES) + machine.round_ns(0),
            Subject::Alltoall => f64::from(ranks - 1) * machine.gap_ns(NUMBER_BYTES),
        };
        ns / 1e3
    }
}

/// How long it takes to reach all ranks, if a message takes `round_ns` and its sender can send another one after
/// `gap_ns`: every rank that has been reached goes on sending, as in the model LogP.
fn fastest_tree_ns(ranks: u32, round_ns: f64, gap_ns: f64) -> f64 {
    let [round, gap] = [round_ns, gap_ns].map(|ns| rounded(ns * 1e3));
    // When the next message of each rank that has been reached arrives.
    let mut arrivals = BinaryHeap::from([Reverse(round)]);
    let mut last = 0;
    for _ in 1..ranks {
        let Some(Reverse(at)) = arrivals.pop() else { break };
        last = at;
        arrivals.extend([Reverse(at + gap), Reverse(at + round)]);
    }
    last as f64 / 1e3
}

/// Everything that is sent is one number.
const NUMBER_BYTES: u64 = 8;

/// The ranks of a job.
struct Job {
    cluster: Cluster<Standard>,
    group: Group,
    rooms: Vec<Room>,
    late_ns: Vec<f64>,
    instance: u16,
    in_calls: bool,
    right: bool,
}

impl Job {
    fn new(machine: &Machine, ranks: u32, options: GrowthOptions) -> Job {
        let mut cluster = Cluster::new(machine.clone(), &Limits::default(), ranks);
        let rooms = (0..ranks).map(|rank| {
            let all = cluster.lend(rank, 3 * NUMBER_BYTES);
            cluster.open(rank, all);
            Room::of(all)
        });
        let rooms = rooms.collect();
        let mut random = Random::new(1);
        let late_rank = random.below(ranks.into());
        let late_ns = (0..u64::from(ranks)).map(|rank| {
            let late = rank == late_rank || random.below(1000) == 0;
            if late { options.late_us * 1e3 } else { 0.0 }
        });
        let late_ns = late_ns.collect();
        let group = Group::whole(ranks);
        let in_calls = machine.runner != Runner::Processor;
        Job { cluster, group, rooms, late_ns, instance: 0, in_calls, right: true }
    }

    fn ranks(&self) -> u32 {
        self.group.size()
    }

    fn bytes_per_rank(&self) -> u64 {
        let all: u64 =
            (0..self.ranks()).map(|rank| self.cluster.nic(rank).footprint() as u64).sum();
        all / u64::from(self.ranks())
    }

    fn frames(&self) -> u64 {
        (0..self.ranks()).map(|rank| self.cluster.nic(rank).stats().frames_sent).sum()
    }

    /// Runs an operation, and says what it took. Its law and its bound are for the caller.
    fn point(&mut self, subject: Subject, file: &MachineFile) -> GrowthPoint {
        let began = Instant::now();
        let frames_before = self.frames();
        let us = match subject {
            Subject::StartUp => self.start_up(file),
            Subject::Collective(plan) => self.collective(plan),
            Subject::Put => self.put(),
            Subject::Alltoall => self.alltoall(),
        } / 1e3;
        let ranks = self.ranks();
        GrowthPoint {
            ranks,
            us,
            law_us: f64::NAN,
            bound_us: f64::NAN,
            frames_per_rank: (self.frames() - frames_before) as f64 / f64::from(ranks),
            bytes_per_rank: self.bytes_per_rank(),
            real_seconds: began.elapsed().as_secs_f64(),
        }
    }

    /// Runs a program on each rank, which notes when it has begun, and when the operation is over. Returns the time
    /// between the last of either.
    fn time(&mut self, program_of: impl Fn(&Job, u32, &mut HostProgram)) -> f64 {
        let [begun, over] = self.play(program_of);
        over - begun
    }

    /// The same, but returns when the last rank had begun, and when the last was done.
    fn play(&mut self, program_of: impl Fn(&Job, u32, &mut HostProgram)) -> [f64; 2] {
        for rank in 0..self.ranks() {
            self.rooms[rank as usize].begin(rank, self.cluster.memory_mut(rank));
            let mut program = HostProgram::default();
            program.compute(self.late_ns[rank as usize]);
            program.note();
            program_of(self, rank, &mut program);
            self.cluster.program(rank, program);
        }
        self.instance += 1;
        let moments = self.cluster.play();
        [0, 1].map(|at| moments.iter().map(|noted| noted[at].ns).fold(0.0, f64::max))
    }

    fn run(&self, plan: &ScalePlan, rank: u32, program: &mut HostProgram) {
        let me = member(&self.group, rank);
        let schedule = (plan.schedule)(me, self.rooms[rank as usize]);
        let run = program.run(schedule, self.instance);
        program.wait(&[run]);
    }

    /// A collective on all ranks. The second allreduce counts: its partners are not only those of the barrier.
    fn collective(&mut self, plan: &ScalePlan) -> f64 {
        let once = |job: &Job, rank: u32, program: &mut HostProgram| {
            job.run(plan, rank, program);
            program.note();
        };
        if plan.name == ALLREDUCE.name {
            self.time(once);
        }
        let ns = self.time(once);
        self.right &= (0..self.ranks()).all(|rank| {
            let me = member(&self.group, rank);
            plan.is_right(me, self.rooms[rank as usize], self.cluster.memory(rank))
        });
        ns
    }

    /// From the launcher's first step until all ranks have left their first barrier.
    fn start_up(&mut self, file: &MachineFile) -> f64 {
        let [_, over] = self.play(|job, rank, program| {
            program.compute(file.started_ns(rank));
            job.run(&BARRIER, rank, program);
            program.note();
        });
        over
    }

    /// Every rank puts its number to one far away, with which it has exchanged messages in the barrier. Where the NIC runs
    /// in calls, which it needs to answer, another barrier follows.
    fn put(&mut self) -> f64 {
        let ranks = self.ranks();
        let distance = 1 << (ranks / 2).ilog2();
        let ns = self.time(|job, rank, program| {
            let to = (rank + distance) % ranks;
            let into = job.rooms[to as usize].third;
            let put = program.put(to, job.rooms[rank as usize].first, into);
            program.wait(&[put]);
            program.note();
            if job.in_calls {
                job.run(&BARRIER, rank, program);
            }
        });
        self.right &= (0..ranks).all(|rank| {
            let Span { region, offset, .. } = self.rooms[rank as usize].third;
            let from = (rank + ranks - distance) % ranks;
            self.cluster.memory(rank).number(region, offset) == u64::from(from)
        });
        ns
    }

    /// A number from each rank to each. The second one counts, for which all contacts have been made.
    fn alltoall(&mut self) -> f64 {
        let ranks = self.ranks();
        let bytes = u64::from(ranks) * NUMBER_BYTES;
        let number = |from: u32, to: u32| u64::from(from) * u64::from(ranks) + u64::from(to);
        let spans: Vec<[Span; 2]> = (0..ranks)
            .map(|rank| {
                let [source, into] = [0; 2].map(|_| self.cluster.lend(rank, bytes));
                let numbers = (0..ranks).flat_map(|to| number(rank, to).to_le_bytes());
                let memory = self.cluster.memory_mut(rank).bytes_mut(source);
                memory.iter_mut().zip(numbers).for_each(|(byte, value)| *byte = value);
                [source, into]
            })
            .collect();
        let once = |job: &Job, rank: u32, program: &mut HostProgram| {
            let [source, into] = spans[rank as usize];
            let me = member(&job.group, rank);
            let schedule = collective::alltoall(me, source, into, Span::EMPTY);
            let run = program.run(schedule, job.instance);
            program.wait(&[run]);
            program.note();
        };
        self.time(once);
        let ns = self.time(once);
        self.right &= (0..ranks).all(|rank| {
            let [_, into] = spans[rank as usize];
            let memory = self.cluster.memory(rank);
            let found = |from: u32| into.offset + u64::from(from) * NUMBER_BYTES;
            (0..ranks).all(|from| memory.number(into.region, found(from)) == number(from, rank))
        });
        ns
    }
}

impl Growth {
    /// Fits both laws to the points.
    fn fit(&mut self) {
        let points: Vec<_> = self.points.iter().map(|point| (point.ranks, point.us)).collect();
        self.line = FittedLine::through(self.law, &points);
        self.steeper = FittedLine::through(self.law.steeper(), &points);
        self.worse = self.line.off > OFF_MAX && self.steeper.off < self.line.off;
        for point in &mut self.points {
            point.law_us = self.line.a_us + self.line.b_us * self.law.of(point.ranks);
        }
    }
}

impl GrowthReport {
    /// Whether all results were right, and nothing grows worse than its law.
    pub fn holds(&self) -> bool {
        self.right && !self.growths.iter().any(|growth| growth.worse)
    }
}

impl Law {
    /// What a time grows with.
    pub fn of(self, ranks: u32) -> f64 {
        let ranks = f64::from(ranks);
        match self {
            Law::Logarithm => ranks.log2(),
            Law::Line => ranks,
            Law::Square => ranks * ranks,
        }
    }

    fn steeper(self) -> Law {
        match self {
            Law::Logarithm => Law::Line,
            Law::Line | Law::Square => Law::Square,
        }
    }
}

impl FittedLine {
    /// The line of a law through measured times, by least squares.
    fn through(law: Law, points: &[(u32, f64)]) -> FittedLine {
        let count = points.len() as f64;
        let mean = |of: &dyn Fn(f64, f64) -> f64| {
            points.iter().map(|&(ranks, us)| of(law.of(ranks), us)).sum::<f64>() / count
        };
        let (x_mean, y_mean) = (mean(&|x, _| x), mean(&|_, y| y));
        let spread = mean(&|x, _| (x - x_mean).powi(2));
        let slope = mean(&|x, y| (x - x_mean) * (y - y_mean)) / spread;
        // One point says nothing about growth.
        let b_us = if spread > 0.0 { slope } else { 0.0 };
        let a_us = y_mean - b_us * x_mean;
        let off = mean(&|x, y| (a_us + b_us * x - y).powi(2)).sqrt() / y_mean;
        FittedLine { a_us, b_us, off }
    }
}

#[cfg(test)]
mod tests {
    use super::super::today;
    use super::*;

    fn growth(us: impl Fn(f64) -> f64) -> Growth {
        let mut growth = Subject::Collective(&BARRIER).growth();
        let nothing = GrowthPoint {
            ranks: 0,
            us: 0.0,
            law_us: 0.0,
            bound_us: 0.0,
            frames_per_rank: 0.0,
            bytes_per_rank: 0,
            real_seconds: 0.0,
        };
        let points = counts(1024).into_iter();
        growth.points =
            points.map(|ranks| GrowthPoint { ranks, us: us(ranks.into()), ..nothing }).collect();
        growth.fit();
        growth
    }

    #[test]
    fn a_law_is_found_again() {
        let found = growth(|ranks| 3.0 + 2.0 * ranks.log2());
        assert!((found.line.a_us - 3.0).abs() < 1e-9 && (found.line.b_us - 2.0).abs() < 1e-9);
        assert!(found.line.off < 1e-9 && !found.worse);
        assert!((found.points[3].law_us - found.points[3].us).abs() < 1e-9);
    }

    #[test]
    fn what_grows_with_the_number_of_ranks_is_worse_than_a_logarithm() {
        assert!(growth(|ranks| 3.0 + 0.1 * ranks).worse);
        assert!(growth(|ranks| 3.0 + ranks.log2() + 0.05 * ranks).worse);
        assert!(!growth(|ranks| 3.0 + ranks.log2() * ranks.log2()).worse);
        assert!(!growth(|_| 3.0).worse, "no growth at all");
    }

    #[test]
    fn the_fastest_tree_is_binomial_if_messages_cost_their_senders_everything() {
        let times = [2, 3, 4, 5, 8, 9].map(|ranks| fastest_tree_ns(ranks, 100.0, 100.0));
        assert_eq!(times, [100.0, 200.0, 200.0, 300.0, 300.0, 400.0]);
        // If they cost nothing, the first one reaches all.
        assert_eq!(fastest_tree_ns(1000, 100.0, 0.0), 100.0);
        // 0 sends at 0, 40 and 80; what arrived at 100 is passed on by then.
        assert_eq!(fastest_tree_ns(5, 100.0, 40.0), 200.0);
    }

    #[test]
    fn the_counts_end_with_the_most() {
        assert_eq!(counts(2), [2]);
        assert_eq!(counts(12), [2, 4, 8, 12]);
        assert_eq!(counts(20_000)[10..], [2048, 4096, 20_000]);
        assert_eq!(counts(1_000_000)[11..], [4096, 16_384, 65_536, 262_144, 1_000_000]);
    }

    #[test]
    fn every_machine_keeps_its_laws() {
        for name in today::names() {
            let file = today::named(name).expect("it is listed");
            let options = GrowthOptions { ranks: 64, late_us: 0.0 };
            let report = run(&file, options);
            assert!(report.right, "{name}");
            for growth in &report.growths {
                assert!(!growth.worse, "{name}: {growth:#?}");
                for point in &growth.points {
                    assert!(point.us >= 0.999 * point.bound_us, "{name}: {growth:#?}");
                }
            }
        }
    }

    #[test]
    fn late_ranks_cost_little_more_than_their_lateness() {
        let file = today::named("hpc").expect("it is listed");
        let run = |late_us| run(&file, GrowthOptions { ranks: 64, late_us });
        let (none, some) = (run(0.0), run(500.0));
        for (none, some) in none.growths.iter().zip(&some.growths).skip(1) {
            let [none, some] = [none, some].map(|growth| growth.points[5].us);
            // The late rank finds all frames at once, and answers them before it does anything else.
            assert!(some <= none * 1.5, "{none} us, and {some} us with a late rank");
        }
    }
}
