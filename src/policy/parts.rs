//! GPU types split where some jobs may use some of their nodes and others not: what policies take for types.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{Access, Cluster, GpuType, NodeName};

/// The GPU types of a problem, each split into the parts that the same jobs may use.
///
/// With these for types, jobs of different partitions live in one problem, and policies need not know of partitions.
pub(super) struct Parts {
    /// In the order of the types, then of the pools.
    pub list: Vec<Part>,
    /// Nodes that the same jobs may use, by their reach ([`Access::reach`]).
    pub pools: Vec<Vec<bool>>,
    pool_of: BTreeMap<NodeName, usize>,
    number: BTreeMap<(GpuType, usize), usize>,
}

/// A GPU type on the nodes of one pool.
pub(super) struct Part {
    pub gpu_type: GpuType,
    /// The place of the type among the cluster's.
    pub column: usize,
    /// The place in [`Parts::pools`].
    pub pool: usize,
}

impl Parts {
    /// Returns the parts of `types`, those of the cluster; nodes that no job may use are left out.
    pub(super) fn new(cluster: &Cluster, access: &Access, types: &[GpuType]) -> Self {
        let mut pools: Vec<Vec<bool>> = Vec::new();
        let mut pool_of = BTreeMap::new();
        let mut found: BTreeSet<(&GpuType, usize)> = BTreeSet::new();
        for node in &cluster.nodes {
            let reach = access.reach(node);
            if !reach.contains(&true) {
                continue;
            }
            let pool = pools.iter().position(|known| *known == reach).unwrap_or_else(|| {
                pools.push(reach);
                pools.len() - 1
            });
            pool_of.insert(node.name.clone(), pool);
            found.extend(node.gpus.iter().map(|stock| (&stock.gpu_type, pool)));
        }
        let mut list = Vec::new();
        for (column, gpu_type) in types.iter().enumerate() {
            let own = (0..pools.len()).filter(|&pool| found.contains(&(gpu_type, pool)));
            list.extend(own.map(|pool| Part { gpu_type: gpu_type.clone(), column, pool }));
        }
        let number = |(number, part): (usize, &Part)| ((part.gpu_type.clone(), part.pool), number);
        let number = list.iter().enumerate().map(number).collect();
        Self { list, pools, pool_of, number }
    }

    /// Returns some GPUs of a node by part.
    pub(super) fn counts<'a>(
        &self,
        node: &NodeName,
        gpus: impl Iterator<Item = (&'a GpuType, u32)>,
    ) -> Vec<u32> {
        let mut counts = vec![0; self.list.len()];
        let Some(&pool) = self.pool_of.get(node) else { return counts };
        for (gpu_type, count) in gpus {
            if let Some(&number) = self.number.get(&(gpu_type.clone(), pool)) {
                counts[number] += count;
            }
        }
        counts
    }

    /// Returns all GPUs of the cluster by part, in whatever state their nodes are.
    pub(super) fn ceiling(&self, cluster: &Cluster) -> Vec<u32> {
        let mut ceiling = vec![0; self.list.len()];
        for node in &cluster.nodes {
            let own = self.counts(&node.name, node.gpus.iter().map(|stock| (&stock.gpu_type, stock.total)));
            ceiling.iter_mut().zip(own).for_each(|(sum, count)| *sum += count);
        }
        ceiling
    }

    /// Returns a name for each part: the type's, with the partitions of its jobs where it has several parts.
    pub(super) fn labels(&self, access: &Access) -> Vec<String> {
        let is_split = |part: &Part| self.list.iter().filter(|other| other.column == part.column).count() > 1;
        let label = |part: &Part| {
            let of = || access.name(&self.pools[part.pool]);
            if is_split(part) { format!("{}@{}", part.gpu_type, of()) } else { part.gpu_type.to_string() }
        };
        self.list.iter().map(label).collect()
    }
}
