//! Reads of other ranks' memory, piece by piece.
//!
//! While the library reads into user memory, that memory must not go back to the user, whatever happens to
//! the peer. Providers for hardware end every read, successfully or not. Others may never end a read whose
//! peer is gone, because a cable is cut or the peer died: they read into buffers of ours, from which the
//! bytes are copied, and a buffer that the library never gives back is leaked without harm.

use std::ffi::c_int;
use std::ptr::NonNull;

use ferrywire_nic::{Key, Peer, Span, Ticket};

use super::endpoint::{Endpoint, Given, Piece};
use super::object::Registered;
use crate::memory;

/// All reads of a rank.
#[derive(Default)]
pub(super) struct Reads {
    list: Vec<Read>,
    pieces: Vec<InFlight>,
    /// Abandoned pieces, by number, with their buffers. Each occupies a context of the endpoint.
    stray: Vec<(u32, ReadBuffer)>,
    /// The number of the next read or piece.
    next: u32,
    /// Free buffers.
    rooms: Vec<ReadBuffer>,
    /// The library had no room for a piece, or the peer's address is not known.
    pub(super) stalled: bool,
}

struct Read {
    number: u32,
    peer: Peer,
    ticket: Ticket,
    from: Span,
    key: Key,
    into: Span,
    /// Bytes requested, and bytes received.
    asked: u64,
    done: u64,
    /// The error that it will end with.
    failed: Option<c_int>,
    registered: Option<Registered>,
}

/// A piece that the library has.
struct InFlight {
    number: u32,
    /// The read that it belongs to.
    read: u32,
    /// Its final destination.
    into: Span,
    /// The buffer that it goes to first, if any.
    room: Option<ReadBuffer>,
}

/// A buffer that the library reads into. It does not move; while the library has it, it is never freed.
struct ReadBuffer(NonNull<[u8]>);

// SAFETY: it is memory with one owner.
unsafe impl Send for ReadBuffer {}

impl ReadBuffer {
    fn new(len: u64) -> ReadBuffer {
        let bytes: Box<[u8]> = vec![0; size(len)].into();
        ReadBuffer(NonNull::from(Box::leak(bytes)))
    }

    fn span(&self) -> Span {
        let start = self.0.cast::<u8>().as_ptr().expose_provenance();
        Span::new(memory::MEMORY, start as u64, self.0.len() as u64)
    }

