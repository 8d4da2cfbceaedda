//! How files are read and written.
//!
//! An access is prepared and then run: by the call itself, or by the thread of the file if the call is non-blocking or
//! split. Pointers move when it is prepared.

use std::sync::Arc;

use ferrywire_host::ErrorCode;
use ferrywire_runtime::{CallName, FilePosition};

use crate::calls::files::view::etype_at;
use crate::convert::constants::{MPI_ERR_ARG, MPI_ERR_OTHER};
use crate::convert::failure::{Failure, Result};
use crate::convert::handle::Shared;
use crate::convert::sizes::{self, Wide};
use crate::convert::status::Status;
use crate::convert::types::{MPI_Datatype, MPI_File, MPI_Offset, MPI_Request};
use crate::objects::file::{self, OpenFile, SplitCall, find};
use crate::objects::file_access::Accessing;
use crate::objects::file_data::FileData;
use crate::objects::request::Request;

/// Whether an access reads or writes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Direction {
    Read,
    Write,
}

/// Where an access begins.
#[derive(Clone, Copy)]
pub(super) enum Begin {
    /// At an offset in etypes.
    Offset(MPI_Offset),
    Pointer,
    Shared,
}

/// Who accesses the file together.
#[derive(Clone, Copy)]
pub(super) enum Order {
    /// The rank by itself.
    Alone(Begin),
    /// All ranks.
    Together(Begin),
    /// All ranks, one behind the other at the shared pointer.
    InRanks,
}

/// The arguments that describe elements of the program: address, number and datatype.
pub(super) type FileElements<C> = (u64, C, MPI_Datatype);

/// An access that is ready to run.
struct Access {
    file: Shared<OpenFile>,
    direction: Direction,
    place: Place,
    /// An error of a collective call, which all ranks have to learn.
    data: Result<FileData>,
}

/// Where an access is: bytes of the view.
#[derive(Clone, Copy)]
enum Place {
    Alone(u64),
    Together(u64),
    /// As many etypes, at a place that depends on those of other ranks.
    InRanks(u64),
}

impl Access {
    /// Prepares an access, and moves the pointer that it is for. An error of a collective call is kept for all ranks.
    fn new(
        name: CallName,
        handle: MPI_File,
        direction: Direction,
        order: Order,
        elements: FileElements<impl Wide>,
    ) -> Result<Access> {
        let file = file::share_of(handle)?;
        match order {
            Order::Alone(_) => file.runtime().note_call(name, None),
            Order::Together(_) | Order::InRanks => file.comm.note_collective(name),
        }
        let prepared = Access::prepare(&file, direction, order, elements);
        let (data, place) = match (prepared, order) {
            (Ok((data, place)), _) => (Ok(data), place),
            (Err(failure), Order::Alone(_)) => return Err(failure),
            (Err(failure), _) => (Err(failure), Place::Together(0)),
        };
        Ok(Access { file, direction, place, data })
    }

    fn prepare(
        file: &OpenFile,
        direction: Direction,
        order: Order,
        (address, count, datatype): FileElements<impl Wide>,
    ) -> Result<(FileData, Place)> {
        match direction {
            Direction::Read => file.check_readable()?,
            Direction::Write => file.check_writable()?,
        }
        let begin = match order {
            Order::Alone(begin) | Order::Together(begin) => begin,
            Order::InRanks => Begin::Shared,
        };
        if !matches!(begin, Begin::Shared) {
            file.check_not_sequential()?;
        }
        let representation = file.view().representation;
        let data = FileData::new(&representation, address, sizes::count(count)?, datatype)?;
        let etype_bytes = file.file.view().etype_bytes();
        if !data.bytes().is_multiple_of(etype_bytes) {
            let why = format!(
                "the elements have {} bytes in the file, which is no multiple of the {etype_bytes} of an etype",
                data.bytes()
            );
            return Err(Failure::new(MPI_ERR_ARG, why).coded(ErrorCode::VIEW));
        }
        let etypes = data.bytes() / etype_bytes;
        let position = match begin {
            Begin::Offset(offset) => FilePosition::Explicit(etype_at(offset)?),
            Begin::Pointer => FilePosition::Pointer,
            Begin::Shared => FilePosition::Shared,
        };
        let claim = || file.file.claim(file.runtime(), position, etypes);
        let place = match order {
            Order::Alone(_) => Place::Alone(claim()?),
            Order::Together(_) => Place::Together(claim()?),
            Order::InRanks => Place::InRanks(etypes),
        };
        Ok((data, place))
    }

