//! Opening files.

use std::path::Path;

use ferrywire_host::ErrorCode;
use ferrywire_runtime::{
    Created, FileAccess, FileCreation, FileError, FileHints, FileMode, OpenRequest,
};

use crate::comm::Comm;
use crate::error::Error;
use crate::file::File;

/// How a file is opened. The options are those of [`std::fs::OpenOptions`], and a few more.
///
/// ```
/// use ferrywire::FileOptions;
///
/// ferrywire::local(2, |world| {
///     # let path = std::env::temp_dir().join(format!("ferrywire-options-{}", std::process::id()));
///     let mut options = FileOptions::new();
///     options.read(true).write(true).create_new(true).delete_on_close(true);
///     let file = options.open(world, &path).unwrap();
///     file.write_ordered(format!("rank {}\n", world.rank()).as_bytes()).unwrap();
///     let mut text = [0; 14];
///     file.read_at_all(0, &mut text).unwrap();
///     assert_eq!(&text, b"rank 0\nrank 1\n");
///     file.close().unwrap();
///     assert!(!path.exists());
/// });
/// ```
#[derive(Clone, Debug, Default)]
pub struct FileOptions {
    read: bool,
    write: bool,
    create: bool,
    create_new: bool,
    truncate: bool,
    append: bool,
    delete_on_close: bool,
    permissions: Option<u32>,
    hints: FileHints,
}

/// The permissions of a new file, before the mask of the process.
const PERMISSIONS: u32 = 0o666;

/// The class of wrong arguments, as ranks tell each other. Only the Rust front hears it, which has no classes.
pub(crate) const REFUSED: i32 = 1;

impl FileOptions {
    /// No options: at least [`read`](FileOptions::read) or [`write`](FileOptions::write) is needed.
    pub fn new() -> FileOptions {
        FileOptions::default()
    }

    /// The file can be read.
    pub fn read(&mut self, read: bool) -> &mut FileOptions {
        self.read = read;
        self
    }

    /// The file can be written.
    pub fn write(&mut self, write: bool) -> &mut FileOptions {
        self.write = write;
        self
    }

    /// The file is created if it does not exist.
    pub fn create(&mut self, create: bool) -> &mut FileOptions {
        self.create = create;
        self
    }

    /// The file is created, and must not exist.
    pub fn create_new(&mut self, create_new: bool) -> &mut FileOptions {
        self.create_new = create_new;
        self
    }

    /// The file is empty then.
    pub fn truncate(&mut self, truncate: bool) -> &mut FileOptions {
        self.truncate = truncate;
        self
    }

    /// The pointer of each rank and the one that they share begin at the end of the file, until a view is set.
    pub fn append(&mut self, append: bool) -> &mut FileOptions {
        self.append = append;
        self
    }

    /// The file is deleted when it is closed, or when rank 0 drops it.
    pub fn delete_on_close(&mut self, delete: bool) -> &mut FileOptions {
        self.delete_on_close = delete;
        self
    }

    /// The permissions of a new file, before the mask of the process; `0o666` if they are not set.
    pub fn permissions(&mut self, permissions: u32) -> &mut FileOptions {
        self.permissions = Some(permissions);
        self
    }

    /// How many ranks access the file in collective calls that bring accesses together; one of each host if it is not
    /// set. The value of rank 0 counts.
    pub fn aggregators(&mut self, ranks: u32) -> &mut FileOptions {
        self.hints.aggregators = Some(ranks);
        self
    }

    /// Bytes that an aggregator accesses at a time; 16 MiB if they are not set. The value of rank 0 counts.
    pub fn buffer_bytes(&mut self, bytes: u64) -> &mut FileOptions {
        self.hints.buffer_bytes = bytes;
        self
    }

    /// Opens a file. All ranks must call it, with the same options and a path to the same file.
    ///
    /// If a rank cannot open it, no rank has it open, and all return the error.
    pub fn open(&self, comm: &Comm, path: impl AsRef<Path>) -> Result<File, Error> {
        let (path, what) = (path.as_ref(), comm.what_all("open"));
        let (instance, wrong) = comm.begin_collective(what);
        if let Some(error) = wrong {
            return Err(error);
        }
        let _waits = comm.enter(what);
        let created = comm.runtime().duplicate(instance);
        let created: Created = created.map_err(|error| comm.not_created(what, error))?;
        let own = comm.made(format!("the file \"{}\"", path.display()), created);
        let failed = |error: FileError| own.file_error(what, error);
        let mode = match self.mode() {
            Ok(mode) => mode,
            Err(why) => {
                own.runtime().refuse_file_call(REFUSED);
                return Err(own.wrong_file_call(what, ErrorCode::ACCESS_MODE, why));
            }
        };
        let request = OpenRequest {
            path,
            mode,
            mode_code: self.code(),
            permissions: self.permissions.unwrap_or(PERMISSIONS),
            hints: self.hints,
        };
        let file = own.runtime().open_file(&request).map_err(failed)?;
        if self.truncate {
            file.set_size(own.runtime(), 0).map_err(failed)?;
        }
        Ok(File::new(file, own))
    }

    fn mode(&self) -> Result<FileMode, &'static str> {
        let access = match (self.read, self.write) {
            (true, true) => FileAccess::ReadWrite,
            (true, false) => FileAccess::Read,
            (false, true) => FileAccess::Write,
            (false, false) => return Err("the options have neither read nor write"),
        };
        if !self.write && (self.create || self.create_new || self.truncate) {
            return Err("a file is only created or truncated if the options have write");
        }
        if self.append && self.truncate {
            return Err("a file that is truncated has no end to append to");
        }
        let creation = match (self.create, self.create_new) {
            (_, true) => FileCreation::Exclusive,
            (true, false) => FileCreation::IfMissing,
            (false, false) => FileCreation::Never,
        };
        let (append, delete_on_close) = (self.append, self.delete_on_close);
        Ok(FileMode { access, creation, append, delete_on_close })
    }

    /// The options that all ranks have to pass alike.
    fn code(&self) -> i32 {
        let bits = [
            self.read,
            self.write,
            self.create,
            self.create_new,
            self.truncate,
            self.append,
            self.delete_on_close,
        ];
        bits.iter().rev().fold(0, |code, &bit| code << 1 | i32::from(bit))
    }
}
