//! The status of a call, as a value.

use std::ffi::c_int;

use ferrywire_host::nic::Received;

use crate::convert::constants::{MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_PROC_NULL, MPI_SUCCESS};
use crate::convert::types::MPI_Status;

/// The status of a call: source, tag and length of the message. Source and tag have the values of the standard ABI.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Status {
    pub(crate) source: c_int,
    pub(crate) tag: c_int,
    /// Only written by calls that complete several requests.
    pub(crate) error: c_int,
    pub(crate) cancelled: bool,
    pub(crate) bytes: u64,
}

impl Status {
    /// The empty status, also of an inactive request.
    pub(crate) const EMPTY: Status = Status {
        source: MPI_ANY_SOURCE,
        tag: MPI_ANY_TAG,
        error: MPI_SUCCESS,
        cancelled: false,
        bytes: 0,
    };

    /// The status of a receive from MPI_PROC_NULL.
    pub(crate) const NOBODY: Status = Status { source: MPI_PROC_NULL, ..Status::EMPTY };

    /// The status of a cancelled operation.
    pub(crate) const CANCELLED: Status = Status { cancelled: true, ..Status::EMPTY };

    /// The status of a received message.
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

    /// The unnamed fields of [`MPI_Status`]: the bytes in two halves, and whether it was cancelled.
    #[inline]
    pub(crate) fn internal(self) -> [c_int; 5] {
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
