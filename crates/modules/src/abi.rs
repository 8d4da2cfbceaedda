//! The boundary between the client and the engine library: all that the two have to agree on.
//!
//! The library exports one function, [`ENTRY`], which answers a [`Table`] of functions. The first word of the table is
//! the version of this file, in every version; whoever changes anything below changes [`VERSION`].
//! Nothing that one side allocates is freed by the other: text goes through a [`Sink`], and what the engine
//! makes goes back to it to be released.
//!
//! Invariants, cited by number where they are relied on:
//!   B1. A `Message` and the hook behind its `context` live until the call that they are given to has returned, and
//!       nobody else touches them until then.
//!   B2. A `RawCode` or `RawInstance` is what `compile` or `start` answered, not null and not yet released.
//!   B3. An instance runs one call at a time. Code may be used by many threads at once.
//!   B4. Pointer and length that travel together name that many readable bytes, until the call returns.

use core::ffi::{CStr, c_void};

use ferrywire_nic::Trap;

use crate::Budget;

/// The version of all that is below.
pub const VERSION: u32 = 1;

/// The file that the engine is in.
pub const LIBRARY: &str = "libferry_modules.so";

/// The one symbol that the library has to have.
pub const ENTRY: &CStr = c"ferry_module_engine";

/// The type of [`ENTRY`]. The table that it answers is never freed or changed.
pub type Entry = unsafe extern "C" fn() -> *const Table;

/// What the engine can do.
#[repr(C)]
pub struct Table {
    /// [`VERSION`], as the engine was built. It is read before anything else is believed.
    pub version: u32,
    /// Makes code of `.wasm` bytes or `.wat` text. Null: refused, and the sink has been told why.
    pub compile: unsafe extern "C" fn(
        bytes: *const u8,
        len: usize,
        budget: *const Budget,
        why_not: *const Sink,
    ) -> *mut RawCode,
    /// Tells what is known of code; the sinks are given one name at a time.
    pub facts: unsafe extern "C" fn(
        code: *const RawCode,
        imports: *const Sink,
        exports: *const Sink,
    ) -> RawFacts,
    /// Makes a live module of code. Null: refused, and the sink has been told why. The callbacks
    /// are kept, and have to be there as long as the instance is.
    pub start: unsafe extern "C" fn(
        code: *const RawCode,
        callbacks: *const Callbacks,
        why_not: *const Sink,
    ) -> *mut RawInstance,
    /// Runs a module for a message. Answers [`DELIVER`], [`CONSUME`] or a trap's number.
    pub on_message: unsafe extern "C" fn(instance: *mut RawInstance, message: *mut Message) -> i32,
    /// Runs a module for a counter. Answers [`DONE`] or a trap's number.
    pub on_counter: unsafe extern "C" fn(
        instance: *mut RawInstance,
        counter: u32,
        message: *mut Message,
    ) -> i32,
    /// All the fuel that a module has used.
    pub fuel_used: unsafe extern "C" fn(instance: *const RawInstance) -> u64,
    /// Takes code back.
    pub release_code: unsafe extern "C" fn(code: *mut RawCode),
    /// Takes an instance back.
    pub release_instance: unsafe extern "C" fn(instance: *mut RawInstance),
}

/// Compiled code, as the client sees it: nothing.
#[repr(C)]
pub struct RawCode {
    _opaque: [u8; 0],
}

/// A live module, as the client sees it: nothing.
#[repr(C)]
pub struct RawInstance {
    _opaque: [u8; 0],
}

/// What a module is called for. It is made anew for each call, and holds what nearly every module asks for, so
/// that to answer does not need a call back.
#[repr(C)]
pub struct Message {
    /// The rank that the module runs at.
    pub rank: u32,
    /// How many ranks its group has.
    pub size: u32,
    /// The rank that the message says it is from.
    pub sender: u32,
    /// The tag of the message.
    pub tag: u32,
    /// The bytes of the message, or null: then they may have moved since, and [`Callbacks::payload`] tells
    /// where they are. The engine writes null here after each callback that could move them.
    pub payload: *const u8,
    /// How many bytes the message has.
    pub len: usize,
    /// The first argument of all callbacks.
    pub context: *mut c_void,
}

