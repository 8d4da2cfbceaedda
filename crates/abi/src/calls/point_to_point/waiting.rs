//! The wait and test family: one or several requests, and their results.
//!
//! A request is in the plane of its communicator. Requests that a program waits for together are most often in the
//! same plane, and are then checked under one lock.

use std::ffi::c_int;

use ferrywire_runtime::CallName;

use crate::calls::entry::entries;
use crate::convert::constants::{MPI_REQUEST_NULL, MPI_SUCCESS, MPI_UNDEFINED};
use crate::convert::failure::{Failure, Result};
use crate::convert::handle;
use crate::convert::pointer::{In, Out};
use crate::convert::sizes;
use crate::convert::status::Status;
use crate::convert::types::{MPI_Request, MPI_Status};
use crate::objects::Plane;
use crate::objects::process;
use crate::objects::request::{DONE, Request, discard, distinct, find};

/// Several requests of the program.
#[derive(Clone, Copy)]
struct Several {
    places: Out<MPI_Request>,
    count: usize,
    /// Whether any may have several parts.
    parted: bool,
}

impl Several {
    fn new(count: c_int, places: Out<MPI_Request>) -> Result<Several> {
        let count = sizes::length(count)?;
        let mut parted = false;
        for handle in places.slice(count)? {
            parted |= find(*handle)?.is_some_and(|request| request.is_parted());
        }
        Ok(Several { places, count, parted })
    }

    /// The request at a place that has been checked before.
    #[inline(always)]
    fn at<'a>(self, place: usize) -> Option<&'a mut Request> {
        find(self.places.at(place).get().ok()?).ok().flatten()
    }

    fn active(self) -> impl Iterator<Item = (usize, &'static mut Request)> {
        let each = (0..self.count).filter_map(move |place| Some((place, self.at(place)?)));
        each.filter(|(_, request)| request.is_active())
    }

