//! The agreement: what ranks settle among themselves though some of them die.
//!
//! Each rank has one, beside its application. It knows the rank's communicators and who is dead, ends what a death
//! leaves hanging, spreads the word that a communicator is revoked, and agrees. It is a state machine: what comes in
//! and what goes out is [`Service`]'s, so that the simulator runs the same one.
//!
//! # Agreement
//!
//! Who leads is the lowest member that is not dead. Everybody *joins* its leader with a ballot. When all who live have,
//! the leader combines the ballots to a decision and *proposes* it; everybody keeps the proposal and *accepts* it; when
//! all who live have, the leader *declares* it. If the leader dies, everybody joins the next one, and says which
//! proposal it has kept, if any; the next one proposes that again, the latest if there are several.
//!
//! Why all who return have the same decision, also those who die right after. Somebody has declared `v`, at first
//! leader `a`. Then all who lived at that moment had accepted and so kept `v`. A later leader leads only when `a` is
//! dead, hears all who live, and all of them have kept `v` from `a`, or from a leader after `a`, who by the same
//! argument proposed `v`. So it proposes `v`. It rests on two things: whoever is said to be dead is dead, and nothing
//! is taken of the dead any more. It ends since somebody dies for every leader that does not finish.
//!
//! A rank that has its decision may go on. Its agreement still answers whoever missed the declaration, and when a leader
//! dies tells the next one.
//!
//! # Revoking
//!
//! Whoever hears of it for the first time tells all other comm before anything else. So if one who lives has heard
//! of it, all who live will. The number of a revoked communicator is not used again: see `Claim::retire`.

mod message;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use ferrywire_nic::{Action, Departure, Fault, MODULE_GROUP, Mask, MatchWord, Peer, Service};

use crate::comm::group_ids;
use crate::group::{Group, RankMap};
use message::{Message, Say};

/// How a communicator fares, as its calls and the agreement know it.
#[derive(Debug)]
pub struct CommState {
    /// Ranks that messages can go to: all, or none when it is revoked. What every message looks at anyway.
    reach: AtomicU32,
    lost: Mutex<Losses>,
}

#[derive(Debug, Default)]
struct Losses {
    /// KnownComm that are dead, in the order in which we heard of them.
    peers: Vec<Peer>,
    /// So many of them the user has acknowledged.
    acknowledged: usize,
}

impl CommState {
    /// One in order, with so many ranks to send to.
    pub fn new(reach: u32) -> CommState {
        CommState { reach: AtomicU32::new(reach), lost: Mutex::new(Losses::default()) }
    }

    /// Ranks below this can be sent to.
    #[inline(always)]
    pub fn reach(&self) -> u32 {
        self.reach.load(Ordering::Relaxed)
    }

    /// Whether it is revoked.
    pub fn is_revoked(&self) -> bool {
        self.reach() == 0
    }

    /// KnownComm that are dead, in the order in which we heard of them.
    pub fn lost(&self) -> Vec<Peer> {
        self.losses().peers.clone()
    }

    /// The user knows of the first `count` of them. Answers of how many it knows, and whether that is all.
    fn acknowledge(&self, count: usize) -> (usize, bool) {
        let mut losses = self.losses();
        losses.acknowledged = losses.acknowledged.max(count.min(losses.peers.len()));
        (losses.acknowledged, losses.acknowledged == losses.peers.len())
    }

    /// Those of them of whom the user knows.
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

/// What a rank brings to an agreement.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
struct Ballot {
    /// Combined bit by bit: what all have is left.
    words: Vec<u64>,
    /// KnownComm that it knows to be dead, as ranks, in order.
    failed: Vec<u32>,
    /// Those of them of whom its user knows.
    acknowledged: Vec<u32>,
}

/// What all have agreed on.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Decision {
    /// The words of all ballots, combined bit by bit.
    pub words: Vec<u64>,
    /// KnownComm that are dead, as ranks of the communicator, in order: all who have died before the last one came, and
    /// perhaps more.
    pub failed: Vec<u32>,
    /// Whether a user who took part does not know of one of them.
    pub is_news: bool,
}

/// Where the decision will be.
pub type Promise = Arc<OnceLock<Decision>>;

/// Who is meant: a number may be used by several communicators in turn, and by different ones in different ranks.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
struct Key {
    number: u16,
    /// Made of all comm.
    stamp: u64,
}

/// A communicator of this rank.
#[derive(Debug)]
struct KnownComm {
    key: Key,
    group: Group,
    state: Arc<CommState>,
}

