//! 80-bit floats, C's `long double` on x86-64, in 16 bytes.
//!
//! Rust has no such type, so sums and products are computed with integers: rounded to nearest, ties to even, as the
//! hardware does. That is slow, but exact.

use std::cmp::Ordering;
use std::ops::{Add, Mul, Sub};

/// An 80-bit float.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extended {
    negative: bool,
    /// 0 for zero and subnormal numbers, [`EXPONENT_MAX`] for infinities and NaN.
    exponent: u16,
    /// The significand, with a leading one unless the exponent is 0.
    digits: u64,
}

const EXPONENT_MAX: u16 = 0x7fff;
/// The exponent of one.
const BIAS: i32 = 0x3fff;
const LEADING_ONE: u64 = 1 << 63;
const SIGN: u16 = 0x8000;
/// The mark of a quiet NaN.
const QUIET: u64 = 1 << 62;
/// The result of an invalid operation.
const NAN: Extended =
    Extended { negative: true, exponent: EXPONENT_MAX, digits: LEADING_ONE | QUIET };
/// Bits below the significand of an exact result that is still to be rounded.
const GUARD_BITS: u32 = 62;

impl Extended {
    /// Significand in 8 bytes, sign and exponent in 2, and 6 bytes of padding.
    pub(super) fn from_ne_bytes(bytes: [u8; 16]) -> Extended {
        let [digits, head] = [0, 8].map(|at| u128::from_le_bytes(bytes) >> (at * 8));
        let [digits, head] = [digits & u128::from(u64::MAX), head & 0xffff];
        let digits = u64::try_from(digits).expect("64 bits");
        let head = u16::try_from(head).expect("16 bits");
        Extended { negative: head & SIGN != 0, exponent: head & EXPONENT_MAX, digits }
    }

    pub(super) fn to_ne_bytes(self) -> [u8; 16] {
        let head = if self.negative { self.exponent | SIGN } else { self.exponent };
        (u128::from(head) << 64 | u128::from(self.digits)).to_le_bytes()
    }

    /// Whether it is NaN. Includes numbers with an exponent but no leading one, which no hardware produces.
    pub(super) fn is_nan(self) -> bool {
        let leads = self.digits & LEADING_ONE != 0;
        match self.exponent {
            0 => false,
            EXPONENT_MAX => self.digits != LEADING_ONE,
            _ => !leads,
        }
    }

    fn is_infinite(self) -> bool {
        self.exponent == EXPONENT_MAX && self.digits == LEADING_ONE
    }

    fn is_zero(self) -> bool {
        self.exponent == 0 && self.digits == 0
    }

    fn infinity(negative: bool) -> Extended {
        Extended { negative, exponent: EXPONENT_MAX, digits: LEADING_ONE }
    }

    fn quiet(self) -> Extended {
        Extended { digits: self.digits | LEADING_ONE | QUIET, exponent: EXPONENT_MAX, ..self }
    }

    /// The exponent of the leading bit, whether it is set or not.
    fn scale(self) -> i32 {
        i32::from(self.exponent.max(1))
    }

    /// The float nearest to an exact result: the leading bit of `exact` is [`GUARD_BITS`] above its place in the
    /// significand, if its exponent is `scale`.
    fn nearest(negative: bool, scale: i32, exact: u128) -> Extended {
        if exact == 0 {
            return Extended { negative, exponent: 0, digits: 0 };
        }
        let leading = 127 - exact.leading_zeros();
        let mut scale = scale + leading.cast_signed() - (63 + GUARD_BITS).cast_signed();
        let mut shift = leading.cast_signed() - 63;
        if scale < 1 {
            shift += 1 - scale;
            scale = 1;
        }
        let mut digits = match u32::try_from(shift) {
            Err(_) => exact << shift.unsigned_abs(),
            Ok(0) => exact,
            // About half of the smallest number, and less.
            Ok(128) => u128::from(exact > 1 << 127),
            Ok(129..) => 0,
            Ok(shift) => {
                let (kept, lost) = (exact >> shift, exact & ((1 << shift) - 1));
                let up = match lost.cmp(&(1 << (shift - 1))) {
                    Ordering::Less => 0,
                    Ordering::Equal => kept & 1,
                    Ordering::Greater => 1,
                };
                kept + up
            }
        };
        if digits > u128::from(u64::MAX) {
            digits >>= 1;
            scale += 1;
        }
        let digits = u64::try_from(digits).expect("64 bits");
        match u16::try_from(scale) {
            _ if digits & LEADING_ONE == 0 => Extended { negative, exponent: 0, digits },
            Ok(exponent) if exponent < EXPONENT_MAX => Extended { negative, exponent, digits },
            _ => Extended::infinity(negative),
        }
    }
}

