//! Communicators: their members, and the match words of their messages.
//!
//! A communicator takes two group ids of the NIC: user messages travel under the first, messages of the library, such
//! as collectives, under the second, so the two never match each other. Two more are for operations among some of its
//! ranks only, which a tag tells apart: one for groups of ranks, one for pairs. Two are for partitioned messages.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};

use ferrywire_nic::{MODULE_GROUP, Mask, MatchWord, Peer, Placement};

use crate::agreement::CommState;
use crate::collective::{Locality, Member, Naming};
use crate::group::Group;
use crate::numbers::COMMS_MAX;

/// The largest tag that an application may use.
pub const TAG_MAX: u32 = MatchWord::TAG_MAX;

/// A communicator, as one of its members sees it.
#[derive(Debug)]
pub struct Comm {
    group: Group,
    rank: u32,
    number: u16,
    /// The group id of user messages.
    messages: u16,
    /// The instance of the next collective that blocks.
    instance: AtomicU16,
    /// The instance of the next nonblocking collective.
    nonblocking: AtomicU16,
    /// The instance of the next persistent collective.
    persistent: AtomicU16,
    /// Whether this rank skipped a collective: see [`Comm::leave_out`].
    left_out: AtomicBool,
    inter: Option<Inter>,
    /// State shared with the agreement.
    state: Arc<CommState>,
}

/// The remote side of an inter-communicator.
#[derive(Debug)]
pub struct Inter {
    /// The remote group, which messages go to.
    pub remote: Group,
    /// Both groups, in an order on which both agree.
    pub everyone: Group,
    /// Our rank in `everyone`.
    pub rank: u32,
}

impl Inter {
    /// Whether our group precedes the remote one in `everyone`.
    pub fn is_first(&self) -> bool {
        self.everyone.rank_of(self.remote.peer_of(0)) != Some(0)
    }
}

/// What a receive matches.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// The only process that can send it, if there is only one.
    pub from: Option<Peer>,
    /// The match word.
    pub word: MatchWord,
    /// Which of its bits count.
    pub mask: Mask,
}

impl Comm {
    /// The communicator `number` of `group`, in which our rank is `rank`.
    pub fn new(group: Group, rank: u32, number: u16) -> Comm {
        Comm {
            instance: AtomicU16::new(0),
            nonblocking: AtomicU16::new(0),
            persistent: AtomicU16::new(0),
            left_out: AtomicBool::new(false),
            state: Arc::new(CommState::new(group.size())),
            messages: 2 * number,
            inter: None,
            group,
            rank,
            number,
        }
    }

    /// The inter-communicator `number` of `group`, in which our rank is `rank`, and `remote`. `first` says which of the
    /// two groups comes first in `everyone`; both sides must agree on it.
    pub fn between(group: Group, rank: u32, remote: Group, first: bool, number: u16) -> Comm {
        let (everyone, before) = match first {
            true => (group.union(&remote), 0),
            false => (remote.union(&group), remote.size()),
        };
        let state = Arc::new(CommState::new(remote.size()));
        let inter = Inter { remote, everyone, rank: before + rank };
        Comm { inter: Some(inter), state, ..Comm::new(group, rank, number) }
    }

    /// The same communicator under another number.
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

    /// The same communicator, with user messages going to a module.
    #[must_use]
    pub fn with_module(self) -> Comm {
        Comm { messages: self.messages | MODULE_GROUP, ..self }
    }

    /// The group id under which a module gets its messages, and its placement in the group.
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

    /// The group that messages go to: our own, or the remote one.
    #[inline]
    pub fn targets(&self) -> &Group {
        self.inter.as_ref().map_or(&self.group, |inter| &inter.remote)
    }

    /// Ranks below this can be sent to: all, or zero if revoked.
    #[inline(always)]
    pub fn reach(&self) -> u32 {
        self.state.reach()
    }

    /// The state shared with the agreement.
    pub fn state(&self) -> &Arc<CommState> {
        &self.state
    }

    /// All members, of both sides.
    pub fn everyone(&self) -> &Group {
        self.inter.as_ref().map_or(&self.group, |inter| &inter.everyone)
    }

    /// The remote side, if this is an inter-communicator.
    pub fn inter(&self) -> Option<&Inter> {
        self.inter.as_ref()
    }

    /// The number of this communicator.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// The process of rank `to`, and the match word of a message to it.
    #[inline(always)]
    pub fn address(&self, to: u32, tag: u32) -> (Peer, MatchWord) {
        (self.targets().peer_of(to), MatchWord::new(self.messages, self.rank, tag))
    }

    /// What a receive matches; None stands for any source or any tag.
    #[inline(always)]
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

