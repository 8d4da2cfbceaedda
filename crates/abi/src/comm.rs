//! Communicators as C sees them.

use std::ffi::c_int;
use std::fmt;
use std::ops::Deref;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ferrywire_host::nic::{MatchWord, Peer};
use ferrywire_mpi::agreement::Agreed;
use ferrywire_mpi::comm::{Comm as Members, TAG_MAX, Wanted};
use ferrywire_mpi::info::Info;
use ferrywire_mpi::numbers::Claim;
use ferrywire_runtime::{self as runtime, Created};

use crate::argument::{MessageTag, PeerRank, SourceRank};
use crate::attribute::Attributes;
use crate::buffered::Buffer;
use crate::collective::{Asked, Collecting};
use crate::constants::{
    MPI_COMM_NULL, MPI_COMM_SELF, MPI_COMM_WORLD, MPI_ERR_COMM, MPI_ERR_RANK, MPI_ERR_TAG,
    MPI_UNDEFINED,
};
use crate::entry::entries;
use crate::errhandler::Handler;
use crate::failure::{self, Failure, Result};
use crate::fault;
use crate::handle::{self, Kind, Object, Shared};
use crate::info;
use crate::pointer::Out;
use crate::process::{self, Plane};
use crate::types::{MPI_Comm, MPI_Info};

/// A communicator, with all that a program hangs on it.
pub(crate) struct Comm {
    /// Who takes part.
    pub(crate) members: Members,
    /// The rank that we are of the job.
    pub(crate) process: &'static runtime::Process,
    /// The plane that it is in, at all members the same one.
    plane: Plane,
    /// What the program has hung on it.
    pub(crate) attributes: Attributes,
    /// Its number goes back when it does.
    claim: Option<Claim>,
    /// The group id of its module, if it may have one.
    module: Option<u16>,
    name: Mutex<String>,
    /// What it was made from, for errors of one that has no name.
    origin: String,
    /// Nothing: the program has not said, and it is predefined.
    handler: Mutex<Option<Handler>>,
    buffer: Mutex<Buffer>,
    info: Mutex<Info>,
    /// The latest collective that was waited for, ready to be done again.
    latest: Mutex<Option<(Asked, Collecting)>>,
    /// The same members under another number, for persistent collectives when this has no instances for them any more.
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
    /// A communicator that is there from the beginning.
    pub(crate) fn predefined(
        members: Members,
        process: &'static runtime::Process,
        name: &str,
    ) -> Comm {
        Comm::new(members, process, process.first_plane(), None, name, String::new(), None)
    }

    /// A communicator that was made from another, and treats errors alike.
    pub(crate) fn made(created: Created, origin: String, parent: &Comm) -> Result<Comm> {
        let Created { members, agreed: Agreed { claim, votes } } = created;
        let process = parent.process;
        let plane = process.plane_of(claim.number(), votes).map_err(|error| {
            failure::internal(format!("there is no memory for another network: {error}"))
        })?;
        Ok(Comm::new(members, process, plane, Some(claim), "", origin, Some(parent.handler())))
    }

    fn new(
        members: Members,
        process: &'static runtime::Process,
        plane: Plane,
        claim: Option<Claim>,
        name: &str,
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
            name: Mutex::new(name.into()),
            origin,
            handler: Mutex::new(handler),
            buffer: Mutex::default(),
            info: Mutex::default(),
            latest: Mutex::default(),
            space: Mutex::default(),
        }
    }

    /// Where the next persistent collective goes, if not here.
    pub(crate) fn space(&self) -> MutexGuard<'_, Option<Shared<Comm>>> {
        lock(&self.space)
    }

    /// The same, when it may have a module.
    pub(crate) fn with_module(mut self) -> Comm {
        self.module = Some(self.members.module_place().0);
        self
    }

    /// The group id of its module, if it may have one.
    pub(crate) fn module(&self) -> Option<u16> {
        self.module
    }

    /// Who does what is asked of it.
    #[inline(always)]
    pub(crate) fn plane(&self) -> Plane {
        self.plane
    }

    /// The same, as the runtime sees it.
    #[inline(always)]
    pub(crate) fn runtime(&self) -> runtime::Comm<'_> {
        runtime::Comm::new(self.plane, &self.members)
    }

    /// The collective that was done last, unless another thread has it.
    #[inline]
    pub(crate) fn latest(&self) -> Option<MutexGuard<'_, Option<(Asked, Collecting)>>> {
        self.latest.try_lock().ok()
    }

    /// What the program calls it.
    pub(crate) fn name(&self) -> String {
        lock(&self.name).clone()
    }

    /// What errors call it.
    pub(crate) fn title(&self) -> String {
        let name = self.name();
        if name.is_empty() { self.origin.clone() } else { name }
    }

    /// What the program has said that it will do with it.
    pub(crate) fn info(&self) -> Info {
        lock(&self.info).clone()
    }

    /// Says so.
    pub(crate) fn set_info(&self, info: Info) {
        *lock(&self.info) = info;
    }

    /// Gives it a name.
    pub(crate) fn set_name(&self, name: String) {
        *lock(&self.name) = name;
    }

    /// What becomes of its errors.
    pub(crate) fn handler(&self) -> Handler {
        lock(&self.handler).clone().unwrap_or(Handler::Fatal)
    }

    /// Whether the program has said so.
    pub(crate) fn has_own_handler(&self) -> bool {
        lock(&self.handler).is_some()
    }

    /// Says what becomes of its errors.
    pub(crate) fn set_handler(&self, handler: Handler) {
        *lock(&self.handler) = Some(handler);
    }

    /// What is attached to it for buffered sends.
    pub(crate) fn buffer(&self) -> MutexGuard<'_, Buffer> {
        lock(&self.buffer)
    }

    /// Where a message goes, and what it says of itself. None: to nobody.
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

    /// What a receive insists on. None: it is from nobody.
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

    /// A rank that messages can go to or come from. None: MPI_PROC_NULL.
    #[inline(always)]
    pub(crate) fn target(&self, rank: PeerRank) -> Result<Option<u32>> {
        match rank.below(self.members.reach()) {
            None if !rank.is_null() => Err(self.no_such_rank()),
            target => Ok(target),
        }
    }

    #[cold]
    fn no_such_rank(&self) -> Failure {
        if self.members.standing().is_revoked() {
            return fault::revoked();
        }
        let why = match self.members.targets().size() {
            1 => "there is only rank 0".into(),
            size => format!("there are ranks 0 to {}", size - 1),
        };
        Failure::new(MPI_ERR_RANK, why)
    }

    #[inline]
    fn tag(&self, tag: MessageTag) -> Result<u32> {
        tag.up_to(TAG_MAX).ok_or_else(no_such_tag)
    }
}

