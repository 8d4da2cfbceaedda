//! Objects of libfabric: how they are created, used and closed; among them registered memory.

// E1 and E2 are invariants of `endpoint.rs`, which owns the objects created here.

use std::ffi::{c_int, c_void};
use std::ptr::NonNull;

use super::bindings::{self as fi, Fid};

/// Memory registered with the provider, until this is dropped.
pub(super) struct Registered {
    pub(super) description: *mut c_void,
    key: u64,
    _region: Object,
}

// SAFETY: E2: it is dropped under the same lock.
unsafe impl Send for Registered {}

impl Registered {
    /// The key with which others read it.
    pub(super) fn key(&self) -> u64 {
        self.key
    }
}

/// Registers memory with the provider.
///
/// # Safety
/// The memory lives until the returned value is dropped, and is used as `access` says.
pub(super) unsafe fn register(
    domain: NonNull<fi::Domain>,
    start: *const c_void,
    len: usize,
    access: u64,
    key: u64,
    bind: Option<&Object>,
) -> Result<Registered, c_int> {
    let reg = table(domain, |domain| domain.mr).reg;
    let none = std::ptr::null_mut();
    let region: NonNull<fi::Mr> = made(|place| {
        // SAFETY: E1, and the caller vouches.
        unsafe { reg(domain.as_ptr().cast(), start, len, access, 0, key, 0, place, none) }
    })?;
    let object = Object(region.cast());
    if let Some(endpoint) = bind {
        object.bind(endpoint, 0)?;
        object.enable()?;
    }
    // SAFETY: E1. Descriptor and key are known once it is enabled.
    let fi::Mr { mem_desc, key, .. } = *unsafe { region.as_ref() };
    Ok(Registered { description: mem_desc, key, _region: object })
}

/// A function table of an object.
pub(super) fn table<'a, T, U>(object: NonNull<T>, of: impl FnOnce(&T) -> *const U) -> &'a U {
    // SAFETY: E1: it is open.
    let table = of(unsafe { object.as_ref() });
    // SAFETY: E1: every object has its tables, which are constants of the library.
    unsafe { &*table }
}

/// The object that a call of the library has created at the pointer that it is given.
pub(super) fn made<T>(make: impl FnOnce(*mut *mut T) -> c_int) -> Result<NonNull<T>, c_int> {
    let mut place = std::ptr::null_mut();
    let code = make(&raw mut place);
    NonNull::new(place).filter(|_| code == 0).ok_or(if code == 0 { -libc::EIO } else { code })
}

/// An object of the library that is closed when dropped.
pub(super) struct Object(pub(super) NonNull<Fid>);

impl Object {
    pub(super) fn bind(&self, to: &Object, flags: u64) -> Result<(), c_int> {
        let bind = table(self.0, |fid| fid.ops).bind;
        // SAFETY: E1.
        match unsafe { bind(self.0.as_ptr(), to.0.as_ptr(), flags) } {
            0 => Ok(()),
            code => Err(code),
        }
    }

    pub(super) fn enable(&self) -> Result<(), c_int> {
        let control = table(self.0, |fid| fid.ops).control;
        // SAFETY: E1.
        match unsafe { control(self.0.as_ptr(), fi::FI_ENABLE, std::ptr::null_mut()) } {
            0 => Ok(()),
            code => Err(code),
        }
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        let close = table(self.0, |fid| fid.ops).close;
        // SAFETY: E1. What cannot be closed is leaked.
        unsafe { close(self.0.as_ptr()) };
    }
}
