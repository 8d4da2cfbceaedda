//! Building blocks of collectives: memory of the program as spans, blocks for each rank, roots.

use ferrywire_host::ErrorCode;
use ferrywire_host::memory;
use ferrywire_host::nic::Span;
use ferrywire_mpi::collective::inter::Root as Side;
use ferrywire_runtime::{self as runtime, CallName, Prepared, Root};

use crate::convert::argument::RootRank;
use crate::convert::constants::{MPI_ERR_BUFFER, MPI_ERR_ROOT, MPI_ERR_TRUNCATE, MPI_IN_PLACE};
use crate::convert::failure::{Failure, Result};
use crate::convert::pointer::In;
use crate::convert::sizes::{self, Wide};
use crate::convert::types::MPI_Datatype;
use crate::objects::check;
use crate::objects::collecting::{Collecting, PackedBuffer, PassedBlock, ScheduleMemory};
use crate::objects::comm::Comm;
use crate::objects::data::{Data, room};
use crate::objects::datatype;
use crate::objects::op::Combining;

/// Memory of a collective that is being built.
pub(super) struct Build<'a> {
    comm: &'a Comm,
    places: Vec<PackedBuffer>,
    contribution: Option<(Data, Span)>,
    bytes: u64,
    /// Contiguous memory, and whether it is written. Only known in a program that is checked.
    lent: Vec<(Span, bool)>,
    /// The same: the block that all ranks pass for each rank.
    block: Option<PassedBlock>,
}

impl<'a> Build<'a> {
    pub(super) fn new(comm: &'a Comm) -> Build<'a> {
        Build {
            comm,
            places: Vec::new(),
            contribution: None,
            bytes: 0,
            lent: Vec::new(),
            block: None,
        }
    }

    /// Data that is only read.
    pub(super) fn give(&mut self, data: Data) -> Span {
        self.place(data, true, false)
    }

    /// Data that is only written.
    pub(super) fn get(&mut self, data: Data) -> Span {
        self.place(data, false, true)
    }

    /// Data that is read and written.
    pub(super) fn change(&mut self, data: Data) -> Span {
        self.place(data, true, true)
    }

    pub(super) fn place(&mut self, data: Data, goes: bool, comes: bool) -> Span {
        self.bytes = self.bytes.max(data.bytes());
        let Some(span) = data.contiguous() else { return self.pack(data, goes, comes) };
        if check::is_on() {
            self.lent.push((span, comes));
        }
        span
    }

    /// Data that is written while other data in the same memory is still read: it is received aside and unpacked at
    /// the end.
    pub(super) fn get_aside(&mut self, data: Data) -> Span {
        self.pack(data, false, true)
    }

    pub(super) fn pack(&mut self, data: Data, goes: bool, comes: bool) -> Span {
        let mut packed = room(data.bytes());
        let span = memory::lend_mut(&mut packed);
        self.places.push(PackedBuffer { data, packed, goes, comes });
        span
    }

    /// The block of which all ranks must pass the same number of bytes and the same basic types.
    pub(super) fn note_block(&mut self, datatype: MPI_Datatype, bytes: u64) {
        if check::is_on() {
            let content = check::content_of(datatype, bytes);
            self.block = Some(PassedBlock { bytes, content });
        }
    }

    /// The contribution to a reduction, copied to the location of its result.
    pub(super) fn contribute(&mut self, send: Option<Data>, receive: Data) -> Result<Span> {
        let Some(send) = send else { return Ok(self.change(receive)) };
        apart(&send, &receive)?;
        let into = self.get(receive);
        self.contribution = Some((send, into));
        Ok(into)
    }

    /// The contribution to a reduction, which is only read, and the location of its result: the same with
    /// MPI_IN_PLACE.
    pub(super) fn lend_both(&mut self, send: Option<Data>, receive: Data) -> Result<(Span, Span)> {
        let Some(send) = send else {
            let both = self.change(receive);
            return Ok((both, both));
        };
        apart(&send, &receive)?;
        Ok((self.give(send), self.get(receive)))
    }

    /// The communicator, as the runtime sees it.
    pub(super) fn comm(&self) -> runtime::Comm<'a> {
        self.comm.runtime()
    }

    /// The rank of this process.
    pub(super) fn rank(&self) -> u32 {
        self.comm.members.rank()
    }

    /// Whether the communicator is an intercommunicator.
    pub(super) fn is_between(&self) -> bool {
        self.comm.members.inter().is_some()
    }

    /// The number of ranks that blocks come from or go to.
    pub(super) fn blocks(&self) -> u32 {
        self.comm.members.targets().size()
    }

    pub(super) fn done(self, prepared: Prepared, combining: Option<Combining>) -> Collecting {
        let Build { places, contribution, bytes, lent, block, .. } = self;
        let overlaps = check::overlap(&lent);
        let Prepared { schedule, work } = prepared;
        let kept = ScheduleMemory { work, combining };
        let name = CallName::INTERNAL;
        Collecting {
            schedule,
            places,
            contribution,
            kept,
            instance: 0,
            space: None,
            bytes,
            overlaps,
            block,
            name,
        }
    }
}

