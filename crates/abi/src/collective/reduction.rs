//! Collectives that combine: from the arguments of a call to what does it.

use std::ffi::c_int;

use ferrywire_mpi::collective::inter::{self, Root};
use ferrywire_mpi::collective::{self as algorithm, Combiner, Member};

use super::Collecting;
use super::build::{Build, all_blocks, is_in_place, root_between, root_within};
use super::movement::idle;
use crate::comm::Comm;
use crate::constants::{MPI_ERR_ARG, MPI_ERR_COMM};
use crate::data::Data;
use crate::datatype;
use crate::failure::{Failure, Result};
use crate::op::Combining;
use crate::pointer::In;
use crate::sizes::{self, Wide};
use crate::types::{MPI_Datatype, MPI_Op};

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

    pub(super) fn combining(&self) -> Result<(Combiner, Option<Combining>)> {
        let combining = Combining::new(self.op, self.datatype)?;
        Ok((combining.combiner, Some(combining)))
    }
}

pub(super) fn reduce<C: Wide>(comm: &Comm, reduced: Reduced<C>, root: c_int) -> Result<Collecting> {
    let mut build = Build::new(comm);
    if let Some(sides) = build.sides() {
        let root = root_between(comm, root)?;
        let bytes = match root {
            Root::Us => build.get(reduced.received()?),
            // We have nothing to do with it, and what we pass means nothing.
            Root::Ours => return idle(build, sides),
            Root::Theirs(_) => build.give(reduced.data(reduced.sendbuf)?),
        };
        let (combiner, combining) = reduced.combining()?;
        let work = inter::reduce_work_bytes(sides, root, combiner, bytes.len);
        return build
            .done(work, combining, |work| inter::reduce(sides, root, combiner, bytes, work));
    }
    let (combiner, combining) = reduced.combining()?;
    let (me, root) = (build.me(), root_within(comm, root)?);
    let bytes = match (me.rank == root, reduced.sent()?) {
        (true, sent) => build.contribute(sent, reduced.received()?)?,
        (false, Some(sent)) => build.give(sent),
        (false, None) => {
            return Err(Failure::new(MPI_ERR_ARG, "only the root may pass MPI_IN_PLACE"));
        }
    };
    let work = algorithm::reduce_work_bytes(me, root, combiner, bytes.len);
    build.done(work, combining, |work| algorithm::reduce(me, root, combiner, bytes, work))
}

pub(super) fn allreduce<C: Wide>(comm: &Comm, reduced: Reduced<C>) -> Result<Collecting> {
    let mut build = Build::new(comm);
    let (combiner, combining) = reduced.combining()?;
    if let Some(sides) = build.sides() {
        let mine = build.give(reduced.data(reduced.sendbuf)?);
        let result = build.get(reduced.received()?);
        let work = inter::allreduce_work_bytes(sides, combiner, mine.len);
        return build
            .done(work, combining, |work| inter::allreduce(sides, combiner, mine, result, work));
    }
    let me = build.me();
    let (mine, result) = build.lend_both(reduced.sent()?, reduced.received()?)?;
    let work = algorithm::allreduce_work_bytes(me, combiner, mine, result);
    build.done(work, combining, |work| algorithm::allreduce(me, combiner, mine, result, work))
}

pub(super) fn scan<C: Wide>(comm: &Comm, reduced: Reduced<C>) -> Result<Collecting> {
    let mut build = Build::new(comm);
    let me = within_only(&build)?;
    let (combiner, combining) = reduced.combining()?;
    let bytes = build.contribute(reduced.sent()?, reduced.received()?)?;
    build.done(bytes.len, combining, |work| algorithm::scan(me, combiner, bytes, work))
}

