//! Writes the status of a call for the program.

use std::ffi::c_int;
use std::mem::offset_of;

use crate::convert::failure::Result;
use crate::convert::pointer::Out;
use crate::convert::status::Status;
use crate::convert::types::MPI_Status;

impl Out<MPI_Status> {
    /// Writes the status, if the program wants it. The error field is only written by calls that complete several
    /// requests; otherwise the standard leaves it alone.
    #[inline]
    pub(crate) fn report(self, status: Status) {
        if self.is_null() {
            return;
        }
        self.write(offset_of!(MPI_Status, source), status.source);
        self.write(offset_of!(MPI_Status, tag), status.tag);
        self.write(offset_of!(MPI_Status, internal), status.internal());
    }

    /// Writes the status including the error field.
    pub(crate) fn report_all(self, status: Status) {
        self.put_if_wanted(status.into());
    }

    /// Writes the status of a call, and also of a message that was too long.
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

    /// Writes the error field, if the program wants it.
    pub(crate) fn report_error(self, error: c_int) {
        if !self.is_null() {
            self.write(offset_of!(MPI_Status, error), error);
        }
    }

    /// Writes the field at `offset`. The other fields may be uninitialised.
    #[inline]
    fn write<T>(self, offset: usize, field: T) {
        let place: *mut T = self.raw().wrapping_byte_add(offset).cast();
        // SAFETY: the invariant of `Out`: there is room for a status.
        unsafe { place.write(field) };
    }
}
