//! Collectives: what all ranks of a communicator do together.
//!
//! Each is built once, as a schedule and the memory that it uses, and started in three ways: at once
//! and waited for, at once, or when the program says so. How it is done is decided in crate `mpi`.
//!
//! Invariants, cited below by number.
//!   I1. Spans of a schedule are memory of the program's, which it leaves alone until the call or the request
//!       is over, or memory that the recipe or, after a release, the driver keeps.

use std::ffi::c_int;
use std::sync::Arc;

use ferrywire_host::memory;
use ferrywire_host::nic::{Fault, Outcome, Posted, Schedule, Span};
use ferrywire_mpi::collective::inter::{self, Root, Sides};
use ferrywire_mpi::collective::{self as algorithm, Combiner, Member};

use crate::comm::{self, Comm};
use crate::constants::{
    MPI_ERR_ARG, MPI_ERR_BUFFER, MPI_ERR_COMM, MPI_ERR_ROOT, MPI_ERR_TRUNCATE, MPI_IN_PLACE,
    MPI_PROC_NULL, MPI_ROOT,
};
use crate::data::{Data, room};
use crate::datatype;
use crate::entry::entries;
use crate::failure::{Failure, Result};
use crate::handle::{PREDEFINED_MAX, Shared};
use crate::message;
use crate::op::Combining;
use crate::pointer::{Choice, ChoiceMut, In, Out};
use crate::process;
use crate::request::{End, Next, Recipe, Request};
use crate::sizes::{self, Wide};
use crate::types::{MPI_Comm, MPI_Datatype, MPI_Info, MPI_Op, MPI_Request, MPI_Status};

/// A schedule, and the memory that it uses.
pub(crate) struct Collecting {
    schedule: Arc<Schedule>,
    places: Vec<Place>,
    /// What is copied into the place where the result will be, each time that it starts.
    contribution: Option<(Data, Span)>,
    kept: Kept,
    /// The number of a persistent collective, which is always the same.
    instance: Option<u16>,
    bytes: u64,
}

/// What a schedule needs after its caller was let go.
#[derive(Default)]
struct Kept {
    #[expect(dead_code, reason = "it is used by the schedule")]
    work: Box<[u8]>,
    #[expect(dead_code, reason = "it is used by the schedule")]
    combining: Option<Combining>,
}

/// Memory of the user's that does not lie as it travels: its packed form.
struct Place {
    data: Data,
    packed: Box<[u8]>,
    goes: bool,
    comes: bool,
}

impl Recipe for Collecting {
    fn start(&mut self, comm: &Shared<Comm>) -> Result<Posted> {
        let (schedule, instance) = self.load(comm);
        // SAFETY: I1.
        Ok(unsafe { comm.driver().submit(|nic, port| nic.post_schedule(schedule, instance, port)) })
    }

    fn finish(&mut self, comm: &Shared<Comm>, end: End) -> Result<Next> {
        match end.outcome {
            Outcome::Done => {
                for place in self.places.iter().filter(|place| place.comes) {
                    place.data.unpack(&place.packed);
                }
                Ok(Next::Over(MPI_Status::EMPTY))
            }
            Outcome::Released => {
                if let Some(ticket) = end.ticket {
                    let kept = Box::new((std::mem::take(&mut self.kept), Shared::clone(comm)));
                    comm.driver().detach(ticket, Some(kept));
                }
                Ok(Next::Over(MPI_Status::EMPTY))
            }
            other => Err(self.failed(comm, other)),
        }
    }

    fn may_be_released(&self) -> bool {
        self.instance.is_none()
    }
}

impl Collecting {
    /// Puts what the user's memory holds now where the schedule expects it.
    fn load(&mut self, comm: &Comm) -> (Arc<Schedule>, u16) {
        for place in self.places.iter_mut().filter(|place| place.goes) {
            place.data.pack(&mut place.packed);
        }
        if let Some((data, into)) = &self.contribution {
            data.pack_to(*into);
        }
        let instance = self.instance.unwrap_or_else(|| comm.members.next_instance());
        (Arc::clone(&self.schedule), instance)
    }

