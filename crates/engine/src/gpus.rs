//! GPUs by node and type: those planned for a submission, and those that it holds.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use hsched_model::{GpuType, NodeName, PlacedRank};

/// Numbers of GPUs by node and type, all above zero.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gpus(pub BTreeMap<NodeName, BTreeMap<GpuType, u32>>);

impl Gpus {
    /// Returns the GPUs of these ranks, one per rank.
    pub fn of(ranks: &[PlacedRank]) -> Self {
        let mut gpus = Self::default();
        for rank in ranks {
            gpus.add(&rank.node, &rank.gpu_type, 1);
        }
        gpus
    }

    /// Adds some GPUs.
    pub fn add(&mut self, node: &NodeName, gpu_type: &GpuType, count: u32) {
        if count > 0 {
            *self.0.entry(node.clone()).or_default().entry(gpu_type.clone()).or_default() += count;
        }
    }

    /// Returns each node's GPUs of each type.
    pub fn iter(&self) -> impl Iterator<Item = (&NodeName, &GpuType, u32)> {
        self.0
            .iter()
            .flat_map(|(node, types)| types.iter().map(move |(gpu_type, &count)| (node, gpu_type, count)))
    }

    /// Returns the number of GPUs by type.
    pub fn by_type(&self) -> BTreeMap<GpuType, u32> {
        let mut sum = BTreeMap::new();
        for (_, gpu_type, count) in self.iter() {
            *sum.entry(gpu_type.clone()).or_default() += count;
        }
        sum
    }

    /// Returns the number of GPUs.
    pub fn total(&self) -> u32 {
        self.iter().map(|(_, _, count)| count).sum()
    }
}

impl fmt::Display for Gpus {
    /// Writes the numbers by type: `2 t4 + 3 v100`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let types: Vec<String> =
            self.by_type().iter().map(|(gpu_type, count)| format!("{count} {gpu_type}")).collect();
        f.pad(&types.join(" + "))
    }
}
