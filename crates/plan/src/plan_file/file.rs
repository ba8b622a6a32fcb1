//! The plan as JSON: what `hsched plan` prints and `hsched submit` reads (schema `hsched.plan/1`).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use thiserror::Error;

use crate::plan_file::PlanSpeed;
use crate::{
    Bound, CheckedPlan, Deadlines, Dues, Outcome, Problem, Quality, Rank, Slot, Verdict, WorkerNode,
    heterogeneity,
};
use hsched_model::formats;
use hsched_model::number::to_f64;
use hsched_model::{Access, Cluster, GpuType, Job, NodeName, Partition, Seconds, Selector};

/// The schema that this version writes and reads.
const SCHEMA: &str = "hsched.plan/1";

/// Devices of one type in a node whose order is written down; far more than any node has.
const MOST_DEVICES: u32 = 1024;

/// A plan with all that is needed to submit it elsewhere and later.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanFile {
    pub schema: String,
    pub policy: String,
    pub seed: u64,
    pub objective: String,
    pub objective_value: Option<f64>,
    pub mean_jct_s: Option<f64>,
    pub makespan_s: Option<f64>,
    pub fairness: Option<f64>,
    /// The share of the jobs with a deadline that are done by then; one that waits is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadlines_met: Option<f64>,
    /// How unequal the GPUs on offer are for these jobs: mean speed over the slowest (eq. 35).
    #[serde(default)]
    pub heterogeneity: Option<f64>,
    /// What no plan for the placed jobs undercuts.
    pub lower_bound: Option<f64>,
    pub gap: Option<f64>,
    pub proven_optimal: bool,
    pub certificate: Option<Value>,
    pub categories: Option<u64>,
    pub solve_s: Option<f64>,
    pub bound_s: Option<f64>,
    /// Which GPUs the plan could use: `free`, `up` or `limits`.
    pub capacity: String,
    /// Whether the jobs must run on the nodes named here, not only on their kind.
    pub pinned: bool,
    pub jobs: Vec<PlannedJob>,
    pub network_gbps: f64,
    /// The GPUs on offer.
    pub nodes: Vec<PlanNode>,
    pub partitions: Vec<PlanPartition>,
    /// What was left out and why.
    pub notes: Vec<String>,
}

/// The decision for one job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlannedJob {
    pub name: String,
    pub verdict: String,
    /// The partition that it goes to, or several with commas, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition: Option<String>,
    pub reason: Option<String>,
    pub jct_s: Option<f64>,
    /// Until when it should be done, from when the plan begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_s: Option<f64>,
    pub epoch_s: Option<f64>,
    pub compute_s: Option<f64>,
    pub comm_s: Option<f64>,
    pub throughput: Option<f64>,
    /// How the batch is divided: `balanced` or `equal`.
    pub sharing: Option<String>,
    pub gpus: Vec<PlanGpus>,
    pub ranks: Vec<PlanRank>,
    /// In ring order, where the job says anything of replicas.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replicas: Vec<PlanReplica>,
    /// Speeds that the plan used on the types on offer, where they are not simply those of `spec`.
    #[serde(default)]
    pub speeds: Vec<PlanSpeed>,
    pub notes: Vec<String>,
    /// The job as a job file would say it, every default filled in.
    pub spec: Value,
}

/// Some GPUs of one type in one node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanGpus {
    pub node: String,
    #[serde(rename = "type")]
    pub gpu_type: String,
    pub count: u32,
}

/// One rank.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanRank {
    pub rank: usize,
    pub node: String,
    #[serde(rename = "type")]
    pub gpu_type: String,
    pub local_rank: u32,
    /// Of which replica it is, where the job says anything of replicas; batch and samples are then those of the replica.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replica: Option<usize>,
    pub batch: u64,
    pub samples: u64,
}

/// One replica.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanReplica {
    pub replica: usize,
    pub gpus: Vec<PlanGpus>,
    pub batch: u64,
    pub samples: u64,
}

