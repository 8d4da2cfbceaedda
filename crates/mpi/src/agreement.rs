//! Agreement and revocation among ranks that may die.
//!
//! Each rank runs one [`Agreement`] beside its application. It knows the rank's communicators and which ranks are dead,
//! ends the operations that a death leaves hanging, spreads revocations, and agrees. It is a state machine whose input
//! and output are those of [`Service`], so the simulator runs the same one.
//!
//! # Agreement
//!
//! The leader is the lowest member that is not dead. Every member *joins* the leader with a ballot. When all live
//! members have joined, the leader combines the ballots into a decision and *proposes* it; every member keeps the
//! proposal and *accepts* it; when all live members have accepted, the leader *declares* it. If the leader dies, every
//! member joins the next one and tells it which proposal it has kept, if any; the next leader proposes that one again,
//! the latest if there are several.
//!
//! Why all members that return have the same decision, even those that die right after: let `a` be the first leader
//! that declared, and `v` its decision. All members alive at that moment had accepted and so kept `v`. A later leader
//! leads only when `a` is dead, and hears all live members, all of which have kept `v` from `a`, or from a leader after
//! `a` that by the same argument proposed `v`. So it proposes `v`. The argument rests on two things: a rank that is
//! reported dead is dead, and messages of dead ranks are ignored. The protocol ends because a rank dies for every
//! leader that does not finish.
//!
//! A rank that has its decision may go on. Its [`Agreement`] still answers members that missed the declaration, and
//! when a leader dies it tells the next one.
//!
//! # Revoking
//!
//! A rank that hears of a revocation for the first time tells all other members before anything else. So if one live
//! member has heard of it, all live members will. The number of a revoked communicator is not used again: see
//! `Claim::retire`.

mod message;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use ferrywire_nic::{Action, Departure, Fault, MODULE_GROUP, Mask, MatchWord, Peer, Service};

use crate::comm::group_ids;
use crate::group::{Group, RankMap};
use message::{Message, Say};

/// State of a communicator, shared by its calls and the agreement: revoked or not, and which members are dead.
#[derive(Debug)]
pub struct CommState {
    /// Ranks that messages can go to: all, or zero when revoked. Every send compares with it anyway.
    reach: AtomicU32,
    lost: Mutex<Losses>,
}

#[derive(Debug, Default)]
struct Losses {
    /// Dead members, in the order in which we heard of them.
    peers: Vec<Peer>,
    /// How many of them the user has acknowledged.
    acknowledged: usize,
}

impl CommState {
    /// State of a new communicator with `reach` ranks to send to.
    pub fn new(reach: u32) -> CommState {
        CommState { reach: AtomicU32::new(reach), lost: Mutex::new(Losses::default()) }
    }

    /// Ranks below this can be sent to.
    #[inline(always)]
    pub fn reach(&self) -> u32 {
        self.reach.load(Ordering::Relaxed)
    }

    /// Whether the communicator is revoked.
    pub fn is_revoked(&self) -> bool {
        self.reach() == 0
    }

    /// Dead members, in the order in which we heard of them.
    pub fn lost(&self) -> Vec<Peer> {
        self.losses().peers.clone()
    }

    /// Acknowledges the first `count` dead members. Returns how many are acknowledged, and whether that is all.
    fn acknowledge(&self, count: usize) -> (usize, bool) {
        let mut losses = self.losses();
        losses.acknowledged = losses.acknowledged.max(count.min(losses.peers.len()));
        (losses.acknowledged, losses.acknowledged == losses.peers.len())
    }

    /// Dead members that the user has acknowledged.
    pub fn acknowledged(&self) -> Vec<Peer> {
        let losses = self.losses();
        losses.peers[..losses.acknowledged].to_vec()
    }

    fn lose(&self, peer: Peer) {
        self.losses().peers.push(peer);
    }

    fn revoke(&self) -> bool {
        self.reach.swap(0, Ordering::Relaxed) != 0
    }

