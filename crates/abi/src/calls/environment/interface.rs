//! Queries about the ABI: its version, and the sizes of types.
//!
//! Fortran types have the sizes of the usual compilers without options, and logicals are 0 and 1. A Fortran front may
//! set the same values; other values are an error.

use std::ffi::c_int;

use ferrywire_mpi::datatype::Datatype;
use ferrywire_mpi::info::Info;

use crate::calls::entry::entries;
use crate::convert::constants::{
    MPI_ABI_SUBVERSION, MPI_ABI_VERSION, MPI_COMPLEX4, MPI_COMPLEX8, MPI_COMPLEX16, MPI_COMPLEX32,
    MPI_DOUBLE_COMPLEX, MPI_DOUBLE_PRECISION, MPI_ERR_ABI, MPI_ERR_ARG, MPI_INTEGER, MPI_INTEGER1,
    MPI_INTEGER2, MPI_INTEGER4, MPI_INTEGER8, MPI_INTEGER16, MPI_LOGICAL, MPI_LOGICAL1,
    MPI_LOGICAL2, MPI_LOGICAL4, MPI_LOGICAL8, MPI_LOGICAL16, MPI_REAL, MPI_REAL2, MPI_REAL4,
    MPI_REAL8, MPI_REAL16,
};
use crate::convert::failure::{Failure, Result};
use crate::convert::pointer::{In, Out};
use crate::convert::types::{MPI_Aint, MPI_Count, MPI_Datatype, MPI_Info, MPI_Offset};
use crate::objects::info;

/// The properties of Fortran types.
fn fortran() -> Info {
    let bytes = |datatype: MPI_Datatype| Datatype::named(datatype.0).map_or(0, |own| own.size());
    let sizes = SIZED
        .iter()
        .map(|&(name, datatype)| (format!("mpi_{name}_size"), bytes(datatype).to_string()));
    let supported = OPTIONAL.iter().map(|&(name, datatype)| {
        (format!("mpi_{name}_supported"), (bytes(datatype) > 0).to_string())
    });
    sizes.chain(supported).collect()
}

/// Checks the size of a logical.
fn logical_bytes(size: c_int) -> Result<usize> {
    let known = [1, 2, 4, 8, 16].into_iter().find(|&bytes| c_int::try_from(bytes) == Ok(size));
    known.ok_or_else(|| {
        Failure::new(MPI_ERR_ARG, format!("invalid logical size {size}; pass 1, 2, 4, 8 or 16"))
    })
}

/// The representation of a logical in memory.
fn logical(value: u8, bytes: usize) -> [u8; 16] {
    let number = u128::from(value).to_ne_bytes();
    let mut memory = [0; 16];
    let from = if cfg!(target_endian = "big") { 16 - bytes } else { 0 };
    memory[..bytes].copy_from_slice(&number[from..from + bytes]);
    memory
}

entries! {
    fn MPI_Abi_get_version(abi_major: Out<c_int>, abi_minor: Out<c_int>) {
        abi_major.put(MPI_ABI_VERSION)?;
        abi_minor.put(MPI_ABI_SUBVERSION)
    }

    fn MPI_Abi_get_info(info: Out<MPI_Info>) {
        let sizes = [
            ("mpi_aint_size", size_of::<MPI_Aint>()),
            ("mpi_count_size", size_of::<MPI_Count>()),
            ("mpi_offset_size", size_of::<MPI_Offset>()),
        ];
        let sizes = sizes.into_iter().map(|(key, bytes)| (key, bytes.to_string()));
        info.put(info::create(sizes.collect()))
    }

    fn MPI_Abi_get_fortran_info(info: Out<MPI_Info>) {
        info.put(info::create(fortran()))
    }

    fn MPI_Abi_set_fortran_info(info: MPI_Info) {
        let (theirs, ours) = (info::hints(info)?, fortran());
        let differs = |key: &&str| ours.value(key).is_some_and(|own| theirs.value(key) != Some(own));
        match theirs.keys().find(differs) {
            None => Ok(()),
            Some(key) => {
                let own = ours.value(key).unwrap_or_default();
                Err(Failure::new(MPI_ERR_ABI, format!("this library supports only {own} for {key}")))
            }
        }
    }

    fn MPI_Abi_get_fortran_booleans(
        logical_size: c_int, logical_true: Out<u8>, logical_false: Out<u8>, is_set: Out<c_int>,
    ) {
        let bytes = logical_bytes(logical_size)?;
        logical_true.slice(bytes)?.copy_from_slice(&logical(1, bytes)[..bytes]);
        logical_false.slice(bytes)?.copy_from_slice(&logical(0, bytes)[..bytes]);
        is_set.put(1)
    }

    fn MPI_Abi_set_fortran_booleans(
        logical_size: c_int, logical_true: In<u8>, logical_false: In<u8>,
    ) {
        let bytes = logical_bytes(logical_size)?;
        let as_ours = logical_true.slice(bytes)? == &logical(1, bytes)[..bytes]
            && logical_false.slice(bytes)? == &logical(0, bytes)[..bytes];
        match as_ours {
            true => Ok(()),
            false => Err(Failure::new(MPI_ERR_ABI, "this library supports only 1 for true and 0 for false")),
        }
    }
}

/// Types whose size is reported.
const SIZED: [(&str, MPI_Datatype); 4] = [
    ("logical", MPI_LOGICAL),
    ("integer", MPI_INTEGER),
    ("real", MPI_REAL),
    ("double_precision", MPI_DOUBLE_PRECISION),
];

/// Types that a library may lack.
const OPTIONAL: [(&str, MPI_Datatype); 19] = [
    ("logical1", MPI_LOGICAL1),
    ("logical2", MPI_LOGICAL2),
    ("logical4", MPI_LOGICAL4),
    ("logical8", MPI_LOGICAL8),
    ("logical16", MPI_LOGICAL16),
    ("integer1", MPI_INTEGER1),
    ("integer2", MPI_INTEGER2),
    ("integer4", MPI_INTEGER4),
    ("integer8", MPI_INTEGER8),
    ("integer16", MPI_INTEGER16),
    ("real2", MPI_REAL2),
    ("real4", MPI_REAL4),
    ("real8", MPI_REAL8),
    ("real16", MPI_REAL16),
    ("complex4", MPI_COMPLEX4),
    ("complex8", MPI_COMPLEX8),
    ("complex16", MPI_COMPLEX16),
    ("complex32", MPI_COMPLEX32),
    ("double_complex", MPI_DOUBLE_COMPLEX),
];
