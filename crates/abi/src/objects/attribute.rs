//! Attributes: values that a program attaches to its objects, by keys that it creates.
//!
//! A key determines what happens to its values when an object is duplicated or freed, by callbacks of the program.
//! These may call any function, so no lock is held while one runs.
//!
//! Invariants, cited below by number.
//!   I1. The program vouches for its callbacks and for what they are called with. All handles are alike in C, so one
//!       function type serves the keys of all kinds of objects.

use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};

use crate::convert::callback::{Callback, CopyCall, CopyFunction, DeleteCall, DeleteFunction};
use crate::convert::constants::{MPI_ERR_KEYVAL, MPI_KEYVAL_INVALID, MPI_SUCCESS, MPI_WIN_MODEL};
use crate::convert::failure::{Failure, Result};
use crate::convert::pointer::Out;

/// The kind of object that a key belongs to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum KeyvalKind {
    /// Communicators.
    Comm,
    /// Datatypes.
    Type,
    /// Windows.
    Win,
}

/// A pointer of the program, which is never dereferenced here.
#[derive(Clone, Copy)]
struct Word(*mut c_void);

// SAFETY: it is only a number here.
unsafe impl Send for Word {}
// SAFETY: the same.
unsafe impl Sync for Word {}

/// What happens to a value when its object is duplicated.
#[derive(Clone, Copy)]
enum CopyRule {
    /// The copy gets it too.
    Duplicate,
    /// The callback decides.
    Call(Callback<CopyCall>),
}

struct Key {
    number: c_int,
    sort: KeyvalKind,
    copy: Option<CopyRule>,
    delete: Option<Callback<DeleteCall>>,
    extra: Word,
}

impl Key {
    /// The value that a copy of the object `handle` gets, if any.
    fn copy(&self, handle: usize, value: Word) -> Result<Option<Word>> {
        let Callback { function, call } = match self.copy {
            None => return Ok(None),
            Some(CopyRule::Duplicate) => return Ok(Some(value)),
            Some(CopyRule::Call(callback)) => callback,
        };
        // SAFETY: I1.
        let (code, copied) = unsafe { call(function, handle, self.number, self.extra.0, value.0) };
        checked(code)?;
        Ok(copied.map(Word))
    }

    fn delete(&self, handle: usize, value: Word) -> Result {
        let Some(Callback { function, call }) = self.delete else { return Ok(()) };
        // SAFETY: I1.
        checked(unsafe { call(function, handle, self.number, value.0, self.extra.0) })
    }
}

/// Checks what a callback returned.
fn checked(code: c_int) -> Result {
    if code == MPI_SUCCESS { Ok(()) } else { Err(Failure::of_code(code)) }
}

/// The attributes of one object, in the order in which they were set.
#[derive(Default)]
pub(crate) struct Attributes(Mutex<Vec<Attribute>>);

#[derive(Clone)]
struct Attribute {
    /// A freed key lives as long as its last value.
    key: Arc<Key>,
    value: Word,
}

impl Attributes {
    /// Sets an attribute. An existing value is deleted first.
    pub(crate) fn set(
        &self,
        sort: KeyvalKind,
        handle: usize,
        number: c_int,
        value: *mut c_void,
    ) -> Result {
        let key = find(sort, number)?;
        self.delete(sort, handle, number)?;
        self.list().push(Attribute { key, value: Word(value) });
        Ok(())
    }

    /// The value of an attribute, if it is set.
    pub(crate) fn value(&self, sort: KeyvalKind, number: c_int) -> Result<Option<*mut c_void>> {
        match self.with(number) {
            Some(attribute) => Ok(Some(attribute.value.0)),
            None => find(sort, number).map(|_| None),
        }
    }

    /// Deletes an attribute, if it is set.
    pub(crate) fn delete(&self, sort: KeyvalKind, handle: usize, number: c_int) -> Result {
        match self.with(number) {
            Some(attribute) => self.let_go(handle, &attribute),
            None => find(sort, number).map(|_| ()),
        }
    }

    /// The attributes that a copy of the object `old_handle` gets.
    pub(crate) fn copy_for_dup(&self, old_handle: usize) -> Result<Attributes> {
        let originals = self.list().clone();
        let mut copies = Vec::new();
        for Attribute { key, value } in originals {
            if let Some(value) = key.copy(old_handle, value)? {
                copies.push(Attribute { key, value });
            }
        }
        Ok(Attributes(Mutex::new(copies)))
    }

    /// Deletes all attributes, in reverse order of setting. If a callback fails, the remaining ones stay.
    pub(crate) fn delete_all(&self, handle: usize) -> Result {
        loop {
            let Some(last) = self.list().last().cloned() else { return Ok(()) };
            self.let_go(handle, &last)?;
        }
    }

    fn let_go(&self, handle: usize, attribute: &Attribute) -> Result {
        attribute.key.delete(handle, attribute.value)?;
        self.list().retain(|other| other.key.number != attribute.key.number);
        Ok(())
    }

    fn with(&self, number: c_int) -> Option<Attribute> {
        self.list().iter().find(|attribute| attribute.key.number == number).cloned()
    }