/// A node with GPUs on offer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanNode {
    pub name: String,
    /// The GPUs on offer.
    pub gpus: Vec<TypeCount>,
    /// All its GPUs, in the order of their numbers.
    #[serde(default)]
    pub devices: Vec<TypeCount>,
    /// How to ask for the GPUs, where Slurm does not know their type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub untyped: Option<PlanSelector>,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub partitions: BTreeSet<String>,
    pub intra_node_gbps: f64,
}

/// What stands for the type of GPUs when Slurm is asked for them without one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlanSelector {
    Feature(String),
    Name,
}

/// A number of GPUs of one type.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TypeCount {
    #[serde(rename = "type")]
    pub gpu_type: String,
    pub count: u32,
}

/// A partition's limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanPartition {
    pub name: String,
    pub default: bool,
    pub max_time_s: Option<f64>,
}

/// A solved problem, as the command line has it in hand.
#[derive(Clone, Copy, Debug)]
pub struct Solved<'a> {
    pub problem: &'a Problem,
    /// In the problem's order.
    pub jobs: &'a [Job],
    pub cluster: &'a Cluster,
    pub access: &'a Access,
    pub plan: &'a CheckedPlan,
    pub policy: &'a str,
    /// Time that the policy took, where somebody looked.
    pub solve: Option<Seconds>,
    /// What no plan for the placed jobs undercuts, and the time that it took to find out, where it was beside
    /// the policy's.
    pub proven: Option<&'a (Bound, Option<Seconds>)>,
}

/// Why a text is not a plan file that this version can use.
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
    /// `notes` say what was left out and why, and what else people should know.
    pub fn new(solved: Solved<'_>, notes: Vec<String>, capacity: &str, pinned: bool) -> Self {
        let Solved { problem, jobs, cluster, access, plan, policy, solve, proven } = solved;
        let outcome = Outcome::of(problem, plan);
        let quality = proven.zip(outcome).map(|((bound, _), outcome)| Quality::new(bound, &outcome));
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
            objective: problem.objective.name().to_owned(),
            objective_value: outcome.map(|outcome| outcome.objective_value),
            mean_jct_s: outcome.map(|outcome| outcome.mean_jct),
            makespan_s: outcome.map(|outcome| outcome.makespan),
            fairness: outcome.map(|outcome| outcome.fairness),
            deadlines_met: Deadlines::of(problem, plan).map(Deadlines::share),
            heterogeneity: heterogeneity(problem),
            lower_bound: quality.map(|quality| quality.lower_bound),
            gap: quality.map(|quality| quality.gap),
            proven_optimal: all && quality.is_some_and(Quality::is_optimal),
            certificate: proven.map(|(bound, _)| certificate(problem, plan, bound)),
            categories: plan.plan().categories,
            solve_s: solve.map(|time| time.0),
            bound_s: proven.and_then(|(_, time)| *time).map(|time| time.0),
            capacity: capacity.to_owned(),
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
    /// When the text is no JSON of this schema.
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
    /// When a number is not finite, which no plan has.
    pub fn to_json(&self) -> Result<String, PlanFileError> {
        let mut text = serde_json::to_string_pretty(self).map_err(|source| PlanFileError::Json { source })?;
        text.push('\n');
        Ok(text)
    }

    /// Returns the plan's id: twelve hexadecimal digits that depend on all but the solver's timings.
    ///
    /// # Errors
    /// The same as [`Self::to_json`].
    pub fn id(&self) -> Result<String, PlanFileError> {
        let untimed = Self { solve_s: None, bound_s: None, ..self.clone() };
        let digest = Sha256::digest(untimed.to_json()?.as_bytes());
        let mut id = String::new();
        for byte in digest.iter().take(6) {
            let _ = write!(id, "{byte:02x}");
        }
        Ok(id)
    }

    /// Returns the nodes whose GPUs have no type in Slurm, and how to ask for them.
    pub fn untyped(&self) -> BTreeMap<NodeName, Selector> {
        let selector = |selector: &PlanSelector| match selector {
            PlanSelector::Feature(feature) => Selector::Feature(feature.clone()),
            PlanSelector::Name => Selector::Name,
        };
        let to_node =
            |node: &PlanNode| Some((NodeName::new(&node.name).ok()?, selector(node.untyped.as_ref()?)));
        self.nodes.iter().filter_map(to_node).collect()
    }

    /// Returns the order of devices on nodes with several GPU types.
    pub fn device_order(&self) -> Vec<(NodeName, Vec<GpuType>)> {
        let mixed = self.nodes.iter().filter(|node| node.devices.len() > 1);
        let each =
            |count: &TypeCount| vec![GpuType::new(&count.gpu_type); count.count.min(MOST_DEVICES) as usize];
        let order = |node: &PlanNode| {
            let types = node.devices.iter().flat_map(each).collect::<Option<_>>();
            NodeName::new(&node.name).ok().zip(types)
        };
        mixed.filter_map(order).collect()
    }
}

