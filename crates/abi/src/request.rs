//! Requests: something that was begun, and how to learn that it is over.
//!
//! A request has a *recipe*, which says what is to be done, and its progress. Non-blocking calls make a
//! recipe and start it; persistent ones make it and let the program start it, again and again. All
//! of the wait and test family look at progress in one place, [`Request::observe`], and hand out what came
//! of it in another, [`Request::finish`]. A request is in the plane of its communicator; those that a program
//! waits for together are most often in the same one, and then looked at under one lock.
//!
//! Invariants, cited below by number.
//!   I1. What a recipe lends to the NIC lives in it or is the program's, who leaves it alone until the
//!       request is over. A recipe that is dropped earlier is kept alive by the driver.

use std::ffi::c_int;
use std::sync::{Mutex, PoisonError};

use ferrywire_host::nic::{Outcome, Posted, Ticket};
use ferrywire_host::{Driver, Finished, wait_around};

use crate::comm::Comm;
use crate::constants::{MPI_ERR_REQUEST, MPI_REQUEST_NULL, MPI_UNDEFINED};
use crate::entry::entries;
use crate::failure::{Failure, Result};
use crate::handle::{self, Kind, Shared};
use crate::nonblocking::{Receiving, Sending};
use crate::plane;
use crate::pointer::{In, Out};
use crate::process;
use crate::sizes;
use crate::types::{MPI_Request, MPI_Status};

/// Something that was begun, or can be.
pub(crate) struct Request {
    /// Where it goes on, and its errors go.
    pub(crate) comm: Shared<Comm>,
    work: Work,
    progress: Progress,
    persistent: bool,
}

impl Kind for Request {
    const MARK: u32 = 0x5245_5155;
    const ERROR: c_int = MPI_ERR_REQUEST;
    const NAME: &'static str = "request";
}

/// What is to be done, and what is to be done when it is over.
pub(crate) trait Recipe: Send {
    /// Begins.
    fn start(&mut self, comm: &Shared<Comm>) -> Result<Posted>;

    /// A part is over. Says what the whole came to, or which part comes next.
    fn finish(&mut self, comm: &Shared<Comm>, end: End) -> Result<Next>;

    /// Whether it is over for the program when the NIC lets the caller of a schedule go. If so, the
    /// recipe sees to it that what the schedule still needs lives on.
    fn may_be_released(&self) -> bool {
        false
    }

    /// Takes it back, if it is not too late.
    fn cancel(&mut self, comm: &Comm, pending: Option<Ticket>) -> Result {
        if let Some(ticket) = pending {
            self.driver(comm).cancel(ticket);
        }
        Ok(())
    }

    /// Who knows the ticket of what was posted last.
    fn driver(&self, comm: &Comm) -> &'static Driver {
        comm.driver()
    }

    /// The status that the program shall see, where something of the user's has a say in it.
    fn query(&mut self, _status: &mut MPI_Status) -> Result {
        Ok(())
    }

    /// The program has no request for it any more.
    fn freed(&mut self) -> Result {
        Ok(())
    }
}

/// Messages are what most requests are: no allocation for them, and no call through a table.
enum Work {
    Send(Sending),
    Receive(Receiving),
    Other(Box<dyn Recipe>),
}

impl Work {
    #[inline]
    fn recipe(&mut self) -> &mut dyn Recipe {
        match self {
            Work::Send(sending) => sending,
            Work::Receive(receiving) => receiving,
            Work::Other(recipe) => &mut **recipe,
        }
    }
}

/// The end of a part.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End {
    /// Its ticket, if it had one.
    pub(crate) ticket: Option<Ticket>,
    /// What it came to.
    pub(crate) outcome: Outcome,
}

/// How a recipe goes on.
pub(crate) enum Next {
    /// It is over.
    Over(MPI_Status),
    /// Another part of it has been posted.
    Then(Posted),
}

enum Progress {
    /// It has not been started, or it is over and the program knows.
    Idle,
    Pending(Ticket),
    /// A part is over, and has not been finished.
    Part(End),
    /// It is over, and the program does not know yet.
    Over(Result<MPI_Status>),
}

impl Request {
    /// Begins something.
    pub(crate) fn begin(comm: Shared<Comm>, work: impl Into<AnyWork>) -> Result<MPI_Request> {
        let mut request = Request::new(comm, work, false);
        request.start()?;
        Ok(MPI_Request(handle::expose_owned(request)))
    }