    fn losses(&self) -> MutexGuard<'_, Losses> {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a member contributes to an agreement.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
struct Ballot {
    /// Combined by bitwise AND.
    words: Vec<u64>,
    /// Members that it knows to be dead, as ranks, in order.
    failed: Vec<u32>,
    /// Those of them that its user has acknowledged.
    acknowledged: Vec<u32>,
}

/// The outcome of an agreement.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Decision {
    /// The words of all ballots, combined by bitwise AND.
    pub words: Vec<u64>,
    /// Dead members, as ranks of the communicator, in order: all that died before the last member joined, and perhaps
    /// more.
    pub failed: Vec<u32>,
    /// Whether some participant's user has not acknowledged one of them.
    pub is_news: bool,
}

/// Where the decision will appear.
pub type Promise = Arc<OnceLock<Decision>>;

/// Names a communicator: a number may be used by several communicators in turn, and by different ones in different
/// ranks.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
struct Key {
    number: u16,
    /// Hash of all members.
    stamp: u64,
}

/// A communicator of this rank.
#[derive(Debug)]
struct KnownComm {
    key: Key,
    group: Group,
    state: Arc<CommState>,
}

/// The agreements of a communicator, one after the other. A session outlives its communicator: a member may have missed
/// the last declaration.
#[derive(Debug, Default)]
struct Session {
    group: Option<Group>,
    /// The next agreement that our user will take part in.
    next: u32,
    rounds: BTreeMap<u32, Round>,
    /// The last agreement that is over here. Every participant of the next one has this decision.
    last: Option<(u32, Decision)>,
}

/// One agreement.
#[derive(Debug, Default)]
struct Round {
    /// Our ballot, once our user has joined.
    mine: Option<(Ballot, Promise)>,
    /// The leader that we have joined.
    joined: Option<u32>,
    /// The latest proposal that we have heard, and the leader that made it.
    kept: Option<(u32, Decision)>,
    /// Ballots of the members that have joined us, with the proposals that they had kept.
    ballots: BTreeMap<u32, (Ballot, Option<(u32, Decision)>)>,
    /// What we propose as the leader, and which members have accepted it.
    proposed: Option<Decision>,
    accepted: BTreeSet<u32>,
}

/// The agreement service of a rank.
#[derive(Debug)]
pub struct Agreement {
    me: Peer,
    /// Ranks that take no further part in anything: those that died and those that left.
    dead: BTreeSet<Peer>,
    /// Those of them that left in order.
    left: BTreeSet<Peer>,
    comms: BTreeMap<u16, KnownComm>,
    sessions: HashMap<Key, Session>,
    /// Messages about communicators that we have not created yet.
    early: Vec<(Peer, Message)>,
    /// Communicators that we know to be revoked; they may be freed by now.
    revoked: BTreeSet<Key>,
    actions: Vec<Action>,
}

impl Agreement {
    /// The agreement service of a rank that has no communicators yet.
    pub fn new(me: Peer) -> Agreement {
        Agreement {
            me,
            dead: BTreeSet::new(),
            left: BTreeSet::new(),
            comms: BTreeMap::new(),
            sessions: HashMap::new(),
            early: Vec::new(),
            revoked: BTreeSet::new(),
            actions: Vec::new(),
        }
    }

    /// The match word of a message between agreement services, sent by `from`.
    pub fn word(from: Peer) -> MatchWord {
        MatchWord::new(GROUP, from.0, 0)
    }

    /// Match word and mask of a receive for agreement messages.
    pub fn wanted() -> (MatchWord, Mask) {
        (MatchWord::new(GROUP, 0, 0), Mask::ANY_SOURCE)
    }

    /// The longest agreement message among `size` ranks.
    pub fn message_bytes_max(size: u32) -> usize {
        message::bytes_max(size)
    }

