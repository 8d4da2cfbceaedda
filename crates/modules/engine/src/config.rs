//! The compiler and its rules: the same for all modules of a process, and for all ranks of a job.

use std::sync::OnceLock;

use wasmtime::{Config, Engine, Linker, OperatorCost, VariableOperatorCost, WasmFeatures};

use crate::imports;
use crate::instance::State;

/// What all modules of a process share.
pub(crate) struct Shared {
    pub(crate) engine: Engine,
    /// What modules may import, ready to be linked.
    pub(crate) linker: Linker<State>,
}

/// The one of this process. The error is wasmtime's, if it cannot work on this machine.
pub(crate) fn shared() -> Result<&'static Shared, &'static str> {
    static SHARED: OnceLock<Result<Shared, String>> = OnceLock::new();
    let shared = SHARED.get_or_init(|| {
        let engine = Engine::new(&config()).map_err(|error| format!("{error:#}"))?;
        let linker = imports::linker(&engine).map_err(|error| format!("{error:#}"))?;
        Ok(Shared { engine, linker })
    });
    shared.as_ref().map_err(String::as_str)
}

fn config() -> Config {
    let mut config = Config::new();

    // We are a guest in the application's process: signal handlers are the application's. Bounds are checked by
    // instructions instead, so no pages have to be reserved to be touched by mistake.
    config.signals_based_traps(false);
    config.memory_reservation(MEMORY_RESERVATION_BYTES);
    config.memory_reservation_for_growth(MEMORY_RESERVATION_BYTES);
    config.memory_guard_size(0);
    config.guard_before_linear_memory(false);
    config.memory_may_move(true);
    // Mapped images of memory need a file of their own for each module. Modules are small: copying is as quick.
    config.memory_init_cow(false);
    config.max_wasm_stack(STACK_BYTES);

    // Fuel bounds the work, the same on all machines; the clock bounds what fuel misjudges.
    config.consume_fuel(true);
    config.operator_cost(costs());
    config.epoch_interruption(true);

    // All ranks, and the simulator, compute the same bytes from the same bytes.
    config.cranelift_nan_canonicalization(true);

    // A trap is a number to us. Nobody reads where it came from.
    config.wasm_backtrace_max_frames(None);
    config.generate_address_map(false);
    config.native_unwind_info(false);

    // What compilers of C and Rust emit unasked, and nothing else: less to trust.
    config.wasm_bulk_memory(true);
    config.wasm_multi_value(true);
    config.wasm_features(WasmFeatures::REFERENCE_TYPES, true);
    config.wasm_simd(false);
    config.wasm_relaxed_simd(false);
    config.wasm_tail_call(false);
    config.wasm_memory64(false);
    config.wasm_multi_memory(false);
    config.wasm_extended_const(false);
    config.wasm_features(WasmFeatures::FUNCTION_REFERENCES, false);
    config.wasm_gc(false);
    config.wasm_features(WasmFeatures::EXCEPTIONS, false);
    config.wasm_features(WasmFeatures::THREADS, false);
    config.gc_support(false);
    config.shared_memory(false);
    config.concurrency_support(false);
    config
}

/// What instructions cost. Each costs one unit, and those that fill or copy one for each byte or element besides.
/// Only growth is too cheap as wasmtime has it, since it may mean a new place for the whole memory.
fn costs() -> OperatorCost {
    let mut variable = VariableOperatorCost::new();
    variable.memory_grow_per_page = 4;
    let mut costs = OperatorCost::new();
    costs.MemoryGrow = u8::MAX;
    costs.TableGrow = u8::MAX;
    costs.variable = variable;
    costs
}

/// A module runs on the stack of whoever drives the NIC, which may have 256 KiB in all.
const STACK_BYTES: usize = 64 << 10;

/// Addresses set aside for each memory, so that it seldom has to move when it grows.
const MEMORY_RESERVATION_BYTES: u64 = 1 << 20;
