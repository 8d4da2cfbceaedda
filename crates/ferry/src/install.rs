//! `ferry install`: puts the command, the library and the header where a user wants them.
//!
//! Each file is written under a name of its own beside its place and then renamed, so that a disk that
//! fills up, or a second installation at the same time, leaves whole files only. Links are relative:
//! the folder may be moved.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use crate::home::{ENGINE, HEADER, Home, LIBRARY, LIBRARY_TO_LINK, LOADED, NoHome};
use crate::out;

/// The headers go with the command, so that they are always of one version.
const HEADERS: [(&str, &str); 4] = [
    ("mpi.h", HEADER),
    ("ferry.h", include_str!("../../../include/ferry.h")),
    ("mpi-ext.h", include_str!("../../../include/mpi-ext.h")),
    ("ferry_module.h", include_str!("../../../include/ferry_module.h")),
];

/// The names of the command besides its own.
const NAMES: &[&str] = &["mpiexec", "mpirun", "mpicc", "mpicxx", "mpic++"];

/// Puts Ferrywire into a folder: bin, lib and include.
#[derive(Args)]
pub(crate) struct Install {
    /// The folder. It is made if it is not there.
    #[arg(long, value_name = "DIR")]
    prefix: PathBuf,
}

/// Why it is not installed.
enum NotInstalled {
    Home(NoHome),
    /// Something of this name is there, and is not ours.
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
                "another MPI is installed there: {} is not ours; choose another folder",
                path.display()
            ),
            NotInstalled::Os { what, path, error } => {
                write!(f, "cannot {what} {}: {error}", path.display())
            }
        }
    }
}

impl Install {
    /// Installs, and says what it did.
    pub(crate) fn run(&self) -> ExitCode {
        match self.install() {
            Ok(()) => ExitCode::SUCCESS,
            Err(reason) => {
                eprintln!("ferry install: {reason}");
                ExitCode::FAILURE
            }
        }
    }

    fn install(&self) -> Result<(), NotInstalled> {
        let home = Home::find().map_err(NotInstalled::Home)?;
        let library = home.library().map_err(NotInstalled::Home)?;
        let prefix = std::path::absolute(&self.prefix).unwrap_or_else(|_| self.prefix.clone());
        let [bin, lib, include] = ["bin", "lib", "include"].map(|folder| prefix.join(folder));
        // Who has another mpicc has another mpi.h and other libraries as well.
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
        // It takes minutes to build, and is not always there.
        if let Some(engine) = home.engine() {
            put(&read(&engine)?, 0o755, lib.join(ENGINE))?;
            // The library looks for it where it was loaded from.
            link(&format!("../{ENGINE}"), loaded.join(ENGINE))?;
        }
        for (name, text) in HEADERS {
            put(text.as_bytes(), 0o644, include.join(name))?;
        }
        put(PKG_CONFIG.as_bytes(), 0o644, description.join("mpi.pc"))?;
        out::line(format_args!("Ferrywire is in {}", prefix.display()));
        Ok(())
    }
}

/// For pkg-config. It bears the plain name, since what it leads to is not peculiar to us: any library of
/// the standard ABI would do, and programs ask for MPI. It tells its own place, to be moved with the rest.
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

/// Puts a file in its place, unless the same is there.
fn put(bytes: &[u8], mode: u32, place: PathBuf) -> Result<(), NotInstalled> {
    if fs::read(&place).is_ok_and(|there| there == bytes) {
        return told("as it was", &place);
    }
    replace(&place, |beside| {
        let mut file = File::options().write(true).create_new(true).mode(mode).open(beside)?;
        file.write_all(bytes)?;
        // Some file systems tell only now that they are full.
        file.sync_all()
    })
}

/// Puts a link in its place, unless the same is there.
fn link(target: &str, place: PathBuf) -> Result<(), NotInstalled> {
    if fs::read_link(&place).is_ok_and(|there| there == Path::new(target)) {
        return told("as it was", &place);
    }
    replace(&place, |beside| symlink(target, beside))
}

/// Makes something beside its place and moves it there, or leaves nothing.
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
