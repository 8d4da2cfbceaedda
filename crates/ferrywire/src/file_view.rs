//! Views: which items of a file a rank sees.

use std::ops::Range;

use ferrywire_mpi::datatype::{Datatype, Order};
use ferrywire_mpi::file::View;

/// Which items of a file a rank sees: see [`File::set_view`](crate::File::set_view).
///
/// Lengths and places count items, but for the bytes before the view ([`after`](FileView::after)). A view repeats until
/// the end of the file, and a file grows by what is written behind its end.
///
/// ```
/// use ferrywire::{File, FileView};
///
/// ferrywire::local(3, |world| {
///     // A header of 16 bytes, and then pairs of numbers, of which each rank has every third.
///     let (rank, size) = (u64::from(world.rank()), u64::from(world.size()));
///     let view = FileView::strided(2, 2 * size).after(16 + rank * 2 * 8);
///     # let path = std::env::temp_dir().join(format!("ferrywire-view-{}", std::process::id()));
///     let file = File::create(world, &path).unwrap().set_view::<f64>(&view).unwrap();
///     file.write_all(&[rank as f64; 4]).unwrap();
///     assert_eq!(file.len().unwrap(), 16 + 2 * 3 * 2 * 8);
///     file.close().unwrap();
///     # if world.rank() == 0 { std::fs::remove_file(&path).unwrap() }
/// });
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FileView {
    displacement: u64,
    pattern: Pattern,
}

/// What is repeated.
#[derive(Clone, Debug, Eq, PartialEq)]
enum Pattern {
    All,
    Strided { block: u64, stride: u64 },
    Blocks { blocks: Vec<Range<u64>>, extent: u64 },
    Subarray { sizes: Vec<u64>, part: Vec<Range<u64>> },
}

impl FileView {
    /// All items.
    pub fn all() -> FileView {
        FileView::of(Pattern::All)
    }

    /// The first `block` items of every `stride`.
    pub fn strided(block: u64, stride: u64) -> FileView {
        FileView::of(Pattern::Strided { block, stride })
    }

    /// The given blocks of every `extent` items. They are in the order of the file, and do not overlap.
    pub fn blocks(blocks: impl IntoIterator<Item = Range<u64>>, extent: u64) -> FileView {
        let blocks = blocks.into_iter().collect();
        FileView::of(Pattern::Blocks { blocks, extent })
    }

    /// A part of an array that has `sizes` items in its dimensions, of which the last is contiguous. The part is a
    /// range in each dimension.
    ///
    /// ```
    /// use ferrywire::{File, FileView};
    ///
    /// ferrywire::local(4, |world| {
    ///     // Each rank has a quarter of a matrix of 6 × 8 numbers.
    ///     let (row, column) = (u64::from(world.rank()) / 2 * 3, u64::from(world.rank()) % 2 * 4);
    ///     let quarter = FileView::subarray([6, 8], [row..row + 3, column..column + 4]);
    ///     # let path = std::env::temp_dir().join(format!("ferrywire-array-{}", std::process::id()));
    ///     let file = File::create(world, &path).unwrap().set_view::<u32>(&quarter).unwrap();
    ///     file.write_all(&[world.rank(); 12]).unwrap();
    ///     let file = file.set_view::<u32>(&FileView::all()).unwrap();
    ///     let mut matrix = [0; 48];
    ///     assert_eq!(file.read_at_all(0, &mut matrix).unwrap(), 48);
    ///     assert_eq!(matrix[..8], [0, 0, 0, 0, 1, 1, 1, 1]);
    ///     assert_eq!(matrix[40..], [2, 2, 2, 2, 3, 3, 3, 3]);
    ///     file.close().unwrap();
    ///     # if world.rank() == 0 { std::fs::remove_file(&path).unwrap() }
    /// });
    /// ```
    pub fn subarray<const N: usize>(sizes: [u64; N], part: [Range<u64>; N]) -> FileView {
        FileView::of(Pattern::Subarray { sizes: sizes.into(), part: part.into() })
    }

    /// The same view behind the first `bytes` of the file.
    pub fn after(self, bytes: u64) -> FileView {
        FileView { displacement: bytes, ..self }
    }

    fn of(pattern: Pattern) -> FileView {
        FileView { displacement: 0, pattern }
    }

    /// The view of items that have `item_bytes`. An error says why there is no such view.
    pub(crate) fn of_items(&self, item_bytes: usize, may_overlap: bool) -> Result<View, String> {
        let byte = Datatype::by_name("MPI_BYTE").expect("it is predefined");
        let item =
            byte.contiguous(number(item_bytes as u64)?).map_err(|error| error.to_string())?;
        let filetype = self.filetype(&item)?;
        View::new(self.displacement, &item, filetype, may_overlap).map_err(|error| match item_bytes
        {
            0 => "items of size zero have no place in a file".into(),
            _ => error.to_string().replace("etype or the filetype", "view"),
        })
    }

    fn filetype(&self, item: &Datatype) -> Result<Datatype, String> {
        let made = match &self.pattern {
            Pattern::All => return Ok(item.clone()),
            Pattern::Strided { block, stride } => {
                if block > stride || *block == 0 {
                    return Err(format!("no {block} items are in every {stride}"));
                }
                item.contiguous(number(*block)?).and_then(|block| repeated(&block, item, *stride))
            }
            Pattern::Blocks { blocks, extent } => {
                if let Some(block) = blocks.iter().find(|block| block.end > *extent) {
                    return Err(format!("block {block:?} is not in every {extent} items"));
                }
                let lens =
                    numbers(blocks.iter().map(|block| block.end.saturating_sub(block.start)))?;
                let starts = numbers(blocks.iter().map(|block| block.start))?;
                item.indexed(&lens, &starts).and_then(|blocks| repeated(&blocks, item, *extent))
            }
            Pattern::Subarray { sizes, part } => {
                let lens = numbers(part.iter().map(|part| part.end.saturating_sub(part.start)))?;
                let starts = numbers(part.iter().map(|part| part.start))?;
                item.subarray(&numbers(sizes.iter().copied())?, &lens, &starts, Order::C)
            }
        };
        made.map_err(|error| error.to_string())
    }
}

/// The datatype with the extent of so many items.
fn repeated(
    part: &Datatype,
    item: &Datatype,
    extent: u64,
) -> Result<Datatype, ferrywire_mpi::datatype::Error> {
    let items = i64::try_from(extent).unwrap_or(i64::MAX);
    part.resized(0, items.saturating_mul(item.extent()))
}

fn number(value: u64) -> Result<i64, String> {
    i64::try_from(value).map_err(|_| format!("{value} items are more than a file can have"))
}

fn numbers(values: impl Iterator<Item = u64>) -> Result<Vec<i64>, String> {
    values.map(number).collect()
}
