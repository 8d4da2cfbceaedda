//! Rust programs that start others, connect, and die, under `ferry run`. A rank is this test program itself, started
//! once more as `member`; `WORK` and an argument say what it does.

mod common;
#[path = "../../../examples/spawn.rs"]
#[allow(dead_code, unreachable_pub, reason = "its main is for the example")]
mod example;

use std::path::Path;
use std::process::{Command as Process, Output};
use std::sync::mpsc;
use std::thread;

use common::{Ended, FERRY, Folder, MEMBER, TIMEOUT, finish, me};
use ferrywire::{ANY, Command, Error, InterComm, Operation, Port, World};

/// A rank, for the tests below.
#[test]
#[ignore = "is started by other tests, as a rank"]
fn member() {
    let Ok(work) = std::env::var("WORK") else { return };
    let world = ferrywire::init().expect("a job");
    match (work.as_str(), world.parent()) {
        ("example", None) => {
            let tasks = 10;
            let found = example::pi(&world, workers(3), tasks).unwrap();
            assert_eq!(found.is_some(), world.rank() == 0);
            if let Some(found) = found {
                let hits: u64 = (0..tasks).map(example::throw).sum();
                assert_eq!(found, 4.0 * hits as f64 / (tasks * example::DARTS) as f64);
                println!("\nall tasks are done");
            }
        }
        ("example", Some(master)) => example::work_off(master).unwrap(),
        ("merge", parent) => merge(&world, parent).unwrap(),
        ("families", parent) => families(&world, parent).unwrap(),
        ("no program", None) => no_program(&world),
        ("ports", None) => ports(&world).unwrap(),
        ("abort", parent) => abort(&world, parent),
        ("death", parent) => death(&world, parent).unwrap(),
        (other, _) => panic!("no such work: {other}"),
    }
}

/// Ranks of this test program.
fn workers(ranks: u32) -> &'static Command {
    let mut command = Command::new(me());
    command.args(MEMBER).ranks(ranks);
    Box::leak(Box::new(command))
}

/// Runs a job of this test program.
fn job(work: &str, options: &[&str]) -> Ended {
    let folder = Folder::new(&format!("spawn-{}", work.replace(' ', "-")));
    let mut job = Process::new(FERRY);
    job.arg("run").args(options).arg(me()).args(MEMBER).env("WORK", work);
    finish(job, &folder)
}

fn succeeds(work: &str, options: &[&str]) -> String {
    let ended = job(work, options);
    assert!(ended.status.success(), "{}\n{}", ended.out, ended.err);
    ended.out
}

#[test]
fn workers_of_the_example_do_all_tasks() {
    for ranks in ["1", "2"] {
        let out = succeeds("example", &["-n", ranks]);
        assert!(out.contains("all tasks are done"), "{out}");
    }
}

