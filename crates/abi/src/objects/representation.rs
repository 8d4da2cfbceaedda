//! Data representations of files: native, external32, and those of the program.
//!
//! Invariants, cited below by number.
//!   I1. The program vouches for its callbacks and their extra state.

use std::ffi::{c_int, c_void};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};

use ferrywire_host::ErrorCode;
use ferrywire_mpi::datatype::Datatype;

use crate::convert::callback::{Callback, ConversionCall, ExtentCall};
use crate::convert::constants::{
    MPI_ERR_ARG, MPI_ERR_CONVERSION, MPI_ERR_DUP_DATAREP, MPI_ERR_UNSUPPORTED_DATAREP,
    MPI_MAX_DATAREP_STRING, MPI_SUCCESS,
};
use crate::convert::failure::{Failure, Result};
use crate::convert::types::MPI_Datatype;
use crate::objects::datatype;
use crate::objects::info::fits;

/// How the data in a file is represented.
#[derive(Clone)]
pub(crate) enum Representation {
    /// As in memory: "native", or "internal".
    Native(&'static str),
    /// Big-endian, and without gaps.
    External32,
    /// As functions of the program say.
    User(Arc<UserRepresentation>),
}

/// A representation of the program.
pub(crate) struct UserRepresentation {
    pub(crate) name: String,
    /// `None` if the data in the file is as in memory.
    pub(crate) read: Option<Callback<ConversionCall>>,
    pub(crate) write: Option<Callback<ConversionCall>>,
    pub(crate) extent: Callback<ExtentCall>,
    pub(crate) extra: ExtraState,
}

/// Extra state of the program, which it may share among threads.
#[derive(Clone, Copy)]
pub(crate) struct ExtraState(pub(crate) *mut c_void);

// SAFETY: it is never dereferenced here; I1.
unsafe impl Send for ExtraState {}
// SAFETY: the same.
unsafe impl Sync for ExtraState {}

static REGISTERED: Mutex<Vec<Arc<UserRepresentation>>> = Mutex::new(Vec::new());

/// Adds a representation of the program.
pub(crate) fn register(representation: UserRepresentation) -> Result {
    let name = &representation.name;
    if name.is_empty() || !fits(name, MPI_MAX_DATAREP_STRING) {
        return Err(Failure::new(
            MPI_ERR_ARG,
            "the name of a data representation is empty or too long",
        )
        .coded(ErrorCode::REPRESENTATION));
    }
    if find(name).is_ok() {
        let why = format!("a data representation \"{name}\" already exists");
        return Err(Failure::new(MPI_ERR_DUP_DATAREP, why));
    }
    registered().push(Arc::new(representation));
    Ok(())
}

/// The representation of a name.
pub(crate) fn find(name: &str) -> Result<Representation> {
    match name {
        "native" => return Ok(Representation::Native("native")),
        "internal" => return Ok(Representation::Native("internal")),
        "external32" => return Ok(Representation::External32),
        _ => {}
    }
    let of_program = registered().iter().find(|other| other.name == name).cloned();
    of_program.map(Representation::User).ok_or_else(|| {
        let why = format!("unknown data representation \"{name}\"; MPI_Register_datarep adds some");
        Failure::new(MPI_ERR_UNSUPPORTED_DATAREP, why)
    })
}

fn registered() -> std::sync::MutexGuard<'static, Vec<Arc<UserRepresentation>>> {
    REGISTERED.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Representation {
    /// Its name.
    pub(crate) fn name(&self) -> &str {
        match self {
            Representation::Native(name) => name,
            Representation::External32 => "external32",
            Representation::User(users) => &users.name,
        }
    }

    /// A number for its name.
    pub(crate) fn number(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.name().hash(&mut hasher);
        hasher.finish()
    }

    /// A datatype as it is in the file.
    pub(crate) fn in_file(&self, datatype: &Datatype) -> Result<Datatype> {
        let mut failed = None;
        let form = match self {
            Representation::Native(_) => return Ok(datatype.clone()),
            Representation::External32 => datatype.resized_basics(&mut |basic| {
                basic.external_size(1).expect("a predefined datatype is small")
            }),
            Representation::User(users) => datatype.resized_basics(&mut |basic| {
                users.extent_of(datatype::expose(basic.clone(), true)).unwrap_or_else(|failure| {
                    failed = Some(failure);
                    0
                })
            }),
        };
        match failed {
            Some(failure) => Err(failure),
            None => Ok(form?),
        }
    }
}

impl UserRepresentation {
    /// The size of a predefined datatype in the file.
    fn extent_of(&self, datatype: MPI_Datatype) -> Result<u64> {
        let Callback { function, call } = self.extent;
        // SAFETY: I1.
        let (code, extent) = unsafe { call(function, datatype, self.extra.0) };
        checked(code)?;
        u64::try_from(extent).map_err(|_| {
            let why = format!("\"{}\" has the negative extent {extent} for a datatype", self.name);
            Failure::new(MPI_ERR_CONVERSION, why)
        })
    }

    /// Calls a conversion function for elements of the program and bytes of the file.
    pub(crate) fn convert(
        &self,
        Callback { function, call }: Callback<ConversionCall>,
        (address, datatype, count): (u64, MPI_Datatype, u64),
        in_file: &mut [u8],
    ) -> Result {
        let elements = usize::try_from(address).expect("it is an address");
        let elements = std::ptr::with_exposed_provenance_mut(elements);
        let in_file = in_file.as_mut_ptr().cast();
        // SAFETY: I1.
        checked(unsafe { call(function, elements, datatype, count, in_file, self.extra.0) })
    }
}

/// Checks what a callback returned.
fn checked(code: c_int) -> Result {
    match code {
        MPI_SUCCESS => Ok(()),
        code => {
            let why =
                format!("a function of the data representation returned the error code {code}");
            Err(Failure::new(MPI_ERR_CONVERSION, why))
        }
    }
}
