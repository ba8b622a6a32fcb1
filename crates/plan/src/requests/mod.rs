//! GPUs that a job could ask the cluster's queue for, and what to do with the requests that wait there.

mod options;
mod remedy;

pub(crate) use self::options::is_legal;
pub use self::options::{MOST_GPUS, options};
pub(crate) use self::remedy::{Instead, Pending, RequestRemedy, remedy};
