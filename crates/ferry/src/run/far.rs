//! How other hosts of a job reach this one: a port, and addresses that they can try.

use std::io;
use std::net::IpAddr;

use ferrywire_host::fabric::NoFabric;
use ferrywire_host::net::directory::{Directory, Host};
use ferrywire_host::net::host_address::{self, HostAddress, HostAddressError, InterfaceAddress};

use super::rail::RailRequest;
use super::wire::{HostRecord, Network, Wanted};

/// The connection of this host's ranks to other hosts.
pub(super) struct Far {
    pub(super) host_address: HostAddress,
    /// Suitable providers of libfabric, the best first.
    pub(super) candidates: Vec<String>,
    pub(super) network: Network,
}

/// Why other hosts cannot reach this one, with what the user asked for and the addresses that it has.
#[derive(Debug)]
pub(super) enum NoFar {
    HostAddressError { why: HostAddressError, wanted: Wanted, found: Vec<IpAddr> },
    NoFabric { request: RailRequest, error: NoFabric },
}

impl std::fmt::Display for NoFar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (why, wanted, found) = match self {
            NoFar::HostAddressError { why, wanted, found } => (why, wanted, found),
            NoFar::NoFabric { request, error } => return write!(f, "--rail {request}: {error}"),
        };
        match (why, wanted.ports) {
            (HostAddressError::NoAddress, _) => {
                write!(f, "{why}")?;
                if let Some(interface) = &wanted.interface {
                    write!(f, " (--iface {interface})")?;
                }
                if let Some((net, bits)) = &wanted.net {
                    write!(f, " (--cidr {net}/{bits})")?;
                }
                let found: Vec<String> = found.iter().map(ToString::to_string).collect();
                write!(f, "; this host has {}", found.join(", "))
            }
            (HostAddressError::NoPort(error), Some((low, high))) => {
                write!(f, "no free port between {low} and {high} (--port-range): {error}")
            }
            _ => write!(f, "{why}"),
        }
    }
}

impl Far {
    pub(super) fn open(ranks: u32, network: Network) -> Result<Far, NoFar> {
        let no_fabric = |error| NoFar::NoFabric { request: network.rail.clone(), error };
        let candidates = network.rail.candidates().map_err(no_fabric)?;
        let wanted = &network.wanted;
        let all = host_address::addresses();
        let fit = match wanted.interface.is_some() || wanted.net.is_some() {
            true => all.iter().filter(|one| is_wanted(wanted, one)).collect(),
            false => host_address::usual(&all),
        };
        let range = wanted.ports.map(|(low, high)| low..=high);
        let host_address = HostAddress::open(ranks, range, &fit).map_err(|why| {
            let found = all.iter().map(|one| one.address).collect();
            NoFar::HostAddressError { why, wanted: wanted.clone(), found }
        })?;
        Ok(Far { host_address, candidates, network })
    }
}

/// The directory of all hosts, for the ranks of this one.
pub(super) fn directory(hosts: &[HostRecord], frame_bytes_max: u32) -> io::Result<Directory> {
    let host = |record: &HostRecord| Host {
        first: record.first,
        ranks: record.ranks,
        port: record.port,
        addresses: record.addresses.clone(),
    };
    let hosts: Vec<Host> = hosts.iter().map(host).collect();
    Directory::create(&hosts, frame_bytes_max)
}

fn is_wanted(wanted: &Wanted, one: &InterfaceAddress) -> bool {
    let interface = wanted.interface.as_ref().is_none_or(|name| *name == one.interface);
    let net = wanted.net.is_none_or(|(net, bits)| is_within(one.address, net, bits));
    interface && net
}

/// Whether an address is in the network `net`/`bits`.
fn is_within(address: IpAddr, net: IpAddr, bits: u8) -> bool {
    let bits_of = |address: IpAddr| match address {
        IpAddr::V4(address) => (u128::from(u32::from(address)) << 96, true),
        IpAddr::V6(address) => (u128::from(address), false),
    };
    let ((address, short), (net, net_short)) = (bits_of(address), bits_of(net));
    let differ = (address ^ net).checked_shr(128 - u32::from(bits)).unwrap_or(0);
    short == net_short && differ == 0
}

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
