//! The types in which a function with 32-bit counts differs from its variant with 64-bit counts.

use std::ffi::c_int;

use ferrywire_host::ErrorCode;

use crate::convert::constants::{MPI_ERR_ARG, MPI_ERR_COUNT};
use crate::convert::failure::{Failure, Result};
use crate::convert::pointer::{In, Out};
use crate::convert::types::{MPI_Aint, MPI_Count};

/// The types of the functions with 32-bit counts.
pub(crate) mod small {
    use super::{MPI_Aint, c_int};

    pub(crate) type Size = c_int;
    pub(crate) type Displacement = c_int;
    pub(crate) type Address = MPI_Aint;
}

/// The types of the functions whose names end with `_c`.
pub(crate) mod large {
    use super::{MPI_Aint, MPI_Count};

    pub(crate) type Size = MPI_Count;
    pub(crate) type Displacement = MPI_Aint;
    pub(crate) type Address = MPI_Count;
}

/// Any of these types.
pub(crate) trait Wide: Copy {
    /// The same number in 64 bits.
    fn wide(self) -> i64;
    /// The number, if it fits.
    fn narrow(number: i64) -> Option<Self>;
}

impl Wide for c_int {
    #[inline]
    fn wide(self) -> i64 {
        self.into()
    }

    fn narrow(number: i64) -> Option<c_int> {
        c_int::try_from(number).ok()
    }
}

impl Wide for i64 {
    #[inline]
    fn wide(self) -> i64 {
        self
    }

    fn narrow(number: i64) -> Option<i64> {
        Some(number)
    }
}

impl Wide for isize {
    #[inline]
    fn wide(self) -> i64 {
        self as i64
    }

    fn narrow(number: i64) -> Option<isize> {
        isize::try_from(number).ok()
    }
}

/// A number of elements.
#[inline]
pub(crate) fn count(size: impl Wide) -> Result<u64> {
    u64::try_from(size.wide()).map_err(|_| negative(size.wide()))
}

#[cold]
fn negative(count: i64) -> Failure {
    Failure::new(MPI_ERR_COUNT, format!("invalid count {count}; it must not be negative"))
}

/// The length of an array of the caller.
#[inline]
pub(crate) fn length(size: impl Wide) -> Result<usize> {
    let failure = || {
        Failure::new(
            MPI_ERR_ARG,
            format!("invalid length {}; it must not be negative", size.wide()),
        )
        .coded(ErrorCode::COUNT)
    };
    usize::try_from(size.wide()).map_err(|_| failure())
}

/// An array of such numbers, in 64 bits.
pub(crate) fn wide_all<T: Wide>(array: In<T>, len: usize) -> Result<Vec<i64>> {
    Ok(array.slice(len)?.iter().map(|size| size.wide()).collect())
}

/// Writes a number, or MPI_UNDEFINED where it does not fit.
pub(crate) fn put<T: Wide>(out: Out<T>, number: i64) -> Result {
    let undefined = i64::from(crate::convert::constants::MPI_UNDEFINED);
    let fitting = T::narrow(number).or_else(|| T::narrow(undefined));
    out.put(fitting.expect("it fits everywhere"))
}
