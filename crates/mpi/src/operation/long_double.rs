//! C's `long double`, in 16 bytes: a float of 80 bits on x86-64, and a quadruple, which is IEEE 754's binary128, on
//! aarch64 and on most other machines.
//!
//! Rust has neither type, so sums and products are computed with integers: rounded to the nearest, ties to even, as
//! processors and C libraries round. That is slow.

use std::cmp::Ordering;
use std::ops::{Add, Mul, Sub};

/// A float with a sign, 15 bits of exponent and `DIGITS` binary digits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Float<const DIGITS: u32> {
    negative: bool,
    /// 0 for zero and for subnormal numbers, [`EXPONENT_MAX`] for infinity and NaN.
    exponent: u16,
    /// The digits, with a leading one unless the exponent is 0.
    digits: u128,
}

/// The float of 80 bits that x86 has.
#[cfg(any(test, target_arch = "x86_64"))]
pub(super) type Extended = Float<64>;
/// IEEE 754's binary128.
#[cfg(any(test, not(target_arch = "x86_64")))]
pub(super) type Quadruple = Float<113>;
/// What C calls `long double` on this machine.
#[cfg(target_arch = "x86_64")]
pub(super) type LongDouble = Extended;
/// What C calls `long double` on this machine.
#[cfg(not(target_arch = "x86_64"))]
pub(super) type LongDouble = Quadruple;

const EXPONENT_MAX: u16 = 0x7fff;
/// The exponent of one.
const BIAS: i32 = 0x3fff;
const SIGN: u16 = 0x8000;
/// Bits below the digits of a result that is still to be rounded. The lowest says whether anything below was not zero.
const GUARD_BITS: u32 = 3;

#[cfg(any(test, target_arch = "x86_64"))]
impl Extended {
    /// Digits in 8 bytes, sign and exponent in 2, and 6 bytes of padding.
    pub(super) fn from_ne_bytes(bytes: [u8; 16]) -> Extended {
        let bits = u128::from_le_bytes(bytes);
        Float::from_parts(low_u16(bits >> 64), bits & u128::from(u64::MAX))
    }

    pub(super) fn to_ne_bytes(self) -> [u8; 16] {
        (u128::from(self.head()) << 64 | self.digits).to_le_bytes()
    }
}

#[cfg(any(test, not(target_arch = "x86_64")))]
impl Quadruple {
    /// Sign, exponent, and the digits without the leading one, which follows from the exponent.
    pub(super) fn from_ne_bytes(bytes: [u8; 16]) -> Quadruple {
        let bits = u128::from_ne_bytes(bytes);
        let head = low_u16(bits >> 112);
        let leading = if head & EXPONENT_MAX == 0 { 0 } else { Quadruple::LEADING_ONE };
        Float::from_parts(head, bits & (Quadruple::LEADING_ONE - 1) | leading)
    }

    pub(super) fn to_ne_bytes(self) -> [u8; 16] {
        let fraction = self.digits & (Quadruple::LEADING_ONE - 1);
        (u128::from(self.head()) << 112 | fraction).to_ne_bytes()
    }
}

impl<const DIGITS: u32> Float<DIGITS> {
    const LEADING_ONE: u128 = 1 << (DIGITS - 1);
    /// The mark of a NaN that does not trap.
    const QUIET: u128 = 1 << (DIGITS - 2);
    /// The result of an invalid operation.
    const NAN: Self = Self {
        negative: cfg!(target_arch = "x86_64"),
        exponent: EXPONENT_MAX,
        digits: Self::LEADING_ONE | Self::QUIET,
    };

    fn from_parts(head: u16, digits: u128) -> Self {
        Float { negative: head & SIGN != 0, exponent: head & EXPONENT_MAX, digits }
    }

    /// Sign and exponent.
    fn head(self) -> u16 {
        if self.negative { self.exponent | SIGN } else { self.exponent }
    }

