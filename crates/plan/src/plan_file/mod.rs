//! Plan files: a checked plan as JSON with all that is needed to submit it elsewhere and later, and back.

mod check;
mod file;
mod limit;
mod speed;

pub use self::file::{PlanFile, PlanFileError, PlannedJob, Solved};
pub use self::speed::PlanSpeed;
