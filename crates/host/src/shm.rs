//! The rail between processes of one machine: rings in shared memory, doorbells, and direct copies from one process
//! into another where the system permits them.

mod arena;
pub(crate) mod doorbell;
mod newcomers;
pub(crate) mod plane;
pub(crate) mod rail;
pub(crate) mod ring;
pub(crate) mod segment;
#[cfg(test)]
mod tests;

pub use rail::{Shm, ShmInlet, pair};
pub use segment::{PLANES, Process, Segment};
