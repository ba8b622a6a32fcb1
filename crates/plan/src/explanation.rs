//! The explanation of a plan as data.

use std::collections::BTreeMap;
use std::fmt;

use crate::Alternative;

/// What there is to say of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// By GPU type, in the problem's order.
    pub types: Vec<TypeMarket>,
    /// The jobs asked for.
    pub jobs: Vec<JobExplanation>,
}

/// One GPU type over all jobs.
#[derive(Clone, Debug, PartialEq)]
pub struct TypeMarket {
    pub offered: u32,
    /// GPUs on offer that the plan gives to nobody.
    pub free: u32,
    /// Price of a GPU, in weighted seconds of completion time; none where no job is placed.
    pub price: Option<f64>,
    /// Prices of replicas that need so many GPUs of one node, where that is not so many times the price of a GPU.
    pub replica_prices: BTreeMap<u32, f64>,
}

/// One job of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct JobExplanation {
    /// Number of the job.
    pub job: usize,
    /// Its GPUs by type; all zero where it got none.
    pub counts: Vec<u32>,
    /// Completion time in seconds, where it is placed.
    pub jct: Option<f64>,
    /// Weight of its completion time in the sum that the prices are of, where it is placed.
    pub weight: Option<f64>,
    /// By GPU type.
    pub types: Vec<TypeExplanation>,
    /// What it would choose at the prices if all GPUs on offer were for sale, where it is placed: the GPUs
    /// with the least completion time and price together. Its ring is as fast as some placement could have it.
    pub choice: Option<Alternative>,
    /// What it could do with one node alone, of all that is on offer.
    pub one_node: Option<Alternative>,
    /// What it could do with one node alone, of its own GPUs and the free ones.
    pub one_node_now: Option<Alternative>,
    /// The limits that it stands at.
    pub limits: Vec<PlacementLimit>,
    /// How its GPUs make replicas, by type; empty where each GPU is one.
    pub replicas: Vec<ReplicaExplanation>,
}

/// The replicas of a job on one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplicaExplanation {
    /// GPUs of a replica, and how many of them have to be on one node.
    pub size: u32,
    pub block: u32,
    /// Free GPUs on nodes that have too few of them for another replica.
    pub left_over: u32,
    /// The most free GPUs of one node.
    pub most_free: u32,
}

/// One GPU type for one job.
#[derive(Clone, Debug, PartialEq)]
pub struct TypeExplanation {
    /// What a GPU (or replica) more would do, where the job is placed.
    pub more: Option<GpuCountEffect>,
    /// What a GPU (or replica) less would do, where it has one.
    pub fewer: Option<GpuCountEffect>,
    /// What it could do with this type alone, of all that is on offer.
    pub alone: Result<Alternative, Obstacle>,
    /// What it could do with this type alone, of its own GPUs and the free ones.
    pub alone_now: Option<Alternative>,
}

/// What another number of GPUs does to a job.
#[derive(Clone, Debug, PartialEq)]
pub enum GpuCountEffect {
    /// Its completion time in seconds with the best choice of node, and whether the GPU is free (or would be).
    Jct { jct: f64, free: bool },
    /// It cannot be.
    Not(Obstacle),
}

/// Why a job cannot have some GPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// The job cannot use the type, for this reason.
    Unusable(String),
    /// No GPU of the type is on offer; the cluster has so many.
    NotOffered { ever: u32 },
    /// The job has all of the type that are on offer.
    HasAll,
    /// `max_gpus` of the job.
    MaxGpus { most: u32 },
    /// Each rank takes at least a quantum of the batch.
    Quanta { most: u32, quantum: u64, batch: u64 },
    /// `min_gpus` of the job.
    MinGpus { least: u32 },
    /// A job has at least one.
    OnlyGpu,
    /// `max_replicas` of the job, or what its batch allows.
    MaxReplicas { most: u32, batch: Option<u64> },
    /// `min_replicas` of the job.
    MinReplicas { least: u32 },
    /// A job has at least one.
    OnlyReplica,
    /// No node could hold another replica of so many GPUs.
    NoNode { size: u32 },
    /// A MIG slice has to be a job's only rank.
    Slice,
    /// The batch does not fit the memory at once, and the job does not accumulate.
    Memory,
    /// The slowest GPU's share of the batch would be below the quantum.
    SmallShare { quantum: u64 },
}

