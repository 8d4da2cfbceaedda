//! Any frames may reach a NIC that has things open, on rails of both sorts and from anybody: none may cause a panic,
//! and none may touch a span that nobody has lent.
//!
//! The input is read as events of one byte and a length each. Bytes that arrive are given the right
//! job, since what is not ours is dropped before it is looked at.
#![no_main]

#[path = "../../crates/nic/tests/common/lent.rs"]
mod lent;

use ferrywire_nic::{Limits, Mask, MatchWord, Mode, Nic, Peer, Posted, RailId, Seal};
use lent::{Lent, OPEN, OPEN_BYTES, Use};
use libfuzzer_sys::fuzz_target;

const JOB: u32 = 7;

fuzz_target!(|input: &[u8]| {
    let Some((&first, mut rest)) = input.split_first() else { return };
    let limits = Limits {
        unexpected_bytes_max: 4096,
        eager_bytes_max: 256,
        credit_bytes: 1024,
        early_bytes_max: 1000,
        // Short, so that peers part and are forgotten within a few events.
        silence_ns_max: 1_000_000_000,
        idle_ns_max: 2_000_000_000,
        ..Limits::default()
    };
    let mut port = Lent::new(first & 1 == 0);
    let mut nic: Nic = Nic::new(Peer(0), JOB, limits);
    nic.open_region(OPEN, OPEN_BYTES);
    let mut pending = Vec::new();
    nic.open_counter();
    while let [what, len, tail @ ..] = rest {
        let peer = Peer(u32::from(what >> 4 & 7));
        let tag = u32::from(len & 3);
        let bytes = u64::from(*len) * 3;
        rest = tail;
        match what & 7 {
            0 => {
                let word = MatchWord::new(0, 0, tag);
                let mode = if what & 8 == 0 { Mode::Standard } else { Mode::Synchronous };
                let source = port.lend(bytes, Use::Read);
                let posted = nic.post_send(peer, word, source, mode, &mut port);
                port.posted(posted, source);
                pending.push(posted);
            }
            1 => {
                let word = MatchWord::new(0, peer.0, tag);
                let mask = if tag == 0 { Mask::ANY_BOTH } else { Mask::EXACT };
                let into = port.lend(bytes, Use::Write);
                let posted = nic.post_receive(Some(peer), word, mask, into, &mut port);
                port.posted(posted, into);
                pending.push(posted);
            }
            2 => {
                port.now = port.now.after(u64::from(*len) * 10_000_001);
                nic.on_timer(&mut port);
                nic.on_room(peer, &mut port);
                while let Some((what, ticket)) = port.next_transfer() {
                    match what {
                        Use::Read => nic.on_read(ticket, &mut port),
                        _ => nic.on_written(ticket, &mut port),
                    }
                }
            }
            3 if what & 8 != 0 => {
                if let Some(Posted::Pending(ticket)) = pending.pop() {
                    nic.cancel(ticket, &mut port);
                }
            }
            4 if what & 8 != 0 => {
                let source = port.lend(bytes, Use::Read);
                let posted = nic.post_put(peer, source, OPEN, tag.into(), None, &mut port);
                port.posted(posted, source);
            }
            _ => {
                let (bytes, after) = tail.split_at((*len as usize).min(tail.len()));
                rest = after;
                let frame = [&JOB.to_le_bytes(), bytes].concat();
                // The rail that leads to every peer, or another.
                let via = RailId(u8::from(what & 0x80 != 0));
                nic.on_frame(peer, via, Seal::Intact, &frame, &mut port);
            }
        }
    }
    let held = nic.holdings();
    assert!(nic.is_within_budget());
    let set_aside: u32 = held.stores.iter().map(|store| store.reserved).sum();
    assert_eq!(set_aside, held.promised, "what is set aside is for somebody");
    for store in held.stores {
        assert_eq!(store.stored, store.used);
    }
});