/// Returns the prices that prove the bound, from which anybody can recompute it: with a price for each GPU, the
/// sum over the placed jobs of the cheapest bundle's weighted completion time and price, less the price of all
/// GPUs on offer, over the sum of the weights. With the objective `deadlines` a bundle with which its job is late counts
/// `late_cost_s` more.
fn certificate(problem: &Problem, plan: &CheckedPlan, bound: &Bound) -> Value {
    let prices = problem.labels.iter().zip(&bound.prices);
    let prices: serde_json::Map<_, _> = prices.map(|(ty, price)| (ty.clone(), json!(price))).collect();
    let weights = plan.placed().into_iter().zip(&bound.weights);
    let weights: serde_json::Map<_, _> =
        weights.map(|(job, weight)| (problem.jobs[job].name.to_string(), json!(weight))).collect();
    let mut certificate = json!({ "prices": prices, "weights": weights, "root_bound": bound.root });
    if bound.replica_prices.iter().any(|prices| !prices.is_empty()) {
        let priced =
            problem.labels.iter().zip(&bound.replica_prices).filter(|(_, prices)| !prices.is_empty());
        let by_size = |prices: &BTreeMap<u32, f64>| -> serde_json::Map<_, _> {
            prices.iter().map(|(size, price)| (size.to_string(), json!(price))).collect()
        };
        let prices: serde_json::Map<_, _> =
            priced.map(|(label, prices)| (label.clone(), Value::Object(by_size(prices)))).collect();
        certificate["replica_prices"] = Value::Object(prices);
    }
    if let Some(late) = Dues::of(problem).late() {
        certificate["late_cost_s"] = json!(late);
    }
    certificate
}

pub(super) fn wrong(place: String, what: &str) -> PlanFileError {
    PlanFileError::Content { place, what: what.to_owned() }
}

