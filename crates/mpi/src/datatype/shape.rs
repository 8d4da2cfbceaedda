//! The shape of an element: its basic types, their places, and its bounds.
//!
//! All constructors use four operations on shapes: repeat, move, join, and set bounds.

use super::basic::Basic;
use super::error::Error;
use super::layout::{Block, Layout};
use super::signature::Signature;

/// Basic types, places and bounds.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    pub(crate) signature: Signature,
    pub(crate) layout: Layout,
    pub(crate) bounds: Bounds,
}

/// The bounds of an element.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Bounds {
    pub(crate) lower: i64,
    pub(crate) upper: i64,
    pub(crate) true_lower: i64,
    pub(crate) true_upper: i64,
    /// The bounds were set explicitly. Types made from it consider set bounds only, and are not padded.
    set: bool,
    /// The strictest alignment of its basic types; zero if it has none.
    align: u64,
}

/// A shape repeated `count` times, one extent apart, the first at `displacement`.
pub(crate) struct Part<'a> {
    pub(crate) displacement: i128,
    pub(crate) count: u64,
    pub(crate) shape: &'a Shape,
}

impl Bounds {
    const NOTHING: Bounds =
        Bounds { lower: 0, upper: 0, true_lower: 0, true_upper: 0, set: false, align: 0 };

    /// Distance from one element to the next.
    pub(crate) fn extent(&self) -> i64 {
        self.upper - self.lower
    }
}

impl Shape {
    /// No basic types, no bounds.
    pub(crate) const NOTHING: Shape =
        Shape { signature: Signature::EMPTY, layout: Layout::Empty, bounds: Bounds::NOTHING };

    /// One basic type.
    pub(crate) const fn one(basic: Basic) -> Shape {
        let bytes = basic.bytes().cast_signed();
        Shape {
            signature: Signature::one(basic),
            layout: Layout::Block(Block { offset: 0, bytes: basic.bytes() }),
            bounds: Bounds {
                upper: bytes,
                true_upper: bytes,
                align: basic.align(),
                ..Bounds::NOTHING
            },
        }
    }

    /// The C struct of these two.
    pub(crate) const fn pair(value: Basic, index: Basic) -> Shape {
        let at = value.bytes().next_multiple_of(index.align());
        let end = at + index.bytes();
        let align = if value.align() > index.align() { value.align() } else { index.align() };
        let layout = if at == value.bytes() {
            Layout::Block(Block { offset: 0, bytes: end })
        } else {
            let value = Block { offset: 0, bytes: value.bytes() };
            Layout::Two([value, Block { offset: at.cast_signed(), bytes: index.bytes() }])
        };
        let upper = end.next_multiple_of(align).cast_signed();
        let true_upper = end.cast_signed();
        let bounds = Bounds { upper, true_upper, align, ..Bounds::NOTHING };
        Shape { signature: Signature::pair(value, index), layout, bounds }
    }

    /// The shape `count` times, each `stride` bytes after the previous one.
    pub(crate) fn repeated(&self, count: u64, stride: i128) -> Result<Shape, Error> {
        match count {
            0 => return Ok(Shape::NOTHING),
            _ if self.bounds == Bounds::NOTHING => return Ok(Shape::NOTHING),
            1 => return Ok(self.clone()),
            _ => {}
        }
        let stride = fit(stride)?;
        let mut reach = Reach::default();
        reach.add_row(&self.bounds, 0, count, stride);
        let (bounds, signature) = (reach.bounds()?, self.signature.repeated(count)?);
        Ok(Shape { signature, layout: self.layout.repeated(count, stride), bounds })
    }

    /// The shape `count` times, one extent apart.
    pub(crate) fn row(&self, count: u64) -> Result<Shape, Error> {
        self.repeated(count, i128::from(self.bounds.extent()))
    }

    /// The shape moved by `by` bytes.
    pub(crate) fn shifted(&self, by: i128) -> Result<Shape, Error> {
        Shape::joined(&[Part { displacement: by, count: 1, shape: self }])
    }

