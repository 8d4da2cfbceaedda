//! Measures the cost of a module call: `cargo run --release -p ferrywire-engine --example call`.
//!
//! Build the library first. The last lines call wasmtime directly, without our code around it.

use std::hint::black_box;
use std::time::Instant;

use ferrywire_modules::{Budget, Engine};
use ferrywire_nic::{Hook, Module, Trap};

const NOOP: &str = r#"(module (func (export "on_message") (result i32) i32.const 1))"#;

const ASKS: &str = r#"(module
    (import "ferry" "sender" (func $sender (result i32)))
    (func (export "on_message") (result i32)
        (i32.and (call $sender) (i32.const 1))))"#;

const READS: &str = r#"(module
    (import "ferry" "read" (func $read (param i32 i32 i32)))
    (memory (export "memory") 1)
    (func (export "on_message") (result i32)
        (call $read (i32.const 0) (i32.const 0) (i32.const 64)) (i32.const 1)))"#;

const SUMS: &str = r#"(module
    (import "ferry" "read" (func $read (param i32 i32 i32)))
    (memory (export "memory") 1)
    (func (export "on_message") (result i32) (local $at i32) (local $sum i32)
        (call $read (i32.const 0) (i32.const 0) (i32.const 64))
        (loop $next
            (local.set $sum (i32.add (local.get $sum) (i32.load8_u (local.get $at))))
            (local.set $at (i32.add (local.get $at) (i32.const 1)))
            (br_if $next (i32.lt_u (local.get $at) (i32.const 64))))
        (i32.store (i32.const 128) (local.get $sum))
        (i32.const 1)))"#;

fn main() {
    for (engine, which) in [
        (Engine::open(|_| None).expect("the library is built"), "loaded library"),
        (&Engine::linked(&ferry_modules::TABLE), "linked with the program"),
    ] {
        for (what, text) in [
            ("nothing", NOOP),
            ("one question", ASKS),
            ("read 64 bytes", READS),
            ("read and sum 64 bytes", SUMS),
        ] {
            let code = engine.compile(text.as_bytes(), &Budget::default()).expect("it is good");
            let mut module = code.start().expect("it is good");
            let mut hook = Quiet { payload: [1; 64] };
            let (best, median) = measured(|| {
                black_box(module.on_message(black_box(&mut hook))).expect("it is good");
            });
            println!("{best:6.1} ns (median {median:6.1})  {what}, {which}");
        }
    }
    for (fuel, epoch) in [(false, false), (true, false), (false, true), (true, true)] {
        let (best, median) = bare(fuel, epoch);
        println!(
            "{best:6.1} ns (median {median:6.1})  nothing, wasmtime alone, fuel {fuel}, epoch {epoch}"
        );
    }
}

/// The cost of a bare wasmtime call.
fn bare(fuel: bool, epoch: bool) -> (f64, f64) {
    let mut config = wasmtime::Config::new();
    config.signals_based_traps(false).consume_fuel(fuel).epoch_interruption(epoch);
    let engine = wasmtime::Engine::new(&config).expect("it is good");
    let wasm = wat::parse_str(NOOP).expect("it is good");
    let module = wasmtime::Module::new(&engine, wasm).expect("it is good");
    let mut store = wasmtime::Store::new(&engine, ());
    if fuel {
        store.set_fuel(u64::MAX).expect("it is on");
    }
    if epoch {
        store.set_epoch_deadline(1);
    }
    let instance = wasmtime::Instance::new(&mut store, &module, &[]).expect("it is good");
    let func = instance.get_typed_func::<(), i32>(&mut store, "on_message").expect("it is good");
    measured(|| {
        black_box(func.call(&mut store, ())).expect("it is good");
    })
}

/// Nanoseconds per call: the best of many short runs, which a busy machine disturbs least, and their median.
fn measured(mut call: impl FnMut()) -> (f64, f64) {
    const CALLS: u32 = 10_000;
    const RUNS: usize = 301;
    let mut runs: Vec<f64> = (0..RUNS)
        .map(|_| {
            let began = Instant::now();
            for _ in 0..CALLS {
                call();
            }
            began.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS)
        })
        .collect();
    runs.sort_by(f64::total_cmp);
    (runs[0], runs[RUNS / 2])
}

/// A hook that does nothing, so that it costs nothing.
struct Quiet {
    payload: [u8; 64],
}

impl Hook for Quiet {
    fn message(&self) -> ferrywire_nic::Message<'_> {
        ferrywire_nic::Message { rank: 0, size: 1, sender: 0, tag: 0, payload: &self.payload }
    }

    fn payload_mut(&mut self) -> &mut [u8] {
        &mut self.payload
    }

    fn forward(&mut self, _to: u32) -> Result<(), Trap> {
        Ok(())
    }

    fn send(&mut self, _to: u32, _tag: u32, _bytes: &[u8]) -> Result<(), Trap> {
        Ok(())
    }

    fn raise(&mut self, _counter: u32, _by: u64) -> Result<(), Trap> {
        Ok(())
    }

    fn arm(&mut self, _counter: u32, _at_least: u64) -> Result<(), Trap> {
        Ok(())
    }

    fn now(&self) -> u64 {
        0
    }
}
