//! Intercommunicators: two groups of ranks that exchange messages with each other.
//!
//! An intercommunicator has the parts of a communicator, whose messages go to the remote group. It is a type of its
//! own because most collectives mean something else between two groups.
//!
//! Invariants, cited below by number.
//!   I1. A blocking call borrows its buffers until it returns, as in `collective.rs`.

use std::fmt;

use ferrywire_host::memory;
use ferrywire_mpi::collective::inter;
use ferrywire_runtime::{Created, MeetError, Rank, Root, Source, Tag};

use crate::collective;
use crate::comm::{Comm, Probed, Status, What};
use crate::error::Error;
use crate::plain::{self, Buffer, Plain};
use crate::request::{OwnedBuffer, ReceiveRequest, SendRequest};
use crate::scope::Scope;

/// Two groups of ranks that exchange messages with each other: parents and the programs that they spawned, or two
/// programs that have connected.
///
/// The group of the caller is the *local* group, the other one the *remote* group. A message goes from a rank of one to
/// a rank of the other, and a rank in a call is one of the remote group. [`merge`](InterComm::merge) makes one
/// communicator of both.
///
/// ```
/// use ferrywire::Port;
///
/// ferrywire::local(5, |world| {
///     // Two servers and three clients.
///     let is_server = world.rank() < 2;
///     let group = world.split(u32::from(is_server), 0).unwrap().unwrap();
///     let port = is_server.then(|| Port::open(&group).unwrap());
///     let name = port.as_ref().map_or_else(String::new, |port| port.name().to_owned());
///     let name = world.broadcast_value(name, 0).unwrap();
///     let both = match &port {
///         Some(port) => port.accept().unwrap(),
///         None => group.connect(&name).unwrap(),
///     };
///     assert_eq!(both.remote_size(), if is_server { 3 } else { 2 });
///
///     // Each client asks the first server.
///     if is_server && both.rank() == 0 {
///         for client in 0..both.remote_size() {
///             let (question, _) = both.receive_one::<u32>(client, 0).unwrap();
///             both.send(&(question * 2), client, 0).unwrap();
///         }
///     } else if !is_server {
///         both.send(&both.rank(), 0, 0).unwrap();
///         assert_eq!(both.receive_one::<u32>(0, 0).unwrap().0, both.rank() * 2);
///     }
/// });
/// ```
///
/// A clone is another handle to the same intercommunicator. Dropping it is local, and does not wait for the other
/// group.
#[derive(Clone)]
pub struct InterComm {
    comm: Comm,
}

impl InterComm {
    /// Wraps an intercommunicator whose local group is that of `comm`.
    pub(crate) fn met(
        comm: &Comm,
        what: What,
        name: &str,
        met: Result<Created, MeetError>,
    ) -> Result<InterComm, Error> {
        let created = met.map_err(|error| comm.not_met(what, error))?;
        Ok(InterComm { comm: comm.made(format!("{name} {}", comm.name()), created) })
    }

    /// The rank of the caller in the local group.
    pub fn rank(&self) -> u32 {
        self.comm.rank()
    }

    /// The number of ranks in the local group.
    pub fn size(&self) -> u32 {
        self.comm.size()
    }

    /// The number of ranks in the remote group.
    pub fn remote_size(&self) -> u32 {
        self.comm.members().targets().size()
    }

    /// The name of the intercommunicator in errors.
    pub fn name(&self) -> &str {
        self.comm.name()
    }

    /// Creates one communicator of both groups. All ranks of both must call it. If one group passes `true` and the other
    /// `false`, the ranks of the one with `true` come last; if both pass the same, the order is any. All ranks of a
    /// group must pass the same.
    pub fn merge(&self, high: bool) -> Result<Comm, Error> {
        let what = self.comm.what_all("merge");
        let (instance, wrong) = self.comm.begin_collective(what);
        if let Some(error) = wrong {
            return Err(error);
        }
        let _waits = self.comm.enter(what);
        let created = self.comm.runtime().merge(instance, high);
        let created = created.map_err(|error| self.comm.not_created(what, error))?;
        Ok(self.comm.made(format!("merge of {}", self.name()), created))
    }

    /// Waits until all ranks of both groups have called it.
    pub fn barrier(&self) -> Result<(), Error> {
        self.comm.barrier()
    }

    /// Copies the data of `root`, a rank of this group, to all ranks of the remote group, which call
    /// [`broadcast_from_remote`](InterComm::broadcast_from_remote). All ranks of this group must call it; what others
    /// than the root pass is ignored.
    pub fn broadcast_to_remote<B: Buffer + ?Sized>(
        &self,
        data: &B,
        root: impl Into<Rank>,
    ) -> Result<(), Error> {
        let root = root.into();
        let bytes = memory::lend(plain::bytes(data.items()));
        let what = collective::what::<B::Item>("broadcast_to_remote", bytes, root);
        let size = self.size();
        if !(0..i64::from(size)).contains(&root.0) {
            let error = Error::NoSuchRank { call: self.comm.call(what), size };
            return Err(self.comm.refused(error));
        }
        let is_root = i64::from(self.rank()) == root.0;
        let root = Root::Between(if is_root { inter::Root::Us } else { inter::Root::Ours });
        let prepared = self.comm.runtime().broadcast(root, bytes);
        // SAFETY: I1.
        unsafe { self.comm.run(what, prepared) }
    }

