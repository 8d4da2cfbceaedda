//! Random views against the plain meaning of the standard: the offset of each byte, written out one by one.

use ferrywire_mpi::datatype::{Datatype, Order};
use ferrywire_mpi::file::{FileRange, View, ViewError};
use proptest::prelude::*;

fn named(name: &str) -> Datatype {
    Datatype::by_name(name).expect("it is predefined")
}

/// A datatype for a file, and the offsets of its bytes in the order of packing.
#[derive(Clone, Debug)]
struct Plain {
    datatype: Datatype,
    offsets: Vec<u64>,
}

impl Plain {
    fn basic() -> impl Strategy<Value = Plain> {
        prop_oneof![Just("MPI_BYTE"), Just("MPI_SHORT"), Just("MPI_INT")].prop_map(|name| {
            let datatype = named(name);
            let offsets = (0..datatype.size()).collect();
            Plain { datatype, offsets }
        })
    }

    fn rows(&self, datatype: Datatype, rows: &[(u64, u64)]) -> Plain {
        let extent = self.datatype.extent().cast_unsigned();
        let mut offsets = Vec::new();
        for (count, at) in rows {
            for element in 0..*count {
                offsets.extend(self.offsets.iter().map(|offset| at + element * extent + offset));
            }
        }
        Plain { datatype, offsets }
    }

    fn extent(&self) -> u64 {
        self.datatype.extent().cast_unsigned()
    }
}

fn signed(number: u64) -> i64 {
    number.cast_signed()
}

/// Types whose bytes ascend, but perhaps not those of their repetitions.
fn plain() -> impl Strategy<Value = Plain> {
    Plain::basic().prop_recursive(3, 64, 4, |inner| {
        prop_oneof![
            (inner.clone(), 1_u64..4, 1_u64..3, 0_u64..3).prop_map(|(of, count, block, gap)| {
                let stride = block + gap;
                let made = of.datatype.vector(signed(count), signed(block), signed(stride));
                let rows: Vec<_> =
                    (0..count).map(|at| (block, at * stride * of.extent())).collect();
                of.rows(made.expect("a vector"), &rows)
            }),
            (inner.clone(), prop::collection::vec((0_u64..3, 0_u64..4), 1..4)).prop_map(
                |(of, blocks)| {
                    let mut end = 0;
                    let rows: Vec<(u64, u64)> = blocks
                        .into_iter()
                        .map(|(count, gap)| {
                            let start = end + gap;
                            end = start + count;
                            (count, start)
                        })
                        .collect();
                    let (lens, starts): (Vec<i64>, Vec<i64>) =
                        rows.iter().map(|(len, start)| (signed(*len), signed(*start))).unzip();
                    let made = of.datatype.indexed(&lens, &starts).expect("blocks");
                    let extent = of.extent();
                    let rows: Vec<_> = rows.iter().map(|(len, at)| (*len, at * extent)).collect();
                    of.rows(made, &rows)
                }
            ),
            (inner.clone(), 1_u64..4, 0_u64..3).prop_map(|(of, part, start)| {
                let sizes = [2, signed(part + start + 1)];
                let made =
                    of.datatype.subarray(&sizes, &[2, signed(part)], &[0, signed(start)], Order::C);
                let width = part + start + 1;
                let rows = [0, 1].map(|row| (part, (row * width + start) * of.extent()));
                of.rows(made.expect("a part"), &rows)
            }),
            (inner, 0_u64..40).prop_map(|(of, extent)| {
                let made = of.datatype.resized(0, signed(extent)).expect("bounds");
                Plain { datatype: made, offsets: of.offsets }
            }),
        ]
    })
}

