//! Processes that come later: spawning, ports, names, and joining through a socket.

use std::ffi::{c_char, c_int};
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use ferrywire_host::ErrorCode;
use ferrywire_host::bootstrap::Command;
use ferrywire_runtime::{self as runtime, Created};

use crate::calls::communicators::comm_create::NewComm;
use crate::calls::entry::entries;
use crate::convert::argument::RootRank;
use crate::convert::constants::{
    MPI_COMM_NULL, MPI_ERR_ARG, MPI_ERR_COMM, MPI_ERR_INFO_VALUE, MPI_ERR_NAME, MPI_ERR_ROOT,
    MPI_ERR_SERVICE, MPI_ERR_SPAWN, MPI_MAX_PORT_NAME, MPI_SUCCESS,
};
use crate::convert::failure::{Failure, Result};
use crate::convert::handle::Shared;
use crate::convert::pointer::{In, Out, Text, TextOut};
use crate::convert::types::{MPI_Comm, MPI_Info};
use crate::objects::comm::{self, Comm};
use crate::objects::info;
use crate::objects::process;

/// A collective call whose arguments only the root knows.
struct Rooted {
    comm: Shared<Comm>,
    instance: u16,
    root: u32,
}

impl Rooted {
    fn new(comm: MPI_Comm, root: RootRank) -> Result<Rooted> {
        let comm = comm::share_of(comm)?;
        let instance = comm.members.next_instance();
        if comm.members.inter().is_some() {
            return Err(Failure::new(MPI_ERR_COMM, "the communicator is an intercommunicator")
                .coded(ErrorCode::INTERCOMM));
        }
        let invalid = || {
            Failure::new(
                MPI_ERR_ROOT,
                format!("invalid root {root}; pass a rank of the communicator"),
            )
        };
        let root = root.below(comm.members.group().size()).ok_or_else(invalid)?;
        Ok(Rooted { comm, instance, root })
    }

    fn is_root(&self) -> bool {
        self.comm.members.rank() == self.root
    }

    /// What only the root reads. If that fails at the root, the others are told by `tell`.
    fn at_root<T>(
        &self,
        read: impl FnOnce() -> Result<T>,
        tell: impl FnOnce(&Rooted),
    ) -> Result<Option<T>> {
        if !self.is_root() {
            return Ok(None);
        }
        read().map(Some).inspect_err(|_| tell(self))
    }

    fn put(&self, created: Created, newcomm: Out<MPI_Comm>, what: &str) -> Result {
        let origin = format!("{what} {}", self.comm.title());
        NewComm(newcomm).put(Comm::made(created, origin, &self.comm)?)
    }
}

/// Starts programs, and writes the error codes of all of them.
fn spawn(
    rooted: &Rooted,
    commands: impl FnOnce() -> Result<Vec<Command>>,
    intercomm: Out<MPI_Comm>,
    errcodes: Out<c_int>,
) -> Result {
    intercomm.put(MPI_COMM_NULL)?;
    // An empty list of programs is what the launcher refuses.
    let nothing = |rooted: &Rooted| {
        let comm = rooted.comm.runtime();
        let _ = comm.spawn(rooted.instance, rooted.root, Some(Vec::new()));
    };
    let commands = rooted.at_root(commands, nothing)?;
    let wanted = commands.iter().flatten().map(|command| command.ranks).sum::<u32>();
    let spawned = rooted.comm.runtime().spawn(rooted.instance, rooted.root, commands);
    let (code, ranks) = match &spawned {
        Ok(created) => (MPI_SUCCESS, created.members.targets().size()),
        Err(_) => (MPI_ERR_SPAWN, wanted),
    };
    (0..ranks as usize).for_each(|rank| errcodes.at(rank).put_if_wanted(code));
    rooted.put(spawned?, intercomm, "what was spawned by")
}

/// A program to start, from the arguments of C.
fn command(
    command: Text,
    argv: In<*const c_char>,
    maxprocs: c_int,
    info: MPI_Info,
) -> Result<Command> {
    let ranks = u32::try_from(maxprocs).ok().filter(|&ranks| ranks > 0).ok_or_else(|| {
        Failure::new(MPI_ERR_ARG, format!("invalid maxprocs {maxprocs}; it must be at least 1"))
    })?;
    let hints = info::hints(info)?;
    let hint = |key: &str| hints.value(key).unwrap_or_default().as_bytes().to_vec();
    let mut words = vec![command.bytes()?.to_vec()];
    words.extend(argv.strings().map(<[u8]>::to_vec));
    let folder = match hints.value("wdir") {
        Some(folder) => folder.as_bytes().to_vec(),
        // Another host may not have it; there the launcher uses its own.
        None => {
            let here = std::env::current_dir().unwrap_or_default();
            here.as_os_str().as_bytes().to_vec()
        }
    };
    Ok(Command { words, ranks, folder, path: hint("path"), host: hint("host") })
}

/// What the root reads to find a port.
fn port_at_root<T>(rooted: &Rooted, read: impl FnOnce() -> Result<T>) -> Result<Option<T>> {
    // A name that is none is an error for all.
    let nowhere = |rooted: &Rooted| {
        let comm = rooted.comm.runtime();
        let _ = comm.connect(rooted.instance, rooted.root, Some(""), None);
    };
    rooted.at_root(read, nowhere)
}

/// How long a connection may take to be accepted, if the info says so.
fn timeout(info: MPI_Info) -> Result<Option<Duration>> {
    let hints = info::hints(info)?;
    let Some(value) = hints.value("timeout") else { return Ok(None) };
    let why = || format!("invalid timeout \"{value}\"; it must be a number of seconds");
    runtime::seconds(value).map(Some).ok_or_else(|| Failure::new(MPI_ERR_INFO_VALUE, why()))
}

