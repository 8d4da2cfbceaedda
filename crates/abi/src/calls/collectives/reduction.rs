//! Collectives that combine data: from the arguments of a call to a schedule.

use ferrywire_host::ErrorCode;
use ferrywire_mpi::collective::ReduceOp;
use ferrywire_mpi::collective::inter::Root as Side;
use ferrywire_runtime::Root;

use super::build::{Build, all_blocks, is_in_place, root_of};
use super::movement::idle;
use crate::convert::argument::RootRank;
use crate::convert::constants::{MPI_ERR_ARG, MPI_ERR_COMM};
use crate::convert::failure::{Failure, Result};
use crate::convert::pointer::In;
use crate::convert::sizes::{self, Wide};
use crate::convert::types::{MPI_Datatype, MPI_Op};
use crate::objects::collecting::Collecting;
use crate::objects::comm::Comm;
use crate::objects::data::Data;
use crate::objects::datatype;
use crate::objects::op::Combining;

/// The buffers of a reduction.
#[derive(Clone, Copy)]
pub(super) struct Reduced<C> {
    pub(super) sendbuf: u64,
    pub(super) recvbuf: u64,
    pub(super) count: C,
    pub(super) datatype: MPI_Datatype,
    pub(super) op: MPI_Op,
}

impl<C: Wide> Reduced<C> {
    pub(super) fn sent(&self) -> Result<Option<Data>> {
        match is_in_place(self.sendbuf) {
            true => Ok(None),
            false => self.data(self.sendbuf).map(Some),
        }
    }

    pub(super) fn received(&self) -> Result<Data> {
        self.data(self.recvbuf)
    }

    pub(super) fn data(&self, address: u64) -> Result<Data> {
        Data::new(address, sizes::count(self.count)?, self.datatype)
    }

    pub(super) fn combining(&self, comm: &Comm) -> Result<(ReduceOp, Option<Combining>)> {
        let combining = Combining::new(self.op, self.datatype, || Ok(comm.process))?;
        Ok((combining.reduce_op, Some(combining)))
    }
}

pub(super) fn reduce<C: Wide>(
    comm: &Comm,
    reduced: Reduced<C>,
    root: RootRank,
) -> Result<Collecting> {
    let mut build = Build::new(comm);
    let root = root_of(comm, root)?;
    let bytes = match root {
        Root::Between(Side::Us) => build.get(reduced.received()?),
        // This rank takes no part, and its arguments are ignored.
        Root::Between(Side::Ours) => return Ok(idle(build)),
        Root::Between(Side::Theirs(_)) => build.give(reduced.data(reduced.sendbuf)?),
        Root::Rank(root) => match (build.rank() == root, reduced.sent()?) {
            (true, sent) => build.contribute(sent, reduced.received()?)?,
            (false, Some(sent)) => build.give(sent),
            (false, None) => {
                return Err(Failure::new(MPI_ERR_ARG, "only the root may pass MPI_IN_PLACE")
                    .coded(ErrorCode::IN_PLACE));
            }
        },
    };
    let (reduce_op, combining) = reduced.combining(comm)?;
    Ok(build.done(comm.runtime().reduce(root, reduce_op, bytes), combining))
}

pub(super) fn allreduce<C: Wide>(comm: &Comm, reduced: Reduced<C>) -> Result<Collecting> {
    let mut build = Build::new(comm);
    let (reduce_op, combining) = reduced.combining(comm)?;
    let (mine, result) = match build.is_between() {
        true => {
            let mine = build.give(reduced.data(reduced.sendbuf)?);
            (mine, build.get(reduced.received()?))
        }
        false => build.lend_both(reduced.sent()?, reduced.received()?)?,
    };
    Ok(build.done(comm.runtime().allreduce(reduce_op, mine, result), combining))
}

pub(super) fn scan<C: Wide>(comm: &Comm, reduced: Reduced<C>) -> Result<Collecting> {
    let mut build = Build::new(comm);
    within_only(&build)?;
    let (reduce_op, combining) = reduced.combining(comm)?;
    let bytes = build.contribute(reduced.sent()?, reduced.received()?)?;
    Ok(build.done(comm.runtime().scan(reduce_op, bytes), combining))
}

pub(super) fn exscan<C: Wide>(comm: &Comm, reduced: Reduced<C>) -> Result<Collecting> {
    let mut build = Build::new(comm);
    within_only(&build)?;
    let (reduce_op, combining) = reduced.combining(comm)?;
    let bytes = match (build.rank(), reduced.sent()?) {
        // Rank 0 gets no result, and may pass no memory for one.
        (0, Some(sent)) => build.give(sent),
        (_, sent) => build.contribute(sent, reduced.received()?)?,
    };
    Ok(build.done(comm.runtime().exscan(reduce_op, bytes), combining))
}

fn within_only(build: &Build<'_>) -> Result {
    match build.is_between() {
        false => Ok(()),
        true => {
            Err(Failure::new(MPI_ERR_COMM, "the operation is not defined for intercommunicators")
                .coded(ErrorCode::INTERCOMM))
        }
    }
}

pub(super) fn reduce_scatter_block<C: Wide>(
    comm: &Comm,
    reduced: Reduced<C>,
) -> Result<Collecting> {
    let mut build = Build::new(comm);
    let (reduce_op, combining) = reduced.combining(comm)?;
    let Reduced { sendbuf, recvbuf, count, datatype, .. } = reduced;
    let ranks = comm.members.group().size();
    let (all, mine) = match is_in_place(sendbuf) && !build.is_between() {
        true => {
            let all = build.give(all_blocks(recvbuf, count, ranks, datatype)?);
            (all, build.get_aside(reduced.received()?))
        }
        false => {
            let all = build.give(all_blocks(sendbuf, count, ranks, datatype)?);
            (all, build.get(reduced.received()?))
        }
    };
    Ok(build.done(comm.runtime().reduce_scatter_block(reduce_op, all, mine), combining))
}

pub(super) fn reduce_scatter<C: Wide>(
    comm: &Comm,
    (sendbuf, recvbuf, counts): (u64, u64, In<C>),
    datatype: MPI_Datatype,
    op: MPI_Op,
) -> Result<Collecting> {
    let mut build = Build::new(comm);
    let (ranks, rank) = (comm.members.group().size(), build.rank());
    let counts = sizes::wide_all(counts, ranks as usize)?;
    let total: i64 = counts.iter().sum();
    let count = counts[rank as usize];
    let reduced = Reduced { sendbuf, recvbuf, count, datatype, op };
    let (reduce_op, combining) = reduced.combining(comm)?;
    let size = datatype::find_committed(datatype)?.size();
    let lens = counts.iter().map(|&count| Ok(sizes::count(count)? * size));
    let lens = lens.collect::<Result<Vec<u64>>>()?;
    let (all, mine) = match is_in_place(sendbuf) && !build.is_between() {
        true => {
            let all = build.give(Data::new(recvbuf, sizes::count(total)?, datatype)?);
            (all, build.get_aside(reduced.received()?))
        }
        false => {
            let all = build.give(Data::new(sendbuf, sizes::count(total)?, datatype)?);
            (all, build.get(reduced.received()?))
        }
    };
    Ok(build.done(comm.runtime().reduce_scatter(reduce_op, all, &lens, mine), combining))
}
