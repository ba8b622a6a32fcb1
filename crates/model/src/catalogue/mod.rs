//! Data on GPU models: names, memory, speed, MIG profiles.
//!
//! The table `gpus.toml` has sources for each entry and does not depend on clusters or jobs.

mod gpu;
mod recognise;
mod table;

pub use self::gpu::{Gpu, GpuMemory, Tflops};
pub use self::recognise::{GpuNameMatch, MigSlice, count_for, nominal_watts, recognise, reference_units};
pub use self::table::{gpus, names, source, spellings};
