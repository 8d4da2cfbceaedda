//! Who drives the NIC: the thread that calls, while it is inside; the agent, while the application
//! is away and something is outstanding.
//!
//! One lock guards the NIC and all that belongs to it. Of several threads that wait, one is the
//! *leader*: it turns, spins and sleeps at the doorbell. The others park until their operation is
//! over or the leader leaves. When the last thread leaves and something is outstanding, the
//! doorbell is armed for the agent; if nothing is, nobody rings and nobody wakes.
//!
//! Operators of the user's are run by threads of the user's that wait or look, without the lock and
//! without leading: an operator may call us, and others who wait go on meanwhile. Where a rank has several
//! planes, all its threads may wait in others, and the agent runs what nobody else comes for.

use std::io;
use std::sync::{Arc, OnceLock};
use std::task::{Poll, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use ferrywire_nic::{Departure, Limits, Nic, Outcome, Peer, Posted, Ticket};

use crate::agent::Agent;
use crate::agent_wakeup::AgentWakeup;
use crate::completion::{Completions, Keep, Sleeping};
use crate::lock::{Guard, Lock};
use crate::port::{HostPort, Operators};
use crate::rail::Rail;
use crate::rails::{self, Here};
use crate::shm::doorbell::{Doorbell, Sleeper};
use crate::shm::plane::{Bell, Plane};
use crate::shm::segment::Attention;
use crate::turn::{Core, Turns};
use crate::wait_policy::{Next, WaitPolicy};

/// A rank in a plane of its job: a NIC, what it needs of the world, and who turns it.
pub struct Driver {
    shared: Arc<Shared>,
    /// Started when it is first needed, if it can be.
    agent: OnceLock<Option<Agent>>,
}

/// What the agent has in common with the callers.
pub(crate) struct Shared {
    pub(crate) core: Lock<Core>,
    pub(crate) plane: Plane,
    /// Ours, in the plane.
    bell: Bell,
    attention: &'static Attention,
    pub(crate) agent_wakeup: AgentWakeup,
    me: u32,
}

impl Driver {
    /// The driver of rank `me` in a plane that it has opened. There must be only one.
    pub(crate) fn new(
        plane: Plane,
        me: u32,
        limits: Limits,
        operators: Operators,
    ) -> io::Result<Driver> {
        let here = Here::of(plane.net.as_ref(), plane.segment.ranks());
        let local_rank = here.local_rank(Peer(me)).expect("a rank is on its own host").0;
        let (rail, inlet) = rails::open(&plane, local_rank, limits.credit_bytes);
        let nic = Nic::new(Peer(me), plane.segment.job(), limits);
        let core = Core::new(nic, HostPort::new(rail, operators), inlet, here);
        Ok(Driver {
            shared: Arc::new(Shared {
                core: Lock::new(core)?,
                bell: plane.doorbell(local_rank),
                attention: plane.attention(local_rank),
                agent_wakeup: AgentWakeup::new(),
                plane,
                me,
            }),
            agent: OnceLock::new(),
        })
    }

    /// Whether this process was forked from the one whose driver it is. Then nothing can be asked of it: whoever tries ends
    /// the process.
    pub fn is_forked(&self) -> bool {
        self.shared.core.is_forked()
    }

    /// Who we are.
    pub fn me(&self) -> Peer {
        Peer(self.shared.me)
    }

    /// How many we are.
    pub fn size(&self) -> u32 {
        let plane = &self.shared.plane;
        plane.net.as_ref().map_or(plane.segment.ranks(), |net| net.directory.size())
    }

    /// Why `peer` cannot be reached, if the machine is to blame.
    pub fn trouble(&self, peer: Peer) -> Option<String> {
        self.enter().core.troubles.get(&peer).cloned()
    }

    /// Reads what the NIC says of itself, such as its statistics. `read` must not call the driver.
    pub fn inspect<T>(&self, read: impl FnOnce(&Nic) -> T) -> T {
        read(&self.shared.core.lock().nic)
    }

    /// How often the NIC has been turned, and by whom.
    pub fn turns(&self) -> Turns {
        self.shared.core.lock().turns
    }

    /// Asks the NIC for something.
    ///
    /// # Safety
    /// Every span that `ask` gives to the NIC is memory that the caller may lend, and that stays
    /// lent until the operation it belongs to is over: read by nobody if it will be written, and
    /// written by nobody.
    #[inline]
    pub unsafe fn submit<T>(&self, ask: impl FnOnce(&mut Nic, &mut HostPort) -> T) -> T {
        let mut inside = self.enter();
        let Core { nic, port, .. } = &mut *inside.core;
        ask(nic, port)
    }

    /// Asks the NIC for something, and waits until it is over.
    ///
    /// # Safety
    /// As for [`Driver::submit`].
    #[inline]
    pub unsafe fn perform(&self, ask: impl FnOnce(&mut Nic, &mut HostPort) -> Posted) -> Outcome {
        // SAFETY: whoever calls this vouches for what it lends.
        unsafe { self.perform_schedule(ask) }.1
    }

    /// The same, and says under which ticket, if it had one: a released schedule goes on under it.
    ///
    /// # Safety
    /// As for [`Driver::submit`].
    #[inline(always)]
    pub unsafe fn perform_schedule(
        &self,
        ask: impl FnOnce(&mut Nic, &mut HostPort) -> Posted,
    ) -> (Option<Ticket>, Outcome) {
        let mut inside = self.enter();
        let Core { nic, port, .. } = &mut *inside.core;
        match ask(nic, port) {
            Posted::Done(outcome) => (None, outcome),
            Posted::Pending(ticket) => {
                // A turn looks for arrivals before it lets anything go.
                port.rail.flush();
                (Some(ticket), inside.wait(ticket))
            }
        }
    }

    /// Waits until an operation is over. A released schedule counts as such; it goes on.
    pub fn wait(&self, ticket: Ticket) -> Outcome {
        self.enter().wait(ticket)
    }

    /// Waits until all these operations are over, and tells how each ended, in their order.
    pub fn wait_each(&self, tickets: impl Iterator<Item = Ticket>, mut told: impl FnMut(Outcome)) {
        let mut inside = self.enter();
        tickets.for_each(|ticket| told(inside.wait(ticket)));
    }

    /// How an operation ended, if it has.
    pub fn test(&self, ticket: Ticket) -> Option<Outcome> {
        let mut inside = self.enter();
        if let Some(outcome) = inside.core.port.completions.take(ticket) {
            return Some(outcome);
        }
        inside.turn();
        inside.core.port.completions.take(ticket)
    }

    /// The same for tasks: if it is not over, `waker` is woken when it is.
    pub fn poll(&self, ticket: Ticket, waker: &Waker) -> Poll<Outcome> {
        let mut inside = self.enter();
        if let Some(outcome) = inside.core.port.completions.take(ticket) {
            return Poll::Ready(outcome);
        }
        inside.turn();
        let completions = &mut inside.core.port.completions;
        match completions.take(ticket) {
            Some(outcome) => Poll::Ready(outcome),
            None => {
                completions.watch(ticket, Sleeping::Task(waker.clone()));
                Poll::Pending
            }
        }
    }

    /// Waits until `look` has found among the outcomes that are there what it wants. It is asked
    /// whenever something has ended, and must not call the driver.
    pub fn wait_until<T>(&self, mut look: impl FnMut(&mut Finished<'_>) -> Option<T>) -> T {
        let mut inside = self.enter();
        let mut look = |core: &mut Core| look(&mut Finished(&mut core.port.completions));
        match look(&mut inside.core) {
            Some(found) => found,
            None => inside.drive(None, look),
        }
    }

    /// Turns once, and lets `look` see which outcomes are there. It must not call the driver.
    pub fn look<T>(&self, look: impl FnOnce(&mut Finished<'_>) -> T) -> T {
        let mut inside = self.enter();
        inside.turn();
        look(&mut Finished(&mut inside.core.port.completions))
    }

    /// Waits until one of these operations is over: which, and how it ended. For ever, if all of them
    /// have been told before.
    pub fn wait_any(&self, tickets: &[Ticket]) -> (usize, Outcome) {
        self.wait_until(|finished| {
            let mut each = tickets.iter().enumerate();
            each.find_map(|(at, &ticket)| Some((at, finished.take(ticket)?)))
        })
    }

    /// Looks around until `look` finds something.
    ///
    /// # Safety
    /// As for [`Driver::submit`].
    pub unsafe fn wait_for<T>(
        &self,
        mut look: impl FnMut(&mut Nic, &mut HostPort) -> Option<T>,
    ) -> T {
        let mut inside = self.enter();
        inside.drive(None, |core| look(&mut core.nic, &mut core.port))
    }

    /// Looks around once.
    pub fn turn(&self) {
        self.enter().turn();
    }

    /// Nobody will ask how an operation ended. `keep` lives until it has.
    pub fn detach(&self, ticket: Ticket, keep: Option<Keep>) {
        self.enter().core.port.completions.detach(ticket, keep);
    }

    /// Takes an operation back, if it is not too late; either way it ends.
    pub fn cancel(&self, ticket: Ticket) {
        let mut inside = self.enter();
        let Core { nic, port, .. } = &mut *inside.core;
        nic.cancel(ticket, port);
    }

    #[inline(always)]
    fn enter(&self) -> Inside<'_> {
        let core = self.shared.core.lock();
        let panicking = std::thread::panicking();
        let mut inside = Inside { core, driver: self, count: 0, panicking };
        inside.come();
        inside
    }

    /// Nothing is moved straight between this rank's memory and others' any more, in its name.
    pub(crate) fn stop_transfers(&self) {
        let mut inside = self.enter();
        inside.core.stopped = true;
        inside.core.port.transfers.clear();
    }

    /// Everything open ends, and so does whatever is posted from now on, as if everybody were gone.
    pub(crate) fn give_up(&self, because_of: Peer) {
        let mut inside = self.enter();
        let Core { nic, port, .. } = &mut *inside.core;
        nic.abandon_wildcards(because_of, port);
        (0..self.size()).for_each(|rank| nic.on_peer_down(Peer(rank), port));
    }

    /// `waker` is woken whenever a peer is found to be gone.
    pub(crate) fn watch_deaths(&self, waker: Waker) {
        self.enter().core.failure_waker = Some(waker);
    }

    /// Whether the launcher has said that `peer` is gone, or it has said so itself.
    pub(crate) fn is_declared_gone(&self, peer: Peer) -> bool {
        let inside = self.enter();
        let plane = &self.shared.plane;
        let near =
            inside.core.here.local_rank(peer).is_some_and(|local_rank| plane.is_gone(local_rank.0));
        near || plane.net.as_ref().is_some_and(|net| net.directory.is_gone(peer.0))
    }

    /// How a peer went that is gone. Ranks of other hosts leave together with us, so that whoever of them is gone has died.
    pub(crate) fn departure_of(&self, peer: Peer) -> Departure {
        let local_rank = self.enter().core.here.local_rank(peer);
        match local_rank.is_some_and(|local_rank| self.shared.plane.segment.has_left(local_rank.0))
        {
            true => Departure::Left,
            false => Departure::Died,
        }
    }

    /// Whether ranks of the job are on other hosts.
    pub fn has_other_hosts(&self) -> bool {
        self.shared.plane.net.is_some()
    }

    /// Whether the ranks of the job share cores.
    pub fn is_oversubscribed(&self) -> bool {
        self.shared.plane.segment.is_oversubscribed()
    }

    /// The rank is leaving: the agent goes, and nobody calls it any more.
    pub(crate) fn close(&self) {
        self.enter().core.closing = true;
    }

    /// Whoever sleeps on this host shall look: somebody has left, or is gone.
    pub(crate) fn wake_all(&self) {
        self.shared.plane.wake_all();
    }

    /// Waits until nothing of ours is on its way.
    pub(crate) fn drain(&self) {
        let mut inside = self.enter();
        inside.core.draining = true;
        inside.drive(None, |core| core.is_quiet().then_some(()));
        inside.core.draining = false;
    }

    /// Turns once, and says whether nothing of ours is on its way.
    pub(crate) fn is_quiet(&self) -> bool {
        let mut inside = self.enter();
        inside.turn();
        inside.core.is_quiet()
    }

    /// Ends the agent, if there is one. The driver is closed already.
    pub(crate) fn end_agent(&mut self) {
        if let Some(agent) = self.agent.take().flatten() {
            agent.end(&self.shared);
        }
    }

    /// `thread` is woken when something happens. False if something has since there were `count`
    /// completions, or waits to be done.
    pub(crate) fn enlist(&self, thread: &Thread, count: u64) -> bool {
        let mut core = self.shared.core.lock();
        core.waiters.push(thread.clone());
        core.port.completions.count == count && core.port.reductions.is_empty()
    }

    /// It is not, any more.
    pub(crate) fn strike(&self, thread: &Thread) {
        self.shared.core.lock().waiters.retain(|waiter| waiter.id() != thread.id());
    }
}

/// The outcomes that are there, for those who wait for several operations.
pub struct Finished<'a>(&'a mut Completions);

impl Finished<'_> {
    /// How the operation ended, if it has. It is told once.
    pub fn take(&mut self, ticket: Ticket) -> Option<Outcome> {
        self.0.take(ticket)
    }

    /// Completions since the beginning.
    pub(crate) fn count(&self) -> u64 {
        self.0.count
    }
}

