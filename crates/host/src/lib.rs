//! The machine: user memory, rails, the driver loop, meeting the launcher.
//!
//! A world for the NIC made of real processes. It never matches, orders, retries or chooses: that
//! is the NIC's business. What is unsafe in Ferrywire is here, and each file that is says on what
//! it relies.

pub mod cores;
pub mod meet;
