//! Passes the launcher's standard input to the ranks that read it.
//!
//! Where possible, a rank inherits the input: then it consumes exactly what it reads. A terminal cannot be
//! inherited, since a rank is not in its foreground process group, and neither can a copy for all ranks. These
//! ranks get pipes so small that the launcher reads more only when they have taken the last piece.

use std::fs::File;
use std::io::{ErrorKind, IsTerminal, PipeWriter, Read, Result, Write, stdin};
use std::os::fd::{AsFd, BorrowedFd};
use std::process::Stdio;

use super::options::Stdin;
use super::sys;

/// How much is read at once: what fits into a pipe of one page.
const PIECE_BYTES_MAX: usize = 4096;

/// The input of ranks that get none of the launcher's.
pub(super) const NO_INPUT: &str = "/dev/null";

/// The launcher's input, and the pipes of the ranks that read it.
pub(super) struct Input {
    wanted: Stdin,
    source: Option<File>,
    terminal: bool,
    mouths: Vec<Mouth>,
}

/// The pipe of a rank that reads the input.
struct Mouth {
    pipe: PipeWriter,
    /// The rank has taken the last piece.
    hungry: bool,
}

impl Input {
    pub(super) fn new(wanted: Stdin) -> Input {
        let terminal = stdin().is_terminal();
        let fed = wanted == Stdin::All || terminal;
        // A closed standard input counts as an empty one.
        let source = stdin().as_fd().try_clone_to_owned().ok().map(File::from);
        let source = source.filter(|_| fed && wanted != Stdin::None);
        Input { wanted, source, terminal, mouths: Vec::new() }
    }

    /// The input of a daemon: the launcher sends it piece by piece.
    pub(super) fn fed(wanted: Stdin) -> Input {
        Input { wanted, source: None, terminal: true, mouths: Vec::new() }
    }

    /// The input of a launcher whose ranks are on other hosts: it reads all of it, if a rank wants it.
    pub(super) fn for_others(wanted: Stdin) -> Input {
        let source = stdin().as_fd().try_clone_to_owned().ok().map(File::from);
        let source = source.filter(|_| wanted != Stdin::None);
        Input { wanted, source, terminal: stdin().is_terminal(), mouths: Vec::new() }
    }

    /// The source of [`Input::for_others`], if it may be read.
    pub(super) fn source_for_others(&self) -> Option<BorrowedFd<'_>> {
        let source = self.source.as_ref()?.as_fd();
        (!self.terminal || sys::in_foreground(source)).then_some(source)
    }

    /// The next piece for ranks on other hosts; `None` at the end.
    pub(super) fn piece_for_others(&mut self) -> Option<Vec<u8>> {
        let mut bytes = vec![0; PIECE_BYTES_MAX];
        let length = self.source.as_mut()?.read(&mut bytes).unwrap_or(0);
        bytes.truncate(length);
        (length > 0).then_some(bytes)
    }

    /// Whether all ranks that read have taken the last piece.
    pub(super) fn is_hungry(&self) -> bool {
        !self.mouths.is_empty() && self.mouths.iter().all(|mouth| mouth.hungry)
    }

    /// The standard input of `rank`.
    pub(super) fn of_rank(&mut self, rank: u32) -> Result<Stdio> {
        match self.wanted {
            Stdin::All => self.open_mouth(),
            Stdin::Rank(reader) if reader == rank && self.terminal => self.open_mouth(),
            Stdin::Rank(reader) if reader == rank => Ok(Stdio::inherit()),
            // Opened here, so that a failure is not blamed on the program.
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

    /// The source, if all ranks have taken the last piece and it may be read.
    pub(super) fn source(&self) -> Option<BorrowedFd<'_>> {
        let source = self.source.as_ref()?.as_fd();
        let ready = self.is_hungry();
        // A background process that reads its terminal is stopped.
        (ready && (!self.terminal || sys::in_foreground(source))).then_some(source)
    }

    /// The pipes that are not empty yet, with their indices.
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

    /// Writes the piece to all pipes, and drops those that are closed.
    pub(super) fn feed(&mut self, piece: &[u8]) {
        self.mouths.retain_mut(|mouth| {
            mouth.hungry = false;
            mouth.pipe.write_all(piece).is_ok()
        });
        if self.mouths.is_empty() {
            self.close();
        }
    }

    /// The input has ended: closes all pipes.
    pub(super) fn close(&mut self) {
        self.source = None;
        self.mouths.clear();
    }
}