fn launcher(error: &ferrywire_host::AskError) -> Failure {
    Failure::new(MPI_ERR_SERVICE, error.to_string())
}

entries! {
    fn MPI_Comm_spawn(
        command: Text, argv: In<*const c_char>, maxprocs: c_int, info: MPI_Info, root: RootRank,
        comm: MPI_Comm, intercomm: Out<MPI_Comm>, array_of_errcodes: Out<c_int>,
    ) on comm {
        let rooted = Rooted::new(comm, root)?;
        let commands = || Ok(vec![super::command(command, argv, maxprocs, info)?]);
        spawn(&rooted, commands, intercomm, array_of_errcodes)
    }

    fn MPI_Comm_spawn_multiple(
        count: c_int, array_of_commands: In<*const c_char>, array_of_argv: In<*const *const c_char>,
        array_of_maxprocs: In<c_int>, array_of_info: In<MPI_Info>, root: RootRank, comm: MPI_Comm,
        intercomm: Out<MPI_Comm>, array_of_errcodes: Out<c_int>,
    ) on comm {
        let rooted = Rooted::new(comm, root)?;
        let commands = || {
            let count = usize::try_from(count).ok().filter(|&count| count > 0).ok_or_else(|| {
                Failure::new(MPI_ERR_ARG, format!("invalid count {count}; it must be at least 1"))
            })?;
            let (ranks, infos) = (array_of_maxprocs.slice(count)?, array_of_info.slice(count)?);
            let programs = array_of_commands.slice(count)?;
            (0..count)
                .map(|at| {
                    let argv = array_of_argv.item(at).map_or(In::null(), In::of);
                    super::command(Text::of(programs[at]), argv, ranks[at], infos[at])
                })
                .collect()
        };
        spawn(&rooted, commands, intercomm, array_of_errcodes)
    }

    fn MPI_Comm_get_parent(parent: Out<MPI_Comm>) {
        parent.put(process::initialized()?.parent())
    }

    fn MPI_Open_port(_info: MPI_Info, port_name: TextOut) {
        let port = process::running()?.runtime.open_port();
        port_name.put(&port.to_string(), MPI_MAX_PORT_NAME as usize).map(|_| ())
    }

    fn MPI_Close_port(port_name: Text) {
        Ok(process::running()?.runtime.close_port(&port_name.get()?)?)
    }

    fn MPI_Comm_accept(
        port_name: Text, _info: MPI_Info, root: RootRank, comm: MPI_Comm, newcomm: Out<MPI_Comm>,
    ) on comm {
        let rooted = Rooted::new(comm, root)?;
        newcomm.put(MPI_COMM_NULL)?;
        let port = port_at_root(&rooted, || port_name.get())?;
        let created = rooted.comm.runtime().accept(rooted.instance, rooted.root, port.as_deref())?;
        rooted.put(created, newcomm, "a connection that was accepted by")
    }

    fn MPI_Comm_connect(
        port_name: Text, info: MPI_Info, root: RootRank, comm: MPI_Comm, newcomm: Out<MPI_Comm>,
    ) on comm {
        let rooted = Rooted::new(comm, root)?;
        newcomm.put(MPI_COMM_NULL)?;
        let (port, timeout) = port_at_root(&rooted, || Ok((port_name.get()?, timeout(info)?)))?.unzip();
        let port = port.as_deref();
        let comm = rooted.comm.runtime();
        let created = comm.connect(rooted.instance, rooted.root, port, timeout.flatten())?;
        rooted.put(created, newcomm, "a connection of")
    }

    fn MPI_Comm_join(fd: c_int, intercomm: Out<MPI_Comm>) {
        let itself = Shared::clone(&process::initialized()?.itself);
        intercomm.put(MPI_COMM_NULL)?;
        if fd < 0 {
            return Err(Failure::new(MPI_ERR_ARG, format!("invalid file descriptor {fd}")));
        }
        // SAFETY: the program vouches for its socket, which stays open during the call.
        let socket = unsafe { BorrowedFd::borrow_raw(fd) };
        let instance = itself.members.next_instance();
        match itself.runtime().join(instance, socket)? {
            None => Ok(()),
            Some(created) => {
                NewComm(intercomm).put(Comm::made(created, "two processes at a socket".into(), &itself)?)
            }
        }
    }

    fn MPI_Publish_name(service_name: Text, _info: MPI_Info, port_name: Text) {
        let (service, port) = (service_name.get()?, port_name.get()?);
        let published = process::running()?.runtime.publish(&service, &port).map_err(|error| launcher(&error))?;
        if published {
            return Ok(());
        }
        Err(Failure::new(MPI_ERR_SERVICE, format!("the service \"{service}\" is published already")))
    }

    fn MPI_Unpublish_name(service_name: Text, _info: MPI_Info, _port_name: Text) {
        let service = service_name.get()?;
        let was = process::running()?.runtime.unpublish(&service).map_err(|error| launcher(&error))?;
        if was {
            return Ok(());
        }
        Err(Failure::new(MPI_ERR_SERVICE, format!("the service \"{service}\" is not published")))
    }

    fn MPI_Lookup_name(service_name: Text, _info: MPI_Info, port_name: TextOut) {
        let service = service_name.get()?;
        let port = process::running()?.runtime.look_up(&service).map_err(|error| launcher(&error))?;
        match port {
            Some(port) => port_name.put(&port, MPI_MAX_PORT_NAME as usize).map(|_| ()),
            None => Err(Failure::new(MPI_ERR_NAME, format!("the service \"{service}\" is not published"))),
        }
    }
}
