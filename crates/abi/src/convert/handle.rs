//! Handles: what C holds in its hands of an object of ours.
//!
//! What the standard predefines is a small number, and each kind of object knows its own. Everything
//! else is the address of a counted object that begins with a mark of its kind, so that a handle of another
//! kind, or of something that has been freed and whose memory is still ours, is found out. Languages without pointers
//! know the object by an integer, which stands behind the mark.
//!
//! Invariants, cited below by number.
//!   I1. A handle above [`PREDEFINED_MAX`] comes from [`expose`], through the program, and the program has
//!       not freed it: the standard says so. What it names is an `Object<T>` of some `T`, and stays alive
//!       during the call.
//!   I2. What [`expose_owned`] gave a handle to is used by one thread at a time: the standard says so.

mod numbers;

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::convert::failure::{Failure, Result};
use numbers::Numbers;

/// Something that C has handles of.
pub(crate) trait Kind {
    /// What marks it in memory. Differs from that of every other kind.
    const MARK: u32;
    /// The class of the error that a wrong handle is.
    const ERROR: c_int;
    /// What errors call it.
    const NAME: &'static str;
}

/// An object with its head.
#[repr(C)]
pub(crate) struct Object<T> {
    head: Header,
    value: T,
}

/// What every object begins with.
#[repr(C)]
struct Header {
    /// Of which kind it is.
    mark: AtomicU32,
    /// Its integer; zero as long as nobody has asked for one.
    number: AtomicU32,
}

impl Header {
    #[inline]
    fn new<T: Kind>() -> Header {
        Header { mark: AtomicU32::new(T::MARK), number: AtomicU32::new(0) }
    }

    /// The handle names nothing any more.
    #[inline]
    fn retire(&self) {
        self.mark.store(FREED, Ordering::Relaxed);
    }
}

/// The integer goes back when the object ends, whoever has the last share of it.
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

/// Somebody's share of an object.
pub(crate) type Shared<T> = Arc<Object<T>>;

/// An object that has no handle yet.
pub(crate) fn share<T: Kind>(value: T) -> Shared<T> {
    Arc::new(Object { head: Header::new::<T>(), value })
}

/// A handle of an object.
pub(crate) fn expose<T: Kind>(object: Shared<T>) -> usize {
    Arc::into_raw(object).expose_provenance()
}

/// What a handle names.
#[inline]
pub(crate) fn find<'a, T: Kind>(handle: usize) -> Result<&'a Object<T>> {
    if handle <= PREDEFINED_MAX || !handle.is_multiple_of(align_of::<Object<T>>()) {
        return Err(wrong::<T>(handle));
    }
    let head: *const Header = std::ptr::with_exposed_provenance(handle);
    // SAFETY: I1: whatever its kind, it begins with a head.
    let head = unsafe { &*head };
    if head.mark.load(Ordering::Relaxed) != T::MARK {
        return Err(wrong::<T>(handle));
    }
    let object: *const Object<T> = std::ptr::with_exposed_provenance(handle);
    // SAFETY: I1, and the mark says of which kind it is.
    Ok(unsafe { &*object })
}

/// One more share of what a handle names.
pub(crate) fn share_of<T: Kind>(handle: usize) -> Result<Shared<T>> {
    let object: *const Object<T> = find::<T>(handle)?;
    // SAFETY: I1: it is in an Arc, and the program's own share lives.
    unsafe { Arc::increment_strong_count(object) };
    // SAFETY: that was for us.
    Ok(unsafe { Arc::from_raw(object) })
}

/// Takes the program's share back: the handle names nothing any more.
pub(crate) fn take<T: Kind>(handle: usize) -> Result<Shared<T>> {
    let object = find::<T>(handle)?;
    object.head.retire();
    // SAFETY: I1: this is the share that `expose` gave to the program, and it is taken once.
    Ok(unsafe { Arc::from_raw(object) })
}

/// Gives a share back that came from [`release`] or [`share_of`]. The handle names the object until the last is given back.
pub(crate) fn retire<T: Kind>(mut object: Shared<T>) {
    if let Some(last) = Arc::get_mut(&mut object) {
        last.head.retire();
    }
}