    /// Also true of an exponent without a leading one, which 80 bits can express and no processor makes.
    pub(super) fn is_nan(self) -> bool {
        let leads = self.digits & Self::LEADING_ONE != 0;
        match self.exponent {
            0 => false,
            EXPONENT_MAX => self.digits != Self::LEADING_ONE,
            _ => !leads,
        }
    }

    fn is_infinite(self) -> bool {
        self.exponent == EXPONENT_MAX && self.digits == Self::LEADING_ONE
    }

    fn is_zero(self) -> bool {
        self.exponent == 0 && self.digits == 0
    }

    fn infinity(negative: bool) -> Self {
        Float { negative, exponent: EXPONENT_MAX, digits: Self::LEADING_ONE }
    }

    fn quiet(self) -> Self {
        let digits = self.digits | Self::LEADING_ONE | Self::QUIET;
        Float { digits, exponent: EXPONENT_MAX, ..self }
    }

    /// The exponent of the leading digit, be it one or not.
    fn scale(self) -> i32 {
        i32::from(self.exponent.max(1))
    }

    /// The scale and the digits of a finite number, shifted until the leading digit is one.
    fn normal(self) -> (i32, u128) {
        let shift = self.digits.leading_zeros().saturating_sub(128 - DIGITS);
        (self.scale() - shift.cast_signed(), self.digits << shift)
    }

    /// The float nearest to a result: `exact` has its leading digit [`GUARD_BITS`] above the place that it has in
    /// digits, if its exponent is `scale`.
    fn nearest(negative: bool, scale: i32, exact: u128) -> Self {
        if exact == 0 {
            return Float { negative, exponent: 0, digits: 0 };
        }
        let leading = 127 - exact.leading_zeros();
        let mut scale = scale + leading.cast_signed() - (DIGITS - 1 + GUARD_BITS).cast_signed();
        let mut shift = leading.cast_signed() - (DIGITS - 1).cast_signed();
        if scale < 1 {
            shift += 1 - scale;
            scale = 1;
        }
        let mut digits = match u32::try_from(shift) {
            Err(_) => exact << shift.unsigned_abs(),
            Ok(0) => exact,
            // Less than half of the smallest number.
            Ok(128..) => 0,
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
        if digits >> DIGITS != 0 {
            digits >>= 1;
            scale += 1;
        }
        match u16::try_from(scale) {
            _ if digits & Self::LEADING_ONE == 0 => Float { negative, exponent: 0, digits },
            Ok(exponent) if exponent < EXPONENT_MAX => Float { negative, exponent, digits },
            _ => Self::infinity(negative),
        }
    }
}

impl<const DIGITS: u32> Add for Float<DIGITS> {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        let (large, small) =
            if self.scale() >= other.scale() { (self, other) } else { (other, self) };
        match (self, other) {
            (nan, _) | (_, nan) if nan.is_nan() => return nan.quiet(),
            (one, other) if one.is_infinite() && other.is_infinite() => {
                return if one.negative == other.negative { one } else { Self::NAN };
            }
            (infinite, _) | (_, infinite) if infinite.is_infinite() => return infinite,
            _ => {}
        }
        let distance = (large.scale() - small.scale()).unsigned_abs();
        let [more, less] = [large, small].map(|float| float.digits << GUARD_BITS);
        let less = shifted_right(less, distance);
        if large.negative == small.negative {
            return Self::nearest(large.negative, large.scale(), more + less);
        }
        let negative = match more.cmp(&less) {
            Ordering::Greater => large.negative,
            Ordering::Less => small.negative,
            Ordering::Equal => false,
        };
        Self::nearest(negative, large.scale(), more.abs_diff(less))
    }
}

impl<const DIGITS: u32> Sub for Float<DIGITS> {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        // The sign of NaN says nothing.
        self + Float { negative: !other.negative, ..other }
    }
}

