//! The daemon's side of its channel to the launcher: it obeys orders, and sends news.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd, BorrowedFd};

use ferrywire_host::bootstrap::Answer;
use ferrywire_host::trace::RecordingClock;
use ferrywire_host::{Here, cores, monotonic_ns};

use super::super::far;
use super::super::report::{Failure, RankEnding};
use super::super::sys::Ending;
use super::super::wire::{self, Broken, FailureNews, FrameKind, Frames, HostRecord, News, Order};
use super::{Job, Others};
use crate::trace::RecordingFolder;

/// The launcher, as a daemon sees it.
pub(in super::super) struct Launcher {
    pub(in super::super) orders: Frames,
    pub(in super::super) news: File,
}

impl Launcher {
    /// Sends news. Errors are ignored: if the launcher is gone, the orders end, too.
    pub(super) fn tell(&self, news: &News) {
        let _ = wire::say(&self.news, news);
    }

    /// Sends a frame. Errors are ignored, too.
    pub(super) fn send(&self, frame: &[u8]) {
        let _ = (&self.news).write_all(frame);
    }

    /// Sends what the ranks have recorded, in bounded pieces.
    pub(super) fn send_recordings(&self, folder: &RecordingFolder) -> io::Result<()> {
        for (rank, recording) in folder.recordings() {
            let recording = match recording {
                Ok(recording) => recording,
                Err(error) => {
                    wire::say(&self.news, &News::NoRecording { rank, why: error.to_string() })?;
                    continue;
                }
            };
            let RecordingClock { ns: clock_ns, time: clock_time } = recording.clock;
            let bytes = recording.bytes;
            wire::say(&self.news, &News::Recording { rank, bytes, clock_ns, clock_time })?;
            // What cannot be read is missed by the launcher.
            for piece in recording.pieces().map_while(Result::ok) {
                (&self.news).write_all(&wire::framed(FrameKind::Trace, &piece))?;
            }
        }
        wire::say(&self.news, &News::AllSent)
    }

    /// The orders that have arrived, and why there will be no more, if so.
    fn heard(&mut self) -> (Vec<Order>, Option<Broken>) {
        let mut orders = Vec::new();
        if let Err(broken) = self.orders.poll() {
            return (orders, Some(broken));
        }
        loop {
            let order = match self.orders.next() {
                Ok(Some((FrameKind::Words, bytes))) => wire::understood(&bytes),
                Ok(Some(_)) => continue,
                Ok(None) => return (orders, None),
                Err(broken) => Err(broken),
            };
            match order {
                Ok(order) => orders.push(order),
                Err(broken) => return (orders, Some(broken)),
            }
        }
    }

    pub(super) fn tell_done(&self, endings: Vec<RankEnding>) {
        self.tell(&News::Done { endings });
    }
}

impl AsFd for Launcher {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.orders.as_fd()
    }
}

impl Job {
    /// Obeys the orders that have arrived. Kills all ranks if the channel is broken.
    pub(super) fn on_launcher(&mut self) {
        let Some(launcher) = &mut self.launcher else { return };
        let (orders, broken) = launcher.heard();
        orders.into_iter().for_each(|order| self.obey(order));
        if broken.is_some() {
            // Without a launcher the job cannot go on.
            self.launcher = None;
            self.course.failure.get_or_insert(Failure::NoHead);
            self.kill();
        }
    }

