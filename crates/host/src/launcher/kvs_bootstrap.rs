//! How ranks find each other through a kvs.
//!
//! The first rank of a host does for its neighbours what our own launcher does for its ranks: it creates the memory
//! that they share, opens their sockets, and hands both over at a join socket. It finds the other hosts by their
//! records: the record of rank 0 says how many ranks are on its host, which tells the rank whose record is next. A rank
//! that cannot take part says so in the kvs before it stops, or the others would wait.

use std::fmt;
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};

use zeroize::Zeroizing;

use super::hex;
use super::host_record::{self, Excluded, HostRecord, NetworkRecord};
use super::kvs::{Kvs, KvsError};
use crate::bootstrap::{
    self, BootstrapError, JoinSocket, JoinedRank, Member, NetworkConfig, NotAll,
};
use crate::cores;
use crate::job::{self, JoinError};
use crate::net::Net;
use crate::net::directory::{Directory, Host};
use crate::net::host_address::{self, HostAddress};
use crate::secret::{JobSecret, SECRET_BYTES};
use crate::shm::Segment;

/// What a rank has after the bootstrap.
pub(crate) struct Bootstrapped {
    /// The memory that the ranks of this host share.
    pub(crate) segment: Segment,
    /// The network to other hosts, if there are any.
    pub(crate) net: Option<Net>,
    pub(crate) rank: u32,
}

/// Waits for all ranks, and connects to them.
pub(crate) fn bootstrap_by_kvs(kvs: &mut dyn Kvs) -> Result<Bootstrapped, JoinError> {
    let neighbours = kvs.neighbours().map_err(JoinError::Kvs)?;
    match kvs.rank() == neighbours[0] {
        true => lead(kvs, &neighbours),
        false => follow(kvs, &neighbours),
    }
}

/// The part of the first rank of a host.
fn lead(kvs: &mut dyn Kvs, neighbours: &[u32]) -> Result<Bootstrapped, JoinError> {
    let (first, size) = (neighbours[0], kvs.size());
    let opened = HostBootstrap::open(kvs.launcher(), neighbours, size);
    let told = match &opened {
        Ok(host) => Ok(host.record()),
        Err(_) if !is_block(neighbours) => Err(Excluded::Mixed),
        Err(_) => Err(Excluded::Shut),
    };
    kvs.put(&key(first), &host_record::word(&told)).map_err(JoinError::Kvs)?;
    if first == 0 && neighbours.len() < size as usize {
        let job = Job::draw().map_err(JoinError::Memory)?;
        kvs.put(JOB_KEY, &job.word()).map_err(JoinError::Kvs)?;
    }
    kvs.fence().map_err(JoinError::Kvs)?;
    let mut host = opened.map_err(JoinError::Kvs)?;
    let joined = host.accept_ranks(kvs.launcher())?;
    let made = host.settle(kvs, &joined);
    if let Err(error) = &made {
        joined.iter().for_each(|rank| rank.refuse(&error.to_string()));
    }
    made
}

/// The part of the other ranks.
fn follow(kvs: &mut dyn Kvs, neighbours: &[u32]) -> Result<Bootstrapped, JoinError> {
    let (rank, first, launcher) = (kvs.rank(), neighbours[0], kvs.launcher());
    kvs.fence().map_err(JoinError::Kvs)?;
    let told = look_up(kvs, first).map_err(JoinError::Kvs)?;
    let record =
        told.map_err(|excluded| JoinError::Kvs(exclusion(launcher, excluded, neighbours)))?;
    let join_socket = record.join_socket.ok_or_else(|| {
        stop(
            launcher,
            format_args!(
                "rank {first}, the first rank of this host, believes that it is the only one"
            ),
        )
    })?;
    let reply = bootstrap::enter(&join_socket, rank, job::this_process());
    let (member, files) = reply.map_err(|error| match error {
        // The first rank has said why.
        BootstrapError::Refused { .. } => JoinError::Bootstrap(error),
        BootstrapError::LauncherGone => stop(
            launcher,
            format_args!("rank {first}, the first rank of this host, has exited"),
        ),
        BootstrapError::Os { .. } => stop(
            launcher,
            format_args!(
                "this rank cannot reach rank {first}, the first rank of its host ({error}); containers on one \
                 host must share a network namespace"
            ),
        ),
        _ => JoinError::Bootstrap(error),
    })?;
    let (segment, net) = files.open(&member)?;
    Ok(Bootstrapped { segment, net, rank })
}

