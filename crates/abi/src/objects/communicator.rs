//! Communicators, with everything that a C program attaches to them.

use std::ffi::c_int;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ferrywire_host::ErrorCode;
use ferrywire_host::nic::{MatchWord, Peer};
use ferrywire_mpi::comm::{Comm as Members, TAG_MAX, Wanted};
use ferrywire_mpi::info::Info;
use ferrywire_mpi::number_agreement::Agreed;
use ferrywire_mpi::numbers::Claim;
use ferrywire_mpi::topology::Topology;
use ferrywire_runtime::call_name::c_name;
use ferrywire_runtime::{self as runtime, CallName, CollectiveCall, Created};
use try_lock::{Locked, TryLock};

use crate::convert::argument::{MessageTag, PeerRank, SourceRank};
use crate::convert::constants::{MPI_ERR_COMM, MPI_ERR_RANK, MPI_ERR_TAG};
use crate::convert::failure::{self, Failure, Owner, Result};
use crate::convert::handle::{Kind, Object, Shared};
use crate::convert::types::MPI_Comm;
use crate::objects::attribute::Attributes;
use crate::objects::collecting::Collecting;
use crate::objects::collective_cache::CacheKey;
use crate::objects::errhandler::{self, Handler};
use crate::objects::session::Session;

use crate::objects::Plane;

/// A place for the buffer that a program attaches for buffered sends: of a communicator, a session or the process.
#[derive(Default)]
pub(crate) struct BufferPlace(Mutex<Option<AttachedBuffer>>);

impl BufferPlace {
    /// A place without a buffer.
    pub(crate) const fn new() -> BufferPlace {
        BufferPlace(Mutex::new(None))
    }

    /// The buffer, if one is attached.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Option<AttachedBuffer>> {
        lock(&self.0)
    }
}

/// The buffer that a program has attached for buffered sends.
#[derive(Clone, Copy)]
pub(crate) struct AttachedBuffer {
    /// Its address, or MPI_BUFFER_AUTOMATIC.
    pub(crate) address: usize,
    /// Its size in bytes.
    pub(crate) bytes: i64,
}

/// A communicator, with everything that a program attaches to it.
pub(crate) struct Comm {
    /// The members.
    pub(crate) members: Members,
    /// This process as a rank of its job.
    pub(crate) process: &'static runtime::Process,
    /// The plane of the communicator, the same at all members.
    plane: Plane,
    /// Attributes that the program has set.
    pub(crate) attributes: Attributes,
    /// The claim on its number, released when the communicator is dropped.
    claim: Option<Claim>,
    /// The group id of its module, if it can have one.
    module: Option<u16>,
    topology: Option<Arc<Topology>>,
    name: Mutex<String>,
    /// Its handle, if it is predefined.
    predefined: Option<MPI_Comm>,
    /// How it was created, for errors if it has no name.
    origin: String,
    /// `None` if it is predefined and the program has set no handler.
    handler: Mutex<Option<Handler>>,
    /// The buffer for buffered sends.
    pub(crate) buffer: BufferPlace,
    /// The session that it comes from, if any.
    session: Option<Shared<Session>>,
    info: Mutex<Info>,
    /// The latest blocking collective, ready to run again.
    latest: TryLock<Option<(CacheKey, Collecting)>>,
    /// A communicator of the same members, for persistent collectives once this one has no instances left for them.
    space: Mutex<Option<Shared<Comm>>>,
}

impl Kind for Comm {
    const MARK: u32 = 0x434f_4d4d;
    const ERROR: c_int = MPI_ERR_COMM;
    const NAME: &'static str = "communicator";
}

impl Drop for Comm {
    fn drop(&mut self) {
        if let Some(group) = self.module {
            self.plane.unload(group);
        }
        self.process.on_comm_freed(&self.members, self.claim.take());
    }
}

