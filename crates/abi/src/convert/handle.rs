//! Handles: the values by which C refers to objects of this library.
//!
//! A predefined handle is a small number, which each kind of object knows. Any other handle is the address of a
//! reference-counted object that begins with a mark of its kind. The mark detects a handle of another kind, and a
//! freed handle whose memory is still ours. Languages without pointers refer to the object by an integer, which is
//! stored behind the mark.
//!
//! Invariants, cited below by number.
//!   I1. A handle above [`PREDEFINED_MAX`] comes from [`expose`], through the program, and the program has
//!       not freed it: the standard says so. It names an `Object<T>` of some `T`, which stays alive during
//!       the call.
//!   I2. An object of [`expose_owned`] is used by one thread at a time: the standard says so.

mod listing;
mod numbers;

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::convert::failure::{Failure, Result};
pub(crate) use listing::{Listed, list_objects, listed};
use numbers::Numbers;

/// A kind of object that has handles.
pub(crate) trait Kind {
    /// The mark in memory, different for every kind.
    const MARK: u32;
    /// The error class of an invalid handle.
    const ERROR: c_int;
    /// The name of the kind in errors.
    const NAME: &'static str;
}

/// An object with its header.
#[repr(C)]
pub(crate) struct Object<T> {
    head: Header,
    value: T,
}

/// The beginning of every object.
#[repr(C)]
struct Header {
    /// The mark of its kind.
    mark: AtomicU32,
    /// Its integer; zero until one is needed.
    number: AtomicU32,
}

impl Header {
    #[inline]
    fn new<T: Kind>() -> Header {
        Header { mark: AtomicU32::new(T::MARK), number: AtomicU32::new(0) }
    }

    /// Invalidates the handle.
    #[inline]
    fn retire(&self) {
        self.mark.store(FREED, Ordering::Relaxed);
    }
}

/// Releases the integer with the last share of the object.
impl Drop for Header {
    #[inline]
    fn drop(&mut self) {
        let number = *self.number.get_mut();
        if number != 0 {
            NUMBERS.release(number);
        }
    }
}

impl<T> Deref for Object<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.value
    }
}

/// A share of an object.
pub(crate) type Shared<T> = Arc<Object<T>>;

/// Creates an object without a handle.
pub(crate) fn share<T: Kind>(value: T) -> Shared<T> {
    Arc::new(Object { head: Header::new::<T>(), value })
}

/// Makes a share of an object the handle that C holds.
pub(crate) fn expose<T: Kind>(object: Shared<T>) -> usize {
    let handle = Arc::into_raw(object).expose_provenance();
    listing::add(handle, T::NAME);
    handle
}

/// The object that a handle names.
#[inline]
pub(crate) fn find<'a, T: Kind>(handle: usize) -> Result<&'a Object<T>> {
    if handle <= PREDEFINED_MAX || !handle.is_multiple_of(align_of::<Object<T>>()) {
        return Err(wrong::<T>(handle));
    }
    let head: *const Header = std::ptr::with_exposed_provenance(handle);
    // SAFETY: I1: an object of any kind begins with a header.
    let head = unsafe { &*head };
    if head.mark.load(Ordering::Relaxed) != T::MARK {
        return Err(wrong::<T>(handle));
    }
    let object: *const Object<T> = std::ptr::with_exposed_provenance(handle);
    // SAFETY: I1, and the mark identifies its kind.
    Ok(unsafe { &*object })
}

/// Another share of the object that a handle names.
pub(crate) fn share_of<T: Kind>(handle: usize) -> Result<Shared<T>> {
    let object: *const Object<T> = find::<T>(handle)?;
    // SAFETY: I1: it is in an Arc, and the program's own share lives.
    unsafe { Arc::increment_strong_count(object) };
    // SAFETY: the count was incremented for this share.
    Ok(unsafe { Arc::from_raw(object) })
}

/// Takes the program's share back and invalidates the handle.
pub(crate) fn take<T: Kind>(handle: usize) -> Result<Shared<T>> {
    let object = find::<T>(handle)?;
    object.head.retire();
    listing::remove(handle);
    // SAFETY: I1: this is the share that `expose` gave to the program, and it is taken once.
    Ok(unsafe { Arc::from_raw(object) })
}

/// Drops a share that came from [`release`] or [`share_of`]. The handle stays valid until the last share is dropped.
pub(crate) fn retire<T: Kind>(mut object: Shared<T>) {
    if let Some(last) = Arc::get_mut(&mut object) {
        last.head.retire();
    }
}

/// Takes one of the program's shares back, where it has the same handle more than once.
pub(crate) fn release<T: Kind>(handle: usize) -> Result<Shared<T>> {
    let object = find::<T>(handle)?;
    listing::remove(handle);
    // SAFETY: I1: this is one of the shares that `expose` gave to the program.
    Ok(unsafe { Arc::from_raw(object) })
}

/// Memory for an object without a handle. After [`discard_owned`] it still contains the mark of a freed object.
pub(crate) type Room<T> = Box<MaybeUninit<Object<T>>>;

