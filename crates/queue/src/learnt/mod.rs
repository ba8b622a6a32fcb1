//! The waits of a site, learnt from looks at its queue: what looks have shown, kept from look to look, and whether what was learnt of
//! it by `hsched_waits` estimates starts better than the player does.

mod player;
mod queue_figures;
mod seen_job;
mod site_log;
mod site_model;

pub use self::seen_job::{NumberOf, SeenJob};
pub use self::site_log::SiteLog;
pub use self::site_model::{Comparison, LearntBasis, MOST_JOBS, PastScore, SiteModel};
