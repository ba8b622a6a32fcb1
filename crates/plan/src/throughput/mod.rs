//! Speeds: records of measurements are combined into a matrix of jobs and GPU types.
//!
//! This module does not use placements and does not decide which GPUs a job gets.

mod cache;
mod estimate;
mod fit;
mod matrix;
mod record;
mod sample;

pub use self::cache::{Cache, MeasuredSpeed};
pub use self::estimate::{Method, SpeedEstimate};
pub use self::matrix::{SourcedSpeed, SpeedCell, SpeedOrigin, ThroughputMatrix, UnusableType, replica_size};
pub use self::record::{Aside, BatchPoint, SpeedRecord, StatedSpeed};
pub use self::sample::{LearnRule, Lesson, Sample, SampleRefusal, SampleSource, SpeedKey};
