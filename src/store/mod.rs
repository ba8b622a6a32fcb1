//! Everything on disk: the plan file, the runs and measured speeds under the state directory, and their lock.
//!
//! Owns every on-disk type; each names its version, and a newer version is refused, never guessed at.

mod place;
mod plan_check;
mod plan_file;
mod plan_speed;
mod runs;
mod speeds;

pub use self::place::Place;
pub use self::plan_file::{PlanFile, PlanFileError, PlannedJob, Solved};
pub use self::plan_speed::PlanSpeed;
pub use self::runs::{Entry, Run, RunError, Runs};
pub use self::speeds::{SpeedFile, SpeedFileError};
