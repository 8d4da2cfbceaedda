//! The rail over libfabric: whatever network it has a provider for, by one code.
//!
//! | file | what it is |
//! |---|---|
//! | `rail.rs` | the rail: how ranks learn each other's names, which frame goes where |
//! | `reads.rs` | which pieces of other ranks' memory are being read |
//! | `watch.rs` | who is silent for too long |
//! | `endpoint_address.rs` | what they tell each other for that, as bytes |
//! | `endpoint.rs` | one endpoint of the library, with the memory that is lent to it |
//! | `slots.rs`, `object.rs` | that memory; objects of the library, and how they are closed |
//! | `found.rs` | which providers there are, and which one is chosen |
//! | `bindings.rs` | the library's layouts, and how it is loaded |
//!
//! The library is loaded when a job wants it, never before, and nothing needs it to be built. Frames are not sealed here: whoever
//! can reach the network of a fabric is trusted, as all that is made for such networks has it.

mod bindings;
mod endpoint;
mod endpoint_address;
mod found;
mod object;
pub(crate) mod rail;
mod reads;
mod slots;
mod watch;

pub(crate) use endpoint::Endpoint;
pub use found::{NoFabric, Providers, has_hardware, look, providers};
