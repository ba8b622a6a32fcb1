//! Waits of requests in a queue, learnt from past waits: boosted trees for the hazard of a start, and
//! intervals calibrated with the estimates of the last days.
//!
//! Jobs that have not started count as censored. Each estimate uses only data known at its look. The crate
//! uses waits as plain numbers and does not depend on snapshots or Slurm.

mod coding;
mod density;
mod features;
mod grower;
mod hazard_model;
mod hazard_trees;
mod interval;
mod survival;
mod wait_history;
mod wait_record;

pub use self::density::WaitDensity;
pub use self::hazard_model::HazardModel;
pub use self::interval::{PastEstimates, Spread, WINDOW_DAYS};
pub use self::wait_history::{LookRequests, WaitHistory};
pub use self::wait_record::{FIGURES, QueueFigures, WaitRecord};
