//! Opening, closing and deleting files, and what a program attaches to them.

use std::ffi::c_int;
use std::fs;
use std::path::PathBuf;

use ferrywire_host::ErrorCode;
use ferrywire_mpi::info::Info;
use ferrywire_runtime::{CallName, FileAccess, FileCreation, FileMode, OpenRequest};

use crate::calls::entry::entries;
use crate::convert::constants::{
    MPI_ERR_AMODE, MPI_ERR_COMM, MPI_ERR_SIZE, MPI_FILE_NULL, MPI_MODE_APPEND, MPI_MODE_CREATE,
    MPI_MODE_DELETE_ON_CLOSE, MPI_MODE_EXCL, MPI_MODE_RDONLY, MPI_MODE_RDWR, MPI_MODE_SEQUENTIAL,
    MPI_MODE_UNIQUE_OPEN, MPI_MODE_WRONLY,
};
use crate::convert::failure::{Failure, Result};
use crate::convert::handle;
use crate::convert::pointer::{Out, Text};
use crate::convert::types::{MPI_Comm, MPI_File, MPI_Group, MPI_Info, MPI_Offset};
use crate::objects::comm::{self, Comm};
use crate::objects::file::{self, OpenFile, find};
use crate::objects::{group, info};

entries! {
    fn MPI_File_open(
        comm: MPI_Comm, filename: Text, amode: c_int, info: MPI_Info, fh: Out<MPI_File>,
    ) {
        let named = |failure: Failure| {
            let failure = failure.of(file::owner_of(MPI_FILE_NULL));
            match filename.get() {
                Ok(name) => failure.during(format_args!(" of \"{name}\"")),
                Err(_) => failure,
            }
        };
        fh.put(MPI_FILE_NULL).map_err(named)?;
        fh.put(open(CALL, comm, filename, amode, info).map_err(named)?)
    }

    fn MPI_File_close(fh: Out<MPI_File>) on fh {
        let handle = fh.get()?;
        let object = file::share_of(handle)?;
        object.comm.note_collective(CALL);
        let closed = object.together().close_file(&object.file);
        drop(handle::take::<OpenFile>(handle.0)?);
        fh.put(MPI_FILE_NULL)?;
        closed.map_err(|error| Failure::from(error).of(object))
    }

    fn MPI_File_delete(filename: Text, _info: MPI_Info) {
        let path = filename.path().map_err(|failure| failure.of(file::owner_of(MPI_FILE_NULL)))?;
        fs::remove_file(&path).map_err(|error| {
            let class = file::class_of_system(error.raw_os_error().unwrap_or(0));
            let failure = Failure::new(class, error.to_string());
            let owner = file::owner_of(MPI_FILE_NULL);
            failure.during(format_args!(" of \"{}\"", path.display())).of(owner)
        })
    }

    fn MPI_File_set_size(fh: MPI_File, size: MPI_Offset) on fh {
        let object = find(fh)?;
        let bytes = new_size(object, size).map_err(|failure| object.refuse(failure))?;
        object.comm.note_collective(CALL);
        Ok(object.file.set_size(object.together(), bytes)?)
    }

    fn MPI_File_preallocate(fh: MPI_File, size: MPI_Offset) on fh {
        let object = find(fh)?;
        let bytes = new_size(object, size).map_err(|failure| object.refuse(failure))?;
        object.comm.note_collective(CALL);
        Ok(object.file.preallocate(object.together(), bytes)?)
    }

    fn MPI_File_get_size(fh: MPI_File, size: Out<MPI_Offset>) on fh {
        size.put(find(fh)?.file.size()?.cast_signed())
    }

    fn MPI_File_get_group(fh: MPI_File, group: Out<MPI_Group>) on fh {
        group.put(group::create(find(fh)?.comm.members.group().clone()))
    }

    fn MPI_File_get_amode(fh: MPI_File, amode: Out<c_int>) on fh {
        amode.put(find(fh)?.amode)
    }

    fn MPI_File_set_info(fh: MPI_File, info: MPI_Info) on fh {
        let object = find(fh)?;
        let passed = info::hints(info).map_err(|failure| object.refuse(failure))?;
        set_hints(object, &passed)
    }

    fn MPI_File_get_info(fh: MPI_File, info_used: Out<MPI_Info>) on fh {
        info_used.put(info::create(find(fh)?.info().clone()))
    }

    fn MPI_File_set_atomicity(fh: MPI_File, flag: c_int) on fh {
        let object = find(fh)?;
        object.comm.note_collective(CALL);
        Ok(object.file.set_atomic(object.together(), flag != 0)?)
    }

    fn MPI_File_get_atomicity(fh: MPI_File, flag: Out<c_int>) on fh {
        flag.put(find(fh)?.file.is_atomic().into())
    }

    fn MPI_File_sync(fh: MPI_File) on fh {
        let object = find(fh)?;
        object.comm.note_collective(CALL);
        Ok(object.file.sync(object.together())?)
    }
}

