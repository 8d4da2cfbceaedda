//! One datagram socket: many datagrams in one call, and no blocking except in [`Socket::wait`].
//!
//! A *batch* is a run of datagrams of one length in contiguous memory; only the last may be shorter. The
//! kernel takes a batch to one address in one piece and cuts it as late as possible (GSO); what arrives as a
//! batch, it delivers in one piece (GRO). Where it can do neither, datagrams go one by one.
//!
//! The kernel chooses the receiving socket by the first datagram of a batch only, so a batch is for one local
//! rank. But it also joins datagrams that arrive from one port for another: here, from all ranks of one host
//! for all ranks of another. It never joins datagrams that have made a different number of hops, so those for
//! different local ranks leave with different hop limits. Old kernels may join them nevertheless; a rank that
//! sees genuine datagrams for others (see `is_astray` in `rail.rs`) calls
//! [`join_no_more`](Socket::join_no_more).

// Invariants of this file, cited below by number.
//   S1. Every pointer given to the kernel points to a live value of at least the size passed with it, and
//       what is only read through it may be behind a shared reference.
//   S2. `mmsghdr`, `msghdr` and `iovec` are plain data: all zeros is a valid value.
//   S3. An `IoSlice` has the layout of an `iovec`, as its documentation says.

use std::ffi::{c_int, c_uint};
use std::io::{Error, ErrorKind, IoSlice, Result};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ferrywire_nic::Sent;

use super::address::{ADDRESS_BYTES_MAX, SocketAddress};
use super::call;

/// The target of datagrams: one local rank of a host.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Target {
    address: SocketAddress,
    /// The control message with the hop limit.
    hops: [u8; CONTROL_BYTES],
}

impl Target {
    /// Local rank `local_rank` of the host at `address`.
    #[must_use]
    pub fn new(address: SocketAddr, local_rank: u16) -> Target {
        let hops = HOPS_MIN + c_int::from(local_rank % HOPS);
        let hops = match address {
            SocketAddr::V4(_) => control(libc::IPPROTO_IP, libc::IP_TTL, hops.to_ne_bytes()),
            SocketAddr::V6(_) => {
                control(libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT, hops.to_ne_bytes())
            }
        };
        Target { address: address.into(), hops }
    }

    /// No local rank of any host.
    pub(super) const NOWHERE: Target =
        Target { address: SocketAddress::NOWHERE, hops: [0; CONTROL_BYTES] };

    /// Gives a socket the hop limit of this target.
    pub(super) fn limit(&self, socket: BorrowedFd<'_>) -> Result<()> {
        let says = self.hops[CONTROL_HEAD..].first_chunk().expect("room for a number");
        let hops = c_int::from_ne_bytes(*says);
        match self.address.socket_addr() {
            Some(SocketAddr::V4(_)) => call::set(socket, libc::IPPROTO_IP, libc::IP_TTL, hops),
            _ => call::set(socket, libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS, hops),
        }
    }

    /// The address of its host.
    pub(super) fn address(&self) -> &SocketAddress {
        &self.address
    }

    /// The same target for a socket that is connected to the host.
    pub(super) fn without_address(&self) -> Target {
        Target { address: SocketAddress::NOWHERE, ..*self }
    }
}

/// One datagram to send.
#[derive(Clone, Copy)]
pub struct Datagram<'a> {
    /// Its target.
    pub to: &'a Target,
    /// Its bytes.
    pub bytes: &'a [u8],
}

/// A socket of a [`Group`](super::group::Group), or any other datagram socket.
#[derive(Debug)]
pub struct Socket {
    socket: OwnedFd,
    /// Whether the kernel cuts batches (GSO): true until it refuses one that then goes one by one.
    cuts: AtomicBool,
    /// Whether the kernel delivers batches in one piece (GRO).
    joins: AtomicBool,
}

impl Socket {
    /// Wraps a socket, and turns on GRO if `joins` is set and the kernel can.
    #[must_use]
    pub fn new(socket: OwnedFd, joins: bool) -> Socket {
        let joins = joins && call::set(socket.as_fd(), libc::SOL_UDP, libc::UDP_GRO, 1).is_ok();
        Socket { socket, cuts: AtomicBool::new(true), joins: AtomicBool::new(joins) }
    }

