//! Counters of windows, puts that raise them, and operations that they start, for C: `ferry.h`.

use std::ffi::c_int;

use ferrywire_host::ErrorCode;

use crate::calls::entry::entries;
use crate::calls::point_to_point::request::startable;
use crate::calls::windows::access::target_of;
use crate::convert::argument::PeerRank;
use crate::convert::constants::MPI_ERR_ARG;
use crate::convert::failure::{Failure, Result};
use crate::convert::pointer::{Choice, Out};
use crate::convert::types::{MPI_Aint, MPI_Count, MPI_Datatype, MPI_Request, MPI_Win};
use crate::objects::data::Data;
use crate::objects::window::find;

entries! {
    fn Ferry_Win_counters(win: MPI_Win, count: c_int) on win {
        let object = find(win)?;
        Ok(object.window.open_counters(object.runtime(), u32::try_from(count).unwrap_or(0))?)
    }

    fn Ferry_Put_notify(
        origin_addr: Choice, origin_count: MPI_Count, origin_datatype: MPI_Datatype,
        target_rank: PeerRank, target_disp: MPI_Aint, target_count: MPI_Count,
        target_datatype: MPI_Datatype, counter: c_int, win: MPI_Win,
    ) on win {
        let object = find(win)?;
        let source = Data::to_read(origin_addr, origin_count, origin_datatype)?;
        let target = (target_rank, target_disp, target_count, target_datatype);
        let Some(data) = target_of(object, target, source.bytes())? else { return Ok(()) };
        let bytes = source.to_bytes();
        Ok(object.window.put_notify(object.runtime(), data, &bytes, counter.into())?)
    }

    fn Ferry_Counter_read(win: MPI_Win, counter: c_int, value: Out<MPI_Count>) on win {
        let object = find(win)?;
        let found = object.window.read_counter(object.runtime(), counter.into())?;
        value.put(MPI_Count::try_from(found).unwrap_or(MPI_Count::MAX))
    }

    fn Ferry_Counter_set(win: MPI_Win, counter: c_int, value: MPI_Count) on win {
        let object = find(win)?;
        Ok(object.window.set_counter(object.runtime(), counter.into(), known(value)?)?)
    }

    fn Ferry_Counter_wait(win: MPI_Win, counter: c_int, at_least: MPI_Count) on win {
        let object = find(win)?;
        Ok(object.window.wait_counter(object.runtime(), counter.into(), known(at_least)?)?)
    }

    fn Ferry_Counter_trigger(
        win: MPI_Win, counter: c_int, at_least: MPI_Count, request: Out<MPI_Request>,
    ) on win {
        let object = find(win)?;
        let trigger = object.window.trigger(object.runtime(), counter.into(), known(at_least)?)?;
        startable(request.get()?)?.arm(trigger)
    }
}

/// The value of a counter.
fn known(value: MPI_Count) -> Result<u64> {
    u64::try_from(value).map_err(|_| {
        let why = format!("invalid value {value} of a counter; it must not be negative");
        Failure::new(MPI_ERR_ARG, why).coded(ErrorCode::COUNTER)
    })
}
