//! What is known about speeds: measurement records to a matrix of jobs and GPU types.
//!
//! Knows nothing of placements and never decides which GPUs a job gets.

mod matrix;

pub use self::matrix::{Cell, Known, Source, ThroughputMatrix, Unusable};
