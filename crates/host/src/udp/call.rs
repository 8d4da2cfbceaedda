//! System calls that make a socket and say how it is to be.

// Invariants of this file, cited below by number.
//   C1. Every pointer given to the kernel is to a live value of at least the size that is told with it.
//   C2. A descriptor that a successful call returns is new, open, and owned by nobody else.

use std::ffi::c_int;
use std::io::{Error, Result};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use super::address::{ADDRESS_BYTES_MAX, SocketAddress};

/// A socket for datagrams. It is closed on exec until somebody says otherwise.
pub(super) fn datagram_socket(domain: c_int) -> Result<OwnedFd> {
    let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: the call takes numbers only.
    let socket = check(unsafe { libc::socket(domain, kind, 0) })?;
    // SAFETY: by C2.
    Ok(unsafe { OwnedFd::from_raw_fd(socket) })
}

/// Gives a socket its address.
pub(super) fn bind(socket: BorrowedFd<'_>, address: &SocketAddress) -> Result<()> {
    let start = address.bytes.as_ptr();
    // SAFETY: by C1, `len` being no more than there are bytes.
    check(unsafe { libc::bind(socket.as_raw_fd(), start.cast(), address.len) }).map(drop)
}

/// Sends what has no address there from now on.
pub(super) fn connect(socket: BorrowedFd<'_>, address: &SocketAddress) -> Result<()> {
    let start = address.bytes.as_ptr();
    // SAFETY: by C1, `len` being no more than there are bytes.
    check(unsafe { libc::connect(socket.as_raw_fd(), start.cast(), address.len) }).map(drop)
}

/// The address that a socket has.
pub(super) fn name(socket: BorrowedFd<'_>) -> Result<SocketAddress> {
    let mut address = SocketAddress::NOWHERE;
    address.len = size(ADDRESS_BYTES_MAX);
    let start = address.bytes.as_mut_ptr();
    // SAFETY: by C1, `len` being the number of bytes.
    check(unsafe { libc::getsockname(socket.as_raw_fd(), start.cast(), &raw mut address.len) })?;
    Ok(address)
}

/// Sets an option that is a number.
pub(super) fn set(socket: BorrowedFd<'_>, level: c_int, option: c_int, value: c_int) -> Result<()> {
    let (at, bytes) = ((&raw const value).cast(), size(size_of::<c_int>()));
    // SAFETY: by C1.
    check(unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, at, bytes) }).map(drop)
}

/// Has a program say which socket of a group a datagram goes to.
pub(super) fn select_by(socket: BorrowedFd<'_>, program: &[libc::sock_filter]) -> Result<()> {
    attach(socket, libc::SO_ATTACH_REUSEPORT_CBPF, program)
}

/// Has the kernel drop all that comes.
pub(super) fn drop_all(socket: BorrowedFd<'_>) -> Result<()> {
    let nothing = libc::sock_filter { code: RETURN_NUMBER, jt: 0, jf: 0, k: 0 };
    attach(socket, libc::SO_ATTACH_FILTER, &[nothing])
}

/// Gives a socket a program. The kernel takes a copy of it.
fn attach(socket: BorrowedFd<'_>, option: c_int, program: &[libc::sock_filter]) -> Result<()> {
    let len = u16::try_from(program.len()).expect("a program is short");
    let filter = libc::sock_fprog { len, filter: program.as_ptr().cast_mut() };
    let (at, bytes) = ((&raw const filter).cast(), size(size_of::<libc::sock_fprog>()));
    // SAFETY: by C1, also for `program`, which `filter` points to and the kernel only reads.
    check(unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, option, at, bytes) })
        .map(drop)
}

/// `BPF_RET | BPF_K`: so many bytes of a datagram are kept, and none of it if that is 0.
const RETURN_NUMBER: u16 = 0x06;

fn size(bytes: usize) -> libc::socklen_t {
    libc::socklen_t::try_from(bytes).expect("options are small")
}

fn check(code: c_int) -> Result<c_int> {
    if code < 0 { Err(Error::last_os_error()) } else { Ok(code) }
}
