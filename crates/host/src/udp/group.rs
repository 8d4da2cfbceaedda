//! The sockets of one host: one port, and behind it a socket for each local rank. The kernel looks at the
//! first two bytes of a datagram, and gives it to the socket of that number. Nothing is handed on from
//! one rank to another.
//!
//! The number of a socket is its place in the order of binding. When a socket of a group is closed, the
//! last one moves to its place: so the launcher opens the group and keeps all of it open until the job
//! is over, whatever becomes of the ranks that it gives them to.
//!
//! No other job comes into the group. The first socket is bound while it shares with nobody, which fails
//! where anybody has the port, and only then told to share; the first socket of every group is bound
//! like that, so between two jobs one fails, and there is no moment in between.
//!
//! What remains is a program of the same user that asks to share just this port, or any, and is given
//! this one by chance. The kernel permits it, and permits it to nobody else. If it binds to an address where we have bound to all, it gets what
//! is for that address, and frames are lost; what it can send, it can without the port as well. Frames are
//! sealed, so it can neither read nor make any.

use std::ffi::c_int;
use std::io::{ErrorKind, Result};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::address::SocketAddress;
use super::call;
use super::seal::{DatagramHeader, Form};
use super::socket::{Socket, Target};

/// A group is open when all its local ranks are.
#[derive(Debug)]
pub struct Group {
    /// Where other hosts send to.
    pub port: u16,
    /// One for each local rank, in their order. See above who keeps them.
    pub sockets: Vec<OwnedFd>,
}

impl Group {
    /// Opens a socket for each of `local_ranks` at one port of `address`, which may be the unspecified one:
    /// the first port in `range` that nobody has, or one that the kernel chooses.
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
        let mut sockets = vec![first];
        if local_ranks > 1 {
            call::set(sockets[0].as_fd(), libc::SOL_SOCKET, libc::SO_REUSEPORT, 1)?;
            for _ in 1..local_ranks {
                sockets.push(bind_beside(address, port)?);
            }
            steer(sockets[0].as_fd())?;
        }
        Ok(Group { port, sockets })
    }
}

impl Group {
    /// Wakes whoever sleeps at the socket of a local rank. If it does not arrive, the sleeper's timeout ends.
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

/// A socket that has its port for itself.
fn bind_alone(address: IpAddr, port: u16) -> Result<(u16, OwnedFd)> {
    let socket = prepare(address)?;
    call::bind(socket.as_fd(), &SocketAddress::from(SocketAddr::new(address, port)))?;
    let bound = call::name(socket.as_fd())?.socket_addr().ok_or(ErrorKind::InvalidData)?;
    Ok((bound.port(), socket))
}

/// One more socket at a port that is shared.
fn bind_beside(address: IpAddr, port: u16) -> Result<OwnedFd> {
    let socket = prepare(address)?;
    call::set(socket.as_fd(), libc::SOL_SOCKET, libc::SO_REUSEPORT, 1)?;
    call::bind(socket.as_fd(), &SocketAddress::from(SocketAddr::new(address, port)))?;
    Ok(socket)
}

/// A socket with all options that do not depend on the port.
pub(super) fn prepare(address: IpAddr) -> Result<OwnedFd> {
    let domain = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    let socket = call::datagram_socket(domain)?;
    // Never in pieces: one that is lost would cost all of them. `PROBE` rather than `DO`, since with `DO`
    // the kernel believes messages from the network about what fits, which anybody can forge; we
    // find out by ourselves.
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

/// Asks for a large buffer. Beyond the limit of the system only those get it who have the right to; for
/// others the kernel takes the limit.
fn widen(socket: BorrowedFd<'_>, force: c_int, ask: c_int) -> Result<()> {
    call::set(socket, libc::SOL_SOCKET, force, BUFFER_BYTES)
        .or_else(|_| call::set(socket, libc::SOL_SOCKET, ask, BUFFER_BYTES))
}

/// Tells the kernel to which socket of the group a datagram goes: its first two bytes are the number.
///
/// A number that no socket has, or a datagram of one byte, goes to any of them, which sees in
/// the header that it is not meant.
fn steer(socket: BorrowedFd<'_>) -> Result<()> {
    let step = |code| libc::sock_filter { code, jt: 0, jf: 0, k: 0 };
    call::select_by(socket, &[step(LOAD_FIRST_HALF_WORD), step(RETURN_IT)])
}

/// `BPF_LD | BPF_H | BPF_ABS`, from byte 0: big endian, as everywhere in these programs. What they see
/// begins behind the header of UDP.
const LOAD_FIRST_HALF_WORD: u16 = 0x28;
/// `BPF_RET | BPF_A`.
const RETURN_IT: u16 = 0x16;
/// Some milliseconds of a fast network: as long as a rank may be away.
const BUFFER_BYTES: c_int = 4 << 20;
