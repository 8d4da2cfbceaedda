//! How a rank comes to its job.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex, PoisonError};

use ferrywire_nic::{Limits, Peer};

use crate::bootstrap::{self, BootstrapError, Files, Member};
use crate::control_channel::ControlChannel;
use crate::cores;
use crate::fabric::{Endpoint, NoFabric};
use crate::launcher::{self, Bootstrapped, KvsError, LauncherError, Started};
use crate::net::Net;
use crate::net::directory::{Directory, Host};
use crate::port::Operators;
use crate::rank::Rank;
use crate::secret::JobSecret;
use crate::shm::{Process, Segment};
use crate::sys::{self, secure};
use crate::udp::AROUND_BYTES;
use crate::udp::group::Group;
use crate::udp::keys::{Epochs, Secret};

/// Why there is no rank.
#[derive(Debug)]
pub enum JoinError {
    /// The launcher and we did not meet.
    Bootstrap(BootstrapError),
    /// Something started this process that we cannot speak to.
    Boot(LauncherError),
    /// The launcher is one of others', and of no use.
    Kvs(KvsError),
    /// The program has rights that who started it does not have, so it takes part in no job that its environment names.
    Privileged {
        /// The variable that names one.
        variable: &'static str,
    },
    /// The memory that the launcher has handed over is not laid out as this library does it.
    Version,
    /// The memory that ranks share cannot be made or mapped.
    Memory(io::Error),
    /// The job has chosen libfabric, and it does not work here.
    Fabric(NoFabric),
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JoinError::Bootstrap(error) => error.fmt(f),
            JoinError::Boot(error) => error.fmt(f),
            JoinError::Kvs(error) => error.fmt(f),
            JoinError::Privileged { variable } => write!(
                f,
                "{variable} names a job, and this program has rights that who started it does not have (set-user-id, \
                 set-group-id or capabilities): start it without them, or unset {variable} to run it alone"
            ),
            JoinError::Version => {
                let version = env!("CARGO_PKG_VERSION");
                write!(
                    f,
                    "the launcher and this library, {version}, are of different versions: use the `ferry` \
                     or `mpiexec` that was installed together with the library"
                )
            }
            JoinError::Memory(error) => {
                write!(f, "the memory that ranks share cannot be had: {error}")
            }
            JoinError::Fabric(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for JoinError {}

/// The environment variable in which our launcher says which program of the job a rank runs, from 0 on.
pub const PROGRAM_VARIABLE: &str = "FERRY_PROGRAM";

/// The rank of this process in the job of the launcher that started it, or the only rank of a job of
/// one if none did. `read` reads the environment.
pub fn join(
    read: impl Fn(&str) -> Option<String>,
    operators: Operators,
) -> Result<Rank, JoinError> {
    if secure::is_privileged()
        && let Some(variable) = launcher::named_by(&read)
    {
        return Err(JoinError::Privileged { variable });
    }
    let (segment, net, rank, channel, program) = match bootstrap::from_environment(&read) {
        Some(bootstrap) => {
            let (member, files, channel) =
                bootstrap.join(this_process()).map_err(JoinError::Bootstrap)?;
            let (segment, net) = files.open(&member)?;
            let program = read(PROGRAM_VARIABLE).and_then(|number| number.parse().ok());
            (
                segment,
                net,
                member.rank,
                ControlChannel::ours(channel, member.fault_tolerant),
                program,
            )
        }
        None => match launcher::find(read).map_err(JoinError::Boot)? {
            Started::Alone => {
                let alone = local(1, false, operators).map_err(JoinError::Memory)?;
                return Ok(alone.into_iter().next().expect("a job of one has one"));
            }
            Started::Kvs(mut kvs) => {
                let Bootstrapped { segment, net, rank } = launcher::bootstrap_by_kvs(&mut *kvs)?;
                let program = kvs.program();
                (segment, net, rank, ControlChannel::kvs(kvs), program)
            }
        },
    };
    let limits = limits(segment.ranks());
    let (segment, net) = (Arc::new(segment), net.map(Arc::new));
    let rank = Rank::new(segment, net, rank, limits, operators, Some(channel));
    rank.map(|rank| rank.running(program)).map_err(JoinError::Memory)
}

impl Files {
    /// What came with a welcome: the memory of this host, and the way to others.
    pub(crate) fn open(self, member: &Member) -> Result<(Segment, Option<Net>), JoinError> {
        let segment = open(self.segment)?;
        Ok((segment, network(member, self.directory, self.socket)?))
    }
}

/// The way of a rank to other hosts, if it has one.
pub(crate) fn network(
    member: &Member,
    directory: Option<OwnedFd>,
    socket: Option<OwnedFd>,
) -> Result<Option<Net>, JoinError> {
    let Some(network) = &member.network else { return Ok(None) };
    let (Some(directory), Some(socket)) = (directory, socket) else {
        return Err(JoinError::Bootstrap(BootstrapError::NoSegment));
    };
    let directory = Directory::open(directory).map_err(|_| JoinError::Version)?;
    let secret = Secret::new(&network.secret);
    let endpoint = network.fabric.as_deref().map(|provider| {
        let host = directory.place(member.rank).map_or(0, |(host, _)| host);
        Endpoint::open(provider, directory.addresses(host))
    });
    let endpoint = endpoint.transpose().map_err(JoinError::Fabric)?.map(Arc::new);
    let keys = (&secret, Epochs::USUAL);
    let net = Net::new(directory, member.rank, socket, keys, network.insecure, endpoint);
    Ok(Some(net.ok_or(JoinError::Version)?))
}

/// The memory that the launcher has handed over.
pub(crate) fn open(file: OwnedFd) -> Result<Segment, JoinError> {
    Segment::open(file).map_err(|error| match error.kind() {
        io::ErrorKind::InvalidData => JoinError::Version,
        _ => JoinError::Memory(error),
    })
}

/// A job of `ranks` threads of this process, in their order. `oversubscribed` if they have to share cores.
pub fn local(ranks: u32, oversubscribed: bool, operators: Operators) -> io::Result<Vec<Rank>> {
    let segment = Arc::new(Segment::create(ranks, random(), oversubscribed)?);
    segment.note_cores(cores::usable());
    (0..ranks).for_each(|rank| segment.introduce(rank, this_process()));
    let limits = limits(ranks);
    let rank = |rank| Rank::new(Arc::clone(&segment), None, rank, limits.clone(), operators, None);
    (0..ranks).map(rank).collect()
}

/// A job of threads of this process that live as on `hosts` hosts, with `ranks` on each: those of different hosts reach each
/// other through the network alone, here that of this machine. For tests and measurements.
pub fn local_hosts(
    hosts: u32,
    ranks: u32,
    wire: LocalWire<'_>,
    operators: Operators,
) -> io::Result<Vec<Rank>> {
    let inside = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let local_ranks = u16::try_from(ranks).map_err(|_| io::ErrorKind::InvalidInput)?;
    let groups: Vec<Group> =
        (0..hosts).map(|_| Group::open(local_ranks, None, inside)).collect::<Result<_, _>>()?;
    let list: Vec<Host> = (0..)
        .zip(&groups)
        .map(|(host, group)| Host {
            first: host * ranks,
            ranks,
            port: group.port,
            addresses: vec![inside],
        })
        .collect();
    let drawn = JobSecret::draw()?;
    let secret = Secret::new(&drawn);
    let job = random();
    let oversubscribed = is_oversubscribed(hosts * ranks);
    let barrier = Arc::new(Barrier::new((hosts * ranks) as usize));
    let mut all = Vec::new();
    for (host, group) in list.iter().zip(groups) {
        let segment = Arc::new(Segment::create(ranks, job, oversubscribed)?);
        segment.note_cores(cores::usable());
        (0..ranks).for_each(|local_rank| segment.introduce(local_rank, this_process()));
        for (rank, socket) in (host.first..).zip(group.sockets) {
            let directory = Directory::create(&list, FRAME_BYTES_OF_ETHERNET)?;
            let endpoint = wire.open(inside).map_err(io::Error::other)?;
            let (keys, insecure) = ((&secret, wire.epochs()), wire.is_insecure());
            let net = Net::new(directory, rank, socket, keys, insecure, endpoint);
            let net = Some(Arc::new(net.ok_or(io::ErrorKind::InvalidInput)?));
            let channel = Some(ControlChannel::threads(&barrier));
            let segment = Arc::clone(&segment);
            all.push(Rank::new(segment, net, rank, limits(ranks), operators, channel)?);
        }
    }
    Ok(all)
}

/// What ranks of [`local_hosts`] talk by.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LocalWire<'a> {
    /// Sealed datagrams, whose keys serve so long.
    Sealed(Epochs),
    /// Datagrams that are not sealed.
    Insecure,
    /// A provider of libfabric.
    Fabric(&'a str),
}

impl LocalWire<'_> {
    pub(crate) fn epochs(self) -> Epochs {
        match self {
            LocalWire::Sealed(epochs) => epochs,
            LocalWire::Insecure | LocalWire::Fabric(_) => Epochs::USUAL,
        }
    }

    pub(crate) fn is_insecure(self) -> bool {
        self == LocalWire::Insecure
    }

    /// The endpoint of one more rank, if that is what it takes.
    pub(crate) fn open(self, own: IpAddr) -> Result<Option<Arc<Endpoint>>, NoFabric> {
        match self {
            LocalWire::Fabric(provider) => {
                Endpoint::open(provider, std::iter::once(own)).map(|opened| Some(Arc::new(opened)))
            }
            LocalWire::Sealed(_) | LocalWire::Insecure => Ok(None),
        }
    }
}

/// What of the usual packet is left for a frame.
const FRAME_BYTES_OF_ETHERNET: u32 = 1500 - AROUND_BYTES;

/// Ends a job of threads that cannot go on without `lost`: every operation of these ranks, open or to
/// come, fails. They must be all ranks of the job that there still are.
pub fn end<'a>(ranks: impl Iterator<Item = &'a Rank> + Clone, lost: Peer) {
    // An operation that has failed gives its memory back, so nobody may be about to touch it.
    ranks.clone().for_each(|rank| rank.stop_transfers(lost));
    ranks.for_each(|rank| rank.give_up(lost));
}

