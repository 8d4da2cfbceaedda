//! Random datatypes against the plain meaning of the standard: a list of basic types and their places, written out in
//! full from the arguments of the constructors.

use ferrywire_mpi::datatype::{
    Basic, BasicKind, Counts, Datatype, Dimension, Distribution, Error, Memory, Order, Predefined,
    Recipe,
};
use proptest::prelude::*;

/// Memory that begins `start` bytes before or after the address of the buffer.
#[derive(Clone, Debug, PartialEq)]
struct Room {
    start: i64,
    bytes: Vec<u8>,
}

impl Room {
    /// Memory that `count` elements reach, with no two neighbouring bytes equal.
    fn of(datatype: &Datatype, count: u64) -> Room {
        let window = datatype.window(count);
        let length = usize::try_from(window.end - window.start).expect("a window");
        let bytes = (0..length).map(|at| u8::try_from(at * 7 % 251).expect("a byte")).collect();
        Room { start: window.start, bytes }
    }

    fn at(&self, offset: i64) -> usize {
        usize::try_from(offset - self.start).expect("inside the window")
    }
}

impl Memory for Room {
    fn load(&self, offset: i64, into: &mut [u8]) {
        let at = self.at(offset);
        into.copy_from_slice(&self.bytes[at..at + into.len()]);
    }

    fn store(&mut self, offset: i64, from: &[u8]) {
        let at = self.at(offset);
        self.bytes[at..at + from.len()].copy_from_slice(from);
    }
}

/// The standard's type map: basic types in order, and bounds.
#[derive(Clone, Debug, Default)]
struct Map {
    basics: Vec<(Basic, i64)>,
    bounds: Option<(i64, i64)>,
    /// The bounds were set explicitly.
    marked: bool,
}

impl Map {
    fn extent(&self) -> i64 {
        self.bounds.map_or(0, |(lower, upper)| upper - lower)
    }

    fn align(&self) -> i64 {
        self.basics.iter().map(|(basic, _)| signed(basic.align())).max().unwrap_or(1)
    }

    /// Whole maps, each at its displacement.
    fn placed(parts: &[(i64, &Map)]) -> Map {
        let mut map = Map::default();
        for (displacement, part) in parts {
            let moved = part.basics.iter().map(|(basic, at)| (*basic, at + displacement));
            map.basics.extend(moved);
        }
        map.marked = parts.iter().any(|(_, part)| part.marked);
        let bounds: Vec<(i64, i64)> = parts
            .iter()
            .filter(|(_, part)| part.marked == map.marked)
            .filter_map(|(by, part)| part.bounds.map(|(lower, upper)| (lower + by, upper + by)))
            .collect();
        let lower = bounds.iter().map(|bounds| bounds.0).min();
        let upper = bounds.iter().map(|bounds| bounds.1).max();
        map.bounds = lower.zip(upper);
        if !map.marked {
            let align = map.align();
            map.bounds = map.bounds.map(|(lower, upper)| {
                (
                    lower,
                    lower
                        + (upper - lower)
                            .cast_unsigned()
                            .next_multiple_of(align.cast_unsigned())
                            .cast_signed(),
                )
            });
        }
        map
    }

    /// Blocks of (length, displacement in bytes).
    fn blocks(&self, blocks: impl IntoIterator<Item = (i64, i64)>) -> Map {
        let rows = blocks.into_iter().flat_map(|(length, displacement)| {
            (0..length).map(move |k| (displacement + k * self.extent(), self))
        });
        Map::placed(&rows.collect::<Vec<_>>())
    }

