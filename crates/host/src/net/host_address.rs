//! Where ranks of other hosts reach those of this host: a port, and addresses to try.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;

use super::directory::ADDRESSES_MAX;
pub use crate::sys::interfaces::{InterfaceAddress, addresses};
use crate::udp::AROUND_BYTES;
use crate::udp::group::Group;

/// The sockets that a host has opened to others.
pub struct HostAddress {
    /// One socket for each rank. All of them stay open until the job ends: the kernel's steering depends on it.
    pub group: Group,
    /// The addresses that others may try.
    pub addresses: Vec<IpAddr>,
    /// The longest frame that fits into a packet here.
    pub frame_bytes_max: u32,
}

/// Why other hosts cannot reach this one.
#[derive(Debug)]
pub enum HostAddressError {
    /// None of its addresses is usable.
    NoAddress,
    /// It has more ranks than one port can distinguish.
    TooManyRanks,
    /// No port is available.
    NoPort(io::Error),
}

impl fmt::Display for HostAddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HostAddressError::NoAddress => write!(f, "no address that other hosts can use"),
            HostAddressError::TooManyRanks => write!(f, "a host can have at most 65535 ranks"),
            HostAddressError::NoPort(error) => write!(f, "cannot open a port: {error}"),
        }
    }
}

impl std::error::Error for HostAddressError {}

/// The addresses that others use by default. Loopback only if there is no other: the hosts may all be this machine.
#[must_use]
pub fn usual(all: &[InterfaceAddress]) -> Vec<&InterfaceAddress> {
    let (inside, outside): (Vec<_>, Vec<_>) = all.iter().partition(|one| one.address.is_loopback());
    if outside.is_empty() { inside } else { outside }
}

impl HostAddress {
    /// Opens a socket for each rank of this host, at a port in the range or any port, to be reached at these
    /// addresses. If there are both IPv4 and IPv6 addresses, only the IPv4 ones are used.
    pub fn open(
        ranks: u32,
        ports: Option<RangeInclusive<u16>>,
        fit: &[&InterfaceAddress],
    ) -> Result<HostAddress, HostAddressError> {
        let older = fit.iter().any(|one| one.address.is_ipv4());
        let fit = || fit.iter().filter(|one| one.address.is_ipv4() == older);
        let packet =
            fit().map(|one| one.packet_bytes_max).min().ok_or(HostAddressError::NoAddress)?;
        let everywhere = match older {
            true => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            false => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        let local_ranks = u16::try_from(ranks).map_err(|_| HostAddressError::TooManyRanks)?;
        let group =
            Group::open(local_ranks, ports, everywhere).map_err(HostAddressError::NoPort)?;
        let frame_bytes_max = packet.clamp(PACKET_BYTES_MIN, PACKET_BYTES_MAX) - AROUND_BYTES;
        let addresses = fit().map(|one| one.address).take(ADDRESSES_MAX).collect();
        Ok(HostAddress { group, addresses, frame_bytes_max })
    }
}

/// The packet length that any network carries whole.
const PACKET_BYTES_MIN: u32 = 1280;
/// Longer packets are no faster.
const PACKET_BYTES_MAX: u32 = 9000;
