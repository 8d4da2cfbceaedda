//! Datatypes in C: objects behind handles, with sizes and names.
//!
//! Crate `mpi` defines what a datatype means; here it has a handle and a name, and is committed or not. Requests keep
//! their own copy of a datatype, so a program may free its handle while they are active.

use std::collections::HashMap;
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};

use ferrywire_host::ErrorCode;
use ferrywire_mpi::datatype::{Datatype, Recipe};

use crate::convert::constants::{MPI_DATATYPE_NULL, MPI_ERR_TYPE};
use crate::convert::failure::{Failure, Result};
use crate::convert::handle::{self, Kind, Object, Shared};
use crate::convert::types::MPI_Datatype;
use crate::objects::attribute::Attributes;

/// A datatype, with everything that a program attaches to it.
pub(crate) struct Type {
    /// The datatype as crate `mpi` defines it.
    pub(crate) datatype: Datatype,
    pub(crate) attributes: Attributes,
    pub(crate) committed: AtomicBool,
    /// Whether the program has freed the handle.
    pub(crate) freed: AtomicBool,
    pub(crate) name: Mutex<String>,
}

impl Kind for Type {
    const MARK: u32 = 0x5459_5045;
    const ERROR: c_int = MPI_ERR_TYPE;
    const NAME: &'static str = "datatype";
}

impl Type {
    pub(crate) fn new(datatype: Datatype, committed: bool) -> Type {
        let name = Mutex::new(datatype.name().unwrap_or_default().into());
        let (committed, freed) = (AtomicBool::new(committed), AtomicBool::new(false));
        Type { datatype, attributes: Attributes::default(), committed, freed, name }
    }

    /// Whether it may be used for messages.
    #[inline]
    pub(crate) fn is_committed(&self) -> bool {
        self.committed.load(Ordering::Relaxed)
    }
}

/// The size of an element, if the datatype is predefined and contiguous.
#[inline]
pub(crate) fn straight_bytes(handle: MPI_Datatype) -> Option<u64> {
    let bytes = *STRAIGHT_BYTES.get(handle.0.wrapping_sub(FIRST))?;
    (bytes != 0).then_some(bytes.into())
}

/// The datatype that a handle names, if it is committed. A clone outlives the handle.
#[inline]
pub(crate) fn find_committed<'a>(handle: MPI_Datatype) -> Result<&'a Datatype> {
    let object = object(handle)?;
    if object.is_committed() { Ok(&object.datatype) } else { Err(uncommitted()) }
}

/// The datatype that a handle names. A clone outlives the handle.
pub(crate) fn find<'a>(handle: MPI_Datatype) -> Result<&'a Datatype> {
    Ok(&object(handle)?.datatype)
}

/// The object that a handle names, predefined or created by the program.
#[inline]
pub(crate) fn object<'a>(handle: MPI_Datatype) -> Result<&'a Object<Type>> {
    match NAMED.get(handle.0.wrapping_sub(FIRST)) {
        None => handle::find(handle.0),
        Some(Some(named)) => Ok(named),
        Some(None) => Err(no_datatype(handle)),
    }
}

/// Keeps the handle of a datatype valid, even after the program has freed it.
pub(crate) struct KeptHandle {
    pub(crate) handle: MPI_Datatype,
    /// `None` if it is predefined.
    object: Option<Shared<Type>>,
}

impl KeptHandle {
    pub(crate) fn new(handle: MPI_Datatype) -> Result<KeptHandle> {
        let object = match NAMED.get(handle.0.wrapping_sub(FIRST)) {
            None => Some(handle::share_of(handle.0)?),
            Some(_) => None,
        };
        Ok(KeptHandle { handle, object })
    }
}

impl Drop for KeptHandle {
    fn drop(&mut self) {
        self.object.take().into_iter().for_each(handle::retire);
    }
}

/// Creates a handle of a datatype, which the program frees. A predefined datatype always has the same handle.
pub(crate) fn expose(datatype: Datatype, committed: bool) -> MPI_Datatype {
    if let Recipe::Named { handle, .. } = datatype.recipe() {
        return MPI_Datatype((*handle).into());
    }
    if datatype.predefined().is_some() {
        return unnamed(datatype);
    }
    MPI_Datatype(handle::expose(handle::share(Type::new(datatype, committed))))
}

/// The handle of a predefined datatype without a name, looked up by its construction.
fn unnamed(datatype: Datatype) -> MPI_Datatype {
    static UNNAMED: LazyLock<Mutex<HashMap<String, MPI_Datatype>>> = LazyLock::new(Mutex::default);
    let mut known = UNNAMED.lock().unwrap_or_else(PoisonError::into_inner);
    *known
        .entry(format!("{datatype:?}"))
        .or_insert_with(|| MPI_Datatype(handle::expose(handle::share(Type::new(datatype, true)))))
}

#[cold]
fn uncommitted() -> Failure {
    Failure::new(MPI_ERR_TYPE, "the datatype has not been committed; call MPI_Type_commit first")
        .coded(ErrorCode::NOT_COMMITTED)
}

#[cold]
fn no_datatype(handle: MPI_Datatype) -> Failure {
    let why = match handle {
        MPI_DATATYPE_NULL => "the datatype is MPI_DATATYPE_NULL".into(),
        MPI_Datatype(other) => format!("invalid datatype handle {other:#x}"),
    };
    Failure::new(MPI_ERR_TYPE, why)
}

/// The first handle of a predefined datatype, and the size of their range.
pub(crate) const FIRST: usize = 0x200;
pub(crate) const HANDLES: usize = 0x100;

/// The predefined datatypes with names, by handle.
static NAMED: LazyLock<[Option<Shared<Type>>; HANDLES]> = LazyLock::new(|| {
    std::array::from_fn(|at| {
        let named = Datatype::named(FIRST + at)?;
        Some(handle::share(Type::new(named, true)))
    })
});

/// For each predefined handle, the size of the datatype if it is contiguous, else 0.
static STRAIGHT_BYTES: LazyLock<[u8; HANDLES]> = LazyLock::new(|| {
    std::array::from_fn(|at| {
        let contiguous = Datatype::named(FIRST + at).filter(Datatype::is_contiguous);
        contiguous.map_or(0, |datatype| u8::try_from(datatype.size()).unwrap_or(0))
    })
});
