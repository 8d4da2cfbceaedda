//! The module engine: WebAssembly on the NIC, kept within a budget of fuel, time and memory.
//!
//! It is built as a library that the client (`ferrywire-modules`) loads with the first module. The client's `abi` file
//! defines the interface between the two; this file has the table of functions that it describes. Behind it, in the
//! order of a module's life: `config` sets up the compiler, `code` compiles or refuses bytes, `instance` runs them,
//! `operator` runs those that combine elements,
//! `imports` has the functions that modules may call, `meter` the cost of these, and `watchdog` limits CPU time.
//!
//! The invariants B1 to B4 that the blocks below cite are those of the boundary.

mod code;
mod config;
mod imports;
mod instance;
mod meter;
mod operator;
mod watchdog;

use core::slice;

use ferrywire_modules::Budget;
use ferrywire_modules::abi::{
    Callbacks, Message, RawCode, RawFacts, RawInstance, RawOperator, Sink, Table, VERSION,
};

use code::Code;
use instance::Instance;
use operator::Operator;

/// The table of this engine, for programs that are linked with it.
pub static TABLE: Table = Table {
    version: VERSION,
    compile,
    facts,
    start,
    on_message,
    on_counter,
    fuel_used,
    start_operator,
    combine,
    release_code,
    release_instance,
    release_operator,
};

/// The symbol that the client looks up.
// SAFETY: the name is Ferrywire's own: no other function has it.
#[unsafe(no_mangle)]
pub extern "C" fn ferry_module_engine() -> *const Table {
    &raw const TABLE
}

unsafe extern "C" fn compile(
    bytes: *const u8,
    len: usize,
    budget: *const Budget,
    why_not: *const Sink,
) -> *mut RawCode {
    // SAFETY: B4.
    let bytes = unsafe { slice::from_raw_parts(bytes, len) };
    // SAFETY: B4: it is one budget.
    let budget = unsafe { &*budget };
    match Code::compile(bytes, budget) {
        Ok(code) => Box::into_raw(Box::new(code)).cast(),
        Err(refusal) => {
            // SAFETY: the sink is the client's, and lives until we return.
            unsafe { tell(why_not, &refusal) };
            core::ptr::null_mut()
        }
    }
}

unsafe extern "C" fn facts(
    code: *const RawCode,
    imports: *const Sink,
    exports: *const Sink,
) -> RawFacts {
    // SAFETY: B2.
    let code = unsafe { &*code.cast::<Code>() };
    for name in code.imports() {
        // SAFETY: as in `compile`.
        unsafe { tell(imports, &name) };
    }
    for name in code.exports() {
        // SAFETY: as in `compile`.
        unsafe { tell(exports, &name) };
    }
    code.facts()
}

unsafe extern "C" fn start(
    code: *const RawCode,
    callbacks: *const Callbacks,
    why_not: *const Sink,
) -> *mut RawInstance {
    // SAFETY: B2.
    let code = unsafe { &*code.cast::<Code>() };
    // SAFETY: the client keeps its callbacks for as long as it has instances.
    let callbacks: &'static Callbacks = unsafe { &*callbacks };
    match Instance::start(code, callbacks) {
        Ok(instance) => Box::into_raw(Box::new(instance)).cast(),
        Err(refusal) => {
            // SAFETY: as in `compile`.
            unsafe { tell(why_not, &refusal) };
            core::ptr::null_mut()
        }
    }
}

unsafe extern "C" fn on_message(instance: *mut RawInstance, message: *mut Message) -> i32 {
    // SAFETY: B2 and B3.
    let instance = unsafe { &mut *instance.cast::<Instance>() };
    instance.on_message(message)
}

unsafe extern "C" fn on_counter(
    instance: *mut RawInstance,
    counter: u32,
    message: *mut Message,
) -> i32 {
    // SAFETY: B2 and B3.
    let instance = unsafe { &mut *instance.cast::<Instance>() };
    instance.on_counter(counter, message)
}

unsafe extern "C" fn fuel_used(instance: *const RawInstance) -> u64 {
    // SAFETY: B2 and B3.
    unsafe { &*instance.cast::<Instance>() }.fuel_used()
}

unsafe extern "C" fn start_operator(
    code: *const RawCode,
    callbacks: *const Callbacks,
    why_not: *const Sink,
) -> *mut RawOperator {
    // SAFETY: B2.
    let code = unsafe { &*code.cast::<Code>() };
    // SAFETY: as in `start`.
    let callbacks: &'static Callbacks = unsafe { &*callbacks };
    match Operator::start(code, callbacks) {
        Ok(operator) => Box::into_raw(Box::new(operator)).cast(),
        Err(refusal) => {
            // SAFETY: as in `compile`.
            unsafe { tell(why_not, &refusal) };
            core::ptr::null_mut()
        }
    }
}

unsafe extern "C" fn combine(
    operator: *mut RawOperator,
    from: *const u8,
    into: *mut u8,
    len: usize,
    element_bytes: usize,
) -> i32 {
    // SAFETY: B2 and B3.
    let operator = unsafe { &mut *operator.cast::<Operator>() };
    // SAFETY: B4.
    let from = unsafe { slice::from_raw_parts(from, len) };
    // SAFETY: B4; nothing else accesses them during the call.
    let into = unsafe { slice::from_raw_parts_mut(into, len) };
    operator.combine(from, into, element_bytes)
}

unsafe extern "C" fn release_code(code: *mut RawCode) {
    // SAFETY: B2: it is the box of `compile`, and this is its end.
    drop(unsafe { Box::from_raw(code.cast::<Code>()) });
}

unsafe extern "C" fn release_instance(instance: *mut RawInstance) {
    // SAFETY: B2: it is the box of `start`, and this is its end.
    drop(unsafe { Box::from_raw(instance.cast::<Instance>()) });
}

unsafe extern "C" fn release_operator(operator: *mut RawOperator) {
    // SAFETY: B2: it is the box of `start_operator`, and this is its end.
    drop(unsafe { Box::from_raw(operator.cast::<Operator>()) });
}

/// Passes text to a sink.
///
/// # Safety
///
/// The sink is one of the client's, alive.
unsafe fn tell(sink: *const Sink, text: &str) {
    // SAFETY: the caller says so.
    let sink = unsafe { &*sink };
    // SAFETY: B4: the text lives until this returns.
    unsafe { (sink.take)(sink.context, text.as_ptr(), text.len()) };
}
