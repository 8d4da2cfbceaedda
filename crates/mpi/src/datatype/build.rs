//! The constructors. Each checks its arguments, builds the shape, and records the arguments.

use super::Datatype;
use super::error::Error;
use super::recipe::{Dimension, Distribution, Order, Recipe};
use super::shape::{Part, Shape};

impl Datatype {
    /// The same type under another handle.
    #[must_use]
    pub fn dup(&self) -> Datatype {
        Datatype::made(Recipe::Dup { of: self.clone() }, self.shape().clone())
    }

    /// `count` elements, one extent apart.
    pub fn contiguous(&self, count: i64) -> Result<Datatype, Error> {
        let shape = self.shape().row(natural(count)?)?;
        Ok(Datatype::made(Recipe::Contiguous { count, of: self.clone() }, shape))
    }

    /// `count` blocks, `stride` extents apart.
    pub fn vector(&self, count: i64, blocklength: i64, stride: i64) -> Result<Datatype, Error> {
        let shape = self.blocks(count, blocklength, self.extents(stride))?;
        let of = self.clone();
        Ok(Datatype::made(Recipe::Vector { count, blocklength, stride, of }, shape))
    }

    /// `count` blocks, `stride` bytes apart.
    pub fn hvector(&self, count: i64, blocklength: i64, stride: i64) -> Result<Datatype, Error> {
        let shape = self.blocks(count, blocklength, i128::from(stride))?;
        let of = self.clone();
        Ok(Datatype::made(Recipe::Hvector { count, blocklength, stride, of }, shape))
    }

    /// Blocks of these lengths, at displacements in extents.
    pub fn indexed(&self, blocklengths: &[i64], displacements: &[i64]) -> Result<Datatype, Error> {
        let away = displacements.iter().map(|&displacement| self.extents(displacement));
        let shape = self.scattered(blocklengths.iter().copied(), away)?;
        let (blocklengths, displacements) = (blocklengths.into(), displacements.into());
        Ok(Datatype::made(Recipe::Indexed { blocklengths, displacements, of: self.clone() }, shape))
    }

    /// Blocks of these lengths, at displacements in bytes.
    pub fn hindexed(&self, blocklengths: &[i64], displacements: &[i64]) -> Result<Datatype, Error> {
        let away = displacements.iter().map(|&displacement| i128::from(displacement));
        let shape = self.scattered(blocklengths.iter().copied(), away)?;
        let (blocklengths, displacements) = (blocklengths.into(), displacements.into());
        let of = self.clone();
        Ok(Datatype::made(Recipe::Hindexed { blocklengths, displacements, of }, shape))
    }

    /// Blocks of one length, at displacements in extents.
    pub fn indexed_block(
        &self,
        blocklength: i64,
        displacements: &[i64],
    ) -> Result<Datatype, Error> {
        let away = displacements.iter().map(|&displacement| self.extents(displacement));
        let shape = self.scattered(displacements.iter().map(|_| blocklength), away)?;
        let (displacements, of) = (displacements.into(), self.clone());
        natural(blocklength)?;
        Ok(Datatype::made(Recipe::IndexedBlock { blocklength, displacements, of }, shape))
    }

    /// Blocks of one length, at displacements in bytes.
    pub fn hindexed_block(
        &self,
        blocklength: i64,
        displacements: &[i64],
    ) -> Result<Datatype, Error> {
        let away = displacements.iter().map(|&displacement| i128::from(displacement));
        let shape = self.scattered(displacements.iter().map(|_| blocklength), away)?;
        let (displacements, of) = (displacements.into(), self.clone());
        natural(blocklength)?;
        Ok(Datatype::made(Recipe::HindexedBlock { blocklength, displacements, of }, shape))
    }

