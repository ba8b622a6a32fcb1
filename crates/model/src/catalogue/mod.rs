//! Data on GPU models: names, memory, speed, MIG profiles.
//!
//! It is one table, `gpus.toml`, with a source for each entry, independent of clusters and jobs.

mod gpu;
mod recognise;
mod table;

pub use self::gpu::{Gpu, GpuMemory, Tflops};
pub use self::recognise::{GpuNameMatch, MigSlice, count_for, nominal_watts, recognise, reference_units};
pub use self::table::{gpus, names, source, spellings};
