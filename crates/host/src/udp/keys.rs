//! Key derivation for datagrams, from the job's secret down.
//!
//! ```text
//! secret of the job --> secret of two hosts --> secret of two ranks, epoch 0 --> epoch 1 --> ...
//!                       one each way            |                                |
//!                                               key and IV                       key and IV
//! ```
//!
//! All steps are HKDF with SHA-256, and are one-way. A rank does not keep the job's secret, only those
//! between its host and others, so nothing in its memory opens what other hosts send to each other.
//!
//! A key seals in one direction between two ranks: only one rank counts, and its counter is the nonce, mixed
//! into a secret IV, as in TLS 1.3 (RFC 8446, 5.3). After [`Epochs::frames`] datagrams both ranks go on to
//! the next epoch without a message, as in its 7.2; the secret and the key of the previous epoch are wiped.

use std::fmt;

use zeroize::{Zeroize, Zeroizing};

use super::cipher::{self, Cipher};
use super::{KEY_BYTES, NONCE_BYTES, TAG_BYTES};
use crate::secret::SECRET_BYTES;

/// A secret shared by a job, by two of its hosts or by two of its ranks. It does not print itself, and is
/// wiped from memory when dropped.
pub struct Secret([u8; SECRET_BYTES]);

impl Secret {
    /// The secret of a job, from bytes drawn at random for this job alone. The caller wipes them.
    #[must_use]
    pub fn new(bytes: &[u8; SECRET_BYTES]) -> Secret {
        Secret(*bytes)
    }

    fn derive(&self, info: &[&[u8]]) -> Secret {
        let mut derived = Secret([0; SECRET_BYTES]);
        self.expand(info, &mut derived.0);
        derived
    }

    fn expand(&self, info: &[&[u8]], into: &mut [u8]) {
        cipher::expand(&self.0, info, into);
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secret(..)")
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

/// How long a key is used. All ranks of a job have the same value.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Epochs {
    /// The counter of the first datagram from one rank to another.
    pub first: u64,
    /// Datagrams sealed with one key.
    pub frames: u64,
}

impl Epochs {
    /// The value for jobs. AES-GCM permits 2^24.5 records of 16 KB under one key (RFC 8446, 5.5), and a burst
    /// has 64 KB. Tests use other values, to reach a second epoch.
    pub const USUAL: Epochs = Epochs { first: 0, frames: 1 << 22 };
}

/// The secrets that the ranks of one host share with those of each other host, one for each direction.
pub struct Keyring {
    outward: Box<[Secret]>,
    inward: Box<[Secret]>,
    epochs: Epochs,
}

impl Keyring {
    /// The keyring for the ranks of host `own`, one of `hosts`.
    #[must_use]
    pub fn new(secret: &Secret, own: u32, hosts: u32, epochs: Epochs) -> Keyring {
        let between = |from: u32, to: u32| {
            secret.derive(&[LABEL, b"hosts", &from.to_le_bytes(), &to.to_le_bytes()])
        };
        Keyring {
            outward: (0..hosts).map(|to| between(own, to)).collect(),
            inward: (0..hosts).map(|from| between(from, own)).collect(),
            epochs,
        }
    }

    /// How long each key is used.
    #[must_use]
    pub fn epochs(&self) -> Epochs {
        self.epochs
    }

    /// The chain with which our rank `source` seals for a local rank of another host.
    #[must_use]
    pub fn to(&self, host: u32, source: u32, local_rank: u16) -> Chain {
        self.chain(&self.outward[host as usize], source, local_rank)
    }

    /// The chain with which rank `source` of another host seals for a local rank of ours.
    #[must_use]
    pub fn from(&self, host: u32, source: u32, local_rank: u16) -> Chain {
        self.chain(&self.inward[host as usize], source, local_rank)
    }

    fn chain(&self, hosts: &Secret, source: u32, local_rank: u16) -> Chain {
        let info: [&[u8]; 4] = [LABEL, b"ranks", &source.to_le_bytes(), &local_rank.to_le_bytes()];
        let Epochs { first, frames } = self.epochs;
        Chain { secret: hosts.derive(&info), first, frames }
    }
}

/// One direction between two ranks, in one epoch.
#[derive(Debug)]
pub struct Chain {
    secret: Secret,
    /// The first counter of the epoch.
    pub(super) first: u64,
    frames: u64,
}

impl Chain {
    pub(super) fn key(&self) -> Box<Key> {
        let mut made = Zeroizing::new([0; KEY_BYTES + NONCE_BYTES]);
        self.secret.expand(&[LABEL, b"key"], &mut *made);
        let (key, iv) = made.split_first_chunk().expect("a key is shorter");
        // In a box, so that moving it leaves no copies behind.
        let iv = *iv.first_chunk().expect("the rest is an IV");
        Box::new(Key { cipher: Cipher::new(key), iv })
    }

    /// The next epoch. `None` if the counters run out.
    pub(super) fn next(&self) -> Option<Chain> {
        let first = self.first.checked_add(self.frames)?;
        Some(Chain { secret: self.secret.derive(&[LABEL, b"next"]), first, frames: self.frames })
    }

