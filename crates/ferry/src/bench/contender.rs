//! The contenders of a comparison: installed peers, the bare machine, and Ferrywire; and how each of them
//! launches a program.
//!
//! The programs of peers are in C. This command contains their sources, and the peer's own compiler compiles
//! them when they are first needed. The programs of the bare machine and of Ferrywire are this command itself.
//! All print figures, one per line.

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use clap::CommandFactory;

use super::figure::{Figure, Unit};
use super::table::Role;

/// A library, or the bare machine, that can be measured.
#[derive(Debug)]
pub(crate) struct Contender {
    pub(crate) name: &'static str,
    pub(crate) role: Role,
    start: ContenderStart,
}

/// One launch: a program, its ranks, and how long it may take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct BenchJob {
    pub(crate) program: &'static str,
    pub(crate) ranks: u32,
    pub(crate) seconds_max: u32,
}

/// How a contender is started.
#[derive(Debug)]
enum ContenderStart {
    /// `ferry bench bare`
    Bare,
    /// `mpiexec -n N <program>`
    Peer { launcher: PathBuf, programs: PathBuf, environment: Vec<Setting> },
    /// `ferry run -n N ferry bench worker <program>`
    Ours,
}

type Setting = (&'static str, &'static str);

impl Contender {
    /// All contenders that can be measured here, in the order of columns, and a sentence for each that
    /// cannot. Without a folder there are no peers.
    pub(crate) fn find(peers: Option<&Path>) -> (Vec<Contender>, Vec<String>) {
        let mut found = Vec::new();
        let mut missing = Vec::new();
        if let Some(folder) = peers {
            for &(name, home, environment) in PEERS {
                match peer(name, &folder.join(home), environment) {
                    Ok(peer) => found.push(peer),
                    Err(cause) => missing.push(format!("{name} is left out: {cause}.")),
                }
            }
        }
        found.push(Contender { name: "bare", role: Role::Bare, start: ContenderStart::Bare });
        // Ferrywire itself, if this build can launch ranks and be their worker.
        if has_command(&["run"]) && has_command(&["bench", "worker"]) {
            found.push(Contender {
                name: "ferrywire",
                role: Role::Ours,
                start: ContenderStart::Ours,
            });
        } else {
            missing.push("ferrywire is left out: this build cannot launch ranks.".to_string());
        }
        (found, missing)
    }

    /// Whether the contender has this program. The bare machine only bounds messages.
    pub(crate) fn runs(&self, program: &str) -> bool {
        !matches!(self.start, ContenderStart::Bare) || program == "pingpong"
    }

    /// Launches once. The error is a sentence for the user.
    pub(crate) fn launch(&self, job: BenchJob, quick: bool) -> Result<Vec<Figure>, String> {
        let BenchJob { program, ranks, seconds_max } = job;
        let mut command = self.command(job)?;
        command.args(quick.then_some("--quick")).stdin(Stdio::null());
        let start = Instant::now();
        let output =
            command.output().map_err(|cause| format!("cannot start timeout(1): {cause}"))?;
        let wall = start.elapsed();
        if output.status.code() == Some(TIMED_OUT) {
            return Err(format!("{program} took longer than {seconds_max} s"));
        }
        if !output.status.success() {
            let complaints = String::from_utf8_lossy(&output.stderr);
            let last = complaints.lines().rfind(|line| !line.trim().is_empty());
            let status = output.status;
            return Err(format!("{program} ended with {status}: {}", last.unwrap_or("no message")));
        }
        let printed = String::from_utf8_lossy(&output.stdout);
        let mut figures: Vec<Figure> = printed.lines().filter_map(Figure::parse).collect();
        if program == "start" {
            let name = format!("start ranks={ranks}");
            let value = wall.as_secs_f64() * 1e3;
            figures.insert(0, Figure { name, unit: Unit::Ms, value });
        }
        if figures.is_empty() {
            return Err(format!("{program} printed no figure"));
        }
        Ok(figures)
    }

