//! Writes the seeds of all targets: real traffic.
//!
//!     RUSTFLAGS='--cfg fuzzing' cargo run --manifest-path fuzz/Cargo.toml --bin seeds

mod played;

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::Path;

use ferrywire_nic::Peer;
use played::{JOB, Player};

fn main() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds");
    let mut numbers: HashMap<&str, u32> = HashMap::new();
    for (target, bytes) in ferrywire_host::fuzzed::seeds().into_iter().chain(frames()) {
        let number = numbers.entry(target).or_default();
        let place = folder.join(target);
        fs::create_dir_all(&place).expect("a folder");
        fs::write(place.join(format!("{number:02}")), bytes).expect("written");
        *number += 1;
    }
}

/// The traffic between two NICs, for both targets that read frames.
fn frames() -> Vec<(&'static str, Vec<u8>)> {
    // A long message before its receive, and after it; short ones, also synchronous and cancelled; puts.
    let stories: [&[(u8, &[u8])]; 5] = [
        &[(1, &[SEND, 9]), (0, &[RECEIVE, 9])],
        &[(0, &[SEND_SYNCHRONOUS, 21]), (1, &[RECEIVE, 21]), (0, &[SEND, 33])],
        &[(1, &[SEND, 201]), (0, &[RECEIVE, 201]), (0, &[RECEIVE, 250]), (1, &[SEND, 250])],
        &[
            (0, &[SEND, 255]),
            (1, &[RECEIVE, 255]),
            (0, &[CANCEL, 0]),
            (0, &[SEND, 202]),
            (0, &[CANCEL, 0]),
        ],
        &[(0, &[PUT, 40]), (1, &[PUT, 200]), (0, &[SEND, 10])],
    ];
    let (mut seeds, mut kinds) = (Vec::new(), BTreeSet::new());
    for reliable in [true, false] {
        for story in stories {
            let (input, frames) = told(story, reliable);
            seeds.push(("frames", input));
            // For the target that reads single frames, one of each kind and rail is enough.
            let new = frames.into_iter().filter(|frame| kinds.insert((reliable, frame[4])));
            seeds.extend(new.collect::<Vec<_>>().into_iter().map(|frame| ("envelope", frame)));
        }
    }
    seeds
}

/// Runs a story on two NICs. Returns the events of the first one, as input of the target, and all frames.
fn told(story: &[(u8, &[u8])], reliable: bool) -> (Vec<u8>, Vec<Vec<u8>>) {
    let mut players = [0, 1].map(|me| Player::new(Peer(me), reliable));
    players.iter_mut().for_each(|player| player.port.sent = Some(Vec::new()));
    let (mut input, mut all) = (vec![u8::from(!reliable)], Vec::new());
    // Two ticks at the end, for delayed acknowledgements.
    let ticks = [(0, &[TICK, 2][..]), (1, &[TICK, 2]), (0, &[TICK, 20]), (1, &[TICK, 20])];
    for (whom, event) in story.iter().copied().chain(ticks) {
        happen(&mut players[usize::from(whom)], whom, event, &mut input);
        // Until both are silent.
        loop {
            let mut said = false;
            for (from, to) in [(0, 1), (1, 0)] {
                let frames = players[from].port.sent.replace(Vec::new()).unwrap_or_default();
                for (_, frame) in frames {
                    let bytes = frame.strip_prefix(&JOB.to_le_bytes()).expect("of this job");
                    let len = u8::try_from(bytes.len()).expect("a frame fits into an event");
                    let event = [&[FRAME, len], bytes].concat();
                    let whom = u8::try_from(to).expect("0 or 1");
                    happen(&mut players[to], whom, &event, &mut input);
                    all.push(frame);
                    said = true;
                }
            }
            if !said {
                break;
            }
        }
    }
    (input, all)
}

/// Performs an event whose peer is the other NIC.
fn happen(player: &mut Player, whom: u8, event: &[u8], input: &mut Vec<u8>) {
    let mut event = event.to_vec();
    event[0] |= (1 - whom) << 4;
    assert_eq!(player.play(&event), Some(&[][..]), "one event");
    if whom == 0 {
        input.extend(event);
    }
}

/// Events of [`Player::play`].
const SEND: u8 = 0;
const SEND_SYNCHRONOUS: u8 = 8;
const RECEIVE: u8 = 1;
const TICK: u8 = 2;
const CANCEL: u8 = 3 | 8;
const PUT: u8 = 4 | 8;
const FRAME: u8 = 5;
