//! The protocol between the launcher and its daemons, over the pipes of the command that started the daemon.
//!
//! A frame is a kind in one byte, a length in four bytes, and as many bytes. The output of ranks is sent as it is; all
//! else is JSON, so that people can read it. No port is open for it, and the secret of the job is sent only through
//! these pipes.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::time::Duration;

use ferrywire_host::secret::{JobSecret, SECRET_BYTES};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::options::{Files, Stdin};
use super::plan::Spawned;
use super::rail::RailRequest;
use super::rank_command::RankCommand;
use super::report::{RankEnding, RankName};
use super::sys::Pid;
use crate::job_facts::RankAnswer;

/// The version of this protocol. Launcher and daemon should be the same program.
pub(super) const VERSION: u32 = 8;

/// What the launcher sends to a daemon.
#[derive(Debug, Deserialize, Serialize)]
pub(super) enum Order {
    /// Start these ranks.
    Start(Box<Assignment>),
    /// All ranks of all hosts have joined. The addresses of the hosts, and the rail between them: a provider of
    /// libfabric, or datagrams.
    Go { hosts: Vec<HostRecord>, frame_bytes_max: u32, provider: Option<String> },
    /// The ranks of a world, on all hosts, wait for each other: release them.
    All { world: u32 },
    /// The answer to what a rank asked for, as bytes.
    Answer { rank: u32, answer: Vec<u8> },
    /// Ranks are spawned, perhaps on this host.
    Spawn(SpawnOrder),
    /// All ranks of a spawned world have joined, on all hosts. Their numbers, in order of their ranks.
    Admit { world: u32, peers: Vec<Range<u32>> },
    /// A spawned world will not come to be: end its ranks.
    Dismiss { world: u32 },
    /// This rank has left the job in order.
    Left(u32),
    /// A signal for all ranks.
    Signal(i32),
    /// The job has failed elsewhere: end.
    End,
    /// These ranks are gone, and the job continues.
    Gone(Vec<u32>),
    /// Kill this rank: others continue without it.
    Kill(u32),
    /// Answer with a pong. When the launcher sent this, by its clock.
    Ping { sent_ns: u64 },
    /// Send what the ranks have recorded: the clocks have been compared.
    SendRecordings,
    /// Tell the facts of the ranks.
    Facts(FactsOrder),
    /// Hold back the output of ranks, or stop holding it back.
    Hold { out: bool, err: bool },
    /// The output is not read any more.
    Unread,
    /// A piece of the input.
    Feed(Vec<u8>),
    /// The input has ended.
    FeedEnd,
}

/// What the launcher wants to know of ranks.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(super) struct FactsOrder {
    /// The number of the question.
    pub(super) question: u32,
    /// Ask the ranks first: queues are written only when somebody asks.
    pub(super) asks: bool,
    /// Send all facts, and not only what the ranks have answered.
    pub(super) whole: bool,
    /// How long to wait for answers, at least and at most.
    pub(super) least_ms: u32,
    pub(super) most_ms: u32,
}

impl FactsOrder {
    pub(super) fn least(&self) -> Duration {
        Duration::from_millis(self.least_ms.into())
    }

    pub(super) fn most(&self) -> Duration {
        Duration::from_millis(self.most_ms.into())
    }
}

/// In place of the number of a question: facts that a daemon sends after a failure of its ranks, and at the end.
pub(super) const OF_A_FAILURE: u32 = u32::MAX - 1;
pub(super) const AT_THE_END: u32 = u32::MAX;

/// A world that a rank asked for, and what of it is started on one host.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct SpawnOrder {
    /// The number of the world, from 1 on.
    pub(super) world: u32,
    /// The rank that asked, and the tag under which it waits for the first of the new ranks.
    pub(super) parent: (u32, u32),
    /// The number of ranks in the world.
    pub(super) size: u32,
    /// The number of the first that is started here. The others here follow it.
    pub(super) first: u32,
    /// How many ranks have been spawned so far on hosts, by the numbers of the hosts.
    pub(super) spawned: Vec<(u32, u32)>,
    /// The programs that are started here.
    pub(super) parts: Vec<Spawned>,
}

