//! The engine, code and live modules, as the rest of Ferrywire uses them.
//!
//! The invariants B1 to B4 are those of the boundary; see [`crate::abi`].

use core::ffi::c_void;
use core::fmt;
use core::ptr::NonNull;
use core::slice;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use ferrywire_nic::{Hook, Module, Trap, Verdict};

use crate::abi::{
    self, Bytes, CONSUME, Callbacks, DELIVER, DONE, Message, RawCode, RawInstance, RawOperator,
    Sink, Table,
};
use crate::find::{self, Unavailable};
use crate::{Budget, abi::number_of};

/// The engine library, found and of the right version.
pub struct Engine {
    table: &'static Table,
}

impl Engine {
    /// The engine of this process. The first call finds and loads the library; the setting `FERRY_MODULE_ENGINE` names
    /// it.
    pub fn open(settings: impl Fn(&str) -> Option<String>) -> Result<&'static Engine, Unavailable> {
        static OPENED: OnceLock<Engine> = OnceLock::new();
        if let Some(engine) = OPENED.get() {
            return Ok(engine);
        }
        // Two threads may both get here: the loader returns the same library to both.
        let engine = Engine { table: find::find(settings)? };
        Ok(OPENED.get_or_init(|| engine))
    }

    /// The engine in this file.
    pub fn load(path: &Path) -> Result<Engine, Unavailable> {
        Ok(Engine { table: find::load(path)? })
    }

    /// An engine that is linked with the program, as in tests.
    pub fn linked(table: &'static Table) -> Engine {
        assert!(table.version == abi::VERSION, "client and engine are built from one tree");
        Engine { table }
    }

    /// Compiles `.wasm` bytes or `.wat` text. This takes milliseconds.
    pub fn compile(&self, bytes: &[u8], budget: &Budget) -> Result<Code, Refusal> {
        let mut texts = Vec::new();
        let why_not = sink(&mut texts);
        // SAFETY: B4; the sink's context outlives the call.
        let raw = unsafe {
            (self.table.compile)(bytes.as_ptr(), bytes.len(), budget, &raw const why_not)
        };
        match NonNull::new(raw) {
            Some(raw) => Ok(Code { held: Arc::new(Held { table: self.table, raw }) }),
            None => Err(Refusal::of(texts)),
        }
    }
}

/// Compiled code. Cloning is cheap, and any thread may start it.
#[derive(Clone)]
pub struct Code {
    held: Arc<Held>,
}

impl Code {
    /// Starts a live module with fresh memory, and runs its `on_load`, if it has one.
    ///
    /// There is no message yet. A module that asks for a property of one while it loads, even its rank, is refused.
    pub fn start(&self) -> Result<Instance, Refusal> {
        let table = self.held.table;
        let mut texts = Vec::new();
        let why_not = sink(&mut texts);
        // SAFETY: B2, as `held` lives; the callbacks are static; the sink outlives the call.
        let raw = unsafe {
            (table.start)(self.held.raw.as_ptr(), &raw const CALLBACKS, &raw const why_not)
        };
        match NonNull::new(raw) {
            Some(raw) => Ok(Instance { table, raw }),
            None => Err(Refusal::of(texts)),
        }
    }

    /// Starts a live operator of reductions: code that exports `combine`, and imports nothing.
    pub fn start_operator(&self) -> Result<CodeOperator, Refusal> {
        let table = self.held.table;
        let mut texts = Vec::new();
        let why_not = sink(&mut texts);
        // SAFETY: as in `start`.
        let raw = unsafe {
            (table.start_operator)(self.held.raw.as_ptr(), &raw const CALLBACKS, &raw const why_not)
        };
        match NonNull::new(raw) {
            Some(raw) => Ok(CodeOperator { table, raw }),
            None => Err(Refusal::of(texts)),
        }
    }

