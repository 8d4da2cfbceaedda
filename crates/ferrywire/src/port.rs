//! Ports: how groups of ranks that were started apart find each other.

use std::fmt;
use std::time::Duration;

use ferrywire_host::AskError;
use ferrywire_host::ErrorCode;
use ferrywire_runtime::{CreateError, MeetError, MeetErrorKind};

use crate::comm::{Comm, What};
use crate::error::Error;
use crate::inter_comm::InterComm;

/// Where the ranks of a communicator accept connections of others under the same launcher.
///
/// The others need its name, which they get by whatever way: as an argument, in a file, or by that of a service that
/// one rank [publishes](Port::publish) and others [look up](Comm::look_up). Dropping the port at rank 0 closes it:
/// nobody finds it by the name of a service then, and those who wait there get an error.
///
/// ```no_run
/// use ferrywire::Port;
///
/// let world = ferrywire::init()?;
/// let mut port = Port::open(&world)?;
/// if world.rank() == 0 {
///     port.publish("ocean")?;
/// }
/// let ice = port.accept()?;
/// println!("connected to {} ranks", ice.remote_size());
/// # Ok::<(), ferrywire::Error>(())
/// ```
///
/// The ranks of the other program:
///
/// ```no_run
/// let world = ferrywire::init()?;
/// let name = loop {
///     match world.look_up("ocean")? {
///         Some(name) => break name,
///         None => std::thread::sleep(std::time::Duration::from_millis(10)),
///     }
/// };
/// let ocean = world.connect(&name)?;
/// # Ok::<(), ferrywire::Error>(())
/// ```
pub struct Port {
    comm: Comm,
    name: String,
    /// The services that were published here.
    services: Vec<String>,
}

impl Port {
    /// Opens a port. All ranks must call it, and get the same port.
    pub fn open(comm: &Comm) -> Result<Port, Error> {
        let mut bytes = [0; NAME_BYTES_MAX];
        if comm.rank() == 0 {
            let name = comm.process().open_port().to_string();
            bytes[..name.len()].copy_from_slice(name.as_bytes());
        }
        comm.broadcast(&mut bytes, 0)?;
        let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(NAME_BYTES_MAX);
        let name = String::from_utf8_lossy(&bytes[..end]).into_owned();
        Ok(Port { comm: comm.clone(), name, services: Vec::new() })
    }

    /// The name of the port, for [`connect`](Comm::connect).
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Waits until another group connects. All ranks must call it. Groups that connect meanwhile wait for the next call.
    pub fn accept(&self) -> Result<InterComm, Error> {
        let comm = &self.comm;
        let what = comm.what_all("accept");
        let (instance, wrong) = comm.begin_collective(what);
        if let Some(error) = wrong {
            return Err(error);
        }
        let _waits = comm.enter(what);
        let name = (comm.rank() == 0).then_some(&*self.name);
        let met = comm.runtime().accept(instance, 0, name);
        InterComm::met(comm, what, "connection of", met)
    }

    /// Lets ranks of all programs under the launcher find the port by the name of a service. One rank calls it; it is
    /// an error if the service has a port already. The launcher forgets the service when this rank drops the port.
    pub fn publish(&mut self, service: &str) -> Result<(), Error> {
        let what = self.comm.what_all("publish");
        match self.comm.process().publish(service, &self.name) {
            Ok(true) => {
                self.services.push(service.to_owned());
                Ok(())
            }
            Ok(false) => {
                let why = format!("the service \"{service}\" is published already");
                Err(Error::Port { call: self.comm.call(what), code: ErrorCode::SERVICE, why })
            }
            Err(error) => Err(self.comm.not_asked(what, &error)),
        }
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        // Errors are ignored: without a launcher nobody looks a service up, and a caller that cannot be told is gone.
        let process = self.comm.process();
        for service in &self.services {
            let _ = process.unpublish(service);
        }
        if self.comm.rank() == 0 {
            let _ = process.close_port(&self.name);
        }
    }
}

impl Comm {
    /// Connects to the group that accepts connections at a port: see [`Port`]. All ranks must call it; the name of rank
    /// 0 counts. It is an error if the port is closed, or if nobody accepts the connection within three minutes, or as
    /// many seconds as `FERRY_CONNECT_TIMEOUT` has.
    pub fn connect(&self, port: &str) -> Result<InterComm, Error> {
        self.connect_within(port, None)
    }

    /// Like [`connect`](Comm::connect), with the time that the other group has to accept the connection. That of rank 0
    /// counts.
    pub fn connect_timeout(&self, port: &str, timeout: Duration) -> Result<InterComm, Error> {
        self.connect_within(port, Some(timeout))
    }

    fn connect_within(&self, port: &str, timeout: Option<Duration>) -> Result<InterComm, Error> {
        let what = self.what_all("connect");
        let (instance, wrong) = self.begin_collective(what);
        if let Some(error) = wrong {
            return Err(error);
        }
        let _waits = self.enter(what);
        let port = (self.rank() == 0).then_some(port);
        let met = self.runtime().connect(instance, 0, port, timeout);
        InterComm::met(self, what, "connection of", met)
    }

    /// The name of the port that was published for a service, if one was. The other ranks need not call it.
    pub fn look_up(&self, service: &str) -> Result<Option<String>, Error> {
        let found = self.process().look_up(service);
        found.map_err(|error| self.not_asked(self.what_all("look_up"), &error))
    }

    /// The error for a group that was not connected to another.
    pub(crate) fn not_met(&self, what: What, error: MeetError) -> Error {
        let overlap = matches!(error, MeetError::Create(CreateError::GroupsOverlap));
        match error {
            MeetError::Create(error) if !overlap => self.not_created(what, error),
            MeetError::NotAPort { name } => {
                let why = format!(
                    "\"{name}\" is not the name of a port: pass what Port::name or Comm::look_up returned"
                );
                Error::Port { call: self.call(what), code: ErrorCode::PORT, why }
            }
            error if error.kind() == MeetErrorKind::Spawn => {
                Error::Spawn { call: self.call(what), why: error.to_string() }
            }
            error => {
                let (call, code) = (self.call(what), error.code());
                Error::Port { call, code, why: error.to_string() }
            }
        }
    }

    /// The error for a launcher that could not be asked for a service.
    fn not_asked(&self, what: What, error: &AskError) -> Error {
        let code = ErrorCode::SERVICE;
        Error::Port { call: self.call(what), code, why: error.to_string() }
    }
}

impl fmt::Debug for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "port {} of {:?}", self.name, self.comm)
    }
}

/// More than the name of any port has.
const NAME_BYTES_MAX: usize = 64;
