//! The request of a submission in the simulated queue, and the search for free nodes.

use std::collections::{BTreeMap, BTreeSet};

use hsched_engine::Gpus;
use hsched_model::{GpuType, NodeName, PlacedRank};

/// A node that accepts work.
#[derive(Clone, Debug)]
pub(super) struct FreeNode {
    pub name: NodeName,
    /// Whether the node has GPUs of several types.
    pub mixed: bool,
    pub gpus: BTreeMap<GpuType, u32>,
}

/// The GPUs that a job requests, all at once.
#[derive(Clone, Debug)]
pub(super) struct FitRequest {
    parts: Vec<NodeRequest>,
    /// The nodes on which the job may run.
    nodes: BTreeSet<NodeName>,
    /// Whether the job requires the planned nodes.
    pinned: bool,
}

/// The request for one node.
#[derive(Clone, Debug)]
struct NodeRequest {
    planned: NodeName,
    /// Whether the planned node has several types; parts of other nodes avoid nodes with several types.
    mixed: bool,
    gpus: BTreeMap<GpuType, u32>,
}

impl FitRequest {
    /// Returns the request for `ranks`: for each planned node, as many GPUs of each type on any one node, or
    /// on the planned node itself if `pinned` is set.
    pub(super) fn new(
        ranks: &[PlacedRank],
        nodes: BTreeSet<NodeName>,
        mixed: &BTreeSet<NodeName>,
        pinned: bool,
    ) -> Self {
        let part = |(planned, gpus): (NodeName, BTreeMap<GpuType, u32>)| {
            let mixed = mixed.contains(&planned);
            NodeRequest { planned, mixed, gpus }
        };
        let mut parts: Vec<NodeRequest> = Gpus::of(ranks).0.into_iter().map(part).collect();
        // The parts that are hardest to place come first.
        let size = |part: &NodeRequest| (part.gpus.len(), part.gpus.values().sum::<u32>());
        parts.sort_by_key(|part| std::cmp::Reverse(size(part)));
        Self { parts, nodes, pinned }
    }

    /// Returns free GPUs for the request on the first suitable nodes; `None` if it must wait.
    pub(super) fn fit(&self, free: &[FreeNode]) -> Option<Gpus> {
        let anywhere = || self.place(free, |part, node| part.mixed || !node.mixed);
        // Taking the first suitable nodes may fail even though the planned nodes are free.
        let as_planned = || self.place(free, |part, node| part.planned == node.name);
        if self.pinned { as_planned() } else { anywhere().or_else(as_planned) }
    }

    /// Returns the requested types.
    pub(super) fn types(&self) -> impl Iterator<Item = &GpuType> {
        self.parts.iter().flat_map(|part| part.gpus.keys())
    }

    fn place(&self, free: &[FreeNode], suits: impl Fn(&NodeRequest, &FreeNode) -> bool) -> Option<Gpus> {
        let mut got = Gpus::default();
        for part in &self.parts {
            let has_all = |node: &&FreeNode| {
                let enough = |(gpu_type, count)| node.gpus.get(gpu_type).is_some_and(|free| free >= count);
                let is_taken = got.0.contains_key(&node.name);
                !is_taken
                    && self.nodes.contains(&node.name)
                    && suits(part, node)
                    && part.gpus.iter().all(enough)
            };
            let node = free.iter().find(has_all)?;
            got.0.insert(node.name.clone(), part.gpus.clone());
        }
        Some(got)
    }
}
