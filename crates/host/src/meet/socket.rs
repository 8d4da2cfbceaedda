//! The socket of a meeting: packets, with the sender's identity as the kernel tells it, and
//! descriptors beside.

// Invariants of this file, cited below by number.
//   S1. Every pointer given to the kernel is to a live value of the size that is told with it.
//   S2. A descriptor that a successful call returns is new, open, and owned by nobody else.
//   S3. `msghdr` and `ucred` are plain data: all zeros is a value of them.

use std::ffi::c_int;
use std::io::{Error, ErrorKind, Result};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use super::wire::MESSAGE_BYTES_MAX;

/// Who sent a packet, as the kernel says.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Sender {
    pub(super) pid: u32,
    pub(super) uid: u32,
}

/// One packet. At the end of the conversation it is empty and has no sender.
pub(super) struct Parcel {
    pub(super) bytes: Vec<u8>,
    pub(super) sender: Option<Sender>,
    pub(super) descriptors: Vec<OwnedFd>,
}

/// Whether to wait when there is nothing to read, or no room to write.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(super) enum Patience {
    Wait,
    Now,
}

impl Patience {
    fn flag(self) -> c_int {
        if self == Patience::Now { libc::MSG_DONTWAIT } else { 0 }
    }
}

/// The head of a control message: length, level, kind. Written and read as bytes, since the kernel
/// does not ask for their alignment, and so that no pointer has to be trusted.
const CONTROL_HEAD: usize = size_of::<libc::cmsghdr>();
const CONTROL_ALIGN: usize = size_of::<usize>();
/// Room for credentials and a few descriptors. What does not fit, the kernel closes again.
const CONTROL_BYTES: usize = 128;

/// Two connected ends. Both are closed on exec until somebody says otherwise.
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

/// From now on the kernel names the sender of every packet that this end receives.
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

/// The end whose number this process was given. The number stays as it is for whoever else may
/// know it, but neither it nor our copy survives an exec.
pub(super) fn inherited(number: RawFd) -> Result<OwnedFd> {
    // SAFETY: asks for a copy of a number; if it names nothing, that is an error.
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

/// The user who made the other end.
pub(super) fn peer_uid(socket: BorrowedFd<'_>) -> Result<u32> {
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
    Ok(peer.uid)
}

/// The user as whom this process acts.
pub(super) fn own_uid() -> u32 {
    // SAFETY: has no preconditions and cannot fail.
    unsafe { libc::geteuid() }
}

/// Sends one packet, and descriptors with it.
pub(super) fn send(
    socket: BorrowedFd<'_>,
    bytes: &[u8],
    descriptors: &[BorrowedFd<'_>],
    patience: Patience,
) -> Result<()> {
    let mut vector =
        libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let mut control = rights(descriptors);
    let mut header = header(&mut vector, &mut control);
    let flags = libc::MSG_NOSIGNAL | patience.flag();
    retried(|| {
        // SAFETY: by S1: `header` points to `vector` and `control`, which outlive the call, and
        // sending only reads `bytes`.
        unsafe { libc::sendmsg(socket.as_raw_fd(), &raw mut header, flags) }
    })
    .map(drop)
}

/// Receives one packet. One that is longer than any message is a broken one, and comes back cut.
pub(super) fn receive(socket: BorrowedFd<'_>, patience: Patience) -> Result<Parcel> {
    // One byte more than the longest message, so that a longer one shows.
    let mut bytes = vec![0; MESSAGE_BYTES_MAX + 1];
    let mut control = vec![0; CONTROL_BYTES];
    let mut vector = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let mut header = header(&mut vector, &mut control);
    let flags = libc::MSG_CMSG_CLOEXEC | patience.flag();
    let length = retried(|| {
        // SAFETY: by S1: `header` points to `vector` and `control`, and they to `bytes` and to
        // the buffer, with their lengths.
        unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut header, flags) }
    })?;
    let control_length = header.msg_controllen.min(CONTROL_BYTES);
    bytes.truncate(length);
    let (sender, descriptors) = belongings(&control[..control_length]);
    Ok(Parcel { bytes, sender, descriptors })
}

/// What came beside the bytes.
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

/// Length, level and kind of the first control message, if there is a whole one.
fn control_head(control: &[u8]) -> Option<(usize, c_int, c_int)> {
    let (length, rest) = control.split_first_chunk()?;
    let (level, rest) = rest.split_first_chunk()?;
    let (kind, _) = rest.split_first_chunk()?;
    let length = usize::from_ne_bytes(*length);
    let whole = (CONTROL_HEAD..=control.len()).contains(&length);
    whole.then(|| (length, c_int::from_ne_bytes(*level), c_int::from_ne_bytes(*kind)))
}

/// A `ucred`: process, user, group.
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

/// Calls again when a signal came between.
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
        send(there.as_fd(), b"word", &[there.as_fd(), there.as_fd()], Patience::Now).expect("sent");
        let parcel = receive(here.as_fd(), Patience::Now).expect("received");
        assert_eq!(parcel.bytes, b"word");
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
    fn a_number_that_is_no_meeting_is_an_error() {
        assert!(inherited(1 << 20).is_err());
        assert!(inherited(-1).is_err());
        let file = std::fs::File::open("/dev/null").expect("there");
        let error = inherited(file.as_raw_fd()).expect_err("no socket");
        assert_eq!(error.raw_os_error(), Some(libc::ENOTSOCK));
    }
}