/// A limit that a placed job stands at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlacementLimit {
    /// It has the most GPUs that it may have.
    Most(Obstacle),
    /// It has the fewest.
    Least { least: u32 },
    /// One more GPU of the type would help, and none is free.
    Taken { gpu_type: usize },
    /// Its share of the batch does not fit the GPU at once: so many micro-batches.
    Accumulation { gpu_type: usize, micro_batches: u64, batch: u64, memory: u64 },
    /// One more GPU of the type would be illegal.
    Illegal { gpu_type: usize, obstacle: Obstacle },
    /// One more GPU, of whatever type it may use, would not end it sooner.
    NoGain,
}

/// Gains below this part of a completion time are rounding.
pub(super) const ROUNDING: f64 = 1e-9;

/// Prices are found by a search, and known to this part at best.
const SAME: f64 = 1e-6;

impl JobExplanation {
    /// Returns what so many GPUs of a type cost at the prices, in seconds of this job's own time.
    pub fn price(&self, types: &[TypeMarket], gpu_type: usize, count: u32) -> Option<f64> {
        let market = &types[gpu_type];
        let block = self.replicas.get(gpu_type).map_or(1, |replica| replica.block);
        let each = market.replica_prices.get(&block).map(|price| price / f64::from(block));
        Some(f64::from(count) * each.or(market.price)? / self.weight?)
    }

    /// Returns the GPUs of a replica of this job on a type.
    pub fn size(&self, gpu_type: usize) -> u32 {
        self.replicas.get(gpu_type).map_or(1, |replica| replica.size)
    }

    /// Returns what GPUs (by type) cost at the prices, in seconds of this job's own time.
    pub fn pays(&self, types: &[TypeMarket], counts: &[u32]) -> Option<f64> {
        counts.iter().enumerate().map(|(ty, &count)| self.price(types, ty, count)).sum()
    }

    /// Returns by how many seconds one GPU (or replica) more of a type ends it sooner (negative: later), and whether such a
    /// GPU is free; `None` where it is illegal.
    pub fn gain(&self, gpu_type: usize) -> Option<(f64, bool)> {
        self.types[gpu_type].more.as_ref()?.difference(self.jct?)
    }

    /// Returns by how many seconds one GPU (or replica) fewer of a type ends it later (negative: sooner); `None` where it
    /// is illegal.
    pub fn loss(&self, gpu_type: usize) -> Option<f64> {
        let (sooner, _) = self.types[gpu_type].fewer.as_ref()?.difference(self.jct?)?;
        Some(-sooner)
    }

    /// Returns whether one GPU more of a type is worth it: that it ends the job sooner, by more than its price
    /// where it is not free; `None` where it is illegal or has no price.
    pub fn is_more_worth_it(&self, types: &[TypeMarket], gpu_type: usize) -> Option<bool> {
        let (gain, free) = self.gain(gpu_type)?;
        let price = if free { 0.0 } else { self.price(types, gpu_type, self.size(gpu_type))? };
        Some(gain > price * (1.0 + SAME))
    }

    /// Returns whether the job's last GPU of a type saves it at least the price; `None` where it has none to
    /// spare, or there is no price.
    pub fn is_last_worth_it(&self, types: &[TypeMarket], gpu_type: usize) -> Option<bool> {
        Some(self.loss(gpu_type)? >= self.price(types, gpu_type, self.size(gpu_type))? * (1.0 - SAME))
    }

    /// Returns the one type with which it would be done soonest, with what it would do, on all that is on
    /// offer.
    pub fn best_type(&self) -> Option<(usize, &Alternative)> {
        let types = self.types.iter().enumerate();
        let able = types.filter_map(|(ty, explanation)| Some((ty, explanation.alone.as_ref().ok()?)));
        able.min_by(|a, b| a.1.jct.total_cmp(&b.1.jct))
    }
}

impl GpuCountEffect {
    /// Returns the seconds that it saves against `jct`, 0 where that is rounding, and whether its GPU is free.
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
