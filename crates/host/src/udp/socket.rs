//! One socket for datagrams: many of them in one call, and never waiting but in [`Socket::wait`].
//!
//! A *batch* is datagrams of one length behind each other in memory, of which only the last may be
//! shorter. The kernel takes a batch to one address in one piece, and cuts it as late as it can; what
//! arrives as a batch, it gives in one piece. Where it can do neither, datagrams go one by one.
//!
//! The kernel looks at the first datagram of a batch only when it chooses a socket: so a batch is for one
//! local rank. But it also makes batches of what arrives from one port for another, which here is from all ranks
//! of one host for all ranks of another. What it never joins are datagrams that have made a different
//! number of hops: so those for different local ranks leave with different limits. Where they are joined
//! nevertheless, which old kernels may do, whoever sees genuine datagrams go astray (see
//! `is_astray` in `rail.rs`) asks to [`join_no_more`](Socket::join_no_more).

// Invariants of this file, cited below by number.
//   S1. Every pointer given to the kernel is to a live value of at least the size that is told with it,
//       and what is only read through it may be behind a shared reference.
//   S2. `mmsghdr`, `msghdr` and `iovec` are plain data: all zeros is a value of them.
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

/// Where datagrams go to: one local rank of a host.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Target {
    address: SocketAddress,
    /// The control message that limits the hops.
    hops: [u8; CONTROL_BYTES],
}

impl Target {
    /// The local rank of that number behind `address`.
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

    /// Limits the hops of all that leaves a socket, as for this local rank.
    pub(super) fn limit(&self, socket: BorrowedFd<'_>) -> Result<()> {
        let says = self.hops[CONTROL_HEAD..].first_chunk().expect("room for a number");
        let hops = c_int::from_ne_bytes(*says);
        match self.address.socket_addr() {
            Some(SocketAddr::V4(_)) => call::set(socket, libc::IPPROTO_IP, libc::IP_TTL, hops),
            _ => call::set(socket, libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS, hops),
        }
    }

    /// Where its host is.
    pub(super) fn address(&self) -> &SocketAddress {
        &self.address
    }

    /// The same for a socket that is connected to the host.
    pub(super) fn without_address(&self) -> Target {
        Target { address: SocketAddress::NOWHERE, ..*self }
    }
}

/// One datagram to send.
#[derive(Clone, Copy)]
pub struct Datagram<'a> {
    /// Where to.
    pub to: &'a Target,
    /// All of it.
    pub bytes: &'a [u8],
}

/// A socket of a [`Group`](super::group::Group), or any other for datagrams.
#[derive(Debug)]
pub struct Socket {
    socket: OwnedFd,
    /// Whether the kernel cuts batches. It is believed to until it refuses one that goes in parts.
    cuts: AtomicBool,
    /// Whether the kernel gives batches in one piece.
    joins: AtomicBool,
}

impl Socket {
    /// Asks for batches to be given in one piece, if `joins` and the kernel can.
    #[must_use]
    pub fn new(socket: OwnedFd, joins: bool) -> Socket {
        let joins = joins && call::set(socket.as_fd(), libc::SOL_UDP, libc::UDP_GRO, 1).is_ok();
        Socket { socket, cuts: AtomicBool::new(true), joins: AtomicBool::new(joins) }
    }

    /// Whether batches come in one piece, as far as the kernel makes any.
    #[must_use]
    pub fn joins(&self) -> bool {
        self.joins.load(Ordering::Relaxed)
    }

    /// Whether batches go in one piece, as far as we know.
    #[must_use]
    pub fn cuts(&self) -> bool {
        self.cuts.load(Ordering::Relaxed)
    }

    /// Asks for everything to come as it was sent. What has come in one piece before and is not received
    /// yet is lost by that: it comes without its joints.
    pub fn join_no_more(&self) {
        if self.joins.swap(false, Ordering::Relaxed) {
            // Should it fail, batches are not understood any more, and sent again in vain; but what
            // could be turned on can be turned off.
            let off = call::set(self.socket.as_fd(), libc::SOL_UDP, libc::UDP_GRO, 0);
            debug_assert!(off.is_ok(), "{off:?}");
        }
    }

