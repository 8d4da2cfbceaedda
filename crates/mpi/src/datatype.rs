//! Datatypes: which bytes of memory make up a message, and in what order.
//!
//! A datatype is immutable. It remembers how it was constructed ([`Recipe`]), and has two compact forms: a layout,
//! which is a nest of loops over blocks of bytes and all that packing needs, and a signature, which is the sequence of
//! basic types and all that counting and conversion need. The constructor makes both, and their size follows from its
//! arguments, not from the number of elements that they describe.
//!
//! Memory is accessed through [`Memory`] only, by offsets from the address of the buffer.

mod basic;
mod build;
mod choice;
mod content;
mod error;
mod external;
mod layout;
mod named;
mod recipe;
mod shape;
mod signature;
mod walk;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

pub use basic::{Basic, BasicKind, Predefined};
pub use choice::TypeClass;
pub use content::Content;
pub use error::Error;
pub use recipe::{Combiner, Contents, Counts, Dimension, Distribution, Order, Recipe, UNDEFINED};
use shape::Shape;
use signature::Signature;

/// Memory of a buffer, by offsets from its address. Only the bytes that a type has are loaded and stored, in the order
/// of packing, and at least one at a time.
pub trait Memory {
    /// Fills `into` with the bytes at `offset`.
    fn load(&self, offset: i64, into: &mut [u8]);

    /// Puts the bytes of `from` at `offset`.
    fn store(&mut self, offset: i64, from: &[u8]);
}

/// An MPI datatype. A clone costs at most a reference count; of a predefined type, nothing.
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

    /// The same type, recorded as constructed with large counts.
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

    /// How the type was constructed.
    pub fn recipe(&self) -> &Recipe {
        &self.definition().recipe
    }

    /// The width of the counts that it was constructed with.
    pub fn counts(&self) -> Counts {
        if self.definition().large { Counts::Large } else { Counts::Small }
    }

    /// The predefined type that this is, with or without a name.
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

    /// The predefined type of whose elements it consists, if it is the same for all.
    pub fn element(&self) -> Option<Predefined> {
        match self.shape().signature.only()? {
            (basic, None) => Some(Predefined::One(basic)),
            (value, Some(index)) => Some(Predefined::Pair { value, index }),
        }
    }

    /// Bytes of a packed element.
    #[inline]
    pub fn size(&self) -> u64 {
        self.shape().signature.bytes
    }

    /// Basic types in an element. A pair of value and index counts as two.
    pub fn basics(&self) -> u64 {
        self.shape().signature.basics
    }

    /// The lower bound.
    pub fn lb(&self) -> i64 {
        self.shape().bounds.lower
    }

    /// The extent: distance from one element to the next.
    #[inline]
    pub fn extent(&self) -> i64 {
        self.shape().bounds.extent()
    }

    /// The true lower bound: offset of the first byte of an element.
    pub fn true_lb(&self) -> i64 {
        self.shape().bounds.true_lower
    }

    /// The true extent: from the first byte of an element to the end of the last.
    pub fn true_extent(&self) -> i64 {
        self.shape().bounds.true_upper - self.true_lb()
    }

    /// Whether any number of elements are contiguous bytes that begin at the address of the buffer.
    #[inline]
    pub fn is_contiguous(&self) -> bool {
        let shape = self.shape();
        let bytes = shape.signature.bytes.cast_signed();
        let gapless = shape.layout.block().is_some_and(|block| block.offset == 0);
        gapless && shape.bounds.lower == 0 && shape.bounds.extent() == bytes
    }

    /// The range of `count` elements, if they are bytes without a gap: these can be sent and received in place.
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

    /// The range from the first byte of `count` elements to the end of the last, by offsets from the address of the
    /// buffer.
    pub fn window(&self, count: u64) -> Range<i64> {
        let Some(last) = count.checked_sub(1).filter(|_| self.size() > 0) else {
            return 0..0;
        };
        let bounds = &self.shape().bounds;
        let away = i64::try_from(last).unwrap_or(i64::MAX).saturating_mul(bounds.extent());
        bounds.true_lower.saturating_add(away.min(0))..bounds.true_upper.saturating_add(away.max(0))
    }

    /// Number of elements in a message of `bytes`. None if the last one is incomplete.
    pub fn elements_in(&self, bytes: u64) -> Option<u64> {
        match self.size() {
            0 => (bytes == 0).then_some(0),
            size => bytes.is_multiple_of(size).then(|| bytes / size),
        }
    }

    /// Number of basic types in a message of `bytes`. None if it ends inside one.
    pub fn basics_in(&self, bytes: u64) -> Option<u64> {
        match self.size() {
            0 => (bytes == 0).then_some(0),
            size => {
                let rest = self.shape().signature.basics_in(bytes % size)?;
                (bytes / size).checked_mul(self.basics())?.checked_add(rest)
            }
        }
    }

    /// Bytes of a message of `basics` basic types. None if there is no such message.
    pub fn bytes_of_basics(&self, basics: u64) -> Option<u64> {
        match self.basics() {
            0 => (basics == 0).then_some(0),
            each => {
                let whole = (basics / each).checked_mul(self.size())?;
                whole.checked_add(self.shape().signature.bytes_of(basics % each))
            }
        }
    }

    /// Packs `count` elements into `into`, which has exactly the bytes that they need.
    #[inline]
    pub fn pack<M: Memory + ?Sized>(&self, count: u64, from: &M, into: &mut [u8]) {
        self.shape().layout.pack(0, (count, self.extent()), from, into);
    }

    /// Unpacks up to `count` elements. A shorter message fills what it reaches, to the byte.
    #[inline]
    pub fn unpack<M: Memory + ?Sized>(&self, count: u64, from: &[u8], into: &mut M) {
        self.shape().layout.unpack(0, (count, self.extent()), from, into);
    }

    /// Heap bytes of the compact forms.
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
