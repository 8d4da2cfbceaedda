//! Error classes and codes, and their texts.
//!
//! Those up to MPI_ERR_LASTCODE are the standard's, followed by those that programs add. Codes of error instances are
//! above both: see `failure.rs`.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ferrywire_host::ErrorCode;

use crate::convert::constants::*;
use crate::convert::failure::{self, Failure, Result};

/// Classes and codes that the program has added.
pub(crate) struct Added {
    by_code: BTreeMap<c_int, Entry>,
    last: c_int,
}

pub(crate) struct Entry {
    /// The class of the code. A class is its own class.
    class: c_int,
    pub(crate) text: String,
}

impl Added {
    const NONE: Added = Added { by_code: BTreeMap::new(), last: MPI_ERR_LASTCODE };

    /// Adds a code of a class, or a class.
    pub(crate) fn add(&mut self, class: Option<c_int>) -> Result<c_int> {
        if let Some(class) = class
            && !is_predefined(class)
            && self.by_code.get(&class).is_none_or(|own| own.class != class)
        {
            return Err(Failure::new(MPI_ERR_ARG, format!("invalid error class {class}"))
                .coded(ErrorCode::ERROR_CLASS));
        }
        self.last += 1;
        let entry = Entry { class: class.unwrap_or(self.last), text: String::new() };
        self.by_code.insert(self.last, entry);
        Ok(self.last)
    }

    /// Removes a code or class that is not in use.
    pub(crate) fn remove(&mut self, code: c_int, is_class: bool) -> Result {
        let what = if is_class { "class" } else { "code" };
        let own = self.own(code)?;
        let why = match () {
            () if (own.class == code) != is_class => format!("{code} is not an error {what}"),
            () if !own.text.is_empty() => format!(
                "error {what} {code} still has a string; call \
                                                   MPI_Remove_error_string first"
            ),
            () if self.by_code.iter().any(|(other, own)| *other != code && own.class == code) => {
                format!("error class {code} still has codes; call MPI_Remove_error_code first")
            }
            () => {
                self.by_code.remove(&code);
                return Ok(());
            }
        };
        Err(Failure::new(MPI_ERR_OTHER, why).coded(ErrorCode::ERROR_CLASS))
    }

    /// A code or class that the program has added.
    pub(crate) fn own(&mut self, code: c_int) -> Result<&mut Entry> {
        let why = || format!("the program has not added error class or code {code}");
        self.by_code
            .get_mut(&code)
            .ok_or_else(|| Failure::new(MPI_ERR_ARG, why()).coded(ErrorCode::ERROR_CLASS))
    }
}

/// The codes and classes that the program has added.
pub(crate) fn added() -> MutexGuard<'static, Added> {
    static ADDED: Mutex<Added> = Mutex::new(Added::NONE);
    ADDED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The class of any code.
pub(crate) fn class(code: c_int) -> c_int {
    match added().by_code.get(&code) {
        Some(own) => own.class,
        None => match failure::class_of(code) {
            class if is_predefined(class) => class,
            _ => MPI_ERR_UNKNOWN,
        },
    }
}

/// The text of any code.
pub(crate) fn text(code: c_int) -> String {
    if let Some(own) = added().by_code.get(&code) {
        return own.text.clone();
    }
    let class = failure::class_of(code);
    let of_class = || {
        text_of_class(class).map(|text| match class {
            MPI_SUCCESS | MPI_ERR_LASTCODE => text.into(),
            _ => failure::code_of_class(class).ends(text),
        })
    };
    let text = failure::text_of(code).or_else(of_class);
    text.unwrap_or_else(|| ErrorCode::UNKNOWN.ends(format_args!("invalid error code {code}")))
}

fn is_predefined(class: c_int) -> bool {
    text_of_class(class).is_some()
}

