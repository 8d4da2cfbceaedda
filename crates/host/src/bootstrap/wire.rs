//! The messages between launcher and ranks, as bytes. One message is one packet of the socket.
//!
//! ```text
//! 0        4          6       8
//! | "FMET" | version  | kind  | body ...
//! ```
//!
//! All numbers are little-endian. The header and a refusal have the same form in every version, so that two versions
//! can at least tell each other that they differ.

use std::fmt;
use std::hint::black_box;
use std::ops::Range;

use zeroize::{Zeroize, Zeroizing};

use crate::secret::{JobSecret, SECRET_BYTES};

use super::request::{Answer, Request};
use crate::shm::Process;

const MAGIC: [u8; 4] = *b"FMET";

/// The version of the bootstrap protocol that this library speaks.
pub const VERSION: u16 = 6;

/// The longest text in a message. Longer texts are cut.
pub const TEXT_BYTES_MAX: usize = 1024;

/// The longest message: a request with all that a spawned program is told.
pub(super) const MESSAGE_BYTES_MAX: usize = 64 << 10;

/// Room for a message that holds a secret: a join reply with its provider, or with the peers of a world.
const SECRET_MESSAGE_BYTES_MAX: usize = 8 << 10;

/// What a rank says of itself when it joins.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Hello {
    /// Its process id, as it sees it.
    pub pid: u32,
    /// The identity of its process.
    pub word: u64,
    /// The address of eight bytes that hold the word, and that peers may try to read.
    pub probe_address: u64,
}

/// What a rank is told about the job that it has joined.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Member {
    /// Its rank.
    pub rank: u32,
    /// The number of ranks in its world.
    pub size: u32,
    /// Who spawned it, and the peers of its world in order of their ranks. `None` for a rank of the beginning: its
    /// world is all of those.
    pub spawned: Option<(Parent, Vec<Range<u32>>)>,
    /// The number of the job.
    pub job: u32,
    /// Whether the ranks outnumber the cores, so that waiting threads should sleep.
    pub oversubscribed: bool,
    /// Whether the job continues when ranks die.
    pub fault_tolerant: bool,
    /// How it reaches other hosts, if there are any.
    pub network: Option<NetworkConfig>,
}

/// The rank that spawned another.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Parent {
    /// The rank, as a peer.
    pub peer: u32,
    /// The tag under which it waits for the first of the ranks that it spawned together.
    pub tag: u32,
}

/// How a rank reaches other hosts, besides the files that come with its join reply.
#[derive(Clone, Eq, PartialEq)]
pub struct NetworkConfig {
    /// The secret of the job.
    pub secret: JobSecret,
    /// Nothing is sealed, at the user's request.
    pub insecure: bool,
    /// The libfabric provider that carries frames, instead of datagrams.
    pub fabric: Option<String>,
}

impl fmt::Debug for NetworkConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NetworkConfig(insecure: {}, fabric: {:?})", self.insecure, self.fabric)
    }
}

/// The length of a [`Token`].
pub const TOKEN_BYTES: usize = 16;

/// Random bytes that only ranks of one job know, as proof of being one. Tokens are compared in constant time.
#[derive(Clone)]
pub struct Token(pub [u8; TOKEN_BYTES]);

impl PartialEq for Token {
    fn eq(&self, other: &Token) -> bool {
        let differing =
            self.0.iter().zip(&other.0).fold(0, |differing, (a, b)| differing | (a ^ b));
        black_box(differing) == 0
    }
}

impl Eq for Token {}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

