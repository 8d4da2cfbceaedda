//! What the launcher and its daemons on hosts say to each other, over the pipes of whatever started the daemon.
//!
//! A frame is a kind, a length in four bytes, and as many bytes. Output of ranks goes as it is; all else is JSON, so
//! that a person who looks at the pipe can read it. There is no port to find or to knock at, and no secret but
//! in these pipes.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;

use ferrywire_host::secret::{JobSecret, SECRET_BYTES};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::options::{Files, Stdin};
use super::rail::RailRequest;
use super::sys::{Ending, Pid};

/// The version of all that is said here. Launcher and daemon are the same program, or should be.
pub(super) const VERSION: u32 = 4;

/// What a launcher tells a daemon.
#[derive(Debug, Deserialize, Serialize)]
pub(super) enum Order {
    /// Starts ranks.
    Start(Box<Assignment>),
    /// All ranks of all hosts are there, and this is where the hosts are, and what they talk by: a provider of libfabric,
    /// or datagrams.
    Go { hosts: Vec<HostRecord>, frame_bytes_max: u32, provider: Option<String> },
    /// All ranks of all hosts have said that they wait for each other.
    All,
    /// A signal for all ranks.
    Signal(i32),
    /// Somebody has failed elsewhere: end.
    End,
    /// These ranks are gone, and the job goes on.
    Gone(Vec<u32>),
    /// This rank is to be gone: others go on without it.
    Kill(u32),
    /// Is anybody there?
    Ping,
    /// Output that nobody reads now is to be kept, until another such order.
    Hold { out: bool, err: bool },
    /// Nobody reads the output any more.
    Unread,
    /// A piece of the input.
    Feed(Vec<u8>),
    /// The input is at its end.
    FeedEnd,
}

/// The ranks of a host, and all that it takes to start them.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct Assignment {
    pub(super) version: u32,
    /// The number and the mark of the job.
    pub(super) job: u32,
    pub(super) mark: String,
    /// How many ranks there are on all hosts.
    pub(super) size: u32,
    pub(super) parts: Vec<Errand>,
    pub(super) label: bool,
    /// Which labels may have a colour, and where a line without an end is a question.
    pub(super) terminals: Terminals,
    pub(super) files: Files,
    /// Which ranks get the launcher's input.
    pub(super) stdin: Stdin,
    pub(super) network: Network,
    /// The job goes on when ranks die.
    pub(super) fault_tolerant: bool,
}

/// What ranks of different hosts talk by.
#[derive(Clone, Deserialize, Serialize)]
pub(super) struct Network {
    /// The secret of the job, which nobody else learns.
    #[serde(serialize_with = "secret_out", deserialize_with = "secret_in")]
    pub(super) secret: JobSecret,
    /// Nothing is sealed, since the user wants it so.
    pub(super) insecure: bool,
    pub(super) rail: RailRequest,
    pub(super) wanted: Wanted,
}

impl std::fmt::Debug for Network {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Network(insecure: {}, rail: {}, {:?})", self.insecure, self.rail, self.wanted)
    }
}

fn secret_out<S: Serializer>(secret: &JobSecret, into: S) -> Result<S::Ok, S::Error> {
    (**secret).serialize(into)
}

fn secret_in<'de, D: Deserializer<'de>>(from: D) -> Result<JobSecret, D::Error> {
    let bytes = <[u8; SECRET_BYTES]>::deserialize(from)?;
    JobSecret::filled(|secret| {
        secret.copy_from_slice(&bytes);
        Ok(())
    })
}

/// Which ports and addresses of a host may be used.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(super) struct Wanted {
    pub(super) ports: Option<(u16, u16)>,
    pub(super) interface: Option<String>,
    /// An address, and how many of its bits count.
    pub(super) net: Option<(IpAddr, u8)>,
}

/// Where a host is.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct HostRecord {
    pub(super) first: u32,
    pub(super) ranks: u32,
    pub(super) port: u16,
    pub(super) addresses: Vec<IpAddr>,
    /// Which machine it is on, if that is known: several hosts may share one.
    pub(super) machine: Option<u64>,
}

/// What the launcher's output goes to.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(super) struct Terminals {
    pub(super) out: bool,
    pub(super) err: bool,
    pub(super) colours: bool,
}

/// A program for some ranks.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Errand {
    /// Which program of the job it is, from 0 on.
    pub(super) program: u32,
    pub(super) words: Vec<OsString>,
    pub(super) first: u32,
    pub(super) ranks: u32,
    pub(super) folder: PathBuf,
    /// All of the environment but what follows.
    pub(super) base: Vec<(OsString, OsString)>,
    pub(super) set: Vec<(String, String)>,
}

/// What a daemon tells its launcher.
#[derive(Debug, Deserialize, Serialize)]
pub(super) enum News {
    /// It runs.
    Here { version: u32 },
    /// Its ranks run, and this is where they are reached by the ranks of other hosts.
    Started {
        port: u16,
        addresses: Vec<IpAddr>,
        machine: Option<u64>,
        frame_bytes_max: u32,
        providers: Vec<String>,
    },
    /// One of its ranks waits for the others.
    Waiting { rank: u32 },
    /// One of its ranks has ended without joining.
    Absent { rank: u32, pid: Pid },
    /// All of its ranks wait for the others.
    Joined,
    /// All of its ranks wait until those of all hosts have come so far.
    AllWait,
    /// The last piece of input has been taken.
    Hungry,
    /// Something went wrong, and it ends its ranks: the reason, and the exit code that says so.
    Failed { why: String, code: u8, rank: Option<u32>, weight: u32 },
    /// A rank is gone, and the job goes on.
    Lost { rank: u32, loss: Loss },
    /// One of its ranks has not heard of this one for too long.
    Silent { rank: u32 },
    /// The answer to a ping.
    Pong,
    /// There are no ranks, for this reason.
    NotStarted { why: String, code: u8 },
    /// Nothing of it is left, and this is how each rank ended.
    Done { endings: Vec<(u32, Option<Ending>)> },
}

