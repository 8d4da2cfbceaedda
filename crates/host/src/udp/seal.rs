//! Frames as datagrams that no process outside the job can read or forge.
//!
//! ```text
//! 0            2         3       4             8              16
//! | local rank | version | form  | source      | counter      | ciphertext ...  | tag, 16 bytes |
//! | BE         | 2       |       | rank, LE    | LE           |                 |
//! ```
//!
//! Source and local rank select the key, the counter its epoch (see [`keys`](super::keys)). A datagram that
//! claims an impossible epoch is rejected at no cost; one that claims the next epoch costs the derivation of
//! that key, which is kept only if it opens the datagram.

use std::ops::Range;

use super::keys::{Chain, Epoch, Epochs, Key};
use super::replay::REPLAY_WINDOW;

/// Length of the header before a frame.
pub const HEADER_BYTES: usize = 16;
/// Length of the tag after a sealed frame.
pub const TAG_BYTES: usize = super::TAG_BYTES;
/// The only version understood. In version 1 a host had one key for everything that it received.
const VERSION: u8 = 2;

/// How a datagram is protected.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Form {
    /// Encrypted, with a tag.
    Sealed,
    /// Only a header, which wakes its receiver. It proves nothing, and its receiver believes nothing in it.
    Wakeup,
    /// A header and the bare frame, in a job started with `--insecure`.
    Plain,
}

/// The header before a frame, in clear.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct DatagramHeader {
    /// The receiver's local rank. The kernel steers by it.
    pub local_rank: u16,
    /// How the rest is protected.
    pub form: Form,
    /// The sender's rank.
    pub source: u32,
    /// From a [`Counter`].
    pub counter: u64,
}

impl DatagramHeader {
    /// Parses the header of a datagram. `None` if it is too short or unknown.
    #[must_use]
    pub fn parse(datagram: &[u8]) -> Option<DatagramHeader> {
        let [s0, s1, VERSION, form, r0, r1, r2, r3, counter @ ..] =
            *datagram.first_chunk::<HEADER_BYTES>()?
        else {
            return None;
        };
        let form = match form {
            0 => Form::Sealed,
            1 => Form::Wakeup,
            2 => Form::Plain,
            _ => return None,
        };
        Some(DatagramHeader {
            local_rank: u16::from_be_bytes([s0, s1]),
            form,
            source: u32::from_le_bytes([r0, r1, r2, r3]),
            counter: u64::from_le_bytes(counter),
        })
    }

    /// The header as bytes.
    #[must_use]
    pub fn emit(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..2].copy_from_slice(&self.local_rank.to_be_bytes());
        bytes[2] = VERSION;
        bytes[3] = match self.form {
            Form::Sealed => 0,
            Form::Wakeup => 1,
            Form::Plain => 2,
        };
        bytes[4..8].copy_from_slice(&self.source.to_le_bytes());
        bytes[8..].copy_from_slice(&self.counter.to_le_bytes());
        bytes
    }
}

/// Counts the datagrams that one rank sends to another.
#[derive(Debug)]
pub struct Counter {
    next: Option<u64>,
}

impl Counter {
    /// Starts at the first counter.
    #[must_use]
    pub fn new(epochs: Epochs) -> Counter {
        Counter { next: Some(epochs.first) }
    }

    /// Counts one datagram and returns its number. `None` after the last number: no number is used twice.
    #[must_use]
    pub fn count(&mut self) -> Option<u64> {
        let counter = self.next?;
        self.next = counter.checked_add(1);
        Some(counter)
    }
}

/// Seals the datagrams of one rank to another.
pub struct Sealer {
    chain: Chain,
    key: Box<Key>,
    /// The lowest counter that may be sealed next.
    next: Option<u64>,
}

impl Sealer {
    /// A sealer for the first epoch. There must be no other for the same two ranks: it would reuse nonces.
    #[must_use]
    pub fn new(chain: Chain) -> Sealer {
        let (key, next) = (chain.key(), Some(chain.first));
        Sealer { chain, key, next }
    }

