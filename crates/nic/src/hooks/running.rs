//! A running module: the calls that it may make.

use alloc::vec::Vec;

use crate::canary::Bug;
use crate::counter::{Counter, TriggerAction};
use crate::module::{Hook, Message, Trap};
use crate::nic::{Nic, Variant};
use crate::port::Port;
use crate::types::Peer;
use crate::word::MatchWord;

/// A running module, and what it can reach.
pub(super) struct Running<'a, V: Variant, P: Port> {
    pub(super) nic: &'a mut Nic<V>,
    pub(super) port: &'a mut P,
    pub(super) at: usize,
    pub(super) rank: u32,
    pub(super) size: u32,
    pub(super) word: MatchWord,
    pub(super) payload: &'a [u8],
    pub(super) scratch: &'a mut Vec<u8>,
    pub(super) changed: bool,
    pub(super) sent: u32,
}

impl<V: Variant, P: Port> Running<'_, V, P> {
    fn may_send(&mut self, to: u32, len: usize) -> Result<Peer, Trap> {
        let limits = &self.nic.limits;
        if self.sent >= limits.module_sends_max {
            return Err(Trap::Sends);
        }
        if len > limits.module_bytes_max as usize {
            return Err(Trap::Length);
        }
        let peer =
            (to < self.size).then(|| (self.nic.modules.loaded[self.at].placement.peer_of)(to));
        let peer = peer.flatten().ok_or(Trap::Rank)?;
        self.sent += 1;
        Ok(peer)
    }

    fn counter(&mut self, counter: u32) -> Result<Counter, Trap> {
        let group = self.word.group();
        self.nic.module_counter(group, counter).ok_or(Trap::Counter)
    }
}

impl<V: Variant, P: Port> Hook for Running<'_, V, P> {
    fn message(&self) -> Message<'_> {
        Message {
            rank: self.rank,
            size: self.size,
            sender: self.word.source(),
            tag: self.word.tag(),
            payload: if self.changed { self.scratch } else { self.payload },
        }
    }

    fn payload_mut(&mut self) -> &mut [u8] {
        if !self.changed {
            self.scratch.clear();
            self.scratch.extend_from_slice(self.payload);
            self.changed = true;
        }
        self.scratch
    }

    fn forward(&mut self, to: u32) -> Result<(), Trap> {
        let len = self.payload().len();
        let peer = self.may_send(to, len)?;
        let Running { nic, port, word, changed, scratch, payload, .. } = self;
        let bytes = if *changed { scratch } else { *payload };
        nic.send_kept(word.group(), peer, *word, bytes, *port);
        if V::has(Bug::ForwardedTwice) {
            nic.send_kept(word.group(), peer, *word, bytes, *port);
        }
        Ok(())
    }

    fn send(&mut self, to: u32, tag: u32, bytes: &[u8]) -> Result<(), Trap> {
        if tag > MatchWord::TAG_MAX {
            return Err(Trap::Tag);
        }
        let peer = self.may_send(to, bytes.len())?;
        let group = self.word.group();
        self.nic.send_kept(group, peer, MatchWord::new(group, self.rank, tag), bytes, self.port);
        Ok(())
    }

    fn raise(&mut self, counter: u32, by: u64) -> Result<(), Trap> {
        let counter = self.counter(counter)?;
        self.nic.raise_counter(counter.0, by, self.port);
        Ok(())
    }

    fn arm(&mut self, counter: u32, at_least: u64) -> Result<(), Trap> {
        let (group, opened) = (self.word.group(), self.counter(counter)?);
        let action = TriggerAction::Module { group, counter };
        if self.nic.counters.set(opened, at_least, action).is_some() {
            self.nic.on_module_counter(group, counter);
        }
        Ok(())
    }

    fn now(&self) -> u64 {
        self.port.clock().0
    }
}
