//! Memory allocation, and addresses.

use std::ffi::{c_int, c_void};

use ferrywire_host::ErrorCode;
use ferrywire_mpi::info::Info;

use crate::calls::entry::{answers, entries};
use crate::convert::constants::{MPI_ERR_ARG, MPI_ERR_INFO_VALUE, MPI_ERR_NO_MEM};
use crate::convert::failure::{Failure, Result};
use crate::convert::pointer::{Choice, ChoiceMut, Out};
use crate::convert::types::{MPI_Aint, MPI_Info};
use crate::objects::info;

/// The hint for the alignment of memory.
pub(crate) const ALIGNMENT: &str = "mpi_minimum_memory_alignment";

/// The alignment that a program requests.
pub(crate) fn alignment(hints: &Info) -> Result<Option<usize>> {
    let Some(wanted) = hints.value(ALIGNMENT) else { return Ok(None) };
    let bytes = wanted.parse().ok().filter(|bytes: &usize| bytes.is_power_of_two());
    let why = || format!("{ALIGNMENT} is \"{wanted}\", not a power of two");
    bytes.ok_or_else(|| Failure::new(MPI_ERR_INFO_VALUE, why())).map(Some)
}

entries! {
    fn MPI_Alloc_mem(size: MPI_Aint, info: MPI_Info, baseptr: Out<*mut c_void>) {
        let bytes = usize::try_from(size)
            .map_err(|_| Failure::new(MPI_ERR_ARG, format!("invalid size {size}; it must not be negative")).coded(ErrorCode::SIZE))?;
        let alignment = alignment(&info::hints(info)?)?.unwrap_or(0).max(ALIGNMENT_MIN);
        let mut base = std::ptr::null_mut();
        // An allocation of zero bytes has an address too.
        // SAFETY: the alignment is a power of two, and `base` is valid.
        let code: c_int = unsafe { libc::posix_memalign(&raw mut base, alignment, bytes.max(1)) };
        if code != 0 {
            return Err(Failure::new(MPI_ERR_NO_MEM, format!("cannot allocate {bytes} bytes")));
        }
        baseptr.put(base)
    }

    fn MPI_Free_mem(base: ChoiceMut) {
        // SAFETY: the program vouches that it is from `MPI_Alloc_mem` and was not freed.
        unsafe { libc::free(base.0) };
        Ok(())
    }

    fn MPI_Get_address(location: Choice, address: Out<MPI_Aint>) {
        address.put(location.0.expose_provenance().cast_signed())
    }
}

answers! {
    fn MPI_Aint_add(base: MPI_Aint, disp: MPI_Aint) -> MPI_Aint {
        base.wrapping_add(disp)
    }

    fn MPI_Aint_diff(addr1: MPI_Aint, addr2: MPI_Aint) -> MPI_Aint {
        addr1.wrapping_sub(addr2)
    }
}

const ALIGNMENT_MIN: usize = 64;
