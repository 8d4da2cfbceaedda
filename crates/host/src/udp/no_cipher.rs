//! Replaces `cipher.rs` in a build without the feature `hosts`. Such a program joins no job on several hosts
//! (`JoinError::NoHosts`), so that no key is ever derived.

use super::{KEY_BYTES, NONCE_BYTES, TAG_BYTES};

/// A key that nothing makes.
#[cfg(not(feature = "hosts"))]
pub(super) struct Cipher;

impl Cipher {
    pub(super) fn new(_: &[u8; KEY_BYTES]) -> Cipher {
        unreachable!("{NEVER}")
    }

    pub(super) fn seal(&self, _: &[u8; NONCE_BYTES], _: &[u8], _: &mut [u8]) -> [u8; TAG_BYTES] {
        unreachable!("{NEVER}")
    }

    pub(super) fn open(
        &self,
        _: &[u8; NONCE_BYTES],
        _: &[u8],
        _: &mut [u8],
        _: &[u8; TAG_BYTES],
    ) -> bool {
        unreachable!("{NEVER}")
    }
}

/// Nothing is derived without the feature.
pub(super) fn expand(_: &[u8; 32], _: &[&[u8]], _: &mut [u8]) {
    unreachable!("{NEVER}")
}

const NEVER: &str = "a program without the feature `hosts` has no network";
