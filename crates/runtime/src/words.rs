//! Numbers as reports write them.

/// A number with commas.
pub fn number(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A length.
pub fn bytes(length: u64) -> String {
    format!("{} byte{}", number(length), if length == 1 { "" } else { "s" })
}
