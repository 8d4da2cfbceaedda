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

impl Out<MPI_Status> {
    /// Says what a call came to, if the program wants to know. The error is said only where a call
    /// completes several requests: otherwise the standard leaves it alone.
    #[inline]
    pub(crate) fn report(self, status: MPI_Status) {
        if self.is_null() {
            return;
        }
        let MPI_Status { source, tag, internal, .. } = status;
        self.write(offset_of!(MPI_Status, source), source);
        self.write(offset_of!(MPI_Status, tag), tag);
        self.write(offset_of!(MPI_Status, internal), internal);
    }

    /// Says what a call came to, of a message that was too long as well: whose it was.
    #[inline]
    pub(crate) fn report_result(self, result: Result<MPI_Status>) -> Result {
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

impl MPI_Status {
    /// Of what is no message, and of a request that is not active.
    pub(crate) const EMPTY: MPI_Status = MPI_Status {
        source: MPI_ANY_SOURCE,
        tag: MPI_ANY_TAG,
        error: MPI_SUCCESS,
        internal: [0; 5],
    };

    /// Of a receive from nobody.
    pub(crate) const NOBODY: MPI_Status = MPI_Status { source: MPI_PROC_NULL, ..MPI_Status::EMPTY };

    /// Of what was taken back.
    pub(crate) const CANCELLED: MPI_Status =
        MPI_Status { internal: [0, 0, 1, 0, 0], ..MPI_Status::EMPTY };

    /// Of a message.
    #[inline]
    pub(crate) fn of(received: &Received) -> MPI_Status {
        let word = received.word;
        let mut status = MPI_Status {
            source: word.source().cast_signed(),
            tag: word.tag().cast_signed(),
            ..MPI_Status::EMPTY
        };
        status.set_bytes(received.len);
        status
    }

    /// Bytes that were received.
    pub(crate) fn bytes(&self) -> u64 {
        let [low, high, ..] = self.internal.map(c_int::cast_unsigned);
        u64::from(high) << 32 | u64::from(low)
    }

    /// Says how many bytes were received.
    #[inline]
    pub(crate) fn set_bytes(&mut self, bytes: u64) {
        let [a, b, c, d, e, f, g, h] = bytes.to_le_bytes();
        self.internal[0] = c_int::from_le_bytes([a, b, c, d]);
        self.internal[1] = c_int::from_le_bytes([e, f, g, h]);
    }

    /// Whether the operation was taken back.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.internal[2] != 0
    }

    /// Says whether it was.
    pub(crate) fn set_cancelled(&mut self, cancelled: bool) {
        self.internal[2] = cancelled.into();
    }
}

/// What a status says.
fn read(status: In<MPI_Status>) -> Result<MPI_Status> {
    Ok(status.slice(1)?[0])
}

/// Changes what a status says.
fn change(status: Out<MPI_Status>, change: impl FnOnce(&mut MPI_Status)) -> Result {
    let mut own = status.get()?;
    change(&mut own);
    status.put(own)
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
    change(status, |own| own.set_bytes(bytes))
}

entries! {
    fn MPI_Get_count / MPI_Get_count_c (
        status: In<MPI_Status>, datatype: MPI_Datatype, count: Out<Size>,
    ) {
        put_elements(count, datatype::find(datatype)?.elements_in(read(status)?.bytes()))
    }

    fn MPI_Get_elements / MPI_Get_elements_c (
        status: In<MPI_Status>, datatype: MPI_Datatype, count: Out<Size>,
    ) {
        put_elements(count, datatype::find(datatype)?.basics_in(read(status)?.bytes()))
    }

    fn MPI_Get_elements_x(
        status: In<MPI_Status>, datatype: MPI_Datatype, count: Out<MPI_Count>,
    ) {
        put_elements(count, datatype::find(datatype)?.basics_in(read(status)?.bytes()))
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
        flag.put(read(status)?.is_cancelled().into())
    }

    fn MPI_Status_set_cancelled(status: Out<MPI_Status>, flag: c_int) {
        change(status, |own| own.set_cancelled(flag != 0))
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
