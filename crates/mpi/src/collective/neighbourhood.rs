//! Neighbourhoods: each rank gives to some and gets from some, as the topology of its group says.

use ferrywire_nic::{Schedule, Span};

use super::Member;

/// One way between two ranks, as one of them sees it.
#[derive(Clone, Copy, Debug)]
pub struct Edge {
    /// The rank at the other end. It may be ours.
    pub rank: u32,
    /// Which of several from the one to the other, alike at both ends: in a graph, its number among
    /// them; on a grid, the dimension and the direction that it leads in.
    pub subtag: u8,
    /// What goes or comes.
    pub bytes: Span,
}

/// Gives what belongs to each of `gives`, and gets each of `gets`. Neighbours are few, so all begin
/// at once.
pub fn neighbourhood(me: Member, gives: &[Edge], gets: &[Edge]) -> Schedule {
    let mut schedule = me.schedule();
    // Receives first: a message that finds one is not kept.
    for edge in gets {
        schedule.push(me.receive_on(edge.subtag, edge.rank, edge.bytes), &[]);
    }
    for edge in gives {
        schedule.push(me.send_on(edge.subtag, edge.rank, edge.bytes), &[]);
    }
    schedule
}

/// Exchange with the two neighbours on a ring: `bytes` goes both ways, `from_left` and
/// `from_right` get theirs.
pub fn neighbours(me: Member, bytes: Span, from_left: Span, from_right: Span) -> Schedule {
    let (right, left) = me.around(1);
    // On a ring of two both neighbours are the same rank, and only the subtag tells which way.
    let edge = |subtag, rank, bytes| Edge { rank, subtag, bytes };
    neighbourhood(
        me,
        &[edge(0, right, bytes), edge(1, left, bytes)],
        &[edge(0, left, from_left), edge(1, right, from_right)],
    )
}
