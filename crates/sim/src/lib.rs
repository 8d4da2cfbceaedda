//! Another world for the same NIC.
#![forbid(unsafe_code)]
