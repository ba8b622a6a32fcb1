//! The explanation of a plan as data.

use std::collections::BTreeMap;
use std::fmt;

use crate::Alternative;

/// The explanation of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// By GPU type, in the problem's order.
    pub types: Vec<TypeMarket>,
    /// The explained jobs.
    pub jobs: Vec<JobExplanation>,
}

/// One GPU type, over all jobs.
#[derive(Clone, Debug, PartialEq)]
pub struct TypeMarket {
    pub offered: u32,
    /// Offered GPUs that the plan leaves unused.
    pub free: u32,
    /// Price of a GPU, in weighted seconds of completion time; `None` if no job is placed.
    pub price: Option<f64>,
    /// Prices of replicas that need this many GPUs on one node, if they differ from that multiple of the GPU
    /// price.
    pub replica_prices: BTreeMap<u32, f64>,
}

/// One job of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct JobExplanation {
    /// Index of the job.
    pub job: usize,
    /// The job's GPUs by type; all zero if it has none.
    pub counts: Vec<u32>,
    /// Completion time in seconds, if the job is placed.
    pub jct: Option<f64>,
    /// Weight of its completion time in the sum that the prices refer to, if the job is placed.
    pub weight: Option<f64>,
    /// By GPU type.
    pub types: Vec<TypeExplanation>,
    /// The job's choice at these prices if it could use all offered GPUs: the GPUs with the lowest sum of
    /// completion time and price, if the job is placed. Its ring is as fast as in the best placement.
    pub choice: Option<Alternative>,
    /// The best result on a single node with all offered GPUs.
    pub one_node: Option<Alternative>,
    /// The best result on a single node with the job's own GPUs and the unused ones.
    pub one_node_now: Option<Alternative>,
    /// The active limits.
    pub limits: Vec<PlacementLimit>,
    /// How the job's GPUs form replicas, by type; empty if each GPU is a replica.
    pub replicas: Vec<ReplicaExplanation>,
}

/// The replicas of a job on one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplicaExplanation {
    /// GPUs per replica, and how many of them must be on one node.
    pub size: u32,
    pub block: u32,
    /// Unused GPUs on nodes that have too few of them for another replica.
    pub left_over: u32,
    /// The largest number of unused GPUs on one node.
    pub most_free: u32,
}

/// One GPU type for one job.
#[derive(Clone, Debug, PartialEq)]
pub struct TypeExplanation {
    /// Effect of one more GPU (or replica), if the job is placed.
    pub more: Option<GpuCountEffect>,
    /// Effect of one fewer GPU (or replica), if the job has one of this type.
    pub fewer: Option<GpuCountEffect>,
    /// The best result on this type alone with all offered GPUs.
    pub alone: Result<Alternative, Obstacle>,
    /// The best result on this type alone with the job's own GPUs and the unused ones.
    pub alone_now: Option<Alternative>,
}

/// Effect of another number of GPUs on a job.
#[derive(Clone, Debug, PartialEq)]
pub enum GpuCountEffect {
    /// The job's completion time in seconds with the best choice of node, and whether the GPU is unused (or
    /// would be).
    Jct { jct: f64, free: bool },
    /// The number is impossible.
    Not(Obstacle),
}

/// Why a job cannot have some GPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// The job cannot use the type for this reason.
    Unusable(String),
    /// No GPU of the type is offered; the cluster has this many.
    NotOffered { ever: u32 },
    /// The job has all offered GPUs of the type.
    HasAll,
    /// `max_gpus` of the job.
    MaxGpus { most: u32 },
    /// Each rank needs at least one quantum of the batch.
    Quanta { most: u32, quantum: u64, batch: u64 },
    /// `min_gpus` of the job.
    MinGpus { least: u32 },
    /// A job has at least one GPU.
    OnlyGpu,
    /// `max_replicas` of the job, or the limit from its batch.
    MaxReplicas { most: u32, batch: Option<u64> },
    /// `min_replicas` of the job.
    MinReplicas { least: u32 },
    /// A job has at least one replica.
    OnlyReplica,
    /// No node can hold another replica of this many GPUs.
    NoNode { size: u32 },
    /// A MIG slice must be a job's only rank.
    Slice,
    /// The batch does not fit into memory, and the job does not accumulate gradients.
    Memory,
    /// The slowest GPU's share of the batch would be below the quantum.
    SmallShare { quantum: u64 },
}

/// An active limit of a placed job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlacementLimit {
    /// The job has the maximum number of GPUs.
    Most(Obstacle),
    /// The job has the minimum number of GPUs.
    Least { least: u32 },
    /// One more GPU of the type would help, but none is free.
    Taken { gpu_type: usize },
    /// A rank's share of the batch does not fit into the GPU's memory and needs this many micro-batches.
    Accumulation { gpu_type: usize, micro_batches: u64, batch: u64, memory: u64 },
    /// One more GPU of the type would be illegal.
    Illegal { gpu_type: usize, obstacle: Obstacle },
    /// One more GPU of any usable type would not end the job sooner.
    NoGain,
}

/// Relative gains below this are rounding errors.
pub(super) const ROUNDING: f64 = 1e-9;

