//! Policies: one [`Problem`] in, one [`Plan`] out, checked by [`verify()`] before anybody acts on it.
//!
//! A policy sees no Slurm, no file, no clock and no other policy; only the registry knows their names.

mod admission;
mod advice;
mod alternative;
mod blocks;
mod category;
mod cost;
mod dual;
mod exhaustive;
mod explain;
mod explanation;
mod fairness;
mod has;
mod jps;
mod market;
mod optimal;
mod optimus;
mod packing;
mod parts;
mod plan;
mod pricing;
mod problem;
mod registry;
mod share;
mod verify;

pub use self::advice::{Advice, advice};
pub use self::alternative::Alternative;
pub use self::cost::{EpochTime, epoch_as_shared};
pub use self::dual::Bound;
pub use self::explain::explain;
pub use self::explanation::{Change, Explanation, JobExplanation, Limit, Market, Obstacle, TypeExplanation};
pub use self::fairness::{equal_share_times, fairness, heterogeneity};
pub use self::optimal::bound;
pub use self::plan::{
    Memory, Outcome, Placement, Plan, Policy, PolicyError, Quality, Rank, Sharing, Slot, Verdict,
};
pub use self::problem::{JobModel, Objective, Problem, ProblemError, TypeModel, WorkerNode};
pub use self::registry::{Parameters, find, names};
pub use self::verify::{CheckedPlan, Violation, verify};
