//! Where the ranks of this host are reached by those of others: a port, and addresses that they can try.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;

use super::directory::ADDRESSES_MAX;
pub use crate::sys::interfaces::{InterfaceAddress, addresses};
use crate::udp::AROUND_BYTES;
use crate::udp::group::Group;

/// What a host has opened to others.
pub struct HostAddress {
    /// One socket for each rank. Somebody keeps all of them open to the end: the kernel counts on it.
    pub group: Group,
    /// Where others may try to reach it.
    pub addresses: Vec<IpAddr>,
    /// The longest frame that fits into a packet here.
    pub frame_bytes_max: u32,
}

/// Why a host cannot be reached by others.
#[derive(Debug)]
pub enum HostAddressError {
    /// None of its addresses will do.
    NoAddress,
    /// It has more ranks than one port can tell apart.
    TooManyRanks,
    /// No port can be had.
    NoPort(io::Error),
}

impl fmt::Display for HostAddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HostAddressError::NoAddress => write!(f, "no address that other hosts could use"),
            HostAddressError::TooManyRanks => write!(f, "a host can have 65535 ranks at most"),
            HostAddressError::NoPort(error) => write!(f, "cannot open a port: {error}"),
        }
    }
}

impl std::error::Error for HostAddressError {}

/// The addresses that others may use if nobody says which. Where nothing else is, hosts may still be of one machine.
#[must_use]
pub fn usual(all: &[InterfaceAddress]) -> Vec<&InterfaceAddress> {
    let (inside, outside): (Vec<_>, Vec<_>) = all.iter().partition(|one| one.address.is_loopback());
    if outside.is_empty() { inside } else { outside }
}

impl HostAddress {
    /// Opens a socket for each rank of this host, at a port in the range or any, to be reached at these addresses. Of
    /// addresses of both versions, those of the fourth are used.
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

/// What any network carries whole.
const PACKET_BYTES_MIN: u32 = 1280;
/// Longer ones are no quicker.
const PACKET_BYTES_MAX: u32 = 9000;
