//! Reads of other ranks' memory, piece by piece, and what they still wait for.
//!
//! While the library reads into memory of the user's, that memory must not go back to the user, whatever becomes of the peer.
//! So a peer is given up only when nothing is read from it any more: [`Reads::give_up`] tells whether that is so.

use std::ffi::c_int;
use std::time::{Duration, Instant};

use ferrywire_nic::{Key, Peer, Span, Ticket};

use super::endpoint::{Piece, Registered};

/// All reads of a rank.
#[derive(Default)]
pub(super) struct Reads {
    list: Vec<Read>,
    /// Names the next one to the library.
    next: u32,
    /// The library had no room for a piece.
    pub(super) stalled: bool,
}

struct Read {
    number: u32,
    peer: Peer,
    ticket: Ticket,
    from: Span,
    key: Key,
    into: Span,
    /// Bytes that have been asked for, and that are here.
    asked: u64,
    done: u64,
    /// Pieces on their way.
    out: u32,
    /// Why it will not end well, and since when.
    failed: Option<(c_int, Instant)>,
    registered: Option<Registered>,
}

/// What the end of a piece has ended.
#[derive(Debug, Eq, PartialEq)]
pub(super) enum Ended {
    /// More is to come.
    Nothing,
    /// A read.
    Read(Ticket),
    /// The last of all reads from a peer that cannot be read from, for this reason.
    Peer(Peer, c_int),
}

impl Reads {
    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(super) fn begin(
        &mut self,
        peer: Peer,
        from: Span,
        key: Key,
        into: Span,
        ticket: Ticket,
        registered: Option<Registered>,
    ) {
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        let (asked, done, out, failed) = (0, 0, 0, None);
        self.list.push(Read {
            number,
            peer,
            ticket,
            from,
            key,
            into,
            asked,
            done,
            out,
            failed,
            registered,
        });
    }

    /// The next piece of each read that has not been asked for: whose it is, what the library shall call it, and what
    /// it is. True if it was asked for.
    pub(super) fn ask(
        &mut self,
        bytes_max: u64,
        mut ask: impl FnMut(Peer, u32, &Piece, Option<&Registered>) -> bool,
    ) {
        for read in &mut self.list {
            while read.failed.is_none() && read.asked < read.into.len && read.out < PIECES_MAX {
                let len = bytes_max.min(read.into.len - read.asked);
                let (from, into) = (read.from.offset, read.into.offset);
                let piece = Piece {
                    at: from + read.asked,
                    start: from,
                    key: read.key.0,
                    into: into + read.asked,
                    len,
                };
                if !ask(read.peer, read.number, &piece, read.registered.as_ref()) {
                    break;
                }
                read.asked += len;
                read.out += 1;
            }
        }
    }

    /// A piece is over: how many bytes it had does not matter, since all have the same but the last.
    pub(super) fn end_piece(&mut self, number: u32, bytes_max: u64, code: c_int) -> Ended {
        let Some(at) = self.list.iter().position(|read| read.number == number) else {
            return Ended::Nothing;
        };
        let read = &mut self.list[at];
        read.out -= 1;
        match code {
            0 => read.done += bytes_max.min(read.into.len - read.done),
            code => read.failed = read.failed.or(Some((code, Instant::now()))),
        }
        match read.failed {
            None if read.done == read.into.len => Ended::Read(self.list.swap_remove(at).ticket),
            Some((code, _)) if read.out == 0 => {
                let peer = self.list.swap_remove(at).peer;
                match self.give_up(peer, code) {
                    true => Ended::Peer(peer, code),
                    false => Ended::Nothing,
                }
            }
            _ => Ended::Nothing,
        }
    }

    /// Nothing more is asked of a peer. True if nothing is on its way from it either.
    pub(super) fn give_up(&mut self, peer: Peer, code: c_int) -> bool {
        self.list.retain(|read| read.peer != peer || read.out > 0);
        for read in self.list.iter_mut().filter(|read| read.peer == peer) {
            read.failed = read.failed.or(Some((code, Instant::now())));
        }
        self.list.iter().all(|read| read.peer != peer)
    }

    /// A peer that was given up long ago, of which the library still reads.
    pub(super) fn overdue(&self) -> Option<Peer> {
        let is_overdue = |read: &&Read| {
            read.failed.is_some_and(|(_, since)| since.elapsed() >= GIVE_BACK_WITHIN)
        };
        self.list.iter().find(is_overdue).map(|read| read.peer)
    }

    /// Whether the library has to give something back.
    pub(super) fn is_waiting_to_give_up(&self) -> bool {
        self.list.iter().any(|read| read.failed.is_some())
    }
}

/// Pieces of one read that are on their way at the same time.
const PIECES_MAX: u32 = 16;
/// How long the library may go on to read from a peer that is gone.
pub(super) const GIVE_BACK_WITHIN: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use ferrywire_nic::Region;

    use super::*;

    fn span(len: u64) -> Span {
        Span::new(Region(0), 1000, len)
    }

    fn reads(lens: &[u64]) -> Reads {
        let mut reads = Reads::default();
        for (ticket, &len) in (0..).zip(lens) {
            reads.begin(Peer(1), span(len), Key(7), span(len), Ticket::from_bits(ticket), None);
        }
        reads
    }

    #[test]
    fn a_read_goes_in_pieces_and_ends_with_the_last() {
        let mut reads = reads(&[550]);
        let mut asked = Vec::new();
        let mut ask = |reads: &mut Reads| {
            reads.ask(100, |_, number, piece, _| {
                assert_eq!((number, piece.at, piece.start), (0, piece.into, 1000));
                asked.push((piece.at - 1000, piece.len));
                true
            });
        };
        ask(&mut reads);
        for _ in 0..2 {
            assert_eq!(reads.end_piece(0, 100, 0), Ended::Nothing);
            ask(&mut reads);
        }
        assert_eq!(asked, [(0, 100), (100, 100), (200, 100), (300, 100), (400, 100), (500, 50)]);
        for _ in 0..3 {
            assert_eq!(reads.end_piece(0, 100, 0), Ended::Nothing);
        }
        assert_eq!(reads.end_piece(0, 100, 0), Ended::Read(Ticket::from_bits(0)));
        assert!(reads.is_empty());
    }

    #[test]
    fn a_peer_is_given_up_when_nothing_is_read_from_it_any_more() {
        let mut reads = reads(&[250, 100, 100]);
        let mut room = 3;
        reads.ask(100, |_, _, _, _| {
            room -= 1;
            room >= 0
        });
        assert!(!reads.give_up(Peer(1), 5), "the first is on its way");
        assert!(reads.give_up(Peer(2), 5));
        assert_eq!(reads.list.len(), 1, "what was not asked for is not waited for");
        assert!(reads.is_waiting_to_give_up());
        assert_eq!(reads.overdue(), None);
        assert_eq!(reads.end_piece(0, 100, 0), Ended::Nothing);
        assert_eq!(reads.end_piece(0, 100, 0), Ended::Nothing);
        assert_eq!(reads.end_piece(0, 100, 9), Ended::Peer(Peer(1), 5));
        assert!(reads.is_empty());
    }
}
