//! Decides which thread drives the NIC: a calling thread while it is inside the library, the agent while the
//! application is away and operations are outstanding.
//!
//! One lock guards the NIC and everything that belongs to it. Of several waiting threads, one is the *leader*: it
//! turns, spins and sleeps at the doorbell. The others park until their operation is over or the leader leaves. When
//! the last thread leaves with operations outstanding and will not be back soon (`absence.rs`), it arms the doorbell for
//! the agent; otherwise the doorbell stays disarmed and no thread is woken. `duty.rs` has the rules. Most messages need
//! none of this: `driver/short.rs`.
//!
//! User-defined operators run on application threads that wait or poll, without the lock and without leading: an
//! operator may call the library, and other waiting threads make progress meanwhile. The agent runs none. What the NIC
//! reports is passed on in the same way (`report.rs`). If a rank has several planes, a waiting thread looks into all of
//! them (`around.rs`), so that no operator waits for a thread.

mod short;

use std::io;
use std::sync::{Arc, OnceLock};
use std::task::{Poll, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use ferrywire_nic::{Departure, Limits, Nic, Outcome, Peer, Port, Posted, Ticket};

use crate::agent::Agent;
use crate::completion::{Completions, Keep, Sleeping};
use crate::duty::{Phase, Ringers, Wants};
use crate::facts::{FactsPage, Page, Waiting};
use crate::here::Here;
use crate::lock::{Guard, Lock};
use crate::own_planes::OwnPlanes;
use crate::port::{HostPort, Operators};
use crate::rail::Rail;
use crate::rails;
use crate::report::Reporter;
use crate::shm::doorbell::{Arming, Doorbell, Sleeper};
use crate::shm::plane::{Bell, Plane};
use crate::shm::segment::Attention;
use crate::sys::schedule::current_core;
use crate::turn::{Core, Turns};
use crate::wait_policy::{Next, WaitPolicy};

/// A rank in one plane of its job: a NIC, its port, and the threads that turn it.
pub struct Driver {
    shared: Arc<Shared>,
    /// What the rank tells about itself.
    facts: FactsPage,
    /// Started when first needed; `None` inside if it could not be started.
    agent: OnceLock<Option<Agent>>,
}

/// State shared by the agent and the callers.
pub(crate) struct Shared {
    pub(crate) core: Lock<Core>,
    pub(crate) plane: Plane,
    /// The doorbell of this rank in the plane.
    bell: Bell,
    attention: &'static Attention,
    facts: FactsPage,
    /// All planes of the rank, this one too.
    planes: OwnPlanes,
    me: u32,
}

impl Driver {
    /// Creates the driver of rank `me` in a plane that the rank has opened. A rank has only one driver in each plane.
    pub(crate) fn new(
        plane: Plane,
        me: u32,
        limits: Limits,
        operators: Operators,
        facts: FactsPage,
        planes: &OwnPlanes,
    ) -> io::Result<Driver> {
        let here = Here::of(plane.net.as_ref(), &plane.segment);
        let local_rank = here.local_rank(Peer(me)).expect("a rank is on its own host").0;
        let (rail, inlet) = rails::open(&plane, local_rank, limits.credit_bytes);
        let nic = Nic::new(Peer(me), plane.segment.job(), limits);
        let ringers = match (plane.segment.is_fenced(), &plane.net) {
            (false, _) => Ringers::Unfenced,
            (true, None) => Ringers::Fenced,
            (true, Some(_)) => Ringers::FencedWithSocket,
        };
        let core =
            Core::new(nic, HostPort::new(rail, operators, plane.number()), inlet, here, ringers);
        let shared = Arc::new(Shared {
            core: Lock::new(core)?,
            bell: plane.doorbell(local_rank),
            attention: plane.attention(local_rank),
            facts: facts.clone(),
            planes: planes.clone(),
            plane,
            me,
        });
        planes.add(&shared);
        Ok(Driver { facts, shared, agent: OnceLock::new() })
    }

    /// Whether this process was forked from the one that owns the driver. Using the driver in such a child ends the
    /// process.
    pub fn is_forked(&self) -> bool {
        self.shared.core.is_forked()
    }

    /// What the rank tells about itself.
    #[inline(always)]
    pub fn facts(&self) -> &Page {
        &self.facts
    }

    /// The rank of this driver.
    pub fn me(&self) -> Peer {
        Peer(self.shared.me)
    }

    /// The number of ranks in the job when it began.
    pub fn size(&self) -> u32 {
        let plane = &self.shared.plane;
        plane.net.as_ref().map_or(plane.segment.ranks(), |net| net.directory.size())
    }

    /// The numbers of all peers that there are or were.
    pub(crate) fn peers(&self) -> impl Iterator<Item = Peer> {
        let plane = &self.shared.plane;
        let near = plane.net.is_none().then(|| 0..plane.ranks_so_far());
        let far = plane.net.iter().flat_map(|net| net.directory.peers());
        near.into_iter().flatten().chain(far).map(Peer)
    }

    /// The most peers that there can ever be.
    pub fn peers_max(&self) -> u32 {
        let plane = &self.shared.plane;
        plane.net.as_ref().map_or(plane.segment.ranks_max(), |net| net.directory.peers_max())
    }

    /// Whether there is or was such a peer.
    pub fn knows(&self, peer: Peer) -> bool {
        let plane = &self.shared.plane;
        match &plane.net {
            None => peer.0 < plane.ranks_so_far(),
            Some(net) => net.directory.place(peer.0).is_some(),
        }
    }

    /// Why `peer` cannot be reached, if the operating system or the network is the cause.
    pub fn trouble(&self, peer: Peer) -> Option<String> {
        self.enter().core.troubles.get(&peer).cloned()
    }

    /// Reads state of the NIC, such as its statistics. `read` must not call the driver.
    pub fn inspect<T>(&self, read: impl FnOnce(&Nic) -> T) -> T {
        read(&self.shared.core.lock().nic)
    }

    /// How often the NIC has been turned, in total and by the agent.
    pub fn turns(&self) -> Turns {
        self.shared.core.lock().turns
    }

    /// Calls the NIC under the lock.
    ///
    /// # Safety
    /// Every span that `ask` gives to the NIC is memory that the caller may lend. It stays lent until its operation is
    /// over: nothing else writes it meanwhile, and nothing else reads it if the operation writes it.
    #[inline]
    pub unsafe fn submit<T>(&self, ask: impl FnOnce(&mut Nic, &mut HostPort) -> T) -> T {
        let mut inside = self.enter();
        let Core { nic, port, .. } = &mut *inside.core;
        ask(nic, port)
    }

    /// Posts an operation and waits until it is over. Also returns its ticket, if it had one: a released schedule
    /// continues under it.
    ///
    /// # Safety
    /// As for [`Driver::submit`].
    #[inline(always)]
    pub unsafe fn post_and_wait(
        &self,
        ask: impl FnOnce(&mut Nic, &mut HostPort) -> Posted,
    ) -> (Option<Ticket>, Outcome) {
        let mut inside = self.enter();
        let Core { nic, port, .. } = &mut *inside.core;
        match ask(nic, port) {
            Posted::Done(outcome) => (None, outcome),
            Posted::Pending(ticket) => {
                // A turn polls for arrivals before it flushes.
                port.rail.flush();
                (Some(ticket), inside.wait(ticket))
            }
        }
    }

    /// Waits until an operation is over. A released schedule counts as over, although it continues.
    pub fn wait(&self, ticket: Ticket) -> Outcome {
        self.enter().wait(ticket)
    }

    /// Waits until all these operations are over, and passes each outcome to `told`, in order.
    pub fn wait_each(&self, tickets: impl Iterator<Item = Ticket>, mut told: impl FnMut(Outcome)) {
        let mut inside = self.enter();
        tickets.for_each(|ticket| told(inside.wait(ticket)));
    }

    /// The outcome of an operation, if it is over. Turns once.
    pub fn test(&self, ticket: Ticket) -> Option<Outcome> {
        let mut inside = self.enter();
        if let Some(outcome) = inside.core.port.completions.take(ticket) {
            return Some(outcome);
        }
        inside.turn();
        inside.core.port.completions.take(ticket)
    }

    /// Like [`Driver::test`], for async tasks: wakes `waker` when the operation is over.
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

    /// Waits until `look` finds what it wants among the outcomes. `look` runs whenever an operation has ended, and must
    /// not call the driver.
    pub fn wait_until<T>(&self, mut look: impl FnMut(&mut Finished<'_>) -> Option<T>) -> T {
        let mut inside = self.enter();
        let mut look = |core: &mut Core| look(&mut Finished(&mut core.port.completions));
        match look(&mut inside.core) {
            Some(found) => found,
            None => inside.drive(None, look),
        }
    }

    /// Turns once, then shows `look` the outcomes. `look` must not call the driver.
    pub fn look<T>(&self, look: impl FnOnce(&mut Finished<'_>) -> T) -> T {
        let mut inside = self.enter();
        inside.turn();
        look(&mut Finished(&mut inside.core.port.completions))
    }

    /// Waits until one of these operations is over, and returns its index and outcome. Never returns if all outcomes
    /// have been taken before.
    pub fn wait_any(&self, tickets: &[Ticket]) -> (usize, Outcome) {
        self.wait_until(|finished| {
            let mut each = tickets.iter().enumerate();
            each.find_map(|(at, &ticket)| Some((at, finished.take(ticket)?)))
        })
    }

    /// Turns until `look` finds something.
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

    /// Turns once.
    pub fn turn(&self) {
        self.enter().turn();
    }

    /// Turns until there is nothing to do, and answers whoever asks for the facts of the rank. The calling thread waits for
    /// something other than this NIC.
    pub fn answer(&self) {
        // Looked up first, so that what had arrived when it was asked is handled before the answer.
        let is_asked = self.facts.is_asked();
        let mut inside = self.enter();
        inside.relieve_agent();
        while inside.core.turn(&self.shared) {}
        if is_asked {
            inside.core.answer(&self.shared, true);
        }
    }

    /// Reports to `reporter` from now on.
    pub(crate) fn report_to(&self, reporter: Reporter) {
        self.enter().core.port.reports.begin(reporter);
    }

    /// Detaches an operation: its outcome will not be taken. `keep` lives until the operation is over.
    pub fn detach(&self, ticket: Ticket, keep: Option<Keep>) {
        self.enter().core.port.completions.detach(ticket, keep);
    }

    /// Cancels an operation, if it is not too late. The operation ends either way.
    pub fn cancel(&self, ticket: Ticket) {
        let mut inside = self.enter();
        let Core { nic, port, .. } = &mut *inside.core;
        nic.cancel(ticket, port);
    }

    #[inline(always)]
    fn enter(&self) -> Inside<'_> {
        let core = self.shared.core.lock();
        let count = core.port.completions.count;
        self.inside(core, count)
    }

    /// Enters with the lock, which the caller has held since there were `count` completions.
    #[inline(always)]
    fn inside<'a>(&'a self, core: Guard<'a, Core>, count: u64) -> Inside<'a> {
        let panicking = std::thread::panicking();
        let call = AgentCall { shared: &self.shared, is_due: false };
        let mut inside = Inside { core, driver: self, count, panicking, call };
        inside.end_absence();
        inside
    }

    /// Writes into the facts of the rank what the NIC holds.
    pub(crate) fn publish_facts(&self) {
        self.shared.core.lock().publish(&self.shared);
    }

    /// Stops all direct copies between the memory of this rank and that of others.
    pub(crate) fn stop_transfers(&self) {
        let mut inside = self.enter();
        inside.core.port.transfers.stop();
    }

    /// Ends all open operations, and all that are posted later, as if every peer were gone.
    pub(crate) fn give_up(&self, because_of: Peer) {
        let mut inside = self.enter();
        let Core { nic, port, .. } = &mut *inside.core;
        nic.abandon_unbound(because_of, port);
        self.peers().for_each(|peer| nic.on_peer_down(peer, port));
    }

    /// Wakes `waker` whenever a peer is found to be gone.
    pub(crate) fn watch_deaths(&self, waker: Waker) {
        self.enter().core.failure_waker = Some(waker);
    }

    /// Whether the launcher has declared `peer` gone, or `peer` itself has announced that it left.
    pub(crate) fn is_declared_gone(&self, peer: Peer) -> bool {
        let inside = self.enter();
        let plane = &self.shared.plane;
        let near =
            inside.core.here.local_rank(peer).is_some_and(|local_rank| plane.is_gone(local_rank.0));
        near || plane.net.as_ref().is_some_and(|net| net.directory.is_gone(peer.0))
    }

    /// How a peer that is gone went.
    pub(crate) fn departure_of(&self, peer: Peer) -> Departure {
        let plane = &self.shared.plane;
        let has_left = match self.enter().core.here.local_rank(peer) {
            Some(local_rank) => plane.segment.has_left(local_rank.0),
            None => plane.net.as_ref().is_some_and(|net| net.directory.has_left(peer.0)),
        };
        match has_left {
            true => Departure::Left,
            false => Departure::Died,
        }
    }

    /// Whether ranks of the job are on other hosts.
    pub fn has_other_hosts(&self) -> bool {
        self.shared.plane.net.is_some()
    }

    /// Whether the ranks on this host share cores.
    pub fn is_oversubscribed(&self) -> bool {
        self.shared.plane.segment.is_oversubscribed()
    }

    /// Gives memory back that others would keep for this rank, which has left.
    pub(crate) fn forget_all(&self) {
        self.shared.core.lock().forget_all();
    }

    /// Begins to close the driver: the agent ends, and no thread calls it any more.
    pub(crate) fn close(&self) {
        self.enter().core.duty.enter(Phase::Closing);
    }

    /// Wakes all sleepers on this host, because a rank has left or died.
    pub(crate) fn wake_all(&self) {
        self.shared.plane.wake_all();
    }

    /// Waits until nothing that this rank sent is still on its way.
    pub(crate) fn drain(&self) {
        let mut inside = self.enter();
        inside.core.duty.enter(Phase::Draining);
        inside.drive(None, |core| core.is_quiet().then_some(()));
        inside.core.duty.enter(Phase::Open);
    }

    /// Turns once, and says whether nothing that this rank sent is still on its way.
    pub(crate) fn is_quiet(&self) -> bool {
        let mut inside = self.enter();
        inside.turn();
        inside.core.is_quiet()
    }

    /// Ends the agent, if it runs. The driver is closed already.
    pub(crate) fn end_agent(&mut self) {
        if let Some(agent) = self.agent.take().flatten() {
            agent.end(&self.shared);
        }
    }

    /// Registers `thread` to be woken when something happens. False if there have been completions since there were
    /// `count`, a reduction is waiting to be run, or nobody has looked at what has arrived.
    pub(crate) fn enlist(&self, thread: &Thread, count: u64) -> bool {
        let mut core = self.shared.core.lock();
        core.waiters.push(thread.clone());
        let may_be_missed =
            core.duty.end_patience(self.shared.doorbell()) && core.has_work(&self.shared);
        !may_be_missed && core.port.completions.count == count && core.port.reductions.is_empty()
    }

    /// Removes a thread that [`Driver::enlist`] registered.
    pub(crate) fn strike(&self, thread: &Thread) {
        self.shared.core.lock().waiters.retain(|waiter| waiter.id() != thread.id());
    }
}

/// The outcomes that are available, for a caller that waits for several operations.
pub struct Finished<'a>(&'a mut Completions);

impl Finished<'_> {
    /// The outcome of an operation, if it is over. It can be taken once.
    pub fn take(&mut self, ticket: Ticket) -> Option<Outcome> {
        self.0.take(ticket)
    }

    /// Completions since the beginning.
    pub(crate) fn count(&self) -> u64 {
        self.0.count
    }
}

