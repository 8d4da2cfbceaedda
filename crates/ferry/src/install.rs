//! `ferry install`: copies the command, the library, the headers, manual pages and completions into a folder.
//!
//! Each file is written under a temporary name beside its destination and then renamed, so that a full
//! disk, or a second installation at the same time, leaves only complete files. Links are relative: the
//! folder may be moved.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Command};
use ferrywire_host::ErrorCode;

use crate::command_line::{self, CommandFile, CommandFileContent};
use crate::home::{ENGINE, HEADER, Home, LIBRARY, LIBRARY_TO_LINK, LOADED, NoHome};
use crate::out;

/// The headers. The command contains them, so that both are always of one version.
const HEADERS: [(&str, &str); 4] = [
    ("mpi.h", HEADER),
    ("ferry.h", include_str!("../../../include/ferry.h")),
    ("mpi-ext.h", include_str!("../../../include/mpi-ext.h")),
    ("ferry_module.h", include_str!("../../../include/ferry_module.h")),
];

/// The names of the command besides its own.
const NAMES: &[&str] = &["mpiexec", "mpirun", "mpicc", "mpicxx", "mpic++"];

/// Installs Ferrywire into a folder: bin, lib, include and share.
#[derive(Args)]
pub(crate) struct Install {
    /// The folder, which is created if it does not exist.
    #[arg(long, value_name = "DIR")]
    prefix: PathBuf,
}

/// Why the installation failed.
enum NotInstalled {
    Home(NoHome),
    /// This file belongs to another MPI.
    AnotherMpi(PathBuf),
    Os {
        what: &'static str,
        path: PathBuf,
        error: io::Error,
    },
}

impl fmt::Display for NotInstalled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotInstalled::Home(reason) => write!(f, "{reason}"),
            NotInstalled::AnotherMpi(path) => write!(
                f,
                "another MPI is installed there: {} is not part of Ferrywire; choose another folder",
                path.display()
            ),
            NotInstalled::Os { what, path, error } => {
                write!(f, "cannot {what} {}: {error}", path.display())
            }
        }
    }
}

impl Install {
    /// Installs, and prints what it did.
    pub(crate) fn run(&self, ferry: Command) -> ExitCode {
        match self.install(ferry) {
            Ok(()) => ExitCode::SUCCESS,
            Err(reason) => {
                eprintln!("ferry install: {}", ErrorCode::INSTALLATION.ends(reason));
                ExitCode::FAILURE
            }
        }
    }

    fn install(&self, ferry: Command) -> Result<(), NotInstalled> {
        let home = Home::find().map_err(NotInstalled::Home)?;
        let library = home.library().map_err(NotInstalled::Home)?;
        let prefix = std::path::absolute(&self.prefix).unwrap_or_else(|_| self.prefix.clone());
        let [bin, lib, include] = ["bin", "lib", "include"].map(|folder| prefix.join(folder));
        // A folder with another mpicc has another mpi.h and other libraries as well.
        for name in NAMES {
            let place = bin.join(name);
            let ours = fs::read_link(&place).is_ok_and(|target| target == Path::new("ferry"));
            if place.symlink_metadata().is_ok() && !ours {
                return Err(NotInstalled::AnotherMpi(place));
            }
        }
        let description = lib.join("pkgconfig");
        let loaded = lib.join(LOADED);
        for folder in [&bin, &include, &description, &loaded] {
            fs::create_dir_all(folder).map_err(failure("make the folder", folder))?;
        }
        put(&read(&home.command)?, 0o755, bin.join("ferry"))?;
        for name in NAMES {
            link("ferry", bin.join(name))?;
        }
        put(&read(&library)?, 0o755, lib.join(LIBRARY))?;
        link(LIBRARY, lib.join(LIBRARY_TO_LINK))?;
        link(&format!("../{LIBRARY}"), loaded.join(LIBRARY))?;
        // The engine is optional, since it takes minutes to build.
        if let Some(engine) = home.engine() {
            put(&read(&engine)?, 0o755, lib.join(ENGINE))?;
            // The library looks for the engine in the folder that it was loaded from.
            link(&format!("../{ENGINE}"), loaded.join(ENGINE))?;
        }
        for (name, text) in HEADERS {
            put(text.as_bytes(), 0o644, include.join(name))?;
        }
        put(PKG_CONFIG.as_bytes(), 0o644, description.join("mpi.pc"))?;
        for CommandFile { path, content } in command_line::files(ferry) {
            let place = prefix.join("share").join(path);
            let folder = place.parent().unwrap_or(&prefix);
            fs::create_dir_all(folder).map_err(failure("make the folder", folder))?;
            match content {
                CommandFileContent::Text(text) => put(text.as_bytes(), 0o644, place)?,
                CommandFileContent::Link(target) => link(&target, place)?,
            }
        }
        out::line(format_args!("Ferrywire is in {}", prefix.display()));
        Ok(())
    }
}

/// The file for pkg-config. Its name is just `mpi`: programs ask for MPI, and any library of the standard ABI
/// will do. Its paths are relative to the file, so that the installation can be moved.
const PKG_CONFIG: &str = concat!(
    "prefix=${pcfiledir}/../..\n",
    "includedir=${prefix}/include\n",
    "libdir=${prefix}/lib\n",
    "\n",
    "Name: mpi\n",
    "Description: MPI 5.0 with the standard ABI, by Ferrywire\n",
    "Version: ",
    env!("CARGO_PKG_VERSION"),
    "\n",
    "Cflags: -I${includedir}\n",
    "Libs: -L${libdir} -Wl,--enable-new-dtags,-rpath,${libdir} -lmpi_abi\n",
);

fn read(path: &Path) -> Result<Vec<u8>, NotInstalled> {
    fs::read(path).map_err(failure("read", path))
}

/// Writes a file, unless it is there with the same content.
fn put(bytes: &[u8], mode: u32, place: PathBuf) -> Result<(), NotInstalled> {
    if fs::read(&place).is_ok_and(|there| there == bytes) {
        return told("unchanged", &place);
    }
    replace(&place, |beside| {
        let mut file = File::options().write(true).create_new(true).mode(mode).open(beside)?;
        file.write_all(bytes)?;
        // Some file systems report only now that they are full.
        file.sync_all()
    })
}

/// Makes a link, unless it is there with the same target.
fn link(target: &str, place: PathBuf) -> Result<(), NotInstalled> {
    if fs::read_link(&place).is_ok_and(|there| there == Path::new(target)) {
        return told("unchanged", &place);
    }
    replace(&place, |beside| symlink(target, beside))
}

/// Makes a file beside its destination and renames it, or leaves nothing.
fn replace(place: &Path, make: impl FnOnce(&Path) -> io::Result<()>) -> Result<(), NotInstalled> {
    let name = place.file_name().unwrap_or_default().to_string_lossy();
    let beside = place.with_file_name(format!(".{name}.{}", std::process::id()));
    let made = make(&beside).and_then(|()| fs::rename(&beside, place));
    if made.is_err() {
        let _ = fs::remove_file(&beside);
    }
    made.map_err(failure("write", place))?;
    told("written", place)
}

fn told(what: &str, place: &Path) -> Result<(), NotInstalled> {
    out::line(format_args!("{what:9} {}", place.display()));
    Ok(())
}

fn failure(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> NotInstalled {
    let path = path.to_path_buf();
    move |error| NotInstalled::Os { what, path, error }
}
