//! One turn of a NIC: what has come is taken, what waits for its chance gets one.
//!
//! Also what the lock around a NIC guards, all in one value. Who turns, and when, is `driver.rs`.

use std::collections::HashMap;
use std::io;
use std::task::Waker;
use std::thread::Thread;
use std::time::Duration;

use ferrywire_nic::{Nic, Peer, Port, Seal, Sent};

use crate::agent_handover::AgentHandover;
use crate::completion::Sleeping;
use crate::driver::Shared;
use crate::port::{Direction, HostPort, Transfer};
use crate::rail::{Arrival, Inlet, Rail};
use crate::rails::{Here, Inlets};
use crate::shm::plane::Plane;
use crate::wait_policy::SpinBudget;

/// How often a NIC has been turned.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Turns {
    /// By anybody.
    pub all: u64,
    /// By the agent, while the application was away.
    pub by_agent: u64,
}

/// What the lock guards.
pub(crate) struct Core {
    pub(crate) nic: Nic,
    pub(crate) port: HostPort,
    inlet: Inlets,
    /// Which ranks are on this host.
    pub(crate) here: Here,
    /// How often ranks have left or died, as far as we know.
    changes: u32,
    /// Who wants to know when somebody is gone.
    pub(crate) failure_waker: Option<Waker>,
    /// Why peers could not be reached, for those who ask.
    pub(crate) troubles: HashMap<Peer, String>,
    pub(crate) turns: Turns,
    /// A thread of the application waits, and turns.
    pub(crate) led: bool,
    /// It sleeps at the doorbell.
    pub(crate) leader_asleep: bool,
    /// How long leaders look before they sleep.
    pub(crate) spin_budget: SpinBudget,
    /// Threads that wait for the leader to leave.
    pub(crate) followers: Vec<Thread>,
    /// Those of them that wait for something that has no ticket: whatever happens may be it.
    pub(crate) waiters: Vec<Thread>,
    /// The leader waits for such a thing.
    pub(crate) leader_looks: bool,
    /// Nothing is moved straight between processes any more.
    pub(crate) stopped: bool,
    /// How the agent is woken for what arrives while the application is away.
    pub(crate) agent_handover: AgentHandover,
    /// It comes and goes: the agent need not be called for what it leaves. The agent says so.
    pub(crate) busy: bool,
    /// The rank is leaving.
    pub(crate) closing: bool,
    /// Somebody waits until others have taken all that was sent to them.
    pub(crate) draining: bool,
}

impl Core {
    pub(crate) fn new(nic: Nic, port: HostPort, inlet: Inlets, here: Here) -> Core {
        Core {
            nic,
            port,
            inlet,
            here,
            changes: 0,
            failure_waker: None,
            troubles: HashMap::new(),
            turns: Turns::default(),
            led: false,
            leader_asleep: false,
            spin_budget: SpinBudget::new(),
            followers: Vec::new(),
            waiters: Vec::new(),
            leader_looks: false,
            stopped: false,
            agent_handover: AgentHandover::default(),
            busy: false,
            closing: false,
            draining: false,
        }
    }

    /// Looks around once; true if something happened.
    #[inline]
    pub(crate) fn turn(&mut self, shared: &Shared) -> bool {
        let timed = self.port.rail.needs_time();
        if timed {
            // Whoever turns may have slept since the last turn, and how long an answer took is told by this clock.
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
            busy |= self.do_what_is_due(&shared.plane);
            self.port.rail.flush();
        } else if self.turns.all.is_multiple_of(TURNS_PER_CLOCK) {
            self.port.now = self.port.clock();
            self.do_what_is_due(&shared.plane);
            self.port.rail.look_around();
        }
        busy
    }

    /// Something has happened: those who wait for they know not what shall look.
    #[inline(always)]
    pub(crate) fn wake_waiters(&mut self) {
        let waiters = self.waiters.drain(..).map(Sleeping::Thread);
        self.port.completions.to_wake.extend(waiters);
    }

    /// Something waits for a thread of the user's: tasks shall poll, since nobody else may come.
    #[inline(always)]
    pub(crate) fn call_tasks(&mut self) {
        if self.port.reductions.take_news() {
            self.port.completions.call_tasks();
        }
    }

