//! The worlds of a job: that of the beginning, and those that ranks ask for later. The launcher decides on which hosts
//! their programs start, and tells the rank that asked when all have joined.

use std::ops::Range;

use ferrywire_host::bootstrap::{Answer, Command, Request};

use super::{Hosts, HostsPhase, RemoteStep};
use crate::run::plan::{self, Spawned};
use crate::run::wire::{Order, SpawnOrder};

/// A world.
#[derive(Default)]
pub(super) struct World {
    /// Its hosts whose ranks do not wait for each other yet, and those whose ranks do.
    busy: Vec<usize>,
    waiting: Vec<usize>,
}

impl World {
    pub(super) fn on(hosts: impl Iterator<Item = usize>) -> World {
        World { busy: hosts.collect(), waiting: Vec::new() }
    }
}

/// A world whose ranks have been started and have not all joined.
pub(super) struct Expected {
    world: u32,
    /// The rank that asked for it, and its host.
    asked_by: (usize, u32),
    /// Its hosts, and those whose ranks have not all joined.
    hosts: Vec<usize>,
    missing: Vec<usize>,
    /// The numbers of its ranks, in order.
    peers: Vec<Range<u32>>,
}

impl Hosts {
    /// A rank of the host `at` asks for something, and waits for the answer.
    pub(super) fn on_request(&mut self, at: usize, rank: u32, request: &Request) {
        let answer = match (self.services.answer(request), request) {
            (None, Request::Spawn { tag, commands }) => {
                match self.spawn((at, rank), *tag, commands) {
                    // It is answered when the new ranks have joined.
                    Ok(()) => return,
                    Err(why) => Answer::NotSpawned(why.into_bytes()),
                }
            }
            (answer, _) => answer.unwrap_or(Answer::NoService),
        };
        self.answer((at, rank), &answer);
    }

    fn answer(&mut self, (at, rank): (usize, u32), answer: &Answer) {
        self.remotes[at].order(&Order::Answer { rank, answer: answer.to_bytes() });
    }

    /// Has programs started, or says why not.
    fn spawn(
        &mut self,
        asked_by: (usize, u32),
        tag: u32,
        commands: &[Command],
    ) -> Result<(), String> {
        if !matches!(self.phase, HostsPhase::Running) {
            return Err("the job is ending".into());
        }
        let (parts, size) = plan::spawned(commands)?;
        let placed = self.placed(commands, parts)?;
        let before: Vec<u32> = self.remotes.iter().map(|remote| remote.spawned).collect();
        let mut peers = Vec::new();
        for (at, part) in &placed {
            peers.push(self.remotes[*at].take_numbers(part.ranks)?);
        }
        let spawned: Vec<(u32, u32)> =
            (0..).zip(&self.remotes).map(|(host, remote)| (host, remote.spawned)).collect();
        let world = u32::try_from(self.worlds.len()).map_err(|_| "too many worlds")?;
        for (at, before) in before.into_iter().enumerate() {
            let here = placed.iter().filter(|(host, _)| *host == at);
            let parts: Vec<Spawned> = here.map(|(_, part)| part.clone()).collect();
            let first = self.remotes[at].number_of_spawned(before);
            let parent = (asked_by.1, tag);
            let spawned = spawned.clone();
            let order = SpawnOrder { world, parent, size, first, spawned, parts };
            self.remotes[at].order(&Order::Spawn(order));
        }
        let mut hosts: Vec<usize> = placed.iter().map(|(at, _)| *at).collect();
        hosts.sort_unstable();
        hosts.dedup();
        self.worlds.push(World::on(hosts.iter().copied()));
        let missing = hosts.clone();
        self.expected.push(Expected { world, asked_by, hosts, missing, peers });
        Ok(())
    }