    /// Elements of an array that `wanted` selects, in memory order.
    fn array(&self, sizes: &[i64], order: Order, wanted: impl Fn(&[i64]) -> bool) -> Map {
        let count: i64 = sizes.iter().product();
        let dimensions: Vec<usize> = match order {
            Order::C => (0..sizes.len()).rev().collect(),
            Order::Fortran => (0..sizes.len()).collect(),
        };
        let chosen = (0..count).filter(|&at| {
            let mut left = at;
            let mut index = vec![0; sizes.len()];
            for &dimension in &dimensions {
                index[dimension] = left % sizes[dimension];
                left /= sizes[dimension];
            }
            wanted(&index)
        });
        let mut map = self.blocks(chosen.map(|at| (1, at * self.extent())));
        map.bounds = Some((0, count * self.extent()));
        map.marked = true;
        map
    }

    fn of(datatype: &Datatype) -> Map {
        let extents = |of: &Map, list: &[i64]| -> Vec<i64> {
            list.iter().map(|displacement| displacement * of.extent()).collect()
        };
        let pairs = |lengths: &[i64], displacements: &[i64]| -> Vec<(i64, i64)> {
            lengths.iter().copied().zip(displacements.iter().copied()).collect()
        };
        match datatype.recipe() {
            Recipe::Dup { of } => Map::of(of),
            Recipe::Contiguous { count, of } => Map::of(of).blocks([(*count, 0)]),
            Recipe::Vector { count, blocklength, stride, of } => {
                let of = Map::of(of);
                of.blocks((0..*count).map(|k| (*blocklength, k * stride * of.extent())))
            }
            Recipe::Hvector { count, blocklength, stride, of } => {
                Map::of(of).blocks((0..*count).map(|k| (*blocklength, k * stride)))
            }
            Recipe::Indexed { blocklengths, displacements, of } => {
                let of = Map::of(of);
                of.blocks(pairs(blocklengths, &extents(&of, displacements)))
            }
            Recipe::Hindexed { blocklengths, displacements, of } => {
                Map::of(of).blocks(pairs(blocklengths, displacements))
            }
            Recipe::IndexedBlock { blocklength, displacements, of } => {
                let of = Map::of(of);
                of.blocks(extents(&of, displacements).into_iter().map(|at| (*blocklength, at)))
            }
            Recipe::HindexedBlock { blocklength, displacements, of } => {
                Map::of(of).blocks(displacements.iter().map(|&at| (*blocklength, at)))
            }
            Recipe::Struct { blocklengths, displacements, of } => {
                let maps: Vec<Map> = of.iter().map(Map::of).collect();
                let rows = pairs(blocklengths, displacements).into_iter().zip(&maps);
                let rows = rows.flat_map(|((length, at), map)| {
                    (0..length).map(move |k| (at + k * map.extent(), map))
                });
                Map::placed(&rows.collect::<Vec<_>>())
            }
            Recipe::Subarray { sizes, subsizes, starts, order, of } => {
                Map::of(of).array(sizes, *order, |index| {
                    let inside =
                        |(d, at): (usize, &i64)| (starts[d]..starts[d] + subsizes[d]).contains(at);
                    index.iter().enumerate().all(inside)
                })
            }
            Recipe::Darray { rank, dimensions, order, of, .. } => {
                let sizes: Vec<i64> = dimensions.iter().map(|dimension| dimension.size).collect();
                let mut left = i64::from(*rank);
                let mut place = vec![0; sizes.len()];
                for d in (0..sizes.len()).rev() {
                    place[d] = left % i64::from(dimensions[d].processes);
                    left /= i64::from(dimensions[d].processes);
                }
                Map::of(of).array(&sizes, *order, |index| {
                    (0..sizes.len()).all(|d| owner(&dimensions[d], index[d]) == place[d])
                })
            }
            Recipe::Resized { lower, extent, of } => {
                let bounds = Some((*lower, lower + extent));
                Map { bounds, marked: true, ..Map::of(of) }
            }
            _ => {
                let basics = match datatype.predefined().expect("nothing else is left") {
                    Predefined::One(basic) => vec![(basic, 0)],
                    Predefined::Pair { value, index } => {
                        let at = value.bytes().next_multiple_of(index.align());
                        vec![(value, 0), (index, signed(at))]
                    }
                };
                let end = basics.iter().map(|(basic, at)| at + signed(basic.bytes())).max();
                let bounds = end.map(|end| (0, end));
                let map = Map { basics, bounds, marked: false };
                Map::placed(&[(0, &map)])
            }
        }
    }

