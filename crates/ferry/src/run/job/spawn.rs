//! What ranks ask for while the job runs: programs that are started later, and names of ports.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::ops::Range;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::Stdio;

use ferrywire_host::bootstrap::{Answer, Command, Member, Parent, Request};
use ferrywire_host::cores;

use super::super::input::NO_INPUT;
use super::super::plan::{Part, Spawned};
use super::super::report::Told;
use super::super::start::{Rank, Start, Who};
use super::super::sys;
use super::{Job, Phase, number};

/// Names of ports, by the names of the services that they belong to.
pub(in super::super) type Services = BTreeMap<Vec<u8>, Vec<u8>>;

/// Ranks that have been started for a request and have not all joined.
pub(in super::super) struct Spawning {
    /// The index of the rank that asked.
    asked_by: usize,
    parent: Parent,
    /// The indices of the new ranks.
    ranks: Range<usize>,
}

impl Job {
    /// A rank asks for something, and waits for the answer.
    pub(super) fn on_request(&mut self, at: usize, request: Request) {
        let answer = match request {
            Request::Spawn { tag, commands } => match self.spawn(at, tag, &commands) {
                // It is answered when the new ranks have joined.
                Ok(()) => return,
                Err(why) => Answer::NotSpawned(why.into_bytes()),
            },
            Request::Publish { service, port } => match self.services.entry(service) {
                Entry::Occupied(_) => Answer::Published,
                Entry::Vacant(place) => {
                    place.insert(port);
                    Answer::Done
                }
            },
            Request::Unpublish { service } => match self.services.remove(&service) {
                Some(_) => Answer::Done,
                None => Answer::NoService,
            },
            Request::LookUp { service } => match self.services.get(&service) {
                Some(port) => Answer::Port(port.clone()),
                None => Answer::NoService,
            },
        };
        self.answer(at, answer);
    }

    fn answer(&self, at: usize, answer: Answer) {
        if let Some(rank_socket) = &self.ranks[at].rank_socket {
            // A rank that cannot be told is gone.
            let _ = rank_socket.answer(answer);
        }
    }

    /// Starts programs for rank `at`, or says why not.
    fn spawn(&mut self, at: usize, tag: u32, commands: &[Command]) -> Result<(), String> {
        if self.launcher.is_some() {
            return Err("programs cannot be spawned in a job on several hosts yet".into());
        }
        if !matches!(self.course.phase, Phase::Running) {
            return Err("the job is ending".into());
        }
        let first = number(self.ranks.len());
        let parts = self.parts(commands)?;
        let size = parts.iter().map(|part| part.ranks).sum();
        if size == 0 {
            return Err("there is no program to start".into());
        }
        let started = self.start(&parts, first, size)?;
        let alive = self.ranks.iter().filter(|rank| rank.ending.is_none()).count();
        let crowd = number(alive).saturating_add(size);
        let oversubscribed = cores::oversubscribed(crowd, self.cores);
        let room = match &self.segment {
            Some(segment) => segment.spawn(size, oversubscribed).map_err(|error| error.to_string()),
            None => Err("no rank has joined".into()),
        };
        if let Err(error) = room {
            end(&started);
            return Err(format!("no room for {size} more ranks: {error}"));
        }
        started.iter().for_each(|rank| self.reaper.guard(rank.pid));
        self.ranks.extend(started);
        self.worlds += 1;
        let parent = Parent { peer: self.number_of(at), tag };
        let ranks = first as usize..self.ranks.len();
        self.spawning.push(Spawning { asked_by: at, parent, ranks });
        Ok(())
    }

    /// What to start, as in the plan of a job.
    fn parts(&self, commands: &[Command]) -> Result<Vec<Part>, String> {
        let mut first: u32 = 0;
        let mut parts = Vec::new();
        for (program, command) in (0..).zip(commands) {
            let text = |bytes: &[u8]| OsStr::from_bytes(bytes).to_owned();
            let words: Vec<OsString> = command.words.iter().map(|word| text(word)).collect();
            let folder = PathBuf::from(text(&command.folder));
            let path = (!command.path.is_empty()).then(|| text(&command.path));
            let wanted = Spawned { program, words, first, ranks: command.ranks, folder, path };
            let part = Part::spawned(wanted, &self.settings).map_err(|error| error.to_string())?;
            first = first.checked_add(command.ranks).ok_or("too many ranks")?;
            parts.push(part);
        }
        Ok(parts)
    }

    /// Starts the processes. If one cannot be started, none is.
    fn start(&self, parts: &[Part], first: u32, size: u32) -> Result<Vec<Rank>, String> {
        let start = Start {
            settings: &self.settings,
            signals: &self.signals,
            shown_on: self.out.is_terminal.then(|| self.out.as_fd()),
            mark: &self.mark,
        };
        let mut started = Vec::new();
        for part in parts {
            for rank in part.first..part.first + part.ranks {
                let name = format!("{}.{rank}", self.worlds + 1);
                let who = Who { rank, size, peer: first + rank, name };
                let input = File::open(NO_INPUT).map(Stdio::from);
                match start.rank(part, &who, input) {
                    Ok(rank) => started.push(rank),
                    Err(error) => {
                        end(&started);
                        return Err(error.to_string());
                    }
                }
            }
        }
        Ok(started)
    }

    /// Admits new ranks that have all joined, and dismisses those of which one has ended before.
    pub(super) fn judge_spawned(&mut self) {
        for spawning in std::mem::take(&mut self.spawning) {
            let ranks = &self.ranks[spawning.ranks.clone()];
            let absent = ranks.iter().find(|rank| rank.hello.is_none() && rank.ending.is_some());
            if let Some(absent) = absent {
                let how = absent.ending.map_or_else(String::new, |ending| Told(ending).to_string());
                let why = format!("a program that was started {how} before it called MPI_Init");
                for rank in &mut self.ranks[spawning.ranks.clone()] {
                    rank.dismissed = true;
                    if !rank.group_gone {
                        sys::signal_group(rank.pid, libc::SIGKILL);
                    }
                }
                self.answer(spawning.asked_by, Answer::NotSpawned(why.into_bytes()));
            } else if ranks.iter().all(|rank| rank.hello.is_some()) {
                self.admit_spawned(&spawning);
            } else {
                self.spawning.push(spawning);
            }
        }
    }

    fn admit_spawned(&mut self, spawning: &Spawning) {
        let Some(segment) = &self.segment else { return };
        let world = self.number_of(spawning.ranks.start)..self.number_of(spawning.ranks.end);
        for at in spawning.ranks.clone() {
            if let Some(process) = self.ranks[at].hello {
                segment.introduce(number(at), process);
            }
        }
        for at in spawning.ranks.clone() {
            let Some(rank_socket) = &self.ranks[at].rank_socket else { continue };
            let member = Member {
                rank: self.number_of(at),
                size: world.end - world.start,
                spawned: Some((spawning.parent, vec![world.clone()])),
                job: self.number,
                oversubscribed: segment.is_oversubscribed(),
                fault_tolerant: self.fault_tolerant.is_some(),
                network: None,
            };
            // A rank that cannot be told is gone, and its end is reported.
            let _ = rank_socket.send_join_reply(member, &[segment.file().as_fd()]);
        }
        self.answer(spawning.asked_by, Answer::Spawned(vec![world]));
    }
}

/// Ends processes that are not ranks yet.
fn end(started: &[Rank]) {
    for rank in started {
        sys::signal_group(rank.pid, libc::SIGKILL);
    }
}
