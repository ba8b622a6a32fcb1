//! What a policy decides, and the interfaces of policies and placers.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use thiserror::Error;

use crate::bound::Bound;
use crate::{Placement, Problem, Verdict};
use hsched_model::{JobName, RequestId, Seconds, Time};

/// What decides over time: who holds which GPUs from now on.
pub trait Policy {
    /// Returns the name by which users choose the policy.
    fn name(&self) -> &'static str;

    /// Returns the policy inside, whose properties and memory a wrapper has unless it says otherwise; `None` for a policy
    /// that wraps no other.
    fn inner(&self) -> Option<&dyn Policy> {
        None
    }

    /// Returns the policy inside, as [`Self::inner`] does.
    fn inner_mut(&mut self) -> Option<&mut dyn Policy> {
        None
    }

    /// Returns the parameters that make it decide otherwise, in words; policies of one name and one text decide alike.
    fn parameters(&self) -> String {
        self.inner().map(Policy::parameters).unwrap_or_default()
    }

    /// Returns the length of the rounds in which it decides, where it is made for rounds.
    fn round(&self) -> Option<Seconds> {
        self.inner().and_then(Policy::round)
    }

    /// Returns whether it has jobs wait in the cluster's queue for GPUs that are in use.
    fn queues(&self) -> bool {
        self.inner().is_some_and(Policy::queues)
    }

    /// Returns whether it plans with the time of a restart for first starts, too, so that a replay of it has to spend it.
    fn starts_cost(&self) -> bool {
        self.inner().is_some_and(Policy::starts_cost)
    }

    /// Returns whether its searches go on for as long as they may, so that a caller should end them.
    fn needs_budget(&self) -> bool {
        self.inner().is_some_and(Policy::needs_budget)
    }

    /// Returns what shall hold from now on. Jobs that the plan does not name go on as they are.
    ///
    /// Equal problems and equal memories give equal plans unless a search was stopped.
    ///
    /// # Errors
    /// If the policy cannot treat this problem, with the remedy.
    fn decide(&mut self, problem: &Problem, budget: &Budget<'_>) -> Result<Plan, PolicyError>;

    /// Returns what it must know at its next decision, should this process end before; nothing for most.
    fn memory(&self) -> Option<Memory> {
        self.inner().and_then(Policy::memory)
    }

    /// Takes up what it knew; a memory of another version it may forget.
    fn remember(&mut self, memory: &Memory) {
        if let Some(policy) = self.inner_mut() {
            policy.remember(memory);
        }
    }
}

/// What places jobs on GPUs at one moment, and knows no time and no running jobs.
pub trait Placer {
    /// Returns the name by which users choose it.
    fn name(&self) -> &'static str;

    /// Returns the parameters that make it place otherwise, in words.
    fn parameters(&self) -> String {
        String::new()
    }

    /// Returns whether the search goes on for as long as it may, so that a caller should end it.
    fn needs_budget(&self) -> bool {
        false
    }

    /// Returns a verdict for every job of the problem, none of which holds GPUs.
    ///
    /// The search asks `stop` whether to end with the best so far. Equal problems give equal assignments unless it was
    /// stopped.
    ///
    /// # Errors
    /// If the placer cannot treat this problem, with the remedy.
    fn place(&self, problem: &Problem, stop: &dyn Fn() -> bool) -> Result<Assignment, PolicyError>;

    /// Returns what makes its next search short, as [`Policy::memory`] does; nothing for most.
    fn memory(&self) -> Option<Memory> {
        None
    }

    /// Takes up what it knew, as [`Policy::remember`] does.
    fn remember(&mut self, _: &Memory) {}
}

/// The time of a decision's searches.
#[derive(Clone, Copy)]
pub struct Budget<'a> {
    /// Called when a search begins, which may have time of its own.
    pub begin: &'a dyn Fn(),
    /// Whether the search is to end with the best so far.
    pub stop: &'a dyn Fn() -> bool,
}

/// What a policy remembers between two decisions, in its own words: its caller keeps it and does not read it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// The policy that wrote it.
    pub policy: String,
    /// The version of its words.
    pub version: u32,
    pub text: String,
}