/// One message of the bootstrap protocol.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Message {
    /// Rank to launcher: I am here.
    Hello(Hello),
    /// A rank to the first rank of its host, under another launcher: I am `rank`, and this is the proof.
    Enter { rank: u32, token: Token, hello: Hello },
    /// The first rank of a host to a rank that entered: you are recognised, and so am I. The join reply follows.
    Entered { token: Token },
    /// Launcher to the process `to`: all are here, and this is your place. The segment comes with it.
    JoinReply { to: u32, member: Member },
    /// Launcher to the process `to`: you cannot join, for this reason.
    Refused { to: u32, text: String },
    /// Rank to launcher: I wait until all ranks have said this. Launcher to rank: all have.
    All,
    /// Rank to launcher: I want something, and wait for the answer.
    Request(Request),
    /// Launcher to rank: the answer.
    Answer(Answer),
    /// Rank to launcher: I have finalised.
    Goodbye,
    /// Rank to launcher: I have not heard of this rank for too long, and continue without it.
    Silent { rank: u32 },
    /// Rank to launcher: end the job with this code.
    Abort { code: i32, text: String },
}

/// Why bytes are not a message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Unreadable {
    /// Another version.
    Version(u16),
    /// Another protocol, or broken bytes.
    Malformed,
}

const HELLO: u16 = 1;
const JOIN_REPLY: u16 = 2;
const REFUSED: u16 = 3;
const GOODBYE: u16 = 4;
const ABORT: u16 = 5;
const ALL: u16 = 6;
const SILENT: u16 = 7;
const ENTER: u16 = 8;
const ENTERED: u16 = 9;
const REQUEST: u16 = 10;
const ANSWER: u16 = 11;

const OVERSUBSCRIBED: u32 = 1;
const FAR: u32 = 2;
const INSECURE: u32 = 4;
const FABRIC: u32 = 8;
const FAULT_TOLERANT: u32 = 16;
const SPAWNED: u32 = 32;

impl Message {
    /// The message as bytes, which are wiped when dropped: some hold a secret.
    pub fn emit(&self) -> Zeroizing<Vec<u8>> {
        // A vector that grows leaves copies behind.
        let mut bytes = Zeroizing::new(Vec::with_capacity(SECRET_MESSAGE_BYTES_MAX));
        bytes.extend(MAGIC);
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend(self.kind().to_le_bytes());
        match self {
            Message::Hello(hello) => bytes.extend(hello.emit()),
            Message::Enter { rank, token, hello } => {
                bytes.extend(rank.to_le_bytes());
                bytes.extend(token.0);
                bytes.extend(hello.emit());
            }
            Message::Entered { token } => bytes.extend(token.0),
            Message::JoinReply { to, member } => {
                let network = member.network.as_ref();
                let insecure = network.is_some_and(|network| network.insecure);
                let fabric = network.and_then(|network| network.fabric.as_deref());
                let flags = [
                    (member.oversubscribed, OVERSUBSCRIBED),
                    (network.is_some(), FAR),
                    (insecure, INSECURE),
                    (fabric.is_some(), FABRIC),
                    (member.fault_tolerant, FAULT_TOLERANT),
                    (member.spawned.is_some(), SPAWNED),
                ];
                let flags = flags.iter().filter(|(set, _)| *set).map(|(_, flag)| flag).sum();
                for number in [*to, member.rank, member.size, member.job, flags] {
                    bytes.extend(number.to_le_bytes());
                }
                if let Some((parent, world)) = &member.spawned {
                    let ranges = u32::try_from(world.len()).unwrap_or(u32::MAX);
                    for number in [parent.peer, parent.tag, ranges] {
                        bytes.extend(number.to_le_bytes());
                    }
                    for number in world.iter().flat_map(|range| [range.start, range.end]) {
                        bytes.extend(number.to_le_bytes());
                    }
                }
                network.iter().for_each(|network| bytes.extend_from_slice(&*network.secret));
                bytes.extend(fabric.into_iter().flat_map(|provider| shortened(provider).bytes()));
            }
            Message::Refused { to, text } => {
                bytes.extend(to.to_le_bytes());
                bytes.extend(shortened(text).bytes());
            }
            Message::Request(request) => request.emit(&mut bytes),
            Message::Answer(answer) => answer.emit(&mut bytes),
            Message::Goodbye | Message::All => {}
            Message::Silent { rank } => bytes.extend(rank.to_le_bytes()),
            Message::Abort { code, text } => {
                bytes.extend(code.to_le_bytes());
                bytes.extend(shortened(text).bytes());
            }
        }
        bytes
    }