impl<const DIGITS: u32> Mul for Float<DIGITS> {
    type Output = Self;

    fn mul(self, other: Self) -> Self {
        let negative = self.negative != other.negative;
        match (self, other) {
            (nan, _) | (_, nan) if nan.is_nan() => return nan.quiet(),
            (infinite, factor) | (factor, infinite) if infinite.is_infinite() => {
                return if factor.is_zero() { Self::NAN } else { Self::infinity(negative) };
            }
            (zero, _) | (_, zero) if zero.is_zero() => return Self::nearest(negative, 1, 0),
            _ => {}
        }
        let ((scale, digits), (other_scale, other_digits)) = (self.normal(), other.normal());
        // Left-aligned, both have their leading one at bit 127, and their product has it at 254 or 255.
        let (high, low) = product(digits << (128 - DIGITS), other_digits << (128 - DIGITS));
        let high = high | u128::from(low != 0);
        // From bit 126 of `high` to where `nearest` expects the leading digit.
        let exact = shifted_right(high, 126 - (DIGITS - 1 + GUARD_BITS));
        Self::nearest(negative, scale + other_scale - BIAS, exact)
    }
}

impl<const DIGITS: u32> PartialEq for Float<DIGITS> {
    fn eq(&self, other: &Self) -> bool {
        self.partial_cmp(other) == Some(Ordering::Equal)
    }
}

impl<const DIGITS: u32> PartialOrd for Float<DIGITS> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        if self.is_nan() || other.is_nan() {
            return None;
        }
        let size = |float: &Self| (float.scale(), float.digits);
        Some(match (self.negative, other.negative) {
            _ if self.is_zero() && other.is_zero() => Ordering::Equal,
            (false, false) => size(self).cmp(&size(other)),
            (true, true) => size(other).cmp(&size(self)),
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
        })
    }
}

/// `bits` shifted right. The lowest bit of the result is one if any bit that was shifted out was.
fn shifted_right(bits: u128, distance: u32) -> u128 {
    let shifted = bits.checked_shr(distance).unwrap_or(0);
    let lost = shifted.checked_shl(distance).unwrap_or(0) != bits;
    shifted | u128::from(lost)
}

/// The product in 256 bits: its high half and its low half.
fn product(a: u128, b: u128) -> (u128, u128) {
    let half = u128::from(u64::MAX);
    let ([a1, a0], [b1, b0]) = ([a >> 64, a & half], [b >> 64, b & half]);
    let low = a0 * b0;
    let (middle, overflow) = (a1 * b0).overflowing_add(a0 * b1);
    let (low, carry) = low.overflowing_add(middle << 64);
    let high = a1 * b1 + (middle >> 64) + (u128::from(overflow) << 64) + u128::from(carry);
    (high, low)
}