/// Takes one of the program's shares back, where it was given the same handle more than once.
pub(crate) fn release<T: Kind>(handle: usize) -> Result<Shared<T>> {
    let object = find::<T>(handle)?;
    // SAFETY: I1: this is one of the shares that `expose` gave to the program.
    Ok(unsafe { Arc::from_raw(object) })
}

/// Memory for an object of which nobody has a handle. After [`discard_owned`] it still says that its handle
/// is one no more.
pub(crate) type Room<T> = Box<MaybeUninit<Object<T>>>;

/// A handle of an object that only the program has.
pub(crate) fn expose_owned<T: Kind>(value: T) -> usize {
    expose_owned_in(Box::new_uninit(), value)
}

/// The same, in memory that is there.
#[inline]
pub(crate) fn expose_owned_in<T: Kind>(mut room: Room<T>, value: T) -> usize {
    room.write(Object { head: Header::new::<T>(), value });
    Box::into_raw(room).expose_provenance()
}

/// What such a handle names.
#[inline]
pub(crate) fn find_owned<'a, T: Kind>(handle: usize) -> Result<&'a mut T> {
    find::<T>(handle)?;
    let object: *mut Object<T> = std::ptr::with_exposed_provenance_mut(handle);
    // SAFETY: I1, I2.
    Ok(unsafe { &mut (*object).value })
}

/// Takes it back.
pub(crate) fn take_owned<T: Kind>(handle: usize) -> Result<T> {
    find::<T>(handle)?.head.retire();
    let object: *mut Object<T> = std::ptr::with_exposed_provenance_mut(handle);
    // SAFETY: I1, I2: it came from a Box.
    let object = unsafe { Box::from_raw(object) };
    Ok(object.value)
}

/// Ends it where it is, and gives its memory back.
#[inline]
pub(crate) fn discard_owned<T: Kind>(handle: usize) -> Result<Room<T>> {
    find::<T>(handle)?.head.retire();
    let object: *mut MaybeUninit<Object<T>> = std::ptr::with_exposed_provenance_mut(handle);
    // SAFETY: I1, I2: it came from a Box.
    let mut room = unsafe { Box::from_raw(object) };
    // SAFETY: it was found in there, and will not be again.
    unsafe { room.assume_init_drop() };
    Ok(room)
}

#[cold]
fn wrong<T: Kind>(handle: usize) -> Failure {
    let text = match handle {
        0 => format!("the {} is a null pointer", T::NAME),
        1..=PREDEFINED_MAX => {
            format!("{} ({handle:#x}) is no {} that can be used here", predefined(handle), T::NAME)
        }
        _ => format!("the {} is not one, or has been freed", T::NAME),
    };
    Failure::new(T::ERROR, text)
}

/// What the standard gives this handle to. The first of each kind is its null handle.
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

/// The handle of an integer; a null pointer if there is none.
pub(crate) fn from_int(number: c_int) -> usize {
    match usize::try_from(number) {
        Ok(handle) if handle <= PREDEFINED_MAX => handle,
        _ => NUMBERS.find(number.cast_unsigned()),
    }
}

static NUMBERS: Numbers = Numbers::new();

/// The integer of an object, which it is given when this is first asked for.
fn number_of(handle: usize) -> u32 {
    let head: *const Header = std::ptr::with_exposed_provenance(handle);
    // SAFETY: I1: whatever its kind, it begins with a head.
    let number = unsafe { &(*head).number };
    match number.load(Ordering::Relaxed) {
        0 => {}
        known => return known,
    }
    let claimed = NUMBERS.claim(handle);
    match number.compare_exchange(0, claimed, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => claimed,
        // Another thread asked at the same time.
        Err(known) => {
            NUMBERS.release(claimed);
            known
        }
    }
}

/// The largest handle that is no address: the standard reserves the first page.
pub(crate) const PREDEFINED_MAX: usize = 4095;
const FREED: u32 = 0xdead_beef;
