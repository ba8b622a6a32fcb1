//! Replicas: several GPUs that train one copy of a model together, and how a batch is divided over all of a job.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Bytes, GpuType, Job, Seconds, Speed};

/// The GPUs of a replica: always of one type.
#[derive(Clone, Debug, PartialEq)]
pub struct Replica {
    /// How many GPUs it has.
    pub gpus: ByType<u32>,
    /// Whether they are on one node.
    pub same_node: bool,
    /// Where the job's speeds are those of one GPU: the part of so many times that speed that a replica has.
    pub efficiency: Option<ByType<f64>>,
    /// The memory that its GPUs have to hold together, where the job says it.
    pub memory: Option<Bytes>,
}

/// A value for all GPU types, or for each type that is named.
#[derive(Clone, Debug, PartialEq)]
pub enum ByType<T> {
    All(T),
    Each(BTreeMap<GpuType, T>),
}

/// How a batch is divided over unequal GPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sharing {
    /// So that all ranks are done at the same time (eq. 12).
    #[default]
    Balanced,
    /// In equal parts, so that the slowest GPU sets the pace: what plain data-parallel training does.
    Equal,
}

impl<T: Copy> ByType<T> {
    /// Returns the value of a type; `None` where it is not named.
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
    /// Returns replicas of so many GPUs on whatever type.
    pub fn of(gpus: u32) -> Self {
        Self { gpus: ByType::All(gpus), same_node: true, efficiency: None, memory: None }
    }
}

impl Job {
    /// Returns whether a replica of it may have several GPUs.
    pub fn has_replicas(&self) -> bool {
        self.replica.as_ref().is_some_and(|replica| replica.gpus.values().iter().any(|&gpus| gpus > 1))
    }

    /// Returns the least number of its workers: replicas, or single GPUs.
    pub fn least_workers(&self) -> u32 {
        if self.replica.is_some() { self.min_replicas } else { self.min_gpus }
    }

    /// Returns the most workers, where that is limited.
    pub fn most_workers(&self) -> Option<u32> {
        if self.replica.is_some() { self.max_replicas } else { self.max_gpus }
    }

    /// Returns the fewest GPUs that it can train on.
    pub fn least_gpus(&self) -> u32 {
        let Some(replica) = &self.replica else { return self.min_gpus };
        replica.gpus.values().into_iter().min().unwrap_or(1).saturating_mul(self.min_replicas)
    }

    /// Returns the most GPUs that it can train on, where that is limited.
    pub fn most_gpus(&self) -> Option<u32> {
        let Some(replica) = &self.replica else { return self.max_gpus };
        let largest = replica.gpus.values().into_iter().max().unwrap_or(1);
        self.max_replicas.map(|most| most.saturating_mul(largest))
    }

    /// Returns the job with speeds of its replicas, where its file gives those of one GPU: g GPUs of efficiency e are g · e times
    /// as fast, whatever a step costs that does not grow with the batch.
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
    /// Both ways with their names in files.
    pub const NAMES: [(&'static str, Self); 2] = [("balanced", Self::Balanced), ("equal", Self::Equal)];

    /// Returns the way's name in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Balanced => "balanced",
            Self::Equal => "equal",
        }
    }
}
