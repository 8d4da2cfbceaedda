//! User code on the NIC: communicators whose messages go to a module where they arrive.

use std::ops::Deref;

use ferrywire_host::nic::{MODULE_COUNTERS, Module as Hooks};
use ferrywire_modules::{self as engine, ModuleFault, Trouble};
use ferrywire_mpi::operation::Operation;

use crate::comm::Comm;
use crate::error::Error;

/// A communicator with a module: small WebAssembly that runs on the NIC of every rank.
///
/// A message that is sent here goes to the module at its target, whatever the application there does. The module
/// forwards it, answers it, counts it, changes it, consumes it, or delivers it; what it delivers is
/// received as from any communicator. Collectives are as ever, and no business of the module's.
///
/// All ranks must [load](Comm::load_module), [replace](Module::replace) and [unload](Module::unload) it together. When the last
/// handle goes, the module is unloaded at this rank.
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

/// What a module has done at this rank.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ModuleStats {
    /// Messages that it ran for.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Those that it delivered to the application.
    pub delivered: u64,
    /// Those that it consumed.
    pub consumed: u64,
    /// Messages that it sent or forwarded.
    pub sent: u64,
    /// Those of them that will not arrive, since their receiver is gone.
    pub lost: u64,
    /// Messages that ended since it did not come to an end.
    pub faults: u64,
    /// Times that it was made to wait, since too much of what it sent was on its way.
    pub stalls: u64,
    /// Fuel that it used.
    pub fuel: u64,
    /// The last fault.
    pub last_fault: Option<ModuleFault>,
}

impl Comm {
    /// Makes another communicator of the same ranks, with a module: WebAssembly, as bytes or as text. All
    /// ranks must call it, with the same code. It is compiled here and now, and starts with empty state.
    pub fn load_module(&self, name: &str, code: &[u8]) -> Result<Module, Error> {
        let comm = self.dup_for_module(name)?;
        let loaded = start(code).map(|module| {
            let (group, placement) = comm.members().module_place();
            comm.plane().load(group, module, placement);
        });
        comm.agree_on_module("load_module", loaded.err().as_ref(), code)?;
        Ok(Module { comm })
    }

    /// Finds out whether all ranks could do it, and with the same code. Nobody goes on before everybody has.
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
        engine::agree(self.rank(), trouble, code, least)?
            .map_err(|why| Error::Module { call: self.call(self.what_all(call)), why })
    }
}

/// Compiles code, and makes a live module of it.
fn start(code: &[u8]) -> Result<Box<dyn Hooks>, Trouble> {
    engine::start(code, |name| std::env::var(name).ok())
}

impl Module {
    /// Another module takes over, with empty state; what was counted stays. All ranks must call it, when
    /// nothing is on its way that only the old one understands.
    pub fn replace(&self, code: &[u8]) -> Result<(), Error> {
        let started = start(code);
        // Only when all can: a rank that cannot would be left with the old one.
        self.comm.agree_on_module("replace", started.as_ref().err(), code)?;
        if let (Ok(module), Some(group)) = (started, self.comm.module_group()) {
            self.comm.plane().replace(group, module);
        }
        self.comm.barrier()
    }

    /// Unloads the module, when all ranks have called this.
    pub fn unload(self) -> Result<(), Error> {
        self.comm.barrier()?;
        if let Some(group) = self.comm.module_group() {
            self.comm.plane().unload(group);
        }
        Ok(())
    }

    /// What it has done at this rank.
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

    /// Waits until a counter that the module raises, from 0 to 7, is at least this.
    pub fn wait(&self, counter: u32, at_least: u64) -> Result<(), Error> {
        let reached = |group| self.comm.plane().wait_for_module(group, counter, at_least);
        if self.comm.module_group().is_some_and(reached) {
            return Ok(());
        }
        let why = match counter < MODULE_COUNTERS {
            true => "the module has been unloaded".into(),
            false => format!("modules have counters 0 to {}", MODULE_COUNTERS - 1),
        };
        Err(Error::Module { call: self.comm.call(self.comm.what_all("wait")), why })
    }
}

impl Deref for Module {
    type Target = Comm;

    fn deref(&self) -> &Comm {
        &self.comm
    }
}
