//! A set-user-id program loads nothing that its environment names, and joins no job that its environment names.
//!
//! This test program is made set-user-id root and started by another user, with that user's library in place
//! of the launcher's; it would leave a file behind if it were loaded. Needs root and a C compiler.
//!
//!     cargo test -p ferrywire-host --test privileged -- --nocapture

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use ferrywire_host::{Operators, fabric, job};

const STRANGER: u32 = 61_501;

/// A library that leaves a mark when it is loaded.
const HOSTILE: &str = r#"
#include <stdio.h>
#include <stdlib.h>
__attribute__((constructor)) static void run(void) {
    FILE *mark = fopen(MARK, "w");
    if (mark) fclose(mark);
}
"#;

/// The privileged program, for the test below.
#[test]
#[ignore = "is started by the other test, as another user"]
fn program() {
    if std::env::var_os("PRIVILEGED").is_none() {
        return;
    }
    let read = |name: &str| std::env::var(name).ok();
    let joined = job::join(read, Operators::ours(|_, _, _| {}));
    println!("joined: {}", joined.map_or_else(|error| error.to_string(), |_| "alone".into()));
    println!(
        "fabric: {}",
        fabric::look("tcp").map_or_else(|error| error.to_string(), |_| "found".into())
    );
}

#[test]
fn neither_libpmix_nor_libfabric_of_the_environment_is_loaded_nor_a_job_joined() {
    // SAFETY: has no preconditions.
    if unsafe { libc::geteuid() } != 0 {
        println!("not tested: takes root to make a program set-user-id");
        return;
    }
    let folder = std::env::temp_dir().join(format!("ferry-privileged-{}", std::process::id()));
    fs::create_dir_all(folder.join("lib")).expect("a folder");
    let (program, mark) = (folder.join("program"), folder.join("mark"));
    fs::copy(std::env::current_exe().expect("a path"), &program).expect("copied");
    fs::write(folder.join("hostile.c"), HOSTILE).expect("written");
    let library = folder.join("lib/libpmix.so.2");
    let define = format!("-DMARK=\"{}\"", mark.display());
    let compiled = Command::new("cc")
        .args(["-shared", "-fPIC", &define, "-o"])
        .args([&library, &folder.join("hostile.c")])
        .status();
    if !compiled.is_ok_and(|status| status.success()) {
        println!("not tested: no C compiler");
        return;
    }
    let fabric = folder.join("lib/libhostile-fi.so");
    fs::copy(&library, &fabric).expect("copied");
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).expect("ours");
    let run = |mode: u32, variables: &[(&str, PathBuf)]| {
        let _ = fs::remove_file(&mark);
        fs::set_permissions(&program, fs::Permissions::from_mode(mode)).expect("ours");
        let mut command = Command::new(&program);
        command.args(["program", "--exact", "--ignored", "--nocapture", "--test-threads=1"]);
        command.env("PRIVILEGED", "1").env("FI_PROVIDER_PATH", folder.join("lib"));
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        let output = command.uid(STRANGER).gid(STRANGER).output().expect("it starts");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        (said, mark.exists())
    };
    let pmix = ["PMIX_PREFIX", "OPAL_PREFIX", "PRTE_PREFIX"];
    for prefix in pmix {
        let variables =
            [("PMIX_NAMESPACE", "x".into()), ("PMIX_RANK", "0".into()), (prefix, folder.clone())];
        let (said, loaded) = run(0o755, &variables);
        assert!(loaded, "the user's own program loads the library, or this shows nothing: {said}");
        let (said, loaded) = run(0o4755, &variables);
        assert!(!loaded, "{prefix} made root load a file of user {STRANGER}: {said}");
        assert!(said.contains("PMIX_NAMESPACE names a job"), "{said}");
        println!("{prefix}: not loaded");
    }
    for name in ["FERRY_BOOTSTRAP", "PMI_FD", "PMI_PORT"] {
        let (said, _) = run(0o4755, &[(name, "0".into())]);
        assert!(said.contains(&format!("{name} names a job")), "{said}");
    }
    let (said, loaded) = run(0o4755, &[]);
    assert!(
        said.contains("joined: alone")
            && said.contains("fabric: ")
            && !said.contains("fabric: found"),
        "{said}"
    );
    assert!(!loaded, "FI_PROVIDER_PATH made root load a file of user {STRANGER}");
    let _ = fs::remove_dir_all(&folder);
}
