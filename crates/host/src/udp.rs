//! The rail between hosts, from below: datagrams that nobody outside the job can read, make or
//! repeat, and the sockets that they go through.
//!
//! | file | what it is |
//! |---|---|
//! | `seal.rs` | a frame becomes a datagram and back: header, counters, epochs |
//! | `keys.rs` | which key that is, from the secret of the job down |
//! | `cipher.rs` | what encrypts, by what the processor can do |
//! | `replay.rs` | each datagram of a source counts once |
//! | `rail.rs` | the rail: which frame goes where, and which is taken |
//! | `group.rs` | one port for each host, a socket for each local rank behind it |
//! | `socket.rs` | one of them: many datagrams in one call |
//! | `address.rs`, `call.rs` | addresses as the kernel writes them; small system calls |
//!
//! A *local rank* is the number of a rank among those of its host. A *wakeup* is a datagram that only wakes
//! its receiver.

/// What a packet has around a frame: the longer header of the two networks, that of UDP, and ours with its tag.
#[expect(clippy::cast_possible_truncation, reason = "they are a few dozen")]
pub const AROUND_BYTES: u32 = 40 + 8 + (seal::HEADER_BYTES + seal::TAG_BYTES) as u32;

pub mod address;
mod call;
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
