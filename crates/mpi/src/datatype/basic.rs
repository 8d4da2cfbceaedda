//! Basic types: the numbers, characters and bytes that every datatype is made of.

/// What a basic type is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum BasicKind {
    /// An integer with a sign.
    Signed,
    /// An integer without one.
    Unsigned,
    /// A float of IEEE 754; 2 bytes are a half, 16 a quadruple.
    Float,
    /// C's `long double`: 80 bits in 16 bytes on x86-64, a quadruple elsewhere.
    Extended,
    /// Two floats of half the size.
    Complex,
    /// Two of C's `long double`.
    ExtendedComplex,
    /// True or false: zero is false.
    Logical,
    /// A character; 4 bytes are C's `wchar_t`.
    Character,
    /// A byte without meaning.
    Byte,
    /// What `MPI_Pack` has made.
    Packed,
}

/// A type that cannot be taken apart: what it is, and its sizes here and in external32.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Basic {
    sort: BasicKind,
    bytes: u8,
    external_bytes: u8,
}

impl Basic {
    /// One that is as long in external32 as it is here.
    pub const fn new(sort: BasicKind, bytes: u8) -> Basic {
        Basic { sort, bytes, external_bytes: bytes }
    }

    /// The same with another size in external32.
    pub(super) const fn outside(self, external_bytes: u8) -> Basic {
        Basic { external_bytes, ..self }
    }

    /// What it is.
    pub const fn sort(self) -> BasicKind {
        self.sort
    }

    /// How many bytes one has.
    pub const fn bytes(self) -> u64 {
        self.bytes as u64
    }

    /// How many bytes one has in external32.
    pub const fn external_bytes(self) -> u64 {
        self.external_bytes as u64
    }

    /// Addresses at which a compiler puts it are multiples of this.
    pub const fn align(self) -> u64 {
        self.part_bytes()
    }

    /// Bytes of a number in it: half of it for the complex, which are two.
    pub const fn part_bytes(self) -> u64 {
        match self.sort {
            BasicKind::Complex | BasicKind::ExtendedComplex => self.bytes() / 2,
            _ => self.bytes(),
        }
    }
}

/// What a predefined type is, for whoever computes with it.
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