/// The agreements of a communicator, one after the other. It outlives the communicator: somebody may have missed the
/// last one.
#[derive(Debug, Default)]
struct Session {
    group: Option<Group>,
    /// The next that our user will take part in.
    next: u32,
    rounds: BTreeMap<u32, Round>,
    /// The last one that is over here. All who take part in the next have the decision of this.
    last: Option<(u32, Decision)>,
}

/// One agreement.
#[derive(Debug, Default)]
struct Round {
    /// Ours, once our user has come.
    mine: Option<(Ballot, Promise)>,
    /// The leader that we have joined.
    joined: Option<u32>,
    /// The latest proposal that we have heard, and whose it is.
    kept: Option<(u32, Decision)>,
    /// Who has joined us, with what they had kept.
    ballots: BTreeMap<u32, (Ballot, Option<(u32, Decision)>)>,
    /// What we propose, as the leader, and who has accepted it.
    proposed: Option<Decision>,
    accepted: BTreeSet<u32>,
}

/// The agreement of a rank.
#[derive(Debug)]
pub struct Agreement {
    me: Peer,
    /// Who takes no part in anything any more: those who died, and those who left.
    dead: BTreeSet<Peer>,
    /// Those of them who left in order.
    left: BTreeSet<Peer>,
    comms: BTreeMap<u16, KnownComm>,
    sessions: HashMap<Key, Session>,
    /// What was said of communicators that we have not made yet.
    early: Vec<(Peer, Message)>,
    /// Communicators that we have heard to be revoked, and that may be freed by now.
    revoked: BTreeSet<Key>,
    actions: Vec<Action>,
}

impl Agreement {
    /// That of a rank that has no communicators yet.
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

    /// The word of a message between agreements, as `from` says it.
    pub fn word(from: Peer) -> MatchWord {
        MatchWord::new(GROUP, from.0, 0)
    }

    /// What a receive for the agreement insists on.
    pub fn wanted() -> (MatchWord, Mask) {
        (MatchWord::new(GROUP, 0, 0), Mask::ANY_SOURCE)
    }

    /// The longest message among `size` ranks.
    pub fn message_bytes_max(size: u32) -> usize {
        message::bytes_max(size)
    }

    /// There is a communicator of this number.
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

    /// It is gone.
    pub fn on_freed(&mut self, number: u16) {
        self.comms.remove(&number);
        self.actions.extend(group_ids(number).map(|group| Action::Forget { group }));
    }

    /// The user knows of the first `count` deaths in a communicator, or of all if there are fewer. Answers of how many
    /// it knows. If of all, it may receive from anybody again.
    pub fn acknowledge(&mut self, number: u16, count: usize) -> usize {
        let Some(comm) = self.comms.get(&number) else { return 0 };
        let (known, is_all) = comm.state.acknowledge(count);
        if is_all {
            // Not under the library's own: nothing can be done by all comm together any more.
            let users = group_ids(number).filter(|&group| group & !MODULE_GROUP == 2 * number);
            self.actions.extend(users.map(|group| Action::Mend { group }));
        }
        known
    }

    /// Nothing is done in a communicator any more, by anybody.
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

    /// Takes part in the next agreement of a communicator, which is there. All comm do, in the same order.
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
            // It missed the declaration of a leader that has died. Nobody who lives can have missed an earlier one.
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

    /// Does what an agreement makes possible.
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

    /// An agreement is over for us.
    fn end(&mut self, key: Key, sequence: u32, decision: Decision) {
        let Some(session) = self.sessions.get_mut(&key) else { return };
        session.last = Some((sequence, decision.clone()));
        let Some(round) = session.rounds.remove(&sequence) else { return };
        if let Some((_, promise)) = &round.mine {
            let _ = promise.set(decision.clone());
        }
        // We lead, and have it from one who had it before its leader died: those who joined us have not.
        if let (None, Some(group)) = (&round.proposed, &session.group) {
            let joined: Vec<Peer> = round.ballots.keys().map(|&rank| group.peer_of(rank)).collect();
            for to in joined {
                self.say(to, key, sequence, Say::Declared(decision.clone()));
            }
        }
    }

    /// What a death leaves hanging ends.
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

    /// A leader has died. The next one may lack a decision that we have, and we do not join for it any more.
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
        // What a rank said that is dead by now does not count: others may have gone on without it.
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
            // It has done its part in all that others are still at, and whoever waits for more of it is told by the NIC.
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

/// What ballots come to, when these ranks are dead.
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

/// A number that other comm give another value.
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

/// Under which agreements write to each other: beyond those of all communicators.
const GROUP: u16 = 0x2000;

const _: () = assert!(GROUP as usize >= 2 * crate::numbers::COMMS_MAX);
