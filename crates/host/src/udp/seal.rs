//! A frame as a datagram that nobody outside the job can read or make.
//!
//! ```text
//! 0       2         3       4             8              16
//! | slot  | version | form  | source      | counter      | ciphertext ...  | tag, 16 bytes |
//! | BE    | 1       |       | rank, LE    | LE           |                 |
//! ```
//!
//! There is one key for each host that *receives*, and each epoch. So a receiver rejects what is
//! forged with a key that it has, whoever the datagram claims to come from, and sets nothing aside
//! for a stranger. All hosts know the secret of the job, from which any key follows: keys for each
//! pair would keep nobody apart.
//!
//! A nonce is the source, the slot and the counter. None is used twice under a key as long as each
//! rank counts its datagrams to each slot of each host by itself, with one [`Counter`], and as long as
//! no rank starts over under the same secret.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use hkdf::Hkdf;
use sha2::Sha256;
use zeroize::{Zeroize, Zeroizing};

use super::cipher::{Cipher, KEY_BYTES};

/// What is before a frame.
pub const HEADER_BYTES: usize = 16;
/// What is behind a frame that is sealed.
pub const TAG_BYTES: usize = super::cipher::TAG_BYTES;
/// The only version so far.
const VERSION: u8 = 1;
/// What keys are derived for, before the numbers of host and epoch.
const LABEL: &[u8] = b"ferrywire udp 1";
/// Keys of one host that are kept. Most jobs need one in all their life.
const KEYS_MAX: usize = 8;

/// What is known in a job and nowhere else. It does not print itself, and leaves no trace in memory.
pub struct Secret([u8; 32]);

impl Secret {
    /// From bytes that somebody drew at random, once for each job. Their owner wipes them.
    #[must_use]
    pub fn new(bytes: &[u8; 32]) -> Secret {
        Secret(*bytes)
    }

    /// The key of all datagrams to `host` in `epoch`.
    fn key(&self, host: u32, epoch: u32) -> Cipher {
        let mut key = Zeroizing::new([0; KEY_BYTES]);
        let info = [LABEL, &host.to_le_bytes(), &epoch.to_le_bytes()];
        Hkdf::<Sha256>::new(None, &self.0)
            .expand_multi_info(&info, &mut *key)
            .expect("a key is short enough to be derived");
        Cipher::new(&key)
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

/// How a datagram goes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Form {
    /// Encrypted, with a tag.
    Sealed,
    /// Just a header, which wakes its receiver. It proves nothing, and nothing in it is believed.
    Knock,
    /// A header and the frame as it is, in a job that was started with `--insecure`.
    Plain,
}

/// What stands before a frame, in clear.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Header {
    /// The place of the receiver among the ranks of its host. The kernel steers by it.
    pub slot: u16,
    /// How the rest goes.
    pub form: Form,
    /// The rank that sends.
    pub source: u32,
    /// From a [`Counter`]. The upper half is the epoch.
    pub counter: u64,
}

impl Header {
    /// The header of a datagram, if it has one that we understand.
    #[must_use]
    pub fn parse(datagram: &[u8]) -> Option<Header> {
        let [s0, s1, VERSION, form, r0, r1, r2, r3, counter @ ..] =
            *datagram.first_chunk::<HEADER_BYTES>()?
        else {
            return None;
        };
        let form = match form {
            0 => Form::Sealed,
            1 => Form::Knock,
            2 => Form::Plain,
            _ => return None,
        };
        Some(Header {
            slot: u16::from_be_bytes([s0, s1]),
            form,
            source: u32::from_le_bytes([r0, r1, r2, r3]),
            counter: u64::from_le_bytes(counter),
        })
    }