/// The text of a class of the standard.
fn text_of_class(class: c_int) -> Option<&'static str> {
    Some(match class {
        MPI_SUCCESS => "no error",
        MPI_ERR_BUFFER => "invalid buffer",
        MPI_ERR_COUNT => "invalid count",
        MPI_ERR_TYPE => "invalid datatype",
        MPI_ERR_TAG => "invalid tag",
        MPI_ERR_COMM => "invalid communicator",
        MPI_ERR_RANK => "invalid rank",
        MPI_ERR_REQUEST => "invalid request",
        MPI_ERR_ROOT => "invalid root",
        MPI_ERR_GROUP => "invalid group",
        MPI_ERR_OP => "invalid operation, or one that is not defined for the datatype",
        MPI_ERR_TOPOLOGY => "invalid topology",
        MPI_ERR_DIMS => "invalid dimensions",
        MPI_ERR_ARG => "invalid argument",
        MPI_ERR_UNKNOWN => "unknown error",
        MPI_ERR_TRUNCATE => "a message is longer than the receive buffer",
        MPI_ERR_OTHER => "other error",
        MPI_ERR_INTERN => "internal error of the library",
        MPI_ERR_PENDING => "the request is not complete yet",
        MPI_ERR_IN_STATUS => "see the statuses for the errors of the requests",
        MPI_ERR_ACCESS => "the file does not permit this access",
        MPI_ERR_AMODE => "invalid file access mode",
        MPI_ERR_ASSERT => "invalid assertion",
        MPI_ERR_BAD_FILE => "invalid file name",
        MPI_ERR_BASE => "invalid base address",
        MPI_ERR_CONVERSION => "a data conversion function failed",
        MPI_ERR_DISP => "invalid displacement",
        MPI_ERR_DUP_DATAREP => "a data representation of this name already exists",
        MPI_ERR_FILE_EXISTS => "the file exists",
        MPI_ERR_FILE_IN_USE => "the file is in use",
        MPI_ERR_FILE => "invalid file handle",
        MPI_ERR_INFO_KEY => "empty or too long info key",
        MPI_ERR_INFO_NOKEY => "no such info key",
        MPI_ERR_INFO_VALUE => "invalid or too long info value",
        MPI_ERR_INFO => "invalid info object",
        MPI_ERR_IO => "input or output failed",
        MPI_ERR_KEYVAL => "invalid attribute key",
        MPI_ERR_LOCKTYPE => "invalid lock type",
        MPI_ERR_NAME => "no service is published by this name",
        MPI_ERR_NO_MEM => "out of memory",
        MPI_ERR_NOT_SAME => "ranks passed different values for an argument that must be the same",
        MPI_ERR_NO_SPACE => "not enough space on the device",
        MPI_ERR_NO_SUCH_FILE => "no such file",
        MPI_ERR_PORT => "invalid port name",
        MPI_ERR_QUOTA => "the quota is exceeded",
        MPI_ERR_READ_ONLY => "the file or the file system is read-only",
        MPI_ERR_RMA_ATTACH => "memory cannot be attached to the window",
        MPI_ERR_RMA_CONFLICT => "accesses to a window conflict",
        MPI_ERR_RMA_RANGE => "the target memory is not in the window",
        MPI_ERR_RMA_SHARED => "the memory of the window cannot be shared",
        MPI_ERR_RMA_SYNC => "the synchronisation calls of a window are in the wrong order",
        MPI_ERR_SERVICE => "invalid service name",
        MPI_ERR_SIZE => "invalid size",
        MPI_ERR_SPAWN => "cannot start processes",
        MPI_ERR_UNSUPPORTED_DATAREP => "unknown data representation",
        MPI_ERR_UNSUPPORTED_OPERATION => "the operation is not supported",
        MPI_ERR_WIN => "invalid window",
        MPI_ERR_RMA_FLAVOR => "the window is of the wrong kind",
        MPI_ERR_PROC_ABORTED => "another process has aborted",
        MPI_ERR_VALUE_TOO_LARGE => "a value does not fit its type",
        MPI_ERR_SESSION => "invalid session",
        MPI_ERR_ERRHANDLER => "invalid error handler",
        MPI_ERR_ABI => "the binary interface does not support this",
        MPIX_ERR_PROC_FAILED => "another process has failed",
        MPIX_ERR_PROC_FAILED_PENDING => {
            "a possible sender has failed; the receive continues when the failure is acknowledged"
        }
        MPIX_ERR_REVOKED => "the communicator is revoked",
        MPI_T_ERR_CANNOT_INIT => "the tool interface cannot be initialised",
        MPI_T_ERR_NOT_ACCESSIBLE => "the variable is not accessible now",
        MPI_T_ERR_NOT_INITIALIZED => "the tool interface has not been initialised",
        MPI_T_ERR_NOT_SUPPORTED => "the tool interface does not support this",
        MPI_T_ERR_MEMORY => "the tool interface is out of memory",
        MPI_T_ERR_INVALID => "invalid use of the tool interface",
        MPI_T_ERR_INVALID_INDEX => "invalid index",
        MPI_T_ERR_INVALID_ITEM => "invalid item",
        MPI_T_ERR_INVALID_SESSION => "invalid session of the tool interface",
        MPI_T_ERR_INVALID_HANDLE => "invalid handle of the tool interface",
        MPI_T_ERR_INVALID_NAME => "invalid name",
        MPI_T_ERR_OUT_OF_HANDLES => "the tool interface is out of handles",
        MPI_T_ERR_OUT_OF_SESSIONS => "the tool interface is out of sessions",
        MPI_T_ERR_CVAR_SET_NOT_NOW => "the control variable cannot be set now",
        MPI_T_ERR_CVAR_SET_NEVER => "the control variable can no longer be set",
        MPI_T_ERR_PVAR_NO_WRITE => "the performance variable cannot be written",
        MPI_T_ERR_PVAR_NO_STARTSTOP => "the performance variable cannot be started or stopped",
        MPI_T_ERR_PVAR_NO_ATOMIC => "the performance variable cannot be read and reset atomically",
        MPI_ERR_LASTCODE => "the last error code of the standard, not an error",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_hang_on_classes_and_texts_on_both() {
        let mut added = Added::NONE;
        let class = added.add(None).ok().expect("a class");
        let code = added.add(Some(class)).ok().expect("a code");
        assert_eq!((class, code), (MPI_ERR_LASTCODE + 1, MPI_ERR_LASTCODE + 2));
        assert!(added.add(Some(code)).is_err());
        assert!(added.add(Some(MPI_ERR_OTHER)).is_ok());
        added.own(code).ok().expect("it is ours").text = "text".into();
        assert!(added.remove(class, true).is_err());
        assert!(added.remove(code, false).is_err());
        added.own(code).ok().expect("it is ours").text.clear();
        assert!(added.remove(code, true).is_err());
        assert!(added.remove(code, false).is_ok());
        assert!(added.remove(code, false).is_err());
        assert!(added.remove(class, true).is_ok());
        assert!(added.remove(MPI_ERR_OTHER, true).is_err());
    }

    #[test]
    fn every_class_of_the_standard_has_a_text() {
        for class in (0..=62).chain(1001..=1018) {
            assert!(is_predefined(class), "{class}");
        }
        assert!(!is_predefined(63));
    }
}
