//! The sockets of the bootstrap: packets, with the sender's identity from the kernel, and descriptors.

// Invariants of this file, cited below by number.
//   S1. Every pointer given to the kernel is to a live value of the size that is passed with it.
//   S2. A descriptor that a successful call returns is new, open, and owned by nothing else.
//   S3. `msghdr`, `sockaddr_un` and `ucred` are plain data: all zeros is a valid value.

use std::ffi::{c_char, c_int};
use std::io::{Error, ErrorKind, Result};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

use zeroize::Zeroizing;

use super::wire::MESSAGE_BYTES_MAX;

/// The sender of a packet, according to the kernel.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Sender {
    pub(super) pid: u32,
    pub(super) uid: u32,
}

/// One packet. At the end of the conversation it is empty and has no sender.
pub(super) struct Parcel {
    /// Wiped when dropped, because a join reply holds a secret.
    pub(super) bytes: Zeroizing<Vec<u8>>,
    pub(super) sender: Option<Sender>,
    pub(super) descriptors: Vec<OwnedFd>,
}

/// Whether to wait when there is nothing to read, or no room to write.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(super) enum WaitMode {
    Wait,
    Now,
}

impl WaitMode {
    fn flag(self) -> c_int {
        if self == WaitMode::Now { libc::MSG_DONTWAIT } else { 0 }
    }
}

/// The header of a control message: length, level, kind. Written and read as bytes, because the kernel does not require
/// alignment, and so that no pointer has to be trusted.
const CONTROL_HEAD: usize = size_of::<libc::cmsghdr>();
const CONTROL_ALIGN: usize = size_of::<usize>();
/// Room for credentials and a few descriptors. The kernel closes those that do not fit.
const CONTROL_BYTES: usize = 128;

/// The family of an address, which comes before its name.
const FAMILY_BYTES: libc::socklen_t = 2;

/// Two connected ends, both close-on-exec.
pub(super) fn pair() -> Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    // SAFETY: by S1, `ends` having room for two.
    check(unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) })?;
    // SAFETY: by S2.
    let first = unsafe { OwnedFd::from_raw_fd(ends[0]) };
    // SAFETY: by S2.
    let second = unsafe { OwnedFd::from_raw_fd(ends[1]) };
    Ok((first, second))
}

/// Opens a listening socket, at a name that the kernel chooses. The name is in no file system.
pub(super) fn listen() -> Result<(OwnedFd, String)> {
    let socket = unnamed(libc::SOCK_NONBLOCK)?;
    let mut address = address(b"");
    // SAFETY: by S1. An address that ends after its family asks for a name.
    check(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), FAMILY_BYTES) })?;
    let mut size = option_size::<libc::sockaddr_un>();
    // SAFETY: by S1.
    check(unsafe {
        libc::getsockname(socket.as_raw_fd(), (&raw mut address).cast(), &raw mut size)
    })?;
    // After the family there is a zero byte, then the name.
    let length = (size - FAMILY_BYTES).saturating_sub(1) as usize;
    let name = address.sun_path.iter().skip(1).take(length);
    let name = name.map(|letter| char::from(letter.to_ne_bytes()[0])).collect();
    // SAFETY: asks for a queue at a socket that has a name.
    check(unsafe { libc::listen(socket.as_raw_fd(), libc::SOMAXCONN) })?;
    Ok((socket, name))
}

