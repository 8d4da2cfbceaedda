//! Datatypes: which bytes of the user's memory make up a message, and in what order.
//!
//! A datatype is a value that never changes. It remembers how it was made ([`Recipe`]), and has
//! two compact forms of what that means: a layout, which is a nest of loops over blocks of bytes
//! and all that packing looks at, and a signature, which is the basic types in their order and all
//! that counting and conversion look at. Both are made by the constructor, and their size follows
//! from the arguments as they were written, not from the elements they describe.
//!
//! Memory is reached through [`Memory`] only, by offsets from the address that the user gave.

mod basic;
mod build;
mod choice;
mod error;
mod external;
mod layout;
mod named;
mod recipe;
mod shape;
mod signature;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

pub use basic::{Basic, BasicKind, Predefined};
pub use choice::TypeClass;
pub use error::Error;
pub use recipe::{Combiner, Contents, Counts, Dimension, Distribution, Order, Recipe, UNDEFINED};
use shape::Shape;

/// The memory of a user, by offsets from the address of a buffer. Only the bytes that a type has
/// are loaded and stored, in the order in which they are packed, and at least one at a time.
pub trait Memory {
    /// Fills `into` with the bytes at `offset`.
    fn load(&self, offset: i64, into: &mut [u8]);

    /// Puts the bytes of `from` at `offset`.
    fn store(&mut self, offset: i64, from: &[u8]);
}

/// A type of MPI. A clone costs no more than a counter, and a predefined type not even that.
#[derive(Clone)]
pub struct Datatype(Source);

#[derive(Clone)]
enum Source {
    Named(&'static Definition),
    Made(Arc<Definition>),
}

#[derive(Clone)]
struct Definition {
    recipe: Recipe,
    shape: Shape,
    /// The constructor took large counts.
    large: bool,
}

impl Datatype {
    fn made(recipe: Recipe, shape: Shape) -> Datatype {
        Datatype(Source::Made(Arc::new(Definition { recipe, shape, large: false })))
    }

    /// The same, remembered as made by a call with large counts.
    #[must_use]
    pub fn with_large_counts(mut self) -> Datatype {
        if let Source::Made(definition) = &mut self.0 {
            Arc::make_mut(definition).large = true;
        }
        self
    }

    #[inline]
    fn definition(&self) -> &Definition {
        match &self.0 {
            Source::Named(definition) => definition,
            Source::Made(definition) => definition,
        }
    }

    #[inline]
    fn shape(&self) -> &Shape {
        &self.definition().shape
    }

    /// How it was made.
    pub fn recipe(&self) -> &Recipe {
        &self.definition().recipe
    }

    /// How wide the counts were with which it was made.
    pub fn counts(&self) -> Counts {
        if self.definition().large { Counts::Large } else { Counts::Small }
    }

    /// What it is, if it is predefined, with a name or without.
    pub fn predefined(&self) -> Option<Predefined> {
        match self.recipe() {
            Recipe::Named { .. }
            | Recipe::F90Real { .. }
            | Recipe::F90Complex { .. }
            | Recipe::F90Integer { .. }
            | Recipe::ValueIndex { .. } => {}
            _ => return None,
        }
        match self.shape().signature.as_predefined()? {
            (basic, None) => Some(Predefined::One(basic)),
            (value, Some(index)) => Some(Predefined::Pair { value, index }),
        }
    }

    /// Bytes of an element when it is packed.
    #[inline]
    pub fn size(&self) -> u64 {
        self.shape().signature.bytes
    }

    /// Basic types in an element. A pair of value and index is two.
    pub fn basics(&self) -> u64 {
        self.shape().signature.basics
    }

    /// The lower bound.
    pub fn lb(&self) -> i64 {
        self.shape().bounds.lower
    }

    /// From one element to the next.
    #[inline]
    pub fn extent(&self) -> i64 {
        self.shape().bounds.extent()
    }

    /// Where the first byte of an element is.
    pub fn true_lb(&self) -> i64 {
        self.shape().bounds.true_lower
    }

    /// From the first byte of an element to the end of the last.
    pub fn true_extent(&self) -> i64 {
        self.shape().bounds.true_upper - self.true_lb()
    }

    /// Whether any number of elements are the bytes from the address of the buffer on.
    #[inline]
    pub fn is_contiguous(&self) -> bool {
        let shape = self.shape();
        let bytes = shape.signature.bytes.cast_signed();
        let gapless = shape.layout.block().is_some_and(|block| block.offset == 0);
        gapless && shape.bounds.lower == 0 && shape.bounds.extent() == bytes
    }

    /// Where `count` elements are, if they are bytes without a gap: these can be sent and received
    /// where they lie.
    #[inline]
    pub fn one_block(&self, count: u64) -> Option<Range<i64>> {
        let bytes = self.size().cast_signed();
        if bytes == 0 || count == 0 {
            return Some(0..0);
        }
        let block = self.shape().layout.block()?;
        let gapless = count == 1 || self.extent() == bytes;
        let all = i64::try_from(count).ok()?.checked_mul(bytes)?;
        gapless.then_some(block.offset..block.offset.checked_add(all)?)
    }

    /// From the first byte that `count` elements have to the end of the last, by offsets from the
    /// address of the buffer.
    pub fn window(&self, count: u64) -> Range<i64> {
        let Some(last) = count.checked_sub(1).filter(|_| self.size() > 0) else {
            return 0..0;
        };
        let bounds = &self.shape().bounds;
        let away = i64::try_from(last).unwrap_or(i64::MAX).saturating_mul(bounds.extent());
        bounds.true_lower.saturating_add(away.min(0))..bounds.true_upper.saturating_add(away.max(0))
    }

    /// How many elements a message of `bytes` has; none if they are not whole.
    pub fn elements_in(&self, bytes: u64) -> Option<u64> {
        match self.size() {
            0 => (bytes == 0).then_some(0),
            size => bytes.is_multiple_of(size).then(|| bytes / size),
        }
    }

    /// How many basic types a message of `bytes` has; none if it ends inside one.
    pub fn basics_in(&self, bytes: u64) -> Option<u64> {
        match self.size() {
            0 => (bytes == 0).then_some(0),
            size => {
                let rest = self.shape().signature.basics_in(bytes % size)?;
                (bytes / size).checked_mul(self.basics())?.checked_add(rest)
            }
        }
    }

    /// How many bytes a message of so many basic types has; none if there can be no such message.
    pub fn bytes_of_basics(&self, basics: u64) -> Option<u64> {
        match self.basics() {
            0 => (basics == 0).then_some(0),
            each => {
                let whole = (basics / each).checked_mul(self.size())?;
                whole.checked_add(self.shape().signature.bytes_of(basics % each))
            }
        }
    }

    /// Copies `count` elements one after the other into `into`, which has the room that they need
    /// and no more.
    #[inline]
    pub fn pack<M: Memory + ?Sized>(&self, count: u64, from: &M, into: &mut [u8]) {
        self.shape().layout.pack(0, (count, self.extent()), from, into);
    }

    /// Copies packed bytes to where up to `count` elements have them. A shorter message fills what
    /// it reaches, to the byte.
    #[inline]
    pub fn unpack<M: Memory + ?Sized>(&self, count: u64, from: &[u8], into: &mut M) {
        self.shape().layout.unpack(0, (count, self.extent()), from, into);
    }

    /// Bytes of memory that the compact forms take, besides the few words that every type has.
    pub fn compact_bytes(&self) -> usize {
        self.shape().layout.heap_bytes() + self.shape().signature.heap_bytes()
    }
}

impl fmt::Debug for Datatype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => self.recipe().fmt(f),
        }
    }
}