/// The file offset of each of the first bytes of a view.
fn written_out(plain: &Plain, displacement: u64, bytes: usize) -> Vec<u64> {
    let tiles = (0..).map(|tile| displacement + tile * plain.extent());
    tiles
        .flat_map(|tile| plain.offsets.iter().map(move |offset| tile + offset))
        .take(bytes)
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn ranges_are_the_bytes_written_out(
        plain in plain(), displacement in 0_u64..50, position in 0_u64..90, bytes in 0_u64..90,
    ) {
        let view = View::new(displacement, &named("MPI_BYTE"), plain.datatype.clone(), true);
        prop_assume!(!plain.offsets.is_empty() && view.is_ok());
        let view = view.expect("it was tested");
        let all = written_out(&plain, displacement, 400);
        let at = usize::try_from(position).expect("small");
        let wanted = &all[at..at + usize::try_from(bytes).expect("small")];
        let mut ranges: Vec<FileRange> = Vec::new();
        view.each_range(position, bytes, &mut |range| ranges.push(range));
        let found: Vec<u64> =
            ranges.iter().flat_map(|range| range.offset..range.end()).collect();
        prop_assert_eq!(&found[..], wanted);
        let apart = ranges.windows(2).all(|pair| pair[0].end() != pair[1].offset);
        prop_assert!(apart || !view.is_ascending());
        prop_assert_eq!(view.offset_of(position), Some(all[at]));
        match view.bounds(position, bytes) {
            None => prop_assert_eq!(bytes, 0),
            Some(bounds) => {
                let inside = wanted.iter().all(|at| (bounds.offset..bounds.end()).contains(at));
                prop_assert!(inside);
                if view.is_ascending() {
                    prop_assert_eq!((bounds.offset, bounds.end() - 1), (wanted[0], wanted[wanted.len() - 1]));
                }
            }
        }
        prop_assert_eq!(view.is_ascending(), all.windows(2).all(|pair| pair[0] < pair[1]));
        if view.is_ascending() {
            for offset in 0..all[300] {
                let below = all.iter().take_while(|at| **at < offset).count() as u64;
                prop_assert_eq!(view.position_at(offset), below, "before {}", offset);
            }
        }
    }
}

#[test]
fn what_is_no_view() {
    let (byte, int) = (named("MPI_BYTE"), named("MPI_INT"));
    let error = |etype: &Datatype, filetype: Datatype| View::new(0, etype, filetype, false).err();
    let bytes = |count| byte.contiguous(count).expect("bytes");
    assert_eq!(error(&bytes(0), int.clone()), Some(ViewError::EmptyEtype));
    assert_eq!(error(&int, bytes(6)), Some(ViewError::NotOfEtypes));
    let before = int.hindexed(&[1], &[-4]).expect("a type");
    assert_eq!(error(&int, before), Some(ViewError::Backwards));
    assert_eq!(error(&int, int.contiguous(0).expect("a type")), None);
    let decreasing = int.indexed(&[1, 1], &[3, 0]).expect("a type");
    assert_eq!(error(&int, decreasing.clone()), Some(ViewError::Decreasing));
    assert_eq!(error(&decreasing, decreasing.clone()), Some(ViewError::Decreasing));
    let row = decreasing.vector(3, 2, 9).expect("a type");
    assert_eq!(error(&int, row), Some(ViewError::Decreasing));
    let overlapping = int.indexed(&[3, 1], &[0, 1]).expect("a type");
    assert_eq!(error(&int, overlapping.clone()), Some(ViewError::Overlapping));
    assert!(View::new(0, &int, overlapping, true).is_ok());
    let interleaved = int.vector(2, 1, 4).expect("a type").resized(0, 4).expect("a type");
    assert_eq!(error(&int, interleaved), None);
}

#[test]
fn what_is_too_far_has_no_bounds() {
    let far = named("MPI_BYTE").resized(0, 1 << 40).expect("a type");
    let view = View::new(7, &named("MPI_BYTE"), far, false).expect("a view");
    assert!(view.bounds(1 << 22, 1).is_some());
    assert!(view.bounds(1 << 23, 1).is_none());
    assert!(view.bounds(u64::MAX, 1).is_none());
    assert_eq!(view.offset_of(1 << 23), None);
}

#[test]
fn other_representations_have_other_sizes() {
    let (long, short) = (named("MPI_LONG"), named("MPI_SHORT"));
    let outside = |datatype: &Datatype| {
        let form = datatype.resized_basics(&mut |basic| basic.external_size(1).expect("small"));
        let form = form.expect("it can be made again");
        (form.size(), form.extent())
    };
    assert_eq!(outside(&long), (4, 4));
    assert_eq!(outside(&long.vector(3, 1, 2).expect("a vector")), (12, 20));
    let structure =
        Datatype::structure(&[1, 1], &[0, 8], &[long.clone(), short]).expect("a struct");
    assert_eq!(outside(&structure), (6, 10));
    assert_eq!(outside(&long.resized(0, 24).expect("a type")), (4, 24));
    let part = long.subarray(&[4, 4], &[2, 1], &[1, 1], Order::C).expect("a part");
    assert_eq!(outside(&part), (8, 64));
    assert_eq!(long.native_bytes_of(11), 16);
    assert_eq!(structure.native_bytes_of(6 + 5), 18);
}
