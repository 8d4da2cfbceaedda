//! Datatypes: how they are made, taken apart, packed and named.

pub(crate) mod constructor;
pub(crate) mod contents;
pub(crate) mod datatype;
pub(crate) mod lookup;
pub(crate) mod pack;
