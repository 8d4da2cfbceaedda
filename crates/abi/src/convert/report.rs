//! What a call came to, written where the program wants to know it.

use std::ffi::c_int;
use std::mem::offset_of;

use crate::convert::failure::Result;
use crate::convert::pointer::Out;
use crate::convert::status::Status;
use crate::convert::types::MPI_Status;

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