/// An application thread inside the library, with the lock.
struct Inside<'a> {
    core: Guard<'a, Core>,
    driver: &'a Driver,
    /// Completions when the thread entered.
    count: u64,
    /// Whether the thread was unwinding already when it entered.
    panicking: bool,
    /// Dropped after `core`: the agent that it wakes wants the lock.
    call: AgentCall<'a>,
}

/// Wakes the agent, if that is due, when it is dropped.
struct AgentCall<'a> {
    shared: &'a Shared,
    is_due: bool,
}

impl Drop for AgentCall<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.is_due {
            self.shared.ring();
        }
    }
}

impl Inside<'_> {
    #[inline(always)]
    fn wait(&mut self, ticket: Ticket) -> Outcome {
        if let Some(outcome) = self.core.port.completions.take(ticket) {
            return outcome;
        }
        self.drive(Some(ticket), |core| core.port.completions.take(ticket))
    }

    /// Turns until there is nothing to do, but not for long, runs the user-defined operators that wait, and reports what
    /// there is to report.
    fn turn(&mut self) {
        self.relieve_agent();
        let mut turns = 0;
        while self.core.turn(&self.driver.shared) && turns < TURNS_OF_A_TEST_MAX {
            turns += 1;
        }
        if self.core.is_asked {
            self.core.answer(&self.driver.shared, false);
        }
        if !self.core.port.reductions.is_empty() {
            self.reduce();
        }
        if self.core.port.reports.are_due() {
            self.report();
        }
    }

    /// Turns until `over` returns a result.
    #[inline]
    fn drive<T>(
        &mut self,
        ticket: Option<Ticket>,
        mut over: impl FnMut(&mut Core) -> Option<T>,
    ) -> T {
        loop {
            if self.core.duty.is_led_by_caller()
                && let Some(result) = self.follow(ticket, &mut over)
            {
                return result;
            }
            if let Some(result) = self.lead(ticket, &mut over) {
                return result;
            }
            self.reduce();
            if self.core.port.reports.are_due() {
                self.report();
            }
            if let Some(result) = over(&mut self.core) {
                return result;
            }
        }
    }

    /// Turns as the leader until `over` returns a result. `None` if there is a user-defined operator to run, or something
    /// to report.
    #[inline]
    fn lead<T>(
        &mut self,
        ticket: Option<Ticket>,
        over: &mut impl FnMut(&mut Core) -> Option<T>,
    ) -> Option<T> {
        let shared = &*self.driver.shared;
        let wants = if ticket.is_some() { Wants::Ticket } else { Wants::Anything };
        self.core.duty.lead(wants, shared.doorbell());
        shared.attention.set(true);
        let mut policy =
            WaitPolicy::new(shared.plane.segment.is_oversubscribed(), &self.core.spin_budget);
        let mut nap = None;
        let mut asleep_since = None;
        let mut waiting = None;
        let result = loop {
            let busy = self.core.turn(shared);
            if self.core.is_asked && !busy {
                self.core.answer(shared, waiting.is_some());
            }
            if let Some(result) = over(&mut self.core) {
                break Some(result);
            }
            if !self.core.port.reductions.is_empty() || self.core.port.reports.are_due() {
                break None;
            }
            if busy {
                policy.renew();
                self.core.wake_waiters();
                // While something always happens no thread yields, and a woken task may do what we wait for.
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
                // A thread that got the lock meanwhile may have brought what we wait for.
                Next::Sleep if self.wake_others() => {}
                Next::Sleep => {
                    waiting.get_or_insert_with(|| Waiting::begin(&shared.facts));
                    let since = *asleep_since.get_or_insert_with(Instant::now);
                    nap = self.sleep(nap);
                    if nap.is_none() {
                        self.core.spin_budget.learn(since.elapsed());
                        asleep_since = None;
                    }
                }
            }
        };
        if nap.is_some() {
            shared.doorbell().disarm();
        }
        self.core.duty.step_down();
        shared.attention.set(false);
        result
    }

    /// Waits while another thread leads. `None` if this thread has to lead.
    #[cold]
    fn follow<T>(
        &mut self,
        ticket: Option<Ticket>,
        over: &mut impl FnMut(&mut Core) -> Option<T>,
    ) -> Option<T> {
        // What we did before may be what other threads wait for.
        self.core.wake_waiters();
        self.wake_others();
        let _waiting = Waiting::begin(&self.driver.shared.facts);
        while self.core.duty.is_led_by_caller() {
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
            // The operation that we started may leave the leader something to do.
            self.rouse_leader();
            self.core.unlocked(std::thread::park);
            self.core.followers.retain(|thread| thread.id() != me.id());
            self.core.waiters.retain(|thread| thread.id() != me.id());
        }
        over(&mut self.core)
    }

    /// Sleeps at the doorbell; where ringers have no fence, only for a nap at first. Returns the arming if it was a nap
    /// and nothing rang: the doorbell stays armed, and by the time of the next call, which gets the arming as `nap`,
    /// everything that was on its way when it was armed has been seen.
    #[cold]
    fn sleep(&mut self, nap: Option<Arming>) -> Option<Arming> {
        let shared = &*self.driver.shared;
        let doorbell = shared.doorbell();
        let napped = nap.filter(|&arming| doorbell.arming() == arming);
        let settled = napped.is_some();
        let arming = napped.unwrap_or_else(|| doorbell.arm(Sleeper::Caller));
        let leaving = self.core.duty.phase() != Phase::Open;
        let stuck = leaving || self.core.port.rail.is_stuck();
        let moved = stuck && self.core.port.rail.want_room(leaving);
        // A last look: senders that came before the doorbell was armed did not ring.
        if moved || self.core.has_work_for_caller(shared) {
            doorbell.disarm();
            return None;
        }
        let short = !shared.plane.segment.is_fenced() && (!settled || stuck);
        let timeout = [short.then_some(NAP), self.core.timeout()].into_iter().flatten().min();
        self.core.duty.fall_asleep();
        self.core.unlocked(|| shared.sleep(arming, Sleeper::Caller, timeout));
        self.core.duty.wake_up();
        if short && doorbell.arming() == arming {
            return Some(arming);
        }
        doorbell.disarm();
        None
    }

    /// Runs the user-defined operators that wait, without the lock and without leading: operators may call the library,
    /// and other waiting threads turn meanwhile. The agent is not called: most operators are done before it would be
    /// awake.
    #[cold]
    fn reduce(&mut self) {
        while let Some(reduction) = self.core.port.reductions.pop() {
            self.tell_others();
            self.core.unlocked(|| reduction.run());
            self.count = self.core.port.completions.count;
            self.end_absence();
            let Core { nic, port, .. } = &mut *self.core;
            nic.on_reduced(reduction.step, port);
        }
    }

    /// Passes on what the NIC has reported, without the lock and without leading, because whoever hears of it may call the
    /// library.
    #[cold]
    fn report(&mut self) {
        let reports = self.core.port.reports.take();
        self.tell_others();
        self.core.unlocked(|| reports.tell());
        self.count = self.core.port.completions.count;
        self.end_absence();
    }

    /// Wakes the threads and tasks whose operations are over, without the lock, because they may call the library at
    /// once. True if there were any.
    #[inline(always)]
    fn wake_others(&mut self) -> bool {
        let any = !self.core.port.completions.to_wake.is_empty();
        if any {
            let list = std::mem::take(&mut self.core.port.completions.to_wake);
            self.core.unlocked(|| list.into_iter().for_each(Sleeping::wake));
        }
        any
    }

    /// The application is back.
    #[inline(always)]
    fn end_absence(&mut self) {
        if self.core.absence.is_measured() {
            let now = self.core.port.clock().0;
            self.core.absence.end(now);
        }
    }

    /// Disarms the doorbell if it is armed for the agent.
    #[inline(always)]
    fn relieve_agent(&mut self) {
        self.core.duty.relieve_agent(self.driver.shared.doorbell());
    }

    /// Leaves the library; other threads or the agent may have to drive what is outstanding.
    #[inline(always)]
    fn leave(&mut self) {
        if self.core.port.rail.has_own_frames() {
            self.take_own_frames();
        }
        if self.core.nic.is_short_of_credit() {
            self.take_credit();
        }
        self.core.port.rail.flush();
        if !self.tell_others() && self.core.is_expecting() {
            self.leave_behind();
        }
    }

    /// Decides who drives what is outstanding while no caller is here.
    #[inline(always)]
    fn leave_behind(&mut self) {
        let by = self.core.guarding_agent(&self.driver.shared);
        let Core { nic, port, duty, absence, .. } = &mut *self.core;
        let is_long = (nic.needs_driving() || !absence.is_one_of_many())
            && absence.begin(port.clock().0, nic.operations(), current_core());
        if duty.is_guarded(by) {
            // We only started something, and the agent still guards the doorbell.
            self.call.is_due = self.core.has_unannounced_work();
        } else if is_long || !duty.agent_looks_soon() {
            self.hand_over(by);
        }
    }

    /// Takes what this rank has sent to itself, if an operation may be waiting for it: calling the agent for it would
    /// take longer.
    #[cold]
    fn take_own_frames(&mut self) {
        if self.core.is_expecting() {
            self.core.turn(&self.driver.shared);
        }
    }

    /// Takes the credit that peers have given back, if it has arrived.
    #[cold]
    fn take_credit(&mut self) {
        self.core.nic.note_credit_taken();
        self.core.turn(&self.driver.shared);
    }

    /// Wakes waiting threads that may have to drive what is outstanding. True if there are any.
    #[inline(always)]
    fn tell_others(&mut self) -> bool {
        if !self.core.waiters.is_empty() {
            self.core.wake_waiters();
        }
        self.core.call_tasks();
        self.wake_others();
        if self.core.duty.is_led_by_caller() {
            self.rouse_leader();
        } else if let Some(next) = self.core.followers.first() {
            next.unpark();
        } else {
            return false;
        }
        true
    }

    /// Rings for a sleeping leader if what we did may be what it waits for, or leaves it something to do.
    fn rouse_leader(&mut self) {
        let core = &*self.core;
        if let Some(wants) = core.duty.sleeping_caller() {
            let shared = &*self.driver.shared;
            let news = wants == Wants::Anything || core.port.completions.count != self.count;
            if news || core.has_work_for_caller(shared) || core.port.rail.is_stuck() {
                shared.ring();
            }
        }
    }

    /// Hands what is outstanding to the agent.
    #[inline(never)]
    fn hand_over(&mut self, to: Sleeper) {
        let shared = &self.driver.shared;
        let core = &mut *self.core;
        if core.duty.phase() == Phase::Closing {
            return;
        }
        let must_call = core.duty.hand_over(shared.doorbell(), to);
        let moved = core.port.rail.is_stuck() && core.port.rail.want_room(false);
        // A last look: work that is there already does not ring.
        self.call.is_due = must_call || moved || core.has_work(shared);
        if core.duty.start_agent() {
            self.driver.agent.get_or_init(|| Agent::start(Arc::clone(shared)));
        }
    }
}

