//! Ranks in containers: in namespaces of their own, with other user numbers, without permission to read the memory of
//! others, at addresses that are the same in each. Whatever two containers permit each other, 1 MB goes both ways and
//! arrives as it was sent.
//!
//! Every two containers make a job of four ranks, two in each, so that ranks of one container exchange as well as ranks
//! of two. A pid is valid only inside its namespace, and an address only inside its process: a library that trusts
//! either copies from memory that is not the sender's. A container that cannot be made here, because that takes root or
//! another kernel, is reported in a line beginning with "not tested".
//!
//!     cargo test -p ferrywire-ferry --test containers -- --nocapture

mod common;

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use common::{Ended, Folder, MEMBER, become_user, is_full, is_root, worker};

/// A user number that no account has.
const SOMEBODY: u32 = 61_401;

/// A rank, for the tests below.
#[test]
#[ignore = "is started by other tests, as a rank"]
fn member() {
    worker::rank();
}

/// A container for ranks: the command that comes before their program.
struct Container {
    name: &'static str,
    words: Vec<String>,
}

const CONTAINERS: [(&str, &[&str]); 10] = [
    ("the machine", &[]),
    ("fixed addresses", &["setarch", "-R"]),
    ("unreadable", &["env", "UNREADABLE=1"]),
    ("own pids", &["unshare", "-pf", "--kill-child"]),
    ("own pids, fixed addresses", &["setarch", "-R", "unshare", "-pf", "--kill-child"]),
    ("own user", &["unshare", "-U"]),
    ("own root", &["unshare", "-r"]),
    ("other user numbers", &["unshare", "--map-user=1234", "--map-group=1234"]),
    ("own root and pids", &["unshare", "-r", "-pf", "--kill-child"]),
    (
        "all of it",
        &["env", "UNREADABLE=1", "setarch", "-R", "unshare", "-r", "-pf", "--kill-child"],
    ),
];

/// A test, with copies of the launcher and the ranks' program that every user can reach.
struct ContainerTest {
    folder: Folder,
    ferry: PathBuf,
    rank: PathBuf,
    user: Option<u32>,
}

impl ContainerTest {
    fn new(name: &str, user: Option<u32>) -> ContainerTest {
        let folder = Folder::new(name);
        fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o777)).expect("ours");
        let ferry = folder.copy(Path::new(common::FERRY), "ferry");
        let rank = folder.copy(&common::me(), "rank");
        ContainerTest { folder, ferry, rank, user }
    }

    /// A command as the user of this test.
    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        if let Some(user) = self.user {
            // SAFETY: makes only system calls.
            unsafe { command.pre_exec(move || become_user(user)) };
        }
        command
    }

    /// The containers that can be made here.
    fn containers(&self) -> Vec<Container> {
        let mut found = Vec::new();
        for (name, words) in CONTAINERS {
            let tried = words.split_first().map(|(first, rest)| {
                self.command(Path::new(first)).args(rest).arg("true").output()
            });
            if tried.is_none_or(|tried| tried.is_ok_and(|output| output.status.success())) {
                let words = words.iter().map(|&word| word.to_owned()).collect();
                found.push(Container { name, words });
            } else {
                let user = self.user.map_or("this user".into(), |user| format!("user {user}"));
                println!("not tested: {name}: {user} cannot run '{} true'", words.join(" "));
            }
        }
        found
    }

    /// Runs two ranks in each of two containers. Returns whether messages arrived whole, as they do if all ranks may
    /// read each other's memory.
    fn exchange(&self, one: &Container, other: &Container) -> bool {
        let mut job = self.command(&self.ferry);
        job.arg("run").env("WORK", "pairs").env("RUST_BACKTRACE", "0");
        for (at, container) in [one, other].into_iter().enumerate() {
            job.args(if at == 0 { &["-n", "2"][..] } else { &[":", "-n", "2"] });
            job.args(&container.words).arg(&self.rank).args(MEMBER);
        }
        let Ended { status, out, err } = common::finish(job, &self.folder);
        let said = out.lines().filter(|line| line.contains("exchanged with all")).count();
        let names = format!("{} with {}", one.name, other.name);
        assert!(status.success() && said == 4, "{names}: {status}\n{out}{err}");
        let whole = !out.contains("in chunks");
        println!("{names}: {}", if whole { "whole" } else { "in chunks" });
        whole
    }

    /// Runs a job in every two containers; unless the test is full, in each with itself and with the next.
    fn exchange_all(&self, containers: &[Container]) {
        let with = if is_full() { containers.len() } else { 2 };
        for (at, one) in containers.iter().enumerate() {
            for other in containers[at..].iter().take(with) {
                self.exchange(one, other);
            }
        }
    }
}

