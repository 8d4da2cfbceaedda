//! Modules of a rank, as the threads of its application handle them.

use ferrywire_nic::{Module, ModuleStats, Placement};

use crate::driver::Driver;

impl Driver {
    /// Messages of `group` go to `module` from now on, whoever turns the NIC.
    pub fn load(&self, group: u16, module: Box<dyn Module>, placement: Placement) {
        // SAFETY: nothing is lent.
        unsafe { self.submit(|nic, port| nic.load(group, module, placement, port)) }
    }

    /// Another module takes over. False if there is none to take over from.
    pub fn replace(&self, group: u16, module: Box<dyn Module>) -> bool {
        // SAFETY: nothing is lent.
        unsafe { self.submit(|nic, _| nic.replace(group, module)) }.is_some()
    }

    /// Takes a module out.
    pub fn unload(&self, group: u16) {
        // It is dropped when the NIC is free again.
        // SAFETY: nothing is lent.
        drop(unsafe { self.submit(|nic, port| nic.unload(group, port)) });
    }

    /// What a module has done, if it is loaded.
    pub fn module_stats(&self, group: u16) -> Option<ModuleStats> {
        self.inspect(|nic| nic.module_stats(group))
    }
}
