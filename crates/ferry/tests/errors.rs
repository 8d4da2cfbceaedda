//! The texts of errors of the command, compared with `errors.txt`, which is a session in a shell: each line that begins
//! with `$` is run, and what follows is what it prints to the standard error. After changing a text, read it as a user
//! would, and write the file anew: `BLESS=1 cargo test -p ferrywire-ferry --test errors`.
//!
//! A rank is this test program itself, started once more as `member` by the script `rank`.

mod common;

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;

use common::{FERRY, Folder, MEMBER, finish, me};
use ferrywire::{Operation, Port, World};

/// What a user types. The folder has the programs `rank` and `ssh-...`, a file that is no program, and a folder.
const LINES: &[&str] = &[
    // Options and programs.
    "ferry run --timout 2 ./rank",
    "ferry run --nosuchthing ./rank",
    "ferry run -n",
    "ferry run -n two ./rank",
    "ferry run",
    "ferry run -n 1 ./rank :",
    "ferry run -n 1 ./nothing",
    "ferry run -n 1 nothing-in-path",
    "ferry run -n 1 text",
    "ferry run -n 1 ./text",
    "ferry run -n 1 ./folder",
    "ferry run -n 1 ./no-interpreter",
    "ferry run -n 1 --wdir ./nothing true",
    "ferry run -n 2 --stdin 5 true",
    "ferry run -n 2 --gdb=7 true",
    "ferry run -n 2 --gdb --rank-command 'valgrind %s' true",
    "ferry run -n 2 --output ./text/file true",
    "ulimit -n 20; ferry run -n 200 true",
    // Hosts. None is reached.
    "ferry run --hostfile ./nothing true",
    "ferry run --hostfile ./text true",
    "ferry run --hosts nosuch --rsh /no/ssh true",
    "ferry run --hosts nosuch --rsh ./ssh-refuses true",
    "ferry run --hosts nosuch --rsh ./ssh-without-ferry true",
    "ferry run --hosts nosuch --rsh ./ssh-talks true",
    "ferry run --hosts nosuch --rsh ./ssh-old true",
    // Ranks that end.
    "ferry run -n 1 sh -c 'exit 3'",
    "ferry run -n 1 sh -c 'kill -SEGV $$'",
    "ferry run -n 2 --timeout 0.5 sleep 60",
    "ferry run -n 1 true : -n 1 ./rank barrier",
    "ferry run -n 3 ./rank exit",
    "ferry run -n 3 ./rank abort",
    "ferry run -n 3 ./rank error",
    "ferry run -n 3 --on-death continue ./rank kill",
    "ferry run -n 1 sh -c 'trap \"\" TERM; while :; do kill -TERM $PPID; sleep 0.1; done'",
    "ferry run -n 3 --on-death continue ./rank revoke",
    "FERRY_CONNECT_TIMEOUT=soon ferry run -n 1 ./rank connect",
    "FERRY_CONNECT_TIMEOUT=0.2 ferry run -n 1 ./rank connect",
    "FERRY_BOOTSTRAP=7 ./rank barrier",
    "FERRY_BOOTSTRAP=seven ./rank barrier",
    "PMI_FD=99 PMI_RANK=0 PMI_SIZE=2 ./rank barrier",
    "./rank under-no-launcher",
    "./rank under-a-strange-launcher",
    "FERRY_MODULE_ENGINE=./text ./rank module",
    // Ranks that wait for ever.
    "ferry run -n 2 ./rank tag",
    "ferry run -n 3 ./rank circle",
    "ferry run -n 2 ./rank missing",
    "ferry run -n 2 ./rank gone",
    "ferry run -n 3 ./rank disagree",
    // Other commands.
    "ferry why 1",
    "ferry man nothing",
    "ferry info ./text",
    "ferry info ./no-interpreter",
    "ferry explain FW0140",
    "ferry explain window",
    "ferry explain nothing-like-it",
];

