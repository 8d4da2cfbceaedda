//! The rail over libfabric: one implementation for every network that it has a provider for.
//!
//! | file | what it is |
//! |---|---|
//! | `rail.rs` | the rail: how ranks exchange endpoint addresses, and where each frame goes |
//! | `reads.rs` | reads of other ranks' memory in progress |
//! | `endpoint_address.rs` | the message by which ranks exchange addresses |
//! | `endpoint.rs` | one endpoint of the library, with the memory lent to it |
//! | `slots.rs`, `object.rs` | that memory; objects of the library, and how they are closed |
//! | `found.rs` | which providers are available, and which one is chosen |
//! | `bindings.rs` | the library's layouts, and how it is loaded |
//!
//! The library is loaded only when a job asks for it, and is not needed to build. Frames are not sealed here:
//! everything that can reach a fabric's network is trusted, as is usual for such networks.

mod bindings;
mod endpoint;
mod endpoint_address;
mod found;
mod object;
pub(crate) mod rail;
mod reads;
mod slots;

pub(crate) use endpoint::Endpoint;
pub use found::{NoFabric, Providers, has_hardware, look, providers};
