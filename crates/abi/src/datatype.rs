//! Datatypes as C sees them: objects behind handles, how large they are, and their names.
//!
//! What a datatype means is crate `mpi`'s; here it has a handle, a name, and is committed or not. Requests
//! keep a datatype of their own, so a program may free its handle while they last.

use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};

use ferrywire_mpi::datatype::{Datatype, Recipe};

use crate::attribute::{Attributes, Sort};
use crate::constants::{MPI_DATATYPE_NULL, MPI_ERR_TYPE, MPI_MAX_OBJECT_NAME};
use crate::entry::entries;
use crate::failure::{Failure, Result};
use crate::handle::{self, Kind, Object, Shared};
use crate::pointer::{Out, Text, TextOut};
use crate::sizes;
use crate::types::{MPI_Count, MPI_Datatype};

/// A datatype, with all that a program hangs on it.
pub(crate) struct Type {
    /// What it is.
    pub(crate) datatype: Datatype,
    attributes: Attributes,
    committed: AtomicBool,
    /// The program has given its handle back.
    freed: AtomicBool,
    name: Mutex<String>,
}

impl Kind for Type {
    const MARK: u32 = 0x5459_5045;
    const ERROR: c_int = MPI_ERR_TYPE;
    const NAME: &'static str = "datatype";
}

impl Type {
    fn new(datatype: Datatype, committed: bool) -> Type {
        let name = Mutex::new(datatype.name().unwrap_or_default().into());
        let (committed, freed) = (AtomicBool::new(committed), AtomicBool::new(false));
        Type { datatype, attributes: Attributes::default(), committed, freed, name }
    }

    /// Whether it may be used for messages.
    #[inline]
    fn is_committed(&self) -> bool {
        self.committed.load(Ordering::Relaxed)
    }
}

/// Bytes of an element that lies in memory as it travels, if it is one that the standard predefines.
#[inline]
pub(crate) fn straight_bytes(handle: MPI_Datatype) -> Option<u64> {
    let bytes = *STRAIGHT_BYTES.get(handle.0.wrapping_sub(FIRST))?;
    (bytes != 0).then_some(bytes.into())
}

/// What a handle names, if it may be used for messages. A clone outlives the handle.
#[inline]
pub(crate) fn find_committed<'a>(handle: MPI_Datatype) -> Result<&'a Datatype> {
    let object = object(handle)?;
    if object.is_committed() { Ok(&object.datatype) } else { Err(uncommitted()) }
}

/// What a handle names. A clone outlives the handle.
pub(crate) fn find<'a>(handle: MPI_Datatype) -> Result<&'a Datatype> {
    Ok(&object(handle)?.datatype)
}

/// The object that a handle names, be it predefined or the program's.
#[inline]
pub(crate) fn object<'a>(handle: MPI_Datatype) -> Result<&'a Object<Type>> {
    match NAMED.get(handle.0.wrapping_sub(FIRST)) {
        None => handle::find(handle.0),
        Some(Some(named)) => Ok(named),
        Some(None) => Err(no_datatype(handle)),
    }
}

/// Keeps the handle of a datatype valid, also when the program has given it back.
pub(crate) struct Lasting {
    pub(crate) handle: MPI_Datatype,
    /// Nothing: it is predefined.
    object: Option<Shared<Type>>,
}

impl Lasting {
    pub(crate) fn new(handle: MPI_Datatype) -> Result<Lasting> {
        let object = match NAMED.get(handle.0.wrapping_sub(FIRST)) {
            None => Some(handle::share_of(handle.0)?),
            Some(_) => None,
        };
        Ok(Lasting { handle, object })
    }
}

impl Drop for Lasting {
    fn drop(&mut self) {
        self.object.take().into_iter().for_each(handle::retire);
    }
}

/// A handle of a datatype. What is predefined always has the same one; everything else gets a new one,
/// which the program frees.
pub(crate) fn expose(datatype: Datatype, committed: bool) -> MPI_Datatype {
    if let Recipe::Named { handle, .. } = datatype.recipe() {
        return MPI_Datatype((*handle).into());
    }
    if datatype.predefined().is_some() {
        return unnamed(datatype);
    }
    MPI_Datatype(handle::expose(handle::share(Type::new(datatype, committed))))
}

/// The handle of a predefined datatype that has no name. It is known by how it was made.
fn unnamed(datatype: Datatype) -> MPI_Datatype {
    static UNNAMED: LazyLock<Mutex<HashMap<String, MPI_Datatype>>> = LazyLock::new(Mutex::default);
    let mut known = UNNAMED.lock().unwrap_or_else(PoisonError::into_inner);
    *known
        .entry(format!("{datatype:?}"))
        .or_insert_with(|| MPI_Datatype(handle::expose(handle::share(Type::new(datatype, true)))))
}

#[cold]
fn uncommitted() -> Failure {
    Failure::new(MPI_ERR_TYPE, "the datatype has not been committed: call MPI_Type_commit before")
}

#[cold]
fn no_datatype(handle: MPI_Datatype) -> Failure {
    let why = match handle {
        MPI_DATATYPE_NULL => "MPI_DATATYPE_NULL is no datatype".into(),
        MPI_Datatype(other) => format!("no datatype has the handle {other:#x}"),
    };
    Failure::new(MPI_ERR_TYPE, why)
}