    /// What an operation that has been posted comes to. Its recipe is made if it is not over yet.
    #[inline]
    pub(crate) fn of_posted<W: Into<AnyWork>>(
        posted: Posted,
        recipe: impl FnOnce() -> Result<(Shared<Comm>, W)>,
    ) -> Result<MPI_Request> {
        if posted == Posted::Done(Outcome::Done) {
            return Ok(DONE);
        }
        let (comm, work) = recipe()?;
        let mut request = Request::new(comm, work, false);
        request.progress = Progress::of(posted);
        request.go_on();
        Ok(MPI_Request(handle::expose_owned(request)))
    }

    /// Something that the program will start.
    pub(crate) fn prepare(comm: Shared<Comm>, work: impl Into<AnyWork>) -> MPI_Request {
        MPI_Request(handle::expose_owned(Request::new(comm, work, true)))
    }

    /// Begins something, and waits until it is over.
    pub(crate) fn perform(comm: Shared<Comm>, work: impl Into<AnyWork>) -> Result<MPI_Status> {
        let mut request = Request::new(comm, work, false);
        request.start()?;
        request.wait()
    }

    /// Something that has not been started.
    pub(crate) fn new(comm: Shared<Comm>, work: impl Into<AnyWork>, persistent: bool) -> Request {
        Request { comm, work: work.into().0, progress: Progress::Idle, persistent }
    }

    /// Begins.
    pub(crate) fn start(&mut self) -> Result {
        let posted = self.work.recipe().start(&self.comm).map_err(|f| f.of_comm(&self.comm))?;
        self.progress = Progress::of(posted);
        self.go_on();
        Ok(())
    }

    /// Waits until it is over.
    pub(crate) fn wait(&mut self) -> Result<MPI_Status> {
        self.run_out()?;
        self.finish()
    }

