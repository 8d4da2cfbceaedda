//! Which file is loaded as the engine: never one that another user has put there.
//!
//! This test program runs as users that find a library in the folder of the program, or in a setting, that is not
//! theirs. The library would leave a file behind if it were loaded. The test needs root and a C compiler.
//!
//!     cargo test -p ferrywire-modules --test place -- --nocapture

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use ferrywire_modules::Engine;

const USER: u32 = 61_511;
const STRANGER: u32 = 61_512;

/// A library that reveals that it is loaded.
const HOSTILE: &str = r#"
#include <stdio.h>
__attribute__((constructor)) static void run(void) {
    FILE *mark = fopen(MARK, "w");
    if (mark) fclose(mark);
}
"#;

/// A program with modules, for the test below.
#[test]
#[ignore = "is started by the other test, as another user"]
fn program() {
    if std::env::var_os("PLACE").is_some() {
        let opened = Engine::open(|name| std::env::var(name).ok());
        println!("{}", opened.err().map_or("loaded".into(), |error| error.to_string()));
    }
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("ours");
}

#[test]
fn a_library_of_another_user_is_not_loaded() {
    // SAFETY: has no preconditions.
    if unsafe { libc::geteuid() } != 0 {
        println!("not tested: takes root to play several users");
        return;
    }
    let folder = std::env::temp_dir().join(format!("ferry-place-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let (program, mark) = (folder.join("program"), folder.join("mark"));
    fs::copy(std::env::current_exe().expect("a path"), &program).expect("copied");
    fs::write(folder.join("hostile.c"), HOSTILE).expect("written");
    let library = folder.join(ferrywire_modules::abi::LIBRARY);
    let define = format!("-DMARK=\"{}\"", mark.display());
    let compiled = Command::new("cc")
        .args(["-shared", "-fPIC", &define, "-o"])
        .args([&library, &folder.join("hostile.c")])
        .status();
    if !compiled.is_ok_and(|status| status.success()) {
        println!("not tested: no C compiler");
        return;
    }
    // A folder for all users, like /tmp.
    set_mode(&folder, 0o1777);
    // Whether a program of `mode` that belongs to root loads the library when a user starts it.
    let loads = |mode: u32, by_setting: bool| {
        let _ = fs::remove_file(&mark);
        set_mode(&program, mode);
        let mut command = Command::new(&program);
        command.args(["program", "--exact", "--ignored", "--nocapture", "--test-threads=1"]);
        command.env("PLACE", "1");
        if by_setting {
            command.env("FERRY_MODULE_ENGINE", &library);
        }
        let output = command.uid(USER).gid(USER).output().expect("it starts");
        (mark.exists(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let own = |uid: u32, mode: u32| {
        chown(&library, Some(uid), Some(uid)).expect("ours");
        set_mode(&library, mode);
    };
    for (uid, mode, loaded) in
        [(USER, 0o755, true), (0, 0o755, true), (STRANGER, 0o755, false), (0, 0o757, false)]
    {
        own(uid, mode);
        let (found, said) = loads(0o755, false);
        assert_eq!(found, loaded, "of user {uid}, mode {mode:o}: {said}");
    }
    // A user that may replace the file may as well have made it.
    own(0, 0o755);
    set_mode(&folder, 0o777);
    let (found, said) = loads(0o755, false);
    assert!(!found && said.contains("every user can replace it"), "{said}");
    // A setting is the user's own choice, but not for a program that has more rights than the user.
    set_mode(&folder, 0o1777);
    own(STRANGER, 0o755);
    assert!(loads(0o755, true).0, "the user's own program loads what the user names");
    let (found, said) = loads(0o4755, true);
    assert!(!found, "FERRY_MODULE_ENGINE made root load a file of user {STRANGER}: {said}");
    let _ = fs::remove_dir_all(&folder);
}
