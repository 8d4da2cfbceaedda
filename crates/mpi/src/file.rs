//! Files as far as no system call is needed: which bytes of a file a view consists of, and how the ranks of a
//! collective call divide the file among those that access it.

mod domains;
mod view;
mod window_ranges;

pub use domains::{Domains, are_worth_gathering, choose_aggregators};
pub use view::{FileRange, View, ViewError};
pub use window_ranges::{WindowRanges, runs_of, without_short_gaps};
