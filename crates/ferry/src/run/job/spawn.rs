//! What ranks ask for while the job runs: programs that are started later, and names of ports.
//!
//! In a job on several hosts, the launcher decides where programs start, and knows the names; here its orders are
//! carried out. Otherwise this process is the launcher.

use std::fs::File;
use std::ops::Range;
use std::os::fd::AsFd;
use std::process::Stdio;

use ferrywire_host::bootstrap::{Answer, Command, Parent, Request};
use ferrywire_host::nic::Peer;
use ferrywire_host::{Segment, cores};

use super::super::host_list;
use super::super::input::NO_INPUT;
use super::super::plan::{self, Part};
use super::super::report::{RankName, Told};
use super::super::start::{Rank, Start, Who};
use super::super::sys;
use super::super::wire::{News, SpawnOrder};
use super::{Job, Phase, number};

/// Ranks of a new world that have been started here and have not been admitted.
pub(in super::super) struct Spawning {
    world: u32,
    /// The rank that asked for it, and the tag under which it waits for the first of them.
    parent: Parent,
    /// The number of ranks in the world, on all hosts.
    size: u32,
    /// The indices of the ranks here.
    ranks: Range<usize>,
    /// The launcher knows that they have joined.
    told: bool,
}

impl Job {
    /// A rank asks for something, and waits for the answer.
    pub(super) fn on_request(&mut self, at: usize, request: &Request) {
        let rank = self.ranks[at].peer;
        if let Some(launcher) = &self.launcher {
            return launcher.tell(&News::Request { rank, request: request.to_bytes() });
        }
        let answer = match (self.services.answer(request), request) {
            (None, Request::Spawn { tag, commands }) => {
                match self.spawn_here(Parent { peer: rank, tag: *tag }, commands) {
                    // It is answered when the new ranks have joined.
                    Ok(()) => return,
                    Err(why) => Answer::NotSpawned(why.into_bytes()),
                }
            }
            (answer, _) => answer.unwrap_or(Answer::NoService),
        };
        self.answer(rank, answer);
    }

    pub(super) fn answer(&self, rank: u32, answer: Answer) {
        let asked = self.ranks.iter().find(|one| one.peer == rank);
        if let Some(rank_socket) = asked.and_then(|rank| rank.rank_socket.as_ref()) {
            // A rank that cannot be told is gone.
            let _ = rank_socket.answer(answer);
        }
    }

    /// Starts programs in a job on this host only, or says why not.
    fn spawn_here(&mut self, parent: Parent, commands: &[Command]) -> Result<(), String> {
        let elsewhere = commands.iter().find(|command| !host_list::names_this_host(&command.host));
        if let Some(Command { host, .. }) = elsewhere {
            let host = String::from_utf8_lossy(host);
            return Err(format!("this job is not on the host {host}: start it with --hosts"));
        }
        let (parts, size) = plan::spawned(commands)?;
        let first = self.segment.as_ref().map_or(self.size, Segment::ranks_so_far);
        let parent = (parent.peer, parent.tag);
        let world = self.worlds + 1;
        self.spawn(SpawnOrder { world, parent, size, first, spawned: Vec::new(), parts })
    }

    /// Starts the ranks of a new world that are for this host, or says why not.
    pub(super) fn spawn(&mut self, order: SpawnOrder) -> Result<(), String> {
        let SpawnOrder { world, parent: (peer, tag), size, first, spawned, parts } = order;
        self.worlds = world;
        if let Some(others) = &self.others {
            spawned.iter().for_each(|&(host, count)| others.directory.note_spawned(host, count));
        }
        if parts.is_empty() {
            return Ok(());
        }
        if !matches!(self.course.phase, Phase::Running) {
            return Err("the job is ending".into());
        }
        let parts = parts.into_iter().map(|part| Part::spawned(part, &self.settings));
        let parts: Vec<Part> =
            parts.collect::<Result<_, _>>().map_err(|error| error.to_string())?;
        let ranks = parts.iter().map(|part| part.ranks).sum();
        self.make_room(first, ranks).map_err(|why| format!("no room for {ranks} ranks: {why}"))?;
        let started = self.start(&parts, (world, size), first)?;
        started.iter().for_each(|rank| self.reaper.guard(rank.pid));
        let ranks = self.ranks.len()..self.ranks.len() + started.len();
        self.ranks.extend(started);
        let parent = Parent { peer, tag };
        self.spawning.push(Spawning { world, parent, size, ranks, told: false });
        Ok(())
    }

