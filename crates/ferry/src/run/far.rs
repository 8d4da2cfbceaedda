//! What a host of a job needs to be reached by others: a port, and addresses that they can try.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ferrywire_host::fabric::NoFabric;
use ferrywire_host::net::directory::{ADDRESSES_MAX, Directory, Host};
use ferrywire_host::udp::AROUND_BYTES;
use ferrywire_host::udp::group::Group;

use super::rail::Wish;
use super::sys;
use super::wire::{Berth, Network, Wanted};

/// The way of this host's ranks to others.
pub(super) struct Far {
    /// One socket for each rank. All stay open here to the end: the kernel counts on it.
    pub(super) group: Group,
    pub(super) addresses: Vec<IpAddr>,
    /// The longest frame that fits into a packet here.
    pub(super) frame_bytes_max: u32,
    /// Providers of libfabric that would do, the best first.
    pub(super) candidates: Vec<String>,
    pub(super) network: Network,
}

/// Why a host cannot be reached by others.
#[derive(Debug)]
pub(super) enum NoFar {
    NoAddress { wanted: Wanted, found: Vec<IpAddr> },
    TooManyRanks,
    NoPort { wanted: Option<(u16, u16)>, error: io::Error },
    NoFabric { wish: Wish, error: NoFabric },
}

impl std::fmt::Display for NoFar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            NoFar::NoAddress { wanted, found } => {
                write!(f, "no address that other hosts could use")?;
                if let Some(interface) = &wanted.interface {
                    write!(f, " (--iface {interface})")?;
                }
                if let Some((net, bits)) = &wanted.net {
                    write!(f, " (--cidr {net}/{bits})")?;
                }
                let found: Vec<String> = found.iter().map(ToString::to_string).collect();
                write!(f, "; it has {}", found.join(", "))
            }
            NoFar::TooManyRanks => write!(f, "a host can have 65535 ranks at most"),
            NoFar::NoPort { wanted: Some((low, high)), error } => {
                write!(f, "no free port between {low} and {high} (--port-range): {error}")
            }
            NoFar::NoPort { wanted: None, error } => write!(f, "cannot open a port: {error}"),
            NoFar::NoFabric { wish, error } => write!(f, "--rail {wish}: {error}"),
        }
    }
}

impl Far {
    pub(super) fn open(ranks: u32, network: Network) -> Result<Far, NoFar> {
        let no_fabric = |error| NoFar::NoFabric { wish: network.rail.clone(), error };
        let candidates = network.rail.candidates().map_err(no_fabric)?;
        let wanted = &network.wanted;
        let all = sys::addresses();
        let mut fit: Vec<_> = all.iter().filter(|one| is_wanted(wanted, one)).collect();
        // Where nothing else is, hosts may still be of one machine.
        if fit.is_empty() && *wanted == Wanted::default() {
            fit = all.iter().filter(|one| one.address.is_loopback()).collect();
        }
        let older = fit.iter().any(|one| one.address.is_ipv4());
        fit.retain(|one| one.address.is_ipv4() == older);
        if fit.is_empty() {
            let found = all.iter().map(|one| one.address).collect();
            return Err(NoFar::NoAddress { wanted: wanted.clone(), found });
        }
        let everywhere = match older {
            true => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            false => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        let slots = u16::try_from(ranks).map_err(|_| NoFar::TooManyRanks)?;
        let range = wanted.ports.map(|(low, high)| low..=high);
        let group = Group::open(slots, range, everywhere)
            .map_err(|error| NoFar::NoPort { wanted: wanted.ports, error })?;
        let packet = fit.iter().map(|one| one.packet_bytes_max).min().unwrap_or(0);
        let frame_bytes_max = packet.clamp(PACKET_BYTES_MIN, PACKET_BYTES_MAX) - AROUND_BYTES;
        let addresses = fit.iter().map(|one| one.address).take(ADDRESSES_MAX).collect();
        Ok(Far { group, addresses, frame_bytes_max, candidates, network })
    }
}

/// The list of all hosts, for the ranks here.
pub(super) fn directory(hosts: &[Berth], frame_bytes_max: u32) -> io::Result<Directory> {
    let host = |berth: &Berth| Host {
        first: berth.first,
        ranks: berth.ranks,
        port: berth.port,
        addresses: berth.addresses.clone(),
    };
    let hosts: Vec<Host> = hosts.iter().map(host).collect();
    Directory::create(&hosts, frame_bytes_max)
}

fn is_wanted(wanted: &Wanted, one: &sys::Address) -> bool {
    let interface = wanted.interface.as_ref().is_none_or(|name| *name == one.interface);
    let net = wanted.net.is_none_or(|(net, bits)| is_within(one.address, net, bits));
    let asked = wanted.interface.is_some() || wanted.net.is_some();
    interface && net && (asked || !one.address.is_loopback())
}

/// Whether the first bits of two addresses are the same.
fn is_within(address: IpAddr, net: IpAddr, bits: u8) -> bool {
    let bits_of = |address: IpAddr| match address {
        IpAddr::V4(address) => (u128::from(u32::from(address)) << 96, true),
        IpAddr::V6(address) => (u128::from(address), false),
    };
    let ((address, short), (net, net_short)) = (bits_of(address), bits_of(net));
    let differ = (address ^ net).checked_shr(128 - u32::from(bits)).unwrap_or(0);
    short == net_short && differ == 0
}

/// What any network carries whole.
const PACKET_BYTES_MIN: u32 = 1280;
/// Longer ones are no quicker.
const PACKET_BYTES_MAX: u32 = 9000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nets_are_compared_by_their_first_bits() {
        let within = |address: &str, net: &str, bits| {
            is_within(address.parse().expect("one"), net.parse().expect("one"), bits)
        };
        assert!(within("10.1.2.3", "10.1.0.0", 16) && !within("10.2.2.3", "10.1.0.0", 16));
        assert!(within("10.1.2.3", "0.0.0.0", 0) && within("10.1.2.3", "10.1.2.3", 32));
        assert!(within("fe80::1", "fe80::", 10) && !within("10.1.2.3", "::", 0));
    }
}
