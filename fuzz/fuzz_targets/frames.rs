//! Any frames may reach a NIC that has things open, on rails of both sorts: none may cause a panic.
//!
//! The input is read as events of one byte and a length each. Bytes that arrive are given the right
//! job, since what is not ours is dropped before it is looked at.
#![no_main]

use ferrywire_nic::{
    Envelope, Key, Limits, Mask, MatchWord, Mode, Nic, Operator, Outcome, Peer, Port, Progress,
    Promises, Region, Seal, Sent, Span, StepRef, Ticket, Time,
};
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
    let mut port = Void { now: Time(0), reliable: first & 1 == 0 };
    let mut nic: Nic = Nic::new(Peer(0), JOB, limits);
    nic.open_region(Region(1), 1000);
    nic.open_counter();
    while let [what, len, tail @ ..] = rest {
        let peer = Peer(u32::from(what >> 4 & 7));
        let tag = u32::from(len & 3);
        let span = Span::new(Region(1), 0, u64::from(*len) * 3);
        rest = tail;
        match what & 7 {
            0 => {
                let word = MatchWord::new(0, 0, tag);
                nic.post_send(peer, word, span, Mode::Standard, &mut port);
            }
            1 => {
                let word = MatchWord::new(0, peer.0, tag);
                let mask = if tag == 0 { Mask::ANY_BOTH } else { Mask::EXACT };
                nic.post_receive(Some(peer), word, mask, span, &mut port);
            }
            2 => {
                port.now = port.now.after(u64::from(*len) * 10_000_001);
                nic.on_timer(&mut port);
                nic.on_room(peer, &mut port);
            }
            _ => {
                let (bytes, after) = tail.split_at((*len as usize).min(tail.len()));
                rest = after;
                let frame = [&JOB.to_le_bytes(), bytes].concat();
                nic.on_frame(peer, Seal::Intact, &frame, &mut port);
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

/// A port that does nothing.
struct Void {
    now: Time,
    reliable: bool,
}

impl Port for Void {
    fn now(&self) -> Time {
        self.now
    }

    fn attends(&self, peer: Peer) -> bool {
        peer.0 % 2 == 0
    }

    fn promises(&self, peer: Peer) -> Promises {
        let direct = peer == Peer(2);
        Promises {
            reliable: self.reliable,
            puts: direct,
            gets: direct,
            frame_bytes_max: 500,
            welcome_bytes: 0,
        }
    }

    fn transmit(&mut self, to: Peer, _: &Envelope, _: Span) -> Sent {
        if to == Peer(1) && self.now.0 % 2 == 1 { Sent::Full } else { Sent::Away }
    }

    fn deliver(&mut self, bytes: &[u8], into: Span) {
        assert_eq!(bytes.len() as u64, into.len);
    }

    fn load(&mut self, from: Span, into: &mut [u8]) {
        assert_eq!(into.len() as u64, from.len);
    }

    fn copy(&mut self, from: Span, into: Span) {
        assert_eq!(from.len, into.len);
    }

    fn reduce(&mut self, _: StepRef, _: Operator, _: Span, _: Span) -> Progress {
        Progress::Done
    }

    fn accumulate(&mut self, _: Operator, bytes: &[u8], into: Span) {
        assert_eq!(bytes.len() as u64, into.len);
    }

    fn compare_swap(&mut self, _: Span, expected: u64, _: u64) -> u64 {
        expected
    }

    fn put(&mut self, _: Peer, from: Span, into: Span, _: Ticket, _: Ticket) {
        assert_eq!(from.len, into.len);
    }

    fn expose(&mut self, _: Peer, span: Span, _: Ticket) -> Key {
        if span.len % 2 == 0 { Key(span.len) } else { Key::NONE }
    }

    fn conceal(&mut self, _: Ticket) {}

    fn get(&mut self, _: Peer, from: Span, _: Key, into: Span, _: Ticket) {
        assert_eq!(from.len, into.len);
    }

    fn claim(&mut self, bytes: u64) -> Span {
        Span::new(Region(0), 0, bytes)
    }

    fn release(&mut self, _: Span) {}

    fn complete(&mut self, _: Ticket, _: Outcome) {}

    fn arm(&mut self, _: Option<Time>) {}
}
