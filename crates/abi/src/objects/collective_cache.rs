//! Cache keys of collective calls, which recognise a repeated call.

use std::ffi::c_int;

use crate::convert::argument::RootRank;
use crate::convert::handle::PREDEFINED_MAX;
use crate::convert::pointer::{Choice, ChoiceMut, In};
use crate::convert::types::{MPI_Datatype, MPI_Op};

/// A call with its arguments.
#[derive(Clone, Copy)]
pub(crate) struct CacheKey {
    call: &'static str,
    arguments: [u64; ARGUMENTS_MAX],
    given: usize,
    /// Whether the arguments identify the call: a handle that the program made may name another object the next time,
    /// and an array may have other contents.
    pub(crate) is_all: bool,
}

impl CacheKey {
    #[inline(always)]
    pub(crate) fn new(call: &'static str) -> CacheKey {
        CacheKey { call, arguments: [0; ARGUMENTS_MAX], given: 0, is_all: true }
    }

    /// Adds an argument.
    #[inline(always)]
    pub(crate) fn with(mut self, argument: &impl Argument) -> CacheKey {
        let number = argument.number();
        self.is_all &= number.is_some();
        self.arguments[self.given] = number.unwrap_or(0);
        self.given += 1;
        self
    }

    /// Whether it is the same call with the same arguments.
    #[inline(always)]
    pub(crate) fn is(&self, other: &CacheKey) -> bool {
        // Each name is a single static string, so comparing addresses is enough.
        std::ptr::eq(self.call, other.call)
            // All arguments are compared at once, which is faster than a search for the first difference.
            && self.arguments.iter().zip(&other.arguments).fold(0, |all, (a, b)| all | (a ^ b)) == 0
    }
}

/// The largest number of arguments that a collective has besides its communicator.
const ARGUMENTS_MAX: usize = 8;

/// An argument as a number, if a number identifies it.
pub(crate) trait Argument {
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

impl Argument for RootRank {
    fn number(&self) -> Option<u64> {
        Some(self.bits().into())
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
