//! The API for modules in Rust.
//!
//! A module is a small program that runs where messages arrive, once for each message of its communicator. It is a
//! value with a [`Module::on_message`], registered with [`module!`]:
//!
//! ```
//! #![cfg_attr(target_arch = "wasm32", no_std)]
//!
//! use ferrywire_module::{Module, Verdict};
//!
//! /// Answers each request, which has an even tag, with how many there have been, and the tag plus
//! /// one. An answer comes to the module of the rank that asked, which delivers it.
//! struct Tally {
//!     requests: u64,
//! }
//!
//! impl Module for Tally {
//!     fn on_message(&mut self) -> Verdict {
//!         let tag = ferrywire_module::tag();
//!         if tag % 2 == 1 {
//!             return Verdict::Deliver;
//!         }
//!         self.requests += 1;
//!         let answer = self.requests.to_le_bytes();
//!         ferrywire_module::send(ferrywire_module::sender(), tag + 1, &answer);
//!         Verdict::Consume
//!     }
//! }
//!
//! ferrywire_module::module!(Tally = Tally { requests: 0 });
//! ```
//!
//! The crate of a module has `crate-type = ["cdylib"]`, and is compiled to WebAssembly with a stack that fits into the
//! memory of a module:
//!
//! ```sh
//! RUSTFLAGS="-C link-arg=-zstack-size=8192 -C strip=symbols" \
//!     cargo build --release --target wasm32-unknown-unknown
//! ```
//!
//! Ranks are those of the module's communicator. An impossible request (a rank that does not exist, an invalid tag,
//! bytes beyond the payload) does not return an error: the module stops, its message ends with a fault, and the owner
//! is told. The same holds for a panic. The module keeps its state from one message to the next, also after a fault,
//! and what was sent before a fault is sent: check a message before you act on it.
//!
//! On other targets this crate can be built and documented, but its functions panic.
#![no_std]

// Invariants, cited below by number.
//   I1. The NIC reads and writes memory of the module only during a call, and only the bytes that the
//       call names.
//   I2. The NIC runs one hook of a module at a time, to its end, on one thread. A hook that was stopped
//       by a fault never resumes.

use core::cell::UnsafeCell;

/// The longest message that a module receives, in bytes.
pub const MESSAGE_BYTES_MAX: usize = 65536;

/// Sends, replies and forwards that a module may make for one message.
pub const SENDS_MAX: usize = 64;

/// Number of counters of a module.
pub const COUNTERS: u32 = 8;

/// The hooks of a module.
pub trait Module {
    /// Called when the module is loaded, for example to fill tables. There is no message yet: calling a function of
    /// this crate here makes loading fail.
    fn on_load(&mut self) {}

    /// Called for each message.
    fn on_message(&mut self) -> Verdict;

    /// Called when a counter has reached the value that it was armed for. There is no message: its length is 0, its
    /// sender this rank.
    fn on_counter(&mut self, counter: u32) {
        let _ = counter;
    }
}

/// The fate of a message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// It goes to the application, and is matched like any other.
    Deliver = 0,
    /// It ends in the module.
    Consume = 1,
}

/// Registers a value as the module of this crate: `module!(Type = value)`. The value must be a constant expression. Use
/// it once in a crate.
#[macro_export]
macro_rules! module {
    ($type:ty = $value:expr) => {
        const _: () = {
            static STATE: $crate::State<$type> = $crate::State::new($value);

            #[unsafe(export_name = "on_load")]
            extern "C" fn on_load() {
                // SAFETY: only these three hooks can name STATE, and the NIC runs one at a time.
                $crate::Module::on_load(unsafe { STATE.borrow() });
            }

            #[unsafe(export_name = "on_message")]
            extern "C" fn on_message() -> i32 {
                // SAFETY: as above.
                $crate::Module::on_message(unsafe { STATE.borrow() }) as i32
            }

            #[unsafe(export_name = "on_counter")]
            extern "C" fn on_counter(counter: u32) {
                // SAFETY: as above.
                $crate::Module::on_counter(unsafe { STATE.borrow() }, counter);
            }
        };
    };
}

/// The rank that the module runs on.
pub fn rank() -> u32 {
    imports::rank()
}

/// Number of ranks.
pub fn size() -> u32 {
    imports::size()
}

/// The sender of the message.
pub fn sender() -> u32 {
    imports::sender()
}

/// The tag of the message.
pub fn tag() -> u32 {
    imports::tag()
}

/// The length of the message, in bytes.
pub fn length() -> usize {
    imports::length()
}

/// Nanoseconds since a moment that is fixed while the job runs.
pub fn now() -> u64 {
    imports::now()
}

/// Copies bytes of the payload, from an offset on, until `into` is full.
pub fn read(offset: usize, into: &mut [u8]) {
    // SAFETY: I1: the slice is ours to write until the call is over.
    unsafe { imports::read(into.as_mut_ptr(), offset, into.len()) }
}

/// Bytes of the payload, from an offset on. `u64::from_le_bytes(read_array(8))` reads a number.
pub fn read_array<const BYTES: usize>(offset: usize) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    read(offset, &mut bytes);
    bytes
}

