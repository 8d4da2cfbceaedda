//! The objects behind handles, and state that all calls share.

pub(crate) mod attribute;
pub(crate) mod check;
pub(crate) mod checked;
pub(crate) mod collecting;
pub(crate) mod collective_cache;
pub(crate) mod collective_note;
pub(crate) mod comm;
pub(crate) mod communicator;
pub(crate) mod data;
pub(crate) mod datatype;
pub(crate) mod errhandler;
pub(crate) mod error;
pub(crate) mod file;
pub(crate) mod file_access;
pub(crate) mod file_data;
pub(crate) mod group;
pub(crate) mod info;
pub(crate) mod message;
pub(crate) mod mistake;
pub(crate) mod op;
pub(crate) mod partitioned;
pub(crate) mod predefined;
pub(crate) mod process;
pub(crate) mod raise;
pub(crate) mod recipe;
pub(crate) mod representation;
pub(crate) mod request;
pub(crate) mod session;
pub(crate) mod window;

/// A plane of the process, which lives as long as the process.
pub(crate) type Plane = ferrywire_runtime::Plane<'static>;
