//! Collectives that move bytes: from the arguments of a call to what does it.

use std::ffi::c_int;

use ferrywire_host::nic::Span;
use ferrywire_mpi::collective as algorithm;
use ferrywire_mpi::collective::inter::{self, Root, Sides};

use super::Collecting;
use super::build::{
    Blocks, Build, TypedBlocks, agree, all_blocks, at, is_in_place, part, root_between, root_within,
};
use crate::comm::Comm;
use crate::data::Data;
use crate::failure::Result;
use crate::pointer::{ChoiceMut, In};
use crate::sizes::{self, Wide};
use crate::types::MPI_Datatype;

/// What those of a root's group do who are not the root.
pub(super) fn idle(build: Build<'_>, sides: Sides<'_>) -> Result<Collecting> {
    build.done(0, None, |_| inter::broadcast(sides, Root::Ours, Span::EMPTY))
}

pub(super) fn barrier(comm: &Comm) -> Result<Collecting> {
    let build = Build::new(comm);
    let (me, sides) = (build.me(), build.sides());
    build.done(0, None, |_| sides.map_or_else(|| algorithm::barrier(me), inter::barrier))
}

pub(super) fn broadcast(
    comm: &Comm,
    buffer: ChoiceMut,
    count: impl Wide,
    datatype: MPI_Datatype,
    root: c_int,
) -> Result<Collecting> {
    let mut build = Build::new(comm);
    if let Some(sides) = build.sides() {
        let root = root_between(comm, root)?;
        if root == Root::Ours {
            return idle(build, sides);
        }
        let data = Data::to_write(buffer, count, datatype)?;
        let bytes = build.place(data, root == Root::Us, root != Root::Us);
        return build.done(0, None, |_| inter::broadcast(sides, root, bytes));
    }
    let (me, root) = (build.me(), root_within(comm, root)?);
    let data = Data::to_write(buffer, count, datatype)?;
    let bytes = build.place(data, me.rank == root, me.rank != root);
    build.done(0, None, |_| algorithm::broadcast(me, root, bytes))
}

/// What one rank sends and what it receives, where all blocks are alike.
#[derive(Clone, Copy)]
pub(super) struct Even<C> {
    pub(super) sendbuf: u64,
    pub(super) sendcount: C,
    pub(super) sendtype: MPI_Datatype,
    pub(super) recvbuf: u64,
    pub(super) recvcount: C,
    pub(super) recvtype: MPI_Datatype,
}

impl<C: Wide> Even<C> {
    pub(super) fn sent(&self) -> Result<Data> {
        Data::new(self.sendbuf, sizes::count(self.sendcount)?, self.sendtype)
    }

    pub(super) fn received(&self) -> Result<Data> {
        Data::new(self.recvbuf, sizes::count(self.recvcount)?, self.recvtype)
    }

    pub(super) fn all_sent(&self, blocks: u32) -> Result<Data> {
        all_blocks(self.sendbuf, self.sendcount, blocks, self.sendtype)
    }

    pub(super) fn all_received(&self, blocks: u32) -> Result<Data> {
        all_blocks(self.recvbuf, self.recvcount, blocks, self.recvtype)
    }
}

pub(super) fn gather<C: Wide>(comm: &Comm, even: Even<C>, root: c_int) -> Result<Collecting> {
    let mut build = Build::new(comm);
    let blocks = build.blocks();
    if let Some(sides) = build.sides() {
        let root = root_between(comm, root)?;
        let (mine, all, len) = match root {
            Root::Us => {
                let all = build.get(even.all_received(blocks)?);
                (Span::EMPTY, all, all.len / u64::from(blocks.max(1)))
            }
            Root::Ours => (Span::EMPTY, Span::EMPTY, 0),
            Root::Theirs(_) => {
                let mine = build.give(even.sent()?);
                (mine, Span::EMPTY, mine.len)
            }
        };
        let work = inter::gather_work_bytes(sides, root, len);
        return build.done(work, None, |work| inter::gather(sides, root, len, mine, all, work));
    }
    let (me, root) = (build.me(), root_within(comm, root)?);
    let (mine, all) = if me.rank != root {
        (build.give(even.sent()?), Span::EMPTY)
    } else if is_in_place(even.sendbuf) {
        let all = build.change(even.all_received(blocks)?);
        (part(all, root, blocks), all)
    } else {
        (build.give(even.sent()?), build.get(even.all_received(blocks)?))
    };
    if me.rank == root {
        agree(mine, part(all, root, blocks))?;
    }
    let work = algorithm::gather_work_bytes(me, root, mine.len);
    build.done(work, None, |work| algorithm::gather(me, root, mine, all, work))
}

