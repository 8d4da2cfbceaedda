//! Holds the import bans between crates.
#![allow(missing_docs)]
