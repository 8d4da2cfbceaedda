//! What a message contains, in short: the basic types in it, so that sender and receiver can be compared.
//!
//! Types that programs use for each other, and whose bytes are the same, count as one: integers of a size, with or without
//! a sign, characters and truth values; complex numbers and pairs of floats. Bytes and packed data match anything.

use std::fmt;

use super::basic::{Basic, BasicKind};
use super::{Datatype, Signature};

/// The basic types of a message. 0 stands for all that is not compared.
///
/// ```text
/// 31       30..28   27..16               15..0
/// several  class    bytes of a number    handle of a predefined type    (if there is one kind of number)
/// several  hash                                                         (if there are several)
/// ```
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Content(u32);

/// A kind of number, and its size.
type NumberKind = (u32, u64);

const INTEGER: u32 = 1;
const FLOAT: u32 = 2;
const EXTENDED: u32 = 3;
const SEVERAL: u32 = 1 << 31;
/// How many runs of equal numbers are looked at.
const RUNS_MAX: usize = 4096;

impl Content {
    /// The content with this number.
    pub fn from_bits(bits: u32) -> Content {
        Content(bits)
    }

    /// The number of this content.
    pub fn bits(self) -> u32 {
        self.0
    }

    /// Whether one may be received as the other.
    pub fn agrees(self, other: Content) -> bool {
        let kind = |bits: u32| if bits & SEVERAL == 0 { bits >> 16 } else { bits };
        self.0 == 0 || other.0 == 0 || kind(self.0) == kind(other.0)
    }

    fn of_one((class, bytes): NumberKind, handle: u16) -> Content {
        let bytes = u32::try_from(bytes).unwrap_or(0) & 0xfff;
        Content(class << 28 | bytes << 16 | u32::from(handle))
    }
}

/// The name of the datatype, as far as it is known.
impl fmt::Display for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = Datatype::named(self.0 as usize & 0xffff).and_then(|datatype| datatype.name());
        match (self.0 & SEVERAL, named) {
            (0, Some(name)) => f.write_str(name),
            (0, None) => f.write_str("other data"),
            _ => f.write_str("a datatype of several basic types"),
        }
    }
}

impl Datatype {
    /// What the first `bytes` of a message of this type contain.
    pub fn content(&self, bytes: u64) -> Content {
        if bytes == 0 || self.size() == 0 {
            return Content::default();
        }
        let Some(runs) = runs(&self.shape().signature, bytes) else { return Content::default() };
        let [(only, _)] = runs[..] else { return Content(SEVERAL | hash(&runs) >> 1) };
        let handle = self.handle().or_else(|| {
            let mut all = Datatype::all_named();
            let is_it = |one: &Datatype| {
                let content = one.shape().signature.only();
                content == self.shape().signature.only()
            };
            all.find(is_it)?.handle()
        });
        Content::of_one(only, handle.unwrap_or(0))
    }
}

/// Numbers of one kind in a row, and how many bytes they have. `None` if they are not compared.
fn runs(signature: &Signature, bytes: u64) -> Option<Vec<(NumberKind, u64)>> {
    let mut runs: Vec<(NumberKind, u64)> = Vec::new();
    let mut left = bytes;
    let mut is_compared = true;
    if let Some((basic, None)) = signature.only() {
        return Some(vec![(number(basic)?, bytes)]);
    }
    while left > 0 && runs.len() < RUNS_MAX {
        // An error ends it early.
        let _ = signature.each_run(&mut |basic, count| {
            let Some(number) = number(basic) else {
                is_compared = false;
                return Err(());
            };
            let here = (basic.bytes() * count).min(left);
            left -= here;
            match runs.last_mut() {
                Some((last, length)) if *last == number => *length += here,
                _ => runs.push((number, here)),
            }
            if left == 0 || runs.len() >= RUNS_MAX { Err(()) } else { Ok(()) }
        });
        if !is_compared {
            return None;
        }
    }
    Some(runs)
}

/// The kind of number that a basic type consists of. `None` if it has none.
fn number(basic: Basic) -> Option<NumberKind> {
    let bytes = basic.part_bytes();
    Some(match basic.sort() {
        BasicKind::Signed | BasicKind::Unsigned | BasicKind::Logical | BasicKind::Character => {
            (INTEGER, bytes)
        }
        BasicKind::Float | BasicKind::Complex => (FLOAT, bytes),
        BasicKind::Extended | BasicKind::ExtendedComplex => (EXTENDED, bytes),
        BasicKind::Byte | BasicKind::Packed => return None,
    })
}

fn hash(runs: &[(NumberKind, u64)]) -> u32 {
    let mix = |hash: u64, part: u64| (hash ^ part).wrapping_mul(0x0100_0000_01b3);
    let all = runs.iter().fold(0xcbf2_9ce4_8422_2325, |hash, ((class, size), bytes)| {
        mix(mix(mix(hash, u64::from(*class)), *size), *bytes)
    });
    #[expect(clippy::cast_possible_truncation, reason = "both halves are wanted")]
    let folded = (all ^ all >> 32) as u32;
    folded | 2
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> Datatype {
        Datatype::by_name(name).expect("it is a datatype")
    }

    #[test]
    fn numbers_of_another_kind_or_size_do_not_agree() {
        let content = |name: &str| named(name).content(16);
        assert!(!content("MPI_INT").agrees(content("MPI_FLOAT")));
        assert!(!content("MPI_FLOAT").agrees(content("MPI_DOUBLE")));
        assert!(!content("MPI_INT").agrees(content("MPI_SHORT")));
        assert!(content("MPI_INT").agrees(content("MPI_UNSIGNED")));
        assert!(content("MPI_LONG").agrees(content("MPI_INT64_T")));
        assert!(content("MPI_C_DOUBLE_COMPLEX").agrees(content("MPI_DOUBLE")));
        assert!(content("MPI_BYTE").agrees(content("MPI_DOUBLE")));
        assert_eq!(content("MPI_FLOAT").to_string(), "MPI_FLOAT");
    }

    #[test]
    fn it_does_not_matter_how_a_type_was_made() {
        let (int, double) = (named("MPI_INT"), named("MPI_DOUBLE"));
        let pair = Datatype::structure(&[1, 1], &[0, 8], &[int.clone(), double.clone()]);
        let pair = pair.expect("a valid type");
        let twice = Datatype::structure(
            &[1, 1, 1, 1],
            &[0, 8, 16, 24],
            &[int.clone(), double.clone(), int.clone(), double.clone()],
        );
        let twice = twice.expect("a valid type");
        assert!(pair.content(24).agrees(twice.content(24)));
        assert!(!pair.content(24).agrees(double.content(24)));
        // A message of which only the first number was sent.
        assert!(pair.content(4).agrees(int.content(4)));
        let vector = int.vector(3, 2, 4).expect("a valid type");
        assert!(vector.content(24).agrees(int.content(24)));
        assert_eq!(vector.content(24).to_string(), "MPI_INT");
    }
}