#[test]
fn ranks_in_any_two_containers_exchange_what_was_sent() {
    let test = ContainerTest::new("containers", None);
    test.exchange_all(&test.containers());
}

#[test]
fn ranks_of_a_user_without_rights_do_too() {
    if !is_root() {
        return println!("not tested: another user: takes root");
    }
    let test = ContainerTest::new("containers-of-a-user", Some(SOMEBODY));
    test.exchange_all(&test.containers());
}

/// The permission to read the memory of another rank may be withdrawn at any moment. Messages that are under way then
/// still arrive.
#[test]
fn ranks_that_become_unreadable_exchange_what_was_sent() {
    let user = is_root().then_some(SOMEBODY + 1);
    let test = ContainerTest::new("unreadable-later", user);
    let machine = || Container { name: "the machine", words: Vec::new() };
    let sets = if is_full() { &["0", "1", "0,1", "0,1,2,3"][..] } else { &["0,1"] };
    for ranks in sets {
        let later = format!("UNREADABLE_LATER={ranks}");
        let words = vec!["env".to_owned(), later.clone()];
        let container = Container { name: "the machine", words };
        println!("{later}");
        assert!(test.exchange(&container, &container), "all could read each other at first");
    }
    assert!(test.exchange(&machine(), &machine()), "this user may read its own ranks");
}

/// Ranks that share a pid namespace have other pids for each other than the launcher outside has for them.
#[test]
fn ranks_in_one_container_read_each_other_and_ranks_in_two_do_not() {
    let Some(shared) = Pids::new() else { return };
    let test = ContainerTest::new("container", None);
    let inside = Container {
        name: "one container",
        words: ["nsenter", "-t", &shared.first.to_string(), "-p"].map(str::to_owned).to_vec(),
    };
    let machine = Container { name: "the machine", words: Vec::new() };
    let apart = Container {
        name: "containers",
        words: ["unshare", "-pf", "--kill-child"].map(str::to_owned).to_vec(),
    };
    assert!(test.exchange(&machine, &machine), "nothing is between them");
    assert!(test.exchange(&inside, &inside), "they see each other");
    // No rank sees the others, so that messages between containers come in chunks.
    assert!(!test.exchange(&apart, &apart), "they have no pid for each other");
    test.exchange(&inside, &machine);
    test.exchange(&inside, &apart);
}

/// A pid namespace, kept open by a process in it.
struct Pids {
    reaper: Child,
    /// The pid of that process, as seen from outside.
    first: u32,
}

impl Pids {
    fn new() -> Option<Pids> {
        let mut command = Command::new("unshare");
        command.args(["-pf", "--kill-child", "sh", "-c", "echo there; exec sleep 1000"]);
        let mut reaper = command.stdout(Stdio::piped()).spawn().expect("unshare starts");
        let mut line = String::new();
        let out = reaper.stdout.take().expect("a pipe");
        BufReader::new(out).read_line(&mut line).expect("a line, or the end");
        let path = format!("/proc/{0}/task/{0}/children", reaper.id());
        let children = fs::read_to_string(path).unwrap_or_default();
        let Some(first) = children.split_whitespace().next().and_then(|pid| pid.parse().ok())
        else {
            println!("not tested: one container for two ranks: takes root");
            let _ = reaper.wait();
            return None;
        };
        Some(Pids { reaper, first })
    }
}

impl Drop for Pids {
    fn drop(&mut self) {
        let _ = self.reaper.kill();
        let _ = self.reaper.wait();
    }
}
