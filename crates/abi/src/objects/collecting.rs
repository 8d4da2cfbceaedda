//! A collective that is ready to start: a schedule and its memory.

use std::any::Any;
use std::sync::Arc;

use ferrywire_host::nic::{Schedule, Span, Step};
use ferrywire_mpi::datatype::Content;
use ferrywire_runtime::CallName;

use crate::convert::failure::Result;
use crate::objects::Plane;
use crate::objects::data::Data;
use crate::objects::op::Combining;
use crate::objects::recipe::not_contiguous;

/// A schedule and its memory.
pub(crate) struct Collecting {
    pub(crate) schedule: Arc<Schedule>,
    pub(crate) places: Vec<PackedBuffer>,
    /// The contribution that is copied to the location of the result each time the schedule starts.
    pub(crate) contribution: Option<(Data, Span)>,
    pub(crate) kept: ScheduleMemory,
    /// The instance of a collective with a request. A persistent collective always has the same.
    pub(crate) instance: u16,
    /// For a persistent collective, the communicator whose number it uses, which is kept as long.
    pub(crate) space: Option<Space>,
    pub(crate) bytes: u64,
    /// Whether it writes memory that it also reads, or writes twice. Only known in a program that is checked.
    pub(crate) overlaps: bool,
    /// The block of which all ranks must pass the same, in a program that is checked.
    pub(crate) block: Option<PassedBlock>,
    /// The call that made it, if that has a request.
    pub(crate) name: CallName,
}

/// What all ranks must pass for each rank.
#[derive(Clone, Copy)]
pub(crate) struct PassedBlock {
    pub(crate) bytes: u64,
    pub(crate) content: Content,
}

/// The memory that a schedule needs after it has released its caller.
#[derive(Default)]
pub(crate) struct ScheduleMemory {
    pub(crate) work: Box<[u8]>,
    pub(crate) combining: Option<Combining>,
}

/// Memory of the program that is not contiguous: its packed form.
pub(crate) struct PackedBuffer {
    pub(crate) data: Data,
    pub(crate) packed: Box<[u8]>,
    pub(crate) goes: bool,
    pub(crate) comes: bool,
}

/// The communicator whose number a persistent collective uses.
pub(crate) struct Space {
    /// Its plane.
    pub(crate) plane: Plane,
    #[expect(dead_code, reason = "it is kept alive")]
    pub(crate) kept: Arc<dyn Any + Send + Sync>,
}

impl Collecting {
    /// Packs the current data of the program for the schedule. Most is contiguous, and needs no packing.
    #[inline(always)]
    pub(crate) fn load(&mut self) {
        if !self.places.is_empty() || self.contribution.is_some() {
            self.pack();
        }
    }

    /// The schedule for data that the program has not passed yet: it copies the contribution first.
    pub(crate) fn unloaded_schedule(&self) -> Result<Arc<Schedule>> {
        if self.places.iter().any(|place| place.goes) {
            return Err(not_contiguous());
        }
        let schedule = Arc::clone(&self.schedule);
        let Some((data, into)) = &self.contribution else { return Ok(schedule) };
        let source = data.contiguous().ok_or_else(not_contiguous)?;
        Ok(Arc::new(Schedule::preceded_by(Step::Copy { source, into: *into }, schedule)))
    }

    #[inline(never)]
    fn pack(&mut self) {
        for place in self.places.iter_mut().filter(|place| place.goes) {
            place.data.pack(&mut place.packed);
        }
        if let Some((data, into)) = &self.contribution {
            data.pack_to(*into);
        }
    }

    /// The size of its memory besides the program's.
    pub(crate) fn memory_bytes(&self) -> usize {
        let packed: usize = self.places.iter().map(|place| place.packed.len()).sum();
        packed + self.kept.work.len()
    }

    /// Unpacks the data that has arrived. Fails if it could not be combined.
    #[inline(always)]
    pub(crate) fn unload(&self) -> Result {
        if let Some(combining) = &self.kept.combining {
            combining.check()?;
        }
        for place in self.places.iter().filter(|place| place.comes) {
            place.data.unpack(&place.packed);
        }
        Ok(())
    }
}
