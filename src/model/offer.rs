//! The part of a cluster that a plan may use: by state, by what is free, by what an account may expect.

use std::collections::BTreeMap;

use crate::model::{Access, Availability, BitRate, Cluster, GpuType, Node, NodeName, Usage, hostlist};

/// The GPUs a plan may use.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Offer {
    /// Nodes with at least one GPU to use, in the cluster's order.
    pub nodes: Vec<OfferedNode>,
    /// What was left out and why, one sentence each, for people.
    pub notes: Vec<String>,
}

/// One node's GPUs that a plan may use.
#[derive(Clone, Debug, PartialEq)]
pub struct OfferedNode {
    pub name: NodeName,
    /// Types with counts above zero, in the node's device order.
    pub gpus: Vec<(GpuType, u32)>,
    /// The node's own rate between its GPUs.
    pub intra_node: Option<BitRate>,
}

/// What one rank needs beside its GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RankNeeds {
    /// CPUs, at least 1.
    pub cpus: u64,
    /// Bytes of memory; 0 when nobody said.
    pub memory: u64,
}

/// What running jobs of the user hold, by node: it can be counted as free when those jobs are planned anew.
pub type Holdings = BTreeMap<NodeName, Held>;

/// What jobs hold on one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Held {
    pub gpus: BTreeMap<GpuType, u32>,
    pub cpus: u64,
    /// Bytes.
    pub memory: u64,
}

impl Offer {
    /// Returns what is free now on nodes that are up and that some job may use, and what `mine` holds there.
    #[must_use]
    pub fn free(cluster: &Cluster, access: &Access, mine: &Holdings) -> Self {
        let nothing = Held::default();
        Self::collect(cluster, access, |node, needs| {
            let held = mine.get(&node.name).unwrap_or(&nothing);
            let gpus = node.gpus.iter().map(|stock| {
                let own = held.gpus.get(&stock.gpu_type).copied().unwrap_or(0);
                (stock.gpu_type.clone(), stock.free().saturating_add(own).min(stock.total))
            });
            let room = |usage: Usage, own: u64| usage.free().saturating_add(own).min(usage.total);
            let cpus = node.cpus.map(|usage| room(usage, held.cpus));
            let memory = node.memory.map(|usage| room(usage, held.memory));
            within_host(gpus.collect(), needs, cpus, memory)
        })
    }

    /// Returns all GPUs of nodes that are up and that some job may use, whoever holds them now.
    #[must_use]
    pub fn up(cluster: &Cluster, access: &Access) -> Self {
        Self::collect(cluster, access, |node, needs| {
            let gpus = node.gpus.iter().map(|stock| (stock.gpu_type.clone(), stock.total)).collect();
            within_host(gpus, needs, node.cpus.map(|u| u.total), node.memory.map(|u| u.total))
        })
    }

    /// Returns at most `limits` GPUs of each type out of the nodes that are up, on as few nodes as possible.
    ///
    /// A type without a limit is not offered. Nodes with many GPUs of the type come first: that is how
    /// an account that may expect eight V100 would like to get them.
    #[must_use]
    pub fn limits(cluster: &Cluster, access: &Access, limits: &BTreeMap<GpuType, u32>) -> Self {
        let mut offer = Self::up(cluster, access);
        for (gpu_type, &limit) in limits {
            let count = |node: &OfferedNode| node.count(gpu_type);
            let offered: u32 = offer.nodes.iter().map(count).sum();
            if offered < limit {
                offer.notes.push(format!("capacity {gpu_type}: {limit} expected, {offered} are up"));
            }
            let mut order: Vec<usize> = (0..offer.nodes.len()).collect();
            order.sort_by_key(|&index| std::cmp::Reverse(count(&offer.nodes[index])));
            let mut left = limit;
            for index in order {
                let stock = offer.nodes[index].gpus.iter_mut().find(|(own, _)| own == gpu_type);
                if let Some((_, count)) = stock {
                    *count = (*count).min(left);
                    left -= *count;
                }
            }
        }
        for node in &mut offer.nodes {
            node.gpus.retain(|(gpu_type, count)| *count > 0 && limits.contains_key(gpu_type));
        }
        offer.nodes.retain(|node| !node.gpus.is_empty());
        offer
    }

    /// Returns the number of GPUs offered, of all types.
    #[must_use]
    pub fn gpu_total(&self) -> u32 {
        self.nodes.iter().flat_map(|node| &node.gpus).map(|(_, count)| count).sum()
    }

    fn collect(
        cluster: &Cluster,
        access: &Access,
        usable: impl Fn(&Node, RankNeeds) -> (Vec<(GpuType, u32)>, Option<String>),
    ) -> Self {
        let mut offer = Self::default();
        let mut reasons: Vec<(String, Vec<&str>)> = Vec::new();
        for node in &cluster.nodes {
            if node.state.availability() != Availability::Up || node.gpus.is_empty() {
                continue;
            }
            let Some(needs) = access.needs(node) else { continue };
            let (mut gpus, reason) = usable(node, needs);
            gpus.retain(|&(_, count)| count > 0);
            if let Some(reason) = reason {
                match reasons.iter_mut().find(|(known, _)| *known == reason) {
                    Some((_, nodes)) => nodes.push(node.name.as_str()),
                    None => reasons.push((reason, vec![node.name.as_str()])),
                }
            }
            if !gpus.is_empty() {
                let name = node.name.clone();
                offer.nodes.push(OfferedNode { name, gpus, intra_node: node.intra_node });
            }
        }
        let note = |(reason, nodes)| format!("{}: {reason}", hostlist::compress(nodes));
        offer.notes = reasons.into_iter().map(note).collect();
        offer
    }
}

