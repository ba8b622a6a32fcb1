//! Requests that a job could wait for in the cluster's queue, and what to do with those that wait there.

mod options;
mod remedy;

pub use self::options::{MOST_GPUS, options};
pub use self::remedy::{Candidate, Pending, Remedy, choose, remedy};
