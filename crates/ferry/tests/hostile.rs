//! Jobs in hostile environments: without shared memory, without permission to read the memory of
//! others, without network, with little memory, few files, a full disk.
//!
//! Each test runs a job of a few ranks that exchange short and long messages and check the bytes. If the
//! environment is too hostile, the job ends with a sentence and an exit code, never with SIGBUS and never in a
//! hang. A test that is not possible here, because it takes root, prints a line beginning with "not tested".
//!
//!     cargo test -p ferrywire-ferry --test hostile -- --nocapture

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use common::worker;
use common::{Ended, Folder, MEMBER, become_user, forbid, is_root, limit};

/// A user number that no account has, so that only our processes are counted against its limits.
const SOMEBODY: u32 = 61_234;

/// A rank, for the tests below.
#[test]
#[ignore = "is started by other tests, as a rank"]
fn member() {
    worker::rank();
}

/// A test, with copies of the launcher and the ranks' program that every user can reach.
struct HostileTest {
    folder: Folder,
    ferry: PathBuf,
    rank: PathBuf,
}

impl HostileTest {
    fn new(name: &str) -> HostileTest {
        let folder = Folder::new(name);
        fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o777)).expect("ours");
        let ferry = folder.copy(Path::new(common::FERRY), "ferry");
        let rank = folder.copy(&common::me(), "rank");
        HostileTest { folder, ferry, rank }
    }

    /// A job of `ranks` ranks, whose command line follows the words in `before`.
    fn job(&self, before: &[&str], ranks: u32, options: &[&str]) -> Command {
        let mut words: Vec<String> = before.iter().map(|&word| word.to_owned()).collect();
        words.extend([self.ferry.display().to_string(), "run".into(), "-n".into()]);
        words.push(ranks.to_string());
        words.extend(options.iter().map(|&word| word.to_owned()));
        words.push(self.rank.display().to_string());
        words.extend(MEMBER.map(str::to_owned));
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).env("WORK", "ring").env("RUST_BACKTRACE", "0");
        command
    }

    fn run(&self, command: Command) -> Ended {
        common::finish(command, &self.folder)
    }

    /// Runs the command, which has to succeed without a message.
    fn works(&self, command: Command, ranks: u32) {
        let ended = self.run(command);
        assert_eq!(ended.status.code(), Some(0), "{}{}", ended.out, ended.err);
        assert_eq!(ended.err, "", "a healthy job is silent");
        assert_eq!(ended.out.matches("exchanged 13 rounds").count(), ranks as usize);
    }

    /// Runs the command, which may fail if it says why. Returns whether it succeeded.
    fn works_or_says_why(&self, what: &str, command: Command) -> bool {
        let Ended { status, out, err } = self.run(command);
        let died = status.signal();
        assert!(matches!(died, None | Some(libc::SIGKILL)), "{what}: {status}\n{out}{err}");
        assert!(!err.contains("SIGBUS"), "{what}: {err}");
        assert!(!err.contains("panicked"), "{what}: {err}");
        let lines = || err.lines().filter(|line| !line.is_empty());
        let said = lines().find(|line| line.contains("ferry run: ")).or(lines().next());
        let said = said.unwrap_or("(killed)");
        println!("{what}: {status}, {}", if status.success() { "" } else { said });
        assert!(status.success() || died.is_some() || said != "(killed)", "{what}: no word\n{out}");
        status.success()
    }
}

/// Whether such a test is possible here. If not, prints a line that says so.
fn can(what: &str, command: &[&str]) -> bool {
    let tried = Command::new(command[0]).args(&command[1..]).output();
    let can = tried.is_ok_and(|output| output.status.success());
    if !can {
        println!("not tested: {what}: '{}' is not possible here", command.join(" "));
    }
    can
}

fn needs_root(what: &str) -> bool {
    if !is_root() {
        println!("not tested: {what}: takes root");
    }
    is_root()
}

/// A shell in its own mount namespace, which runs `script` and then executes the command.
fn mounted(script: &str) -> Vec<String> {
    let script = format!("set -e; mount --make-rprivate /; {script}\nexec \"$@\"");
    ["unshare", "-m", "sh", "-c", &script, "sh"].map(str::to_owned).to_vec()
}

fn words(of: &[String]) -> Vec<&str> {
    of.iter().map(String::as_str).collect()
}

#[test]
fn many_ranks_on_few_cores() {
    let test = HostileTest::new("many");
    test.works(test.job(&[], 32, &[]), 32);
}

#[test]
fn without_shared_memory_in_the_file_system() {
    if !can("/dev/shm absent", &["unshare", "-m", "true"]) {
        return;
    }
    let test = HostileTest::new("no-shm");
    let script = "d=$(mktemp -d); mount -t tmpfs none $d; for f in null zero full urandom; do \
                  touch $d/$f; mount --bind /dev/$f $d/$f; done; mount --move $d /dev; rmdir $d; \
                  test ! -e /dev/shm";
    test.works(test.job(&words(&mounted(script)), 3, &[]), 3);
}