    /// Waits until it is over, and says nothing of it.
    #[inline]
    fn run_out(&mut self) -> Result {
        loop {
            self.go_on();
            let Progress::Pending(ticket) = self.progress else { return Ok(()) };
            process::running()?;
            let outcome = plane::wait(self.driver(), ticket)?;
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
    #[inline]
    fn observe(&mut self, finished: &mut Finished<'_>) -> bool {
        if let Progress::Pending(ticket) = self.progress {
            match finished.take(ticket) {
                Some(outcome) => self.see(ticket, outcome),
                None => return false,
            }
        }
        !matches!(self.progress, Progress::Pending(_))
    }

    #[inline]
    fn see(&mut self, ticket: Ticket, outcome: Outcome) {
        if outcome == Outcome::Released && !self.work.recipe().may_be_released() {
            return;
        }
        self.progress = Progress::Part(End { ticket: Some(ticket), outcome });
    }

    /// Does what the end of a part makes possible.
    #[inline]
    fn go_on(&mut self) {
        while let Progress::Part(end) = self.progress {
            self.progress = match self.work.recipe().finish(&self.comm, end) {
                Ok(Next::Over(status)) => Progress::Over(Ok(status)),
                Ok(Next::Then(posted)) => Progress::of(posted),
                Err(failure) => Progress::Over(Err(failure.of_comm(&self.comm))),
            };
        }
    }

    /// Who knows what it waits for.
    #[inline]
    pub(crate) fn driver(&self) -> &'static Driver {
        match &self.work {
            Work::Send(_) | Work::Receive(_) => self.comm.driver(),
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
        let pending = self.pending();
        self.work.recipe().cancel(&self.comm, pending)
    }

    /// Whether the program started it and has not heard of its end.
    pub(crate) fn is_active(&self) -> bool {
        !matches!(self.progress, Progress::Idle)
    }

    #[inline]
    fn is_over(&self) -> bool {
        matches!(self.progress, Progress::Over(_) | Progress::Idle)
    }

    /// Hands out what came of it.
    #[inline]
    fn finish(&mut self) -> Result<MPI_Status> {
        match std::mem::replace(&mut self.progress, Progress::Idle) {
            Progress::Over(result) => {
                let mut status = result?;
                self.work.recipe().query(&mut status)?;
                Ok(status)
            }
            _ => Ok(MPI_Status::EMPTY),
        }
    }
}

/// What a request can be made of.
pub(crate) struct AnyWork(Work);

impl From<Sending> for AnyWork {
    fn from(sending: Sending) -> AnyWork {
        AnyWork(Work::Send(sending))
    }
}

impl From<Receiving> for AnyWork {
    fn from(receiving: Receiving) -> AnyWork {
        AnyWork(Work::Receive(receiving))
    }
}

impl From<Box<dyn Recipe>> for AnyWork {
    fn from(recipe: Box<dyn Recipe>) -> AnyWork {
        AnyWork(Work::Other(recipe))
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
#[inline]
pub(crate) fn find<'a>(request: MPI_Request) -> Result<Option<&'a mut Request>> {
    match request {
        MPI_REQUEST_NULL | DONE => Ok(None),
        MPI_Request(address) => handle::find_owned(address).map(Some),
    }
}

/// Hands out what came of a request that is over. The request goes, unless it is persistent.
#[inline]
fn finish(place: Out<MPI_Request>) -> Result<MPI_Status> {
    let handle = place.get()?;
    if handle == DONE {
        place.put(MPI_REQUEST_NULL)?;
    }
    let Some(request) = find(handle)? else { return Ok(MPI_Status::EMPTY) };
    let result = request.finish();
    if request.persistent {
        return result;
    }
    place.put(MPI_REQUEST_NULL)?;
    let mut request: Request = handle::take_owned(handle.0)?;
    request.work.recipe().freed()?;
    result
}

/// Several requests of the program's.
#[derive(Clone, Copy)]
struct Several {
    places: Out<MPI_Request>,
    count: usize,
}

impl Several {
    fn new(count: c_int, places: Out<MPI_Request>) -> Result<Several> {
        let several = Several { places, count: sizes::length(count)? };
        for handle in places.slice(several.count)? {
            find(*handle)?;
        }
        Ok(several)
    }

    /// The request at a place that was looked at already.
    #[inline]
    fn at<'a>(self, place: usize) -> Option<&'a mut Request> {
        find(self.places.at(place).get().ok()?).ok().flatten()
    }

    fn active(self) -> impl Iterator<Item = (usize, &'static mut Request)> {
        let each = (0..self.count).filter_map(move |place| Some((place, self.at(place)?)));
        each.filter(|(_, request)| request.is_active())
    }

    /// Those that may have several parts.
    fn parts(self) -> impl Iterator<Item = &'static mut Request> {
        let each = self.active().map(|(_, request)| request);
        each.filter(|request| matches!(request.work, Work::Other(_)))
    }

    fn is_any_active(self) -> bool {
        self.first_done().is_some() || self.active().next().is_some()
    }

    /// The first that was over when it was begun.
    fn first_done(self) -> Option<usize> {
        (0..self.count).find(|&place| self.is_done(place))
    }

    fn is_done(self, place: usize) -> bool {
        self.places.at(place).get().is_ok_and(|handle| handle == DONE)
    }

    /// Where the program does not know yet that it is over.
    fn over(self) -> impl Iterator<Item = usize> {
        let is_over = |request: &Request| request.is_active() && request.is_over();
        (0..self.count).filter(move |&place| {
            self.is_done(place) || self.at(place).is_some_and(|request| is_over(request))
        })
    }

    /// The plane that all are in, if it is one.
    #[inline]
    fn common_driver(self) -> Result<Option<&'static Driver>> {
        let rank = process::running()?.driver;
        if rank.has_one_plane() {
            return Ok(Some(rank));
        }
        if plane::must_look_around() {
            return Ok(None);
        }
        let mut drivers = self.active().map(|(_, request)| request.driver());
        let first = drivers.next().unwrap_or(rank);
        Ok(drivers.all(|driver| std::ptr::eq(driver, first)).then_some(first))
    }

    /// The planes that they are in.
    fn drivers(self) -> Vec<&'static Driver> {
        distinct(self.active().map(|(_, request)| request.driver()))
    }

    /// Those of a plane.
    fn within(self, driver: &Driver) -> impl Iterator<Item = (usize, &'static mut Request)> {
        self.active().filter(move |(_, request)| std::ptr::eq(request.driver(), driver))
    }

    /// Looks once. True if all are over.
    fn test_all(self) -> Result<bool> {
        if let Some(driver) = self.common_driver()? {
            driver.look(|finished| {
                self.active().for_each(|(_, request)| _ = request.observe(finished));
            });
        } else {
            for driver in self.drivers() {
                driver.look(|finished| {
                    self.within(driver).for_each(|(_, request)| _ = request.observe(finished));
                });
            }
        }
        self.active().for_each(|(_, request)| request.go_on());
        Ok(self.active().all(|(_, request)| request.is_over()))
    }

    /// Waits until all are over.
    fn wait_all(self) -> Result {
        loop {
            let Some(driver) = self.common_driver()? else {
                // One after the other: agents look after those in other planes.
                return self.active().try_for_each(|(_, request)| request.run_out());
            };
            // Where something has several parts, others may wait for the next one to be posted.
            let parted = self.parts().next().is_some();
            let mut place = 0;
            driver.wait_until(|finished| {
                if parted && self.parts().any(|part| part.observe(finished) && !part.is_over()) {
                    return Some(());
                }
                while place < self.count {
                    if !self.at(place).is_none_or(|request| request.observe(finished)) {
                        return None;
                    }
                    place += 1;
                }
                Some(())
            });
            // Something may have several parts.
            self.active().for_each(|(_, request)| request.go_on());
            if self.active().all(|(_, request)| request.is_over()) {
                return Ok(());
            }
        }
    }

    /// Waits until one is over. None if none is active.
    fn wait_any(self) -> Result<Option<usize>> {
        if let Some(place) = self.first_done() {
            return Ok(Some(place));
        }
        if !self.is_any_active() {
            return Ok(None);
        }
        loop {
            let place = if let Some(driver) = self.common_driver()? {
                driver.wait_until(|finished| {
                    self.active()
                        .find_map(|(place, request)| request.observe(finished).then_some(place))
                })
            } else {
                let drivers = plane::all()?;
                wait_around(&drivers, |at, finished| {
                    self.within(drivers[at])
                        .find_map(|(place, request)| request.observe(finished).then_some(place))
                })
            };
            let request = self.at(place).expect("it was there");
            request.go_on();
            if request.is_over() {
                return Ok(Some(place));
            }
        }
    }

    /// Finishes the requests at these places. An error of one is an error of the call, and each
    /// status says of its own.
    fn finish(
        self,
        call: &str,
        places: impl Iterator<Item = usize>,
        statuses: Out<MPI_Status>,
    ) -> Result {
        let mut first: Option<(usize, Failure)> = None;
        let mut told = Vec::new();
        for (nth, place) in places.enumerate() {
            let result = finish(self.places.at(place));
            let (mut status, failure) = match result {
                Ok(status) => (status, None),
                Err(failure) => (MPI_Status::EMPTY, Some(failure)),
            };
            if let Some(failure) = failure {
                status.error = failure.register(call);
                first.get_or_insert((place, failure));
            }
            if !statuses.is_null() {
                statuses.at(nth).report(status);
                told.push((nth, status.error));
            }
        }
        let Some((place, failure)) = first else { return Ok(()) };
        for (nth, error) in told {
            let status = statuses.at(nth);
            status.put(MPI_Status { error, ..status.get()? })?;
        }
        Err(failure.in_status(place))
    }
}

/// Requests that the program has freed while they went on.
static ORPHANS: Mutex<Vec<Request>> = Mutex::new(Vec::new());

/// Lets go of freed requests that are over.
fn sweep_orphans() {
    let mut orphans = ORPHANS.lock().unwrap_or_else(PoisonError::into_inner);
    if process::running().is_err() {
        return;
    }
    for driver in distinct(orphans.iter().map(Request::driver)) {
        let within = |request: &&mut Request| std::ptr::eq(request.driver(), driver);
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

/// Each once.
fn distinct(drivers: impl Iterator<Item = &'static Driver>) -> Vec<&'static Driver> {
    let mut each: Vec<&Driver> = Vec::new();
    for driver in drivers {
        if !each.iter().any(|&other| std::ptr::eq(other, driver)) {
            each.push(driver);
        }
    }
    each
}

entries! {
    fn MPI_Wait(request: Out<MPI_Request>, status: Out<MPI_Status>) {
        let active = find(request.get()?)?.filter(|request| request.is_active());
        match active {
            Some(active) => {
                active.run_out()?;
                status.report(finish(request)?);
            }
            None => status.put_if_wanted(finish(request)?),
        }
        Ok(())
    }

    fn MPI_Waitall(
        count: c_int, array_of_requests: Out<MPI_Request>, array_of_statuses: Out<MPI_Status>,
    ) {
        let several = Several::new(count, array_of_requests)?;
        several.wait_all()?;
        several.finish("MPI_Waitall", 0..several.count, array_of_statuses)
    }

    fn MPI_Waitany(
        count: c_int, array_of_requests: Out<MPI_Request>, index: Out<c_int>,
        status: Out<MPI_Status>,
    ) {
        let several = Several::new(count, array_of_requests)?;
        let over = several.wait_any()?;
        index.put(over.map_or(MPI_UNDEFINED, place))?;
        match over {
            Some(place) => status.report(finish(array_of_requests.at(place))?),
            None => status.put_if_wanted(MPI_Status::EMPTY),
        }
        Ok(())
    }

    fn MPI_Waitsome(
        incount: c_int, array_of_requests: Out<MPI_Request>, outcount: Out<c_int>,
        array_of_indices: Out<c_int>, array_of_statuses: Out<MPI_Status>,
    ) {
        let several = Several::new(incount, array_of_requests)?;
        if several.wait_any()?.is_none() {
            return outcount.put(MPI_UNDEFINED);
        }
        several.test_all()?;
        finish_some("MPI_Waitsome", several, outcount, array_of_indices, array_of_statuses)
    }

    fn MPI_Test(request: Out<MPI_Request>, flag: Out<c_int>, status: Out<MPI_Status>) {
        let Some(active) = find(request.get()?)?.filter(|request| request.is_active()) else {
            status.put_if_wanted(finish(request)?);
            return flag.put(1);
        };
        if !active.test()? {
            return flag.put(0);
        }
        status.report(finish(request)?);
        flag.put(1)
    }

    fn MPI_Testall(
        count: c_int, array_of_requests: Out<MPI_Request>, flag: Out<c_int>,
        array_of_statuses: Out<MPI_Status>,
    ) {
        let several = Several::new(count, array_of_requests)?;
        let over = several.test_all()?;
        flag.put(over.into())?;
        match over {
            true => several.finish("MPI_Testall", 0..several.count, array_of_statuses),
            false => Ok(()),
        }
    }

    fn MPI_Testany(
        count: c_int, array_of_requests: Out<MPI_Request>, index: Out<c_int>, flag: Out<c_int>,
        status: Out<MPI_Status>,
    ) {
        let several = Several::new(count, array_of_requests)?;
        let idle = !several.is_any_active();
        several.test_all()?;
        let over = several.over().next();
        index.put(over.map_or(MPI_UNDEFINED, place))?;
        flag.put((idle || over.is_some()).into())?;
        match over {
            Some(place) => status.report(finish(array_of_requests.at(place))?),
            None if idle => status.put_if_wanted(MPI_Status::EMPTY),
            None => {}
        }
        Ok(())
    }

    fn MPI_Testsome(
        incount: c_int, array_of_requests: Out<MPI_Request>, outcount: Out<c_int>,
        array_of_indices: Out<c_int>, array_of_statuses: Out<MPI_Status>,
    ) {
        let several = Several::new(incount, array_of_requests)?;
        if !several.is_any_active() {
            return outcount.put(MPI_UNDEFINED);
        }
        several.test_all()?;
        finish_some("MPI_Testsome", several, outcount, array_of_indices, array_of_statuses)
    }

    fn MPI_Request_get_status(
        request: MPI_Request, flag: Out<c_int>, status: Out<MPI_Status>,
    ) {
        let mut handle = request;
        let several = Several::new(1, Out::to(&mut handle))?;
        let over = several.test_all()?;
        flag.put(over.into())?;
        if over {
            status.report(status_of(request)?);
        }
        Ok(())
    }

    fn MPI_Request_get_status_all(
        count: c_int, array_of_requests: In<MPI_Request>, flag: Out<c_int>,
        array_of_statuses: Out<MPI_Status>,
    ) {
        let several = Several::new(count, array_of_requests.as_out())?;
        let over = several.test_all()?;
        flag.put(over.into())?;
        if over && !array_of_statuses.is_null() {
            for (nth, &request) in array_of_requests.slice(several.count)?.iter().enumerate() {
                array_of_statuses.at(nth).report(status_of(request)?);
            }
        }
        Ok(())
    }

    fn MPI_Request_get_status_any(
        count: c_int, array_of_requests: In<MPI_Request>, index: Out<c_int>, flag: Out<c_int>,
        status: Out<MPI_Status>,
    ) {
        let several = Several::new(count, array_of_requests.as_out())?;
        let idle = !several.is_any_active();
        several.test_all()?;
        let over = several.over().next();
        index.put(over.map_or(MPI_UNDEFINED, place))?;
        flag.put((idle || over.is_some()).into())?;
        match over {
            Some(place) => status.report(status_of(several.places.at(place).get()?)?),
            None if idle => status.put_if_wanted(MPI_Status::EMPTY),
            None => {}
        }
        Ok(())
    }

    fn MPI_Request_get_status_some(
        incount: c_int, array_of_requests: In<MPI_Request>, outcount: Out<c_int>,
        array_of_indices: Out<c_int>, array_of_statuses: Out<MPI_Status>,
    ) {
        let several = Several::new(incount, array_of_requests.as_out())?;
        if !several.is_any_active() {
            return outcount.put(MPI_UNDEFINED);
        }
        several.test_all()?;
        let mut nth = 0;
        for at in several.over() {
            array_of_indices.at(nth).put(place(at))?;
            array_of_statuses.at(nth).report(status_of(several.places.at(at).get()?)?);
            nth += 1;
        }
        outcount.put(place(nth))
    }

    fn MPI_Request_free(request: Out<MPI_Request>) {
        let handle = request.get()?;
        if handle == DONE {
            return request.put(MPI_REQUEST_NULL);
        }
        let mut freed: Request = handle::take_owned(handle.0)?;
        request.put(MPI_REQUEST_NULL)?;
        freed.work.recipe().freed()?;
        sweep_orphans();
        if !freed.is_over() {
            ORPHANS.lock().unwrap_or_else(PoisonError::into_inner).push(freed);
        }
        Ok(())
    }

    fn MPI_Cancel(request: Out<MPI_Request>) {
        let handle = request.get()?;
        match find(handle)? {
            Some(request) => request.cancel(),
            None if handle == DONE => Ok(()),
            None => {
                Err(Failure::new(MPI_ERR_REQUEST, "MPI_REQUEST_NULL cannot be cancelled"))
            }
        }
    }

    fn MPI_Start(request: Out<MPI_Request>) {
        start(request.get()?)
    }

    fn MPI_Startall(count: c_int, array_of_requests: Out<MPI_Request>) {
        let requests = array_of_requests.slice(sizes::length(count)?)?;
        requests.iter().try_for_each(|&request| start(request))
    }
}

fn start(request: MPI_Request) -> Result {
    let startable = find(request)?.filter(|request| request.persistent);
    match startable {
        Some(request) if !request.is_active() => request.start(),
        Some(_) => Err(Failure::new(
            MPI_ERR_REQUEST,
            "the request is active already: wait until it is over",
        )),
        None => Err(Failure::new(MPI_ERR_REQUEST, "only persistent requests can be started")),
    }
}

fn finish_some(
    call: &str,
    several: Several,
    outcount: Out<c_int>,
    indices: Out<c_int>,
    statuses: Out<MPI_Status>,
) -> Result {
    let over: Vec<usize> = several.over().collect();
    outcount.put(place(over.len()))?;
    for (nth, &at) in over.iter().enumerate() {
        indices.at(nth).put(place(at))?;
    }
    several.finish(call, over.into_iter(), statuses)
}

/// The status of a request that is over, which stays as it is.
fn status_of(request: MPI_Request) -> Result<MPI_Status> {
    let Some(request) = find(request)? else { return Ok(MPI_Status::EMPTY) };
    let Progress::Over(Ok(status)) = &request.progress else { return Ok(MPI_Status::EMPTY) };
    let mut status = *status;
    request.work.recipe().query(&mut status)?;
    Ok(status)
}

/// A place in an array, as C counts.
fn place(place: usize) -> c_int {
    c_int::try_from(place).expect("the program has counted them in an int")
}
