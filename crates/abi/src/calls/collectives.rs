//! Collective communication, and the operations of reductions.

mod build;
pub(crate) mod collective;
mod movement;
pub(crate) mod neighbourhood;
pub(crate) mod op;
mod reduction;
