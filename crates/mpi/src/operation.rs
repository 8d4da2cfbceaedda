//! Predefined operators: what a reduction does to bytes.
//!
//! The NIC names an operator by 16 bits and passes it to its port. Here is what they mean, and the loops that a port
//! runs. Integers wrap. The minimum and the maximum of two floats are NaN if either is, so the result does not depend
//! on the order of combination. Which of two equal zeros or of two NaNs results may depend on it.
//!
//! | numbers | operations |
//! |---|---|
//! | integers | all but those on pairs |
//! | floats | sum, product, min, max |
//! | complex numbers | sum, product |
//! | truth values | logical operations |
//! | plain bytes | bitwise operations |
//! | pairs of a value and an index | the smallest or largest value with its index |
//! | all | replace, none |

mod long_double;

use std::cmp::Ordering;

use ferrywire_nic::Operator;
use long_double::LongDouble;

/// An operation on two numbers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Operation {
    /// Their sum.
    Sum,
    /// Their product.
    Product,
    /// The smaller.
    Min,
    /// The larger.
    Max,
    /// Bits set in both.
    BitAnd,
    /// Bits set in either.
    BitOr,
    /// Bits set in exactly one.
    BitXor,
    /// One if neither is zero, else zero.
    LogicalAnd,
    /// Zero if both are zero, else one.
    LogicalOr,
    /// One if exactly one is not zero, else zero.
    LogicalXor,
    /// The pair with the smaller value; of equal values, the one with the lower index: `MPI_MINLOC`.
    MinPlace,
    /// The pair with the larger value; of equal values, the one with the lower index: `MPI_MAXLOC`.
    MaxPlace,
    /// The incoming value replaces the present one: `MPI_REPLACE`.
    Replace,
    /// The present value stays: `MPI_NO_OP`.
    Keep,
}

impl Operation {
    /// All operations, in the order of their codes.
    pub const ALL: [Operation; 14] = [
        Operation::Sum,
        Operation::Product,
        Operation::Min,
        Operation::Max,
        Operation::BitAnd,
        Operation::BitOr,
        Operation::BitXor,
        Operation::LogicalAnd,
        Operation::LogicalOr,
        Operation::LogicalXor,
        Operation::MinPlace,
        Operation::MaxPlace,
        Operation::Replace,
        Operation::Keep,
    ];

    /// Whether the operation applies to numbers of this type. MPI 5.0 §6.9.2 has the same table.
    pub fn suits(self, number: Number) -> bool {
        use Operation::{
            BitAnd, BitOr, BitXor, Keep, LogicalAnd, LogicalOr, LogicalXor, Max, MaxPlace, Min,
            MinPlace, Product, Replace, Sum,
        };
        match (number.class(), self) {
            (_, Replace | Keep) => true,
            (OperandClass::Pair, _) => matches!(self, MinPlace | MaxPlace),
            (OperandClass::Integer, _) => !matches!(self, MinPlace | MaxPlace),
            (OperandClass::Float, _) => matches!(self, Sum | Product | Min | Max),
            (OperandClass::Complex, _) => matches!(self, Sum | Product),
            (OperandClass::Logical, _) => matches!(self, LogicalAnd | LogicalOr | LogicalXor),
            (OperandClass::Byte, _) => matches!(self, BitAnd | BitOr | BitXor),
        }
    }

    /// Whether the order of the two does not matter.
    pub fn is_commutative(self) -> bool {
        !matches!(self, Operation::Replace | Operation::Keep)
    }
}

/// The type of a number.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[allow(missing_docs, reason = "they are called what Rust calls them")]
pub enum Number {
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    F32,
    F64,
    /// C's `long double`, in 16 bytes: 80 bits on x86-64, a quadruple elsewhere.
    LongDouble,
    /// Real and imaginary part.
    ComplexF32,
    /// Real and imaginary part.
    ComplexF64,
    /// Real and imaginary part.
    ComplexLongDouble,
    /// One byte, which is zero or not.
    Bool,
    /// Two bytes, which are zero or not.
    Logical16,
    /// Four bytes, which are zero or not.
    Logical32,
    /// Eight bytes, which are zero or not.
    Logical64,
    /// Eight bits without a meaning.
    Byte,
    /// A value, then its index, without a gap; the following likewise.
    F32AndI32,
    F64AndI32,
    LongDoubleAndI32,
    I16AndI32,
    I32AndI32,
    I64AndI32,
    F32AndF32,
    F64AndF64,
}

