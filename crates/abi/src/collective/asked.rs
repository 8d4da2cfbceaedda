//! What a collective was asked for, to know it again.

use std::ffi::c_int;

use crate::handle::PREDEFINED_MAX;
use crate::pointer::{Choice, ChoiceMut, In};
use crate::types::{MPI_Datatype, MPI_Op};

/// A call with its arguments, as far as they say all: a handle that the program made may stand for
/// something else the next time, and so may an array.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(crate) struct Asked {
    call: &'static str,
    arguments: [Option<u64>; ARGUMENTS_MAX],
}

impl Asked {
    pub(super) fn new(call: &'static str, given: &[Option<u64>]) -> Asked {
        let mut arguments = [Some(0); ARGUMENTS_MAX];
        arguments[..given.len()].copy_from_slice(given);
        Asked { call, arguments }
    }

    pub(super) fn is_comparable(&self) -> bool {
        self.arguments.iter().all(Option::is_some)
    }
}

/// The most arguments that a collective has besides its communicator.
const ARGUMENTS_MAX: usize = 8;

/// An argument as a number, if that says all of it.
pub(super) trait Argument {
    fn number(&self) -> Option<u64>;
}

impl Argument for Choice {
    fn number(&self) -> Option<u64> {
        Some(self.address())
    }
}

impl Argument for ChoiceMut {
    fn number(&self) -> Option<u64> {
        Some(self.address())
    }
}

impl Argument for c_int {
    fn number(&self) -> Option<u64> {
        Some(i64::from(*self).cast_unsigned())
    }
}

impl Argument for i64 {
    fn number(&self) -> Option<u64> {
        Some(self.cast_unsigned())
    }
}

impl Argument for MPI_Datatype {
    fn number(&self) -> Option<u64> {
        (self.0 <= PREDEFINED_MAX).then_some(self.0 as u64)
    }
}

impl Argument for MPI_Op {
    fn number(&self) -> Option<u64> {
        (self.0 <= PREDEFINED_MAX).then_some(self.0 as u64)
    }
}

impl<T> Argument for In<T> {
    fn number(&self) -> Option<u64> {
        None
    }
}
