//! The plan as JSON: what `hsched plan` prints and `hsched submit` reads (schema `hsched.plan/1`).

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use thiserror::Error;

use crate::plan_file::certificate::Certificate;
use crate::plan_file::job::PlannedJob;
use crate::plan_file::node::{PlanNode, PlanPartition, PlanSelector, TypeCount};
use crate::{Bound, CheckedPlan, Deadlines, Objective, PlanFigures, Problem, Quality, heterogeneity};
use hsched_model::formats;
use hsched_model::{Access, Cluster, GpuType, Job, NodeName, Seconds, Selector};

/// The schema that this version writes and reads.
const SCHEMA: &str = "hsched.plan/1";

/// Maximum number of devices of one type in a node whose order is stored; far more than any node has.
const MOST_DEVICES: u32 = 1024;

/// A plan with all data needed to submit it elsewhere and later.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanFile {
    pub schema: String,
    pub policy: String,
    pub seed: u64,
    pub objective: Objective,
    pub objective_value: Option<f64>,
    pub mean_jct_s: Option<f64>,
    pub makespan_s: Option<f64>,
    pub fairness: Option<f64>,
    /// The fraction of jobs with a deadline that meet it; jobs without a placement count as late.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadlines_met: Option<f64>,
    /// Heterogeneity of the offered GPUs for these jobs: mean speed over the slowest (eq. 35).
    #[serde(default)]
    pub heterogeneity: Option<f64>,
    /// A lower bound for all plans of the placed jobs.
    pub lower_bound: Option<f64>,
    pub gap: Option<f64>,
    pub proven_optimal: bool,
    pub certificate: Option<Certificate>,
    pub categories: Option<u64>,
    pub solve_s: Option<f64>,
    pub bound_s: Option<f64>,
    /// The GPUs that the plan could use.
    pub capacity: Capacity,
    /// Whether the jobs must run on exactly these nodes, not on nodes of the same kind.
    pub pinned: bool,
    pub jobs: Vec<PlannedJob>,
    pub network_gbps: f64,
    /// The nodes with offered GPUs.
    pub nodes: Vec<PlanNode>,
    pub partitions: Vec<PlanPartition>,
    /// Notes on what was excluded and why, and other remarks for the user.
    pub notes: Vec<String>,
}

/// The GPUs that a plan may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Capacity {
    /// GPUs that are free now or held by jobs of this plan.
    Free,
    /// All GPUs on nodes that are up.
    Up,
    /// The number of GPUs of each type that the setting `capacity` gives.
    Limits,
}

/// A solved problem, with the parameters of the command line.
#[derive(Clone, Copy, Debug)]
pub struct SolvedProblem<'a> {
    pub problem: &'a Problem,
    /// Jobs in the problem's order.
    pub jobs: &'a [Job],
    pub cluster: &'a Cluster,
    pub access: &'a Access,
    pub plan: &'a CheckedPlan,
    pub policy: &'a str,
    /// Time that the policy took, if it was measured.
    pub solve: Option<Seconds>,
    /// A lower bound for all plans of the placed jobs, and the time to prove it if that was separate from the
    /// policy's.
    pub proven: Option<&'a (Bound, Option<Seconds>)>,
}

/// Why a text is not a valid plan file for this version.
#[derive(Debug, Error)]
pub enum PlanFileError {
    #[error("not a plan file")]
    Json {
        #[source]
        source: serde_json::Error,
    },
    #[error("its schema is {found}; this version reads {SCHEMA:?}")]
    Schema { found: String },
    #[error("{place}: {what}")]
    Content { place: String, what: String },
}

