//! A bad network: forwards packets between two network interfaces, and loses, delays and repeats some of them.
//!
//!     proxy LINK LINK [--seed N] [--lost N] [--late N] [--repeated N] [--depth N] [--hold-ms N]
//!
//! `lost`, `late` and `repeated` are in packets per thousand. A late packet is held back until up to `depth`
//! later ones have passed it, but no longer than `hold-ms`; so is the second copy of a repeated one. Takes
//! root. It ends when its input does, and prints what it did. `tests/hosts` runs jobs through it.

// Invariants of this file, cited below by number.
//   P1. Every pointer given to the kernel points to a live value of at least the size passed with it.
//   P2. A descriptor that a successful call returns is new, open, and has no other owner.

use std::collections::HashMap;
use std::ffi::{CString, c_int};
use std::io::{Error, ErrorKind, Result};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

fn main() -> Result<()> {
    let Some((links, rules)) = arguments() else {
        eprintln!(
            "usage: proxy LINK LINK [--seed N] [--lost N] [--late N] [--repeated N] [--depth N] [--hold-ms N]"
        );
        std::process::exit(2);
    };
    let ends = [Link::open(&links[0])?, Link::open(&links[1])?];
    let mut ways = [Way::default(), Way::default()];
    let mut road = Road { rules, random: rules.seed, done: Done::default() };
    let mut bytes = vec![0; PACKET_BYTES_MAX];
    while wait(&ends, &ways)? {
        for from in 0..2 {
            for _ in 0..BATCH {
                let Some(packet) = ends[from].receive(&mut bytes)? else { break };
                road.pass(packet, &mut ways[from], |packet| ends[1 - from].send(packet));
            }
            road.catch_up(&mut ways[from], |packet| ends[1 - from].send(packet));
        }
    }
    let Done { passed, lost, late, repeated } = road.done;
    println!("proxy passed={passed} lost={lost} late={late} repeated={repeated}");
    Ok(())
}

/// What happens to packets, per thousand.
#[derive(Clone, Copy)]
struct Rules {
    seed: u64,
    lost: u64,
    late: u64,
    repeated: u64,
    depth: u64,
    hold: Duration,
}

/// What has happened to them.
#[derive(Default)]
struct Done {
    passed: u64,
    lost: u64,
    late: u64,
    repeated: u64,
}

/// Packets held back in one direction.
#[derive(Default)]
struct Way {
    held: Vec<Held>,
}

/// A packet that others overtake.
struct Held {
    packet: Vec<u8>,
    /// How many still may.
    left: u64,
    until: Instant,
}

struct Road {
    rules: Rules,
    random: u64,
    done: Done,
}

impl Road {
    /// Forwards, holds or drops a packet.
    fn pass(&mut self, packet: &[u8], way: &mut Way, mut send: impl FnMut(&[u8])) {
        if self.happens(self.rules.lost) {
            self.done.lost += 1;
        } else if self.happens(self.rules.late) {
            self.done.late += 1;
            self.hold(packet, way);
        } else {
            if self.happens(self.rules.repeated) {
                self.done.repeated += 1;
                self.hold(packet, way);
            }
            self.done.passed += 1;
            send(packet);
            way.held.iter_mut().for_each(|held| held.left -= 1);
            way.let_go(|held| held.left == 0, send);
        }
    }

    /// Sends what has been held for long enough.
    fn catch_up(&mut self, way: &mut Way, send: impl FnMut(&[u8])) {
        if !way.held.is_empty() {
            let now = Instant::now();
            way.let_go(|held| held.until <= now, send);
        }
    }

    fn hold(&mut self, packet: &[u8], way: &mut Way) {
        // The packet that is about to pass counts, too.
        let left = 2 + self.next() % self.rules.depth;
        way.held.push(Held {
            packet: packet.into(),
            left,
            until: Instant::now() + self.rules.hold,
        });
    }

    fn happens(&mut self, of_thousand: u64) -> bool {
        of_thousand > 0 && self.next() % 1000 < of_thousand
    }

