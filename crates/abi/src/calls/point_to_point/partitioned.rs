//! Partitioned communication.

use std::ffi::c_int;

use ferrywire_host::ErrorCode;

use crate::calls::entry::entries;
use crate::convert::argument::{MessageTag, PeerRank, SourceRank};
use crate::convert::constants::{MPI_ERR_ARG, MPI_ERR_RANK, MPI_ERR_REQUEST};
use crate::convert::failure::{Failure, Result};
use crate::convert::handle::Shared;
use crate::convert::pointer::{Choice, ChoiceMut, In, Out};
use crate::convert::sizes::{self, Wide};
use crate::convert::status::Status;
use crate::convert::types::{MPI_Comm, MPI_Datatype, MPI_Info, MPI_Request};
use crate::objects::comm::{self, Comm};
use crate::objects::message::{from, to};
use crate::objects::partitioned::{
    Channel, NullRequest, ReceiveChannel, ReceiveRequest, SendChannel, SendRequest, find,
    partition, prepare,
};
use crate::objects::recipe::Recipe;

/// Makes the request of a message to or from `peer`; `open` opens its channel.
fn initialised(
    comm: Shared<Comm>,
    peer: PeerRank,
    tag: MessageTag,
    partitions: c_int,
    nobody: Status,
    open: impl FnOnce(&Shared<Comm>, (u32, u32), u32) -> Result<(Channel, Box<dyn Recipe>)>,
) -> Result<MPI_Request> {
    let tag = comm.tag(tag)?;
    let Ok(partitions) = u32::try_from(partitions) else {
        let why = format!("invalid number of partitions {partitions}; it must not be negative");
        return Err(Failure::new(MPI_ERR_ARG, why).coded(ErrorCode::PARTITION));
    };
    let (channel, recipe) = match comm.target(peer)? {
        None => (Channel::Null(partitions), Box::new(NullRequest(nobody)) as Box<dyn Recipe>),
        Some(rank) => open(&comm, (rank, tag), partitions)?,
    };
    Ok(prepare(comm, recipe, channel))
}

/// Makes partitions of a send ready.
fn make_ready(request: MPI_Request, partitions: impl Iterator<Item = i64>) -> Result {
    match find(request)? {
        Channel::Send(channel) => channel.make_ready(partitions),
        Channel::Null(count) => {
            for nth in partitions {
                partition(nth, count)?;
            }
            Ok(())
        }
        Channel::Receive(_) => {
            Err(Failure::new(MPI_ERR_REQUEST, "the request is that of a receive"))
        }
    }
}

entries! {
    fn MPI_Psend_init / MPI_Psend_init_c (
        buf: Choice, partitions: c_int, count: Size, datatype: MPI_Datatype, dest: PeerRank, tag: MessageTag,
        comm: MPI_Comm, _info: MPI_Info, request: Out<MPI_Request>,
    ) on comm {
        let comm = comm::share_of(comm)?;
        let described = to(&comm, dest, tag);
        let init = initialised(Shared::clone(&comm), dest, tag, partitions, Status::EMPTY, |comm, to, partitions| {
            let channel = SendChannel::open(comm, to, (buf.address(), partitions, sizes::count(count)?), datatype)?;
            Ok((Channel::Send(channel.clone()), Box::new(SendRequest::new(channel))))
        });
        request.put(init.map_err(described)?)
    }

    fn MPI_Precv_init / MPI_Precv_init_c (
        buf: ChoiceMut, partitions: c_int, count: Size, datatype: MPI_Datatype, dest: SourceRank, tag: MessageTag,
        comm: MPI_Comm, _info: MPI_Info, request: Out<MPI_Request>,
    ) on comm {
        let comm = comm::share_of(comm)?;
        let described = from(&comm, dest, tag);
        let Some(source) = dest.peer() else {
            let failure = Failure::new(MPI_ERR_RANK, "a partitioned receive has one source");
            return Err(described(failure));
        };
        let init = initialised(Shared::clone(&comm), source, tag, partitions, Status::NOBODY, |comm, from, partitions| {
            let channel = ReceiveChannel::open(comm, from, (buf.address(), partitions, sizes::count(count)?), datatype)?;
            Ok((Channel::Receive(channel.clone()), Box::new(ReceiveRequest(channel))))
        });
        request.put(init.map_err(described)?)
    }

    fn MPI_Pready(partition: c_int, request: MPI_Request) {
        make_ready(request, std::iter::once(partition.wide()))
    }

    fn MPI_Pready_range(partition_low: c_int, partition_high: c_int, request: MPI_Request) {
        make_ready(request, partition_low.wide()..=partition_high.wide())
    }

    fn MPI_Pready_list(length: c_int, array_of_partitions: In<c_int>, request: MPI_Request) {
        let partitions = array_of_partitions.slice(sizes::length(length)?)?;
        make_ready(request, partitions.iter().map(|&nth| nth.wide()))
    }

    fn MPI_Parrived(request: MPI_Request, partition: c_int, flag: Out<c_int>) {
        let arrived = match find(request)? {
            Channel::Receive(channel) => channel.has_arrived(partition.wide())?,
            Channel::Null(count) => crate::objects::partitioned::partition(partition.wide(), count).map(|_| true)?,
            Channel::Send(_) => {
                return Err(Failure::new(MPI_ERR_REQUEST, "the request is that of a send"));
            }
        };
        flag.put(arrived.into())
    }
}
