//! Names that programs give to their objects.

use std::ffi::c_int;

use crate::calls::entry::entries;
use crate::convert::constants::{MPI_COMM_NULL, MPI_MAX_OBJECT_NAME};
use crate::convert::failure::Result;
use crate::convert::pointer::{Out, Text, TextOut};
use crate::convert::types::MPI_Comm;
use crate::objects::comm;

/// A name, truncated as the standard allows.
pub(crate) fn cut(name: Text) -> Result<String> {
    let mut name = name.get()?;
    let room = usize::try_from(MPI_MAX_OBJECT_NAME).unwrap_or(0) - 1;
    name.truncate(name.floor_char_boundary(room));
    Ok(name)
}

entries! {
    fn MPI_Comm_set_name(comm: MPI_Comm, comm_name: Text) on comm {
        comm::find(comm)?.set_name(cut(comm_name)?);
        Ok(())
    }

    fn MPI_Comm_get_name(comm: MPI_Comm, comm_name: TextOut, resultlen: Out<c_int>) on comm {
        // The only query that MPI_COMM_NULL supports is its name.
        let name = match comm {
            MPI_COMM_NULL => "MPI_COMM_NULL".into(),
            _ => comm::find(comm)?.name(),
        };
        comm_name.put_counted(&name, MPI_MAX_OBJECT_NAME, resultlen)
    }
}
