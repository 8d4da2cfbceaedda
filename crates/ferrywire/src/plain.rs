//! Types whose bytes may travel as they are, and what may be sent and received of them.
//!
//! Invariants, cited below by number.
//!   I1. A `Plain` type has no padding and no pointers, and every pattern of bits is one of its values.

use ferrywire_mpi::operation::{self, Operation};

/// Types that may travel as bytes: numbers, arrays of them, and structs that derive it.
///
/// Not `bool` and not `char`: a peer may send any byte, and not every byte is one of those. Send a
/// `u8` or a `u32` and compare, or send a value (see [`Comm::send_value`](crate::Comm::send_value)).
/// Not tuples: their layout is not fixed.
///
/// ```
/// use ferrywire::Plain;
///
/// #[derive(Clone, Copy, Debug, PartialEq, Plain)]
/// #[repr(C)]
/// struct Particle {
///     position: [f64; 3],
///     charge: i32,
///     id: u32,
/// }
///
/// ferrywire::local(2, |world| {
///     let particle = Particle { position: [1.0, 2.0, 3.0], charge: -1, id: 42 };
///     if world.rank() == 0 {
///         world.send(&particle, 1, 0).unwrap();
///     } else {
///         let (got, _) = world.receive_one::<Particle>(0, 0).unwrap();
///         assert_eq!(got, particle);
///     }
/// });
/// ```
///
/// What is not plain is an error of the compiler: padding, fields that are not plain, a layout that is
/// not fixed, enums.
///
/// ```compile_fail
/// #[derive(Clone, Copy, ferrywire::Plain)]
/// #[repr(C)]
/// struct Padded(u8, u32);
/// ```
/// ```compile_fail
/// #[derive(Clone, Copy, ferrywire::Plain)]
/// #[repr(C)]
/// struct Flag(bool);
/// ```
/// ```compile_fail
/// #[derive(Clone, Copy, ferrywire::Plain)]
/// struct Loose(u32, u32);
/// ```
/// ```compile_fail
/// #[derive(Clone, Copy, ferrywire::Plain)]
/// #[repr(u8)]
/// enum Color { Red, Green }
/// ```
///
/// # Safety
/// Every pattern of bits is a value of the type, and it has no padding and no pointers: its bytes can be
/// read, and can be replaced by any others. The derive checks that.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot travel as bytes",
    label = "not `Plain`",
    note = "numbers, arrays of them and structs with `#[derive(Clone, Copy, Plain)] #[repr(C)]` are; send anything else \
            that serde serialises by `send_value`"
)]
pub unsafe trait Plain: Copy + Send + Sync + Unpin + 'static {
    /// How many elements one has: arrays have several.
    #[doc(hidden)]
    const ELEMENTS: usize = 1;

    /// What errors call the type. An array is called as its elements, since they travel alike.
    #[doc(hidden)]
    fn type_name() -> &'static str {
        std::any::type_name::<Self>()
    }
}

/// What can be sent, and received into: a plain value, a slice, an array or a vector of them.
///
/// A vector is received into as it is: it neither grows nor shrinks.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be sent or received as bytes",
    label = "neither `Plain` nor a slice, an array or a vector of what is",
    note = "numbers, arrays of them and structs with `#[derive(Clone, Copy, Plain)] #[repr(C)]` are `Plain`; send anything \
            else that serde serialises by `send_value`"
)]
pub trait Buffer: sealed::Sealed {
    /// What it consists of.
    type Item: Plain;

    /// The items.
    fn items(&self) -> &[Self::Item];

    /// The items, to be changed.
    fn items_mut(&mut self) -> &mut [Self::Item];

    /// Bytes of what the count of a status counts.
    #[doc(hidden)]
    const UNIT: usize = unit::<Self::Item>();
}

mod sealed {
    pub trait Sealed {}
    impl<T: super::Plain> Sealed for T {}
    impl<T: super::Plain> Sealed for [T] {}
    impl<T: super::Plain> Sealed for Vec<T> {}
}

