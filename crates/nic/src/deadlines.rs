//! When the timer of each peer is due.

use alloc::collections::BTreeSet;

use crate::types::{Peer, Time};

/// The deadlines of all peers, and the one that the port knows of.
#[derive(Debug, Default)]
pub(crate) struct Deadlines {
    list: BTreeSet<(Time, Peer)>,
    armed: Option<Time>,
    /// Whether the first deadline may not be the armed one. A flag, because every event checks it.
    changed: bool,
}

impl Deadlines {
    pub(crate) fn insert(&mut self, at: Time, peer: Peer) {
        self.list.insert((at, peer));
        self.changed = true;
    }

    pub(crate) fn remove(&mut self, at: Time, peer: Peer) {
        self.list.remove(&(at, peer));
        self.changed = true;
    }

    /// The port has called, and will not call again unless it is asked to.
    pub(crate) fn on_timer(&mut self) {
        self.armed = None;
        self.changed = true;
    }

    /// Takes a peer whose deadline has passed.
    pub(crate) fn pop(&mut self, now: Time) -> Option<Peer> {
        self.list.first().filter(|(at, _)| *at <= now)?;
        self.list.pop_first().map(|(_, peer)| peer)
    }

    #[inline(always)]
    pub(crate) fn have_changed(&self) -> bool {
        self.changed
    }

    /// What the port has to be told, if anything: the first deadline.
    pub(crate) fn take_change(&mut self) -> Option<Option<Time>> {
        self.changed = false;
        let first = self.list.first().map(|&(at, _)| at);
        let known = core::mem::replace(&mut self.armed, first);
        (first != known).then_some(first)
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.list.len() * 2 * size_of::<(Time, Peer)>()
    }
}
