//! AES-128 in Galois/counter mode, by whichever of two crates is faster on this processor.
//!
//! The fast one needs instructions that nearly every processor since 2014 has, but that a virtual machine may
//! hide; the other runs everywhere. Their output is identical, byte for byte. Keys are derived by HKDF with SHA-256.

use aes_gcm::aead::AeadInOut;
use aes_gcm::{Aes128Gcm, KeyInit};
use hkdf::Hkdf;
use sha2::Sha256;

use super::{KEY_BYTES, NONCE_BYTES, TAG_BYTES};

/// A key, expanded for use.
#[expect(clippy::large_enum_variant, reason = "there are few, each in a box of its own")]
pub(super) enum Cipher {
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    Fast(graviola::aead::AesGcm),
    Portable(Aes128Gcm),
}

impl Cipher {
    pub(super) fn new(key: &[u8; KEY_BYTES]) -> Cipher {
        #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
        if is_fast_here() {
            return Cipher::Fast(graviola::aead::AesGcm::new(key));
        }
        Cipher::Portable(Aes128Gcm::new(key.into()))
    }

    /// Encrypts bytes in place. The tag authenticates them and `clear`.
    #[inline]
    pub(super) fn seal(
        &self,
        nonce: &[u8; NONCE_BYTES],
        clear: &[u8],
        bytes: &mut [u8],
    ) -> [u8; TAG_BYTES] {
        match self {
            #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
            Cipher::Fast(key) => {
                let mut tag = [0; TAG_BYTES];
                key.encrypt(nonce, clear, bytes, &mut tag);
                tag
            }
            Cipher::Portable(key) => key
                .encrypt_inout_detached(nonce.into(), clear, bytes.into())
                .expect("a datagram is short enough to be sealed")
                .into(),
        }
    }

    /// Decrypts bytes in place. False if they are not genuine; then their contents are lost.
    #[inline]
    pub(super) fn open(
        &self,
        nonce: &[u8; NONCE_BYTES],
        clear: &[u8],
        bytes: &mut [u8],
        tag: &[u8; TAG_BYTES],
    ) -> bool {
        match self {
            #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
            Cipher::Fast(key) => key.decrypt(nonce, clear, bytes, tag).is_ok(),
            Cipher::Portable(key) => {
                key.decrypt_inout_detached(nonce.into(), clear, bytes.into(), tag.into()).is_ok()
            }
        }
    }
}

/// Derives bytes from a secret.
pub(super) fn expand(secret: &[u8; 32], info: &[&[u8]], into: &mut [u8]) {
    Hkdf::<Sha256>::from_prk(secret)
        .expect("a secret is long enough to derive from")
        .expand_multi_info(info, into)
        .expect("what is derived is short");
}

/// Whether the processor has every instruction that the fast implementation needs.
#[cfg(target_arch = "x86_64")]
fn is_fast_here() -> bool {
    use std::arch::is_x86_feature_detected as has;
    has!("aes") && has!("pclmulqdq") && has!("bmi1") && has!("bmi2") && has!("adx") && has!("avx2")
}

#[cfg(target_arch = "aarch64")]
fn is_fast_here() -> bool {
    use std::arch::is_aarch64_feature_detected as has;
    has!("neon") && has!("aes") && has!("pmull") && has!("sha2")
}

#[cfg(all(test, any(target_arch = "x86_64", target_arch = "aarch64")))]
mod tests {
    use super::*;

    /// Both implementations, with the same key. Under emulators they may be the same one.
    fn both(key: [u8; KEY_BYTES]) -> [Cipher; 2] {
        [Cipher::new(&key), Cipher::Portable(Aes128Gcm::new((&key).into()))]
    }

    #[test]
    fn both_make_the_same_and_open_what_the_other_made() {
        for len in (0..300).chain([1399, 1400, 1472, 9000, 65_000]) {
            let at = |seed: usize| u8::try_from((len * 31 + seed * 7) % 251).expect("it is small");
            let (key, nonce) = (std::array::from_fn(at), std::array::from_fn(|n| at(n + 50)));
            let clear: [u8; 16] = std::array::from_fn(|n| at(n + 100));
            let plain: Vec<u8> = (0..len).map(at).collect();
            let ciphers = both(key);
            let sealed = ciphers.each_ref().map(|cipher| {
                let mut bytes = plain.clone();
                let tag = cipher.seal(&nonce, &clear, &mut bytes);
                (bytes, tag)
            });
            assert_eq!(sealed[0], sealed[1], "{len} bytes");
            let (bytes, tag) = &sealed[0];
            for cipher in &ciphers {
                let mut opened = bytes.clone();
                assert!(cipher.open(&nonce, &clear, &mut opened, tag));
                assert_eq!(opened, plain);
            }
        }
    }

    #[test]
    fn neither_opens_what_was_changed() {
        for cipher in &both([3; KEY_BYTES]) {
            let (nonce, clear) = ([5; NONCE_BYTES], [9; 16]);
            let mut sealed = [7; 100];
            let tag = cipher.seal(&nonce, &clear, &mut sealed);
            let opens = |nonce: [u8; NONCE_BYTES], clear: &[u8], bytes: &[u8], tag| {
                cipher.open(&nonce, clear, &mut bytes.to_vec(), &tag)
            };
            assert!(opens(nonce, &clear, &sealed, tag));
            assert!(!opens([6; NONCE_BYTES], &clear, &sealed, tag));
            assert!(!opens(nonce, &clear[1..], &sealed, tag));
            assert!(!opens(nonce, &clear, &sealed[1..], tag));
            for bit in 0..8 * sealed.len() {
                let mut forged = sealed;
                forged[bit / 8] ^= 1 << (bit % 8);
                assert!(!opens(nonce, &clear, &forged, tag), "bit {bit}");
            }
            for bit in 0..8 * TAG_BYTES {
                let mut forged = tag;
                forged[bit / 8] ^= 1 << (bit % 8);
                assert!(!opens(nonce, &clear, &sealed, forged), "bit {bit} of the tag");
            }
        }
    }
}
