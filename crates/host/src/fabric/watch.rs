//! Peers that we have sent to and not heard from since. The library may take a quarter of an hour to notice a
//! cut cable, so a silent peer is asked for a sign of life, and given up if it does not answer.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::time::{Duration, Instant};

use ferrywire_nic::{Mix, Peer};

/// The silent peers of a rank.
pub(super) struct SilenceWatch {
    /// When peers were last checked.
    looked: Instant,
    /// Peers that owe a sign of life.
    silent: HashMap<Peer, Silence, BuildHasherDefault<Mix>>,
    /// The peer that we last sent to: most often the next one is the same.
    last: Option<Peer>,
}

#[derive(Clone, Copy)]
struct Silence {
    since: Instant,
    /// It was asked after we last sent to it: anything heard since is an answer.
    asked: bool,
}

/// What to do about a peer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Concern {
    Ask(Peer),
    GiveUp(Peer),
}

impl SilenceWatch {
    pub(super) fn new(now: Instant) -> SilenceWatch {
        SilenceWatch { looked: now, silent: HashMap::default(), last: None }
    }

    /// Notes that something was sent to a peer, from which an answer is due.
    #[inline(always)]
    pub(super) fn on_spoken(&mut self, to: Peer) {
        if self.last != Some(to) {
            self.note(to);
        }
    }

    #[inline(never)]
    fn note(&mut self, peer: Peer) {
        self.last = Some(peer);
        self.expect(peer);
    }

    /// Notes that something is expected from a peer.
    pub(super) fn expect(&mut self, peer: Peer) {
        // Counted from the last check: its actual silence may be a little shorter.
        let silence = Silence { since: self.looked, asked: false };
        self.silent.entry(peer).or_insert(silence).asked = false;
    }

    /// Whether any peer owes a sign of life.
    pub(super) fn is_waiting(&self) -> bool {
        !self.silent.is_empty()
    }

    /// Whether it is time for [`SilenceWatch::look`].
    pub(super) fn is_due(&self, now: Instant) -> bool {
        now.duration_since(self.looked) >= PERIOD
    }

    /// Checks all peers; `heard` are those heard since the last check.
    pub(super) fn look(&mut self, now: Instant, heard: Vec<Peer>) -> Vec<Concern> {
        self.looked = now;
        self.last = None;
        for peer in heard {
            match self.silent.get_mut(&peer) {
                // What was heard may have been sent before we spoke.
                Some(silence) if !silence.asked => silence.since = now,
                _ => drop(self.silent.remove(&peer)),
            }
        }
        let mut concerns = Vec::new();
        self.silent.retain(|&peer, silence| {
            let hopeless = now.duration_since(silence.since) >= SILENCE_MAX;
            concerns.push(if hopeless { Concern::GiveUp(peer) } else { Concern::Ask(peer) });
            silence.asked = true;
            !hopeless
        });
        concerns
    }
}

/// How often peers are checked.
pub(super) const PERIOD: Duration = Duration::from_secs(1);
/// The same limit as the NIC's for peers on the UDP rail.
pub(super) const SILENCE_MAX: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_peer_is_asked_and_then_given_up() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut watch = SilenceWatch::new(start);
        watch.on_spoken(Peer(3));
        assert!(!watch.is_due(start) && watch.is_due(at(1)));
        for second in 1..10 {
            assert_eq!(watch.look(at(second), Vec::new()), [Concern::Ask(Peer(3))]);
        }
        assert!(watch.is_waiting());
        assert_eq!(watch.look(at(10), Vec::new()), [Concern::GiveUp(Peer(3))]);
        assert!(!watch.is_waiting());
        assert_eq!(watch.look(at(11), Vec::new()), []);
    }

    #[test]
    fn a_peer_that_answers_is_not_asked_until_the_next_message() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut watch = SilenceWatch::new(start);
        for round in 0..100 {
            watch.on_spoken(Peer(1));
            watch.on_spoken(Peer(1));
            assert_eq!(watch.look(at(2 * round + 1), Vec::new()), [Concern::Ask(Peer(1))]);
            assert_eq!(watch.look(at(2 * round + 2), vec![Peer(1), Peer(7)]), []);
            assert!(!watch.is_waiting());
        }
    }

    #[test]
    fn what_was_heard_before_it_was_spoken_to_is_no_answer() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut watch = SilenceWatch::new(start);
        watch.on_spoken(Peer(1));
        // It was heard and then spoken to, or the other way round.
        assert_eq!(watch.look(at(1), vec![Peer(1)]), [Concern::Ask(Peer(1))]);
        assert_eq!(watch.look(at(2), Vec::new()), [Concern::Ask(Peer(1))]);
        // It answers, and is spoken to again.
        watch.on_spoken(Peer(1));
        assert_eq!(watch.look(at(3), vec![Peer(1)]), [Concern::Ask(Peer(1))]);
        for second in 4..13 {
            assert_eq!(watch.look(at(second), Vec::new()), [Concern::Ask(Peer(1))]);
        }
        assert_eq!(watch.look(at(13), Vec::new()), [Concern::GiveUp(Peer(1))]);
    }
}