    /// Parses a message.
    pub fn parse(bytes: &[u8]) -> Result<Message, Unreadable> {
        let mut body = Reader(bytes);
        if body.take::<4>()? != MAGIC {
            return Err(Unreadable::Malformed);
        }
        let version = u16::from_le_bytes(body.take()?);
        let kind = u16::from_le_bytes(body.take()?);
        if version != VERSION && kind != REFUSED {
            return Err(Unreadable::Version(version));
        }
        let message = match kind {
            HELLO => Message::Hello(body.hello()?),
            ENTER => {
                let (rank, token) = (body.u32()?, Token(body.take()?));
                Message::Enter { rank, token, hello: body.hello()? }
            }
            ENTERED => Message::Entered { token: Token(body.take()?) },
            JOIN_REPLY => Message::JoinReply { to: body.u32()?, member: body.member()? },
            REFUSED => Message::Refused { to: body.u32()?, text: body.text() },
            REQUEST => Message::Request(Request::parse(&mut body)?),
            ANSWER => Message::Answer(Answer::parse(&mut body)?),
            GOODBYE => Message::Goodbye,
            ALL => Message::All,
            SILENT => Message::Silent { rank: body.u32()? },
            ABORT => Message::Abort { code: body.i32()?, text: body.text() },
            _ => return Err(Unreadable::Malformed),
        };
        if body.0.is_empty() { Ok(message) } else { Err(Unreadable::Malformed) }
    }

    fn kind(&self) -> u16 {
        match self {
            Message::Hello(_) => HELLO,
            Message::Enter { .. } => ENTER,
            Message::Entered { .. } => ENTERED,
            Message::JoinReply { .. } => JOIN_REPLY,
            Message::Refused { .. } => REFUSED,
            Message::Request(_) => REQUEST,
            Message::Answer(_) => ANSWER,
            Message::Goodbye => GOODBYE,
            Message::All => ALL,
            Message::Silent { .. } => SILENT,
            Message::Abort { .. } => ABORT,
        }
    }
}

impl Hello {
    fn emit(&self) -> impl Iterator<Item = u8> {
        let words = [self.word, self.probe_address];
        self.pid.to_le_bytes().into_iter().chain(words.into_iter().flat_map(u64::to_le_bytes))
    }

    /// The hello of a process.
    pub(super) fn of(process: Process) -> Hello {
        Hello { pid: process.pid, word: process.word, probe_address: process.probe }
    }

    /// The process that said this, which the kernel here knows as `pid_outside`.
    pub(super) fn process(self, pid_outside: u32) -> Process {
        Process { pid: self.pid, pid_outside, word: self.word, probe: self.probe_address }
    }
}

/// The text up to the limit, cut between characters.
fn shortened(text: &str) -> &str {
    &text[..text.floor_char_boundary(TEXT_BYTES_MAX)]
}

