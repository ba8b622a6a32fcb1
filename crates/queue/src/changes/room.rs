//! Nodes that a request could use, and their CPUs and memory beside the GPUs.

use std::collections::{BTreeMap, BTreeSet};

use crate::constraint::may_use;
use crate::{NodeHolding, NodeUse, QueueNode, Request, Snapshot, meets};
use hsched_model::{GpuType, NodeName};

/// Available CPUs, and memory in MiB, of a node; `None` if unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FreeHost {
    pub cpus: Option<u64>,
    pub memory: Option<u64>,
}

/// Returns the requested number of GPUs per node.
pub(super) fn gpus_per_node(request: &Request) -> u32 {
    request.asks.gpus.iter().map(|ask| ask.count).sum()
}

/// Returns the only GPU type that a request names.
pub(super) fn gpu_type(request: &Request) -> Option<&GpuType> {
    let [ask] = request.asks.gpus.as_slice() else { return None };
    ask.gpu_type.as_ref()
}

/// Returns the partitions of a request, or else the default one.
pub(super) fn partitions<'a>(snapshot: &'a Snapshot, request: &'a Request) -> Vec<&'a str> {
    let named = request.partition.as_deref().map(|names| names.split(',').map(str::trim).collect());
    named.unwrap_or_else(|| snapshot.default_partition().into_iter().collect())
}

/// Returns the nodes in a request's partitions that are up, have its GPUs, and match its constraint, node
/// list and excluded nodes. Nodes in use are included.
pub(super) fn nodes<'a>(snapshot: &'a Snapshot, request: &Request) -> Vec<&'a QueueNode> {
    let names = partitions(snapshot, request);
    let asks = &request.asks;
    let could = |node: &&QueueNode| {
        let is_in = names.is_empty()
            || node.partitions.is_empty()
            || names.iter().any(|name| node.partitions.contains(*name));
        node.usable == NodeUse::Up
            && is_in
            && asks.features.as_deref().is_none_or(|features| meets(features, &node.features))
            && may_use(asks, &node.name)
            && !asks.exclude.contains(&node.name)
            && has_gpus(request, &stock(node))
    };
    snapshot.nodes.iter().filter(could).collect()
}

/// Returns whether enough nodes could hold a request if they were empty.
pub(super) fn fits(snapshot: &Snapshot, request: &Request) -> bool {
    let holds = |node: &&&QueueNode| {
        let is_enough = |asked: Option<u64>, there: Option<u64>| {
            asked.zip(there).is_none_or(|(asked, there)| asked <= there)
        };
        is_enough(request.asks.cpus, node.cpus) && is_enough(request.asks.memory_mib, node.memory_mib)
    };
    let nodes = nodes(snapshot, request);
    let count = nodes.iter().filter(holds).count();
    u32::try_from(count).unwrap_or(u32::MAX) >= request.asks.nodes
}

/// Returns the largest share of a node's CPUs and the largest share of a node's memory (perhaps of another
/// node) for a request's GPUs, if all GPUs of the node get equal shares.
pub(super) fn share(snapshot: &Snapshot, request: &Request) -> FreeHost {
    let asked = u64::from(gpus_per_node(request));
    let part = |node: &QueueNode, amount: Option<u64>| {
        let all: u64 = stock(node).values().map(|count| u64::from(*count)).sum();
        Some(amount?.saturating_mul(asked) / all.max(1))
    };
    let nodes = nodes(snapshot, request);
    FreeHost {
        cpus: nodes.iter().filter_map(|node| part(node, node.cpus)).max(),
        memory: nodes.iter().filter_map(|node| part(node, node.memory_mib)).max(),
    }
}

