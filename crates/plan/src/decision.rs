//! Decisions of policies, and the interfaces of policies and placers.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use thiserror::Error;

use crate::bound::Bound;
use crate::{Placement, Problem, Sharing, Verdict};
use hsched_model::{JobName, RequestId, Seconds, Time};

/// Decides over time which jobs hold which GPUs.
pub trait Policy {
    /// Returns the name by which users select the policy.
    fn name(&self) -> &'static str;

    /// Returns the wrapped policy, whose properties and memory a wrapper has unless it overrides them; `None`
    /// for a policy that wraps no other.
    fn inner(&self) -> Option<&dyn Policy> {
        None
    }

    /// Returns the wrapped policy mutably, like [`Self::inner`].
    fn inner_mut(&mut self) -> Option<&mut dyn Policy> {
        None
    }

    /// Returns the parameters that influence the policy's decisions, in words. Policies with equal names and
    /// parameters make equal decisions.
    fn parameters(&self) -> String {
        self.inner().map(Policy::parameters).unwrap_or_default()
    }

    /// Returns the round length of a round-based policy.
    fn round(&self) -> Option<Seconds> {
        self.inner().and_then(Policy::round)
    }

    /// Returns whether the policy's jobs may wait in the cluster's queue for GPUs that are in use.
    fn queues(&self) -> bool {
        self.inner().is_some_and(Policy::queues)
    }

    /// Returns whether the policy also counts a restart cost for first starts. A replay must then include
    /// this cost.
    fn starts_cost(&self) -> bool {
        self.inner().is_some_and(Policy::starts_cost)
    }

    /// Returns whether the policy's searches have no end of their own, so that the caller should set a time
    /// limit.
    fn needs_budget(&self) -> bool {
        self.inner().is_some_and(Policy::needs_budget)
    }

    /// Returns how the policy splits batches over the ranks of a job.
    fn sharing(&self) -> Sharing {
        self.inner().map_or(Sharing::Balanced, Policy::sharing)
    }

    /// Returns the plan from this moment on. Jobs that the plan does not name stay as they are.
    ///
    /// Equal problems and equal memories give equal plans, unless a search was stopped.
    ///
    /// # Errors
    /// If the policy does not support this problem. The error gives advice.
    fn decide(&mut self, problem: &Problem, budget: &Budget<'_>) -> Result<Plan, PolicyError>;

    /// Returns the data that the policy needs for its next decision if this process ends in between; `None`
    /// for most policies.
    fn memory(&self) -> Option<Memory> {
        self.inner().and_then(Policy::memory)
    }

    /// Restores the policy's memory. The policy may ignore a memory of another version.
    fn remember(&mut self, memory: &Memory) {
        if let Some(policy) = self.inner_mut() {
            policy.remember(memory);
        }
    }
}

/// Assigns GPUs to jobs at one point in time and ignores running jobs.
pub trait Placer {
    /// Returns the name by which users select the placer.
    fn name(&self) -> &'static str;

    /// Returns the parameters that influence the placements, in words.
    fn parameters(&self) -> String {
        String::new()
    }

    /// Returns whether the search has no end of its own, so that the caller should set a time limit.
    fn needs_budget(&self) -> bool {
        false
    }

    /// Returns how the placer splits batches over the ranks of a job.
    fn sharing(&self) -> Sharing {
        Sharing::Balanced
    }

    /// Returns a verdict for every job of the problem, none of which holds GPUs.
    ///
    /// The search calls `stop` to learn whether to end with the best plan so far. Equal problems give equal
    /// assignments unless the search was stopped.
    ///
    /// # Errors
    /// If the placer does not support this problem; the error gives advice.
    fn place(&self, problem: &Problem, stop: &dyn Fn() -> bool) -> Result<Assignment, PolicyError>;

    /// Returns data that shortens the next search, like [`Policy::memory`]; `None` for most placers.
    fn memory(&self) -> Option<Memory> {
        None
    }

