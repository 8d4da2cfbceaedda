//! One turn of a NIC: takes what has arrived and retries what waits.
//!
//! [`Core`] is everything that the lock around a NIC guards. `driver.rs` decides which thread turns, and when.

use std::collections::HashMap;
use std::io;
use std::task::Waker;
use std::thread::Thread;
use std::time::Duration;

use ferrywire_nic::{Awaited, Nic, Peer, Port, Seal, Sent};

use crate::absence::Absence;
use crate::completion::Sleeping;
use crate::driver::Shared;
use crate::duty::{Duty, Phase, Ringers};
use crate::facts;
use crate::here::Here;
use crate::lock::Guard;
use crate::port::HostPort;
use crate::rail::{Arrival, Inlet, Rail};
use crate::rails::Inlets;
use crate::shm::doorbell::Sleeper;
use crate::shm::plane::Plane;
use crate::sys::threads;
use crate::trace;
use crate::transfers::{Direction, Transfer};
use crate::wait_policy::SpinBudget;

/// How often a NIC has been turned.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Turns {
    /// Turns by any thread.
    pub all: u64,
    /// Turns by the agent, while the application was away.
    pub by_agent: u64,
}

/// What the lock guards.
pub(crate) struct Core {
    pub(crate) nic: Nic,
    pub(crate) port: HostPort,
    inlet: Inlets,
    /// The ranks of this host.
    pub(crate) here: Here,
    /// How often ranks have left or died, as far as this NIC has noticed.
    changes: u32,
    /// Whether somebody may have asked for the facts of the rank.
    pub(crate) is_asked: bool,
    /// Woken when a peer is found to be gone.
    pub(crate) failure_waker: Option<Waker>,
    /// Why peers could not be reached.
    pub(crate) troubles: HashMap<Peer, String>,
    pub(crate) turns: Turns,
    /// The turn that reads the clock next, where no rail loses frames.
    clock_turn: u64,
    /// When the trace was told last what the NIC holds.
    depth_at: u64,
    /// Which thread drives.
    pub(crate) duty: Duty,
    /// How long the application stays away.
    pub(crate) absence: Absence,
    /// How long leaders spin before they sleep.
    pub(crate) spin_budget: SpinBudget,
    /// Threads that wait for the leader to leave.
    pub(crate) followers: Vec<Thread>,
    /// Threads that wait without a ticket: any event may be theirs.
    pub(crate) waiters: Vec<Thread>,
}

impl Core {
    pub(crate) fn new(
        nic: Nic,
        port: HostPort,
        inlet: Inlets,
        here: Here,
        ringers: Ringers,
    ) -> Core {
        Core {
            nic,
            port,
            inlet,
            here,
            changes: 0,
            is_asked: false,
            failure_waker: None,
            troubles: HashMap::new(),
            turns: Turns::default(),
            clock_turn: 0,
            depth_at: 0,
            duty: Duty::new(ringers),
            absence: Absence::default(),
            spin_budget: SpinBudget::new(),
            followers: Vec::new(),
            waiters: Vec::new(),
        }
    }

    /// Turns once; true if something happened.
    #[inline]
    pub(crate) fn turn(&mut self, shared: &Shared) -> bool {
        let timed = self.port.rail.needs_time();
        if timed {
            // The thread may have slept since the last turn, and round-trip times are measured with this clock.
            self.port.now = self.port.clock();
        }
        let Core { nic, port, inlet, .. } = self;
        let taken = inlet.poll(ARRIVALS_PER_TURN_MAX, |from, arrival| match arrival {
            Arrival::Frame(via, raw) => nic.on_frame(from, via, Seal::Intact, raw, port),
            Arrival::Landed { ticket, bytes } => nic.on_landed(from, ticket, bytes, port),
        });
        self.turns.all += 1;
        let mut busy = taken > 0;
        if !self.port.transfers.is_empty() {
            busy |= self.move_piece();
        }
        if self.port.rail.is_stuck() {
            busy |= self.relieve();
        }
        if self.nic.is_busy() {
            self.nic.on_turn(&mut self.port);
            busy = true;
        }
        if self.changes != shared.plane.segment.changes() {
            busy |= self.on_peers_down(&shared.plane);
        }
        if timed {
            busy |= self.do_what_is_due();
            self.port.rail.flush();
        } else if self.turns.all >= self.clock_turn {
            self.clock_turn = self.turns.all + TURNS_PER_CLOCK;
            self.port.now = self.port.clock();
            busy |= self.do_what_is_due();
        }
        if busy && self.port.is_traced {
            self.trace_depth(shared);
        }
        busy
    }