/// What the first rank of a host has opened for its neighbours and for other hosts.
struct HostBootstrap {
    first: u32,
    ranks: u32,
    size: u32,
    /// If the host has other ranks.
    join_socket: Option<JoinSocket>,
    /// If there are other hosts.
    host_address: Option<HostAddress>,
}

impl HostBootstrap {
    fn open(
        launcher: &'static str,
        neighbours: &[u32],
        size: u32,
    ) -> Result<HostBootstrap, KvsError> {
        if !is_block(neighbours) {
            return Err(exclusion(launcher, Excluded::Mixed, neighbours));
        }
        let ranks = u32::try_from(neighbours.len()).unwrap_or(u32::MAX);
        let join_socket = (ranks > 1).then(JoinSocket::open).transpose();
        let join_socket = join_socket.map_err(|error| KvsError::new(launcher, error))?;
        let host_address = (ranks < size).then(|| {
            let all = host_address::addresses();
            HostAddress::open(ranks, None, &host_address::usual(&all))
        });
        let host_address = host_address.transpose().map_err(|error| {
            KvsError::new(
                launcher,
                format_args!("ranks of other hosts cannot reach this host: {error}"),
            )
        })?;
        Ok(HostBootstrap { first: neighbours[0], ranks, size, join_socket, host_address })
    }

    fn record(&self) -> HostRecord {
        let join_socket = self.join_socket.as_ref().map(|join_socket| join_socket.address.clone());
        let network = self.host_address.as_ref().map(|host_address| NetworkRecord {
            port: host_address.group.port,
            frame_bytes_max: host_address.frame_bytes_max,
            machine: cores::machine().unwrap_or(0),
            addresses: host_address.addresses.clone(),
        });
        HostRecord { ranks: self.ranks, join_socket, network }
    }

    /// Waits for all neighbours.
    fn accept_ranks(&self, launcher: &'static str) -> Result<Vec<JoinedRank>, JoinError> {
        let Some(join_socket) = &self.join_socket else { return Ok(Vec::new()) };
        join_socket.accept_ranks(self.first, self.ranks).map_err(|NotAll { here, error }| {
            let all = self.ranks;
            stop(
                launcher,
                format_args!("only {here} of {all} ranks of this host have joined: {error}"),
            )
        })
    }

    /// Creates what the ranks of this host share, and gives each rank its part.
    fn settle(
        &mut self,
        kvs: &mut dyn Kvs,
        joined: &[JoinedRank],
    ) -> Result<Bootstrapped, JoinError> {
        let far = match self.host_address.take() {
            Some(host_address) => Some(OtherHosts::find(kvs, host_address, self.size)?),
            None => None,
        };
        let number = far.as_ref().map_or_else(job::random, |far| far.job.number);
        let cores = cores::of_job();
        let neighbours = far.as_ref().map_or(0, |far| far.neighbours);
        let oversubscribed = cores::oversubscribed(self.ranks.max(neighbours), cores);
        let segment =
            Segment::create(self.ranks, number, oversubscribed).map_err(JoinError::Memory)?;
        segment.note_cores(cores);
        segment.introduce(0, job::this_process());
        for JoinedRank { rank, process, .. } in joined {
            segment.introduce(rank - self.first, *process);
        }
        for rank in joined {
            let mut files = vec![segment.file().as_fd()];
            let network = far.as_ref().map(|far| {
                let socket = &far.sockets[(rank.rank - self.first) as usize];
                files.extend([far.directory.file().as_fd(), socket.as_fd()]);
                far.job.network()
            });
            let member = Member {
                rank: rank.rank,
                size: self.size,
                spawned: None,
                job: number,
                oversubscribed,
                fault_tolerant: false,
                network,
            };
            rank.send_join_reply(member, &files).map_err(JoinError::Bootstrap)?;
        }
        let (rank, size) = (self.first, self.size);
        let net = far.map(|far| far.net(rank, size)).transpose()?;
        Ok(Bootstrapped { segment, net, rank })
    }
}

