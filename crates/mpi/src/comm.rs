//! Communicators: who takes part, and the words under which they write to each other.
//!
//! A communicator takes two group ids of the NIC: messages of the user's travel under the first, what
//! the library does in its name under the second. So the two never meet. Two more are for what only some of its ranks
//! do together, which they tell apart by a tag: in a group of their own, and two by two.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};

use ferrywire_nic::{MODULE_GROUP, Mask, MatchWord, Peer, Placement};

use crate::agreement::CommState;
use crate::collective::{Locality, Member, Naming};
use crate::group::Group;
use crate::numbers::COMMS_MAX;

/// The largest tag that a user may choose.
pub const TAG_MAX: u32 = MatchWord::TAG_MAX;

/// Who takes part in a communicator, as one of them sees it.
#[derive(Debug)]
pub struct Comm {
    group: Group,
    rank: u32,
    number: u16,
    /// The group id of messages of the user's.
    messages: u16,
    /// The number of the next collective.
    instance: AtomicU16,
    /// The same of persistent ones.
    persistent: AtomicU16,
    /// Whether a collective was left out here: see [`Comm::leave_out`].
    left_out: AtomicBool,
    inter: Option<Inter>,
    /// What the agreement says of it.
    state: Arc<CommState>,
}

/// The other side of a communicator between two groups.
#[derive(Debug)]
pub struct Inter {
    /// Those whom messages go to.
    pub remote: Group,
    /// Both groups, in an order on which both agree.
    pub everyone: Group,
    /// Our place among them.
    pub rank: u32,
}

impl Inter {
    /// Whether our group comes before the other there.
    pub fn is_first(&self) -> bool {
        self.everyone.rank_of(self.remote.peer_of(0)) != Some(0)
    }
}

/// What a receive insists on.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// The only process that can send it, if there is only one.
    pub from: Option<Peer>,
    /// The bits.
    pub word: MatchWord,
    /// Which of them count.
    pub mask: Mask,
}

impl Comm {
    /// The communicator `number` of `group`, in which we are `rank`.
    pub fn new(group: Group, rank: u32, number: u16) -> Comm {
        let (instance, persistent) = (AtomicU16::new(0), AtomicU16::new(0));
        let (messages, state) = (2 * number, Arc::new(CommState::new(group.size())));
        let left_out = AtomicBool::new(false);
        Comm { group, rank, number, messages, instance, persistent, left_out, inter: None, state }
    }

    /// The communicator `number` between `group`, in which we are `rank`, and `remote`. `first` says
    /// which of the two comes first where both are counted; both sides must agree on it.
    pub fn between(group: Group, rank: u32, remote: Group, first: bool, number: u16) -> Comm {
        let (everyone, before) = match first {
            true => (group.union(&remote), 0),
            false => (remote.union(&group), remote.size()),
        };
        let state = Arc::new(CommState::new(remote.size()));
        let inter = Inter { remote, everyone, rank: before + rank };
        Comm { inter: Some(inter), state, ..Comm::new(group, rank, number) }
    }

    /// The same members under another number.
    #[must_use]
    pub fn renumbered(&self, number: u16) -> Comm {
        let (group, rank) = (self.group.clone(), self.rank);
        match &self.inter {
            None => Comm::new(group, rank, number),
            Some(inter) => {
                Comm::between(group, rank, inter.remote.clone(), inter.is_first(), number)
            }
        }
    }

    /// The same, when messages of the user's go to a module.
    #[must_use]
    pub fn with_module(self) -> Comm {
        Comm { messages: self.messages | MODULE_GROUP, ..self }
    }

    /// The group id under which a module gets its messages, and where in the group it is.
    pub fn module_place(&self) -> (u16, Placement) {
        let group = self.group.clone();
        let size = group.size();
        let peer_of = Box::new(move |rank| (rank < size).then(|| group.peer_of(rank)));
        (self.messages, Placement { rank: self.rank, size, peer_of })
    }

    /// Our rank in our group.
    #[inline]
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Our group.
    #[inline]
    pub fn group(&self) -> &Group {
        &self.group
    }

    /// Those whom messages go to: everybody, or the other group.
    #[inline]
    pub fn targets(&self) -> &Group {
        self.inter.as_ref().map_or(&self.group, |inter| &inter.remote)
    }

    /// Ranks below this can be sent to: all that there are, or none if it is revoked.
    #[inline(always)]
    pub fn reach(&self) -> u32 {
        self.state.reach()
    }

    /// How it fares.
    pub fn state(&self) -> &Arc<CommState> {
        &self.state
    }

    /// All members, of both sides.
    pub fn everyone(&self) -> &Group {
        self.inter.as_ref().map_or(&self.group, |inter| &inter.everyone)
    }

