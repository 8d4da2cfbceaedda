//! Error classes and codes, and their texts.
//!
//! Those up to MPI_ERR_LASTCODE are the standard's, followed by those that programs add. Codes of error instances are
//! above both: see `failure.rs`.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::{Mutex, MutexGuard, PoisonError};

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
            return Err(Failure::new(MPI_ERR_ARG, format!("{class} is no error class")));
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
            () if (own.class == code) != is_class => format!("{code} is no error {what}"),
            () if !own.text.is_empty() => format!("error {what} {code} has a text"),
            () if self.by_code.iter().any(|(other, own)| *other != code && own.class == code) => {
                format!("error class {code} has codes")
            }
            () => {
                self.by_code.remove(&code);
                return Ok(());
            }
        };
        Err(Failure::new(MPI_ERR_OTHER, why))
    }

    /// A code or class that the program has added.
    pub(crate) fn own(&mut self, code: c_int) -> Result<&mut Entry> {
        let why = || format!("the program has added no error class or code {code}");
        self.by_code.get_mut(&code).ok_or_else(|| Failure::new(MPI_ERR_ARG, why()))
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
    let of_class = || text_of_class(class).map(Into::into);
    let text = failure::text_of(code).or_else(of_class);
    text.unwrap_or_else(|| format!("there is no error code {code}"))
}

fn is_predefined(class: c_int) -> bool {
    text_of_class(class).is_some()
}

