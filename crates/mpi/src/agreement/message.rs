//! Messages between agreement services, as bytes. All numbers are little-endian.

use super::{Ballot, Decision, Key};
use crate::numbers::COMMS_MAX;

/// A message between two agreement services.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Message {
    pub(super) key: Key,
    /// Which agreement of the communicator.
    pub(super) sequence: u32,
    pub(super) say: Say,
}

/// The content of a message.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Say {
    /// The communicator is revoked.
    Revoked,
    /// To the leader: our ballot, and the latest proposal that we have kept, with the rank that made it.
    Joined { ballot: Ballot, kept: Option<(u32, Decision)> },
    /// From the leader: its proposal, to be kept.
    Proposed(Decision),
    /// To the leader: we have kept its proposal.
    Accepted,
    /// From the leader: the decision.
    Declared(Decision),
}

const REVOKED: u8 = 1;
const JOINED: u8 = 2;
const PROPOSED: u8 = 3;
const ACCEPTED: u8 = 4;
const DECLARED: u8 = 5;

/// The longest message: a ballot and a decision, with all ranks in every list.
pub(super) fn bytes_max(size: u32) -> usize {
    64 + 2 * 8 * (COMMS_MAX / 64 + 2) + 3 * 4 * size as usize
}

impl Message {
    pub(super) fn emit(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(64);
        bytes.push(match self.say {
            Say::Revoked => REVOKED,
            Say::Joined { .. } => JOINED,
            Say::Proposed(_) => PROPOSED,
            Say::Accepted => ACCEPTED,
            Say::Declared(_) => DECLARED,
        });
        bytes.extend(self.key.number.to_le_bytes());
        bytes.extend(self.key.stamp.to_le_bytes());
        bytes.extend(self.sequence.to_le_bytes());
        match &self.say {
            Say::Revoked | Say::Accepted => {}
            Say::Joined { ballot, kept } => {
                put_words(&mut bytes, &ballot.words);
                put_ranks(&mut bytes, &ballot.failed);
                put_ranks(&mut bytes, &ballot.acknowledged);
                if let Some((leader, decision)) = kept {
                    bytes.extend(leader.to_le_bytes());
                    put_decision(&mut bytes, decision);
                }
            }
            Say::Proposed(decision) | Say::Declared(decision) => put_decision(&mut bytes, decision),
        }
        bytes
    }

    /// Parses a message. None if malformed.
    pub(super) fn parse(bytes: &[u8]) -> Option<Message> {
        let mut rest = Reader(bytes);
        let [kind] = rest.take()?;
        let number = u16::from_le_bytes(rest.take()?);
        let stamp = u64::from_le_bytes(rest.take()?);
        let sequence = rest.u32()?;
        let say = match kind {
            REVOKED => Say::Revoked,
            JOINED => {
                let words = rest.words()?;
                let (failed, acknowledged) = (rest.ranks()?, rest.ranks()?);
                let ballot = Ballot { words, failed, acknowledged };
                let kept = match rest.0 {
                    [] => None,
                    _ => Some((rest.u32()?, rest.decision()?)),
                };
                Say::Joined { ballot, kept }
            }
            PROPOSED => Say::Proposed(rest.decision()?),
            ACCEPTED => Say::Accepted,
            DECLARED => Say::Declared(rest.decision()?),
            _ => return None,
        };
        rest.0.is_empty().then_some(Message { key: Key { number, stamp }, sequence, say })
    }
}

fn put_words(bytes: &mut Vec<u8>, words: &[u64]) {
    put_count(bytes, words.len());
    bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
}

fn put_ranks(bytes: &mut Vec<u8>, ranks: &[u32]) {
    put_count(bytes, ranks.len());
    bytes.extend(ranks.iter().flat_map(|rank| rank.to_le_bytes()));
}

fn put_decision(bytes: &mut Vec<u8>, decision: &Decision) {
    put_words(bytes, &decision.words);
    put_ranks(bytes, &decision.failed);
    bytes.push(u8::from(decision.is_news));
}

fn put_count(bytes: &mut Vec<u8>, count: usize) {
    bytes.extend(
        u32::try_from(count).expect("lists are no longer than there are ranks").to_le_bytes(),
    );
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*head)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    /// Reads how many items of `bytes` each follow: no more than there is room for.
    fn count(&mut self, bytes: usize) -> Option<u32> {
        self.u32().filter(|&count| count as usize <= self.0.len() / bytes)
    }

    fn words(&mut self) -> Option<Vec<u64>> {
        (0..self.count(8)?).map(|_| self.take().map(u64::from_le_bytes)).collect()
    }

    fn ranks(&mut self) -> Option<Vec<u32>> {
        (0..self.count(4)?).map(|_| self.u32()).collect()
    }

    fn decision(&mut self) -> Option<Decision> {
        let (words, failed, [is_news]) = (self.words()?, self.ranks()?, self.take()?);
        Some(Decision { words, failed, is_news: is_news != 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_understood_and_nothing_else_is() {
        let key = Key { number: 7, stamp: 0x1234_5678_9abc };
        let decision = Decision { words: vec![!0, 5], failed: vec![3, 9], is_news: true };
        let ballot = Ballot { words: vec![1], failed: vec![3], acknowledged: vec![] };
        let says = [
            Say::Revoked,
            Say::Joined { ballot: ballot.clone(), kept: None },
            Say::Joined { ballot, kept: Some((2, decision.clone())) },
            Say::Proposed(decision.clone()),
            Say::Accepted,
            Say::Declared(decision),
        ];
        for say in says {
            let message = Message { key, sequence: 4, say };
            let bytes = message.emit();
            assert_eq!(Message::parse(&bytes), Some(message));
            for at in 0..bytes.len() {
                let _ = Message::parse(&bytes[..at]);
                let mut changed = bytes.clone();
                changed[at] ^= 0xff;
                let _ = Message::parse(&changed);
            }
        }
        assert_eq!(Message::parse(&[]), None);
    }
}
