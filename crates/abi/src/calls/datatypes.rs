//! Datatypes: constructing, decoding, packing and naming them.

pub(crate) mod constructor;
pub(crate) mod contents;
pub(crate) mod datatype;
pub(crate) mod lookup;
pub(crate) mod pack;