    /// Moves a piece of the transfer whose turn it is.
    #[inline(never)]
    fn move_piece(&mut self) -> bool {
        let Some(mut transfer) = self.port.transfers.pop_front() else { return false };
        if self.stopped {
            return false;
        }
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
            self.port.transfers.push_back(transfer);
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

    /// The memory of a peer cannot be reached. If the system does not permit it any more, the NIC goes on in another way; a
    /// peer that is gone is told of soon, and gets nothing meanwhile.
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
                    // All is written but the notice. It goes when there is room.
                    port.transfers.push_back(transfer);
                    return false;
                }
                nic.on_written(transfer.ticket, port);
            }
        }
        true
    }

    /// Frames that found no room may go now.
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

    /// The machine does not let us reach a peer.
    fn lose(&mut self, peer: Peer, error: &io::Error) {
        self.troubles.entry(peer).or_insert_with(|| error.to_string());
        self.mark_down(peer);
        self.wake_failure_waker();
    }

    fn mark_down(&mut self, peer: Peer) {
        self.port.transfers.retain(|transfer| transfer.peer != peer);
        // What is still read goes into memory that is the user's again when its operation has ended.
        if self.port.rail.forget(peer) {
            self.nic.on_peer_down(peer, &mut self.port);
        }
    }

    fn wake_failure_waker(&mut self) {
        let failure_waker = self.failure_waker.clone().map(Sleeping::Task);
        self.port.completions.to_wake.extend(failure_waker);
    }

    /// Somebody is gone. Whoever leaves in order waits until all that it sent has been taken; what is
    /// still in the ring of one that died is lost.
    #[cold]
    fn on_peers_down(&mut self, plane: &Plane) -> bool {
        self.changes = plane.segment.changes();
        for local_rank in (0..plane.segment.ranks()).filter(|&local_rank| plane.is_gone(local_rank))
        {
            self.mark_down(self.here.rank(Peer(local_rank)));
        }
        if let Some(net) = &plane.net {
            let far = (0..net.directory.size()).filter(|&rank| net.directory.is_gone(rank));
            far.for_each(|rank| self.mark_down(Peer(rank)));
        }
        self.wake_failure_waker();
        true
    }

    /// What is due by now is done; true if there was something.
    fn do_what_is_due(&mut self, plane: &Plane) -> bool {
        let due = self.port.timer.is_some_and(|at| at <= self.port.now);
        if due {
            // It has been asked for once.
            self.port.timer = None;
            let downs = self.nic.stats().downs;
            self.nic.on_timer(&mut self.port);
            if self.nic.stats().downs != downs {
                self.note_silent(plane);
                self.wake_failure_waker();
            }
        }
        due
    }

    /// The NIC has given up peers of which nobody has said that they are gone.
    #[cold]
    fn note_silent(&mut self, plane: &Plane) {
        let Some(net) = &plane.net else { return };
        let seconds = self.nic.limits().silence_ns_max / 1_000_000_000;
        for peer in (0..net.directory.size()).map(Peer) {
            let far = self.here.local_rank(peer).is_none() && !net.directory.is_gone(peer.0);
            if far && self.nic.is_down(peer) {
                let why = || format!("it has not acknowledged anything for {seconds} s");
                self.troubles.entry(peer).or_insert_with(why);
            }
        }
    }

    /// How long one may sleep: until something is due, if anything will be.
    pub(crate) fn timeout(&self) -> Option<Duration> {
        let rail = &self.port.rail;
        let due = self.port.timer.filter(|_| rail.needs_time());
        let due = due.map(|at| Duration::from_nanos(at.since(self.port.clock())));
        [due, rail.timeout()].into_iter().flatten().min()
    }

    /// Whether somebody has to look after the NIC while the application is away: something is outstanding, or other
    /// hosts may want an answer.
    #[inline(always)]
    pub(crate) fn is_expecting(&self) -> bool {
        self.nic.is_expecting() || self.port.rail.needs_care()
    }

    /// Whether a turn would do something.
    pub(crate) fn has_work(&self, shared: &Shared) -> bool {
        self.inlet.is_ready()
            || self.nic.is_busy()
            || !self.port.transfers.is_empty()
            || self.changes != shared.plane.segment.changes()
    }

    /// Whether a thread of the user's would find something to do.
    pub(crate) fn has_work_for_caller(&self, shared: &Shared) -> bool {
        !self.port.reductions.is_empty() || self.has_work(shared)
    }

    /// Whether we may go: nothing of ours is on its way.
    pub(crate) fn is_quiet(&mut self) -> bool {
        let is_away = || {
            let held = self.nic.holdings();
            // What found no room yet is still to go: somebody may wait for the answer in it.
            held.backlog == 0 && held.kept == 0 && held.unacked == 0
        };
        self.port.transfers.is_empty()
            && self.port.completions.detached == 0
            && self.port.rail.is_drained()
            && is_away()
    }
}

/// Frames taken before anything else gets a turn.
const ARRIVALS_PER_TURN_MAX: usize = 64;
/// Turns between two looks at the clock, where no rail loses frames.
const TURNS_PER_CLOCK: u64 = 4096;
/// Bytes moved between two processes before anything else gets a turn.
const PIECE_BYTES_MAX: u64 = 256 << 10;