    fn command(&self, job: BenchJob) -> Result<Command, String> {
        let ferry = std::env::current_exe()
            .map_err(|cause| format!("cannot find the path of this program: {cause}"))?;
        // timeout(1) ends the whole process group, not only the launcher.
        let mut command = Command::new("timeout");
        command.args(["-k", "2", &job.seconds_max.to_string()]);
        let ranks = job.ranks.to_string();
        match &self.start {
            ContenderStart::Bare => command.arg(ferry).args(["bench", "bare"]),
            ContenderStart::Peer { launcher, programs, environment } => {
                let program = programs.join(job.program);
                command.arg(launcher).args(["-n", &ranks]).arg(program);
                command.envs(environment.iter().copied())
            }
            ContenderStart::Ours => {
                command.arg(&ferry).args(["run", "-n", &ranks]);
                command.arg(&ferry).args(["bench", "worker", job.program])
            }
        };
        Ok(command)
    }
}

/// The name of each peer, its folder, and the settings that it needs.
const PEERS: &[(&str, &str, &[&[Setting]])] = &[
    ("mpich", "mpich", &[]),
    ("openmpi", "openmpi", &[OPEN_MPI]),
    ("openmpi_ucx", "openmpi", &[OPEN_MPI, OVER_UCX]),
];

/// Open MPI refuses to run as root, or more ranks than cores, without these.
const OPEN_MPI: &[Setting] = &[
    ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
    ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
    ("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe"),
];

/// Open MPI uses UCX for shared memory only with these.
const OVER_UCX: &[Setting] = &[
    ("OMPI_MCA_pml", "ucx"),
    ("OMPI_MCA_osc", "ucx"),
    ("OMPI_MCA_pml_ucx_tls", "any"),
    ("OMPI_MCA_pml_ucx_devices", "any"),
    ("UCX_TLS", "posix,cma,self"),
    ("UCX_NET_DEVICES", "lo"),
    ("UCX_WARN_UNUSED_ENV_VARS", "n"),
];

fn peer(name: &'static str, home: &Path, settings: &[&[Setting]]) -> Result<Contender, String> {
    let [compiler, launcher] = ["mpicc", "mpiexec"].map(|program| home.join("bin").join(program));
    if !compiler.exists() {
        let place = compiler.display();
        return Err(format!("{place} does not exist (bench/peers/install installs it)"));
    }
    let programs = compile(&compiler)?;
    let environment = settings.concat();
    Ok(Contender {
        name,
        role: Role::Peer,
        start: ContenderStart::Peer { launcher, programs, environment },
    })
}

/// The folder with the programs as compiled by this compiler. Its name is a hash of what they depend on, so a
/// folder that exists is up to date.
fn compile(compiler: &Path) -> Result<PathBuf, String> {
    let folder = cache()?.join(format!("{:016x}", key(compiler)));
    if folder.exists() {
        return Ok(folder);
    }
    // Compiled beside and renamed at the end: another process finds all programs or none.
    let beside = folder.with_extension(std::process::id().to_string());
    let made = compile_into(compiler, &beside)
        .and_then(|()| fs::rename(&beside, &folder).map_err(|cause| said(&folder, &cause)));
    if made.is_err() {
        // If it cannot be removed, it does no harm.
        let _ = fs::remove_dir_all(&beside);
        // Another process may have been faster.
        return if folder.exists() { Ok(folder) } else { made.map(|()| folder) };
    }
    Ok(folder)
}

fn compile_into(compiler: &Path, folder: &Path) -> Result<(), String> {
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        fs::write(&path, text).map_err(|cause| said(&path, &cause)).map(|()| path)
    };
    fs::create_dir_all(folder).map_err(|cause| said(folder, &cause))?;
    write("peer.h", HEADER)?;
    for (program, text) in PROGRAMS {
        let source = write(&format!("{program}.c"), text)?;
        let output = Command::new(compiler)
            .args(FLAGS)
            .arg(source)
            .arg("-o")
            .arg(folder.join(program))
            .output()
            .map_err(|cause| said(compiler, &cause))?;
        if !output.status.success() {
            let complaints = String::from_utf8_lossy(&output.stderr);
            let first = complaints.lines().next().unwrap_or("no message");
            return Err(format!("{program}.c does not compile: {first}"));
        }
    }
    Ok(())
}