    /// Runs it.
    fn run(self) -> Result<Status> {
        let Access { file, direction, place, data } = self;
        let result = match direction {
            Direction::Read => read(&file, place, data),
            Direction::Write => write(&file, place, data),
        };
        match result {
            Ok(bytes) => Ok(Status { bytes, ..Status::EMPTY }),
            Err(failure) => Err(failure.of(file)),
        }
    }
}

/// Writes elements. Returns their bytes in memory.
fn write(object: &OpenFile, place: Place, data: Result<FileData>) -> Result<u64> {
    let (file, comm) = (&object.file, object.runtime());
    if let (Place::Alone(position), Ok(data)) = (place, &data)
        && let Some(pieces) = data.pieces()
    {
        file.write(comm, position, pieces)?;
        return Ok(data.memory_bytes());
    }
    let refuse = |failure| match place {
        Place::Alone(_) => failure,
        _ => file::refuse(comm, failure),
    };
    let data = data.map_err(refuse)?;
    let bytes = data.to_file().map_err(refuse)?;
    match place {
        Place::Alone(position) => file.write(comm, position, vec![&bytes])?,
        Place::Together(position) => file.write_all(comm, position, &bytes)?,
        Place::InRanks(etypes) => {
            let position = file.claim_in_order(comm, etypes)?;
            file.write_all(comm, position, &bytes)?
        }
    };
    Ok(data.memory_bytes())
}

/// Reads elements. Returns how many bytes of memory have been filled.
fn read(object: &OpenFile, place: Place, data: Result<FileData>) -> Result<u64> {
    let (file, comm) = (&object.file, object.runtime());
    let refuse = |failure| match place {
        Place::Alone(_) => failure,
        _ => file::refuse(comm, failure),
    };
    let mut data = data.map_err(refuse)?;
    if let Place::Alone(position) = place
        && let Some(pieces) = data.pieces_mut()
    {
        return Ok(file.read(comm, position, pieces)?);
    }
    data.fill(|bytes| {
        Ok(match place {
            Place::Alone(position) => file.read(comm, position, vec![bytes])?,
            Place::Together(position) => file.read_all(comm, position, bytes)?,
            Place::InRanks(etypes) => {
                let position = file.claim_in_order(comm, etypes)?;
                file.read_all(comm, position, bytes)?
            }
        })
    })
}

/// A blocking access.
pub(super) fn perform(
    name: CallName,
    handle: MPI_File,
    direction: Direction,
    order: Order,
    elements: FileElements<impl Wide>,
) -> Result<Status> {
    let access = Access::new(name, handle, direction, order, elements)?;
    if !matches!(order, Order::Alone(_)) {
        // Collective accesses that began before meet those of other ranks first.
        access.file.file.wait_for_started();
    }
    access.run()
}

/// A non-blocking access.
pub(super) fn start(
    name: CallName,
    handle: MPI_File,
    direction: Direction,
    order: Order,
    elements: FileElements<impl Wide>,
) -> Result<MPI_Request> {
    let access = Access::new(name, handle, direction, order, elements)?;
    let file = Shared::clone(&access.file);
    let recipe = Accessing::recipe(Shared::clone(&file), move || access.run());
    Request::begin(Arc::clone(&file.comm), recipe)
}

/// The first half of a split collective access.
pub(super) fn begin(
    name: CallName,
    handle: MPI_File,
    call: SplitCall,
    order: Order,
    elements: FileElements<impl Wide>,
) -> Result {
    let object = file::share_of(handle)?;
    let mut split = object.split();
    if split.is_some() {
        let why = "another split collective access to the file has begun and has not ended";
        return Err(Failure::new(MPI_ERR_OTHER, why).coded(ErrorCode::SPLIT_ACCESS));
    }
    let direction = match call {
        SplitCall::ReadAt | SplitCall::Read | SplitCall::ReadOrdered => Direction::Read,
        SplitCall::WriteAt | SplitCall::Write | SplitCall::WriteOrdered => Direction::Write,
    };
    let access = Access::new(name, handle, direction, order, elements)?;
    let recipe = Accessing::recipe(Shared::clone(&object), move || access.run());
    let mut request = Request::new(Arc::clone(&object.comm), recipe, false);
    request.start()?;
    *split = Some((call, request));
    Ok(())
}

/// The second half.
pub(super) fn end(handle: MPI_File, call: SplitCall) -> Result<Status> {
    let object = find(handle)?;
    let mut split = object.split();
    match split.take() {
        Some((begun, mut request)) if begun == call => request.wait(),
        other => {
            *split = other;
            let why = "no split collective access of this kind has begun";
            Err(Failure::new(MPI_ERR_OTHER, why).coded(ErrorCode::SPLIT_ACCESS))
        }
    }
}
