//! Pointers from C, typed by their purpose.
//!
//! Invariants, cited below by number.
//!   I1. Values of these types come from callers in C, who vouch for what the standard says of the argument:
//!       it is null, or it points to as many valid items as the call is told, and no other code writes there
//!       during the call.

use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use ferrywire_host::ErrorCode;

use crate::convert::constants::MPI_ERR_ARG;
use crate::convert::failure::{Failure, Result};

/// A location for one result, or for an array of results.
#[repr(transparent)]
pub(crate) struct Out<T>(*mut T);

/// One argument behind a pointer, or an array of them.
#[repr(transparent)]
pub(crate) struct In<T>(*const T);

/// A string.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Text(*const c_char);

/// A location for a string.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct TextOut(*mut c_char);

/// A buffer of the program that is read.
#[derive(Clone, Copy, Eq, PartialEq)]
#[repr(transparent)]
pub(crate) struct Choice(pub(crate) *const c_void);

/// A buffer of the program that is written.
#[derive(Clone, Copy, Eq, PartialEq)]
#[repr(transparent)]
pub(crate) struct ChoiceMut(pub(crate) *mut c_void);

impl<T> Clone for Out<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Out<T> {}

impl<T> Clone for In<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for In<T> {}

impl<T> Out<T> {
    /// Writes the result.
    #[inline]
    pub(crate) fn put(self, value: T) -> Result {
        if self.0.is_null() {
            return Err(null_pointer());
        }
        // SAFETY: I1.
        unsafe { self.0.write(value) };
        Ok(())
    }

    /// Writes the result, if the caller wants it.
    #[inline]
    pub(crate) fn put_if_wanted(self, value: T) {
        if !self.0.is_null() {
            // SAFETY: I1.
            unsafe { self.0.write(value) };
        }
    }

    /// The current value, where an argument is both input and output.
    #[inline]
    pub(crate) fn get(self) -> Result<T>
    where
        T: Copy,
    {
        if self.0.is_null() {
            return Err(null_pointer());
        }
        // SAFETY: I1.
        Ok(unsafe { self.0.read() })
    }

    /// Item `at` of an array that, according to the caller, is long enough.
    #[inline]
    pub(crate) fn at(self, at: usize) -> Out<T> {
        Out(if self.0.is_null() { self.0 } else { self.0.wrapping_add(at) })
    }

    /// A location of our own.
    pub(crate) fn to(place: &mut T) -> Out<T> {
        Out(place)
    }

    /// Whether the pointer is null.
    #[inline]
    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// The array of `len` items.
    pub(crate) fn slice<'a>(self, len: usize) -> Result<&'a mut [T]> {
        if len == 0 {
            return Ok(&mut []);
        }
        if self.0.is_null() {
            return Err(null_pointer());
        }
        // SAFETY: I1.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.0, len) })
    }

    /// The pointer itself.
    pub(crate) fn raw(self) -> *mut T {
        self.0
    }
}

impl<T> In<T> {
    /// The same array as that of calls that also write it; it is only read.
    pub(crate) fn as_out(self) -> Out<T> {
        Out(self.0.cast_mut())
    }

    /// The array of `len` items.
    #[inline]
    pub(crate) fn slice<'a>(self, len: usize) -> Result<&'a [T]> {
        if len == 0 {
            return Ok(&[]);
        }
        if self.0.is_null() {
            return Err(null_pointer());
        }
        // SAFETY: I1.
        Ok(unsafe { std::slice::from_raw_parts(self.0, len) })
    }

    /// Whether the pointer is null.
    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }
}

impl In<*const c_char> {
    /// No array.
    pub(crate) fn null() -> In<*const c_char> {
        In(std::ptr::null())
    }

    /// The array that starts there.
    pub(crate) fn of(start: *const *const c_char) -> In<*const c_char> {
        In(start)
    }

    /// The strings up to a null pointer; none if there is no array.
    pub(crate) fn strings<'a>(self) -> impl Iterator<Item = &'a [u8]> {
        let items = if self.0.is_null() { 0..0 } else { 0..usize::MAX };
        // SAFETY: I1: there is a null pointer at the end.
        let strings = items.map(move |at| unsafe { *self.0.wrapping_add(at) });
        // SAFETY: I1: each string ends with a zero.
        strings
            .take_while(|text| !text.is_null())
            .map(|text| unsafe { CStr::from_ptr(text) }.to_bytes())
    }
}

impl In<*const *const c_char> {
    /// Item `at` of the array, if there is one.
    pub(crate) fn item(self, at: usize) -> Option<*const *const c_char> {
        // SAFETY: I1.
        (!self.0.is_null()).then(|| unsafe { *self.0.wrapping_add(at) })
    }
}

impl Text {
    /// The string that starts there.
    pub(crate) fn of(start: *const c_char) -> Text {
        Text(start)
    }

    /// Its bytes.
    pub(crate) fn bytes<'a>(self) -> Result<&'a [u8]> {
        if self.0.is_null() {
            return Err(null_pointer());
        }
        // SAFETY: I1: the string ends with a zero.
        Ok(unsafe { CStr::from_ptr(self.0) }.to_bytes())
    }

    /// The string, with invalid UTF-8 replaced.
    pub(crate) fn get(self) -> Result<String> {
        Ok(String::from_utf8_lossy(self.bytes()?).into_owned())
    }

    /// The name of a file: any bytes.
    pub(crate) fn path(self) -> Result<PathBuf> {
        Ok(OsStr::from_bytes(self.bytes()?).into())
    }
}

impl TextOut {
    /// Whether the pointer is null.
    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// Writes as much of `text` as fits into `room` bytes, including the terminating zero, and returns the number of
    /// bytes without the zero.
    pub(crate) fn put(self, text: &str, room: usize) -> Result<usize> {
        if self.0.is_null() {
            return Err(null_pointer());
        }
        let mut len = text.len().min(room.saturating_sub(1));
        while !text.is_char_boundary(len) {
            len -= 1;
        }
        // SAFETY: I1: the standard says how much room there is.
        unsafe { std::ptr::copy_nonoverlapping(text.as_ptr(), self.0.cast(), len) };
        // SAFETY: the same.
        unsafe { self.0.wrapping_add(len).write(0) };
        Ok(len)
    }

    /// Writes as much of `text` as fits into `room` bytes, and its length.
    pub(crate) fn put_counted(self, text: &str, room: c_int, len: Out<c_int>) -> Result {
        let written = self.put(text, usize::try_from(room).unwrap_or(0))?;
        len.put(c_int::try_from(written).expect("the room is an int"))
    }
}

impl Choice {
    /// Its contents, where the caller knows their type.
    pub(crate) fn items<T>(self) -> In<T> {
        In(self.0.cast())
    }

    /// Its address.
    #[inline]
    pub(crate) fn address(self) -> u64 {
        self.0.expose_provenance() as u64
    }
}

impl ChoiceMut {
    /// A location for a result, where the caller knows its type.
    pub(crate) fn place<T>(self) -> Out<T> {
        Out(self.0.cast())
    }

    /// Its address.
    #[inline]
    pub(crate) fn address(self) -> u64 {
        self.0.expose_provenance() as u64
    }
}

#[cold]
fn null_pointer() -> Failure {
    Failure::new(MPI_ERR_ARG, "an argument for a result or an array is a null pointer")
        .coded(ErrorCode::NULL_POINTER)
}
