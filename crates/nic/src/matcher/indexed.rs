//! indexed