    /// The requests that may have several parts.
    fn parts(self) -> impl Iterator<Item = &'static mut Request> {
        let each = self.active().map(|(_, request)| request);
        each.filter(|request| request.is_parted())
    }

    fn is_any_active(self) -> bool {
        self.first_done().is_some() || self.active().next().is_some()
    }

    /// The first that was complete when it was started.
    fn first_done(self) -> Option<usize> {
        (0..self.count).find(|&place| self.is_done(place))
    }

    fn is_done(self, place: usize) -> bool {
        self.places.at(place).get().is_ok_and(|handle| handle == DONE)
    }

    /// The places of complete requests whose result the program has not seen.
    fn over(self) -> impl Iterator<Item = usize> {
        let is_over = |request: &Request| request.is_active() && request.is_over();
        (0..self.count).filter(move |&place| {
            self.is_done(place) || self.at(place).is_some_and(|request| is_over(request))
        })
    }

    /// The plane of all requests, if they share one.
    #[inline]
    fn common_driver(self) -> Result<Option<Plane>> {
        let first = process::first_plane()?;
        if process::running()?.runtime.has_one_plane() {
            return Ok(Some(first));
        }
        let mut drivers = self.active().map(|(_, request)| request.driver());
        let common = drivers.next().unwrap_or(first);
        Ok(drivers.all(|driver| driver.is(common)).then_some(common))
    }

    /// The planes of the requests.
    fn drivers(self) -> Vec<Plane> {
        distinct(self.active().map(|(_, request)| request.driver()))
    }

    /// The requests of a plane.
    fn within(
        self,
        driver: ferrywire_runtime::Plane<'_>,
    ) -> impl Iterator<Item = (usize, &'static mut Request)> {
        self.active().filter(move |(_, request)| request.driver().is(driver))
    }

    /// Checks once. Returns true if all are complete.
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

    /// Waits until all are complete.
    fn wait_all(self) -> Result {
        loop {
            let Some(driver) = self.common_driver()? else {
                // One after the other: agents drive the other planes meanwhile.
                return self.active().try_for_each(|(_, request)| request.run_out());
            };
            let mut place = 0;
            driver.wait_until(|finished| {
                // Other ranks may wait for the next part to be posted.
                if self.parted && self.parts().any(|part| part.observe(finished) && !part.is_over())
                {
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
            if !self.parted {
                return Ok(());
            }
            self.parts().for_each(Request::go_on);
            // A complete part does not mean that the messages beside it are complete.
            if self.active().all(|(_, request)| request.pending().is_none()) {
                return Ok(());
            }
        }
    }

    /// Waits until one is complete. `None` if none is active.
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
                process::running()?.runtime.wait_anywhere(|driver, finished| {
                    self.within(driver)
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

    /// Checks once, and reports a complete request, if there is one. If none is active, the flag is set too.
    fn tell_any(
        self,
        index: Out<c_int>,
        flag: Out<c_int>,
        status: Out<MPI_Status>,
        status_at: impl FnOnce(Out<MPI_Request>) -> Result<Status>,
    ) -> Result {
        let idle = !self.is_any_active();
        self.test_all()?;
        let over = self.over().next();
        index.put(over.map_or(MPI_UNDEFINED, place))?;
        flag.put((idle || over.is_some()).into())?;
        match over {
            Some(place) => status.report(status_at(self.places.at(place))?),
            None if idle => status.report_all(Status::EMPTY),
            None => {}
        }
        Ok(())
    }

    /// Finishes the requests at these places. An error of one is an error of the call, and each status has its own
    /// error field.
    fn finish(
        self,
        call: &str,
        places: impl Iterator<Item = usize>,
        statuses: Out<MPI_Status>,
    ) -> Result {
        let mut first: Option<(usize, Failure)> = None;
        for (nth, place) in places.enumerate() {
            let status = match finish(self.places.at(place)) {
                Ok(status) => status,
                Err(failure) => {
                    let error = failure.register(call);
                    let mut status = failure.status().unwrap_or(Status::EMPTY);
                    status.error = error;
                    if first.is_none() {
                        first = Some((place, failure));
                        (0..nth).for_each(|nth| statuses.at(nth).report_error(MPI_SUCCESS));
                    }
                    status
                }
            };
            statuses.at(nth).report(status);
            // Error fields are only written if there is an error.
            if first.is_some() {
                statuses.at(nth).report_error(status.error);
            }
        }
        first.map_or(Ok(()), |(place, failure)| Err(failure.in_status(place)))
    }
}

entries! {
    fn MPI_Wait(request: Out<MPI_Request>, status: Out<MPI_Status>) {
        let active = find(request.get()?)?.filter(|request| request.is_active());
        match active {
            Some(active) => {
                note_wait(CALL, 1);
                active.run_out()?;
                status.report_result(finish(request))
            }
            None => {
                status.report_all(finish(request)?);
                Ok(())
            }
        }
    }

    fn MPI_Waitall(
        count: c_int, array_of_requests: Out<MPI_Request>, array_of_statuses: Out<MPI_Status>,
    ) {
        let several = Several::new(count, array_of_requests)?;
        note_wait(CALL, several.count);
        several.wait_all()?;
        several.finish("MPI_Waitall", 0..several.count, array_of_statuses)
    }

    fn MPI_Waitany(
        count: c_int, array_of_requests: Out<MPI_Request>, index: Out<c_int>,
        status: Out<MPI_Status>,
    ) {
        let several = Several::new(count, array_of_requests)?;
        note_wait(CALL, several.count);
        let over = several.wait_any()?;
        index.put(over.map_or(MPI_UNDEFINED, place))?;
        match over {
            Some(place) => status.report_result(finish(array_of_requests.at(place))),
            None => {
                status.report_all(Status::EMPTY);
                Ok(())
            }
        }
    }

    fn MPI_Waitsome(
        incount: c_int, array_of_requests: Out<MPI_Request>, outcount: Out<c_int>,
        array_of_indices: Out<c_int>, array_of_statuses: Out<MPI_Status>,
    ) {
        let several = Several::new(incount, array_of_requests)?;
        note_wait(CALL, several.count);
        if several.wait_any()?.is_none() {
            return outcount.put(MPI_UNDEFINED);
        }
        several.test_all()?;
        finish_some("MPI_Waitsome", several, outcount, array_of_indices, array_of_statuses)
    }

    fn MPI_Test(request: Out<MPI_Request>, flag: Out<c_int>, status: Out<MPI_Status>) {
        let Some(active) = find(request.get()?)?.filter(|request| request.is_active()) else {
            status.report_all(finish(request)?);
            return flag.put(1);
        };
        if !active.test()? {
            note_poll(CALL);
            return flag.put(0);
        }
        flag.put(1)?;
        status.report_result(finish(request))
    }

    fn MPI_Testall(
        count: c_int, array_of_requests: Out<MPI_Request>, flag: Out<c_int>,
        array_of_statuses: Out<MPI_Status>,
    ) {
        let several = Several::new(count, array_of_requests)?;
        note_poll(CALL);
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
        note_poll(CALL);
        Several::new(count, array_of_requests)?.tell_any(index, flag, status, finish)
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
        several.tell_any(index, flag, status, |place| status_of(place.get()?))
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
}

/// Records that the program waits for requests.
fn note_wait(name: CallName, requests: usize) {
    if let Ok(process) = process::running() {
        process.rank().facts().call(name, 0, None, requests as u64);
    }
}

/// Records that the program asks whether requests are complete.
fn note_poll(name: CallName) {
    if let Ok(process) = process::running() {
        process.rank().facts().poll(name);
    }
}

/// Returns the status of a complete request. The request is freed unless it is persistent.
#[inline(always)]
fn finish(place: Out<MPI_Request>) -> Result<Status> {
    match place.get()? {
        MPI_REQUEST_NULL => {}
        DONE => place.put(MPI_REQUEST_NULL)?,
        handle => {
            let request: &mut Request = handle::find_owned(handle.0)?;
            let Some(status) = request.received() else { return finish_object(place, handle) };
            place.put(MPI_REQUEST_NULL)?;
            discard(handle)?;
            return Ok(status);
        }
    }
    Ok(Status::EMPTY)
}

/// The same for any request.
#[inline(never)]
fn finish_object(place: Out<MPI_Request>, handle: MPI_Request) -> Result<Status> {
    let request: &mut Request = handle::find_owned(handle.0)?;
    let result = request.finish();
    let stays = result.as_ref().err().is_some_and(|failure| request.stays(failure));
    if request.persistent || stays {
        return result;
    }
    place.put(MPI_REQUEST_NULL)?;
    let freed = request.freed();
    discard(handle)?;
    freed?;
    result
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

/// The status of a complete request, which stays unchanged.
fn status_of(request: MPI_Request) -> Result<Status> {
    find(request)?.map_or(Ok(Status::EMPTY), Request::status)
}

/// An index of an array as a C int.
fn place(place: usize) -> c_int {
    c_int::try_from(place).expect("the program has counted them in an int")
}
