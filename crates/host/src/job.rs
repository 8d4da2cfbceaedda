//! How a rank joins its job.

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
use crate::error_code::ErrorCode;
use crate::fabric::{Endpoint, NoFabric};
use crate::job_limits::{BadLimit, JobLimits, LIMIT_VARIABLE};
use crate::launcher::{self, Bootstrapped, KvsError, LauncherError, Started};
use crate::net::Net;
use crate::net::directory::{Directory, Host};
use crate::port::Operators;
use crate::rank::Rank;
use crate::secret::JobSecret;
use crate::shm::{Process, Segment};
use crate::sys::{self, secure};
use crate::trace;
use crate::udp::AROUND_BYTES;
use crate::udp::group::Group;
use crate::udp::keys::{Epochs, Secret};

/// Why this process has no rank.
#[derive(Debug)]
pub enum JoinError {
    /// The bootstrap through our launcher failed.
    Bootstrap(BootstrapError),
    /// The process was started by something that offers no bootstrap that we know.
    Boot(LauncherError),
    /// The bootstrap through the key-value store of another launcher failed.
    Kvs(KvsError),
    /// The program has privileges that the user who started it lacks, so it joins no job that its environment names.
    Privileged {
        /// The variable that names a job.
        variable: &'static str,
    },
    /// The segment from the launcher is not laid out as this library does it.
    Version,
    /// The memory that ranks share cannot be created or mapped.
    Memory(io::Error),
    /// The job is on several hosts, and this program was built without support for that.
    NoHosts,
    /// The job has chosen libfabric, which does not work here.
    Fabric(NoFabric),
    /// The environment sets limits that cannot be.
    Limits {
        /// What it sets.
        value: String,
        /// What is wrong with that.
        bad: BadLimit,
    },
    /// Another rank of this host uses other limits.
    OtherLimits {
        /// Those of the other rank.
        theirs: JobLimits,
        /// What this rank is to use.
        ours: JobLimits,
    },
}

impl JoinError {
    /// Its code, with which the text of an error ends.
    pub fn code(&self) -> ErrorCode {
        match self {
            JoinError::Bootstrap(error) => error.code(),
            JoinError::Boot(_) | JoinError::Kvs(_) => ErrorCode::JOIN_ELSEWHERE,
            JoinError::Privileged { .. } => ErrorCode::JOIN_USER,
            JoinError::Version => ErrorCode::JOIN_VERSION,
            JoinError::Memory(_) => ErrorCode::JOB_MEMORY,
            JoinError::NoHosts => ErrorCode::HOSTS_NOT_BUILT,
            JoinError::Fabric(_) => ErrorCode::RAIL,
            JoinError::Limits { .. } | JoinError::OtherLimits { .. } => ErrorCode::JOIN_LIMITS,
        }
    }
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JoinError::Bootstrap(error) => error.fmt(f),
            JoinError::Boot(error) => error.fmt(f),
            JoinError::Kvs(error) => error.fmt(f),
            JoinError::Privileged { variable } => write!(
                f,
                "{variable} names a job, but this program has more rights than the user who started it \
                 (set-user-id, set-group-id or capabilities); start it without them, or unset {variable} to \
                 run it alone"
            ),
            JoinError::Version => {
                let version = env!("CARGO_PKG_VERSION");
                write!(
                    f,
                    "the launcher and this library ({version}) have different versions; use the `ferry` or \
                     `mpiexec` that was installed with the library"
                )
            }
            JoinError::Memory(error) => {
                write!(f, "cannot create or map the memory that ranks share: {error}")
            }
            JoinError::NoHosts => write!(
                f,
                "the job is on several hosts, and this program was built without support for that: build it with the \
                 feature `hosts` of the crate `ferrywire`"
            ),
            JoinError::Fabric(error) => error.fmt(f),
            JoinError::Limits { value, bad } => write!(f, "{LIMIT_VARIABLE} is '{value}': {bad}"),
            JoinError::OtherLimits { theirs, ours } => write!(
                f,
                "this rank is to use the limits {ours}, and another rank uses {theirs}; set the same for all ranks \
                 ({LIMIT_VARIABLE}, or the control variables of MPI_T)"
            ),
        }
    }
}

