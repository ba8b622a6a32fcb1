//! Speeds: records of measurements are combined into a matrix of jobs and GPU types.
//!
//! Knows nothing about placements and never decides which GPUs a job gets.

mod cache;
mod estimate;
mod fit;
mod matrix;
mod record;
mod sample;

pub use self::cache::{Cache, Measured};
pub use self::estimate::{Estimate, Method};
pub use self::fit::{Reading, fit};
pub use self::matrix::{Cell, Known, Source, ThroughputMatrix, Unusable, replica_size};
pub use self::record::{Aside, Point, Record, Stated};
pub use self::sample::{LearnRule, Lesson, Refusal, Sample, SampleSource, SpeedKey};
