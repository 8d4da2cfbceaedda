//! What every kvs (key-value store of a launcher) can do.

use std::fmt;

use zeroize::Zeroizing;

/// The store in which ranks of another launcher leave values for each other.
pub(crate) trait Kvs: Send {
    /// The name of the launcher, for messages.
    fn launcher(&self) -> &'static str;

    /// Our rank.
    fn rank(&self) -> u32;

    /// The number of ranks.
    fn size(&self) -> u32;

    /// Which program of the job we run, counted from 0, if the launcher says.
    fn program(&mut self) -> Option<u32>;

    /// The ranks on our host, ourselves among them, in order.
    fn neighbours(&mut self) -> Result<Vec<u32>, KvsError>;

    /// Stores a word under a key that no other rank uses, before the first fence. Letters, digits and `-` only.
    fn put(&mut self, key: &str, word: &str) -> Result<(), KvsError>;

    /// Waits until all ranks are here. What was stored before can be read afterwards.
    fn fence(&mut self) -> Result<(), KvsError>;

    /// The word that a rank has stored. It is wiped when dropped, because it may be secret.
    fn get(&mut self, from: u32, key: &str) -> Result<Zeroizing<String>, KvsError>;

    /// Tells the launcher that the rank has finalised, so that its exit does not count as a failure.
    fn goodbye(&mut self) -> Result<(), KvsError>;

    /// Asks the launcher to end the whole job.
    fn abort(&mut self, code: i32, text: &str) -> Result<(), KvsError>;
}

/// Why a kvs cannot be used.
#[derive(Debug)]
pub struct KvsError {
    launcher: &'static str,
    trouble: String,
}

impl KvsError {
    pub(super) fn new(launcher: &'static str, trouble: impl fmt::Display) -> KvsError {
        KvsError { launcher, trouble: trouble.to_string() }
    }
}

impl fmt::Display for KvsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let KvsError { launcher, trouble } = self;
        write!(f, "this process was started by {launcher}, but {trouble}")
    }
}

impl std::error::Error for KvsError {}