    /// Registers a new communicator.
    pub fn on_made(&mut self, number: u16, group: &Group, state: &Arc<CommState>) {
        let key = Key { number, stamp: stamp_of(group) };
        for &peer in self.dead.difference(&self.left).filter(|&&peer| group.rank_of(peer).is_some())
        {
            state.lose(peer);
            let fault = Fault::PeerDown(peer);
            self.actions.extend(group_ids(number).map(|group| Action::EndShared { group, fault }));
        }
        let comm = KnownComm { key, group: group.clone(), state: Arc::clone(state) };
        self.comms.insert(number, comm);
        self.sessions.entry(key).or_default().group = Some(group.clone());
        let (now, early) = std::mem::take(&mut self.early)
            .into_iter()
            .partition::<Vec<_>, _>(|(_, message)| message.key == key);
        self.early = early;
        for (from, message) in now {
            self.hear(from, message);
        }
    }

    /// Forgets a freed communicator.
    pub fn on_freed(&mut self, number: u16) {
        self.comms.remove(&number);
        self.actions.extend(group_ids(number).map(|group| Action::Forget { group }));
    }

    /// Acknowledges the first `count` deaths in a communicator, or all if there are fewer, and returns how many are
    /// acknowledged. When all are, receives from any source are possible again.
    pub fn acknowledge(&mut self, number: u16, count: usize) -> usize {
        let Some(comm) = self.comms.get(&number) else { return 0 };
        let (known, is_all) = comm.state.acknowledge(count);
        if is_all {
            // Only the user's group ids: collective operations of the library stay impossible.
            let users = group_ids(number).filter(|&group| group & !MODULE_GROUP == 2 * number);
            self.actions.extend(users.map(|group| Action::Mend { group }));
        }
        known
    }

    /// Revokes a communicator: ends its operations here and tells all other members.
    pub fn revoke(&mut self, number: u16) {
        let Some(KnownComm { key, group, state }) = self.comms.get(&number) else { return };
        if !state.revoke() {
            return;
        }
        self.revoked.insert(*key);
        let message = Message { key: *key, sequence: 0, say: Say::Revoked };
        let others = group.members().filter(|&peer| peer != self.me && !self.dead.contains(&peer));
        self.actions.extend(others.map(|to| Action::Send { to, bytes: message.emit() }));
        for group in group_ids(number) {
            self.actions.push(Action::EndGroup { group, fault: Fault::Revoked });
        }
    }

    /// Takes part in the next agreement of a registered communicator. All members do, in the same order.
    pub fn agree(&mut self, number: u16, words: Vec<u64>) -> Promise {
        let comm = self.comms.get(&number).expect("who agrees has a communicator");
        let (key, group) = (comm.key, &comm.group);
        let ranks = |peers: Vec<Peer>| {
            let mut ranks: Vec<u32> =
                peers.into_iter().filter_map(|peer| group.rank_of(peer)).collect();
            ranks.sort_unstable();
            ranks
        };
        let failed = ranks(comm.state.lost());
        let acknowledged = ranks(comm.state.acknowledged());
        let promise = Promise::default();
        let session = self.sessions.get_mut(&key).expect("it came with the communicator");
        let sequence = session.next;
        session.next += 1;
        let mine = (Ballot { words, failed, acknowledged }, Arc::clone(&promise));
        session.rounds.entry(sequence).or_default().mine = Some(mine);
        self.go_on(key, sequence);
        promise
    }

    fn hear(&mut self, from: Peer, message: Message) {
        let Message { key, sequence, say } = message;
        if say == Say::Revoked {
            if self.comms.get(&key.number).is_some_and(|comm| comm.key == key) {
                self.revoke(key.number);
            } else if !self.revoked.contains(&key) {
                self.early.push((from, Message { key, sequence, say }));
            }
            return;
        }
        let session = self.sessions.entry(key).or_default();
        let Some(group) = &session.group else {
            self.early.push((from, Message { key, sequence, say }));
            return;
        };
        let Some(rank) = group.rank_of(from) else { return };
        if let Some((last, decision)) = session.last.as_ref().filter(|(last, _)| *last >= sequence)
        {
            // The sender missed the declaration of a leader that died. No live member can have missed an earlier one.
            if *last == sequence && matches!(say, Say::Joined { .. }) {
                let say = Say::Declared(decision.clone());
                self.say(from, key, sequence, say);
            }
            return;
        }
        let round = session.rounds.entry(sequence).or_default();
        match say {
            Say::Joined { ballot, kept } => {
                round.ballots.insert(rank, (ballot, kept));
            }
            Say::Proposed(decision) => {
                round.kept = Some((rank, decision));
                self.say(from, key, sequence, Say::Accepted);
            }
            Say::Accepted => {
                round.accepted.insert(rank);
            }
            Say::Declared(decision) => return self.end(key, sequence, decision),
            Say::Revoked => unreachable!("answered above"),
        }
        self.go_on(key, sequence);
    }