impl Comm {
    /// A predefined communicator.
    pub(crate) fn predefined(
        members: Members,
        process: &'static runtime::Process,
        handle: MPI_Comm,
        name: &str,
    ) -> Comm {
        let mut comm =
            Comm::new(members, process, process.first_plane(), None, String::new(), None);
        comm.set_name(name.into());
        comm.predefined = Some(handle);
        comm
    }

    /// A communicator created from another, whose error handler it inherits.
    pub(crate) fn made(created: Created, origin: String, parent: &Comm) -> Result<Comm> {
        let Created { members, agreed: Agreed { claim, votes } } = created;
        let process = parent.process;
        let plane = process.plane_of(claim.number(), votes).map_err(|error| {
            failure::internal(format!("cannot allocate memory for another plane: {error}"))
                .coded(ErrorCode::NO_MEMORY)
        })?;
        let mut new =
            Comm::new(members, process, plane, Some(claim), origin, Some(parent.handler()));
        new.session = parent.session.clone();
        new.runtime().note_name("");
        Ok(new)
    }

    fn new(
        members: Members,
        process: &'static runtime::Process,
        plane: Plane,
        claim: Option<Claim>,
        origin: String,
        handler: Option<Handler>,
    ) -> Comm {
        process.on_comm_created(&members);
        Comm {
            members,
            process,
            plane,
            attributes: Attributes::default(),
            claim,
            module: None,
            topology: None,
            name: Mutex::default(),
            predefined: None,
            origin,
            handler: Mutex::new(handler),
            buffer: BufferPlace::default(),
            session: None,
            info: Mutex::default(),
            latest: TryLock::new(None),
            space: Mutex::default(),
        }
    }