/// A rank, for the test below.
#[test]
#[ignore = "is started by other tests, as a rank"]
fn member() {
    let Ok(work) = std::env::var("WORK") else { return };
    match work.as_str() {
        "under-no-launcher" => return launch(None),
        "under-a-strange-launcher" => return launch(Some("good morning")),
        _ => {}
    }
    let world = match ferrywire::init() {
        Ok(world) => world,
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(1);
        }
    };
    let (rank, size) = (i32::try_from(world.rank()).unwrap(), i32::try_from(world.size()).unwrap());
    let done = match work.as_str() {
        "barrier" => world.barrier(),
        "exit" if rank == 1 => std::process::exit(0),
        "abort" if rank == 1 => world.abort(4, "the input has no lines"),
        "error" if rank == 1 => {
            let error = world.send(&1u8, 7, 0).expect_err("there is no such rank");
            world.abort(6, error)
        }
        "kill" if rank == 1 => std::process::abort(),
        "kill" => Ok(()),
        "tag" => tag(&world),
        "circle" => world.receive_one::<u8>((rank + size - 1) % size, 4).map(drop),
        "gone" if rank == 0 => world.receive_one::<u8>(1, 5).map(drop),
        "gone" => Ok(()),
        "revoke" => revoke(&world),
        "connect" => connect(&world),
        "module" => module(&world),
        "missing" if rank == 1 => Ok(()),
        "disagree" => {
            // Which rank fails depends on who comes first, and the line does not.
            let _ = match rank {
                2 => world.allreduce(&mut 1u64, Operation::Sum),
                _ => world.barrier(),
            };
            Ok(())
        }
        _ => world.barrier(),
    };
    if done.is_err() {
        // The launcher says why.
        drop(world);
        std::process::exit(1);
    }
}

/// Rank 0 prints what a call in a revoked communicator says.
fn revoke(world: &World) -> Result<(), ferrywire::Error> {
    world.revoke()?;
    match world.barrier() {
        Err(error) if world.rank() == 0 => eprintln!("{error}"),
        _ => {}
    }
    Ok(())
}

/// Connects at a port where nobody accepts.
fn connect(world: &World) -> Result<(), ferrywire::Error> {
    let port = Port::open(world)?;
    if let Err(error) = world.connect(port.name()) {
        eprintln!("{error}");
    }
    Ok(())
}

/// Loads a module, which takes the engine.
fn module(world: &World) -> Result<(), ferrywire::Error> {
    if let Err(error) = world.load_module("any", b"") {
        eprintln!("{error}");
    }
    Ok(())
}

/// Starts a rank as the launcher does, and says this to it; or hangs up before it asks.
fn launch(said: Option<&str>) {
    let mut ends = [0; 2];
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    // SAFETY: the kernel fills the array.
    let made = unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) };
    assert_eq!(made, 0, "a pair of sockets");
    // SAFETY: both descriptors are new, and nobody else has them.
    let [ours, theirs] = ends.map(|end| unsafe { OwnedFd::from_raw_fd(end) });
    let launcher = said.map(|text| {
        let mut ours = fs::File::from(ours);
        ours.write_all(text.as_bytes()).expect("sent");
        ours
    });
    let mut rank = Command::new(me());
    rank.args(MEMBER).env("WORK", "barrier").env("FERRY_BOOTSTRAP", "0").stdin(theirs);
    assert!(!rank.status().expect("a rank").success());
    drop(launcher);
}

/// Rank 0 waits for a message with another tag.
fn tag(world: &World) -> Result<(), ferrywire::Error> {
    if world.rank() == 0 {
        world.receive_one::<u8>(1, 8)?;
    } else {
        world.send(&1u8, 0, 7)?;
    }
    world.barrier()
}