/// Checks that the two buffers of a reduction do not overlap.
fn apart(send: &Data, receive: &Data) -> Result {
    if let (Some(send), Some(receive)) = (send.contiguous(), receive.contiguous())
        && send.offset < receive.offset + receive.len
        && receive.offset < send.offset + send.len
    {
        let why = "the send and receive buffers overlap; to reduce in place, pass MPI_IN_PLACE as the send buffer";
        return Err(Failure::new(MPI_ERR_BUFFER, why).coded(ErrorCode::OVERLAP));
    }
    Ok(())
}

/// The root of a collective.
pub(super) fn root_of(comm: &Comm, root: RootRank) -> Result<Root> {
    let size = comm.members.targets().size();
    match (comm.members.inter().is_some(), root.below(size)) {
        (false, Some(rank)) => Ok(Root::Rank(rank)),
        (true, _) if root.is_caller() => Ok(Root::Between(Side::Us)),
        (true, _) if root.is_null() => Ok(Root::Between(Side::Ours)),
        (true, Some(rank)) => Ok(Root::Between(Side::Theirs(rank))),
        (between, None) => Err(no_such_root(root, size, between)),
    }
}

#[cold]
fn no_such_root(root: RootRank, size: u32, between: bool) -> Failure {
    let last = size.saturating_sub(1);
    let why = match (between, last) {
        (true, _) => format!("invalid root {root}; ranks of the remote group go from 0 to {last}"),
        (false, 0) => format!("invalid root {root}; the only rank is 0"),
        (false, _) => format!("invalid root {root}; ranks go from 0 to {last}"),
    };
    Failure::new(MPI_ERR_ROOT, why)
}

pub(super) fn is_in_place(address: u64) -> bool {
    address == MPI_IN_PLACE as u64
}

/// `blocks` blocks of `count` elements.
pub(super) fn all_blocks(
    address: u64,
    count: impl Wide,
    blocks: u32,
    datatype: MPI_Datatype,
) -> Result<Data> {
    let count = sizes::count(count)?;
    Data::new(address, count * u64::from(blocks), datatype)
}

/// A block for each rank, at a displacement in elements.
pub(super) struct Blocks {
    address: u64,
    counts: Vec<i64>,
    displs: Vec<i64>,
    extent: i64,
    datatype: MPI_Datatype,
}

impl Blocks {
    pub(super) fn new<C: Wide, D: Wide>(
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

    /// Adjacent blocks of `count` elements.
    pub(super) fn even(
        address: u64,
        count: impl Wide,
        blocks: u32,
        datatype: MPI_Datatype,
    ) -> Result<Blocks> {
        let count = i64::try_from(sizes::count(count)?).expect("it was one");
        let extent = datatype::find_committed(datatype)?.extent();
        let counts = vec![count; blocks as usize];
        let displs = (0..i64::from(blocks)).map(|block| block.wrapping_mul(count)).collect();
        Ok(Blocks { address, counts, displs, extent, datatype })
    }

    pub(super) fn at(&self, rank: u32) -> Result<Data> {
        let rank = rank as usize;
        let offset = self.displs[rank].wrapping_mul(self.extent);
        let address = self.address.wrapping_add_signed(offset);
        Data::new(address, sizes::count(self.counts[rank])?, self.datatype)
    }

    pub(super) fn each(&self, mut place: impl FnMut(Data) -> Span) -> Result<Vec<Span>> {
        (0..).take(self.counts.len()).map(|rank| Ok(place(self.at(rank)?))).collect()
    }
}

/// A block for each rank with its own datatype, at a displacement in bytes.
pub(super) struct TypedBlocks {
    address: u64,
    counts: Vec<i64>,
    displs: Vec<i64>,
    datatypes: Vec<MPI_Datatype>,
}

impl TypedBlocks {
    pub(super) fn new<C: Wide, D: Wide>(
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

    pub(super) fn at(&self, rank: u32) -> Result<Data> {
        let rank = rank as usize;
        let address = self.address.wrapping_add_signed(self.displs[rank]);
        Data::new(address, sizes::count(self.counts[rank])?, self.datatypes[rank])
    }

    pub(super) fn each(&self, mut place: impl FnMut(Data) -> Span) -> Result<Vec<Span>> {
        (0..).take(self.counts.len()).map(|rank| Ok(place(self.at(rank)?))).collect()
    }
}

/// The block of a rank in a span of equal blocks.
pub(super) fn part(all: Span, rank: u32, blocks: u32) -> Span {
    let len = all.len / u64::from(blocks.max(1));
    all.part(u64::from(rank) * len, len)
}

/// Checks that a rank sends to itself as many bytes as it receives from itself.
pub(super) fn agree(sent: Span, received: Span) -> Result {
    if sent.len == received.len {
        return Ok(());
    }
    let (sent, received) = (sent.len, received.len);
    let why = format!(
        "this rank sends {sent} bytes to itself but expects {received}; counts and datatypes \
                       must match"
    );
    Err(Failure::new(MPI_ERR_TRUNCATE, why).coded(ErrorCode::COLLECTIVE_LENGTH))
}
