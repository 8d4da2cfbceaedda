//! An attacker: sends what no rank may accept to the port of a host, as fast as it can, and prints how much that was.
//!
//!     attack ADDRESS:PORT COUNT [listen]
//!
//! It sends junk, truncated datagrams, and forgeries with a right header. With `listen` it first hears what is sent to
//! that port where it is, which takes root, and repeats that too: as it was, cut short, and with one bit changed.
//! `tests/hosts` has a job bear it.

use std::collections::HashMap;
use std::io::{Error, Result};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

use ferrywire_host::udp::seal::{Form, Header};

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (Some(target), Some(count)) = (words.first(), words.get(1)) else {
        eprintln!("usage: attack ADDRESS:PORT COUNT [listen]");
        std::process::exit(2);
    };
    let target: SocketAddr = target.parse().map_err(Error::other)?;
    let count: u64 = count.parse().map_err(Error::other)?;
    let heard = words.get(2).map(|_| listen(target.port())).transpose()?;
    let mut attacker = Attacker { heard: heard.unwrap_or_default(), random: 1, slots: 4 };
    let socket = UdpSocket::bind(("0.0.0.0", 0))?;
    socket.set_nonblocking(true)?;
    socket.connect(target)?;
    let begun = Instant::now();
    let (mut sorts, mut refused, mut answers) = (HashMap::<&str, u64>::new(), 0, 0);
    let mut answer = [0; 2048];
    for number in 0..count {
        let (sort, datagram) = attacker.datagram(number);
        *sorts.entry(sort).or_default() += 1;
        while socket.send(&datagram).is_err() {
            refused += 1;
            std::thread::yield_now();
        }
        if number % 64 == 0 {
            answers += u64::from(socket.recv(&mut answer).is_ok());
        }
    }
    std::thread::sleep(Duration::from_millis(200));
    while socket.recv(&mut answer).is_ok() {
        answers += 1;
    }
    let mut sorts: Vec<String> =
        sorts.iter().map(|(sort, count)| format!("{count} {sort}")).collect();
    sorts.sort();
    println!(
        "attack sent={count} heard={} answers={answers} again={refused} seconds={:.2} sorts={}",
        attacker.heard.len(),
        begun.elapsed().as_secs_f64(),
        sorts.join(",")
    );
    Ok(())
}

struct Attacker {
    /// Genuine datagrams.
    heard: Vec<Vec<u8>>,
    random: u64,
    slots: u16,
}

impl Attacker {
    fn datagram(&mut self, number: u64) -> (&'static str, Vec<u8>) {
        let sorts = if self.heard.is_empty() { 3 } else { 6 };
        match number % sorts {
            0 => ("junk", self.noise(1400)),
            1 => {
                let mut bytes = self.forged();
                bytes.truncate(self.below(bytes.len()));
                ("truncated", bytes)
            }
            2 => ("forged", self.forged()),
            3 => ("repeated", self.genuine()),
            4 => {
                let mut bytes = self.genuine();
                let at = self.below(bytes.len());
                bytes[at] ^= 1 << self.below(8);
                ("flipped", bytes)
            }
            _ => {
                let mut bytes = self.genuine();
                bytes.truncate(self.below(bytes.len()));
                ("cut", bytes)
            }
        }
    }

    /// A right header with the next number, and noise.
    fn forged(&mut self) -> Vec<u8> {
        let slot = u16::try_from(self.below(usize::from(self.slots))).expect("a slot");
        let source = u32::try_from(self.below(8)).expect("a rank");
        let counter = self.next() >> 40;
        let header = Header { slot, form: Form::Sealed, source, counter };
        [&header.emit()[..], &self.noise(200)].concat()
    }

    fn genuine(&mut self) -> Vec<u8> {
        let at = self.below(self.heard.len());
        self.heard[at].clone()
    }

    fn noise(&mut self, len_max: usize) -> Vec<u8> {
        let len = self.below(len_max);
        let mut bytes = Vec::with_capacity(len + 8);
        while bytes.len() < len {
            bytes.extend_from_slice(&self.next().to_le_bytes());
        }
        bytes.truncate(len);
        bytes
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() >> 33).expect("31 bits") % end.max(1)
    }

    /// Numbers as random as this needs (xorshift).
    fn next(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }
}

/// Genuine datagrams for `port` that pass by within a second.
fn listen(port: u16) -> Result<Vec<Vec<u8>>> {
    let protocol = u16::try_from(libc::ETH_P_IP).expect("two bytes").to_be();
    // SAFETY: no memory is involved.
    let socket = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_DGRAM, protocol.into()) };
    if socket < 0 {
        return Err(Error::last_os_error());
    }
    // SAFETY: it is open, and nobody else has it.
    let socket = unsafe { OwnedFd::from_raw_fd(socket) };
    let (until, mut heard) = (Instant::now() + Duration::from_secs(1), Vec::new());
    let mut packet = vec![0; 70_000];
    while Instant::now() < until && heard.len() < 4096 {
        // SAFETY: the kernel writes at most as much as `packet` is long.
        let len = unsafe {
            libc::recv(
                socket.as_raw_fd(),
                packet.as_mut_ptr().cast(),
                packet.len(),
                libc::MSG_DONTWAIT,
            )
        };
        let Ok(len) = usize::try_from(len) else {
            std::thread::sleep(Duration::from_micros(100));
            continue;
        };
        // Trains pass in one piece, and are no datagrams.
        let whole = datagram_for(&packet[..len], port).filter(|datagram| datagram.len() <= 1472);
        if let Some(datagram) = whole {
            heard.push(datagram.to_vec());
        }
    }
    if heard.is_empty() {
        return Err(Error::other(format!("nothing for port {port} has passed by")));
    }
    Ok(heard)
}

/// What is in an IPv4 packet, if it is a datagram for `port`.
fn datagram_for(packet: &[u8], port: u16) -> Option<&[u8]> {
    let head = usize::from(packet.first()? & 15) * 4;
    let is_udp = packet.get(9) == Some(&17);
    let udp = packet.get(head..)?;
    let to = u16::from_be_bytes(*udp.get(2..4)?.first_chunk()?);
    (is_udp && to == port).then(|| udp.get(8..)).flatten()
}
