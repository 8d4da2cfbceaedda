//! Errors in the arguments of a constructor.

use std::fmt;

/// Why a datatype or a conversion is impossible.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Error {
    /// A count or a block length below zero.
    NegativeCount,
    /// An array without dimensions, or with a size that is not positive.
    Dimensions,
    /// A part that does not lie inside its array.
    Outside,
    /// A distribution that does not cover its dimension, has no room for its processes, or leaves a
    /// dimension whole that several processes share.
    Distribution,
    /// A rank outside the grid, or a grid with a different number of processes.
    Grid,
    /// No type has this precision or range, or neither was given.
    Precision,
    /// No predefined type of that class has that size.
    Size,
    /// Types that cannot form a pair of value and index.
    Pair,
    /// The type does not fit into the range of addresses.
    TooLarge,
    /// A value that its external form cannot hold.
    Unrepresentable,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Error::NegativeCount => "a count or block length is negative",
            Error::Dimensions => "an array needs dimensions, each of a positive size",
            Error::Outside => "the part does not lie inside the array",
            Error::Distribution => "the distribution does not cover the array",
            Error::Grid => "the rank is not in the grid, or the grid has not that many processes",
            Error::Precision => "no type has that precision and range",
            Error::Size => "no type of that class has that size",
            Error::Pair => "no pair can be made of these types",
            Error::TooLarge => "the type does not fit into 63 bits of bytes",
            Error::Unrepresentable => "a value does not fit into its external form",
        })
    }
}

impl std::error::Error for Error {}
