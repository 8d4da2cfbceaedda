//! Types of the standard ABI.
#![allow(non_camel_case_types, reason = "these are the names that the standard gives them")]
#![allow(missing_docs, reason = "the standard says what they are")]

use std::ffi::c_int;

pub type MPI_Aint = isize;
pub type MPI_Count = i64;
pub type MPI_Offset = i64;

/// Defines handle types. The program never dereferences a handle. Predefined ones are small numbers, others
/// addresses.
macro_rules! handles {
    ($($name:ident)*) => { $(
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        #[repr(transparent)]
        pub struct $name(pub usize);
    )* };
}

handles! {
    MPI_Op MPI_Comm MPI_Group MPI_Win MPI_File MPI_Session MPI_Message MPI_Info MPI_Errhandler
    MPI_Request MPI_Datatype MPI_T_enum MPI_T_cvar_handle MPI_T_pvar_handle MPI_T_pvar_session
    MPI_T_event_registration MPI_T_event_instance
}

pub type MPI_T_cb_safety = c_int;
pub type MPI_T_source_order = c_int;

/// The status of a message. `internal` is ours: `status.rs` defines its contents.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct MPI_Status {
    pub source: c_int,
    pub tag: c_int,
    pub error: c_int,
    pub internal: [c_int; 5],
}