    /// The communicator for the next persistent collective, if it is not this one.
    pub(crate) fn space(&self) -> MutexGuard<'_, Option<Shared<Comm>>> {
        lock(&self.space)
    }

    /// Allows the communicator to have a module.
    pub(crate) fn with_module(mut self) -> Comm {
        self.module = Some(self.members.module_place().0);
        self
    }

    /// The group id of its module, if it can have one.
    pub(crate) fn module(&self) -> Option<u16> {
        self.module
    }

    /// Makes it come from a session.
    pub(crate) fn with_session(mut self, session: Option<Shared<Session>>) -> Comm {
        self.session = session;
        self
    }

    /// The session that it comes from, if any.
    pub(crate) fn session(&self) -> Option<&Shared<Session>> {
        self.session.as_ref()
    }

    /// Gives it a topology.
    pub(crate) fn with_topology(mut self, topology: Option<Arc<Topology>>) -> Comm {
        self.topology = topology;
        self
    }

    /// Its topology, if it has one.
    pub(crate) fn topology(&self) -> Option<&Arc<Topology>> {
        self.topology.as_ref()
    }

    /// The plane that runs its operations.
    #[inline(always)]
    pub(crate) fn plane(&self) -> Plane {
        self.plane
    }

    /// This communicator as the runtime sees it.
    #[inline(always)]
    pub(crate) fn runtime(&self) -> runtime::Comm<'_> {
        runtime::Comm::new(self.plane, &self.members)
    }

    /// The latest blocking collective, unless another thread uses it. Nobody waits for this lock, so releasing it is a
    /// plain store: an atomic exchange would first wait for the message that has just been written.
    #[inline]
    pub(crate) fn latest(&self) -> Option<Locked<'_, Option<(CacheKey, Collecting)>>> {
        self.latest.try_lock()
    }

    /// The name that the program has set.
    pub(crate) fn name(&self) -> String {
        lock(&self.name).clone()
    }

    /// The name in errors.
    pub(crate) fn title(&self) -> String {
        let name = self.name();
        if name.is_empty() { self.origin.clone() } else { name }
    }

    /// The hints that the program has set.
    pub(crate) fn info(&self) -> Info {
        lock(&self.info).clone()
    }

    /// Sets the hints.
    pub(crate) fn set_info(&self, info: Info) {
        *lock(&self.info) = info;
    }

    /// Records a call that all ranks make, and that has no arguments on which they must agree.
    pub(crate) fn note_collective(&self, name: CallName) {
        let nonblocking =
            [c_name("MPI_Comm_idup"), c_name("MPI_Comm_idup_with_info")].contains(&name);
        self.runtime().note_collective(CollectiveCall {
            name,
            nonblocking,
            ..CollectiveCall::default()
        });
    }

    /// Sets the name.
    pub(crate) fn set_name(&self, name: String) {
        self.runtime().note_name(&name);
        *lock(&self.name) = name;
    }

    /// The error handler.
    pub(crate) fn handler(&self) -> Handler {
        lock(&self.handler).clone().unwrap_or(Handler::Fatal)
    }

    /// Whether the program has set an error handler.
    pub(crate) fn has_own_handler(&self) -> bool {
        lock(&self.handler).is_some()
    }

    /// Sets the error handler.
    pub(crate) fn set_handler(&self, handler: Handler) {
        *lock(&self.handler) = Some(handler);
    }

    /// The target peer and the match word of a message. `None` for MPI_PROC_NULL.
    #[inline(always)]
    pub(crate) fn address(
        &self,
        dest: PeerRank,
        tag: MessageTag,
    ) -> Result<Option<(Peer, MatchWord)>> {
        let tag = self.tag(tag)?;
        match self.target(dest)? {
            None => Ok(None),
            Some(to) => Ok(Some(self.members.address(to, tag))),
        }
    }

    /// The match word and mask of a receive. `None` for MPI_PROC_NULL.
    #[inline(always)]
    pub(crate) fn wanted(&self, source: SourceRank, tag: MessageTag) -> Result<Option<Wanted>> {
        let tag = if tag.is_any() { None } else { Some(self.tag(tag)?) };
        let from = match source.peer() {
            None => None,
            Some(source) => match self.target(source)? {
                None => return Ok(None),
                from => from,
            },
        };
        Ok(Some(self.members.wanted(from, tag)))
    }

    /// A rank that messages can go to or come from. `None` for MPI_PROC_NULL.
    #[inline(always)]
    pub(crate) fn target(&self, rank: PeerRank) -> Result<Option<u32>> {
        match rank.below(self.members.reach()) {
            None if !rank.is_null() => Err(self.no_such_rank()),
            target => Ok(target),
        }
    }

    #[cold]
    fn no_such_rank(&self) -> Failure {
        if self.members.state().is_revoked() {
            return failure::revoked();
        }
        let why = match self.members.targets().size() {
            1 => "invalid rank; the only rank is 0".into(),
            size => format!("invalid rank; ranks go from 0 to {}", size - 1),
        };
        Failure::new(MPI_ERR_RANK, why)
    }

    /// The tag of a message; not MPI_ANY_TAG.
    #[inline]
    pub(crate) fn tag(&self, tag: MessageTag) -> Result<u32> {
        tag.up_to(TAG_MAX).ok_or_else(no_such_tag)
    }
}

#[cold]
fn no_such_tag() -> Failure {
    Failure::new(MPI_ERR_TAG, format!("invalid tag; tags go from 0 to {TAG_MAX}"))
}

/// The name in errors.
impl fmt::Display for Comm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.title())
    }
}

impl Object<Comm> {
    /// The handle of a communicator that the program has.
    pub(crate) fn handle(&self) -> MPI_Comm {
        self.predefined.unwrap_or_else(|| MPI_Comm(std::ptr::from_ref(self).addr()))
    }
}

impl Owner for Object<Comm> {
    fn title(&self) -> String {
        Comm::title(self)
    }

    fn tell(&self, code: c_int) -> bool {
        errhandler::call(&self.handler(), self.handle().0, code)
    }
}

/// Converts a rank or a size to C.
pub(crate) fn int(number: u32) -> c_int {
    c_int::try_from(number).expect("ranks fit 24 bits")
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
