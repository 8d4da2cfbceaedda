//! How ranks come together by a board.
//!
//! The first rank of a host is to its neighbours what our own launcher is to its ranks: it makes the memory that they
//! share, opens their sockets, and hands both over at a door. It finds the other hosts by their berths: the berth of
//! rank 0 says how many ranks are there, so which rank's berth is the next. Whoever cannot take part says so on the
//! board and stops only afterwards, or the others would wait.

use std::fmt;
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};

use zeroize::Zeroizing;

use super::berth::{self, Berth, Kept, Reach};
use super::board::{Board, NoBoard};
use super::hex;
use crate::cores;
use crate::job::{self, JoinError};
use crate::meet::{self, Door, Guest, MeetError, Member, NotAll, Way};
use crate::net::Net;
use crate::net::directory::{Directory, Host};
use crate::net::shore::{self, Shore};
use crate::secret::{JobSecret, SECRET_BYTES};
use crate::shm::Segment;

/// A rank that is together with the others.
pub(crate) struct Together {
    /// The memory that the ranks of this host share.
    pub(crate) segment: Segment,
    /// The way to other hosts, if there are any.
    pub(crate) net: Option<Net>,
    pub(crate) rank: u32,
}

/// Waits for all ranks, and comes together with them.
pub(crate) fn come_together(board: &mut dyn Board) -> Result<Together, JoinError> {
    let neighbours = board.neighbours().map_err(JoinError::Board)?;
    match board.rank() == neighbours[0] {
        true => lead(board, &neighbours),
        false => follow(board, &neighbours),
    }
}

/// What the first rank of a host does.
fn lead(board: &mut dyn Board, neighbours: &[u32]) -> Result<Together, JoinError> {
    let (first, size) = (neighbours[0], board.size());
    let opened = Quarters::open(board.launcher(), neighbours, size);
    let told = match &opened {
        Ok(quarters) => Ok(quarters.berth()),
        Err(_) if !is_block(neighbours) => Err(Kept::Mixed),
        Err(_) => Err(Kept::Shut),
    };
    board.put(&key(first), &berth::word(&told)).map_err(JoinError::Board)?;
    if first == 0 && neighbours.len() < size as usize {
        let job = Job::draw().map_err(JoinError::Memory)?;
        board.put(JOB_KEY, &job.word()).map_err(JoinError::Board)?;
    }
    board.fence().map_err(JoinError::Board)?;
    let mut quarters = opened.map_err(JoinError::Board)?;
    let guests = quarters.let_in(board.launcher())?;
    let made = quarters.settle(board, &guests);
    if let Err(error) = &made {
        guests.iter().for_each(|guest| guest.refuse(&error.to_string()));
    }
    made
}

/// What the others do.
fn follow(board: &mut dyn Board, neighbours: &[u32]) -> Result<Together, JoinError> {
    let (rank, first, launcher) = (board.rank(), neighbours[0], board.launcher());
    board.fence().map_err(JoinError::Board)?;
    let told = look_up(board, first).map_err(JoinError::Board)?;
    let berth = told.map_err(|kept| JoinError::Board(kept_out(launcher, kept, neighbours)))?;
    let door = berth.door.ok_or_else(|| {
        stop(launcher, format_args!("rank {first} takes itself for the only one of this host"))
    })?;
    let welcome = meet::enter(&door, rank, job::this_process());
    let (member, files) = welcome.map_err(|error| match error {
        // It has told why.
        MeetError::Refused { .. } => JoinError::Meet(error),
        MeetError::LauncherGone => stop(launcher, format_args!("rank {first}, the first of this host, is gone")),
        MeetError::Os { .. } => stop(
            launcher,
            format_args!(
                "this rank does not come in at the first of its host, rank {first} ({error}): ranks of one host must be in \
                 one network namespace if they are in containers"
            ),
        ),
        _ => JoinError::Meet(error),
    })?;
    let (segment, net) = files.open(&member)?;
    Ok(Together { segment, net, rank })
}

/// What the first rank of a host has opened for its neighbours and for other hosts.
struct Quarters {
    first: u32,
    ranks: u32,
    size: u32,
    /// If there are others on this host.
    door: Option<Door>,
    /// If there are other hosts.
    shore: Option<Shore>,
}

