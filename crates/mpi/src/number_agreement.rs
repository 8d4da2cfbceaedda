//! How the members of a new communicator agree on its number.
//!
//! An agreement is one schedule, so the NIC completes it whatever the application does meanwhile:
//!
//! 1. A barrier. After it every member takes part, and none waits for its application.
//! 2. Each member proposes a stamp, and all receive the latest. It orders agreements that share a member.
//! 3. When its turn comes, each member contributes its free numbers. All take the first that is free at every member.
//!
//! How turns work, and why no agreement waits for ever, is in `numbers.rs`. Nothing is tried twice, and an agreement
//! fails only if every number is taken at one of the members.
//!
//! If only some ranks of a communicator agree, they number themselves in their own way, and may do so in several groups
//! that overlap. Their messages name processes, so messages from one process to another are received in the order in
//! which they are sent; both take part in the agreements that they share in the same order, since concurrent ones have
//! different tags ([`Comm::part`](crate::comm::Comm::part)).

use std::sync::{Arc, Mutex, PoisonError};

use ferrywire_nic::{Consult, Schedule, Span, Step};

use crate::agreement::Decision;
use crate::collective::{Member, ReduceOp, allreduce_doubling, barrier_dissemination, start};
use crate::numbers::{Bits, COMMS_MAX, Claim, Numbers, Seat, first_of};
use crate::operation::{self, Number, Operation};

/// The outcome of an agreement.
#[derive(Debug)]
pub struct Agreed {
    /// The number.
    pub claim: Claim,
    /// The votes of all members, combined by bitwise AND.
    pub votes: u64,
}

/// Free numbers and votes, as members exchange them.
pub type NumberBallot = [u64; COMMS_MAX / 64 + 1];

/// The future outcome of an agreement.
#[derive(Clone, Debug, Default)]
pub struct NumberPromise(Arc<Mutex<Option<Agreed>>>);

