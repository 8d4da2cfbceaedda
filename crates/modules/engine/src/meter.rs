//! What it costs a module to ask for something.
//!
//! A unit of fuel is about one instruction, a fraction of a nanosecond. What a module asks of the NIC takes
//! longer than the one call instruction that wasmtime counts, so it is charged here, before it is
//! done. The numbers are of the order of what was measured; that they are the same everywhere matters more.

use wasmtime::{Caller, Result, Trap};

use crate::instance::State;

/// To ask what the message says.
pub(crate) const QUESTION: u64 = 16;

/// To look at the clock.
pub(crate) const CLOCK: u64 = 64;

/// To raise or arm a counter.
pub(crate) const COUNTER: u64 = 64;

/// To move bytes between memory and payload, besides what the bytes cost.
pub(crate) const MOVE: u64 = 32;

/// To send or forward, besides what the bytes cost.
pub(crate) const SEND: u64 = 512;

/// What bytes cost: they are moved sixteen at a time.
pub(crate) fn bytes(len: usize) -> u64 {
    len.div_ceil(16) as u64
}

/// Takes fuel. With too little of it the module ends here.
pub(crate) fn charge(caller: &mut Caller<'_, State>, fuel: u64) -> Result<()> {
    match caller.get_fuel()?.checked_sub(fuel) {
        Some(rest) => caller.set_fuel(rest),
        None => {
            // It tried to use it all: that is what is booked.
            caller.set_fuel(0)?;
            Err(Trap::OutOfFuel.into())
        }
    }
}
