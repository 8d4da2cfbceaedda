//! The launcher's input, for the ranks that shall read it.
//!
//! Where it can be, the input is simply inherited: then exactly what a rank reads is gone from it.
//! A terminal cannot be inherited, since a rank is not in its foreground, and a copy for all ranks
//! cannot either. These are fed through pipes so small that more is read only when the last piece
//! has been taken.

use std::fs::File;
use std::io::{ErrorKind, IsTerminal, PipeWriter, Read, Result, Write, stdin};
use std::os::fd::{AsFd, BorrowedFd};
use std::process::Stdio;

use super::options::Stdin;
use super::sys;

/// Not more than fits into a pipe of one page.
const PIECE_BYTES_MAX: usize = 4096;

/// What ranks read that have no input.
pub(super) const NO_INPUT: &str = "/dev/null";

/// The input, and who is fed from it.
pub(super) struct Input {
    wanted: Stdin,
    source: Option<File>,
    terminal: bool,
    mouths: Vec<Mouth>,
}

/// A rank that is fed.
struct Mouth {
    pipe: PipeWriter,
    /// Has taken the last piece.
    hungry: bool,
}

impl Input {
    pub(super) fn new(wanted: Stdin) -> Input {
        let terminal = stdin().is_terminal();
        let fed = wanted == Stdin::All || terminal;
        // Started without any input at all is as good as an empty one.
        let source = stdin().as_fd().try_clone_to_owned().ok().map(File::from);
        let source = source.filter(|_| fed && wanted != Stdin::None);
        Input { wanted, source, terminal, mouths: Vec::new() }
    }

    /// The input of a launcher elsewhere, which comes piece by piece.
    pub(super) fn fed(wanted: Stdin) -> Input {
        Input { wanted, source: None, terminal: true, mouths: Vec::new() }
    }

    /// What the launcher reads for ranks elsewhere: everything, if there is anybody to read it.
    pub(super) fn for_others(wanted: Stdin) -> Input {
        let source = stdin().as_fd().try_clone_to_owned().ok().map(File::from);
        let source = source.filter(|_| wanted != Stdin::None);
        Input { wanted, source, terminal: stdin().is_terminal(), mouths: Vec::new() }
    }

    /// The source, for whoever has a place for a piece of it.
    pub(super) fn source_for_others(&self) -> Option<BorrowedFd<'_>> {
        let source = self.source.as_ref()?.as_fd();
        (!self.terminal || sys::in_foreground(source)).then_some(source)
    }

    /// The next piece for others; nothing at the end.
    pub(super) fn piece_for_others(&mut self) -> Option<Vec<u8>> {
        let mut bytes = vec![0; PIECE_BYTES_MAX];
        let length = self.source.as_mut()?.read(&mut bytes).unwrap_or(0);
        bytes.truncate(length);
        (length > 0).then_some(bytes)
    }

    /// Whether everybody who is fed has taken the last piece.
    pub(super) fn is_hungry(&self) -> bool {
        !self.mouths.is_empty() && self.mouths.iter().all(|mouth| mouth.hungry)
    }

    /// What `rank` gets as its input.
    pub(super) fn of_rank(&mut self, rank: u32) -> Result<Stdio> {
        match self.wanted {
            Stdin::All => self.open_mouth(),
            Stdin::Rank(reader) if reader == rank && self.terminal => self.open_mouth(),
            Stdin::Rank(reader) if reader == rank => Ok(Stdio::inherit()),
            // Opened here: what goes wrong with it is not the fault of the program.
            Stdin::Rank(_) | Stdin::None => File::open(NO_INPUT).map(Stdio::from),
        }
    }

    fn open_mouth(&mut self) -> Result<Stdio> {
        let (theirs, pipe) = std::io::pipe()?;
        sys::shrink_pipe(pipe.as_fd());
        sys::never_block(pipe.as_fd())?;
        self.mouths.push(Mouth { pipe, hungry: false });
        Ok(Stdio::from(theirs))
    }

    /// The source, when everybody has taken the last piece and it may be read.
    pub(super) fn source(&self) -> Option<BorrowedFd<'_>> {
        let source = self.source.as_ref()?.as_fd();
        let ready = self.is_hungry();
        // A terminal of which we are in the background is not ours to read.
        (ready && (!self.terminal || sys::in_foreground(source))).then_some(source)
    }

    /// The pipes that have not been emptied yet, with their places.
    pub(super) fn busy(&self) -> impl Iterator<Item = (usize, BorrowedFd<'_>)> {
        let mouths = self.mouths.iter().enumerate();
        mouths.filter(|(_, mouth)| !mouth.hungry).map(|(at, mouth)| (at, mouth.pipe.as_fd()))
    }

    /// The pipe at `at` is empty.
    pub(super) fn on_empty(&mut self, at: usize) {
        if let Some(mouth) = self.mouths.get_mut(at) {
            mouth.hungry = true;
        }
    }

    /// The source can be read.
    pub(super) fn on_readable(&mut self) {
        let mut bytes = [0; PIECE_BYTES_MAX];
        let Some(source) = &mut self.source else { return };
        match source.read(&mut bytes) {
            Ok(0) => self.close(),
            Ok(length) => self.feed(&bytes[..length]),
            Err(error)
                if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => {}
            Err(_) => self.close(),
        }
    }

    /// Everybody gets the piece. Whoever does not read any more is left out from now on.
    pub(super) fn feed(&mut self, piece: &[u8]) {
        self.mouths.retain_mut(|mouth| {
            mouth.hungry = false;
            mouth.pipe.write_all(piece).is_ok()
        });
        if self.mouths.is_empty() {
            self.close();
        }
    }

    /// The input is at its end, and so is that of the ranks.
    pub(super) fn close(&mut self) {
        self.source = None;
        self.mouths.clear();
    }
}
