//! Datatypes as C sees them.

use std::ffi::c_int;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};

use ferrywire_mpi::datatype::Datatype;

use crate::constants::{MPI_DATATYPE_NULL, MPI_ERR_TYPE};
use crate::failure::{Failure, Result};
use crate::handle::{self, Kind, Object};
use crate::types::MPI_Datatype;

/// A datatype that the program made.
pub struct Type {
    /// What it is.
    pub datatype: Datatype,
    committed: AtomicBool,
}

impl Kind for Type {
    const MARK: u32 = 0x5459_5045;
    const ERROR: c_int = MPI_ERR_TYPE;
    const NAME: &'static str = "datatype";
}

/// Bytes of an element that lies in memory as it travels, if it is one that the standard predefines.
#[inline]
pub fn straight_bytes(handle: MPI_Datatype) -> Option<u64> {
    let bytes = *STRAIGHT_BYTES.get(handle.0.wrapping_sub(FIRST))?;
    (bytes != 0).then_some(bytes.into())
}

/// What a handle names, if it may be used for messages.
pub fn find_committed(handle: MPI_Datatype) -> Result<Datatype> {
    if let Some(named) = Datatype::named(handle.0) {
        return Ok(named);
    }
    let object = find_made(handle)?;
    match object.committed.load(Ordering::Relaxed) {
        true => Ok(object.datatype.clone()),
        false => Err(Failure::new(MPI_ERR_TYPE, "the datatype has not been committed")),
    }
}

/// What a handle names.
pub fn find(handle: MPI_Datatype) -> Result<Datatype> {
    match Datatype::named(handle.0) {
        Some(named) => Ok(named),
        None => Ok(find_made(handle)?.datatype.clone()),
    }
}

/// A datatype that the program made.
fn find_made<'a>(handle: MPI_Datatype) -> Result<&'a Object<Type>> {
    match handle {
        MPI_DATATYPE_NULL => Err(Failure::new(MPI_ERR_TYPE, "MPI_DATATYPE_NULL is no datatype")),
        MPI_Datatype(address) => handle::find(address),
    }
}

/// The first handle of a predefined datatype.
const FIRST: usize = 0x200;

/// For each predefined handle, the bytes of one that lies in memory as it travels; else 0.
static STRAIGHT_BYTES: LazyLock<[u8; 0x100]> = LazyLock::new(|| {
    std::array::from_fn(|at| {
        let straight = Datatype::named(FIRST + at).filter(Datatype::is_contiguous);
        straight.map_or(0, |datatype| u8::try_from(datatype.size()).unwrap_or(0))
    })
});
