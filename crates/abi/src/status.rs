//! What a receive got, as C sees it.

use std::ffi::c_int;
use std::mem::offset_of;

use ferrywire_host::nic::Received;

use crate::constants::{
    MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_ERR_ARG, MPI_PROC_NULL, MPI_SUCCESS, MPI_UNDEFINED,
};
use crate::datatype;
use crate::entry::entries;
use crate::failure::{Failure, Result};
use crate::pointer::{In, Out};
use crate::sizes::{self, Wide};
use crate::types::{MPI_Count, MPI_Datatype, MPI_Status};

/// What a call came to: whose message it was, and how long. Source and tag have the numbers of the standard ABI.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Status {
    source: c_int,
    tag: c_int,
    /// Told only where a call completes several requests.
    pub(crate) error: c_int,
    cancelled: bool,
    bytes: u64,
}

impl Status {
    /// Of what is no message, and of a request that is not active.
    pub(crate) const EMPTY: Status = Status {
        source: MPI_ANY_SOURCE,
        tag: MPI_ANY_TAG,
        error: MPI_SUCCESS,
        cancelled: false,
        bytes: 0,
    };

    /// Of a receive from MPI_PROC_NULL.
    pub(crate) const NOBODY: Status = Status { source: MPI_PROC_NULL, ..Status::EMPTY };

    /// Of what was cancelled.
    pub(crate) const CANCELLED: Status = Status { cancelled: true, ..Status::EMPTY };

    /// Of a message.
    #[inline]
    pub(crate) fn of(received: &Received) -> Status {
        let word = received.word;
        Status {
            source: word.source().cast_signed(),
            tag: word.tag().cast_signed(),
            bytes: received.len,
            ..Status::EMPTY
        }
    }

    /// What the fields of [`MPI_Status`] that have no name say: the bytes in two halves, and whether it was cancelled.
    #[inline]
    fn internal(self) -> [c_int; 5] {
        let [a, b, c, d, e, f, g, h] = self.bytes.to_le_bytes();
        let (low, high) = (c_int::from_le_bytes([a, b, c, d]), c_int::from_le_bytes([e, f, g, h]));
        [low, high, self.cancelled.into(), 0, 0]
    }
}

impl From<Status> for MPI_Status {
    #[inline]
    fn from(status: Status) -> MPI_Status {
        let Status { source, tag, error, .. } = status;
        MPI_Status { source, tag, error, internal: status.internal() }
    }
}

impl From<MPI_Status> for Status {
    fn from(status: MPI_Status) -> Status {
        let MPI_Status { source, tag, error, internal } = status;
        let [low, high, cancelled, ..] = internal.map(c_int::cast_unsigned);
        let bytes = u64::from(high) << 32 | u64::from(low);
        Status { source, tag, error, cancelled: cancelled != 0, bytes }
    }
}

impl Out<MPI_Status> {
    /// Says what a call came to, if the program wants to know. The error is said only where a call
    /// completes several requests: otherwise the standard leaves it alone.
    #[inline]
    pub(crate) fn report(self, status: Status) {
        if self.is_null() {
            return;
        }
        self.write(offset_of!(MPI_Status, source), status.source);
        self.write(offset_of!(MPI_Status, tag), status.tag);
        self.write(offset_of!(MPI_Status, internal), status.internal());
    }

    /// Says what a call came to, the error included.
    pub(crate) fn report_all(self, status: Status) {
        self.put_if_wanted(status.into());
    }

    /// Says what a call came to, of a message that was too long as well: whose it was.
    #[inline]
    pub(crate) fn report_result(self, result: Result<Status>) -> Result {
        match result {
            Ok(status) => {
                self.report(status);
                Ok(())
            }
            Err(failure) => {
                if let Some(status) = failure.status() {
                    self.report(status);
                }
                Err(failure)
            }
        }
    }