/// The first handle of a predefined datatype, and how many there can be.
const FIRST: usize = 0x200;
const HANDLES: usize = 0x100;

/// The predefined datatypes that have a name, by their handles.
static NAMED: LazyLock<[Option<Shared<Type>>; HANDLES]> = LazyLock::new(|| {
    std::array::from_fn(|at| {
        let named = Datatype::named(FIRST + at)?;
        Some(handle::share(Type::new(named, true)))
    })
});

/// For each predefined handle, the bytes of one that lies in memory as it travels; else 0.
static STRAIGHT_BYTES: LazyLock<[u8; HANDLES]> = LazyLock::new(|| {
    std::array::from_fn(|at| {
        let straight = Datatype::named(FIRST + at).filter(Datatype::is_contiguous);
        straight.map_or(0, |datatype| u8::try_from(datatype.size()).unwrap_or(0))
    })
});

entries! {
    fn MPI_Type_commit(datatype: Out<MPI_Datatype>) {
        object(datatype.get()?)?.committed.store(true, Ordering::Relaxed);
        Ok(())
    }

    fn MPI_Type_free(datatype: Out<MPI_Datatype>) {
        let handle = datatype.get()?;
        let object = object(handle)?;
        if object.datatype.predefined().is_some() {
            return Err(Failure::new(MPI_ERR_TYPE, "a predefined datatype cannot be freed"));
        }
        object.attributes.delete_all(handle.0)?;
        if object.freed.swap(true, Ordering::Relaxed) {
            return Err(Failure::new(MPI_ERR_TYPE, "the datatype has been freed"));
        }
        // A reduction that goes on may still hand it to an operator of the program's.
        handle::retire(handle::release::<Type>(handle.0)?);
        datatype.put(MPI_DATATYPE_NULL)
    }

    fn MPI_Type_dup(oldtype: MPI_Datatype, newtype: Out<MPI_Datatype>) {
        let old = object(oldtype)?;
        let mut copy = Type::new(old.datatype.dup(), old.is_committed());
        copy.attributes = old.attributes.copy_for_dup(oldtype.0)?;
        newtype.put(MPI_Datatype(handle::expose(handle::share(copy))))
    }

    fn MPI_Type_size / MPI_Type_size_c (datatype: MPI_Datatype, size: Out<Size>) {
        sizes::put(size, find(datatype)?.size().cast_signed())
    }

    fn MPI_Type_size_x(datatype: MPI_Datatype, size: Out<MPI_Count>) {
        size.put(find(datatype)?.size().cast_signed())
    }

    fn MPI_Type_get_extent / MPI_Type_get_extent_c (
        datatype: MPI_Datatype, lb: Out<Address>, extent: Out<Address>,
    ) {
        let datatype = find(datatype)?;
        sizes::put(lb, datatype.lb())?;
        sizes::put(extent, datatype.extent())
    }

    fn MPI_Type_get_extent_x(
        datatype: MPI_Datatype, lb: Out<MPI_Count>, extent: Out<MPI_Count>,
    ) {
        let datatype = find(datatype)?;
        lb.put(datatype.lb())?;
        extent.put(datatype.extent())
    }

    fn MPI_Type_get_true_extent / MPI_Type_get_true_extent_c (
        datatype: MPI_Datatype, true_lb: Out<Address>, true_extent: Out<Address>,
    ) {
        let datatype = find(datatype)?;
        sizes::put(true_lb, datatype.true_lb())?;
        sizes::put(true_extent, datatype.true_extent())
    }

    fn MPI_Type_get_true_extent_x(
        datatype: MPI_Datatype, true_lb: Out<MPI_Count>, true_extent: Out<MPI_Count>,
    ) {
        let datatype = find(datatype)?;
        true_lb.put(datatype.true_lb())?;
        true_extent.put(datatype.true_extent())
    }

    fn MPI_Type_get_name(datatype: MPI_Datatype, type_name: TextOut, resultlen: Out<c_int>) {
        let name = match datatype {
            MPI_DATATYPE_NULL => "MPI_DATATYPE_NULL".into(),
            made => lock(&object(made)?.name).clone(),
        };
        let len = type_name.put(&name, OBJECT_NAME_ROOM)?;
        resultlen.put(c_int::try_from(len).expect("names are short"))
    }

    fn MPI_Type_set_name(datatype: MPI_Datatype, type_name: Text) {
        *lock(&object(datatype)?.name) = type_name.get()?;
        Ok(())
    }

    fn MPI_Type_set_attr(datatype: MPI_Datatype, type_keyval: c_int, attribute_val: *mut c_void) {
        object(datatype)?.attributes.set(Sort::Type, datatype.0, type_keyval, attribute_val)
    }

    fn MPI_Type_get_attr(
        datatype: MPI_Datatype, type_keyval: c_int, attribute_val: Out<*mut c_void>,
        flag: Out<c_int>,
    ) {
        let value = object(datatype)?.attributes.value(Sort::Type, type_keyval)?;
        flag.put(value.is_some().into())?;
        value.map_or(Ok(()), |value| attribute_val.put(value))
    }

    fn MPI_Type_delete_attr(datatype: MPI_Datatype, type_keyval: c_int) {
        object(datatype)?.attributes.delete(Sort::Type, datatype.0, type_keyval)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Bytes that a program has for a name.
const OBJECT_NAME_ROOM: usize = MPI_MAX_OBJECT_NAME.unsigned_abs() as usize;