#[test]
fn texts_are_those_of_the_list() {
    let folder = Folder::new("errors");
    prepare(&folder);
    let mut said = String::new();
    for line in LINES {
        let path = std::env::var("PATH").unwrap_or_default();
        let mut shell = Command::new("sh");
        shell.args(["-c", line]).current_dir(&folder.0).env("NO_COLOR", "1");
        shell.env("PATH", format!("{}:{path}", folder.join("bin").display()));
        let ended = finish(shell, &folder);
        let _ = writeln!(said, "$ {line}");
        for text in ended.err.lines().filter(|line| !line.starts_with("ferry run: then ")) {
            let _ = writeln!(said, "{}", same_everywhere(text, &folder.0));
        }
        said.push('\n');
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/errors.txt");
    if std::env::var_os("BLESS").is_some() {
        fs::write(&path, &said).expect("written");
    }
    let expected = fs::read_to_string(&path).expect("a list of texts");
    for (said, expected) in said.split("\n\n").zip(expected.split("\n\n")) {
        assert_eq!(said, expected);
    }
    assert_eq!(said.len(), expected.len());
}

/// Texts that name what this machine has: the rest of them.
#[test]
fn texts_that_name_the_machine_say_the_same_elsewhere() {
    let folder = Folder::new("errors-machine");
    prepare(&folder);
    let hosts = "run --rsh ./ssh-here --hosts east,west -n 2";
    // Whichever host is first.
    for (options, says, ends) in [
        ("--iface nosuch", "no address that other hosts can use (--iface nosuch)", "[FW1009]"),
        ("--rail fabric:nosuch", "--rail fabric:nosuch: ", "[FW1010]"),
    ] {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("'{FERRY}' {hosts} {options} true")]).current_dir(&folder.0);
        shell.env("NO_COLOR", "1");
        let said = finish(shell, &folder).err;
        let first = said.lines().next().unwrap_or_default();
        assert!(first.contains(says) && first.ends_with(ends), "{options}: {said}");
    }
}

/// Makes the files that the lines name.
fn prepare(folder: &Folder) {
    let words = MEMBER.join(" ");
    let rank = format!("#!/bin/sh\nWORK=$1 exec '{}' {words} >/dev/null\n", me().display());
    for (name, text) in [
        ("rank", rank.as_str()),
        ("ssh-refuses", "#!/bin/sh\necho no route to host >&2\nexit 255\n"),
        ("ssh-without-ferry", "#!/bin/sh\necho not found >&2\nexit 127\n"),
        ("ssh-talks", "#!/bin/sh\necho good morning\n"),
        // The first frame of a daemon, and its length.
        (
            "ssh-old",
            "#!/bin/sh\nprintf 'w\\026\\0\\0\\0{\"Here\":{\"version\":1}}'; cat >/dev/null\n",
        ),
        ("ssh-here", "#!/bin/sh\nshift; exec \"$@\"\n"),
        ("no-interpreter", "#!/no/such/interpreter\n"),
    ] {
        let path = folder.join(name);
        fs::write(&path, text).expect("written");
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("made executable");
    }
    fs::write(folder.join("text"), "two words\n").expect("written");
    fs::create_dir(folder.join("folder")).expect("made");
    fs::create_dir(folder.join("bin")).expect("made");
    symlink(FERRY, folder.join("bin/ferry")).expect("linked");
}

/// A line with what differs from run to run replaced: numbers of processes, paths, and the library path.
fn same_everywhere(line: &str, folder: &Path) -> String {
    let mut line = line.replace(&folder.display().to_string(), "FOLDER").replace(FERRY, "FERRY");
    if let Ok(path) = std::env::var("PATH") {
        line = line.replace(&path, "PATH");
    }
    let mut same = String::new();
    let mut rest = line.as_str();
    while let Some(at) = rest.find("pid ") {
        let (before, after) = rest.split_at(at + "pid ".len());
        same += before;
        let end = after.find(|next: char| !next.is_ascii_digit()).unwrap_or(after.len());
        same += if end > 0 { "N" } else { "" };
        rest = &after[end..];
    }
    same + rest
}