/// Classes of numbers that support the same operations.
enum OperandClass {
    Integer,
    Float,
    Complex,
    Logical,
    Byte,
    Pair,
}

impl Number {
    /// All number types, in the order of their codes.
    pub const ALL: [Number; 27] = [
        Number::I8,
        Number::I16,
        Number::I32,
        Number::I64,
        Number::U8,
        Number::U16,
        Number::U32,
        Number::U64,
        Number::F32,
        Number::F64,
        Number::LongDouble,
        Number::ComplexF32,
        Number::ComplexF64,
        Number::ComplexLongDouble,
        Number::Bool,
        Number::Logical16,
        Number::Logical32,
        Number::Logical64,
        Number::Byte,
        Number::F32AndI32,
        Number::F64AndI32,
        Number::LongDoubleAndI32,
        Number::I16AndI32,
        Number::I32AndI32,
        Number::I64AndI32,
        Number::F32AndF32,
        Number::F64AndF64,
    ];

    /// The number type of `T`.
    pub fn of<T: Plain>() -> Number {
        T::NUMBER
    }

    /// Size in bytes.
    pub fn bytes(self) -> u64 {
        match self {
            Number::I8 | Number::U8 | Number::Bool | Number::Byte => 1,
            Number::I16 | Number::U16 | Number::Logical16 => 2,
            Number::I32 | Number::U32 | Number::F32 | Number::Logical32 => 4,
            Number::I16AndI32 => 6,
            Number::I64 | Number::U64 | Number::F64 | Number::Logical64 => 8,
            Number::ComplexF32 | Number::F32AndI32 | Number::I32AndI32 | Number::F32AndF32 => 8,
            Number::F64AndI32 | Number::I64AndI32 => 12,
            Number::LongDouble | Number::ComplexF64 | Number::F64AndF64 => 16,
            Number::LongDoubleAndI32 => 20,
            Number::ComplexLongDouble => 32,
        }
    }

    fn class(self) -> OperandClass {
        use Number::{
            Bool, Byte, ComplexF32, ComplexF64, ComplexLongDouble, F32, F32AndF32, F32AndI32, F64,
            F64AndF64, F64AndI32, I8, I16, I16AndI32, I32, I32AndI32, I64, I64AndI32, Logical16,
            Logical32, Logical64, LongDoubleAndI32, U8, U16, U32, U64,
        };
        match self {
            I8 | I16 | I32 | I64 | U8 | U16 | U32 | U64 => OperandClass::Integer,
            F32 | F64 | Number::LongDouble => OperandClass::Float,
            ComplexF32 | ComplexF64 | ComplexLongDouble => OperandClass::Complex,
            Bool | Logical16 | Logical32 | Logical64 => OperandClass::Logical,
            Byte => OperandClass::Byte,
            F32AndI32 | F64AndI32 | LongDoubleAndI32 | I16AndI32 | I32AndI32 | I64AndI32 => {
                OperandClass::Pair
            }
            F32AndF32 | F64AndF64 => OperandClass::Pair,
        }
    }
}

/// Rust types that are plain numbers.
pub trait Plain: Copy {
    /// The number type.
    const NUMBER: Number;
}

/// The operator for `operation` on numbers of this type. None if they do not go together.
pub fn operator(operation: Operation, number: Number) -> Option<Operator> {
    let code = (operation as u16 + 1) << 8 | number as u16;
    operation.suits(number).then_some(Operator(code))
}

/// Codes from this value on are for user-defined operators and have no [`meaning`] here. Neither have codes below 256,
/// which are for programs that run a NIC without MPI.
pub const USER_OPERATOR_MIN: u16 = 0x8000;

/// What [`operator`] made the code from. None for codes of other origin.
pub fn meaning(operator: Operator) -> Option<(Operation, Number)> {
    decode(operator).filter(|(operation, number)| operation.suits(*number))
}

