//! `ferry module check`: the size of a module, its rights, and what a message costs.

use std::process::ExitCode;

use ferrywire_modules::{Code, Facts};
use ferrywire_nic::{Module, Verdict};
use serde::Serialize;

use super::Of;
use super::trial::Nowhere;
use crate::out;

/// The result of a check.
#[derive(Serialize)]
struct CheckReport {
    file: String,
    wasm_bytes: u64,
    machine_bytes: u64,
    compile_ms: f64,
    memory_bytes: u64,
    memory_bytes_max: u64,
    imports: Vec<String>,
    exports: Vec<String>,
    /// Whether it combines elements of reductions, and handles no messages.
    is_operator: bool,
    may: Vec<&'static str>,
    /// Why the module does not start, if it does not.
    refused: Option<String>,
    trials: Vec<Trial>,
}

/// A message that the module was tried with. It is full of zeros; another content may take another amount of fuel.
#[derive(Serialize)]
struct Trial {
    bytes: usize,
    tag: u32,
    fuel: u64,
    sends: u32,
    ends: String,
}

/// Lengths of the messages that a module is tried with.
const LENGTHS: [usize; 5] = [0, 8, 64, 1024, 8192];

/// What an import lets a module do.
const RIGHTS: &[(&str, &str)] = &[
    ("ferry.read", "read the bytes of messages"),
    ("ferry.write", "change messages before they are delivered or forwarded"),
    ("ferry.forward", "send messages on to other ranks, in the name of their sender"),
    ("ferry.send", "send messages of its own, in the name of its rank"),
    ("ferry.reply", "answer messages"),
    ("ferry.raise", "raise counters that the application waits for"),
    ("ferry.arm", "be called when a counter is reached"),
    ("ferry.now", "look at the clock"),
];

pub(crate) fn check(of: &Of, code: &Code) -> ExitCode {
    let mut report = CheckReport::new(of, code.facts());
    if report.is_operator {
        report.refused = code.start_operator().err().map(|why| why.to_string());
    } else {
        match code.start() {
            Err(why) => report.refused = Some(why.to_string()),
            Ok(mut module) => {
                report.trials = LENGTHS.map(|len| Trial::of(&mut module, len, of.tag)).into();
            }
        }
    }
    let refused = report.refused.is_some();
    if of.json {
        out::json(&report);
    } else {
        report.print();
    }
    if refused { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

impl CheckReport {
    fn new(of: &Of, facts: Facts) -> CheckReport {
        let has = |import: &str| facts.imports.iter().any(|name| name == import);
        let is_operator = !facts.exports.iter().any(|name| name == "on_message");
        let rights = RIGHTS.iter().filter(|(import, _)| has(import));
        CheckReport {
            file: of.file.display().to_string(),
            wasm_bytes: facts.wasm_bytes,
            machine_bytes: facts.machine_bytes,
            compile_ms: facts.compile_ns as f64 / 1e6,
            memory_bytes: facts.memory_bytes_min,
            memory_bytes_max: facts.memory_bytes_max,
            may: rights.map(|&(_, right)| right).collect(),
            imports: facts.imports,
            exports: facts.exports,
            is_operator,
            refused: None,
            trials: Vec::new(),
        }
    }

    fn print(&self) {
        out::line(format_args!(
            "{}: {} bytes of WebAssembly, {} of machine code, compiled in {:.1} ms",
            self.file, self.wasm_bytes, self.machine_bytes, self.compile_ms
        ));
        out::line(format_args!(
            "memory: {} bytes at first, {} at most",
            self.memory_bytes, self.memory_bytes_max
        ));
        out::line(format_args!("imports: {}", list(&self.imports)));
        out::line(format_args!("exports: {}", list(&self.exports)));
        match self.may.is_empty() {
            true if self.is_operator => out::line("it is an operator of reductions"),
            true => out::line("the module may only deliver or consume messages"),
            false => {
                out::line("the module may deliver or consume messages, and");
                self.may.iter().for_each(|right| out::line(format_args!("  {right}")));
            }
        }
        if let Some(why) = &self.refused {
            return out::line(format_args!("the NIC rejects the module: {why}"));
        }
        if self.is_operator {
            return;
        }
        out::line("tried with messages of zeros from rank 1 to rank 0 of 2:");
        out::line(format_args!(
            "{:>8} {:>6} {:>9} {:>6}  outcome",
            "bytes", "tag", "fuel", "sends"
        ));
        for Trial { bytes, tag, fuel, sends, ends } in &self.trials {
            out::line(format_args!("{bytes:>8} {tag:>6} {fuel:>9} {sends:>6}  {ends}"));
        }
    }
}

impl Trial {
    fn of(module: &mut dyn Module, bytes: usize, tag: u32) -> Trial {
        let mut message = Nowhere::new(bytes, tag);
        let before = module.fuel_used();
        let ends = match message.offer(module) {
            Ok(Verdict::Deliver) => "delivered".into(),
            Ok(Verdict::Consume) => "consumed".into(),
            Err(trap) => format!("fault: {trap}"),
        };
        let fuel = module.fuel_used() - before;
        Trial { bytes, tag, fuel, sends: message.sends(), ends }
    }
}

fn list(names: &[String]) -> String {
    if names.is_empty() { "none".into() } else { names.join(", ") }
}
