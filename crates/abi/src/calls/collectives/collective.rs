//! Collectives: operations that all ranks of a communicator call.
//!
//! Each is built once, as a schedule and its memory, and started in three ways: blocking, nonblocking, or by the
//! program. Crate `mpi` chooses the algorithm; `movement.rs`, `reduction.rs` and `neighbourhood.rs` turn a call into a
//! schedule, with the building blocks of `build.rs`.
//!
//! Invariants, cited below by number.
//!   I1. Spans of a schedule are memory of the program, which it leaves alone until the call or the request
//!       is complete, or memory that the recipe keeps, or the driver after a release.

use ferrywire_host::ErrorCode;
use ferrywire_host::nic::{Fault, Outcome, Posted, Ticket, Triggered};
use ferrywire_runtime::call_name::name_of;
use ferrywire_runtime::{Call, Trigger, With};

use super::movement::{
    Even, allgather, allgatherv, alltoall, alltoallv, alltoallw, barrier, broadcast, gather,
    gatherv, scatter, scatterv,
};
use super::reduction::{
    Reduced, allreduce, exscan, reduce, reduce_scatter, reduce_scatter_block, scan,
};
use crate::calls::communicators::comm_create;
use crate::calls::entry::entries;
use crate::convert::argument::RootRank;
use crate::convert::constants::MPI_ERR_TRUNCATE;
use crate::convert::failure::{Failure, Result};
use crate::convert::handle::Shared;
use crate::convert::pointer::{Choice, ChoiceMut, In, Out};
use crate::convert::status::Status;
use crate::convert::types::{MPI_Comm, MPI_Datatype, MPI_Info, MPI_Op, MPI_Request};
use crate::objects::Plane;
use crate::objects::collecting::{Collecting, Space};
use crate::objects::collective_cache::CacheKey;
use crate::objects::collective_note::CollectiveNote;
use crate::objects::comm::{self, Comm};
use crate::objects::message;
use crate::objects::recipe::{End, Next, Recipe};
use crate::objects::request::Request;

impl Recipe for Collecting {
    fn start(&mut self, comm: &Shared<Comm>) -> Result<Posted> {
        self.load();
        // SAFETY: I1.
        Ok(unsafe { self.driver(comm).start_schedule(self.instance, &self.schedule) })
    }

    fn arm(&mut self, _: &Shared<Comm>, trigger: Trigger<'_>) -> Result<Posted> {
        let (schedule, instance) = (self.unloaded_schedule()?, self.instance);
        // SAFETY: I1.
        Ok(unsafe { trigger.start(Triggered::Schedule { schedule, instance }) })
    }

    fn finish(&mut self, comm: &Shared<Comm>, end: End) -> Result<Next> {
        match end.outcome {
            Outcome::Done => {
                self.unload()?;
                Ok(Next::Over(Status::EMPTY))
            }
            Outcome::Released => {
                self.leave_to_driver(comm, end.ticket);
                Ok(Next::Over(Status::EMPTY))
            }
            other => Err(self.failed(comm, other)),
        }
    }

    fn origin(&self, comm: &Comm, _: bool) -> String {
        format!("{} of {}", name_of(self.name), comm.title())
    }

    fn may_be_released(&self) -> bool {
        self.space.is_none()
    }

    fn driver(&self, comm: &Comm) -> Plane {
        self.space.as_ref().map_or(comm.plane(), |space| space.plane)
    }
}

impl Collecting {
    /// Runs it, and waits. Returns false if it cannot run again: after a release the driver owns its work space.
    fn perform(&mut self, handle: MPI_Comm, comm: &Comm, instance: u16) -> Result<bool> {
        self.load();
        // SAFETY: I1.
        let (ticket, outcome) = unsafe { comm.plane().perform_schedule(instance, &self.schedule) };
        match outcome {
            Outcome::Done => self.unload()?,
            Outcome::Released => self.leave_to_driver(&comm::share_of(handle)?, ticket),
            other => return Err(self.failed(comm, other)),
        }
        Ok(outcome == Outcome::Done)
    }

