//! The predefined types: a table in the order of their handles, built at compile time.
//!
//! Sizes are those of C on 64-bit Linux, and of Fortran compilers there. Types that a compiler may lack, like
//! `INTEGER*16`, are included: their bytes can be sent.

use super::basic::{Basic, BasicKind};
use super::recipe::Recipe;
use super::shape::Shape;
use super::{Datatype, Definition, Source};

const BYTE: Basic = Basic::new(BasicKind::Byte, 1);
const PACKED: Basic = Basic::new(BasicKind::Packed, 1);
const CHARACTER: Basic = Basic::new(BasicKind::Character, 1);
// MPI 5.0 §14.5.2 gives these fewer bytes in external32 than they have natively.
const WIDE: Basic = Basic::new(BasicKind::Character, 4).outside(2);
const LONG: Basic = signed(8).outside(4);
const UNSIGNED_LONG: Basic = unsigned(8).outside(4);
const EXTENDED: Basic = Basic::new(BasicKind::Extended, 16);
const EXTENDED_COMPLEX: Basic = Basic::new(BasicKind::ExtendedComplex, 32);

const fn signed(bytes: u8) -> Basic {
    Basic::new(BasicKind::Signed, bytes)
}

const fn unsigned(bytes: u8) -> Basic {
    Basic::new(BasicKind::Unsigned, bytes)
}

const fn float(bytes: u8) -> Basic {
    Basic::new(BasicKind::Float, bytes)
}

const fn complex(bytes: u8) -> Basic {
    Basic::new(BasicKind::Complex, bytes)
}

const fn logical(bytes: u8) -> Basic {
    Basic::new(BasicKind::Logical, bytes)
}

/// The table of named types, and the position of each handle in it.
macro_rules! named {
    ($($handle:literal $name:ident $shape:expr,)*) => {
        const HANDLES: &[u16] = &[$($handle),*];
        static DEFINITIONS: [Definition; HANDLES.len()] = [$(Definition {
            recipe: Recipe::Named { handle: $handle, name: stringify!($name) },
            shape: $shape,
            large: false,
        }),*];
    };
}

named! {
    0x201 MPI_AINT Shape::one(signed(8)),
    0x202 MPI_COUNT Shape::one(signed(8)),
    0x203 MPI_OFFSET Shape::one(signed(8)),
    0x207 MPI_PACKED Shape::one(PACKED),
    0x208 MPI_SHORT Shape::one(signed(2)),
    0x209 MPI_INT Shape::one(signed(4)),
    0x20a MPI_LONG Shape::one(LONG),
    0x20b MPI_LONG_LONG_INT Shape::one(signed(8)),
    0x20c MPI_UNSIGNED_SHORT Shape::one(unsigned(2)),
    0x20d MPI_UNSIGNED Shape::one(unsigned(4)),
    0x20e MPI_UNSIGNED_LONG Shape::one(UNSIGNED_LONG),
    0x20f MPI_UNSIGNED_LONG_LONG Shape::one(unsigned(8)),
    0x210 MPI_FLOAT Shape::one(float(4)),
    0x212 MPI_C_FLOAT_COMPLEX Shape::one(complex(8)),
    0x213 MPI_CXX_FLOAT_COMPLEX Shape::one(complex(8)),
    0x214 MPI_DOUBLE Shape::one(float(8)),
    0x216 MPI_C_DOUBLE_COMPLEX Shape::one(complex(16)),
    0x217 MPI_CXX_DOUBLE_COMPLEX Shape::one(complex(16)),
    0x218 MPI_LOGICAL Shape::one(logical(4)),
    0x219 MPI_INTEGER Shape::one(signed(4)),
    0x21a MPI_REAL Shape::one(float(4)),
    0x21b MPI_COMPLEX Shape::one(complex(8)),
    0x21c MPI_DOUBLE_PRECISION Shape::one(float(8)),
    0x21d MPI_DOUBLE_COMPLEX Shape::one(complex(16)),
    0x21e MPI_CHARACTER Shape::one(CHARACTER),
    0x220 MPI_LONG_DOUBLE Shape::one(EXTENDED),
    0x224 MPI_C_LONG_DOUBLE_COMPLEX Shape::one(EXTENDED_COMPLEX),
    0x225 MPI_CXX_LONG_DOUBLE_COMPLEX Shape::one(EXTENDED_COMPLEX),
    0x228 MPI_FLOAT_INT Shape::pair(float(4), signed(4)),
    0x229 MPI_DOUBLE_INT Shape::pair(float(8), signed(4)),
    0x22a MPI_LONG_INT Shape::pair(LONG, signed(4)),
    0x22b MPI_2INT Shape::pair(signed(4), signed(4)),
    0x22c MPI_SHORT_INT Shape::pair(signed(2), signed(4)),
    0x22d MPI_LONG_DOUBLE_INT Shape::pair(EXTENDED, signed(4)),
    0x230 MPI_2REAL Shape::pair(float(4), float(4)),
    0x231 MPI_2DOUBLE_PRECISION Shape::pair(float(8), float(8)),
    0x232 MPI_2INTEGER Shape::pair(signed(4), signed(4)),
    0x238 MPI_C_BOOL Shape::one(logical(1)),
    0x239 MPI_CXX_BOOL Shape::one(logical(1)),
    0x23c MPI_WCHAR Shape::one(WIDE),
    0x240 MPI_INT8_T Shape::one(signed(1)),
    0x241 MPI_UINT8_T Shape::one(unsigned(1)),
    0x243 MPI_CHAR Shape::one(CHARACTER),
    0x244 MPI_SIGNED_CHAR Shape::one(signed(1)),
    0x245 MPI_UNSIGNED_CHAR Shape::one(unsigned(1)),
    0x247 MPI_BYTE Shape::one(BYTE),
    0x248 MPI_INT16_T Shape::one(signed(2)),
    0x249 MPI_UINT16_T Shape::one(unsigned(2)),
    0x250 MPI_INT32_T Shape::one(signed(4)),
    0x251 MPI_UINT32_T Shape::one(unsigned(4)),
    0x258 MPI_INT64_T Shape::one(signed(8)),
    0x259 MPI_UINT64_T Shape::one(unsigned(8)),
    0x2c0 MPI_LOGICAL1 Shape::one(logical(1)),
    0x2c1 MPI_INTEGER1 Shape::one(signed(1)),
    0x2c8 MPI_LOGICAL2 Shape::one(logical(2)),
    0x2c9 MPI_INTEGER2 Shape::one(signed(2)),
    0x2ca MPI_REAL2 Shape::one(float(2)),
    0x2d0 MPI_LOGICAL4 Shape::one(logical(4)),
    0x2d1 MPI_INTEGER4 Shape::one(signed(4)),
    0x2d2 MPI_REAL4 Shape::one(float(4)),
    0x2d3 MPI_COMPLEX4 Shape::one(complex(4)),
    0x2d8 MPI_LOGICAL8 Shape::one(logical(8)),
    0x2d9 MPI_INTEGER8 Shape::one(signed(8)),
    0x2da MPI_REAL8 Shape::one(float(8)),
    0x2db MPI_COMPLEX8 Shape::one(complex(8)),
    0x2e0 MPI_LOGICAL16 Shape::one(logical(16)),
    0x2e1 MPI_INTEGER16 Shape::one(signed(16)),
    0x2e2 MPI_REAL16 Shape::one(float(16)),
    0x2e3 MPI_COMPLEX16 Shape::one(complex(16)),
    0x2eb MPI_COMPLEX32 Shape::one(complex(32)),
}

