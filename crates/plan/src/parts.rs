//! GPU types, split by the jobs that may use them (because of partitions or avoided nodes, or because a rank
//! does not fit): the types that policies see.

use std::collections::BTreeMap;

use hsched_model::{Access, Cluster, GpuType, NodeName};

/// The GPU types of a problem, each split into parts that the same jobs may use.
///
/// With these parts as types, jobs with different partitions and needs share one problem, and policies need
/// not consider either.
pub(super) struct Parts {
    /// Parts in the order of types, then of pools.
    pub list: Vec<Part>,
    /// Sets of nodes that the same jobs may use, by their reach ([`Access::reach`]).
    pub pools: Vec<Vec<bool>>,
    pool_of: BTreeMap<NodeName, usize>,
    number: BTreeMap<(GpuType, usize), usize>,
}

/// A GPU type on the nodes of one pool.
pub(super) struct Part {
    pub gpu_type: GpuType,
    /// Whether the type is a MIG slice.
    pub is_slice: bool,
    /// Index of the type in the cluster.
    pub column: usize,
    /// Index in [`Parts::pools`].
    pub pool: usize,
    /// Cluster index of one of the part's nodes, which represents all of them.
    pub node: usize,
}

impl Parts {
    /// Returns the parts of the cluster's `types`; nodes in no job's partition are omitted.
    pub(super) fn new(cluster: &Cluster, access: &Access, types: &[GpuType]) -> Self {
        let mut pools: Vec<Vec<bool>> = Vec::new();
        let mut pool_of = BTreeMap::new();
        let mut found: BTreeMap<(&GpuType, usize), usize> = BTreeMap::new();
        for (place, node) in cluster.nodes.iter().enumerate() {
            let Some(reach) = access.reach(node) else { continue };
            let pool = pools.iter().position(|known| *known == reach).unwrap_or_else(|| {
                pools.push(reach);
                pools.len() - 1
            });
            pool_of.insert(node.name.clone(), pool);
            for stock in &node.gpus {
                found.entry((&stock.gpu_type, pool)).or_insert(place);
            }
        }
        let mut list = Vec::new();
        for (column, gpu_type) in types.iter().enumerate() {
            let part = |pool: usize| {
                let node = *found.get(&(gpu_type, pool))?;
                let is_slice = gpu_type.is_mig_slice();
                Some(Part { gpu_type: gpu_type.clone(), is_slice, column, pool, node })
            };
            list.extend((0..pools.len()).filter_map(part));
        }
        let number = |(number, part): (usize, &Part)| ((part.gpu_type.clone(), part.pool), number);
        let number = list.iter().enumerate().map(number).collect();
        Self { list, pools, pool_of, number }
    }

    /// Converts GPUs of a node to counts by part.
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

    /// Returns all GPUs of the cluster by part, regardless of the state of their nodes.
    pub(super) fn ceiling(&self, cluster: &Cluster) -> Vec<u32> {
        let mut ceiling = vec![0; self.list.len()];
        for node in &cluster.nodes {
            let counts =
                self.counts(&node.name, node.gpus.iter().map(|stock| (&stock.gpu_type, stock.total)));
            ceiling.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        }
        ceiling
    }

    /// Returns a name for each part: the type's name and, if the type has several parts, the partitions of
    /// the part's jobs, or the name of one of its nodes if the partitions are unknown or not unique.
    pub(super) fn labels(&self, cluster: &Cluster, access: &Access) -> Vec<String> {
        let of = |part: &Part| access.name(&self.pools[part.pool]);
        let label = |part: &Part| {
            let price = of(part);
            let others: Vec<String> =
                self.list.iter().filter(|other| other.column == part.column).map(of).collect();
            match others.iter().filter(|other| **other == price).count() {
                _ if others.len() == 1 => part.gpu_type.to_string(),
                1 if !price.is_empty() => format!("{}@{price}", part.gpu_type),
                _ => format!("{}@{}", part.gpu_type, cluster.nodes[part.node].name),
            }
        };
        self.list.iter().map(label).collect()
    }
}