impl Quarters {
    fn open(launcher: &'static str, neighbours: &[u32], size: u32) -> Result<Quarters, NoBoard> {
        if !is_block(neighbours) {
            return Err(kept_out(launcher, Kept::Mixed, neighbours));
        }
        let ranks = u32::try_from(neighbours.len()).unwrap_or(u32::MAX);
        let door = (ranks > 1).then(Door::open).transpose();
        let door = door.map_err(|error| NoBoard::new(launcher, error))?;
        let shore = (ranks < size).then(|| {
            let all = shore::addresses();
            Shore::open(ranks, None, &shore::usual(&all))
        });
        let shore = shore.transpose().map_err(|error| {
            NoBoard::new(
                launcher,
                format_args!("ranks of other hosts have no way to this one: {error}"),
            )
        })?;
        Ok(Quarters { first: neighbours[0], ranks, size, door, shore })
    }

    fn berth(&self) -> Berth {
        let door = self.door.as_ref().map(|door| door.invitation.clone());
        let way = self.shore.as_ref().map(|shore| Reach {
            port: shore.group.port,
            frame_bytes_max: shore.frame_bytes_max,
            machine: cores::machine().unwrap_or(0),
            addresses: shore.addresses.clone(),
        });
        Berth { ranks: self.ranks, door, way }
    }

    /// Waits for all neighbours.
    fn let_in(&self, launcher: &'static str) -> Result<Vec<Guest>, JoinError> {
        let Some(door) = &self.door else { return Ok(Vec::new()) };
        door.let_in(self.first, self.ranks).map_err(|NotAll { here, error }| {
            let all = self.ranks;
            stop(launcher, format_args!("only {here} of {all} ranks of this host came in: {error}"))
        })
    }

    /// Makes what the ranks of this host share, and gives each its part.
    fn settle(&mut self, board: &mut dyn Board, guests: &[Guest]) -> Result<Together, JoinError> {
        let far = match self.shore.take() {
            Some(shore) => Some(Far::find(board, shore, self.size)?),
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
        for Guest { rank, process, .. } in guests {
            segment.introduce(rank - self.first, *process);
        }
        for guest in guests {
            let mut files = vec![segment.file().as_fd()];
            let way = far.as_ref().map(|far| {
                let socket = &far.sockets[(guest.rank - self.first) as usize];
                files.extend([far.directory.file().as_fd(), socket.as_fd()]);
                far.job.way()
            });
            let member = Member {
                rank: guest.rank,
                size: self.size,
                job: number,
                oversubscribed,
                lasting: false,
                way,
            };
            guest.welcome(member, &files).map_err(JoinError::Meet)?;
        }
        let (rank, size) = (self.first, self.size);
        let net = far.map(|far| far.net(rank, size)).transpose()?;
        Ok(Together { segment, net, rank })
    }
}

/// What the first rank of a host knows of the other hosts.
struct Far {
    job: Job,
    directory: Directory,
    sockets: Vec<OwnedFd>,
    /// Ranks of all hosts that are on this machine.
    neighbours: u32,
}

impl Far {
    /// Reads the berths of all hosts.
    fn find(board: &mut dyn Board, shore: Shore, size: u32) -> Result<Far, JoinError> {
        let launcher = board.launcher();
        let mut hosts = Vec::new();
        let (mut first, mut frame_bytes_max, mut neighbours) = (0, u32::MAX, 0);
        let ours = cores::machine();
        while first < size {
            let told = look_up(board, first).map_err(JoinError::Board)?;
            let berth =
                told.map_err(|kept| JoinError::Board(kept_out(launcher, kept, &[first])))?;
            let Some(Reach { port, frame_bytes_max: theirs, machine, addresses }) = berth.way
            else {
                return Err(stop(
                    launcher,
                    format_args!("rank {first} takes its host for the only one of the job"),
                ));
            };
            frame_bytes_max = frame_bytes_max.min(theirs);
            if ours.is_some_and(|ours| ours == machine) {
                neighbours += berth.ranks;
            }
            hosts.push(Host { first, ranks: berth.ranks, port, addresses });
            first = first.saturating_add(berth.ranks);
        }
        // Each host uses the addresses of one version.
        let older = |addresses: &[IpAddr]| addresses.iter().any(IpAddr::is_ipv4);
        let old = older(&shore.addresses);
        if let Some(other) = hosts.iter().find(|host| older(&host.addresses) != old) {
            let (old, new) = if old { ("this host", "that") } else { ("that", "this host") };
            return Err(stop(
                launcher,
                format_args!(
                    "the host of rank {} and this one have no address of the same version of IP: {old} has one of IPv4, \
                     {new} of IPv6 only",
                    other.first
                ),
            ));
        }
        let word = board.get(0, JOB_KEY).map_err(JoinError::Board)?;
        let job = Job::read(&word)
            .ok_or_else(|| stop(launcher, "rank 0 left a word that is none of ours"))?;
        let directory = Directory::create(&hosts, frame_bytes_max).map_err(JoinError::Memory)?;
        Ok(Far { job, directory, sockets: shore.group.sockets, neighbours })
    }

