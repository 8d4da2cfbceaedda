//! What a receive got, as C sees it.

use std::ffi::c_int;

use ferrywire_host::nic::Received;

use crate::constants::{MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_PROC_NULL, MPI_SUCCESS};
use crate::pointer::Out;
use crate::types::MPI_Status;

impl Out<MPI_Status> {
    /// Says what a call came to, if the program wants to know. The error is said only where a call
    /// completes several requests: otherwise the standard leaves it alone.
    #[inline]
    pub fn report(self, status: MPI_Status) {
        if self.is_null() {
            return;
        }
        let place = self.raw();
        let MPI_Status { source, tag, internal, .. } = status;
        // SAFETY: the invariant of `Out`: there is room for a status.
        unsafe { (&raw mut (*place).source).write(source) };
        // SAFETY: the same.
        unsafe { (&raw mut (*place).tag).write(tag) };
        // SAFETY: the same.
        unsafe { (&raw mut (*place).internal).write(internal) };
    }
}

impl MPI_Status {
    /// Of what is no message, and of a request that is not active.
    pub const EMPTY: MPI_Status = MPI_Status {
        source: MPI_ANY_SOURCE,
        tag: MPI_ANY_TAG,
        error: MPI_SUCCESS,
        internal: [0; 5],
    };

    /// Of a receive from nobody.
    pub const NOBODY: MPI_Status = MPI_Status { source: MPI_PROC_NULL, ..MPI_Status::EMPTY };

    /// Of what was taken back.
    pub const CANCELLED: MPI_Status = MPI_Status { internal: [0, 0, 1, 0, 0], ..MPI_Status::EMPTY };

    /// Of a message.
    #[inline]
    pub fn of(received: &Received) -> MPI_Status {
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
    pub fn bytes(&self) -> u64 {
        let [low, high, ..] = self.internal.map(c_int::cast_unsigned);
        u64::from(high) << 32 | u64::from(low)
    }

    /// Says how many bytes were received.
    #[inline]
    pub fn set_bytes(&mut self, bytes: u64) {
        let [a, b, c, d, e, f, g, h] = bytes.to_le_bytes();
        self.internal[0] = c_int::from_le_bytes([a, b, c, d]);
        self.internal[1] = c_int::from_le_bytes([e, f, g, h]);
    }

    /// Whether the operation was taken back.
    pub fn is_cancelled(&self) -> bool {
        self.internal[2] != 0
    }

    /// Says whether it was.
    pub fn set_cancelled(&mut self, cancelled: bool) {
        self.internal[2] = cancelled.into();
    }
}
