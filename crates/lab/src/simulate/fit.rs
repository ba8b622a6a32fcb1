//! What a submission asks of the simulated queue, and which free nodes fit.

use std::collections::{BTreeMap, BTreeSet};

use hsched_engine::Gpus;
use hsched_model::{GpuType, NodeName, PlacedRank};

/// A node that can take work.
#[derive(Clone, Debug)]
pub(super) struct FreeNode {
    pub name: NodeName,
    /// Whether it has GPUs of several types.
    pub mixed: bool,
    pub gpus: BTreeMap<GpuType, u32>,
}

/// GPUs that a job asks for, all at once.
#[derive(Clone, Debug)]
pub(super) struct FitRequest {
    parts: Vec<NodeRequest>,
    /// The nodes that it may run on.
    nodes: BTreeSet<NodeName>,
    /// Whether it insists on the planned nodes.
    pinned: bool,
}

/// What is asked of one node.
#[derive(Clone, Debug)]
struct NodeRequest {
    planned: NodeName,
    /// Whether it was planned on a node with several types; others are kept away from such nodes.
    mixed: bool,
    gpus: BTreeMap<GpuType, u32>,
}

impl FitRequest {
    /// Returns what `ranks` ask for: for each planned node another one with as many GPUs of the same types.
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
        // What is hardest to place goes first.
        let size = |part: &NodeRequest| (part.gpus.len(), part.gpus.values().sum::<u32>());
        parts.sort_by_key(|part| std::cmp::Reverse(size(part)));
        Self { parts, nodes, pinned }
    }

    /// Returns the GPUs that it gets out of what is free, on the first nodes that can give them; `None` when it
    /// must wait.
    pub(super) fn fit(&self, free: &[FreeNode]) -> Option<Gpus> {
        let anywhere = || self.place(free, |part, node| part.mixed || !node.mixed);
        // Taking the first nodes may spoil a start that the planned ones allow.
        let as_planned = || self.place(free, |part, node| part.planned == node.name);
        if self.pinned { as_planned() } else { anywhere().or_else(as_planned) }
    }

    /// Returns the types that it asks for.
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
