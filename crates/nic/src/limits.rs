//! Every bound of the NIC, in one place. Set once, at creation.

/// The bounds of one NIC. All peers of a job use the same.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Limits {
    /// Number of queue pairs, a power of two. A group uses the pair numbered by its id modulo this.
    pub queues: u16,
    /// Budget of each queue pair for unexpected messages and credit.
    pub unexpected_bytes_max: u32,
    /// The longest message sent without an offer.
    pub eager_bytes_max: u32,
    /// Credit that a receiver gives one sender, if it has room.
    pub credit_bytes: u32,
    /// The most bytes that one put moves; a longer transfer takes several.
    pub piece_bytes_max: u32,
    /// Held messages that one sweep may have in flight.
    pub sweep_frames_max: u16,
    /// The longest message that a module takes or sends.
    pub module_bytes_max: u32,
    /// Messages that a module may send for each message that it handles.
    pub module_sends_max: u32,
    /// Bytes of memory for messages of a module that are in flight. Above this, the module takes no further
    /// messages.
    pub module_kept_bytes_max: u32,
    /// Consecutive runs that exhaust fuel, time, stack or sends before a module no longer runs for every message.
    pub module_traps_max: u32,
    /// Unacked frames to one peer. At most 256.
    pub frames_in_flight_max: u16,
    /// Frames received before an ack is due at once.
    pub frames_per_ack_max: u32,
    /// Bytes of early frames, all peers together.
    pub early_bytes_max: u32,
    /// How long an ack may be delayed.
    pub ack_ns_max: u64,
    /// The retry timeout before a round trip has been measured.
    pub retry_ns_first: u64,
    /// The shortest retry timeout.
    pub retry_ns_min: u64,
    /// The longest retry timeout.
    pub retry_ns_max: u64,
    /// Bytes of short messages that are copied when they are sent on a rail that may lose them, so that their
    /// senders need not wait for the acks.
    pub copied_bytes_max: u32,
    /// How long a peer may be silent on a reliable rail before it is asked for a sign of life.
    pub ask_ns: u64,
    /// A peer is down if it owes an ack or another sign of life, and gives none for this long.
    pub silence_ns_max: u64,
    /// A conversation that has been idle for this long is not continued but started anew; after twice as long the
    /// peer is forgotten. Longer than `silence_ns_max`, so that nothing of the old conversation can still be in
    /// flight.
    pub idle_ns_max: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            queues: 4,
            unexpected_bytes_max: 4 << 20,
            eager_bytes_max: 8 << 10,
            credit_bytes: 64 << 10,
            piece_bytes_max: 1 << 20,
            sweep_frames_max: 16,
            module_bytes_max: 64 << 10,
            module_sends_max: 64,
            module_kept_bytes_max: 4 << 20,
            module_traps_max: 4,
            frames_in_flight_max: 256,
            frames_per_ack_max: 32,
            early_bytes_max: 512 << 10,
            ack_ns_max: 50_000,
            retry_ns_first: 5_000_000,
            retry_ns_min: 200_000,
            retry_ns_max: 200_000_000,
            copied_bytes_max: 256 << 10,
            ask_ns: 1_000_000_000,
            silence_ns_max: 10_000_000_000,
            idle_ns_max: 60_000_000_000,
        }
    }
}