    /// Does it, and waits. False if it cannot be done again: after a release the driver has what it
    /// worked in.
    fn perform(&mut self, comm: &Shared<Comm>) -> Result<bool> {
        let (schedule, instance) = self.load(comm);
        // SAFETY: I1.
        let (ticket, outcome) = unsafe {
            comm.driver().perform_schedule(|nic, port| nic.post_schedule(schedule, instance, port))
        };
        self.finish(comm, End { ticket, outcome })?;
        Ok(outcome == Outcome::Done)
    }

    #[cold]
    fn failed(&self, comm: &Comm, outcome: Outcome) -> Failure {
        let failure = match outcome {
            Outcome::Failed(Fault::Truncated { len, room }) => {
                let why = format!("another rank sends {len} bytes where {room} are expected");
                Failure::new(MPI_ERR_TRUNCATE, why)
            }
            other => message::failed(other),
        };
        failure.during(format_args!(" of {} bytes, in {}", self.bytes, comm.title()))
    }
}

/// Memory of a collective that is being built.
struct Build<'a> {
    comm: &'a Comm,
    places: Vec<Place>,
    contribution: Option<(Data, Span)>,
    bytes: u64,
}

impl<'a> Build<'a> {
    fn new(comm: &'a Comm) -> Build<'a> {
        Build { comm, places: Vec::new(), contribution: None, bytes: 0 }
    }

    /// Data that goes.
    fn give(&mut self, data: Data) -> Span {
        self.place(data, true, false)
    }

    /// Data that comes.
    fn get(&mut self, data: Data) -> Span {
        self.place(data, false, true)
    }

    /// Data that is changed.
    fn change(&mut self, data: Data) -> Span {
        self.place(data, true, true)
    }

    fn place(&mut self, data: Data, goes: bool, comes: bool) -> Span {
        self.bytes = self.bytes.max(data.bytes());
        data.straight().unwrap_or_else(|| self.pack(data, goes, comes))
    }

    /// Data that comes where other data is read until all is over.
    fn get_aside(&mut self, data: Data) -> Span {
        self.pack(data, false, true)
    }

    fn pack(&mut self, data: Data, goes: bool, comes: bool) -> Span {
        let mut packed = room(data.bytes());
        let span = memory::lend_mut(&mut packed);
        self.places.push(Place { data, packed, goes, comes });
        span
    }

    /// The contribution to a reduction, in the place where its result will be.
    fn contribute(&mut self, send: Option<Data>, receive: Data) -> Result<Span> {
        let Some(send) = send else { return Ok(self.change(receive)) };
        if let (Some(send), Some(receive)) = (send.straight(), receive.straight())
            && send.offset < receive.offset + receive.len
            && receive.offset < send.offset + send.len
        {
            let why =
                "the buffers overlap: pass MPI_IN_PLACE as the one that is sent, if that is meant";
            return Err(Failure::new(MPI_ERR_BUFFER, why));
        }
        let into = self.get(receive);
        self.contribution = Some((send, into));
        Ok(into)
    }

    fn me(&self) -> Member<'a> {
        Member { home: process::home(), ..self.comm.members.member() }
    }

    /// Both groups, between which it goes on, if there are two.
    fn sides(&self) -> Option<Sides<'a>> {
        let members = &self.comm.members;
        let inter = members.inter()?;
        let (group_id, rank) = (members.group_id(), members.rank());
        Some(Sides { group_id, ours: members.group(), theirs: &inter.remote, rank })
    }

    /// How many ranks blocks come from or go to.
    fn blocks(&self) -> u32 {
        self.comm.members.targets().size()
    }

    fn done(
        self,
        work_bytes: u64,
        combining: Option<Combining>,
        schedule: impl FnOnce(Span) -> Schedule,
    ) -> Result<Collecting> {
        let Build { places, contribution, bytes, .. } = self;
        let mut work = room(work_bytes);
        let schedule = Arc::new(schedule(memory::lend_mut(&mut work)));
        let kept = Kept { work, combining };
        Ok(Collecting { schedule, places, contribution, kept, instance: None, bytes })
    }
}