impl<T: Plain> Buffer for T {
    type Item = T;
    const UNIT: usize = unit::<T>() / if T::ELEMENTS == 0 { 1 } else { T::ELEMENTS };

    fn items(&self) -> &[T] {
        std::slice::from_ref(self)
    }

    fn items_mut(&mut self) -> &mut [T] {
        std::slice::from_mut(self)
    }
}

impl<T: Plain> Buffer for [T] {
    type Item = T;

    fn items(&self) -> &[T] {
        self
    }

    fn items_mut(&mut self) -> &mut [T] {
        self
    }
}

impl<T: Plain> Buffer for Vec<T> {
    type Item = T;

    fn items(&self) -> &[T] {
        self
    }

    fn items_mut(&mut self) -> &mut [T] {
        self
    }
}

/// What can be reduced: a number, or several.
pub trait Numbers: Buffer {
    /// The sort of the numbers.
    #[doc(hidden)]
    const SORT: operation::Number;
}

/// The numbers on which reductions work: integers of 8 to 64 bits, and floats.
pub trait Number: Numbers + Plain {}

impl<T: Number> Numbers for [T] {
    const SORT: operation::Number = T::SORT;
}

impl<T: Number> Numbers for Vec<T> {
    const SORT: operation::Number = T::SORT;
}

impl<T: Number, const N: usize> Numbers for [T; N] {
    const SORT: operation::Number = T::SORT;
}

/// Says of which types all bits are values.
macro_rules! plain {
    ($($type:ty),*) => {
        $(
            // SAFETY: a number: no padding, and any bits will do.
            unsafe impl Plain for $type {}
        )*
    };
}

/// Says which of them reductions work on.
macro_rules! numbers {
    ($($type:ty),*) => {
        plain!($($type),*);
        $(
            impl Numbers for $type {
                const SORT: operation::Number = <$type as operation::Plain>::NUMBER;
            }
            impl Number for $type {}
        )*
    };
}

numbers!(i8, i16, i32, i64, u8, u16, u32, u64, f32, f64, isize, usize);
plain!(i128, u128);

// SAFETY: arrays have no padding of their own.
unsafe impl<T: Plain, const N: usize> Plain for [T; N] {
    const ELEMENTS: usize = N;

    fn type_name() -> &'static str {
        T::type_name()
    }
}

/// Bytes of one item, for counting: items without bytes are not counted, but do no harm either.
pub(crate) const fn unit<T>() -> usize {
    if size_of::<T>() == 0 { 1 } else { size_of::<T>() }
}

/// The bytes of plain items.
pub(crate) fn bytes<T: Plain>(items: &[T]) -> &[u8] {
    // SAFETY: I1: all bytes of the items are written, and they are borrowed as long as the result.
    unsafe { std::slice::from_raw_parts(items.as_ptr().cast(), size_of_val(items)) }
}

/// The bytes of plain items, to be changed.
pub(crate) fn bytes_mut<T: Plain>(items: &mut [T]) -> &mut [u8] {
    let len = size_of_val(items);
    // SAFETY: I1: any bytes may be put there, and they are borrowed as long as the result.
    unsafe { std::slice::from_raw_parts_mut(items.as_mut_ptr().cast(), len) }
}

/// Items to be received into.
pub(crate) fn zeroed<T: Plain>(count: usize) -> Vec<T> {
    let mut items: Vec<T> = Vec::with_capacity(count);
    // SAFETY: there is room for `count` items.
    unsafe { std::ptr::write_bytes(items.as_mut_ptr(), 0, count) };
    // SAFETY: I1: zero bits are a value, and `count` items of them are written.
    unsafe { items.set_len(count) };
    items
}

/// Whether an operation can be done to such numbers.
pub(crate) fn operator_of<B: Numbers + ?Sized>(
    operation: Operation,
) -> Option<ferrywire_host::nic::Operator> {
    operation::operator(operation, B::SORT)
}