    fn obey(&mut self, order: Order) {
        match order {
            // The one assignment has been carried out.
            Order::Start(_) => {}
            Order::Go { hosts, frame_bytes_max, provider } => {
                match far::directory(&hosts, frame_bytes_max) {
                    Ok(directory) => {
                        let machine = cores::machine();
                        let of_ours =
                            |record: &&HostRecord| machine.is_some() && record.machine == machine;
                        let neighbours =
                            hosts.iter().filter(of_ours).map(|record| record.ranks).sum();
                        if let Some((host, _)) =
                            self.ranks.first().and_then(|rank| directory.place(rank.peer))
                        {
                            let (first, ranks) = directory.ranks(host);
                            self.here = Here::new(first, ranks, self.size, host);
                        }
                        self.admit(Some(Others { directory, provider, neighbours }));
                    }
                    Err(error) => self.fail(Failure::NoSegment { size: self.size, error }),
                }
            }
            Order::All { world } => {
                let ranks = self.ranks.iter().filter(|rank| rank.name.world() == world);
                let sockets = ranks.filter_map(|rank| rank.rank_socket.as_ref());
                // A rank that cannot be told is gone.
                sockets.for_each(|place| drop(place.tell_all()));
            }
            Order::Answer { rank, answer } => {
                // Launcher and daemon are the same program.
                let answer = Answer::from_bytes(&answer).unwrap_or(Answer::NoService);
                self.answer(rank, answer);
            }
            Order::Spawn(order) => {
                let world = order.world;
                if let (Err(why), Some(launcher)) = (self.spawn(order), &self.launcher) {
                    launcher.tell(&News::NotSpawned { world, why });
                }
            }
            Order::Admit { world, peers } => self.admit_spawned(world, &peers),
            Order::Dismiss { world } => drop(self.dismiss(world)),
            Order::Left(rank) => self.on_left(rank),
            Order::Signal(signal) => self.pass_on(signal),
            Order::End => self.end(),
            Order::Gone(ranks) => self.on_gone(&ranks),
            Order::Kill(rank) => self.on_silent(rank),
            Order::Ping { sent_ns } => {
                let received_ns = monotonic_ns();
                if let Some(launcher) = &self.launcher {
                    let answered_ns = monotonic_ns();
                    launcher.tell(&News::Pong { sent_ns, received_ns, answered_ns });
                }
            }
            Order::SendRecordings => self.course.recordings_wanted = true,
            Order::Facts(order) => self.on_facts_order(order),
            Order::Hold { out, err } => (self.out.held, self.err.held) = (out, err),
            Order::Unread => self.out.give_up(),
            Order::Feed(piece) => {
                self.input.feed(&piece);
                self.tell_if_hungry();
            }
            Order::FeedEnd => self.input.close(),
        }
    }

    /// All ranks of this host have joined. Admits them if this is the only host; otherwise tells the launcher.
    pub(super) fn all_are_here(&mut self) {
        match &self.launcher {
            None => self.admit(None),
            Some(launcher) if !self.course.told_joined => {
                launcher.tell(&News::Joined);
                self.course.told_joined = true;
            }
            Some(_) => {}
        }
    }

    /// A rank waits for all others of its world. When all of them on this host do, tells the launcher; if this is the
    /// only host, releases them.
    pub(super) fn all_wait(&mut self, world: u32) {
        let mut ranks = self.ranks.iter().filter(|rank| rank.name.world() == world);
        // Ranks that have died are not waited for.
        let any = ranks.clone().any(|rank| rank.waits_for_all && rank.ending.is_none());
        if !any || !ranks.all(|rank| rank.waits_for_all || rank.ending.is_some()) {
            return;
        }
        match &self.launcher {
            Some(launcher) => launcher.tell(&News::AllWait { world }),
            None => self.obey(Order::All { world }),
        }
    }

    /// A rank has left the job in order. Ranks of other worlds may run on, and must not take its silence for its death.
    pub(super) fn tell_left(&self, rank: u32) {
        if let Some(launcher) = self.launcher.as_ref().filter(|_| self.worlds > 0) {
            launcher.tell(&News::Left { rank });
        }
    }

    pub(super) fn tell_failure(&self, failure: &Failure) {
        if let Some(launcher) = &self.launcher {
            let failure = FailureNews {
                why: failure.to_string(),
                code: failure.exit_code(),
                rank: failure.rank(),
                weight: failure.weight(),
                may_be_explained: self.segment.is_some() && failure.may_be_explained(),
                ended: matches!(failure, Failure::Ended { .. }),
            };
            launcher.tell(&News::Failed { failure });
        }
    }

    /// Tells the launcher that a rank waits, or has ended without joining: ranks of other hosts may be affected.
    pub(super) fn tell_who_waits(&mut self) {
        let Some(launcher) = self.launcher.as_ref().filter(|_| !self.course.admitted) else {
            return;
        };
        let waiting = self.ranks.iter().position(|rank| rank.hello.is_some());
        if let Some(at) = waiting.filter(|_| !self.course.told_waiting) {
            launcher.tell(&News::Waiting { rank: self.number_of(at) });
            self.course.told_waiting = true;
        }
        let is_absent =
            |rank: &super::Rank| rank.ending == Some(Ending::Exit(0)) && rank.hello.is_none();
        let absent = self.ranks.iter().position(is_absent);
        if let Some(at) = absent.filter(|_| !self.course.told_absent) {
            let pid = self.ranks[at].pid;
            launcher.tell(&News::Absent { rank: self.number_of(at), pid });
            self.course.told_absent = true;
        }
    }

    pub(super) fn tell_if_hungry(&self) {
        if let Some(launcher) = self.launcher.as_ref().filter(|_| self.input.is_hungry()) {
            launcher.tell(&News::Hungry);
        }
    }
}
