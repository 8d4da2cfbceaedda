//! What every board can do, and how the ranks of a host come together by one.
//!
//! The first rank of a host makes the memory that they share and tells the others where it is: a descriptor of its
//! own process, which the kernel lets only the same user open. So here, too, nothing has a name in the file
//! system. Each rank fills in its own card.

use std::fmt;
use std::fs::OpenOptions;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use crate::cores;
use crate::job::{self, JoinError};
use crate::shm::Segment;

/// Where ranks that some launcher started leave words for each other.
pub(crate) trait Board: Send {
    /// What we call the launcher.
    fn launcher(&self) -> &'static str;

    /// Who we are.
    fn rank(&self) -> u32;

    /// How many we are.
    fn size(&self) -> u32;

    /// The ranks on our host, ourselves among them, in order.
    fn neighbours(&mut self) -> Result<Vec<u32>, NoBoard>;

    /// Leaves a word under a key that no other rank uses. Letters, digits, `-` and `:` only.
    fn put(&mut self, key: &str, word: &str) -> Result<(), NoBoard>;

    /// Waits until all ranks are here. What was left before can be read afterwards.
    fn fence(&mut self) -> Result<(), NoBoard>;

    /// The word that a rank has left.
    fn get(&mut self, from: u32, key: &str) -> Result<String, NoBoard>;

    /// The rank has finalised: that it ends is no longer news.
    fn goodbye(&mut self) -> Result<(), NoBoard>;

    /// Asks for the end of the whole job.
    fn abort(&mut self, code: i32, text: &str) -> Result<(), NoBoard>;
}

/// Why a board is of no use.
#[derive(Debug)]
pub struct NoBoard {
    launcher: &'static str,
    trouble: String,
}

impl NoBoard {
    pub(super) fn new(launcher: &'static str, trouble: impl fmt::Display) -> NoBoard {
        NoBoard { launcher, trouble: trouble.to_string() }
    }
}

impl fmt::Display for NoBoard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NoBoard { launcher, trouble } = self;
        write!(f, "this process was started by {launcher}, but {trouble}")
    }
}

impl std::error::Error for NoBoard {}

/// The ranks of this host, with the memory that they share.
pub(crate) struct Together {
    pub(crate) segment: Arc<Segment>,
    pub(crate) rank: u32,
}

/// Waits for all ranks, and comes together with those of this host.
pub(crate) fn come_together(board: &mut dyn Board) -> Result<Together, JoinError> {
    let (rank, size) = (board.rank(), board.size());
    let neighbours = board.neighbours().map_err(JoinError::Board)?;
    if neighbours.len() != size as usize {
        return Err(JoinError::Board(NoBoard::new(
            board.launcher(),
            format_args!(
                "only {} of {size} ranks are on this host, and there is no way between hosts yet",
                neighbours.len()
            ),
        )));
    }
    let first = neighbours[0];
    let made = (rank == first).then(|| make(size)).transpose().map_err(JoinError::Memory)?;
    if let Some(segment) = &made {
        board
            .put(&key(first), &Whereabouts::here(segment).to_string())
            .map_err(JoinError::Board)?;
    }
    board.fence().map_err(JoinError::Board)?;
    let segment = match made {
        Some(segment) => segment,
        None => {
            let word = board.get(first, &key(first)).map_err(JoinError::Board)?;
            open(board.launcher(), first, &word)?
        }
    };
    segment.introduce(rank, job::this_process());
    board.fence().map_err(JoinError::Board)?;
    Ok(Together { segment: Arc::new(segment), rank })
}

/// Under which key the first rank of a host says where its memory is.
fn key(rank: u32) -> String {
    format!("ferry-{rank}")
}

fn make(ranks: u32) -> io::Result<Segment> {
    let cores = cores::of_job();
    let segment = Segment::create(ranks, job::random(), cores::crowded(ranks, cores))?;
    segment.note_cores(cores);
    Ok(segment)
}

fn open(launcher: &'static str, first: u32, word: &str) -> Result<Segment, JoinError> {
    let odd = || {
        NoBoard::new(
            launcher,
            format_args!("rank {first} left a word that is none of ours: {word}"),
        )
    };
    let Whereabouts { pid, descriptor } =
        Whereabouts::read(word).ok_or_else(odd).map_err(JoinError::Board)?;
    let path = format!("/proc/{pid}/fd/{descriptor}");
    let file = OpenOptions::new().read(true).write(true).open(path).map_err(|error| {
        let why = format!(
            "the memory of rank {first}, pid {pid}, cannot be opened ({error}): ranks of one host must be of one user, \
             and in one pid namespace if they are in containers"
        );
        JoinError::Board(NoBoard::new(launcher, why))
    })?;
    job::open(file.into())
}

/// Where the memory of a host is to be found.
struct Whereabouts {
    pid: u32,
    descriptor: i32,
}

impl Whereabouts {
    fn here(segment: &Segment) -> Whereabouts {
        Whereabouts { pid: std::process::id(), descriptor: segment.file().as_raw_fd() }
    }

    fn read(word: &str) -> Option<Whereabouts> {
        let (pid, descriptor) = word.split_once(':')?;
        Some(Whereabouts { pid: pid.parse().ok()?, descriptor: descriptor.parse().ok()? })
    }
}

impl fmt::Display for Whereabouts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.pid, self.descriptor)
    }
}
