//! The UDP rail between hosts, from below: datagrams that no process outside the job can read, forge or
//! replay, and the sockets that carry them.
//!
//! | file | what it is |
//! |---|---|
//! | `seal.rs` | a frame becomes a datagram and back: header, counters, epochs |
//! | `keys.rs` | key derivation, from the job's secret down |
//! | `cipher.rs` | AES-GCM, by the fastest implementation for this processor |
//! | `replay.rs` | replay protection: each datagram of a source counts once |
//! | `rail.rs` | the rail: where each frame goes, and which datagrams are accepted |
//! | `group.rs` | one port for each host, with a socket for each local rank |
//! | `socket.rs` | one such socket: many datagrams in one call |
//! | `connected.rs` | a connected socket to the most recently used host |
//! | `address.rs`, `call.rs` | addresses in the kernel's layout; small system calls |
//!
//! A *wakeup* is a datagram that only wakes its receiver.

/// Bytes around a frame in a packet: the IPv6 header (the longer of the two), the UDP header, and our header and tag.
#[expect(clippy::cast_possible_truncation, reason = "they are a few dozen")]
pub const AROUND_BYTES: u32 = 40 + 8 + (seal::HEADER_BYTES + seal::TAG_BYTES) as u32;

/// The lengths of AES-128 in Galois/counter mode.
const KEY_BYTES: usize = 16;
const NONCE_BYTES: usize = 12;
const TAG_BYTES: usize = 16;

pub mod address;
mod burst;
mod call;
#[cfg_attr(not(feature = "hosts"), path = "udp/no_cipher.rs")]
mod cipher;
mod connected;
pub mod group;
pub mod keys;
pub(crate) mod rail;
pub mod replay;
pub mod seal;
pub mod socket;
#[cfg(test)]
mod tests;