pub(super) fn exscan<C: Wide>(comm: &Comm, reduced: Reduced<C>) -> Result<Collecting> {
    let mut build = Build::new(comm);
    let me = within_only(&build)?;
    let (combiner, combining) = reduced.combining()?;
    let bytes = match (me.rank, reduced.sent()?) {
        // The first gets nothing: where others have the result, it may have no memory at all.
        (0, Some(sent)) => build.give(sent),
        (_, sent) => build.contribute(sent, reduced.received()?)?,
    };
    let work = algorithm::exscan_work_bytes(bytes.len);
    build.done(work, combining, |work| algorithm::exscan(me, combiner, bytes, work))
}

pub(super) fn within_only<'a>(build: &Build<'a>) -> Result<Member<'a>> {
    match build.sides() {
        None => Ok(build.me()),
        Some(_) => Err(Failure::new(MPI_ERR_COMM, "it makes no sense between two groups")),
    }
}

pub(super) fn reduce_scatter_block<C: Wide>(
    comm: &Comm,
    reduced: Reduced<C>,
) -> Result<Collecting> {
    let mut build = Build::new(comm);
    let (combiner, combining) = reduced.combining()?;
    let Reduced { sendbuf, recvbuf, count, datatype, .. } = reduced;
    let ranks = build.me().size();
    if let Some(sides) = build.sides() {
        let all = build.give(all_blocks(sendbuf, count, ranks, datatype)?);
        let mine = build.get(reduced.received()?);
        let work = inter::reduce_scatter_work_bytes(sides, combiner, all.len);
        return build.done(work, combining, |work| {
            inter::reduce_scatter_block(sides, combiner, all, mine, work)
        });
    }
    let me = build.me();
    let (all, mine) = match is_in_place(sendbuf) {
        true => {
            let all = build.give(all_blocks(recvbuf, count, ranks, datatype)?);
            (all, build.get_aside(reduced.received()?))
        }
        false => {
            let all = build.give(all_blocks(sendbuf, count, ranks, datatype)?);
            (all, build.get(reduced.received()?))
        }
    };
    let work = algorithm::reduce_scatter_block_work_bytes(me, mine.len);
    build.done(work, combining, |work| {
        algorithm::reduce_scatter_block(me, combiner, all, mine, work)
    })
}

pub(super) fn reduce_scatter<C: Wide>(
    comm: &Comm,
    (sendbuf, recvbuf, counts): (u64, u64, In<C>),
    datatype: MPI_Datatype,
    op: MPI_Op,
) -> Result<Collecting> {
    let mut build = Build::new(comm);
    let (ranks, rank) = (build.me().size(), build.me().rank);
    let counts = sizes::wide_all(counts, ranks as usize)?;
    let total: i64 = counts.iter().sum();
    let count = counts[rank as usize];
    let reduced = Reduced { sendbuf, recvbuf, count, datatype, op };
    let (combiner, combining) = reduced.combining()?;
    let size = datatype::find_committed(datatype)?.size();
    let lens = counts.iter().map(|&count| Ok(sizes::count(count)? * size));
    let lens = lens.collect::<Result<Vec<u64>>>()?;
    if let Some(sides) = build.sides() {
        let all = build.give(Data::new(sendbuf, sizes::count(total)?, datatype)?);
        let mine = build.get(reduced.received()?);
        let work = inter::reduce_scatter_work_bytes(sides, combiner, all.len);
        return build.done(work, combining, |work| {
            inter::reduce_scatter(sides, combiner, all, &lens, mine, work)
        });
    }
    let me = build.me();
    let (all, mine) = match is_in_place(sendbuf) {
        true => {
            let all = build.give(Data::new(recvbuf, sizes::count(total)?, datatype)?);
            (all, build.get_aside(reduced.received()?))
        }
        false => {
            let all = build.give(Data::new(sendbuf, sizes::count(total)?, datatype)?);
            (all, build.get(reduced.received()?))
        }
    };
    let work = algorithm::reduce_scatter_work_bytes(me, &lens);
    build.done(work, combining, |work| {
        algorithm::reduce_scatter(me, combiner, all, &lens, mine, work)
    })
}