/// Relative accuracy of the prices that the search finds.
const SAME: f64 = 1e-6;

impl JobExplanation {
    /// Returns the cost of a number of GPUs of a type at the prices, in seconds of this job's own time.
    pub fn price(&self, types: &[TypeMarket], gpu_type: usize, count: u32) -> Option<f64> {
        let market = &types[gpu_type];
        let block = self.replicas.get(gpu_type).map_or(1, |replica| replica.block);
        let each = market.replica_prices.get(&block).map(|price| price / f64::from(block));
        Some(f64::from(count) * each.or(market.price)? / self.weight?)
    }

    /// Returns the GPUs per replica of this job on a type.
    pub fn size(&self, gpu_type: usize) -> u32 {
        self.replicas.get(gpu_type).map_or(1, |replica| replica.size)
    }

    /// Returns the cost of GPUs (by type) at the prices, in seconds of this job's own time.
    pub fn pays(&self, types: &[TypeMarket], counts: &[u32]) -> Option<f64> {
        counts.iter().enumerate().map(|(ty, &count)| self.price(types, ty, count)).sum()
    }

    /// Returns how many seconds sooner the job ends with one more GPU (or replica) of a type (negative:
    /// later), and whether that GPU is unused; `None` if the job is not placed or that is impossible.
    pub fn gain(&self, gpu_type: usize) -> Option<(f64, bool)> {
        self.types[gpu_type].more.as_ref()?.difference(self.jct?)
    }

    /// Returns how many seconds later the job ends with one fewer GPU (or replica) of a type (negative:
    /// sooner); `None` if the job has none of the type or cannot spare one.
    pub fn loss(&self, gpu_type: usize) -> Option<f64> {
        let (sooner, _) = self.types[gpu_type].fewer.as_ref()?.difference(self.jct?)?;
        Some(-sooner)
    }

    /// Returns whether one more GPU of a type is worthwhile: the job ends sooner, and by more than the GPU's
    /// price unless the GPU is unused. `None` if the additional GPU is illegal or has no price.
    pub fn is_more_worth_it(&self, types: &[TypeMarket], gpu_type: usize) -> Option<bool> {
        let (gain, free) = self.gain(gpu_type)?;
        let price = if free { 0.0 } else { self.price(types, gpu_type, self.size(gpu_type))? };
        Some(gain > price * (1.0 + SAME))
    }

    /// Returns whether the job's last GPU of a type saves at least its price; `None` if the job cannot spare
    /// one, or there is no price.
    pub fn is_last_worth_it(&self, types: &[TypeMarket], gpu_type: usize) -> Option<bool> {
        Some(self.loss(gpu_type)? >= self.price(types, gpu_type, self.size(gpu_type))? * (1.0 - SAME))
    }

    /// Returns the type on which the job would end soonest if it could use all offered GPUs of only that
    /// type, and the result.
    pub fn best_type(&self) -> Option<(usize, &Alternative)> {
        let types = self.types.iter().enumerate();
        let able = types.filter_map(|(ty, explanation)| Some((ty, explanation.alone.as_ref().ok()?)));
        able.min_by(|a, b| a.1.jct.total_cmp(&b.1.jct))
    }
}

impl GpuCountEffect {
    /// Returns the seconds saved against `jct`, 0 within rounding, and whether its GPU is unused.
    fn difference(&self, jct: f64) -> Option<(f64, bool)> {
        let Self::Jct { jct: other, free } = self else { return None };
        let saved = jct - other;
        Some((if saved.abs() <= jct * ROUNDING { 0.0 } else { saved }, *free))
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unusable(reason) => f.write_str(reason),
            Self::NotOffered { ever } => write!(f, "none available, {ever} in the cluster"),
            Self::HasAll => f.write_str("it already has all that are available"),
            Self::MaxGpus { most } => write!(f, "max_gpus is {most}"),
            Self::Quanta { most, quantum: 1, batch } => {
                write!(f, "a global batch of {batch} limits the number of ranks to {most}")
            }
            Self::Quanta { most, quantum, batch } => {
                write!(
                    f,
                    "a global batch of {batch} with batch_quantum {quantum} limits the number of ranks to {most}"
                )
            }
            Self::MinGpus { least } => write!(f, "below min_gpus {least}"),
            Self::OnlyGpu => f.write_str("its only GPU"),
            Self::MaxReplicas { most, batch: None } => write!(f, "max_replicas is {most}"),
            Self::MaxReplicas { most, batch: Some(batch) } => {
                write!(f, "a global batch of {batch} limits the number of replicas to {most}")
            }
            Self::MinReplicas { least } => write!(f, "below min_replicas {least}"),
            Self::OnlyReplica => f.write_str("its only replica"),
            Self::NoNode { size } => write!(f, "no other node has {size} for a replica"),
            Self::Slice => f.write_str("a job on a MIG slice can have only one rank"),
            Self::Memory => f.write_str("too little memory for the batch, and accumulate is false"),
            Self::SmallShare { quantum: 1 } => f.write_str("a local batch would be below 1 sample"),
            Self::SmallShare { quantum } => {
                write!(f, "a local batch would be below batch_quantum {quantum}")
            }
        }
    }
}
