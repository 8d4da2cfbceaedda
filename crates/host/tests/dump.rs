//! No core dump of a rank contains the job's secret.
//!
//! A real mpiexec of MPICH starts a rank on each of two hosts, which are both this machine, so that they
//! communicate by sealed datagrams. It prints what ranks put into its kvs, so the test knows the secret. The
//! test takes a dump of each rank with gcore and searches it for the secret: as bytes, and as the digits in
//! the kvs. A string that each rank keeps on purpose shows that the search works. Needs MPICH
//! (`bench/peers/install`) and gdb.
//!
//!     cargo test -p ferrywire-host --test dump -- --nocapture

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use ferrywire_host::{Operators, job};

const TIMEOUT: Duration = Duration::from_secs(120);
const PAUSE: Duration = Duration::from_millis(5);

/// Reaches a host, in place of ssh: options, the host, and words for a shell.
const RSH: &str =
    "#!/bin/sh\nwhile [ \"${1#-}\" != \"$1\" ]; do shift; done\nshift\nexec sh -c \"$*\"\n";

/// A string in a rank's memory that must be found.
const KEPT: &str = "this is in the dump of rank 0";

/// A rank, for the test below.
#[test]
#[ignore = "is started by the other test, as a rank"]
fn member() {
    let Ok(folder) = std::env::var("DUMP").map(PathBuf::from) else { return };
    let rank = job::join(|name| std::env::var(name).ok(), Operators::ours(|_, _, _| {}));
    let rank = rank.unwrap_or_else(|error| panic!("cannot join: {error}"));
    let kept: String = KEPT.chars().rev().collect::<String>().chars().rev().collect();
    let joined = folder.join(format!("joined-{}", rank.driver().me().0));
    fs::write(joined, std::process::id().to_string()).expect("written");
    wait_until(|| folder.join("over").exists());
    assert_eq!(kept, KEPT);
    rank.leave();
}

fn wait_until(happened: impl Fn() -> bool) {
    let until = Instant::now() + TIMEOUT;
    while !happened() {
        assert!(Instant::now() < until, "it did not happen in {TIMEOUT:?}");
        thread::sleep(PAUSE);
    }
}

/// A launcher that does not outlive its test.
struct Launcher(Child);

impl Drop for Launcher {
    fn drop(&mut self) {
        // Fails if it has already ended, as it should have.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn holds(dump: &[u8], wanted: &[u8]) -> bool {
    // SAFETY: both have the given lengths.
    let found = unsafe {
        libc::memmem(dump.as_ptr().cast(), dump.len(), wanted.as_ptr().cast(), wanted.len())
    };
    !found.is_null()
}

/// The dump of a process, or why it failed.
fn dump(pid: &str, folder: &Path) -> Result<Vec<u8>, String> {
    let place = folder.join("core");
    let mut gcore = Command::new("gcore");
    gcore.arg("-o").arg(&place).arg(pid).stdin(Stdio::null());
    let output = gcore.output().map_err(|error| error.to_string())?;
    let file = folder.join(format!("core.{pid}"));
    fs::read(file).map_err(|_| String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn the_secret_of_a_job_is_in_no_dump() {
    let home = std::env::var("HOME").unwrap_or_default();
    let peers = std::env::var("MPICH_BIN")
        .map_or(Path::new(&home).join(".cache/ferrywire-peers/mpich/bin"), PathBuf::from);
    let mpiexec = peers.join("mpiexec");
    if !mpiexec.exists() || Command::new("gcore").arg("-h").output().is_err() {
        println!("not tested: takes {} (bench/peers/install) and gcore (gdb)", mpiexec.display());
        return;
    }
    let folder = std::env::temp_dir().join(format!("ferry-dump-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let (rsh, said) = (folder.join("rsh"), folder.join("said"));
    fs::write(&rsh, RSH).expect("written");
    fs::set_permissions(&rsh, fs::Permissions::from_mode(0o755)).expect("ours");
    let mut command = Command::new(mpiexec);
    command.args(["-verbose", "-launcher", "ssh", "-launcher-exec"]).arg(&rsh);
    command.args(["-hosts", "localhost,127.0.0.1", "-ppn", "1", "-n", "2"]);
    command.arg(std::env::current_exe().expect("a path"));
    command.args(["member", "--exact", "--ignored", "--nocapture", "--test-threads=1"]);
    let file = fs::File::create(&said).expect("a file");
    command.env("DUMP", &folder).stdin(Stdio::null());
    command.stdout(file.try_clone().expect("a copy")).stderr(file);
    let mut launcher = Launcher(command.spawn().expect("mpiexec starts"));
    let joined = |rank: u32| fs::read_to_string(folder.join(format!("joined-{rank}"))).ok();
    let pids: Vec<String> = (0..2)
        .map(|rank| {
            wait_until(|| joined(rank).is_some_and(|pid| !pid.is_empty()));
            joined(rank).expect("there")
        })
        .collect();
    let text = String::from_utf8_lossy(&fs::read(&said).expect("a file")).into_owned();
    // A number, a dash, and two digits for each of the 32 bytes.
    let digits = text.split("ferry-job value=").nth(1).and_then(|word| {
        let digits = word.split_once('-')?.1.get(..64)?;
        digits.bytes().all(|digit| digit.is_ascii_hexdigit()).then(|| digits.to_owned())
    });
    let digits = digits.unwrap_or_else(|| panic!("mpiexec does not show the kvs: {text}"));
    let byte = |at: usize| u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).expect("digits");
    let secret: Vec<u8> = (0..32).map(byte).collect();
    let dumps: Vec<_> = pids.iter().map(|pid| dump(pid, &folder)).collect();
    fs::write(folder.join("over"), "").expect("written");
    wait_until(|| fs::read_dir(format!("/proc/{}", pids[0])).is_err());
    let _ = launcher.0.wait();
    let _ = fs::remove_dir_all(&folder);
    for (rank, dump) in dumps.into_iter().enumerate() {
        let dump = match dump {
            Ok(dump) => dump,
            Err(why) => {
                println!("not tested: gcore makes no dump here: {why}");
                return;
            }
        };
        assert!(holds(&dump, KEPT.as_bytes()), "the dump of rank {rank} is not of its memory");
        // Finding half of it would be bad enough.
        let found =
            [&secret[..16], &secret[16..], &digits.as_bytes()[..32], &digits.as_bytes()[32..]]
                .map(|half| holds(&dump, half));
        println!("rank {rank}: {} bytes of memory, secret found: {found:?}", dump.len());
        assert_eq!(found, [false; 4], "rank {rank}: bytes, bytes, digits, digits");
    }
}
