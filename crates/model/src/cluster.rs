//! A cluster as it was observed: nodes, their GPUs, partitions, and the links between nodes.

use std::collections::BTreeSet;

use crate::{BitRate, Bytes, GpuType, Job, JobDefaults, NodeName, NodeState, Seconds};

/// A cluster's nodes, links and partitions at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cluster {
    /// Rate between nodes; `None` if not given.
    pub network: Option<BitRate>,
    /// Rate between GPUs of one node, for nodes that do not say their own.
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
    /// GPUs by type in the order in which the node numbers its devices; each type once.
    pub gpus: Vec<GpuStock>,
    /// How to ask Slurm for these GPUs, where it does not know their type.
    pub untyped: Option<Selector>,
    /// Generic resources that are no GPUs, and GRES text that could not be read, as printed.
    pub other_gres: Vec<String>,
    /// CPUs, where known.
    pub cpus: Option<Usage>,
    /// Memory in bytes, where known.
    pub memory: Option<Usage>,
    /// Rate between this node's GPUs, where it differs from the cluster's.
    pub intra_node: Option<BitRate>,
    pub partitions: BTreeSet<String>,
    pub features: BTreeSet<String>,
}

/// What stands for the type of GPUs when Slurm is asked for them without one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selector {
    /// A feature that only nodes with such GPUs have.
    Feature(String),
    /// The node's name: nothing else tells it from others.
    Name,
}

/// The GPUs of one type in one node.
#[derive(Clone, Debug, PartialEq)]
pub struct GpuStock {
    pub gpu_type: GpuType,
    pub total: u32,
    /// How many of `total` jobs hold; never more than `total`.
    pub used: u32,
    /// Memory of one GPU, where known.
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
    /// Whether jobs that name no partition go here.
    pub default: bool,
    /// Longest walltime of a job; `None` is unlimited.
    pub max_time: Option<Seconds>,
}

impl Usage {
    /// Returns what is not in use.
    pub fn free(self) -> u64 {
        self.total.saturating_sub(self.used)
    }
}

impl GpuStock {
    /// Returns how many of the GPUs no job holds.
    pub fn free(&self) -> u32 {
        self.total.saturating_sub(self.used)
    }
}

impl Node {
    /// Returns a node that is idle and has nothing but a name.
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
    /// Returns the node of that name.
    pub fn node(&self, name: &NodeName) -> Option<&Node> {
        self.nodes.iter().find(|node| node.name == *name)
    }

    /// Returns the partition of jobs that name none.
    pub fn default_partition(&self) -> Option<&str> {
        self.partitions.iter().find(|partition| partition.default).map(|partition| partition.name.as_str())
    }

    /// Returns the first of some partitions, with commas between them, that no node is in, and those that there are; `None`
    /// where all have nodes or the cluster does not say who belongs where.
    pub fn unknown_partition<'a>(&'a self, names: &'a str) -> Option<(&'a str, BTreeSet<&'a str>)> {
        let known: BTreeSet<&str> =
            self.nodes.iter().flat_map(|node| &node.partitions).map(String::as_str).collect();
        let unknown =
            names.split(',').map(str::trim).find(|name| !known.is_empty() && !known.contains(name))?;
        Some((unknown, known))
    }

    /// Returns the partition that a job goes to, or several with commas: its own, else that of `defaults`, else the
    /// cluster's default; `None` if none is named.
    pub fn partition_of<'a>(&'a self, job: &'a Job, defaults: &'a JobDefaults) -> Option<&'a str> {
        let named = job.launch.partition.as_deref().or(defaults.partition.as_deref());
        named.or_else(|| self.default_partition())
    }
}