/// What the first rank of a host knows of the other hosts.
struct OtherHosts {
    job: Job,
    directory: Directory,
    sockets: Vec<OwnedFd>,
    /// Ranks on this machine, of all hosts.
    neighbours: u32,
}

impl OtherHosts {
    /// Reads the records of all hosts.
    fn find(
        kvs: &mut dyn Kvs,
        host_address: HostAddress,
        size: u32,
    ) -> Result<OtherHosts, JoinError> {
        let launcher = kvs.launcher();
        let mut hosts = Vec::new();
        let (mut first, mut frame_bytes_max, mut neighbours) = (0, u32::MAX, 0);
        let ours = cores::machine();
        while first < size {
            let told = look_up(kvs, first).map_err(JoinError::Kvs)?;
            let record =
                told.map_err(|excluded| JoinError::Kvs(exclusion(launcher, excluded, &[first])))?;
            let Some(NetworkRecord { port, frame_bytes_max: theirs, machine, addresses }) =
                record.network
            else {
                return Err(stop(
                    launcher,
                    format_args!("rank {first} believes that its host is the only one of the job"),
                ));
            };
            frame_bytes_max = frame_bytes_max.min(theirs);
            if ours.is_some_and(|ours| ours == machine) {
                neighbours += record.ranks;
            }
            hosts.push(Host { first, ranks: record.ranks, port, addresses });
            first = first.saturating_add(record.ranks);
        }
        // Each host uses addresses of one IP version.
        let older = |addresses: &[IpAddr]| addresses.iter().any(IpAddr::is_ipv4);
        let old = older(&host_address.addresses);
        if let Some(other) = hosts.iter().find(|host| older(&host.addresses) != old) {
            let (old, new) =
                if old { ("this host", "the other") } else { ("the other", "this host") };
            return Err(stop(
                launcher,
                format_args!(
                    "this host and the host of rank {} have no IP version in common: {old} has IPv4 addresses, \
                     {new} only IPv6",
                    other.first
                ),
            ));
        }
        let word = kvs.get(0, JOB_KEY).map_err(JoinError::Kvs)?;
        let job = Job::read(&word)
            .ok_or_else(|| stop(launcher, "rank 0 stored an invalid job record"))?;
        let directory = Directory::create(&hosts, frame_bytes_max).map_err(JoinError::Memory)?;
        Ok(OtherHosts { job, directory, sockets: host_address.group.sockets, neighbours })
    }

    /// The network of the first rank itself, which also keeps the sockets of all ranks open.
    fn net(self, rank: u32, size: u32) -> Result<Net, JoinError> {
        let network = Some(self.job.network());
        let copy = |file: &dyn AsFd| file.as_fd().try_clone_to_owned().map_err(JoinError::Memory);
        let (directory, socket) = (copy(self.directory.file())?, copy(&self.sockets[0])?);
        let member = Member {
            rank,
            size,
            spawned: None,
            job: self.job.number,
            oversubscribed: false,
            fault_tolerant: false,
            network,
        };
        let net = job::network(&member, Some(directory), Some(socket))?;
        Ok(net.ok_or(JoinError::Version)?.keeping(self.sockets))
    }
}

/// What only the hosts of a job may know: drawn by rank 0.
struct Job {
    number: u32,
    secret: JobSecret,
}