fn low_u16(bits: u128) -> u16 {
    u16::try_from(bits & 0xffff).expect("16 bits")
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The same number with more digits than it needs.
    pub(in super::super) fn long<const DIGITS: u32>(float: f64) -> Float<DIGITS> {
        let bits = float.to_bits();
        let negative = float.is_sign_negative();
        let exponent = u16::try_from(bits >> 52 & 0x7ff).expect("11 bits");
        let digits = (u128::from(bits) & ((1 << 52) - 1) | 1 << 52) << (DIGITS - 53);
        match exponent {
            0 if bits << 1 == 0 => Float { negative, exponent: 0, digits: 0 },
            0 => {
                let up = long::<DIGITS>(float * 2_f64.powi(100));
                Float { exponent: up.exponent - 100, ..up }
            }
            0x7ff => Float { negative, exponent: EXPONENT_MAX, digits },
            _ => Float { negative, exponent: exponent + (0x3fff - 0x3ff), digits },
        }
    }

    fn parts<const DIGITS: u32>(float: Float<DIGITS>) -> (u16, u128) {
        (float.head(), float.digits)
    }

    fn assert_sum_and_product<const DIGITS: u32>([a, b, sum, product]: [Float<DIGITS>; 4]) {
        assert_eq!(parts(a + b), parts(sum), "{a:?} and {b:?}");
        assert_eq!(parts(b + a), parts(sum), "{b:?} and {a:?}");
        assert_eq!(parts(a * b), parts(product), "{a:?} times {b:?}");
        let negative = Float { negative: !b.negative, ..b };
        assert_eq!(parts(a - negative), parts(sum), "{a:?} less {negative:?}");
    }

    /// Two floats, their sum and their product, as a processor that has such floats computed them.
    #[test]
    fn extended_floats_come_to_what_a_processor_says() {
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
            let row: [Extended; 4] = row.map(|(head, digits)| Float::from_parts(head, digits));
            assert_sum_and_product(row);
            for float in row {
                assert_eq!(parts(Extended::from_ne_bytes(float.to_ne_bytes())), parts(float));
            }
        }
    }

    /// The same for quadruples, as GCC's library computed them.
    #[test]
    fn quadruples_come_to_what_a_c_library_says() {
        let table: [[u128; 4]; 14] = [
            [
                0xbfff_2a33_7357_ae2c_c59b_2fef_107a_2752,
                0xbfff_e409_3df8_432a_8be5_71dd_0913_2716,
                0xc000_871e_58a7_f8ab_a8c0_50e6_0cc6_a734,
                0x4000_19ea_0508_22f9_3699_e965_ab24_3c3e,
            ],
            [
                0xc100_0000_0000_0000_0000_0000_0000_0000,
                0xc08f_0000_0000_0000_0000_0000_0000_0000,
                0xc100_0000_0000_0000_0000_0000_0000_0000,
                0x4190_0000_0000_0000_0000_0000_0000_0000,
            ],
            [
                0xfffe_b494_d688_0418_a99e_9557_53b5_7993,
                0xfffe_0123_9ff2_c4a0_6a73_8be8_7413_a8b3,
                0xffff_0000_0000_0000_0000_0000_0000_0000,
                0x7fff_0000_0000_0000_0000_0000_0000_0000,
            ],
            [
                0x0000_be1e_defc_fabd_75da_e35a_c674_71cc,
                0x4034_7b59_baf2_b613_ed82_8b4e_b781_7f86,
                0x4034_7b59_baf2_b613_ed82_8b4e_b781_7f86,
                0x0036_19ba_57b2_bb95_01e1_a506_d7ad_e50b,
            ],
            [
                0xa000_686f_3326_a04f_c987_6ed5_ff7a_a865,
                0x1fdf_6edd_2256_2c4c_697b_5b22_f453_80f3,
                0xa000_686f_3325_e8e1_385c_58af_cabc_fad4,
                0x8000_0000_0001_0243_29bc_3d07_bccb_1558,
            ],
            [
                0x8000_7dc2_ae94_e4db_f967_0c97_1bea_6a6a,
                0x8001_ea21_77d8_d51f_57fb_7610_4a9e_26b7,
                0x8002_33f2_1336_dcfd_a8b1_4153_b344_4890,
                0x0000_0000_0000_0000_0000_0000_0000_0000,
            ],
            [
                0x9fe0_6c12_9af7_f244_0efe_c7de_e68f_ffba,
                0x1fee_15ad_a4e5_3975_b451_63eb_500c_ce12,
                0x1fee_15a7_f49a_cd95_eb41_27f0_3091_33d2,
                0x8000_0000_0000_0000_62b9_c530_bb15_572a,
            ],
            [
                0x3fff_0000_0000_0000_0000_0000_0000_0000,
                0x4000_0000_0000_0000_0000_0000_0000_0001,
                0x4000_8000_0000_0000_0000_0000_0000_0001,
                0x4000_0000_0000_0000_0000_0000_0000_0001,
            ],
            [
                0x4100_0000_0000_0000_0000_0000_0000_0000,
                0x408d_02ab_7bb5_4e68_7499_bebf_0929_f41a,
                0x4100_0000_0000_0000_0000_0000_0000_0000,
                0x418e_02ab_7bb5_4e68_7499_bebf_0929_f41a,
            ],
            [
                0xfffe_e5ba_a16e_e5b5_419e_16b3_a918_e427,
                0x7ffe_4ab9_cfc9_a417_44c4_86dd_ce90_6c8c,
                0xfffd_3601_a34a_833b_f9b3_1fab_b510_ef36,
                0xffff_0000_0000_0000_0000_0000_0000_0000,
            ],
            [
                0x8000_f481_19b1_0395_4df1_7978_0d4e_5b2b,
                0x4023_b36e_b1ca_a58e_e7dc_f0fe_55be_95a1,
                0x4023_b36e_b1ca_a58e_e7dc_f0fe_55be_95a1,
                0x8025_9fe1_17ef_a1e7_995e_b8a8_9e32_b8a2,
            ],
            [
                0x2000_8f09_9965_5250_4a5d_4fcf_7212_bebf,
                0x1fd2_dfd3_a087_0f60_e072_2547_4d79_3f2c,
                0x2000_8f09_9965_5257_c9ab_d1eb_af96_4088,
                0x0000_0000_0000_000b_afb3_549a_25bb_728d,
            ],
            [
                0x8000_44a7_0507_3f90_be80_7f2e_6910_bdea,
                0x0001_7fc9_2593_c865_b4c2_0f81_2a26_5e56,
                0x0001_3b22_208c_88d4_f641_9052_c115_a06c,
                0x8000_0000_0000_0000_0000_0000_0000_0000,
            ],
            [
                0x1fe0_ffff_ffff_ffff_ffff_ffff_ffff_ffff,
                0x1fe0_ffff_ffff_ffff_ffff_ffff_ffff_ffff,
                0x1fe1_ffff_ffff_ffff_ffff_ffff_ffff_ffff,
                0x0000_0000_0000_0000_0004_0000_0000_0000,
            ],
        ];
        for row in table {
            assert_sum_and_product(row.map(|bits| Quadruple::from_ne_bytes(bits.to_ne_bytes())));
            for bits in row {
                assert_eq!(
                    Quadruple::from_ne_bytes(bits.to_ne_bytes()).to_ne_bytes(),
                    bits.to_ne_bytes()
                );
            }
        }
    }

    /// Where 53 digits are enough for the exact result, all must come to the same.
    #[test]
    fn short_floats_come_to_what_rust_says() {
        assert_as_rust::<64>();
        assert_as_rust::<113>();
    }

    fn assert_as_rust<const DIGITS: u32>() {
        let short = [0.0, -0.0, 1.0, -1.5, 3.25, 1e5, -7e8, 0.1, f32::MAX, 1.5e-40].map(f64::from);
        let others = [f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
        let floats = short.into_iter().chain(others);
        for (a, b) in floats.clone().flat_map(|a| floats.clone().map(move |b| (a, b))) {
            let (first, second) = (long::<DIGITS>(a), long::<DIGITS>(b));
            let exact = a + b - a == b && a + b - b == a;
            if exact || !(a + b).is_finite() {
                assert_same(first + second, long(a + b), a, b);
            }
            assert_same(first * second, long(a * b), a, b);
            assert_eq!(first.partial_cmp(&second), a.partial_cmp(&b), "{a} {b}");
        }
    }

    fn assert_same<const DIGITS: u32>(
        found: Float<DIGITS>,
        expected: Float<DIGITS>,
        a: f64,
        b: f64,
    ) {
        let nan = found.is_nan() && expected.is_nan();
        assert!(nan || parts(found) == parts(expected), "{a} and {b}: {found:?}, {expected:?}");
    }
}
