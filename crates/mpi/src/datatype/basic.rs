//! Basic types: the numbers, characters and bytes that all datatypes consist of.

/// The kind of a basic type.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum BasicKind {
    /// A signed integer.
    Signed,
    /// An unsigned integer.
    Unsigned,
    /// An IEEE 754 float; with 2 bytes a half, with 16 a quadruple.
    Float,
    /// C's `long double`: 80 bits in 16 bytes on x86-64, a quadruple elsewhere.
    Extended,
    /// Two floats of half the size.
    Complex,
    /// Two C `long double`.
    ExtendedComplex,
    /// A truth value: zero is false.
    Logical,
    /// A character; 4 bytes are C's `wchar_t`.
    Character,
    /// A byte without meaning.
    Byte,
    /// Output of `MPI_Pack`.
    Packed,
}

/// A type that cannot be decomposed: its kind, and its sizes here and in external32.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Basic {
    sort: BasicKind,
    bytes: u8,
    external_bytes: u8,
}

impl Basic {
    /// A basic type with the same size in external32.
    pub const fn new(sort: BasicKind, bytes: u8) -> Basic {
        Basic { sort, bytes, external_bytes: bytes }
    }

    /// The same type with another size in external32.
    pub(super) const fn outside(self, external_bytes: u8) -> Basic {
        Basic { external_bytes, ..self }
    }

    /// Its kind.
    pub const fn sort(self) -> BasicKind {
        self.sort
    }

    /// Its size.
    pub const fn bytes(self) -> u64 {
        self.bytes as u64
    }

    /// Its size in external32.
    pub const fn external_bytes(self) -> u64 {
        self.external_bytes as u64
    }

    /// The alignment that a C compiler gives it.
    pub const fn align(self) -> u64 {
        self.part_bytes()
    }

    /// Bytes of a number in it: half of its size for complex types, which are two numbers.
    pub const fn part_bytes(self) -> u64 {
        match self.sort {
            BasicKind::Complex | BasicKind::ExtendedComplex => self.bytes() / 2,
            _ => self.bytes(),
        }
    }
}

/// The content of a predefined type, for code that computes with it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Predefined {
    /// One basic type.
    One(Basic),
    /// A value and where it was found, for `MPI_MAXLOC` and `MPI_MINLOC`.
    Pair {
        /// Comes first.
        value: Basic,
        /// Follows as soon as its alignment lets it.
        index: Basic,
    },
}
