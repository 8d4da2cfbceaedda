//! Synchronisation of windows.

use std::ffi::c_int;

use ferrywire_runtime::Locking;

use crate::calls::entry::entries;
use crate::convert::argument::PeerRank;
use crate::convert::constants::{
    MPI_ERR_ASSERT, MPI_ERR_GROUP, MPI_ERR_LOCKTYPE, MPI_LOCK_EXCLUSIVE, MPI_LOCK_SHARED,
    MPI_MODE_NOCHECK, MPI_MODE_NOPRECEDE, MPI_MODE_NOPUT, MPI_MODE_NOSTORE, MPI_MODE_NOSUCCEED,
};
use crate::convert::failure::{Failure, Result};
use crate::convert::pointer::Out;
use crate::convert::types::{MPI_Group, MPI_Win};
use crate::objects::group;
use crate::objects::window::{Win, find};

entries! {
    fn MPI_Win_fence(assert: c_int, win: MPI_Win) on win {
        let object = find(win)?;
        object.comm.note_collective(CALL);
        known(assert, MPI_MODE_NOPRECEDE | MPI_MODE_NOSUCCEED | MPI_MODE_NOPUT | MPI_MODE_NOSTORE)?;
        Ok(object.window.fence(object.runtime(), assert & MPI_MODE_NOSUCCEED == 0)?)
    }

    fn MPI_Win_post(group: MPI_Group, assert: c_int, win: MPI_Win) on win {
        let object = find(win)?;
        known(assert, MPI_MODE_NOCHECK | MPI_MODE_NOPUT | MPI_MODE_NOSTORE)?;
        let ranks = ranks_of(object, group)?;
        ranks.iter().for_each(|&rank| object.runtime().note_call(CALL, Some(rank)));
        Ok(object.window.post(object.runtime(), ranks)?)
    }

    fn MPI_Win_start(group: MPI_Group, assert: c_int, win: MPI_Win) on win {
        let object = find(win)?;
        known(assert, MPI_MODE_NOCHECK)?;
        let ranks = ranks_of(object, group)?;
        ranks.iter().for_each(|&rank| object.runtime().note_call(CALL, Some(rank)));
        Ok(object.window.start(object.runtime(), ranks)?)
    }

    fn MPI_Win_complete(win: MPI_Win) on win {
        let object = find(win)?;
        object.runtime().note_call(CALL, None);
        Ok(object.window.complete(object.runtime())?)
    }

    fn MPI_Win_wait(win: MPI_Win) on win {
        let object = find(win)?;
        object.runtime().note_call(CALL, None);
        object.window.end_exposure(object.runtime(), true)?;
        Ok(())
    }

    fn MPI_Win_test(win: MPI_Win, flag: Out<c_int>) on win {
        let object = find(win)?;
        flag.put(object.window.end_exposure(object.runtime(), false)?.into())
    }

    fn MPI_Win_lock(lock_type: c_int, rank: PeerRank, assert: c_int, win: MPI_Win) on win {
        let object = find(win)?;
        known(assert, MPI_MODE_NOCHECK)?;
        let locking = match lock_type {
            _ if assert & MPI_MODE_NOCHECK != 0 => Locking::Unchecked,
            MPI_LOCK_EXCLUSIVE => Locking::Exclusive,
            MPI_LOCK_SHARED => Locking::Shared,
            other => {
                let why =
                    format!("invalid lock type {other}; pass MPI_LOCK_SHARED or MPI_LOCK_EXCLUSIVE");
                return Err(Failure::new(MPI_ERR_LOCKTYPE, why));
            }
        };
        let Some(rank) = object.target(rank)? else { return Ok(()) };
        object.runtime().note_call(CALL, Some(rank));
        Ok(object.window.lock(object.runtime(), rank, locking)?)
    }

    fn MPI_Win_unlock(rank: PeerRank, win: MPI_Win) on win {
        let object = find(win)?;
        let Some(rank) = object.target(rank)? else { return Ok(()) };
        object.runtime().note_call(CALL, Some(rank));
        Ok(object.window.unlock(object.runtime(), rank)?)
    }

    fn MPI_Win_lock_all(assert: c_int, win: MPI_Win) on win {
        known(assert, MPI_MODE_NOCHECK)?;
        let object = find(win)?;
        object.runtime().note_call(CALL, None);
        Ok(object.window.lock_all(assert & MPI_MODE_NOCHECK == 0)?)
    }

    fn MPI_Win_unlock_all(win: MPI_Win) on win {
        let object = find(win)?;
        object.runtime().note_call(CALL, None);
        Ok(object.window.unlock_all(object.runtime())?)
    }

    fn MPI_Win_flush(rank: PeerRank, win: MPI_Win) on win {
        flush_one(rank, win)
    }

    fn MPI_Win_flush_local(rank: PeerRank, win: MPI_Win) on win {
        flush_one(rank, win)
    }

    fn MPI_Win_flush_all(win: MPI_Win) on win {
        flush_all(win)
    }

    fn MPI_Win_flush_local_all(win: MPI_Win) on win {
        flush_all(win)
    }

    fn MPI_Win_sync(win: MPI_Win) on win {
        find(win)?.window.sync();
        Ok(())
    }
}

fn flush_one(rank: PeerRank, win: MPI_Win) -> Result {
    let object = find(win)?;
    let Some(rank) = object.target(rank)? else { return Ok(()) };
    Ok(object.window.flush(object.runtime(), Some(rank))?)
}

fn flush_all(win: MPI_Win) -> Result {
    let object = find(win)?;
    Ok(object.window.flush(object.runtime(), None)?)
}

/// Checks that an assertion has no other bits.
fn known(assert: c_int, bits: c_int) -> Result {
    match assert & !bits {
        0 => Ok(()),
        other => {
            let why = format!("invalid assertion {other}; pass 0, or those that this call has");
            Err(Failure::new(MPI_ERR_ASSERT, why))
        }
    }
}

/// The ranks of a group in the window.
fn ranks_of(win: &Win, handle: MPI_Group) -> Result<Vec<u32>> {
    let members = win.comm.members.group();
    let rank = |peer| {
        let why = "the group has members that are not in the window";
        members.rank_of(peer).ok_or_else(|| Failure::new(MPI_ERR_GROUP, why))
    };
    group::find(handle)?.members().map(rank).collect()
}