    /// Describes the code.
    pub fn facts(&self) -> Facts {
        let mut imports = Vec::new();
        let mut exports = Vec::new();
        let into_imports = sink(&mut imports);
        let into_exports = sink(&mut exports);
        // SAFETY: B2, as `held` lives; both sinks outlive the call.
        let raw = unsafe {
            (self.held.table.facts)(
                self.held.raw.as_ptr(),
                &raw const into_imports,
                &raw const into_exports,
            )
        };
        Facts {
            imports,
            exports,
            memory_bytes_min: raw.memory_bytes_min,
            memory_bytes_max: raw.memory_bytes_max,
            wasm_bytes: raw.wasm_bytes,
            machine_bytes: raw.machine_bytes,
            compile_ns: raw.compile_ns,
        }
    }
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.facts().fmt(f)
    }
}

/// A description of code.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Facts {
    /// Its imports, as `ferry.rank`.
    pub imports: Vec<String>,
    /// Its exports.
    pub exports: Vec<String>,
    /// Initial size of its memory.
    pub memory_bytes_min: u64,
    /// Maximum size of its memory: its own limit or the budget's, whichever is less.
    pub memory_bytes_max: u64,
    /// The length of the WebAssembly.
    pub wasm_bytes: u64,
    /// The length of the machine code.
    pub machine_bytes: u64,
    /// Compile time.
    pub compile_ns: u64,
}

/// Why the engine refuses a module, as text for the user.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Refusal {
    reason: String,
}

impl Refusal {
    fn of(texts: Vec<String>) -> Refusal {
        Refusal { reason: texts.concat() }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl core::error::Error for Refusal {}

/// A live module.
pub struct Instance {
    table: &'static Table,
    raw: NonNull<RawInstance>,
}

// SAFETY: the engine binds an instance to no thread, and B3 is kept by `&mut self`.
unsafe impl Send for Instance {}

impl Module for Instance {
    fn on_message(&mut self, mut hook: &mut dyn Hook) -> Result<Verdict, Trap> {
        let mut message = message_of(&mut hook);
        // SAFETY: B1 and B2: message and hook are ours until this returns; so is the instance (B3).
        let answer = unsafe { (self.table.on_message)(self.raw.as_ptr(), &raw mut message) };
        match answer {
            DELIVER => Ok(Verdict::Deliver),
            CONSUME => Ok(Verdict::Consume),
            number => Err(abi::trap_of(number)),
        }
    }

    fn on_counter(&mut self, counter: u32, mut hook: &mut dyn Hook) -> Result<(), Trap> {
        let mut message = message_of(&mut hook);
        // SAFETY: as in `on_message`.
        let answer =
            unsafe { (self.table.on_counter)(self.raw.as_ptr(), counter, &raw mut message) };
        if answer == DONE { Ok(()) } else { Err(abi::trap_of(answer)) }
    }

    fn fuel_used(&self) -> u64 {
        // SAFETY: B2; no call runs, since that would need `&mut self`.
        unsafe { (self.table.fuel_used)(self.raw.as_ptr()) }
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // SAFETY: B2, and it is not used again.
        unsafe { (self.table.release_instance)(self.raw.as_ptr()) };
    }
}

impl fmt::Debug for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Instance").field("fuel_used", &self.fuel_used()).finish()
    }
}

/// A live operator of reductions.
pub struct CodeOperator {
    table: &'static Table,
    raw: NonNull<RawOperator>,
}

// SAFETY: the engine binds an operator to no thread, and B3 is kept by `&mut self`.
unsafe impl Send for CodeOperator {}

impl CodeOperator {
    /// Combines elements into as many others. After a trap some have been combined.
    pub fn combine(
        &mut self,
        from: &[u8],
        into: &mut [u8],
        element_bytes: usize,
    ) -> Result<(), Trap> {
        assert!(from.len() == into.len() && from.len().is_multiple_of(element_bytes));
        let (raw, len) = (self.raw.as_ptr(), into.len());
        // SAFETY: B2, B3, B4.
        let answer = unsafe {
            (self.table.combine)(raw, from.as_ptr(), into.as_mut_ptr(), len, element_bytes)
        };
        if answer == DONE { Ok(()) } else { Err(abi::trap_of(answer)) }
    }
}

impl Drop for CodeOperator {
    fn drop(&mut self) {
        // SAFETY: B2, and it is not used again.
        unsafe { (self.table.release_operator)(self.raw.as_ptr()) };
    }
}

