//! Reading and changing statuses.

use std::ffi::c_int;

use ferrywire_host::ErrorCode;

use crate::calls::entry::entries;
use crate::convert::argument::{MessageTag, SourceRank};
use crate::convert::constants::{MPI_ERR_ARG, MPI_UNDEFINED};
use crate::convert::failure::{Failure, Result};
use crate::convert::pointer::{In, Out};
use crate::convert::sizes::{self, Wide};
use crate::convert::status::Status;
use crate::convert::types::{MPI_Count, MPI_Datatype, MPI_Status};
use crate::objects::datatype;

/// Reads a status.
fn read(status: In<MPI_Status>) -> Result<Status> {
    Ok(status.slice(1)?[0].into())
}

/// Changes a status.
fn change(status: Out<MPI_Status>, change: impl FnOnce(&mut Status)) -> Result {
    let mut own = Status::from(status.get()?);
    change(&mut own);
    status.put(own.into())
}

/// Writes a number of elements, or MPI_UNDEFINED.
fn put_elements<T: Wide>(place: Out<T>, elements: Option<u64>) -> Result {
    let elements = elements.and_then(|elements| i64::try_from(elements).ok());
    sizes::put(place, elements.unwrap_or(MPI_UNDEFINED.into()))
}

fn set_elements(status: Out<MPI_Status>, datatype: MPI_Datatype, count: impl Wide) -> Result {
    let bytes = datatype::find(datatype)?.bytes_of_basics(sizes::count(count)?);
    let impossible = || {
        Failure::new(
            MPI_ERR_ARG,
            "invalid count: no message has so many elements of this \
                                                   datatype",
        )
        .coded(ErrorCode::COUNT)
    };
    let bytes = bytes.ok_or_else(impossible)?;
    change(status, |own| own.bytes = bytes)
}

entries! {
    fn MPI_Get_count / MPI_Get_count_c (
        status: In<MPI_Status>, datatype: MPI_Datatype, count: Out<Size>,
    ) {
        put_elements(count, datatype::find(datatype)?.elements_in(read(status)?.bytes))
    }

    fn MPI_Get_elements / MPI_Get_elements_c (
        status: In<MPI_Status>, datatype: MPI_Datatype, count: Out<Size>,
    ) {
        put_elements(count, datatype::find(datatype)?.basics_in(read(status)?.bytes))
    }

    fn MPI_Get_elements_x(
        status: In<MPI_Status>, datatype: MPI_Datatype, count: Out<MPI_Count>,
    ) {
        put_elements(count, datatype::find(datatype)?.basics_in(read(status)?.bytes))
    }

    fn MPI_Status_set_elements / MPI_Status_set_elements_c (
        status: Out<MPI_Status>, datatype: MPI_Datatype, count: Size,
    ) {
        set_elements(status, datatype, count)
    }

    fn MPI_Status_set_elements_x(
        status: Out<MPI_Status>, datatype: MPI_Datatype, count: MPI_Count,
    ) {
        set_elements(status, datatype, count)
    }

    fn MPI_Test_cancelled(status: In<MPI_Status>, flag: Out<c_int>) {
        flag.put(read(status)?.cancelled.into())
    }

    fn MPI_Status_set_cancelled(status: Out<MPI_Status>, flag: c_int) {
        change(status, |own| own.cancelled = flag != 0)
    }

    fn MPI_Status_get_source(status: In<MPI_Status>, source: Out<c_int>) {
        source.put(read(status)?.source)
    }

    fn MPI_Status_set_source(status: Out<MPI_Status>, source: SourceRank) {
        change(status, |own| own.source = source.number())
    }

    fn MPI_Status_get_tag(status: In<MPI_Status>, tag: Out<c_int>) {
        tag.put(read(status)?.tag)
    }

    fn MPI_Status_set_tag(status: Out<MPI_Status>, tag: MessageTag) {
        change(status, |own| own.tag = tag.bits().cast_signed())
    }

    fn MPI_Status_get_error(status: In<MPI_Status>, error: Out<c_int>) {
        error.put(read(status)?.error)
    }

    fn MPI_Status_set_error(status: Out<MPI_Status>, error: c_int) {
        change(status, |own| own.error = error)
    }
}