/// The end of a rank that did not end its job.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Loss {
    pub(super) why: String,
    /// What the job would have exited with.
    pub(super) code: u8,
    /// It had left before: it was not missed, and its code counts.
    pub(super) had_left: bool,
}

/// What a frame holds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum FrameKind {
    Words,
    Out,
    Err,
}

impl FrameKind {
    fn letter(self) -> u8 {
        match self {
            FrameKind::Words => b'w',
            FrameKind::Out => b'o',
            FrameKind::Err => b'e',
        }
    }

    fn of(letter: u8) -> Option<FrameKind> {
        [FrameKind::Words, FrameKind::Out, FrameKind::Err]
            .into_iter()
            .find(|kind| kind.letter() == letter)
    }
}

/// A frame, in one piece, so that one write takes it.
pub(super) fn framed(kind: FrameKind, bytes: &[u8]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(HEAD_BYTES + bytes.len());
    frame.push(kind.letter());
    frame.extend(u32::try_from(bytes.len()).expect("frames are short").to_le_bytes());
    frame.extend(bytes);
    frame
}

/// Says something, and waits until it is in the pipe.
pub(super) fn say(mut pipe: impl Write, words: &impl Serialize) -> io::Result<()> {
    pipe.write_all(&framed(FrameKind::Words, &serde_json::to_vec(words)?))?;
    pipe.flush()
}

/// What comes out of a pipe, frame by frame.
pub(super) struct Frames {
    pipe: File,
    bytes: VecDeque<u8>,
}

/// What the other end has done that no other end of ours does.
#[derive(Debug)]
pub(super) enum Broken {
    /// It is gone.
    Gone,
    /// It sent this, which is no frame: output of a login script, most likely.
    Strange(String),
}

impl Frames {
    pub(super) fn new(pipe: File) -> Frames {
        Frames { pipe, bytes: VecDeque::new() }
    }

    /// Reads what is there, once; call it when something is.
    pub(super) fn poll(&mut self) -> Result<(), Broken> {
        let mut bytes = [0; 1 << 16];
        match self.pipe.read(&mut bytes) {
            Ok(0) => Err(Broken::Gone),
            Ok(length) => {
                self.bytes.extend(&bytes[..length]);
                Ok(())
            }
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                ) =>
            {
                Ok(())
            }
            Err(_) => Err(Broken::Gone),
        }
    }

    /// The next frame, if all of it is there.
    pub(super) fn next(&mut self) -> Result<Option<(FrameKind, Vec<u8>)>, Broken> {
        let bytes = self.bytes.make_contiguous();
        let Some((head, rest)) = bytes.split_first_chunk::<HEAD_BYTES>() else {
            // Whoever is strange may also be short.
            return match bytes.first() {
                Some(&letter) if FrameKind::of(letter).is_none() => Err(strange(bytes)),
                _ => Ok(None),
            };
        };
        let [letter, length @ ..] = *head;
        let length = u32::from_le_bytes(length) as usize;
        let Some(kind) = FrameKind::of(letter).filter(|_| length <= FRAME_BYTES_MAX) else {
            return Err(strange(bytes));
        };
        let Some(body) = rest.get(..length).map(<[u8]>::to_vec) else { return Ok(None) };
        self.bytes.drain(..HEAD_BYTES + length);
        Ok(Some((kind, body)))
    }
}

impl AsFd for Frames {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }
}

fn strange(bytes: &[u8]) -> Broken {
    let shown = &bytes[..bytes.len().min(SHOWN_BYTES_MAX)];
    Broken::Strange(String::from_utf8_lossy(shown).trim().to_owned())
}

/// What a frame of words says.
pub(super) fn understood<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Broken> {
    serde_json::from_slice(bytes).map_err(|_| strange(bytes))
}

const HEAD_BYTES: usize = 5;
/// No frame is longer: an environment may be a few hundred kilobytes.
const FRAME_BYTES_MAX: usize = 16 << 20;
/// How much of what we do not understand is shown.
const SHOWN_BYTES_MAX: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    fn pipe() -> (Frames, io::PipeWriter) {
        let (theirs, ours) = io::pipe().expect("a pipe");
        (Frames::new(File::from(std::os::fd::OwnedFd::from(theirs))), ours)
    }

    #[test]
    fn frames_come_out_as_they_went_in_whole_or_in_pieces() {
        let (mut frames, mut into) = pipe();
        let mut sent = framed(FrameKind::Out, b"line\n");
        sent.extend(framed(FrameKind::Words, b"{}"));
        let (first, second) = sent.split_at(7);
        into.write_all(first).expect("written");
        frames.poll().expect("something");
        assert!(frames.next().expect("fine").is_none(), "not all of it is there");
        into.write_all(second).expect("written");
        frames.poll().expect("something");
        assert_eq!(frames.next().expect("fine"), Some((FrameKind::Out, b"line\n".to_vec())));
        assert_eq!(frames.next().expect("fine"), Some((FrameKind::Words, b"{}".to_vec())));
        assert!(frames.next().expect("fine").is_none());
        drop(into);
        assert!(matches!(frames.poll(), Err(Broken::Gone)));
    }

    #[test]
    fn what_a_login_script_prints_is_shown() {
        let (mut frames, mut into) = pipe();
        into.write_all(b"Welcome to node 7!\n").expect("written");
        frames.poll().expect("something");
        let Err(Broken::Strange(text)) = frames.next() else { panic!("it is no frame") };
        assert_eq!(text, "Welcome to node 7!");
    }
}
