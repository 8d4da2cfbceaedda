//! Any frames to a NIC with open operations, on rails of both kinds and from any peer: none may cause a panic, and none
//! may touch a span that is not lent.
#![no_main]

mod played;

use ferrywire_nic::Peer;
use libfuzzer_sys::fuzz_target;
use played::Player;

fuzz_target!(|input: &[u8]| {
    let Some((&first, mut rest)) = input.split_first() else { return };
    let mut player = Player::new(Peer(0), first & 1 == 0);
    while let Some(after) = player.play(rest) {
        rest = after;
    }
    let held = player.nic.holdings();
    assert!(player.nic.is_within_budget());
    let set_aside: u32 = held.stores.iter().map(|store| store.reserved).sum();
    assert_eq!(set_aside, held.promised, "what is set aside is for somebody");
    for store in held.stores {
        assert_eq!(store.stored, store.used);
    }
});
