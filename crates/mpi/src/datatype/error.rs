//! What can be wrong with the arguments of a constructor.

use std::fmt;

/// Why there is no such datatype, or no such conversion.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Error {
    /// A count or a block length below zero.
    NegativeCount,
    /// An array without dimensions, or one that does not have a positive size in each.
    Dimensions,
    /// A part that does not lie inside its array.
    Outside,
    /// A distribution that does not cover its dimension, has no room for its processes, or leaves a
    /// dimension whole that several processes share.
    Distribution,
    /// A rank that is not in the grid, or a grid that does not have as many processes as said.
    Grid,
    /// No type has so many digits or so wide a range, or neither was asked for.
    Precision,
    /// No predefined type of that class has that size.
    Size,
    /// Not types of which a value and an index can be made.
    Pair,
    /// The type does not fit into the numbers by which addresses are counted.
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
