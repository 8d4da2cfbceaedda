//! Finds a program as a shell does, and reports what was tried if there is none.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use ferrywire_host::ErrorCode;

/// The search path if `PATH` is not set.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Why a program cannot be started.
#[derive(Debug, Eq, PartialEq)]
pub(super) enum NoProgram {
    NotThere { tried: PathBuf },
    NotInPath { name: OsString, path: OsString, here: bool },
    NotExecutable { tried: PathBuf },
    Folder { tried: PathBuf },
}

impl NoProgram {
    /// The exit code of a shell for the same error.
    pub(super) fn exit_code(&self) -> u8 {
        match self {
            NoProgram::NotThere { .. } | NoProgram::NotInPath { .. } => 127,
            NoProgram::NotExecutable { .. } | NoProgram::Folder { .. } => 126,
        }
    }
}

impl NoProgram {
    pub(super) fn code(&self) -> ErrorCode {
        match self {
            NoProgram::NotThere { .. } | NoProgram::NotInPath { .. } => {
                ErrorCode::PROGRAM_NOT_FOUND
            }
            NoProgram::NotExecutable { .. } | NoProgram::Folder { .. } => {
                ErrorCode::PROGRAM_NOT_EXECUTABLE
            }
        }
    }
}

impl fmt::Display for NoProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoProgram::NotThere { tried } => {
                write!(f, "cannot find the program {}", tried.display())
            }
            NoProgram::NotInPath { name, here: true, .. } => write!(
                f,
                "cannot find the program {0} in PATH, but it is in this folder: write ./{0}",
                name.display()
            ),
            NoProgram::NotInPath { name, path, .. } => {
                write!(f, "cannot find the program {} in PATH ({})", name.display(), path.display())
            }
            NoProgram::NotExecutable { tried } => write!(
                f,
                "cannot run {0}: it is not executable; if it should be, run chmod +x {0}",
                tried.display()
            ),
            NoProgram::Folder { tried } => {
                write!(f, "cannot run {}: it is a folder", tried.display())
            }
        }
    }
}

/// The path of the program `name`, started in `folder`, with the search path `path`.
pub(super) fn find(
    name: &OsStr,
    folder: &Path,
    path: Option<&OsStr>,
) -> Result<PathBuf, NoProgram> {
    if name.as_encoded_bytes().contains(&b'/') {
        let tried = folder.join(name);
        return check(&tried).map(|()| tried);
    }
    let path = path.unwrap_or(OsStr::new(DEFAULT_PATH));
    let mut unfit = None;
    for place in std::env::split_paths(path) {
        // Empty and relative entries are resolved against the folder.
        let tried = folder.join(place).join(name);
        match check(&tried) {
            Ok(()) => return Ok(tried),
            Err(NoProgram::NotThere { .. }) => {}
            Err(other) => unfit = unfit.or(Some(other)),
        }
    }
    let here = check(&folder.join(name)).is_ok();
    Err(unfit.unwrap_or(NoProgram::NotInPath { name: name.into(), path: path.into(), here }))
}

fn check(tried: &Path) -> Result<(), NoProgram> {
    let tried = tried.to_path_buf();
    let Ok(facts) = fs::metadata(&tried) else { return Err(NoProgram::NotThere { tried }) };
    if facts.is_dir() {
        return Err(NoProgram::Folder { tried });
    }
    // Whether this user may execute it, the kernel decides at the start.
    let executable = facts.permissions().mode() & 0o111 != 0;
    if executable { Ok(()) } else { Err(NoProgram::NotExecutable { tried }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(name: &str, path: Option<&str>) -> Result<PathBuf, NoProgram> {
        find(OsStr::new(name), Path::new("/"), path.map(OsStr::new))
    }

    #[test]
    fn a_name_is_looked_up_and_a_path_is_not() {
        assert_eq!(found("sh", Some("/nowhere:/bin")), Ok(PathBuf::from("/bin/sh")));
        assert_eq!(found("bin/sh", None), Ok(PathBuf::from("/bin/sh")));
        assert!(found("sh", None).is_ok());
    }

    #[test]
    fn what_is_missing_is_named_with_a_shells_code() {
        let missing = found("/no/such", None).expect_err("missing");
        assert_eq!((missing.exit_code(), missing.to_string().contains("/no/such")), (127, true));
        let missing = found("nosuch", Some("/bin")).expect_err("missing");
        assert_eq!((missing.exit_code(), missing.to_string().contains("(/bin)")), (127, true));
        assert_eq!(found("/etc/passwd", None).expect_err("text").exit_code(), 126);
        assert_eq!(found("/etc", None).expect_err("folder").exit_code(), 126);
    }

    #[test]
    fn a_program_in_this_folder_is_suggested() {
        let near = find(OsStr::new("sh"), Path::new("/bin"), Some(OsStr::new("/nowhere")));
        assert!(near.expect_err("not in path").to_string().ends_with("write ./sh"));
    }
}
