//! What is known about GPU models: names, memory, speed, MIG profiles.
//!
//! One table, `gpus.toml`, with a source for each entry; it knows no cluster and no job.

mod gpu;
mod recognise;
mod table;

pub use self::gpu::{Gpu, Memory, Tflops};
pub use self::recognise::{Recognised, Slice, count_for, nominal_watts, recognise, reference_units};
pub use self::table::{gpus, names, source, spellings};
