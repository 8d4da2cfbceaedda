//! Random datatypes, each with a plain list of its bytes.
//!
//! All types of a communicator have the same signature: some number of *units*, and a unit is a few basic types. So
//! every message that a wildcard receives fits the type of the receive; only the places of the bytes and their number
//! differ.

use std::cell::Cell;
use std::ops::Range;

use ferrywire_mpi::datatype::{Datatype, Memory, Order};
use ferrywire_sim::random::Random;

/// Basic types, with their sizes.
pub(crate) type Unit = Vec<(&'static str, i64)>;

/// A unit of at least eight bytes: messages carry their number in their first eight.
pub(crate) fn unit(random: &mut Random) -> Unit {
    let mut unit = Unit::new();
    while unit_bytes(&unit) < 8 || random.percent(40) {
        unit.push(random.pick(BASICS));
    }
    unit
}

pub(crate) fn unit_bytes(unit: &Unit) -> u64 {
    unit.iter().map(|(_, bytes)| bytes.cast_unsigned()).sum()
}

const BASICS: &[(&str, i64)] = &[
    ("MPI_CHAR", 1),
    ("MPI_SHORT", 2),
    ("MPI_INT", 4),
    ("MPI_FLOAT", 4),
    ("MPI_DOUBLE", 8),
    ("MPI_INT64_T", 8),
];

/// A datatype, and the bytes that it means.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    pub(crate) datatype: Datatype,
    /// Units of an element.
    pub(crate) units: u64,
    /// The offset of each byte of an element, in packing order.
    offsets: Vec<i64>,
    lower: i64,
    upper: i64,
}

impl Layout {
    /// Units without gaps.
    pub(crate) fn dense(unit: &Unit) -> Layout {
        let in_order: Vec<usize> = (0..unit.len()).collect();
        Layout::of_unit(unit, &in_order, |_| 0).resized(0, unit_bytes(unit).cast_signed())
    }

    /// A random layout, nested up to three times. Bytes may overlap.
    pub(crate) fn random(unit: &Unit, random: &mut Random) -> Layout {
        if random.percent(25) {
            return Layout::dense(unit);
        }
        let mut in_memory: Vec<usize> = (0..unit.len()).collect();
        random.shuffle(&mut in_memory);
        let layout = Layout::of_unit(unit, &in_memory, |_| signed(random.pick(&[0, 0, 1, 3, 8])));
        let reach = layout.upper - layout.lower + signed(random.below(12));
        let extent = if random.percent(20) { -reach } else { reach };
        let mut layout = layout.resized(signed(random.below(17)) - 8, extent);
        for _ in 0..random.below(3) {
            let wrapped = layout.wrapped(random);
            if (1..=UNITS_MAX).contains(&wrapped.units) {
                layout = wrapped;
            }
        }
        layout
    }

    /// A random layout of `count` elements for writing: bytes do not overlap.
    pub(crate) fn random_apart(unit: &Unit, units: u64, random: &mut Random) -> Elements {
        let layout = Layout::random(unit, random);
        let elements = Elements { count: units.div_ceil(layout.units), layout };
        let mut room = elements.room(|_| 0);
        let is_free = |place: i64| {
            let at = room.at(place);
            std::mem::replace(&mut room.bytes[at], 1) == 0
        };
        match elements.places().into_iter().all(is_free) {
            true => elements,
            false => Elements { count: units, layout: Layout::dense(unit) },
        }
    }

    /// A unit whose parts are in this order in memory, with gaps between them.
    fn of_unit(unit: &Unit, in_memory: &[usize], mut gap: impl FnMut(usize) -> i64) -> Layout {
        let mut places = vec![0; unit.len()];
        let mut end = 0;
        for &part in in_memory {
            places[part] = end;
            end += unit[part].1 + gap(part);
        }
        let named = |name| Datatype::by_name(name).expect("it is predefined");
        let of: Vec<Datatype> = unit.iter().map(|&(name, _)| named(name)).collect();
        let datatype = Datatype::structure(&vec![1; unit.len()], &places, &of).expect("small");
        let parts = unit.iter().zip(&places);
        let offsets = parts.flat_map(|(&(_, bytes), &at)| at..at + bytes).collect();
        Layout { datatype, units: 1, offsets, lower: 0, upper: end }
    }

    fn resized(&self, lower: i64, extent: i64) -> Layout {
        let datatype = self.datatype.resized(lower, extent).expect("small");
        Layout { datatype, lower, upper: lower + extent, ..self.clone() }
    }

    fn extent(&self) -> i64 {
        self.upper - self.lower
    }

