//! A matrix whose blocks are on a grid of ranks is saved to a file, and loaded again by rows: the file has the matrix
//! as a serial program would write it, whatever the number of ranks.
//!
//!     cargo run --example checkpoint
//!     ferry run -n 4 target/debug/examples/checkpoint

use std::ops::Range;
use std::path::Path;

use ferrywire::{Comm, Error, File, FileView, Operation};

fn main() -> Result<(), Error> {
    let world = ferrywire::init()?;
    let mut id = std::process::id();
    world.broadcast(&mut id, 0)?;
    let path = std::env::temp_dir().join(format!("checkpoint-{id}"));
    let (rows, columns) = (60, 84);
    save(&world, &path, rows, columns)?;
    let found = sum_of_rows(&world, &path, rows, columns)?;
    world.barrier()?;
    if world.rank() == 0 {
        std::fs::remove_file(&path).expect("it was saved");
        let all = (0..rows * columns).map(|place| value(place / columns, place % columns));
        let same = found == all.sum::<f64>();
        println!("{rows} x {columns} numbers are saved and loaded; none is lost: {same}");
        if !same {
            world.abort(1, "other numbers are loaded than were saved");
        }
    }
    Ok(())
}

/// What the matrix has at a place.
pub fn value(row: u64, column: u64) -> f64 {
    (1000 * row + column) as f64
}

/// Each rank saves a block of the matrix.
pub fn save(world: &Comm, path: &Path, rows: u64, columns: u64) -> Result<(), Error> {
    let sides = ferrywire::dims_create(world.size(), &[None, None]).expect("a grid of all ranks");
    let grid = world.cartesian(&sides, &[false, false], false)?.expect("all are on the grid");
    let place = grid.coords(grid.rank())?;
    let block = [share(rows, place[0], sides[0]), share(columns, place[1], sides[1])];
    let [my_rows, my_columns] = block.clone();
    let numbers: Vec<f64> =
        my_rows.flat_map(|row| my_columns.clone().map(move |column| value(row, column))).collect();
    let file = File::create(world, path)?;
    let file = file.set_view::<f64>(&FileView::subarray([rows, columns], block))?;
    file.write_all(&numbers)?;
    file.close()
}

/// Each rank loads some rows, and all sum up what they have.
pub fn sum_of_rows(world: &Comm, path: &Path, rows: u64, columns: u64) -> Result<f64, Error> {
    let file = File::open(world, path)?.set_view::<f64>(&FileView::all())?;
    let mine = share(rows, world.rank(), world.size());
    let count = usize::try_from((mine.end - mine.start) * columns).expect("it fits the memory");
    let mut numbers = vec![0.0; count];
    file.read_at_all(mine.start * columns, &mut numbers)?;
    file.close()?;
    let mut sum = numbers.iter().sum();
    world.allreduce(&mut sum, Operation::Sum)?;
    Ok(sum)
}

/// The part of `all` that one of `parts` has.
fn share(all: u64, part: u32, parts: u32) -> Range<u64> {
    let border = |part: u32| all * u64::from(part) / u64::from(parts);
    border(part)..border(part + 1)
}
