//! Replicas: the GPUs that together train one copy of a job's model, in the form that policies use.
//!
//! To a policy, a replica is a worker: bundles, limits, shares and rings count replicas. Only nodes count
//! GPUs.

use std::collections::BTreeMap;

use crate::{JobModel, Problem, Rank, Sharing, Slot};

/// Nodes by their GPUs by type: each kind of node once, because a cluster has thousands of nodes of a few
/// kinds.
#[derive(Clone, Debug)]
pub(super) struct NodeShapes(BTreeMap<Vec<u32>, u32>);

impl NodeShapes {
    /// Returns the shapes of nodes with these GPUs by type.
    pub(super) fn new<'a>(nodes: impl Iterator<Item = &'a [u32]>) -> Self {
        let mut shapes: BTreeMap<Vec<u32>, u32> = BTreeMap::new();
        for gpus in nodes {
            match shapes.get_mut(gpus) {
                Some(count) => *count += 1,
                None => drop(shapes.insert(gpus.to_vec(), 1)),
            }
        }
        Self(shapes)
    }

    /// Returns the shapes of a problem's nodes with their offered GPUs.
    pub(super) fn offered(problem: &Problem) -> Self {
        Self::new(problem.nodes.iter().map(|node| node.gpus.as_slice()))
    }

    /// Returns the largest number of GPUs on one node, by type.
    pub(super) fn largest(&self, types: usize) -> Vec<u32> {
        (0..types).map(|ty| self.0.keys().map(|gpus| gpus[ty]).max().unwrap_or(0)).collect()
    }
}

/// The structure of a job's replicas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaModel {
    /// GPUs per replica, by type; 1 for an unusable type.
    pub sizes: Vec<u32>,
    /// Whether the GPUs of a replica must be on one node.
    pub same_node: bool,
    /// Maximum number of replicas on the whole cluster if the job were alone, regardless of the use and state
    /// of nodes.
    pub ever: u64,
    /// The largest number of GPUs on one node, by type.
    pub largest: Vec<u32>,
}

/// The GPUs of one replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaPlacement {
    pub gpu_type: usize,
    /// Nodes, with the number of the replica's GPUs on each.
    pub parts: Vec<(usize, u32)>,
}

impl ReplicaModel {
    /// Returns the replica model with classes of types instead of types.
    pub(super) fn for_types(&self, types: &[Vec<usize>]) -> Self {
        let of = |values: &[u32]| {
            types.iter().map(|members| values.get(members[0]).copied().unwrap_or(1)).collect()
        };
        Self { sizes: of(&self.sizes), largest: of(&self.largest), ..self.clone() }
    }
}

impl JobModel {
    /// Returns the number of GPUs per replica on a type.
    pub fn size(&self, gpu_type: usize) -> u32 {
        self.replica.as_ref().map_or(1, |replica| replica.sizes[gpu_type])
    }

    /// Returns how many GPUs of a replica on a type must be on one node.
    pub fn block(&self, gpu_type: usize) -> u32 {
        if self.needs_blocks() { self.size(gpu_type) } else { 1 }
    }

    /// Returns whether a replica may need several free GPUs of one node.
    pub fn needs_blocks(&self) -> bool {
        self.replica
            .as_ref()
            .is_some_and(|replica| replica.same_node && replica.sizes.iter().any(|&size| size > 1))
    }

    /// Returns whether a replica may be several GPUs on any nodes.
    pub fn is_loose(&self) -> bool {
        self.replica
            .as_ref()
            .is_some_and(|replica| !replica.same_node && replica.sizes.iter().any(|&size| size > 1))
    }

    /// Returns whether a replica may have several GPUs.
    pub fn has_several_gpus(&self) -> bool {
        self.needs_blocks() || self.is_loose()
    }

    /// Returns the minimum number of GPUs that the job can use.
    pub fn least_gpus(&self) -> u32 {
        let usable = (0..self.types.len()).filter(|&ty| self.types[ty].is_some());
        usable.map(|ty| self.size(ty)).min().unwrap_or(1).saturating_mul(self.min_gpus)
    }