    /// Takes the steps of an agreement that are possible now.
    fn go_on(&mut self, key: Key, sequence: u32) {
        let Some(session) = self.sessions.get_mut(&key) else { return };
        let (Some(group), Some(round)) = (&session.group, session.rounds.get_mut(&sequence)) else {
            return;
        };
        let Some((ballot, _)) = &round.mine else { return };
        let alive: Vec<(u32, Peer)> =
            (0..).zip(group.members()).filter(|(_, peer)| !self.dead.contains(peer)).collect();
        let me = group.rank_of(self.me).expect("we are a member");
        let Some(&(leader, at)) = alive.first() else { return };
        if leader != me {
            if round.joined != Some(leader) {
                round.joined = Some(leader);
                let say = Say::Joined { ballot: ballot.clone(), kept: round.kept.clone() };
                self.say(at, key, sequence, say);
            }
            return;
        }
        let others: Vec<(u32, Peer)> = alive.into_iter().filter(|&(rank, _)| rank != me).collect();
        if round.proposed.is_none() {
            if !others.iter().all(|(rank, _)| round.ballots.contains_key(rank)) {
                return;
            }
            let kept = round.ballots.values().filter_map(|(_, kept)| kept.as_ref());
            let latest = kept.chain(round.kept.as_ref()).max_by_key(|(leader, _)| *leader);
            let decision = match latest {
                Some((_, decision)) => decision.clone(),
                None => {
                    let dead = self.dead.iter().filter_map(|&peer| group.rank_of(peer));
                    let ballots = round.ballots.values().map(|(ballot, _)| ballot);
                    combined(ballots.chain([ballot]), dead)
                }
            };
            round.kept = Some((me, decision.clone()));
            round.proposed = Some(decision.clone());
            for &(_, to) in &others {
                self.say(to, key, sequence, Say::Proposed(decision.clone()));
            }
        }
        let round = &self.sessions[&key].rounds[&sequence];
        if others.iter().all(|(rank, _)| round.accepted.contains(rank)) {
            let decision = round.proposed.clone().expect("it is above");
            for (_, to) in others {
                self.say(to, key, sequence, Say::Declared(decision.clone()));
            }
            self.end(key, sequence, decision);
        }
    }

    /// Ends an agreement here with its decision.
    fn end(&mut self, key: Key, sequence: u32, decision: Decision) {
        let Some(session) = self.sessions.get_mut(&key) else { return };
        session.last = Some((sequence, decision.clone()));
        let Some(round) = session.rounds.remove(&sequence) else { return };
        if let Some((_, promise)) = &round.mine {
            let _ = promise.set(decision.clone());
        }
        // We lead, and got the decision from a member that had it before its leader died: those that joined us lack it.
        if let (None, Some(group)) = (&round.proposed, &session.group) {
            let joined: Vec<Peer> = round.ballots.keys().map(|&rank| group.peer_of(rank)).collect();
            for to in joined {
                self.say(to, key, sequence, Say::Declared(decision.clone()));
            }
        }
    }

    /// Ends the operations that a death leaves hanging.
    fn lose(&mut self, peer: Peer) {
        for (&number, comm) in &self.comms {
            if comm.group.rank_of(peer).is_some() {
                comm.state.lose(peer);
                let fault = Fault::PeerDown(peer);
                self.actions
                    .extend(group_ids(number).map(|group| Action::EndShared { group, fault }));
            }
        }
    }

