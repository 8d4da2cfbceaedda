//! Collectives that move data: from the arguments of a call to a schedule.

use ferrywire_host::nic::Span;
use ferrywire_mpi::collective::inter::Root as Side;
use ferrywire_runtime::Root;

use super::build::{Blocks, Build, TypedBlocks, agree, all_blocks, is_in_place, part, root_of};
use crate::convert::argument::RootRank;
use crate::convert::failure::Result;
use crate::convert::pointer::{ChoiceMut, In};
use crate::convert::sizes::{self, Wide};
use crate::convert::types::MPI_Datatype;
use crate::objects::collecting::Collecting;
use crate::objects::comm::Comm;
use crate::objects::data::Data;

/// The schedule of a rank in the root's group that is not the root.
pub(super) fn idle(build: Build<'_>) -> Collecting {
    let prepared = build.comm().broadcast(Root::Between(Side::Ours), Span::EMPTY);
    build.done(prepared, None)
}

pub(super) fn barrier(comm: &Comm) -> Result<Collecting> {
    Ok(Build::new(comm).done(comm.runtime().barrier(), None))
}

pub(super) fn broadcast(
    comm: &Comm,
    buffer: ChoiceMut,
    count: impl Wide,
    datatype: MPI_Datatype,
    root: RootRank,
) -> Result<Collecting> {
    let mut build = Build::new(comm);
    let root = root_of(comm, root)?;
    if root == Root::Between(Side::Ours) {
        return Ok(idle(build));
    }
    let data = Data::to_write(buffer, count, datatype)?;
    let is_root = root == Root::Between(Side::Us) || root == Root::Rank(build.rank());
    let bytes = build.place(data, is_root, !is_root);
    Ok(build.done(comm.runtime().broadcast(root, bytes), None))
}

/// The send and receive arguments of a rank, where all blocks have the same length.
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

pub(super) fn gather<C: Wide>(comm: &Comm, even: Even<C>, root: RootRank) -> Result<Collecting> {
    let mut build = Build::new(comm);
    let blocks = build.blocks();
    let root = root_of(comm, root)?;
    let (mine, all, len) = match root {
        Root::Between(Side::Us) => {
            let all = build.get(even.all_received(blocks)?);
            (Span::EMPTY, all, all.len / u64::from(blocks.max(1)))
        }
        Root::Between(Side::Ours) => (Span::EMPTY, Span::EMPTY, 0),
        Root::Rank(root) if root == build.rank() => {
            let (mine, all) = match is_in_place(even.sendbuf) {
                true => {
                    let all = build.change(even.all_received(blocks)?);
                    (part(all, root, blocks), all)
                }
                false => (build.give(even.sent()?), build.get(even.all_received(blocks)?)),
            };
            agree(mine, part(all, root, blocks))?;
            (mine, all, mine.len)
        }
        Root::Between(Side::Theirs(_)) | Root::Rank(_) => {
            let mine = build.give(even.sent()?);
            (mine, Span::EMPTY, mine.len)
        }
    };
    build.note_block(if all.len > 0 { even.recvtype } else { even.sendtype }, len);
    Ok(build.done(comm.runtime().gather(root, len, mine, all), None))
}

pub(super) fn scatter<C: Wide>(comm: &Comm, even: Even<C>, root: RootRank) -> Result<Collecting> {
    let mut build = Build::new(comm);
    let blocks = build.blocks();
    let root = root_of(comm, root)?;
    let (all, mine, len) = match root {
        Root::Between(Side::Us) => {
            let all = build.give(even.all_sent(blocks)?);
            (all, Span::EMPTY, all.len / u64::from(blocks.max(1)))
        }
        Root::Between(Side::Ours) => (Span::EMPTY, Span::EMPTY, 0),
        Root::Rank(root) if root == build.rank() => {
            let all = build.give(even.all_sent(blocks)?);
            let mine = match is_in_place(even.recvbuf) {
                true => part(all, root, blocks),
                false => build.get(even.received()?),
            };
            agree(part(all, root, blocks), mine)?;
            (all, mine, mine.len)
        }
        Root::Between(Side::Theirs(_)) | Root::Rank(_) => {
            let mine = build.get(even.received()?);
            (Span::EMPTY, mine, mine.len)
        }
    };
    build.note_block(if all.len > 0 { even.sendtype } else { even.recvtype }, len);
    Ok(build.done(comm.runtime().scatter(root, len, all, mine), None))
}