    /// Hands the memory of the schedule to the driver until the schedule is complete.
    fn leave_to_driver(&mut self, comm: &Shared<Comm>, ticket: Option<Ticket>) {
        if let Some(ticket) = ticket {
            let kept = Box::new((std::mem::take(&mut self.kept), Shared::clone(comm)));
            comm.plane().detach(ticket, Some(kept));
        }
    }

    #[cold]
    fn failed(&self, comm: &Comm, outcome: Outcome) -> Failure {
        let failure = match outcome {
            Outcome::Failed(Fault::Truncated { word, len }) => {
                let source = word.source();
                let why = format!(
                    "rank {source} sends {len} bytes, more than this rank expects; counts and \
                                   datatypes must match on all ranks"
                );
                Failure::new(MPI_ERR_TRUNCATE, why).coded(ErrorCode::COLLECTIVE_LENGTH)
            }
            other => message::failed(other),
        };
        let (comm, bytes) = (Some(comm), Some(self.bytes));
        failure.during(Call { name: "", comm, peer: With::All, tag: None, bytes })
    }
}

/// Defines three functions of the standard for each collective: blocking, nonblocking and persistent.
macro_rules! collectives {
    ($(
        $now:ident / $now_large:ident, $begun:ident / $begun_large:ident,
        $prepared:ident / $prepared_large:ident
        ($($arg:ident: $type:ty),* $(,)?) $build:expr;
    )*) => {
        entries! { $(
            fn $now / $now_large ($($arg: $type,)* comm: MPI_Comm) on comm {
                let asked = CacheKey::new(stringify!($now))$(.with(&$arg))*;
                let call = const { CollectiveNote::new(CALL) }$(.with(&$arg))*;
                perform(call, comm, asked, $build)
            }

            fn $begun / $begun_large (
                $($arg: $type,)* comm: MPI_Comm, request: Out<MPI_Request>,
            ) on comm {
                let comm = comm::share_of(comm)?;
                let call = const { CollectiveNote::new(CALL) }$(.with(&$arg))*;
                begin(call, comm, request, $build)
            }

            fn $prepared / $prepared_large (
                $($arg: $type,)* comm: MPI_Comm, _info: MPI_Info, request: Out<MPI_Request>,
            ) on comm {
                let comm = comm::share_of(comm)?;
                let call = const { CollectiveNote::new(CALL) }$(.with(&$arg))*;
                prepare(call, comm, request, $build)
            }
        )* }
    };
}

pub(super) use collectives;

// A call of a collective takes an instance before anything else, so that the counts of all ranks agree even if only
// one of them finds an error.

/// Builds a collective. If that fails, other ranks may have started it nevertheless.
fn or_left_out(
    build: impl FnOnce(&Comm) -> Result<Collecting>,
) -> impl FnOnce(&Comm) -> Result<Collecting> {
    |comm| build(comm).inspect_err(|_| comm.members.leave_out())
}

/// Runs a collective, and waits. A call that repeats the previous one reuses what was built.
pub(super) fn perform(
    call: CollectiveNote,
    handle: MPI_Comm,
    asked: CacheKey,
    build: impl FnOnce(&Comm) -> Result<Collecting>,
) -> Result {
    let comm = comm::find(handle)?;
    let instance = comm.members.next_instance();
    let build = or_left_out(build);
    // The lock is held while it runs. A second thread builds its own meanwhile.
    let Some(mut latest) = comm.latest().filter(|_| asked.is_all) else {
        let mut collecting = build(comm)?;
        call.record(comm, &collecting);
        return collecting.perform(handle, comm, instance).map(drop);
    };
    let collecting = match &mut *latest {
        Some((before, collecting)) if before.is(&asked) => collecting,
        other => &mut other.insert((asked, build(comm)?)).1,
    };
    call.record(comm, collecting);
    let performed = collecting.perform(handle, comm, instance);
    if !matches!(performed, Ok(true)) || collecting.memory_bytes() > LATEST_BYTES_MAX {
        *latest = None;
    }
    performed.map(drop)
}

