//! Performance variables: the levels and counters of this rank's NIC.
//!
//! Levels can be read at any time. Counters are counted for each handle from zero, while it is started, and can be
//! reset: tools do not disturb each other.

use std::ffi::{c_int, c_void};
use std::sync::{Mutex, PoisonError};

use ferrywire_host::Driver;
use ferrywire_host::nic::store::Audit;
use ferrywire_host::nic::{Holdings, Stats};

use super::category::Category;
use super::{error, index_of, int, item, name_of, put_text, told};
use crate::calls::entry::answers;
use crate::convert::constants::{
    MPI_DOUBLE, MPI_T_BIND_NO_OBJECT, MPI_T_ERR_INVALID, MPI_T_ERR_INVALID_HANDLE,
    MPI_T_ERR_INVALID_SESSION, MPI_T_ERR_PVAR_NO_ATOMIC, MPI_T_ERR_PVAR_NO_STARTSTOP,
    MPI_T_ERR_PVAR_NO_WRITE, MPI_T_PVAR_CLASS_COUNTER, MPI_T_PVAR_CLASS_LEVEL,
    MPI_T_PVAR_CLASS_PERCENTAGE, MPI_T_PVAR_CLASS_SIZE, MPI_T_VERBOSITY_USER_BASIC,
    MPI_UNSIGNED_LONG,
};
use crate::convert::failure::Result;
use crate::convert::handle::{self, Kind, Shared};
use crate::convert::pointer::{Choice, ChoiceMut, Out, Text, TextOut};
use crate::convert::types::{MPI_Datatype, MPI_T_enum, MPI_T_pvar_handle, MPI_T_pvar_session};
use crate::objects::process;

/// A performance variable.
pub(super) struct Variable {
    name: &'static str,
    text: &'static str,
    pub(super) category: Category,
    source: Source,
}

/// The source of its value.
#[derive(Clone, Copy)]
enum Source {
    /// The current level.
    Level(fn(&Holdings) -> u64),
    /// The largest possible level.
    Size(fn(&Holdings) -> u64),
    /// A counter of the NIC.
    Counted(fn(&Stats) -> u64),
    /// Turns made by calling threads.
    TurnsByCallers,
    /// Turns made by the agent.
    TurnsByAgent,
    /// The agent's share of all turns, from 0 to 1.
    ShareOfAgent,
}

/// All performance variables.
pub(super) const VARIABLES: &[Variable] = &[
    Variable {
        name: "ferrywire_posted_receives",
        text: "Posted receives that wait for messages.",
        category: Category::Matching,
        source: Source::Level(|holdings| holdings.posted as u64),
    },
    Variable {
        name: "ferrywire_unexpected_messages",
        text: "Unexpected messages that wait for receives.",
        category: Category::Matching,
        source: Source::Level(|holdings| holdings.unexpected as u64),
    },
    Variable {
        name: "ferrywire_unexpected_bytes",
        text: "Bytes held for unexpected messages, including the memory for matching them.",
        category: Category::Matching,
        source: Source::Level(|holdings| sum(holdings, |store| store.used)),
    },
    Variable {
        name: "ferrywire_reserved_bytes",
        text: "Bytes reserved for messages that other ranks may send without asking.",
        category: Category::Matching,
        source: Source::Level(|holdings| sum(holdings, |store| store.reserved)),
    },
    Variable {
        name: "ferrywire_unexpected_budget",
        text: "Bytes of unexpected messages that the queues in use may hold.",
        category: Category::Matching,
        source: Source::Size(|holdings| sum(holdings, |store| store.bytes_max)),
    },
    Variable {
        name: "ferrywire_operations",
        text: "Operations in progress: sends, receives, collectives and their parts.",
        category: Category::Matching,
        source: Source::Level(|holdings| holdings.tickets as u64),
    },
    Variable {
        name: "ferrywire_unexpected_arrivals",
        text: "Messages that no receive was waiting for when they arrived.",
        category: Category::Matching,
        source: Source::Counted(|stats| stats.unexpected),
    },
    Variable {
        name: "ferrywire_refused_messages",
        text: "Messages refused for lack of room, which their senders keep.",
        category: Category::Matching,
        source: Source::Counted(|stats| stats.refused),
    },
    Variable {
        name: "ferrywire_frames_sent",
        text: "Frames handed to a rail.",
        category: Category::Traffic,
        source: Source::Counted(|stats| stats.frames_sent),
    },
    Variable {
        name: "ferrywire_frames_received",
        text: "Frames received from a rail.",
        category: Category::Traffic,
        source: Source::Counted(|stats| stats.frames_received),
    },
    Variable {
        name: "ferrywire_turns_by_callers",
        text: "How often threads of the program have turned the NIC in MPI calls.",
        category: Category::Driving,
        source: Source::TurnsByCallers,
    },
    Variable {
        name: "ferrywire_turns_by_agent",
        text: "How often the agent has turned the NIC while the program was not in a call.",
        category: Category::Driving,
        source: Source::TurnsByAgent,
    },
    Variable {
        name: "ferrywire_share_of_agent",
        text: "The fraction of all turns made by the agent.",
        category: Category::Driving,
        source: Source::ShareOfAgent,
    },
];

