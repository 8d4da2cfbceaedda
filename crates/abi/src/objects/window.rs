//! Windows, with everything that a C program attaches to them.

use std::ffi::{c_int, c_void};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ferrywire_mpi::info::Info;
use ferrywire_runtime::{self as runtime, Window, WindowError, WindowSpace};

use crate::convert::argument::PeerRank;
use crate::convert::constants::{
    MPI_ERR_ARG, MPI_ERR_NO_MEM, MPI_ERR_RANK, MPI_ERR_RMA_ATTACH, MPI_ERR_RMA_RANGE,
    MPI_ERR_RMA_SHARED, MPI_ERR_RMA_SYNC, MPI_ERR_UNSUPPORTED_OPERATION, MPI_ERR_WIN, MPI_WIN_BASE,
    MPI_WIN_CREATE_FLAVOR, MPI_WIN_DISP_UNIT, MPI_WIN_MODEL, MPI_WIN_NULL, MPI_WIN_SIZE,
    MPI_WIN_UNIFIED,
};
use crate::convert::failure::{Failure, Owner, Result};
use crate::convert::handle::{self, Kind, Object, Shared};
use crate::convert::types::{MPI_Aint, MPI_Win};
use crate::objects::attribute::Attributes;
use crate::objects::communicator::Comm;
use crate::objects::errhandler::{self, Handler};

/// A window of the program.
pub(crate) struct Win {
    pub(crate) window: Window,
    /// A communicator of its own, so that its messages meet no others.
    pub(crate) comm: Shared<Comm>,
    pub(crate) attributes: Attributes,
    facts: Facts,
    name: Mutex<String>,
    handler: Mutex<Handler>,
    info: Mutex<Info>,
}

/// What the predefined attributes point to.
struct Facts {
    base: usize,
    bytes: MPI_Aint,
    unit: c_int,
    flavor: c_int,
    model: c_int,
}

impl Kind for Win {
    const MARK: u32 = 0x5749_4e44;
    const ERROR: c_int = MPI_ERR_WIN;
    const NAME: &'static str = "window";
}

impl Win {
    /// A window, with its communicator. `base` is the address of our part.
    pub(crate) fn new(
        window: Window,
        comm: Shared<Comm>,
        (space, flavor, base): (WindowSpace, c_int, usize),
        info: Info,
    ) -> Win {
        let facts = Facts {
            base,
            bytes: MPI_Aint::try_from(space.bytes).unwrap_or(MPI_Aint::MAX),
            unit: c_int::try_from(space.unit).unwrap_or(c_int::MAX),
            flavor,
            model: MPI_WIN_UNIFIED,
        };
        Win {
            window,
            comm,
            attributes: Attributes::default(),
            facts,
            name: Mutex::default(),
            handler: Mutex::new(Handler::Fatal),
            info: Mutex::new(info),
        }
    }

    /// The communicator as the runtime sees it.
    #[inline]
    pub(crate) fn runtime(&self) -> runtime::Comm<'_> {
        self.comm.runtime()
    }

    /// How it was created.
    pub(crate) fn flavor(&self) -> c_int {
        self.facts.flavor
    }

    /// The value of a predefined attribute: a pointer to it, but for the base, which is one.
    pub(crate) fn fact(&self, key: c_int) -> Option<*mut c_void> {
        let facts = &self.facts;
        let number = |number: &c_int| std::ptr::from_ref(number).cast_mut().cast();
        Some(match key {
            MPI_WIN_BASE => std::ptr::with_exposed_provenance_mut(facts.base),
            MPI_WIN_SIZE => std::ptr::from_ref(&facts.bytes).cast_mut().cast(),
            MPI_WIN_DISP_UNIT => number(&facts.unit),
            MPI_WIN_CREATE_FLAVOR => number(&facts.flavor),
            MPI_WIN_MODEL => number(&facts.model),
            _ => return None,
        })
    }

    /// A target of accesses. `None` for MPI_PROC_NULL.
    #[inline]
    pub(crate) fn target(&self, rank: PeerRank) -> Result<Option<u32>> {
        let size = self.comm.members.group().size();
        match rank.below(size) {
            None if !rank.is_null() => {
                let why = match size {
                    1 => format!("invalid rank {rank}; the only rank is 0"),
                    _ => format!("invalid rank {rank}; ranks go from 0 to {}", size - 1),
                };
                Err(Failure::new(MPI_ERR_RANK, why))
            }
            target => Ok(target),
        }
    }

    /// The name that the program has set.
    pub(crate) fn name(&self) -> String {
        lock(&self.name).clone()
    }

    /// Sets the name.
    pub(crate) fn set_name(&self, name: String) {
        self.runtime().note_name(&format!("window {name}"));
        *lock(&self.name) = name;
    }

    /// The error handler.
    pub(crate) fn handler(&self) -> Handler {
        lock(&self.handler).clone()
    }

    /// Sets the error handler.
    pub(crate) fn set_handler(&self, handler: Handler) {
        *lock(&self.handler) = handler;
    }

    /// The hints that the program has set.
    pub(crate) fn info(&self) -> MutexGuard<'_, Info> {
        lock(&self.info)
    }
}

impl Owner for Object<Win> {
    fn title(&self) -> String {
        let name = self.name();
        if name.is_empty() { format!("a window of {}", self.comm.title()) } else { name }
    }

    fn tell(&self, code: c_int) -> bool {
        errhandler::call(&self.handler(), std::ptr::from_ref(self).addr(), code)
    }
}

/// The window that a handle names.
#[inline]
pub(crate) fn find<'a>(handle: MPI_Win) -> Result<&'a Object<Win>> {
    match handle {
        MPI_WIN_NULL => Err(Failure::new(MPI_ERR_WIN, "the window is MPI_WIN_NULL")),
        MPI_Win(address) => handle::find(address),
    }
}

/// A share of the window that a handle names.
pub(crate) fn share_of(handle: MPI_Win) -> Result<Shared<Win>> {
    find(handle)?;
    handle::share_of(handle.0)
}

impl From<WindowError> for Failure {
    #[cold]
    fn from(error: WindowError) -> Failure {
        let class = match error {
            WindowError::Failed(failure) => return failure.into(),
            WindowError::NotCreated(error) => return error.into(),
            WindowError::NoMemory => MPI_ERR_NO_MEM,
            WindowError::SeveralHosts => MPI_ERR_RMA_SHARED,
            WindowError::NotBetweenHosts(_) | WindowError::OtherNic => {
                MPI_ERR_UNSUPPORTED_OPERATION
            }
            WindowError::NoEpoch(_) | WindowError::WrongEpoch(_) => MPI_ERR_RMA_SYNC,
            WindowError::OutOfRange { .. } => MPI_ERR_RMA_RANGE,
            WindowError::Unreachable(..) => MPI_ERR_RMA_SHARED,
            WindowError::NotAttached(_) => MPI_ERR_RMA_ATTACH,
            WindowError::NoCounter(..) | WindowError::NoCounters(_) => MPI_ERR_ARG,
        };
        Failure::new(class, error.to_string()).coded(error.code())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A new handle of a window.
pub(crate) fn expose(win: Win) -> MPI_Win {
    MPI_Win(handle::expose(handle::share(win)))
}

/// A window as the owner of failures.
pub(crate) fn owner(win: &Shared<Win>) -> Arc<dyn Owner> {
    Arc::clone(win) as Arc<dyn Owner>
}