/// Accepts the next connection to such a socket. Never blocks.
pub(super) fn accept(listener: BorrowedFd<'_>) -> Result<OwnedFd> {
    let number = retried(|| {
        // SAFETY: null pointers: the name of the caller is not asked for.
        let number = unsafe {
            libc::accept4(
                listener.as_raw_fd(),
                std::ptr::null_mut(),
                std::ptr::null_mut(),
                libc::SOCK_CLOEXEC,
            )
        };
        number as isize
    })?;
    let number = RawFd::try_from(number).map_err(|_| ErrorKind::InvalidData)?;
    // SAFETY: by S2.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Connects to the listening socket of this name.
pub(super) fn connect(name: &str) -> Result<OwnedFd> {
    let socket = unnamed(0)?;
    let address = address(name.as_bytes());
    let length = libc::socklen_t::try_from(name.len()).map_err(|_| ErrorKind::InvalidInput)?;
    if name.len() >= address.sun_path.len() {
        return Err(ErrorKind::InvalidInput.into());
    }
    retried(|| {
        // SAFETY: by S1: family, zero byte and name are within the address, as checked above.
        let code = unsafe {
            libc::connect(
                socket.as_raw_fd(),
                (&raw const address).cast(),
                FAMILY_BYTES + 1 + length,
            )
        };
        code as isize
    })?;
    Ok(socket)
}

fn unnamed(flags: c_int) -> Result<OwnedFd> {
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC | flags;
    // SAFETY: creates a socket, or fails.
    let number = check(unsafe { libc::socket(libc::AF_UNIX, kind, 0) })?;
    // SAFETY: by S2.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// The address for a name after a zero byte: one that is in no file system.
fn address(name: &[u8]) -> libc::sockaddr_un {
    // SAFETY: by S3.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = libc::sa_family_t::try_from(libc::AF_UNIX).expect("it is 1");
    for (rank_socket, &byte) in address.sun_path.iter_mut().skip(1).zip(name) {
        *rank_socket = c_char::from_ne_bytes([byte]);
    }
    address
}

/// Waits until one of these sockets has something to read, or is closed, at most for `timeout`. Says which are.
pub(super) fn wait_for_any(sockets: &[BorrowedFd<'_>], timeout: Duration) -> Result<Vec<bool>> {
    let watch = |socket: &BorrowedFd<'_>| libc::pollfd {
        fd: socket.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    let mut watched: Vec<libc::pollfd> = sockets.iter().map(watch).collect();
    let count = libc::nfds_t::try_from(watched.len()).map_err(|_| ErrorKind::InvalidInput)?;
    // Rounded up, or the last millisecond would be spent polling.
    let timeout = c_int::try_from(timeout.as_millis() + 1).unwrap_or(c_int::MAX);
    // SAFETY: by S1.
    match check(unsafe { libc::poll(watched.as_mut_ptr(), count, timeout) }) {
        // The caller knows how much time is left.
        Err(error) if error.kind() == ErrorKind::Interrupted => Ok(vec![false; sockets.len()]),
        polled => polled.map(|_| watched.iter().map(|socket| socket.revents != 0).collect()),
    }
}

/// Sets how long a read from this socket waits; zero is for ever.
pub(super) fn limit_wait(socket: BorrowedFd<'_>, wait_max: Duration) -> Result<()> {
    let seconds = libc::time_t::try_from(wait_max.as_secs()).unwrap_or(libc::time_t::MAX);
    let limit = libc::timeval { tv_sec: seconds, tv_usec: 0 };
    // SAFETY: by S1.
    check(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_RCVTIMEO,
            (&raw const limit).cast(),
            option_size::<libc::timeval>(),
        )
    })
    .map(drop)
}

/// Makes the kernel name the sender of every packet that this end receives.
pub(super) fn attest(socket: BorrowedFd<'_>) -> Result<()> {
    let on: c_int = 1;
    // SAFETY: by S1.
    check(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PASSCRED,
            (&raw const on).cast(),
            option_size::<c_int>(),
        )
    })
    .map(drop)
}

/// The inherited socket with this descriptor. The descriptor stays open for other code that may know it, but neither it
/// nor our copy survives an exec.
pub(super) fn inherited(number: RawFd) -> Result<OwnedFd> {
    // SAFETY: copies a descriptor; an invalid one is an error.
    let copy = check(unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 3) })?;
    // SAFETY: by S2.
    let copy = unsafe { OwnedFd::from_raw_fd(copy) };
    if option(copy.as_fd(), libc::SO_DOMAIN)? != libc::AF_UNIX
        || option(copy.as_fd(), libc::SO_TYPE)? != libc::SOCK_SEQPACKET
    {
        return Err(Error::from_raw_os_error(libc::ENOTSOCK));
    }
    // SAFETY: sets a flag of a descriptor that is the socket we were given.
    check(unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) })?;
    Ok(copy)
}

