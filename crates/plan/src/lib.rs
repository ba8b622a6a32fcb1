//! The planner: policies that decide which job gets which GPUs, checks of their plans, and bounds that no
//! plan can beat.
//!
//! A [`Policy`] takes one [`Problem`] and returns one [`Plan`], which [`verify()`] checks. A [`Placer`]
//! assigns GPUs at one point in time; [`Replan`] turns it into a policy. Neither has access to Slurm, files,
//! the clock or other policies, except a policy that it wraps. The [`Registry`] finds them by name.

pub mod curve;
pub mod plan_file;
pub mod solve;
pub mod throughput;

mod admission;
mod advice;
mod alternative;
mod blocks;
mod bound;
mod category;
mod classes;
mod cluster_view;
mod cost;
mod decision;
mod dual;
mod due;
mod due_order;
mod exhaustive;
mod explain;
mod explanation;
mod extract;
mod fairness;
mod fixed;
mod flag;
mod has;
mod horizon;
mod job_model;
mod jps;
pub mod kit;
mod knowledge;
mod market;
mod offered;
mod optimal;
mod optimus;
mod pace;
mod packing;
mod parameters;
mod pareto;
mod parts;
mod per_group;
mod placement;
mod pricing;
mod problem;
mod progress;
mod registry;
mod replace_all;
mod replan;
mod replica;
mod replica_descent;
mod replica_market;
mod requests;
mod share;
mod shared;
mod single_gpus;
mod stacking;
mod steps;
mod stowing;
mod taken;
mod trace_bound;
mod verify;
mod whole_epochs;

pub use self::admission::refusal;
pub use self::advice::{FewerGpus, advice};
pub use self::alternative::Alternative;
pub use self::bound::Bound;
pub use self::cluster_view::ClusterView;
pub use self::cost::{EpochTime, epoch_as_shared};
pub use self::decision::{Assignment, Budget, Decision, Memory, Placer, Plan, Policy, PolicyError};
pub use self::due::{Deadlines, Due, Dues};
pub use self::explain::explain;
pub use self::explanation::{
    Explanation, GpuCountEffect, JobExplanation, Obstacle, PlacementLimit, ReplicaExplanation,
    TypeExplanation, TypeMarket,
};
pub use self::extract::Extract;
pub use self::fairness::{fairness, heterogeneity};
pub use self::flag::{Flag, FlagKind, named};
pub use self::horizon::{Horizon, HorizonParameters};
pub use self::job_model::{Aims, Exclusion, JobModel, Rounds, TypeModel};
pub use self::kit::Repacking;
pub use self::knowledge::Knowledge;
pub use self::offered::{Basis, UnclaimedResources};
pub use self::optimal::bound;
pub use self::pace::{Pace, Paces};
pub use self::parameters::{ExecutionMode, FlagValues, Parameters};
pub use self::pareto::{ParetoPlan, pareto};
pub use self::per_group::PerGroup;
pub use self::placement::{Placement, PlanFigures, Quality, Rank, Slot, Verdict};
pub use self::problem::{
    Host, JobStartEstimates, Objective, Problem, ProblemChanges, ProblemError, RequestStartEstimate, Room,
    TypeLimit, WaitForecast, WorkerNode,
};
pub use self::progress::{Eligibility, HeldPlacement, HoldStage, Progress};
pub use self::registry::{Entry, Make, POLICIES, Registry, RegistryError};
pub use self::replan::{Moves, Replan, Replanning};
pub use self::replica::{ReplicaModel, ReplicaPlacement};
pub(crate) use self::requests::{Instead, PendingEstimates, RequestRemedy, is_legal, remedy};
pub use self::requests::{MOST_GPUS, options};
pub(crate) use self::shared::{SharedPolicy, SolePolicy};
pub use self::taken::TakenResources;
pub use self::trace_bound::{TraceBound, TraceCertificate, bound_of_prices, trace_bound};
pub use hsched_model::Sharing;

pub use self::verify::{CheckedPlan, Violation, checked, verify, verify_change};