impl Add for Extended {
    type Output = Extended;

    fn add(self, other: Extended) -> Extended {
        let (large, small) =
            if self.scale() >= other.scale() { (self, other) } else { (other, self) };
        match (self, other) {
            (nan, _) | (_, nan) if nan.is_nan() => return nan.quiet(),
            (one, other) if one.is_infinite() && other.is_infinite() => {
                return if one.negative == other.negative { one } else { NAN };
            }
            (infinite, _) | (_, infinite) if infinite.is_infinite() => return infinite,
            _ => {}
        }
        let distance = (large.scale() - small.scale()).unsigned_abs();
        let [more, less] = [large, small].map(|float| u128::from(float.digits) << GUARD_BITS);
        // Of the bits shifted out, only whether all were zero matters.
        let shifted = less.checked_shr(distance).unwrap_or(0);
        let lost = shifted.checked_shl(distance).unwrap_or(0) != less;
        let less = shifted | u128::from(lost);
        if large.negative == small.negative {
            return Extended::nearest(large.negative, large.scale(), more + less);
        }
        let negative = match more.cmp(&less) {
            Ordering::Greater => large.negative,
            Ordering::Less => small.negative,
            Ordering::Equal => false,
        };
        Extended::nearest(negative, large.scale(), more.abs_diff(less))
    }
}

impl Sub for Extended {
    type Output = Extended;

    fn sub(self, other: Extended) -> Extended {
        // The sign of a NaN has no meaning.
        self + Extended { negative: !other.negative, ..other }
    }
}

impl Mul for Extended {
    type Output = Extended;

    fn mul(self, other: Extended) -> Extended {
        let negative = self.negative != other.negative;
        match (self, other) {
            (nan, _) | (_, nan) if nan.is_nan() => return nan.quiet(),
            (infinite, factor) | (factor, infinite) if infinite.is_infinite() => {
                return if factor.is_zero() { NAN } else { Extended::infinity(negative) };
            }
            _ => {}
        }
        let exact = u128::from(self.digits) * u128::from(other.digits);
        Extended::nearest(negative, self.scale() + other.scale() - BIAS - 1, exact)
    }
}

impl PartialEq for Extended {
    fn eq(&self, other: &Extended) -> bool {
        self.partial_cmp(other) == Some(Ordering::Equal)
    }
}

