//! How the target `frames` reads its input: events of one byte and a length each, for a NIC with open operations.

#[path = "../../crates/nic/tests/common/lent.rs"]
pub mod lent;

use ferrywire_nic::{Mask, MatchWord, Mode, Nic, Peer, Posted, RailId, Seal, Span};
use lent::{Lent, OPEN, OPEN_BYTES, Use};

pub const JOB: u32 = 7;

/// A NIC and its port.
pub struct Player {
    pub nic: Nic,
    pub port: Lent,
    pending: Vec<Posted>,
}

impl Player {
    pub fn new(me: Peer, reliable: bool) -> Player {
        let mut nic = Nic::new(me, JOB, lent::limits());
        nic.open_piece(Span::new(OPEN, 0, OPEN_BYTES));
        nic.open_counter();
        Player { nic, port: Lent::new(me, reliable), pending: Vec::new() }
    }

    /// Performs the first event of `input`, and returns the rest. None at the end.
    ///
    /// Frames get the right job, since those of other jobs are dropped before they are parsed.
    pub fn play<'a>(&mut self, input: &'a [u8]) -> Option<&'a [u8]> {
        let Player { nic, port, pending } = self;
        port.bring_own(nic);
        let [what, len, rest @ ..] = input else { return None };
        let peer = Peer(u32::from(what >> 4 & 7));
        let tag = u32::from(len & 3);
        let bytes = u64::from(*len) * 3;
        match what & 7 {
            0 => {
                let word = MatchWord::new(0, nic.me().0, tag);
                let mode = if what & 8 == 0 { Mode::Standard } else { Mode::Synchronous };
                let source = port.lend(bytes, Use::Read);
                let posted = nic.post_send(peer, word, source, mode, port);
                port.posted(posted, source);
                pending.push(posted);
            }
            1 => {
                let word = MatchWord::new(0, peer.0, tag);
                let mask = if tag == 0 { Mask::ANY_BOTH } else { Mask::EXACT };
                let into = port.lend(bytes, Use::Write);
                let posted = nic.post_receive(Some(peer), word, mask, into, port);
                port.posted(posted, into);
                pending.push(posted);
            }
            2 => {
                port.now = port.now.after(u64::from(*len) * 10_000_001);
                nic.on_timer(port);
                nic.on_room(peer, port);
                while let Some((what, ticket)) = port.next_transfer() {
                    match what {
                        Use::Read => nic.on_read(ticket, port),
                        _ => nic.on_written(ticket, port),
                    }
                }
            }
            3 if what & 8 != 0 => {
                if let Some(Posted::Pending(ticket)) = pending.pop() {
                    nic.cancel(ticket, port);
                }
            }
            4 if what & 8 != 0 => {
                let source = port.lend(bytes, Use::Read);
                let posted = nic.post_put(peer, source, OPEN, tag.into(), None, port);
                port.posted(posted, source);
            }
            _ => {
                let (bytes, rest) = rest.split_at((*len as usize).min(rest.len()));
                let frame = [&JOB.to_le_bytes(), bytes].concat();
                // The rail that leads to every other peer, or another.
                let via = RailId(u8::from(what & 0x80 != 0));
                nic.on_frame(peer, via, Seal::Intact, &frame, port);
                return Some(rest);
            }
        }
        Some(rest)
    }
}
