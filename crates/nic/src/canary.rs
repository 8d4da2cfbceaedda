//! Bugs planted on purpose.
//!
//! A check that cannot fail is worthless. Each of these is a small, plausible mistake that a
//! test-only [`crate::Variant`] can have; `ferry sim soak --canary` must find every one. The
//! variant in use answers no at compile time, so that none exists in it, not even as a branch.

/// A mistake that the checks must find.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Bug {
    /// An ack with a gap in it acks the frame that is missing.
    AckForgets,
    /// A stored message that is longer than its receive leaves its bytes on the books.
    BudgetLeak,
    /// Messages of a schedule do not say which instance they are of.
    StaleInstance,
    /// A frame that has been here before is taken once more.
    RepeatAccepted,
    /// After a refusal, later messages may match any receive.
    FloorIgnored,
    /// A cancelled receive leaves its ticket behind.
    TicketLeak,
    /// What a module forwards is sent twice.
    ForwardedTwice,
    /// A module runs for a message before it is known whether there is room for it.
    RunsAgain,
    /// A synchronous message that has gone out is not taken back.
    CancelIgnored,
    /// A message is taken back although it has matched.
    WithdrawnTooLate,
    /// A frame counts as its sender's, whichever rail it came by.
    ForgedSource,
    /// The place of an offer's bytes may be beyond the end of memory.
    OfferUnchecked,
    /// Credit for a message that was stored goes to somebody else than its sender.
    CreditAstray,
    /// Peers are forgotten while the places of others are in use.
    ForgetsUnderWay,
    /// A probe sees a held message that a receive is waiting for.
    ShownTwice,
    /// A module takes a message while one that it has let through waits for room.
    PassingIgnored,
    /// A put that goes on in chunks begins anew, though a part of it has arrived.
    StartsOver,
}
