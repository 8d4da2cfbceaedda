//! The rail between processes of one machine: rings in shared memory, doorbells, and copies straight
//! from one process into the other where the system permits them.

pub(crate) mod doorbell;
#[cfg(not(loom))]
pub(crate) mod rail;
pub(crate) mod ring;
#[cfg(not(loom))]
pub(crate) mod segment;

#[cfg(not(loom))]
pub use rail::{Shm, ShmInlet};
#[cfg(not(loom))]
pub use segment::{Process, Segment};