/// Decodes an operator, without checking that operation and number go together.
#[inline]
pub fn decode(operator: Operator) -> Option<(Operation, Number)> {
    let [operation, number] = operator.0.to_be_bytes();
    let operation = *Operation::ALL.get(usize::from(operation).checked_sub(1)?)?;
    Some((operation, *Number::ALL.get(usize::from(number))?))
}

/// One loop for each operation on integers of a type: the compiler vectorizes each.
macro_rules! integers {
    ($type:ty, $operation:expr, $source:expr, $into:expr) => {{
        fn each(source: &[u8], into: &mut [u8], f: impl Fn($type, $type) -> $type) {
            let f = |a, b| f(<$type>::from_ne_bytes(a), <$type>::from_ne_bytes(b)).to_ne_bytes();
            each_bytes(source, into, f);
        }
        let (source, into) = ($source, $into);
        let truth = |value: bool| <$type>::from(value);
        match $operation {
            Operation::Sum => each(source, into, <$type>::wrapping_add),
            Operation::Product => each(source, into, <$type>::wrapping_mul),
            Operation::Min => each(source, into, |a: $type, b| a.min(b)),
            Operation::Max => each(source, into, |a: $type, b| a.max(b)),
            Operation::BitAnd => each(source, into, |a: $type, b| a & b),
            Operation::BitOr => each(source, into, |a: $type, b| a | b),
            Operation::BitXor => each(source, into, |a: $type, b| a ^ b),
            Operation::LogicalAnd => each(source, into, |a, b| truth(a != 0 && b != 0)),
            Operation::LogicalOr => each(source, into, |a, b| truth(a != 0 || b != 0)),
            Operation::LogicalXor => each(source, into, |a, b| truth((a != 0) != (b != 0))),
            _ => unreachable!("an operator suits its numbers"),
        }
    }};
}

/// One loop for each operation on floats of a type.
macro_rules! floats {
    ($type:ty, $operation:expr, $source:expr, $into:expr) => {{
        fn each(source: &[u8], into: &mut [u8], f: impl Fn($type, $type) -> $type) {
            let f = |a, b| f(<$type>::from_ne_bytes(a), <$type>::from_ne_bytes(b)).to_ne_bytes();
            each_bytes(source, into, f);
        }
        let (source, into) = ($source, $into);
        match $operation {
            Operation::Sum => each(source, into, |a: $type, b| a + b),
            Operation::Product => each(source, into, |a: $type, b| a * b),
            // No comparison with NaN holds, so a NaN in `b` is taken too.
            Operation::Min => {
                each(source, into, |a: $type, b| if a < b || a.is_nan() { a } else { b })
            }
            Operation::Max => {
                each(source, into, |a: $type, b| if a > b || a.is_nan() { a } else { b })
            }
            _ => unreachable!("an operator suits its numbers"),
        }
    }};
}

/// One loop for each operation on complex numbers with parts of a type; `$bytes` is the size of one.
macro_rules! complex {
    ($part:ty, $bytes:literal, $operation:expr, $source:expr, $into:expr) => {{
        let parts = |bytes: [u8; $bytes]| {
            let real = *bytes.first_chunk().expect("half of it");
            let imaginary = *bytes.last_chunk().expect("half of it");
            (<$part>::from_ne_bytes(real), <$part>::from_ne_bytes(imaginary))
        };
        match $operation {
            // Part by part.
            Operation::Sum => {
                assert!($source.len().is_multiple_of($bytes), "whole numbers");
                floats!($part, Operation::Sum, $source, $into)
            }
            Operation::Product => each_bytes($source, $into, |a, b| {
                let ((a, b), (c, d)) = (parts(a), parts(b));
                let (real, imaginary) = (a * c - b * d, a * d + b * c);
                let mut bytes = [0; $bytes];
                bytes[..$bytes / 2].copy_from_slice(&real.to_ne_bytes());
                bytes[$bytes / 2..].copy_from_slice(&imaginary.to_ne_bytes());
                bytes
            }),
            _ => unreachable!("an operator suits its numbers"),
        }
    }};
}