    /// The programs, with the hosts on which they start: each rank where fewest run, and those of a program on a host
    /// one after the other.
    fn placed(
        &self,
        commands: &[Command],
        parts: Vec<Spawned>,
    ) -> Result<Vec<(usize, Spawned)>, String> {
        let mut loads: Vec<u32> = self.remotes.iter().map(super::Remote::load).collect();
        let mut placed = Vec::new();
        for (command, part) in commands.iter().zip(parts) {
            let fit = self.named(&command.host)?;
            let mut counts = vec![0; loads.len()];
            for _ in 0..part.ranks {
                let freest = fit.iter().copied().min_by_key(|&at| loads[at]);
                let at = freest.ok_or("all hosts have ended")?;
                counts[at] += 1;
                loads[at] += 1;
            }
            let mut first = part.first;
            for (at, ranks) in counts.into_iter().enumerate().filter(|&(_, ranks)| ranks > 0) {
                placed.push((at, Spawned { first, ranks, ..part.clone() }));
                first += ranks;
            }
        }
        Ok(placed)
    }

    /// The hosts that a rank names, with commas between them; all if it names none.
    fn named(&self, names: &[u8]) -> Result<Vec<usize>, String> {
        let runs = |at: &usize| self.remotes[*at].step == RemoteStep::Joined;
        let all = || 0..self.remotes.len();
        if names.is_empty() {
            return Ok(all().filter(runs).collect());
        }
        let names = String::from_utf8_lossy(names);
        let find = |name: &str| {
            all().filter(runs).find(|&at| self.remotes[at].name() == name).ok_or_else(|| {
                let hosts: Vec<&str> = all().map(|at| self.remotes[at].name()).collect();
                format!("this job is not on the host {name}; its hosts are {}", hosts.join(", "))
            })
        };
        names.split(',').map(|name| find(name.trim())).collect()
    }

    /// The ranks of a new world have joined on a host. When they have on all, they are admitted.
    pub(super) fn on_spawned(&mut self, on: usize, world: u32) {
        let Some(at) = self.expected.iter().position(|one| one.world == world) else { return };
        self.expected[at].missing.retain(|&host| host != on);
        if !self.expected[at].missing.is_empty() {
            return;
        }
        let Expected { asked_by, hosts, peers, .. } = self.expected.remove(at);
        for host in hosts {
            self.remotes[host].order(&Order::Admit { world, peers: peers.clone() });
        }
        self.answer(asked_by, &Answer::Spawned(peers));
    }

    /// A new world will not come to be.
    pub(super) fn on_not_spawned(&mut self, world: u32, why: &str) {
        let Some(at) = self.expected.iter().position(|one| one.world == world) else { return };
        let Expected { asked_by, hosts, .. } = self.expected.remove(at);
        for host in hosts {
            self.remotes[host].order(&Order::Dismiss { world });
        }
        self.answer(asked_by, &Answer::NotSpawned(why.as_bytes().to_vec()));
    }

    /// A host is over: nothing more is started there.
    pub(super) fn on_over(&mut self, at: usize) {
        let lost = self.expected.iter().filter(|one| one.missing.contains(&at));
        let lost: Vec<u32> = lost.map(|one| one.world).collect();
        let why = format!("the host {} has ended", self.remotes[at].name());
        lost.into_iter().for_each(|world| self.on_not_spawned(world, &why));
        self.judge_waiting();
    }

    /// The ranks of a world on a host wait for those on the others.
    pub(super) fn on_all_wait(&mut self, at: usize, world: u32) {
        if let Some(world) = self.worlds.get_mut(world as usize) {
            world.busy.retain(|&host| host != at);
            world.waiting.push(at);
        }
        self.judge_waiting();
    }

    /// Releases the ranks of a world when those on all its remaining hosts wait for each other.
    fn judge_waiting(&mut self) {
        for number in 0..self.worlds.len() {
            let World { busy, waiting } = &self.worlds[number];
            let over =
                |&at: &usize| self.fault_tolerant && self.remotes[at].step == RemoteStep::Over;
            if !waiting.is_empty() && busy.iter().all(over) {
                let world = u32::try_from(number).unwrap_or(u32::MAX);
                for at in std::mem::take(&mut self.worlds[number].waiting) {
                    self.remotes[at].order(&Order::All { world });
                }
            }
        }
    }
}
