//! Finds and loads the engine library.
//!
//! Invariants:
//!   L1. Texts given to the dynamic loader end with a zero byte: they are `CString`s and `CStr`s.
//!   L2. The library is never closed, so what it points to stays valid.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::fmt;
use core::ptr;
use std::ffi::{CString, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::abi::{ENTRY, Entry, LIBRARY, Table, VERSION};

/// Why no engine is available.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Unavailable {
    /// The library is at none of these places.
    Missing {
        /// The places searched, in this order.
        looked: Vec<PathBuf>,
    },
    /// The file exists, but the dynamic loader rejects it.
    Broken {
        /// The file.
        path: PathBuf,
        /// The loader's message.
        reason: String,
    },
    /// Another user could have put the file there.
    NotOurs {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The engine belongs to another version of Ferrywire.
    Version {
        /// The file.
        path: PathBuf,
        /// The version of its boundary.
        found: u32,
    },
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unavailable::Missing { looked } => {
                write!(f, "modules need the library {LIBRARY}, which is missing: {INSTALL}")?;
                for (at, path) in looked.iter().enumerate() {
                    let before = if at == 0 { " (looked for at " } else { ", " };
                    write!(f, "{before}{}", path.display())?;
                }
                write!(f, ")")
            }
            Unavailable::Broken { path, reason } => write!(
                f,
                "modules need the library {LIBRARY}, but {} cannot be loaded: {reason}; {INSTALL}",
                path.display()
            ),
            Unavailable::NotOurs { path, reason } => write!(
                f,
                "modules need the library {LIBRARY}, but {} is not safe to load: {reason}; install one that \
                 only you or root can change",
                path.display()
            ),
            Unavailable::Version { path, found } => write!(
                f,
                "the module engine {} has interface version {found}, but version {VERSION} is needed; {INSTALL}",
                path.display()
            ),
        }
    }
}

impl core::error::Error for Unavailable {}

/// The engine's table, from the first place that has the library.
///
/// A setting names the only place, but is ignored in a program with more rights than the user that started it.
/// Otherwise the search begins next to the file that contains this code, our library or a program that links it
/// statically, and continues wherever the dynamic loader looks.
pub(crate) fn find(
    settings: impl Fn(&str) -> Option<String>,
) -> Result<&'static Table, Unavailable> {
    if let Some(path) = settings(SETTING).filter(|_| !is_privileged()).map(PathBuf::from) {
        if !path.exists() {
            return Err(Unavailable::Missing { looked: vec![path] });
        }
        return load(&path);
    }
    let own = own_object();
    let mut looked = own.as_deref().map(beside).unwrap_or_default();
    if let Some(path) = looked.iter().find(|path| path.exists()) {
        check_owner(path, own.as_deref())?;
        return load(path);
    }
    let plain = PathBuf::from(LIBRARY);
    match load(&plain) {
        // The loader does not tell a missing file from a bad one; it is nearly always a missing one.
        Err(Unavailable::Broken { .. }) => {
            looked.push(plain);
            Err(Unavailable::Missing { looked })
        }
        answer => answer,
    }
}

/// The engine's table, from this file.
pub(crate) fn load(path: &Path) -> Result<&'static Table, Unavailable> {
    let broken = |reason| Unavailable::Broken { path: path.to_path_buf(), reason };
    let name =
        CString::new(path.as_os_str().as_bytes()).map_err(|error| broken(error.to_string()))?;
    // SAFETY: L1. The initialisers of the library run, as those of any library that we link with do.
    let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if library.is_null() {
        return Err(broken(loader_says()));
    }
    // SAFETY: L1; `library` was just opened.
    let symbol = unsafe { libc::dlsym(library, ENTRY.as_ptr()) };
    if symbol.is_null() {
        return Err(broken(format!("it does not export {}", ENTRY.to_string_lossy())));
    }
    // SAFETY: a library that exports a function of this name gives it this type; L2 keeps it there.
    let entry = unsafe { core::mem::transmute::<*mut c_void, Entry>(symbol) };
    // SAFETY: it takes no arguments and only returns the table.
    let table = unsafe { entry() };
    if table.is_null() {
        return Err(broken("its function table is null".to_string()));
    }
    // SAFETY: the version is the first word of the table in all versions.
    let found = unsafe { ptr::read(table.cast::<u32>()) };
    if found != VERSION {
        return Err(Unavailable::Version { path: path.to_path_buf(), found });
    }
    // SAFETY: a table of our version has our layout, and stays valid (L2).
    Ok(unsafe { &*table })
}

