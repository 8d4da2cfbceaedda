//! Runs a module on made-up messages, without a NIC.

use ferrywire_nic::{Hook, MODULE_COUNTERS, MatchWord, Module, Trap, Verdict};

/// A hook that checks what a module asks for as the NIC does, and then does nothing.
pub(crate) struct Nowhere {
    payload: Vec<u8>,
    tag: u32,
    sends: u32,
}

/// A job of two ranks: the module runs in rank 0, and rank 1 has sent the message.
const RANK: u32 = 0;
const SENDER: u32 = 1;
const SIZE: u32 = 2;
/// As in `Limits::default`.
const SENDS_MAX: u32 = 64;

impl Nowhere {
    pub(crate) fn new(len: usize, tag: u32) -> Nowhere {
        Nowhere { payload: vec![0; len], tag, sends: 0 }
    }

    /// Runs a module for the message.
    #[inline]
    pub(crate) fn offer(&mut self, module: &mut dyn Module) -> Result<Verdict, Trap> {
        self.sends = 0;
        module.on_message(self)
    }

    /// How many messages the module sent in the last call of `offer`.
    pub(crate) fn sends(&self) -> u32 {
        self.sends
    }
}

impl Hook for Nowhere {
    fn message(&self) -> ferrywire_nic::Message<'_> {
        ferrywire_nic::Message {
            rank: RANK,
            size: SIZE,
            sender: SENDER,
            tag: self.tag,
            payload: &self.payload,
        }
    }

    fn payload_mut(&mut self) -> &mut [u8] {
        &mut self.payload
    }

    fn forward(&mut self, to: u32) -> Result<(), Trap> {
        self.send(to, 0, &[])
    }

    fn send(&mut self, to: u32, tag: u32, _: &[u8]) -> Result<(), Trap> {
        if self.sends >= SENDS_MAX {
            return Err(Trap::Sends);
        }
        if to >= SIZE {
            return Err(Trap::Rank);
        }
        if tag > MatchWord::TAG_MAX {
            return Err(Trap::Tag);
        }
        self.sends += 1;
        Ok(())
    }

    fn raise(&mut self, counter: u32, _: u64) -> Result<(), Trap> {
        if counter < MODULE_COUNTERS { Ok(()) } else { Err(Trap::Counter) }
    }

    fn arm(&mut self, counter: u32, _: u64) -> Result<(), Trap> {
        self.raise(counter, 0)
    }

    fn now(&self) -> u64 {
        0
    }
}
