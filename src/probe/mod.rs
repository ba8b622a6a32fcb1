//! This machine's GPUs, from NVML, and its host; no driver is a normal answer.
//!
//! [`look`] asks and gives plain [`Facts`]; [`node`] makes of them what the rest of hsched plans over and sees
//! no machine, so that it can be tried with facts of any.

mod facts;
mod nvml;
mod translate;

use sysinfo::System;

pub use self::facts::{Facts, GpuDevice, Link, MigDevice, Pcie, Peer};
pub use self::translate::{gpu_types, node};

/// Returns the memory of this machine that is free or can be freed, in bytes.
pub fn available_memory() -> u64 {
    let mut system = System::new();
    system.refresh_memory();
    system.available_memory()
}

/// Returns what this machine says of itself; what cannot be told is missing, with a note where that matters.
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
