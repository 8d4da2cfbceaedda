//! Files that all ranks of a communicator read and write.
//!
//! The runtime accesses them. Here are types: a file has items of one type, whose size is that of the etype, so
//! lengths and offsets always fit. A non-blocking access owns its buffer in the thread of the file, and hands it over
//! when it is complete, so no memory is lent.

use std::io::{self, SeekFrom};
use std::marker::PhantomData;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ferrywire_host::ErrorCode;
use ferrywire_host::nic::{Outcome, Posted};
use ferrywire_runtime::{
    self as runtime, FileAccess, FileError, FilePosition, Trouble, Whence, With,
};

use crate::comm::{Comm, What, size};
use crate::error::Error;
use crate::file_options::{FileOptions, REFUSED};
use crate::file_view::FileView;
use crate::plain::{self, Plain};
use crate::request::{End, Kept, OwnedBuffer, Request, sealed};

/// A file that all ranks of a communicator read and write.
///
/// It is a sequence of items: of the bytes of the file at first, and of what [`set_view`](File::set_view) selects for
/// each rank afterwards. All lengths and places are numbers of items, but for the [length](File::len) of the file,
/// which is in bytes.
///
/// | where | alone | all ranks together | as a request |
/// |---|---|---|---|
/// | at an offset | [`read_at`](File::read_at), [`write_at`](File::write_at) | [`read_at_all`](File::read_at_all), [`write_at_all`](File::write_at_all) | [`iread_at`](File::iread_at), …, [`iwrite_at_all`](File::iwrite_at_all) |
/// | at the rank's own pointer | [`read`](File::read), [`write`](File::write) | [`read_all`](File::read_all), [`write_all`](File::write_all) | [`iread`](File::iread), …, [`iwrite_all`](File::iwrite_all) |
/// | at the pointer that all share | [`read_shared`](File::read_shared), [`write_shared`](File::write_shared) | [`read_ordered`](File::read_ordered), [`write_ordered`](File::write_ordered) | [`iread_shared`](File::iread_shared), [`iwrite_shared`](File::iwrite_shared) |
///
/// All ranks must make collective calls, in the same order; a rank that has nothing to access passes an empty slice.
/// They bring small and interleaved accesses together, and if a rank fails, all do. A read returns the number of items
/// that it has read, which is less than it asked for only at the end of the file. Pointers move by the length of the
/// buffer in any case. Only the bytes that were passed are written.
///
/// What a rank has written, others see after a [`sync`](File::sync), if they call it, too, or at once in [atomic
/// mode](File::set_atomic). On one host, and on file systems that keep hosts coherent, they see it when the call has
/// returned.
///
/// # Closing
///
/// [`close`](File::close) is collective, completes requests that have been dropped, and returns errors that the file
/// system has kept until then. Dropping a file is not collective: the rank leaves the file, which is closed for it when
/// its last request is complete. The other ranks can go on. If rank 0 drops it, ranks of other hosts cannot use the
/// shared pointer and atomic mode any more. So a rank that returns early with an error does not wait for others.
///
/// ```
/// use ferrywire::{File, FileView};
///
/// ferrywire::local(3, |world| {
///     # let path = std::env::temp_dir().join(format!("ferrywire-file-{}", std::process::id()));
///     // Each rank writes a block of a hundred numbers.
///     let file = File::create(world, &path).unwrap().set_view::<f64>(&FileView::all()).unwrap();
///     let offset = u64::from(world.rank()) * 100;
///     file.write_at_all(offset, &[f64::from(world.rank()); 100]).unwrap();
///     let mut last = [0.0; 200];
///     assert_eq!(file.read_at(250, &mut last).unwrap(), 50);
///     assert_eq!(last[49], 2.0);
///     file.close().unwrap();
///     # if world.rank() == 0 { std::fs::remove_file(&path).unwrap() }
/// });
/// ```
pub struct File<T: Plain = u8> {
    open: Arc<OpenFile>,
    items: PhantomData<T>,
}

/// A file, as long as one of its requests is not complete.
struct OpenFile {
    file: runtime::File,
    /// A communicator of its own, so that its messages meet no others.
    comm: Comm,
    is_closed: AtomicBool,
}

/// A non-blocking access to a file. A read returns the items, and a write its buffer.
pub type FileRequest<T> = Request<Accessing<T>>;