/// What is left of a message.
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Unreadable> {
        let (head, rest) = self.0.split_first_chunk().ok_or(Unreadable::Malformed)?;
        self.0 = rest;
        Ok(*head)
    }

    pub(super) fn u32(&mut self) -> Result<u32, Unreadable> {
        self.take().map(u32::from_le_bytes)
    }

    /// Bytes that come after their number.
    pub(super) fn bytes(&mut self) -> Result<Vec<u8>, Unreadable> {
        let len = usize::try_from(self.u32()?).map_err(|_| Unreadable::Malformed)?;
        let (bytes, rest) = self.0.split_at_checked(len).ok_or(Unreadable::Malformed)?;
        self.0 = rest;
        Ok(bytes.to_vec())
    }

    /// Things that come after their number.
    pub(super) fn list<T>(
        &mut self,
        mut one: impl FnMut(&mut Self) -> Result<T, Unreadable>,
    ) -> Result<Vec<T>, Unreadable> {
        // As many as claimed if they are there; none has no bytes.
        (0..self.u32()?).map(|_| one(self)).collect()
    }

    /// Ranges of peers.
    pub(super) fn ranges(&mut self) -> Result<Vec<Range<u32>>, Unreadable> {
        self.list(|reader| {
            let range = reader.u32()?..reader.u32()?;
            if range.is_empty() { Err(Unreadable::Malformed) } else { Ok(range) }
        })
    }

    fn i32(&mut self) -> Result<i32, Unreadable> {
        self.take().map(i32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, Unreadable> {
        self.take().map(u64::from_le_bytes)
    }

    fn hello(&mut self) -> Result<Hello, Unreadable> {
        Ok(Hello { pid: self.u32()?, word: self.u64()?, probe_address: self.u64()? })
    }

    /// The rest as text. It comes from another process, so it may not be valid UTF-8, and replacement characters may be
    /// longer than the bytes that they replace.
    fn text(&mut self) -> String {
        let text = String::from_utf8_lossy(std::mem::take(&mut self.0));
        shortened(&text).to_owned()
    }

    fn secret(&mut self) -> Result<JobSecret, Unreadable> {
        let (secret, rest) = self.0.split_at_checked(SECRET_BYTES).ok_or(Unreadable::Malformed)?;
        self.0 = rest;
        JobSecret::filled(|bytes| {
            bytes.copy_from_slice(secret);
            Ok(())
        })
    }

    fn member(&mut self) -> Result<Member, Unreadable> {
        let [rank, size, job, flags] = [self.u32()?, self.u32()?, self.u32()?, self.u32()?];
        let known = OVERSUBSCRIBED | FAR | INSECURE | FABRIC | FAULT_TOLERANT | SPAWNED;
        let spawned = match flags & SPAWNED {
            0 => None,
            _ => Some((Parent { peer: self.u32()?, tag: self.u32()? }, self.ranges()?)),
        };
        let is_member = match &spawned {
            None => rank < size,
            Some((_, world)) => {
                let peers: u64 = world.iter().map(|range| u64::from(range.end - range.start)).sum();
                peers == u64::from(size) && world.iter().any(|range| range.contains(&rank))
            }
        };
        if !is_member || flags & !known != 0 {
            return Err(Unreadable::Malformed);
        }
        let (oversubscribed, insecure) = (flags & OVERSUBSCRIBED != 0, flags & INSECURE != 0);
        let fault_tolerant = flags & FAULT_TOLERANT != 0;
        let network = match flags & FAR {
            0 => None,
            _ => {
                let secret = self.secret()?;
                let fabric = (flags & FABRIC != 0).then(|| self.text());
                Some(NetworkConfig { secret, insecure, fabric })
            }
        };
        Ok(Member { rank, size, spawned, job, oversubscribed, fault_tolerant, network })
    }
}

#[cfg(test)]
mod tests {
    use super::super::request::Command;
    use super::*;

    fn all() -> Vec<Message> {
        let member = Member {
            rank: 2,
            size: 3,
            spawned: None,
            job: 77,
            oversubscribed: true,
            fault_tolerant: true,
            network: None,
        };
        let network = |fabric: Option<&str>| {
            let fabric = fabric.map(str::to_owned);
            let secret = JobSecret::draw().expect("random bytes");
            Some(NetworkConfig { secret, insecure: true, fabric })
        };
        let far = Member { network: network(None), ..member.clone() };
        let fabric = Member { network: network(Some("udp;ofi_rxd")), ..member.clone() };
        let parent = Parent { peer: 1, tag: 12 };
        let spawned = Some((parent, vec![7..9, 2..3]));
        let spawned = Member { spawned, ..member.clone() };
        let command = Command {
            words: vec![b"./worker".to_vec(), b"-v".to_vec()],
            ranks: 4,
            folder: b"/home".to_vec(),
            ..Command::default()
        };
        let requests = [
            Request::Spawn { tag: 3, commands: vec![command] },
            Request::Publish { service: b"ocean".to_vec(), port: b"port".to_vec() },
            Request::Unpublish { service: b"ocean".to_vec() },
            Request::LookUp { service: Vec::new() },
        ];
        let answers = [
            Answer::Done,
            Answer::Spawned(vec![7..9, 2..3]),
            Answer::Port(b"port".to_vec()),
            Answer::NoService,
            Answer::Published,
            Answer::NotSpawned(b"no such file".to_vec()),
        ];
        let hello = Hello { pid: 4711, word: 99, probe_address: 0x7fff_0000_1234 };
        vec![
            Message::Hello(hello),
            Message::JoinReply { to: 4711, member },
            Message::Refused { to: 4711, text: "no room".into() },
            Message::Goodbye,
            Message::Abort { code: -3, text: "the grid is empty".into() },
            Message::JoinReply { to: 4711, member: far },
            Message::JoinReply { to: 4711, member: fabric },
            Message::All,
            Message::Silent { rank: 9 },
            Message::Enter { rank: 2, token: Token([5; TOKEN_BYTES]), hello },
            Message::Entered { token: Token([6; TOKEN_BYTES]) },
            Message::JoinReply { to: 4711, member: spawned },
        ]
        .into_iter()
        .chain(requests.map(Message::Request))
        .chain(answers.map(Message::Answer))
        .collect()
    }

    #[test]
    fn what_is_said_is_understood() {
        for message in all() {
            assert_eq!(Message::parse(&message.emit()), Ok(message));
        }
    }

    #[test]
    fn short_long_and_odd_bytes_are_malformed_and_never_a_panic() {
        for message in all() {
            let bytes = message.emit();
            for length in 0..bytes.len() {
                let _ = Message::parse(&bytes[..length]);
            }
            for at in 0..bytes.len() {
                for value in [0, 1, 0x7f, 0xff] {
                    let mut changed = bytes.clone();
                    changed[at] = value;
                    let _ = Message::parse(&changed);
                }
            }
        }
        let mut long = Message::Goodbye.emit();
        long.push(0);
        assert_eq!(Message::parse(&long), Err(Unreadable::Malformed));
        assert_eq!(Message::parse(b""), Err(Unreadable::Malformed));
        assert_eq!(Message::parse(b"GET / HTTP/1.1\r\n"), Err(Unreadable::Malformed));
    }

    #[test]
    fn a_rank_outside_the_job_is_malformed() {
        let member = Member {
            rank: 3,
            size: 3,
            spawned: None,
            job: 1,
            oversubscribed: false,
            fault_tolerant: false,
            network: None,
        };
        let bytes = Message::JoinReply { to: 1, member }.emit();
        assert_eq!(Message::parse(&bytes), Err(Unreadable::Malformed));
    }

    #[test]
    fn another_version_is_told_apart_and_its_refusal_is_read() {
        let mut hello = all()[0].emit();
        hello[4] = 9;
        assert_eq!(Message::parse(&hello), Err(Unreadable::Version(9)));
        let mut refused = all()[2].emit();
        refused[4] = 9;
        assert_eq!(Message::parse(&refused), Ok(all()[2].clone()));
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let text = "é".repeat(TEXT_BYTES_MAX);
        let bytes = Message::Abort { code: 1, text }.emit();
        assert!(bytes.len() <= MESSAGE_BYTES_MAX);
        let Ok(Message::Abort { text, .. }) = Message::parse(&bytes) else { panic!() };
        assert_eq!(text, "é".repeat(TEXT_BYTES_MAX / 2));
    }
}