    /// Tells the leader after `dead` our last decision: it may lack it, and we no longer join for it.
    fn tell_next_leader(&mut self, dead: Peer) {
        let mut news = Vec::new();
        for (&key, session) in &self.sessions {
            let (Some(group), Some((sequence, decision))) = (&session.group, &session.last) else {
                continue;
            };
            let next = group.members().find(|peer| !self.dead.contains(peer));
            let led = group.members().find(|peer| *peer == dead || !self.dead.contains(peer));
            if let Some(next) = next.filter(|&next| led == Some(dead) && next != self.me) {
                news.push((next, key, *sequence, decision.clone()));
            }
        }
        news.sort_unstable_by_key(|&(_, key, sequence, _)| (key, sequence));
        for (next, key, sequence, decision) in news {
            self.say(next, key, sequence, Say::Declared(decision));
        }
    }

    fn say(&mut self, to: Peer, key: Key, sequence: u32, say: Say) {
        let bytes = Message { key, sequence, say }.emit();
        self.actions.push(Action::Send { to, bytes });
    }
}

impl Service for Agreement {
    fn on_message(&mut self, from: Peer, bytes: &[u8]) {
        // Ignore messages of dead ranks: others may have gone on without them.
        if self.dead.contains(&from) {
            return;
        }
        if let Some(message) = Message::parse(bytes) {
            self.hear(from, message);
        }
    }

    fn on_gone(&mut self, peer: Peer, how: Departure) {
        if !self.dead.insert(peer) {
            return;
        }
        match how {
            // It has done its part in everything that others still run; the NIC fails what waits for more from it.
            Departure::Left => _ = self.left.insert(peer),
            Departure::Died => self.lose(peer),
        }
        self.tell_next_leader(peer);
        let mut open: Vec<(Key, u32)> = self
            .sessions
            .iter()
            .flat_map(|(&key, session)| session.rounds.keys().map(move |&round| (key, round)))
            .collect();
        open.sort_unstable();
        for (key, sequence) in open {
            self.go_on(key, sequence);
        }
    }

    fn take_actions(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.actions)
    }
}

/// Combines ballots into a decision, given the ranks known to be dead.
fn combined<'a>(
    ballots: impl Iterator<Item = &'a Ballot>,
    dead: impl Iterator<Item = u32>,
) -> Decision {
    let mut words: Option<Vec<u64>> = None;
    let mut failed: BTreeSet<u32> = dead.collect();
    let mut acknowledged: Option<BTreeSet<u32>> = None;
    for ballot in ballots {
        match &mut words {
            None => words = Some(ballot.words.clone()),
            Some(words) => words.iter_mut().zip(&ballot.words).for_each(|(all, one)| *all &= one),
        }
        failed.extend(&ballot.failed);
        let theirs: BTreeSet<u32> = ballot.acknowledged.iter().copied().collect();
        acknowledged = Some(match acknowledged {
            None => theirs,
            Some(ours) => ours.intersection(&theirs).copied().collect(),
        });
    }
    let acknowledged = acknowledged.unwrap_or_default();
    let is_news = failed.iter().any(|rank| !acknowledged.contains(rank));
    Decision { words: words.unwrap_or_default(), failed: failed.into_iter().collect(), is_news }
}

/// A hash of the members that differs between groups.
fn stamp_of(group: &Group) -> u64 {
    let mix = |hash: u64, value: u64| (hash ^ value).wrapping_mul(0x0100_0000_01b3);
    match group.map() {
        RankMap::Strided { first, stride } => {
            [u64::from(group.size()), u64::from(*first), i64::from(*stride).cast_unsigned()]
                .into_iter()
                .fold(1, mix)
        }
        RankMap::Table(_) => group.members().fold(2, |hash, peer| mix(hash, u64::from(peer.0))),
    }
}

/// The group id of messages between agreement services: beyond those of all communicators.
const GROUP: u16 = 0x2000;

const _: () = assert!(GROUP as usize >= 2 * crate::numbers::COMMS_MAX);
