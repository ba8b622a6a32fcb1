//! One rank on a GPU of a named node, as in plan files and job scripts.

use serde::{Deserialize, Serialize};

use crate::{GpuType, Job, NodeName};

/// A rank with its GPU and its share; its number is its index among the job's ranks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlacedRank {
    pub node: NodeName,
    #[serde(rename = "type")]
    pub gpu_type: GpuType,
    /// Index among the job's ranks on the node.
    pub local_rank: u32,
    /// Samples per global batch.
    pub batch: u64,
    /// Samples per epoch.
    pub samples: u64,
}

impl PlacedRank {
    /// Returns the size of the largest micro-batch, and the number of micro-batches in the rank's batch: as
    /// few as fit into the GPU's memory, if the job states the limit, and as equal as possible.
    pub fn micro_batches(&self, job: &Job) -> (u64, u64) {
        let memory = job.max_batch.get(&self.gpu_type).copied().unwrap_or(self.batch).max(1);
        let passes = self.batch.div_ceil(memory).max(1);
        (self.batch.div_ceil(passes).max(1), passes)
    }
}