    /// As it is sent.
    #[must_use]
    pub fn emit(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..2].copy_from_slice(&self.slot.to_be_bytes());
        bytes[2] = VERSION;
        bytes[3] = match self.form {
            Form::Sealed => 0,
            Form::Knock => 1,
            Form::Plain => 2,
        };
        bytes[4..8].copy_from_slice(&self.source.to_le_bytes());
        bytes[8..].copy_from_slice(&self.counter.to_le_bytes());
        bytes
    }

    /// The epoch that the counter is in.
    #[must_use]
    pub fn epoch(&self) -> u32 {
        epoch(self.counter)
    }

    fn nonce(&self) -> [u8; 12] {
        let mut nonce = [0; 12];
        nonce[..4].copy_from_slice(&self.source.to_le_bytes());
        nonce[4..6].copy_from_slice(&self.slot.to_be_bytes());
        // The upper two bytes are of the epoch, of which a key has one.
        nonce[6..].copy_from_slice(&self.counter.to_le_bytes()[..6]);
        nonce
    }
}

/// The epoch of a counter.
#[must_use]
pub fn epoch(counter: u64) -> u32 {
    u32::try_from(counter >> 32).expect("half of a counter is left")
}

/// What a rank has sent to one slot of one host.
#[derive(Debug)]
pub struct Counter {
    next: u64,
    /// The lower half of the last counter in an epoch.
    last: u32,
}

impl Counter {
    /// At the beginning, with epochs as long as they can be.
    #[must_use]
    pub fn new() -> Counter {
        Counter { next: 0, last: u32::MAX }
    }

    /// The same with epochs of just so many datagrams, so that a test sees several.
    #[must_use]
    pub fn with_epochs_of(datagrams: u32) -> Counter {
        assert!(datagrams > 0, "an epoch has at least one datagram");
        Counter { next: 0, last: datagrams - 1 }
    }

    /// Counts one datagram, and tells its number.
    ///
    /// # Panics
    /// After the last number there is. A nonce must not come twice; no rank lives that long.
    #[must_use]
    pub fn count(&mut self) -> u64 {
        let counter = self.next;
        let rest = if counter & u64::from(u32::MAX) == u64::from(self.last) {
            u64::from(u32::MAX - self.last)
        } else {
            0
        };
        self.next = counter.checked_add(1 + rest).expect("counters are never used up");
        counter
    }
}

impl Default for Counter {
    fn default() -> Counter {
        Counter::new()
    }
}

/// Seals what goes to one host.
pub struct Sealer {
    keys: Keys,
}

impl Sealer {
    /// For all datagrams to `host`.
    #[must_use]
    pub fn new(secret: &Arc<Secret>, host: u32) -> Sealer {
        Sealer { keys: Keys::new(secret, host) }
    }

    /// Makes a datagram in place: there is a frame in the middle of `datagram`, with room for
    /// [`HEADER_BYTES`] before it and for [`TAG_BYTES`] behind.
    ///
    /// The first datagram of an epoch costs a few microseconds for the key.
    ///
    /// # Panics
    /// If there is no room, or the header is not of a sealed datagram.
    pub fn seal(&mut self, header: &Header, datagram: &mut [u8]) {
        assert!(header.form == Form::Sealed, "what is sealed says so");
        let (head, rest) = datagram.split_first_chunk_mut().expect("room for the header");
        let (frame, tag) = rest.split_last_chunk_mut::<TAG_BYTES>().expect("room for the tag");
        *head = header.emit();
        *tag = self.keys.at(header.epoch()).seal(&header.nonce(), head, frame);
    }
}

/// Opens what comes to one slot of our own host.
pub struct Opener {
    keys: Keys,
    slot: u16,
    insecure: bool,
}

impl Opener {
    /// For `slot` of `host`. Frames that are not sealed are accepted only if the job is `insecure`,
    /// and in such a job sealed ones are, too.
    #[must_use]
    pub fn new(secret: &Arc<Secret>, host: u32, slot: u16, insecure: bool) -> Opener {
        Opener { keys: Keys::new(secret, host), slot, insecure }
    }