/// The smallest handle of a datatype.
const FIRST: u16 = 0x200;

/// For each handle, its position in the table, or a position past the end.
static PLACES: [usize; 256] = {
    let mut places = [usize::MAX; 256];
    let mut place = 0;
    while place < HANDLES.len() {
        places[(HANDLES[place] - FIRST) as usize] = place;
        place += 1;
    }
    places
};

impl Datatype {
    /// The predefined type of a handle in the standard's ABI. None for `MPI_DATATYPE_NULL`.
    #[inline]
    pub fn named(handle: usize) -> Option<Datatype> {
        let place = *PLACES.get(handle.checked_sub(usize::from(FIRST))?)?;
        Some(Datatype(Source::Named(DEFINITIONS.get(place)?)))
    }

    /// The predefined type of a name, like `"MPI_INT"`.
    pub fn by_name(name: &str) -> Option<Datatype> {
        let mut all = Datatype::all_named();
        all.find(|datatype| datatype.name() == Some(name))
    }

    /// All named predefined types, in the order of their handles.
    pub fn all_named() -> impl Iterator<Item = Datatype> {
        DEFINITIONS.iter().map(|definition| Datatype(Source::Named(definition)))
    }

    /// The name, if the type is predefined and has one.
    pub fn name(&self) -> Option<&'static str> {
        match self.recipe() {
            Recipe::Named { name, .. } => Some(name),
            _ => None,
        }
    }

    /// The handle in the standard's ABI, if the type is predefined and has a name.
    pub fn handle(&self) -> Option<u16> {
        match self.recipe() {
            Recipe::Named { handle, .. } => Some(*handle),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_lead_to_their_types() {
        assert_eq!(Datatype::all_named().count(), 70);
        let found = (0..0x1000).filter_map(Datatype::named);
        let handles: Vec<u16> = found.filter_map(|datatype| datatype.handle()).collect();
        assert_eq!(handles, HANDLES);
        assert_eq!(Datatype::named(0x209).and_then(|int| int.name()), Some("MPI_INT"));
        assert!(Datatype::named(0x200).is_none(), "the null handle is no type");
        assert!(Datatype::named(usize::MAX).is_none());
    }

    #[test]
    fn handles_of_fixed_size_say_which() {
        let fixed = |handle: &u16| matches!(handle, 0x240..=0x27f | 0x2c0..=0x2ff);
        for handle in HANDLES.iter().copied().filter(fixed) {
            let datatype = Datatype::named(usize::from(handle)).expect("it is in the table");
            assert_eq!(datatype.size(), 1 << (handle >> 3 & 7), "{datatype:?}");
        }
    }

    #[test]
    fn pairs_are_structs_of_c() {
        for (name, size, extent, contiguous) in [
            ("MPI_FLOAT_INT", 8, 8, true),
            ("MPI_DOUBLE_INT", 12, 16, false),
            ("MPI_LONG_INT", 12, 16, false),
            ("MPI_2INT", 8, 8, true),
            ("MPI_SHORT_INT", 6, 8, false),
            ("MPI_LONG_DOUBLE_INT", 20, 32, false),
            ("MPI_2DOUBLE_PRECISION", 16, 16, true),
        ] {
            let pair = Datatype::by_name(name).expect("it is in the table");
            let found = (pair.size(), pair.extent(), pair.is_contiguous(), pair.basics());
            assert_eq!(found, (size, extent, contiguous, 2), "{name}");
        }
    }
}
