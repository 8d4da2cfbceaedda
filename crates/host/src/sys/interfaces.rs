//! The network interfaces of this machine, and their addresses.

// Invariants of this file, cited below by number.
//   N1. The list that the C library makes is complete, and its strings end with a zero byte, until it is freed.
//   N2. An address that is not null has a family, and the type that its family says.

use std::ffi::CStr;
use std::net::{IpAddr, Ipv6Addr};

/// An address of this machine.
#[derive(Clone, Debug)]
pub struct InterfaceAddress {
    /// The name of its interface.
    pub interface: String,
    /// The address.
    pub address: IpAddr,
    /// The longest packet that the interface carries.
    pub packet_bytes_max: u32,
}

/// The addresses of all interfaces that are up, except link-local IPv6, which needs the interface's name.
#[must_use]
pub fn addresses() -> Vec<InterfaceAddress> {
    let mut list: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: the call fills in where the list begins.
    if unsafe { libc::getifaddrs(&raw mut list) } != 0 {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut next = list;
    while !next.is_null() {
        // SAFETY: N1.
        let entry = unsafe { &*next };
        next = entry.ifa_next;
        let up = entry.ifa_flags & libc::IFF_UP.cast_unsigned() != 0;
        if let Some(address) = address_of(entry.ifa_addr).filter(|_| up) {
            // SAFETY: N1.
            let name = unsafe { CStr::from_ptr(entry.ifa_name) };
            let interface = name.to_string_lossy().into_owned();
            let path = format!("/sys/class/net/{interface}/mtu");
            let packet =
                std::fs::read_to_string(path).ok().and_then(|text| text.trim().parse().ok());
            let packet_bytes_max = packet.unwrap_or(1500);
            found.push(InterfaceAddress { interface, address, packet_bytes_max });
        }
    }
    // SAFETY: it is the list from above, and nothing points into it any more.
    unsafe { libc::freeifaddrs(list) };
    found
}

fn address_of(address: *const libc::sockaddr) -> Option<IpAddr> {
    if address.is_null() {
        return None;
    }
    // SAFETY: N2.
    match i32::from(unsafe { (*address).sa_family }) {
        libc::AF_INET => {
            // SAFETY: N2.
            let address = unsafe { &*address.cast::<libc::sockaddr_in>() };
            Some(IpAddr::from(address.sin_addr.s_addr.to_ne_bytes()))
        }
        libc::AF_INET6 => {
            // SAFETY: N2.
            let address = unsafe { &*address.cast::<libc::sockaddr_in6>() };
            let address = Ipv6Addr::from(address.sin6_addr.s6_addr);
            (!address.is_unicast_link_local()).then_some(IpAddr::V6(address))
        }
        _ => None,
    }
}
