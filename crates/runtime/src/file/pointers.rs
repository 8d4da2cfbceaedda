//! File pointers: one of each member, and one that all of them share. They count etypes of the view.

use ferrywire_mpi::datatype::Datatype;
use ferrywire_mpi::operation::{self, Number, Operation};

use super::agree::{FACTS, same};
use super::{File, FileError, FileResult, lock};
use crate::comm::Comm;
use crate::window::TargetData;

/// What an offset is relative to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Whence {
    /// The beginning of the view.
    Beginning,
    /// The pointer.
    Pointer,
    /// The end of the file.
    End,
}

/// Where an access begins.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FilePosition {
    /// At an offset in etypes.
    Explicit(u64),
    /// At the pointer of the member.
    Pointer,
    /// At the pointer that the members share.
    Shared,
}

impl File {
    /// The place in the view, in bytes, of an access to `etypes`. Moves the pointer that it is for.
    pub fn claim(&self, comm: Comm<'_>, position: FilePosition, etypes: u64) -> FileResult<u64> {
        let etype = match position {
            FilePosition::Explicit(offset) => offset,
            FilePosition::Pointer => {
                let mut pointer = lock(&self.pointer);
                let before = *pointer;
                *pointer = before.checked_add(etypes).ok_or(FileError::TooFar)?;
                before
            }
            FilePosition::Shared => self.move_shared(comm, etypes)?,
        };
        self.bytes_at(etype)
    }

    /// The place of this member's access to `etypes`, behind those of all lower members, at the shared pointer. All
    /// members call it.
    pub fn claim_in_order(&self, comm: Comm<'_>, etypes: u64) -> FileResult<u64> {
        let all = comm.meet(None, [etypes.cast_signed(), 0, 0, 0])?;
        let counts = || all.iter().map(|facts| facts[0].cast_unsigned());
        let me = comm.members().rank();
        // All members have entered, so no earlier access of any of them is still to move the pointer.
        let start = if me == 0 { self.move_shared(comm, counts().sum()) } else { Ok(0) };
        let trouble = start.as_ref().err().map(FileError::trouble);
        let start = start.unwrap_or(0).cast_signed();
        let start = comm.meet(trouble, [start, 0, 0, 0])?[0][0].cast_unsigned();
        self.bytes_at(start + counts().take(me as usize).sum::<u64>())
    }

    fn bytes_at(&self, etype: u64) -> FileResult<u64> {
        etype.checked_mul(self.view().etype_bytes()).ok_or(FileError::TooFar)
    }

    /// Our pointer.
    pub fn position(&self) -> u64 {
        *lock(&self.pointer)
    }

    /// Moves our pointer.
    pub fn seek(&self, offset: i64, whence: Whence) -> FileResult {
        let mut pointer = lock(&self.pointer);
        *pointer = self.target(offset, whence, *pointer)?;
        Ok(())
    }

    /// The shared pointer.
    pub fn shared_position(&self, comm: Comm<'_>) -> FileResult<u64> {
        self.move_shared(comm, 0)
    }

    /// The file offset of the shared pointer. All members call it.
    pub fn shared_offset(&self, comm: Comm<'_>) -> FileResult<u64> {
        // No member still moves it.
        comm.meet(None, [0; FACTS])?;
        self.offset_of(self.shared_position(comm)?)
    }

    /// The file offset of an etype of the view.
    pub fn offset_of(&self, etype: u64) -> FileResult<u64> {
        self.view().offset_of(self.bytes_at(etype)?).ok_or(FileError::TooFar)
    }

    /// Moves the shared pointer. All members call it.
    pub fn seek_shared(&self, comm: Comm<'_>, offset: i64, whence: Whence) -> FileResult {
        let all = comm.meet(None, [offset, whence as i64, 0, 0])?;
        same(&all, 0, "the offset")?;
        same(&all, 1, "what the offset is relative to")?;
        let moved = match comm.members().rank() {
            0 => self.shared_position(comm).and_then(|now| {
                let target = self.target(offset, whence, now)?;
                self.move_shared(comm, target.wrapping_sub(now)).map(|_| ())
            }),
            _ => Ok(()),
        };
        comm.agree(moved)
    }

    /// Sets all pointers. All members call it.
    pub(super) fn set_all_pointers(&self, comm: Comm<'_>, etype: u64) -> FileResult {
        *lock(&self.pointer) = etype;
        let moved = match comm.members().rank() {
            0 => self
                .shared_position(comm)
                .and_then(|now| self.move_shared(comm, etype.wrapping_sub(now)).map(|_| ())),
            _ => Ok(()),
        };
        comm.agree(moved)
    }

    fn target(&self, offset: i64, whence: Whence, pointer: u64) -> FileResult<u64> {
        let from = match whence {
            Whence::Beginning => 0,
            Whence::Pointer => pointer,
            Whence::End => {
                let view = self.view();
                view.position_at(self.size()?).div_ceil(view.etype_bytes())
            }
        };
        from.checked_add_signed(offset).ok_or(FileError::BeforeBeginning)
    }

    /// Moves the shared pointer, and returns where it was.
    fn move_shared(&self, comm: Comm<'_>, etypes: u64) -> FileResult<u64> {
        let datatype = Datatype::by_name("MPI_UINT64_T").expect("it is predefined");
        let sum = operation::operator(Operation::Sum, Number::U64).expect("numbers have a sum");
        let data = TargetData { rank: 0, displacement: 0, count: 1, datatype: &datatype };
        let mut before = [0; 8];
        let (window, source) = (&self.shared_pointer, etypes.to_ne_bytes());
        window.accumulate(comm, data, sum, &source, Some(&mut before))?;
        Ok(u64::from_ne_bytes(before))
    }
}
