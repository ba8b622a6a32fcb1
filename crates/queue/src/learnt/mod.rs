//! Waits of a site learnt from looks at its queue: the data kept from look to look, and whether estimates
//! learnt from them by `hsched_waits` are better than the simulation's estimates.

mod player;
mod queue_figures;
mod seen_job;
mod site_log;
mod site_model;

pub use self::seen_job::SeenJob;
pub use self::site_log::SiteLog;
pub use self::site_model::{Comparison, LearntBasis, MOST_JOBS, PastScore, SiteModel};
