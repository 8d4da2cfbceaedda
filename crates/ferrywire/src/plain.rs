//! Types whose bytes can be sent as they are, and buffers of them.
//!
//! Invariants, cited below by number.
//!   I1. A `Plain` type has no padding and no pointers, and every bit pattern is a valid value.

use ferrywire_mpi::operation::{self, Operation};

/// Types that can be sent as bytes: numbers, arrays of them, and structs that derive it.
///
/// `bool` and `char` are not plain: a peer may send any byte, and not every byte is a valid `bool` or `char`. Send a
/// `u8` or a `u32` and compare, or use [`Comm::send_value`](crate::Comm::send_value). Tuples are not plain either,
/// because their layout is not fixed.
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
/// The derive rejects other types at compile time: structs with padding, with fields that are not plain or with a
/// layout that is not fixed, and enums.
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
/// Every bit pattern is a valid value of the type, and the type has no padding and no pointers: its bytes can be
/// read, and can be replaced by any others. The derive checks this.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be sent as bytes",
    label = "not `Plain`",
    note = "numbers, arrays of numbers and structs with `#[derive(Clone, Copy, Plain)] #[repr(C)]` are \
            `Plain`; send anything else that serde serialises with `send_value`"
)]
pub unsafe trait Plain: Copy + Send + Sync + Unpin + 'static {
    /// The number of elements in one value; more than one only for arrays.
    #[doc(hidden)]
    const ELEMENTS: usize = 1;

    /// The name of the type in errors. An array goes by the name of its elements, because both are sent alike.
    #[doc(hidden)]
    fn type_name() -> &'static str {
        std::any::type_name::<Self>()
    }
}

/// Data that can be sent, and received into: a plain value, or a slice, an array or a vector of plain values.
///
/// Receiving into a vector neither grows nor shrinks it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be sent or received as bytes",
    label = "neither `Plain` nor a slice, an array or a vector of `Plain` items",
    note = "numbers, arrays of numbers and structs with `#[derive(Clone, Copy, Plain)] #[repr(C)]` are \
            `Plain`; send anything else that serde serialises with `send_value`"
)]
pub trait Buffer: sealed::Sealed {
    /// The type of the items.
    type Item: Plain;

    /// The items.
    fn items(&self) -> &[Self::Item];

    /// The items, mutably.
    fn items_mut(&mut self) -> &mut [Self::Item];

    /// Bytes of one unit of [`Status::count`](crate::Status::count).
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

/// Data that can be reduced: a number, or a slice, an array or a vector of numbers.
pub trait Numbers: Buffer {
    /// The type of the numbers.
    #[doc(hidden)]
    const SORT: operation::Number;
}

/// Numbers that reductions support: integers of 8 to 64 bits, and floats.
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

/// Implements `Plain` for types of which every bit pattern is a value.
macro_rules! plain {
    ($($type:ty),*) => {
        $(
            // SAFETY: a number has no padding, and every bit pattern is a value.
            unsafe impl Plain for $type {}
        )*
    };
}

/// The same for types that reductions support too.
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

/// Bytes of one item, for counting. An item of size zero counts as one byte, which divides every length.
pub(crate) const fn unit<T>() -> usize {
    if size_of::<T>() == 0 { 1 } else { size_of::<T>() }
}

/// The bytes of plain items.
pub(crate) fn bytes<T: Plain>(items: &[T]) -> &[u8] {
    // SAFETY: I1: all bytes of the items are written, and they are borrowed as long as the result.
    unsafe { std::slice::from_raw_parts(items.as_ptr().cast(), size_of_val(items)) }
}

/// The bytes of plain items, mutably.
pub(crate) fn bytes_mut<T: Plain>(items: &mut [T]) -> &mut [u8] {
    let len = size_of_val(items);
    // SAFETY: I1: any bytes may be written there, and they are borrowed as long as the result.
    unsafe { std::slice::from_raw_parts_mut(items.as_mut_ptr().cast(), len) }
}

/// A zeroed item.
pub(crate) fn zero<T: Plain>() -> T {
    // SAFETY: I1: all-zero bits are a value.
    unsafe { std::mem::zeroed() }
}

/// Zeroed items, to be received into.
pub(crate) fn zeroed<T: Plain>(count: usize) -> Vec<T> {
    let mut items: Vec<T> = Vec::with_capacity(count);
    // SAFETY: there is room for `count` items.
    unsafe { std::ptr::write_bytes(items.as_mut_ptr(), 0, count) };
    // SAFETY: I1: all-zero bits are a value, and `count` such items are written.
    unsafe { items.set_len(count) };
    items
}

/// The operator for an operation on such numbers, if the operation applies to them.
pub(crate) fn operator_of<B: Numbers + ?Sized>(
    operation: Operation,
) -> Option<ferrywire_host::nic::Operator> {
    operation::operator(operation, B::SORT)
}