#[cold]
fn no_such_tag() -> Failure {
    Failure::new(MPI_ERR_TAG, format!("tags go from 0 to {TAG_MAX}"))
}

/// What errors call it.
impl fmt::Display for Comm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.title())
    }
}

/// What a handle names.
#[inline(always)]
pub(crate) fn find(handle: MPI_Comm) -> Result<&'static Object<Comm>> {
    match handle {
        MPI_COMM_WORLD => Ok(&process::running()?.world),
        MPI_COMM_SELF => Ok(&process::running()?.itself),
        MPI_COMM_NULL => Err(no_comm()),
        // Its driver takes nothing after MPI_Finalize.
        MPI_Comm(address) => process::running().and_then(|_| handle::find(address)),
    }
}

/// A share of what a handle names.
pub(crate) fn share_of(handle: MPI_Comm) -> Result<Shared<Comm>> {
    match handle {
        MPI_COMM_WORLD => Ok(Shared::clone(&process::running()?.world)),
        MPI_COMM_SELF => Ok(Shared::clone(&process::running()?.itself)),
        MPI_COMM_NULL => Err(no_comm()),
        MPI_Comm(address) => process::running().and_then(|_| handle::share_of(address)),
    }
}

/// Keeps a communicator while something goes on in it. Those that are there from the beginning stay in any
/// case, and are not counted: that would cost more than all else that a request remembers.
pub(crate) enum Hold {
    Predefined(&'static Shared<Comm>),
    Share(Shared<Comm>),
}

impl Deref for Hold {
    type Target = Shared<Comm>;

    #[inline]
    fn deref(&self) -> &Shared<Comm> {
        match self {
            Hold::Predefined(comm) => comm,
            Hold::Share(comm) => comm,
        }
    }
}

/// Keeps what a handle names.
#[inline]
pub(crate) fn hold(handle: MPI_Comm) -> Result<Hold> {
    match handle {
        MPI_COMM_WORLD => Ok(Hold::Predefined(&process::running()?.world)),
        MPI_COMM_SELF => Ok(Hold::Predefined(&process::running()?.itself)),
        made => share_of(made).map(Hold::Share),
    }
}

/// The handle of a communicator that the program has.
pub(crate) fn handle_of(comm: &Shared<Comm>) -> MPI_Comm {
    let is = |other: &Shared<Comm>| Shared::ptr_eq(comm, other);
    match process::running() {
        Ok(process) if is(&process.world) => MPI_COMM_WORLD,
        Ok(process) if is(&process.itself) => MPI_COMM_SELF,
        _ => MPI_Comm(Shared::as_ptr(comm).addr()),
    }
}

#[cold]
fn no_comm() -> Failure {
    Failure::new(MPI_ERR_COMM, "MPI_COMM_NULL is no communicator")
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

entries! {
    fn MPI_Comm_rank(comm: MPI_Comm, rank: Out<c_int>) on comm {
        rank.put(int(find(comm)?.members.rank()))
    }

    fn MPI_Topo_test(comm: MPI_Comm, status: Out<c_int>) on comm {
        // No communicator has a topology yet.
        find(comm)?;
        status.put(MPI_UNDEFINED)
    }

    fn MPI_Comm_get_info(comm: MPI_Comm, info_used: Out<MPI_Info>) on comm {
        info_used.put(info::create(find(comm)?.info()))
    }

    fn MPI_Comm_set_info(comm: MPI_Comm, info: MPI_Info) on comm {
        let mut hints = find(comm)?.info();
        for (key, value) in info::hints(info)?.entries() {
            hints.set(key, value);
        }
        find(comm)?.set_info(hints);
        Ok(())
    }

    fn MPI_Comm_size(comm: MPI_Comm, size: Out<c_int>) on comm {
        size.put(int(find(comm)?.members.group().size()))
    }
}

/// A rank or a size, as C counts.
pub(crate) fn int(number: u32) -> c_int {
    c_int::try_from(number).expect("ranks fit 24 bits")
}
