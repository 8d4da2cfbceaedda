//! Views, data representations and file pointers.

use std::ffi::{c_int, c_void};

use ferrywire_host::ErrorCode;
use ferrywire_mpi::file::{View, ViewError};
use ferrywire_runtime::Whence;

use crate::calls::entry::entries;
use crate::calls::files::file::set_hints;
use crate::convert::callback::{
    Callback, ConversionCall, ConversionFunction, ExtentFunction, LargeConversionFunction,
};
use crate::convert::constants::{
    MPI_ERR_ARG, MPI_ERR_IO, MPI_FILE_NULL, MPI_MAX_DATAREP_STRING, MPI_MODE_SEQUENTIAL,
    MPI_SEEK_CUR, MPI_SEEK_END, MPI_SEEK_SET,
};
use crate::convert::failure::{Failure, Result};
use crate::convert::pointer::{Out, Text, TextOut};
use crate::convert::sizes;
use crate::convert::types::{MPI_Datatype, MPI_File, MPI_Info, MPI_Offset};
use crate::objects::datatype;
use crate::objects::file::{self, ViewTypes, find};
use crate::objects::info;
use crate::objects::representation::{self, ExtraState, UserRepresentation};

entries! {
    fn MPI_File_set_view(
        fh: MPI_File, disp: MPI_Offset, etype: MPI_Datatype, filetype: MPI_Datatype, datarep: Text,
        info: MPI_Info,
    ) on fh {
        let object = find(fh)?;
        let comm = object.together();
        // In sequential mode the view begins where the shared pointer is.
        let current = match object.amode & MPI_MODE_SEQUENTIAL {
            0 => None,
            _ => Some(object.file.shared_offset(comm)?.cast_signed()),
        };
        let disp = current.filter(|_| disp == MPI_DISPLACEMENT_CURRENT).unwrap_or(disp);
        let checked = types(etype, filetype, datarep).and_then(|types| {
            let hints = info::hints(info)?;
            let may_overlap = object.check_writable().is_err();
            let view = view_of(disp, &types, may_overlap)?;
            Ok((types, view, hints))
        });
        let (types, view, hints) = checked.map_err(|failure| object.refuse(failure))?;
        object.file.set_view(comm, view, types.representation.number())?;
        object.set_view(types);
        set_hints(object, &hints)
    }

    fn MPI_File_get_view(
        fh: MPI_File, disp: Out<MPI_Offset>, etype: Out<MPI_Datatype>,
        filetype: Out<MPI_Datatype>, datarep: TextOut,
    ) on fh {
        let object = find(fh)?;
        let types = object.view();
        disp.put(object.file.view().displacement().cast_signed())?;
        let room = usize::try_from(MPI_MAX_DATAREP_STRING).unwrap_or(0);
        datarep.put(types.representation.name(), room)?;
        etype.put(datatype::expose(types.etype, true))?;
        filetype.put(datatype::expose(types.filetype, true))
    }

    fn MPI_File_get_type_extent / MPI_File_get_type_extent_c (
        fh: MPI_File, datatype: MPI_Datatype, extent: Out<Address>,
    ) on fh {
        let representation = find(fh)?.view().representation;
        sizes::put(extent, representation.in_file(datatype::find(datatype)?)?.extent())
    }

    fn MPI_Register_datarep(
        datarep: Text, read_conversion_fn: Option<ConversionFunction>,
        write_conversion_fn: Option<ConversionFunction>,
        dtype_file_extent_fn: Option<ExtentFunction>, extra_state: *mut c_void,
    ) {
        let conversions = [read_conversion_fn, write_conversion_fn].map(|it| it.map(Into::into));
        register(datarep, conversions, dtype_file_extent_fn, extra_state)
    }

    fn MPI_Register_datarep_c(
        datarep: Text, read_conversion_fn: Option<LargeConversionFunction>,
        write_conversion_fn: Option<LargeConversionFunction>,
        dtype_file_extent_fn: Option<ExtentFunction>, extra_state: *mut c_void,
    ) {
        let conversions = [read_conversion_fn, write_conversion_fn].map(|it| it.map(Into::into));
        register(datarep, conversions, dtype_file_extent_fn, extra_state)
    }

    fn MPI_File_seek(fh: MPI_File, offset: MPI_Offset, whence: c_int) on fh {
        let object = find(fh)?;
        object.check_not_sequential()?;
        Ok(object.file.seek(offset, whence_of(whence)?)?)
    }

    fn MPI_File_get_position(fh: MPI_File, offset: Out<MPI_Offset>) on fh {
        let object = find(fh)?;
        object.check_not_sequential()?;
        offset.put(object.file.position().cast_signed())
    }

    fn MPI_File_get_byte_offset(fh: MPI_File, offset: MPI_Offset, disp: Out<MPI_Offset>) on fh {
        let object = find(fh)?;
        object.check_not_sequential()?;
        disp.put(object.file.offset_of(etype_at(offset)?)?.cast_signed())
    }

    fn MPI_File_seek_shared(fh: MPI_File, offset: MPI_Offset, whence: c_int) on fh {
        let object = find(fh)?;
        let checked = object.check_not_sequential().and_then(|()| whence_of(whence));
        let whence = checked.map_err(|failure| object.refuse(failure))?;
        Ok(object.file.seek_shared(object.together(), offset, whence)?)
    }

    fn MPI_File_get_position_shared(fh: MPI_File, offset: Out<MPI_Offset>) on fh {
        let object = find(fh)?;
        object.check_not_sequential()?;
        offset.put(object.file.shared_position(object.runtime())?.cast_signed())
    }
}