    /// The next random number (splitmix64).
    fn next(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.random ^ (self.random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

impl Way {
    fn let_go(&mut self, is_due: impl Fn(&Held) -> bool, mut send: impl FnMut(&[u8])) {
        for held in self.held.extract_if(.., |held| is_due(held)) {
            send(&held.packet);
        }
    }
}

/// One network interface, as whole packets preceded by the kernel's offload header: packets whose checksum or
/// segmentation is left to the hardware go on as they are.
struct Link {
    socket: OwnedFd,
}

impl Link {
    fn open(name: &str) -> Result<Link> {
        let name = CString::new(name).map_err(Error::other)?;
        // SAFETY: by P1: the name ends with a zero.
        let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
        let index = c_int::try_from(index).map_err(Error::other)?;
        if index == 0 {
            return Err(Error::last_os_error());
        }
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        let all = u16::try_from(libc::ETH_P_ALL).map_err(Error::other)?.to_be();
        // SAFETY: the call takes numbers only.
        let socket = check(unsafe { libc::socket(libc::AF_PACKET, kind, 0) })?;
        // SAFETY: by P2.
        let link = Link { socket: unsafe { OwnedFd::from_raw_fd(socket) } };
        link.set(libc::SOL_PACKET, libc::PACKET_VNET_HDR, 1)?;
        link.set(libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)?;
        // A burst waits here, so it is not lost by chance.
        link.set(libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, 64 << 20)?;
        link.set(libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, 64 << 20)?;
        // SAFETY: it is plain data: all zeros is a valid value.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = u16::try_from(libc::AF_PACKET).map_err(Error::other)?;
        address.sll_protocol = all;
        address.sll_ifindex = index;
        let bytes = libc::socklen_t::try_from(size_of_val(&address)).map_err(Error::other)?;
        // SAFETY: by P1.
        check(unsafe { libc::bind(socket, (&raw const address).cast(), bytes) })?;
        Ok(link)
    }

    fn set(&self, level: c_int, option: c_int, value: c_int) -> Result<()> {
        let bytes = libc::socklen_t::try_from(size_of::<c_int>()).map_err(Error::other)?;
        let at = (&raw const value).cast();
        // SAFETY: by P1.
        check(unsafe { libc::setsockopt(self.socket.as_raw_fd(), level, option, at, bytes) })
            .map(drop)
    }

    fn receive<'a>(&self, bytes: &'a mut [u8]) -> Result<Option<&'a [u8]>> {
        let at = bytes.as_mut_ptr().cast();
        // SAFETY: by P1.
        let got = unsafe { libc::recv(self.socket.as_raw_fd(), at, bytes.len(), 0) };
        match usize::try_from(got) {
            Ok(len) => Ok(Some(&bytes[..len])),
            Err(_) => match Error::last_os_error() {
                error if error.kind() == ErrorKind::WouldBlock => Ok(None),
                // The link is down: what arrives there is lost.
                error if error.raw_os_error() == Some(libc::ENETDOWN) => Ok(None),
                error => Err(error),
            },
        }
    }

    /// Sends a packet. One that the kernel does not take is lost.
    fn send(&self, packet: &[u8]) {
        let at = packet.as_ptr().cast();
        // SAFETY: by P1.
        unsafe { libc::send(self.socket.as_raw_fd(), at, packet.len(), 0) };
    }
}

/// Waits until a packet arrives, or has been held for long enough. False if the input has ended.
fn wait(ends: &[Link; 2], ways: &[Way; 2]) -> Result<bool> {
    let first = ways.iter().flat_map(|way| &way.held).map(|held| held.until).min();
    let left = first.map(|until| until.saturating_duration_since(Instant::now()));
    let pause = left.map(|left| libc::timespec {
        tv_sec: 0,
        tv_nsec: i64::try_from(left.as_nanos()).unwrap_or(0).min(NANOSECONDS_MAX),
    });
    let descriptors = [ends[0].socket.as_raw_fd(), ends[1].socket.as_raw_fd(), 0];
    let mut polled = descriptors.map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
    let pause = pause.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: by P1: `polled` has three entries.
    check(unsafe { libc::ppoll(polled.as_mut_ptr(), 3, pause, std::ptr::null()) })?;
    Ok(polled[2].revents == 0)
}

/// The two links, and the rules.
fn arguments() -> Option<([String; 2], Rules)> {
    let mut words = std::env::args().skip(1);
    let links = [words.next()?, words.next()?];
    let mut given = HashMap::new();
    while let Some(name) = words.next() {
        given.insert(name, words.next()?.parse::<u64>().ok()?);
    }
    let mut take = |name: &str, usual| given.remove(name).unwrap_or(usual);
    let rules = Rules {
        seed: take("--seed", 7),
        lost: take("--lost", 0),
        late: take("--late", 0),
        repeated: take("--repeated", 0),
        depth: take("--depth", 32).max(1),
        hold: Duration::from_millis(take("--hold-ms", 5)),
    };
    given.is_empty().then_some((links, rules))
}

fn check(code: c_int) -> Result<c_int> {
    if code < 0 { Err(Error::last_os_error()) } else { Ok(code) }
}

/// The longest packet that the kernel leaves in one piece, with its offload header.
const PACKET_BYTES_MAX: usize = (64 << 10) + 256;
/// Packets taken from one side before the other is polled.
const BATCH: usize = 64;
/// The longest sleep that fits into `tv_nsec`.
const NANOSECONDS_MAX: i64 = 999_999_999;
/// Excludes packets that are sent here. `libc` does not define it.
const PACKET_IGNORE_OUTGOING: c_int = 23;
