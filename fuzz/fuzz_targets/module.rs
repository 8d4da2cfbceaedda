//! Any bytes as a module: they are accepted or refused, and an accepted module starts and answers, or is stopped.
//!
//! The engine is linked, not loaded, so that the fuzzer sees into it.
#![no_main]

use std::sync::LazyLock;

use ferrywire_modules::{Budget, Engine};
use ferrywire_nic::{Hook, Module, Trap};
use libfuzzer_sys::fuzz_target;

static ENGINE: LazyLock<Engine> = LazyLock::new(|| Engine::linked(&ferry_modules::TABLE));

fuzz_target!(|bytes: &[u8]| {
    let budget = Budget { fuel: 50_000, ..Budget::default() };
    let Ok(code) = ENGINE.compile(bytes, &budget) else {
        return;
    };
    assert!(code.facts().memory_bytes_min <= budget.memory_bytes);
    let Ok(mut module) = code.start() else {
        return;
    };
    let mut hook = Sender { payload: *b"0123456789" };
    // Both answer or trap; what matters is that they return.
    let _ = module.on_message(&mut hook);
    let _ = module.on_counter(1, &mut hook);
    assert!(module.fuel_used() <= 3 * budget.fuel);
});

/// A hook that allows a module everything.
struct Sender {
    payload: [u8; 10],
}

impl Hook for Sender {
    fn message(&self) -> ferrywire_nic::Message<'_> {
        ferrywire_nic::Message { rank: 0, size: 2, sender: 1, tag: 0, payload: &self.payload }
    }

    fn payload_mut(&mut self) -> &mut [u8] {
        &mut self.payload
    }

    fn forward(&mut self, _to: u32) -> Result<(), Trap> {
        Ok(())
    }

    fn send(&mut self, _to: u32, _tag: u32, bytes: &[u8]) -> Result<(), Trap> {
        // The sanitizer checks that all of them can be read.
        std::hint::black_box(bytes.to_vec());
        Ok(())
    }

    fn raise(&mut self, _counter: u32, _by: u64) -> Result<(), Trap> {
        Ok(())
    }

    fn arm(&mut self, _counter: u32, _at_least: u64) -> Result<(), Trap> {
        Ok(())
    }

    fn now(&self) -> u64 {
        0
    }
}