    /// Blocks of these lengths and types, at displacements in bytes. Lists of different lengths are a bug of the
    /// caller.
    pub fn structure(
        blocklengths: &[i64],
        displacements: &[i64],
        of: &[Datatype],
    ) -> Result<Datatype, Error> {
        assert_eq!(blocklengths.len(), displacements.len(), "a displacement for each block");
        assert_eq!(blocklengths.len(), of.len(), "a type for each block");
        let parts = blocklengths.iter().zip(displacements).zip(of);
        let parts = parts.map(|((&blocklength, &displacement), of)| {
            let (displacement, count) = (i128::from(displacement), natural(blocklength)?);
            Ok(Part { displacement, count, shape: of.shape() })
        });
        let shape = Shape::joined(&parts.collect::<Result<Vec<_>, Error>>()?)?;
        let (blocklengths, displacements) = (blocklengths.into(), displacements.into());
        Ok(Datatype::made(Recipe::Struct { blocklengths, displacements, of: of.into() }, shape))
    }

    /// A part of an array. Lists of different lengths are a bug of the caller.
    pub fn subarray(
        &self,
        sizes: &[i64],
        subsizes: &[i64],
        starts: &[i64],
        order: Order,
    ) -> Result<Datatype, Error> {
        assert_eq!(sizes.len(), subsizes.len(), "a part in each dimension");
        assert_eq!(sizes.len(), starts.len(), "a start in each dimension");
        let mut array = Array::new(self);
        for dimension in fastest_first(sizes.len(), order)? {
            let (size, part, start) = (sizes[dimension], subsizes[dimension], starts[dimension]);
            if size < 1 {
                return Err(Error::Dimensions);
            }
            if part < 1 || start < 0 || start > size - part {
                return Err(Error::Outside);
            }
            array.select(size, &[Run { start, length: part, times: 1, step: 0 }])?;
        }
        let shape = array.finish()?;
        let (sizes, subsizes, starts) = (sizes.into(), subsizes.into(), starts.into());
        let of = self.clone();
        Ok(Datatype::made(Recipe::Subarray { sizes, subsizes, starts, order, of }, shape))
    }

    /// The part of a distributed array that process `rank` in a grid of `size` processes holds. Grid ranks count the
    /// last dimension fastest, for both orders of the array.
    pub fn darray(
        &self,
        size: i32,
        rank: i32,
        dimensions: &[Dimension],
        order: Order,
    ) -> Result<Datatype, Error> {
        let coordinates = coordinates(size, rank, dimensions)?;
        let mut array = Array::new(self);
        for dimension in fastest_first(dimensions.len(), order)? {
            let (dimension, coordinate) = (&dimensions[dimension], coordinates[dimension]);
            array.select(dimension.size, &share(dimension, coordinate)?)?;
        }
        let shape = array.finish()?;
        let (dimensions, of) = (dimensions.into(), self.clone());
        Ok(Datatype::made(Recipe::Darray { size, rank, dimensions, order, of }, shape))
    }

    /// The same type with other bounds.
    pub fn resized(&self, lower: i64, extent: i64) -> Result<Datatype, Error> {
        let shape = self.shape().bounded(i128::from(lower), i128::from(extent))?;
        Ok(Datatype::made(Recipe::Resized { lower, extent, of: self.clone() }, shape))
    }

    /// `count` extents in bytes.
    fn extents(&self, count: i64) -> i128 {
        i128::from(count) * i128::from(self.extent())
    }

    /// `count` blocks, `stride` bytes apart.
    fn blocks(&self, count: i64, blocklength: i64, stride: i128) -> Result<Shape, Error> {
        let (count, blocklength) = (natural(count)?, natural(blocklength)?);
        self.shape().row(blocklength)?.repeated(count, stride)
    }

    /// Blocks of these lengths, at displacements in bytes.
    fn scattered(
        &self,
        blocklengths: impl ExactSizeIterator<Item = i64>,
        displacements: impl ExactSizeIterator<Item = i128>,
    ) -> Result<Shape, Error> {
        assert_eq!(blocklengths.len(), displacements.len(), "a displacement for each block");
        let rows = blocklengths.zip(displacements);
        let rows =
            rows.map(|(blocklength, displacement)| Ok((natural(blocklength)?, displacement)));
        self.shape().scattered(&rows.collect::<Result<Vec<_>, Error>>()?)
    }
}

