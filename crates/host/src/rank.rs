//! A rank of a job: a driver for each plane that it uses, and how it leaves.
//!
//! Planes are independent networks among the same ranks, so threads in different planes never wait for each other's
//! lock. The first plane is open from the beginning; the others are opened on first use. A rank that is gone is gone in
//! all.

use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use ferrywire_nic::{Limits, Peer};

use crate::around;
use crate::bootstrap::{Answer, Parent, Request};
use crate::control_channel::{AbortOutcome, AskError, ControlChannel};
use crate::driver::Driver;
use crate::facts::{FactsPage, Page, Stage};
use crate::here::Here;
use crate::job;
use crate::net::Net;
use crate::own_planes::OwnPlanes;
use crate::port::Operators;
use crate::report::Reporter;
use crate::shm::plane::Plane;
use crate::shm::segment::{PLANES, Segment};
use crate::shm::{MemoryAccess, SharedMemory};
use crate::{stdio, trace};

/// One rank of a job on this machine.
pub struct Rank {
    segment: Arc<Segment>,
    /// The other hosts, if there are any.
    net: Option<Arc<Net>>,
    me: u32,
    /// The ranks of this host.
    here: Here,
    /// The rank among those of this host.
    local_rank: u32,
    /// The peers of its world, in order of their ranks.
    world: Vec<Range<u32>>,
    /// The rank that spawned it, if one did.
    parent: Option<Parent>,
    limits: Limits,
    operators: Operators,
    facts: FactsPage,
    planes: OwnPlanes,
    reporter: Option<Reporter>,
    first: Driver,
    others: [OnceLock<Driver>; PLANES as usize - 1],
    /// The rank without which the job cannot continue, if there is one. Locked while a plane is opened.
    lost: Mutex<Option<Peer>>,
    /// How the memory of ranks is reached, as far as it was asked.
    reaches: Mutex<HashMap<Peer, MemoryAccess>>,
    /// The channel to the launcher, if there is one.
    channel: Option<ControlChannel>,
    /// Which program of the job it runs, if the launcher says.
    program: Option<u32>,
    /// It has left, or is about to.
    left: AtomicBool,
}

impl Rank {
    /// Creates rank `me` of the job in `segment`. There must be only one.
    pub(crate) fn new(
        segment: Arc<Segment>,
        net: Option<Arc<Net>>,
        me: u32,
        limits: Limits,
        operators: Operators,
        channel: Option<ControlChannel>,
    ) -> io::Result<Rank> {
        let here = Here::of(net.as_ref(), &segment);
        let local_rank = here.local_rank(Peer(me)).ok_or(io::ErrorKind::InvalidInput)?.0;
        let plane = Plane::open(&segment, 0, local_rank, net.clone())?;
        let facts = segment.open_facts(local_rank, Peer(me))?;
        if trace::is_on() {
            facts.watch();
        }
        let planes = OwnPlanes::default();
        let first = Driver::new(plane, me, limits.clone(), operators, facts.clone(), &planes)?;
        Ok(Rank {
            world: std::iter::once(0..first.size()).collect(),
            parent: None,
            first,
            facts,
            planes,
            segment,
            net,
            me,
            here,
            local_rank,
            limits,
            operators,
            reporter: None,
            others: [const { OnceLock::new() }; PLANES as usize - 1],
            lost: Mutex::new(None),
            reaches: Mutex::default(),
            channel,
            program: None,
            left: AtomicBool::new(false),
        })
    }

    /// A rank that no launcher has started, and that is not a thread among others.
    pub(crate) fn alone(mut self) -> Rank {
        self.channel = Some(ControlChannel::alone());
        self
    }

    /// Sets which program of the job the rank runs.
    pub(crate) fn running(mut self, program: Option<u32>) -> Rank {
        self.program = program;
        self
    }

    /// Sets the world of a rank that was spawned, and the rank that spawned it.
    pub(crate) fn spawned(mut self, world: Vec<Range<u32>>, parent: Parent) -> Rank {
        self.world = world;
        self.parent = Some(parent);
        self
    }

    /// The members of its world, in order of their ranks.
    pub fn world(&self) -> impl Iterator<Item = Peer> {
        self.world.iter().flat_map(Clone::clone).map(Peer)
    }

    /// The rank that spawned it, if one did.
    pub fn parent(&self) -> Option<Parent> {
        self.parent
    }

    /// The number of the job.
    pub fn job(&self) -> u32 {
        self.segment.job()
    }

    /// Cores that ranks of the job may use on this host; zero if unknown.
    pub fn cores(&self) -> u32 {
        self.segment.cores()
    }

    /// Makes the NICs of all planes report to `reporter`.
    #[must_use]
    pub fn reporting_to(mut self, reporter: Reporter) -> Rank {
        self.reporter = Some(reporter);
        self.drivers().for_each(|driver| driver.report_to(reporter));
        self
    }

