//! A collective that is ready to go: a schedule, and the memory that it uses.

use std::any::Any;
use std::sync::Arc;

use ferrywire_host::nic::{Schedule, Span};

use crate::objects::Plane;
use crate::objects::data::Data;
use crate::objects::op::Combining;

/// A schedule, and the memory that it uses.
pub(crate) struct Collecting {
    pub(crate) schedule: Arc<Schedule>,
    pub(crate) places: Vec<PackedBuffer>,
    /// What is copied into the place where the result will be, each time that it starts.
    pub(crate) contribution: Option<(Data, Span)>,
    pub(crate) kept: ScheduleMemory,
    /// Under which it goes if a request stands for it: a persistent collective always under the same.
    pub(crate) instance: u16,
    /// Of a persistent collective: the communicator under whose number it goes, which is kept for as long.
    pub(crate) space: Option<Space>,
    pub(crate) bytes: u64,
}

/// What a schedule needs after its caller was let go.
#[derive(Default)]
pub(crate) struct ScheduleMemory {
    pub(crate) work: Box<[u8]>,
    #[expect(dead_code, reason = "it is used by the schedule")]
    pub(crate) combining: Option<Combining>,
}

/// Memory of the user's that does not lie as it travels: its packed form.
pub(crate) struct PackedBuffer {
    pub(crate) data: Data,
    pub(crate) packed: Box<[u8]>,
    pub(crate) goes: bool,
    pub(crate) comes: bool,
}

/// The communicator under whose number a persistent collective goes.
pub(crate) struct Space {
    /// Its plane.
    pub(crate) plane: Plane,
    #[expect(dead_code, reason = "it is kept alive")]
    pub(crate) kept: Arc<dyn Any + Send + Sync>,
}

impl Collecting {
    /// Puts what the user's memory holds now where the schedule expects it.
    pub(crate) fn load(&mut self) -> Arc<Schedule> {
        for place in self.places.iter_mut().filter(|place| place.goes) {
            place.data.pack(&mut place.packed);
        }
        if let Some((data, into)) = &self.contribution {
            data.pack_to(*into);
        }
        Arc::clone(&self.schedule)
    }

    /// The memory that it has besides the program's.
    pub(crate) fn memory_bytes(&self) -> usize {
        let packed: usize = self.places.iter().map(|place| place.packed.len()).sum();
        packed + self.kept.work.len()
    }

    /// Puts what has come where it belongs.
    pub(crate) fn unload(&self) {
        for place in self.places.iter().filter(|place| place.comes) {
            place.data.unpack(&place.packed);
        }
    }
}
