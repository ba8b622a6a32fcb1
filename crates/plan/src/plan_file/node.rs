//! A plan file's nodes and partitions: the offered GPUs, and how to request them from Slurm.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::WorkerNode;
use hsched_model::{Cluster, GpuType, NodeName, Partition, Selector};

/// A node with offered GPUs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanNode {
    pub name: NodeName,
    /// The offered GPUs.
    pub gpus: Vec<TypeCount>,
    /// All GPUs of the node, in the order of their indices.
    #[serde(default)]
    pub devices: Vec<TypeCount>,
    /// How to request the GPUs if Slurm does not know their type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub untyped: Option<PlanSelector>,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub partitions: BTreeSet<String>,
    pub intra_node_gbps: f64,
}

/// The property of nodes by which GPUs without a type are requested from Slurm.
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
    pub gpu_type: GpuType,
    pub count: u32,
}

/// A partition and its time limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanPartition {
    pub name: String,
    pub default: bool,
    pub max_time_s: Option<f64>,
}

impl PlanNode {
    pub(super) fn new(node: &WorkerNode, gpu_types: &[GpuType], cluster: &Cluster) -> Self {
        let count = |gpu_type: &GpuType, count| TypeCount { gpu_type: gpu_type.clone(), count };
        let mut offered: BTreeMap<&GpuType, u32> = BTreeMap::new();
        for (gpu_type, count) in gpu_types.iter().zip(&node.gpus) {
            *offered.entry(gpu_type).or_default() += count;
        }
        offered.retain(|_, count| *count > 0);
        let cluster_node = cluster.node(&node.name);
        let stocks = cluster_node.map_or(&[][..], |node| &node.gpus);
        let selector = |selector: &Selector| match selector {
            Selector::Feature(feature) => PlanSelector::Feature(feature.clone()),
            Selector::Name => PlanSelector::Name,
        };
        Self {
            name: node.name.clone(),
            // In the order of devices.
            gpus: stocks
                .iter()
                .filter_map(|stock| Some(count(&stock.gpu_type, *offered.get(&stock.gpu_type)?)))
                .collect(),
            devices: stocks.iter().map(|stock| count(&stock.gpu_type, stock.total)).collect(),
            untyped: cluster_node.and_then(|node| node.untyped.as_ref()).map(selector),
            partitions: cluster_node.map(|node| node.partitions.clone()).unwrap_or_default(),
            intra_node_gbps: node.intra_node.gigabits_per_second(),
        }
    }
}

impl PlanPartition {
    pub(super) fn new(partition: &Partition) -> Self {
        Self {
            name: partition.name.clone(),
            default: partition.default,
            max_time_s: partition.max_time.map(|time| time.0),
        }
    }
}