    /// Records what the NIC holds.
    #[cold]
    fn trace_depth(&mut self, shared: &Shared) {
        let (bytes, _) = self.nic.unexpected_bytes();
        let operations = self.nic.operations() as u64;
        trace::depth(shared.plane.number(), bytes, operations, &mut self.depth_at);
    }

    /// Whether a caller that has sent a message has nothing else to do.
    #[inline(always)]
    pub(crate) fn may_leave(&self) -> bool {
        self.port.rail.is_flushed() && !self.nic.is_short_of_credit()
    }

    /// Whether a caller whose receive is over has nothing else to do: nothing else has ended since there were `count`
    /// completions, and the NIC has nothing to go on with.
    #[inline(always)]
    pub(crate) fn may_leave_since(&self, count: u64) -> bool {
        self.may_leave()
            && self.port.completions.count == count
            && !self.nic.is_busy()
            && self.port.transfers.is_empty()
    }

    /// Whether a caller that has posted a receive may leave it behind as it is: whoever drives now goes on, or the caller
    /// will be back soon.
    #[inline(always)]
    pub(crate) fn may_leave_behind(&mut self) -> bool {
        self.may_leave()
            && !self.nic.needs_driving()
            && !self.duty.is_led_by_caller()
            && self.followers.is_empty()
            && self.waiters.is_empty()
            && self.port.completions.to_wake.is_empty()
            && self.port.reductions.is_empty()
            && !self.nic.is_busy()
            && self.port.transfers.is_empty()
            && (self.duty.is_led_by_agent()
                || self.duty.agent_looks_soon()
                    && (self.absence.is_measured() || self.absence.is_one_of_many()))
    }

    /// Whether a caller may look for an awaited receive, and leave afterwards without telling anybody: nothing else is
    /// outstanding, no other thread is inside, and no rail needs time or care.
    #[inline(always)]
    pub(crate) fn may_await(&self) -> bool {
        !self.nic.is_expecting()
            && self.may_leave()
            && !self.duty.is_led_by_caller()
            && self.followers.is_empty()
            && self.waiters.is_empty()
            && !self.absence.is_measured()
    }

    /// Looks for the message of the awaited receive, for a few microseconds, or once where ranks share cores and looking
    /// keeps the sender from its core. The receive is over then, or posted.
    #[inline(always)]
    pub(crate) fn look_for_awaited(&mut self, shared: &Shared) -> Awaited {
        self.duty.relieve_agent(shared.doorbell());
        shared.attention().set(true);
        let looks = if shared.plane.segment.is_oversubscribed() { 1 } else { LOOKS_FOR_AWAITED };
        for _ in 0..looks {
            let Core { nic, port, inlet, .. } = self;
            let taken = inlet.poll_near(|from, arrival| match arrival {
                Arrival::Frame(via, raw) => nic.on_frame(from, via, Seal::Intact, raw, port),
                Arrival::Landed { ticket, bytes } => nic.on_landed(from, ticket, bytes, port),
            });
            if taken {
                match nic.awaited() {
                    Awaited::Open => continue,
                    awaited => {
                        shared.attention().set(false);
                        return awaited;
                    }
                }
            }
            if shared.core.is_wanted() {
                break;
            }
            std::hint::spin_loop();
        }
        self.stop_looking(shared)
    }

    #[inline(never)]
    fn stop_looking(&mut self, shared: &Shared) -> Awaited {
        shared.attention().set(false);
        self.nic.post_awaited(&mut self.port);
        self.nic.awaited()
    }

    /// Wakes waiters that have no specific ticket, because something has happened.
    #[inline(always)]
    pub(crate) fn wake_waiters(&mut self) {
        let waiters = self.waiters.drain(..).map(Sleeping::Thread);
        self.port.completions.to_wake.extend(waiters);
    }

    /// Wakes all tasks to run waiting reductions, because no other application thread may come.
    #[inline(always)]
    pub(crate) fn call_tasks(&mut self) {
        if self.port.reductions.take_news() {
            self.port.completions.call_tasks();
        }
    }

