//! User code on the NIC: communicators whose messages are handled by a module where they arrive.

use std::ops::Deref;

use ferrywire_host::ErrorCode;
use ferrywire_host::nic::{MODULE_COUNTERS, Module as Hooks};
use ferrywire_modules::{self as engine, ModuleFault, Trouble};
use ferrywire_mpi::operation::Operation;
use ferrywire_runtime::code_of_module;

use crate::comm::Comm;
use crate::error::Error;

/// A communicator with a module: a small WebAssembly program that runs on the NIC of every rank.
///
/// A message sent in this communicator goes to the module at its target, even while the application there computes.
/// The module forwards, answers, counts, changes, consumes or delivers it; what it delivers is received as in any
/// communicator. Collectives work as usual and bypass the module.
///
/// All ranks must call [`load_module`](Comm::load_module), [`replace`](Module::replace) and
/// [`unload`](Module::unload). When the last handle is dropped, the module is unloaded at this rank.
///
/// ```no_run
/// // Answers each message with its own bytes: see examples/modules/echo.c.
/// let code = std::fs::read("echo.wasm").unwrap();
/// ferrywire::local(2, |world| {
///     let echo = world.load_module("echo", &code).unwrap();
///     if world.rank() == 0 {
///         echo.send(b"anybody there?", 1, 0).unwrap();
///         assert_eq!(echo.receive_vec::<u8>(1, 1).unwrap().0, b"anybody there?");
///     }
///     echo.unload().unwrap();
/// });
/// ```
#[derive(Clone)]
pub struct Module {
    comm: Comm,
}

/// Statistics of a module at this rank.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ModuleStats {
    /// Messages that the module ran for.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Messages that it delivered to the application.
    pub delivered: u64,
    /// Messages that it consumed.
    pub consumed: u64,
    /// Messages that it sent or forwarded.
    pub sent: u64,
    /// Messages among those sent that will not arrive, because their receiver has left.
    pub lost: u64,
    /// Messages that ended with a fault of the module.
    pub faults: u64,
    /// Times that it had to wait, because too much of what it sent was still in flight.
    pub stalls: u64,
    /// Fuel that it used.
    pub fuel: u64,
    /// The last fault.
    pub last_fault: Option<ModuleFault>,
}

impl Comm {
    /// Creates another communicator of the same ranks, with a module: WebAssembly in binary or text form. All ranks
    /// must call it, with the same code. The call compiles the code; the module starts with empty state.
    pub fn load_module(&self, name: &str, code: &[u8]) -> Result<Module, Error> {
        self.load("load_module", name, code, start)
    }

    /// Creates a communicator with a module, or with something else that handles messages.
    pub(crate) fn load(
        &self,
        call: &'static str,
        name: &str,
        code: &[u8],
        start: impl FnOnce(&[u8]) -> Result<Box<dyn Hooks>, Trouble>,
    ) -> Result<Module, Error> {
        let comm = self.dup_for_module(name)?;
        let loaded = start(code).map(|module| {
            let (group, placement) = comm.members().module_place();
            comm.plane().load(group, module, placement);
        });
        comm.agree_on_module(call, loaded.err().as_ref(), code)?;
        Ok(Module { comm })
    }

    /// Checks that all ranks succeeded, and with the same code. No rank continues before all have.
    fn agree_on_module(
        &self,
        call: &'static str,
        trouble: Option<&Trouble>,
        code: &[u8],
    ) -> Result<(), Error> {
        let least = |mut mine: [u64; 3]| {
            self.allreduce(&mut mine, Operation::Min)?;
            Ok::<_, Error>(mine)
        };
        engine::agree(self.rank(), trouble, code, least)?.map_err(|why| {
            let call = self.call(self.what_all(call));
            Error::Module { call, code: code_of_module(trouble), why }
        })
    }
}

/// Compiles code and instantiates the module.
fn start(code: &[u8]) -> Result<Box<dyn Hooks>, Trouble> {
    engine::start(code, |name| std::env::var(name).ok())
}

impl Module {
    /// Replaces the module by another one with empty state; the statistics are kept. All ranks must call it, when no
    /// message is in flight that only the old module understands.
    pub fn replace(&self, code: &[u8]) -> Result<(), Error> {
        let started = start(code);
        // Only if all ranks can: a rank that cannot would be left with the old module.
        self.comm.agree_on_module("replace", started.as_ref().err(), code)?;
        if let (Ok(module), Some(group)) = (started, self.comm.module_group()) {
            self.comm.plane().replace(group, module);
        }
        self.comm.barrier()
    }

    /// Unloads the module when all ranks have called this.
    pub fn unload(self) -> Result<(), Error> {
        self.comm.barrier()?;
        if let Some(group) = self.comm.module_group() {
            self.comm.plane().unload(group);
        }
        Ok(())
    }

    /// The statistics of the module at this rank.
    pub fn stats(&self) -> ModuleStats {
        let group = self.comm.module_group();
        let Some(seen) = group.and_then(|group| self.comm.plane().module_stats(group)) else {
            return ModuleStats::default();
        };
        ModuleStats {
            messages: seen.messages,
            bytes: seen.bytes,
            delivered: seen.delivered,
            consumed: seen.consumed,
            sent: seen.sent,
            lost: seen.lost,
            faults: seen.faults,
            stalls: seen.stalls,
            fuel: seen.fuel,
            last_fault: seen.last_fault.map(|(word, trap)| ModuleFault::of(word, trap)),
        }
    }

    /// Waits until a counter of the module, from 0 to 7, reaches `at_least`.
    pub fn wait(&self, counter: u32, at_least: u64) -> Result<(), Error> {
        let reached = |group| self.comm.plane().wait_for_module(group, counter, at_least);
        if self.comm.module_group().is_some_and(reached) {
            return Ok(());
        }
        let why = match counter < MODULE_COUNTERS {
            true => "the module has been unloaded".into(),
            false => format!(
                "invalid counter {counter}; modules have counters 0 to {}",
                MODULE_COUNTERS - 1
            ),
        };
        let call = self.comm.call(self.comm.what_all("wait"));
        Err(Error::Module { call, code: ErrorCode::NO_MODULE, why })
    }
}

impl Deref for Module {
    type Target = Comm;

    fn deref(&self) -> &Comm {
        &self.comm
    }
}
