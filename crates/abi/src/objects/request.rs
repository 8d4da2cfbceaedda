//! Requests: operations that were started, and how to learn that they are complete.
//!
//! A request has a *recipe*, which describes the operation, and its progress. Nonblocking calls make a recipe and
//! start it; persistent ones make it, and the program starts it any number of times. All functions of the wait and
//! test family, which are in `calls`, check progress in one place, [`Request::observe`], and return the result in
//! another, [`Request::finish`].
//!
//! Invariants, cited below by number.
//!   I1. Memory that a recipe lends to the NIC lives in the recipe, or the program leaves it alone until the
//!       request is complete. A request that the program frees earlier is kept as an orphan.

mod spare;

use std::ffi::c_int;
use std::sync::{Mutex, PoisonError};

use ferrywire_host::Finished;
use ferrywire_host::nic::{Fault, Outcome, Posted, Ticket};
use ferrywire_runtime::Trigger;

use crate::convert::constants::{MPI_ERR_REQUEST, MPI_REQUEST_NULL, MPIX_ERR_PROC_FAILED_PENDING};
use crate::convert::failure::{Failure, Result};
use crate::convert::handle::{self, Kind, Shared};
use crate::convert::status::Status;
use crate::convert::types::{MPI_Comm, MPI_Request};
use crate::objects::Plane;
use crate::objects::comm::{self, Comm, Hold};
use crate::objects::message::{Again, Receiving, Sending};
use crate::objects::process;
use crate::objects::recipe::{End, Next, Recipe};

/// An operation that was started, or can be.
pub(crate) struct Request {
    /// The communicator that it runs in, and that owns its errors.
    comm: Hold,
    work: Work,
    progress: Progress,
    /// The error of a complete request that failed.
    failure: Option<Failure>,
    /// Whether the program has cancelled it.
    cancelled: bool,
    pub(crate) persistent: bool,
}

impl Kind for Request {
    const MARK: u32 = 0x5245_5155;
    const ERROR: c_int = MPI_ERR_REQUEST;
    const NAME: &'static str = "request";
}

/// The recipe of a request. Most requests are messages: these need no allocation and no virtual call.
pub(crate) enum Work {
    Send(Sending),
    Receive(Receiving),
    Other(Box<dyn Recipe>),
}

impl Work {
    /// Whether it only waits for a message.
    fn is_receive(&self) -> bool {
        match self {
            Work::Send(_) => false,
            Work::Receive(_) => true,
            Work::Other(recipe) => recipe.is_receive(),
        }
    }

    #[inline]
    fn recipe(&mut self) -> &mut dyn Recipe {
        match self {
            Work::Send(sending) => sending,
            Work::Receive(receiving) => receiving,
            Work::Other(recipe) => &mut **recipe,
        }
    }
}

impl From<Sending> for Work {
    fn from(sending: Sending) -> Work {
        Work::Send(sending)
    }
}

impl From<Receiving> for Work {
    fn from(receiving: Receiving) -> Work {
        Work::Receive(receiving)
    }
}

impl From<Box<dyn Recipe>> for Work {
    fn from(recipe: Box<dyn Recipe>) -> Work {
        Work::Other(recipe)
    }
}

#[derive(Clone, Copy)]
enum Progress {
    /// Not started, or complete and the program has seen the result.
    Idle,
    Pending(Ticket),
    /// A part is complete and has not been handled.
    Part(End),
    /// Complete, and the program has not seen the result.
    Over(Status),
}

impl Request {
    /// Starts an operation.
    pub(crate) fn begin(comm: Shared<Comm>, work: impl Into<Work>) -> Result<MPI_Request> {
        let mut request = Request::new(comm, work, false);
        request.start()?;
        Ok(request.expose())
    }

    /// A request for an operation that has been posted. The recipe is only made if the operation is pending.
    #[inline(always)]
    pub(crate) fn of_posted<W: Into<Work>>(
        posted: Posted,
        comm: MPI_Comm,
        recipe: impl FnOnce() -> W,
    ) -> Result<MPI_Request> {
        if posted == Posted::Done(Outcome::Done) {
            return Ok(DONE);
        }
        let (comm, work) = (comm::hold(comm)?, recipe().into());
        let progress = Progress::of(posted);
        Ok(Request { comm, work, progress, failure: None, cancelled: false, persistent: false }
            .expose())
    }

