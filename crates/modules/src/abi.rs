//! The boundary between the client and the engine library: all that the two must agree on.
//!
//! The library exports one function, [`ENTRY`], which returns a [`Table`] of functions. The first word of the table is
//! the version of this file, in every version; any change below changes [`VERSION`]. Memory that one side allocates is
//! never freed by the other: text goes through a [`Sink`], and objects of the engine are returned to it for release.
//!
//! Invariants, cited by number where they are relied on:
//!   B1. A `Message` and the hook behind its `context` live until the call that they are given to has returned, and
//!       nothing else accesses them until then.
//!   B2. A `RawCode`, `RawInstance` or `RawOperator` was returned by `compile`, `start` or `start_operator`, is not null
//!       and not yet released.
//!   B3. An instance or an operator runs one call at a time. Code may be used by many threads at once.
//!   B4. A pointer and the length passed with it name that many readable bytes, until the call returns.

use core::ffi::{CStr, c_void};

use ferrywire_nic::Trap;

use crate::Budget;

/// The version of everything below.
pub const VERSION: u32 = 2;

/// The file name of the engine.
pub const LIBRARY: &str = "libferry_modules.so";

/// The symbol that the library must export.
pub const ENTRY: &CStr = c"ferry_module_engine";

/// The type of [`ENTRY`]. The table that it returns is never freed or changed.
pub type Entry = unsafe extern "C" fn() -> *const Table;

/// The functions of the engine.
#[repr(C)]
pub struct Table {
    /// [`VERSION`], as the engine was built. It is checked before anything else is used.
    pub version: u32,
    /// Compiles `.wasm` bytes or `.wat` text. Null if refused; the sink has received the reason.
    pub compile: unsafe extern "C" fn(
        bytes: *const u8,
        len: usize,
        budget: *const Budget,
        why_not: *const Sink,
    ) -> *mut RawCode,
    /// Describes code; the sinks receive one name at a time.
    pub facts: unsafe extern "C" fn(
        code: *const RawCode,
        imports: *const Sink,
        exports: *const Sink,
    ) -> RawFacts,
    /// Starts a live module. Null if refused; the sink has received the reason. The callbacks are kept, and must live
    /// as long as the instance.
    pub start: unsafe extern "C" fn(
        code: *const RawCode,
        callbacks: *const Callbacks,
        why_not: *const Sink,
    ) -> *mut RawInstance,
    /// Runs a module for a message. Returns [`DELIVER`], [`CONSUME`] or a trap's number.
    pub on_message: unsafe extern "C" fn(instance: *mut RawInstance, message: *mut Message) -> i32,
    /// Runs a module for a counter. Returns [`DONE`] or a trap's number.
    pub on_counter: unsafe extern "C" fn(
        instance: *mut RawInstance,
        counter: u32,
        message: *mut Message,
    ) -> i32,
    /// The total fuel that a module has used.
    pub fuel_used: unsafe extern "C" fn(instance: *const RawInstance) -> u64,
    /// Starts a live operator. Like `start`.
    pub start_operator: unsafe extern "C" fn(
        code: *const RawCode,
        callbacks: *const Callbacks,
        why_not: *const Sink,
    ) -> *mut RawOperator,
    /// Combines the `len` bytes at `from` into as many others at `into`: elements of `element_bytes` each, of which there
    /// is a whole number. Returns [`DONE`] or a trap's number.
    pub combine: unsafe extern "C" fn(
        operator: *mut RawOperator,
        from: *const u8,
        into: *mut u8,
        len: usize,
        element_bytes: usize,
    ) -> i32,
    /// Releases code.
    pub release_code: unsafe extern "C" fn(code: *mut RawCode),
    /// Releases an instance.
    pub release_instance: unsafe extern "C" fn(instance: *mut RawInstance),
    /// Releases an operator.
    pub release_operator: unsafe extern "C" fn(operator: *mut RawOperator),
}

/// Compiled code, opaque to the client.
#[repr(C)]
pub struct RawCode {
    _opaque: [u8; 0],
}

/// A live module, opaque to the client.
#[repr(C)]
pub struct RawInstance {
    _opaque: [u8; 0],
}

/// A live operator, opaque to the client.
#[repr(C)]
pub struct RawOperator {
    _opaque: [u8; 0],
}

/// The message that a module is called for. It is built for each call, and holds what nearly every module reads, so
/// that no callback is needed.
#[repr(C)]
pub struct Message {
    /// The rank that the module runs on.
    pub rank: u32,
    /// The number of ranks in its group.
    pub size: u32,
    /// The source in the message's match word.
    pub sender: u32,
    /// The tag of the message.
    pub tag: u32,
    /// The bytes of the message. If null, they may have moved, and [`Callbacks::payload`] returns where they are. The
    /// engine writes null here after each callback that could move them.
    pub payload: *const u8,
    /// The length of the message.
    pub len: usize,
    /// The first argument of all callbacks.
    pub context: *mut c_void,
}

/// Mutable bytes.
#[repr(C)]
pub struct Bytes {
    /// Their address.
    pub start: *mut u8,
    /// Their number.
    pub len: usize,
}

/// Functions that the engine may call while a module runs. `context` is that of the message; those that return `i32`
/// return [`DONE`] or a trap's number.
#[repr(C)]
pub struct Callbacks {
    /// The bytes of the message, read-only.
    pub payload: unsafe extern "C" fn(context: *mut c_void) -> Bytes,
    /// The bytes of the message, mutable.
    pub payload_mut: unsafe extern "C" fn(context: *mut c_void) -> Bytes,
    /// Forwards the message.
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

/// Receives text from the other side.
#[repr(C)]
pub struct Sink {
    /// The first argument of `take`.
    pub context: *mut c_void,
    /// Called with the bytes of a text, which it copies.
    pub take: unsafe extern "C" fn(context: *mut c_void, bytes: *const u8, len: usize),
}

/// The numbers among the facts.
#[repr(C)]
pub struct RawFacts {
    /// Initial size of the memory.
    pub memory_bytes_min: u64,
    /// Maximum size of the memory.
    pub memory_bytes_max: u64,
    /// The length of the WebAssembly.
    pub wasm_bytes: u64,
    /// The length of the machine code.
    pub machine_bytes: u64,
    /// Compile time.
    pub compile_ns: u64,
}

/// The message goes to the application.
pub const DELIVER: i32 = 0;

/// The message ends in the module.
pub const CONSUME: i32 = 1;

/// The longest element that an operator combines.
pub const ELEMENT_BYTES_MAX: usize = 32 << 10;

/// The request succeeded.
pub const DONE: i32 = 0;

/// The number of a trap: negative, to differ from every verdict.
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

/// The trap of a number. An invalid number is a fault of the engine, and is reported as such.
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