fn open(
    name: CallName,
    handle: MPI_Comm,
    filename: Text,
    amode: c_int,
    hints: MPI_Info,
) -> Result<MPI_File> {
    let old = comm::share_of(handle)?;
    old.note_collective(name);
    let instance = old.members.next_instance();
    if old.members.inter().is_some() {
        let why = format!("{} is an intercommunicator, which cannot open files", old.title());
        return Err(Failure::new(MPI_ERR_COMM, why).coded(ErrorCode::INTERCOMM));
    }
    let created = old.runtime().duplicate(instance)?;
    let own = handle::share(Comm::made(created, old.title(), &old)?);
    let checked = arguments(filename, amode, hints);
    let (path, mode, passed) = checked.map_err(|failure| file::refuse(own.runtime(), failure))?;
    let request = OpenRequest {
        path: &path,
        mode,
        mode_code: amode,
        permissions: permissions(&passed),
        hints: file::hints(&passed),
    };
    let file_name = path.file_name().unwrap_or(path.as_os_str());
    own.runtime().note_name(&format!("file {}", file_name.display()));
    let opened = own.runtime().open_file(&request)?;
    Ok(file::expose(OpenFile::new(opened, own, (path, amode), passed)))
}

fn arguments(filename: Text, amode: c_int, hints: MPI_Info) -> Result<(PathBuf, FileMode, Info)> {
    Ok((filename.path()?, mode_of(amode)?, info::hints(hints)?))
}

/// The access mode.
fn mode_of(amode: c_int) -> Result<FileMode> {
    let has = |bits| amode & bits != 0;
    let known = MPI_MODE_RDONLY
        | MPI_MODE_RDWR
        | MPI_MODE_WRONLY
        | MPI_MODE_CREATE
        | MPI_MODE_EXCL
        | MPI_MODE_DELETE_ON_CLOSE
        | MPI_MODE_UNIQUE_OPEN
        | MPI_MODE_SEQUENTIAL
        | MPI_MODE_APPEND;
    let wrong = |why: &str| Err(Failure::new(MPI_ERR_AMODE, why));
    let access = match (has(MPI_MODE_RDONLY), has(MPI_MODE_WRONLY), has(MPI_MODE_RDWR)) {
        (true, false, false) => FileAccess::Read,
        (false, true, false) => FileAccess::Write,
        (false, false, true) => FileAccess::ReadWrite,
        _ => {
            return wrong("pass exactly one of MPI_MODE_RDONLY, MPI_MODE_WRONLY and MPI_MODE_RDWR");
        }
    };
    if amode & !known != 0 {
        return wrong("the access mode has unknown bits");
    }
    if access == FileAccess::Read && has(MPI_MODE_CREATE | MPI_MODE_EXCL) {
        return wrong("MPI_MODE_RDONLY does not go with MPI_MODE_CREATE or MPI_MODE_EXCL");
    }
    if access == FileAccess::ReadWrite && has(MPI_MODE_SEQUENTIAL) {
        return wrong("MPI_MODE_SEQUENTIAL does not go with MPI_MODE_RDWR");
    }
    let creation = match (has(MPI_MODE_CREATE), has(MPI_MODE_EXCL)) {
        (false, _) => FileCreation::Never,
        (true, false) => FileCreation::IfMissing,
        (true, true) => FileCreation::Exclusive,
    };
    let (append, delete_on_close) = (has(MPI_MODE_APPEND), has(MPI_MODE_DELETE_ON_CLOSE));
    Ok(FileMode { access, creation, append, delete_on_close })
}

/// The permissions of a new file, which a hint of the standard sets as an octal number.
fn permissions(hints: &Info) -> u32 {
    let wanted =
        hints.value("file_perm").and_then(|value| u32::from_str_radix(value.trim(), 8).ok());
    wanted.unwrap_or(0o666)
}

/// Sets hints that the program has passed. All ranks call it.
pub(super) fn set_hints(object: &OpenFile, passed: &Info) -> Result {
    let mut info = object.info().clone();
    for (key, value) in passed.entries() {
        info.set(key, value);
    }
    object.file.set_hints(object.together(), file::hints(&info))?;
    *object.info() = info;
    Ok(())
}

/// The size of a file that may be changed.
fn new_size(object: &OpenFile, size: MPI_Offset) -> Result<u64> {
    object.check_not_sequential()?;
    object.check_writable()?;
    u64::try_from(size).map_err(|_| {
        Failure::new(MPI_ERR_SIZE, format!("invalid size {size}; it must not be negative"))
    })
}
