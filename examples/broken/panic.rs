//! Each rank looks up its row of a table, and the rows are added up. The table has no row for the last rank, which
//! panics.
//!
//!     ferry run -n 3 target/debug/examples/broken_panic

use ferrywire::{Error, Operation};

fn main() -> Result<(), Error> {
    let world = ferrywire::init()?;
    let mut table = vec![1.5, 2.5];
    if std::env::var_os("FIXED").is_some() {
        table.push(3.5);
    }
    let mut sum: f64 = table[world.rank() as usize]; // WRONG: there are more ranks than rows
    world.allreduce(&mut sum, Operation::Sum)?;
    println!("rank {}: {sum}", world.rank());
    Ok(())
}