/// The process and user that created the other end.
pub(super) fn peer(socket: BorrowedFd<'_>) -> Result<Sender> {
    // SAFETY: by S3.
    let mut peer: libc::ucred = unsafe { std::mem::zeroed() };
    let mut size = option_size::<libc::ucred>();
    // SAFETY: by S1.
    check(unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &raw mut size,
        )
    })?;
    // A process that we cannot see, because it is in another container, has the number 0.
    Ok(Sender { pid: u32::try_from(peer.pid).unwrap_or(0), uid: peer.uid })
}

/// The effective user of this process.
pub(super) fn own_uid() -> u32 {
    // SAFETY: has no preconditions and cannot fail.
    unsafe { libc::geteuid() }
}

/// Sends one packet, with descriptors.
pub(super) fn send(
    socket: BorrowedFd<'_>,
    bytes: &[u8],
    descriptors: &[BorrowedFd<'_>],
    mode: WaitMode,
) -> Result<()> {
    let mut vector =
        libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let mut control = rights(descriptors);
    let mut header = header(&mut vector, &mut control);
    let flags = libc::MSG_NOSIGNAL | mode.flag();
    retried(|| {
        // SAFETY: by S1: `header` points to `vector` and `control`, which outlive the call, and sending only reads
        // `bytes`.
        unsafe { libc::sendmsg(socket.as_raw_fd(), &raw mut header, flags) }
    })
    .map(drop)
}

/// Receives one packet. A packet longer than any message is broken, and comes back cut.
pub(super) fn receive(socket: BorrowedFd<'_>, mode: WaitMode) -> Result<Parcel> {
    // One byte more than the longest message, so that a longer one shows.
    let mut bytes = Zeroizing::new(vec![0; MESSAGE_BYTES_MAX + 1]);
    let mut control = vec![0; CONTROL_BYTES];
    let mut vector = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let mut header = header(&mut vector, &mut control);
    let flags = libc::MSG_CMSG_CLOEXEC | mode.flag();
    let length = retried(|| {
        // SAFETY: by S1: `header` points to `vector` and `control`, and they to `bytes` and to the buffer, with their
        // lengths.
        unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut header, flags) }
    })?;
    let control_length = header.msg_controllen.min(CONTROL_BYTES);
    bytes.truncate(length);
    let (sender, descriptors) = belongings(&control[..control_length]);
    Ok(Parcel { bytes, sender, descriptors })
}

/// The sender and the descriptors in the control messages.
fn belongings(mut control: &[u8]) -> (Option<Sender>, Vec<OwnedFd>) {
    let (mut sender, mut descriptors) = (None, Vec::new());
    while let Some((length, level, kind)) = control_head(control) {
        let data = &control[CONTROL_HEAD..length];
        match (level, kind) {
            (libc::SOL_SOCKET, libc::SCM_CREDENTIALS) => sender = credentials(data),
            (libc::SOL_SOCKET, libc::SCM_RIGHTS) => {
                for number in data.as_chunks().0 {
                    let number = RawFd::from_ne_bytes(*number);
                    // SAFETY: by S2: the kernel has just made it for us.
                    descriptors.push(unsafe { OwnedFd::from_raw_fd(number) });
                }
            }
            _ => {}
        }
        control = control.get(length.next_multiple_of(CONTROL_ALIGN)..).unwrap_or_default();
    }
    (sender, descriptors)
}

/// Length, level and kind of the first control message, if it is complete.
fn control_head(control: &[u8]) -> Option<(usize, c_int, c_int)> {
    let (length, rest) = control.split_first_chunk()?;
    let (level, rest) = rest.split_first_chunk()?;
    let (kind, _) = rest.split_first_chunk()?;
    let length = usize::from_ne_bytes(*length);
    let whole = (CONTROL_HEAD..=control.len()).contains(&length);
    whole.then(|| (length, c_int::from_ne_bytes(*level), c_int::from_ne_bytes(*kind)))
}