    /// Moves a piece of the transfer whose turn it is.
    #[inline(never)]
    fn move_piece(&mut self) -> bool {
        let Some(mut transfer) = self.port.transfers.take() else { return false };
        let left = transfer.into.len - transfer.done;
        let piece = left.min(PIECE_BYTES_MAX);
        if piece > 0 {
            if let Err(error) = self.copy_piece(&transfer, piece) {
                self.give_up_copy(&transfer, &error);
                return true;
            }
            transfer.done += piece;
        }
        if transfer.done < transfer.into.len {
            self.port.transfers.add(transfer);
            return true;
        }
        self.end_transfer(transfer)
    }

    fn copy_piece(&mut self, transfer: &Transfer, piece: u64) -> io::Result<()> {
        let (from, into) =
            (transfer.from.offset + transfer.done, transfer.into.offset + transfer.done);
        let rail = &mut self.port.rail;
        match transfer.direction {
            // SAFETY: the NIC asked for it: `into` is lent until the transfer is over.
            Direction::Read => unsafe { rail.read(transfer.peer, from, into, piece) },
            // SAFETY: the NIC asked for it: `from` is lent until the transfer is over.
            Direction::Write(_) => unsafe { rail.write(transfer.peer, from, into, piece) },
        }
    }

    /// Handles a failed copy from or to a peer's memory. If the system no longer permits such copies, the NIC falls
    /// back to frames. If the peer is gone, the notice of it comes soon, and nothing is copied meanwhile.
    #[cold]
    fn give_up_copy(&mut self, transfer: &Transfer, error: &io::Error) {
        let refused = error.kind() == io::ErrorKind::PermissionDenied
            || matches!(error.raw_os_error(), Some(libc::ESRCH | libc::ENOSYS));
        if !refused {
            return self.lose(transfer.peer, error);
        }
        let Core { nic, port, .. } = self;
        port.rail.lose_access(transfer.peer);
        match transfer.direction {
            Direction::Read => nic.on_get_refused(transfer.ticket, port),
            Direction::Write(_) => nic.on_put_refused(transfer.ticket, port),
        }
    }

    fn end_transfer(&mut self, transfer: Transfer) -> bool {
        let Core { nic, port, .. } = self;
        match transfer.direction {
            Direction::Read => nic.on_read(transfer.ticket, port),
            Direction::Write(notify) => {
                let sent = port.rail.notify(transfer.peer, notify, transfer.into.len);
                if sent == Sent::Full {
                    // Everything is written except the notification, which goes when there is room.
                    port.transfers.add(transfer);
                    return false;
                }
                nic.on_written(transfer.ticket, port);
            }
        }
        true
    }

    /// Retries frames that found no room.
    #[cold]
    fn relieve(&mut self) -> bool {
        let (mut peers, mut lost, mut read) = (Vec::new(), Vec::new(), Vec::new());
        self.port.rail.poll_room(|peer| peers.push(peer));
        self.port.rail.poll_read(|ticket| read.push(ticket));
        self.port.rail.poll_lost(|peer, error| lost.push((peer, error)));
        for &peer in &peers {
            self.nic.on_room(peer, &mut self.port);
        }
        for &ticket in &read {
            self.nic.on_read(ticket, &mut self.port);
        }
        for (peer, error) in &lost {
            self.lose(*peer, error);
        }
        !peers.is_empty() || !lost.is_empty() || !read.is_empty()
    }

    /// Marks a peer as down because the system does not let us reach it.
    fn lose(&mut self, peer: Peer, error: &io::Error) {
        self.troubles.entry(peer).or_insert_with(|| error.to_string());
        self.mark_down(peer);
        self.wake_failure_waker();
    }

    fn mark_down(&mut self, peer: Peer) {
        self.port.transfers.forget(peer);
        self.inlet.forget(peer);
        // A read in progress writes into memory that belongs to the user again once its operation has ended.
        if self.port.rail.forget(peer) {
            self.nic.on_peer_down(peer, &mut self.port);
        }
    }

    /// Gives memory back that others would keep for this rank, which has left.
    pub(crate) fn forget_all(&self) {
        self.port.rail.shm.forget_all();
        self.inlet.forget_all();
    }