    /// Rows of the shape: lengths and displacements. Needs a list only if the rows are irregular.
    pub(crate) fn scattered(&self, rows: &[(u64, i128)]) -> Result<Shape, Error> {
        if let [(count, first), (_, second), ..] = rows
            && rows.windows(2).all(|pair| pair[1].1 - pair[0].1 == second - first)
            && rows.iter().all(|row| row.0 == *count)
        {
            let all = self.row(*count)?.repeated(rows.len() as u64, second - first)?;
            return all.shifted(*first);
        }
        let (extent, mut reach, mut elements) = (self.bounds.extent(), Reach::default(), 0_u64);
        let rows = rows.iter().filter(|row| row.0 > 0);
        for &(count, displacement) in rows.clone() {
            reach.add_row(&self.bounds, fit(displacement)?, count, extent);
            elements = elements.checked_add(count).ok_or(Error::TooLarge)?;
        }
        // Only here is it certain that the byte counts do not overflow.
        let (bounds, signature) = (reach.bounds()?, self.signature.repeated(elements)?);
        let layouts = rows.map(|&(count, displacement)| {
            Ok(self.layout.repeated(count, extent).shifted(fit(displacement)?))
        });
        let layouts = layouts.collect::<Result<Vec<_>, Error>>()?;
        Ok(Shape { signature, layout: Layout::joined(layouts), bounds })
    }

    /// All parts, one after the other.
    pub(crate) fn joined(parts: &[Part<'_>]) -> Result<Shape, Error> {
        let mut reach = Reach::default();
        let (mut layouts, mut signatures) = (Vec::new(), Vec::new());
        for part in parts.iter().filter(|part| part.count > 0) {
            let (row, displacement) = (part.shape.row(part.count)?, fit(part.displacement)?);
            reach.add_row(&row.bounds, displacement, 1, 0);
            layouts.push(row.layout.shifted(displacement));
            signatures.push(row.signature);
        }
        let (bounds, signature) = (reach.bounds()?, Signature::joined(signatures)?);
        Ok(Shape { signature, layout: Layout::joined(layouts), bounds })
    }

    /// The shape with these bounds.
    pub(crate) fn bounded(&self, lower: i128, extent: i128) -> Result<Shape, Error> {
        fit(extent)?;
        let (lower, upper) = (fit(lower)?, fit(lower + extent)?);
        let bounds = Bounds { lower, upper, set: true, ..self.bounds };
        Ok(Shape { bounds, ..self.clone() })
    }
}

/// A lower and an upper end.
type Stretch = Option<(i128, i128)>;

/// Bounds under construction, in numbers that do not overflow.
#[derive(Default)]
struct Reach {
    set: Stretch,
    unset: Stretch,
    occupied: Stretch,
    align: u64,
}

impl Reach {
    /// Adds `count` elements with these bounds, at least one.
    fn add_row(&mut self, bounds: &Bounds, displacement: i64, count: u64, stride: i64) {
        let first = i128::from(displacement);
        self.add(bounds, first);
        self.add(bounds, first + i128::from(count - 1) * i128::from(stride));
    }

    fn add(&mut self, bounds: &Bounds, displacement: i128) {
        let moved = |lower: i64, upper: i64| {
            (displacement + i128::from(lower), displacement + i128::from(upper))
        };
        let outer = moved(bounds.lower, bounds.upper);
        if bounds.align > 0 {
            widen(&mut self.occupied, moved(bounds.true_lower, bounds.true_upper));
        }
        if bounds.set {
            widen(&mut self.set, outer);
        } else if bounds.align > 0 {
            widen(&mut self.unset, outer);
        }
        self.align = self.align.max(bounds.align);
    }

    /// MPI 5.0 §5.1.6: explicitly set bounds count alone; where there are none, the extent is rounded up to the
    /// strictest alignment of the basic types.
    fn bounds(&self) -> Result<Bounds, Error> {
        let padded = self.unset.map(|(lower, upper)| {
            let align = i128::from(self.align);
            (lower, upper + (lower - upper).rem_euclid(align))
        });
        let (lower, upper) = self.set.or(padded).unwrap_or((0, 0));
        let (true_lower, true_upper) = self.occupied.unwrap_or((0, 0));
        fit(upper - lower)?;
        fit(true_upper - true_lower)?;
        Ok(Bounds {
            lower: fit(lower)?,
            upper: fit(upper)?,
            true_lower: fit(true_lower)?,
            true_upper: fit(true_upper)?,
            set: self.set.is_some(),
            align: self.align,
        })
    }
}

fn widen(stretch: &mut Stretch, (lower, upper): (i128, i128)) {
    let (least, most) = stretch.unwrap_or((lower, upper));
    *stretch = Some((least.min(lower), most.max(upper)));
}

fn fit(value: i128) -> Result<i64, Error> {
    i64::try_from(value).map_err(|_| Error::TooLarge)
}
