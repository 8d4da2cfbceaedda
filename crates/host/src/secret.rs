//! The secret of a job, shared by its hosts only.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::ops::Deref;
use std::sync::Arc;

use crate::sys::hidden::Hidden;

/// The length of the secret of a job.
pub const SECRET_BYTES: usize = 32;

/// The secret of a job, in memory that is left out of core dumps. Clones share it, and the last one wipes it. `Debug`
/// does not print it.
#[derive(Clone)]
pub struct JobSecret(Arc<Hidden<SECRET_BYTES>>);

impl JobSecret {
    /// Draws a secret from `/dev/urandom`.
    pub fn draw() -> io::Result<JobSecret> {
        JobSecret::filled(|bytes| File::open("/dev/urandom")?.read_exact(bytes))
    }

    /// A secret that `fill` writes. `fill` must leave no copy of it elsewhere.
    pub fn filled<E>(
        fill: impl FnOnce(&mut [u8; SECRET_BYTES]) -> Result<(), E>,
    ) -> Result<JobSecret, E> {
        let mut hidden = Hidden::new();
        fill(hidden.bytes_mut())?;
        Ok(JobSecret(Arc::new(hidden)))
    }
}

impl Deref for JobSecret {
    type Target = [u8; SECRET_BYTES];

    fn deref(&self) -> &[u8; SECRET_BYTES] {
        self.0.bytes()
    }
}

impl PartialEq for JobSecret {
    fn eq(&self, other: &JobSecret) -> bool {
        **self == **other
    }
}

impl Eq for JobSecret {}

impl fmt::Debug for JobSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JobSecret(..)")
    }
}
