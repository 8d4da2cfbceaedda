//! external32: the portable data representation. Big-endian, and without gaps.
//!
//! MPI 5.0 §14.5.2. C's `long` has 4 bytes there and `wchar_t` 2, so a value may not fit; `long
//! double` has 16 bytes, of which 112 bits are fraction.

use super::basic::{Basic, BasicKind};
use super::error::Error;
use super::{Datatype, Memory};

/// Elements are converted in batches of about this many bytes.
const BATCH_BYTES: u64 = 1 << 16;

impl Datatype {
    /// Bytes of `count` elements in external32. None on overflow.
    pub fn external_size(&self, count: u64) -> Option<u64> {
        self.shape().signature.external_bytes.checked_mul(count)
    }

    /// Packs `count` elements in external32 into `into`, which has exactly the bytes that they need.
    pub fn pack_external<M: Memory + ?Sized>(
        &self,
        count: u64,
        from: &M,
        into: &mut [u8],
    ) -> Result<(), Error> {
        assert_eq!(self.external_size(count), Some(into.len() as u64), "room and no more");
        let mut room = into;
        self.batches(count, |base, count| {
            let mut native = vec![0; length(self.size() * count)];
            self.shape().layout.pack(base, (count, self.extent()), from, &mut native);
            let mut native = &native[..];
            for _ in 0..count {
                self.shape().signature.each_run(&mut |basic, count| {
                    for _ in 0..count {
                        let number = native.split_off(..length(basic.bytes())).expect("packed");
                        let outside = length(basic.external_bytes());
                        let outside = room.split_off_mut(..outside).expect("counted above");
                        to_external(basic, number, outside)?;
                    }
                    Ok(())
                })?;
            }
            Ok(())
        })
    }

    /// Unpacks up to `count` elements from external32. Fewer bytes fill what they reach; a basic type that is cut short
    /// is left unchanged.
    pub fn unpack_external<M: Memory + ?Sized>(
        &self,
        count: u64,
        from: &[u8],
        into: &mut M,
    ) -> Result<(), Error> {
        let most = self.external_size(count);
        assert!(most.is_none_or(|most| from.len() as u64 <= most), "no more than there are");
        let mut outside = from;
        self.batches(count, |base, count| {
            let mut native = Vec::with_capacity(length(self.size() * count));
            for _ in 0..count {
                let all: Result<(), ()> = self.shape().signature.each_run(&mut |basic, count| {
                    for _ in 0..count {
                        let number =
                            outside.split_off(..length(basic.external_bytes())).ok_or(())?;
                        let start = native.len();
                        native.resize(start + length(basic.bytes()), 0);
                        from_external(basic, number, &mut native[start..]);
                    }
                    Ok(())
                });
                if all.is_err() {
                    outside = &[];
                    break;
                }
            }
            self.shape().layout.unpack(base, (count, self.extent()), &native, into);
            Ok(())
        })
    }

    /// Native bytes of all whole basic types in `bytes` bytes of elements in external32.
    pub fn native_bytes_of(&self, bytes: u64) -> u64 {
        let signature = &self.shape().signature;
        if signature.external_bytes == 0 {
            return 0;
        }
        let (elements, mut left) =
            (bytes / signature.external_bytes, bytes % signature.external_bytes);
        let mut native = elements * signature.bytes;
        let _ended: Result<(), ()> = signature.each_run(&mut |basic, count| {
            let whole = (left / basic.external_bytes()).min(count);
            native += whole * basic.bytes();
            left -= whole * basic.external_bytes();
            if whole == count { Ok(()) } else { Err(()) }
        });
        native
    }

    /// Calls `f` with the offset of each batch of elements and its length.
    fn batches(
        &self,
        count: u64,
        mut f: impl FnMut(i64, u64) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if self.size() == 0 {
            return Ok(());
        }
        let batch = (BATCH_BYTES / self.size()).max(1);
        let (mut base, mut left) = (0_i64, count);
        while left > 0 {
            let now = left.min(batch);
            f(base, now)?;
            base = base.wrapping_add(self.extent().wrapping_mul(now.cast_signed()));
            left -= now;
        }
        Ok(())
    }
}

fn length(bytes: u64) -> usize {
    usize::try_from(bytes).expect("what is in memory has a length")
}