impl std::error::Error for JoinError {}

/// The environment variable in which our launcher says which program of the job a rank runs, counted from 0.
pub const PROGRAM_VARIABLE: &str = "FERRY_PROGRAM";

/// Joins the job of the launcher that started this process, or creates a job of one rank if there is no launcher.
/// `read` reads the environment.
pub fn join(
    read: impl Fn(&str) -> Option<String>,
    operators: Operators,
) -> Result<Rank, JoinError> {
    if secure::is_privileged()
        && let Some(variable) = launcher::named_by(&read)
    {
        return Err(JoinError::Privileged { variable });
    }
    let limits_wanted = match read(LIMIT_VARIABLE) {
        Some(value) => value.parse().map_err(|bad| JoinError::Limits { value, bad })?,
        None => JobLimits::default(),
    };
    let mut spawned = None;
    let mut trace_to = None;
    let (segment, net, rank, channel, program) = match bootstrap::from_environment(&read) {
        Some(bootstrap) => {
            let (mut member, files, channel) =
                bootstrap.join(this_process()).map_err(JoinError::Bootstrap)?;
            let (segment, net) = files.open(&member)?;
            let program = read(PROGRAM_VARIABLE).and_then(|number| number.parse().ok());
            spawned = member.spawned.take();
            trace_to = read(trace::VARIABLE);
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
                let alone = local_with(1, false, operators, &limits_wanted);
                let alone = alone.map_err(JoinError::Memory)?;
                return Ok(alone.into_iter().next().expect("a job of one has one").alone());
            }
            Started::Kvs(mut kvs) => {
                let Bootstrapped { segment, net, rank } = launcher::bootstrap_by_kvs(&mut *kvs)?;
                let program = kvs.program();
                (segment, net, rank, ControlChannel::kvs(kvs), program)
            }
        },
    };
    trace::open(trace_to, Peer(rank));
    let limits = agreed_limits(&segment, limits_wanted)?;
    let (segment, net) = (Arc::new(segment), net.map(Arc::new));
    let rank = Rank::new(segment, net, rank, limits, operators, Some(channel));
    let rank = rank.map_err(JoinError::Memory)?.running(program);
    Ok(match spawned {
        Some((parent, world)) => rank.spawned(world, parent),
        None => rank,
    })
}

impl Files {
    /// Opens the files of a join reply: the segment of this host, and the network to other hosts.
    pub(crate) fn open(self, member: &Member) -> Result<(Segment, Option<Net>), JoinError> {
        let segment = open(self.segment)?;
        Ok((segment, network(member, self.directory, self.socket)?))
    }
}

/// Opens the network of a rank to other hosts, if there are any.
pub(crate) fn network(
    member: &Member,
    directory: Option<OwnedFd>,
    socket: Option<OwnedFd>,
) -> Result<Option<Net>, JoinError> {
    let Some(network) = &member.network else { return Ok(None) };
    if cfg!(not(feature = "hosts")) {
        return Err(JoinError::NoHosts);
    }
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

/// Opens the segment that the launcher has handed over.
pub(crate) fn open(file: OwnedFd) -> Result<Segment, JoinError> {
    Segment::open(file).map_err(|error| match error.kind() {
        io::ErrorKind::InvalidData => JoinError::Version,
        _ => JoinError::Memory(error),
    })
}

/// Creates a job whose `ranks` ranks are threads of this process, and returns them in order. `oversubscribed` if they
/// have to share cores.
pub fn local(ranks: u32, oversubscribed: bool, operators: Operators) -> io::Result<Vec<Rank>> {
    local_with(ranks, oversubscribed, operators, &JobLimits::default())
}

fn local_with(
    ranks: u32,
    oversubscribed: bool,
    operators: Operators,
    limits: &JobLimits,
) -> io::Result<Vec<Rank>> {
    let segment = Arc::new(Segment::create(ranks, random(), oversubscribed)?);
    segment.note_cores(cores::usable());
    (0..ranks).for_each(|rank| segment.introduce(rank, this_process()));
    let limits = limits.of_nic(ranks);
    let rank = |rank| Rank::new(Arc::clone(&segment), None, rank, limits.clone(), operators, None);
    (0..ranks).map(rank).collect()
}

/// Creates a job of threads of this process that behave as on `hosts` hosts, with `ranks` ranks on each: ranks of
/// different hosts reach each other only through the network, here the loopback of this machine. For tests and
/// measurements.
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
            let limits = JobLimits::default().of_nic(ranks);
            all.push(Rank::new(segment, net, rank, limits, operators, channel)?);
        }
    }
    Ok(all)
}

