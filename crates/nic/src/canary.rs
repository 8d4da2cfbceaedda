//! Bugs planted on purpose.
//!
//! A check that cannot fail is worthless. Each of these is a small, plausible mistake that a test-only
//! [`crate::Variant`] can have; `ferry sim soak --canary` must find every one. The standard variant answers no at
//! compile time, so it contains none of them, not even as a branch.

/// A bug that the checks must find.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Bug {
    /// A selective ack also acks the frame that is missing.
    AckForgets,
    /// A stored message that is longer than its receive stays charged to the budget.
    BudgetLeak,
    /// Messages of a schedule carry no instance number.
    StaleInstance,
    /// A frame that has already arrived is handled again.
    RepeatAccepted,
    /// After a refusal, later messages may match any receive.
    FloorIgnored,
    /// A cancelled receive leaves its ticket behind.
    TicketLeak,
    /// What a module forwards is sent twice.
    ForwardedTwice,
    /// A module runs for a message before it is known whether there is room for it.
    RunsAgain,
    /// Cancelling a synchronous message that has gone out does nothing.
    CancelIgnored,
    /// A message is withdrawn although it has matched.
    WithdrawnTooLate,
    /// A frame is accepted from its claimed sender whichever rail it came by.
    ForgedSource,
    /// The source span of an offer may extend beyond the end of memory.
    OfferUnchecked,
    /// Credit for a stored message goes to a peer other than its sender.
    CreditAstray,
    /// Peers are forgotten while table positions of others are in use.
    ForgetsUnderWay,
    /// A probe sees a held message that a receive is waiting for.
    ShownTwice,
    /// A module takes a message while one that it has let through still waits for room.
    PassingIgnored,
    /// A put that continues in chunks starts over, although part of it has arrived.
    StartsOver,
    /// A silent peer is never given up.
    NeverGivenUp,
    /// A peer that is asked for a sign of life does not answer.
    NeverAnswered,
    /// A short message goes out without marks on a rail that may lose it.
    ShortUnmarked,
    /// A short message overtakes frames that wait for room on the rail.
    ShortOvertakesBacklog,
    /// A short message overtakes messages that its sender holds.
    ShortOvertakesHeld,
    /// A short message goes out without credit.
    ShortUnpaid,
    /// A receive is awaited although older receives may get its message.
    AwaitedOvertakes,
    /// A receive is awaited although an older message is stored.
    AwaitedSkipsStored,
    /// A frame other than a short message does not make an ordinary receive of an awaited one.
    AwaitedMissesOffer,
    /// A receive is awaited although a module handles its messages.
    AwaitedBeforeModule,
    /// A fetch returns what is there after its own change.
    FetchesLate,
    /// A compare-and-swap of a short word compares and stores eight bytes.
    SwapsTooWide,
    /// Frames of a later accumulate go between those of an earlier one.
    AccumulatesOvertake,
}
