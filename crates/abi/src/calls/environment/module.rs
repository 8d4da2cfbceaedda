//! User code on the NIC, for C: `ferry.h`.
//!
//! A module belongs to a communicator and handles its messages. The functions here create such a communicator,
//! inspect it and free it.

use std::ffi::{c_char, c_int};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use ferrywire_host::ErrorCode;
use ferrywire_host::memory;
use ferrywire_host::nic::{self, MODULE_COUNTERS};
use ferrywire_modules::{self as engine, ModuleFault, Trouble};
use ferrywire_mpi::collective::{self as algorithm, ReduceOp};
use ferrywire_mpi::operation::{self, Number, Operation};
use ferrywire_runtime::code_of_module;

use crate::calls::communicators::comm_create;
use crate::calls::entry::entries;
use crate::convert::constants::{
    MPI_COMM_NULL, MPI_ERR_ARG, MPI_ERR_COMM, MPI_ERR_COUNT, MPI_ERR_OTHER,
};
use crate::convert::failure::{Failure, Result};
use crate::convert::handle::{self, Object};
use crate::convert::pointer::{Choice, Out, Text};
use crate::convert::types::{MPI_Comm, MPI_Count};
use crate::objects::comm::{self, Comm};

/// The statistics of a module, in the layout of `ferry.h`.
#[allow(non_camel_case_types, reason = "it is called so in C")]
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Ferry_Module_stats {
    messages: MPI_Count,
    bytes: MPI_Count,
    delivered: MPI_Count,
    consumed: MPI_Count,
    sent: MPI_Count,
    lost: MPI_Count,
    faults: MPI_Count,
    stalls: MPI_Count,
    fuel: MPI_Count,
    last_fault: [c_char; FAULT_BYTES],
}

/// Room for the text of a fault, and its terminating zero.
const FAULT_BYTES: usize = 256;

/// The communicators with modules, and their handles.
static LOADED: Mutex<Vec<(Weak<Object<Comm>>, MPI_Comm)>> = Mutex::new(Vec::new());

/// Compiles code and instantiates the module.
fn start(code: &[u8]) -> std::result::Result<Box<dyn nic::Module>, Trouble> {
    engine::start(code, |name| std::env::var(name).ok())
}

/// Checks that all ranks succeeded, and with the same code. No rank continues before all have.
fn agree(comm: &Comm, instance: u16, trouble: Option<&Trouble>, code: &[u8]) -> Result {
    engine::agree(comm.members.rank(), trouble, code, |mine| least_of_all(comm, instance, mine))?
        .map_err(|why| Failure::new(MPI_ERR_OTHER, why).coded(code_of_module(trouble)))
}

/// The minimum over all ranks, element by element.
fn least_of_all(comm: &Comm, instance: u16, mine: [u64; 3]) -> Result<[u64; 3]> {
    let operator = operation::operator(Operation::Min, Number::U64).expect("it makes sense");
    let reduce_op = ReduceOp { operator, element_bytes: 8, commutative: true };
    let mut bytes = mine.map(u64::to_ne_bytes);
    let flat = bytes.as_flattened_mut();
    let mut work = crate::objects::data::room(flat.len() as u64);
    let (span, work) = (memory::lend_mut(flat), memory::lend_mut(&mut work));
    let schedule = algorithm::allreduce(comm.members.member(), reduce_op, span, span, work);
    // SAFETY: the memory that it is lent outlives the call.
    unsafe { comm.runtime().run(instance, schedule) }?;
    Ok(bytes.map(u64::from_ne_bytes))
}

/// The bytes of code that a program passes.
pub(crate) fn code_of<'a>(code: Choice, len: MPI_Count) -> Result<&'a [u8]> {
    let len = usize::try_from(len).map_err(|_| {
        Failure::new(MPI_ERR_COUNT, format!("invalid code length {len}; it must not be negative"))
    })?;
    code.items::<u8>().slice(len)
}

/// The group id of the module of a communicator.
fn group_of(comm: &Comm) -> Result<u16> {
    comm.module().ok_or_else(|| {
        Failure::new(
            MPI_ERR_COMM,
            "the communicator has no module; Ferry_Module_load creates one that has",
        )
        .coded(ErrorCode::NO_MODULE)
    })
}

