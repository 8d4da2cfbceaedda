//! The bytes of protocol buffers: fields with numbers, of three sorts.

/// A message that is being written.
#[derive(Default)]
pub(super) struct ProtoMessage(Vec<u8>);

impl ProtoMessage {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a number.
    pub(super) fn number(&mut self, field: u32, number: u64) -> &mut ProtoMessage {
        self.varint(u64::from(field) << 3);
        self.varint(number);
        self
    }

    /// Adds a number that takes eight bytes.
    pub(super) fn fixed(&mut self, field: u32, number: u64) {
        self.varint(u64::from(field) << 3 | 1);
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    pub(super) fn text(&mut self, field: u32, text: &str) -> &mut ProtoMessage {
        self.piece(field, text.as_bytes())
    }

    pub(super) fn message(&mut self, field: u32, message: &ProtoMessage) -> &mut ProtoMessage {
        self.piece(field, &message.0)
    }

    fn piece(&mut self, field: u32, bytes: &[u8]) -> &mut ProtoMessage {
        self.varint(u64::from(field) << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }

    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number.to_le_bytes()[0] | 0x80);
            number >>= 7;
        }
        self.0.push(number.to_le_bytes()[0]);
    }
}

/// A field that was read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum ProtoField<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl<'a> ProtoField<'a> {
    pub(super) fn number(self) -> u64 {
        match self {
            ProtoField::Number(number) => number,
            ProtoField::Bytes(_) => 0,
        }
    }

    pub(super) fn bytes(self) -> &'a [u8] {
        match self {
            ProtoField::Number(_) => &[],
            ProtoField::Bytes(bytes) => bytes,
        }
    }

    pub(super) fn text(self) -> String {
        String::from_utf8_lossy(self.bytes()).into_owned()
    }
}

/// Reads the fields of a message. What is not one ends it.
pub(super) struct ProtoReader<'a>(pub(super) &'a [u8]);

impl ProtoReader<'_> {
    /// Whether all has been read.
    pub(super) fn is_at_end(&self) -> bool {
        self.0.is_empty()
    }

    fn varint(&mut self) -> Option<u64> {
        let mut number = 0;
        for (at, &byte) in self.0.iter().take(10).enumerate() {
            number |= u64::from(byte & 0x7f) << (7 * at).min(63);
            if byte & 0x80 == 0 {
                self.0 = &self.0[at + 1..];
                return Some(number);
            }
        }
        None
    }
}

impl<'a> Iterator for ProtoReader<'a> {
    type Item = (u32, ProtoField<'a>);

    fn next(&mut self) -> Option<(u32, ProtoField<'a>)> {
        let before = self.0;
        let field = self.field();
        if field.is_none() {
            // So that the end of a message that is cut off is not taken for its end.
            self.0 = before;
        }
        field
    }
}

impl<'a> ProtoReader<'a> {
    fn field(&mut self) -> Option<(u32, ProtoField<'a>)> {
        let key = self.varint()?;
        let field = u32::try_from(key >> 3).ok()?;
        let value = match key & 7 {
            0 => ProtoField::Number(self.varint()?),
            1 => {
                let (bytes, rest) = self.0.split_first_chunk()?;
                self.0 = rest;
                ProtoField::Number(u64::from_le_bytes(*bytes))
            }
            2 => {
                let len = usize::try_from(self.varint()?).ok()?;
                let (bytes, rest) = self.0.split_at_checked(len)?;
                self.0 = rest;
                ProtoField::Bytes(bytes)
            }
            5 => {
                let (bytes, rest) = self.0.split_first_chunk()?;
                self.0 = rest;
                ProtoField::Number(u32::from_le_bytes(*bytes).into())
            }
            _ => return None,
        };
        Some((field, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mut inner = ProtoMessage::default();
        inner.number(1, u64::MAX).text(2, "text");
        let mut outer = ProtoMessage::default();
        outer.message(60, &inner).fixed(47, 7);
        let fields: Vec<_> = ProtoReader(outer.bytes()).collect();
        assert_eq!(fields[1], (47, ProtoField::Number(7)));
        let inner: Vec<_> = ProtoReader(fields[0].1.bytes()).collect();
        assert_eq!(inner[0], (1, ProtoField::Number(u64::MAX)));
        assert_eq!(inner[1].1.text(), "text");
    }

    #[test]
    fn any_bytes_end() {
        for len in 0..64u8 {
            let byte = |at: u8| at.wrapping_mul(37).wrapping_add(len.wrapping_mul(11)) | 0x80;
            let bytes: Vec<u8> = (0..len).map(byte).collect();
            assert!(ProtoReader(&bytes).count() <= bytes.len());
        }
    }
}
