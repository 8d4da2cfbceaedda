//! A live module: its memory, its functions, and calls of them.
//!
//! A module that traps keeps its memory and its globals as they were at that moment: writes before the trap remain. It
//! can be called again; whether it should be is decided by the NIC. Requests to the NIC before the trap have taken
//! effect.

use core::ptr;

use ferrywire_modules::Budget;
use ferrywire_modules::abi::{CONSUME, Callbacks, DELIVER, DONE, Message, number_of};
use ferrywire_nic::Trap;
use wasmtime::{Memory, Store, StoreLimits, StoreLimitsBuilder, TypedFunc};

use crate::code::Code;
use crate::config;
use crate::imports::{NotYet, Stopped};
use crate::watchdog::{self, LOOK_TICKS, Watch};

/// A live module.
pub(crate) struct Instance {
    store: Store<State>,
    on_message: TypedFunc<(), i32>,
    on_counter: Option<TypedFunc<i32, ()>>,
    fuel_max: u64,
    fuel_used: u64,
}

impl Instance {
    /// Starts an instance.
    pub(crate) fn start(code: &Code, callbacks: &'static Callbacks) -> Result<Instance, String> {
        let (mut store, instance, fuel_used) = instantiate(code, callbacks)?;
        let Some(on_message) = instance.get_func(&mut store, "on_message") else {
            return Err("the module exports no function `on_message`".to_string());
        };
        let on_message = on_message.typed(&store).map_err(not_instantiated)?;
        let on_counter = match instance.get_func(&mut store, "on_counter") {
            Some(func) => Some(func.typed(&store).map_err(not_instantiated)?),
            None => None,
        };
        Ok(Instance { store, on_message, on_counter, fuel_max: code.budget().fuel, fuel_used })
    }

    /// Runs the module for a message. Returns a number as the boundary defines it.
    #[inline]
    pub(crate) fn on_message(&mut self, message: *mut Message) -> i32 {
        begin(&mut self.store, self.fuel_max, message);
        let answer = self.on_message.call(&mut self.store, ());
        self.fuel_used += end(&mut self.store, self.fuel_max);
        match answer {
            Ok(0) => DELIVER,
            Ok(1) => CONSUME,
            Ok(_) => number_of(Trap::Verdict),
            Err(error) => number_of(trap_of(&error)),
        }
    }

    /// Runs the module for a counter. Does nothing if the module does not export `on_counter`.
    pub(crate) fn on_counter(&mut self, counter: u32, message: *mut Message) -> i32 {
        let Some(on_counter) = &self.on_counter else {
            return DONE;
        };
        begin(&mut self.store, self.fuel_max, message);
        let answer = on_counter.call(&mut self.store, counter.cast_signed());
        self.fuel_used += end(&mut self.store, self.fuel_max);
        answer.map_or_else(|error| number_of(trap_of(&error)), |()| DONE)
    }

    pub(crate) fn fuel_used(&self) -> u64 {
        self.fuel_used
    }
}

/// Instantiates code: fresh memory, the start function, and `on_load`, all within the fuel of one message, which is
/// returned too.
pub(crate) fn instantiate(
    code: &Code,
    callbacks: &'static Callbacks,
) -> Result<(Store<State>, wasmtime::Instance, u64), String> {
    let engine = &config::shared()?.engine;
    watchdog::open(engine)?;
    let budget = code.budget();
    let mut store = Store::new(engine, State::new(budget, callbacks));
    store.limiter(|state| &mut state.limits);
    store.epoch_deadline_callback(watchdog::look);
    begin(&mut store, budget.fuel, ptr::null_mut());
    let instance = code.linked().instantiate(&mut store).map_err(not_instantiated)?;
    store.data_mut().memory = instance.get_memory(&mut store, "memory");
    if let Some(func) = instance.get_func(&mut store, "on_load") {
        let on_load = func.typed::<(), ()>(&store).map_err(not_instantiated)?;
        let refused = |error| format!("the module's `on_load` failed: {}", reason(&error));
        on_load.call(&mut store, ()).map_err(refused)?;
    }
    let fuel_used = end(&mut store, budget.fuel);
    Ok((store, instance, fuel_used))
}

fn not_instantiated(error: wasmtime::Error) -> String {
    format!("the module cannot be instantiated: {}", reason(&error))
}

/// State that the imports use when a module calls them.
pub(crate) struct State {
    /// The message of the current call; null while the module is loading or not running.
    pub(crate) message: *mut Message,
    pub(crate) callbacks: &'static Callbacks,
    /// Its exported memory.
    pub(crate) memory: Option<Memory>,
    pub(crate) watch: Watch,
    limits: StoreLimits,
}

// SAFETY: `message` is null whenever the module does not run, so no pointer of one thread moves to another with it.
unsafe impl Send for State {}

impl State {
    fn new(budget: &Budget, callbacks: &'static Callbacks) -> State {
        let bounded = |bound: u64| usize::try_from(bound).unwrap_or(usize::MAX);
        let limits = StoreLimitsBuilder::new()
            .memory_size(bounded(budget.memory_bytes))
            .table_elements(bounded(budget.table_elements))
            .instances(1)
            .memories(1)
            .tables(1)
            .build();
        let watch = Watch::new(budget.time_ns);
        State { message: ptr::null_mut(), callbacks, memory: None, watch, limits }
    }
}

#[inline]
pub(crate) fn begin(store: &mut Store<State>, fuel: u64, message: *mut Message) {
    let state = store.data_mut();
    state.message = message;
    state.watch.begin();
    store.set_fuel(fuel).expect("fuel is switched on");
    // The deadline first: see `watchdog`.
    store.set_epoch_deadline(LOOK_TICKS);
    watchdog::notice();
}

/// Returns the fuel that was used.
#[inline]
pub(crate) fn end(store: &mut Store<State>, fuel: u64) -> u64 {
    store.data_mut().message = ptr::null_mut();
    fuel - store.get_fuel().expect("fuel is switched on")
}

/// The NIC's trap for an error.
#[cold]
pub(crate) fn trap_of(error: &wasmtime::Error) -> Trap {
    if let Some(Stopped(trap)) = error.downcast_ref() {
        return *trap;
    }
    match error.downcast_ref::<wasmtime::Trap>() {
        Some(wasmtime::Trap::OutOfFuel) => Trap::Fuel,
        Some(wasmtime::Trap::Interrupt) => Trap::Time,
        Some(wasmtime::Trap::StackOverflow) => Trap::Stack,
        Some(wasmtime::Trap::MemoryOutOfBounds) => Trap::Memory,
        Some(
            wasmtime::Trap::IntegerOverflow
            | wasmtime::Trap::IntegerDivisionByZero
            | wasmtime::Trap::BadConversionToInteger,
        ) => Trap::Arithmetic,
        Some(wasmtime::Trap::UnreachableCodeReached) => Trap::Unreachable,
        Some(
            wasmtime::Trap::TableOutOfBounds
            | wasmtime::Trap::IndirectCallToNull
            | wasmtime::Trap::NullReference
            | wasmtime::Trap::BadSignature,
        ) => Trap::Call,
        _ => Trap::Engine,
    }
}

/// Why a module did not start, as text.
fn reason(error: &wasmtime::Error) -> String {
    if let Some(not_yet) = error.downcast_ref::<NotYet>() {
        return not_yet.to_string();
    }
    match trap_of(error) {
        Trap::Engine => format!("{error:#}"),
        trap => trap.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::Instance;

    /// The client relies on this when it declares its instances `Send`.
    #[test]
    fn instances_may_move_between_threads() {
        fn moves<T: Send>() {}
        moves::<Instance>();
    }
}
