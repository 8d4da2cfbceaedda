//! What the facts of the rank say of a collective call: the arguments on which all ranks must agree.

use ferrywire_runtime::call_name::{C_NAMES, c_name};
use ferrywire_runtime::{CallName, CollectiveCall};

use crate::convert::argument::RootRank;
use crate::convert::constants::MPI_DATATYPE_NULL;
use crate::convert::handle::PREDEFINED_MAX;
use crate::convert::pointer::{Choice, ChoiceMut, In};
use crate::convert::types::{MPI_Datatype, MPI_Op};
use crate::objects::check;
use crate::objects::collecting::Collecting;
use crate::objects::comm::Comm;
use crate::objects::mistake;

/// A collective call that is about to be made.
#[derive(Clone, Copy)]
pub(crate) struct CollectiveNote {
    call: CollectiveCall,
    /// Whether all ranks must pass as many bytes.
    even: bool,
    /// The datatype, if all ranks must pass the same, and it is known.
    datatype: MPI_Datatype,
}

/// Calls in which all ranks pass as many bytes.
const EVEN: &[CallName] = &[
    c_name("MPI_Bcast"),
    c_name("MPI_Ibcast"),
    c_name("MPI_Reduce"),
    c_name("MPI_Ireduce"),
    c_name("MPI_Allreduce"),
    c_name("MPI_Iallreduce"),
    c_name("MPI_Scan"),
    c_name("MPI_Iscan"),
    c_name("MPI_Exscan"),
    c_name("MPI_Iexscan"),
];

impl CollectiveNote {
    #[inline(always)]
    pub(crate) const fn new(name: CallName) -> CollectiveNote {
        let mut even = false;
        let mut at = 0;
        while at < EVEN.len() {
            even |= EVEN[at].0 == name.0;
            at += 1;
        }
        let nonblocking = C_NAMES[name.0 as usize - 1].as_bytes()[4] == b'I';
        let call = CollectiveCall {
            name,
            object: 0,
            root: None,
            operator: 0,
            bytes: 0,
            nonblocking,
            content: 0,
        };
        CollectiveNote { call, even, datatype: MPI_DATATYPE_NULL }
    }

    /// The name of the call.
    pub(crate) fn name(&self) -> CallName {
        self.call.name
    }

    /// Adds an argument.
    #[inline(always)]
    pub(crate) fn with(mut self, argument: &impl Agreed) -> CollectiveNote {
        argument.add_to(&mut self);
        self
    }

    /// Records the call.
    #[inline(always)]
    pub(crate) fn record(mut self, comm: &Comm, collecting: &Collecting) {
        // Two groups may pass different lengths to each other.
        if comm.members.inter().is_some() {
            self.call.root = None;
        } else if self.even {
            self.call.bytes = collecting.bytes;
            if check::is_on() {
                self.call.content = check::content_of(self.datatype, collecting.bytes).bits();
            }
        }
        if let Some(block) = collecting.block.filter(|_| comm.members.inter().is_none()) {
            (self.call.bytes, self.call.content) = (block.bytes, block.content.bits());
        }
        if collecting.overlaps {
            mistake::overlapping(self.call.name, comm);
        }
        comm.runtime().note_collective(self.call);
    }
}

/// An argument on which all ranks must agree, or need not.
pub(crate) trait Agreed {
    #[inline(always)]
    fn add_to(&self, _: &mut CollectiveNote) {}
}

impl Agreed for Choice {}
impl Agreed for ChoiceMut {}
impl Agreed for std::ffi::c_int {}
impl Agreed for i64 {}
impl<T> Agreed for In<T> {}

impl Agreed for MPI_Datatype {
    #[inline(always)]
    fn add_to(&self, note: &mut CollectiveNote) {
        note.datatype = *self;
    }
}

impl Agreed for RootRank {
    #[inline(always)]
    fn add_to(&self, note: &mut CollectiveNote) {
        note.call.root = Some(self.bits());
    }
}

impl Agreed for MPI_Op {
    #[inline(always)]
    fn add_to(&self, note: &mut CollectiveNote) {
        let predefined = u16::try_from(self.0).ok().filter(|_| self.0 <= PREDEFINED_MAX);
        note.call.operator = predefined.unwrap_or(0);
    }
}
