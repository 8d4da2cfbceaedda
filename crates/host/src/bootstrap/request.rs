//! What ranks ask their launcher for while the job runs, and its answers, as bytes.

use std::ops::Range;

use super::wire::{Reader, Unreadable};

/// What a rank asks its launcher for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Request {
    /// To start programs as one world.
    Spawn {
        /// The tag under which the rank will wait for the first of its children.
        tag: u32,
        /// The programs.
        commands: Vec<Command>,
    },
    /// To tell others, who ask for `service`, the name of a port.
    Publish {
        /// The name of the service.
        service: Vec<u8>,
        /// The name of the port.
        port: Vec<u8>,
    },
    /// To tell it no longer.
    Unpublish {
        /// The name of the service.
        service: Vec<u8>,
    },
    /// To be told the port of a service.
    LookUp {
        /// The name of the service.
        service: Vec<u8>,
    },
}

/// A program to start.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Command {
    /// The program and its arguments.
    pub words: Vec<Vec<u8>>,
    /// How many ranks run it.
    pub ranks: u32,
    /// The folder in which it starts.
    pub folder: Vec<u8>,
    /// Folders in which the program is looked for, with colons between them; empty for those of `PATH`.
    pub path: Vec<u8>,
    /// The host on which it starts; empty for any.
    pub host: Vec<u8>,
}

/// What the launcher answers.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Answer {
    /// It is done.
    Done,
    /// The peers of the new world, in order of their ranks.
    Spawned(Vec<Range<u32>>),
    /// The port of the service.
    Port(Vec<u8>),
    /// There is no such service.
    NoService,
    /// There is one already.
    Published,
    /// The programs could not be started, for this reason.
    NotSpawned(Vec<u8>),
}

const SPAWN: u32 = 0;
const PUBLISH: u32 = 1;
const UNPUBLISH: u32 = 2;
const LOOK_UP: u32 = 3;

const DONE: u32 = 0;
const SPAWNED: u32 = 1;
const PORT: u32 = 2;
const NO_SERVICE: u32 = 3;
const PUBLISHED: u32 = 4;
const NOT_SPAWNED: u32 = 5;

impl Request {
    /// The request as bytes, for [`Request::from_bytes`].
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.emit(&mut bytes);
        bytes
    }

    /// Parses a request. `None` if the bytes are none.
    pub fn from_bytes(bytes: &[u8]) -> Option<Request> {
        Request::parse(&mut Reader(bytes)).ok()
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        match self {
            Request::Spawn { tag, commands } => {
                number(out, SPAWN);
                number(out, *tag);
                number(out, count(commands));
                commands.iter().for_each(|command| command.emit(out));
            }
            Request::Publish { service, port } => {
                number(out, PUBLISH);
                bytes(out, service);
                bytes(out, port);
            }
            Request::Unpublish { service } => {
                number(out, UNPUBLISH);
                bytes(out, service);
            }
            Request::LookUp { service } => {
                number(out, LOOK_UP);
                bytes(out, service);
            }
        }
    }

    pub(super) fn parse(body: &mut Reader<'_>) -> Result<Request, Unreadable> {
        Ok(match body.u32()? {
            SPAWN => Request::Spawn { tag: body.u32()?, commands: body.list(Command::parse)? },
            PUBLISH => Request::Publish { service: body.bytes()?, port: body.bytes()? },
            UNPUBLISH => Request::Unpublish { service: body.bytes()? },
            LOOK_UP => Request::LookUp { service: body.bytes()? },
            _ => return Err(Unreadable::Malformed),
        })
    }
}

impl Command {
    fn emit(&self, out: &mut Vec<u8>) {
        number(out, self.ranks);
        number(out, count(&self.words));
        self.words.iter().for_each(|word| bytes(out, word));
        [&self.folder, &self.path, &self.host].iter().for_each(|text| bytes(out, text));
    }

    fn parse(body: &mut Reader<'_>) -> Result<Command, Unreadable> {
        let (ranks, words) = (body.u32()?, body.list(Reader::bytes)?);
        let [folder, path, host] = [body.bytes()?, body.bytes()?, body.bytes()?];
        if words.is_empty() {
            return Err(Unreadable::Malformed);
        }
        Ok(Command { words, ranks, folder, path, host })
    }
}

impl Answer {
    /// The answer as bytes, for [`Answer::from_bytes`].
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.emit(&mut bytes);
        bytes
    }

    /// Parses an answer. `None` if the bytes are none.
    pub fn from_bytes(bytes: &[u8]) -> Option<Answer> {
        Answer::parse(&mut Reader(bytes)).ok()
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        match self {
            Answer::Done => number(out, DONE),
            Answer::Spawned(world) => {
                number(out, SPAWNED);
                number(out, count(world));
                world.iter().flat_map(|range| [range.start, range.end]).for_each(|end| {
                    number(out, end);
                });
            }
            Answer::Port(port) => {
                number(out, PORT);
                bytes(out, port);
            }
            Answer::NoService => number(out, NO_SERVICE),
            Answer::Published => number(out, PUBLISHED),
            Answer::NotSpawned(why) => {
                number(out, NOT_SPAWNED);
                bytes(out, why);
            }
        }
    }

    pub(super) fn parse(body: &mut Reader<'_>) -> Result<Answer, Unreadable> {
        Ok(match body.u32()? {
            DONE => Answer::Done,
            SPAWNED => Answer::Spawned(body.ranges()?),
            PORT => Answer::Port(body.bytes()?),
            NO_SERVICE => Answer::NoService,
            PUBLISHED => Answer::Published,
            NOT_SPAWNED => Answer::NotSpawned(body.bytes()?),
            _ => return Err(Unreadable::Malformed),
        })
    }
}

fn number(out: &mut Vec<u8>, number: u32) {
    out.extend(number.to_le_bytes());
}

fn count<T>(list: &[T]) -> u32 {
    u32::try_from(list.len()).unwrap_or(u32::MAX)
}

fn bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    number(out, count(bytes));
    out.extend(bytes);
}