/// The result of a non-blocking access, when it is complete.
pub struct Accessing<T>(AccessResult<T>);

type AccessResult<T> = Arc<Mutex<Option<Result<Vec<T>, FileError>>>>;

impl<T> sealed::Sealed for Accessing<T> {}

impl<T: Plain> Kept for Accessing<T> {
    type Output = Vec<T>;
    const REVOCABLE: bool = false;

    fn finish(self, end: End<'_>) -> Result<Vec<T>, Error> {
        match (end.outcome, lock(&self.0).take()) {
            (Outcome::Done, Some(ended)) => {
                ended.map_err(|error| end.comm.file_error(end.what, error))
            }
            (other, _) => Err(end.comm.error(end.what, other)),
        }
    }
}

/// Who accesses the file, and where.
#[derive(Clone, Copy)]
enum Who {
    Alone(FilePosition),
    Together(FilePosition),
    /// All ranks, one behind the other at the shared pointer.
    InOrder,
}

impl Who {
    fn is_alone(self) -> bool {
        matches!(self, Who::Alone(_))
    }
}

/// Where an access is, in bytes of the view.
enum Place {
    Alone(u64),
    Together(u64),
    /// As many items, at a place that depends on those of other ranks.
    InOrder(u64),
    /// There is no such place, which the other ranks of the collective call have to learn.
    Refused(FileError),
}

impl File {
    /// Opens a file for reading. All ranks must call it: see [`FileOptions::open`].
    pub fn open(comm: &Comm, path: impl AsRef<Path>) -> Result<File, Error> {
        FileOptions::new().read(true).open(comm, path)
    }

    /// Opens a file for reading and writing, which is created or truncated. All ranks must call it: see
    /// [`FileOptions::open`].
    pub fn create(comm: &Comm, path: impl AsRef<Path>) -> Result<File, Error> {
        FileOptions::new().read(true).write(true).create(true).truncate(true).open(comm, path)
    }

    pub(crate) fn new(file: runtime::File, comm: Comm) -> File {
        let open = Arc::new(OpenFile { file, comm, is_closed: AtomicBool::new(false) });
        File { open, items: PhantomData }
    }
}

impl<T: Plain> File<T> {
    /// Selects the items that this rank sees, and their type. All ranks must call it, with items of the same size;
    /// their views may differ. The pointers of all ranks and the shared one are at the first item then.
    ///
    /// Items are in the file as they are in memory. If there is no such view, the file is dropped.
    pub fn set_view<U: Plain>(self, view: &FileView) -> Result<File<U>, Error> {
        let what = self.what::<U>("set_view", None);
        let OpenFile { file, comm, .. } = &*self.open;
        let _waits = comm.enter(what);
        file.wait_for_started();
        let may_overlap = file.mode().access == FileAccess::Read;
        match view.of_items(size_of::<U>(), may_overlap) {
            Ok(view) => self.told(what, file.set_view(comm.runtime(), view, 0))?,
            Err(why) => {
                comm.runtime().refuse_file_call(REFUSED);
                return Err(comm.wrong_file_call(what, ErrorCode::VIEW, why));
            }
        }
        Ok(File { open: Arc::clone(&self.open), items: PhantomData })
    }

    /// Reads from an item on.
    pub fn read_at(&self, offset: u64, into: &mut [T]) -> Result<usize, Error> {
        self.read_now("read_at", Who::Alone(FilePosition::Explicit(offset)), into)
    }

    /// Writes from an item on.
    pub fn write_at(&self, offset: u64, items: &[T]) -> Result<(), Error> {
        self.write_now("write_at", Who::Alone(FilePosition::Explicit(offset)), items)
    }

    /// Like [`read_at`](File::read_at), by all ranks together.
    pub fn read_at_all(&self, offset: u64, into: &mut [T]) -> Result<usize, Error> {
        self.read_now("read_at_all", Who::Together(FilePosition::Explicit(offset)), into)
    }

    /// Like [`write_at`](File::write_at), by all ranks together. Where they overlap, the items of the highest rank
    /// remain.
    pub fn write_at_all(&self, offset: u64, items: &[T]) -> Result<(), Error> {
        self.write_now("write_at_all", Who::Together(FilePosition::Explicit(offset)), items)
    }

