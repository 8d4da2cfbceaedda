//! Writes the seeds of all targets: what really goes over their wires.
//!
//!     RUSTFLAGS='--cfg fuzzing' cargo run --manifest-path fuzz/Cargo.toml --bin seeds

use std::collections::HashMap;
use std::fs;
use std::path::Path;

fn main() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds");
    let mut numbers: HashMap<&str, u32> = HashMap::new();
    for (target, bytes) in ferrywire_host::fuzzed::seeds() {
        let number = numbers.entry(target).or_default();
        let place = folder.join(target);
        fs::create_dir_all(&place).expect("a folder");
        fs::write(place.join(format!("{number:02}")), bytes).expect("written");
        *number += 1;
    }
}