impl PartialOrd for Extended {
    fn partial_cmp(&self, other: &Extended) -> Option<Ordering> {
        if self.is_nan() || other.is_nan() {
            return None;
        }
        let size = |float: &Extended| (float.scale(), float.digits);
        Some(match (self.negative, other.negative) {
            _ if self.is_zero() && other.is_zero() => Ordering::Equal,
            (false, false) => size(self).cmp(&size(other)),
            (true, true) => size(other).cmp(&size(self)),
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
        })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The same number with more digits than it needs.
    pub(in super::super) fn extended(float: f64) -> Extended {
        let bits = float.to_bits();
        let negative = float.is_sign_negative();
        let exponent = u16::try_from(bits >> 52 & 0x7ff).expect("11 bits");
        let digits = bits << 12 >> 1 | LEADING_ONE;
        match exponent {
            0 if bits << 1 == 0 => Extended { negative, exponent: 0, digits: 0 },
            0 => {
                let up = extended(float * 2_f64.powi(100));
                Extended { exponent: up.exponent - 100, ..up }
            }
            0x7ff => Extended { negative, exponent: EXPONENT_MAX, digits },
            _ => Extended { negative, exponent: exponent + (0x3fff - 0x3ff), digits },
        }
    }

    fn parts(float: Extended) -> (u16, u64) {
        (if float.negative { float.exponent | SIGN } else { float.exponent }, float.digits)
    }

    fn of(head: u16, digits: u64) -> Extended {
        Extended { negative: head & SIGN != 0, exponent: head & EXPONENT_MAX, digits }
    }

    /// Two floats, their sum and their product, as computed by hardware.
    #[test]
    fn long_floats_come_to_what_a_machine_says() {
        let table = [
            [
                (0xbebb, 0x8000_0000_1e70_955e),
                (0x3ebb, 0xdbc0_9fb7_dcac_29f5),
                (0x3eba, 0xb781_3f6f_7c77_292e),
                (0xbd77, 0xdbc0_9fb8_10ee_985f),
            ],
            [
                (0xbfe5, 0x8000_0000_0000_0000),
                (0x3fd6, 0xd0d7_ebae_6756_11f4),
                (0xbfe4, 0xfffc_bca0_5146_62a8),
                (0xbfbc, 0xd0d7_ebae_6756_11f4),
            ],
            [
                (0x8076, 0xe3eb_500c_ce12_6b79),
                (0xc02f, 0xe1fd_0482_8c93_ce01),
                (0xc02f, 0xe1fd_0482_8c93_ce01),
                (0x00a7, 0xc933_14ed_45ac_f9b1),
            ],
            [
                (0xfffe, 0x8000_0002_7f5e_2cac),
                (0x7ffe, 0xffff_ffff_ffff_ffff),
                (0x7ffd, 0xffff_fffb_0143_a6a6),
                (0xffff, 0x8000_0000_0000_0000),
            ],
            [
                (0x7fd4, 0xfc4b_4e9a_86ca_9a41),
                (0xfffe, 0x9c12_59ea_6226_d89e),
                (0xfffe, 0x9c12_59ea_61e7_c5ca),
                (0xffff, 0x8000_0000_0000_0000),
            ],
            [
                (0xa002, 0xd63b_9733_1ec0_a35a),
                (0x9fc3, 0x8000_0000_0000_0089),
                (0xa002, 0xd63b_9733_1ec0_a35b),
                (0x0000, 0x0000_0000_0000_001b),
            ],
            [
                (0xa010, 0x8000_0000_0000_0000),
                (0x1fd0, 0x8000_0000_0000_0000),
                (0xa00f, 0xffff_ffff_ffff_ffff),
                (0x8000, 0x0000_0000_8000_0000),
            ],
            [
                (0x1fe4, 0xffff_ffff_ffff_ffff),
                (0x9fdb, 0xccec_b229_f320_8308),
                (0x1fe4, 0xff99_89a6_eb06_6fbd),
                (0x8000, 0x0000_0000_0000_0001),
            ],
            [
                (0x0001, 0x8000_0000_0000_03c4),
                (0x8001, 0xeb33_6bc5_859c_84bd),
                (0x8000, 0x6b33_6bc5_859c_80f9),
                (0x8000, 0x0000_0000_0000_0000),
            ],
            [
                (0x7ffe, 0x9ad0_0000_0000_0000),
                (0x8000, 0x7b31_5bae_aed9_a934),
                (0x7ffe, 0x9ad0_0000_0000_0000),
                (0xc000, 0x94ff_9283_263a_0146),
            ],
            [
                (0xbfce, 0xbe14_42e5_17ca_7a8b),
                (0x0000, 0x7fff_ffff_ffff_ffff),
                (0xbfce, 0xbe14_42e5_17ca_7a8b),
                (0x8000, 0x0000_0000_0000_5f0a),
            ],
            [
                (0x0000, 0x7fff_ffff_ffff_ffff),
                (0x0000, 0x67f4_0000_0000_0000),
                (0x0001, 0xe7f3_ffff_ffff_ffff),
                (0x0000, 0x0000_0000_0000_0000),
            ],
        ];
        for row in table {
            let [a, b, sum, product] = row.map(|(head, digits)| of(head, digits));
            assert_eq!(parts(a + b), parts(sum), "{a:?} and {b:?}");
            assert_eq!(parts(b + a), parts(sum), "{b:?} and {a:?}");
            assert_eq!(parts(a * b), parts(product), "{a:?} times {b:?}");
            let negative = Extended { negative: !b.negative, ..b };
            assert_eq!(parts(a - negative), parts(sum), "{a:?} less {negative:?}");
        }
    }

    /// Where 53 digits hold the exact result, both must agree.
    #[test]
    fn short_floats_come_to_what_rust_says() {
        let short = [0.0, -0.0, 1.0, -1.5, 3.25, 1e5, -7e8, 0.1, f32::MAX, 1.5e-40].map(f64::from);
        let others = [f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
        let floats = short.into_iter().chain(others);
        for (a, b) in floats.clone().flat_map(|a| floats.clone().map(move |b| (a, b))) {
            let (sum, product) = (extended(a) + extended(b), extended(a) * extended(b));
            let exact = a + b - a == b && a + b - b == a;
            if exact || !(a + b).is_finite() {
                assert_same(sum, extended(a + b), a, b);
            }
            assert_same(product, extended(a * b), a, b);
            assert_eq!(extended(a).partial_cmp(&extended(b)), a.partial_cmp(&b), "{a} {b}");
        }
    }

    fn assert_same(found: Extended, expected: Extended, a: f64, b: f64) {
        let nan = found.is_nan() && expected.is_nan();
        assert!(nan || parts(found) == parts(expected), "{a} and {b}: {found:?}, {expected:?}");
    }
}
