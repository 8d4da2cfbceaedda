//! Datatypes: committing, freeing, sizes, names and attributes.

use std::ffi::{c_int, c_void};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

use ferrywire_host::ErrorCode;

use crate::calls::entry::entries;
use crate::convert::constants::{MPI_DATATYPE_NULL, MPI_ERR_TYPE, MPI_MAX_OBJECT_NAME};
use crate::convert::failure::Failure;
use crate::convert::handle;
use crate::convert::pointer::{Out, Text, TextOut};
use crate::convert::sizes;
use crate::convert::types::{MPI_Count, MPI_Datatype};
use crate::objects::attribute::KeyvalKind;
use crate::objects::datatype::{Type, find, object};

entries! {
    fn MPI_Type_commit(datatype: Out<MPI_Datatype>) {
        object(datatype.get()?)?.committed.store(true, Ordering::Relaxed);
        Ok(())
    }

    fn MPI_Type_free(datatype: Out<MPI_Datatype>) {
        let handle = datatype.get()?;
        let object = object(handle)?;
        if object.datatype.predefined().is_some() {
            return Err(Failure::new(MPI_ERR_TYPE, "a predefined datatype cannot be freed").coded(ErrorCode::PREDEFINED));
        }
        object.attributes.delete_all(handle.0)?;
        if object.freed.swap(true, Ordering::Relaxed) {
            return Err(Failure::new(MPI_ERR_TYPE, "the datatype has already been freed"));
        }
        // An active reduction may still pass it to a user-defined operator.
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
        object(datatype)?.attributes.set(KeyvalKind::Type, datatype.0, type_keyval, attribute_val)
    }

    fn MPI_Type_get_attr(
        datatype: MPI_Datatype, type_keyval: c_int, attribute_val: Out<*mut c_void>,
        flag: Out<c_int>,
    ) {
        let value = object(datatype)?.attributes.value(KeyvalKind::Type, type_keyval)?;
        flag.put(value.is_some().into())?;
        value.map_or(Ok(()), |value| attribute_val.put(value))
    }

    fn MPI_Type_delete_attr(datatype: MPI_Datatype, type_keyval: c_int) {
        object(datatype)?.attributes.delete(KeyvalKind::Type, datatype.0, type_keyval)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The room for a name in the program's buffer.
const OBJECT_NAME_ROOM: usize = MPI_MAX_OBJECT_NAME.unsigned_abs() as usize;