/// The places near the file that contains this code.
fn beside(own: &Path) -> Vec<PathBuf> {
    let Some(folder) = own.parent() else { return Vec::new() };
    let mut near = vec![folder.join(LIBRARY)];
    if let Some(above) = folder.parent() {
        near.push(above.join("lib").join(LIBRARY));
        // The build puts tests and examples one folder below the libraries.
        if ["deps", "examples"].iter().any(|name| folder.ends_with(name)) {
            near.push(above.join(LIBRARY));
        }
    }
    near
}

/// Checks that only users that could also change our own code can change the file: it belongs to us, to root or to the
/// owner of our code, and is not writable or replaceable by everybody.
fn check_owner(path: &Path, own: Option<&Path>) -> Result<(), Unavailable> {
    let not_ours = |reason| Unavailable::NotOurs { path: path.to_path_buf(), reason };
    let facts = |path: &Path| std::fs::metadata(path).map_err(|error| not_ours(error.to_string()));
    let (file, folder) = (facts(path)?, facts(path.parent().unwrap_or(path))?);
    // SAFETY: has no preconditions.
    let me = unsafe { libc::geteuid() };
    let owner = own.and_then(|own| std::fs::metadata(own).ok()).map_or(me, |own| own.uid());
    if ![0, me, owner].contains(&file.uid()) {
        return Err(not_ours(format!("it belongs to user {}", file.uid())));
    }
    if file.mode() & OTHERS_WRITE != 0 {
        return Err(not_ours("every user can write to it".to_string()));
    }
    if folder.mode() & OTHERS_WRITE != 0 && folder.mode() & STICKY == 0 {
        return Err(not_ours("every user can replace it".to_string()));
    }
    Ok(())
}

/// Whether the environment comes from a user with fewer rights.
fn is_privileged() -> bool {
    // SAFETY: it takes a number.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// The file that the dynamic loader took this function from.
fn own_object() -> Option<PathBuf> {
    let here: fn() -> Option<PathBuf> = own_object;
    let mut info = libc::Dl_info {
        dli_fname: ptr::null(),
        dli_fbase: ptr::null_mut(),
        dli_sname: ptr::null(),
        dli_saddr: ptr::null_mut(),
    };
    // SAFETY: it looks up any address, and writes to `info` only.
    let found: c_int = unsafe { libc::dladdr(here as *const c_void, &raw mut info) };
    if found == 0 {
        return None;
    }
    let path = PathBuf::from(copied(info.dli_fname)?);
    // For the application itself this is the name that it was started by, which need not be a path.
    let path = match path.is_absolute() {
        true => path,
        false => std::fs::read_link("/proc/self/exe").ok()?,
    };
    // The engine is beside the library itself, not beside a link to it.
    Some(path.canonicalize().unwrap_or(path))
}

fn loader_says() -> String {
    // SAFETY: it takes no arguments, and returns null or a text that is valid until the next call on this thread.
    let text = unsafe { libc::dlerror() };
    copied(text).map_or("unknown reason".to_string(), |text| text.to_string_lossy().into_owned())
}

/// Copies a text of the loader.
fn copied(text: *const c_char) -> Option<OsString> {
    if text.is_null() {
        return None;
    }
    // SAFETY: the loader's texts end with a zero byte.
    let text = unsafe { CStr::from_ptr(text) };
    Some(OsString::from_vec(text.to_bytes().to_vec()))
}

/// The mode bit that lets everybody write, and the one that keeps users from replacing files of others in a folder.
const OTHERS_WRITE: u32 = 0o002;
const STICKY: u32 = 0o1000;

const SETTING: &str = "FERRY_MODULE_ENGINE";

const INSTALL: &str = "install it with `pip install ferrywire[modules]`, or build it with \
                       `cargo build --release -p ferrywire-engine`";
