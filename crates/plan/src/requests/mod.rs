//! Requests that a job could queue, and the rule for its pending ones.

mod options;
mod remedy;

pub use self::options::{MOST_GPUS, options};
pub use self::remedy::{Candidate, Pending, Remedy, choose, remedy};
