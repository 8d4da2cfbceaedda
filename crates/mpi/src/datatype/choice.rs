//! Predefined types, found by their properties instead of their names.

use super::Datatype;
use super::basic::{Basic, BasicKind, Predefined};
use super::error::Error;
use super::recipe::Recipe;
use super::shape::Shape;

/// A Fortran type class, numbered as in the standard's ABI.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TypeClass {
    /// `LOGICAL`.
    Logical = 191,
    /// `INTEGER`.
    Integer = 192,
    /// `REAL`.
    Real = 193,
    /// `COMPLEX`.
    Complex = 194,
}

/// Floats, from small to large: decimal digits, decimal exponents, kind, and bytes. The 80-bit float is a kind of its
/// own where C's `long double` has that form.
const FLOATS: [(i32, i32, BasicKind, u8); 4] = [
    (6, 37, BasicKind::Float, 4),
    (15, 307, BasicKind::Float, 8),
    (if cfg!(target_arch = "x86_64") { 18 } else { 0 }, 4931, BasicKind::Extended, 16),
    (33, 4931, BasicKind::Float, 16),
];

/// Integers, from small to large: decimal digits, and their bytes.
const INTEGERS: [(i32, u8); 5] = [(2, 1), (4, 2), (9, 4), (18, 8), (38, 16)];

impl Datatype {
    /// The named Fortran type of a class that has this size.
    pub fn match_size(class: TypeClass, bytes: u64) -> Result<Datatype, Error> {
        let prefix = match class {
            TypeClass::Logical => "MPI_LOGICAL",
            TypeClass::Integer => "MPI_INTEGER",
            TypeClass::Real => "MPI_REAL",
            TypeClass::Complex => "MPI_COMPLEX",
        };
        Datatype::by_name(&format!("{prefix}{bytes}")).ok_or(Error::Size)
    }

    /// The smallest Fortran real with this precision and exponent range.
    pub fn f90_real(precision: Option<i32>, range: Option<i32>) -> Result<Datatype, Error> {
        let (sort, bytes) = float(precision, range)?;
        let shape = Shape::one(Basic::new(sort, bytes));
        Ok(Datatype::made(Recipe::F90Real { precision, range }, shape))
    }

    /// The complex counterpart of [`Datatype::f90_real`].
    pub fn f90_complex(precision: Option<i32>, range: Option<i32>) -> Result<Datatype, Error> {
        let (sort, bytes) = match float(precision, range)? {
            (BasicKind::Extended, bytes) => (BasicKind::ExtendedComplex, 2 * bytes),
            (_, bytes) => (BasicKind::Complex, 2 * bytes),
        };
        let shape = Shape::one(Basic::new(sort, bytes));
        Ok(Datatype::made(Recipe::F90Complex { precision, range }, shape))
    }

    /// The smallest Fortran integer with this many digits.
    pub fn f90_integer(range: i32) -> Result<Datatype, Error> {
        let found = INTEGERS.iter().find(|(digits, _)| (0..=*digits).contains(&range));
        let (_, bytes) = found.ok_or(Error::Precision)?;
        let shape = Shape::one(Basic::new(BasicKind::Signed, *bytes));
        Ok(Datatype::made(Recipe::F90Integer { range }, shape))
    }

    /// The pair type of a value and an index: the named one if it exists.
    pub fn value_index(value: &Datatype, index: &Datatype) -> Result<Datatype, Error> {
        let named = match (value.name(), index.name()) {
            (Some("MPI_FLOAT"), Some("MPI_INT")) => Some("MPI_FLOAT_INT"),
            (Some("MPI_DOUBLE"), Some("MPI_INT")) => Some("MPI_DOUBLE_INT"),
            (Some("MPI_LONG"), Some("MPI_INT")) => Some("MPI_LONG_INT"),
            (Some("MPI_INT"), Some("MPI_INT")) => Some("MPI_2INT"),
            (Some("MPI_SHORT"), Some("MPI_INT")) => Some("MPI_SHORT_INT"),
            (Some("MPI_LONG_DOUBLE"), Some("MPI_INT")) => Some("MPI_LONG_DOUBLE_INT"),
            (Some("MPI_REAL"), Some("MPI_REAL")) => Some("MPI_2REAL"),
            (Some("MPI_DOUBLE_PRECISION"), Some("MPI_DOUBLE_PRECISION")) => {
                Some("MPI_2DOUBLE_PRECISION")
            }
            (Some("MPI_INTEGER"), Some("MPI_INTEGER")) => Some("MPI_2INTEGER"),
            _ => None,
        };
        if let Some(pair) = named.and_then(Datatype::by_name) {
            return Ok(pair);
        }
        let (Some(Predefined::One(first)), Some(Predefined::One(second))) =
            (value.predefined(), index.predefined())
        else {
            return Err(Error::Pair);
        };
        let ordered = matches!(
            first.sort(),
            BasicKind::Signed | BasicKind::Unsigned | BasicKind::Float | BasicKind::Extended
        );
        if !ordered || !matches!(second.sort(), BasicKind::Signed | BasicKind::Unsigned) {
            return Err(Error::Pair);
        }
        let recipe = Recipe::ValueIndex { value: value.clone(), index: index.clone() };
        Ok(Datatype::made(recipe, Shape::pair(first, second)))
    }
}