    /// Receives the data of `root`, a rank of the remote group, which calls
    /// [`broadcast_to_remote`](InterComm::broadcast_to_remote). All ranks of this group must call it, with buffers of
    /// the length that the root sends.
    pub fn broadcast_from_remote<B: Buffer + ?Sized>(
        &self,
        into: &mut B,
        root: impl Into<Rank>,
    ) -> Result<(), Error> {
        let bytes = memory::lend_mut(plain::bytes_mut(into.items_mut()));
        let what = collective::what::<B::Item>("broadcast_from_remote", bytes, root.into());
        let root = Root::Between(inter::Root::Theirs(self.comm.root_of(what)?));
        let prepared = self.comm.runtime().broadcast(root, bytes);
        // SAFETY: I1.
        unsafe { self.comm.run(what, prepared) }
    }
}

/// Messages to and from ranks of the remote group, as in a [`Comm`].
impl InterComm {
    /// Sends a message: see [`Comm::send`].
    pub fn send<B: Buffer + ?Sized>(
        &self,
        data: &B,
        to: impl Into<Rank>,
        tag: impl Into<Tag>,
    ) -> Result<(), Error> {
        self.comm.send(data, to, tag)
    }

    /// Sends a message, and returns after a receive has matched it: see [`Comm::synchronous_send`].
    pub fn synchronous_send<B: Buffer + ?Sized>(
        &self,
        data: &B,
        to: impl Into<Rank>,
        tag: impl Into<Tag>,
    ) -> Result<(), Error> {
        self.comm.synchronous_send(data, to, tag)
    }

    /// Receives a message into a buffer: see [`Comm::receive`].
    pub fn receive<B: Buffer + ?Sized>(
        &self,
        into: &mut B,
        from: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> Result<Status, Error> {
        self.comm.receive(into, from, tag)
    }

    /// Receives a single item.
    pub fn receive_one<T: Plain>(
        &self,
        from: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> Result<(T, Status), Error> {
        self.comm.receive_one(from, tag)
    }

    /// Receives a message of any length: see [`Comm::receive_vec`].
    pub fn receive_vec<T: Plain>(
        &self,
        from: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> Result<(Vec<T>, Status), Error> {
        self.comm.receive_vec(from, tag)
    }

    /// Starts a send: see [`Comm::isend`].
    pub fn isend<B: OwnedBuffer>(
        &self,
        data: B,
        to: impl Into<Rank>,
        tag: impl Into<Tag>,
    ) -> Result<SendRequest<B::Item>, Error> {
        self.comm.isend(data, to, tag)
    }

    /// Starts a receive of up to `count` items: see [`Comm::irecv`].
    pub fn irecv<T: Plain>(
        &self,
        count: usize,
        from: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> Result<ReceiveRequest<T>, Error> {
        self.comm.irecv(count, from, tag)
    }

    /// Runs `body`, which may start operations on borrowed buffers: see [`Comm::scope`].
    pub fn scope<'env, R>(
        &'env self,
        body: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> R,
    ) -> Result<R, Error> {
        self.comm.scope(body)
    }

    /// Waits for a message, and describes it without receiving it: see [`Comm::probe`].
    pub fn probe(&self, from: impl Into<Source>, tag: impl Into<Tag>) -> Result<Probed, Error> {
        self.comm.probe(from, tag)
    }

    /// Describes the message that could be received now, if there is one.
    pub fn iprobe(
        &self,
        from: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> Result<Option<Probed>, Error> {
        self.comm.iprobe(from, tag)
    }

    /// Sends a value that serde can serialise: see [`Comm::send_value`].
    #[cfg(feature = "serde")]
    pub fn send_value<T: serde::Serialize + ?Sized>(
        &self,
        value: &T,
        to: impl Into<Rank>,
        tag: impl Into<Tag>,
    ) -> Result<(), Error> {
        self.comm.send_value(value, to, tag)
    }

    /// Receives a value that was sent by [`send_value`](InterComm::send_value).
    #[cfg(feature = "serde")]
    pub fn receive_value<T: serde::de::DeserializeOwned>(
        &self,
        from: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> Result<(T, Status), Error> {
        self.comm.receive_value(from, tag)
    }
}

impl fmt::Debug for InterComm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, rank, size) = (self.name(), self.rank(), self.size());
        write!(f, "{name}, rank {rank} of {size}, remote size {}", self.remote_size())
    }
}