    fn list(&self) -> MutexGuard<'_, Vec<Attribute>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The keys that the program has created and not freed.
struct Keys {
    by_number: HashMap<c_int, Arc<Key>>,
    /// Freed keys that attributes still use: the program may free them again.
    freed: HashMap<c_int, Weak<Key>>,
    next: c_int,
}

fn keys() -> MutexGuard<'static, Keys> {
    static KEYS: LazyLock<Mutex<Keys>> = LazyLock::new(|| {
        let (by_number, freed) = (HashMap::new(), HashMap::new());
        Mutex::new(Keys { by_number, freed, next: FIRST_KEY })
    });
    KEYS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn find(sort: KeyvalKind, number: c_int) -> Result<Arc<Key>> {
    let key = keys().by_number.get(&number).filter(|key| key.sort == sort).cloned();
    key.ok_or_else(|| {
        let why = match number {
            MPI_KEYVAL_INVALID => "the attribute key is MPI_KEYVAL_INVALID".into(),
            1..FIRST_KEY => format!("{number} is not an attribute key that the program can set"),
            _ => format!("invalid or freed attribute key {number} for this kind of object"),
        };
        Failure::new(MPI_ERR_KEYVAL, why)
    })
}

/// Creates a key.
pub(crate) fn create(
    sort: KeyvalKind,
    copy: Option<CopyFunction>,
    delete: Option<DeleteFunction>,
    extra: *mut c_void,
    place: Out<c_int>,
) -> Result {
    let mut keys = keys();
    let number = keys.next;
    place.put(number)?;
    keys.next += 1;
    let copy = copy.map(|copy| match copy as usize {
        DUP_FUNCTION => CopyRule::Duplicate,
        _ => CopyRule::Call(copy.into()),
    });
    let key = Key { number, sort, copy, delete: delete.map(Into::into), extra: Word(extra) };
    keys.by_number.insert(number, Arc::new(key));
    Ok(())
}

/// How many keys the program has created and not freed.
pub(crate) fn count_keys() -> usize {
    keys().by_number.len()
}

/// Frees a key.
pub(crate) fn free(sort: KeyvalKind, place: Out<c_int>) -> Result {
    let number = place.get()?;
    let freed = keys().freed.get(&number).and_then(Weak::upgrade);
    if freed.is_none_or(|key| key.sort != sort) {
        let key = find(sort, number)?;
        let mut keys = keys();
        keys.by_number.remove(&number);
        keys.freed.retain(|_, key| key.strong_count() > 0);
        keys.freed.insert(number, Arc::downgrade(&key));
    }
    place.put(MPI_KEYVAL_INVALID)
}

/// The value of the constant that means "copy the value".
const DUP_FUNCTION: usize = 1;
/// The first number of a key that is not predefined.
const FIRST_KEY: c_int = MPI_WIN_MODEL + 1;

#[cfg(test)]
mod tests {
    use super::*;

    /// Records deleted values in the list that the key's extra state points to.
    unsafe extern "C" fn note(_: usize, _: c_int, value: *mut c_void, extra: *mut c_void) -> c_int {
        let deleted: *const Mutex<Vec<usize>> = extra.cast();
        // SAFETY: the test passes such an address, and waits.
        let deleted = unsafe { &*deleted };
        deleted.lock().expect("nobody panics").push(value.addr());
        c_int::from(value.addr() == STUBBORN)
    }

    /// Copies odd values, incremented by one.
    unsafe extern "C" fn copy_odd(
        _: usize,
        _: c_int,
        _: *mut c_void,
        value: *mut c_void,
        copied: *mut *mut c_void,
        flag: *mut c_int,
    ) -> c_int {
        // SAFETY: both pointers are valid.
        unsafe { copied.write(std::ptr::without_provenance_mut(value.addr() + 1)) };
        // SAFETY: the same.
        unsafe { flag.write((value.addr() % 2 == 1).into()) };
        MPI_SUCCESS
    }

    const STUBBORN: usize = 99;

    #[test]
    fn values_are_copied_as_their_keys_say_and_deleted_last_first() {
        let deleted: Mutex<Vec<usize>> = Mutex::default();
        let extra = (&raw const deleted).cast_mut().cast();
        let key = |copy: Option<CopyFunction>| {
            let mut number = 0;
            create(KeyvalKind::Type, copy, Some(note), extra, Out::to(&mut number))
                .ok()
                .expect("a key");
            number
        };
        let (odd, never) = (key(Some(copy_odd)), key(None));
        let attributes = Attributes::default();
        let word = std::ptr::without_provenance_mut::<c_void>;
        let set = |key, value| attributes.set(KeyvalKind::Type, 1, key, word(value)).is_ok();
        assert!(set(odd, 4) && set(never, 6) && set(odd, 5));
        assert_eq!(*deleted.lock().expect("nobody panics"), [4]);
        assert!(attributes.set(KeyvalKind::Comm, 1, odd, word(1)).is_err());

        let copy = attributes.copy_for_dup(1).ok().expect("it is copied");
        let value =
            |key| copy.value(KeyvalKind::Type, key).ok().expect("it is a key").map(|v| v.addr());
        assert_eq!((value(odd), value(never)), (Some(6), None));

        assert!(set(never, STUBBORN));
        assert!(attributes.delete_all(1).is_err());
        assert!(free(KeyvalKind::Type, Out::to(&mut { never })).is_ok());
        let value = attributes.value(KeyvalKind::Type, never).ok().flatten();
        assert_eq!(value.map(|v| v.addr()), Some(STUBBORN), "a freed key lives with its values");
        assert!(copy.value(KeyvalKind::Type, never).is_err());
        assert!(copy.delete_all(2).is_ok());
        assert_eq!(*deleted.lock().expect("nobody panics"), [4, 6, STUBBORN, 6]);
    }
}
