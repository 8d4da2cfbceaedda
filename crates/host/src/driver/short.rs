//! Calls that most often end at once: a message that goes out, a receive or a schedule whose message is about to come.
//!
//! They take the lock without entering: nothing that others wait for changes, so they neither turn the NIC, nor take over
//! from whoever drives it, nor tell anybody when they leave. What does not end like that enters, and goes on as every
//! other call does.

use std::sync::Arc;

use ferrywire_nic::{
    Awaited, Fault, Mask, MatchWord, Mode, Outcome, Peer, Posted, Schedule, Span, Ticket,
};

use super::{AbortOnUnwind, Driver, Inside};
use crate::lock::Guard;
use crate::rail::Rail;
use crate::trace;
use crate::turn::Core;

impl Driver {
    /// Sends a message.
    ///
    /// # Safety
    /// As for [`Driver::submit`].
    #[inline(always)]
    pub unsafe fn post_send(&self, to: Peer, word: MatchWord, source: Span, mode: Mode) -> Posted {
        let mut core = self.shared.core.lock();
        if !send_at_once(&mut core, to, word, source, mode) {
            return self.post_send_inside(core, to, word, source, mode);
        }
        self.leave_after_send(core);
        Posted::Done(Outcome::Done)
    }

    /// Sends a message, and waits until its bytes are no longer needed.
    ///
    /// # Safety
    /// As for [`Driver::submit`].
    #[inline(always)]
    pub unsafe fn send(&self, to: Peer, word: MatchWord, source: Span, mode: Mode) -> Outcome {
        let mut core = self.shared.core.lock();
        if !send_at_once(&mut core, to, word, source, mode) {
            return self.send_inside(core, to, word, source, mode);
        }
        self.leave_after_send(core);
        Outcome::Done
    }

    /// Sends a message that does not go out at once.
    #[cold]
    #[inline(never)]
    fn post_send_inside(
        &self,
        core: Guard<'_, Core>,
        to: Peer,
        word: MatchWord,
        source: Span,
        mode: Mode,
    ) -> Posted {
        let mut inside = self.inside_with(core);
        let Core { nic, port, .. } = &mut *inside.core;
        nic.post_send(to, word, source, mode, port)
    }

    /// Sends a message that does not go out at once, and waits.
    #[cold]
    #[inline(never)]
    fn send_inside(
        &self,
        core: Guard<'_, Core>,
        to: Peer,
        word: MatchWord,
        source: Span,
        mode: Mode,
    ) -> Outcome {
        let mut inside = self.inside_with(core);
        let Core { nic, port, .. } = &mut *inside.core;
        let posted = nic.post_send(to, word, source, mode, port);
        inside.end(posted)
    }

    /// Starts to receive a message, unless `lost` names a sender that is lost, as in [`Driver::receive`].
    ///
    /// # Safety
    /// As for [`Driver::submit`].
    #[inline(always)]
    pub unsafe fn post_receive(
        &self,
        from: Option<Peer>,
        word: MatchWord,
        mask: Mask,
        into: Span,
        lost: impl FnOnce() -> Option<Peer>,
    ) -> Posted {
        let mut core = self.shared.core.lock();
        if let Some(peer) = lost() {
            return Posted::Done(Outcome::Failed(Fault::PeerDown(peer)));
        }
        let count = core.port.completions.count;
        let unwound = AbortOnUnwind;
        let Core { nic, port, .. } = &mut *core;
        let posted = nic.post_receive(from, word, mask, into, port);
        unwound.has_not_happened();
        if core.port.is_traced {
            self.trace_receive(posted);
        }
        match core.may_leave_behind() {
            true => posted,
            false => self.leave_since(core, count, posted),
        }
    }

    /// Receives a message, and waits for it, unless `lost` names a sender that is lost. Ranks are lost under the lock,
    /// so it is asked under the lock.
    ///
    /// # Safety
    /// As for [`Driver::submit`].
    #[inline(always)]
    pub unsafe fn receive(
        &self,
        from: Option<Peer>,
        word: MatchWord,
        mask: Mask,
        into: Span,
        lost: impl FnOnce() -> Option<Peer>,
    ) -> Outcome {
        let mut core = self.shared.core.lock();
        if let Some(peer) = lost() {
            return Outcome::Failed(Fault::PeerDown(peer));
        }
        let count = core.port.completions.count;
        if core.may_await() && core.nic.await_receive(from, word, mask, into) {
            let unwound = AbortOnUnwind;
            let awaited = core.look_for_awaited(&self.shared);
            unwound.has_not_happened();
            return match posted(awaited) {
                // What came meanwhile may have left something to do.
                Posted::Done(outcome) if core.may_await() => outcome,
                posted => self.end_since(core, count, posted),
            };
        }
        self.receive_among_others(core, from, word, mask, into)
    }