    /// This rank as a member of its group, for collectives.
    pub fn member(&self) -> Member<'_> {
        Member {
            group_id: self.group_id(),
            group: &self.group,
            rank: self.rank,
            locality: Locality::Unknown,
            naming: Naming::Ranks,
        }
    }

    /// This rank as a member of both groups together.
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

    /// The group id of messages of the library.
    pub fn group_id(&self) -> u16 {
        2 * self.number + 1
    }

    /// The instance of the next collective that blocks: the same on all ranks, since all call them in the same order.
    /// Instances repeat after some ten thousand; the NIC ensures that the earlier collective is over by then.
    #[inline(always)]
    pub fn next_instance(&self) -> u16 {
        next(&self.instance)
    }

    /// The instance of the next nonblocking collective. The standard wants one order of collectives of both kinds, but
    /// those of different kinds never match each other, and programs that mix them run with other libraries.
    pub fn next_nonblocking_instance(&self) -> u16 {
        next(&self.nonblocking) | NONBLOCKING
    }

    /// Records that this rank skipped a collective because it found an error before it began. Messages that other ranks
    /// have sent for it may stay here for ever, so the number of the communicator is not used again.
    pub fn leave_out(&self) {
        self.left_out.store(true, Ordering::Relaxed);
    }

    /// Whether the number may be used again when the communicator is freed.
    pub fn is_reusable(&self) -> bool {
        !self.left_out.load(Ordering::Relaxed) && !self.state.is_revoked()
    }

    /// The instance of a persistent collective. Ranks may start these in different orders, but create them in the same
    /// order. None, on all ranks alike, when all instances are used up: which of them are still in use is not known.
    pub fn next_persistent_instance(&self) -> Option<u16> {
        let next = |given: u16| given.checked_add(1).filter(|&given| given <= PERSISTENT);
        let given = self.persistent.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        given.ok().map(|given| given | PERSISTENT)
    }

    /// This rank as a member of `group`, some ranks of the communicator, and the instance of their operation under
    /// `tag`. Concurrent operations that share two ranks need different tags.
    pub fn part<'a>(&self, group: &'a Group, rank: u32, tag: u32) -> (Member<'a>, u16) {
        let [_, subtag, high, low] = (tag & TAG_MAX).to_be_bytes();
        let (group_id, naming) = (PARTS | self.number, Naming::Processes { subtag });
        let member = Member { group_id, group, rank, locality: Locality::Unknown, naming };
        (member, u16::from_be_bytes([high, low]))
    }

    /// The process of rank `other`, and the match words of a message to it and from it, apart from those of users and
    /// collectives.
    pub fn pair(&self, other: u32, tag: u32) -> (Peer, MatchWord, MatchWord) {
        let word = |rank| MatchWord::new(PAIRS | self.number, rank, tag & TAG_MAX);
        (self.targets().peer_of(other), word(self.rank), word(other))
    }

    /// The process of rank `to`, and the match word under which a partitioned receive tells it what to send.
    pub fn plan_to(&self, to: u32, tag: u32) -> (Peer, MatchWord) {
        (self.targets().peer_of(to), MatchWord::new(PLANS | self.number, self.rank, tag))
    }

    /// What a partitioned send to rank `from` receives first.
    pub fn plan_from(&self, from: u32, tag: u32) -> Wanted {
        let word = MatchWord::new(PLANS | self.number, from, tag);
        Wanted { from: Some(self.targets().peer_of(from)), word, mask: Mask::EXACT }
    }

    /// The match word of one message of a partitioned receive, which the receiver calls `slot`.
    pub fn partition(&self, slot: u32, message: u32) -> MatchWord {
        MatchWord::new(PARTITIONS | self.number, slot, message)
    }
}

/// All group ids of a communicator: of user messages, with a module and without, and of the library.
pub fn group_ids(number: u16) -> impl Iterator<Item = u16> {
    let messages = 2 * number;
    let [parts, pairs, plans, partitions] = [PARTS, PAIRS, PLANS, PARTITIONS].map(|of| of | number);
    [messages, messages + 1, messages | MODULE_GROUP, parts, pairs, plans, partitions].into_iter()
}

/// The tag of a user message; `None` if the library sent the message for itself.
pub fn user_tag(word: MatchWord) -> Option<u32> {
    let group = word.group() & !MODULE_GROUP;
    (group < PARTS && group.is_multiple_of(2)).then_some(word.tag())
}

/// The number of the communicator that a message belongs to.
pub fn number_of(word: MatchWord) -> u16 {
    let group = word.group() & !MODULE_GROUP;
    if group < PARTS { group / 2 } else { group % NUMBERS }
}

/// Group ids for groups of some ranks; the number of the communicator is added.
const PARTS: u16 = 0x3000;
/// Group ids for pairs of ranks.
const PAIRS: u16 = 0x4000;
/// Group ids for what partitioned receives tell their senders.
const PLANS: u16 = 0x5000;
/// Group ids for partitioned messages.
const PARTITIONS: u16 = 0x6000;

/// More than there are numbers of communicators; all of the above are multiples of it.
const NUMBERS: u16 = 0x1000;

const _: () = assert!(COMMS_MAX <= NUMBERS as usize);

/// Instances from this value on name persistent collectives, one each.
const PERSISTENT: u16 = 1 << 15;
/// Instances from this value up to [`PERSISTENT`] name nonblocking collectives.
const NONBLOCKING: u16 = 1 << 14;

/// The next instance of its kind. Two threads of a rank must not call collectives of a communicator at the same time, so
/// this is no atomic increment, which would first wait for the message of the collective before.
#[inline(always)]
fn next(instance: &AtomicU16) -> u16 {
    let given = instance.load(Ordering::Relaxed);
    instance.store(given.wrapping_add(1), Ordering::Relaxed);
    given & (NONBLOCKING - 1)
}