#[test]
fn with_a_megabyte_of_shared_memory_in_the_file_system() {
    if !can("/dev/shm of 1 MB", &["unshare", "-m", "true"]) {
        return;
    }
    let test = HostileTest::new("small-shm");
    let script = "mount -t tmpfs -o size=1m none /dev/shm";
    test.works(test.job(&words(&mounted(script)), 4, &[]), 4);
}

#[test]
fn where_nobody_may_read_the_memory_of_others() {
    for error in [libc::EPERM, libc::ENOSYS] {
        let test = HostileTest::new(&format!("seccomp-{error}"));
        let mut job = test.job(&[], 3, &[]);
        // SAFETY: `forbid` makes only system calls.
        unsafe { job.pre_exec(move || forbid(error)) };
        test.works(job, 3);
    }
}

#[test]
fn where_a_rank_does_not_let_itself_be_read() {
    let test = HostileTest::new("undumpable");
    let mut job = test.job(&[], 3, &[]);
    job.env("UNREADABLE", "1");
    if is_root() {
        // Root could still read it.
        // SAFETY: makes only system calls.
        unsafe { job.pre_exec(|| become_user(SOMEBODY)) };
    }
    test.works(job, 3);
}

#[test]
fn in_an_empty_network() {
    let before = ["unshare", "-n"];
    if can("an empty network", &["unshare", "-n", "true"]) {
        let test = HostileTest::new("net");
        test.works(test.job(&before, 3, &[]), 3);
    }
}

#[test]
fn in_its_own_process_numbers() {
    let before = ["unshare", "-pf", "--kill-child", "--mount-proc"];
    if can("own process numbers", &["unshare", "-pf", "--mount-proc", "true"]) {
        let test = HostileTest::new("pid");
        test.works(test.job(&before, 3, &[]), 3);
    }
}

#[test]
fn with_odd_or_no_variables() {
    let test = HostileTest::new("variables");
    let long = test.folder.join(&"x".repeat(200));
    fs::create_dir(&long).expect("a folder");
    for folder in [long.as_path(), Path::new("/no/such/folder"), Path::new("")] {
        let mut job = test.job(&[], 2, &[]);
        job.env("TMPDIR", folder);
        test.works(job, 2);
        assert_eq!(common::names_in(folder), [""; 0], "nothing is made there");
    }
    let mut job = test.job(&[], 2, &[]);
    job.env_remove("HOME");
    test.works(job, 2);
    test.works(test.job(&["/usr/bin/env", "-i", "WORK=ring"], 2, &[]), 2);
}

#[test]
fn as_somebody_without_rights() {
    if needs_root("another user") {
        let test = HostileTest::new("nobody");
        let mut job = test.job(&[], 4, &[]);
        // SAFETY: makes only system calls.
        unsafe { job.pre_exec(|| become_user(SOMEBODY + 1)) };
        test.works(job, 4);
    }
}

#[test]
fn in_a_folder_that_cannot_be_written() {
    if can("a read-only file system", &["unshare", "-m", "true"]) {
        let test = HostileTest::new("read-only");
        let script = "mount -t tmpfs -o ro none /mnt; cd /mnt; ! touch x 2>/dev/null";
        test.works(test.job(&words(&mounted(script)), 2, &[]), 2);
    }
}

#[test]
fn on_a_full_disk_output_is_lost_with_a_word() {
    if !can("a full disk", &["unshare", "-m", "true"]) {
        return;
    }
    let test = HostileTest::new("full");
    let script = "mount -t tmpfs -o size=16k none /mnt; mkdir /mnt/out; \
                  head -c 100000 /dev/zero > /mnt/fill 2>/dev/null || true";
    let job = test.job(&words(&mounted(script)), 2, &["--output", "/mnt/out"]);
    let Ended { status, out, err } = test.run(job);
    println!("full disk: {status}, {}", err.lines().next().unwrap_or_default());
    assert!(!status.success(), "{out}{err}");
    assert!(err.contains("rank ") || err.contains("/mnt/out"), "{err}");
}

#[test]
fn without_standard_streams() {
    let test = HostileTest::new("closed");
    for script in ["exec >&-", "exec 2>&-", "exec <&- >&- 2>&-"] {
        let script = format!("{script}; exec \"$@\"");
        let ended = test.run(test.job(&["sh", "-c", &script, "sh"], 2, &[]));
        assert_eq!(ended.status.code(), Some(0), "{script}: {}", ended.err);
    }
    for program in ["echo x", "yes"] {
        let mut job = Command::new("sh");
        let script = format!("exec \"$0\" run -n 2 {program} >/dev/full");
        job.args(["-c", &script]).arg(&test.ferry);
        let ended = test.run(job);
        assert_eq!(ended.status.code(), Some(1), "{}", ended.err);
        let line = "ferry run: cannot write the output of the ranks: No space left";
        assert!(ended.err.starts_with(line), "{}", ended.err);
    }
}