    /// A request that the program will start.
    pub(crate) fn prepare(comm: Shared<Comm>, work: impl Into<Work>) -> MPI_Request {
        Request::new(comm, work, true).expose()
    }

    /// Hands the request to the program.
    #[inline]
    fn expose(self) -> MPI_Request {
        MPI_Request(handle::expose_owned_in(spare::room(), self))
    }

    /// Starts an operation, and waits until it is complete.
    pub(crate) fn perform(comm: Shared<Comm>, work: impl Into<Work>) -> Result<Status> {
        let mut request = Request::new(comm, work, false);
        request.start()?;
        request.wait()
    }

    /// A request that has not been started.
    pub(crate) fn new(comm: Shared<Comm>, work: impl Into<Work>, persistent: bool) -> Request {
        let (comm, work, progress) = (Hold::Share(comm), work.into(), Progress::Idle);
        Request { comm, work, progress, failure: None, cancelled: false, persistent }
    }

    /// Starts the operation.
    pub(crate) fn start(&mut self) -> Result {
        self.post(|recipe, comm| recipe.start(comm))
    }

    /// Lets a trigger start the operation.
    pub(crate) fn arm(&mut self, trigger: Trigger<'_>) -> Result {
        trigger.check_starts_in(self.driver())?;
        self.post(|recipe, comm| recipe.arm(comm, trigger))
    }

    #[inline]
    fn post(
        &mut self,
        post: impl FnOnce(&mut dyn Recipe, &Shared<Comm>) -> Result<Posted>,
    ) -> Result {
        self.cancelled = false;
        let posted = post(self.work.recipe(), &self.comm)
            .map_err(|failure| failure.of(self.comm.owner()))?;
        self.progress = Progress::of(posted);
        if self.is_parted() || !matches!(self.work, Work::Other(_)) {
            self.go_on();
        }
        Ok(())
    }

    /// Waits until it is complete, and returns the status.
    pub(crate) fn wait(&mut self) -> Result<Status> {
        self.run_out()?;
        self.finish()
    }

    /// Waits until it is complete, without returning the status.
    #[inline]
    pub(crate) fn run_out(&mut self) -> Result {
        loop {
            if self.is_parted() {
                self.go_on();
            }
            let Progress::Pending(ticket) = self.progress else { return Ok(()) };
            process::running()?;
            let outcome = self.driver().wait(ticket);
            self.see(ticket, outcome);
        }
    }

    /// Checks once whether it is complete.
    pub(crate) fn test(&mut self) -> Result<bool> {
        process::running()?;
        self.driver().look(|finished| _ = self.observe(finished));
        self.go_on();
        Ok(self.is_over())
    }

    /// Checks whether a part is complete. Returns false while it is pending.
    #[inline(always)]
    pub(crate) fn observe(&mut self, finished: &mut Finished<'_>) -> bool {
        if let Progress::Pending(ticket) = self.progress {
            match finished.take(ticket) {
                Some(outcome) => self.see(ticket, outcome),
                None => return false,
            }
        }
        !matches!(self.progress, Progress::Pending(_))
    }

    #[inline(always)]
    fn see(&mut self, ticket: Ticket, outcome: Outcome) {
        if matches!(outcome, Outcome::Released) && !self.work.recipe().may_be_released() {
            return;
        }
        let outcome = if self.cancelled { forgiven(outcome) } else { outcome };
        self.progress = Progress::Part(End { ticket: Some(ticket), outcome });
    }

    /// Runs the parts that the end of a part makes possible. Messages have one part, so a caller that is about to
    /// finish them need not call this.
    #[inline]
    pub(crate) fn go_on(&mut self) {
        while let Progress::Part(end) = self.progress {
            self.progress = match self.work.recipe().finish(&self.comm, end) {
                Ok(Next::Over(status)) => Progress::Over(status),
                Ok(Next::Then(posted)) => Progress::of(posted),
                Err(failure) => {
                    // The failure of an access to a file belongs to the file.
                    let owner = failure.owner().unwrap_or_else(|| self.comm.owner());
                    self.failure = Some(failure.of(owner));
                    Progress::Over(Status::EMPTY)
                }
            };
        }
    }

    /// Whether it may have several parts.
    #[inline]
    pub(crate) fn is_parted(&self) -> bool {
        matches!(&self.work, Work::Other(recipe) if !recipe.ends_when_asked())
    }