impl Job {
    fn draw() -> std::io::Result<Job> {
        Ok(Job { number: job::random(), secret: JobSecret::draw()? })
    }

    fn network(&self) -> NetworkConfig {
        NetworkConfig { secret: self.secret.clone(), insecure: false, fabric: None }
    }

    fn word(&self) -> Zeroizing<String> {
        let mut word = Zeroizing::new(String::with_capacity(JOB_WORD_BYTES_MAX));
        word.push_str(&format!("{}-", self.number));
        word.push_str(&hex::word(&*self.secret));
        word
    }

    fn read(word: &str) -> Option<Job> {
        let (number, digits) = word.split_once('-')?;
        let secret = JobSecret::filled(|bytes| hex::fill(digits, bytes).ok_or(())).ok()?;
        Some(Job { number: number.parse().ok()?, secret })
    }
}

/// Reads the record that the first rank of a host has stored.
fn look_up(kvs: &mut dyn Kvs, first: u32) -> Result<Result<HostRecord, Excluded>, KvsError> {
    let word = kvs.get(first, &key(first))?;
    host_record::read(&word).ok_or_else(|| {
        KvsError::new(
            kvs.launcher(),
            format_args!("rank {first} stored an invalid host record of {} bytes", word.len()),
        )
    })
}

/// What fuzz targets call: parses a word that rank 0 may have stored.
#[cfg(fuzzing)]
pub(super) fn fuzzed(word: &str) {
    if let Some(job) = Job::read(word) {
        assert!(Job::read(&job.word()).is_some_and(|read| read.secret == job.secret));
    }
}

/// The key under which the first rank of a host stores its record.
fn key(rank: u32) -> String {
    format!("ferry-{rank}")
}

/// The key under which rank 0 stores what all hosts have to know.
const JOB_KEY: &str = "ferry-job";

/// The longest word under it: a number, and two digits for each byte of the secret.
const JOB_WORD_BYTES_MAX: usize = 11 + 2 * SECRET_BYTES;

/// Whether ranks are consecutive.
fn is_block(ranks: &[u32]) -> bool {
    ranks.windows(2).all(|pair| pair[0] + 1 == pair[1])
}

/// The error for a host that cannot take part, of which `ranks` are some or all ranks.
fn exclusion(launcher: &'static str, excluded: Excluded, ranks: &[u32]) -> KvsError {
    let first = ranks[0];
    match excluded {
        Excluded::Mixed => {
            let way_out = match () {
                () if launcher.contains("Slurm") => "use `srun --distribution=block`",
                () if launcher.contains("MPICH") => {
                    "give the number of ranks per host, as in `mpiexec -ppn 2` or `-hosts a:2,b:2`"
                }
                () if launcher.contains("Open MPI") => "use `mpirun --map-by slot`",
                () => "tell the launcher to fill one host after the other",
            };
            KvsError::new(
                launcher,
                format_args!(
                    "the ranks on the host of rank {first} are not consecutive, as Ferrywire requires; \
                     {way_out}"
                ),
            )
        }
        Excluded::Shut => KvsError::new(
            launcher,
            format_args!(
                "the host of rank {first} cannot take part; the error of that rank says why"
            ),
        ),
    }
}