/// The sender in a `ucred`: process, user, group.
fn credentials(data: &[u8]) -> Option<Sender> {
    let (pid, rest) = data.split_first_chunk()?;
    let (uid, _) = rest.split_first_chunk()?;
    Some(Sender { pid: u32::from_ne_bytes(*pid), uid: u32::from_ne_bytes(*uid) })
}

/// The control message that carries descriptors, if there are any.
fn rights(descriptors: &[BorrowedFd<'_>]) -> Vec<u8> {
    if descriptors.is_empty() {
        return Vec::new();
    }
    let numbers = descriptors.iter().flat_map(|one| one.as_raw_fd().to_ne_bytes());
    let len = CONTROL_HEAD + descriptors.len() * size_of::<RawFd>();
    let mut control = Vec::with_capacity(len.next_multiple_of(CONTROL_ALIGN));
    control.extend(len.to_ne_bytes());
    control.extend(libc::SOL_SOCKET.to_ne_bytes());
    control.extend(libc::SCM_RIGHTS.to_ne_bytes());
    control.extend(numbers);
    control.resize(len.next_multiple_of(CONTROL_ALIGN), 0);
    control
}

fn header(vector: &mut libc::iovec, control: &mut [u8]) -> libc::msghdr {
    // SAFETY: by S3.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = vector;
    header.msg_iovlen = 1;
    header.msg_control = control.as_mut_ptr().cast();
    header.msg_controllen = control.len();
    header
}

fn option(socket: BorrowedFd<'_>, name: c_int) -> Result<c_int> {
    let mut value: c_int = 0;
    let mut size = option_size::<c_int>();
    // SAFETY: by S1.
    check(unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            name,
            (&raw mut value).cast(),
            &raw mut size,
        )
    })?;
    Ok(value)
}

fn option_size<T>() -> libc::socklen_t {
    libc::socklen_t::try_from(size_of::<T>()).expect("options are small")
}

fn check(code: c_int) -> Result<c_int> {
    if code < 0 { Err(Error::last_os_error()) } else { Ok(code) }
}

/// Repeats a call that a signal interrupted.
fn retried(mut call: impl FnMut() -> isize) -> Result<usize> {
    loop {
        if let Ok(length) = usize::try_from(call()) {
            return Ok(length);
        }
        let error = Error::last_os_error();
        if error.kind() != ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_names_its_sender_and_carries_descriptors() {
        let (here, there) = pair().expect("a pair");
        attest(here.as_fd()).expect("attested");
        send(there.as_fd(), b"word", &[there.as_fd(), there.as_fd()], WaitMode::Now).expect("sent");
        let parcel = receive(here.as_fd(), WaitMode::Now).expect("received");
        assert_eq!(*parcel.bytes, b"word");
        assert_eq!(parcel.sender, Some(Sender { pid: std::process::id(), uid: own_uid() }));
        assert_eq!(parcel.descriptors.len(), 2);
    }

    #[test]
    fn odd_control_bytes_hold_nothing() {
        for length in 0..40 {
            let (sender, descriptors) = belongings(&vec![0; length]);
            assert!(sender.is_none() && descriptors.is_empty());
            let (sender, descriptors) = belongings(&vec![0xff; length]);
            assert!(sender.is_none() && descriptors.is_empty());
        }
    }

    #[test]
    fn a_descriptor_that_is_no_bootstrap_socket_is_an_error() {
        assert!(inherited(1 << 20).is_err());
        assert!(inherited(-1).is_err());
        let file = std::fs::File::open("/dev/null").expect("there");
        let error = inherited(file.as_raw_fd()).expect_err("no socket");
        assert_eq!(error.raw_os_error(), Some(libc::ENOTSOCK));
    }
}
