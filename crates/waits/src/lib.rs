//! How long requests wait in a queue, learnt from past waits: boosted trees of the hazard of a start, and intervals that are
//! calibrated by day.
//!
//! Jobs that have not started count as censored. Each estimate uses what was known at its look and nothing later. The crate knows
//! waits as numbers only, and nothing of snapshots or Slurm.

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