/// Returns the remaining CPUs and memory of the nodes on which a request's GPUs are free now.
pub(super) fn free(snapshot: &Snapshot, request: &Request) -> Vec<FreeHost> {
    let mut used: BTreeMap<&NodeName, (BTreeMap<&GpuType, u32>, u64, u64)> = BTreeMap::new();
    for held in snapshot.jobs.iter().filter_map(|job| job.running.as_ref()).flat_map(|running| &running.holds)
    {
        let (gpus, cpus, memory) = used.entry(&held.node).or_default();
        for gpu in &held.gpus {
            *gpus.entry(&gpu.gpu_type).or_default() += gpu.count;
        }
        *cpus += held.cpus.unwrap_or(0);
        *memory += held.memory_mib.unwrap_or(0);
    }
    let of = |node: &&QueueNode| {
        let (gpus, cpus, memory) = used.get(&node.name).cloned().unwrap_or_default();
        let left = |(gpu_type, count): (GpuType, u32)| {
            let taken = gpus.get(&gpu_type).copied().unwrap_or(0);
            (gpu_type, count.saturating_sub(taken))
        };
        let left = stock(node).into_iter().map(left).collect();
        has_gpus(request, &left).then(|| FreeHost {
            cpus: node.cpus.map(|all| all.saturating_sub(cpus)),
            memory: node.memory_mib.map(|all| all.saturating_sub(memory)),
        })
    };
    nodes(snapshot, request).iter().filter_map(of).collect()
}

/// Returns whether a node has room for its part of a request beside what jobs hold there.
pub(super) fn has_room_beside<'a>(
    node: &QueueNode,
    request: &Request,
    holdings: impl IntoIterator<Item = &'a NodeHolding>,
) -> bool {
    let (mut gpus, mut cpus, mut memory) = (stock(node), 0, 0);
    for holding in holdings {
        if request.asks.exclusive {
            return false;
        }
        for gpu in &holding.gpus {
            if let Some(left) = gpus.get_mut(&gpu.gpu_type) {
                *left = left.saturating_sub(gpu.count);
            }
        }
        cpus += holding.cpus.unwrap_or(0);
        memory += holding.memory_mib.unwrap_or(0);
    }
    let is_enough = |asked: Option<u64>, all: Option<u64>, used: u64| {
        asked.zip(all).is_none_or(|(asked, all)| asked <= all.saturating_sub(used))
    };
    has_gpus(request, &gpus)
        && is_enough(request.asks.cpus, node.cpus, cpus)
        && is_enough(request.asks.memory_mib, node.memory_mib, memory)
}

impl Snapshot {
    /// Returns how many GPUs of a request's type are free on its possible nodes, and their total.
    pub fn free_gpus(&self, request: &Request) -> (u32, u32) {
        let of_type = |candidate: &GpuType| gpu_type(request).is_none_or(|wanted| wanted == candidate);
        let nodes = nodes(self, request);
        let names: BTreeSet<&NodeName> = nodes.iter().map(|node| &node.name).collect();
        let gpus = nodes.iter().flat_map(|node| &node.gpus).filter(|gpu| of_type(&gpu.gpu_type));
        let all: u32 = gpus.map(|gpu| gpu.count).sum();
        let held = self.jobs.iter().filter_map(|job| job.running.as_ref()).flat_map(|running| &running.holds);
        let held = held.filter(|held| names.contains(&held.node)).flat_map(|held| &held.gpus);
        let used: u32 = held.filter(|gpu| of_type(&gpu.gpu_type)).map(|gpu| gpu.count).sum();
        (all.saturating_sub(used), all)
    }
}

/// Returns the GPUs of a node by type.
pub(super) fn stock(node: &QueueNode) -> BTreeMap<GpuType, u32> {
    let mut stock = BTreeMap::new();
    for gpu in &node.gpus {
        *stock.entry(gpu.gpu_type.clone()).or_default() += gpu.count;
    }
    stock
}

pub(super) fn has_gpus(request: &Request, stock: &BTreeMap<GpuType, u32>) -> bool {
    request.asks.gpus.iter().all(|ask| match &ask.gpu_type {
        Some(gpu_type) => stock.get(gpu_type).is_some_and(|count| *count >= ask.count),
        None => stock.values().sum::<u32>() >= ask.count,
    })
}