impl NumberPromise {
    /// The outcome, when the schedule is done. None if at some member every number is taken.
    pub fn take(&self) -> Option<Agreed> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Work space of [`number_agreement`].
pub const ROOM_BYTES: usize = size_of::<u64>() + 2 * size_of::<NumberBallot>();

const STAMP_BYTES: u64 = 8;
const BALLOT_BYTES: u64 = size_of::<NumberBallot>() as u64;

/// Agrees on a number with all members, and combines their votes. `room` has [`ROOM_BYTES`].
pub fn number_agreement(
    me: Member,
    numbers: &Arc<Numbers>,
    votes: u64,
    room: Span,
) -> (Schedule, NumberPromise) {
    let (seat, promise) = (Arc::new(Seat::new(numbers)), NumberPromise::default());
    let (stamp, ballot) = (room.part(0, STAMP_BYTES), room.part(STAMP_BYTES, BALLOT_BYTES));
    let work = room.part(STAMP_BYTES + BALLOT_BYTES, BALLOT_BYTES);
    let consult = |stage: Stage, bytes: Span| {
        let whom = Arc::new(Participant { seat: Arc::clone(&seat), stage });
        Step::Consult { whom, bytes }
    };
    let combine = |operation: Operation, bytes: Span| {
        let work = work.part(0, bytes.len);
        start(allreduce_doubling(me, of_words(operation), bytes, bytes, work))
    };
    let mut schedule = me.schedule();
    let joined = schedule.push(start(barrier_dissemination(me)), &[]);
    let proposed = schedule.push(consult(Stage::Propose, stamp), &[joined]);
    let ordered = schedule.push(combine(Operation::Max, stamp), &[proposed]);
    let settled = schedule.push(consult(Stage::Settle, stamp), &[ordered]);
    let offered = schedule.push(consult(Stage::Offer { votes }, ballot), &[settled]);
    let combined = schedule.push(combine(Operation::BitAnd, ballot), &[offered]);
    schedule.push(consult(Stage::Take(promise.clone()), ballot), &[combined]);
    (schedule, promise)
}

/// Like [`number_agreement`], for ranks that combine words in another way: `latest` returns the latest stamp of all,
/// `common` the bits that all ballots have in common. `wait` consults its argument until it answers, after consulting
/// others again, whose turn may have come. The caller does nothing else before it returns.
pub fn agree_by<E>(
    numbers: &Arc<Numbers>,
    votes: u64,
    latest: impl FnOnce(u64) -> Result<u64, E>,
    wait: impl FnOnce(Arc<dyn Consult>, &mut [u8]) -> Result<(), E>,
    common: impl FnOnce(&NumberBallot) -> Result<NumberBallot, E>,
) -> Result<Option<Agreed>, E> {
    let seat = Arc::new(Seat::new(numbers));
    seat.settle(latest(seat.propose())?);
    let mut ballot = [0; size_of::<NumberBallot>()];
    let part = Participant { seat: Arc::clone(&seat), stage: Stage::Offer { votes } };
    wait(Arc::new(part), &mut ballot)?;
    Ok(seated(&seat, &common(&read(&ballot))?))
}

/// Like [`number_agreement`], for the live members of a communicator in which ranks have died. `settle` combines the
/// words of all of them by bitwise AND, and names the dead. Members try one number after the other, since stamps cannot
/// be settled while ranks die.
pub fn agree_among_living<E>(
    numbers: &Arc<Numbers>,
    votes: u64,
    mut settle: impl FnMut(Vec<u64>) -> Result<Decision, E>,
) -> Result<Option<(Agreed, Decision)>, E> {
    loop {
        let free = settle([&numbers.free()[..], &[votes]].concat())?;
        let Ok(ballot) = NumberBallot::try_from(free.words) else { continue };
        let (common, votes) = split(&ballot);
        let Some(number) = first_of(&common) else { return Ok(None) };
        let claim = numbers.hold(number);
        let decision = settle(vec![u64::from(claim.is_some())])?;
        if let Some(claim) = claim.filter(|_| decision.words == [1]) {
            return Ok(Some((Agreed { claim, votes }, decision)));
        }
    }
}

/// The part of a rank in one stage of an agreement.
#[derive(Debug)]
struct Participant {
    seat: Arc<Seat>,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    Propose,
    Settle,
    Offer { votes: u64 },
    Take(NumberPromise),
}

impl Consult for Participant {
    fn consult(&self, bytes: &mut [u8]) -> bool {
        match &self.stage {
            Stage::Propose => bytes.copy_from_slice(&self.seat.propose().to_ne_bytes()),
            Stage::Settle => {
                let [stamp] = read(bytes);
                self.seat.settle(stamp);
            }
            Stage::Offer { votes } => {
                let Some(free) = self.seat.offer() else { return false };
                let words = free.iter().chain([votes]);
                for (bytes, word) in bytes.chunks_exact_mut(8).zip(words) {
                    bytes.copy_from_slice(&word.to_ne_bytes());
                }
            }
            Stage::Take(promise) => {
                let agreed = seated(&self.seat, &read(bytes));
                *promise.0.lock().unwrap_or_else(PoisonError::into_inner) = agreed;
            }
        }
        true
    }
}

/// The outcome of an agreement whose ballots have `common` in common.
fn seated(seat: &Seat, common: &NumberBallot) -> Option<Agreed> {
    let (free, votes) = split(common);
    seat.take(&free).map(|claim| Agreed { claim, votes })
}

fn split(ballot: &NumberBallot) -> (Bits, u64) {
    let mut free = [0; COMMS_MAX / 64];
    free.copy_from_slice(&ballot[..COMMS_MAX / 64]);
    (free, ballot[COMMS_MAX / 64])
}

fn read<const WORDS: usize>(bytes: &[u8]) -> [u64; WORDS] {
    let (words, _) = bytes.as_chunks::<8>();
    std::array::from_fn(|at| u64::from_ne_bytes(words[at]))
}

fn of_words(operation: Operation) -> ReduceOp {
    let operator = operation::operator(operation, Number::U64).expect("it makes sense");
    ReduceOp { operator, element_bytes: 8, commutative: true }
}