    /// Reads at the pointer of this rank.
    pub fn read(&self, into: &mut [T]) -> Result<usize, Error> {
        self.read_now("read", Who::Alone(FilePosition::Pointer), into)
    }

    /// Writes at the pointer of this rank.
    pub fn write(&self, items: &[T]) -> Result<(), Error> {
        self.write_now("write", Who::Alone(FilePosition::Pointer), items)
    }

    /// Like [`read`](File::read), by all ranks together.
    pub fn read_all(&self, into: &mut [T]) -> Result<usize, Error> {
        self.read_now("read_all", Who::Together(FilePosition::Pointer), into)
    }

    /// Like [`write`](File::write), by all ranks together.
    pub fn write_all(&self, items: &[T]) -> Result<(), Error> {
        self.write_now("write_all", Who::Together(FilePosition::Pointer), items)
    }

    /// Reads at the shared pointer: no item is read by two ranks. The views of all ranks must be the same.
    pub fn read_shared(&self, into: &mut [T]) -> Result<usize, Error> {
        self.read_now("read_shared", Who::Alone(FilePosition::Shared), into)
    }

    /// Writes at the shared pointer: behind what others have written there. The views of all ranks must be the same.
    pub fn write_shared(&self, items: &[T]) -> Result<(), Error> {
        self.write_now("write_shared", Who::Alone(FilePosition::Shared), items)
    }

    /// Reads at the shared pointer, all ranks one behind the other.
    pub fn read_ordered(&self, into: &mut [T]) -> Result<usize, Error> {
        self.read_now("read_ordered", Who::InOrder, into)
    }

    /// Writes at the shared pointer, all ranks one behind the other.
    pub fn write_ordered(&self, items: &[T]) -> Result<(), Error> {
        self.write_now("write_ordered", Who::InOrder, items)
    }

    /// Starts to read up to `count` items. The request returns those that are there.
    ///
    /// ```
    /// # let path = std::env::temp_dir().join(format!("ferrywire-iread-{}", std::process::id()));
    /// ferrywire::local(2, |world| {
    ///     let file = ferrywire::File::create(world, &path).unwrap();
    ///     let offset = u64::from(world.rank()) * 3;
    ///     let written = file.iwrite_at_all(offset, [b'a', b'b', b'c']).unwrap();
    ///     // … compute …
    ///     written.wait().unwrap();
    ///     let read = file.iread_at(offset + 1, 10).unwrap();
    ///     let found = read.wait().unwrap();
    ///     assert!(found.starts_with(b"bc"));
    ///     file.close().unwrap();
    /// });
    /// # std::fs::remove_file(&path).unwrap();
    /// ```
    pub fn iread_at(&self, offset: u64, count: usize) -> Result<FileRequest<T>, Error> {
        self.start_read("iread_at", Who::Alone(FilePosition::Explicit(offset)), count)
    }

    /// Starts to write. The request owns the items and returns them when they are written.
    pub fn iwrite_at<B>(&self, offset: u64, items: B) -> Result<FileRequest<T>, Error>
    where
        B: OwnedBuffer<Item = T>,
    {
        self.start_write("iwrite_at", Who::Alone(FilePosition::Explicit(offset)), items.into_vec())
    }

    /// Like [`iread_at`](File::iread_at), by all ranks together. Other ranks need not have called it yet.
    pub fn iread_at_all(&self, offset: u64, count: usize) -> Result<FileRequest<T>, Error> {
        self.start_read("iread_at_all", Who::Together(FilePosition::Explicit(offset)), count)
    }

    /// Like [`iwrite_at`](File::iwrite_at), by all ranks together. Other ranks need not have called it yet.
    pub fn iwrite_at_all<B>(&self, offset: u64, items: B) -> Result<FileRequest<T>, Error>
    where
        B: OwnedBuffer<Item = T>,
    {
        let who = Who::Together(FilePosition::Explicit(offset));
        self.start_write("iwrite_at_all", who, items.into_vec())
    }

    /// Starts to read at the pointer of this rank, which moves at once.
    pub fn iread(&self, count: usize) -> Result<FileRequest<T>, Error> {
        self.start_read("iread", Who::Alone(FilePosition::Pointer), count)
    }

