//! The secret of a job: what all its hosts know and nobody else does.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::ops::Deref;
use std::sync::Arc;

use crate::sys::hidden::Hidden;

/// The length of the secret of a job.
pub const SECRET_BYTES: usize = 32;

/// The secret of a job, in memory that is in no core dump. Copies share it, and the last one wipes it. It does not print
/// itself.
#[derive(Clone)]
pub struct JobSecret(Arc<Hidden<SECRET_BYTES>>);

impl JobSecret {
    /// Bytes that nobody can guess.
    pub fn draw() -> io::Result<JobSecret> {
        JobSecret::filled(|bytes| File::open("/dev/urandom")?.read_exact(bytes))
    }

    /// What `fill` writes, which leaves no copy of it elsewhere.
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