    /// The plane that it waits in.
    #[inline]
    pub(crate) fn driver(&self) -> Plane {
        match &self.work {
            Work::Send(_) | Work::Receive(_) => self.comm.plane(),
            Work::Other(recipe) => recipe.driver(&self.comm),
        }
    }

    /// The ticket that it waits for.
    pub(crate) fn pending(&self) -> Option<Ticket> {
        match self.progress {
            Progress::Pending(ticket) => Some(ticket),
            _ => None,
        }
    }

    /// Reports the end of an operation, which may belong to this request.
    pub(crate) fn hear(&mut self, ticket: Ticket, outcome: Outcome) {
        if self.pending() == Some(ticket) {
            self.see(ticket, outcome);
            self.go_on();
        }
    }

    /// Cancels it, if it is not too late.
    pub(crate) fn cancel(&mut self) -> Result {
        self.cancelled = true;
        if let Progress::Part(end) = &mut self.progress {
            end.outcome = forgiven(end.outcome);
        }
        let pending = self.pending();
        self.work.recipe().cancel(&self.comm, pending)
    }

    /// Whether the program started it and has not seen the result.
    pub(crate) fn is_active(&self) -> bool {
        !matches!(self.progress, Progress::Idle)
    }

    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.progress, Progress::Over(_) | Progress::Idle)
    }

    /// The status of a message that was received in place, unless the program keeps the request. Most requests end like
    /// this, and then there is nothing to do but to [`discard`] them.
    #[inline(always)]
    pub(crate) fn received(&self) -> Option<Status> {
        match (&self.work, &self.progress) {
            (
                Work::Receive(receiving),
                Progress::Part(End { outcome: Outcome::Received(got), .. }),
            ) if receiving.data.is_in_place() && !self.persistent => Some(Status::of(got)),
            _ => None,
        }
    }

    /// Returns the result.
    #[inline(always)]
    pub(crate) fn finish(&mut self) -> Result<Status> {
        let progress = self.progress;
        self.progress = Progress::Idle;
        match progress {
            Progress::Part(end) if matches!(self.work, Work::Other(_)) => {
                self.progress = Progress::Part(end);
                self.go_on();
                self.finish()
            }
            Progress::Part(end) => self.end_message(end.outcome),
            Progress::Over(mut status) => {
                if let Some(failure) = self.failure.take() {
                    return Err(failure);
                }
                self.work.recipe().query(&mut status)?;
                Ok(status)
            }
            _ => Ok(Status::EMPTY),
        }
    }

    #[inline(always)]
    fn end_message(&mut self, outcome: Outcome) -> Result<Status> {
        let result = match &mut self.work {
            Work::Send(sending) => sending.end(&self.comm, outcome),
            Work::Receive(receiving) => receiving.end(&self.comm, outcome),
            Work::Other(_) => unreachable!("it goes on before it is over"),
        };
        result.map_err(|failure| failure.of(self.comm.owner()))
    }

    /// Whether the program keeps the request although it failed: a receive from any source that waits until the
    /// program acknowledges a death.
    #[cold]
    pub(crate) fn stays(&mut self, failure: &Failure) -> bool {
        if failure.code() != MPIX_ERR_PROC_FAILED_PENDING {
            return false;
        }
        let nobody: Box<dyn Recipe> = Box::new(Nothing);
        match std::mem::replace(&mut self.work, Work::Other(nobody)) {
            Work::Receive(receiving) => self.work = Work::Other(Box::new(Again(receiving))),
            again => self.work = again,
        }
        let outcome = Outcome::Failed(Fault::PeerDown(self.comm.plane().me()));
        self.progress = Progress::Part(End { ticket: None, outcome });
        true
    }

    /// The status of a complete request, which stays unchanged.
    pub(crate) fn status(&mut self) -> Result<Status> {
        let (Progress::Over(mut status), None) = (self.progress, &self.failure) else {
            return Ok(Status::EMPTY);
        };
        self.work.recipe().query(&mut status)?;
        Ok(status)
    }

    /// The call that made it, as reports name it.
    pub(crate) fn origin(&self) -> String {
        match &self.work {
            Work::Send(sending) => sending.origin(&self.comm, self.persistent),
            Work::Receive(receiving) => receiving.origin(&self.comm, self.persistent),
            Work::Other(recipe) => recipe.origin(&self.comm, self.persistent),
        }
    }

    /// Called when the program has freed the request.
    #[inline]
    pub(crate) fn freed(&mut self) -> Result {
        match &mut self.work {
            Work::Send(_) | Work::Receive(_) => Ok(()),
            Work::Other(recipe) => recipe.freed(),
        }
    }
}