/// The text of a class of the standard.
fn text_of_class(class: c_int) -> Option<&'static str> {
    Some(match class {
        MPI_SUCCESS => "no error",
        MPI_ERR_BUFFER => "a buffer cannot be used",
        MPI_ERR_COUNT => "a count is wrong",
        MPI_ERR_TYPE => "a datatype is wrong",
        MPI_ERR_TAG => "a tag is out of range",
        MPI_ERR_COMM => "a communicator is wrong",
        MPI_ERR_RANK => "a rank does not exist",
        MPI_ERR_REQUEST => "a request is wrong",
        MPI_ERR_ROOT => "the root does not exist",
        MPI_ERR_GROUP => "a group is wrong",
        MPI_ERR_OP => "an operation is wrong, or does not go with the datatype",
        MPI_ERR_TOPOLOGY => "the communicator has no such topology",
        MPI_ERR_DIMS => "the dimensions are wrong",
        MPI_ERR_ARG => "an argument is wrong",
        MPI_ERR_UNKNOWN => "an error of which nothing is known",
        MPI_ERR_TRUNCATE => "a message is longer than the room for it",
        MPI_ERR_OTHER => "an error that has no class of its own",
        MPI_ERR_INTERN => "the library has made a mistake",
        MPI_ERR_PENDING => "the request is not over yet",
        MPI_ERR_IN_STATUS => "the statuses say what went wrong",
        MPI_ERR_ACCESS => "the file may not be used in this way",
        MPI_ERR_AMODE => "the mode in which a file is opened is wrong",
        MPI_ERR_ASSERT => "an assertion is wrong",
        MPI_ERR_BAD_FILE => "the name of a file is wrong",
        MPI_ERR_BASE => "the base of memory is wrong",
        MPI_ERR_CONVERSION => "a function that converts data has failed",
        MPI_ERR_DISP => "a displacement is wrong",
        MPI_ERR_DUP_DATAREP => "there is a data representation of this name already",
        MPI_ERR_FILE_EXISTS => "the file exists",
        MPI_ERR_FILE_IN_USE => "the file is in use",
        MPI_ERR_FILE => "a file handle is wrong",
        MPI_ERR_INFO_KEY => "a key is empty or too long",
        MPI_ERR_INFO_NOKEY => "there is no such key",
        MPI_ERR_INFO_VALUE => "a value is wrong or too long",
        MPI_ERR_INFO => "an info object is wrong",
        MPI_ERR_IO => "input or output has failed",
        MPI_ERR_KEYVAL => "a key of attributes is wrong",
        MPI_ERR_LOCKTYPE => "the type of a lock is wrong",
        MPI_ERR_NAME => "no service is published by this name",
        MPI_ERR_NO_MEM => "there is not enough memory",
        MPI_ERR_NOT_SAME => "ranks do not agree on an argument",
        MPI_ERR_NO_SPACE => "there is not enough room on the device",
        MPI_ERR_NO_SUCH_FILE => "there is no such file",
        MPI_ERR_PORT => "a port is wrong",
        MPI_ERR_QUOTA => "the quota is exceeded",
        MPI_ERR_READ_ONLY => "the file or the file system can only be read",
        MPI_ERR_RMA_ATTACH => "memory cannot be attached to the window",
        MPI_ERR_RMA_CONFLICT => "accesses to a window conflict",
        MPI_ERR_RMA_RANGE => "the memory of the target is not in the window",
        MPI_ERR_RMA_SHARED => "memory of the window cannot be shared",
        MPI_ERR_RMA_SYNC => "calls that synchronise a window are in the wrong order",
        MPI_ERR_SERVICE => "the name of a service is wrong",
        MPI_ERR_SIZE => "a size is wrong",
        MPI_ERR_SPAWN => "processes cannot be started",
        MPI_ERR_UNSUPPORTED_DATAREP => "the data representation is not known",
        MPI_ERR_UNSUPPORTED_OPERATION => "the operation is not supported",
        MPI_ERR_WIN => "a window is wrong",
        MPI_ERR_RMA_FLAVOR => "the window is not of the sort that is needed",
        MPI_ERR_PROC_ABORTED => "another process has ended before its time",
        MPI_ERR_VALUE_TOO_LARGE => "a value does not fit its type",
        MPI_ERR_SESSION => "a session is wrong",
        MPI_ERR_ERRHANDLER => "an error handler is wrong",
        MPI_ERR_ABI => "the binary interface cannot do this",
        MPIX_ERR_PROC_FAILED => "another process has died",
        MPIX_ERR_PROC_FAILED_PENDING => {
            "a process has died that may have been the sender; the receive goes on when the death is acknowledged"
        }
        MPIX_ERR_REVOKED => "the communicator is revoked",
        MPI_T_ERR_CANNOT_INIT => "the tool interface cannot be initialised",
        MPI_T_ERR_NOT_ACCESSIBLE => "the variable cannot be reached now",
        MPI_T_ERR_NOT_INITIALIZED => "the tool interface has not been initialised",
        MPI_T_ERR_NOT_SUPPORTED => "the tool interface does not have this",
        MPI_T_ERR_MEMORY => "the tool interface has no memory left",
        MPI_T_ERR_INVALID => "the tool interface is used in a wrong way",
        MPI_T_ERR_INVALID_INDEX => "there is nothing with this index",
        MPI_T_ERR_INVALID_ITEM => "there is no such item",
        MPI_T_ERR_INVALID_SESSION => "a session of the tool interface is wrong",
        MPI_T_ERR_INVALID_HANDLE => "a handle of the tool interface is wrong",
        MPI_T_ERR_INVALID_NAME => "there is nothing of this name",
        MPI_T_ERR_OUT_OF_HANDLES => "the tool interface has no handles left",
        MPI_T_ERR_OUT_OF_SESSIONS => "the tool interface has no sessions left",
        MPI_T_ERR_CVAR_SET_NOT_NOW => "the control variable cannot be set now",
        MPI_T_ERR_CVAR_SET_NEVER => "the control variable cannot be set any more",
        MPI_T_ERR_PVAR_NO_WRITE => "the performance variable cannot be written",
        MPI_T_ERR_PVAR_NO_STARTSTOP => {
            "the performance variable can be neither started nor stopped"
        }
        MPI_T_ERR_PVAR_NO_ATOMIC => "the performance variable cannot be read and reset at once",
        MPI_ERR_LASTCODE => "the last code of the standard, which is no error",
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
