//! Socket addresses in the kernel's layout, so that no datagram needs a conversion. They are written and read
//! as bytes: no pointer has to be trusted.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// The length of a `sockaddr_in6`, the longer of the two.
pub(super) const ADDRESS_BYTES_MAX: usize = size_of::<libc::sockaddr_in6>();
/// The length of a `sockaddr_in`.
const V4_BYTES: usize = size_of::<libc::sockaddr_in>();

/// The source or the target of a datagram.
#[derive(Clone, Copy, Eq, Hash, PartialEq)]
#[repr(C, align(4))]
pub struct SocketAddress {
    /// Zeros after the first `len` bytes.
    pub(super) bytes: [u8; ADDRESS_BYTES_MAX],
    pub(super) len: libc::socklen_t,
}

impl SocketAddress {
    /// No address.
    pub(crate) const NOWHERE: SocketAddress =
        SocketAddress { bytes: [0; ADDRESS_BYTES_MAX], len: 0 };

    /// Converts to the standard library's type. `None` if the family is unknown.
    #[must_use]
    pub fn socket_addr(&self) -> Option<SocketAddr> {
        let family = self.bytes.first_chunk().map(|family| u16::from_ne_bytes(*family))?;
        let port = u16::from_be_bytes([self.bytes[2], self.bytes[3]]);
        match i32::from(family) {
            libc::AF_INET => {
                let octets: [u8; 4] = *self.bytes[4..].first_chunk()?;
                Some(SocketAddr::new(IpAddr::V4(Ipv4Addr::from(octets)), port))
            }
            libc::AF_INET6 => {
                let octets: [u8; 16] = *self.bytes[8..].first_chunk()?;
                let scope = u32::from_ne_bytes(*self.bytes[24..].first_chunk()?);
                Some(SocketAddrV6::new(Ipv6Addr::from(octets), port, 0, scope).into())
            }
            _ => None,
        }
    }
}

impl From<SocketAddr> for SocketAddress {
    fn from(address: SocketAddr) -> SocketAddress {
        let mut bytes = [0; ADDRESS_BYTES_MAX];
        bytes[2..4].copy_from_slice(&address.port().to_be_bytes());
        let (family, len) = match address {
            SocketAddr::V4(address) => {
                bytes[4..8].copy_from_slice(&address.ip().octets());
                (libc::AF_INET, V4_BYTES)
            }
            SocketAddr::V6(address) => {
                bytes[8..24].copy_from_slice(&address.ip().octets());
                bytes[24..28].copy_from_slice(&address.scope_id().to_ne_bytes());
                (libc::AF_INET6, ADDRESS_BYTES_MAX)
            }
        };
        let family = u16::try_from(family).expect("families are small");
        bytes[..2].copy_from_slice(&family.to_ne_bytes());
        SocketAddress { bytes, len: libc::socklen_t::try_from(len).expect("it is short") }
    }
}

impl fmt::Debug for SocketAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.socket_addr() {
            Some(address) => write!(formatter, "{address}"),
            None => formatter.write_str("nowhere"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_comes_out_as_it_went_in() {
        for text in ["127.0.0.1:80", "10.1.2.3:65535", "[::1]:1", "[fe80::1%3]:4000"] {
            let address: SocketAddr = text.parse().expect("it is one");
            assert_eq!(SocketAddress::from(address).socket_addr(), Some(address));
        }
        assert_eq!(SocketAddress::NOWHERE.socket_addr(), None);
    }
}