impl PlannedJob {
    pub(super) fn new(problem: &Problem, job: usize, verdict: &Verdict, spec: Value) -> Self {
        let model = &problem.jobs[job];
        let (word, reason) = match verdict {
            Verdict::Place(_) => ("place", None),
            Verdict::Defer { reason } => ("defer", Some(reason.clone())),
            Verdict::Reject { reason } => ("reject", Some(reason.clone())),
        };
        let placement = verdict.placement();
        let node = |index: usize| problem.nodes[index].name.to_string();
        let gpu_type = |index: usize| problem.gpu_types[index].to_string();
        let gpus = |slot: &Slot| PlanGpus {
            node: node(slot.node),
            gpu_type: gpu_type(slot.gpu_type),
            count: slot.count,
        };
        let by_replica = placement.filter(|_| model.replica.is_some());
        let by_replica =
            by_replica.map(|placement| model.ranks_by_replica(&placement.ranks)).unwrap_or_default();
        let replica_of: Vec<usize> =
            (0..).zip(&by_replica).flat_map(|(replica, ranks)| ranks.iter().map(move |_| replica)).collect();
        let replica = |(number, ranks): (usize, &&[Rank])| {
            let mut gpus: Vec<PlanGpus> = Vec::new();
            for rank in *ranks {
                let node = node(rank.node);
                match gpus.iter_mut().find(|gpus| gpus.node == node) {
                    Some(own) => own.count += 1,
                    None => gpus.push(PlanGpus { node, gpu_type: gpu_type(rank.gpu_type), count: 1 }),
                }
            }
            PlanReplica { replica: number, gpus, batch: ranks[0].batch, samples: ranks[0].samples }
        };
        let rank = |(number, rank): (usize, &Rank)| PlanRank {
            replica: replica_of.get(number).copied(),
            rank: number,
            node: node(rank.node),
            gpu_type: gpu_type(rank.gpu_type),
            local_rank: rank.local_rank,
            batch: rank.batch,
            samples: rank.samples,
        };
        let samples = to_f64(model.samples_per_epoch);
        Self {
            name: model.name.to_string(),
            verdict: word.to_owned(),
            partition: None,
            reason,
            jct_s: placement.map(|placement| placement.jct(model.epochs).0),
            deadline_s: model.aims.deadline.map(|deadline| deadline.since(problem.now).0),
            epoch_s: placement.map(|placement| placement.epoch.total()),
            compute_s: placement.map(|placement| placement.epoch.compute),
            comm_s: placement.map(|placement| placement.epoch.comm),
            throughput: placement.map(|placement| samples / placement.epoch.compute),
            sharing: placement.map(|placement| placement.sharing.name().to_owned()),
            gpus: placement.map(|p| p.slots.iter().map(gpus).collect()).unwrap_or_default(),
            ranks: placement.map(|p| p.ranks.iter().enumerate().map(rank).collect()).unwrap_or_default(),
            replicas: by_replica.iter().enumerate().map(replica).collect(),
            speeds: PlanSpeed::of(problem, job),
            notes: model.notes(problem),
            spec,
        }
    }
}

impl PlanNode {
    fn new(node: &WorkerNode, gpu_types: &[GpuType], cluster: &Cluster) -> Self {
        let count = |gpu_type: &GpuType, count| TypeCount { gpu_type: gpu_type.to_string(), count };
        let mut offered: BTreeMap<&GpuType, u32> = BTreeMap::new();
        for (gpu_type, count) in gpu_types.iter().zip(&node.gpus) {
            *offered.entry(gpu_type).or_default() += count;
        }
        offered.retain(|_, count| *count > 0);
        let own = cluster.node(&node.name);
        let stocks = own.map_or(&[][..], |node| &node.gpus);
        let selector = |selector: &Selector| match selector {
            Selector::Feature(feature) => PlanSelector::Feature(feature.clone()),
            Selector::Name => PlanSelector::Name,
        };
        Self {
            name: node.name.to_string(),
            // In the order of the devices.
            gpus: stocks
                .iter()
                .filter_map(|stock| Some(count(&stock.gpu_type, *offered.get(&stock.gpu_type)?)))
                .collect(),
            devices: stocks.iter().map(|stock| count(&stock.gpu_type, stock.total)).collect(),
            untyped: own.and_then(|node| node.untyped.as_ref()).map(selector),
            partitions: own.map(|node| node.partitions.clone()).unwrap_or_default(),
            intra_node_gbps: node.intra_node.gigabits_per_second(),
        }
    }
}

impl PlanPartition {
    fn new(partition: &Partition) -> Self {
        Self {
            name: partition.name.clone(),
            default: partition.default,
            max_time_s: partition.max_time.map(|time| time.0),
        }
    }
}
