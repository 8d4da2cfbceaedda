//! Requests: something that was begun, and how to learn that it is over.
//!
//! A request has a *recipe*, which says what is to be done, and its progress. Non-blocking calls make a
//! recipe and start it; persistent ones make it and let the program start it, again and again. All
//! of the wait and test family, which is in `calls`, look at progress in one place, [`Request::observe`], and
//! hand out what came of it in another, [`Request::finish`].
//!
//! Invariants, cited below by number.
//!   I1. What a recipe lends to the NIC lives in it or is the program's, who leaves it alone until the
//!       request is over. A request that the program frees earlier is kept as an orphan.

mod spare;

use std::ffi::c_int;
use std::sync::{Mutex, PoisonError};

use ferrywire_host::Finished;
use ferrywire_host::nic::{Fault, Outcome, Posted, Ticket};

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

/// Something that was begun, or can be.
pub(crate) struct Request {
    /// Where it goes on, and its errors go.
    comm: Hold,
    work: Work,
    progress: Progress,
    /// Why it came to nothing, if it is over and did.
    failure: Option<Failure>,
    /// The program has taken it back.
    cancelled: bool,
    pub(crate) persistent: bool,
}

impl Kind for Request {
    const MARK: u32 = 0x5245_5155;
    const ERROR: c_int = MPI_ERR_REQUEST;
    const NAME: &'static str = "request";
}

/// What a request is made of. Messages are what most of them are: no allocation for them, and no call through
/// a table.
pub(crate) enum Work {
    Send(Sending),
    Receive(Receiving),
    Other(Box<dyn Recipe>),
}

impl Work {
    /// Whether it waits for a message, and for nothing else.
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
    /// It has not been started, or it is over and the program knows.
    Idle,
    Pending(Ticket),
    /// A part is over, and has not been finished.
    Part(End),
    /// It is over, and the program does not know yet.
    Over(Status),
}

impl Request {
    /// Begins something.
    pub(crate) fn begin(comm: Shared<Comm>, work: impl Into<Work>) -> Result<MPI_Request> {
        let mut request = Request::new(comm, work, false);
        request.start()?;
        Ok(request.expose())
    }

    /// What an operation that has been posted comes to. Its recipe is made if it is not over yet.
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

    /// Something that the program will start.
    pub(crate) fn prepare(comm: Shared<Comm>, work: impl Into<Work>) -> MPI_Request {
        Request::new(comm, work, true).expose()
    }

    /// Gives it to the program.
    #[inline]
    fn expose(self) -> MPI_Request {
        MPI_Request(handle::expose_owned_in(spare::room(), self))
    }

    /// Begins something, and waits until it is over.
    pub(crate) fn perform(comm: Shared<Comm>, work: impl Into<Work>) -> Result<Status> {
        let mut request = Request::new(comm, work, false);
        request.start()?;
        request.wait()
    }

    /// Something that has not been started.
    pub(crate) fn new(comm: Shared<Comm>, work: impl Into<Work>, persistent: bool) -> Request {
        let (comm, work, progress) = (Hold::Share(comm), work.into(), Progress::Idle);
        Request { comm, work, progress, failure: None, cancelled: false, persistent }
    }

    /// Begins.
    pub(crate) fn start(&mut self) -> Result {
        self.cancelled = false;
        let posted = self
            .work
            .recipe()
            .start(&self.comm)
            .map_err(|failure| failure.of(self.comm.owner()))?;
        self.progress = Progress::of(posted);
        self.go_on();
        Ok(())
    }

    /// Waits until it is over.
    pub(crate) fn wait(&mut self) -> Result<Status> {
        self.run_out()?;
        self.finish()
    }

    /// Waits until it is over, and says nothing of it.
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

    /// Looks once whether it is over.
    pub(crate) fn test(&mut self) -> Result<bool> {
        process::running()?;
        self.driver().look(|finished| _ = self.observe(finished));
        self.go_on();
        Ok(self.is_over())
    }

    /// Looks whether a part is over. False if it goes on without us.
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

    /// Does what the end of a part makes possible. Messages have one part, and whoever is about to finish
    /// them need not ask for this.
    #[inline]
    pub(crate) fn go_on(&mut self) {
        while let Progress::Part(end) = self.progress {
            self.progress = match self.work.recipe().finish(&self.comm, end) {
                Ok(Next::Over(status)) => Progress::Over(status),
                Ok(Next::Then(posted)) => Progress::of(posted),
                Err(failure) => {
                    self.failure = Some(failure.of(self.comm.owner()));
                    Progress::Over(Status::EMPTY)
                }
            };
        }
    }

    /// Whether it may have several parts.
    #[inline]
    pub(crate) fn is_parted(&self) -> bool {
        matches!(self.work, Work::Other(_))
    }