    /// Which program of the job it runs, counted from 0, if the launcher says.
    pub fn program(&self) -> Option<u32> {
        self.program
    }

    /// The first rank of this host, which tells ranks whether they share memory.
    pub fn first_here(&self) -> Peer {
        self.here.rank(Peer(0))
    }

    /// What the rank tells about itself.
    pub fn facts(&self) -> &Page {
        &self.facts
    }

    /// Records that a call failed because a rank is gone, and what the NIC holds now.
    pub fn note_missing(&self, peer: Peer) {
        self.facts.miss(peer);
        self.first.publish_facts();
    }

    /// Records that a call failed because a rank cannot be reached.
    pub fn note_unreachable(&self, peer: Peer) {
        self.facts.note_unreachable(peer);
    }

    /// Whether a rank is on this host.
    pub fn is_here(&self, peer: Peer) -> bool {
        self.local_rank_of(peer).is_some()
    }

    fn local_rank_of(&self, peer: Peer) -> Option<u32> {
        self.here.local_rank(peer).map(|local_rank| local_rank.0)
    }

    /// Claims memory that the ranks of this host can share, and that no other call will get. Returns its place, for
    /// [`Rank::map_memory`].
    pub fn claim_memory(&self, bytes: u64) -> Option<u64> {
        self.segment.claim_for_window(bytes)
    }

    /// Maps memory that a rank of this host has claimed.
    pub fn map_memory(&self, place: u64, bytes: u64) -> io::Result<SharedMemory> {
        SharedMemory::map(&self.segment, place, bytes)
    }

    /// How the memory of a rank of this host is reached: found out once.
    pub fn reach(&self, peer: Peer) -> MemoryAccess {
        let mut known = self.reaches.lock().unwrap_or_else(PoisonError::into_inner);
        *known.entry(peer).or_insert_with(|| {
            self.local_rank_of(peer).map_or(MemoryAccess::Not, |rank| {
                MemoryAccess::find(job::this_process().word, self.segment.process(rank))
            })
        })
    }

    /// The driver of a plane, of which there are [`PLANES`]. Two ranks talk in a plane as soon as both have opened it;
    /// earlier messages wait. Fails if there is not enough memory.
    pub fn plane(&self, number: u32) -> io::Result<&Driver> {
        let Some(other) = number.checked_sub(1) else { return Ok(&self.first) };
        let place = &self.others[other as usize];
        match place.get() {
            Some(driver) => Ok(driver),
            None => self.open(number, place),
        }
    }

    #[cold]
    fn open<'a>(&'a self, number: u32, place: &'a OnceLock<Driver>) -> io::Result<&'a Driver> {
        let lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(driver) = place.get() {
            return Ok(driver);
        }
        let plane = Plane::open(&self.segment, number, self.local_rank, None)?;
        let (limits, facts) = (self.limits.clone(), self.facts.clone());
        let driver = Driver::new(plane, self.me, limits, self.operators, facts, &self.planes)?;
        if let Some(reporter) = self.reporter {
            driver.report_to(reporter);
        }
        if let Some(peer) = *lost {
            driver.stop_transfers();
            driver.give_up(peer);
        }
        Ok(place.get_or_init(|| driver))
    }

    /// The driver of the first plane, which is always open.
    #[inline(always)]
    pub fn driver(&self) -> &Driver {
        &self.first
    }

    /// The drivers of all open planes.
    pub fn drivers(&self) -> impl Iterator<Item = &Driver> {
        std::iter::once(&self.first).chain(self.others.iter().filter_map(OnceLock::get))
    }

    /// Whether only the first plane is open.
    #[inline]
    pub fn has_one_plane(&self) -> bool {
        self.others.iter().all(|place| place.get().is_none())
    }

    /// Whether the machine has a second core for each rank, which makes planes worthwhile. The answer is the same on
    /// all ranks of the job. Between hosts there is one plane, and for spawned ranks.
    pub fn has_cores_to_spare(&self) -> bool {
        self.net.is_none() && self.parent.is_none() && self.segment.has_cores_to_spare()
    }

    /// Why `peer` cannot be reached in some plane, if the operating system or the network is the cause.
    pub fn trouble(&self, peer: Peer) -> Option<String> {
        self.drivers().find_map(|driver| driver.trouble(peer))
    }

    /// Stops all direct copies between the memory of this rank and that of others.
    pub(crate) fn stop_transfers(&self, lost: Peer) {
        *self.lost.lock().unwrap_or_else(PoisonError::into_inner) = Some(lost);
        self.drivers().for_each(Driver::stop_transfers);
    }