    /// Seals a datagram in place: the frame is in the middle of `datagram`, with room for [`HEADER_BYTES`]
    /// before it and for [`TAG_BYTES`] after it.
    ///
    /// The first datagram of an epoch costs a few microseconds for the key.
    ///
    /// # Panics
    /// If there is no room, the header is not that of a sealed datagram, or its counter is not higher than all before.
    pub fn seal(&mut self, header: &DatagramHeader, datagram: &mut [u8]) {
        assert!(header.form == Form::Sealed, "what is sealed says so");
        self.seal_behind(header.emit(), header.counter, datagram);
    }

    /// Like [`Sealer::seal`], with a header that has more to say.
    ///
    /// # Panics
    /// If there is no room, or the counter is not higher than all before.
    pub(super) fn seal_behind(
        &mut self,
        clear: [u8; HEADER_BYTES],
        counter: u64,
        datagram: &mut [u8],
    ) {
        assert!(self.next.is_some_and(|next| next <= counter), "no counter comes twice");
        self.next = counter.checked_add(1);
        while self.chain.epoch_of(counter) != Epoch::This {
            self.go_on();
        }
        let (head, rest) = datagram.split_first_chunk_mut().expect("room for the header");
        let (frame, tag) = rest.split_last_chunk_mut::<TAG_BYTES>().expect("room for the tag");
        *head = clear;
        *tag = self.key.seal(counter, head, frame);
    }

    #[cold]
    fn go_on(&mut self) {
        self.chain = self.chain.next().expect("a counter is in some epoch");
        self.key = self.chain.key();
    }
}

/// Opens the datagrams of one rank to another.
pub struct Opener {
    chain: Chain,
    key: Box<Key>,
    /// The key of the previous epoch, as long as datagrams of it may be late.
    before: Option<Box<Key>>,
}

impl Opener {
    /// An opener for the first epoch.
    #[must_use]
    pub fn new(chain: Chain) -> Opener {
        Opener { key: chain.key(), chain, before: None }
    }

