//! What a NIC waits for, for whoever asks why a rank does not go on.

use crate::matcher::{Entry, Matcher, Queue, Work};
use crate::nic::{Nic, Variant};
use crate::op::{OpState, Owner};
use crate::types::Peer;
use crate::word::{Mask, MatchWord};

/// An operation that is not over, or a message that no receive has taken.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Pending {
    /// What it is.
    pub kind: PendingKind,
    /// The other side, if it is known.
    pub peer: Option<Peer>,
    /// The match word; for a receive, bits outside the mask are zero.
    pub word: MatchWord,
    /// The bits that a receive insists on; [`Mask::EXACT`] for a message.
    pub mask: Mask,
    /// The length of the message, or of the memory for it.
    pub bytes: u64,
}

/// What is not over.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum PendingKind {
    /// A message that its receiver has not taken.
    Send,
    /// A receive without a message.
    Receive,
    /// A send or receive that is a step of a schedule.
    Step,
    /// A message that is here, or announced, and that no receive has taken.
    Arrived,
}

impl<V: Variant> Nic<V> {
    /// Shows what is not over: messages that have arrived, the oldest first, then sends and receives.
    pub fn show_pending(&self, mut show: impl FnMut(Pending)) {
        for pair in &self.queues {
            pair.matcher.dump(Queue::Unexpected, |Entry { word, item, .. }| {
                let headers = &pair.store.headers;
                if let Some(stored) = headers.find(headers.ticket_at(item)) {
                    let (peer, bytes) = (Some(stored.from), stored.len());
                    show(Pending {
                        kind: PendingKind::Arrived,
                        peer,
                        word,
                        mask: Mask::EXACT,
                        bytes,
                    });
                }
            });
        }
        for (_, op) in self.ops.iter() {
            let (word, bytes) = match op.state {
                OpState::InLane(ref held) => (held.word, held.source.len),
                OpState::Accepted { word } | OpState::Flying { synchronous: Some(word) } => {
                    (word, 0)
                }
                OpState::Offered { word, source } => (word, source.len),
                _ => continue,
            };
            let kind = kind_of(op.owner, PendingKind::Send);
            show(Pending { kind, peer: op.peer, word, mask: Mask::EXACT, bytes });
        }
        for pair in &self.queues {
            pair.matcher.dump(Queue::Posted, |Entry { word, mask, item }| {
                let Some(op) = self.ops.find(self.ops.ticket_at(item)) else { return };
                let OpState::Posted { into, .. } = op.state else { return };
                let kind = kind_of(op.owner, PendingKind::Receive);
                show(Pending { kind, peer: op.peer, word, mask, bytes: into.len });
            });
        }
    }

    /// Shows every entry of the queues of one kind, pair by pair, the oldest first.
    pub fn show_entries(&self, queue: Queue, mut show: impl FnMut(Entry)) {
        self.queues.iter().for_each(|pair| pair.matcher.dump(queue, &mut show));
    }

    /// What the matchers have done so far in the queues of one kind, for a model of their time.
    pub fn work(&self, queue: Queue) -> Work {
        self.queues.iter().map(|pair| pair.matcher.work(queue)).fold(Work::default(), Work::and)
    }

    /// The bytes that unexpected messages take, in the queue pair that is nearest to its limit, and the limit.
    pub fn unexpected_bytes(&self) -> (u64, u64) {
        let room = |used: u32, most: u32| u64::from(most - used);
        let pairs = self.queues.iter().map(|pair| pair.store.used());
        let (used, most) = pairs.min_by_key(|&(used, most)| room(used, most)).unwrap_or((0, 0));
        (used.into(), most.into())
    }

    /// Whether others may still hear of frames of this NIC: they wait for room, or are sent and not acknowledged. On a
    /// reliable rail to another host, the answer to a question for a sign of life acknowledges all that was sent before.
    pub fn has_frames_under_way(&self) -> bool {
        self.peers.iter().any(|state| {
            let owes = state.silence.as_ref().is_some_and(|silence| silence.owes());
            state.unacked() > 0 || state.backlog.is_some() || owes
        })
    }

    /// Counts the frames that were sent or received and are neither signs of life nor repeated: it changes whenever
    /// something happens between this NIC and others.
    pub fn frames_of_note(&self) -> u64 {
        let stats = &self.stats;
        let all = stats.frames_sent + stats.frames_received;
        all.wrapping_sub(stats.signs + stats.retries + stats.repeats)
    }
}

fn kind_of(owner: Owner, kind: PendingKind) -> PendingKind {
    match owner {
        Owner::Step(_) => PendingKind::Step,
        _ => kind,
    }
}