/// Converts a native number to external32.
fn to_external(basic: Basic, native: &[u8], into: &mut [u8]) -> Result<(), Error> {
    let parts = length(basic.part_bytes());
    for (native, into) in native.chunks(parts).zip(into.chunks_mut(parts)) {
        let mut number = [0; 32];
        let number = &mut number[..native.len()];
        number.copy_from_slice(native);
        if is_x87(basic) {
            quadruple_of_x87(number);
        }
        if cfg!(target_endian = "little") {
            number.reverse();
        }
        // The upper bytes may be dropped if they only extend the lower ones.
        let (gone, kept) = number.split_at(number.len() - into.len());
        let filler = filler(basic, kept);
        if gone.iter().any(|&byte| byte != filler) {
            return Err(Error::Unrepresentable);
        }
        into.copy_from_slice(kept);
    }
    Ok(())
}

/// Converts a number from external32 to the native form.
fn from_external(basic: Basic, outside: &[u8], into: &mut [u8]) {
    let parts = length(basic.part_bytes());
    for (outside, into) in outside.chunks(parts).zip(into.chunks_mut(parts)) {
        let added = into.len() - outside.len();
        into[..added].fill(filler(basic, outside));
        into[added..].copy_from_slice(outside);
        if cfg!(target_endian = "little") {
            into.reverse();
        }
        if is_x87(basic) {
            x87_of_quadruple(into);
        }
    }
}

/// The byte that extends a big-endian number without changing its value.
fn filler(basic: Basic, number: &[u8]) -> u8 {
    let negative =
        basic.sort() == BasicKind::Signed && number.first().is_some_and(|&byte| byte >= 128);
    if negative { 0xff } else { 0 }
}

fn is_x87(basic: Basic) -> bool {
    let extended = matches!(basic.sort(), BasicKind::Extended | BasicKind::ExtendedComplex);
    extended && cfg!(target_arch = "x86_64")
}

/// Bits of a quadruple's fraction that the 80-bit form has no room for.
const FRACTION_BITS_LOST: u32 = 112 - 63;

/// Converts 80 bits to 128, both little-endian. The conversion is exact: sign and exponent are the same, and the
/// integer bit, which only the 80-bit form stores, follows from the exponent.
fn quadruple_of_x87(number: &mut [u8]) {
    let bytes: [u8; 16] = number.try_into().expect("sixteen bytes");
    let bits = u128::from_le_bytes(bytes);
    let (head, mantissa) = (bits >> 64 & 0xffff, bits & u128::from(u64::MAX));
    let (fraction, whole) = (mantissa & u128::from(u64::MAX >> 1), mantissa >> 63);
    // A number with the smallest exponent whose integer bit is set is stored with the next exponent.
    let head = if head & 0x7fff == 0 { head | whole } else { head };
    let bits = head << 112 | fraction << FRACTION_BITS_LOST;
    number.copy_from_slice(&bits.to_le_bytes());
}

