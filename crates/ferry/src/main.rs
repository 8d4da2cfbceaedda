//! The command of Ferrywire.
fn main() {}
