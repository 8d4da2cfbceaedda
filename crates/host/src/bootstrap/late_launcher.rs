//! A launcher of ours for a job that was started without one: the first rank that asks for something starts it, and the
//! others find it through the segment.
//!
//! It is `ferry adopt`, which admits ranks as the join socket of a host does, and then is like any launcher of ours, but
//! that the ranks of the beginning are not its children. It ends after the last of those that have asked and of those
//! that it has started.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::join_socket::{Caller, JoinAddress, JoinSocket, os};
use super::socket::{self, WaitMode};
use super::wire::Hello;
use super::{BootstrapError, LauncherChannel, RankSocket};
use crate::job;
use crate::shm::{Process, Segment};

/// The command of `ferry` that adopts a job.
pub const COMMAND: &str = "adopt";

/// Connects `rank` to the launcher, which is started if no rank has done so.
pub(crate) fn connect(segment: &Segment, rank: u32) -> Result<LauncherChannel, BootstrapError> {
    let mut failure = None;
    let address = segment.launcher_address(|| {
        start(segment).map_err(|error| failure = Some(error)).ok().map(|it| it.to_bytes())
    });
    match (failure, address.as_deref().and_then(JoinAddress::from_bytes)) {
        (Some(error), _) => Err(error),
        (None, None) => Err(BootstrapError::LauncherGone),
        (None, Some(address)) => {
            LauncherChannel::of_rank(&address, rank, Hello::of(job::this_process()))
        }
    }
}

/// Starts the launcher, and returns the address at which it admits ranks.
fn start(segment: &Segment) -> Result<JoinAddress, BootstrapError> {
    let what = "start a launcher, which this needs: `ferry adopt`";
    let JoinSocket { listener, address } = JoinSocket::open()?;
    let (ours, theirs) = socket::pair().map_err(os(what))?;
    let mut command = Command::new(program());
    let mut child = command.arg(COMMAND).stdin(Stdio::from(theirs)).spawn().map_err(os(what))?;
    drop(command);
    let files = [segment.file().as_fd(), listener.as_fd()];
    socket::send(ours.as_fd(), &address.to_bytes(), &files, WaitMode::Wait).map_err(os(what))?;
    // It starts itself again and ends, so that the program has no child that it does not know. If the program waits for
    // all its children meanwhile, this one is gone already.
    match child.wait() {
        Ok(status) if !status.success() => {
            let why = format!("it ended with {status}");
            Err(BootstrapError::Os { what, error: io::Error::other(why) })
        }
        _ => Ok(address),
    }
}

/// The launcher that was installed with this library; else the one in `PATH`.
fn program() -> PathBuf {
    let beside = |library: &Path| {
        let folder = library.parent()?;
        let candidates = [folder.join("../bin/ferry"), folder.join("ferry")];
        candidates.into_iter().find(|candidate| candidate.is_file())
    };
    own_path().and_then(|library| beside(&library)).unwrap_or_else(|| "ferry".into())
}

/// The file that holds this code: our library, or a program that it is part of.
fn own_path() -> Option<PathBuf> {
    let mut found = libc::Dl_info {
        dli_fname: std::ptr::null(),
        dli_fbase: std::ptr::null_mut(),
        dli_sname: std::ptr::null(),
        dli_saddr: std::ptr::null_mut(),
    };
    // SAFETY: any address may be asked for, and there is room for the answer.
    let is_found = unsafe { libc::dladdr(own_path as fn() -> _ as *const _, &raw mut found) } != 0;
    if !is_found || found.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the loader returned a string, which lives as long as the file is loaded.
    let name = unsafe { std::ffi::CStr::from_ptr(found.dli_fname) };
    Path::new(OsStr::from_bytes(name.to_bytes())).canonicalize().ok()
}

/// The launcher's side: the job that it adopts.
pub struct AdoptedJob {
    join_socket: JoinSocket,
    callers: VecDeque<Caller>,
}

impl AdoptedJob {
    /// Takes over the job that a rank hands over at this socket, with its memory.
    pub fn take(socket: BorrowedFd<'_>) -> io::Result<(Segment, AdoptedJob)> {
        let parcel = socket::receive(socket, WaitMode::Wait)?;
        let address = JoinAddress::from_bytes(&parcel.bytes).ok_or(io::ErrorKind::InvalidData)?;
        let descriptors: [OwnedFd; 2] =
            parcel.descriptors.try_into().map_err(|_| io::ErrorKind::InvalidData)?;
        let [segment, listener] = descriptors;
        let join_socket = JoinSocket { listener, address };
        let adopted = AdoptedJob { join_socket, callers: VecDeque::new() };
        Ok((Segment::open(segment)?, adopted))
    }

    /// The ranks that have come since the last call. `is_expected` says whether one may still come.
    pub fn poll(
        &mut self,
        is_expected: impl Fn(u32) -> bool,
    ) -> io::Result<Vec<(u32, Process, RankSocket)>> {
        let joined = self.join_socket.poll(&mut self.callers, is_expected)?;
        Ok(joined.into_iter().map(RankSocket::of_joined).collect())
    }

    /// What to wait for: a rank that calls, or one that has called and not said who it is.
    pub fn watched(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.join_socket.watched(&self.callers)
    }
}
