//! Fuel costs of the imports.
//!
//! A unit of fuel is about one instruction, a fraction of a nanosecond. A request to the NIC takes longer than the one
//! call instruction that wasmtime counts, so it is charged here, before it is carried out. The numbers have the order
//! of magnitude of measurements; that they are the same everywhere matters more.

use wasmtime::{Caller, Result, Trap};

use crate::instance::State;

/// Reading a property of the message.
pub(crate) const QUESTION: u64 = 16;

/// Reading the clock.
pub(crate) const CLOCK: u64 = 64;

/// Raising or arming a counter.
pub(crate) const COUNTER: u64 = 64;

/// Moving bytes between memory and payload, in addition to the cost of the bytes.
pub(crate) const MOVE: u64 = 32;

/// Sending or forwarding, in addition to the cost of the bytes.
pub(crate) const SEND: u64 = 512;

/// The cost of bytes: they are moved sixteen at a time.
pub(crate) fn bytes(len: usize) -> u64 {
    len.div_ceil(16) as u64
}

/// Takes fuel. If too little is left, the call ends here.
pub(crate) fn charge(caller: &mut Caller<'_, State>, fuel: u64) -> Result<()> {
    match caller.get_fuel()?.checked_sub(fuel) {
        Some(rest) => caller.set_fuel(rest),
        None => {
            // Counts as using all of it.
            caller.set_fuel(0)?;
            Err(Trap::OutOfFuel.into())
        }
    }
}