/// Converts 128 bits to 80, both little-endian; rounds to nearest, ties to even.
fn x87_of_quadruple(number: &mut [u8]) {
    let bytes: [u8; 16] = number.try_into().expect("sixteen bytes");
    let bits = u128::from_le_bytes(bytes);
    let special = bits >> 112 & 0x7fff == 0x7fff;
    let lost = bits & ((1 << FRACTION_BITS_LOST) - 1);
    let mut kept = bits >> FRACTION_BITS_LOST;
    let half = 1 << (FRACTION_BITS_LOST - 1);
    // A carry out of the fraction raises the exponent, as it should; a NaN stays a NaN.
    if special {
        kept |= u128::from(lost != 0);
    } else if lost > half || lost == half && kept & 1 == 1 {
        kept += 1;
    }
    let (head, fraction) = (kept >> 63, kept & u128::from(u64::MAX >> 1));
    let whole = u128::from(head & 0x7fff != 0);
    let bits = head << 64 | whole << 63 | fraction;
    number.copy_from_slice(&bits.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A buffer that begins at its address.
    struct Buffer(Vec<u8>);

    impl Memory for Buffer {
        fn load(&self, offset: i64, into: &mut [u8]) {
            let at = usize::try_from(offset).expect("in the buffer");
            into.copy_from_slice(&self.0[at..at + into.len()]);
        }

        fn store(&mut self, offset: i64, from: &[u8]) {
            let at = usize::try_from(offset).expect("in the buffer");
            self.0[at..at + from.len()].copy_from_slice(from);
        }
    }

    /// One element in external32, and the result of converting it back.
    fn there_and_back(name: &str, native: &[u8]) -> Result<(Vec<u8>, Vec<u8>), Error> {
        let datatype = Datatype::by_name(name).expect("it is predefined");
        let mut external = vec![0; length(datatype.external_size(1).expect("small"))];
        datatype.pack_external(1, &Buffer(native.to_vec()), &mut external)?;
        let mut back = Buffer(vec![0; native.len()]);
        datatype.unpack_external(1, &external, &mut back)?;
        Ok((external, back.0))
    }

    #[test]
    fn what_is_narrow_outside_has_to_fit() {
        for (value, expected) in [(-2_i64, [0xff, 0xff, 0xff, 0xfe]), (258, [0, 0, 1, 2])] {
            let native = value.to_ne_bytes();
            let found = there_and_back("MPI_LONG", &native);
            assert_eq!(found, Ok((expected.to_vec(), native.to_vec())));
        }
        for value in [1_i64 << 31, i64::MIN, -(1 << 31) - 1] {
            let found = there_and_back("MPI_LONG", &value.to_ne_bytes());
            assert_eq!(found, Err(Error::Unrepresentable), "{value}");
        }
        let native = 0xffff_fffe_u64.to_ne_bytes();
        let expected = (vec![0xff, 0xff, 0xff, 0xfe], native.to_vec());
        assert_eq!(there_and_back("MPI_UNSIGNED_LONG", &native), Ok(expected));
        let native = 0x20ac_u32.to_ne_bytes();
        let expected = (vec![0x20, 0xac], native.to_vec());
        assert_eq!(there_and_back("MPI_WCHAR", &native), Ok(expected));
        let found = there_and_back("MPI_WCHAR", &0x1f6a2_u32.to_ne_bytes());
        assert_eq!(found, Err(Error::Unrepresentable));
    }

    #[test]
    fn eighty_bits_become_a_quadruple_and_come_back() {
        for (x87, quadruple) in [
            (0, 0),
            (0x3fff_8000_0000_0000_0000, 0x3fff << 112),
            (0xc000_c000_0000_0000_0000, 0xc000_8000 << 96),
            (0x7fff_8000_0000_0000_0000, 0x7fff << 112),
            (0x7fff_c000_0000_0000_0000, 0x7fff_8000 << 96),
            (0x7ffe_ffff_ffff_ffff_ffff, 0x7ffe_ffff_ffff_ffff_fffe << 48),
            (1, 1 << FRACTION_BITS_LOST),
        ] {
            let mut number = u128::to_le_bytes(x87);
            quadruple_of_x87(&mut number);
            assert_eq!(u128::from_le_bytes(number), quadruple, "{x87:x}");
            x87_of_quadruple(&mut number);
            assert_eq!(u128::from_le_bytes(number), x87, "{x87:x}");
        }
        let rounded = |quadruple: u128| {
            let mut number = quadruple.to_le_bytes();
            x87_of_quadruple(&mut number);
            u128::from_le_bytes(number)
        };
        let (one, half) = (0x3fff << 112, 1 << (FRACTION_BITS_LOST - 1));
        assert_eq!(rounded(one | half), 0x3fff_8000_0000_0000_0000, "half goes to the even one");
        assert_eq!(rounded(one | half | 1), 0x3fff_8000_0000_0000_0001);
        assert_eq!(rounded(one | ((1 << 112) - 1)), 0x4000_8000_0000_0000_0000, "with a carry");
        assert_eq!(rounded(0x7fff << 112 | 1), 0x7fff_8000_0000_0000_0001, "still not a number");
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn long_double_is_a_quadruple_outside() {
        let mut native = [0; 32];
        native[..10].copy_from_slice(&[0, 0, 0, 0, 0, 0, 0, 0x80, 0xff, 0x3f]);
        native[16..26].copy_from_slice(&[0, 0, 0, 0, 0, 0, 0, 0x80, 0, 0xc0]);
        let mut expected = [0; 32];
        expected[..2].copy_from_slice(&[0x3f, 0xff]);
        expected[16..18].copy_from_slice(&[0xc0, 0]);
        let found = there_and_back("MPI_C_LONG_DOUBLE_COMPLEX", &native);
        assert_eq!(found, Ok((expected.to_vec(), native.to_vec())));
    }

    #[test]
    fn a_short_message_fills_whole_numbers() {
        let pair = Datatype::by_name("MPI_SHORT_INT").expect("it is predefined");
        let mut room = Buffer(vec![9; 16]);
        pair.unpack_external(2, &[0, 1, 0, 0, 0, 2, 0, 3, 4, 4, 4], &mut room).expect("it fits");
        let expected = [
            &1_i16.to_ne_bytes()[..],
            &[9; 2],
            &2_i32.to_ne_bytes(),
            &3_i16.to_ne_bytes(),
            &[9; 6],
        ];
        assert_eq!(room.0, expected.concat());
    }
}