    /// Offset of each byte of `count` elements, in packing order.
    fn offsets(&self, count: u64) -> Vec<i64> {
        let each = |k: i64| {
            self.basics.iter().flat_map(move |(basic, at)| {
                (0..signed(basic.bytes())).map(move |byte| k * self.extent() + at + byte)
            })
        };
        (0..signed(count)).flat_map(each).collect()
    }
}

/// The process of a dimension that holds an index.
fn owner(dimension: &Dimension, index: i64) -> i64 {
    let processes = i64::from(dimension.processes);
    let ceiling = (dimension.size + processes - 1) / processes;
    match dimension.distribution {
        Distribution::Whole => 0,
        Distribution::Block => index / dimension.block.map_or(ceiling, i64::from),
        Distribution::Cyclic => index / dimension.block.map_or(1, i64::from) % processes,
    }
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).expect("a small number")
}

/// A predefined type.
fn leaf() -> BoxedStrategy<Datatype> {
    let all: Vec<Datatype> = Datatype::all_named().collect();
    prop::sample::select(all).boxed()
}

fn order() -> impl Strategy<Value = Order> {
    prop::sample::select(vec![Order::C, Order::Fortran])
}

fn dimension() -> impl Strategy<Value = Dimension> {
    let block = prop::option::of(1..4_i32);
    (1..8_i64, 0..3, block, 1..4_i32).prop_map(|(size, distribution, block, processes)| {
        let ceiling = i32::try_from(size).expect("small");
        match distribution {
            0 => Dimension { size, distribution: Distribution::Whole, block, processes: 1 },
            1 => {
                let block = block.map(|block| block.max((ceiling + processes - 1) / processes));
                Dimension { size, distribution: Distribution::Block, block, processes }
            }
            _ => Dimension { size, distribution: Distribution::Cyclic, block, processes },
        }
    })
}

/// A random constructor applied to `of`.
fn around(of: BoxedStrategy<Datatype>) -> BoxedStrategy<Datatype> {
    let lists = |near: i64| prop::collection::vec((0..4_i64, -near..near), 0..5);
    let split = |list: Vec<(i64, i64)>| -> (Vec<i64>, Vec<i64>) { list.into_iter().unzip() };
    let box_of = || prop::collection::vec((1..4_i64, 0..3_i64, 0..3_i64), 1..4);
    prop_oneof![
        of.clone().prop_map(|of| Ok(of.dup())),
        (of.clone(), 0..5_i64).prop_map(|(of, count)| of.contiguous(count)),
        (of.clone(), 0..5_i64, 0..4_i64, -5..6_i64)
            .prop_map(|(of, count, length, stride)| of.vector(count, length, stride)),
        (of.clone(), 0..5_i64, 0..4_i64, -40..41_i64)
            .prop_map(|(of, count, length, stride)| of.hvector(count, length, stride)),
        (of.clone(), lists(6)).prop_map(move |(of, list)| {
            let (lengths, displacements) = split(list);
            of.indexed(&lengths, &displacements)
        }),
        (of.clone(), lists(50)).prop_map(move |(of, list)| {
            let (lengths, displacements) = split(list);
            of.hindexed(&lengths, &displacements)
        }),
        (of.clone(), 0..4_i64, lists(6))
            .prop_map(move |(of, length, list)| of.indexed_block(length, &split(list).1)),
        (of.clone(), 0..4_i64, lists(50))
            .prop_map(move |(of, length, list)| of.hindexed_block(length, &split(list).1)),
        prop::collection::vec((of.clone(), 0..3_i64, -60..61_i64), 0..4).prop_map(|parts| {
            let lengths: Vec<i64> = parts.iter().map(|part| part.1).collect();
            let displacements: Vec<i64> = parts.iter().map(|part| part.2).collect();
            let of: Vec<Datatype> = parts.into_iter().map(|part| part.0).collect();
            Datatype::structure(&lengths, &displacements, &of)
        }),
        (of.clone(), box_of(), order()).prop_map(|(of, parts, order)| {
            let subsizes: Vec<i64> = parts.iter().map(|part| part.0).collect();
            let starts: Vec<i64> = parts.iter().map(|part| part.1).collect();
            let sizes: Vec<i64> = parts.iter().map(|part| part.0 + part.1 + part.2).collect();
            of.subarray(&sizes, &subsizes, &starts, order)
        }),
        (of.clone(), prop::collection::vec(dimension(), 1..4), order(), any::<u16>()).prop_map(
            |(of, dimensions, order, rank)| {
                let size = dimensions.iter().map(|dimension| dimension.processes).product::<i32>();
                of.darray(size, i32::from(rank) % size, &dimensions, order)
            }
        ),
        (of, -30..31_i64, -20..60_i64).prop_map(|(of, lower, extent)| of.resized(lower, extent)),
    ]
    .prop_map(|made| made.expect("all arguments make sense"))
    .prop_filter("small enough to be written out", |made| made.basics() < 1500)
    .boxed()
}

