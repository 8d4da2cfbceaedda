//! An attacker: sends datagrams that no rank may accept to the port of a host, as fast as it can, and prints how many.
//!
//!     attack ADDRESS:PORT COUNT [listen] [as ADDRESS] [near RANKS]
//!
//! It sends junk, empty and truncated datagrams, wakeups, unsealed frames, and forgeries with a right header.
//! With `listen`, which takes root and the network namespace of the victim, it sniffs the datagrams between
//! the host and the rest of the job, all from and to this port, and replays them: as they were, and changed
//! in many ways. With `as` it sends from another address, which has to be one of this namespace.
//!
//! With `near`, for a job that is not sealed, all datagrams are in the names of the first RANKS ranks, which
//! are on the victim's host.
//!
//! `tests/hosts --only attack` runs a job under this attack.

mod sorts;
mod tap;

use std::collections::BTreeMap;
use std::io::{Error, ErrorKind, Result};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use ferrywire_host::udp::socket::{Socket, Target};
use sorts::{Attacker, Shot};
use tap::Tap;

/// How many are sent before the attacker listens again.
const SENT_PER_LOOK: u64 = 64;

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (Some(target), Some(count)) = (words.first(), words.get(1)) else {
        eprintln!("usage: attack ADDRESS:PORT COUNT [listen] [as ADDRESS] [near RANKS]");
        std::process::exit(2);
    };
    let target: SocketAddr = target.parse().map_err(Error::other)?;
    let count: u64 = count.parse().map_err(Error::other)?;
    let mut tap = match words.iter().any(|word| word == "listen") {
        true => Some(Tap::open(target.port())?),
        false => None,
    };
    let after = |name| words.iter().position(|word| word == name).and_then(|at| words.get(at + 1));
    let near: Option<usize> =
        after("near").map(|ranks| ranks.parse().map_err(Error::other)).transpose()?;
    let from = after("as");
    let from: IpAddr = match from {
        Some(from) => from.parse().map_err(Error::other)?,
        None => Ipv4Addr::UNSPECIFIED.into(),
    };
    // From a port that no rank has, so that attackers do not hear each other.
    let socket = (1..tap::ATTACKERS_END).find_map(|port| UdpSocket::bind((from, port)).ok());
    let socket = socket.ok_or(ErrorKind::AddrInUse)?;
    socket.set_nonblocking(true)?;
    socket.connect(target)?;
    // The same socket, for batches.
    let batches = Socket::new(socket.try_clone()?.into(), false);

    let mut attacker = Attacker::new(match &mut tap {
        Some(tap) => tap.wait(Duration::from_secs(5))?,
        None => tap::Heard::default(),
    });
    let begun = Instant::now();
    let (mut sorts, mut again, mut answers) = (BTreeMap::<&str, u64>::new(), 0, 0);
    for number in 0..count {
        if number % SENT_PER_LOOK == 0 {
            answers += answers_at(&socket);
            if let Some(tap) = &mut tap {
                tap.poll(&mut attacker.heard);
            }
        }
        let (sort, shot) = match near {
            Some(near) => attacker.shot_as_neighbour(number, near),
            None => attacker.shot(number),
        };
        *sorts.entry(sort).or_default() += 1;
        while let Err(error) = send(&socket, &batches, target, &shot) {
            // Nothing listens there: going on would show nothing.
            if error.kind() == ErrorKind::ConnectionRefused {
                return Err(error);
            }
            again += 1;
            std::thread::yield_now();
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    std::thread::sleep(Duration::from_millis(200));
    answers += answers_at(&socket);
    let sorts: Vec<String> = sorts.iter().map(|(sort, count)| format!("{sort}:{count}")).collect();
    let heard = tap.map_or(0, |tap| tap.heard);
    println!(
        "attack sent={count} heard={heard} answers={answers} again={again} seconds={seconds:.2} sorts={}",
        sorts.join(",")
    );
    Ok(())
}

fn send(socket: &UdpSocket, batches: &Socket, target: SocketAddr, shot: &Shot) -> Result<()> {
    match shot {
        Shot::One(bytes) => socket.send(bytes).map(drop),
        Shot::Batch { bytes, each } => {
            match batches.send_batch(&Target::new(target, 0), bytes, *each)? {
                0 => Err(ErrorKind::WouldBlock.into()),
                _ => Ok(()),
            }
        }
    }
}

fn answers_at(socket: &UdpSocket) -> u64 {
    let mut answer = [0; 2048];
    std::iter::from_fn(|| socket.recv(&mut answer).ok()).map(|_| 1).sum()
}