/// The ranks of a host, and what it takes to start them.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct Assignment {
    pub(super) version: u32,
    /// The number and the mark of the job.
    pub(super) job: u32,
    pub(super) mark: String,
    /// The number of ranks on all hosts.
    pub(super) size: u32,
    pub(super) parts: Vec<Errand>,
    pub(super) label: bool,
    /// Which labels may have a colour, and where an incomplete line may be a prompt.
    pub(super) terminals: Terminals,
    pub(super) files: Files,
    /// Which ranks read the launcher's input.
    pub(super) stdin: Stdin,
    pub(super) network: Network,
    /// The job continues when ranks die.
    pub(super) fault_tolerant: bool,
    /// After how long without a call the launcher wants to know.
    pub(super) hang_timeout: Option<Duration>,
    /// Ranks record what they do, in so many bytes at most.
    pub(super) recording_bytes_max: Option<u64>,
}

/// How ranks of different hosts communicate.
#[derive(Clone, Deserialize, Serialize)]
pub(super) struct Network {
    /// The secret of the job.
    #[serde(serialize_with = "secret_out", deserialize_with = "secret_in")]
    pub(super) secret: JobSecret,
    /// Frames are not sealed, at the user's request.
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
    /// An address and a prefix length.
    pub(super) net: Option<(IpAddr, u8)>,
}

/// What a host tells others: its ranks, port and addresses.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct HostRecord {
    pub(super) first: u32,
    pub(super) ranks: u32,
    pub(super) port: u16,
    pub(super) addresses: Vec<IpAddr>,
    /// The machine that it is on, if known: several hosts may share one.
    pub(super) machine: Option<u64>,
}

/// Whether the launcher's output and error are terminals, and whether labels may have colours.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(super) struct Terminals {
    pub(super) out: bool,
    pub(super) err: bool,
    pub(super) colours: bool,
}

/// A program for some ranks.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Errand {
    /// The number of the program in the job, from 0 on.
    pub(super) program: u32,
    pub(super) words: Vec<OsString>,
    pub(super) first: u32,
    pub(super) ranks: u32,
    pub(super) folder: PathBuf,
    /// The environment before `set`.
    pub(super) base: Vec<(OsString, OsString)>,
    pub(super) set: Vec<(String, String)>,
    /// The command line around the program of each rank.
    pub(super) rank_command: Option<RankCommand>,
}

/// What a daemon sends to the launcher.
#[derive(Debug, Deserialize, Serialize)]
pub(super) enum News {
    /// The daemon runs.
    Here { version: u32 },
    /// Its ranks run, and other hosts reach them at this port and these addresses.
    Started {
        port: u16,
        addresses: Vec<IpAddr>,
        machine: Option<u64>,
        frame_bytes_max: u32,
        providers: Vec<String>,
    },
    /// One of its ranks has joined and waits for the others.
    Waiting { rank: u32 },
    /// One of its ranks has ended without joining.
    Absent { rank: u32, pid: Pid },
    /// All its ranks have joined.
    Joined,
    /// All its ranks of a world wait for those of all hosts.
    AllWait { world: u32 },
    /// One of its ranks asks for something, as bytes, and waits for the answer.
    Request { rank: u32, request: Vec<u8> },
    /// Its ranks of a spawned world have joined.
    Spawned { world: u32 },
    /// They will not, for this reason.
    NotSpawned { world: u32, why: String },
    /// One of its ranks has left the job in order.
    Left { rank: u32 },
    /// The last piece of input has been taken.
    Hungry,
    /// The job has failed on this host, which ends its ranks: the reason, and the exit code.
    Failed { failure: FailureNews },
    /// A rank is gone, and the job continues.
    Lost { rank: u32, loss: Loss },
    /// One of its ranks has not heard from this rank for too long.
    Silent { rank: u32 },
    /// The answer to a ping: when that was sent, and by the clock of the host when it arrived and when this was sent.
    Pong { sent_ns: u64, received_ns: u64, answered_ns: u64 },
    /// All its ranks wait, and nothing has changed for a moment; or that is over.
    Still { still: bool },
    /// None of its ranks has made a call for the time of `--hang-timeout`; or that is over. Those that poll.
    Quiet { quiet: bool, polling: Vec<u32> },
    /// What its ranks have answered to a question, by their numbers, and whether any of them waits in a call.
    Answers { question: u32, waiting: bool, answers: Vec<(u32, RankAnswer)> },
    /// The ranks could not be started, for this reason.
    NotStarted { why: String, code: u8 },
    /// All its ranks have ended, and it waits for the order to send what they have recorded.
    Recorded,
    /// What a rank has recorded follows, in so many bytes. The same moment by the clock of the host and in the recording.
    Recording { rank: String, bytes: u64, clock_ns: u64, clock_time: u64 },
    /// What a rank has recorded cannot be sent, for this reason.
    NoRecording { rank: String, why: String },
    /// All recordings have been sent.
    AllSent,
    /// All its ranks have ended, in these ways.
    Done { endings: Vec<RankEnding> },
}