    /// Returns the maximum number of GPUs that the job may have.
    pub fn most_gpus(&self) -> u32 {
        let usable = (0..self.types.len()).filter(|&ty| self.types[ty].is_some());
        usable.map(|ty| self.size(ty)).max().unwrap_or(1).saturating_mul(self.max_gpus)
    }

    /// Returns the GPUs of these replicas by type.
    pub fn gpus(&self, replicas: &[u32]) -> Vec<u32> {
        replicas.iter().enumerate().map(|(ty, &count)| count * self.size(ty)).collect()
    }

    /// Returns the number of replicas by type that fit into these GPUs, which are on one node or for which
    /// nodes do not matter.
    pub(crate) fn replicas_in(&self, gpus: &[u32]) -> Vec<u32> {
        gpus.iter().enumerate().map(|(ty, &count)| count / self.size(ty)).collect()
    }

    /// Returns the maximum number of replicas by type on nodes with these free GPUs if the job is alone.
    pub(super) fn most_replicas(&self, nodes: &NodeShapes) -> Vec<u32> {
        let mut most = vec![0; self.types.len()];
        let whole = self.needs_blocks();
        for (gpus, number) in &nodes.0 {
            for (ty, (most, &count)) in most.iter_mut().zip(gpus).enumerate() {
                *most += number * if whole { count / self.size(ty) } else { count };
            }
        }
        if whole { most } else { self.replicas_in(&most) }
    }

    /// Returns the replicas on some GPUs by type; `None` if GPUs are left over.
    pub fn replicas_by_type(&self, slots: &[Slot]) -> Option<Vec<u32>> {
        let mut counts = vec![0; self.types.len()];
        for slot in slots {
            if self.needs_blocks() && slot.count % self.size(slot.gpu_type) != 0 {
                return None;
            }
            counts[slot.gpu_type] += slot.count;
        }
        let whole = counts.iter().enumerate().all(|(ty, count)| count % self.size(ty) == 0);
        whole.then(|| self.replicas_in(&counts))
    }

    /// Returns the GPUs of each replica, assigned in the order of slots; `None` if GPUs are left over.
    pub fn placed(&self, slots: &[Slot]) -> Option<Vec<ReplicaPlacement>> {
        self.replicas_by_type(slots)?;
        let mut placed = Vec::new();
        for gpu_type in 0..self.types.len() {
            let mut open: Option<(ReplicaPlacement, u32)> = None;
            for slot in slots.iter().filter(|slot| slot.gpu_type == gpu_type) {
                let mut left = slot.count;
                while left > 0 {
                    let fresh = || (ReplicaPlacement { gpu_type, parts: Vec::new() }, self.size(gpu_type));
                    let (mut replica, missing) = open.take().unwrap_or_else(fresh);
                    let taken = missing.min(left);
                    replica.parts.push((slot.node, taken));
                    left -= taken;
                    if taken == missing {
                        placed.push(replica);
                    } else {
                        open = Some((replica, missing - taken));
                    }
                }
            }
        }
        Some(placed)
    }

    /// Returns a key of the job's replicas and batch division; empty if the job defines no replicas and its
    /// shares may be balanced.
    pub(super) fn replica_key(&self) -> Vec<u64> {
        let mut key = Vec::new();
        if self.sharing == Sharing::Equal {
            key.push(u64::MAX);
        }
        if let Some(replica) = &self.replica {
            key.push(replica.same_node.into());
            key.extend(replica.sizes.iter().map(|&size| u64::from(size)));
        }
        key
    }

    /// Returns the ranks of each replica, in rank order.
    pub fn ranks_by_replica<'a>(&self, ranks: &'a [Rank]) -> Vec<&'a [Rank]> {
        let (mut rest, mut replicas) = (ranks, Vec::new());
        while let Some(first) = rest.first() {
            let size = (self.size(first.gpu_type) as usize).min(rest.len());
            let (replica, others) = rest.split_at(size);
            replicas.push(replica);
            rest = others;
        }
        replicas
    }
}