impl OfferedNode {
    /// Returns the number of GPUs of one type.
    #[must_use]
    pub fn count(&self, gpu_type: &GpuType) -> u32 {
        self.gpus.iter().find(|(own, _)| own == gpu_type).map_or(0, |&(_, count)| count)
    }
}

/// Lowers `gpus` to the number of ranks for which the node has CPUs and memory; types later by name lose first.
///
/// Returns why, where it had to.
pub(super) fn within_host(
    mut gpus: Vec<(GpuType, u32)>,
    needs: RankNeeds,
    cpus: Option<u64>,
    memory: Option<u64>,
) -> (Vec<(GpuType, u32)>, Option<String>) {
    let ranks = |available: Option<u64>, need: u64| match available {
        Some(amount) if need > 0 => amount / need,
        _ => u64::MAX,
    };
    let (by_cpus, by_memory) = (ranks(cpus, needs.cpus), ranks(memory, needs.memory));
    let mut left = by_cpus.min(by_memory);
    let wanted: u64 = gpus.iter().map(|&(_, count)| u64::from(count)).sum();
    if wanted <= left {
        return (gpus, None);
    }
    let (scarce, usable) = (if by_cpus <= by_memory { "CPUs" } else { "memory" }, left);
    let mut by_name: Vec<&mut (GpuType, u32)> = gpus.iter_mut().collect();
    by_name.sort_by(|(a, _), (b, _)| a.cmp(b));
    for (_, count) in by_name {
        *count = u32::try_from(left.min(u64::from(*count))).unwrap_or(*count);
        left -= u64::from(*count);
    }
    let reason = format!(
        "only {usable} of {wanted} GPUs per node are usable: not enough {scarce} for more ranks (the largest cpus_per_gpu and memory_per_gpu of all jobs count)"
    );
    (gpus, Some(reason))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{GpuStock, NodeState};

    const NEEDS: RankNeeds = RankNeeds { cpus: 4, memory: 1 << 30 };

    fn node(name: &str, state: &str, total: u32, used: u32, cpus: Usage) -> Node {
        let gpu_type = GpuType::new("v100").expect("type");
        Node {
            state: NodeState::parse(state),
            gpus: vec![GpuStock { gpu_type, total, used, memory: None }],
            cpus: Some(cpus),
            ..Node::new(NodeName::new(name).expect("name"))
        }
    }

    fn counts(offer: &Offer) -> Vec<(&str, u32)> {
        offer.nodes.iter().map(|node| (node.name.as_str(), node.gpus[0].1)).collect()
    }

    fn cluster() -> Cluster {
        let plenty = Usage { total: 64, used: 0 };
        let nodes = vec![
            node("a", "mixed", 4, 1, plenty),
            node("b", "mixed", 4, 0, Usage { total: 16, used: 9 }),
            node("c", "down*", 4, 0, plenty),
            node("d", "resv", 4, 0, plenty),
            node("e", "idle", 8, 0, plenty),
        ];
        Cluster { nodes, ..Cluster::default() }
    }

    #[test]
    fn free_counts_only_what_a_rank_can_be_put_beside() {
        let offer = Offer::free(&cluster(), &Access::everywhere(NEEDS), &Holdings::new());
        assert_eq!(counts(&offer), [("a", 3), ("b", 1), ("e", 8)]);
        assert_eq!(
            offer.notes,
            [
                "b: only 1 of 4 GPUs per node are usable: not enough CPUs for more ranks (the largest cpus_per_gpu and memory_per_gpu of all jobs count)"
            ]
        );
    }

    #[test]
    fn what_is_mine_counts_as_free() {
        let gpus = BTreeMap::from([(GpuType::new("v100").expect("type"), 1)]);
        let name = NodeName::new("a").expect("name");
        let mine = Holdings::from([(name, Held { gpus, cpus: 4, memory: 0 })]);
        assert_eq!(counts(&Offer::free(&cluster(), &Access::everywhere(NEEDS), &mine))[0], ("a", 4));
    }

    #[test]
    fn limits_take_the_fullest_nodes_and_say_what_is_missing() {
        let v100 = GpuType::new("v100").expect("type");
        let limited = |limit| {
            Offer::limits(&cluster(), &Access::everywhere(NEEDS), &BTreeMap::from([(v100.clone(), limit)]))
        };
        assert_eq!(counts(&limited(10)), [("a", 2), ("e", 8)]);
        assert_eq!(counts(&limited(99)), [("a", 4), ("b", 4), ("e", 8)]);
        assert_eq!(limited(99).notes, ["capacity v100: 99 expected, 16 are up"]);
    }
}