/// Nested types.
fn datatype() -> impl Strategy<Value = Datatype> {
    let once = prop_oneof![1 => leaf(), 3 => around(leaf())].boxed();
    let twice = prop_oneof![1 => once.clone(), 3 => around(once)].boxed();
    prop_oneof![1 => twice.clone(), 2 => around(twice)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn sizes_and_bounds_are_those_of_the_type_map(datatype in datatype()) {
        let map = Map::of(&datatype);
        let bytes = map.offsets(1);
        prop_assert_eq!(datatype.size(), bytes.len() as u64);
        prop_assert_eq!(datatype.basics(), map.basics.len() as u64);
        prop_assert_eq!(datatype.lb(), map.bounds.map_or(0, |bounds| bounds.0));
        prop_assert_eq!(datatype.extent(), map.extent());
        let first = bytes.iter().min().copied().unwrap_or(0);
        let end = bytes.iter().max().map_or(0, |last| last + 1);
        prop_assert_eq!((datatype.true_lb(), datatype.true_extent()), (first, end - first));
        let in_order = bytes.iter().copied().eq(0..signed(datatype.size()));
        let dense = map.extent() == signed(datatype.size()) && datatype.lb() == 0;
        prop_assert_eq!(datatype.is_contiguous(), in_order && dense);
    }

    #[test]
    fn windows_and_blocks_are_where_the_bytes_are(datatype in datatype(), count in 0..4_u64) {
        let bytes = Map::of(&datatype).offsets(count);
        let first = bytes.iter().min().copied().unwrap_or(0);
        let end = bytes.iter().max().map_or(0, |last| last + 1);
        prop_assert_eq!(datatype.window(count), first..end);
        let start = bytes.first().copied().unwrap_or(0);
        let block = start..start + signed(bytes.len() as u64);
        let gapless = bytes.into_iter().eq(block.clone());
        prop_assert_eq!(datatype.one_block(count), gapless.then_some(block));
    }

    #[test]
    fn what_is_packed_is_unpacked_to_the_byte(
        datatype in datatype(),
        count in 0..4_u64,
        part in 0..=16_usize,
    ) {
        let offsets = Map::of(&datatype).offsets(count);
        let room = Room::of(&datatype, count);
        let expected: Vec<u8> = offsets.iter().map(|&at| room.bytes[room.at(at)]).collect();
        let mut packed = vec![0; expected.len()];
        datatype.pack(count, &room, &mut packed);
        prop_assert_eq!(&packed, &expected);

        // A message of any length fills what it reaches and nothing else.
        let message: Vec<u8> = packed.iter().map(|byte| byte ^ 0xff).collect();
        let message = &message[..message.len() * part / 16];
        let (mut found, mut expected) = (room.clone(), room);
        datatype.unpack(count, message, &mut found);
        for (&at, &byte) in offsets.iter().zip(message) {
            let at = expected.at(at);
            expected.bytes[at] = byte;
        }
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn basic_types_are_counted_where_a_message_ends(datatype in datatype()) {
        let mut ends = vec![0];
        let basics = Map::of(&datatype).basics;
        for (basic, _) in basics.iter().chain(&basics) {
            ends.push(ends.last().expect("one at least") + basic.bytes());
        }
        for bytes in 0..=2 * datatype.size() {
            let expected = ends.binary_search(&bytes).ok().map(|basics| basics as u64);
            prop_assert_eq!(datatype.basics_in(bytes), expected, "{} bytes", bytes);
            if let Some(basics) = expected {
                prop_assert_eq!(datatype.bytes_of_basics(basics), Some(bytes));
            }
            let whole = bytes.checked_div(datatype.size()).unwrap_or(0);
            let elements = (whole * datatype.size() == bytes).then_some(whole);
            prop_assert_eq!(datatype.elements_in(bytes), elements);
        }
    }

    #[test]
    fn external_form_is_big_endian_and_comes_back(datatype in datatype(), count in 0..3_u64) {
        let map = Map::of(&datatype);
        let plain = |basic: &Basic| {
            let extended = matches!(basic.sort(), BasicKind::Extended | BasicKind::ExtendedComplex);
            basic.bytes() == basic.external_bytes() && !extended
        };
        let expected_size: u64 = map.basics.iter().map(|(basic, _)| basic.external_bytes()).sum();
        prop_assert_eq!(datatype.external_size(count), Some(expected_size * count));
        // Types with another size or representation in external32 have their own tests.
        if !map.basics.iter().all(|(basic, _)| plain(basic)) {
            return Ok(());
        }
        let room = Room::of(&datatype, count);
        let mut packed = vec![0; usize::try_from(datatype.size() * count).expect("small")];
        datatype.pack(count, &room, &mut packed);
        let mut expected = Vec::new();
        let mut left = &packed[..];
        for (basic, _) in (0..count).flat_map(|_| &map.basics) {
            let parts = usize::try_from(basic.part_bytes()).expect("small");
            let number = left.split_off(..usize::try_from(basic.bytes()).expect("small"));
            for part in number.expect("packed").chunks(parts) {
                let little = cfg!(target_endian = "little");
                let in_order = part.iter().copied();
                if little { expected.extend(in_order.rev()) } else { expected.extend(in_order) }
            }
        }
        let mut external = vec![0; expected.len()];
        prop_assert_eq!(datatype.pack_external(count, &room, &mut external), Ok(()));
        prop_assert_eq!(&external, &expected);

        let mut found = Room { bytes: vec![0; room.bytes.len()], ..room.clone() };
        let mut expected = found.clone();
        prop_assert_eq!(datatype.unpack_external(count, &external, &mut found), Ok(()));
        datatype.unpack(count, &packed, &mut expected);
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn both_forms_of_the_contents_have_all_arguments(datatype in datatype()) {
        let contents = datatype.recipe().contents(Counts::Small).expect("small numbers");
        let large = datatype.recipe().contents(Counts::Large).expect("small numbers");
        prop_assert!(contents.large_counts.is_empty() && large.addresses.is_empty());
        let numbers = contents.integers.len() + contents.addresses.len();
        prop_assert_eq!(numbers, large.integers.len() + large.large_counts.len());
        prop_assert_eq!(contents.datatypes.len(), large.datatypes.len());
    }
}

fn named(name: &str) -> Datatype {
    Datatype::by_name(name).expect("it is predefined")
}

#[test]
fn contiguous_types_are_copied_as_they_are() {
    let datatype = named("MPI_DOUBLE").contiguous(100).expect("it makes sense");
    let room = Room::of(&datatype, 3);
    let mut packed = vec![0; 2400];
    datatype.pack(3, &room, &mut packed);
    assert_eq!(packed, room.bytes);
    assert!(datatype.is_contiguous());
    assert_eq!(datatype.compact_bytes(), 0);
}

#[test]
fn large_types_have_a_small_form() {
    const MANY: i64 = 1_000_000;
    let double = named("MPI_DOUBLE");
    let column = double.vector(MANY, 1, 1000).expect("it makes sense");
    assert_eq!(column.compact_bytes(), 0);
    let columns = column.resized(0, 8).and_then(|column| column.contiguous(1000));
    assert!(columns.expect("it makes sense").compact_bytes() < 200);

    let even: Vec<i64> = (0..MANY).map(|k| 3 * k).collect();
    let even_blocks = double.indexed_block(2, &even).expect("it makes sense");
    assert_eq!(even_blocks.compact_bytes(), 0);
    let lengths = vec![2; even.len()];
    let even_rows = double.indexed(&lengths, &even).expect("it makes sense");
    assert_eq!(even_rows.compact_bytes(), 0);
    let pair = named("MPI_SHORT_INT");
    let even_pairs = pair.indexed(&lengths, &even).expect("it makes sense");
    assert!(even_pairs.compact_bytes() < 500);

    // Adjacent blocks are one block; irregular ones take two numbers each.
    let touching: Vec<i64> = (0..MANY).collect();
    let whole = double.indexed_block(1, &touching).expect("it makes sense");
    assert!(whole.is_contiguous());
    let odd: Vec<i64> = (0..1000).map(|k| k * k).collect();
    let odd_blocks = double.indexed_block(1, &odd).expect("it makes sense");
    assert!(odd_blocks.compact_bytes() <= 16 * 1000);

    let cube = double.subarray(&[1000; 3], &[500; 3], &[1; 3], Order::C);
    let cube = cube.expect("it makes sense");
    assert_eq!((cube.size(), cube.extent()), (1_000_000_000, 8_000_000_000));
    assert!(cube.compact_bytes() < 200);
}

#[test]
fn structs_of_c_have_its_padding() {
    let of = [named("MPI_CHAR"), named("MPI_DOUBLE"), named("MPI_SHORT")];
    let datatype = Datatype::structure(&[1, 1, 3], &[0, 8, 16], &of).expect("it makes sense");
    assert_eq!((datatype.size(), datatype.extent(), datatype.true_extent()), (15, 24, 22));
    // Bounds that were set are not padded, and override all others.
    let narrow = named("MPI_INT").resized(2, 3).expect("it makes sense");
    let datatype = Datatype::structure(&[1, 1], &[0, 40], &[narrow, named("MPI_DOUBLE")]);
    let datatype = datatype.expect("it makes sense");
    assert_eq!((datatype.lb(), datatype.extent(), datatype.true_extent()), (2, 3, 48));
}

#[test]
fn arguments_without_sense_are_refused() {
    let int = named("MPI_INT");
    let refused = |made: Result<Datatype, Error>| made.expect_err("it makes no sense");
    assert_eq!(refused(int.contiguous(-1)), Error::NegativeCount);
    assert_eq!(refused(int.vector(1, -1, 1)), Error::NegativeCount);
    assert_eq!(refused(int.indexed(&[1, -1], &[0, 1])), Error::NegativeCount);
    assert_eq!(refused(int.indexed_block(-1, &[0])), Error::NegativeCount);
    assert_eq!(refused(int.hindexed_block(-1, &[])), Error::NegativeCount);
    assert_eq!(refused(int.subarray(&[], &[], &[], Order::C)), Error::Dimensions);
    assert_eq!(refused(int.subarray(&[0], &[1], &[0], Order::C)), Error::Dimensions);
    assert_eq!(refused(int.subarray(&[4], &[2], &[3], Order::C)), Error::Outside);
    assert_eq!(refused(int.subarray(&[4], &[0], &[0], Order::C)), Error::Outside);
    assert_eq!(refused(int.contiguous(i64::MAX)), Error::TooLarge);
    assert_eq!(refused(int.hvector(3, 1, i64::MAX)), Error::TooLarge);
    assert_eq!(refused(int.vector(2, 1, i64::MIN)), Error::TooLarge);
    assert_eq!(refused(int.hindexed(&[1, 1], &[i64::MIN, i64::MAX])), Error::TooLarge);
    assert_eq!(refused(int.hindexed(&[1], &[i64::MAX])), Error::TooLarge);
    assert_eq!(refused(int.resized(i64::MAX, 1)), Error::TooLarge);

    let dimension =
        Dimension { size: 10, distribution: Distribution::Block, block: Some(3), processes: 3 };
    let darray = |size, rank, dimension| int.darray(size, rank, &[dimension], Order::C);
    assert_eq!(refused(darray(3, 0, dimension)), Error::Distribution);
    assert_eq!(refused(darray(3, 3, Dimension { block: None, ..dimension })), Error::Grid);
    assert_eq!(refused(darray(4, 0, Dimension { block: None, ..dimension })), Error::Grid);
    let whole = Dimension { distribution: Distribution::Whole, ..dimension };
    assert_eq!(refused(darray(3, 0, whole)), Error::Distribution);
    let none = Dimension { distribution: Distribution::Cyclic, block: Some(0), ..dimension };
    assert_eq!(refused(darray(3, 0, none)), Error::Distribution);
    assert_eq!(refused(darray(3, 0, Dimension { size: 0, ..dimension })), Error::Dimensions);
    assert!(int.vector(2, 0, i64::MIN).is_ok(), "no blocks, wherever they are");
    assert!(darray(3, 2, Dimension { block: Some(4), ..dimension }).is_ok());
    assert_eq!(refused(darray(0, 0, dimension)), Error::Grid);
}

#[test]
fn absurd_numbers_are_refused_or_make_sense_but_do_not_panic() {
    let odd = [i64::MIN, i64::MIN + 1, -1, 0, 1, 2, i64::MAX / 4, i64::MAX - 1, i64::MAX];
    let types = [
        named("MPI_INT"),
        named("MPI_SHORT_INT"),
        named("MPI_INT").resized(i64::MIN, i64::MAX).expect("it fits"),
        named("MPI_INT").resized(3, i64::MIN).expect("it fits"),
        named("MPI_INT").contiguous(0).expect("it fits"),
    ];
    for (of, &a) in types.iter().flat_map(|of| odd.iter().map(move |a| (of, a))) {
        for (&b, &c) in odd.iter().flat_map(|b| odd.iter().map(move |c| (b, c))) {
            let cyclic = Distribution::Cyclic;
            let block = i32::try_from(b).ok();
            let dimension = Dimension { size: a, distribution: cyclic, block, processes: 2 };
            let made = [
                of.contiguous(a),
                of.vector(a, b, c),
                of.hvector(a, b, c),
                of.indexed(&[a, b], &[b, c]),
                of.hindexed(&[a, b], &[b, c]),
                of.indexed_block(a, &[b, c, 7]),
                of.hindexed_block(a, &[b, c, 7]),
                of.resized(a, b),
                of.subarray(&[a, b], &[c, c], &[1, 0], Order::C),
                of.darray(4, 3, &[dimension, dimension], Order::Fortran),
                Datatype::structure(&[a, 1], &[b, c], &[of.clone(), types[0].clone()]),
            ];
            for datatype in made.into_iter().flatten() {
                assert!(datatype.true_extent() >= 0);
                let window = datatype.window(u64::MAX);
                assert!(window.start <= window.end);
                datatype.one_block(u64::MAX);
                datatype.basics_in(u64::MAX);
                datatype.external_size(u64::MAX);
            }
        }
    }
}
