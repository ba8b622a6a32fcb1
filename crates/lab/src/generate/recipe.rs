//! The parameters of generation: size and shape of the cluster, number of jobs, and seed.

use thiserror::Error;

use super::gpu_speed::GpuSpeed;
use hsched_model::BitRate;

/// Properties of the generated cluster and jobs.
#[derive(Clone, Debug, PartialEq)]
pub struct Recipe {
    /// Total number of GPUs, at least 1.
    pub gpus: u32,
    /// GPUs per node, at least 1; the last node may have fewer.
    pub gpus_per_node: u32,
    /// GPU types without duplicates; the nodes are divided evenly among them.
    pub types: Vec<GpuSpeed>,
    /// Whether a node may have two types.
    pub mixed: bool,
    /// Rate between nodes.
    pub network: BitRate,
    /// Rate between the GPUs of a node.
    pub intra_node: BitRate,
    pub jobs: u32,
    pub sync: SyncEvery,
    /// Whether jobs have more properties than speeds: fixed step times, memory, limits on GPUs and their
    /// types, weights, overlap, batch quanta.
    pub rich: bool,
    pub seed: u64,
}

/// When the ranks of a job exchange gradients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncEvery {
    /// After each global batch, as data-parallel training does.
    Step,
    /// Once per epoch, as the cost model of the TPDS 2024 paper assumes.
    Epoch,
}

/// Why a recipe does not give a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RecipeError {
    #[error("{gpus} GPUs make {nodes} nodes of up to {gpus_per_node}, too few for {types} GPU types")]
    FewNodes { gpus: u32, gpus_per_node: u32, nodes: u32, types: usize },
}

impl Recipe {
    /// Returns the number of nodes.
    ///
    /// # Errors
    /// If there are fewer nodes than GPU types.
    pub(super) fn node_count(&self) -> Result<u32, RecipeError> {
        let Self { gpus, gpus_per_node, .. } = *self;
        let (nodes, types) = (gpus.div_ceil(gpus_per_node.max(1)), self.types.len());
        if types > nodes as usize {
            return Err(RecipeError::FewNodes { gpus, gpus_per_node, nodes, types });
        }
        Ok(nodes)
    }
}