    /// Makes room for new ranks in the segment, and opens their sockets.
    fn make_room(&mut self, first: u32, ranks: u32) -> Result<(), String> {
        let alive = self.ranks.iter().filter(|rank| rank.ending.is_none()).count();
        let neighbours = self.others.as_ref().map_or(0, |others| others.neighbours);
        let crowd = number(alive).max(neighbours).saturating_add(ranks);
        let oversubscribed = cores::oversubscribed(crowd, self.cores);
        let segment = self.segment.as_ref().ok_or("no rank has joined")?;
        let first = self.here.local_rank(Peer(first)).ok_or("all numbers are taken")?.0;
        let end = first.saturating_add(ranks);
        segment.grow_to(end, oversubscribed).map_err(|error| error.to_string())?;
        if let Some(far) = &mut self.far {
            let end = u16::try_from(end).map_err(|_| "all numbers are taken")?;
            far.host_address.group.grow_to(end).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// Starts the processes. If one cannot be started, none is.
    fn start(
        &self,
        parts: &[Part],
        (world, size): (u32, u32),
        first: u32,
    ) -> Result<Vec<Rank>, String> {
        let start = Start {
            settings: &self.settings,
            signals: &self.signals,
            shown_on: self.out.is_terminal.then(|| self.out.as_fd()),
            mark: &self.mark,
        };
        let mut started = Vec::new();
        for part in parts {
            for rank in part.first..part.first + part.ranks {
                let peer = first + number(started.len());
                let name = RankName::spawned(world, rank);
                let who = Who { rank, size, peer, name };
                let input = File::open(NO_INPUT).map(Stdio::from);
                match start.rank(part, &who, input) {
                    Ok(rank) => started.push(rank),
                    Err(error) => {
                        for rank in &started {
                            sys::signal_group(rank.pid, libc::SIGKILL);
                        }
                        return Err(error.to_string());
                    }
                }
            }
        }
        Ok(started)
    }

    /// Checks whether new ranks have all joined, or one has ended before.
    pub(super) fn judge_spawned(&mut self) {
        let mut failed = Vec::new();
        let mut joined = Vec::new();
        for spawning in &mut self.spawning {
            let ranks = &self.ranks[spawning.ranks.clone()];
            let absent = ranks.iter().find(|rank| rank.hello.is_none() && rank.ending.is_some());
            if let Some(absent) = absent {
                let how = absent.ending.map_or_else(String::new, |ending| Told(ending).to_string());
                let why = format!("a program that was started {how} before it called MPI_Init");
                failed.push((spawning.world, why));
            } else if !spawning.told && ranks.iter().all(|rank| rank.hello.is_some()) {
                spawning.told = true;
                joined.push((spawning.world, spawning.parent, spawning.ranks.clone()));
            }
        }
        for (world, why) in failed {
            let parent = self.dismiss(world);
            match (&self.launcher, parent) {
                (Some(launcher), _) => launcher.tell(&News::NotSpawned { world, why }),
                (None, Some(parent)) => {
                    self.answer(parent.peer, Answer::NotSpawned(why.into_bytes()));
                }
                (None, None) => {}
            }
        }
        for (world, parent, ranks) in joined {
            match &self.launcher {
                Some(launcher) => launcher.tell(&News::Spawned { world }),
                None => {
                    let first = self.ranks[ranks.start].peer;
                    let peers = first..first + number(ranks.len());
                    self.admit_spawned(world, std::slice::from_ref(&peers));
                    self.answer(parent.peer, Answer::Spawned(vec![peers]));
                }
            }
        }
    }

    /// Kills ranks that were started in vain. Returns who asked for them.
    pub(super) fn dismiss(&mut self, world: u32) -> Option<Parent> {
        let at = self.spawning.iter().position(|spawning| spawning.world == world)?;
        let Spawning { parent, ranks, .. } = self.spawning.remove(at);
        for rank in &mut self.ranks[ranks] {
            rank.dismissed = true;
            if !rank.group_gone {
                sys::signal_group(rank.pid, libc::SIGKILL);
            }
        }
        Some(parent)
    }

    /// All ranks of a new world have joined, on all hosts: sends those of this host their join replies.
    pub(super) fn admit_spawned(&mut self, world: u32, peers: &[Range<u32>]) {
        let at = self.spawning.iter().position(|spawning| spawning.world == world);
        let Some(spawning) = at.map(|at| self.spawning.remove(at)) else { return };
        for rank in &self.ranks[spawning.ranks.clone()] {
            self.introduce(rank);
        }
        for at in spawning.ranks {
            let spawned = Some((spawning.parent, peers.to_vec()));
            // A rank that cannot be told is gone, and its end is reported.
            let _ = self.send_join_reply(&self.ranks[at], spawning.size, spawned);
        }
    }
}