impl fmt::Debug for CodeOperator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CodeOperator").finish_non_exhaustive()
    }
}

/// The engine's code, released with the last clone.
struct Held {
    table: &'static Table,
    raw: NonNull<RawCode>,
}

// SAFETY: B3: code may be used by many threads at once, and be released by any.
unsafe impl Send for Held {}
// SAFETY: as above.
unsafe impl Sync for Held {}

impl Drop for Held {
    fn drop(&mut self) {
        // SAFETY: B2, and it is not used again.
        unsafe { (self.table.release_code)(self.raw.as_ptr()) };
    }
}

/// The message that a module is called for. Its context points to the reference to the hook, since a reference to a
/// trait object does not fit into one pointer.
fn message_of(hook: &mut &mut dyn Hook) -> Message {
    let ferrywire_nic::Message { rank, size, sender, tag, payload } = hook.message();
    Message {
        rank,
        size,
        sender,
        tag,
        payload: payload.as_ptr(),
        len: payload.len(),
        context: core::ptr::from_mut(hook).cast(),
    }
}

/// The hook behind a context.
///
/// # Safety
///
/// The context is the one of a message of `message_of`, during the call that it was made for (B1).
unsafe fn hook_of<'a>(context: *mut c_void) -> &'a mut (dyn Hook + 'a) {
    let hook = context.cast::<&'a mut (dyn Hook + 'a)>();
    // SAFETY: the caller says so; the engine runs one callback at a time.
    unsafe { &mut **hook }
}

static CALLBACKS: Callbacks = Callbacks { payload, payload_mut, forward, send, raise, arm, now };

unsafe extern "C" fn payload(context: *mut c_void) -> Bytes {
    // SAFETY: B1.
    let bytes = unsafe { hook_of(context) }.payload();
    Bytes { start: bytes.as_ptr().cast_mut(), len: bytes.len() }
}

unsafe extern "C" fn payload_mut(context: *mut c_void) -> Bytes {
    // SAFETY: B1.
    let bytes = unsafe { hook_of(context) }.payload_mut();
    Bytes { start: bytes.as_mut_ptr(), len: bytes.len() }
}

unsafe extern "C" fn forward(context: *mut c_void, to: u32) -> i32 {
    // SAFETY: B1.
    number(unsafe { hook_of(context) }.forward(to))
}

unsafe extern "C" fn send(
    context: *mut c_void,
    to: u32,
    tag: u32,
    bytes: *const u8,
    len: usize,
) -> i32 {
    // SAFETY: B4.
    let bytes = unsafe { slice::from_raw_parts(bytes, len) };
    // SAFETY: B1.
    number(unsafe { hook_of(context) }.send(to, tag, bytes))
}

unsafe extern "C" fn raise(context: *mut c_void, counter: u32, by: u64) -> i32 {
    // SAFETY: B1.
    number(unsafe { hook_of(context) }.raise(counter, by))
}

unsafe extern "C" fn arm(context: *mut c_void, counter: u32, at_least: u64) -> i32 {
    // SAFETY: B1.
    number(unsafe { hook_of(context) }.arm(counter, at_least))
}

unsafe extern "C" fn now(context: *mut c_void) -> u64 {
    // SAFETY: B1.
    unsafe { hook_of(context) }.now()
}

fn number(answer: Result<(), Trap>) -> i32 {
    answer.map_or_else(number_of, |()| DONE)
}

/// A sink that appends to `texts`, which has to outlive it.
fn sink(texts: &mut Vec<String>) -> Sink {
    Sink { context: core::ptr::from_mut(texts).cast(), take }
}

unsafe extern "C" fn take(context: *mut c_void, bytes: *const u8, len: usize) {
    // SAFETY: the context is the vector that `sink` was given, and it lives until the engine has answered.
    let texts = unsafe { &mut *context.cast::<Vec<String>>() };
    // SAFETY: B4.
    let bytes = unsafe { slice::from_raw_parts(bytes, len) };
    texts.push(String::from_utf8_lossy(bytes).into_owned());
}
