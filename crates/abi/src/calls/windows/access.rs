//! Accesses to windows. Those of elements without gaps in shared memory take a short way.

use ferrywire_mpi::datatype::{BasicKind, Predefined};
use ferrywire_runtime::TargetData;

use crate::calls::entry::entries;
use crate::convert::argument::PeerRank;
use crate::convert::constants::{MPI_ERR_ARG, MPI_ERR_TYPE, MPI_NO_OP};
use crate::convert::failure::{Failure, Result};
use crate::convert::pointer::{Choice, ChoiceMut, Out};
use crate::convert::sizes::{self, Wide};
use crate::convert::types::{MPI_Aint, MPI_Datatype, MPI_Op, MPI_Request, MPI_Win};
use crate::objects::data::{Data, plain_bytes, plain_bytes_mut};
use crate::objects::datatype::{self, find_committed, straight_bytes};
use crate::objects::op;
use crate::objects::request::DONE;
use crate::objects::window::{Win, find};

entries! {
    fn MPI_Put / MPI_Put_c (
        origin_addr: Choice, origin_count: Size, origin_datatype: MPI_Datatype,
        target_rank: PeerRank, target_disp: MPI_Aint, target_count: Size,
        target_datatype: MPI_Datatype, win: MPI_Win,
    ) on win {
        let target = (target_rank, target_disp, target_count, target_datatype);
        put(win, (origin_addr, origin_count, origin_datatype), target)
    }

    fn MPI_Rput / MPI_Rput_c (
        origin_addr: Choice, origin_count: Size, origin_datatype: MPI_Datatype,
        target_rank: PeerRank, target_disp: MPI_Aint, target_count: Size,
        target_datatype: MPI_Datatype, win: MPI_Win, request: Out<MPI_Request>,
    ) on win {
        let target = (target_rank, target_disp, target_count, target_datatype);
        put(win, (origin_addr, origin_count, origin_datatype), target)?;
        request.put(DONE)
    }

    fn MPI_Get / MPI_Get_c (
        origin_addr: ChoiceMut, origin_count: Size, origin_datatype: MPI_Datatype,
        target_rank: PeerRank, target_disp: MPI_Aint, target_count: Size,
        target_datatype: MPI_Datatype, win: MPI_Win,
    ) on win {
        let target = (target_rank, target_disp, target_count, target_datatype);
        get(win, (origin_addr, origin_count, origin_datatype), target)
    }

    fn MPI_Rget / MPI_Rget_c (
        origin_addr: ChoiceMut, origin_count: Size, origin_datatype: MPI_Datatype,
        target_rank: PeerRank, target_disp: MPI_Aint, target_count: Size,
        target_datatype: MPI_Datatype, win: MPI_Win, request: Out<MPI_Request>,
    ) on win {
        let target = (target_rank, target_disp, target_count, target_datatype);
        get(win, (origin_addr, origin_count, origin_datatype), target)?;
        request.put(DONE)
    }

    fn MPI_Accumulate / MPI_Accumulate_c (
        origin_addr: Choice, origin_count: Size, origin_datatype: MPI_Datatype,
        target_rank: PeerRank, target_disp: MPI_Aint, target_count: Size,
        target_datatype: MPI_Datatype, op: MPI_Op, win: MPI_Win,
    ) on win {
        let target = (target_rank, target_disp, target_count, target_datatype);
        add(win, (origin_addr, origin_count, origin_datatype), target, op)
    }

    fn MPI_Raccumulate / MPI_Raccumulate_c (
        origin_addr: Choice, origin_count: Size, origin_datatype: MPI_Datatype,
        target_rank: PeerRank, target_disp: MPI_Aint, target_count: Size,
        target_datatype: MPI_Datatype, op: MPI_Op, win: MPI_Win, request: Out<MPI_Request>,
    ) on win {
        let target = (target_rank, target_disp, target_count, target_datatype);
        add(win, (origin_addr, origin_count, origin_datatype), target, op)?;
        request.put(DONE)
    }

    fn MPI_Get_accumulate / MPI_Get_accumulate_c (
        origin_addr: Choice, origin_count: Size, origin_datatype: MPI_Datatype,
        result_addr: ChoiceMut, result_count: Size, result_datatype: MPI_Datatype,
        target_rank: PeerRank, target_disp: MPI_Aint, target_count: Size,
        target_datatype: MPI_Datatype, op: MPI_Op, win: MPI_Win,
    ) on win {
        let target = (target_rank, target_disp, target_count, target_datatype);
        let source = (origin_addr, origin_count, origin_datatype);
        fetch(win, source, (result_addr, result_count, result_datatype), target, op)
    }

    fn MPI_Rget_accumulate / MPI_Rget_accumulate_c (
        origin_addr: Choice, origin_count: Size, origin_datatype: MPI_Datatype,
        result_addr: ChoiceMut, result_count: Size, result_datatype: MPI_Datatype,
        target_rank: PeerRank, target_disp: MPI_Aint, target_count: Size,
        target_datatype: MPI_Datatype, op: MPI_Op, win: MPI_Win, request: Out<MPI_Request>,
    ) on win {
        let target = (target_rank, target_disp, target_count, target_datatype);
        let source = (origin_addr, origin_count, origin_datatype);
        fetch(win, source, (result_addr, result_count, result_datatype), target, op)?;
        request.put(DONE)
    }

    fn MPI_Fetch_and_op(
        origin_addr: Choice, result_addr: ChoiceMut, datatype: MPI_Datatype, target_rank: PeerRank,
        target_disp: MPI_Aint, op: MPI_Op, win: MPI_Win,
    ) on win {
        let target = (target_rank, target_disp, 1, datatype);
        fetch(win, (origin_addr, 1, datatype), (result_addr, 1, datatype), target, op)
    }

    fn MPI_Compare_and_swap(
        origin_addr: Choice, compare_addr: Choice, result_addr: ChoiceMut, datatype: MPI_Datatype,
        target_rank: PeerRank, target_disp: MPI_Aint, win: MPI_Win,
    ) on win {
        let object = find(win)?;
        let [value, expected] = [origin_addr, compare_addr].map(|from| Data::to_read(from, 1, datatype));
        let (value, expected) = (value?, expected?);
        let result = Data::to_write(result_addr, 1, datatype)?;
        if !datatype::find(datatype)?.predefined().is_some_and(can_be_swapped) {
            let why = "a compare-and-swap takes an integer, a truth value or a byte";
            return Err(Failure::new(MPI_ERR_TYPE, why));
        }
        let Some(data) = target_of(object, (target_rank, target_disp, 1, datatype), value.bytes())?
        else {
            return Ok(());
        };
        let (expected, value) = (expected.to_bytes(), value.to_bytes());
        result.fill(|before| {
            object.window.compare_swap(object.runtime(), data, &expected, &value, before)
        })?;
        Ok(())
    }
}

