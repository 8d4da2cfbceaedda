//! Opening and closing files.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, RwLock};

use ferrywire_host::file as system;
use ferrywire_mpi::datatype::Datatype;
use ferrywire_mpi::file::View;

use super::agree::same;
use super::worker::Worker;
use super::{File, FileError, FileHints, FileResult, lock};
use crate::comm::Comm;
use crate::window::{WindowKind, WindowSpace};

/// What may be done with a file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FileAccess {
    /// Reading.
    Read,
    /// Writing.
    Write,
    /// Both.
    ReadWrite,
}

/// Whether a file is created.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FileCreation {
    /// It exists.
    Never,
    /// If it does not exist.
    IfMissing,
    /// It must not exist.
    Exclusive,
}

/// How a file is opened.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FileMode {
    /// What may be done with it.
    pub access: FileAccess,
    /// Whether it is created.
    pub creation: FileCreation,
    /// All pointers begin at its end.
    pub append: bool,
    /// It is deleted when it is closed.
    pub delete_on_close: bool,
}

/// What a member passes to open a file.
pub struct OpenRequest<'a> {
    /// The file.
    pub path: &'a Path,
    /// How.
    pub mode: FileMode,
    /// The mode as the front has it, which must be the same at all members.
    pub mode_code: i32,
    /// The permissions of a new file, before the mask of the process.
    pub permissions: u32,
    /// How it is accessed.
    pub hints: FileHints,
}

/// The error number of a directory that is opened as a file.
const EISDIR: i32 = 21;

/// The least unit of accesses.
const BLOCK_BYTES_MIN: u64 = 4096;

impl Comm<'_> {
    /// Opens a file. All members call it, in a communicator that serves only this file.
    pub fn open_file(self, request: &OpenRequest<'_>) -> FileResult<File> {
        let me = self.members().rank();
        let all = self.meet(None, [request.mode_code.into(), 0, 0, 0])?;
        same(&all, 0, "the access mode")?;
        // One member creates the file, the others find it.
        let created =
            if me == 0 { open(request, request.mode.creation).map(Some) } else { Ok(None) };
        let file = match self.agree(created)? {
            Some(file) => Ok(file),
            None => open(request, FileCreation::Never),
        };
        let file = self.agree(file)?;
        let (size, block_bytes) = match file.metadata() {
            Ok(metadata) => (metadata.len(), metadata.blksize()),
            Err(_) => (0, 0),
        };
        let facts = [u64::from(self.host_leader()), size, block_bytes].map(u64::cast_signed);
        let all = self.meet(None, [facts[0], facts[1], facts[2], 0])?;
        let host_of = all.iter().map(|facts| u32::try_from(facts[0]).expect("a rank")).collect();
        let [_, size, block_bytes, _] = all[0].map(i64::cast_unsigned);
        let shared_pointer = self.create_window(word_at_first(me))?;
        shared_pointer.lock_all(false)?;
        let byte = Datatype::by_name("MPI_BYTE").expect("it is predefined");
        let view = View::new(0, &byte, byte.clone(), false).expect("all bytes of the file");
        let file = File {
            file,
            path: request.path.into(),
            mode: request.mode,
            view: RwLock::new(Arc::new(view)),
            pointer: Mutex::new(0),
            shared_pointer,
            is_atomic: AtomicBool::new(false),
            lock: Mutex::new(None),
            has_written: AtomicBool::new(false),
            host_of,
            block_bytes: block_bytes.max(BLOCK_BYTES_MIN),
            hints: Mutex::default(),
            worker: Worker::default(),
        };
        file.set_hints(self, request.hints)?;
        if request.mode.append {
            file.set_all_pointers(self, size)?;
        }
        Ok(file)
    }

    /// Closes a file, when all accesses to it are over, and what we have written is on the device, if the hints allow:
    /// only then are all errors known. All members call it.
    pub fn close_file(self, file: &File) -> FileResult {
        file.wait_for_started();
        file.end_worker();
        let mode = file.mode;
        let syncs = file.hints().syncs_on_close && !mode.delete_on_close;
        let synced = if syncs { file.sync_ours() } else { Ok(()) };
        let deleted = match mode.delete_on_close && self.members().rank() == 0 {
            true => fs::remove_file(&file.path),
            false => Ok(()),
        };
        // The descriptor itself is closed with the last reference. File systems tell their errors with any.
        let closed = file.file.try_clone().and_then(system::close);
        let closed = self.agree(synced.and(deleted).and(closed).map_err(FileError::from));
        file.shared_pointer.unlock_all(self)?;
        self.free_window(&file.shared_pointer)?;
        if let Some(window) = &*lock(&file.lock) {
            self.free_window(window)?;
        }
        closed
    }

    /// Leaves a file that the other members may still access, without them: those on other hosts cannot use the shared
    /// pointer and atomic mode any more if we are member 0. A file that is to be deleted when it is closed is.
    pub fn leave_file(self, file: &File) {
        if file.mode.delete_on_close && self.members().rank() == 0 {
            // Nobody could be told.
            let _ = fs::remove_file(&file.path);
        }
        file.end_worker();
        self.leave_window(&file.shared_pointer);
        if let Some(window) = &*lock(&file.lock) {
            self.leave_window(window);
        }
    }

    /// The lowest member on our host.
    fn host_leader(self) -> u32 {
        let (group, host) = (self.members().group(), self.process().rank());
        let is_here = |&rank: &u32| host.is_here(group.peer_of(rank));
        (0..group.size()).find(is_here).expect("we are here")
    }
}

/// A window with one word, at member 0.
pub(super) fn word_at_first(me: u32) -> WindowSpace {
    let bytes = if me == 0 { 8 } else { 0 };
    WindowSpace { kind: WindowKind::Allocated { adjacent: false }, bytes, unit: 1, words: None }
}

fn open(request: &OpenRequest<'_>, creation: FileCreation) -> FileResult<fs::File> {
    let mut options = OpenOptions::new();
    let access = request.mode.access;
    options.read(access != FileAccess::Write).write(access != FileAccess::Read);
    options.mode(request.permissions);
    match creation {
        FileCreation::Never => {}
        FileCreation::IfMissing => _ = options.create(true),
        FileCreation::Exclusive => _ = options.create_new(true),
    }
    let file = options.open(request.path)?;
    // The system opens directories for reading.
    match file.metadata()?.is_dir() {
        true => Err(io::Error::from_raw_os_error(EISDIR).into()),
        false => Ok(file),
    }
}
