//! Collective communication, and the operations of reductions.

mod build;
mod collective;
mod movement;
mod op;
mod reduction;
