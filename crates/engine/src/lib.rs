//! The engine: turns observations into events, and events and a policy's decisions into actions.
//!
//! It starts no programs. Only [`store`] reads and writes files (except that [`live`] reads
//! `/proc/self/status` and checks whether the directories of jobs exist), and only [`clock`] reads the time
//! (except that [`store`] checks the age of leftover files). A [`World`] (Slurm, local devices or a simulated
//! cluster) observes and executes actions; a [`Keeper`] stores the state. Neither of them makes decisions.

pub mod clock;
pub mod live;
pub mod pool;
pub mod render;
pub mod store;

mod action;
mod after;
mod amendment;
mod apply;
mod backend_kind;
mod chain;
mod decide;
mod early;
mod ending;
mod event;
mod fingerprint;
mod gpus;
mod hear;
mod kept_off;
mod lateness;
mod mark;
mod metric_range;
mod node_times;
mod notice;
mod observation;
mod plan_executor;
mod planner;
mod promise;
mod queued_submissions;
mod requests;
mod resume_point;
mod rules;
mod run;
mod run_result;
mod run_usage;
mod samples;
mod script_job;
mod script_notice;
mod shares;
mod stall;
mod stall_tracks;
mod state;
mod step;
mod submission;
mod teach;
mod timeouts;
mod trial;
mod turn;
mod view;

pub use hsched_plan::JobStartEstimates;

pub use self::action::Action;
pub use self::amendment::{Amendment, GpuRequest, Inquiry};
pub use self::apply::apply;
pub use self::backend_kind::BackendKind;
pub use self::early::EarlyEnd;
pub use self::event::{Answer, End, EpochReport, Event, News, RankReport, ReportedShare, StepTiming};
pub use self::gpus::Gpus;
pub use self::kept_off::KeptOff;
pub use self::metric_range::MetricRange;
pub use self::node_times::{NodeTimes, SlowNode};
pub use self::notice::notice;
pub use self::observation::{Observation, QueueReason, QueueState, Sighting, TaggedJob};
pub use self::planner::{Planner, WaitQuestion, named_ranks};
pub use self::queued_submissions::spares;
pub use self::requests::{JobRequests, Knows, Listing, SpeedsOf, requests};
pub use self::resume_point::ResumePoint;
pub use self::rules::Rules;
pub use self::run::{PlannedSubmission, Run};
pub use self::run_result::{RunResult, RunSubmission};
pub use self::run_usage::{Energy, EnergySource, GpuUsage};
pub use self::samples::{Activity, NodeSample, NodeSamples, RankSample, SampledUse};
pub use self::script_job::{RequestPart, ScriptEnd, ScriptFacts, ScriptJob, ScriptSubmission};
pub use self::script_notice::ScriptSighting;
pub use self::shares::{NewShares, SharesStage};
pub(crate) use self::stall::stall;
pub use self::stall::{Stall, StallKind};
pub use self::state::{JobState, Outcome, PastAttempt, Phase, State};
pub use self::step::{Step, step};
pub use self::submission::{
    AfterStop, Piece, Stage, StopProgress, Submission, SubmissionKey, SubmissionRecord,
};
pub use self::timeouts::due;
pub use self::trial::{Trials, TypeTrial};
pub use self::turn::{Keeper, KeepsNothing, Turn, TurnExecutor, Update, World, look, turn};