pub(super) fn scatter<C: Wide>(comm: &Comm, even: Even<C>, root: c_int) -> Result<Collecting> {
    let mut build = Build::new(comm);
    let blocks = build.blocks();
    if let Some(sides) = build.sides() {
        let root = root_between(comm, root)?;
        let (all, mine, len) = match root {
            Root::Us => {
                let all = build.give(even.all_sent(blocks)?);
                (all, Span::EMPTY, all.len / u64::from(blocks.max(1)))
            }
            Root::Ours => (Span::EMPTY, Span::EMPTY, 0),
            Root::Theirs(_) => {
                let mine = build.get(even.received()?);
                (Span::EMPTY, mine, mine.len)
            }
        };
        let work = inter::scatter_work_bytes(sides, root, len);
        return build.done(work, None, |work| inter::scatter(sides, root, len, all, mine, work));
    }
    let (me, root) = (build.me(), root_within(comm, root)?);
    let (all, mine) = if me.rank != root {
        (Span::EMPTY, build.get(even.received()?))
    } else {
        let all = build.give(even.all_sent(blocks)?);
        match is_in_place(even.recvbuf) {
            true => (all, part(all, root, blocks)),
            false => (all, build.get(even.received()?)),
        }
    };
    if me.rank == root {
        agree(part(all, root, blocks), mine)?;
    }
    let work = algorithm::scatter_work_bytes(me, root, mine.len);
    build.done(work, None, |work| algorithm::scatter(me, root, all, mine, work))
}

pub(super) fn allgather<C: Wide>(comm: &Comm, even: Even<C>) -> Result<Collecting> {
    let mut build = Build::new(comm);
    let blocks = build.blocks();
    if let Some(sides) = build.sides() {
        let mine = build.give(even.sent()?);
        let all = build.get(even.all_received(blocks)?);
        return build.done(0, None, |_| inter::allgather(sides, mine, all));
    }
    let me = build.me();
    let (mine, all) = match is_in_place(even.sendbuf) {
        true => {
            let all = build.change(even.all_received(blocks)?);
            (part(all, me.rank, blocks), all)
        }
        false => (build.give(even.sent()?), build.get(even.all_received(blocks)?)),
    };
    agree(mine, part(all, me.rank, blocks))?;
    let work = algorithm::allgather_work_bytes(me, mine.len);
    build.done(work, None, |work| algorithm::allgather(me, mine, all, work))
}

pub(super) fn alltoall<C: Wide>(comm: &Comm, even: Even<C>) -> Result<Collecting> {
    let mut build = Build::new(comm);
    let blocks = build.blocks();
    let (source, into) = match is_in_place(even.sendbuf) {
        true => {
            let all = build.change(even.all_received(blocks)?);
            (all, all)
        }
        false => (build.give(even.all_sent(blocks)?), build.get(even.all_received(blocks)?)),
    };
    if let Some(sides) = build.sides() {
        return build.done(0, None, |_| inter::alltoall(sides, source, into));
    }
    let me = build.me();
    agree(part(source, me.rank, blocks), part(into, me.rank, blocks))?;
    let work = algorithm::alltoall_work_bytes(source, into);
    build.done(work, None, |work| algorithm::alltoall(me, source, into, work))
}

pub(super) fn gatherv<C: Wide, D: Wide>(
    comm: &Comm,
    (sendbuf, sendcount, sendtype): (u64, C, MPI_Datatype),
    (recvbuf, counts, displs, recvtype): (u64, In<C>, In<D>, MPI_Datatype),
    root: c_int,
) -> Result<Collecting> {
    let mut build = Build::new(comm);
    let blocks = build.blocks();
    let sent = || Data::new(sendbuf, sizes::count(sendcount)?, sendtype);
    let received = || Blocks::new(recvbuf, counts, displs, blocks, recvtype);
    if let Some(sides) = build.sides() {
        let root = root_between(comm, root)?;
        let (mine, all) = match root {
            Root::Us => (Span::EMPTY, received()?.each(|data| build.get(data))?),
            Root::Ours => (Span::EMPTY, Vec::new()),
            Root::Theirs(_) => (build.give(sent()?), Vec::new()),
        };
        return build.done(0, None, |_| inter::gather_blocks(sides, root, mine, at(&all)));
    }
    let (me, root) = (build.me(), root_within(comm, root)?);
    let (mine, all) = if me.rank != root {
        (build.give(sent()?), Vec::new())
    } else if is_in_place(sendbuf) {
        let all = received()?.each(|data| build.change(data))?;
        (all[root as usize], all)
    } else {
        (build.give(sent()?), received()?.each(|data| build.get(data))?)
    };
    if me.rank == root {
        agree(mine, all[root as usize])?;
    }
    build.done(0, None, |_| algorithm::gather_blocks(me, root, mine, at(&all)))
}

