//! The rail between processes of one machine: rings in shared memory, doorbells, and direct copies from one process
//! into another where the system permits them.

mod access;
mod arena;
pub(crate) mod doorbell;
mod newcomers;
pub(crate) mod plane;
mod process_lock;
pub(crate) mod rail;
pub(crate) mod ring;
pub(crate) mod segment;
mod shared_memory;
#[cfg(test)]
mod tests;
mod window_control;

pub use access::MemoryAccess;
pub use process_lock::{Hold, ProcessLock};
pub use rail::{Shm, ShmInlet, pair};
pub use segment::{PLANES, Process, Segment};
pub use shared_memory::SharedMemory;
pub use window_control::{
    ATTACHED_MAX, AttachedMemory, NicPart, WindowControl, WindowControls, WindowPart,
};