impl PlanFile {
    /// Returns the file of a solved problem.
    ///
    /// `notes` contain the exclusions with their reasons, and other remarks for the user.
    pub fn new(solved: SolvedProblem<'_>, notes: Vec<String>, capacity: Capacity, pinned: bool) -> Self {
        let SolvedProblem { problem, jobs, cluster, access, plan, policy, solve, proven } = solved;
        let outcome = PlanFigures::of(problem, plan);
        let quality = proven.zip(outcome).and_then(|((bound, _), outcome)| Quality::new(bound, &outcome));
        let all = plan.placed().len() == problem.jobs.len();
        let jobs = plan.verdicts().iter().zip(jobs.iter().map(formats::jobs::to_json)).enumerate();
        let partition = |job: usize| access.partition(job).map(str::to_owned);
        let jobs = jobs.map(|(job, (verdict, spec))| PlannedJob {
            partition: partition(job),
            ..PlannedJob::new(problem, job, verdict, spec)
        });
        let nodes =
            problem.nodes.iter().map(|node| PlanNode::new(node, &problem.gpu_types, cluster)).collect();
        Self {
            schema: SCHEMA.to_owned(),
            policy: policy.to_owned(),
            seed: problem.seed,
            objective: problem.objective,
            objective_value: outcome.map(|outcome| outcome.objective_value),
            mean_jct_s: outcome.map(|outcome| outcome.mean_jct),
            makespan_s: outcome.map(|outcome| outcome.makespan),
            fairness: outcome.map(|outcome| outcome.fairness),
            deadlines_met: Deadlines::of(problem, plan).map(Deadlines::share),
            heterogeneity: heterogeneity(problem),
            lower_bound: quality.map(|quality| quality.lower_bound),
            gap: quality.map(|quality| quality.gap),
            proven_optimal: all && quality.is_some_and(Quality::is_optimal),
            certificate: proven.map(|(bound, _)| Certificate::new(problem, plan, bound)),
            categories: plan.plan().categories,
            solve_s: solve.map(|time| time.0),
            bound_s: proven.and_then(|(_, time)| *time).map(|time| time.0),
            capacity,
            pinned,
            jobs: jobs.collect(),
            network_gbps: problem.network.gigabits_per_second(),
            nodes,
            partitions: cluster.partitions.iter().map(PlanPartition::new).collect(),
            notes,
        }
    }

    /// Reads a plan file.
    ///
    /// # Errors
    /// If the text is not JSON with this schema.
    pub fn parse(text: &str) -> Result<Self, PlanFileError> {
        let json = |source| PlanFileError::Json { source };
        let error = match serde_json::from_str::<Self>(text) {
            Ok(file) if file.schema == SCHEMA => return Ok(file),
            other => other.err(),
        };
        let value: Value = serde_json::from_str(text).map_err(json)?;
        let found = value.get("schema");
        match error {
            Some(source) if found.and_then(Value::as_str) == Some(SCHEMA) => Err(json(source)),
            _ => {
                let found = found.map_or_else(|| "missing".to_owned(), Value::to_string);
                Err(PlanFileError::Schema { found })
            }
        }
    }

    /// Returns whether a text looks like a plan file rather than a job file.
    pub fn recognises(text: &str) -> bool {
        let marks = ["\"schema\"", "\"verdict\""];
        text.trim_start().starts_with('{') && marks.iter().any(|mark| text.contains(mark))
    }

    /// Returns the file's text: JSON with a newline at its end.
    ///
    /// # Errors
    /// If it cannot be represented as JSON.
    pub fn to_json(&self) -> Result<String, PlanFileError> {
        let mut text = serde_json::to_string_pretty(self).map_err(|source| PlanFileError::Json { source })?;
        text.push('\n');
        Ok(text)
    }

    /// Returns the plan's id: twelve hexadecimal digits that depend on everything except the solver's
    /// timings.
    ///
    /// # Errors
    /// The errors of [`Self::to_json`].
    pub fn id(&self) -> Result<String, PlanFileError> {
        let untimed = Self { solve_s: None, bound_s: None, ..self.clone() };
        let digest = Sha256::digest(untimed.to_json()?.as_bytes());
        let mut id = String::new();
        for byte in digest.iter().take(6) {
            let _ = write!(id, "{byte:02x}");
        }
        Ok(id)
    }

    /// Returns the nodes whose GPUs have no type in Slurm, and how to request them.
    pub fn untyped(&self) -> BTreeMap<NodeName, Selector> {
        let selector = |selector: &PlanSelector| match selector {
            PlanSelector::Feature(feature) => Selector::Feature(feature.clone()),
            PlanSelector::Name => Selector::Name,
        };
        let to_node = |node: &PlanNode| Some((node.name.clone(), selector(node.untyped.as_ref()?)));
        self.nodes.iter().filter_map(to_node).collect()
    }

    /// Returns the order of devices on nodes with several GPU types.
    pub fn device_order(&self) -> Vec<(NodeName, Vec<GpuType>)> {
        let mixed = self.nodes.iter().filter(|node| node.devices.len() > 1);
        let each =
            |device: &TypeCount| vec![device.gpu_type.clone(); device.count.min(MOST_DEVICES) as usize];
        let order = |node: &PlanNode| (node.name.clone(), node.devices.iter().flat_map(each).collect());
        mixed.map(order).collect()
    }
}

pub(super) fn wrong(place: String, what: &str) -> PlanFileError {
    PlanFileError::Content { place, what: what.to_owned() }
}
