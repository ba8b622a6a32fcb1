//! The model of Slurm's queue: a snapshot of the queue, and estimates of when requests would start.
//!
//! The model uses neither Slurm nor files nor a clock. Times, seeds and budgets are arguments.

mod arrivals;
mod awaited;
mod chance;
mod changes;
mod constraint;
mod estimate;
mod forecast;
mod future;
mod growth;
mod hidden;
mod history;
mod hopes;
mod in_any;
mod in_place_of;
pub mod learnt;
mod limits;
mod line;
mod moment;
mod node_timeline;
mod others;
mod parts;
mod pending_job;
mod play;
mod proportion;
mod queue_model;
mod queue_position;
mod race;
mod ranks;
mod reasons;
mod score;
mod shape;
mod shares;
mod snapshot;
mod snapshot_file;
mod snapshot_jobs;
#[cfg(test)]
mod test_request;
mod together;
mod whose;
mod why;

// Components of questions and snapshots.
pub use hsched_model::{Asks, FurtherOptions, GpuAsk, Request, RequestId};

pub use self::changes::{
    Change, ChangeEstimate, ChangeEstimates, ChangeQuestion, ChangeSet, Drawback, Need, PastRun, PastRuns,
    RunEnd, estimate_changes, jobs_in_words, obstacle, others_preempted, own_preempted,
};
pub use self::constraint::{is_plain_constraint, meets};
pub use self::estimate::{Calibration, Estimate, point_of};
pub use self::forecast::{Forecast, Question, Start, StartEstimate, forecast, forecast_at};
pub use self::growth::{Growth, GrowthSource};
pub use self::limits::{Limit, LimitUse, ReachedLimit, Refusal};
pub use self::pending_job::PendingJob;
pub use self::queue_position::{PriorityEstimate, PrioritySource, QueuePosition};
pub use self::race::race;
pub use self::reasons::{LiftedBy, LimitReason, Reason, Resource, reason_with_blanks};
pub use self::score::{Score, StartPrediction};
pub use self::shares::{Branch, Shares};
pub use self::snapshot::{
    AgeWeight, Billing, EndedJob, GpuCount, HeldNodes, NodeHolding, NodeUse, QueueAccount, QueueJob,
    QueueNode, QueuePartition, Reservation, Scheduling, Snapshot, Weigh,
};
pub use self::snapshot_file::SnapshotError;
pub use self::together::{JobChoice, Jobs, Offer, choose_together};
pub use self::why::{
    Advice, Ahead, AheadJob, Cause, Futures, JobFacts, Remedy, StartAdvice, StateKind, WaitExplanation,
    asked, explain, is_component, span, update_id,
};
