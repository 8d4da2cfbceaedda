//! Signatures: the basic types of an element, in the order of packing, without their places.
//!
//! The content of a message does not depend on where it came from, so counting basic types and converting to external32
//! need only this and the packed bytes.

use std::sync::Arc;

use super::basic::Basic;
use super::error::Error;

/// A sequence of basic types, and sums over them. A clone costs at most a reference count.
#[derive(Clone, Debug)]
pub(crate) struct Signature {
    pub(crate) bytes: u64,
    pub(crate) external_bytes: u64,
    pub(crate) basics: u64,
    form: Form,
}

#[derive(Clone, Debug)]
enum Form {
    Empty,
    /// `basics` times the same basic type.
    Run(Basic),
    /// A value and an index.
    Pair(Basic, Basic),
    /// A signature repeated.
    Repeat(Arc<Signature>),
    /// Signatures one after the other.
    Sequence(Arc<[Signature]>),
}

impl Signature {
    /// No basic types.
    pub(crate) const EMPTY: Signature =
        Signature { bytes: 0, external_bytes: 0, basics: 0, form: Form::Empty };

    /// One basic type.
    pub(crate) const fn one(basic: Basic) -> Signature {
        Signature {
            bytes: basic.bytes(),
            external_bytes: basic.external_bytes(),
            basics: 1,
            form: Form::Run(basic),
        }
    }

    /// A value and an index: two basic types.
    pub(crate) const fn pair(value: Basic, index: Basic) -> Signature {
        Signature {
            bytes: value.bytes() + index.bytes(),
            external_bytes: value.external_bytes() + index.external_bytes(),
            basics: 2,
            form: Form::Pair(value, index),
        }
    }

    /// The basic type, or the pair of them, of which all of it consists.
    pub(crate) fn only(&self) -> Option<(Basic, Option<Basic>)> {
        match &self.form {
            Form::Empty => None,
            Form::Run(basic) => Some((*basic, None)),
            Form::Pair(value, index) => Some((*value, Some(*index))),
            Form::Repeat(part) => part.only(),
            Form::Sequence(parts) => {
                let first = parts.first()?.only()?;
                parts.iter().all(|part| part.only() == Some(first)).then_some(first)
            }
        }
    }

    /// The signature `count` times.
    pub(crate) fn repeated(&self, count: u64) -> Result<Signature, Error> {
        let form = match (&self.form, count) {
            (Form::Empty, _) | (_, 0) => return Ok(Signature::EMPTY),
            (_, 1) => return Ok(self.clone()),
            (Form::Run(_) | Form::Repeat(_), _) => self.form.clone(),
            _ => Form::Repeat(Arc::new(self.clone())),
        };
        let times = |amount: u64| amount.checked_mul(count).ok_or(Error::TooLarge);
        let (bytes, external_bytes) = (times(self.bytes)?, times(self.external_bytes)?);
        i64::try_from(bytes).map_err(|_| Error::TooLarge)?;
        Ok(Signature { bytes, external_bytes, basics: times(self.basics)?, form })
    }

    /// All parts, one after the other.
    pub(crate) fn joined(parts: impl IntoIterator<Item = Signature>) -> Result<Signature, Error> {
        let mut joined: Vec<Signature> = Vec::new();
        for part in parts {
            match (joined.last_mut(), &part.form) {
                (_, Form::Empty) => {}
                (Some(last), Form::Run(basic)) if last.is_run_of(*basic) => last.absorb(&part)?,
                _ => joined.push(part),
            }
        }
        if joined.len() < 2 {
            return Ok(joined.pop().unwrap_or(Signature::EMPTY));
        }
        let mut sum = Signature::EMPTY;
        for part in &joined {
            sum.absorb(part)?;
        }
        Ok(Signature { form: Form::Sequence(joined.into()), ..sum })
    }

    fn is_run_of(&self, basic: Basic) -> bool {
        matches!(self.form, Form::Run(own) if own == basic)
    }

