//! System calls that create and configure a socket.

// Invariants of this file, cited below by number.
//   C1. Every pointer given to the kernel points to a live value of at least the size passed with it.
//   C2. A descriptor that a successful call returns is new, open, and has no other owner.

use std::ffi::c_int;
use std::io::{Error, Result};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use super::address::{ADDRESS_BYTES_MAX, SocketAddress};

/// Creates a datagram socket: non-blocking, close-on-exec.
pub(super) fn datagram_socket(domain: c_int) -> Result<OwnedFd> {
    let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: the call takes numbers only.
    let socket = check(unsafe { libc::socket(domain, kind, 0) })?;
    // SAFETY: by C2.
    Ok(unsafe { OwnedFd::from_raw_fd(socket) })
}

/// Binds a socket to an address.
pub(super) fn bind(socket: BorrowedFd<'_>, address: &SocketAddress) -> Result<()> {
    let start = address.bytes.as_ptr();
    // SAFETY: by C1: `len` is at most the number of bytes.
    check(unsafe { libc::bind(socket.as_raw_fd(), start.cast(), address.len) }).map(drop)
}

/// Connects a socket: datagrams without an address then go to `address`.
pub(super) fn connect(socket: BorrowedFd<'_>, address: &SocketAddress) -> Result<()> {
    let start = address.bytes.as_ptr();
    // SAFETY: by C1: `len` is at most the number of bytes.
    check(unsafe { libc::connect(socket.as_raw_fd(), start.cast(), address.len) }).map(drop)
}

/// The address that a socket is bound to.
pub(super) fn name(socket: BorrowedFd<'_>) -> Result<SocketAddress> {
    let mut address = SocketAddress::NOWHERE;
    address.len = size(ADDRESS_BYTES_MAX);
    let start = address.bytes.as_mut_ptr();
    // SAFETY: by C1: `len` is the number of bytes.
    check(unsafe { libc::getsockname(socket.as_raw_fd(), start.cast(), &raw mut address.len) })?;
    Ok(address)
}

/// Sets an integer option.
pub(super) fn set(socket: BorrowedFd<'_>, level: c_int, option: c_int, value: c_int) -> Result<()> {
    let (at, bytes) = ((&raw const value).cast(), size(size_of::<c_int>()));
    // SAFETY: by C1.
    check(unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, at, bytes) }).map(drop)
}

/// Attaches the program that chooses the socket of a group for each datagram.
pub(super) fn select_by(socket: BorrowedFd<'_>, program: &[libc::sock_filter]) -> Result<()> {
    attach(socket, libc::SO_ATTACH_REUSEPORT_CBPF, program)
}

/// Makes the kernel drop everything that arrives.
pub(super) fn drop_all(socket: BorrowedFd<'_>) -> Result<()> {
    let nothing = libc::sock_filter { code: RETURN_NUMBER, jt: 0, jf: 0, k: 0 };
    attach(socket, libc::SO_ATTACH_FILTER, &[nothing])
}

/// Attaches a BPF program to a socket. The kernel copies it.
fn attach(socket: BorrowedFd<'_>, option: c_int, program: &[libc::sock_filter]) -> Result<()> {
    let len = u16::try_from(program.len()).expect("a program is short");
    let filter = libc::sock_fprog { len, filter: program.as_ptr().cast_mut() };
    let (at, bytes) = ((&raw const filter).cast(), size(size_of::<libc::sock_fprog>()));
    // SAFETY: by C1, also for `program`, to which `filter` points and which the kernel only reads.
    check(unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, option, at, bytes) })
        .map(drop)
}

/// `BPF_RET | BPF_K`: keeps `k` bytes of a datagram; 0 drops it.
const RETURN_NUMBER: u16 = 0x06;

fn size(bytes: usize) -> libc::socklen_t {
    libc::socklen_t::try_from(bytes).expect("options are small")
}

fn check(code: c_int) -> Result<c_int> {
    if code < 0 { Err(Error::last_os_error()) } else { Ok(code) }
}
