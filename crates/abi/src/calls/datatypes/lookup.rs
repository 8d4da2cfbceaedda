//! Predefined datatypes, looked up by their properties instead of by name.

use std::ffi::c_int;

use ferrywire_host::ErrorCode;
use ferrywire_mpi::datatype::{Datatype, TypeClass};

use crate::calls::entry::entries;
use crate::convert::constants::{
    MPI_DATATYPE_NULL, MPI_ERR_ARG, MPI_ERR_TYPE, MPI_TYPECLASS_COMPLEX, MPI_TYPECLASS_INTEGER,
    MPI_TYPECLASS_REAL, MPI_UNDEFINED,
};
use crate::convert::failure::{Failure, Result};
use crate::convert::pointer::Out;
use crate::convert::types::MPI_Datatype;
use crate::objects::datatype::{expose, find};

entries! {
    fn MPI_Type_create_f90_real(p: c_int, r: c_int, newtype: Out<MPI_Datatype>) {
        newtype.put(expose(Datatype::f90_real(asked(p), asked(r))?, true))
    }

    fn MPI_Type_create_f90_complex(p: c_int, r: c_int, newtype: Out<MPI_Datatype>) {
        newtype.put(expose(Datatype::f90_complex(asked(p), asked(r))?, true))
    }

    fn MPI_Type_create_f90_integer(r: c_int, newtype: Out<MPI_Datatype>) {
        newtype.put(expose(Datatype::f90_integer(r)?, true))
    }

    fn MPI_Type_match_size(typeclass: c_int, size: c_int, datatype: Out<MPI_Datatype>) {
        let class = class_of(typeclass)?;
        // A negative size matches no type.
        let bytes = u64::try_from(size).unwrap_or(u64::MAX);
        let found = Datatype::match_size(class, bytes);
        let found = found.map_err(|error| Failure::from(error).during(format_args!(" of {size} bytes")))?;
        datatype.put(expose(found, true))
    }

    fn MPI_Type_get_value_index(
        value_type: MPI_Datatype, index_type: MPI_Datatype, pair_type: Out<MPI_Datatype>,
    ) {
        let (value, index) = (find(value_type)?, find(index_type)?);
        if value.predefined().is_none() || index.predefined().is_none() {
            return Err(Failure::new(MPI_ERR_TYPE, "value and index must be predefined datatypes"));
        }
        // Programs expect pairs with names, and some cannot handle one without.
        let pair = Datatype::value_index(value, index).ok().filter(|pair| pair.name().is_some());
        pair_type.put(pair.map_or(MPI_DATATYPE_NULL, |pair| expose(pair, true)))
    }
}

/// A precision or a range, or `None` for MPI_UNDEFINED.
fn asked(number: c_int) -> Option<c_int> {
    Some(number).filter(|&number| number != MPI_UNDEFINED)
}

fn class_of(typeclass: c_int) -> Result<TypeClass> {
    match typeclass {
        MPI_TYPECLASS_INTEGER => Ok(TypeClass::Integer),
        MPI_TYPECLASS_REAL => Ok(TypeClass::Real),
        MPI_TYPECLASS_COMPLEX => Ok(TypeClass::Complex),
        logical if logical == TypeClass::Logical as c_int => Ok(TypeClass::Logical),
        other => Err(Failure::new(MPI_ERR_ARG, format!("invalid type class {other}"))
            .coded(ErrorCode::CONSTRUCTION)),
    }
}