    /// Opens a datagram in place: its header, and where the frame in it is now. `None` if it is not
    /// for us, not genuine, or a knock. If it is not genuine, what is in it is lost.
    ///
    /// `newest` tells the newest epoch that the source is known to be in: 0 for one that we do not
    /// know. Only that epoch and the following one can be: so nobody makes us derive keys by just
    /// naming epochs, and no key is derived twice. It tells nothing if the datagram is a repeat (see
    /// [`replay`](super::replay)), which then need not be opened.
    #[must_use]
    pub fn open(
        &mut self,
        datagram: &mut [u8],
        newest: impl FnOnce(&Header) -> Option<u32>,
    ) -> Option<(Header, Range<usize>)> {
        let header = Header::parse(datagram)?;
        // The kernel gives a datagram for a slot that nobody has to anybody.
        if header.slot != self.slot {
            return None;
        }
        match header.form {
            Form::Knock => None,
            Form::Plain => self.insecure.then_some((header, HEADER_BYTES..datagram.len())),
            Form::Sealed => {
                let (head, rest) = datagram.split_first_chunk_mut::<HEADER_BYTES>()?;
                let (frame, tag) = rest.split_last_chunk_mut::<TAG_BYTES>()?;
                let ahead = header.epoch().checked_sub(newest(&header)?)?;
                if ahead > 1 {
                    return None;
                }
                let plain = HEADER_BYTES..HEADER_BYTES + frame.len();
                let key = self.keys.at(header.epoch());
                key.open(&header.nonce(), head, frame, tag).then_some((header, plain))
            }
        }
    }

    /// Whether a datagram that did not open is genuine, but for another slot of our host: the kernel
    /// has given it to us because it has joined it to one of ours. Whatever is in it is lost by asking.
    ///
    /// Of what is said in clear nothing is believed, so that strangers cannot make it look as if. They can repeat what
    /// they have heard; so this is asked only of what came in one piece with something new.
    #[must_use]
    pub fn is_astray(&self, datagram: &mut [u8]) -> bool {
        let Some(header) = Header::parse(datagram) else { return false };
        let Some((head, rest)) = datagram.split_first_chunk_mut::<HEADER_BYTES>() else {
            return false;
        };
        match header.form {
            _ if header.slot == self.slot => false,
            Form::Knock => false,
            Form::Plain => self.insecure,
            Form::Sealed => rest.split_last_chunk_mut::<TAG_BYTES>().is_some_and(|(frame, tag)| {
                let key = self.keys.found(header.epoch());
                key.is_some_and(|key| key.open(&header.nonce(), head, frame, tag))
            }),
        }
    }
}

/// The keys of one receiving host that are in use. Sources, and slots, come to a new epoch each at
/// its own time.
struct Keys {
    secret: Arc<Secret>,
    host: u32,
    /// In boxes, so that a list that grows leaves no copies behind.
    made: Vec<(u32, Box<Cipher>)>,
    /// Which of `made` is replaced next when all are there.
    hand: usize,
}

impl Keys {
    fn new(secret: &Arc<Secret>, host: u32) -> Keys {
        Keys { secret: Arc::clone(secret), host, made: Vec::new(), hand: 0 }
    }

    #[inline]
    fn at(&mut self, epoch: u32) -> &Cipher {
        let found = self.made.iter().position(|(made, _)| *made == epoch);
        let at = found.unwrap_or_else(|| self.make(epoch));
        &self.made[at].1
    }

    /// A key, if it is made already.
    fn found(&self, epoch: u32) -> Option<&Cipher> {
        self.made.iter().find(|(made, _)| *made == epoch).map(|(_, key)| &**key)
    }