    /// Starts to write at the pointer of this rank, which moves at once.
    pub fn iwrite<B: OwnedBuffer<Item = T>>(&self, items: B) -> Result<FileRequest<T>, Error> {
        self.start_write("iwrite", Who::Alone(FilePosition::Pointer), items.into_vec())
    }

    /// Like [`iread`](File::iread), by all ranks together.
    pub fn iread_all(&self, count: usize) -> Result<FileRequest<T>, Error> {
        self.start_read("iread_all", Who::Together(FilePosition::Pointer), count)
    }

    /// Like [`iwrite`](File::iwrite), by all ranks together.
    pub fn iwrite_all<B: OwnedBuffer<Item = T>>(&self, items: B) -> Result<FileRequest<T>, Error> {
        self.start_write("iwrite_all", Who::Together(FilePosition::Pointer), items.into_vec())
    }

    /// Starts to read at the shared pointer, which moves at once.
    pub fn iread_shared(&self, count: usize) -> Result<FileRequest<T>, Error> {
        self.start_read("iread_shared", Who::Alone(FilePosition::Shared), count)
    }

    /// Starts to write at the shared pointer, which moves at once.
    pub fn iwrite_shared<B>(&self, items: B) -> Result<FileRequest<T>, Error>
    where
        B: OwnedBuffer<Item = T>,
    {
        self.start_write("iwrite_shared", Who::Alone(FilePosition::Shared), items.into_vec())
    }

    /// The pointer of this rank.
    pub fn position(&self) -> u64 {
        self.open.file.position()
    }

    /// Moves the pointer of this rank, and returns where it is. The end is that of the file, or the first item of the
    /// view behind it.
    pub fn seek(&self, to: SeekFrom) -> Result<u64, Error> {
        let (offset, whence) = seeking(to);
        let what = self.what::<T>("seek", None);
        self.told(what, self.open.file.seek(offset, whence))?;
        Ok(self.position())
    }

    /// The shared pointer.
    pub fn shared_position(&self) -> Result<u64, Error> {
        let what = self.what::<T>("shared_position", None);
        self.told(what, self.open.file.shared_position(self.open.comm.runtime()))
    }

    /// Moves the shared pointer. All ranks must call it, with the same argument.
    pub fn seek_shared(&self, to: SeekFrom) -> Result<(), Error> {
        let (offset, whence) = seeking(to);
        self.together("seek_shared", |file, comm| file.seek_shared(comm, offset, whence))
    }

    /// The place in the file, in bytes, of an item of the view.
    pub fn byte_offset(&self, item: u64) -> Result<u64, Error> {
        self.told(self.what::<T>("byte_offset", None), self.open.file.offset_of(item))
    }

    /// The length of the file in bytes.
    #[expect(clippy::len_without_is_empty, reason = "it asks the system, and may fail")]
    pub fn len(&self) -> Result<u64, Error> {
        self.told(self.what::<T>("len", None), self.open.file.size())
    }

    /// Sets the length of the file in bytes: cuts it off, or appends zeros. All ranks must call it, with the same
    /// length.
    pub fn set_len(&self, bytes: u64) -> Result<(), Error> {
        self.together("set_len", |file, comm| file.set_size(comm, bytes))
    }

    /// Reserves space for the first bytes of the file, which is as long afterwards, if it was shorter. All ranks must
    /// call it, with the same length.
    pub fn preallocate(&self, bytes: u64) -> Result<(), Error> {
        self.together("preallocate", |file, comm| file.preallocate(comm, bytes))
    }

    /// Brings what all ranks have written to the device, where all of them see it. All ranks must call it.
    pub fn sync(&self) -> Result<(), Error> {
        self.together("sync", |file, comm| file.sync(comm))
    }

    /// Whether the file is in atomic mode.
    pub fn is_atomic(&self) -> bool {
        self.open.file.is_atomic()
    }

    /// Sets atomic mode: of accesses that overlap, each sees all of another or nothing of it. It takes a lock for each
    /// access of one rank. All ranks must call it, with the same argument.
    pub fn set_atomic(&self, atomic: bool) -> Result<(), Error> {
        self.together("set_atomic", |file, comm| file.set_atomic(comm, atomic))
    }

    /// Closes the file, when all of its requests are complete. All ranks must call it.
    pub fn close(self) -> Result<(), Error> {
        self.open.is_closed.store(true, Ordering::Relaxed);
        self.together("close", |file, comm| comm.close_file(file))
    }