/// One loop for both operations on pairs of a value and an index; `$bytes` is the size of one.
macro_rules! pairs {
    ($value:ty, $index:ty, $bytes:literal, $operation:expr, $source:expr, $into:expr) => {{
        let pair = |bytes: &[u8; $bytes]| {
            let value = *bytes.first_chunk().expect("the value comes first");
            let index = *bytes.last_chunk().expect("the index comes last");
            (<$value>::from_ne_bytes(value), <$index>::from_ne_bytes(index))
        };
        let wanted = match $operation {
            Operation::MinPlace => Ordering::Less,
            Operation::MaxPlace => Ordering::Greater,
            _ => unreachable!("an operator suits its numbers"),
        };
        each_bytes($source, $into, |a, b| if wins(pair(&a), pair(&b), wanted) { a } else { b });
    }};
}

/// Whether the first of two pairs wins. NaN precedes all other values.
fn wins<V: PartialOrd, I: PartialOrd>(one: (V, I), other: (V, I), wanted: Ordering) -> bool {
    let is_nan = |value: &V| value.partial_cmp(value).is_none();
    match one.0.partial_cmp(&other.0) {
        Some(Ordering::Equal) => one.1 <= other.1,
        Some(order) => order == wanted,
        None if is_nan(&one.0) && is_nan(&other.0) => one.1 <= other.1,
        None => is_nan(&one.0),
    }
}

/// Combines each number of `source` with the one at the same place in `into`, which receives the result. Bytes are in
/// native order, and need no alignment. An operator without a [`meaning`] here, or spans that are not the same number
/// of whole numbers, are a bug of the caller.
pub fn combine(operator: Operator, source: &[u8], into: &mut [u8]) {
    let (operation, number) =
        decode(operator).unwrap_or_else(|| panic!("{operator:?} is not of ours"));
    match operation {
        Operation::Replace => return into.copy_from_slice(source),
        Operation::Keep => return,
        _ => {}
    }
    match number {
        Number::I8 => integers!(i8, operation, source, into),
        Number::I16 => integers!(i16, operation, source, into),
        Number::I32 => integers!(i32, operation, source, into),
        Number::I64 => integers!(i64, operation, source, into),
        Number::U8 | Number::Bool | Number::Byte => integers!(u8, operation, source, into),
        Number::U16 | Number::Logical16 => integers!(u16, operation, source, into),
        Number::U32 | Number::Logical32 => integers!(u32, operation, source, into),
        Number::U64 | Number::Logical64 => integers!(u64, operation, source, into),
        Number::F32 => floats!(f32, operation, source, into),
        Number::F64 => floats!(f64, operation, source, into),
        Number::LongDouble => floats!(LongDouble, operation, source, into),
        Number::ComplexF32 => complex!(f32, 8, operation, source, into),
        Number::ComplexF64 => complex!(f64, 16, operation, source, into),
        Number::ComplexLongDouble => complex!(LongDouble, 32, operation, source, into),
        Number::F32AndI32 => pairs!(f32, i32, 8, operation, source, into),
        Number::F64AndI32 => pairs!(f64, i32, 12, operation, source, into),
        Number::LongDoubleAndI32 => pairs!(LongDouble, i32, 20, operation, source, into),
        Number::I16AndI32 => pairs!(i16, i32, 6, operation, source, into),
        Number::I32AndI32 => pairs!(i32, i32, 8, operation, source, into),
        Number::I64AndI32 => pairs!(i64, i32, 12, operation, source, into),
        Number::F32AndF32 => pairs!(f32, f32, 8, operation, source, into),
        Number::F64AndF64 => pairs!(f64, f64, 16, operation, source, into),
    }
}

/// Replaces each element of `into` by `f` of both elements.
#[inline(always)]
fn each_bytes<const N: usize>(
    source: &[u8],
    into: &mut [u8],
    f: impl Fn([u8; N], [u8; N]) -> [u8; N],
) {
    assert_eq!(source.len(), into.len(), "as many on both sides");
    let (source, rest) = source.as_chunks::<N>();
    assert!(rest.is_empty(), "whole numbers");
    let (into, _) = into.as_chunks_mut::<N>();
    for (source, into) in source.iter().zip(into) {
        *into = f(*source, *into);
    }
}