/// A job under a limit, as a user to whom limits apply.
fn limited(
    test: &HostileTest,
    ranks: u32,
    resource: libc::__rlimit_resource_t,
    value: u64,
) -> Command {
    // A user for each limit: tests run at the same time, and processes are counted per user.
    limited_to(test, SOMEBODY + 2 + resource, ranks, resource, value)
}

fn limited_to(
    test: &HostileTest,
    user: u32,
    ranks: u32,
    resource: libc::__rlimit_resource_t,
    value: u64,
) -> Command {
    let mut job = test.job(&[], ranks, &[]);
    let root = is_root();
    let settle = move || {
        limit(resource, value)?;
        if root { become_user(user) } else { Ok(()) }
    };
    // SAFETY: makes only system calls.
    unsafe { job.pre_exec(settle) };
    job
}

#[test]
fn with_little_address_space() {
    let test = HostileTest::new("address-space");
    test.works(limited(&test, 3, libc::RLIMIT_AS, 1 << 30), 3);
    // With less, the system's loader fails before any of our code runs.
    for megabytes in [12, 16, 24, 32, 64, 128] {
        let job = limited(&test, 4, libc::RLIMIT_AS, megabytes << 20);
        test.works_or_says_why(&format!("{megabytes} MB of address space"), job);
    }
    let job = limited(&test, 32, libc::RLIMIT_AS, 128 << 20);
    test.works_or_says_why("128 MB of address space for each of 32 ranks", job);
}

#[test]
fn with_few_open_files() {
    let test = HostileTest::new("files");
    test.works(limited(&test, 3, libc::RLIMIT_NOFILE, 64), 3);
    for files in [4, 6, 8, 10, 12, 16, 20, 30, 36] {
        let job = limited(&test, 3, libc::RLIMIT_NOFILE, files);
        test.works_or_says_why(&format!("{files} open files"), job);
    }
}

#[test]
fn with_few_processes() {
    if !needs_root("a limit of processes for a user of its own") {
        return;
    }
    let test = HostileTest::new("processes");
    test.works(limited(&test, 3, libc::RLIMIT_NPROC, 64), 3);
    for processes in 1..12 {
        let job = limited(&test, 3, libc::RLIMIT_NPROC, processes);
        test.works_or_says_why(&format!("{processes} processes"), job);
    }
}

#[test]
fn a_limit_of_processes_is_named() {
    if !needs_root("a limit of processes for a user of its own") {
        return;
    }
    let test = HostileTest::new("named-limit");
    for processes in [1, 3] {
        let ended = test.run(limited_to(&test, SOMEBODY + 100, 3, libc::RLIMIT_NPROC, processes));
        assert_eq!(ended.err.matches("ulimit -u").count(), 1, "{}", ended.err);
    }
}

#[test]
fn without_a_null_device() {
    if !can("/dev/null absent", &["unshare", "-m", "true"]) {
        return;
    }
    let test = HostileTest::new("no-null");
    let before = mounted("mount -t tmpfs none /dev");
    let ended = test.run(test.job(&words(&before), 2, &[]));
    let line = "ferry run: cannot open the standard input of rank 1, /dev/null: No such file";
    assert!(ended.err.starts_with(line), "{}", ended.err);
    // With `--stdin all`, no rank needs the null device.
    test.works(test.job(&words(&before), 2, &["--stdin", "all"]), 2);
}

#[test]
fn with_little_memory() {
    let Some(group) = Group::new() else { return };
    let test = HostileTest::new("memory");
    let script = "echo $$ > $0/cgroup.procs; exec \"$@\"";
    let path = group.0.to_str().expect("text").to_owned();
    let before = ["sh", "-c", script, &path];
    group.limit(1 << 30);
    test.works(test.job(&before, 4, &[]), 4);
    for kilobytes in [1000, 2000, 3000, 4000, 6000, 8000, 12_000, 16_000, 24_000] {
        group.limit(kilobytes << 10);
        let job = test.job(&before, 4, &[]);
        test.works_or_says_why(&format!("{kilobytes} KB of memory"), job);
    }
}

/// A control group for memory, of either version.
struct Group(PathBuf);

impl Group {
    fn new() -> Option<Group> {
        let name = format!("ferry-test-{}", std::process::id());
        let roots = ["/sys/fs/cgroup/memory", "/sys/fs/cgroup"];
        for path in roots.map(|root| Path::new(root).join(&name)) {
            if fs::create_dir(&path).is_ok() {
                let group = Group(path);
                if group.file().is_some() {
                    return Some(group);
                }
            }
        }
        println!("not tested: little memory: no control group for memory can be made");
        None
    }

    fn file(&self) -> Option<PathBuf> {
        let files = ["memory.limit_in_bytes", "memory.max"].map(|name| self.0.join(name));
        files.into_iter().find(|file| file.exists())
    }

    fn limit(&self, bytes: u64) {
        // First drop what the last job left in caches.
        let _ = fs::write(self.0.join("memory.force_empty"), "0");
        fs::write(self.file().expect("there"), bytes.to_string()).expect("limited");
        let _ = fs::write(self.0.join("memory.swap.max"), "0");
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}