    /// Restores the placer's memory, like [`Policy::remember`].
    fn remember(&mut self, _: &Memory) {}
}

/// The time budget of a decision's searches.
#[derive(Clone, Copy)]
pub struct Budget<'a> {
    /// Starts a search, which may have its own time limit.
    pub begin: &'a dyn Fn(),
    /// Returns whether the search must end with the best plan so far.
    pub stop: &'a dyn Fn() -> bool,
}

/// The data that a policy remembers between two decisions, in its own format; its caller stores them
/// without interpretation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// The policy that wrote the memory.
    pub policy: String,
    /// The version of the format.
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

/// The plan from a decision on: jobs stay as they are, except those named here.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Decisions by job index, each job at most once, in the order in which they are carried out.
    pub changes: Vec<(usize, Decision)>,
    /// The time at which the policy wants to be called again even without a change; a time in the past means
    /// the next turn.
    pub wake: Option<Time>,
    /// Questions about the queue: a job on some GPUs. The policy is called again with the answers.
    pub questions: Vec<(usize, Placement)>,
    /// Jobs for which the policy needs the start estimates of all requests. The policy is called again with
    /// the answers.
    pub inquiries: Vec<usize>,
    /// The request with which a job waits for the GPUs of its decision, if the policy chose one.
    pub requests: Vec<(usize, RequestId)>,
    /// Notes for the user on the decision.
    pub notes: Vec<String>,
    /// Number of categories or assignments examined, if the policy counts them.
    pub categories: Option<u64>,
    /// Whether a search was stopped before its end.
    pub stopped: bool,
    /// A lower bound for all plans of the placed jobs, if the policy proves one.
    pub bound: Option<Bound>,
    /// Data of the policy about a round: keys and values of the event `round` in `simulate --events`.
    pub round: Option<Map<String, Value>>,
}

/// The decision about one job.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// The job holds these GPUs; several placements are its copies.
    Place {
        placements: Vec<Placement>,
        /// Whether these GPUs are in use, so that the job waits for them in the cluster's queue.
        queued: bool,
        /// The reason, for messages, if the job held other GPUs.
        why: String,
    },
    /// The job's pending request is changed in place to these GPUs, or a second request for these GPUs is
    /// submitted and the request that starts first is used.
    Adjust { placement: Placement, in_place: bool, why: String },
    /// The job holds no GPUs for now, and releases those that it has.
    Defer { why: String },
    /// The job completes before its last epoch.
    Finish { why: String },
    /// The job can never run on this cluster in its present state.
    Reject { why: String },
}

/// A placer's decisions for all jobs of a problem.
#[derive(Clone, Debug, PartialEq)]
pub struct Assignment {
    /// Verdict by job.
    pub verdicts: Vec<Verdict>,
    /// Number of categories or assignments examined, if the placer counts them.
    pub categories: Option<u64>,
    /// Whether `stop` ended the search before its end.
    pub stopped: bool,
    /// A lower bound for all plans of the placed jobs, if the placer proves one.
    pub bound: Option<Bound>,
}

impl<'a> Budget<'a> {
    /// Returns a single budget for all searches together.
    pub fn until(stop: &'a dyn Fn() -> bool) -> Self {
        Self { begin: &|| (), stop }
    }
}

impl Decision {
    /// Returns the decision that places a job on these free GPUs.
    pub fn place(placement: Placement) -> Self {
        Self::Place { placements: vec![placement], queued: false, why: String::new() }
    }

    /// Returns the decision as the verdict on a pending job.
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
    /// Returns the error of a policy that would have to examine `count` (in digits) items.
    pub(super) fn too_large(
        policy: &'static str,
        what: &'static str,
        count: &str,
        limit: u64,
        instead: &'static str,
    ) -> Self {
        // Numbers of more than 12 digits are abbreviated.
        let count = if count.len() > 12 { format!("about 10^{}", count.len() - 1) } else { count.to_owned() };
        Self::TooLarge { policy, what, count, limit, instead }
    }
}
