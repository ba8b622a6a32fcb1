//! An observed cluster: nodes, their GPUs, partitions, and the links between nodes.

use std::collections::BTreeSet;

use crate::{BitRate, Bytes, GpuType, Job, JobDefaults, NodeName, NodeState, Seconds};

/// A cluster's nodes, links and partitions at one time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cluster {
    /// Rate between nodes; `None` if not given.
    pub network: Option<BitRate>,
    /// Rate between GPUs of one node, for nodes without their own value.
    pub intra_node: Option<BitRate>,
    /// Nodes in the order of their source, each name once.
    pub nodes: Vec<Node>,
    /// Partitions in the order of their source; empty when unknown.
    pub partitions: Vec<Partition>,
}

/// One node.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    pub name: NodeName,
    pub state: NodeState,
    /// Why the node is down or drained, in its administrator's words.
    pub reason: Option<String>,
    /// GPUs by type in the order of the node's device indices; each type once.
    pub gpus: Vec<GpuStock>,
    /// How to request these GPUs from Slurm if it does not know their type.
    pub untyped: Option<Selector>,
    /// Generic resources other than GPUs, and unreadable GRES text, as printed.
    pub other_gres: Vec<String>,
    /// CPUs, if known.
    pub cpus: Option<Usage>,
    /// Memory in bytes, if known.
    pub memory: Option<Usage>,
    /// Rate between this node's GPUs, if it differs from the cluster's.
    pub intra_node: Option<BitRate>,
    pub partitions: BTreeSet<String>,
    pub features: BTreeSet<String>,
}

/// The property of nodes by which GPUs without a type are requested from Slurm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selector {
    /// A feature that only nodes with GPUs of this type have.
    Feature(String),
    /// The node's name, because no feature identifies its GPUs.
    Name,
}

/// The GPUs of one type in one node.
#[derive(Clone, Debug, PartialEq)]
pub struct GpuStock {
    pub gpu_type: GpuType,
    pub total: u32,
    /// Number of GPUs held by jobs; never more than `total`.
    pub used: u32,
    /// Memory of one GPU, if known.
    pub memory: Option<Bytes>,
}

/// A total and the part of it in use, in one unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    pub total: u64,
    pub used: u64,
}

/// A partition's limits.
#[derive(Clone, Debug, PartialEq)]
pub struct Partition {
    pub name: String,
    /// Whether this is the default partition.
    pub default: bool,
    /// Longest walltime of a job; `None` means unlimited.
    pub max_time: Option<Seconds>,
}

impl Usage {
    /// Returns the amount not in use.
    pub fn free(self) -> u64 {
        self.total.saturating_sub(self.used)
    }
}

impl GpuStock {
    /// Returns the number of GPUs not held by a job.
    pub fn free(&self) -> u32 {
        self.total.saturating_sub(self.used)
    }
}

impl Node {
    /// Returns an idle node without resources.
    pub fn new(name: NodeName) -> Self {
        Self {
            name,
            state: NodeState::idle(),
            reason: None,
            gpus: Vec::new(),
            untyped: None,
            other_gres: Vec::new(),
            cpus: None,
            memory: None,
            intra_node: None,
            partitions: BTreeSet::new(),
            features: BTreeSet::new(),
        }
    }

    /// Returns the number of GPUs of all types.
    pub fn gpu_total(&self) -> u32 {
        self.gpus.iter().map(|stock| stock.total).sum()
    }
}

impl Cluster {
    /// Returns the node with this name.
    pub fn node(&self, name: &NodeName) -> Option<&Node> {
        self.nodes.iter().find(|node| node.name == *name)
    }

    /// Returns the default partition.
    pub fn default_partition(&self) -> Option<&str> {
        self.partitions.iter().find(|partition| partition.default).map(|partition| partition.name.as_str())
    }

    /// Returns the first of some comma-separated partitions that has no node, and the existing ones; `None`
    /// if all have nodes or the cluster does not list the nodes of partitions.
    pub fn unknown_partition<'a>(&'a self, names: &'a str) -> Option<(&'a str, BTreeSet<&'a str>)> {
        let known: BTreeSet<&str> =
            self.nodes.iter().flat_map(|node| &node.partitions).map(String::as_str).collect();
        let unknown =
            names.split(',').map(str::trim).find(|name| !known.is_empty() && !known.contains(name))?;
        Some((unknown, known))
    }

    /// Returns the partition of a job, or several separated by commas: its own, else that of `defaults`, else
    /// the cluster's default; `None` if there is none.
    pub fn partition_of<'a>(&'a self, job: &'a Job, defaults: &'a JobDefaults) -> Option<&'a str> {
        let named = job.launch.partition.as_deref().or(defaults.partition.as_deref());
        named.or_else(|| self.default_partition())
    }
}