/// Whether two values are equal exactly if their bytes are. The standard leaves characters
/// out, and other libraries take them.
fn can_be_swapped(datatype: Predefined) -> bool {
    use BasicKind::{Byte, Character, Logical, Signed, Unsigned};
    matches!(datatype, Predefined::One(basic)
        if matches!(basic.sort(), Signed | Unsigned | Logical | Byte | Character))
}

/// The arguments that describe elements of the origin.
type OriginArguments<B, C> = (B, C, MPI_Datatype);
/// The arguments that describe elements of a target.
pub(super) type TargetArguments<C> = (PeerRank, MPI_Aint, C, MPI_Datatype);

/// The elements of a target, which have as many bytes as those of the origin. `None` for MPI_PROC_NULL.
#[inline]
pub(super) fn target_of<'a>(
    win: &Win,
    (rank, displacement, count, handle): TargetArguments<impl Wide>,
    bytes: u64,
) -> Result<Option<TargetData<'a>>> {
    let (count, datatype) = (sizes::count(count)?, find_committed(handle)?);
    if count.checked_mul(datatype.size()) != Some(bytes) {
        let why = "origin and target differ in size; counts and datatypes must match";
        return Err(Failure::new(MPI_ERR_ARG, why));
    }
    let displacement = displacement as i64;
    let target = win.target(rank)?;
    Ok(target.map(|rank| TargetData { rank, displacement, count, datatype }))
}

/// A target whose elements have as many bytes, without gaps. `None` for all that is less simple, or wrong.
#[inline(always)]
fn plain_target(
    win: &Win,
    (rank, displacement, count, handle): TargetArguments<impl Wide>,
    bytes: &[u8],
) -> Option<(u32, i64)> {
    let count = u64::try_from(count.wide()).ok()?;
    let same = count.checked_mul(straight_bytes(handle)?)? == bytes.len() as u64;
    let rank = rank.below(win.comm.members.group().size()).filter(|_| same)?;
    Some((rank, displacement as i64))
}