/// A failure on a host.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct FailureNews {
    pub(super) why: String,
    /// The exit code that the job gets.
    pub(super) code: u8,
    pub(super) rank: Option<RankName>,
    pub(super) weight: u32,
    /// Whether it may follow from what other ranks did. If so, facts follow.
    pub(super) may_be_explained: bool,
    /// Whether the rank ended by itself, so that the error that it reported last belongs to the sentence.
    pub(super) ended: bool,
}

/// The end of a rank that did not end its job.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Loss {
    pub(super) why: String,
    /// The exit code that the job would have had.
    pub(super) code: u8,
    /// The rank had left the job before: the others do not miss it, and its code counts.
    pub(super) had_left: bool,
}

/// What a frame holds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum FrameKind {
    Words,
    Out,
    Err,
    /// A report of facts.
    Facts,
    /// A piece of what a rank has recorded.
    Trace,
}

impl FrameKind {
    fn letter(self) -> u8 {
        match self {
            FrameKind::Words => b'w',
            FrameKind::Out => b'o',
            FrameKind::Err => b'e',
            FrameKind::Facts => b'f',
            FrameKind::Trace => b't',
        }
    }

    fn of(letter: u8) -> Option<FrameKind> {
        [FrameKind::Words, FrameKind::Out, FrameKind::Err, FrameKind::Facts, FrameKind::Trace]
            .into_iter()
            .find(|kind| kind.letter() == letter)
    }
}

/// Builds a frame in one piece, so that one write sends it.
pub(super) fn framed(kind: FrameKind, bytes: &[u8]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(HEAD_BYTES + bytes.len());
    frame.push(kind.letter());
    frame.extend(u32::try_from(bytes.len()).expect("frames are short").to_le_bytes());
    frame.extend(bytes);
    frame
}

/// Writes a frame of words, and blocks until it is in the pipe.
pub(super) fn say(mut pipe: impl Write, words: &impl Serialize) -> io::Result<()> {
    pipe.write_all(&framed(FrameKind::Words, &serde_json::to_vec(words)?))?;
    pipe.flush()
}

/// Reads frames from a pipe.
pub(super) struct Frames {
    pipe: File,
    bytes: VecDeque<u8>,
}

/// Why no more frames can be read.
#[derive(Debug)]
pub(super) enum Broken {
    /// The pipe is closed.
    Gone,
    /// The other end sent this, which is not a frame: most likely the output of a login script.
    Strange(String),
}

impl Frames {
    pub(super) fn new(pipe: File) -> Frames {
        Frames { pipe, bytes: VecDeque::new() }
    }

    /// Reads once. To be called when the pipe is readable.
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

    /// The next frame, if all of it has arrived.
    pub(super) fn next(&mut self) -> Result<Option<(FrameKind, Vec<u8>)>, Broken> {
        let bytes = self.bytes.make_contiguous();
        let Some((head, rest)) = bytes.split_first_chunk::<HEAD_BYTES>() else {
            // The first byte already shows that it is not a frame.
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

/// Parses the JSON in a frame of words.
pub(super) fn understood<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Broken> {
    serde_json::from_slice(bytes).map_err(|_| strange(bytes))
}

const HEAD_BYTES: usize = 5;
/// The longest frame: an environment may be a few hundred kilobytes.
const FRAME_BYTES_MAX: usize = 16 << 20;
/// How much of unexpected bytes is shown.
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
