//! Bytes as hexadecimal digits, which every kvs stores unchanged.

use zeroize::Zeroizing;

/// Two digits for each byte. They are wiped when dropped, because they may be secret.
pub(super) fn word(bytes: &[u8]) -> Zeroizing<String> {
    // A string that grows leaves copies behind.
    let mut word = Zeroizing::new(String::with_capacity(2 * bytes.len()));
    let digit = |number: u8| char::from_digit(u32::from(number), 16).expect("below 16");
    word.extend(bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]));
    word
}

/// Fills `bytes` from exactly two digits for each.
pub(super) fn fill(digits: &str, bytes: &mut [u8]) -> Option<()> {
    let digits = digits.as_bytes();
    if digits.len() != 2 * bytes.len() {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(digits.as_chunks().0) {
        let [high, low] = pair.map(|digit| char::from(digit).to_digit(16));
        *byte = u8::try_from(16 * high? + low?).ok()?;
    }
    Some(())
}