    /// Answers whoever has asked for the facts of the rank, if anybody has. Nothing has arrived since they asked that has
    /// not been handled. `waits` if this is a thread of the program that does nothing until it has what it waits for.
    ///
    /// A thread answers for all planes of the rank. While one waits, in whichever of them, nobody else does.
    #[cold]
    pub(crate) fn answer(&mut self, shared: &Shared, waits: bool) {
        self.is_asked = false;
        let facts = shared.facts();
        let others = shared.planes().others(shared);
        if !waits && facts.has_waiters() && !others.is_empty() {
            return;
        }
        let Some(_answering) = shared.planes().begin_answer() else { return };
        if !facts.is_asked() {
            return;
        }
        if self.nic.ask_all(&mut self.port) {
            self.port.rail.flush();
        }
        let to_wake = &mut self.port.completions.to_wake;
        let cores: Vec<Option<Guard<'_, Core>>> =
            others.iter().map(|other| Core::handle_arrivals(other, to_wake)).collect();
        let is_among_others = cores.iter().any(Option::is_none);
        let cores: Vec<&Core> =
            std::iter::once(&*self).chain(cores.iter().flatten().map(|core| &**core)).collect();
        write_facts(shared, &cores, waits, is_among_others);
    }

    /// Handles what has arrived in another plane of the rank. Nobody may look there before a call of the program. `None` if
    /// another thread is there.
    fn handle_arrivals<'a>(
        shared: &'a Shared,
        to_wake: &mut Vec<Sleeping>,
    ) -> Option<Guard<'a, Core>> {
        let mut core = shared.core.try_lock()?;
        if core.duty.is_led_by_caller() {
            return None;
        }
        let turns = (0..TURNS_FOR_ANOTHER_MAX).take_while(|_| core.turn(shared)).count();
        if turns > 0 {
            core.wake_waiters();
            core.call_tasks();
            to_wake.append(&mut core.port.completions.to_wake);
            // The agent, if there is one, looks whether there is anything to guard now.
            shared.ring();
        }
        Some(core).filter(|_| turns < TURNS_FOR_ANOTHER_MAX)
    }

    /// Writes what the NIC holds into the facts of the rank.
    pub(crate) fn publish(&self, shared: &Shared) {
        write_facts(shared, &[self], false, false);
    }

    /// A number that changes with all that the rank does in this plane and others may notice.
    fn activity(&self) -> u64 {
        let stats = self.nic.stats();
        (self.port.completions.count + stats.unexpected + stats.refused)
            .wrapping_add(self.nic.frames_of_note())
    }

    /// Whether something may go on without a call.
    fn has_something_under_way(&self) -> bool {
        self.nic.has_frames_under_way()
            || self.nic.is_busy()
            || self.port.rail.is_stuck()
            || !self.port.transfers.is_empty()
            || !self.port.reductions.is_empty()
    }

    fn wake_failure_waker(&mut self) {
        let failure_waker = self.failure_waker.clone().map(Sleeping::Task);
        self.port.completions.to_wake.extend(failure_waker);
    }

    /// Marks peers that are gone as down. A rank that leaves in order waits until everything it sent has been taken;
    /// what is still in the ring of a rank that died is lost.
    #[cold]
    fn on_peers_down(&mut self, plane: &Plane) -> bool {
        self.changes = plane.segment.changes();
        self.is_asked = true;
        let here = plane.ranks_so_far();
        for local_rank in (0..here).filter(|&local_rank| plane.is_gone(local_rank)) {
            self.mark_down(self.here.rank(Peer(local_rank)));
        }
        if let Some(net) = &plane.net {
            let far = net.directory.peers().filter(|&rank| net.directory.is_gone(rank));
            far.for_each(|rank| self.mark_down(Peer(rank)));
        }
        self.wake_failure_waker();
        true
    }

    /// Runs the timer if it is due; true if it was.
    fn do_what_is_due(&mut self) -> bool {
        let due = self.port.timer.is_some_and(|at| at <= self.port.now);
        if due {
            // A timer fires once.
            self.port.timer = None;
            self.nic.on_timer(&mut self.port);
            if !self.port.silent.is_empty() {
                self.note_silent();
            }
        }
        due
    }

    /// Records why the NIC has given up peers.
    #[cold]
    fn note_silent(&mut self) {
        let seconds = self.nic.limits().silence_ns_max / 1_000_000_000;
        for peer in self.port.silent.drain(..) {
            let why = || format!("no answer for {seconds} s");
            self.troubles.entry(peer).or_insert_with(why);
        }
        self.wake_failure_waker();
    }

    /// How long a thread that is about to sleep may do so: until the next deadline, if there is one.
    pub(crate) fn timeout(&mut self) -> Option<Duration> {
        let due = self.port.timer.map(|at| Duration::from_nanos(at.since(self.port.clock())));
        if due.is_some() {
            // It may sleep until then, so the turn after it has to look.
            self.clock_turn = 0;
        }
        [due, self.port.rail.timeout()].into_iter().flatten().min()
    }

    /// Whether the NIC has to be driven while the application is away: operations are outstanding, or other hosts may
    /// expect answers.
    #[inline(always)]
    pub(crate) fn is_expecting(&self) -> bool {
        self.nic.is_expecting() || self.port.rail.needs_care()
    }

    /// Which agent has to guard what is outstanding. It need not wake for messages that only have to be taken from their
    /// ring, or for the end of an operation, if nobody waits for the outcome while the application is away.
    pub(crate) fn guarding_agent(&self, shared: &Shared) -> Sleeper {
        let is_needed = self.nic.needs_driving()
            || self.port.completions.is_watched
            || !self.waiters.is_empty()
            || self.duty.phase() != Phase::Open
            || shared.plane.net.is_some();
        if is_needed { Sleeper::Agent } else { Sleeper::PatientAgent }
    }

    /// Whether a turn would do something.
    pub(crate) fn has_work(&self, shared: &Shared) -> bool {
        self.inlet.is_ready()
            || self.nic.is_busy()
            || !self.port.transfers.is_empty()
            || self.changes != shared.plane.segment.changes()
    }

    /// Whether there is something to do that no doorbell announces.
    pub(crate) fn has_unannounced_work(&self) -> bool {
        self.nic.is_busy()
            || !self.port.transfers.is_empty()
            || self.port.rail.is_stuck()
            || self.port.rail.has_own_frames()
    }

    /// Whether an application thread would find something to do.
    pub(crate) fn has_work_for_caller(&self, shared: &Shared) -> bool {
        !self.port.reductions.is_empty() || self.has_work(shared)
    }

    /// Whether the rank may leave: nothing that it sent is still on its way.
    pub(crate) fn is_quiet(&mut self) -> bool {
        let is_away = || {
            let held = self.nic.holdings();
            // Frames that found no room are still to be sent: a peer may wait for the answer in them.
            held.backlog == 0 && held.kept == 0 && held.unacked == 0
        };
        self.port.transfers.is_empty()
            && self.port.completions.detached == 0
            && self.port.rail.is_drained()
            && is_away()
    }
}