/// The root of a collective within a group.
fn root_within(comm: &Comm, root: c_int) -> Result<u32> {
    let size = comm.members.group().size();
    let rank = u32::try_from(root).ok().filter(|&rank| rank < size);
    rank.ok_or_else(|| {
        let why = match size {
            1 => format!("the root is {root}, but there is only rank 0"),
            _ => format!("the root is {root}, but there are ranks 0 to {}", size - 1),
        };
        Failure::new(MPI_ERR_ROOT, why)
    })
}

/// The root of a collective between two groups.
fn root_between(comm: &Comm, root: c_int) -> Result<Root> {
    let size = comm.members.targets().size();
    match (root, u32::try_from(root)) {
        (MPI_ROOT, _) => Ok(Root::Us),
        (MPI_PROC_NULL, _) => Ok(Root::Ours),
        (_, Ok(rank)) if rank < size => Ok(Root::Theirs(rank)),
        _ => {
            let last = size.saturating_sub(1);
            let why = format!("the root is {root}, but the other group has ranks 0 to {last}");
            Err(Failure::new(MPI_ERR_ROOT, why))
        }
    }
}

fn is_in_place(address: u64) -> bool {
    address == MPI_IN_PLACE as u64
}

/// `blocks` blocks of `count` elements.
fn all_blocks(address: u64, count: impl Wide, blocks: u32, datatype: MPI_Datatype) -> Result<Data> {
    let count = sizes::count(count)?;
    Data::new(address, count * u64::from(blocks), datatype)
}

/// A block for each rank, `displs` elements from the beginning.
struct Blocks {
    address: u64,
    counts: Vec<i64>,
    displs: Vec<i64>,
    extent: i64,
    datatype: MPI_Datatype,
}

impl Blocks {
    fn new<C: Wide, D: Wide>(
        address: u64,
        counts: In<C>,
        displs: In<D>,
        ranks: u32,
        datatype: MPI_Datatype,
    ) -> Result<Blocks> {
        let counts = sizes::wide_all(counts, ranks as usize)?;
        let displs = sizes::wide_all(displs, ranks as usize)?;
        let extent = datatype::find_committed(datatype)?.extent();
        Ok(Blocks { address, counts, displs, extent, datatype })
    }

    fn at(&self, rank: u32) -> Result<Data> {
        let rank = rank as usize;
        let offset = self.displs[rank].wrapping_mul(self.extent);
        let address = self.address.wrapping_add_signed(offset);
        Data::new(address, sizes::count(self.counts[rank])?, self.datatype)
    }

    fn each(&self, mut place: impl FnMut(Data) -> Span) -> Result<Vec<Span>> {
        (0..).take(self.counts.len()).map(|rank| Ok(place(self.at(rank)?))).collect()
    }
}

/// Blocks with a datatype each, at offsets in bytes.
struct TypedBlocks {
    address: u64,
    counts: Vec<i64>,
    displs: Vec<i64>,
    datatypes: Vec<MPI_Datatype>,
}

impl TypedBlocks {
    fn new<C: Wide, D: Wide>(
        address: u64,
        counts: In<C>,
        displs: In<D>,
        datatypes: In<MPI_Datatype>,
        ranks: u32,
    ) -> Result<TypedBlocks> {
        let counts = sizes::wide_all(counts, ranks as usize)?;
        let displs = sizes::wide_all(displs, ranks as usize)?;
        let datatypes = datatypes.slice(ranks as usize)?.to_vec();
        Ok(TypedBlocks { address, counts, displs, datatypes })
    }

    fn each(&self, mut place: impl FnMut(Data) -> Span) -> Result<Vec<Span>> {
        let each = self.counts.iter().zip(&self.displs).zip(&self.datatypes);
        each.map(|((&count, &displ), &datatype)| {
            let address = self.address.wrapping_add_signed(displ);
            Ok(place(Data::new(address, sizes::count(count)?, datatype)?))
        })
        .collect()
    }
}