    fn free(self) {
        // SAFETY: it was made from a box, and has no other owner.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

/// What the end of a piece has completed.
#[derive(Debug, Eq, PartialEq)]
pub(super) enum Ended {
    /// Nothing: more pieces are outstanding.
    Nothing,
    /// A read.
    Read(Ticket),
    /// The last of all reads from a peer that can no longer be read from, for this reason.
    Peer(Peer, c_int),
}

/// What keeps pieces from being requested.
#[derive(Default)]
pub(super) struct Obstacles {
    /// Peers whose address is not known.
    pub(super) strangers: Vec<Peer>,
    /// Peers that cannot be read from.
    pub(super) lost: Vec<(Peer, c_int)>,
}

impl Reads {
    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(super) fn begin(
        &mut self,
        peer: Peer,
        (from, key): (Span, Key),
        into: Span,
        ticket: Ticket,
        registered: Option<Registered>,
    ) {
        let number = self.count();
        let (asked, done, failed) = (0, 0, None);
        self.list.push(Read {
            number,
            peer,
            ticket,
            from,
            key,
            into,
            asked,
            done,
            failed,
            registered,
        });
    }

    fn count(&mut self) -> u32 {
        self.next = self.next.wrapping_add(1);
        self.next
    }

    /// Requests the next pieces, up to the number that may be in flight.
    pub(super) fn ask(
        &mut self,
        endpoint: &Endpoint,
        address: impl Fn(Peer) -> Option<u64>,
    ) -> Obstacles {
        let through_rooms = !endpoint.gives_back();
        self.ask_by(
            endpoint.read_bytes_max(),
            through_rooms,
            address,
            |address, number, piece, own| endpoint.read(address, number, piece, own),
        )
    }

    fn ask_by(
        &mut self,
        bytes_max: u64,
        through_rooms: bool,
        address: impl Fn(Peer) -> Option<u64>,
        mut ask: impl FnMut(u64, u32, &Piece, Option<&Registered>) -> Given,
    ) -> Obstacles {
        let mut obstacles = Obstacles::default();
        self.stalled = false;
        for at in 0..self.list.len() {
            while self.pieces.len() < PIECES_MAX {
                let number = self.count();
                let read = &mut self.list[at];
                if read.failed.is_some() || read.asked == read.into.len {
                    break;
                }
                let Some(address) = address(read.peer) else {
                    self.stalled = true;
                    obstacles.strangers.push(read.peer);
                    break;
                };
                let len = bytes_max.min(read.into.len - read.asked);
                let into = read.into.part(read.asked, len);
                let room = through_rooms
                    .then(|| self.rooms.pop().unwrap_or_else(|| ReadBuffer::new(bytes_max)));
                let piece = Piece {
                    at: read.from.offset + read.asked,
                    start: read.from.offset,
                    key: read.key.0,
                    into: room.as_ref().map_or(into, ReadBuffer::span).first(len),
                };
                match ask(address, number, &piece, read.registered.as_ref()) {
                    Given::Away => {
                        read.asked += len;
                        let read = read.number;
                        self.pieces.push(InFlight { number, read, into, room });
                    }
                    obstacle => {
                        self.rooms.extend(room);
                        match obstacle {
                            Given::Never(code) => obstacles.lost.push((read.peer, code)),
                            _ => self.stalled = true,
                        }
                        break;
                    }
                }
            }
        }
        obstacles
    }

    /// Ends a piece, successfully if the code is zero.
    pub(super) fn end_piece(&mut self, number: u32, code: c_int) -> Ended {
        if let Some(at) = self.stray.iter().position(|(stray, _)| *stray == number) {
            self.stray.swap_remove(at).1.free();
        }
        let Some(at) = self.pieces.iter().position(|piece| piece.number == number) else {
            return Ended::Nothing;
        };
        let InFlight { read: number, into, room, .. } = self.pieces.swap_remove(at);
        let found = self.list.iter().position(|read| read.number == number);
        let at = found.expect("a piece that is waited for has a read");
        let read = &mut self.list[at];
        match code {
            0 => read.done += into.len,
            code => read.failed = read.failed.or(Some(code)),
        }
        if let Some(room) = room {
            if code == 0 {
                // SAFETY: it is ours, and the library is done with it.
                let bytes = unsafe { memory::bytes(room.span().first(into.len)) };
                // SAFETY: the read is not over, so its destination is lent.
                unsafe { memory::fill(bytes, into) };
            }
            self.rooms.push(room);
        }
        self.end_read(at)
    }

    fn end_read(&mut self, at: usize) -> Ended {
        let Read { number, peer, failed, done, into, .. } = self.list[at];
        match failed {
            None if done == into.len => Ended::Read(self.list.swap_remove(at).ticket),
            Some(code) if self.pieces.iter().all(|piece| piece.read != number) => {
                self.list.swap_remove(at);
                match self.give_up(peer, code) {
                    true => Ended::Peer(peer, code),
                    false => Ended::Nothing,
                }
            }
            _ => Ended::Nothing,
        }
    }

    /// Requests nothing more from a peer. True if nothing is in flight from it into user memory either.
    pub(super) fn give_up(&mut self, peer: Peer, code: c_int) -> bool {
        let of_peer: Vec<u32> =
            self.list.iter().filter(|read| read.peer == peer).map(|read| read.number).collect();
        let to_rooms = |piece: &mut InFlight| piece.room.is_some() && of_peer.contains(&piece.read);
        for piece in self.pieces.extract_if(.., to_rooms) {
            self.stray.extend(piece.room.map(|room| (piece.number, room)));
        }
        let pieces = &self.pieces;
        let is_written = |read: &Read| pieces.iter().any(|piece| piece.read == read.number);
        self.list.retain(|read| read.peer != peer || is_written(read));
        for read in self.list.iter_mut().filter(|read| read.peer == peer) {
            read.failed = read.failed.or(Some(code));
        }
        self.list.iter().all(|read| read.peer != peer)
    }
}

fn size(bytes: u64) -> usize {
    usize::try_from(bytes).expect("a piece fits into memory")
}

/// Pieces in flight at the same time.
const PIECES_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    /// Memory that is read, and memory that it is read into.
    struct World {
        reads: Reads,
        from: Vec<u8>,
        into: Vec<u8>,
        /// Pieces that the library was asked for and has not finished.
        asked: Vec<(u32, Span, Span)>,
        rooms: bool,
    }

    impl World {
        fn new(len: usize, rooms: bool) -> World {
            let from = (0..len).map(|at| u8::try_from(at % 251).expect("it is small")).collect();
            let (reads, into, asked) = (Reads::default(), vec![0; len], Vec::new());
            World { reads, from, into, asked, rooms }
        }

        fn begin(&mut self, ticket: u64, start: usize, len: usize) {
            let from = memory::lend(&self.from[start..start + len]);
            let into = memory::lend_mut(&mut self.into[start..start + len]);
            self.reads.begin(Peer(1), (from, Key(7)), into, Ticket::from_bits(ticket), None);
        }

        fn ask(&mut self, mut room: usize) {
            let World { reads, asked, rooms, .. } = self;
            reads.ask_by(
                100,
                *rooms,
                |_| Some(9),
                |_, number, piece, _| {
                    if room == 0 {
                        return Given::Full;
                    }
                    room -= 1;
                    let from = Span::new(memory::MEMORY, piece.at, piece.into.len);
                    asked.push((number, from, piece.into));
                    Given::Away
                },
            );
        }

        fn finish(&mut self, at: usize, code: c_int) -> Ended {
            let (number, from, into) = self.asked.remove(at);
            if code == 0 {
                // SAFETY: it is ours.
                let bytes = unsafe { memory::bytes(from) };
                // SAFETY: that, too.
                unsafe { memory::fill(bytes, into) };
            }
            self.reads.end_piece(number, code)
        }
    }

    #[test]
    fn a_read_goes_in_pieces_and_ends_with_the_last() {
        for rooms in [false, true] {
            let mut world = World::new(550, rooms);
            world.begin(0, 0, 550);
            world.ask(4);
            assert!(world.reads.stalled);
            assert_eq!(world.finish(1, 0), Ended::Nothing);
            world.ask(4);
            assert!(!world.reads.stalled);
            assert_eq!(world.asked.len(), 5);
            for _ in 0..4 {
                assert_eq!(world.finish(0, 0), Ended::Nothing);
            }
            assert_eq!(world.finish(0, 0), Ended::Read(Ticket::from_bits(0)));
            assert_eq!(world.into, world.from);
            assert!(world.reads.is_empty());
            assert_eq!(world.reads.rooms.len(), if rooms { 5 } else { 0 });
        }
    }

    #[test]
    fn memory_of_the_users_is_waited_for() {
        let mut world = World::new(450, false);
        world.begin(0, 0, 250);
        world.begin(1, 250, 100);
        world.begin(2, 350, 100);
        world.ask(3);
        assert!(world.reads.give_up(Peer(2), 5), "nothing is read from that one");
        assert!(!world.reads.give_up(Peer(1), 5), "the first is on its way");
        assert_eq!(world.reads.list.len(), 1, "what was not asked for is not waited for");
        assert_eq!(world.finish(0, 0), Ended::Nothing);
        assert_eq!(world.finish(0, 9), Ended::Nothing);
        assert_eq!(world.finish(0, 0), Ended::Peer(Peer(1), 5));
        assert!(world.reads.is_empty());
    }

    #[test]
    fn rooms_are_not_waited_for_and_what_comes_late_goes_nowhere() {
        let mut world = World::new(250, true);
        world.begin(0, 0, 250);
        world.ask(3);
        assert_eq!(world.finish(0, 0), Ended::Nothing);
        assert!(world.reads.give_up(Peer(1), 5));
        assert!(world.reads.is_empty());
        let before = world.into.clone();
        assert_eq!(world.finish(0, 0), Ended::Nothing);
        assert_eq!(world.finish(0, 9), Ended::Nothing);
        assert_eq!(world.into, before);
    }

    #[test]
    fn a_read_that_fails_loses_its_peer_once() {
        for rooms in [false, true] {
            let mut world = World::new(300, rooms);
            world.begin(0, 0, 200);
            world.begin(1, 200, 100);
            world.ask(9);
            let ended = [world.finish(0, 7), world.finish(0, 7), world.finish(0, 7)];
            let lost = ended.iter().filter(|ended| **ended == Ended::Peer(Peer(1), 7)).count();
            assert_eq!(lost, 1, "{ended:?}");
            assert!(world.reads.is_empty());
        }
    }
}
