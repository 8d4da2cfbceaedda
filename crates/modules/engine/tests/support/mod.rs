//! A hook that acts like a NIC and records what it is asked for; the examples, compiled.

#![allow(dead_code, reason = "each test program uses a part of it")]

pub(crate) mod example;

use ferrywire_modules::{Budget, Code, Engine, Instance, Refusal};
use ferrywire_nic::{Hook, Trap};

/// A request of a module.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Asked {
    Forward { to: u32, bytes: Vec<u8> },
    Send { to: u32, tag: u32, bytes: Vec<u8> },
    Raise { counter: u32, by: u64 },
    Arm { counter: u32, at_least: u64 },
}

/// The hook of the tests: rank 2 of 4, and a message from rank 1 with tag 7.
pub(crate) struct Recorder {
    pub(crate) payload: Vec<u8>,
    pub(crate) asked: Vec<Asked>,
    pub(crate) sends_max: usize,
}

impl Recorder {
    pub(crate) fn new(payload: &[u8]) -> Recorder {
        Recorder { payload: payload.to_vec(), asked: Vec::new(), sends_max: 16 }
    }

    fn sends(&self) -> usize {
        let sends = |asked: &&Asked| matches!(asked, Asked::Forward { .. } | Asked::Send { .. });
        self.asked.iter().filter(sends).count()
    }

    fn may_send(&self, to: u32) -> Result<(), Trap> {
        match to {
            0..4 if self.sends() < self.sends_max => Ok(()),
            0..4 => Err(Trap::Sends),
            _ => Err(Trap::Rank),
        }
    }
}

impl Hook for Recorder {
    fn message(&self) -> ferrywire_nic::Message<'_> {
        ferrywire_nic::Message { rank: 2, size: 4, sender: 1, tag: 7, payload: &self.payload }
    }

    fn payload_mut(&mut self) -> &mut [u8] {
        // A NIC may copy the payload when a module wants to change it. So does this one: pointers to the payload that
        // the engine had become stale.
        self.payload = self.payload.clone();
        &mut self.payload
    }

    fn forward(&mut self, to: u32) -> Result<(), Trap> {
        self.may_send(to)?;
        self.asked.push(Asked::Forward { to, bytes: self.payload.clone() });
        self.payload = self.payload.clone();
        Ok(())
    }

    fn send(&mut self, to: u32, tag: u32, bytes: &[u8]) -> Result<(), Trap> {
        self.may_send(to)?;
        self.asked.push(Asked::Send { to, tag, bytes: bytes.to_vec() });
        Ok(())
    }

    fn raise(&mut self, counter: u32, by: u64) -> Result<(), Trap> {
        if counter >= 8 {
            return Err(Trap::Counter);
        }
        self.asked.push(Asked::Raise { counter, by });
        Ok(())
    }

    fn arm(&mut self, counter: u32, at_least: u64) -> Result<(), Trap> {
        self.asked.push(Asked::Arm { counter, at_least });
        Ok(())
    }

    fn now(&self) -> u64 {
        1234
    }
}

/// Compiles with the loaded library, as applications do.
pub(crate) fn compile(text: &str) -> Result<Code, Refusal> {
    compile_within(text, &Budget::default())
}

pub(crate) fn compile_within(text: &str, budget: &Budget) -> Result<Code, Refusal> {
    Engine::open(|_| None).expect("the build put it here").compile(text.as_bytes(), budget)
}

/// Starts a module from valid text.
pub(crate) fn start(text: &str) -> Instance {
    let code = compile(text).unwrap_or_else(|refusal| panic!("{refusal}\n{text}"));
    code.start().unwrap_or_else(|refusal| panic!("{refusal}\n{text}"))
}
