//! Sniffs the datagrams between a host and the rest of its job, as a privileged process on that host can.

use std::io::{Error, Result};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

/// Genuine datagrams of both directions, most of them new.
#[derive(Default)]
pub(crate) struct Heard {
    came: Vec<Vec<u8>>,
    went: Vec<Vec<u8>>,
    /// How many there were. The next one replaces an old one.
    count: usize,
}

const KEPT_MAX: usize = 256;

impl Heard {
    pub(crate) fn is_empty(&self) -> bool {
        self.came.is_empty() || self.went.is_empty()
    }

    /// A datagram that came to the host.
    ///
    /// # Panics
    /// If it is empty.
    pub(crate) fn came(&self, random: u64) -> &[u8] {
        any(&self.came, random)
    }

    /// A datagram that the host has sent; panics alike.
    pub(crate) fn went(&self, random: u64) -> &[u8] {
        any(&self.went, random)
    }

    fn keep(&mut self, datagram: &[u8], went: bool) {
        let kept = if went { &mut self.went } else { &mut self.came };
        match kept.len() < KEPT_MAX {
            true => kept.push(datagram.to_vec()),
            false => kept[self.count % KEPT_MAX] = datagram.to_vec(),
        }
        self.count += 1;
    }
}

fn any(kept: &[Vec<u8>], random: u64) -> &[u8] {
    &kept[usize::try_from(random >> 33).expect("31 bits") % kept.len()]
}

pub(crate) struct Tap {
    socket: OwnedFd,
    port: u16,
    packet: Vec<u8>,
    pub(crate) heard: u64,
}

impl Tap {
    /// Sniffs what goes to `port`, on this host or from it, except what attackers send.
    pub(crate) fn open(port: u16) -> Result<Tap> {
        let protocol = u16::try_from(libc::ETH_P_ALL).expect("two bytes").to_be();
        // SAFETY: no memory is involved.
        let socket = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_DGRAM, protocol.into()) };
        if socket < 0 {
            return Err(Error::last_os_error());
        }
        // SAFETY: it is open, and has no other owner.
        let socket = unsafe { OwnedFd::from_raw_fd(socket) };
        filter(&socket, port)?;
        let mut tap = Tap { socket, port, packet: vec![0; 70_000], heard: 0 };
        // What came before the filter was attached may be anything.
        while tap.next().is_some() {}
        Ok(tap)
    }

    /// Waits until datagrams of both directions have been sniffed.
    pub(crate) fn wait(&mut self, timeout: Duration) -> Result<Heard> {
        let (until, mut heard) = (Instant::now() + timeout, Heard::default());
        while heard.is_empty() {
            self.poll(&mut heard);
            if Instant::now() > until {
                return Err(Error::other(format!("nothing for port {} has passed by", self.port)));
            }
            std::thread::sleep(Duration::from_micros(100));
        }
        Ok(heard)
    }

    /// Adds what has passed since the last call.
    pub(crate) fn poll(&mut self, heard: &mut Heard) {
        while let Some((len, went)) = self.next() {
            // Batches pass in one piece, and are not single datagrams.
            let datagram = datagram(&self.packet[..len]).filter(|datagram| datagram.len() <= 1472);
            if let Some(datagram) = datagram {
                heard.keep(datagram, went);
                self.heard += 1;
            }
        }
    }

    /// The length of the next packet, and whether it leaves the host.
    fn next(&mut self) -> Option<(usize, bool)> {
        // SAFETY: plain data: all zeros is a valid value.
        let mut from: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        let mut from_bytes = libc::socklen_t::try_from(size_of_val(&from)).expect("short");
        // SAFETY: the kernel writes at most the lengths of `packet` and `from`.
        let len = unsafe {
            libc::recvfrom(
                self.socket.as_raw_fd(),
                self.packet.as_mut_ptr().cast(),
                self.packet.len(),
                libc::MSG_DONTWAIT,
                (&raw mut from).cast(),
                &raw mut from_bytes,
            )
        };
        let len = usize::try_from(len).ok()?;
        Some((len, from.sll_pkttype == OUTGOING))
    }
}

/// Makes the kernel pass on only what goes to `port`, from ports that attackers do not use.
fn filter(socket: &OwnedFd, port: u16) -> Result<()> {
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let mut steps = [
        step(LOAD_HALF_WORD, 0, 0, FROM_AT),
        step(JUMP_IF_AT_LEAST, 0, 3, ATTACKERS_END.into()),
        step(LOAD_HALF_WORD, 0, 0, TO_AT),
        step(JUMP_IF_EQUAL, 0, 1, port.into()),
        step(RETURN, 0, 0, u32::MAX),
        step(RETURN, 0, 0, 0),
    ];
    let len = u16::try_from(steps.len()).expect("a few");
    let program = libc::sock_fprog { len, filter: steps.as_mut_ptr() };
    let program_bytes = libc::socklen_t::try_from(size_of_val(&program)).expect("short");
    // SAFETY: `program` has the given length, and points to `len` steps.
    let code = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const program).cast(),
            program_bytes,
        )
    };
    if code == 0 { Ok(()) } else { Err(Error::last_os_error()) }
}

/// The payload of an IPv4 packet between two different addresses, if it is a datagram. Wakeups stay at one address.
fn datagram(packet: &[u8]) -> Option<&[u8]> {
    let is_datagram = packet.first() == Some(&0x45) && packet.get(9) == Some(&17);
    let addresses = (packet.get(12..16)?, packet.get(16..20)?);
    (is_datagram && addresses.0 != addresses.1).then(|| packet.get(28..)).flatten()
}

const OUTGOING: u8 = 4;
/// Attackers send from ports below this.
pub(crate) const ATTACKERS_END: u16 = 1024;
/// `BPF_LD | BPF_H | BPF_ABS`, `BPF_JMP` with `BPF_JGE` or `BPF_JEQ`, `BPF_RET | BPF_K`.
const LOAD_HALF_WORD: u16 = 0x28;
const JUMP_IF_AT_LEAST: u16 = 0x35;
const JUMP_IF_EQUAL: u16 = 0x15;
const RETURN: u16 = 0x06;
/// Where the two ports of a datagram are, after an IPv4 header without options.
const FROM_AT: u32 = 20;
const TO_AT: u32 = 22;
