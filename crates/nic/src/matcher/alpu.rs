//! alpu