pub(super) fn allgather<C: Wide>(comm: &Comm, even: Even<C>) -> Result<Collecting> {
    let mut build = Build::new(comm);
    let blocks = build.blocks();
    let (rank, between) = (build.rank(), build.is_between());
    let (mine, all) = match is_in_place(even.sendbuf) && !between {
        true => {
            let all = build.change(even.all_received(blocks)?);
            (part(all, rank, blocks), all)
        }
        false => (build.give(even.sent()?), build.get(even.all_received(blocks)?)),
    };
    if !between {
        agree(mine, part(all, rank, blocks))?;
    }
    build.note_block(even.recvtype, all.len / u64::from(blocks.max(1)));
    Ok(build.done(comm.runtime().allgather(mine, all), None))
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
    if !build.is_between() {
        agree(part(source, build.rank(), blocks), part(into, build.rank(), blocks))?;
    }
    build.note_block(even.recvtype, into.len / u64::from(blocks.max(1)));
    Ok(build.done(comm.runtime().alltoall(source, into), None))
}

pub(super) fn gatherv<C: Wide, D: Wide>(
    comm: &Comm,
    (sendbuf, sendcount, sendtype): (u64, C, MPI_Datatype),
    (recvbuf, counts, displs, recvtype): (u64, In<C>, In<D>, MPI_Datatype),
    root: RootRank,
) -> Result<Collecting> {
    let mut build = Build::new(comm);
    let blocks = build.blocks();
    let sent = || Data::new(sendbuf, sizes::count(sendcount)?, sendtype);
    let received = || Blocks::new(recvbuf, counts, displs, blocks, recvtype);
    let root = root_of(comm, root)?;
    let (mine, all) = match root {
        Root::Between(Side::Us) => (Span::EMPTY, received()?.each(|data| build.get(data))?),
        Root::Between(Side::Ours) => (Span::EMPTY, Vec::new()),
        Root::Rank(root) if root == build.rank() => {
            let (mine, all) = match is_in_place(sendbuf) {
                true => {
                    let all = received()?.each(|data| build.change(data))?;
                    (all[root as usize], all)
                }
                false => (build.give(sent()?), received()?.each(|data| build.get(data))?),
            };
            agree(mine, all[root as usize])?;
            (mine, all)
        }
        Root::Between(Side::Theirs(_)) | Root::Rank(_) => (build.give(sent()?), Vec::new()),
    };
    Ok(build.done(comm.runtime().gather_blocks(root, mine, &all), None))
}

pub(super) fn scatterv<C: Wide, D: Wide>(
    comm: &Comm,
    (sendbuf, counts, displs, sendtype): (u64, In<C>, In<D>, MPI_Datatype),
    (recvbuf, recvcount, recvtype): (u64, C, MPI_Datatype),
    root: RootRank,
) -> Result<Collecting> {
    let mut build = Build::new(comm);
    let blocks = build.blocks();
    let sent = || Blocks::new(sendbuf, counts, displs, blocks, sendtype);
    let received = || Data::new(recvbuf, sizes::count(recvcount)?, recvtype);
    let root = root_of(comm, root)?;
    let (all, mine) = match root {
        Root::Between(Side::Us) => (sent()?.each(|data| build.give(data))?, Span::EMPTY),
        Root::Between(Side::Ours) => (Vec::new(), Span::EMPTY),
        Root::Rank(root) if root == build.rank() => {
            let all = sent()?.each(|data| build.give(data))?;
            let mine = match is_in_place(recvbuf) {
                true => all[root as usize],
                false => build.get(received()?),
            };
            agree(all[root as usize], mine)?;
            (all, mine)
        }
        Root::Between(Side::Theirs(_)) | Root::Rank(_) => (Vec::new(), build.get(received()?)),
    };
    Ok(build.done(comm.runtime().scatter_blocks(root, &all, mine), None))
}

pub(super) fn allgatherv<C: Wide, D: Wide>(
    comm: &Comm,
    (sendbuf, sendcount, sendtype): (u64, C, MPI_Datatype),
    (recvbuf, counts, displs, recvtype): (u64, In<C>, In<D>, MPI_Datatype),
) -> Result<Collecting> {
    let mut build = Build::new(comm);
    let received = Blocks::new(recvbuf, counts, displs, build.blocks(), recvtype)?;
    let sent = || Data::new(sendbuf, sizes::count(sendcount)?, sendtype);
    let (rank, between) = (build.rank() as usize, build.is_between());
    let (mine, all) = match is_in_place(sendbuf) && !between {
        true => {
            let all = received.each(|data| build.change(data))?;
            (all[rank], all)
        }
        false => (build.give(sent()?), received.each(|data| build.get(data))?),
    };
    if !between {
        agree(mine, all[rank])?;
    }
    Ok(build.done(comm.runtime().allgather_blocks(mine, &all), None))
}

/// An alltoall of blocks that are already spans.
pub(super) fn alltoall_spans(build: Build<'_>, to: &[Span], from: &[Span]) -> Result<Collecting> {
    if !build.is_between() {
        let rank = build.rank() as usize;
        agree(to[rank], from[rank])?;
    }
    let prepared = build.comm().alltoall_blocks(to, from);
    Ok(build.done(prepared, None))
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
