//! Loading, replacing and unloading the modules of a rank, for application threads.

use ferrywire_nic::{Module, ModuleStats, Placement};

use crate::driver::Driver;

impl Driver {
    /// Loads `module`: it gets the messages of `group`, whichever thread turns the NIC.
    pub fn load(&self, group: u16, module: Box<dyn Module>, placement: Placement) {
        // SAFETY: nothing is lent.
        unsafe { self.submit(|nic, port| nic.load(group, module, placement, port)) }
    }

    /// Replaces the module of `group`. False if none is loaded.
    pub fn replace(&self, group: u16, module: Box<dyn Module>) -> bool {
        // SAFETY: nothing is lent.
        unsafe { self.submit(|nic, _| nic.replace(group, module)) }.is_some()
    }

    /// Unloads the module of `group`.
    pub fn unload(&self, group: u16) {
        // Dropped after the lock is released.
        // SAFETY: nothing is lent.
        drop(unsafe { self.submit(|nic, port| nic.unload(group, port)) });
    }

    /// The statistics of a module, if it is loaded.
    pub fn module_stats(&self, group: u16) -> Option<ModuleStats> {
        self.inspect(|nic| nic.module_stats(group))
    }
}
