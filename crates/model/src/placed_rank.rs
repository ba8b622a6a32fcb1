//! One rank on a GPU of a named node, as plan files and job scripts have it.

use serde::{Deserialize, Serialize};

use crate::{GpuType, Job, NodeName};

/// A rank with its GPU and its share; its number is its place among the job's ranks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlacedRank {
    pub node: NodeName,
    #[serde(rename = "type")]
    pub gpu_type: GpuType,
    /// Number among the job's ranks on the node.
    pub local_rank: u32,
    /// Samples of each global batch.
    pub batch: u64,
    /// Samples of an epoch.
    pub samples: u64,
}

impl PlacedRank {
    /// Returns the size of the largest micro-batch, and how many make the rank's batch: as few as fit the memory of its
    /// GPU, where the job says what fits, and as even as possible.
    #[must_use]
    pub fn micro_batches(&self, job: &Job) -> (u64, u64) {
        let memory = job.max_batch.get(&self.gpu_type).copied().unwrap_or(self.batch).max(1);
        let passes = self.batch.div_ceil(memory).max(1);
        (self.batch.div_ceil(passes).max(1), passes)
    }
}