/// A thread of the application inside the library.
struct Inside<'a> {
    core: Guard<'a, Core>,
    driver: &'a Driver,
    /// Completions when we came.
    count: u64,
    /// Whether the thread was unwinding already when it came.
    panicking: bool,
}

impl Inside<'_> {
    #[inline(always)]
    fn wait(&mut self, ticket: Ticket) -> Outcome {
        if let Some(outcome) = self.core.port.completions.take(ticket) {
            return outcome;
        }
        self.drive(Some(ticket), |core| core.port.completions.take(ticket))
    }

    /// Turns once, and does what is left to threads of the user's.
    fn turn(&mut self) {
        self.relieve_agent();
        self.core.turn(&self.driver.shared);
        if !self.core.port.reductions.is_empty() {
            self.reduce();
        }
    }

    /// Turns until `over` says so.
    #[inline]
    fn drive<T>(
        &mut self,
        ticket: Option<Ticket>,
        mut over: impl FnMut(&mut Core) -> Option<T>,
    ) -> T {
        loop {
            if self.core.led
                && let Some(result) = self.follow(ticket, &mut over)
            {
                return result;
            }
            if let Some(result) = self.lead(ticket, &mut over) {
                return result;
            }
            self.reduce();
            if let Some(result) = over(&mut self.core) {
                return result;
            }
        }
    }

    /// Turns as the leader until `over` says so. Nothing if there is an operator of the user's to run.
    #[inline]
    fn lead<T>(
        &mut self,
        ticket: Option<Ticket>,
        over: &mut impl FnMut(&mut Core) -> Option<T>,
    ) -> Option<T> {
        let shared = &*self.driver.shared;
        // Between two leaders the agent may have armed the doorbell for itself.
        self.relieve_agent();
        self.core.led = true;
        shared.attention.set(true);
        self.core.leader_looks = ticket.is_none();
        let mut policy =
            WaitPolicy::new(shared.plane.segment.is_oversubscribed(), &self.core.spin_budget);
        let mut napped = false;
        let mut asleep_since = None;
        let result = loop {
            let busy = self.core.turn(shared);
            if let Some(result) = over(&mut self.core) {
                break Some(result);
            }
            if !self.core.port.reductions.is_empty() {
                break None;
            }
            if busy {
                policy.renew();
                self.core.wake_waiters();
                // Where something always happens nobody yields, and what a task does may be what we wait for.
                if self.wake_others() {
                    continue;
                }
            }
            if shared.core.is_wanted() {
                self.wake_others();
                self.core.give_way();
                continue;
            }
            match policy.next() {
                Next::Look => std::hint::spin_loop(),
                Next::Yield => {
                    self.wake_others();
                    self.core.unlocked(std::thread::yield_now);
                }
                // Whoever was let in meanwhile may have brought what we wait for.
                Next::Sleep if self.wake_others() => {}
                Next::Sleep => {
                    let since = *asleep_since.get_or_insert_with(Instant::now);
                    napped = self.sleep(napped);
                    if !napped {
                        self.core.spin_budget.learn(since.elapsed());
                        asleep_since = None;
                    }
                }
            }
        };
        if napped {
            shared.doorbell().disarm();
        }
        self.core.led = false;
        shared.attention.set(false);
        result
    }

    /// Waits while another thread leads. Nothing if it is our turn to lead.
    #[cold]
    fn follow<T>(
        &mut self,
        ticket: Option<Ticket>,
        over: &mut impl FnMut(&mut Core) -> Option<T>,
    ) -> Option<T> {
        // What we did before may be what they wait for.
        self.core.wake_waiters();
        self.wake_others();
        while self.core.led {
            if let Some(result) = over(&mut self.core) {
                return Some(result);
            }
            let me = std::thread::current();
            match ticket {
                Some(ticket) => {
                    self.core.port.completions.watch(ticket, Sleeping::Thread(me.clone()));
                }
                None => self.core.waiters.push(me.clone()),
            }
            self.core.followers.push(me.clone());
            // What we have asked for may be the leader's to do.
            self.rouse_leader();
            self.core.unlocked(std::thread::park);
            self.core.followers.retain(|thread| thread.id() != me.id());
            self.core.waiters.retain(|thread| thread.id() != me.id());
        }
        over(&mut self.core)
    }

    /// Sleeps at the doorbell, where ringers have no fence only for a nap at first. True if it was one
    /// and nobody has rung: the doorbell stays armed, and whatever was on its way when it was armed has
    /// been seen by the time that we come again.
    #[cold]
    fn sleep(&mut self, napped: bool) -> bool {
        let shared = &*self.driver.shared;
        let doorbell = shared.doorbell();
        let settled = napped && doorbell.is_armed();
        if !settled {
            doorbell.arm(Sleeper::Caller, true);
        }
        let leaving = self.core.closing || self.core.draining;
        let stuck = leaving || self.core.port.rail.is_stuck();
        let moved = stuck && self.core.port.rail.want_room(leaving);
        // One last look: whoever came before the doorbell was armed did not ring.
        if moved || self.core.has_work_for_caller(shared) {
            doorbell.disarm();
            return false;
        }
        let roomy = !shared.plane.segment.is_oversubscribed();
        let short = roomy && (!settled || stuck);
        let timeout = [short.then_some(NAP), self.core.timeout()].into_iter().flatten().min();
        self.core.leader_asleep = true;
        self.core.unlocked(|| shared.sleep(Sleeper::Caller, timeout));
        self.core.leader_asleep = false;
        if short && doorbell.is_armed() {
            return true;
        }
        doorbell.disarm();
        false
    }

    /// Runs the operators of the user's that wait for it. Nobody holds the lock meanwhile, nor do we
    /// lead: they may call us, and whoever else waits turns. Nobody calls the agent: most of them are
    /// done before it would be awake.
    #[cold]
    fn reduce(&mut self) {
        while let Some(reduction) = self.core.port.reductions.pop() {
            self.tell_others();
            self.core.unlocked(|| reduction.run());
            self.come();
            let Core { nic, port, .. } = &mut *self.core;
            nic.on_reduced(reduction.step, port);
        }
    }

    /// Wakes those whose operations are over. They may call us at once, so nobody holds the lock
    /// meanwhile. True if there were any.
    #[inline(always)]
    fn wake_others(&mut self) -> bool {
        let any = !self.core.port.completions.to_wake.is_empty();
        if any {
            let list = std::mem::take(&mut self.core.port.completions.to_wake);
            self.core.unlocked(|| list.into_iter().for_each(Sleeping::wake));
        }
        any
    }

    /// What happens from now on is news.
    #[inline(always)]
    fn come(&mut self) {
        self.count = self.core.port.completions.count;
    }

    /// Nobody rings for the agent from now on.
    #[inline(always)]
    fn relieve_agent(&mut self) {
        self.core.agent_handover.stand_down(self.driver.shared.doorbell());
    }

    /// The application goes: somebody else may have to look after what is outstanding.
    #[inline(always)]
    fn leave(&mut self) {
        self.core.port.rail.flush();
        let others = self.tell_others();
        if self.core.agent_handover.is_guarded() && !self.core.port.rail.shm.pressing {
            // We only asked for something, and the agent is still at the doorbell.
            return;
        }
        if !others && self.core.is_expecting() {
            self.core.agent_handover.count_handover();
            if !self.core.busy {
                self.hand_over();
            }
        }
    }

    /// Those who wait inside may have to look after it. True if there are any.
    #[inline(always)]
    fn tell_others(&mut self) -> bool {
        if !self.core.waiters.is_empty() {
            self.core.wake_waiters();
        }
        self.core.call_tasks();
        self.wake_others();
        if self.core.led {
            self.rouse_leader();
        } else if let Some(next) = self.core.followers.first() {
            next.unpark();
        } else {
            return false;
        }
        true
    }

    /// The leader sleeps, and what we did may be what it waits for, or leave it something to do.
    fn rouse_leader(&mut self) {
        let core = &*self.core;
        if core.leader_asleep {
            let shared = &*self.driver.shared;
            let news = core.leader_looks || core.port.completions.count != self.count;
            if news || core.has_work_for_caller(shared) || core.port.rail.is_stuck() {
                shared.ring();
            }
        }
    }

    /// The agent looks after what is outstanding.
    #[inline(never)]
    fn hand_over(&mut self) {
        if self.core.closing {
            return;
        }
        let shared = &self.driver.shared;
        let oversubscribed = shared.plane.segment.is_oversubscribed();
        self.core.port.rail.shm.pressing = false;
        let idle = self.core.agent_handover.hand_over(shared.doorbell(), oversubscribed);
        let moved = self.core.port.rail.is_stuck() && self.core.port.rail.want_room(false);
        // What is there already does not ring. Where ringers have no fence the agent looks by itself now
        // and then, so only what nobody else will ever do is worth waking it for.
        let waiting = match oversubscribed {
            true => moved || self.core.has_work(shared),
            false => moved || !self.core.port.transfers.is_empty() || self.core.nic.is_busy(),
        };
        if self.driver.agent.get().is_none() {
            self.driver.agent.get_or_init(|| Agent::start(Arc::clone(shared)));
        } else if idle {
            shared.agent_wakeup.call();
            shared.ring();
        } else if waiting {
            shared.ring();
        }
    }
}

impl Drop for Inside<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if std::thread::panicking() != self.panicking {
            // A bug of ours. Buffers that are lent would be taken back without the NIC knowing it.
            std::process::abort();
        }
        self.leave();
    }
}

impl Shared {
    pub(crate) fn doorbell(&self) -> &Doorbell {
        self.bell.doorbell
    }

    /// Whoever sleeps for this rank shall look.
    pub(crate) fn ring(&self) {
        self.bell.ring(true);
    }

    pub(crate) fn sleep(&self, who: Sleeper, timeout: Option<Duration>) {
        self.bell.sleep(who, timeout);
    }
}

/// Long enough for any store to arrive: see `doorbell.rs`.
const NAP: Duration = Duration::from_micros(200);