    /// Adds the sums of `other` to ours.
    fn absorb(&mut self, other: &Signature) -> Result<(), Error> {
        let sum = |a: u64, b: u64| a.checked_add(b).ok_or(Error::TooLarge);
        self.bytes = sum(self.bytes, other.bytes)?;
        self.external_bytes = sum(self.external_bytes, other.external_bytes)?;
        self.basics = sum(self.basics, other.basics)?;
        i64::try_from(self.bytes).map(|_| ()).map_err(|_| Error::TooLarge)
    }

    /// The only basic type, or both of a pair.
    pub(crate) fn as_predefined(&self) -> Option<(Basic, Option<Basic>)> {
        match self.form {
            Form::Run(basic) if self.basics == 1 => Some((basic, None)),
            Form::Pair(value, index) => Some((value, Some(index))),
            _ => None,
        }
    }

    /// Number of basic types in the first `bytes` of the element. None if they end inside one.
    pub(crate) fn basics_in(&self, bytes: u64) -> Option<u64> {
        let whole = |size: u64| bytes.is_multiple_of(size).then(|| bytes / size);
        match &self.form {
            Form::Empty => (bytes == 0).then_some(0),
            Form::Run(basic) => whole(basic.bytes()),
            Form::Pair(value, index) => match bytes.checked_sub(value.bytes()) {
                Some(0) => Some(1),
                Some(rest) => (rest == index.bytes()).then_some(2),
                None => (bytes == 0).then_some(0),
            },
            Form::Repeat(each) => {
                let rest = each.basics_in(bytes % each.bytes)?;
                Some(bytes / each.bytes * each.basics + rest)
            }
            Form::Sequence(parts) => {
                let (mut left, mut basics) = (bytes, 0);
                for part in parts.iter() {
                    let here = left.min(part.bytes);
                    basics += part.basics_in(here)?;
                    left -= here;
                    if left == 0 {
                        break;
                    }
                }
                Some(basics)
            }
        }
    }

    /// Bytes of the first `basics` basic types of the element.
    pub(crate) fn bytes_of(&self, basics: u64) -> u64 {
        match &self.form {
            Form::Empty => 0,
            Form::Run(basic) => basics * basic.bytes(),
            Form::Pair(value, index) => match basics {
                0 => 0,
                1 => value.bytes(),
                _ => value.bytes() + index.bytes(),
            },
            Form::Repeat(each) => {
                basics / each.basics * each.bytes + each.bytes_of(basics % each.basics)
            }
            Form::Sequence(parts) => {
                let mut left = basics;
                let first = parts.iter().map(|part| {
                    let here = left.min(part.basics);
                    left -= here;
                    part.bytes_of(here)
                });
                first.sum()
            }
        }
    }

    /// Calls `f` for each run of equal basic types, in order, until it fails.
    pub(crate) fn each_run<E>(
        &self,
        f: &mut impl FnMut(Basic, u64) -> Result<(), E>,
    ) -> Result<(), E> {
        match &self.form {
            Form::Empty => Ok(()),
            Form::Run(basic) => f(*basic, self.basics),
            Form::Pair(value, index) => {
                f(*value, 1)?;
                f(*index, 1)
            }
            Form::Repeat(each) => (0..self.bytes / each.bytes).try_for_each(|_| each.each_run(f)),
            Form::Sequence(parts) => parts.iter().try_for_each(|part| part.each_run(f)),
        }
    }

    /// Heap bytes, shared with its clones.
    pub(crate) fn heap_bytes(&self) -> usize {
        match &self.form {
            Form::Empty | Form::Run(_) | Form::Pair(..) => 0,
            Form::Repeat(each) => size_of::<Signature>() + each.heap_bytes(),
            Form::Sequence(parts) => {
                size_of_val(&**parts) + parts.iter().map(Signature::heap_bytes).sum::<usize>()
            }
        }
    }
}