/// The memory that a communicator may keep for its latest collective. For larger ones, allocating again costs little
/// compared with the collective itself.
const LATEST_BYTES_MAX: usize = 1 << 20;

/// Starts a nonblocking collective.
pub(super) fn begin(
    call: CollectiveNote,
    comm: Shared<Comm>,
    request: Out<MPI_Request>,
    build: impl FnOnce(&Comm) -> Result<Collecting>,
) -> Result {
    let instance = comm.members.next_nonblocking_instance();
    let build = or_left_out(build);
    let collecting = Collecting { instance, name: call.name(), ..build(&comm)? };
    call.record(&comm, &collecting);
    let recipe: Box<dyn Recipe> = Box::new(collecting);
    request.put(Request::begin(comm, recipe)?)
}

/// Makes a persistent collective, which the program starts.
pub(super) fn prepare(
    call: CollectiveNote,
    comm: Shared<Comm>,
    request: Out<MPI_Request>,
    build: impl FnOnce(&Comm) -> Result<Collecting>,
) -> Result {
    let (space, instance) = comm_create::persistent_instance(&comm)?;
    let build = or_left_out(build);
    let collecting = Collecting { instance, name: call.name(), ..build(&space)? };
    call.record(&comm, &collecting);
    let recipe: Box<dyn Recipe> = Box::new(Collecting {
        space: Some(Space { plane: space.plane(), kept: space }),
        ..collecting
    });
    request.put(Request::prepare(comm, recipe))
}

entries! {
    fn MPI_Barrier(comm: MPI_Comm) on comm {
        perform(const { CollectiveNote::new(CALL) }, comm, CacheKey::new("MPI_Barrier"), barrier)
    }

    fn MPI_Ibarrier(comm: MPI_Comm, request: Out<MPI_Request>) on comm {
        begin(const { CollectiveNote::new(CALL) }, comm::share_of(comm)?, request, barrier)
    }

    fn MPI_Barrier_init(comm: MPI_Comm, _info: MPI_Info, request: Out<MPI_Request>) on comm {
        prepare(const { CollectiveNote::new(CALL) }, comm::share_of(comm)?, request, barrier)
    }
}

collectives! {
    MPI_Bcast / MPI_Bcast_c, MPI_Ibcast / MPI_Ibcast_c, MPI_Bcast_init / MPI_Bcast_init_c
    (buffer: ChoiceMut, count: Size, datatype: MPI_Datatype, root: RootRank)
    |comm| broadcast(comm, buffer, count, datatype, root);

    MPI_Gather / MPI_Gather_c, MPI_Igather / MPI_Igather_c, MPI_Gather_init / MPI_Gather_init_c
    (
        sendbuf: Choice, sendcount: Size, sendtype: MPI_Datatype, recvbuf: ChoiceMut,
        recvcount: Size, recvtype: MPI_Datatype, root: RootRank,
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
        recvcount: Size, recvtype: MPI_Datatype, root: RootRank,
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
        recvcounts: In<Size>, displs: In<Displacement>, recvtype: MPI_Datatype, root: RootRank,
    )
    |comm| {
        let sent = (sendbuf.address(), sendcount, sendtype);
        gatherv(comm, sent, (recvbuf.address(), recvcounts, displs, recvtype), root)
    };

    MPI_Scatterv / MPI_Scatterv_c, MPI_Iscatterv / MPI_Iscatterv_c,
    MPI_Scatterv_init / MPI_Scatterv_init_c
    (
        sendbuf: Choice, sendcounts: In<Size>, displs: In<Displacement>, sendtype: MPI_Datatype,
        recvbuf: ChoiceMut, recvcount: Size, recvtype: MPI_Datatype, root: RootRank,
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
        root: RootRank,
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