    /// The type wrapped in a random constructor.
    fn wrapped(&self, random: &mut Random) -> Layout {
        let mut number =
            |low: i64, high: i64| low + signed(random.below((high - low).cast_unsigned()));
        let extent = self.extent();
        let (count, length, stride) = (number(0, 4), number(0, 4), number(-5, 6));
        let bytes_apart = number(-60, 61);
        let lengths = [number(0, 3), number(0, 3), number(0, 3)];
        let far = [number(-6, 7), number(-6, 7), number(-6, 7)];
        let (rows, columns) = (1 + number(0, 3), 1 + number(0, 3));
        let (row, column) = (number(0, 3), number(0, 3));
        let by_extents = |length: i64, at: i64| (length, at * extent);
        let even = |apart: i64| (0..count).map(move |k| (length, k * apart));
        let (made, blocks): (_, Vec<(i64, i64)>) = match number(0, 9) {
            0 => (Ok(self.datatype.dup()), vec![(1, 0)]),
            1 => (self.datatype.contiguous(count), vec![(count, 0)]),
            2 => (self.datatype.vector(count, length, stride), even(stride * extent).collect()),
            3 => (self.datatype.hvector(count, length, bytes_apart), even(bytes_apart).collect()),
            4 => {
                let blocks =
                    lengths.into_iter().zip(far).map(|(length, at)| by_extents(length, at));
                (self.datatype.indexed(&lengths, &far), blocks.collect())
            }
            5 => (self.datatype.hindexed(&lengths, &far), lengths.into_iter().zip(far).collect()),
            6 => {
                let blocks = far.into_iter().map(|at| by_extents(length, at)).collect();
                (self.datatype.indexed_block(length, &far), blocks)
            }
            7 => {
                let blocks = far.into_iter().map(|at| (length, at)).collect();
                (self.datatype.hindexed_block(length, &far), blocks)
            }
            _ => {
                // Some rows and columns of an array that has two more of each.
                let sizes = [rows + 2, columns + 2];
                let starts = [row.min(2), column.min(2)];
                let made = self.datatype.subarray(&sizes, &[rows, columns], &starts, Order::C);
                let start = |k: i64| (starts[0] + k) * sizes[1] + starts[1];
                let blocks = (0..rows).map(|k| by_extents(columns, start(k))).collect();
                let inside = self.placed(made.expect("small"), blocks);
                return Layout { lower: 0, upper: sizes[0] * sizes[1] * extent, ..inside };
            }
        };
        self.placed(made.expect("small"), blocks)
    }

    /// Blocks of the type: lengths, and displacements in bytes.
    fn placed(&self, datatype: Datatype, blocks: Vec<(i64, i64)>) -> Layout {
        let extent = self.extent();
        let each = |(length, at): (i64, i64)| (0..length).map(move |k| at + k * extent);
        let starts: Vec<i64> = blocks.into_iter().flat_map(each).collect();
        let moved = |&start: &i64| self.offsets.iter().map(move |offset| start + offset);
        Layout {
            datatype,
            units: self.units * starts.len() as u64,
            offsets: starts.iter().flat_map(moved).collect(),
            lower: starts.iter().map(|start| start + self.lower).min().unwrap_or(0),
            upper: starts.iter().map(|start| start + self.upper).max().unwrap_or(0),
        }
    }
}

/// Some elements of a type, for a send or a receive.
#[derive(Clone, Debug)]
pub(crate) struct Elements {
    pub(crate) layout: Layout,
    pub(crate) count: u64,
}

impl Elements {
    /// The offset of each byte, in packing order, from the address of the buffer.
    pub(crate) fn places(&self) -> Vec<i64> {
        let extent = self.layout.extent();
        let element = |k: i64| self.layout.offsets.iter().map(move |offset| k * extent + offset);
        (0..signed(self.count)).flat_map(element).collect()
    }

    /// Packed bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.layout.offsets.len() as u64 * self.count
    }

    /// Memory for them, with a margin on either side.
    pub(crate) fn room(&self, byte: impl Fn(usize) -> u8) -> Room {
        let places = self.places();
        let first = places.iter().min().copied().unwrap_or(0);
        let end = places.iter().max().map_or(0, |last| last + 1);
        let len = usize::try_from(end - first + 2 * MARGIN).expect("not negative");
        let bytes = (0..len).map(byte).collect();
        Room { start: first - MARGIN, bytes, strayed: Cell::new(false) }
    }
}

/// Memory of an application, which begins `start` bytes from the address of a buffer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Room {
    pub(crate) start: i64,
    pub(crate) bytes: Vec<u8>,
    /// Whether an access was out of bounds.
    pub(crate) strayed: Cell<bool>,
}

impl Room {
    pub(crate) fn at(&self, offset: i64) -> usize {
        usize::try_from(offset - self.start).expect("inside the room")
    }

    /// The range of these bytes, if all of them are inside.
    fn inside(&self, offset: i64, len: usize) -> Option<Range<usize>> {
        let start = usize::try_from(offset - self.start).ok();
        let range = start.map(|start| start..start + len);
        let range = range.filter(|range| range.end <= self.bytes.len());
        self.strayed.set(self.strayed.get() || range.is_none());
        range
    }
}

impl Memory for Room {
    fn load(&self, offset: i64, into: &mut [u8]) {
        if let Some(range) = self.inside(offset, into.len()) {
            into.copy_from_slice(&self.bytes[range]);
        }
    }

    fn store(&mut self, offset: i64, from: &[u8]) {
        if let Some(range) = self.inside(offset, from.len()) {
            self.bytes[range].copy_from_slice(from);
        }
    }
}

fn signed(number: u64) -> i64 {
    number.cast_signed()
}

/// More units than this has no element.
const UNITS_MAX: u64 = 12;
const MARGIN: i64 = 5;