    /// A collective call, behind the requests that were started before.
    fn together<'a>(
        &'a self,
        name: &'static str,
        call: impl FnOnce(&'a runtime::File, runtime::Comm<'a>) -> Result<(), FileError>,
    ) -> Result<(), Error> {
        let what = self.what::<T>(name, None);
        let OpenFile { file, comm, .. } = &*self.open;
        let _waits = comm.enter(what);
        file.wait_for_started();
        self.told(what, call(file, comm.runtime()))
    }

    fn read_now(&self, name: &'static str, who: Who, into: &mut [T]) -> Result<usize, Error> {
        let what = self.what::<T>(name, Some(into.len()));
        self.check_access(what, FileAccess::Read)?;
        let place = self.told(what, self.open.claim(who, into.len()))?;
        let _waits = self.begin(what, who);
        let bytes = self.told(what, self.open.read(place, plain::bytes_mut(into)))?;
        Ok(size(bytes) / plain::unit::<T>())
    }

    fn write_now(&self, name: &'static str, who: Who, items: &[T]) -> Result<(), Error> {
        let what = self.what::<T>(name, Some(items.len()));
        self.check_access(what, FileAccess::Write)?;
        let place = self.told(what, self.open.claim(who, items.len()))?;
        let _waits = self.begin(what, who);
        self.told(what, self.open.write(place, plain::bytes(items)))
    }

    fn start_read(
        &self,
        name: &'static str,
        who: Who,
        count: usize,
    ) -> Result<FileRequest<T>, Error> {
        let what = self.what::<T>(name, Some(count));
        self.check_access(what, FileAccess::Read)?;
        let place = self.told(what, self.open.claim(who, count))?;
        let mut items = plain::zeroed::<T>(count);
        self.start(what, move |file| {
            let bytes = file.read(place, plain::bytes_mut(&mut items))?;
            items.truncate(size(bytes) / plain::unit::<T>());
            Ok(items)
        })
    }

    fn start_write(
        &self,
        name: &'static str,
        who: Who,
        items: Vec<T>,
    ) -> Result<FileRequest<T>, Error> {
        let what = self.what::<T>(name, Some(items.len()));
        self.check_access(what, FileAccess::Write)?;
        let place = self.told(what, self.open.claim(who, items.len()))?;
        self.start(what, move |file| file.write(place, plain::bytes(&items)).map(|()| items))
    }

    /// Runs an access in the thread of the file, which raises a counter when it is over.
    fn start(
        &self,
        what: What,
        access: impl FnOnce(&OpenFile) -> Result<Vec<T>, FileError> + Send + 'static,
    ) -> Result<FileRequest<T>, Error> {
        let comm = &self.open.comm;
        let counter = comm.plane().open_counter();
        let posted = comm.plane().start_wait_for_counter(counter, 1);
        let result = AccessResult::<T>::default();
        let (open, ended) = (Arc::clone(&self.open), Arc::clone(&result));
        let started = self.open.file.start(move || {
            *lock(&ended) = Some(access(&open));
            open.comm.plane().raise_counter(counter);
            // The request has its outcome.
            open.comm.plane().close_counter(counter);
        });
        if let Err(error) = started {
            comm.plane().close_counter(counter);
            if let Posted::Pending(ticket) = posted {
                comm.plane().detach(ticket, None);
            }
            return Err(comm.file_error(what, error));
        }
        Ok(Request::new(comm, what, posted, Accessing(result)))
    }

    /// Records that this rank waits in a call, and lets earlier requests meet those of other ranks before a collective
    /// one.
    fn begin(&self, what: What, who: Who) -> crate::comm::InCall<'_> {
        let waits = self.open.comm.enter(what);
        if !who.is_alone() {
            self.open.file.wait_for_started();
        }
        waits
    }

    /// The mode is the same at all ranks, so that none of them begins a collective call which it does not allow.
    fn check_access(&self, what: What, needed: FileAccess) -> Result<(), Error> {
        let mode = self.open.file.mode().access;
        if mode == needed || mode == FileAccess::ReadWrite {
            return Ok(());
        }
        let way = if needed == FileAccess::Read { "reading" } else { "writing" };
        let why = format!("the file is not open for {way}");
        let call = self.open.comm.call(what);
        let code = ErrorCode::FILE_ACCESS;
        Err(Error::File { call, code, kind: io::ErrorKind::PermissionDenied, why })
    }

    fn what<U: Plain>(&self, name: &'static str, items: Option<usize>) -> What {
        let bytes = items.map(|items| items.saturating_mul(size_of::<U>()) as u64);
        What { name, bytes, peer: With::All, tag: None, item: Some(U::type_name()) }
    }

    fn told<R>(&self, what: What, result: Result<R, FileError>) -> Result<R, Error> {
        result.map_err(|error| self.open.comm.file_error(what, error))
    }
}