fn at(spans: &[Span]) -> impl Fn(u32) -> Span + Copy + '_ {
    |rank| spans[rank as usize]
}

/// What those of a root's group do who are not the root.
fn idle(build: Build<'_>, sides: Sides<'_>) -> Result<Collecting> {
    build.done(0, None, |_| inter::broadcast(sides, Root::Ours, Span::EMPTY))
}

fn barrier(comm: &Comm) -> Result<Collecting> {
    let build = Build::new(comm);
    let (me, sides) = (build.me(), build.sides());
    build.done(0, None, |_| sides.map_or_else(|| algorithm::barrier(me), inter::barrier))
}

fn broadcast(
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
struct Even<C> {
    sendbuf: u64,
    sendcount: C,
    sendtype: MPI_Datatype,
    recvbuf: u64,
    recvcount: C,
    recvtype: MPI_Datatype,
}

impl<C: Wide> Even<C> {
    fn sent(&self) -> Result<Data> {
        Data::new(self.sendbuf, sizes::count(self.sendcount)?, self.sendtype)
    }

    fn received(&self) -> Result<Data> {
        Data::new(self.recvbuf, sizes::count(self.recvcount)?, self.recvtype)
    }

    fn all_sent(&self, blocks: u32) -> Result<Data> {
        all_blocks(self.sendbuf, self.sendcount, blocks, self.sendtype)
    }

    fn all_received(&self, blocks: u32) -> Result<Data> {
        all_blocks(self.recvbuf, self.recvcount, blocks, self.recvtype)
    }
}

/// The part of a rank in a span of equal blocks.
fn part(all: Span, rank: u32, blocks: u32) -> Span {
    let len = all.len / u64::from(blocks.max(1));
    all.part(u64::from(rank) * len, len)
}

/// What a rank sends to itself has to be what it receives from itself.
fn agree(sent: Span, received: Span) -> Result {
    if sent.len == received.len {
        return Ok(());
    }
    let (sent, received) = (sent.len, received.len);
    let why = format!("this rank sends itself {sent} bytes where it expects {received}");
    Err(Failure::new(MPI_ERR_TRUNCATE, why))
}

fn gather<C: Wide>(comm: &Comm, even: Even<C>, root: c_int) -> Result<Collecting> {
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

fn scatter<C: Wide>(comm: &Comm, even: Even<C>, root: c_int) -> Result<Collecting> {
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

fn allgather<C: Wide>(comm: &Comm, even: Even<C>) -> Result<Collecting> {
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

fn alltoall<C: Wide>(comm: &Comm, even: Even<C>) -> Result<Collecting> {
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

fn gatherv<C: Wide, D: Wide>(
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

fn scatterv<C: Wide, D: Wide>(
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

fn allgatherv<C: Wide, D: Wide>(
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
fn alltoall_spans(build: Build<'_>, to: &[Span], from: &[Span]) -> Result<Collecting> {
    if let Some(sides) = build.sides() {
        return build.done(0, None, |_| inter::alltoall_blocks(sides, at(to), at(from)));
    }
    let me = build.me();
    agree(to[me.rank as usize], from[me.rank as usize])?;
    let work = algorithm::alltoall_blocks_work_bytes(me, at(to), at(from));
    build.done(work, None, |work| algorithm::alltoall_blocks(me, at(to), at(from), work))
}

fn alltoallv<C: Wide, D: Wide>(
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

fn alltoallw<C: Wide, D: Wide>(
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

/// The buffers of a reduction.
#[derive(Clone, Copy)]
struct Reduced<C> {
    sendbuf: u64,
    recvbuf: u64,
    count: C,
    datatype: MPI_Datatype,
    op: MPI_Op,
}

impl<C: Wide> Reduced<C> {
    fn sent(&self) -> Result<Option<Data>> {
        match is_in_place(self.sendbuf) {
            true => Ok(None),
            false => self.data(self.sendbuf).map(Some),
        }
    }

    fn received(&self) -> Result<Data> {
        self.data(self.recvbuf)
    }

    fn data(&self, address: u64) -> Result<Data> {
        Data::new(address, sizes::count(self.count)?, self.datatype)
    }

    fn combining(&self) -> Result<(Combiner, Option<Combining>)> {
        let combining = Combining::new(self.op, self.datatype)?;
        Ok((combining.combiner, Some(combining)))
    }
}

fn reduce<C: Wide>(comm: &Comm, reduced: Reduced<C>, root: c_int) -> Result<Collecting> {
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

fn allreduce<C: Wide>(comm: &Comm, reduced: Reduced<C>) -> Result<Collecting> {
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
    let bytes = build.contribute(reduced.sent()?, reduced.received()?)?;
    let work = algorithm::allreduce_work_bytes(me, bytes.len);
    build.done(work, combining, |work| algorithm::allreduce(me, combiner, bytes, work))
}

fn scan<C: Wide>(comm: &Comm, reduced: Reduced<C>) -> Result<Collecting> {
    let mut build = Build::new(comm);
    let me = within_only(&build)?;
    let (combiner, combining) = reduced.combining()?;
    let bytes = build.contribute(reduced.sent()?, reduced.received()?)?;
    build.done(bytes.len, combining, |work| algorithm::scan(me, combiner, bytes, work))
}

fn exscan<C: Wide>(comm: &Comm, reduced: Reduced<C>) -> Result<Collecting> {
    let mut build = Build::new(comm);
    let me = within_only(&build)?;
    let (combiner, combining) = reduced.combining()?;
    let bytes = build.contribute(reduced.sent()?, reduced.received()?)?;
    let work = algorithm::exscan_work_bytes(bytes.len);
    build.done(work, combining, |work| algorithm::exscan(me, combiner, bytes, work))
}

fn within_only<'a>(build: &Build<'a>) -> Result<Member<'a>> {
    match build.sides() {
        None => Ok(build.me()),
        Some(_) => Err(Failure::new(MPI_ERR_COMM, "it makes no sense between two groups")),
    }
}

fn reduce_scatter_block<C: Wide>(comm: &Comm, reduced: Reduced<C>) -> Result<Collecting> {
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

fn reduce_scatter<C: Wide>(
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

/// Starts a collective in the three ways that there are. A function of the standard for each: one that
/// waits, one that does not, one that the program starts.
macro_rules! collectives {
    ($(
        $now:ident / $now_large:ident, $begun:ident / $begun_large:ident,
        $prepared:ident / $prepared_large:ident
        ($($arg:ident: $type:ty),* $(,)?) $build:expr;
    )*) => {
        entries! { $(
            fn $now / $now_large ($($arg: $type,)* comm: MPI_Comm) on comm {
                let asked = Asked::new(stringify!($now), &[$($arg.number()),*]);
                perform(comm::share_of(comm)?, asked, $build)
            }

            fn $begun / $begun_large (
                $($arg: $type,)* comm: MPI_Comm, request: Out<MPI_Request>,
            ) on comm {
                let comm = comm::share_of(comm)?;
                begin(comm, request, $build)
            }

            fn $prepared / $prepared_large (
                $($arg: $type,)* comm: MPI_Comm, _info: MPI_Info, request: Out<MPI_Request>,
            ) on comm {
                let comm = comm::share_of(comm)?;
                prepare(comm, request, $build)
            }
        )* }
    };
}

/// Does it now, and waits. What is asked for twice in a row is built once.
fn perform(
    comm: Shared<Comm>,
    asked: Asked,
    build: impl FnOnce(&Comm) -> Result<Collecting>,
) -> Result {
    let mut collecting = match comm.latest().take() {
        Some((before, collecting)) if before == asked => collecting,
        _ => Box::new(build(&comm)?),
    };
    if collecting.perform(&comm)? && asked.is_comparable() {
        *comm.latest() = Some((asked, collecting));
    }
    Ok(())
}

/// A call with its arguments, as far as they say all: a handle that the program made may stand for
/// something else the next time, and so may an array.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(crate) struct Asked {
    call: &'static str,
    arguments: [Option<u64>; ARGUMENTS_MAX],
}

impl Asked {
    fn new(call: &'static str, given: &[Option<u64>]) -> Asked {
        let mut arguments = [Some(0); ARGUMENTS_MAX];
        arguments[..given.len()].copy_from_slice(given);
        Asked { call, arguments }
    }

    fn is_comparable(&self) -> bool {
        self.arguments.iter().all(Option::is_some)
    }
}

/// The most arguments that a collective has besides its communicator.
const ARGUMENTS_MAX: usize = 8;

/// An argument as a number, if that says all of it.
trait Argument {
    fn number(&self) -> Option<u64>;
}

impl Argument for Choice {
    fn number(&self) -> Option<u64> {
        Some(self.address())
    }
}

impl Argument for ChoiceMut {
    fn number(&self) -> Option<u64> {
        Some(self.address())
    }
}

impl Argument for c_int {
    fn number(&self) -> Option<u64> {
        Some(i64::from(*self).cast_unsigned())
    }
}

impl Argument for i64 {
    fn number(&self) -> Option<u64> {
        Some(self.cast_unsigned())
    }
}

impl Argument for MPI_Datatype {
    fn number(&self) -> Option<u64> {
        (self.0 <= PREDEFINED_MAX).then_some(self.0 as u64)
    }
}

impl Argument for MPI_Op {
    fn number(&self) -> Option<u64> {
        (self.0 <= PREDEFINED_MAX).then_some(self.0 as u64)
    }
}

impl<T> Argument for In<T> {
    fn number(&self) -> Option<u64> {
        None
    }
}

/// Begins it now.
fn begin(
    comm: Shared<Comm>,
    request: Out<MPI_Request>,
    build: impl FnOnce(&Comm) -> Result<Collecting>,
) -> Result {
    let recipe: Box<dyn Recipe> = Box::new(build(&comm)?);
    request.put(Request::begin(comm, recipe)?)
}

/// Leaves it to the program to begin it.
fn prepare(
    comm: Shared<Comm>,
    request: Out<MPI_Request>,
    build: impl FnOnce(&Comm) -> Result<Collecting>,
) -> Result {
    let mut collecting = build(&comm)?;
    collecting.instance = Some(comm.members.next_persistent_instance());
    let recipe: Box<dyn Recipe> = Box::new(collecting);
    request.put(Request::prepare(comm, recipe))
}

entries! {
    fn MPI_Barrier(comm: MPI_Comm) on comm {
        perform(comm::share_of(comm)?, Asked::new("MPI_Barrier", &[]), barrier)
    }

    fn MPI_Ibarrier(comm: MPI_Comm, request: Out<MPI_Request>) on comm {
        begin(comm::share_of(comm)?, request, barrier)
    }

    fn MPI_Barrier_init(comm: MPI_Comm, _info: MPI_Info, request: Out<MPI_Request>) on comm {
        prepare(comm::share_of(comm)?, request, barrier)
    }
}

collectives! {
    MPI_Bcast / MPI_Bcast_c, MPI_Ibcast / MPI_Ibcast_c, MPI_Bcast_init / MPI_Bcast_init_c
    (buffer: ChoiceMut, count: Size, datatype: MPI_Datatype, root: c_int)
    |comm| broadcast(comm, buffer, count, datatype, root);

    MPI_Gather / MPI_Gather_c, MPI_Igather / MPI_Igather_c, MPI_Gather_init / MPI_Gather_init_c
    (
        sendbuf: Choice, sendcount: Size, sendtype: MPI_Datatype, recvbuf: ChoiceMut,
        recvcount: Size, recvtype: MPI_Datatype, root: c_int,
    )
    |comm| {
        let (sendbuf, recvbuf) = (sendbuf.address(), recvbuf.address());
        let even = Even { sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype };
        gather(comm, even, root)
    };

    MPI_Scatter / MPI_Scatter_c, MPI_Iscatter / MPI_Iscatter_c,
    MPI_Scatter_init / MPI_Scatter_init_c
    (
        sendbuf: Choice, sendcount: Size, sendtype: MPI_Datatype, recvbuf: ChoiceMut,
        recvcount: Size, recvtype: MPI_Datatype, root: c_int,
    )
    |comm| {
        let (sendbuf, recvbuf) = (sendbuf.address(), recvbuf.address());
        let even = Even { sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype };
        scatter(comm, even, root)
    };

    MPI_Allgather / MPI_Allgather_c, MPI_Iallgather / MPI_Iallgather_c,
    MPI_Allgather_init / MPI_Allgather_init_c
    (
        sendbuf: Choice, sendcount: Size, sendtype: MPI_Datatype, recvbuf: ChoiceMut,
        recvcount: Size, recvtype: MPI_Datatype,
    )
    |comm| {
        let (sendbuf, recvbuf) = (sendbuf.address(), recvbuf.address());
        allgather(comm, Even { sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype })
    };

    MPI_Alltoall / MPI_Alltoall_c, MPI_Ialltoall / MPI_Ialltoall_c,
    MPI_Alltoall_init / MPI_Alltoall_init_c
    (
        sendbuf: Choice, sendcount: Size, sendtype: MPI_Datatype, recvbuf: ChoiceMut,
        recvcount: Size, recvtype: MPI_Datatype,
    )
    |comm| {
        let (sendbuf, recvbuf) = (sendbuf.address(), recvbuf.address());
        alltoall(comm, Even { sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype })
    };

    MPI_Gatherv / MPI_Gatherv_c, MPI_Igatherv / MPI_Igatherv_c,
    MPI_Gatherv_init / MPI_Gatherv_init_c
    (
        sendbuf: Choice, sendcount: Size, sendtype: MPI_Datatype, recvbuf: ChoiceMut,
        recvcounts: In<Size>, displs: In<Displacement>, recvtype: MPI_Datatype, root: c_int,
    )
    |comm| {
        let sent = (sendbuf.address(), sendcount, sendtype);
        gatherv(comm, sent, (recvbuf.address(), recvcounts, displs, recvtype), root)
    };

    MPI_Scatterv / MPI_Scatterv_c, MPI_Iscatterv / MPI_Iscatterv_c,
    MPI_Scatterv_init / MPI_Scatterv_init_c
    (
        sendbuf: Choice, sendcounts: In<Size>, displs: In<Displacement>, sendtype: MPI_Datatype,
        recvbuf: ChoiceMut, recvcount: Size, recvtype: MPI_Datatype, root: c_int,
    )
    |comm| {
        let received = (recvbuf.address(), recvcount, recvtype);
        scatterv(comm, (sendbuf.address(), sendcounts, displs, sendtype), received, root)
    };

    MPI_Allgatherv / MPI_Allgatherv_c, MPI_Iallgatherv / MPI_Iallgatherv_c,
    MPI_Allgatherv_init / MPI_Allgatherv_init_c
    (
        sendbuf: Choice, sendcount: Size, sendtype: MPI_Datatype, recvbuf: ChoiceMut,
        recvcounts: In<Size>, displs: In<Displacement>, recvtype: MPI_Datatype,
    )
    |comm| {
        let sent = (sendbuf.address(), sendcount, sendtype);
        allgatherv(comm, sent, (recvbuf.address(), recvcounts, displs, recvtype))
    };

    MPI_Alltoallv / MPI_Alltoallv_c, MPI_Ialltoallv / MPI_Ialltoallv_c,
    MPI_Alltoallv_init / MPI_Alltoallv_init_c
    (
        sendbuf: Choice, sendcounts: In<Size>, sdispls: In<Displacement>, sendtype: MPI_Datatype,
        recvbuf: ChoiceMut, recvcounts: In<Size>, rdispls: In<Displacement>,
        recvtype: MPI_Datatype,
    )
    |comm| {
        let sent = (sendbuf.address(), sendcounts, sdispls, sendtype);
        alltoallv(comm, sent, (recvbuf.address(), recvcounts, rdispls, recvtype))
    };

    MPI_Alltoallw / MPI_Alltoallw_c, MPI_Ialltoallw / MPI_Ialltoallw_c,
    MPI_Alltoallw_init / MPI_Alltoallw_init_c
    (
        sendbuf: Choice, sendcounts: In<Size>, sdispls: In<Displacement>,
        sendtypes: In<MPI_Datatype>, recvbuf: ChoiceMut, recvcounts: In<Size>,
        rdispls: In<Displacement>, recvtypes: In<MPI_Datatype>,
    )
    |comm| {
        let sent = (sendbuf.address(), sendcounts, sdispls, sendtypes);
        alltoallw(comm, sent, (recvbuf.address(), recvcounts, rdispls, recvtypes))
    };

    MPI_Reduce / MPI_Reduce_c, MPI_Ireduce / MPI_Ireduce_c, MPI_Reduce_init / MPI_Reduce_init_c
    (
        sendbuf: Choice, recvbuf: ChoiceMut, count: Size, datatype: MPI_Datatype, op: MPI_Op,
        root: c_int,
    )
    |comm| {
        let (sendbuf, recvbuf) = (sendbuf.address(), recvbuf.address());
        reduce(comm, Reduced { sendbuf, recvbuf, count, datatype, op }, root)
    };

    MPI_Allreduce / MPI_Allreduce_c, MPI_Iallreduce / MPI_Iallreduce_c,
    MPI_Allreduce_init / MPI_Allreduce_init_c
    (sendbuf: Choice, recvbuf: ChoiceMut, count: Size, datatype: MPI_Datatype, op: MPI_Op)
    |comm| {
        let (sendbuf, recvbuf) = (sendbuf.address(), recvbuf.address());
        allreduce(comm, Reduced { sendbuf, recvbuf, count, datatype, op })
    };

    MPI_Scan / MPI_Scan_c, MPI_Iscan / MPI_Iscan_c, MPI_Scan_init / MPI_Scan_init_c
    (sendbuf: Choice, recvbuf: ChoiceMut, count: Size, datatype: MPI_Datatype, op: MPI_Op)
    |comm| {
        let (sendbuf, recvbuf) = (sendbuf.address(), recvbuf.address());
        scan(comm, Reduced { sendbuf, recvbuf, count, datatype, op })
    };

    MPI_Exscan / MPI_Exscan_c, MPI_Iexscan / MPI_Iexscan_c, MPI_Exscan_init / MPI_Exscan_init_c
    (sendbuf: Choice, recvbuf: ChoiceMut, count: Size, datatype: MPI_Datatype, op: MPI_Op)
    |comm| {
        let (sendbuf, recvbuf) = (sendbuf.address(), recvbuf.address());
        exscan(comm, Reduced { sendbuf, recvbuf, count, datatype, op })
    };

    MPI_Reduce_scatter_block / MPI_Reduce_scatter_block_c,
    MPI_Ireduce_scatter_block / MPI_Ireduce_scatter_block_c,
    MPI_Reduce_scatter_block_init / MPI_Reduce_scatter_block_init_c
    (sendbuf: Choice, recvbuf: ChoiceMut, recvcount: Size, datatype: MPI_Datatype, op: MPI_Op)
    |comm| {
        let (sendbuf, recvbuf) = (sendbuf.address(), recvbuf.address());
        let count = recvcount;
        reduce_scatter_block(comm, Reduced { sendbuf, recvbuf, count, datatype, op })
    };

    MPI_Reduce_scatter / MPI_Reduce_scatter_c, MPI_Ireduce_scatter / MPI_Ireduce_scatter_c,
    MPI_Reduce_scatter_init / MPI_Reduce_scatter_init_c
    (
        sendbuf: Choice, recvbuf: ChoiceMut, recvcounts: In<Size>, datatype: MPI_Datatype,
        op: MPI_Op,
    )
    |comm| {
        let buffers = (sendbuf.address(), recvbuf.address(), recvcounts);
        reduce_scatter(comm, buffers, datatype, op)
    };
}
