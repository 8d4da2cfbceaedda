//! Neighbourhood collectives: each rank sends to some ranks and receives from some, as its topology says.

use ferrywire_nic::{Schedule, Span};

use super::Member;

/// An edge between two ranks, as one of them sees it.
#[derive(Clone, Copy, Debug)]
pub struct Edge {
    /// The rank at the other end. It may be ours.
    pub rank: u32,
    /// Tells apart several edges from one rank to the other, with the same value at both ends: in a graph, its number
    /// among them; on a grid, its dimension and direction.
    pub subtag: u8,
    /// The bytes to send, or where to receive.
    pub bytes: Span,
}

/// Sends along each of `gives` and receives along each of `gets`. Neighbours are few, so all start at once.
pub fn neighbourhood(me: Member, gives: &[Edge], gets: &[Edge]) -> Schedule {
    let mut schedule = me.schedule();
    // Receives first: a message that finds its receive posted is not buffered.
    for edge in gets {
        schedule.push(me.receive_on(edge.subtag, edge.rank, edge.bytes), &[]);
    }
    for edge in gives {
        schedule.push(me.send_on(edge.subtag, edge.rank, edge.bytes), &[]);
    }
    schedule
}

/// Exchange with the two neighbours on a ring: `bytes` goes both ways; `from_left` and `from_right` receive theirs.
pub fn neighbours(me: Member, bytes: Span, from_left: Span, from_right: Span) -> Schedule {
    let (right, left) = me.around(1);
    // On a ring of two, both neighbours are the same rank, and only the subtag gives the direction.
    let edge = |subtag, rank, bytes| Edge { rank, subtag, bytes };
    neighbourhood(
        me,
        &[edge(0, right, bytes), edge(1, left, bytes)],
        &[edge(0, left, from_left), edge(1, right, from_right)],
    )
}