/// A count, which must not be negative.
fn natural(count: i64) -> Result<u64, Error> {
    u64::try_from(count).map_err(|_| Error::NegativeCount)
}

/// The dimensions of an array, fastest-moving index first.
fn fastest_first(count: usize, order: Order) -> Result<Vec<usize>, Error> {
    match (count, order) {
        (0, _) => Err(Error::Dimensions),
        (_, Order::C) => Ok((0..count).rev().collect()),
        (_, Order::Fortran) => Ok((0..count).collect()),
    }
}

/// Elements of one dimension: `times` a run of `length`, each `step` after the previous one.
struct Run {
    start: i64,
    length: i64,
    times: i64,
    step: i64,
}

/// A part of an array, built dimension by dimension.
struct Array {
    shape: Shape,
    /// Bytes between neighbouring indices of the next dimension.
    stride: i128,
}

impl Array {
    fn new(of: &Datatype) -> Array {
        Array { shape: of.shape().clone(), stride: i128::from(of.extent()) }
    }

    /// Selects these runs of the next dimension, which has `size` elements.
    fn select(&mut self, size: i64, runs: &[Run]) -> Result<(), Error> {
        let mut shapes = Vec::new();
        for run in runs {
            let row = self.shape.repeated(natural(run.length)?, self.stride)?;
            let rows = row.repeated(natural(run.times)?, i128::from(run.step) * self.stride)?;
            shapes.push((i128::from(run.start) * self.stride, rows));
        }
        let parts = shapes.iter().map(|(displacement, shape)| Part {
            displacement: *displacement,
            count: 1,
            shape,
        });
        self.shape = Shape::joined(&parts.collect::<Vec<_>>())?;
        self.stride = self.stride.checked_mul(i128::from(size)).ok_or(Error::TooLarge)?;
        i64::try_from(self.stride).map(|_| ()).map_err(|_| Error::TooLarge)
    }

    /// The selected part, with the bounds of the whole array.
    fn finish(self) -> Result<Shape, Error> {
        self.shape.bounded(0, self.stride)
    }
}

/// The coordinates of a rank in the process grid.
fn coordinates(size: i32, rank: i32, dimensions: &[Dimension]) -> Result<Vec<i64>, Error> {
    let grid = dimensions.iter().try_fold(1_i64, |grid, dimension| {
        Some(dimension.processes).filter(|&count| count > 0)?;
        grid.checked_mul(i64::from(dimension.processes))
    });
    if rank < 0 || rank >= size || grid != Some(i64::from(size)) {
        return Err(Error::Grid);
    }
    let mut left = i64::from(rank);
    let slowest_last = dimensions.iter().rev().map(|dimension| {
        let coordinate = left % i64::from(dimension.processes);
        left /= i64::from(dimension.processes);
        coordinate
    });
    let mut coordinates: Vec<i64> = slowest_last.collect();
    coordinates.reverse();
    Ok(coordinates)
}

/// The elements of a dimension that the process at `coordinate` holds.
fn share(dimension: &Dimension, coordinate: i64) -> Result<Vec<Run>, Error> {
    let (size, processes) = (dimension.size, i64::from(dimension.processes));
    if size < 1 {
        return Err(Error::Dimensions);
    }
    let block = dimension.block.map(i64::from);
    let block = match dimension.distribution {
        Distribution::Whole if processes > 1 => return Err(Error::Distribution),
        Distribution::Whole => size,
        Distribution::Block => block.unwrap_or((size - 1) / processes + 1),
        Distribution::Cyclic => block.unwrap_or(1),
    };
    let covers = block.saturating_mul(processes) >= size;
    if block < 1 || dimension.distribution == Distribution::Block && !covers {
        return Err(Error::Distribution);
    }
    let (start, step) = (coordinate * block, processes.saturating_mul(block));
    let left = (size - start).max(0);
    let times = left / step + i64::from(left % step >= block);
    let whole = Run { start, length: block, times, step };
    // The last block may be shorter.
    let used = times.saturating_mul(step);
    let rest =
        Run { start: start.saturating_add(used), length: (left - used).max(0), times: 1, step: 0 };
    Ok(vec![whole, rest])
}
