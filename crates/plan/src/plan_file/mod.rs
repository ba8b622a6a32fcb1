//! Plan files: a checked plan as JSON with all data needed to submit it elsewhere and later; written and
//! read.

mod certificate;
mod check;
mod file;
mod job;
mod limit;
mod node;
mod speed;

pub use self::certificate::Certificate;
pub use self::file::{Capacity, PlanFile, PlanFileError, SolvedProblem};
pub use self::job::{PlanGpus, PlanRank, PlanReplica, PlanVerdict, PlannedJob};
pub use self::node::{PlanNode, PlanPartition, PlanSelector, TypeCount};
pub use self::speed::{PlanSpeed, SpeedSource};