/// Bytes that may be changed.
#[repr(C)]
pub struct Bytes {
    /// Where they are.
    pub start: *mut u8,
    /// How many they are.
    pub len: usize,
}

/// What the engine may ask of the client while a module runs. `context` is the one of the message; what
/// answers `i32` answers [`DONE`] or a trap's number.
#[repr(C)]
pub struct Callbacks {
    /// The bytes of the message, to be read only.
    pub payload: unsafe extern "C" fn(context: *mut c_void) -> Bytes,
    /// The bytes of the message, to be changed.
    pub payload_mut: unsafe extern "C" fn(context: *mut c_void) -> Bytes,
    /// Sends the message on.
    pub forward: unsafe extern "C" fn(context: *mut c_void, to: u32) -> i32,
    /// Sends bytes.
    pub send: unsafe extern "C" fn(
        context: *mut c_void,
        to: u32,
        tag: u32,
        bytes: *const u8,
        len: usize,
    ) -> i32,
    /// Raises a counter.
    pub raise: unsafe extern "C" fn(context: *mut c_void, counter: u32, by: u64) -> i32,
    /// Arms a counter.
    pub arm: unsafe extern "C" fn(context: *mut c_void, counter: u32, at_least: u64) -> i32,
    /// The time.
    pub now: unsafe extern "C" fn(context: *mut c_void) -> u64,
}

/// Where text goes that the other side wants to keep.
#[repr(C)]
pub struct Sink {
    /// The first argument of `take`.
    pub context: *mut c_void,
    /// Is given the bytes of a text, which it copies.
    pub take: unsafe extern "C" fn(context: *mut c_void, bytes: *const u8, len: usize),
}

/// The numbers among the facts.
#[repr(C)]
pub struct RawFacts {
    /// What the memory has when the module starts.
    pub memory_bytes_min: u64,
    /// What it may grow to.
    pub memory_bytes_max: u64,
    /// The length of the WebAssembly.
    pub wasm_bytes: u64,
    /// The length of the machine code.
    pub machine_bytes: u64,
    /// How long it took to make the one of the other.
    pub compile_ns: u64,
}

/// The message goes to the application.
pub const DELIVER: i32 = 0;

/// The message ends here.
pub const CONSUME: i32 = 1;

/// What was asked for is done.
pub const DONE: i32 = 0;

/// The number of a trap: negative, so that it is no verdict.
pub fn number_of(trap: Trap) -> i32 {
    match trap {
        Trap::Fuel => -1,
        Trap::Time => -2,
        Trap::Stack => -3,
        Trap::Memory => -4,
        Trap::Arithmetic => -5,
        Trap::Unreachable => -6,
        Trap::Call => -7,
        Trap::Payload => -8,
        Trap::Rank => -9,
        Trap::Tag => -10,
        Trap::Counter => -11,
        Trap::Sends => -12,
        Trap::Verdict => -13,
        Trap::Length => -14,
        Trap::Barred => -16,
        Trap::Engine => -15,
    }
}

/// The trap of a number. A number that is none is the engine's mistake, and is called so.
pub fn trap_of(number: i32) -> Trap {
    match number {
        -1 => Trap::Fuel,
        -2 => Trap::Time,
        -3 => Trap::Stack,
        -4 => Trap::Memory,
        -5 => Trap::Arithmetic,
        -6 => Trap::Unreachable,
        -7 => Trap::Call,
        -8 => Trap::Payload,
        -9 => Trap::Rank,
        -10 => Trap::Tag,
        -11 => Trap::Counter,
        -12 => Trap::Sends,
        -13 => Trap::Verdict,
        -14 => Trap::Length,
        -16 => Trap::Barred,
        _ => Trap::Engine,
    }
}

#[cfg(test)]
mod tests {
    use super::{number_of, trap_of};

    #[test]
    fn every_trap_comes_back_from_its_number() {
        for number in -16..0 {
            assert_eq!(number_of(trap_of(number)), number);
        }
    }
}