/// Assigns number types to Rust types.
macro_rules! plain {
    ($($type:ty => $number:expr),* $(,)?) => {
        $(impl Plain for $type {
            const NUMBER: Number = $number;
        })*
    };
}

plain! {
    i8 => Number::I8,
    i16 => Number::I16,
    i32 => Number::I32,
    i64 => Number::I64,
    u8 => Number::U8,
    u16 => Number::U16,
    u32 => Number::U32,
    u64 => Number::U64,
    f32 => Number::F32,
    f64 => Number::F64,
    bool => Number::Bool,
    isize => [Number::I32, Number::I64][(size_of::<isize>() == 8) as usize],
    usize => [Number::U32, Number::U64][(size_of::<usize>() == 8) as usize],
}

#[cfg(test)]
mod tests {
    use super::long_double::tests::long;
    use super::*;

    fn long_double(float: f64) -> LongDouble {
        long(float)
    }

    /// Applies the operation to two numbers, in bytes without alignment.
    fn of_two<const N: usize>(
        operation: Operation,
        number: Number,
        source: [u8; N],
        into: [u8; N],
    ) -> [u8; N] {
        let operator = operator(operation, number).expect("it suits");
        // Not aligned, and with neighbours that must not change.
        let source = [&[1][..], &source, &source, &[2]].concat();
        let mut room = [&[3][..], &into, &into, &[4]].concat();
        let end = 1 + 2 * N;
        combine(operator, &source[1..end], &mut room[1..end]);
        assert_eq!((room[0], room[end]), (3, 4));
        assert_eq!(room[1..=N], room[1 + N..end]);
        room[1..=N].try_into().expect("as long")
    }

    macro_rules! assert_integers {
        ($($type:ty),*) => {$(
            for a in [<$type>::MIN, <$type>::MAX, 0, 1, 2, 3, 5, 77] {
                for b in [<$type>::MIN, <$type>::MAX, 0, 1, 2, 3, 5, 77] {
                    let expected = [
                        a.wrapping_add(b),
                        a.wrapping_mul(b),
                        if a < b { a } else { b },
                        if a > b { a } else { b },
                        a & b,
                        a | b,
                        a ^ b,
                        <$type>::from(a != 0 && b != 0),
                        <$type>::from(a != 0 || b != 0),
                        <$type>::from((a == 0) != (b == 0)),
                    ];
                    for (operation, expected) in Operation::ALL.into_iter().zip(expected) {
                        let number = Number::of::<$type>();
                        let found = of_two(operation, number, a.to_ne_bytes(), b.to_ne_bytes());
                        let found = <$type>::from_ne_bytes(found);
                        assert_eq!(found, expected, "{operation:?} of {a} and {b}");
                    }
                }
            }
        )*};
    }

    #[test]
    fn integers_do_as_rust_does() {
        assert_integers!(i8, i16, i32, i64, u8, u16, u32, u64, isize, usize);
    }

