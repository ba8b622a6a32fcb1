//! GPUs that a job could request from the cluster's queue, and remedies for its pending requests.

mod options;
mod remedy;

pub(crate) use self::options::is_legal;
pub use self::options::{MOST_GPUS, options};
pub(crate) use self::remedy::{Instead, PendingEstimates, RequestRemedy, remedy};