/// A placeholder for another recipe.
struct Nothing;

impl Recipe for Nothing {
    fn start(&mut self, _: &Shared<Comm>) -> Result<Posted> {
        Ok(Posted::Done(Outcome::Done))
    }

    fn finish(&mut self, _: &Shared<Comm>, _: End) -> Result<Next> {
        Ok(Next::Over(Status::EMPTY))
    }
}

/// The outcome of a cancelled message. That the other side has left meanwhile is no error.
fn forgiven(outcome: Outcome) -> Outcome {
    match outcome {
        Outcome::Failed(Fault::PeerDown(_)) => Outcome::Cancelled,
        other => other,
    }
}

impl Progress {
    #[inline]
    fn of(posted: Posted) -> Progress {
        match posted {
            Posted::Done(outcome) => Progress::Part(End { ticket: None, outcome }),
            Posted::Pending(ticket) => Progress::Pending(ticket),
        }
    }
}

/// The request of every operation that was complete when it was started and has an empty status. Most sends are like
/// that and need no object. The value is among those that the standard reserves for implementations.
pub(crate) const DONE: MPI_Request = MPI_Request(0x181);

/// The request that a handle names; `None` for MPI_REQUEST_NULL and [`DONE`].
#[inline(always)]
pub(crate) fn find<'a>(request: MPI_Request) -> Result<Option<&'a mut Request>> {
    match request {
        MPI_REQUEST_NULL | DONE => Ok(None),
        MPI_Request(address) => handle::find_owned(address).map(Some),
    }
}

/// Requests that the program has freed while they were active.
static ORPHANS: Mutex<Vec<Request>> = Mutex::new(Vec::new());

/// Keeps a freed request until it is complete.
pub(crate) fn keep_orphan(mut freed: Request) {
    freed.go_on();
    sweep_orphans();
    if !freed.is_over() {
        ORPHANS.lock().unwrap_or_else(PoisonError::into_inner).push(freed);
    }
}

/// Drops freed requests that are complete.
fn sweep_orphans() {
    let mut orphans = ORPHANS.lock().unwrap_or_else(PoisonError::into_inner);
    if process::running().is_err() {
        return;
    }
    for driver in distinct(orphans.iter().map(Request::driver)) {
        let within = |request: &&mut Request| request.driver().is(driver);
        driver.look(|finished| {
            let those = orphans.iter_mut().filter(within);
            those.for_each(|request| _ = request.observe(finished));
        });
    }
    orphans.retain_mut(|request| {
        request.go_on();
        !request.is_over()
    });
}

/// Takes a request from the program that is not complete.
pub(crate) fn take(request: MPI_Request) -> Result<Request> {
    spare::forget(request.0);
    handle::take_owned(request.0)
}

/// The requests that the program has neither completed nor freed. `None` if they are not known, since they were too many.
pub(crate) fn left_behind<'a>() -> Option<Vec<&'a mut Request>> {
    let handles = spare::left_behind()?;
    Some(handles.into_iter().filter_map(|handle| handle::find_owned(handle).ok()).collect())
}

/// Completes a request that the program freed before, and that can complete now.
pub(crate) fn complete_freed(request: MPI_Request) -> Result {
    take(request)?.run_out()
}

/// Completes the active freed requests. Receives without a matching message are cancelled: every message for them
/// must have been sent by now.
pub(crate) fn complete_orphans() {
    let orphans = std::mem::take(&mut *ORPHANS.lock().unwrap_or_else(PoisonError::into_inner));
    for mut request in orphans {
        // Errors, such as the death of the other side, can no longer be reported.
        if request.work.is_receive() {
            _ = request.cancel();
        }
        _ = request.run_out();
    }
}

/// Each plane once.
pub(crate) fn distinct(drivers: impl Iterator<Item = Plane>) -> Vec<Plane> {
    let mut each: Vec<Plane> = Vec::new();
    for driver in drivers {
        if !each.iter().any(|other| other.is(driver)) {
            each.push(driver);
        }
    }
    each
}

/// Takes a complete request from the program.
#[inline(always)]
pub(crate) fn discard(handle: MPI_Request) -> Result {
    spare::keep(handle::discard_owned(handle.0)?);
    Ok(())
}