impl OpenFile {
    /// The place of an access, which moves the pointer that it is for.
    fn claim(&self, who: Who, items: usize) -> Result<Place, FileError> {
        let items = items as u64;
        let at = |position| self.file.claim(self.comm.runtime(), position, items);
        match who {
            Who::Alone(position) => at(position).map(Place::Alone),
            Who::Together(position) => {
                Ok(at(position).map_or_else(Place::Refused, Place::Together))
            }
            Who::InOrder => Ok(Place::InOrder(items)),
        }
    }

    fn read(&self, place: Place, into: &mut [u8]) -> Result<u64, FileError> {
        let comm = self.comm.runtime();
        match place {
            Place::Alone(position) => self.file.read(comm, position, vec![into]),
            Place::Together(position) => self.file.read_all(comm, position, into),
            Place::InOrder(items) => {
                let position = self.file.claim_in_order(comm, items)?;
                self.file.read_all(comm, position, into)
            }
            Place::Refused(error) => Err(self.refuse(error)),
        }
    }

    fn write(&self, place: Place, bytes: &[u8]) -> Result<(), FileError> {
        let comm = self.comm.runtime();
        let written = match place {
            Place::Alone(position) => self.file.write(comm, position, vec![bytes])?,
            Place::Together(position) => self.file.write_all(comm, position, bytes)?,
            Place::InOrder(items) => {
                let position = self.file.claim_in_order(comm, items)?;
                self.file.write_all(comm, position, bytes)?
            }
            Place::Refused(error) => return Err(self.refuse(error)),
        };
        debug_assert_eq!(written, bytes.len() as u64, "a write is complete, or an error");
        Ok(())
    }

    /// Tells the other ranks of a collective call that this one fails.
    fn refuse(&self, error: FileError) -> FileError {
        self.comm.runtime().refuse_file_call(REFUSED);
        error
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        if !*self.is_closed.get_mut() {
            self.comm.runtime().leave_file(&self.file);
        }
    }
}

impl<T: Plain> std::fmt::Debug for File<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.open.comm)
    }
}

impl Comm {
    /// The error of a call of a file.
    pub(crate) fn file_error(&self, what: What, error: FileError) -> Error {
        let kind = match &error {
            FileError::System(error) => error.kind(),
            FileError::Elsewhere { trouble: Trouble::System(number), .. } => {
                io::Error::from_raw_os_error(*number).kind()
            }
            FileError::TooFar => io::ErrorKind::FileTooLarge,
            _ => io::ErrorKind::InvalidInput,
        };
        match error {
            FileError::Failed(failure) => self.error_of(what, failure),
            FileError::NotCreated(error) => self.not_created(what, error),
            FileError::Window(error) => self.window_error(what, error),
            other => {
                let (call, code) = (self.call(what), other.code());
                Error::File { call, code, kind, why: other.to_string() }
            }
        }
    }

    /// The error of a call of a file with wrong arguments.
    pub(crate) fn wrong_file_call(
        &self,
        what: What,
        code: ErrorCode,
        why: impl Into<String>,
    ) -> Error {
        let (call, why) = (self.call(what), why.into());
        Error::File { call, code, kind: io::ErrorKind::InvalidInput, why }
    }
}

/// A place to seek, as the runtime has it. What is too far is an error of the next access.
fn seeking(to: SeekFrom) -> (i64, Whence) {
    match to {
        SeekFrom::Start(offset) => (i64::try_from(offset).unwrap_or(i64::MAX), Whence::Beginning),
        SeekFrom::Current(offset) => (offset, Whence::Pointer),
        SeekFrom::End(offset) => (offset, Whence::End),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