/// The smallest float with the requested precision and range.
fn float(precision: Option<i32>, range: Option<i32>) -> Result<(BasicKind, u8), Error> {
    let enough = |asked: Option<i32>, has: i32| asked.is_none_or(|asked| asked <= has);
    let sensible = precision.is_some() || range.is_some();
    let negative = precision.is_some_and(|asked| asked < 0) || range.is_some_and(|asked| asked < 0);
    let mut large_enough = FLOATS
        .iter()
        .filter(|(digits, exponents, ..)| enough(precision, *digits) && enough(range, *exponents));
    let (_, _, sort, bytes) =
        large_enough.next().filter(|_| sensible && !negative).ok_or(Error::Precision)?;
    Ok((*sort, *bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn basic(datatype: Result<Datatype, Error>) -> (BasicKind, u64) {
        match datatype.expect("there is one").predefined() {
            Some(Predefined::One(basic)) => (basic.sort(), basic.bytes()),
            other => panic!("{other:?} is not one basic type"),
        }
    }

    #[test]
    fn fortran_gets_the_smallest_that_is_enough() {
        assert_eq!(basic(Datatype::f90_real(Some(6), Some(37))), (BasicKind::Float, 4));
        assert_eq!(basic(Datatype::f90_real(Some(7), None)), (BasicKind::Float, 8));
        assert_eq!(basic(Datatype::f90_real(None, Some(38))), (BasicKind::Float, 8));
        assert_eq!(basic(Datatype::f90_real(Some(33), Some(4931))), (BasicKind::Float, 16));
        assert_eq!(basic(Datatype::f90_complex(Some(15), Some(307))), (BasicKind::Complex, 16));
        assert_eq!(basic(Datatype::f90_integer(9)), (BasicKind::Signed, 4));
        assert_eq!(basic(Datatype::f90_integer(10)), (BasicKind::Signed, 8));
        for refused in [
            Datatype::f90_real(Some(34), None),
            Datatype::f90_real(None, None),
            Datatype::f90_complex(Some(3), Some(-1)),
            Datatype::f90_integer(39),
            Datatype::f90_integer(-1),
        ] {
            assert_eq!(refused.err(), Some(Error::Precision));
        }
    }

    #[test]
    fn a_size_leads_to_a_name() {
        let name = |class, bytes| Datatype::match_size(class, bytes).map(|found| found.name());
        assert_eq!(name(TypeClass::Integer, 8), Ok(Some("MPI_INTEGER8")));
        assert_eq!(name(TypeClass::Real, 2), Ok(Some("MPI_REAL2")));
        assert_eq!(name(TypeClass::Complex, 32), Ok(Some("MPI_COMPLEX32")));
        assert_eq!(name(TypeClass::Logical, 1), Ok(Some("MPI_LOGICAL1")));
        assert_eq!(name(TypeClass::Complex, 2), Err(Error::Size));
        assert_eq!(name(TypeClass::Real, 3), Err(Error::Size));
    }

    #[test]
    fn pairs_are_named_where_they_can_be() {
        let named = |name| Datatype::by_name(name).expect("it is predefined");
        let pair = |value, index| Datatype::value_index(&named(value), &named(index));
        let name = pair("MPI_DOUBLE", "MPI_INT").expect("there is one").name();
        assert_eq!(name, Some("MPI_DOUBLE_INT"));
        let other = pair("MPI_DOUBLE", "MPI_INT64_T").expect("there is one");
        assert_eq!((other.name(), other.size(), other.extent()), (None, 16, 16));
        assert!(matches!(other.predefined(), Some(Predefined::Pair { .. })));
        assert_eq!(other.recipe().datatypes().len(), 2);
        assert_eq!(pair("MPI_BYTE", "MPI_INT").err(), Some(Error::Pair));
        assert_eq!(pair("MPI_INT", "MPI_DOUBLE").err(), Some(Error::Pair));
        assert_eq!(pair("MPI_2INT", "MPI_INT").err(), Some(Error::Pair));
    }
}