pub(super) fn scatterv<C: Wide, D: Wide>(
    comm: &Comm,
    (sendbuf, counts, displs, sendtype): (u64, In<C>, In<D>, MPI_Datatype),
    (recvbuf, recvcount, recvtype): (u64, C, MPI_Datatype),
    root: c_int,
) -> Result<Collecting> {
    let mut build = Build::new(comm);
    let blocks = build.blocks();
    let sent = || Blocks::new(sendbuf, counts, displs, blocks, sendtype);
    let received = || Data::new(recvbuf, sizes::count(recvcount)?, recvtype);
    if let Some(sides) = build.sides() {
        let root = root_between(comm, root)?;
        let (all, mine) = match root {
            Root::Us => (sent()?.each(|data| build.give(data))?, Span::EMPTY),
            Root::Ours => (Vec::new(), Span::EMPTY),
            Root::Theirs(_) => (Vec::new(), build.get(received()?)),
        };
        return build.done(0, None, |_| inter::scatter_blocks(sides, root, at(&all), mine));
    }
    let (me, root) = (build.me(), root_within(comm, root)?);
    let (all, mine) = if me.rank != root {
        (Vec::new(), build.get(received()?))
    } else {
        let all = sent()?.each(|data| build.give(data))?;
        match is_in_place(recvbuf) {
            true => (all.clone(), all[root as usize]),
            false => (all, build.get(received()?)),
        }
    };
    if me.rank == root {
        agree(all[root as usize], mine)?;
    }
    build.done(0, None, |_| algorithm::scatter_blocks(me, root, at(&all), mine))
}

pub(super) fn allgatherv<C: Wide, D: Wide>(
    comm: &Comm,
    (sendbuf, sendcount, sendtype): (u64, C, MPI_Datatype),
    (recvbuf, counts, displs, recvtype): (u64, In<C>, In<D>, MPI_Datatype),
) -> Result<Collecting> {
    let mut build = Build::new(comm);
    let received = Blocks::new(recvbuf, counts, displs, build.blocks(), recvtype)?;
    let sent = || Data::new(sendbuf, sizes::count(sendcount)?, sendtype);
    if let Some(sides) = build.sides() {
        let mine = build.give(sent()?);
        let all = received.each(|data| build.get(data))?;
        let work = inter::allgather_blocks_work_bytes(sides, at(&all));
        return build.done(work, None, |work| inter::allgather_blocks(sides, mine, at(&all), work));
    }
    let me = build.me();
    let (mine, all) = match is_in_place(sendbuf) {
        true => {
            let all = received.each(|data| build.change(data))?;
            (all[me.rank as usize], all)
        }
        false => (build.give(sent()?), received.each(|data| build.get(data))?),
    };
    agree(mine, all[me.rank as usize])?;
    let work = algorithm::allgather_blocks_work_bytes(me, at(&all));
    build.done(work, None, |work| algorithm::allgather_blocks(me, mine, at(&all), work))
}

/// An alltoall of blocks that are in place already.
pub(super) fn alltoall_spans(build: Build<'_>, to: &[Span], from: &[Span]) -> Result<Collecting> {
    if let Some(sides) = build.sides() {
        return build.done(0, None, |_| inter::alltoall_blocks(sides, at(to), at(from)));
    }
    let me = build.me();
    agree(to[me.rank as usize], from[me.rank as usize])?;
    let work = algorithm::alltoall_blocks_work_bytes(me, at(to), at(from));
    build.done(work, None, |work| algorithm::alltoall_blocks(me, at(to), at(from), work))
}

pub(super) fn alltoallv<C: Wide, D: Wide>(
    comm: &Comm,
    (sendbuf, sendcounts, sdispls, sendtype): (u64, In<C>, In<D>, MPI_Datatype),
    (recvbuf, recvcounts, rdispls, recvtype): (u64, In<C>, In<D>, MPI_Datatype),
) -> Result<Collecting> {
    let mut build = Build::new(comm);
    let blocks = build.blocks();
    let received = Blocks::new(recvbuf, recvcounts, rdispls, blocks, recvtype)?;
    if is_in_place(sendbuf) {
        let both = received.each(|data| build.change(data))?;
        return alltoall_spans(build, &both, &both);
    }
    let sent = Blocks::new(sendbuf, sendcounts, sdispls, blocks, sendtype)?;
    let to = sent.each(|data| build.give(data))?;
    let from = received.each(|data| build.get(data))?;
    alltoall_spans(build, &to, &from)
}

pub(super) fn alltoallw<C: Wide, D: Wide>(
    comm: &Comm,
    (sendbuf, sendcounts, sdispls, sendtypes): (u64, In<C>, In<D>, In<MPI_Datatype>),
    (recvbuf, recvcounts, rdispls, recvtypes): (u64, In<C>, In<D>, In<MPI_Datatype>),
) -> Result<Collecting> {
    let mut build = Build::new(comm);
    let blocks = build.blocks();
    let received = TypedBlocks::new(recvbuf, recvcounts, rdispls, recvtypes, blocks)?;
    if is_in_place(sendbuf) {
        let both = received.each(|data| build.change(data))?;
        return alltoall_spans(build, &both, &both);
    }
    let sent = TypedBlocks::new(sendbuf, sendcounts, sdispls, sendtypes, blocks)?;
    let to = sent.each(|data| build.give(data))?;
    let from = received.each(|data| build.get(data))?;
    alltoall_spans(build, &to, &from)
}