    #[cold]
    fn make(&mut self, epoch: u32) -> usize {
        let key = (epoch, Box::new(self.secret.key(self.host, epoch)));
        if self.made.len() < KEYS_MAX {
            self.made.push(key);
            return self.made.len() - 1;
        }
        let at = self.hand;
        self.made[at] = key;
        self.hand = (at + 1) % KEYS_MAX;
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: u32 = 3;
    const SLOT: u16 = 0x0102;

    fn secret() -> Arc<Secret> {
        Arc::new(Secret::new(&std::array::from_fn(|at| u8::try_from(at).expect("small"))))
    }

    fn header(counter: u64) -> Header {
        Header { slot: SLOT, form: Form::Sealed, source: 0x0a0b_0c0d, counter }
    }

    /// `frame` with room around it, sealed.
    fn sealed(sealer: &mut Sealer, header: &Header, frame: &[u8]) -> Vec<u8> {
        let mut datagram = vec![0; HEADER_BYTES];
        datagram.extend(frame);
        datagram.extend([0; TAG_BYTES]);
        sealer.seal(header, &mut datagram);
        datagram
    }

    fn opener() -> Opener {
        Opener::new(&secret(), HOST, SLOT, false)
    }

    #[test]
    fn what_is_sealed_opens() {
        let (mut sealer, mut opener) = (Sealer::new(&secret(), HOST), opener());
        for len in [0, 1, 15, 16, 17, 64, 1400, 9000] {
            let frame: Vec<u8> = (0..=255).cycle().take(len).collect();
            let mut datagram = sealed(&mut sealer, &header(7), &frame);
            assert_eq!(datagram.len(), HEADER_BYTES + len + TAG_BYTES);
            let (found, plain) = opener.open(&mut datagram, |_| Some(0)).expect("it is genuine");
            assert_eq!(found, header(7));
            assert_eq!(datagram[plain], frame);
        }
    }

    /// Computed by other means: the format does not change by accident.
    #[test]
    fn a_datagram_looks_as_it_always_did() {
        let mut sealer = Sealer::new(&secret(), HOST);
        let datagram = sealed(&mut sealer, &header((1 << 32) + 0x1122), b"ferry");
        let text: String = datagram.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(text, DATAGRAM);
    }

    const DATAGRAM: &str =
        "010201000d0c0b0a22110000010000007525912ad32522d6074783038cc07628bb68ac7328";

    #[test]
    fn whatever_is_changed_is_noticed() {
        let (mut sealer, mut opener) = (Sealer::new(&secret(), HOST), opener());
        let genuine = sealed(&mut sealer, &header(7), b"a frame of some length");
        for at in 0..genuine.len() {
            for bit in 0..8 {
                let mut forged = genuine.clone();
                forged[at] ^= 1 << bit;
                assert!(opener.open(&mut forged, |_| Some(0)).is_none(), "byte {at} bit {bit}");
            }
        }
        for len in 0..genuine.len() {
            assert!(
                opener.open(&mut genuine[..len].to_vec(), |_| Some(0)).is_none(),
                "length {len}"
            );
        }
    }

    #[test]
    fn what_is_for_others_does_not_open() {
        let genuine = sealed(&mut Sealer::new(&secret(), HOST), &header(7), b"frame");
        let other_secret = Arc::new(Secret::new(&[9; 32]));
        for mut opener in [
            Opener::new(&secret(), HOST + 1, SLOT, false),
            Opener::new(&secret(), HOST, SLOT + 1, false),
            Opener::new(&other_secret, HOST, SLOT, false),
        ] {
            assert!(opener.open(&mut genuine.clone(), |_| Some(0)).is_none());
        }
    }

    #[test]
    fn what_goes_astray_shows_if_it_is_genuine() {
        let (mut sealer, mut opener) = (Sealer::new(&secret(), HOST), opener());
        let mine = sealed(&mut sealer, &header(7), b"frame");
        assert!(opener.open(&mut mine.clone(), |_| Some(0)).is_some());
        assert!(!opener.is_astray(&mut mine.clone()));
        let other = Header { slot: SLOT + 1, ..header(7) };
        let mut astray = sealed(&mut sealer, &other, b"frame");
        assert!(opener.open(&mut astray, |_| Some(0)).is_none());
        let mut forged = astray.clone();
        forged[20] ^= 1;
        assert!(!opener.is_astray(&mut forged));
        assert!(opener.is_astray(&mut astray));
        assert!(!opener.is_astray(&mut Header { form: Form::Plain, ..other }.emit()));
        assert!(!opener.is_astray(&mut Header { form: Form::Knock, ..other }.emit()));
        // Nobody has shown us anything of that epoch.
        let far = Header { counter: 9 << 32, ..other };
        assert!(!opener.is_astray(&mut sealed(&mut sealer, &far, b"frame")));
    }

    #[test]
    fn plain_frames_and_knocks_carry_nothing_in_a_secure_job() {
        let plain = Header { form: Form::Plain, ..header(7) };
        let mut datagram = plain.emit().to_vec();
        datagram.extend(b"frame");
        assert!(opener().open(&mut datagram, |_| Some(0)).is_none());
        let mut insecure = Opener::new(&secret(), HOST, SLOT, true);
        assert_eq!(insecure.open(&mut datagram, |_| Some(0)), Some((plain, 16..21)));
        let mut knock = Header { form: Form::Knock, ..header(7) }.emit();
        assert!(opener().open(&mut knock, |_| Some(0)).is_none());
        assert!(insecure.open(&mut knock, |_| Some(0)).is_none());
    }

    #[test]
    fn a_header_is_read_as_it_was_written() {
        for form in [Form::Sealed, Form::Knock, Form::Plain] {
            let header = Header { form, ..header(u64::MAX - 1) };
            assert_eq!(Header::parse(&header.emit()), Some(header));
        }
        for (at, value) in [(2, 0), (2, 2), (3, 3), (3, 255)] {
            let mut bytes = header(1).emit();
            bytes[at] = value;
            assert_eq!(Header::parse(&bytes), None);
        }
        assert_eq!(Header::parse(&header(1).emit()[..15]), None);
    }

    #[test]
    fn epochs_follow_each_other() {
        let (mut sealer, mut opener) = (Sealer::new(&secret(), HOST), opener());
        let mut counter = Counter::with_epochs_of(3);
        let mut newest = 0;
        for number in 0..60 {
            let header = header(counter.count());
            assert_eq!(header.epoch(), number / 3);
            let mut datagram = sealed(&mut sealer, &header, b"frame");
            let (found, _) = opener.open(&mut datagram, |_| Some(newest)).expect("it is genuine");
            newest = found.epoch();
        }
        assert_eq!(sealer.keys.made.len(), KEYS_MAX);
    }

    #[test]
    fn whole_epochs_have_no_gaps() {
        let mut counter = Counter { next: (1 << 32) - 2, last: u32::MAX };
        assert_eq!([(); 4].map(|()| counter.count()), [0, 1, 2, 3].map(|n| (1 << 32) - 2 + n));
    }

    #[test]
    fn keys_are_derived_once_and_only_for_the_epochs_that_can_be() {
        let (mut sealer, mut opener) = (Sealer::new(&secret(), HOST), opener());
        let mut at = |epoch: u64| sealed(&mut sealer, &header(epoch << 32), b"frame");
        for (epoch, opens) in [(4, false), (5, true), (6, true), (7, false), (5, true), (6, true)] {
            assert_eq!(opener.open(&mut at(epoch), |_| Some(5)).is_some(), opens, "epoch {epoch}");
        }
        // Forged ones of the following epoch cost one key, not one each.
        for _ in 0..10 {
            let mut forged = header(6 << 32).emit().to_vec();
            forged.extend([0; 40]);
            assert!(opener.open(&mut forged, |_| Some(5)).is_none());
        }
        let made: Vec<u32> = opener.keys.made.iter().map(|(epoch, _)| *epoch).collect();
        assert_eq!(made, [5, 6]);
    }

    #[test]
    fn a_nonce_is_as_unique_as_source_slot_and_counter() {
        let base = header(7);
        for other in [
            Header { slot: base.slot ^ 0x100, ..base },
            Header { source: base.source ^ 0x0100_0000, ..base },
            Header { counter: base.counter ^ 1 << 31, ..base },
        ] {
            assert_ne!(base.nonce(), other.nonce());
        }
    }

    #[test]
    fn a_secret_does_not_print_itself() {
        assert_eq!(format!("{:?}", secret()), "Secret(..)");
    }
}
