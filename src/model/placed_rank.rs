//! One process of a job on a GPU of a named node: what a plan file records and a job script carries out.

use crate::model::{GpuType, NodeName};

/// A rank with its GPU and its share; its number is its place among the job's ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedRank {
    pub node: NodeName,
    pub gpu_type: GpuType,
    /// Number among the job's ranks on the node.
    pub local_rank: u32,
    /// Samples of each global batch.
    pub batch: u64,
    /// Samples of an epoch.
    pub samples: u64,
}