fn stop(launcher: &'static str, trouble: impl fmt::Display) -> JoinError {
    JoinError::Kvs(KvsError::new(launcher, trouble))
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::sync::{Arc, Barrier, Mutex};
    use std::thread;

    use super::*;

    /// A kvs for threads: a map, and a barrier.
    #[derive(Clone)]
    struct Slate {
        rank: u32,
        hosts: Arc<Vec<Vec<u32>>>,
        words: Arc<Mutex<HashMap<String, String>>>,
        barrier: Arc<Barrier>,
    }

    impl Kvs for Slate {
        fn launcher(&self) -> &'static str {
            "a launcher like Slurm"
        }
        fn rank(&self) -> u32 {
            self.rank
        }
        fn size(&self) -> u32 {
            u32::try_from(self.hosts.iter().map(Vec::len).sum::<usize>()).expect("few")
        }
        fn program(&mut self) -> Option<u32> {
            None
        }

        fn neighbours(&mut self) -> Result<Vec<u32>, KvsError> {
            let mine = self.hosts.iter().find(|ranks| ranks.contains(&self.rank));
            Ok(mine.expect("everybody is somewhere").clone())
        }
        fn put(&mut self, key: &str, word: &str) -> Result<(), KvsError> {
            self.words.lock().expect("no panic").insert(key.into(), word.into());
            Ok(())
        }
        fn fence(&mut self) -> Result<(), KvsError> {
            self.barrier.wait();
            Ok(())
        }
        fn get(&mut self, _: u32, key: &str) -> Result<Zeroizing<String>, KvsError> {
            let word = self.words.lock().expect("no panic").get(key).cloned();
            word.map(Zeroizing::new)
                .ok_or_else(|| KvsError::new(self.launcher(), "nothing is there"))
        }
        fn goodbye(&mut self) -> Result<(), KvsError> {
            Ok(())
        }
        fn abort(&mut self, _: i32, _: &str) -> Result<(), KvsError> {
            Ok(())
        }
    }

    /// The result of each rank of a job on these hosts.
    fn ranks_of(hosts: &[&[u32]]) -> Vec<Result<Bootstrapped, JoinError>> {
        let hosts = Arc::new(hosts.iter().map(|ranks| ranks.to_vec()).collect::<Vec<_>>());
        let size = hosts.iter().map(Vec::len).sum::<usize>();
        let (words, barrier) = (Arc::default(), Arc::new(Barrier::new(size)));
        let slate = Slate { rank: 0, hosts, words, barrier };
        let ranks = (0..).take(size).map(|rank| Slate { rank, ..slate.clone() });
        let threads: Vec<_> =
            ranks.map(|mut slate| thread::spawn(move || bootstrap_by_kvs(&mut slate))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    }

    #[test]
    fn ranks_of_one_host_share_its_memory_and_need_no_way() {
        for (rank, together) in (0..).zip(ranks_of(&[&[0, 1, 2]])) {
            let Bootstrapped { segment, net, rank: told } = together.expect("together");
            assert!(net.is_none() && told == rank && segment.ranks() == 3);
            assert!((0..3).all(|local_rank| segment.process(local_rank) == job::this_process()));
        }
    }

    #[test]
    fn ranks_of_several_hosts_know_where_all_are() {
        let mut jobs = Vec::new();
        for (rank, together) in (0..).zip(ranks_of(&[&[0, 1], &[2], &[3, 4, 5]])) {
            let Bootstrapped { segment, net, .. } = together.expect("together");
            let net = net.expect("a network");
            assert_eq!((net.me, net.directory.size()), (rank, 6));
            assert_eq!(net.directory.ranks(2), (3, 3));
            assert_eq!(segment.ranks(), net.directory.ranks(net.host).1);
            jobs.push(segment.job());
        }
        assert!(jobs.iter().all(|job| *job == jobs[0]), "one job has one number: {jobs:?}");
    }

    #[test]
    fn ranks_that_are_not_consecutive_stop_with_a_way_out() {
        for hosts in [[&[0, 2][..], &[1]], [&[0, 3], &[1, 2]]] {
            for together in ranks_of(&hosts) {
                let error = together.err().expect("it must not go on").to_string();
                assert!(error.contains("--distribution=block"), "{error}");
            }
        }
    }

    #[test]
    fn the_secret_survives_the_kvs() {
        let job = Job::draw().expect("random bytes");
        let read = Job::read(&job.word()).expect("readable");
        assert_eq!((read.number, &read.secret), (job.number, &job.secret));
        for word in ["", "1", "1-00", "x-00", &job.word()[1..].replace('-', "")] {
            assert!(Job::read(word).is_none(), "{word}");
        }
    }
}