#[inline(always)]
fn put<C: Wide>(
    win: MPI_Win,
    (buffer, count, datatype): OriginArguments<Choice, C>,
    target: TargetArguments<C>,
) -> Result {
    let object = find(win)?;
    if let Some(bytes) = plain_bytes(buffer, count, datatype)
        && let Some((rank, displacement)) = plain_target(object, target, bytes)
        && object.window.put_directly(rank, displacement, bytes)
    {
        return Ok(());
    }
    put_any(object, Data::to_read(buffer, count, datatype)?, target)
}

#[inline(never)]
fn put_any(object: &Win, source: Data, target: TargetArguments<impl Wide>) -> Result {
    let Some(data) = target_of(object, target, source.bytes())? else { return Ok(()) };
    Ok(object.window.put(object.runtime(), data, &source.to_bytes())?)
}

#[inline(always)]
fn get<C: Wide>(
    win: MPI_Win,
    (buffer, count, datatype): OriginArguments<ChoiceMut, C>,
    target: TargetArguments<C>,
) -> Result {
    let object = find(win)?;
    if let Some(bytes) = plain_bytes_mut(buffer, count, datatype)
        && let Some((rank, displacement)) = plain_target(object, target, bytes)
        && object.window.get_directly(rank, displacement, bytes)
    {
        return Ok(());
    }
    get_any(object, Data::to_write(buffer, count, datatype)?, target)
}

#[inline(never)]
fn get_any(object: &Win, into: Data, target: TargetArguments<impl Wide>) -> Result {
    let Some(data) = target_of(object, target, into.bytes())? else { return Ok(()) };
    Ok(into.fill(|bytes| object.window.get(object.runtime(), data, bytes))?)
}

/// An accumulate that returns nothing.
#[inline(always)]
fn add<C: Wide>(
    win: MPI_Win,
    (buffer, count, datatype): OriginArguments<Choice, C>,
    target: TargetArguments<C>,
    op: MPI_Op,
) -> Result {
    let object = find(win)?;
    if let Some(source) = plain_bytes(buffer, count, datatype)
        && let Some(place) = plain_target(object, target, source)
        && let Some(operator) = op::accumulating_plainly(op, target.3)
        && object.window.accumulate_directly(place, operator, source, None)
    {
        return Ok(());
    }
    accumulate(object, Some(Data::to_read(buffer, count, datatype)?), None, target, op)
}

/// An accumulate that returns what was there.
#[inline(always)]
fn fetch<C: Wide>(
    win: MPI_Win,
    (buffer, count, datatype): OriginArguments<Choice, C>,
    (result, result_count, result_datatype): OriginArguments<ChoiceMut, C>,
    target: TargetArguments<C>,
    op: MPI_Op,
) -> Result {
    let object = find(win)?;
    if let Some(before) = plain_bytes_mut(result, result_count, result_datatype)
        && let Some(source) = plain_bytes(buffer, count, datatype)
        && source.len() == before.len()
        && let Some(place) = plain_target(object, target, source)
        && let Some(operator) = op::accumulating_plainly(op, target.3)
        && object.window.accumulate_directly(place, operator, source, Some(before))
    {
        return Ok(());
    }
    // MPI_NO_OP has no origin.
    let source = (op != MPI_NO_OP).then(|| Data::to_read(buffer, count, datatype)).transpose()?;
    let before = Data::to_write(result, result_count, result_datatype)?;
    accumulate(object, source, Some(before), target, op)
}

#[inline(never)]
fn accumulate(
    object: &Win,
    source: Option<Data>,
    result: Option<Data>,
    target: TargetArguments<impl Wide>,
    op: MPI_Op,
) -> Result {
    let bytes = source.as_ref().or(result.as_ref()).map_or(0, Data::bytes);
    if result.as_ref().is_some_and(|result| result.bytes() != bytes) {
        let why = "origin and result differ in size; counts and datatypes must match";
        return Err(Failure::new(MPI_ERR_ARG, why));
    }
    let Some(data) = target_of(object, target, bytes)? else { return Ok(()) };
    if bytes == 0 {
        return Ok(());
    }
    let operator = op::accumulating(op, data.datatype)?;
    let source = match &source {
        Some(source) => source.to_bytes(),
        None => vec![0; usize::try_from(bytes).expect("the result is in memory")].into(),
    };
    let (window, comm) = (&object.window, object.runtime());
    Ok(match result {
        None => window.accumulate(comm, data, operator, &source, None),
        Some(result) => {
            result.fill(|before| window.accumulate(comm, data, operator, &source, Some(before)))
        }
    }?)
}
