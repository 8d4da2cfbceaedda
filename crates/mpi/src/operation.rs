//! Operators on plain numbers: what a reduction does to bytes.
//!
//! The NIC names an operator by 16 bits and hands it to its port. Here is what they mean, and the
//! loops that a port runs. Integers wrap. The smaller and the larger of two floats are NaN if
//! either is: so the result does not depend on who was combined first. Which of two equal zeros or
//! of two NaNs it is may depend on that.

use ferrywire_nic::Operator;

/// What is done to two numbers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Operation {
    /// Adds them.
    Sum,
    /// Multiplies them.
    Product,
    /// The smaller.
    Min,
    /// The larger.
    Max,
    /// Bits that are in both.
    BitAnd,
    /// Bits that are in either.
    BitOr,
    /// Bits that are in one of them.
    BitXor,
    /// One if neither is zero, else zero.
    LogicalAnd,
    /// Zero if both are zero, else one.
    LogicalOr,
    /// One if exactly one is not zero, else zero.
    LogicalXor,
}

impl Operation {
    /// All of them, as they are coded.
    pub const ALL: [Operation; 10] = [
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
    ];

    /// Whether it can be done to such numbers. MPI 5.0 §6.9.2 has the same table.
    pub fn suits(self, number: Number) -> bool {
        use Operation::{LogicalAnd, LogicalOr, LogicalXor, Max, Min, Product, Sum};
        match number {
            Number::F32 | Number::F64 => matches!(self, Sum | Product | Min | Max),
            Number::Bool => matches!(self, LogicalAnd | LogicalOr | LogicalXor),
            _ => true,
        }
    }
}

/// The sort of a number.
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
    /// One byte, which is zero or not.
    Bool,
}

impl Number {
    /// All of them, as they are coded.
    pub const ALL: [Number; 11] = [
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
        Number::Bool,
    ];

    /// The sort of `T`.
    pub fn of<T: Plain>() -> Number {
        T::NUMBER
    }

    /// How many bytes one has.
    pub fn bytes(self) -> u64 {
        match self {
            Number::I8 | Number::U8 | Number::Bool => 1,
            Number::I16 | Number::U16 => 2,
            Number::I32 | Number::U32 | Number::F32 => 4,
            Number::I64 | Number::U64 | Number::F64 => 8,
        }
    }
}

/// Types of Rust that are plain numbers.
pub trait Plain: Copy {
    /// Their sort.
    const NUMBER: Number;
}

/// The operator that does `operation` to such numbers; none where that makes no sense.
pub fn operator(operation: Operation, number: Number) -> Option<Operator> {
    let code = (operation as u16 + 1) << 8 | number as u16;
    operation.suits(number).then_some(Operator(code))
}

/// What [`operator`] has made of it; none if it was somebody else's. Operators of the user's have
/// codes below 256 or above all of these.
pub fn meaning(operator: Operator) -> Option<(Operation, Number)> {
    let [operation, number] = operator.0.to_be_bytes();
    let operation = *Operation::ALL.get(usize::from(operation).checked_sub(1)?)?;
    let number = *Number::ALL.get(usize::from(number))?;
    operation.suits(number).then_some((operation, number))
}

/// One loop for each operation on integers of a type: the compiler makes vectors of each.
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
            // No comparison with NaN holds, so one in `b` is taken as well.
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

/// Combines each number of `source` with the one at the same place in `into`, which gets the
/// result. Bytes are as the machine has them, and need no alignment. An operator without a
/// [`meaning`] here, or bytes that are not as many whole numbers on both sides, are a bug of the
/// caller.
pub fn combine(operator: Operator, source: &[u8], into: &mut [u8]) {
    let meaning = meaning(operator);
    let (operation, number) = meaning.unwrap_or_else(|| panic!("{operator:?} is not of ours"));
    match number {
        Number::I8 => integers!(i8, operation, source, into),
        Number::I16 => integers!(i16, operation, source, into),
        Number::I32 => integers!(i32, operation, source, into),
        Number::I64 => integers!(i64, operation, source, into),
        Number::U8 => integers!(u8, operation, source, into),
        Number::U16 => integers!(u16, operation, source, into),
        Number::U32 => integers!(u32, operation, source, into),
        Number::U64 => integers!(u64, operation, source, into),
        Number::F32 => floats!(f32, operation, source, into),
        Number::F64 => floats!(f64, operation, source, into),
        Number::Bool => integers!(u8, operation, source, into),
    }
}

/// Puts `f` of the two into every place of `into`.
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

/// Says of which sort types are.
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
    use super::*;

    /// The operation on two numbers, through bytes that lie as awkwardly as can be.
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
                let Some(operator) = operator(operation, number) else {
                    assert!(matches!(number, Number::F32 | Number::F64 | Number::Bool));
                    continue;
                };
                assert_eq!(meaning(operator), Some((operation, number)));
                assert!(codes.insert(operator.0));
                combine(operator, &[], &mut []);
            }
        }
        assert_eq!(codes.len(), 8 * 10 + 2 * 4 + 3);
        let others = (0..=u16::MAX).filter(|code| !codes.contains(code));
        assert!(others.map(Operator).all(|operator| meaning(operator).is_none()));
        assert_eq!(operator(Operation::BitXor, Number::F64), None);
        assert_eq!(operator(Operation::Sum, Number::Bool), None);
    }

    #[test]
    #[should_panic(expected = "whole numbers")]
    fn half_a_number_is_a_bug() {
        let operator = operator(Operation::Sum, Number::I32).expect("it suits");
        combine(operator, &[0; 6], &mut [0; 6]);
    }
}