/// Whether so many ranks in this process would have to share cores.
pub fn is_oversubscribed(ranks: u32) -> bool {
    cores::oversubscribed(ranks, cores::usable())
}

/// What the entries of this process's ranks say.
pub fn this_process() -> Process {
    let pid = std::process::id();
    let mut drawn_by = DRAWN_BY.lock().unwrap_or_else(PoisonError::into_inner);
    // A process that was forked is another one.
    if *drawn_by != pid {
        let mut word = [0; 8];
        // Without a word, which is nobody's, messages go in chunks.
        let _ = sys::random::fill(&mut word);
        WORD.store(u64::from_ne_bytes(word), Ordering::Relaxed);
        *drawn_by = pid;
    }
    let probe = (&raw const WORD).expose_provenance() as u64;
    Process { pid, pid_outside: pid, word: WORD.load(Ordering::Relaxed), probe }
}

/// The identity of this process. Others may try to read it, to see whether they may and whether it is us.
static WORD: AtomicU64 = AtomicU64::new(0);
/// The process that has drawn the word.
static DRAWN_BY: Mutex<u32> = Mutex::new(0);

/// The limits of a NIC among `ranks` on a node.
///
/// All of them together may hold twice the usual budget as credit that they have from the beginning;
/// where that would be too little for each, there is less of it.
fn limits(ranks: u32) -> Limits {
    // Whoever shares a core may be away for a millisecond, which is no reason to send anything again.
    let retry_ns_min = 1_000_000;
    let limits = Limits { unexpected_bytes_max: 16 << 20, retry_ns_min, ..Limits::default() };
    let share = 2 * limits.unexpected_bytes_max / ranks.max(1);
    Limits { credit_bytes: limits.credit_bytes.min(share), ..limits }
}

/// A number that nobody else is likely to have.
pub fn random() -> u32 {
    let hash = RandomState::new().hash_one(std::process::id());
    u32::try_from(hash >> 32).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::map;

    #[test]
    fn memory_of_another_version_is_told_so() {
        let file = map::memory_file(1 << 20).expect("memory");
        let error = open(file.into()).err().expect("it is not laid out so");
        assert!(error.to_string().contains("of different versions"), "{error}");
    }
}