/// Runs this test program without a launcher; it finds `ferry` in `PATH` when it needs one. That launcher may end, and
/// report, after the program, so the end of their common output is waited for.
fn alone(work: &str) -> Output {
    let ours = Path::new(FERRY).parent().expect("it is in a folder").to_path_buf();
    let theirs = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(std::iter::once(ours).chain(std::env::split_paths(&theirs)));
    let mut process = Process::new(me());
    process.args(MEMBER).env("WORK", work).env("PATH", path.expect("folders"));
    let (told, hears) = mpsc::channel();
    thread::spawn(move || told.send(process.output().expect("it starts")));
    hears.recv_timeout(TIMEOUT).expect("it has not ended")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_program_without_a_launcher_gets_one() {
    let ended = alone("example");
    let (out, err) = (text(&ended.stdout), text(&ended.stderr));
    assert!(ended.status.success() && out.contains("all tasks are done"), "{out}\n{err}");
}

/// It ends when one of its children aborts.
#[test]
fn a_program_without_a_launcher_ends_with_its_children() {
    let ended = alone("abort");
    let err = text(&ended.stderr);
    assert!(!ended.status.success(), "{}", text(&ended.stdout));
    assert!(err.contains("ferry run: rank 2.1 (pid "), "{err}");
}

/// Messages and collectives between two groups, and in one communicator of both.
fn merge(world: &World, parent: Option<&InterComm>) -> Result<(), Error> {
    let spawned = match parent {
        None => Some(workers(3).spawn(world)?),
        Some(_) => None,
    };
    let both = parent.or(spawned.as_ref()).expect("one or the other");
    let is_child = parent.is_some();
    assert_eq!((both.size(), both.rank()), (world.size(), world.rank()));
    assert_eq!(both.remote_size(), if is_child { 2 } else { 3 });
    let named = if is_child { "parents of world" } else { "spawn of world" };
    assert_eq!(both.name(), named);

    for remote in 0..both.remote_size() {
        both.send(&[both.rank(), remote], remote, 5)?;
    }
    for _ in 0..both.remote_size() {
        let (pair, status) = both.receive_vec::<u32>(ANY, 5)?;
        assert_eq!(pair, [status.source, both.rank()]);
    }
    both.barrier()?;
    let mut word = [7u64, 8];
    match is_child {
        false => both.broadcast_to_remote(&[3u64, 4], 1)?,
        true => {
            both.broadcast_from_remote(&mut word, 1)?;
            assert_eq!(word, [3, 4]);
        }
    }
    let error = both.send(&0u8, both.remote_size(), 0).unwrap_err().to_string();
    let last = both.remote_size() - 1;
    let ending = format!("in {named}: invalid rank; ranks go from 0 to {last} [FW0101]");
    assert!(error.ends_with(&ending), "{error}");

    // The children come first.
    let all = both.merge(!is_child)?;
    assert_eq!(all.size(), 5);
    assert_eq!(all.rank(), if is_child { world.rank() } else { 3 + world.rank() });
    let mut sum = all.rank();
    all.allreduce(&mut sum, Operation::Sum)?;
    assert_eq!(sum, 10);
    Ok(())
}

#[test]
fn parents_and_children_become_one_group() {
    succeeds("merge", &["-n", "2"]);
}

/// A child that spawns children, and its parent does once more.
fn families(world: &World, parent: Option<&InterComm>) -> Result<(), Error> {
    let depth = match parent {
        None => 0,
        Some(parent) => {
            let mut depth = [0u32];
            parent.broadcast_from_remote(&mut depth, 0)?;
            depth[0]
        }
    };
    if depth < 2 {
        let mut children = Vec::new();
        for _ in 0..2 {
            let family = workers(1).spawn(world)?;
            family.broadcast_to_remote(&[depth + 1], 0)?;
            children.push(family);
        }
        let grown: u32 = children
            .iter()
            .map(|family| family.receive_one::<u32>(0, 0).map(|got| got.0))
            .sum::<Result<_, _>>()?;
        match parent {
            Some(parent) => parent.send(&(grown + 1), 0, 0)?,
            None => println!("\n{grown} descendants"),
        }
    } else if let Some(parent) = parent {
        parent.send(&1u32, 0, 0)?;
    }
    Ok(())
}

#[test]
fn children_spawn_children() {
    let out = succeeds("families", &["-n", "1"]);
    assert!(out.contains("6 descendants"), "{out}");
}

/// A program that is not there, and one that does not join, are errors at all ranks, after which ranks go on.
fn no_program(world: &World) {
    let at_root = |why: &str| match world.rank() {
        0 => why.to_owned(),
        _ => "spawn: the root rank failed; it has the reason [FW0711]".to_owned(),
    };
    let error = Command::new("/no/such/program").ranks(2).spawn(world).unwrap_err();
    assert!(matches!(error, Error::Spawn { .. }));
    assert!(error.to_string().starts_with(&at_root("spawn: ")), "{error}");
    assert!(world.rank() > 0 || error.to_string().contains("/no/such/program"), "{error}");
    let error = Command::new("true").current_dir("/").spawn(world).unwrap_err();
    let ended = "spawn: a program that was started ended with exit code 0 before it called MPI_Init [FW0711]";
    assert_eq!(error.to_string(), at_root(ended));
    let error = Command::spawn_multiple(&[], world).unwrap_err();
    assert_eq!(error.to_string(), at_root("spawn: there is no program to start [FW0711]"));
    world.barrier().unwrap();
}

#[test]
fn a_program_that_cannot_be_started_is_an_error_at_all_ranks() {
    succeeds("no program", &["-n", "2"]);
}

/// Two programs of one job, which are apart but for the name of a service.
fn ports(world: &World) -> Result<(), Error> {
    let is_server = world.rank() == 0;
    let group = world.split(u32::from(is_server), 0)?.expect("a group");
    let both = if is_server {
        let mut port = Port::open(&group)?;
        assert_eq!(world.look_up("ocean")?, None);
        port.publish("ocean")?;
        let error = port.publish("ocean").unwrap_err().to_string();
        assert_eq!(
            error,
            "publish, in split 1 of world: the service \"ocean\" is published already [FW0714]"
        );
        assert_eq!(world.look_up("ocean")?.as_deref(), Some(port.name()));
        port.accept()?
    } else {
        let name = loop {
            match world.look_up("ocean")? {
                Some(name) => break name,
                None => std::thread::yield_now(),
            }
        };
        group.connect(&name)?
    };
    assert_eq!(both.remote_size(), if is_server { 2 } else { 1 });
    both.barrier()?;
    // The port is closed, and nobody finds it any more.
    assert_eq!(world.look_up("ocean")?, None);
    both.barrier()
}

#[test]
fn programs_find_each_other_by_the_name_of_a_service() {
    succeeds("ports", &["-n", "3"]);
}

/// Rank 1 of the second spawned world aborts the job, and all others do nothing.
fn abort(world: &World, parent: Option<&InterComm>) {
    let mut number = [0u32];
    match parent {
        None => {
            for world_number in 1..=2u32 {
                let children = workers(3).spawn(world).unwrap();
                children.broadcast_to_remote(&[world_number], 0).unwrap();
                children.barrier().unwrap();
            }
        }
        Some(parent) => {
            parent.broadcast_from_remote(&mut number, 0).unwrap();
            parent.barrier().unwrap();
        }
    }
    if number == [2] && world.rank() == 1 {
        world.abort(7, "as the test wants it");
    }
    // The launcher ends it.
    std::thread::sleep(common::TIMEOUT);
}

#[test]
fn reports_name_spawned_ranks_by_their_world() {
    let ended = job("abort", &["-n", "2"]);
    assert_eq!(ended.status.code(), Some(7), "{}", ended.err);
    let lines: Vec<&str> =
        ended.err.lines().filter(|line| line.starts_with("ferry run:")).collect();
    let [first, then] = lines[..] else { panic!("{}", ended.err) };
    let (name, rest) = first.split_once(" (pid ").expect("a pid");
    assert_eq!(name, "ferry run: rank 2.1");
    assert!(
        rest.ends_with(") aborted the job with code 7: as the test wants it [FW0801]"),
        "{first}"
    );
    assert_eq!(then, "ferry run: then ranks 0-1, 1.0-1.2, 2.0, 2.2 died of SIGTERM");
}

/// A child dies, and its parent goes on with the other.
fn death(world: &World, parent: Option<&InterComm>) -> Result<(), Error> {
    if let Some(parent) = parent {
        parent.barrier()?;
        if world.rank() == 1 {
            common::signal(std::process::id(), libc::SIGKILL);
        }
        return parent.send(&world.rank(), 0, 0);
    }
    let children = workers(2).spawn(world)?;
    children.barrier()?;
    let error = children.receive_one::<u32>(1, 0).unwrap_err();
    assert!(matches!(error, Error::RankLost { rank: Some(1), world_rank: None, .. }), "{error}");
    let told = "receive of 4 bytes from rank 1, tag 0, in spawn of world: rank 1 has left the job \
                [FW0701]";
    assert_eq!(error.to_string(), told);
    assert_eq!(children.receive_one::<u32>(0, 0)?.0, 0);
    Ok(())
}

#[test]
fn parents_survive_the_death_of_a_child() {
    let ended = job("death", &["--on-death", "continue", "-n", "1"]);
    assert_eq!(ended.status.code(), Some(3), "{}\n{}", ended.out, ended.err);
    let line = ended.err.lines().find(|line| line.starts_with("ferry run:")).expect("a report");
    assert!(line.starts_with("ferry run: rank 1.1 (pid "), "{line}");
    assert!(line.ends_with(") died of SIGKILL; the job went on without it [FW0803]"), "{line}");
}