fn sum(holdings: &Holdings, of: impl Fn(&Audit) -> u32) -> u64 {
    holdings.stores.iter().map(|store| u64::from(of(store))).sum()
}

impl Source {
    fn class(self) -> c_int {
        match self {
            Source::Level(_) => MPI_T_PVAR_CLASS_LEVEL,
            Source::Size(_) => MPI_T_PVAR_CLASS_SIZE,
            Source::ShareOfAgent => MPI_T_PVAR_CLASS_PERCENTAGE,
            Source::Counted(_) | Source::TurnsByCallers | Source::TurnsByAgent => {
                MPI_T_PVAR_CLASS_COUNTER
            }
        }
    }

    fn is_counter(self) -> bool {
        self.class() == MPI_T_PVAR_CLASS_COUNTER
    }

    /// The current value, summed over all planes. Zero while MPI is not running.
    fn read(self) -> u64 {
        let of = |driver: &Driver| match self {
            Source::Level(read) | Source::Size(read) => driver.inspect(|nic| read(&nic.holdings())),
            Source::Counted(read) => driver.inspect(|nic| read(nic.stats())),
            Source::TurnsByCallers => driver.turns().all - driver.turns().by_agent,
            Source::TurnsByAgent => driver.turns().by_agent,
            Source::ShareOfAgent => driver.turns().all,
        };
        process::running().map_or(0, |process| process.rank().drivers().map(of).sum())
    }
}

/// A session: the handles of a tool.
struct PvarSession(Mutex<Vec<usize>>);

impl Kind for PvarSession {
    const MARK: u32 = 0x5056_5345;
    const ERROR: c_int = MPI_T_ERR_INVALID_SESSION;
    const NAME: &'static str = "performance variable session";
}

impl PvarSession {
    fn handles(&self) -> std::sync::MutexGuard<'_, Vec<usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A handle of a variable.
struct PvarHandle {
    source: Source,
    session: usize,
    count: Mutex<Count>,
}

impl Kind for PvarHandle {
    const MARK: u32 = 0x5056_4152;
    const ERROR: c_int = MPI_T_ERR_INVALID_HANDLE;
    const NAME: &'static str = "performance variable";
}

/// The count of a handle.
#[derive(Default)]
struct Count {
    /// The count before the handle was last started.
    before: u64,
    /// The NIC's counter when the handle was last started.
    since: Option<u64>,
}

impl Count {
    fn value(&self, now: u64) -> u64 {
        self.since.map_or(self.before, |since| self.before + now.saturating_sub(since))
    }

    fn set(&mut self, value: u64, now: u64) {
        *self = Count { before: value, since: self.since.map(|_| now) };
    }
}

impl PvarHandle {
    fn count(&self) -> std::sync::MutexGuard<'_, Count> {
        self.count.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start(&self) {
        self.count().since.get_or_insert_with(|| self.source.read());
    }