    /// Opens a datagram with this header in place and returns the range of its frame. `None` if it is not
    /// genuine; then its contents are lost. Repeats open as well: see [`replay`](super::replay).
    #[must_use]
    #[inline]
    pub fn open(&mut self, header: &DatagramHeader, datagram: &mut [u8]) -> Option<Range<usize>> {
        let (head, rest) = datagram.split_first_chunk_mut::<HEADER_BYTES>()?;
        let (frame, tag) = rest.split_last_chunk_mut::<TAG_BYTES>()?;
        let (counter, plain) = (header.counter, HEADER_BYTES..HEADER_BYTES + frame.len());
        match self.chain.epoch_of(counter) {
            Epoch::This => {
                if !self.key.open(counter, head, frame, tag) {
                    return None;
                }
                // Any datagram of the previous epoch is now too old for the replay window.
                if self.before.is_some() && counter - self.chain.first >= REPLAY_WINDOW {
                    self.before = None;
                }
            }
            Epoch::Before => {
                let key = self.before.as_ref()?;
                if !key.open(counter, head, frame, tag) {
                    return None;
                }
            }
            Epoch::Next => {
                let chain = self.chain.next()?;
                let key = chain.key();
                if !key.open(counter, head, frame, tag) {
                    return None;
                }
                self.chain = chain;
                self.before = Some(std::mem::replace(&mut self.key, key));
            }
            Epoch::Far => return None,
        }
        Some(plain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::udp::keys::{Keyring, Secret};

    const LOCAL_RANK: u16 = 0x0102;
    const SOURCE: u32 = 0x0a0b_0c0d;
    /// The hosts of sender and receiver.
    const FROM: u32 = 1;
    const TO: u32 = 3;

    fn secret() -> Secret {
        Secret::new(&std::array::from_fn(|at| u8::try_from(at).expect("small")))
    }

    fn header(counter: u64) -> DatagramHeader {
        DatagramHeader { local_rank: LOCAL_RANK, form: Form::Sealed, source: SOURCE, counter }
    }

    fn pair(first: u64, frames: u64) -> (Sealer, Opener) {
        let ring = |own| Keyring::new(&secret(), own, 4, Epochs { first, frames });
        (
            Sealer::new(ring(FROM).to(TO, SOURCE, LOCAL_RANK)),
            Opener::new(ring(TO).from(FROM, SOURCE, LOCAL_RANK)),
        )
    }

    /// `frame` with room around it, sealed.
    fn sealed(sealer: &mut Sealer, header: &DatagramHeader, frame: &[u8]) -> Vec<u8> {
        let mut datagram = vec![0; HEADER_BYTES];
        datagram.extend(frame);
        datagram.extend([0; TAG_BYTES]);
        sealer.seal(header, &mut datagram);
        datagram
    }

    fn opens(opener: &mut Opener, mut datagram: Vec<u8>) -> bool {
        DatagramHeader::parse(&datagram)
            .is_some_and(|header| opener.open(&header, &mut datagram).is_some())
    }

    #[test]
    fn what_is_sealed_opens() {
        let (mut sealer, mut opener) = pair(0, 1 << 24);
        for (counter, len) in (7..).zip([0, 1, 15, 16, 17, 64, 1400, 9000]) {
            let frame: Vec<u8> = (0..=255).cycle().take(len).collect();
            let mut datagram = sealed(&mut sealer, &header(counter), &frame);
            assert_eq!(datagram.len(), HEADER_BYTES + len + TAG_BYTES);
            let found = DatagramHeader::parse(&datagram).expect("it has one");
            assert_eq!(found, header(counter));
            let plain = opener.open(&found, &mut datagram).expect("it is genuine");
            assert_eq!(datagram[plain], frame);
        }
    }

    /// Computed by other means: the format does not change by accident.
    #[test]
    fn a_datagram_looks_as_it_always_did() {
        let (mut sealer, _) = pair(0, 1 << 24);
        let datagram = sealed(&mut sealer, &header((1 << 24) + 0x1122), b"ferry");
        let text: String = datagram.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(text, DATAGRAM);
    }

    const DATAGRAM: &str =
        "010202000d0c0b0a22110001000000007d6ca4049c54faee2103501a6f79f364d393c28ba6";

    #[test]
    fn whatever_is_changed_is_noticed() {
        let (mut sealer, mut opener) = pair(0, 1 << 24);
        let genuine = sealed(&mut sealer, &header(7), b"a frame of some length");
        // The caller selects the key by the header; here every forgery goes to this opener.
        for at in 0..genuine.len() {
            for bit in 0..8 {
                let mut forged = genuine.clone();
                forged[at] ^= 1 << bit;
                assert!(!opens(&mut opener, forged), "byte {at} bit {bit}");
            }
        }
        for len in 0..genuine.len() {
            assert!(!opens(&mut opener, genuine[..len].to_vec()), "length {len}");
        }
        assert!(opens(&mut opener, genuine));
    }

    #[test]
    fn what_is_for_others_or_from_others_does_not_open() {
        let genuine = sealed(&mut pair(0, 1 << 24).0, &header(7), b"frame");
        let ring = |secret: &Secret, own| Keyring::new(secret, own, 4, Epochs::USUAL);
        for chain in [
            ring(&secret(), TO - 1).from(FROM, SOURCE, LOCAL_RANK),
            ring(&secret(), TO).from(FROM - 1, SOURCE, LOCAL_RANK),
            ring(&secret(), TO).from(FROM, SOURCE + 1, LOCAL_RANK),
            ring(&secret(), TO).from(FROM, SOURCE, LOCAL_RANK + 1),
            ring(&Secret::new(&[9; 32]), TO).from(FROM, SOURCE, LOCAL_RANK),
            // The reverse direction.
            ring(&secret(), TO).to(FROM, SOURCE, LOCAL_RANK),
        ] {
            assert!(!opens(&mut Opener::new(chain), genuine.clone()));
        }
    }

    #[test]
    fn a_header_is_read_as_it_was_written() {
        for form in [Form::Sealed, Form::Wakeup, Form::Plain] {
            let header = DatagramHeader { form, ..header(u64::MAX - 1) };
            assert_eq!(DatagramHeader::parse(&header.emit()), Some(header));
        }
        for (at, value) in [(2, 0), (2, 1), (2, 3), (3, 3), (3, 255)] {
            let mut bytes = header(1).emit();
            bytes[at] = value;
            assert_eq!(DatagramHeader::parse(&bytes), None);
        }
        assert_eq!(DatagramHeader::parse(&header(1).emit()[..15]), None);
    }

    #[test]
    fn epochs_follow_each_other_also_where_32_bits_end() {
        for first in [0, (1 << 32) - 1500] {
            let (mut sealer, mut opener) = pair(first, 1000);
            let mut counter = Counter::new(Epochs { first, frames: 1000 });
            for number in 0..5000 {
                let header = header(counter.count().expect("there are many"));
                assert_eq!(header.counter, first + number);
                let datagram = sealed(&mut sealer, &header, b"frame");
                assert!(opens(&mut opener, datagram), "{number}");
                assert_eq!(opener.chain.first, first + number / 1000 * 1000);
            }
        }
    }

    #[test]
    fn there_is_nothing_after_the_last_counter() {
        let epochs = Epochs { first: u64::MAX - 2, frames: 1000 };
        let mut counter = Counter::new(epochs);
        let (mut sealer, mut opener) = pair(epochs.first, epochs.frames);
        for number in [u64::MAX - 2, u64::MAX - 1, u64::MAX] {
            assert_eq!(counter.count(), Some(number));
            assert!(opens(&mut opener, sealed(&mut sealer, &header(number), b"frame")));
        }
        assert_eq!([(); 3].map(|()| counter.count()), [None; 3]);
        // The sealer does not seal a number twice either.
        let again = |number| {
            let mut datagram = vec![0; HEADER_BYTES + TAG_BYTES];
            let twice =
                std::panic::AssertUnwindSafe(|| sealer.seal(&header(number), &mut datagram));
            std::panic::catch_unwind(twice).is_err()
        };
        assert_eq!([0, 1, u64::MAX].map(again), [true; 3]);
    }

    #[test]
    fn what_is_late_opens_for_a_while_and_then_never_again() {
        let (mut sealer, mut opener) = pair(0, 4000);
        let mut at = |counter| sealed(&mut sealer, &header(counter), b"frame");
        let late = [3990, 3991, 3992, 3993].map(&mut at);
        let [soon, last, beyond] =
            [4000, 4000 + REPLAY_WINDOW - 1, 4000 + REPLAY_WINDOW].map(&mut at);
        let [first, second, third, fourth] = late;
        assert!(opens(&mut opener, first));
        assert!(opens(&mut opener, soon));
        assert!(opens(&mut opener, second));
        assert!(opens(&mut opener, last));
        assert!(opens(&mut opener, third), "its key is still there");
        assert!(opens(&mut opener, beyond));
        assert!(!opens(&mut opener, fourth.clone()), "its key is gone");
        assert!(opener.before.is_none());
        // Nor two epochs later.
        assert!(opens(&mut opener, at(8000)));
        assert!(!opens(&mut opener, fourth));
    }

    #[test]
    fn a_forged_epoch_makes_no_state() {
        let (mut sealer, mut opener) = pair(0, 1000);
        assert!(opens(&mut opener, sealed(&mut sealer, &header(5), b"frame")));
        for counter in [999, 1000, 1999, 2000, 1 << 24, 1 << 32, u64::MAX] {
            let mut forged = header(counter).emit().to_vec();
            forged.extend([0; 40]);
            assert!(!opens(&mut opener, forged), "{counter}");
            assert!(opener.chain.first == 0 && opener.before.is_none(), "{counter}");
        }
        // Two epochs ahead is too far even for a genuine datagram: no receiver is made to derive many keys.
        let far = sealed(&mut sealer, &header(2000), b"frame");
        assert!(!opens(&mut opener, far));
        assert_eq!(opener.chain.first, 0);
    }
}
