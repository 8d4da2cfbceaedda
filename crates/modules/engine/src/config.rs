//! Compiler settings: the same for all modules of a process, and for all ranks of a job.

use std::sync::OnceLock;

use wasmtime::{Config, Engine, Linker, OperatorCost, VariableOperatorCost, WasmFeatures};

use crate::imports;
use crate::instance::State;

/// State shared by all modules of a process.
pub(crate) struct Shared {
    pub(crate) engine: Engine,
    /// The imports of modules, ready to be linked.
    pub(crate) linker: Linker<State>,
}

/// The shared state of this process. The error is wasmtime's, if it does not work on this machine.
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

    // We run inside the application's process, which owns the signal handlers. Bounds are checked by instructions
    // instead, so no guard pages have to be reserved.
    config.signals_based_traps(false);
    config.memory_reservation(MEMORY_RESERVATION_BYTES);
    config.memory_reservation_for_growth(MEMORY_RESERVATION_BYTES);
    config.memory_guard_size(0);
    config.guard_before_linear_memory(false);
    config.memory_may_move(true);
    // Mapped memory images need a file for each module. Modules are small: copying is as fast.
    config.memory_init_cow(false);
    config.max_wasm_stack(STACK_BYTES);

    // Fuel bounds the work, the same on all machines; the clock bounds what fuel underestimates.
    config.consume_fuel(true);
    config.operator_cost(costs());
    config.epoch_interruption(true);

    // All ranks, and the simulator, compute the same bytes from the same bytes.
    config.cranelift_nan_canonicalization(true);

    // We use only the kind of a trap, not its location.
    config.wasm_backtrace_max_frames(None);
    config.generate_address_map(false);
    config.native_unwind_info(false);

    // Only features that C and Rust compilers use by default: less to trust.
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

/// Fuel costs of instructions. Each costs one unit, and those that fill or copy cost one more for each byte or element.
/// Only wasmtime's cost of growth is too low, since growing may move the whole memory.
fn costs() -> OperatorCost {
    let mut variable = VariableOperatorCost::new();
    variable.memory_grow_per_page = 4;
    let mut costs = OperatorCost::new();
    costs.MemoryGrow = u8::MAX;
    costs.TableGrow = u8::MAX;
    costs.variable = variable;
    costs
}

/// A module runs on the stack of the thread that drives the NIC, which may have 256 KiB in all.
const STACK_BYTES: usize = 64 << 10;

/// Address space reserved for each memory, so that it seldom moves when it grows.
const MEMORY_RESERVATION_BYTES: u64 = 1 << 20;