    fn stop(&self) {
        let mut count = self.count();
        *count = Count { before: count.value(self.source.read()), since: None };
    }

    fn set(&self, value: u64) {
        self.count().set(value, self.source.read());
    }

    /// Writes the value, and resets it at the same moment if asked to.
    fn read(&self, into: ChoiceMut, anew: bool) -> Result {
        if let Source::ShareOfAgent = self.source {
            let (agent, all) = (Source::TurnsByAgent.read(), self.source.read());
            let share = if all == 0 { 0.0 } else { agent as f64 / all as f64 };
            return into.place::<f64>().put(share);
        }
        let now = self.source.read();
        if !self.source.is_counter() {
            return into.place::<u64>().put(now);
        }
        let mut count = self.count();
        into.place::<u64>().put(count.value(now))?;
        if anew {
            count.set(0, now);
        }
        Ok(())
    }
}

/// Finds a handle that belongs to a session.
fn find(session: MPI_T_pvar_session, handle: MPI_T_pvar_handle) -> Result<Shared<PvarHandle>> {
    handle::find::<PvarSession>(session.0)?;
    let found = handle::share_of::<PvarHandle>(handle.0)?;
    match found.session == session.0 {
        true => Ok(found),
        false => Err(error(MPI_T_ERR_INVALID_HANDLE)),
    }
}

/// Applies an action to a counter, or to all counters of a session. A handle that is no counter is skipped, or is an
/// error of class `otherwise`.
fn with_counters(
    session: MPI_T_pvar_session,
    handle: MPI_T_pvar_handle,
    otherwise: c_int,
    work: impl Fn(&PvarHandle),
) -> Result {
    if handle == MPI_T_PVAR_ALL_HANDLES {
        let session = handle::find::<PvarSession>(session.0)?;
        for &address in &*session.handles() {
            let handle = handle::find::<PvarHandle>(address)?;
            if handle.source.is_counter() {
                work(handle);
            }
        }
        return Ok(());
    }
    let found = find(session, handle)?;
    match found.source.is_counter() {
        true => work(&found),
        false => return Err(error(otherwise)),
    }
    Ok(())
}

answers! {
    fn MPI_T_pvar_get_num(num_pvar: Out<c_int>) -> c_int {
        told(|| num_pvar.put(int(VARIABLES.len())))
    }

    fn MPI_T_pvar_get_info(
        pvar_index: c_int, name: TextOut, name_len: Out<c_int>, verbosity: Out<c_int>,
        var_class: Out<c_int>, datatype: Out<MPI_Datatype>, enumtype: Out<MPI_T_enum>, desc: TextOut,
        desc_len: Out<c_int>, bind: Out<c_int>, readonly: Out<c_int>, continuous: Out<c_int>,
        atomic: Out<c_int>,
    ) -> c_int {
        told(|| {
            let variable = item(VARIABLES, pvar_index)?;
            let counter = variable.source.is_counter();
            let share = matches!(variable.source, Source::ShareOfAgent);
            put_text(variable.name, name, name_len)?;
            put_text(variable.text, desc, desc_len)?;
            verbosity.put_if_wanted(MPI_T_VERBOSITY_USER_BASIC);
            var_class.put_if_wanted(variable.source.class());
            datatype.put_if_wanted(if share { MPI_DOUBLE } else { MPI_UNSIGNED_LONG });
            enumtype.put_if_wanted(MPI_T_enum(0));
            bind.put_if_wanted(MPI_T_BIND_NO_OBJECT);
            readonly.put_if_wanted((!counter).into());
            continuous.put_if_wanted((!counter).into());
            atomic.put_if_wanted(counter.into());
            Ok(())
        })
    }

    fn MPI_T_pvar_get_index(name: Text, var_class: c_int, pvar_index: Out<c_int>) -> c_int {
        told(|| {
            let name = name_of(name)?;
            let is_meant = |it: &Variable| it.name == name && it.source.class() == var_class;
            pvar_index.put(index_of(VARIABLES, is_meant)?)
        })
    }

    fn MPI_T_pvar_session_create(session: Out<MPI_T_pvar_session>) -> c_int {
        told(|| {
            let new = handle::share(PvarSession(Mutex::default()));
            session.put(MPI_T_pvar_session(handle::expose(new)))
        })
    }

    fn MPI_T_pvar_session_free(session: Out<MPI_T_pvar_session>) -> c_int {
        told(|| {
            let old = handle::take::<PvarSession>(session.get()?.0)?;
            for address in old.handles().drain(..) {
                drop(handle::take::<PvarHandle>(address)?);
            }
            session.put(MPI_T_pvar_session(0))
        })
    }

    fn MPI_T_pvar_handle_alloc(
        session: MPI_T_pvar_session, pvar_index: c_int, _obj_handle: *mut c_void,
        handle: Out<MPI_T_pvar_handle>, count: Out<c_int>,
    ) -> c_int {
        told(|| {
            let of = handle::find::<PvarSession>(session.0)?;
            let source = item(VARIABLES, pvar_index)?.source;
            let new = PvarHandle { source, session: session.0, count: Mutex::default() };
            let address = handle::expose(handle::share(new));
            of.handles().push(address);
            handle.put(MPI_T_pvar_handle(address))?;
            count.put(1)
        })
    }

    fn MPI_T_pvar_handle_free(
        session: MPI_T_pvar_session, handle: Out<MPI_T_pvar_handle>,
    ) -> c_int {
        told(|| {
            let freed = handle.get()?;
            find(session, freed)?;
            let of = handle::find::<PvarSession>(session.0)?;
            of.handles().retain(|&address| address != freed.0);
            drop(handle::take::<PvarHandle>(freed.0)?);
            handle.put(MPI_T_pvar_handle(0))
        })
    }

    fn MPI_T_pvar_start(session: MPI_T_pvar_session, handle: MPI_T_pvar_handle) -> c_int {
        told(|| with_counters(session, handle, MPI_T_ERR_PVAR_NO_STARTSTOP, PvarHandle::start))
    }

    fn MPI_T_pvar_stop(session: MPI_T_pvar_session, handle: MPI_T_pvar_handle) -> c_int {
        told(|| with_counters(session, handle, MPI_T_ERR_PVAR_NO_STARTSTOP, PvarHandle::stop))
    }

    fn MPI_T_pvar_read(
        session: MPI_T_pvar_session, handle: MPI_T_pvar_handle, buf: ChoiceMut,
    ) -> c_int {
        told(|| find(session, handle)?.read(buf, false))
    }

    fn MPI_T_pvar_write(
        session: MPI_T_pvar_session, handle: MPI_T_pvar_handle, buf: Choice,
    ) -> c_int {
        told(|| {
            let found = find(session, handle)?;
            if !found.source.is_counter() {
                return Err(error(MPI_T_ERR_PVAR_NO_WRITE));
            }
            let value = buf.items::<u64>().slice(1).map_err(|_| error(MPI_T_ERR_INVALID))?;
            found.set(value[0]);
            Ok(())
        })
    }

    fn MPI_T_pvar_reset(session: MPI_T_pvar_session, handle: MPI_T_pvar_handle) -> c_int {
        told(|| with_counters(session, handle, MPI_T_ERR_PVAR_NO_WRITE, |it| it.set(0)))
    }

    fn MPI_T_pvar_readreset(
        session: MPI_T_pvar_session, handle: MPI_T_pvar_handle, buf: ChoiceMut,
    ) -> c_int {
        told(|| {
            let found = find(session, handle)?;
            match found.source.is_counter() {
                true => found.read(buf, true),
                false => Err(error(MPI_T_ERR_PVAR_NO_ATOMIC)),
            }
        })
    }
}

/// All handles of a session.
const MPI_T_PVAR_ALL_HANDLES: MPI_T_pvar_handle = MPI_T_pvar_handle(1);
