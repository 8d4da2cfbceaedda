//! Point-to-point communication: messages, probes, requests.

pub(crate) mod buffered;
pub(crate) mod combined;
pub(crate) mod generalized_request;
pub(crate) mod message;
pub(crate) mod nonblocking;
pub(crate) mod partitioned;
pub(crate) mod probe;
pub(crate) mod request;
pub(crate) mod status;
pub(crate) mod waiting;
