//! Errors of collective calls: all members return the same, or none does.

use std::fmt;
use std::io;

use super::{FileError, FileResult};
use crate::comm::Comm;

/// Why a member cannot go on, as it tells the others.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Trouble {
    /// The system refused, with this error number.
    System(i32),
    /// The front refused its arguments, with this error class.
    Refused(i32),
}

/// Numbers that each member tells in the first exchange of a collective call.
pub(super) const FACTS: usize = 4;

/// The error number where a failure has none.
const EIO: i32 = 5;
/// The error number of offsets that are too large.
const EFBIG: i32 = 27;
/// The error number of offsets that are negative, and of a sync where it has no meaning.
pub(super) const EINVAL: i32 = 22;

impl Trouble {
    fn encode(trouble: Option<Trouble>) -> i64 {
        match trouble {
            None => 0,
            Some(Trouble::System(number)) => i64::from(number.max(1)),
            Some(Trouble::Refused(class)) => -i64::from(class.max(1)),
        }
    }

    fn decode(word: i64) -> Option<Trouble> {
        let number = i32::try_from(word.unsigned_abs()).unwrap_or(EIO);
        match word.signum() {
            0 => None,
            1 => Some(Trouble::System(number)),
            _ => Some(Trouble::Refused(number)),
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trouble::System(number) => write!(f, "{}", io::Error::from_raw_os_error(*number)),
            Trouble::Refused(_) => write!(f, "its arguments are invalid"),
        }
    }
}

impl FileError {
    /// What the others are told of it.
    pub(super) fn trouble(&self) -> Trouble {
        match self {
            FileError::System(error) => Trouble::System(error.raw_os_error().unwrap_or(EIO)),
            FileError::Elsewhere { trouble, .. } => *trouble,
            FileError::TooFar => Trouble::System(EFBIG),
            FileError::BeforeBeginning => Trouble::System(EINVAL),
            _ => Trouble::System(EIO),
        }
    }
}

impl Comm<'_> {
    /// Exchanges facts, or fails at all members if one of them is in trouble.
    pub(super) fn meet(
        self,
        trouble: Option<Trouble>,
        facts: [i64; FACTS],
    ) -> FileResult<Vec<[i64; FACTS]>> {
        let [a, b, c, d] = facts;
        let all = self.gather_for_file(&[Trouble::encode(trouble), a, b, c, d])?;
        let (all, _) = all.as_chunks::<{ FACTS + 1 }>();
        for (rank, words) in (0..).zip(all) {
            if let Some(trouble) = Trouble::decode(words[0]) {
                return Err(FileError::Elsewhere { rank, trouble });
            }
        }
        Ok(all.iter().map(|&[_, a, b, c, d]| [a, b, c, d]).collect())
    }

    /// Takes part in a collective call of a file whose arguments the front has refused, and returns the error on which
    /// all members agree.
    pub fn refuse_file_call(self, class: i32) -> FileError {
        match self.meet(Some(Trouble::Refused(class)), [0; FACTS]) {
            Ok(_) => unreachable!("we are in trouble"),
            Err(error) => error,
        }
    }

    /// Makes the failure of one member that of all.
    pub(super) fn agree<T>(self, result: FileResult<T>) -> FileResult<T> {
        let trouble = result.as_ref().err().map(FileError::trouble);
        match self.meet(trouble, [0; FACTS]) {
            // Our own error says more, if it is the same.
            Err(FileError::Elsewhere { trouble: first, .. }) if trouble == Some(first) => result,
            Err(error) => Err(error),
            Ok(_) => result,
        }
    }

    /// What all members say.
    pub(super) fn gather_for_file(self, mine: &[i64]) -> FileResult<Vec<i64>> {
        Ok(self.gather_from_everyone(self.members().next_instance(), mine)?)
    }
}

/// Checks that all members have passed the same fact.
pub(super) fn same(all: &[[i64; FACTS]], fact: usize, what: &'static str) -> FileResult {
    match all.windows(2).all(|pair| pair[0][fact] == pair[1][fact]) {
        true => Ok(()),
        false => Err(FileError::NotSame(what)),
    }
}