    /// Sends one datagram that is in several parts.
    pub fn send(&self, to: &Target, parts: &[IoSlice<'_>]) -> Result<Sent> {
        match self.send_message(to, parts, &to.hops) {
            Ok(()) => Ok(Sent::Away),
            Err(error) if is_full(&error) => Ok(Sent::Full),
            Err(error) => Err(error),
        }
    }

    /// Sends one datagram to where the socket is connected; its length, or nothing if there is no room now.
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

    /// Sends datagrams in their order, and tells how many are away. For the others there is no room
    /// now. If not even the first one can be sent, ever, that is an error.
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

    /// Sends a batch of datagrams of `each` bytes, for one local rank, and tells how many bytes are away. For
    /// the others there is no room now. If not even the first one can be sent, ever, that is an error.
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

    /// Takes what has come, one datagram after the other, to `take`, and tells how many that were. If
    /// nothing has come, that is none. There may be more. With each datagram it is told where it is from, and whether it
    /// came behind another in one piece.
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

    /// Takes at most so many pieces.
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
            // The call for one is a little quicker.
            [one] => self.receive_piece(one),
            many => retried(|| {
                let (socket, flags) = (self.socket.as_raw_fd(), libc::MSG_DONTWAIT);
                let (first, no_limit) = (many.as_mut_ptr(), std::ptr::null_mut());
                // SAFETY: by S1: `messages` are so many, and point to the three lists and to `room`.
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
            // One that did not fit is not what was sent.
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

    /// Takes one piece; how many that were, which is one.
    fn receive_piece(&self, message: &mut libc::mmsghdr) -> Result<usize> {
        let len = retried(|| {
            let (socket, flags) = (self.socket.as_raw_fd(), libc::MSG_DONTWAIT);
            // SAFETY: by S1: it points to what it is received into.
            unsafe { libc::recvmsg(socket, &raw mut message.msg_hdr, flags) }
        })?;
        message.msg_len = count(len);
        Ok(1)
    }

    /// Waits until something has come, here or at `other`, or until `timeout` is over. False if nothing has. A
    /// signal ends it, too.
    pub fn wait(&self, other: Option<BorrowedFd<'_>>, timeout: Option<Duration>) -> Result<bool> {
        let until = timeout.map(|timeout| libc::timespec {
            tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(timeout.subsec_nanos()),
        });
        let until = until.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        let wanted = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        // The kernel passes over negative numbers.
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

    /// A part of a batch that the kernel may take in one piece; its length, or less if there is no
    /// room for all.
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
            // A kernel or a network that cannot; or a batch that goes in no way, which then shows.
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

    /// How many of the first [`MESSAGES_PER_CALL_MAX`] are away: at least one, or an error.
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

/// Where a socket puts what has come. Half a megabyte, used again and again.
pub struct ReceiveBuffer {
    bytes: Box<[u8]>,
    /// Whether the next call asks for several pieces. To find that there is no second one takes time, in which
    /// the first has to wait: so more are asked for only while more come.
    expects_more: bool,
}

impl ReceiveBuffer {
    /// Empty.
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

/// What the kernel is given for one datagram or batch. It points to all three, and they are only read.
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

/// The control message that has a batch cut into datagrams of so many bytes.
fn cut(each: u16) -> [u8; CONTROL_BYTES] {
    control(libc::SOL_UDP, libc::UDP_SEGMENT, each.to_ne_bytes())
}

/// A control message: its length, level and kind, then what it says.
fn control<const N: usize>(level: c_int, kind: c_int, says: [u8; N]) -> [u8; CONTROL_BYTES] {
    let mut control = [0; CONTROL_BYTES];
    control[..LEN_BYTES].copy_from_slice(&(CONTROL_HEAD + N).to_ne_bytes());
    control[LEN_BYTES..][..4].copy_from_slice(&level.to_ne_bytes());
    control[LEN_BYTES + 4..][..4].copy_from_slice(&kind.to_ne_bytes());
    control[CONTROL_HEAD..][..N].copy_from_slice(&says);
    control
}

/// How long the datagrams of a batch are that came in one piece, if that is what came.
fn joint_bytes(control: &[u8]) -> Option<usize> {
    let (_, rest) = control.split_first_chunk::<LEN_BYTES>()?;
    let (level, rest) = rest.split_first_chunk()?;
    let (kind, rest) = rest.split_first_chunk()?;
    let each = c_int::from_ne_bytes(*rest.first_chunk()?);
    let says = (c_int::from_ne_bytes(*level), c_int::from_ne_bytes(*kind));
    // It is the only one that we ask for.
    (says == (libc::SOL_UDP, libc::UDP_GRO)).then(|| usize::try_from(each).ok()).flatten()
}

/// Whether it is worth trying again later.
fn is_full(error: &Error) -> bool {
    error.kind() == ErrorKind::WouldBlock || error.raw_os_error() == Some(libc::ENOBUFS)
}

/// Calls again when a signal came between.
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
/// Datagrams that are sent in one call.
const MESSAGES_PER_CALL_MAX: usize = 32;
/// Datagrams of a batch that every kernel cuts.
const BATCH_MAX: usize = 64;
/// The longest batch: what fits into a datagram of the older protocol.
const BATCH_BYTES_MAX: usize = 65_507;
/// Pieces that are received in one call. Each is a datagram or a batch.
const PIECES_MAX: usize = 8;
/// ReceiveBuffer for the longest piece, and a bit more: at a whole power of two they would contend for the same
/// part of the cache.
const PIECE_BYTES: usize = (64 << 10) + 576;
const ADDRESS_LEN_MAX: libc::socklen_t = 28;
const _: () = assert!(ADDRESS_LEN_MAX as usize == ADDRESS_BYTES_MAX);
/// The least limit of hops, which is the usual one, and how many there are from there on.
const HOPS_MIN: c_int = 64;
const HOPS: u16 = 192;
/// ReceiveBuffer for one control message that says a number.
const LEN_BYTES: usize = size_of::<usize>();
const CONTROL_HEAD: usize = size_of::<libc::cmsghdr>();
const CONTROL_BYTES: usize = CONTROL_HEAD + LEN_BYTES;