/// Writes what the NICs of a rank hold into its facts. `may_go_on` if there are further ones.
fn write_facts(shared: &Shared, cores: &[&Core], waits: bool, may_go_on: bool) {
    let facts = shared.facts();
    let activity = cores.iter().map(|core| core.activity()).fold(0, u64::wrapping_add);
    let in_flight = may_go_on || cores.iter().any(|core| core.has_something_under_way());
    let flags = [
        (in_flight, facts::IN_FLIGHT),
        (waits && (!facts.asks_for_proof() || threads::others_may_act()), facts::OTHER_THREADS),
        (waits, facts::WAITER),
    ];
    let flags = flags.iter().filter(|(is_set, _)| *is_set).map(|(_, flag)| flag).sum();
    let nics: Vec<&Nic> = cores.iter().map(|core| &core.nic).collect();
    facts.answer(&nics, activity, flags);
}

/// Turns in another plane of the rank before an answer.
const TURNS_FOR_ANOTHER_MAX: usize = 64;
/// Looks for an awaited receive before it is posted: some microseconds.
const LOOKS_FOR_AWAITED: usize = 256;
/// Frames that one turn takes before it does anything else.
const ARRIVALS_PER_TURN_MAX: usize = 64;
/// Turns between two readings of the clock, where no rail loses frames.
const TURNS_PER_CLOCK: u64 = 4096;
/// Bytes that one turn copies between two processes before it does anything else.
const PIECE_BYTES_MAX: u64 = 256 << 10;
