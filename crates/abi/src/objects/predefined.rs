//! Predefined attributes of communicators: facts about the job, behind pointers.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicI32, Ordering};

use ferrywire_mpi::comm::TAG_MAX;

use crate::convert::constants::{
    MPI_ANY_SOURCE, MPI_APPNUM, MPI_ERR_LASTCODE, MPI_HOST, MPI_IO, MPI_LASTUSEDCODE,
    MPI_PROC_NULL, MPI_TAG_UB, MPI_UNIVERSE_SIZE, MPI_WTIME_IS_GLOBAL,
};
use crate::objects::comm;
use crate::objects::process;

/// A number that programs read through a pointer.
struct Fact(AtomicI32);

impl Fact {
    const fn new(number: c_int) -> Fact {
        Fact(AtomicI32::new(number))
    }

    fn place(&'static self) -> *mut c_void {
        self.0.as_ptr().cast()
    }
}

static TAG_UB: Fact = Fact::new(TAG_MAX.cast_signed());
/// There is no host process.
static HOST: Fact = Fact::new(MPI_PROC_NULL);
/// Every rank can do file I/O.
static IO: Fact = Fact::new(MPI_ANY_SOURCE);
/// Each rank counts time from its own start.
static WTIME_IS_GLOBAL: Fact = Fact::new(0);
/// The number of this rank's program in the job.
static APPNUM: Fact = Fact::new(0);
static LAST_USED_CODE: Fact = Fact::new(MPI_ERR_LASTCODE);
static UNIVERSE_SIZE: Fact = Fact::new(0);

/// A pointer to the value of a predefined attribute, or `None` inside if the value is unknown. `None` for another
/// key.
pub(crate) fn attribute(key: c_int) -> Option<Option<*mut c_void>> {
    let fact = match key {
        MPI_TAG_UB => &TAG_UB,
        MPI_HOST => &HOST,
        MPI_IO => &IO,
        MPI_WTIME_IS_GLOBAL => &WTIME_IS_GLOBAL,
        MPI_APPNUM => {
            let Some(program) = process::running().ok()?.rank().program() else {
                return Some(None);
            };
            APPNUM.0.store(comm::int(program), Ordering::Relaxed);
            &APPNUM
        }
        MPI_LASTUSEDCODE => &LAST_USED_CODE,
        MPI_UNIVERSE_SIZE => {
            // One rank for each core makes sense. Where all cores are taken, programs that spawn ranks have a reason to:
            // a value would tell them that they cannot.
            let rank = process::running().ok()?.rank();
            let ranks = u32::try_from(rank.world().count()).unwrap_or(u32::MAX);
            if rank.parent().is_some() || rank.cores() <= ranks {
                return Some(None);
            }
            UNIVERSE_SIZE.0.store(comm::int(rank.cores()), Ordering::Relaxed);
            &UNIVERSE_SIZE
        }
        _ => return None,
    };
    Some(Some(fact.place()))
}

/// Sets the largest error code in use.
pub(crate) fn set_last_used_code(code: c_int) {
    LAST_USED_CODE.0.store(code, Ordering::Relaxed);
}
