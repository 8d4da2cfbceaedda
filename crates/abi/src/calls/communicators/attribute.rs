//! Attributes: values that a program attaches to its objects.

use std::ffi::{c_int, c_void};

use crate::calls::entry::entries;
use crate::convert::callback::{CopyFunction, DeleteFunction};
use crate::convert::pointer::Out;
use crate::convert::types::MPI_Comm;
use crate::objects::attribute::{KeyvalKind, create, free};
use crate::objects::comm;
use crate::objects::predefined;

// MPI_Keyval_create and others are older names of the same functions.
entries! {
    fn MPI_Comm_create_keyval / MPI_Keyval_create (
        comm_copy_attr_fn: Option<CopyFunction>, comm_delete_attr_fn: Option<DeleteFunction>,
        comm_keyval: Out<c_int>, extra_state: *mut c_void,
    ) {
        create(KeyvalKind::Comm, comm_copy_attr_fn, comm_delete_attr_fn, extra_state, comm_keyval)
    }

    fn MPI_Comm_free_keyval / MPI_Keyval_free (comm_keyval: Out<c_int>) {
        free(KeyvalKind::Comm, comm_keyval)
    }

    fn MPI_Comm_set_attr / MPI_Attr_put (
        comm: MPI_Comm, comm_keyval: c_int, attribute_val: *mut c_void,
    ) on comm {
        comm::find(comm)?.attributes.set(KeyvalKind::Comm, comm.0, comm_keyval, attribute_val)
    }

    fn MPI_Comm_get_attr / MPI_Attr_get (
        comm: MPI_Comm, comm_keyval: c_int, attribute_val: Out<*mut c_void>, flag: Out<c_int>,
    ) on comm {
        let object = comm::find(comm)?;
        let value = match predefined::attribute(comm_keyval) {
            Some(place) => place,
            None => object.attributes.value(KeyvalKind::Comm, comm_keyval)?,
        };
        flag.put(value.is_some().into())?;
        value.map_or(Ok(()), |value| attribute_val.put(value))
    }

    fn MPI_Comm_delete_attr / MPI_Attr_delete (comm: MPI_Comm, comm_keyval: c_int) on comm {
        comm::find(comm)?.attributes.delete(KeyvalKind::Comm, comm.0, comm_keyval)
    }

    fn MPI_Type_create_keyval(
        type_copy_attr_fn: Option<CopyFunction>, type_delete_attr_fn: Option<DeleteFunction>,
        type_keyval: Out<c_int>, extra_state: *mut c_void,
    ) {
        create(KeyvalKind::Type, type_copy_attr_fn, type_delete_attr_fn, extra_state, type_keyval)
    }

    fn MPI_Type_free_keyval(type_keyval: Out<c_int>) {
        free(KeyvalKind::Type, type_keyval)
    }

    fn MPI_Win_create_keyval(
        win_copy_attr_fn: Option<CopyFunction>, win_delete_attr_fn: Option<DeleteFunction>,
        win_keyval: Out<c_int>, extra_state: *mut c_void,
    ) {
        create(KeyvalKind::Win, win_copy_attr_fn, win_delete_attr_fn, extra_state, win_keyval)
    }

    fn MPI_Win_free_keyval(win_keyval: Out<c_int>) {
        free(KeyvalKind::Win, win_keyval)
    }
}
