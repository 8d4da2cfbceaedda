//! What every kvs can do.

use std::fmt;

use zeroize::Zeroizing;

/// Where ranks that some launcher started leave words for each other.
pub(crate) trait Kvs: Send {
    /// What we call the launcher.
    fn launcher(&self) -> &'static str;

    /// Who we are.
    fn rank(&self) -> u32;

    /// How many we are.
    fn size(&self) -> u32;

    /// Which program of the job we run, from 0 on, if the launcher says.
    fn program(&mut self) -> Option<u32>;

    /// The ranks on our host, ourselves among them, in order.
    fn neighbours(&mut self) -> Result<Vec<u32>, KvsError>;

    /// Leaves a word under a key that no other rank uses, before the first fence. Letters, digits and `-` only.
    fn put(&mut self, key: &str, word: &str) -> Result<(), KvsError>;

    /// Waits until all ranks are here. What was left before can be read afterwards.
    fn fence(&mut self) -> Result<(), KvsError>;

    /// The word that a rank has left. It is wiped in the end, since it may be secret.
    fn get(&mut self, from: u32, key: &str) -> Result<Zeroizing<String>, KvsError>;

    /// The rank has finalised: that it ends is no longer news.
    fn goodbye(&mut self) -> Result<(), KvsError>;

    /// Asks for the end of the whole job.
    fn abort(&mut self, code: i32, text: &str) -> Result<(), KvsError>;
}

/// Why a kvs is of no use.
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