/// A handle of an object that only the program refers to.
pub(crate) fn expose_owned<T: Kind>(value: T) -> usize {
    let handle = expose_owned_in(Box::new_uninit(), value);
    listing::add(handle, T::NAME);
    handle
}

/// The same, in existing memory.
#[inline]
pub(crate) fn expose_owned_in<T: Kind>(mut room: Room<T>, value: T) -> usize {
    room.write(Object { head: Header::new::<T>(), value });
    Box::into_raw(room).expose_provenance()
}

/// The object of a handle from [`expose_owned`].
#[inline]
pub(crate) fn find_owned<'a, T: Kind>(handle: usize) -> Result<&'a mut T> {
    find::<T>(handle)?;
    let object: *mut Object<T> = std::ptr::with_exposed_provenance_mut(handle);
    // SAFETY: I1, I2.
    Ok(unsafe { &mut (*object).value })
}

/// Takes such an object back and invalidates the handle.
pub(crate) fn take_owned<T: Kind>(handle: usize) -> Result<T> {
    find::<T>(handle)?.head.retire();
    listing::remove(handle);
    let object: *mut Object<T> = std::ptr::with_exposed_provenance_mut(handle);
    // SAFETY: I1, I2: it came from a Box.
    let object = unsafe { Box::from_raw(object) };
    Ok(object.value)
}

/// Drops such an object in place, and returns its memory.
#[inline]
pub(crate) fn discard_owned<T: Kind>(handle: usize) -> Result<Room<T>> {
    find::<T>(handle)?.head.retire();
    let object: *mut MaybeUninit<Object<T>> = std::ptr::with_exposed_provenance_mut(handle);
    // SAFETY: I1, I2: it came from a Box.
    let mut room = unsafe { Box::from_raw(object) };
    // SAFETY: the object was found there, and its handle is now invalid.
    unsafe { room.assume_init_drop() };
    Ok(room)
}

#[cold]
fn wrong<T: Kind>(handle: usize) -> Failure {
    let text = match handle {
        0 => format!("the {} is a null pointer", T::NAME),
        1..=PREDEFINED_MAX => {
            format!("{} ({handle:#x}) is not a valid {} here", predefined(handle), T::NAME)
        }
        _ => format!("invalid or freed {} handle", T::NAME),
    };
    Failure::new(T::ERROR, text)
}

/// The name of a predefined handle. The first of each kind is its null handle.
fn predefined(handle: usize) -> &'static str {
    match handle {
        0x20 => "MPI_OP_NULL",
        0x21..=0x3f => "a predefined operation",
        0x100 => "MPI_COMM_NULL",
        0x101 => "MPI_COMM_WORLD",
        0x102 => "MPI_COMM_SELF",
        0x108 => "MPI_GROUP_NULL",
        0x109 => "MPI_GROUP_EMPTY",
        0x110 => "MPI_WIN_NULL",
        0x118 => "MPI_FILE_NULL",
        0x120 => "MPI_SESSION_NULL",
        0x128 => "MPI_MESSAGE_NULL",
        0x129 => "MPI_MESSAGE_NO_PROC",
        0x130 => "MPI_INFO_NULL",
        0x131 => "MPI_INFO_ENV",
        0x140 => "MPI_ERRHANDLER_NULL",
        0x141..=0x143 => "a predefined error handler",
        0x180 => "MPI_REQUEST_NULL",
        0x200 => "MPI_DATATYPE_NULL",
        0x201..=0x2ff => "a predefined datatype",
        _ => "the handle",
    }
}

/// The integer of a handle.
pub(crate) fn to_int(handle: usize) -> c_int {
    let predefined = c_int::try_from(handle).ok().filter(|_| handle <= PREDEFINED_MAX);
    predefined.unwrap_or_else(|| number_of(handle).cast_signed())
}

/// The handle of an integer; null if there is none.
pub(crate) fn from_int(number: c_int) -> usize {
    match usize::try_from(number) {
        Ok(handle) if handle <= PREDEFINED_MAX => handle,
        _ => NUMBERS.find(number.cast_unsigned()),
    }
}

static NUMBERS: Numbers = Numbers::new();

/// The integer of an object, assigned at the first call.
fn number_of(handle: usize) -> u32 {
    let head: *const Header = std::ptr::with_exposed_provenance(handle);
    // SAFETY: I1: an object of any kind begins with a header.
    let number = unsafe { &(*head).number };
    match number.load(Ordering::Relaxed) {
        0 => {}
        known => return known,
    }
    let claimed = NUMBERS.claim(handle);
    match number.compare_exchange(0, claimed, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => claimed,
        // Another thread assigned one at the same time.
        Err(known) => {
            NUMBERS.release(claimed);
            known
        }
    }
}

/// The largest handle that is not an address: the standard reserves the first page.
pub(crate) const PREDEFINED_MAX: usize = 4095;
const FREED: u32 = 0xdead_beef;
