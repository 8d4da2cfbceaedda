//! Size, view, hints, atomic mode and synchronisation of files.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use ferrywire_host::file as system;
use ferrywire_mpi::file::View;

use super::agree::{EINVAL, same};
use super::open::word_at_first;
use super::{File, FileMode, FileResult, lock};
use crate::comm::Comm;
use crate::window::Locking;

/// How a program wants a file to be accessed. All members use those of member 0.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FileHints {
    /// How many members access the file in collective calls. Without it, one of each host.
    pub aggregators: Option<u32>,
    /// Bytes that an aggregator accesses at a time.
    pub buffer_bytes: u64,
    /// Whether collective accesses are brought together. Without it, if it is worth it.
    pub gathers: Option<bool>,
    /// Whether closing the file waits until what was written is on the device.
    pub syncs_on_close: bool,
}

impl Default for FileHints {
    fn default() -> FileHints {
        FileHints { aggregators: None, buffer_bytes: 16 << 20, gathers: None, syncs_on_close: true }
    }
}

/// The bounds of [`FileHints::buffer_bytes`].
const BUFFER_BYTES_MIN: u64 = 4096;
const BUFFER_BYTES_MAX: u64 = 1 << 30;

/// The error number of what can only be read.
const EROFS: i32 = 30;

impl File {
    /// How it was opened.
    pub fn mode(&self) -> FileMode {
        self.mode
    }

    /// Its size.
    pub fn size(&self) -> FileResult<u64> {
        Ok(self.file.metadata()?.len())
    }

    /// Sets its size. All members call it.
    pub fn set_size(&self, comm: Comm<'_>, bytes: u64) -> FileResult {
        self.change_size(comm, bytes, |file, bytes| file.set_len(bytes))
    }

    /// Allocates its first bytes. All members call it.
    pub fn preallocate(&self, comm: Comm<'_>, bytes: u64) -> FileResult {
        self.change_size(comm, bytes, |file, bytes| match bytes {
            0 => Ok(()),
            _ => system::allocate(file, bytes),
        })
    }

    fn change_size(
        &self,
        comm: Comm<'_>,
        bytes: u64,
        change: impl FnOnce(&std::fs::File, u64) -> std::io::Result<()>,
    ) -> FileResult {
        let all = comm.meet(None, [bytes.cast_signed(), 0, 0, 0])?;
        same(&all, 0, "the size")?;
        let changed = match comm.members().rank() {
            0 => {
                self.has_written.store(true, Ordering::Relaxed);
                change(&self.file, bytes)
            }
            _ => Ok(()),
        };
        comm.agree(changed.map_err(Into::into))
    }

    /// The view.
    pub fn view(&self) -> Arc<View> {
        Arc::clone(&self.view.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Sets the view, and all pointers to its beginning. All members call it. `representation` stands for that of the
    /// data.
    pub fn set_view(&self, comm: Comm<'_>, view: View, representation: u64) -> FileResult {
        let facts = [view.etype_bytes(), representation].map(u64::cast_signed);
        let all = comm.meet(None, [facts[0], facts[1], 0, 0])?;
        same(&all, 0, "the size of the etype")?;
        same(&all, 1, "the data representation")?;
        *self.view.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(view);
        self.set_all_pointers(comm, 0)
    }

    /// Sets the hints. All members call it.
    pub fn set_hints(&self, comm: Comm<'_>, hints: FileHints) -> FileResult {
        let facts = [
            hints.aggregators.map_or(-1, i64::from),
            hints.buffer_bytes.clamp(BUFFER_BYTES_MIN, BUFFER_BYTES_MAX).cast_signed(),
            hints.gathers.map_or(-1, i64::from),
            hints.syncs_on_close.into(),
        ];
        let [aggregators, buffer_bytes, gathers, syncs_on_close] = comm.meet(None, facts)?[0];
        *lock(&self.hints) = FileHints {
            aggregators: u32::try_from(aggregators).ok(),
            buffer_bytes: buffer_bytes.cast_unsigned(),
            gathers: (gathers >= 0).then_some(gathers > 0),
            syncs_on_close: syncs_on_close != 0,
        };
        Ok(())
    }

    pub(super) fn hints(&self) -> FileHints {
        *lock(&self.hints)
    }

    /// Whether it is in atomic mode.
    pub fn is_atomic(&self) -> bool {
        self.is_atomic.load(Ordering::Relaxed)
    }

    /// Sets atomic mode. All members call it.
    pub fn set_atomic(&self, comm: Comm<'_>, atomic: bool) -> FileResult {
        let all = comm.meet(None, [atomic.into(), 0, 0, 0])?;
        same(&all, 0, "whether the mode is atomic")?;
        let mut window = lock(&self.lock);
        if atomic && window.is_none() {
            *window = Some(comm.create_window(word_at_first(comm.members().rank()))?);
        }
        self.is_atomic.store(atomic, Ordering::Relaxed);
        Ok(())
    }

    /// Runs an access: in atomic mode while no other conflicts with it.
    pub(super) fn ordered<T>(
        &self,
        comm: Comm<'_>,
        locking: Locking,
        access: impl FnOnce() -> FileResult<T>,
    ) -> FileResult<T> {
        if !self.is_atomic() {
            return access();
        }
        // The window knows the lock as that of this member, whichever thread has it.
        let window = lock(&self.lock);
        let window = window.as_ref().expect("the mode is atomic");
        window.lock(comm, 0, locking)?;
        let result = access();
        window.unlock(comm, 0)?;
        result
    }

    /// Brings what all members have written to the device. All members call it.
    pub fn sync(&self, comm: Comm<'_>) -> FileResult {
        comm.agree(self.sync_ours().map_err(Into::into))
    }

    /// Brings what we have written to the device.
    pub(super) fn sync_ours(&self) -> std::io::Result<()> {
        match self.has_written.swap(false, Ordering::Relaxed) {
            true => match self.file.sync_data() {
                // Devices and pipes have nothing to bring anywhere.
                Err(error) if matches!(error.raw_os_error(), Some(EINVAL | EROFS)) => Ok(()),
                result => result,
            },
            false => Ok(()),
        }
    }
}