/// Changes bytes of the payload: they are delivered or forwarded in place of the original.
pub fn write(offset: usize, from: &[u8]) {
    // SAFETY: I1: nothing changes the slice until the call is over.
    unsafe { imports::write(offset, from.as_ptr(), from.len()) }
}

/// Sends the message, as it is now, to the module on a rank. It keeps its sender and its tag.
pub fn forward(to: u32) {
    imports::forward(to);
}

/// Sends bytes to the module on a rank, with this rank as the sender.
pub fn send(to: u32, tag: u32, bytes: &[u8]) {
    // SAFETY: I1: nothing changes the slice until the call is over.
    unsafe { imports::send(to, tag, bytes.as_ptr(), bytes.len()) }
}

/// Sends bytes to the sender of the message, with its tag.
pub fn reply(bytes: &[u8]) {
    // SAFETY: I1: nothing changes the slice until the call is over.
    unsafe { imports::reply(bytes.as_ptr(), bytes.len()) }
}

/// Raises one of the counters, which the application can wait for.
pub fn raise(counter: u32, by: u64) {
    imports::raise(counter, by);
}

/// Asks for one [`Module::on_counter`] when the counter reaches this value.
pub fn arm(counter: u32, at_least: u64) {
    imports::arm(counter, at_least);
}

/// Fails: the message ends with a fault.
pub fn fail() -> ! {
    imports::fail()
}

/// Where [`module!`] keeps the module between messages.
///
/// It does not track borrows: a hook that was stopped by a fault would never return its borrow.
#[doc(hidden)]
pub struct State<T>(UnsafeCell<T>);

// SAFETY: the value is accessed through `borrow` alone, whose caller ensures that there is one borrow at a time.
unsafe impl<T: Send> Sync for State<T> {}

impl<T> State<T> {
    pub const fn new(value: T) -> State<T> {
        State(UnsafeCell::new(value))
    }

    /// # Safety
    ///
    /// No other borrow is in use: only hooks borrow, each once, and by I2 one hook runs at a time.
    #[allow(clippy::mut_from_ref)]
    pub unsafe fn borrow(&self) -> &mut T {
        // SAFETY: the caller promises that it is the only borrow.
        unsafe { &mut *self.0.get() }
    }
}

/// The imports from the NIC, in its types. Numbers are 32 bits wide there, as is an address.
#[cfg(target_arch = "wasm32")]
mod imports {
    #[link(wasm_import_module = "ferry")]
    unsafe extern "C" {
        pub(crate) safe fn rank() -> u32;
        pub(crate) safe fn size() -> u32;
        pub(crate) safe fn sender() -> u32;
        pub(crate) safe fn tag() -> u32;
        pub(crate) safe fn length() -> usize;
        pub(crate) safe fn now() -> u64;
        pub(crate) fn read(into: *mut u8, offset: usize, bytes: usize);
        pub(crate) fn write(offset: usize, from: *const u8, bytes: usize);
        pub(crate) safe fn forward(to: u32);
        pub(crate) fn send(to: u32, tag: u32, from: *const u8, bytes: usize);
        pub(crate) fn reply(from: *const u8, bytes: usize);
        pub(crate) safe fn raise(counter: u32, by: u64);
        pub(crate) safe fn arm(counter: u32, at_least: u64);
    }

    pub(crate) fn fail() -> ! {
        core::arch::wasm32::unreachable()
    }

    /// Ends the call without a message: nothing could print it, and the text would be most of the module.
    #[panic_handler]
    fn on_panic(_: &core::panic::PanicInfo<'_>) -> ! {
        fail()
    }
}

/// The same functions where there is no NIC.
#[cfg(not(target_arch = "wasm32"))]
mod imports {
    pub(crate) fn rank() -> u32 {
        fail()
    }

    pub(crate) fn size() -> u32 {
        fail()
    }

    pub(crate) fn sender() -> u32 {
        fail()
    }

    pub(crate) fn tag() -> u32 {
        fail()
    }

    pub(crate) fn length() -> usize {
        fail()
    }

    pub(crate) fn now() -> u64 {
        fail()
    }

    pub(crate) unsafe fn read(_into: *mut u8, _offset: usize, _bytes: usize) {
        fail()
    }

    pub(crate) unsafe fn write(_offset: usize, _from: *const u8, _bytes: usize) {
        fail()
    }

    pub(crate) fn forward(_to: u32) {
        fail()
    }

    pub(crate) unsafe fn send(_to: u32, _tag: u32, _from: *const u8, _bytes: usize) {
        fail()
    }

    pub(crate) unsafe fn reply(_from: *const u8, _bytes: usize) {
        fail()
    }

    pub(crate) fn raise(_counter: u32, _by: u64) {
        fail()
    }

    pub(crate) fn arm(_counter: u32, _at_least: u64) {
        fail()
    }

    pub(crate) fn fail() -> ! {
        panic!(
            "a module runs on a NIC: compile it for wasm32-unknown-unknown and load it into a job"
        )
    }
}