/// A hash of what the compiled programs depend on. A compiler that was replaced has another modification time.
fn key(compiler: &Path) -> u64 {
    let mut hasher = DefaultHasher::new();
    (HEADER, PROGRAMS, FLAGS, compiler).hash(&mut hasher);
    let changed = fs::metadata(compiler).and_then(|metadata| metadata.modified());
    changed.ok().hash(&mut hasher);
    hasher.finish()
}

fn cache() -> Result<PathBuf, String> {
    Ok(home()?.join(".cache/ferrywire/bench"))
}

/// Where `bench/peers/install` puts peers.
pub(crate) fn default_folder() -> Result<PathBuf, String> {
    Ok(home()?.join(".cache/ferrywire-peers"))
}

fn home() -> Result<PathBuf, String> {
    std::env::var_os("HOME").map(PathBuf::from).ok_or("HOME is not set".to_string())
}

fn said(path: &Path, cause: &std::io::Error) -> String {
    format!("{}: {cause}", path.display())
}

fn has_command(path: &[&str]) -> bool {
    let root = crate::Ferry::command();
    path.iter().try_fold(&root, |command, name| command.find_subcommand(name)).is_some()
}

/// The source of a program.
#[cfg(test)]
pub(crate) fn source(program: &str) -> &'static str {
    PROGRAMS.iter().find(|(name, _)| *name == program).expect("a program").1
}

const HEADER: &str = include_str!("../../../../bench/peers/peer.h");
const PROGRAMS: [(&str, &str); 6] = [
    ("pingpong", include_str!("../../../../bench/peers/pingpong.c")),
    ("queue", include_str!("../../../../bench/peers/queue.c")),
    ("skew", include_str!("../../../../bench/peers/skew.c")),
    ("wait", include_str!("../../../../bench/peers/wait.c")),
    ("oversubscribed", include_str!("../../../../bench/peers/oversubscribed.c")),
    ("start", include_str!("../../../../bench/peers/start.c")),
];
const FLAGS: [&str; 2] = ["-O2", "-std=gnu11"];
/// The exit code of timeout(1) after a time-out.
const TIMED_OUT: i32 = 124;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_missing_is_named_and_the_others_go_on() {
        let (found, missing) = Contender::find(Some(Path::new("/nowhere")));
        assert_eq!(found.iter().filter(|contender| contender.role == Role::Peer).count(), 0);
        assert!(found.iter().any(|contender| contender.name == "bare"));
        for (name, ..) in PEERS {
            assert!(missing.iter().any(|sentence| sentence.starts_with(&format!("{name} is"))));
        }
    }

    const JOB: BenchJob = BenchJob { program: "pingpong", ranks: 2, seconds_max: 10 };

    fn launched_by(launcher: &str) -> Result<Vec<Figure>, String> {
        let launcher = PathBuf::from(launcher);
        let programs = PathBuf::from("/nowhere");
        let start = ContenderStart::Peer { launcher, programs, environment: Vec::new() };
        Contender { name: "odd", role: Role::Peer, start }.launch(JOB, true)
    }

    #[test]
    fn a_launch_that_fails_is_a_sentence() {
        let cause = launched_by("/nowhere/mpiexec").expect_err("there is nothing to launch");
        assert!(cause.starts_with("pingpong ended with exit status: 127: "), "{cause}");
        assert_eq!(launched_by("echo"), Err("pingpong printed no figure".to_string()));
    }

    #[test]
    fn ours_is_launched_by_ourselves() {
        let ours = Contender { name: "ferrywire", role: Role::Ours, start: ContenderStart::Ours };
        let command = ours.command(JOB).expect("a command");
        let ferry = std::env::current_exe().expect("own path");
        let ferry = ferry.to_str().expect("a path in plain letters");
        let worker = ["run", "-n", "2", ferry, "bench", "worker", "pingpong"];
        let words = ["-k", "2", "10", ferry].into_iter().chain(worker);
        assert!(command.get_args().eq(words), "{command:?}");
    }

    #[test]
    fn the_command_knows_what_it_can_do() {
        assert!(has_command(&["bench", "match"]));
        assert!(!has_command(&["bench", "nothing"]));
    }
}