/// Creates a communicator with a module, or with something else that handles messages.
pub(crate) fn load(
    comm: MPI_Comm,
    name: &str,
    code: &[u8],
    start: impl FnOnce(&[u8]) -> std::result::Result<Box<dyn nic::Module>, Trouble>,
    module_comm: Out<MPI_Comm>,
) -> Result {
    let comm = comm::share_of(comm)?;
    let instance = comm.members.next_instance();
    if comm.members.inter().is_some() {
        return Err(Failure::new(
            MPI_ERR_COMM,
            "a module cannot be loaded on an intercommunicator",
        )
        .coded(ErrorCode::INTERCOMM));
    }
    module_comm.put(MPI_COMM_NULL)?;
    let new = handle::share(comm_create::for_module(&comm, instance, name)?);
    let loaded = start(code).map(|module| {
        let (group, placement) = new.members.module_place();
        new.plane().load(group, module, placement);
    });
    agree(&new, new.members.next_instance(), loaded.err().as_ref(), code)?;
    let watched = Arc::downgrade(&new);
    let handle = MPI_Comm(handle::expose(new));
    let mut all = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    all.push((watched, handle));
    module_comm.put(handle)
}

fn replace(comm: &Comm, instance: u16, code: &[u8]) -> Result {
    let group = group_of(comm)?;
    let started = start(code);
    // Only if all ranks can: a rank that cannot would be left with the old module.
    agree(comm, instance, started.as_ref().err(), code)?;
    if let Ok(module) = started {
        comm.plane().replace(group, module);
    }
    barrier(comm, instance)
}

fn barrier(comm: &Comm, instance: u16) -> Result {
    // SAFETY: no memory is lent.
    Ok(unsafe { comm.runtime().run(instance, algorithm::barrier(comm.members.member())) }?)
}

fn stats(comm: &Comm) -> Result<Ferry_Module_stats> {
    let group = group_of(comm)?;
    let seen = comm.plane().module_stats(group).unwrap_or_default();
    let text = seen.last_fault.map(|(word, trap)| ModuleFault::of(word, trap).to_string());
    let text = text.unwrap_or_default();
    let mut last_fault = [0; FAULT_BYTES];
    for (place, byte) in last_fault.iter_mut().zip(text.bytes().take(FAULT_BYTES - 1)) {
        *place = c_char::from_ne_bytes([byte]);
    }
    let count = |number: u64| MPI_Count::try_from(number).unwrap_or(MPI_Count::MAX);
    Ok(Ferry_Module_stats {
        messages: count(seen.messages),
        bytes: count(seen.bytes),
        delivered: count(seen.delivered),
        consumed: count(seen.consumed),
        sent: count(seen.sent),
        lost: count(seen.lost),
        faults: count(seen.faults),
        stalls: count(seen.stalls),
        fuel: count(seen.fuel),
        last_fault,
    })
}

entries! {
    fn Ferry_Module_load(comm: MPI_Comm, name: Text, code: Choice, len: MPI_Count,
        module_comm: Out<MPI_Comm>) on comm {
        load(comm, &name.get()?, code_of(code, len)?, start, module_comm)
    }

    fn Ferry_Module_replace(module_comm: MPI_Comm, code: Choice, len: MPI_Count) on module_comm {
        let comm = comm::find(module_comm)?;
        let instance = comm.members.next_instance();
        replace(comm, instance, code_of(code, len)?)
    }

    fn Ferry_Module_unload(module_comm: Out<MPI_Comm>) {
        let comm = comm::find(module_comm.get()?)?;
        let instance = comm.members.next_instance();
        let group = group_of(comm)?;
        barrier(comm, instance)?;
        comm.plane().unload(group);
        comm_create::free(module_comm)
    }

    fn Ferry_Module_list(max: c_int, module_comms: Out<MPI_Comm>, count: Out<c_int>) {
        let mut all = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|(comm, _)| comm.strong_count() > 0);
        for (at, &(_, handle)) in all.iter().take(usize::try_from(max).unwrap_or(0)).enumerate() {
            module_comms.at(at).put(handle)?;
        }
        count.put(c_int::try_from(all.len()).unwrap_or(c_int::MAX))
    }

    fn Ferry_Module_get_stats(module_comm: MPI_Comm, stats: Out<Ferry_Module_stats>) on module_comm {
        stats.put(self::stats(comm::find(module_comm)?)?)
    }

    fn Ferry_Module_wait(module_comm: MPI_Comm, counter: c_int, at_least: MPI_Count) on module_comm {
        let comm = comm::find(module_comm)?;
        let group = group_of(comm)?;
        let number = u32::try_from(counter).ok().filter(|&number| number < MODULE_COUNTERS);
        let Some(number) = number else {
            let last = MODULE_COUNTERS - 1;
            let why = format!("invalid counter {counter}; modules have counters 0 to {last}");
            return Err(Failure::new(MPI_ERR_ARG, why).coded(ErrorCode::NO_MODULE));
        };
        let at_least = u64::try_from(at_least).unwrap_or(0);
        match comm.plane().wait_for_module(group, number, at_least) {
            true => Ok(()),
            false => Err(Failure::new(MPI_ERR_OTHER, "the module has been unloaded").coded(ErrorCode::NO_MODULE)),
        }
    }
}