    #[test]
    fn floats_do_as_rust_does_and_keep_nan() {
        let numbers = [0.0, 1.5, -2.0, 1e300, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
        for a in numbers {
            for b in numbers {
                let nan = a.is_nan() || b.is_nan();
                let min = if nan { f64::NAN } else { a.min(b) };
                let max = if nan { f64::NAN } else { a.max(b) };
                let expected = [a + b, a * b, min, max];
                for (operation, expected) in Operation::ALL.into_iter().zip(expected) {
                    let found = of_two(operation, Number::F64, a.to_ne_bytes(), b.to_ne_bytes());
                    let found = f64::from_ne_bytes(found);
                    let same = found == expected || found.is_nan() && expected.is_nan();
                    assert!(same, "{operation:?} of {a} and {b} is {found}, not {expected}");
                }
            }
        }
        let sum = of_two(Operation::Sum, Number::F32, 1.5_f32.to_ne_bytes(), 2_f32.to_ne_bytes());
        assert_eq!(f32::from_ne_bytes(sum).to_bits(), 3.5_f32.to_bits());
    }

    #[test]
    fn any_byte_but_zero_is_true() {
        for (operation, expected) in [
            (Operation::LogicalAnd, [0, 0, 0, 1]),
            (Operation::LogicalOr, [0, 1, 1, 1]),
            (Operation::LogicalXor, [0, 1, 1, 0]),
        ] {
            for ((a, b), expected) in [(0, 0), (0, 7), (9, 0), (1, 2)].into_iter().zip(expected) {
                assert_eq!(of_two(operation, Number::Bool, [a], [b]), [expected]);
            }
        }
    }

    #[test]
    fn an_operator_means_what_it_was_made_of() {
        let mut codes = std::collections::BTreeSet::new();
        for operation in Operation::ALL {
            for number in Number::ALL {
                let Some(operator) = operator(operation, number) else { continue };
                assert_eq!(meaning(operator), Some((operation, number)));
                assert!(codes.insert(operator.0));
                combine(operator, &[], &mut []);
            }
        }
        let (integers, floats, complex, logical, bytes, pairs) =
            (8 * 10, 3 * 4, 3 * 2, 4 * 3, 3, 8 * 2);
        assert_eq!(codes.len(), integers + floats + complex + logical + bytes + pairs + 27 * 2);
        assert!(codes.iter().all(|code| (256..USER_OPERATOR_MIN).contains(code)));
        let others = (0..=u16::MAX).filter(|code| !codes.contains(code));
        assert!(others.map(Operator).all(|operator| meaning(operator).is_none()));
        assert_eq!(operator(Operation::BitXor, Number::F64), None);
        assert_eq!(operator(Operation::Sum, Number::Bool), None);
    }

    #[test]
    fn truth_values_of_all_lengths_become_zero_or_one() {
        let (a, b) = (0_u32.to_ne_bytes(), 7_u32.to_ne_bytes());
        assert_eq!(of_two(Operation::LogicalOr, Number::Logical32, a, b), 1_u32.to_ne_bytes());
        let (a, b) = ((-1_i16).to_ne_bytes(), 1_i16.to_ne_bytes());
        assert_eq!(of_two(Operation::LogicalAnd, Number::Logical16, a, b), 1_u16.to_ne_bytes());
        let (a, b) = ((1_u64 << 40).to_ne_bytes(), 9_u64.to_ne_bytes());
        assert_eq!(of_two(Operation::LogicalXor, Number::Logical64, a, b), [0; 8]);
        assert_eq!(of_two(Operation::BitXor, Number::Byte, [5], [6]), [3]);
    }

    #[test]
    fn complex_numbers_do_as_in_school() {
        let join = |re: f64, im: f64| [re.to_ne_bytes(), im.to_ne_bytes()].concat();
        let of = |operation, (a, b): (f64, f64), (c, d): (f64, f64)| {
            let [a, b] = [join(a, b), join(c, d)].map(|bytes| bytes.try_into().expect("16"));
            of_two::<16>(operation, Number::ComplexF64, a, b).to_vec()
        };
        let (a, b) = ((1.5, -2.0), (4.0, 8.0));
        assert_eq!(of(Operation::Sum, a, b), join(5.5, 6.0));
        assert_eq!(of(Operation::Product, a, b), join(22.0, 4.0));
        let i = [0_f32.to_ne_bytes(), 1_f32.to_ne_bytes()].concat().try_into().expect("8");
        let found = of_two::<8>(Operation::Product, Number::ComplexF32, i, i);
        assert_eq!(found.to_vec(), [(-1_f32).to_ne_bytes(), 0_f32.to_ne_bytes()].concat());
        let long = |a, b| -> [u8; 32] {
            let parts = [a, b].map(|part| long_double(part).to_ne_bytes());
            parts.concat().try_into().expect("32")
        };
        let found =
            of_two(Operation::Product, Number::ComplexLongDouble, long(1.5, -2.0), long(4.0, 8.0));
        assert_eq!(found, long(22.0, 4.0));
    }

    macro_rules! assert_pairs {
        ($number:expr, $value:ty, $index:ty, $bytes:literal, $values:expr, $indices:expr) => {
            let join = |value: $value, index: $index| -> [u8; $bytes] {
                let parts = [&value.to_ne_bytes()[..], &index.to_ne_bytes()];
                parts.concat().try_into().expect("as long")
            };
            for (a, b) in $values {
                for (i, j) in $indices {
                    for operation in [Operation::MinPlace, Operation::MaxPlace] {
                        let first = match operation {
                            _ if a == b => i <= j,
                            Operation::MinPlace => a < b,
                            _ => a > b,
                        };
                        let expected = if first { join(a, i) } else { join(b, j) };
                        let found = of_two(operation, $number, join(a, i), join(b, j));
                        assert_eq!(found, expected, "{operation:?} {a:?} {i} {b:?} {j}");
                        let found = of_two(operation, $number, join(b, j), join(a, i));
                        assert_eq!(found, expected, "{operation:?} {b:?} {j} {a:?} {i}");
                    }
                }
            }
        };
    }

    #[test]
    fn of_pairs_the_value_decides_and_then_the_lower_index() {
        let floats = [(1.5, 2.5), (2.5, -1.5), (3.0, 3.0)];
        let indices = [(1, 2), (2, 1), (-1, 5), (4, 4)];
        assert_pairs!(Number::F32AndI32, f32, i32, 8, [(1.5, 2.5), (3.0, 3.0)], indices);
        assert_pairs!(Number::F64AndI32, f64, i32, 12, floats, indices);
        assert_pairs!(Number::I16AndI32, i16, i32, 6, [(1, 2), (-3, -3), (5, -5)], indices);
        assert_pairs!(Number::I32AndI32, i32, i32, 8, [(1, 2), (-3, -3), (5, -5)], indices);
        assert_pairs!(Number::I64AndI32, i64, i32, 12, [(1, 2), (-3, -3), (5, -5)], indices);
        let long = floats.map(|(a, b)| (long_double(a), long_double(b)));
        assert_pairs!(Number::LongDoubleAndI32, LongDouble, i32, 20, long, indices);
        let places = [(1.0, 2.0), (2.0, 1.0)];
        assert_pairs!(Number::F32AndF32, f32, f32, 8, [(1.5, 2.5), (3.0, 3.0)], [(1.0, 2.0)]);
        assert_pairs!(Number::F64AndF64, f64, f64, 16, floats, places);
        assert!(wins((f64::NAN, 1), (0.0, 0), Ordering::Less));
        assert!(!wins((0.0, 0), (f64::NAN, 1), Ordering::Less));
        assert!(wins((f64::NAN, 0), (f64::NAN, 1), Ordering::Greater));
    }

    #[test]
    fn long_floats_are_summed_and_compared() {
        let of = |operation, a, b| {
            let [a, b] = [a, b].map(|float| long_double(float).to_ne_bytes());
            LongDouble::from_ne_bytes(of_two(operation, Number::LongDouble, a, b))
        };
        assert_eq!(of(Operation::Sum, 1.5, 2.25), long_double(3.75));
        assert_eq!(of(Operation::Product, 1.5, -2.25), long_double(-3.375));
        assert_eq!(of(Operation::Min, 1.5, -2.25), long_double(-2.25));
        assert_eq!(of(Operation::Max, 1.5, -2.25), long_double(1.5));
        assert!(of(Operation::Max, 1.5, f64::NAN).is_nan());
        assert!(of(Operation::Min, f64::NAN, 1.5).is_nan());
    }

    #[test]
    fn what_comes_replaces_what_was_there_or_does_not() {
        for number in Number::ALL {
            let bytes = usize::try_from(number.bytes()).expect("few");
            for (operation, expected) in [(Operation::Replace, 1), (Operation::Keep, 2)] {
                let operator = operator(operation, number).expect("it suits all");
                let mut into = vec![2; 2 * bytes];
                combine(operator, &vec![1; 2 * bytes], &mut into);
                assert_eq!(into, vec![expected; 2 * bytes]);
            }
        }
    }

    #[test]
    #[should_panic(expected = "whole numbers")]
    fn half_a_number_is_a_bug() {
        let operator = operator(Operation::Sum, Number::I32).expect("it suits");
        combine(operator, &[0; 6], &mut [0; 6]);
    }
}
