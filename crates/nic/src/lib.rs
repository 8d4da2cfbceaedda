//! The network interface of Ferrywire, as logic.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod matcher;
pub mod word;

pub use word::{Mask, MatchWord};