impl Drop for Inside<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if std::thread::panicking() != self.panicking {
            drop(AbortOnUnwind);
        }
        self.leave();
    }
}

/// Ends the process when it is dropped: a bug in Ferrywire is unwinding. That would take lent buffers back without the
/// NIC knowing it.
struct AbortOnUnwind;

impl AbortOnUnwind {
    #[inline(always)]
    fn has_not_happened(self) {
        std::mem::forget(self);
    }
}

impl Drop for AbortOnUnwind {
    fn drop(&mut self) {
        std::process::abort();
    }
}

impl Shared {
    pub(crate) fn doorbell(&self) -> &Doorbell {
        self.bell.doorbell
    }

    pub(crate) fn facts(&self) -> &Page {
        &self.facts
    }

    pub(crate) fn planes(&self) -> &OwnPlanes {
        &self.planes
    }

    pub(crate) fn attention(&self) -> &'static Attention {
        self.attention
    }

    /// Wakes the thread that sleeps at the doorbell of this rank.
    pub(crate) fn ring(&self) {
        self.bell.ring(true);
    }

    /// See [`Bell::sleep`].
    pub(crate) fn sleep(&self, arming: Arming, who: Sleeper, timeout: Option<Duration>) {
        self.bell.sleep(arming, who, timeout);
    }
}

/// Turns of a call that does not wait. Each moves up to 256 KB.
const TURNS_OF_A_TEST_MAX: usize = 16;
/// Longer than any store takes to become visible: see `doorbell.rs`.
const NAP: Duration = Duration::from_micros(200);