    /// Says which error that was, if the program wants to know.
    pub(crate) fn report_error(self, error: c_int) {
        if !self.is_null() {
            self.write(offset_of!(MPI_Status, error), error);
        }
    }

    /// Writes the field at `offset`. The program may have left the others without a value.
    #[inline]
    fn write<T>(self, offset: usize, field: T) {
        let place: *mut T = self.raw().wrapping_byte_add(offset).cast();
        // SAFETY: the invariant of `Out`: there is room for a status.
        unsafe { place.write(field) };
    }
}

/// What a status says.
fn read(status: In<MPI_Status>) -> Result<Status> {
    Ok(status.slice(1)?[0].into())
}

/// Changes what a status says.
fn change(status: Out<MPI_Status>, change: impl FnOnce(&mut Status)) -> Result {
    let mut own = Status::from(status.get()?);
    change(&mut own);
    status.put(own.into())
}

/// A number of elements; MPI_UNDEFINED if there is none.
fn put_elements<T: Wide>(place: Out<T>, elements: Option<u64>) -> Result {
    let elements = elements.and_then(|elements| i64::try_from(elements).ok());
    sizes::put(place, elements.unwrap_or(MPI_UNDEFINED.into()))
}

fn set_elements(status: Out<MPI_Status>, datatype: MPI_Datatype, count: impl Wide) -> Result {
    let bytes = datatype::find(datatype)?.bytes_of_basics(sizes::count(count)?);
    let impossible = || Failure::new(MPI_ERR_ARG, "no message has so many elements of the type");
    let bytes = bytes.ok_or_else(impossible)?;
    change(status, |own| own.bytes = bytes)
}

entries! {
    fn MPI_Get_count / MPI_Get_count_c (
        status: In<MPI_Status>, datatype: MPI_Datatype, count: Out<Size>,
    ) {
        put_elements(count, datatype::find(datatype)?.elements_in(read(status)?.bytes))
    }

    fn MPI_Get_elements / MPI_Get_elements_c (
        status: In<MPI_Status>, datatype: MPI_Datatype, count: Out<Size>,
    ) {
        put_elements(count, datatype::find(datatype)?.basics_in(read(status)?.bytes))
    }

    fn MPI_Get_elements_x(
        status: In<MPI_Status>, datatype: MPI_Datatype, count: Out<MPI_Count>,
    ) {
        put_elements(count, datatype::find(datatype)?.basics_in(read(status)?.bytes))
    }

    fn MPI_Status_set_elements / MPI_Status_set_elements_c (
        status: Out<MPI_Status>, datatype: MPI_Datatype, count: Size,
    ) {
        set_elements(status, datatype, count)
    }

    fn MPI_Status_set_elements_x(
        status: Out<MPI_Status>, datatype: MPI_Datatype, count: MPI_Count,
    ) {
        set_elements(status, datatype, count)
    }

    fn MPI_Test_cancelled(status: In<MPI_Status>, flag: Out<c_int>) {
        flag.put(read(status)?.cancelled.into())
    }

    fn MPI_Status_set_cancelled(status: Out<MPI_Status>, flag: c_int) {
        change(status, |own| own.cancelled = flag != 0)
    }

    fn MPI_Status_get_source(status: In<MPI_Status>, source: Out<c_int>) {
        source.put(read(status)?.source)
    }

    fn MPI_Status_set_source(status: Out<MPI_Status>, source: c_int) {
        change(status, |own| own.source = source)
    }

    fn MPI_Status_get_tag(status: In<MPI_Status>, tag: Out<c_int>) {
        tag.put(read(status)?.tag)
    }

    fn MPI_Status_set_tag(status: Out<MPI_Status>, tag: c_int) {
        change(status, |own| own.tag = tag)
    }

    fn MPI_Status_get_error(status: In<MPI_Status>, error: Out<c_int>) {
        error.put(read(status)?.error)
    }

    fn MPI_Status_set_error(status: Out<MPI_Status>, error: c_int) {
        change(status, |own| own.error = error)
    }
}
