//! The sockets of one host: one port, and behind it a socket for each local rank. The kernel reads the first
//! two bytes of a datagram and gives it to the socket of that number, so no rank forwards datagrams to another.
//!
//! The number of a socket is its position in the order of binding. When a socket of a group is closed, the
//! last one takes its number, so the launcher opens the group and keeps all of it open until the job ends,
//! whatever happens to the ranks that hold the sockets.
//!
//! No other job can enter the group. The first socket is bound without `SO_REUSEPORT`, which fails if any
//! other socket has the port, and is set to share only afterwards. Every group binds its first socket like
//! that, so of two jobs that race for a port one always fails.
//!
//! What remains is a program of the same user that asks to share this port, or asks for any port and gets
//! this one by chance. The kernel permits that to the same user only. If such a program binds to a specific
//! address where we have bound to all, it receives what is for that address, and frames are lost; what it can
//! send, it could also send from another port. Frames are sealed, so it can neither read nor forge them.

use std::ffi::c_int;
use std::io::{ErrorKind, Result};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::address::SocketAddress;
use super::call;
use super::seal::{DatagramHeader, Form};
use super::socket::{Socket, Target};

/// The open sockets of one host.
#[derive(Debug)]
pub struct Group {
    /// The port that other hosts send to.
    pub port: u16,
    /// One for each local rank, in order. They stay open for the whole job: see above.
    pub sockets: Vec<OwnedFd>,
}

impl Group {
    /// Opens a socket for each of `local_ranks` at one port of `address`, which may be the unspecified
    /// address. The port is the first free one in `range`, or one that the kernel chooses.
    pub fn open(
        local_ranks: u16,
        range: Option<RangeInclusive<u16>>,
        address: IpAddr,
    ) -> Result<Group> {
        assert!(local_ranks > 0, "a host has at least one rank");
        let (port, first) = match range {
            None => bind_alone(address, 0)?,
            Some(mut range) => range
                .find_map(|port| match bind_alone(address, port) {
                    Err(error) if error.kind() == ErrorKind::AddrInUse => None,
                    decided => Some(decided),
                })
                .unwrap_or_else(|| Err(ErrorKind::AddrInUse.into()))?,
        };
        let mut group = Group { port, sockets: vec![first] };
        group.grow_to(local_ranks)?;
        Ok(group)
    }

    /// Opens sockets for more local ranks, so that there are `local_ranks`.
    pub fn grow_to(&mut self, local_ranks: u16) -> Result<()> {
        let (there, wanted) = (self.sockets.len(), usize::from(local_ranks));
        if wanted <= there {
            return Ok(());
        }
        let first = self.sockets[0].as_fd();
        let bound = call::name(first)?.socket_addr().ok_or(ErrorKind::InvalidData)?;
        if there == 1 {
            call::set(first, libc::SOL_SOCKET, libc::SO_REUSEPORT, 1)?;
        }
        for _ in there..wanted {
            self.sockets.push(bind_beside(bound.ip(), self.port)?);
        }
        steer(self.sockets[0].as_fd())
    }
}

impl Group {
    /// Wakes the thread that sleeps at the socket of a local rank. If the datagram is lost, the sleeper's
    /// timeout ends the sleep.
    pub fn wake(&self, local_rank: u16) {
        let Some(first) = self.sockets.first() else { return };
        let bound = call::name(first.as_fd()).ok().and_then(|name| name.socket_addr());
        let inside = match bound {
            Some(SocketAddr::V6(_)) => IpAddr::V6(Ipv6Addr::LOCALHOST),
            _ => IpAddr::V4(Ipv4Addr::LOCALHOST),
        };
        let header = DatagramHeader { local_rank, form: Form::Wakeup, source: 0, counter: 0 };
        let to = Target::new(SocketAddr::new(inside, self.port), local_rank);
        let Ok(copy) = first.try_clone() else { return };
        let _ = Socket::new(copy, false).send(&to, &[std::io::IoSlice::new(&header.emit())]);
    }
}

/// Binds a socket that does not share its port.
fn bind_alone(address: IpAddr, port: u16) -> Result<(u16, OwnedFd)> {
    let socket = prepare(address)?;
    call::bind(socket.as_fd(), &SocketAddress::from(SocketAddr::new(address, port)))?;
    let bound = call::name(socket.as_fd())?.socket_addr().ok_or(ErrorKind::InvalidData)?;
    Ok((bound.port(), socket))
}

/// Binds one more socket to a shared port.
fn bind_beside(address: IpAddr, port: u16) -> Result<OwnedFd> {
    let socket = prepare(address)?;
    call::set(socket.as_fd(), libc::SOL_SOCKET, libc::SO_REUSEPORT, 1)?;
    call::bind(socket.as_fd(), &SocketAddress::from(SocketAddr::new(address, port)))?;
    Ok(socket)
}

/// Creates a socket with all options that do not depend on the port.
pub(super) fn prepare(address: IpAddr) -> Result<OwnedFd> {
    let domain = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    let socket = call::datagram_socket(domain)?;
    // Never fragment: one lost fragment would cost the whole datagram. `PROBE` rather than `DO`, because with
    // `DO` the kernel believes ICMP messages about the path MTU, which anyone can forge; we find out
    // ourselves.
    if address.is_ipv4() {
        let probe = libc::IP_PMTUDISC_PROBE;
        call::set(socket.as_fd(), libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, probe)?;
    } else {
        let probe = libc::IPV6_PMTUDISC_PROBE;
        call::set(socket.as_fd(), libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, probe)?;
        call::set(socket.as_fd(), libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, 1)?;
    }
    widen(socket.as_fd(), libc::SO_RCVBUFFORCE, libc::SO_RCVBUF)?;
    widen(socket.as_fd(), libc::SO_SNDBUFFORCE, libc::SO_SNDBUF)?;
    Ok(socket)
}

/// Asks for a large buffer. Going beyond the system's limit needs a privilege; without it the kernel clamps
/// to the limit.
fn widen(socket: BorrowedFd<'_>, force: c_int, ask: c_int) -> Result<()> {
    call::set(socket, libc::SOL_SOCKET, force, BUFFER_BYTES)
        .or_else(|_| call::set(socket, libc::SOL_SOCKET, ask, BUFFER_BYTES))
}

/// Makes the kernel steer a datagram to the socket of the group whose number is in its first two bytes.
///
/// A datagram with a number that no socket has, or of one byte, goes to any socket, which sees in the header
/// that it is for another.
fn steer(socket: BorrowedFd<'_>) -> Result<()> {
    let step = |code| libc::sock_filter { code, jt: 0, jf: 0, k: 0 };
    call::select_by(socket, &[step(LOAD_FIRST_HALF_WORD), step(RETURN_IT)])
}

/// `BPF_LD | BPF_H | BPF_ABS`, from byte 0: big endian, as always in BPF. The program sees the datagram from
/// after the UDP header.
const LOAD_FIRST_HALF_WORD: u16 = 0x28;
/// `BPF_RET | BPF_A`.
const RETURN_IT: u16 = 0x16;
/// A few milliseconds of a fast network: the time that a rank may go without polling.
const BUFFER_BYTES: c_int = 4 << 20;