/// Why a policy gives no plan.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PolicyError {
    #[error(
        "policy {policy}: {count} {what} are too many to enumerate (limit {limit}); use --policy {instead}"
    )]
    TooLarge { policy: &'static str, what: &'static str, count: String, limit: u64, instead: &'static str },
    #[error(
        "policy {policy} gives out single GPUs, and replicas of {job} have several; use --policy optimal"
    )]
    SingleGpus { policy: &'static str, job: JobName },
    #[error("policy {policy} returned an invalid plan: {violations}")]
    BreaksRules { policy: &'static str, violations: String },
}

/// What shall hold from now on: as before, except for the jobs named here.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Decisions by the job's number, each job at most once, in the order in which they are to be carried out.
    pub changes: Vec<(usize, Decision)>,
    /// When the policy wants to be asked again, though nothing may have changed by then; a moment that has passed is the
    /// next turn.
    pub wake: Option<Time>,
    /// What it must know of the queue first: a job on some GPUs. It is asked again with the answers.
    pub questions: Vec<(usize, Placement)>,
    /// Jobs of which it must know when all their requests would start. It is asked again with the answers.
    pub inquiries: Vec<usize>,
    /// By which of its requests a job is to wait for the GPUs of its decision, where it chose among them.
    pub requests: Vec<(usize, RequestId)>,
    /// What people should know of how it was decided.
    pub notes: Vec<String>,
    /// Categories or assignments that were looked at, where the policy counts them.
    pub categories: Option<u64>,
    /// Whether a search was stopped before its end.
    pub stopped: bool,
    /// What no plan for the placed jobs undercuts, where the policy proves something.
    pub bound: Option<Bound>,
    /// What the policy tells of a round: keys and values of the event `round` in `simulate --events`.
    pub round: Option<Map<String, Value>>,
}

/// What shall become of one job.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// It holds these GPUs; several placements are copies of it.
    Place {
        placements: Vec<Placement>,
        /// Whether these GPUs are in use, so that it waits for them in the cluster's queue.
        queued: bool,
        /// Why, for people, where it held others.
        why: String,
    },
    /// What it waits for in the cluster's queue is changed in place to these GPUs, or these are queued beside it: the first to
    /// start trains.
    Adjust { placement: Placement, in_place: bool, why: String },
    /// It holds none for now, and gives back what it has.
    Defer { why: String },
    /// It is done, though not all its epochs are.
    Finish { why: String },
    /// It never will hold any on this cluster as it stands.
    Reject { why: String },
}

/// A placer's decisions for all jobs of a problem.
#[derive(Clone, Debug, PartialEq)]
pub struct Assignment {
    /// Decision by job.
    pub verdicts: Vec<Verdict>,
    /// Categories or assignments that were looked at, where the placer counts them.
    pub categories: Option<u64>,
    /// Whether `stop` ended the search before its end.
    pub stopped: bool,
    /// What no plan for the placed jobs undercuts, where the placer proves something.
    pub bound: Option<Bound>,
}

impl<'a> Budget<'a> {
    /// Returns one budget for all searches together.
    pub fn until(stop: &'a dyn Fn() -> bool) -> Self {
        Self { begin: &|| (), stop }
    }
}

impl Decision {
    /// Returns the decision that a job gets these free GPUs.
    pub fn place(placement: Placement) -> Self {
        Self::Place { placements: vec![placement], queued: false, why: String::new() }
    }

    /// Returns the decision as the verdict on a job that waits.
    pub fn verdict(&self) -> Verdict {
        match self {
            Self::Place { placements, .. } => match placements.first() {
                Some(placement) => Verdict::Place(placement.clone()),
                None => Verdict::Defer { reason: String::new() },
            },
            Self::Adjust { placement, .. } => Verdict::Place(placement.clone()),
            Self::Defer { why } | Self::Finish { why } => Verdict::Defer { reason: why.clone() },
            Self::Reject { why } => Verdict::Reject { reason: why.clone() },
        }
    }
}

impl From<Verdict> for Decision {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Place(placement) => Self::place(placement),
            Verdict::Defer { reason: why } => Self::Defer { why },
            Verdict::Reject { reason: why } => Self::Reject { why },
        }
    }
}

impl From<Assignment> for Plan {
    fn from(assignment: Assignment) -> Self {
        let Assignment { verdicts, categories, stopped, bound } = assignment;
        let changes = verdicts.into_iter().map(Decision::from).enumerate().collect();
        Self { changes, categories, stopped, bound, ..Self::default() }
    }
}

impl PolicyError {
    /// Returns the error of a policy that would have to look at `count` (in digits) of something.
    pub(super) fn too_large(
        policy: &'static str,
        what: &'static str,
        count: &str,
        limit: u64,
        instead: &'static str,
    ) -> Self {
        // Nobody reads more digits than these.
        let count = if count.len() > 12 { format!("about 10^{}", count.len() - 1) } else { count.to_owned() };
        Self::TooLarge { policy, what, count, limit, instead }
    }
}
