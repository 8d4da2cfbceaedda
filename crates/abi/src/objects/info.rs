//! Info objects in C.

use std::ffi::c_int;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ferrywire_mpi::info::Info;

use crate::convert::constants::{MPI_ERR_INFO, MPI_INFO_ENV, MPI_INFO_NULL, MPI_MAX_INFO_VAL};
use crate::convert::failure::{Failure, Result};
use crate::convert::handle::{self, Kind};
use crate::convert::types::MPI_Info;

/// An info object of the program.
pub(crate) struct InfoObject(Mutex<Info>);

impl Kind for InfoObject {
    const MARK: u32 = 0x494e_464f;
    const ERROR: c_int = MPI_ERR_INFO;
    const NAME: &'static str = "info object";
}

/// Creates an info object, which the program frees.
pub(crate) fn create(info: Info) -> MPI_Info {
    MPI_Info(handle::expose(handle::share(InfoObject(Mutex::new(info)))))
}

/// The contents of an optional info object: MPI_INFO_NULL is empty.
pub(crate) fn hints(handle: MPI_Info) -> Result<Info> {
    if handle == MPI_INFO_NULL { Ok(Info::default()) } else { contents(handle) }
}

/// The contents of an info object.
pub(crate) fn contents(handle: MPI_Info) -> Result<Info> {
    match handle {
        MPI_INFO_ENV => Ok(of_process(std::env::args_os().map(lossy))),
        _ => Ok(find(handle)?.clone()),
    }
}

/// An info object, for changing.
pub(crate) fn find(handle: MPI_Info) -> Result<MutexGuard<'static, Info>> {
    let why = match handle {
        MPI_INFO_NULL => "the info object is MPI_INFO_NULL",
        MPI_INFO_ENV => "MPI_INFO_ENV cannot be changed",
        MPI_Info(address) => {
            let object = handle::find::<InfoObject>(address)?;
            return Ok(object.0.lock().unwrap_or_else(PoisonError::into_inner));
        }
    };
    Err(Failure::new(MPI_ERR_INFO, why))
}

/// How this process was started, as far as it is known.
pub(crate) fn of_process(mut words: impl Iterator<Item = String>) -> Info {
    let mut info = Info::default();
    let mut know = |key: &str, value: String| {
        if fits(&value, MPI_MAX_INFO_VAL) {
            info.set(key, &value);
        }
    };
    if let Some(command) = words.next() {
        know("command", command);
        know("argv", words.collect::<Vec<_>>().join(" "));
    }
    // The same before MPI_Init and after MPI_Finalize. No thread level is requested before the program starts.
    if let Ok(size) = std::env::var("FERRY_SIZE") {
        know("maxprocs", size.clone());
        know("soft", size);
    }
    know("host", host());
    know("arch", std::env::consts::ARCH.into());
    if let Ok(folder) = std::env::current_dir() {
        know("wdir", lossy(folder));
    }
    info
}

/// Converts a text to UTF-8, replacing invalid sequences.
pub(crate) fn lossy(text: impl Into<std::ffi::OsString>) -> String {
    text.into().to_string_lossy().into_owned()
}

/// Whether a text and its terminating zero fit.
pub(crate) fn fits(text: &str, room: c_int) -> bool {
    usize::try_from(room).is_ok_and(|room| text.len() < room)
}

/// The name of this host.
pub(crate) fn host() -> String {
    let mut name = [0_u8; 256];
    // SAFETY: it is passed the length of the buffer.
    let code = unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len()) };
    let len = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
    match code {
        0 => String::from_utf8_lossy(&name[..len]).into_owned(),
        _ => "localhost".into(),
    }
}
