//! Helpers of the tests: the library, and temporary folders.
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

/// Builds the library with the profile of this test. For a test, cargo only builds what Rust can link with, so it is
/// run here.
pub(crate) fn library() -> &'static Path {
    static LIBRARY: LazyLock<PathBuf> =
        LazyLock::new(|| built("ferrywire-abi").join("libmpi_abi.so"));
    &LIBRARY
}

/// Builds the engine of modules, which the library looks for beside itself.
pub(crate) fn engine() {
    built("ferrywire-engine");
}

/// Builds the command.
pub(crate) fn ferry() -> &'static Path {
    static FERRY: LazyLock<PathBuf> = LazyLock::new(|| built("ferrywire-ferry").join("ferry"));
    &FERRY
}

/// Builds a package of ours, and returns the folder of the result. `FERRYWIRE_BUILT` says that all are built already:
/// built alone, a package may have dependencies with other features, and takes minutes.
fn built(package: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a path");
    let folder = test.ancestors().nth(2).expect("two folders above").to_path_buf();
    if std::env::var_os("FERRYWIRE_BUILT").is_some() {
        return folder;
    }
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "-p", package, "--target-dir"]);
    cargo.arg(folder.parent().expect("the folder of all profiles"));
    if folder.ends_with("release") {
        cargo.arg("--release");
    }
    let status = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).status().expect("cargo starts");
    assert!(status.success(), "{package} does not build");
    folder
}

/// Whether tests shall do all that they can, as CI does. Without `FULL` in the environment they leave out what takes long.
pub(crate) fn is_full() -> bool {
    std::env::var_os("FULL").is_some()
}

/// The folder of our header.
pub(crate) fn include() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../include")
}

/// The header of another MPI with the same ABI, where bench/peers/install puts it.
pub(crate) fn other_header() -> Option<PathBuf> {
    let home = PathBuf::from(std::env::var_os("HOME")?);
    let path = home.join(".cache/ferrywire-peers/mpich/include/mpi_abi.h");
    path.exists().then_some(path)
}

/// A temporary folder, removed with the test.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("abi-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder");
        Folder(path)
    }

    pub(crate) fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