    /// Who knows what it waits for.
    #[inline]
    pub(crate) fn driver(&self) -> Plane {
        match &self.work {
            Work::Send(_) | Work::Receive(_) => self.comm.plane(),
            Work::Other(recipe) => recipe.driver(&self.comm),
        }
    }

    /// What it waits for.
    pub(crate) fn pending(&self) -> Option<Ticket> {
        match self.progress {
            Progress::Pending(ticket) => Some(ticket),
            _ => None,
        }
    }

    /// Tells it of the end of an operation, which may be its own.
    pub(crate) fn hear(&mut self, ticket: Ticket, outcome: Outcome) {
        if self.pending() == Some(ticket) {
            self.see(ticket, outcome);
            self.go_on();
        }
    }

    /// Takes it back, if it is not too late.
    pub(crate) fn cancel(&mut self) -> Result {
        self.cancelled = true;
        if let Progress::Part(end) = &mut self.progress {
            end.outcome = forgiven(end.outcome);
        }
        let pending = self.pending();
        self.work.recipe().cancel(&self.comm, pending)
    }

    /// Whether the program started it and has not heard of its end.
    pub(crate) fn is_active(&self) -> bool {
        !matches!(self.progress, Progress::Idle)
    }

    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.progress, Progress::Over(_) | Progress::Idle)
    }

    /// Hands out what came of it.
    #[inline(always)]
    pub(crate) fn finish(&mut self) -> Result<Status> {
        let progress = self.progress;
        self.progress = Progress::Idle;
        match progress {
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

    /// Whether it stays the program's though it has failed: a receive from anybody that waits for word that the program
    /// knows who has died.
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

    /// The status of one that is over, which stays as it is.
    pub(crate) fn status(&mut self) -> Result<Status> {
        let (Progress::Over(mut status), None) = (self.progress, &self.failure) else {
            return Ok(Status::EMPTY);
        };
        self.work.recipe().query(&mut status)?;
        Ok(status)
    }

    /// The program has it no more.
    #[inline]
    pub(crate) fn freed(&mut self) -> Result {
        match &mut self.work {
            Work::Send(_) | Work::Receive(_) => Ok(()),
            Work::Other(recipe) => recipe.freed(),
        }
    }
}

/// A place for another recipe.
struct Nothing;

impl Recipe for Nothing {
    fn start(&mut self, _: &Shared<Comm>) -> Result<Posted> {
        Ok(Posted::Done(Outcome::Done))
    }

    fn finish(&mut self, _: &Shared<Comm>, _: End) -> Result<Next> {
        Ok(Next::Over(Status::EMPTY))
    }
}

/// What a message that was taken back came to. It does no harm that the other side has left meanwhile.
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

/// The request of everything that was over when it was begun, and had nothing to say. Most sends are
/// like that, and need no object. It is a number of those that the standard keeps for libraries.
pub(crate) const DONE: MPI_Request = MPI_Request(0x181);

/// What a handle names; nothing if it is MPI_REQUEST_NULL, or [`DONE`].
#[inline(always)]
pub(crate) fn find<'a>(request: MPI_Request) -> Result<Option<&'a mut Request>> {
    match request {
        MPI_REQUEST_NULL | DONE => Ok(None),
        MPI_Request(address) => handle::find_owned(address).map(Some),
    }
}

/// Requests that the program has freed while they went on.
static ORPHANS: Mutex<Vec<Request>> = Mutex::new(Vec::new());

/// Keeps a request that the program has freed until it is over.
pub(crate) fn keep_orphan(mut freed: Request) {
    freed.go_on();
    sweep_orphans();
    if !freed.is_over() {
        ORPHANS.lock().unwrap_or_else(PoisonError::into_inner).push(freed);
    }
}

/// Lets go of freed requests that are over.
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

/// Ends a request that the program had freed before it was over, which it is now.
pub(crate) fn complete_freed(request: MPI_Request) -> Result {
    handle::take_owned::<Request>(request.0)?.run_out()
}

/// Completes the freed requests that go on. A receive that no message has matched is taken back: whoever would have
/// sent one has to have sent it by now.
pub(crate) fn complete_orphans() {
    let orphans = std::mem::take(&mut *ORPHANS.lock().unwrap_or_else(PoisonError::into_inner));
    for mut request in orphans {
        // Nobody can be told of an error any more: such as that the other side has died.
        if request.work.is_receive() {
            _ = request.cancel();
        }
        _ = request.run_out();
    }
}

/// Each once.
pub(crate) fn distinct(drivers: impl Iterator<Item = Plane>) -> Vec<Plane> {
    let mut each: Vec<Plane> = Vec::new();
    for driver in drivers {
        if !each.iter().any(|other| other.is(driver)) {
            each.push(driver);
        }
    }
    each
}

/// Takes a request that is over from the program.
pub(crate) fn discard(handle: MPI_Request) -> Result {
    spare::keep(handle::discard_owned(handle.0)?);
    Ok(())
}