    /// Ends all open operations, and all that are posted later, as if every peer were gone.
    pub(crate) fn give_up(&self, lost: Peer) {
        self.drivers().for_each(|driver| driver.give_up(lost));
    }

    /// Whether the job has ended before its ranks have left it.
    fn has_ended(&self) -> bool {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Whether the job continues when ranks die.
    pub fn is_fault_tolerant(&self) -> bool {
        self.channel.as_ref().is_some_and(ControlChannel::is_fault_tolerant)
    }

    /// Reports `peer`, without which we continue, to the launcher if the launcher has not declared it gone: it has been
    /// silent for too long, and the launcher makes sure that it is gone for all.
    pub(crate) fn tell_if_silent(&self, peer: Peer) {
        if let Some(channel) = self.channel.as_ref().filter(|_| !self.first.is_declared_gone(peer))
        {
            channel.silent(peer.0);
        }
    }

    /// Asks the launcher, and waits for its answer.
    pub fn ask(&self, request: &Request) -> Result<Answer, AskError> {
        let channel = self.channel.as_ref().ok_or(AskError::NoLauncher)?;
        channel.ask(request, self.net.is_none().then_some(&*self.segment), self.me)
    }

    /// Ends the whole job, with this exit code and for this reason.
    pub fn abort(&self, code: i32, text: &str) -> ! {
        // The launcher ends us as soon as it has heard.
        stdio::flush_all();
        match self
            .channel
            .as_ref()
            .map_or(AbortOutcome::Untold, |channel| channel.abort(code, text))
        {
            // If it does not, we end ourselves.
            AbortOutcome::IsUnderWay => std::thread::sleep(ABORT_MAX),
            AbortOutcome::EndYourself => {}
            AbortOutcome::Untold => eprintln!("abort: {text}"),
        }
        std::process::exit(code)
    }

    /// Leaves the job; the rank cannot be used afterwards. Waits until all peers have taken what was sent to them, or
    /// no longer can.
    ///
    /// Does not wait if the job has ended already, because then no peer takes anything. Does not wait in a panic, which
    /// is no orderly leaving, and in which the peers may be busy: the job ends before a peer can take our silence for
    /// the failure, and so does this process, because lent memory goes with the stack.
    pub fn leave(&self) {
        // A forked child has no part in the job.
        if self.first.is_forked() || self.left.swap(true, Ordering::Relaxed) {
            return;
        }
        self.facts.enter(Stage::Finalizing);
        self.first.publish_facts();
        let panicking = std::thread::panicking();
        if panicking && self.channel.as_ref().is_some_and(|channel| !channel.is_alone()) {
            self.abort(PANIC_CODE, "it panicked");
        }
        if self.net.is_some() && !panicking && !self.has_ended() {
            self.part_from_other_hosts();
        }
        self.drivers().for_each(Driver::close);
        self.segment.take_leave(self.local_rank);
        self.first.wake_all();
        if !panicking && !self.has_ended() {
            around::drain(&self.drivers().collect::<Vec<_>>());
        }
        match panicking {
            true => self.segment.mark_down(self.local_rank),
            false => {
                self.segment.leave(self.local_rank);
                self.first.forget_all();
            }
        }
        self.first.wake_all();
        self.facts.enter(Stage::Finalized);
        trace::leave();
        if let Some(channel) = &self.channel {
            channel.goodbye();
        }
    }

    /// Waits until all ranks of our world, on all hosts, have what was sent to them. Meanwhile the agent answers peers
    /// that have not heard that we have their frames: a frame that is lost after its sender has gone would be missing
    /// for ever. Ranks of other worlds may run much longer, so we answer them for a while only.
    fn part_from_other_hosts(&self) {
        around::drain(&self.drivers().collect::<Vec<_>>());
        if let Some(channel) = &self.channel {
            channel.wait_for_all();
        }
        if self.net.as_ref().is_some_and(|net| net.directory.has_spawned()) {
            std::thread::sleep(LINGER);
        }
    }

    /// Marks the rank as gone without notice, for all peers: for ranks that are threads.
    pub fn mark_down(&self) {
        self.segment.mark_down(self.local_rank);
        self.first.wake_all();
    }
}

impl Drop for Rank {
    fn drop(&mut self) {
        if self.first.is_forked() {
            return;
        }
        self.leave();
        self.first.end_agent();
        self.others.iter_mut().filter_map(OnceLock::get_mut).for_each(Driver::end_agent);
    }
}

/// The exit code of a Rust program that panics.
const PANIC_CODE: i32 = 101;
/// How long we answer ranks of other worlds after all is done: each doubts a few times in a tenth of a second.
const LINGER: Duration = Duration::from_millis(100);
/// How long the launcher may take to end us.
const ABORT_MAX: Duration = Duration::from_secs(5);