    /// The epoch of a counter, relative to this one.
    #[inline(always)]
    pub(super) fn epoch_of(&self, counter: u64) -> Epoch {
        match counter.checked_sub(self.first) {
            Some(ahead) if ahead < self.frames => Epoch::This,
            Some(ahead) if ahead - self.frames < self.frames => Epoch::Next,
            None if self.first - counter <= self.frames => Epoch::Before,
            _ => Epoch::Far,
        }
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Epoch {
    Before,
    This,
    Next,
    /// Any other epoch.
    Far,
}

/// The key of an epoch, and its IV.
pub(super) struct Key {
    cipher: Cipher,
    iv: [u8; NONCE_BYTES],
}

impl Key {
    #[inline]
    pub(super) fn seal(&self, counter: u64, clear: &[u8], bytes: &mut [u8]) -> [u8; TAG_BYTES] {
        self.cipher.seal(&self.nonce(counter), clear, bytes)
    }

    #[inline]
    pub(super) fn open(
        &self,
        counter: u64,
        clear: &[u8],
        bytes: &mut [u8],
        tag: &[u8; TAG_BYTES],
    ) -> bool {
        self.cipher.open(&self.nonce(counter), clear, bytes, tag)
    }

    #[inline(always)]
    fn nonce(&self, counter: u64) -> [u8; NONCE_BYTES] {
        let mut nonce = self.iv;
        let mixed = nonce.last_chunk_mut().expect("it is longer than a counter");
        *mixed = (u64::from_be_bytes(*mixed) ^ counter).to_be_bytes();
        nonce
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        self.iv.zeroize();
    }
}

/// The label of every derivation: version 2 of the datagram format.
const LABEL: &[u8] = b"ferrywire udp 2 ";

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn ring(own: u32) -> Keyring {
        Keyring::new(&Secret::new(&[7; SECRET_BYTES]), own, 3, Epochs { first: 0, frames: 10 })
    }

    #[test]
    fn both_ends_derive_the_same_and_no_other_direction_has_it() {
        let rings = [0, 1, 2].map(ring);
        let mut all = HashSet::new();
        for (own, ring) in (0..).zip(&rings) {
            for to in (0..3).filter(|&to| to != own) {
                for (source, local_rank) in [(0, 0), (0, 1), (1, 0), (256, 0), (0, 256)] {
                    let sealing = ring.to(to, source, local_rank);
                    let opening = rings[to as usize].from(own, source, local_rank);
                    assert_eq!(sealing.secret.0, opening.secret.0);
                    assert!(
                        all.insert(sealing.secret.0),
                        "{own} to {to}: {source} to {local_rank}"
                    );
                }
            }
        }
    }

    #[test]
    fn no_epoch_has_the_key_or_the_iv_of_another() {
        let (mut chain, mut seen) = (ring(0).to(1, 0, 0), HashSet::new());
        for epoch in 0..1000 {
            assert_eq!(chain.first, epoch * 10);
            let (key, mut bytes) = (chain.key(), [0; 16]);
            key.seal(0, &[], &mut bytes);
            assert!(seen.insert(bytes.to_vec()) && seen.insert(key.iv.to_vec()), "epoch {epoch}");
            assert!(seen.insert(chain.secret.0.to_vec()), "epoch {epoch}");
            chain = chain.next().expect("there are counters");
        }
    }

    #[test]
    fn epochs_are_told_apart_up_to_the_last_counter() {
        let epochs = Epochs { first: u64::MAX - 24, frames: 10 };
        let ring = Keyring::new(&Secret::new(&[7; SECRET_BYTES]), 0, 2, epochs);
        let first = ring.to(1, 0, 0);
        let second = first.next().expect("there are counters");
        let third = second.next().expect("there are some");
        assert!(third.next().is_none(), "and then there are none");
        let at = |chain: &Chain, ahead: u64| chain.epoch_of(u64::MAX - 24 + ahead);
        use Epoch::{Before, Far, Next, This};
        let ahead = [0, 9, 10, 19, 20, 24];
        assert_eq!(ahead.map(|ahead| at(&first, ahead)), [This, This, Next, Next, Far, Far]);
        assert_eq!(ahead.map(|ahead| at(&second, ahead)), [Before, Before, This, This, Next, Next]);
        assert_eq!(ahead.map(|ahead| at(&third, ahead)), [Far, Far, Before, Before, This, This]);
        assert_eq!([0, u64::MAX / 2].map(|counter| third.epoch_of(counter)), [Far; 2]);
    }

    /// The counter is mixed into an IV, and each counter gives another nonce.
    #[test]
    fn nonces_are_as_unique_as_counters() {
        let key = ring(0).to(1, 0, 0).key();
        let counters = [0, 1, 1 << 24, u64::from(u32::MAX), 1 << 32, u64::MAX];
        let nonces: HashSet<_> = counters.iter().map(|&counter| key.nonce(counter)).collect();
        assert_eq!(nonces.len(), counters.len());
        assert_ne!(key.iv, [0; NONCE_BYTES]);
    }

    #[test]
    fn a_secret_does_not_print_itself() {
        assert_eq!(format!("{:?}", Secret::new(&[7; SECRET_BYTES])), "Secret(..)");
    }
}
