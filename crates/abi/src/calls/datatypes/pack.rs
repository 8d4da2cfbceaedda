//! Explicit packing and unpacking, in native form and in external32.
//!
//! Packed bytes have no header: one call can unpack what several have packed, and packed bytes can be received as
//! their datatype.
//!
//! Invariants, cited below by number.
//!   I1. The program vouches that the buffer has as many bytes as it says, and does not overlap the data that
//!       is packed or unpacked.

use std::ops::Range;

use ferrywire_host::ErrorCode;

use crate::calls::entry::entries;
use crate::convert::constants::{
    MPI_ERR_ARG, MPI_ERR_BUFFER, MPI_ERR_COUNT, MPI_ERR_TRUNCATE, MPI_ERR_UNSUPPORTED_DATAREP,
};
use crate::convert::failure::{Failure, Result};
use crate::convert::pointer::{Choice, ChoiceMut, Out, Text};
use crate::convert::sizes::{self, Wide};
use crate::convert::types::{MPI_Comm, MPI_Datatype};
use crate::objects::comm;
use crate::objects::data::{Data, User};
use crate::objects::datatype::{find, find_committed};

entries! {
    fn MPI_Pack / MPI_Pack_c (
        inbuf: Choice, incount: Size, datatype: MPI_Datatype, outbuf: ChoiceMut, outsize: Size,
        position: Out<Size>, comm: MPI_Comm,
    ) on comm {
        comm::find(comm)?;
        let data = Data::to_read(inbuf, incount, datatype)?;
        let place = place(position.get()?, outsize, data.bytes())?;
        data.pack(written(outbuf, &place)?);
        advance(position, place)
    }

    fn MPI_Unpack / MPI_Unpack_c (
        inbuf: Choice, insize: Size, position: Out<Size>, outbuf: ChoiceMut, outcount: Size,
        datatype: MPI_Datatype, comm: MPI_Comm,
    ) on comm {
        comm::find(comm)?;
        let data = Data::to_write(outbuf, outcount, datatype)?;
        let place = place(position.get()?, insize, data.bytes())?;
        data.unpack(read(inbuf, &place)?);
        advance(position, place)
    }

    fn MPI_Pack_size / MPI_Pack_size_c (
        incount: Size, datatype: MPI_Datatype, comm: MPI_Comm, size: Out<Size>,
    ) on comm {
        comm::find(comm)?;
        let bytes = sizes::count(incount)?.checked_mul(find(datatype)?.size());
        put_bytes(size, bytes)
    }

    fn MPI_Pack_external / MPI_Pack_external_c (
        datarep: Text, inbuf: Choice, incount: Size, datatype: MPI_Datatype, outbuf: ChoiceMut,
        outsize: Address, position: Out<Address>,
    ) {
        external32(datarep)?;
        let (count, datatype) = (sizes::count(incount)?, find_committed(datatype)?);
        let bytes = datatype.external_size(count).ok_or_else(too_many)?;
        let place = place(position.get()?, outsize, bytes)?;
        if bytes > 0 {
            let from = User::new(inbuf.address(), datatype)?;
            let packed = datatype.pack_external(count, &from, written(outbuf, &place)?);
            packed?;
        }
        advance(position, place)
    }

    fn MPI_Unpack_external / MPI_Unpack_external_c (
        datarep: Text, inbuf: Choice, insize: Address, position: Out<Address>, outbuf: ChoiceMut,
        outcount: Size, datatype: MPI_Datatype,
    ) {
        external32(datarep)?;
        let (count, datatype) = (sizes::count(outcount)?, find_committed(datatype)?);
        let bytes = datatype.external_size(count).ok_or_else(too_many)?;
        let place = place(position.get()?, insize, bytes)?;
        if bytes > 0 {
            let mut into = User::new(outbuf.address(), datatype)?;
            let unpacked = datatype.unpack_external(count, read(inbuf, &place)?, &mut into);
            unpacked?;
        }
        advance(position, place)
    }

    fn MPI_Pack_external_size / MPI_Pack_external_size_c (
        datarep: Text, incount: Size, datatype: MPI_Datatype, size: Out<Address>,
    ) {
        external32(datarep)?;
        put_bytes(size, find(datatype)?.external_size(sizes::count(incount)?))
    }
}

/// The range of packed elements in a buffer of `size` bytes, if it is large enough.
fn place(position: impl Wide, size: impl Wide, bytes: u64) -> Result<Range<usize>> {
    let (start, size) = (sizes::length(position)?, sizes::length(size)?);
    let Some(left) = size.checked_sub(start) else {
        let why = format!("invalid position {start} in a buffer of {size} bytes");
        return Err(Failure::new(MPI_ERR_ARG, why).coded(ErrorCode::PACKING));
    };
    match usize::try_from(bytes) {
        Ok(bytes) if bytes <= left => Ok(start..start + bytes),
        _ => {
            let why = format!(
                "{bytes} bytes are needed, but the packed buffer has {left} from position {start} on"
            );
            Err(Failure::new(MPI_ERR_TRUNCATE, why).coded(ErrorCode::PACKING))
        }
    }
}

/// The part of a buffer that is read.
fn read<'a>(buffer: Choice, place: &Range<usize>) -> Result<&'a [u8]> {
    if place.is_empty() {
        return Ok(&[]);
    }
    if buffer.0.is_null() {
        return Err(no_buffer());
    }
    let first: *const u8 = buffer.0.cast();
    // SAFETY: I1.
    Ok(unsafe { std::slice::from_raw_parts(first.wrapping_add(place.start), place.len()) })
}

/// The part of a buffer that is written.
fn written<'a>(buffer: ChoiceMut, place: &Range<usize>) -> Result<&'a mut [u8]> {
    if place.is_empty() {
        return Ok(&mut []);
    }
    if buffer.0.is_null() {
        return Err(no_buffer());
    }
    let first: *mut u8 = buffer.0.cast();
    // SAFETY: I1.
    Ok(unsafe { std::slice::from_raw_parts_mut(first.wrapping_add(place.start), place.len()) })
}

/// Writes the position of the next element.
fn advance<T: Wide>(position: Out<T>, place: Range<usize>) -> Result {
    sizes::put(position, i64::try_from(place.end).unwrap_or(i64::MAX))
}

/// Writes a number of bytes, or MPI_UNDEFINED where it does not fit.
fn put_bytes<T: Wide>(size: Out<T>, bytes: Option<u64>) -> Result {
    let bytes = bytes.and_then(|bytes| i64::try_from(bytes).ok());
    sizes::put(size, bytes.unwrap_or(i64::from(crate::convert::constants::MPI_UNDEFINED)))
}

/// Checks the name of the data representation: only external32 exists.
fn external32(datarep: Text) -> Result {
    match datarep.get()?.as_str() {
        "external32" => Ok(()),
        other => {
            let why = format!("unknown data representation \"{other}\"; pass \"external32\"");
            Err(Failure::new(MPI_ERR_UNSUPPORTED_DATAREP, why))
        }
    }
}

#[cold]
fn too_many() -> Failure {
    Failure::new(MPI_ERR_COUNT, "invalid count: the size in bytes does not fit 64 bits")
}

#[cold]
fn no_buffer() -> Failure {
    Failure::new(MPI_ERR_BUFFER, "the packed buffer is a null pointer")
}
