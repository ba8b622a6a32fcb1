//! The waits of a site, learnt from looks at its queue: boosted trees of the hazard of a start, and intervals that are calibrated by
//! day.
//!
//! Jobs that have not started count as censored. Each estimate uses what was known at its look and nothing later.

mod coding;
mod density;
mod features;
mod grower;
mod hazard_model;
mod hazard_trees;
mod interval;
mod player;
mod queue_figures;
mod seen_job;
mod site_log;
mod site_model;
mod survival;
mod wait_history;
mod wait_record;

pub use self::density::WaitDensity;
pub use self::hazard_model::HazardModel;
pub use self::interval::{PastEstimates, Spread, WINDOW_DAYS};
pub use self::seen_job::{NumberOf, SeenJob};
pub use self::site_log::SiteLog;
pub use self::site_model::{Comparison, LearntBasis, MOST_EXAMPLES, PastScore, SiteModel};
pub use self::wait_history::{LookRequests, WaitHistory};
pub use self::wait_record::{FIGURES, QueueFigures, WaitRecord};