    /// Our own part of it: as the others get theirs, and all sockets, to keep them open.
    fn net(self, rank: u32, size: u32) -> Result<Net, JoinError> {
        let way = Some(self.job.way());
        let copy = |file: &dyn AsFd| file.as_fd().try_clone_to_owned().map_err(JoinError::Memory);
        let (directory, socket) = (copy(self.directory.file())?, copy(&self.sockets[0])?);
        let member =
            Member { rank, size, job: self.job.number, oversubscribed: false, lasting: false, way };
        let net = job::way(&member, Some(directory), Some(socket))?;
        Ok(net.ok_or(JoinError::Version)?.keeping(self.sockets))
    }
}

/// What all hosts of a job have to know, and nobody else: drawn by rank 0.
struct Job {
    number: u32,
    secret: JobSecret,
}

impl Job {
    fn draw() -> std::io::Result<Job> {
        Ok(Job { number: job::random(), secret: JobSecret::draw()? })
    }

    fn way(&self) -> Way {
        Way { secret: self.secret.clone(), insecure: false, fabric: None }
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

/// What the first rank of a host has left on the board.
fn look_up(board: &mut dyn Board, first: u32) -> Result<Result<Berth, Kept>, NoBoard> {
    let word = board.get(first, &key(first))?;
    berth::read(&word).ok_or_else(|| {
        NoBoard::new(
            board.launcher(),
            format_args!(
                "rank {first} left a word that is none of ours, of {} letters",
                word.len()
            ),
        )
    })
}

/// What fuzz targets call: a word that rank 0 may have left.
#[cfg(fuzzing)]
pub(super) fn fuzzed(word: &str) {
    if let Some(job) = Job::read(word) {
        assert!(Job::read(&job.word()).is_some_and(|read| read.secret == job.secret));
    }
}

/// Under which key the first rank of a host leaves its berth.
fn key(rank: u32) -> String {
    format!("ferry-{rank}")
}

/// Under which key rank 0 leaves what all hosts have to know.
const JOB_KEY: &str = "ferry-job";

/// The longest word under it: a number, and two digits for each byte of the secret.
const JOB_WORD_BYTES_MAX: usize = 11 + 2 * SECRET_BYTES;

/// Whether ranks follow each other.
fn is_block(ranks: &[u32]) -> bool {
    ranks.windows(2).all(|pair| pair[0] + 1 == pair[1])
}

/// What there is to say of a host that cannot take part; we know some of its ranks.
fn kept_out(launcher: &'static str, kept: Kept, ranks: &[u32]) -> NoBoard {
    let first = ranks[0];
    match kept {
        Kept::Mixed => {
            let way_out = match () {
                () if launcher.contains("Slurm") => "use `srun --distribution=block`",
                () if launcher.contains("MPICH") => {
                    "say how many ranks each host gets, `mpiexec -ppn 2` or `-hosts a:2,b:2`"
                }
                () if launcher.contains("Open MPI") => "use `mpirun --map-by slot`",
                () => "tell it to fill one host after the other",
            };
            NoBoard::new(
                launcher,
                format_args!(
                    "the ranks of a host have to follow each other, and those on the host of rank {first} do not: {way_out}"
                ),
            )
        }
        Kept::Shut => NoBoard::new(
            launcher,
            format_args!("the host of rank {first} cannot take part, as that rank says"),
        ),
    }
}

fn stop(launcher: &'static str, trouble: impl fmt::Display) -> JoinError {
    JoinError::Board(NoBoard::new(launcher, trouble))
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::sync::{Arc, Barrier, Mutex};
    use std::thread;

    use super::*;

    /// A board for threads: a map, and a barrier.
    #[derive(Clone)]
    struct Slate {
        rank: u32,
        hosts: Arc<Vec<Vec<u32>>>,
        words: Arc<Mutex<HashMap<String, String>>>,
        barrier: Arc<Barrier>,
    }

    impl Board for Slate {
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

        fn neighbours(&mut self) -> Result<Vec<u32>, NoBoard> {
            let mine = self.hosts.iter().find(|ranks| ranks.contains(&self.rank));
            Ok(mine.expect("everybody is somewhere").clone())
        }
        fn put(&mut self, key: &str, word: &str) -> Result<(), NoBoard> {
            self.words.lock().expect("no panic").insert(key.into(), word.into());
            Ok(())
        }
        fn fence(&mut self) -> Result<(), NoBoard> {
            self.barrier.wait();
            Ok(())
        }
        fn get(&mut self, _: u32, key: &str) -> Result<Zeroizing<String>, NoBoard> {
            let word = self.words.lock().expect("no panic").get(key).cloned();
            word.map(Zeroizing::new)
                .ok_or_else(|| NoBoard::new(self.launcher(), "nothing is there"))
        }
        fn goodbye(&mut self) -> Result<(), NoBoard> {
            Ok(())
        }
        fn abort(&mut self, _: i32, _: &str) -> Result<(), NoBoard> {
            Ok(())
        }
    }

    /// What becomes of each rank of a job on these hosts.
    fn ranks_of(hosts: &[&[u32]]) -> Vec<Result<Together, JoinError>> {
        let hosts = Arc::new(hosts.iter().map(|ranks| ranks.to_vec()).collect::<Vec<_>>());
        let size = hosts.iter().map(Vec::len).sum::<usize>();
        let (words, barrier) = (Arc::default(), Arc::new(Barrier::new(size)));
        let slate = Slate { rank: 0, hosts, words, barrier };
        let ranks = (0..).take(size).map(|rank| Slate { rank, ..slate.clone() });
        let threads: Vec<_> =
            ranks.map(|mut slate| thread::spawn(move || come_together(&mut slate))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    }

    #[test]
    fn ranks_of_one_host_share_its_memory_and_need_no_way() {
        for (rank, together) in (0..).zip(ranks_of(&[&[0, 1, 2]])) {
            let Together { segment, net, rank: told } = together.expect("together");
            assert!(net.is_none() && told == rank && segment.ranks() == 3);
            assert!((0..3).all(|slot| segment.process(slot) == job::this_process()));
        }
    }

    #[test]
    fn ranks_of_several_hosts_know_where_all_are() {
        let mut jobs = Vec::new();
        for (rank, together) in (0..).zip(ranks_of(&[&[0, 1], &[2], &[3, 4, 5]])) {
            let Together { segment, net, .. } = together.expect("together");
            let net = net.expect("a way");
            assert_eq!((net.me, net.directory.size()), (rank, 6));
            assert_eq!(net.directory.ranks(2), (3, 3));
            assert_eq!(segment.ranks(), net.directory.ranks(net.host).1);
            jobs.push(segment.job());
        }
        assert!(jobs.iter().all(|job| *job == jobs[0]), "one job has one number: {jobs:?}");
    }

    #[test]
    fn where_ranks_do_not_follow_each_other_everybody_stops_with_a_way_out() {
        for hosts in [[&[0, 2][..], &[1]], [&[0, 3], &[1, 2]]] {
            for together in ranks_of(&hosts) {
                let error = together.err().expect("it must not go on").to_string();
                assert!(error.contains("--distribution=block"), "{error}");
            }
        }
    }

    #[test]
    fn the_secret_survives_the_board() {
        let job = Job::draw().expect("random bytes");
        let read = Job::read(&job.word()).expect("readable");
        assert_eq!((read.number, &read.secret), (job.number, &job.secret));
        for word in ["", "1", "1-00", "x-00", &job.word()[1..].replace('-', "")] {
            assert!(Job::read(word).is_none(), "{word}");
        }
    }
}