    /// The other side, if there is one.
    pub fn inter(&self) -> Option<&Inter> {
        self.inter.as_ref()
    }

    /// The number that tells it from others.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// The process behind `to`, and what a message to it says of itself.
    #[inline]
    pub fn address(&self, to: u32, tag: u32) -> (Peer, MatchWord) {
        (self.targets().peer_of(to), MatchWord::new(self.messages, self.rank, tag))
    }

    /// What a receive insists on; none stands for any.
    #[inline]
    pub fn wanted(&self, from: Option<u32>, tag: Option<u32>) -> Wanted {
        let mask = match (from, tag) {
            (Some(_), Some(_)) => Mask::EXACT,
            (None, Some(_)) => Mask::ANY_SOURCE,
            (Some(_), None) => Mask::ANY_TAG,
            (None, None) => Mask::ANY_BOTH,
        };
        let word = MatchWord::new(self.messages, from.unwrap_or(0), tag.unwrap_or(0));
        Wanted { from: from.map(|rank| self.targets().peer_of(rank)), word, mask }
    }

    /// We among our group, as collectives want to know.
    pub fn member(&self) -> Member<'_> {
        Member {
            group_id: self.group_id(),
            group: &self.group,
            rank: self.rank,
            locality: Locality::Unknown,
            naming: Naming::Ranks,
        }
    }

    /// We among everybody, the other group included.
    pub fn member_of_everyone(&self) -> Member<'_> {
        match &self.inter {
            None => self.member(),
            Some(inter) => {
                let Inter { everyone, rank, .. } = inter;
                Member {
                    group_id: self.group_id(),
                    group: everyone,
                    rank: *rank,
                    locality: Locality::Unknown,
                    naming: Naming::Ranks,
                }
            }
        }
    }

    /// The group id of what the library does in its name.
    pub fn group_id(&self) -> u16 {
        2 * self.number + 1
    }

    /// The number of the next collective: alike on all ranks, since all call them in the same order. It comes again after
    /// some ten thousand others, and the NIC sees to it that the first is over by then.
    pub fn next_instance(&self) -> u16 {
        self.instance.fetch_add(1, Ordering::Relaxed) & !PERSISTENT
    }

    /// A collective that other ranks call was left out here, since this one found an error before it began. What they
    /// have sent for it may wait here for ever, so the communicator's number is not used again.
    pub fn leave_out(&self) {
        self.left_out.store(true, Ordering::Relaxed);
    }

    /// Whether its number may be used again when it is freed.
    pub fn is_reusable(&self) -> bool {
        !self.left_out.load(Ordering::Relaxed) && !self.state.is_revoked()
    }

    /// The number of a collective that is started again and again, and in no order on which ranks agree
    /// with each other. They agree on the order in which they are made. None, at all ranks alike, when all are given
    /// away: it is not known which of them are still in use.
    pub fn next_persistent_instance(&self) -> Option<u16> {
        let next = |given: u16| given.checked_add(1).filter(|&given| given <= PERSISTENT);
        let given = self.persistent.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        given.ok().map(|given| given | PERSISTENT)
    }

    /// We among some ranks of the communicator, and the instance of what they do together under a tag. Those that do
    /// something at the same time, and have two ranks in common, need different tags.
    pub fn part<'a>(&self, group: &'a Group, rank: u32, tag: u32) -> (Member<'a>, u16) {
        let [_, subtag, high, low] = (tag & TAG_MAX).to_be_bytes();
        let (group_id, naming) = (PARTS | self.number, Naming::Processes { subtag });
        let member = Member { group_id, group, rank, locality: Locality::Unknown, naming };
        (member, u16::from_be_bytes([high, low]))
    }

    /// The process behind `other`, and the words of a message to it and of one from it, apart from what users and
    /// collectives do.
    pub fn pair(&self, other: u32, tag: u32) -> (Peer, MatchWord, MatchWord) {
        let word = |rank| MatchWord::new(PAIRS | self.number, rank, tag & TAG_MAX);
        (self.targets().peer_of(other), word(self.rank), word(other))
    }
}

/// All group ids of a communicator: of the user's messages, with a module and without, and of the library's.
pub fn group_ids(number: u16) -> impl Iterator<Item = u16> {
    let messages = 2 * number;
    [messages, messages + 1, messages | MODULE_GROUP, PARTS | number, PAIRS | number].into_iter()
}

/// What is done by some ranks of the communicator whose number follows.
const PARTS: u16 = 0x3000;
/// What is done by two.
const PAIRS: u16 = 0x4000;

const _: () = assert!(COMMS_MAX <= 0x1000);

/// Instances from here on stand for one persistent collective each.
const PERSISTENT: u16 = 1 << 15;