/// The displacement that stands for the shared pointer.
const MPI_DISPLACEMENT_CURRENT: MPI_Offset = -1;

fn types(etype: MPI_Datatype, filetype: MPI_Datatype, datarep: Text) -> Result<ViewTypes> {
    let [etype, filetype] =
        [etype, filetype].map(|handle| datatype::find_committed(handle).cloned());
    let representation = representation::find(&datarep.get()?)?;
    Ok(ViewTypes { etype: etype?, filetype: filetype?, representation })
}

fn view_of(displacement: MPI_Offset, types: &ViewTypes, may_overlap: bool) -> Result<View> {
    let displacement = u64::try_from(displacement).map_err(|_| {
        let why = format!("invalid displacement {displacement}; it must not be negative");
        Failure::new(MPI_ERR_ARG, why).coded(ErrorCode::VIEW)
    })?;
    let etype = types.representation.in_file(&types.etype)?;
    let filetype = types.representation.in_file(&types.filetype)?;
    View::new(displacement, &etype, filetype, may_overlap).map_err(|error| {
        let class = match error {
            ViewError::EmptyEtype | ViewError::NotOfEtypes => MPI_ERR_ARG,
            // The standard names no class for these. Other implementations have this one.
            ViewError::Backwards | ViewError::Decreasing | ViewError::Overlapping => MPI_ERR_IO,
        };
        Failure::new(class, error.to_string()).coded(ErrorCode::VIEW)
    })
}

fn whence_of(whence: c_int) -> Result<Whence> {
    match whence {
        MPI_SEEK_SET => Ok(Whence::Beginning),
        MPI_SEEK_CUR => Ok(Whence::Pointer),
        MPI_SEEK_END => Ok(Whence::End),
        _ => Err(Failure::new(
            MPI_ERR_ARG,
            "pass MPI_SEEK_SET, MPI_SEEK_CUR or MPI_SEEK_END for whence",
        )
        .coded(ErrorCode::FILE_POSITION)),
    }
}

/// An offset in etypes.
pub(super) fn etype_at(offset: MPI_Offset) -> Result<u64> {
    u64::try_from(offset).map_err(|_| {
        Failure::new(MPI_ERR_ARG, format!("invalid offset {offset}; it must not be negative"))
            .coded(ErrorCode::FILE_POSITION)
    })
}

/// Adds a data representation. Its errors belong to no open file.
fn register(
    datarep: Text,
    [read, write]: [Option<Callback<ConversionCall>>; 2],
    extent: Option<ExtentFunction>,
    extra: *mut c_void,
) -> Result {
    let null = || {
        Failure::new(MPI_ERR_ARG, "the function that returns the extent is a null pointer")
            .coded(ErrorCode::REPRESENTATION)
    };
    let add = || {
        let (name, extent) = (datarep.get()?, extent.ok_or_else(null)?.into());
        let extra = ExtraState(extra);
        representation::register(UserRepresentation { name, read, write, extent, extra })
    };
    add().map_err(|failure| failure.of(file::owner_of(MPI_FILE_NULL)))
}