/// The network among the ranks of [`local_hosts`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LocalWire<'a> {
    /// Sealed datagrams, with keys that serve this long.
    Sealed(Epochs),
    /// Datagrams that are not sealed.
    Insecure,
    /// A libfabric provider.
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

    /// Opens the endpoint of one more rank, if the network is libfabric.
    pub(crate) fn open(self, own: IpAddr) -> Result<Option<Arc<Endpoint>>, NoFabric> {
        match self {
            LocalWire::Fabric(provider) => {
                Endpoint::open(provider, std::iter::once(own)).map(|opened| Some(Arc::new(opened)))
            }
            LocalWire::Sealed(_) | LocalWire::Insecure => Ok(None),
        }
    }
}

/// What an Ethernet packet of the usual size leaves for a frame.
const FRAME_BYTES_OF_ETHERNET: u32 = 1500 - AROUND_BYTES;

/// Ends a job of threads that cannot continue without `lost`: every operation of these ranks, open or later, fails.
/// `ranks` must be all ranks of the job that still exist.
pub fn end<'a>(ranks: impl Iterator<Item = &'a Rank> + Clone, lost: Peer) {
    // An operation that has failed gives its memory back, so no rank may be about to touch it.
    ranks.clone().for_each(|rank| rank.stop_transfers(lost));
    ranks.for_each(|rank| rank.give_up(lost));
}

/// Whether this many ranks in this process would have to share cores.
pub fn is_oversubscribed(ranks: u32) -> bool {
    cores::oversubscribed(ranks, cores::usable())
}

/// What the segment entries of this process's ranks say.
pub fn this_process() -> Process {
    let pid = std::process::id();
    let mut drawn_by = DRAWN_BY.lock().unwrap_or_else(PoisonError::into_inner);
    // A forked child is another process.
    if *drawn_by != pid {
        let mut word = [0; 8];
        // If this fails the word is 0, so peers do not reach our memory, and messages go in chunks.
        let _ = sys::random::fill(&mut word);
        WORD.store(u64::from_ne_bytes(word), Ordering::Relaxed);
        *drawn_by = pid;
    }
    let probe = (&raw const WORD).expose_provenance() as u64;
    Process { pid, pid_outside: pid, word: WORD.load(Ordering::Relaxed), probe }
}

/// Identifies this process. Peers try to read it, to learn whether they may and whether it is us.
static WORD: AtomicU64 = AtomicU64::new(0);
/// The process that has drawn the word.
static DRAWN_BY: Mutex<u32> = Mutex::new(0);

/// The limits of this rank's NIC, which are those of all ranks of its host.
fn agreed_limits(segment: &Segment, wanted: JobLimits) -> Result<Limits, JoinError> {
    let agreed = segment.agree_limits(wanted);
    let differs = || {
        let (ours, theirs) = (wanted.values_set(), agreed.values_set());
        ours.iter().zip(theirs).any(|(ours, theirs)| ours.is_some() && *ours != theirs)
    };
    if differs() {
        return Err(JoinError::OtherLimits { theirs: agreed, ours: wanted });
    }
    Ok(agreed.of_nic(segment.ranks()))
}

/// A random number, probably unique.
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
        assert!(error.to_string().contains("have different versions"), "{error}");
    }
}
