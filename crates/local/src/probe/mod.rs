//! The GPUs of this machine from NVML, and data about the host; a missing driver is not an error.
//!
//! [`look`] queries the machine and returns plain [`Facts`]. [`node`] converts these to the node that the
//! rest of hsched uses; it does not access the machine, so tests can call it with any facts.

mod facts;
mod nvml;
mod translate;

use sysinfo::System;

pub use self::facts::{Facts, GpuDevice, Link, MigDevice, Pcie, Peer};
pub use self::translate::{gpu_types, node};

/// Returns the memory of this machine that is free or reclaimable, in bytes.
pub(crate) fn available_memory() -> u64 {
    let mut system = System::new();
    system.refresh_memory();
    system.available_memory()
}

/// Returns what this machine reports about itself; unknown values are left out, with a note if they matter.
pub fn look() -> Facts {
    let mut system = System::new();
    system.refresh_memory();
    let cpus = std::thread::available_parallelism().map_or(0, |count| count.get() as u64);
    let mut facts = Facts {
        host: System::host_name().unwrap_or_default(),
        cpus,
        memory: system.total_memory(),
        memory_available: system.available_memory(),
        ..Facts::default()
    };
    nvml::ask(&mut facts);
    facts
}