    /// Whether the kernel may deliver batches in one piece.
    #[must_use]
    pub fn joins(&self) -> bool {
        self.joins.load(Ordering::Relaxed)
    }

    /// Whether batches leave in one piece, as far as is known.
    #[must_use]
    pub fn cuts(&self) -> bool {
        self.cuts.load(Ordering::Relaxed)
    }

    /// Turns off GRO. Batches that have arrived but have not been received are lost: they come without their
    /// segment length.
    pub fn join_no_more(&self) {
        if self.joins.swap(false, Ordering::Relaxed) {
            // Should this fail, batches are no longer understood and retries are in vain; but what could be
            // turned on can be turned off.
            let off = call::set(self.socket.as_fd(), libc::SOL_UDP, libc::UDP_GRO, 0);
            debug_assert!(off.is_ok(), "{off:?}");
        }
    }

    /// Sends one datagram given in several parts.
    pub fn send(&self, to: &Target, parts: &[IoSlice<'_>]) -> Result<Sent> {
        match self.send_message(to, parts, &to.hops) {
            Ok(()) => Ok(Sent::Away),
            Err(error) if is_full(&error) => Ok(Sent::Full),
            Err(error) => Err(error),
        }
    }

    /// Sends one datagram on a connected socket. Returns its length, or 0 if there is no room now.
    #[inline]
    pub(super) fn send_on(&self, datagram: &[u8]) -> Result<usize> {
        let sent = retried(|| {
            let (start, len) = (datagram.as_ptr().cast(), datagram.len());
            // SAFETY: by S1: it is only read.
            unsafe { libc::send(self.socket.as_raw_fd(), start, len, SEND_FLAGS) }
        });
        match sent {
            Err(error) if is_full(&error) => Ok(0),
            sent => sent,
        }
    }

    /// Sends datagrams in order and returns how many have left. For the others there is no room now. If even
    /// the first one can never be sent, that is an error.
    pub fn send_many(&self, datagrams: &[Datagram<'_>]) -> Result<usize> {
        let mut away = 0;
        while away < datagrams.len() {
            let rest = &datagrams[away..];
            let rest = &rest[..rest.len().min(MESSAGES_PER_CALL_MAX)];
            match self.send_in_one_call(rest) {
                Ok(sent) => away += sent,
                Err(error) if away > 0 || is_full(&error) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(away)
    }

    /// Sends a batch of datagrams of `each` bytes to one local rank and returns how many bytes have left. For
    /// the rest there is no room now. If even the first datagram can never be sent, that is an error.
    ///
    /// # Panics
    /// If `each` is 0.
    pub fn send_batch(&self, to: &Target, batch: &[u8], each: usize) -> Result<usize> {
        assert!(each > 0, "a datagram of a batch is not empty");
        let piece_bytes = (BATCH_BYTES_MAX / each).clamp(1, BATCH_MAX) * each;
        let mut away = 0;
        for piece in batch.chunks(piece_bytes) {
            let sent = match self.send_piece(to, piece, each) {
                Err(error) if away > 0 || is_full(&error) => break,
                sent => sent?,
            };
            away += sent;
            if sent < piece.len() {
                break;
            }
        }
        Ok(away)
    }

    /// Passes the datagrams that have arrived to `take`, one by one, and returns how many there were; there
    /// may be more. `take` gets the source, whether the datagram came behind another in one piece, and the bytes.
    pub fn receive_many(
        &self,
        room: &mut ReceiveBuffer,
        take: impl FnMut(&SocketAddress, bool, &mut [u8]),
    ) -> Result<usize> {
        if room.expects_more {
            self.receive_pieces::<PIECES_MAX>(room, take)
        } else {
            self.receive_pieces::<1>(room, take)
        }
    }

    /// Receives at most `N` pieces.
    fn receive_pieces<const N: usize>(
        &self,
        room: &mut ReceiveBuffer,
        mut take: impl FnMut(&SocketAddress, bool, &mut [u8]),
    ) -> Result<usize> {
        let mut addresses = [SocketAddress::NOWHERE; N];
        let mut controls = [[0; CONTROL_BYTES]; N];
        // SAFETY: by S2.
        let mut vectors: [libc::iovec; N] = unsafe { std::mem::zeroed() };
        // SAFETY: by S2.
        let mut messages: [libc::mmsghdr; N] = unsafe { std::mem::zeroed() };
        let joins = self.joins();
        for (at, piece) in room.bytes.chunks_exact_mut(PIECE_BYTES).take(N).enumerate() {
            vectors[at].iov_base = piece.as_mut_ptr().cast();
            vectors[at].iov_len = piece.len();
            let message = &mut messages[at].msg_hdr;
            message.msg_name = addresses[at].bytes.as_mut_ptr().cast();
            message.msg_namelen = ADDRESS_LEN_MAX;
            message.msg_iov = &raw mut vectors[at];
            message.msg_iovlen = 1;
            if joins {
                message.msg_control = controls[at].as_mut_ptr().cast();
                message.msg_controllen = CONTROL_BYTES;
            }
        }
        let received = match &mut messages[..] {
            // The call for one is a little faster.
            [one] => self.receive_piece(one),
            many => retried(|| {
                let (socket, flags) = (self.socket.as_raw_fd(), libc::MSG_DONTWAIT);
                let (first, no_limit) = (many.as_mut_ptr(), std::ptr::null_mut());
                // SAFETY: by S1: there are `N` `messages`, which point to the three lists and to `room`.
                unsafe { libc::recvmmsg(socket, first, count(N), flags, no_limit) as isize }
            }),
        };
        let pieces = match received {
            Err(error) if error.raw_os_error() == Some(libc::EAGAIN) => 0,
            pieces => pieces?,
        };
        room.expects_more = pieces == N;
        let mut taken = 0;
        let filled = room.bytes.chunks_exact_mut(PIECE_BYTES).zip(&messages).take(pieces);
        for (at, (piece, message)) in filled.enumerate() {
            // A truncated datagram is not what was sent.
            if message.msg_hdr.msg_flags & libc::MSG_TRUNC != 0 {
                continue;
            }
            addresses[at].len = message.msg_hdr.msg_namelen.min(ADDRESS_LEN_MAX);
            let len = piece.len().min(message.msg_len as usize);
            let control_bytes = message.msg_hdr.msg_controllen.min(CONTROL_BYTES);
            let each = joint_bytes(&controls[at][..control_bytes]).unwrap_or(len).max(1);
            for (place, datagram) in piece[..len].chunks_mut(each).enumerate() {
                take(&addresses[at], place > 0, datagram);
                taken += 1;
            }
        }
        Ok(taken)
    }

    /// Receives one piece and returns 1.
    fn receive_piece(&self, message: &mut libc::mmsghdr) -> Result<usize> {
        let len = retried(|| {
            let (socket, flags) = (self.socket.as_raw_fd(), libc::MSG_DONTWAIT);
            // SAFETY: by S1: `message` points to what it is received into.
            unsafe { libc::recvmsg(socket, &raw mut message.msg_hdr, flags) }
        })?;
        message.msg_len = count(len);
        Ok(1)
    }

    /// Waits until this socket or `other` is readable, or until `timeout` is over. False if neither is. A
    /// signal ends the wait, too.
    pub fn wait(&self, other: Option<BorrowedFd<'_>>, timeout: Option<Duration>) -> Result<bool> {
        let until = timeout.map(|timeout| libc::timespec {
            tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(timeout.subsec_nanos()),
        });
        let until = until.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        let wanted = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        // The kernel ignores negative descriptors.
        let other = other.map_or(-1, |other| other.as_raw_fd());
        let mut wanted = [wanted(self.socket.as_raw_fd()), wanted(other)];
        // SAFETY: by S1, for two `wanted`, and `until`, which may be null.
        match unsafe { libc::ppoll(wanted.as_mut_ptr(), 2, until, std::ptr::null()) } {
            0.. => Ok(wanted.iter().any(|wanted| wanted.revents != 0)),
            _ => match Error::last_os_error() {
                error if error.kind() == ErrorKind::Interrupted => Ok(false),
                error => Err(error),
            },
        }
    }

    /// Sends a part of a batch that the kernel may take in one piece. Returns its length, or less if there is
    /// no room for all.
    fn send_piece(&self, to: &Target, piece: &[u8], each: usize) -> Result<usize> {
        if piece.len() <= each {
            return self.send_message(to, &[IoSlice::new(piece)], &to.hops).map(|()| piece.len());
        }
        let segment = u16::try_from(each).ok().filter(|_| self.cuts());
        let Some(segment) = segment else {
            return self.send_singly(to, piece, each);
        };
        let mut control = [0; 2 * CONTROL_BYTES];
        control[..CONTROL_BYTES].copy_from_slice(&to.hops);
        control[CONTROL_BYTES..].copy_from_slice(&cut(segment));
        let refused = match self.send_message(to, &[IoSlice::new(piece)], &control) {
            Ok(()) => return Ok(piece.len()),
            Err(error) => error,
        };
        match refused.raw_os_error() {
            // The kernel or the network cannot; or this batch cannot be sent at all, and `send_singly` fails too.
            Some(libc::EINVAL | libc::EIO | libc::EOPNOTSUPP | libc::ENOPROTOOPT) => {
                let sent = self.send_singly(to, piece, each)?;
                if sent > 0 {
                    self.cuts.store(false, Ordering::Relaxed);
                }
                Ok(sent)
            }
            _ => Err(refused),
        }
    }

    fn send_singly(&self, to: &Target, piece: &[u8], each: usize) -> Result<usize> {
        let mut datagrams = [Datagram { to, bytes: &[] }; BATCH_MAX];
        let mut count = 0;
        for (datagram, bytes) in datagrams.iter_mut().zip(piece.chunks(each)) {
            datagram.bytes = bytes;
            count += 1;
        }
        let sent = self.send_many(&datagrams[..count])?;
        Ok(piece.len().min(sent * each))
    }

    fn send_message(&self, to: &Target, parts: &[IoSlice<'_>], control: &[u8]) -> Result<()> {
        let message = outgoing(&to.address, parts, control);
        retried(|| {
            // SAFETY: by S1: `message` points to our arguments, which are only read.
            unsafe { libc::sendmsg(self.socket.as_raw_fd(), &raw const message, SEND_FLAGS) }
        })
        .map(drop)
    }

    /// Sends up to [`MESSAGES_PER_CALL_MAX`] datagrams and returns how many have left: at least one, or an error.
    fn send_in_one_call(&self, datagrams: &[Datagram<'_>]) -> Result<usize> {
        // SAFETY: by S2.
        let mut messages: [libc::mmsghdr; MESSAGES_PER_CALL_MAX] = unsafe { std::mem::zeroed() };
        let mut parts = [IoSlice::new(&[]); MESSAGES_PER_CALL_MAX];
        let len = datagrams.len().min(MESSAGES_PER_CALL_MAX);
        for (part, datagram) in parts.iter_mut().zip(datagrams) {
            *part = IoSlice::new(datagram.bytes);
        }
        for ((message, part), datagram) in messages.iter_mut().zip(parts.chunks(1)).zip(datagrams) {
            message.msg_hdr = outgoing(&datagram.to.address, part, &datagram.to.hops);
        }
        let first = messages.as_mut_ptr();
        retried(|| {
            // SAFETY: by S1: `messages` has `len` of them, which point to `parts` and `datagrams`.
            let sent =
                unsafe { libc::sendmmsg(self.socket.as_raw_fd(), first, count(len), SEND_FLAGS) };
            sent as isize
        })
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The buffer that a socket receives into. Half a megabyte, reused for every call.
pub struct ReceiveBuffer {
    bytes: Box<[u8]>,
    /// Whether the next call asks for several pieces. Finding out that there is no second one takes time, in
    /// which the first has to wait, so more are asked for only while more come.
    expects_more: bool,
}

impl ReceiveBuffer {
    /// An empty buffer.
    #[must_use]
    pub fn new() -> ReceiveBuffer {
        ReceiveBuffer { bytes: vec![0; PIECE_BYTES * PIECES_MAX].into(), expects_more: false }
    }
}

impl Default for ReceiveBuffer {
    fn default() -> ReceiveBuffer {
        ReceiveBuffer::new()
    }
}

/// The kernel's description of one datagram or batch. It points to all three arguments, which are only read.
fn outgoing(to: &SocketAddress, parts: &[IoSlice<'_>], control: &[u8]) -> libc::msghdr {
    // SAFETY: by S2.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_name = to.bytes.as_ptr().cast_mut().cast();
    message.msg_namelen = to.len;
    // By S3.
    message.msg_iov = parts.as_ptr().cast_mut().cast();
    message.msg_iovlen = parts.len();
    message.msg_control = control.as_ptr().cast_mut().cast();
    message.msg_controllen = control.len();
    message
}

/// The control message that makes the kernel cut a batch into datagrams of `each` bytes.
fn cut(each: u16) -> [u8; CONTROL_BYTES] {
    control(libc::SOL_UDP, libc::UDP_SEGMENT, each.to_ne_bytes())
}

/// A control message: its length, level and kind, then its value.
fn control<const N: usize>(level: c_int, kind: c_int, says: [u8; N]) -> [u8; CONTROL_BYTES] {
    let mut control = [0; CONTROL_BYTES];
    control[..LEN_BYTES].copy_from_slice(&(CONTROL_HEAD + N).to_ne_bytes());
    control[LEN_BYTES..][..4].copy_from_slice(&level.to_ne_bytes());
    control[LEN_BYTES + 4..][..4].copy_from_slice(&kind.to_ne_bytes());
    control[CONTROL_HEAD..][..N].copy_from_slice(&says);
    control
}

/// The length of the datagrams in a piece, if it is a batch.
fn joint_bytes(control: &[u8]) -> Option<usize> {
    let (_, rest) = control.split_first_chunk::<LEN_BYTES>()?;
    let (level, rest) = rest.split_first_chunk()?;
    let (kind, rest) = rest.split_first_chunk()?;
    let each = c_int::from_ne_bytes(*rest.first_chunk()?);
    let says = (c_int::from_ne_bytes(*level), c_int::from_ne_bytes(*kind));
    // It is the only control message that we ask for.
    (says == (libc::SOL_UDP, libc::UDP_GRO)).then(|| usize::try_from(each).ok()).flatten()
}

/// Whether sending may succeed later.
fn is_full(error: &Error) -> bool {
    error.kind() == ErrorKind::WouldBlock || error.raw_os_error() == Some(libc::ENOBUFS)
}

/// Repeats a call that a signal has interrupted.
fn retried(mut call: impl FnMut() -> isize) -> Result<usize> {
    loop {
        if let Ok(answer) = usize::try_from(call()) {
            return Ok(answer);
        }
        let error = Error::last_os_error();
        if error.kind() != ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

fn count(number: usize) -> c_uint {
    c_uint::try_from(number).expect("calls are small")
}

const SEND_FLAGS: c_int = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
/// Datagrams sent in one call.
const MESSAGES_PER_CALL_MAX: usize = 32;
/// The largest batch that every kernel cuts.
const BATCH_MAX: usize = 64;
/// The longest batch in bytes: the largest payload of a UDP datagram over IPv4.
const BATCH_BYTES_MAX: usize = 65_507;
/// Pieces received in one call. Each is a datagram or a batch.
const PIECES_MAX: usize = 8;
/// Room for the longest piece, and a bit more: at a power of two, pieces would contend for the same cache sets.
const PIECE_BYTES: usize = (64 << 10) + 576;
const ADDRESS_LEN_MAX: libc::socklen_t = 28;
const _: () = assert!(ADDRESS_LEN_MAX as usize == ADDRESS_BYTES_MAX);
/// The lowest hop limit, which is the usual default, and how many values are used from there.
const HOPS_MIN: c_int = 64;
const HOPS: u16 = 192;
/// Room for one control message with a number.
const LEN_BYTES: usize = size_of::<usize>();
const CONTROL_HEAD: usize = size_of::<libc::cmsghdr>();
const CONTROL_BYTES: usize = CONTROL_HEAD + LEN_BYTES;