    /// Receives a message where others wait, or other receives.
    #[inline(never)]
    fn receive_among_others(
        &self,
        mut core: Guard<'_, Core>,
        from: Option<Peer>,
        word: MatchWord,
        mask: Mask,
        into: Span,
    ) -> Outcome {
        let count = core.port.completions.count;
        let may_await = core.may_await();
        let unwound = AbortOnUnwind;
        let Core { nic, port, .. } = &mut *core;
        let awaited = match may_await {
            true => nic.receive_or_await(from, word, mask, into, port),
            false => None,
        };
        let posted = match awaited {
            Some(Awaited::Open) => posted(core.look_for_awaited(&self.shared)),
            Some(awaited) => posted(awaited),
            None => nic.post_receive(from, word, mask, into, port),
        };
        unwound.has_not_happened();
        match posted {
            Posted::Done(outcome) if core.may_leave_since(count) => outcome,
            posted => self.inside(core, count).end(posted),
        }
    }

    /// Runs a schedule that consults no functions, and waits until it is over or releases the caller. Also returns its
    /// ticket, if it had one.
    ///
    /// # Safety
    /// As for [`Driver::submit`].
    #[inline(always)]
    pub unsafe fn perform_schedule(
        &self,
        schedule: &Arc<Schedule>,
        instance: u16,
    ) -> (Option<Ticket>, Outcome) {
        let mut core = self.shared.core.lock();
        let count = core.port.completions.count;
        let may_await = core.may_await();
        let unwound = AbortOnUnwind;
        let Core { nic, port, .. } = &mut *core;
        let posted = match may_await {
            false => nic.post_kept_schedule(schedule, instance, port),
            true => match nic.await_schedule(schedule, instance, port) {
                Awaited::Open => posted(core.look_for_awaited(&self.shared)),
                awaited => posted(awaited),
            },
        };
        unwound.has_not_happened();
        match posted {
            // What came meanwhile may have left something to do.
            Posted::Done(outcome) if core.may_await() => (None, outcome),
            Posted::Done(_) => (None, self.end_since(core, count, posted)),
            Posted::Pending(ticket) => (Some(ticket), self.end_since(core, count, posted)),
        }
    }

    /// Adds a receive that was posted to the trace, if there is one.
    #[cold]
    #[inline(never)]
    pub fn trace_receive(&self, posted: Posted) {
        match posted {
            Posted::Done(outcome) => trace::received(outcome),
            Posted::Pending(ticket) => trace::posted(self.shared.plane.number(), ticket),
        }
    }

    /// Waits for what has been posted since there were `count` completions.
    #[inline(never)]
    fn end_since(&self, core: Guard<'_, Core>, count: u64, posted: Posted) -> Outcome {
        self.inside(core, count).end(posted)
    }

    /// Leaves after something was posted, since there were `count` completions.
    #[inline(never)]
    fn leave_since(&self, core: Guard<'_, Core>, count: u64, posted: Posted) -> Posted {
        drop(self.inside(core, count));
        posted
    }

    /// Leaves after a message that has gone out at once.
    #[inline(always)]
    fn leave_after_send(&self, core: Guard<'_, Core>) {
        if !core.may_leave() {
            self.leave_slowly(core);
        }
    }

    #[cold]
    #[inline(never)]
    fn leave_slowly(&self, core: Guard<'_, Core>) {
        drop(self.inside_with(core));
    }

    /// Enters with the lock, under which nothing has happened yet.
    #[inline(always)]
    fn inside_with<'a>(&'a self, core: Guard<'a, Core>) -> Inside<'a> {
        let count = core.port.completions.count;
        self.inside(core, count)
    }
}

impl Inside<'_> {
    /// Waits for what has been posted.
    #[inline(always)]
    fn end(&mut self, posted: Posted) -> Outcome {
        match posted {
            Posted::Done(outcome) => outcome,
            Posted::Pending(ticket) => {
                // A turn polls for arrivals before it flushes.
                self.core.port.rail.flush();
                self.wait(ticket)
            }
        }
    }
}

/// Sends a message, if it can go out at once: then nothing else has changed.
#[inline(always)]
fn send_at_once(core: &mut Core, to: Peer, word: MatchWord, source: Span, mode: Mode) -> bool {
    let unwound = AbortOnUnwind;
    let Core { nic, port, .. } = core;
    let sent = nic.send_at_once(to, word, source, mode, port);
    unwound.has_not_happened();
    sent
}

/// What has become of a receive that was awaited for a while.
#[inline(always)]
fn posted(awaited: Awaited) -> Posted {
    match awaited {
        Awaited::Over(outcome) => Posted::Done(outcome),
        Awaited::Posted(ticket) => Posted::Pending(ticket),
        Awaited::Open => unreachable!("it has been posted"),
    }
}
