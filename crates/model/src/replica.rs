//! Replicas: several GPUs that together train one copy of a model, and the division of a batch among a job's
//! replicas.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Bytes, GpuType, Job, Seconds, Speed};

/// The GPUs of a replica, which have the same type.
#[derive(Clone, Debug, PartialEq)]
pub struct Replica {
    /// Number of GPUs.
    pub gpus: ByType<u32>,
    /// Whether the GPUs must be on one node.
    pub same_node: bool,
    /// For jobs with speeds of single GPUs: a replica's fraction of the ideal speed-up.
    pub efficiency: Option<ByType<f64>>,
    /// The memory that the replica's GPUs must provide together, if the job states it.
    pub memory: Option<Bytes>,
}

/// A value for all GPU types, or for each named type.
#[derive(Clone, Debug, PartialEq)]
pub enum ByType<T> {
    All(T),
    Each(BTreeMap<GpuType, T>),
}

/// How a batch is divided among unequal GPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sharing {
    /// In proportion to speed, so that all ranks finish at the same time (eq. 12).
    #[default]
    Balanced,
    /// In equal parts, so that the slowest GPU determines the speed, as in plain data-parallel training.
    Equal,
}

impl<T: Copy> ByType<T> {
    /// Returns the value for a type; `None` if it is not named.
    pub fn of(&self, gpu_type: &GpuType) -> Option<T> {
        match self {
            Self::All(value) => Some(*value),
            Self::Each(values) => values.get(gpu_type).copied(),
        }
    }

    /// Returns all values.
    pub fn values(&self) -> Vec<T> {
        match self {
            Self::All(value) => vec![*value],
            Self::Each(values) => values.values().copied().collect(),
        }
    }
}

impl Replica {
    /// Returns replicas with this number of GPUs of any type.
    pub fn of(gpus: u32) -> Self {
        Self { gpus: ByType::All(gpus), same_node: true, efficiency: None, memory: None }
    }
}

impl Job {
    /// Returns whether the job's replicas may have several GPUs.
    pub fn has_replicas(&self) -> bool {
        self.replica.as_ref().is_some_and(|replica| replica.gpus.values().iter().any(|&gpus| gpus > 1))
    }

    /// Returns the minimum number of the job's workers: replicas, or single GPUs.
    pub fn least_workers(&self) -> u32 {
        if self.replica.is_some() { self.min_replicas } else { self.min_gpus }
    }

    /// Returns the maximum number of workers, if there is one.
    pub fn most_workers(&self) -> Option<u32> {
        if self.replica.is_some() { self.max_replicas } else { self.max_gpus }
    }

    /// Returns the minimum number of GPUs on which the job can train.
    pub fn least_gpus(&self) -> u32 {
        let Some(replica) = &self.replica else { return self.min_gpus };
        replica.gpus.values().into_iter().min().unwrap_or(1).saturating_mul(self.min_replicas)
    }

    /// Returns the maximum number of GPUs on which the job can train, if there is one.
    pub fn most_gpus(&self) -> Option<u32> {
        let Some(replica) = &self.replica else { return self.max_gpus };
        let largest = replica.gpus.values().into_iter().max().unwrap_or(1);
        self.max_replicas.map(|most| most.saturating_mul(largest))
    }

    /// Returns the job with the speeds of its replicas if its file has those of single GPUs: g GPUs with
    /// efficiency e process samples g · e times as fast; the constant part of a step stays the same. Types
    /// without a size or an efficiency lose their speed.
    pub fn with_speeds_of_replicas(&self) -> Cow<'_, Self> {
        let Some(replica) = &self.replica else { return Cow::Borrowed(self) };
        let Some(efficiency) = &replica.efficiency else { return Cow::Borrowed(self) };
        let speed = |(gpu_type, speed): (&GpuType, &Speed)| {
            let factor = f64::from(replica.gpus.of(gpu_type)?) * efficiency.of(gpu_type)?;
            let scaled = match *speed {
                Speed::Rate { samples_per_second } => Speed::rate(samples_per_second * factor),
                Speed::Affine { alpha, beta } => Speed::affine(alpha, Seconds(beta.0 / factor)),
            };
            Some((gpu_type.clone(), scaled?))
        };
        let mut job = self.clone();
        job.throughput = self.throughput.iter().filter_map(speed).collect();
        job.replica = Some(Replica { efficiency: None, ..replica.clone() });
        Cow::Owned(job)
    }
}

impl Sharing {
    /// Both values, with their names in files.
    pub const NAMES: [(&'static str, Self); 2] = [("balanced", Self::Balanced), ("equal", Self::Equal)];

    /// Returns the value's name in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Balanced => "balanced",
            Self::Equal => "equal",
        }
    }
}
