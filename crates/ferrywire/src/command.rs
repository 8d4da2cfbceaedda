//! Starting programs.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use ferrywire_host::bootstrap;

use crate::comm::Comm;
use crate::error::Error;
use crate::inter_comm::InterComm;

/// A program that ranks start while their job runs, with the names of [`std::process::Command`].
///
/// The new ranks are a world of their own, and find those that started them by [`World::parent`](crate::World::parent).
/// They may be of this program or another one, in Rust or any language with MPI. They run under the same launcher, which
/// must be `ferry run` or Ferrywire's `mpiexec`, have the environment of the job's first program and no input. The job
/// ends when the last of all ranks has ended.
///
/// ```no_run
/// use ferrywire::Command;
///
/// let world = ferrywire::init()?;
/// let workers = Command::new("simulate").arg("--fast").ranks(8).spawn(&world)?;
/// if world.rank() == 0 {
///     for worker in 0..workers.remote_size() {
///         workers.send(&[0.5, 1.5], worker, 0)?;
///     }
/// }
/// # Ok::<(), ferrywire::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Command {
    words: Vec<OsString>,
    ranks: u32,
    folder: Option<PathBuf>,
}

impl Command {
    /// One rank of a program, without arguments. The program is looked for as in a shell: a name without a slash in the
    /// folders of `PATH`, another one from the folder in which the program starts.
    pub fn new(program: impl AsRef<OsStr>) -> Command {
        Command { words: vec![program.as_ref().to_owned()], ranks: 1, folder: None }
    }

    /// Adds an argument.
    pub fn arg(&mut self, arg: impl AsRef<OsStr>) -> &mut Command {
        self.words.push(arg.as_ref().to_owned());
        self
    }

    /// Adds arguments.
    pub fn args(&mut self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> &mut Command {
        self.words.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// How many ranks run the program.
    pub fn ranks(&mut self, ranks: u32) -> &mut Command {
        self.ranks = ranks;
        self
    }

    /// The folder in which the program starts; that of rank 0 if it is not set.
    pub fn current_dir(&mut self, folder: impl AsRef<Path>) -> &mut Command {
        self.folder = Some(folder.as_ref().to_owned());
        self
    }

    /// Starts the program, and returns when all its ranks have joined the job. All ranks of `comm` must call it; the
    /// command of rank 0 counts.
    ///
    /// If the program cannot be started, or one of its ranks ends before it has joined, all ranks return an
    /// [`Error::Spawn`], of which that of rank 0 has the reason.
    pub fn spawn(&self, comm: &Comm) -> Result<InterComm, Error> {
        Command::spawn_multiple(std::slice::from_ref(self), comm)
    }

    /// Starts several programs, whose ranks share one world: see [`spawn`](Command::spawn).
    pub fn spawn_multiple(commands: &[Command], comm: &Comm) -> Result<InterComm, Error> {
        let what = comm.what_all("spawn");
        let (instance, wrong) = comm.begin_collective(what);
        if let Some(error) = wrong {
            return Err(error);
        }
        let _waits = comm.enter(what);
        let requests = (comm.rank() == 0).then(|| commands.iter().map(Command::request).collect());
        let met = comm.runtime().spawn(instance, 0, requests);
        InterComm::met(comm, what, "spawn of", met)
    }

    /// The command as the launcher gets it.
    fn request(&self) -> bootstrap::Command {
        // Without a folder, the launcher uses its own.
        let here = || std::env::current_dir().unwrap_or_default();
        let folder = self.folder.clone().unwrap_or_else(here);
        let folder = std::path::absolute(&folder).unwrap_or(folder);
        bootstrap::Command {
            words: self.words.iter().map(|word| word.as_bytes().to_vec()).collect(),
            ranks: self.ranks,
            folder: folder.into_os_string().into_vec(),
            ..bootstrap::Command::default()
        }
    }
}
