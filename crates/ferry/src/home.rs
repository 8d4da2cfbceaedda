//! Where this Ferrywire is installed: the folders of its library and its headers, found from the path of
//! the running command.

use std::fmt;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// The file name by which the loader looks for the library. The standard fixes it.
pub(crate) const LIBRARY: &str = "libmpi_abi.so.1";

/// The file name by which the linker looks for the library, and under which cargo builds it.
pub(crate) const LIBRARY_TO_LINK: &str = "libmpi_abi.so";

/// The subfolder of `lib` with nothing but links to the library and the engine.
pub(crate) const LOADED: &str = "ferrywire";

/// The file name of the engine that runs modules.
pub(crate) const ENGINE: &str = ferrywire_modules::abi::LIBRARY;

/// The header that goes with this command.
pub(crate) const HEADER: &str = include_str!("../../../include/mpi.h");

/// The sources that this command was built from. Only a command that is not installed looks there.
const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The paths of an installation, or of a build in cargo's target folder.
#[derive(Debug)]
pub(crate) struct Home {
    /// The command itself.
    pub(crate) command: PathBuf,
    /// The folder of mpi.h.
    pub(crate) include: PathBuf,
    /// The folder of the library.
    pub(crate) lib: PathBuf,
    /// Whether it is installed. If not, it is where cargo built it.
    installed: bool,
}

/// Why the installation is not found or not complete.
pub(crate) enum NoHome {
    /// The path of this command is unknown.
    Lost(io::Error),
    /// A file of the installation is missing.
    Incomplete(PathBuf),
    /// Another MPI has replaced a file of ours.
    Overwritten(PathBuf),
    /// Cargo has not built the library.
    NoLibrary(PathBuf),
    /// The link with the name that the loader looks for cannot be made.
    NoLink(PathBuf, io::Error),
}

impl fmt::Display for NoHome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoHome::Lost(error) => write!(f, "cannot find the path of this command: {error}"),
            NoHome::Incomplete(file) => write!(
                f,
                "cannot find {}, which belongs to this command: install Ferrywire again",
                file.display()
            ),
            NoHome::Overwritten(file) => write!(
                f,
                "{} does not belong to this command: another MPI was installed over it; install Ferrywire again, in a \
                 folder without another MPI",
                file.display()
            ),
            NoHome::NoLibrary(folder) => write!(
                f,
                "cannot find {LIBRARY_TO_LINK} in {}: build it first with cargo build --release",
                folder.display()
            ),
            NoHome::NoLink(link, error) => {
                write!(f, "cannot make the link {}: {error}", link.display())
            }
        }
    }
}

impl Home {
    /// Finds the installation of the running command.
    pub(crate) fn find() -> Result<Home, NoHome> {
        let command = std::env::current_exe().and_then(|path| path.canonicalize());
        Home::of(command.map_err(NoHome::Lost)?)
    }

    /// The installation of the command at this path.
    fn of(command: PathBuf) -> Result<Home, NoHome> {
        let folder = command.parent().unwrap_or(Path::new("/")).to_path_buf();
        let prefix = folder.parent().unwrap_or(Path::new("/"));
        let (include, lib) = (prefix.join("include"), prefix.join("lib"));
        // Cargo never builds in a folder of this name.
        if folder.ends_with("bin") {
            let header = include.join("mpi.h");
            if !header.exists() {
                return Err(NoHome::Incomplete(header));
            }
            return Ok(Home { command, include, lib, installed: true });
        }
        let sources = Path::new(SOURCES);
        let sources = sources.canonicalize().unwrap_or_else(|_| sources.to_path_buf());
        Ok(Home { command, include: sources.join("include"), lib: folder, installed: false })
    }

    /// Checks that mpi.h is the one of this command. Wheels of other MPIs overwrite it silently, and a program compiled
    /// with theirs would crash.
    pub(crate) fn check_header(&self) -> Result<(), NoHome> {
        let header = self.include.join("mpi.h");
        match std::fs::read(&header) {
            Ok(text) if self.installed && text != HEADER.as_bytes() => {
                Err(NoHome::Overwritten(header))
            }
            _ => Ok(()),
        }
    }

    /// The path of the engine, if it has been built.
    pub(crate) fn engine(&self) -> Option<PathBuf> {
        Some(self.lib.join(ENGINE)).filter(|engine| engine.exists())
    }

    /// The folder in which the loader finds our library and no other: the same prefix may hold libraries of others.
    pub(crate) fn lib_to_load(&self) -> Option<PathBuf> {
        let lib = if self.installed { self.lib.join(LOADED) } else { self.lib.clone() };
        lib.join(LIBRARY).exists().then_some(lib)
    }

    /// The path of the library.
    pub(crate) fn library(&self) -> Result<PathBuf, NoHome> {
        let name = if self.installed { LIBRARY } else { LIBRARY_TO_LINK };
        let library = self.lib.join(name);
        match (library.exists(), self.installed) {
            (true, _) => Ok(library),
            (false, true) => Err(NoHome::Incomplete(library)),
            (false, false) => Err(NoHome::NoLibrary(self.lib.clone())),
        }
    }

    /// Makes the library loadable by programs that are linked with it now: cargo builds the file under one
    /// name, and the loader looks for another.
    pub(crate) fn prepare_to_link(&self) -> Result<(), NoHome> {
        self.library()?;
        let link = self.lib.join(LIBRARY);
        match symlink(LIBRARY_TO_LINK, &link) {
            Err(error) if !link.exists() => Err(NoHome::NoLink(link, error)),
            _ => Ok(()),
        }
    }
}
