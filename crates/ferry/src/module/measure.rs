//! `ferry module bench`: how much time and fuel a module takes for a message.

use std::process::ExitCode;
use std::time::Instant;

use ferrywire_modules::Code;
use ferrywire_nic::Module;
use serde::Serialize;

use super::Of;
use super::trial::Nowhere;
use crate::out;

#[derive(Serialize)]
struct ModuleReport {
    file: String,
    compile_ms: f64,
    start_us: f64,
    messages: Vec<ModuleFigure>,
}

#[derive(Serialize)]
struct ModuleFigure {
    bytes: usize,
    tag: u32,
    /// The median of several rounds.
    ns: f64,
    fuel: f64,
    faults: u32,
}

const LENGTHS: [usize; 4] = [8, 64, 1024, 8192];
const ROUNDS: u32 = 7;

pub(crate) fn measure(of: &Of, code: &Code, calls: u32) -> ExitCode {
    let started = Instant::now();
    let mut module = match code.start() {
        Ok(module) => module,
        Err(why) => {
            eprintln!("ferry module bench: the NIC rejects the module: {why}");
            return ExitCode::FAILURE;
        }
    };
    let start_us = started.elapsed().as_nanos() as f64 / 1e3;
    let report = ModuleReport {
        file: of.file.display().to_string(),
        compile_ms: code.facts().compile_ns as f64 / 1e6,
        start_us,
        messages: LENGTHS.map(|len| figure(&mut module, len, of.tag, calls)).into(),
    };
    if of.json {
        out::json(&report);
    } else {
        report.print();
    }
    ExitCode::SUCCESS
}

fn figure(module: &mut dyn Module, bytes: usize, tag: u32, calls: u32) -> ModuleFigure {
    let mut message = Nowhere::new(bytes, tag);
    let per_round = calls.div_ceil(ROUNDS);
    let before = module.fuel_used();
    let mut faults = 0;
    let mut rounds = [(); ROUNDS as usize].map(|()| {
        let began = Instant::now();
        for _ in 0..per_round {
            faults += u32::from(message.offer(module).is_err());
        }
        began.elapsed().as_nanos() as f64 / f64::from(per_round)
    });
    rounds.sort_by(f64::total_cmp);
    let fuel = (module.fuel_used() - before) as f64 / f64::from(per_round * ROUNDS);
    ModuleFigure { bytes, tag, ns: rounds[ROUNDS as usize / 2], fuel, faults }
}

impl ModuleReport {
    fn print(&self) {
        let ModuleReport { file, compile_ms, start_us, messages } = self;
        out::line(format_args!(
            "{file}: compiled in {compile_ms:.1} ms, started in {start_us:.0} us"
        ));
        out::line(format_args!(
            "{:>8} {:>6} {:>9} {:>9} {:>7}",
            "bytes", "tag", "ns", "fuel", "faults"
        ));
        for ModuleFigure { bytes, tag, ns, fuel, faults } in messages {
            out::line(format_args!("{bytes:>8} {tag:>6} {ns:>9.1} {fuel:>9.0} {faults:>7}"));
        }
    }
}
