//! The number of GPUs of each type, and why some are not free.

use std::collections::BTreeMap;

use crate::{Availability, Cluster, GpuStock, GpuType, Node, RankNeeds, Usage, keep_to_ranks};

/// GPUs of one type over all nodes; the parts add up to the total.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TypeSummary {
    /// All GPUs, regardless of the state of their nodes.
    pub total: u32,
    /// Unused, on nodes that are up and have the CPUs and memory of a rank.
    pub free: u32,
    /// Unused, on nodes that are up but lack the CPUs or memory of a rank.
    pub stranded: u32,
    /// Held by jobs, on nodes in any state.
    pub used: u32,
    /// Unused, on nodes that are down, restarting, drained or in an unknown state.
    pub down: u32,
    /// Unused, on nodes that are reserved or under maintenance.
    pub reserved: u32,
}

impl Node {
    /// Returns how many GPUs of each type, in the node's order, a job could get now for ranks with these
    /// `needs`; none on a node that is not up.
    pub fn usable_gpus(&self, needs: RankNeeds) -> Vec<u32> {
        if self.state.availability() != Availability::Up {
            return vec![0; self.gpus.len()];
        }
        let ranks = needs.ranks(self.cpus.map(Usage::free), self.memory.map(Usage::free));
        let mut usable: Vec<u32> = self.gpus.iter().map(GpuStock::free).collect();
        let mut by_name: Vec<_> = self.gpus.iter().zip(&mut usable).collect();
        by_name.sort_by(|(a, _), (b, _)| a.gpu_type.cmp(&b.gpu_type));
        keep_to_ranks(by_name.into_iter().map(|(_, count)| count), ranks);
        usable
    }
}

impl Cluster {
    /// Returns the GPUs of each type by usability, for ranks with these `needs`.
    pub fn summary(&self, needs: RankNeeds) -> BTreeMap<GpuType, TypeSummary> {
        let mut summary: BTreeMap<GpuType, TypeSummary> = BTreeMap::new();
        for node in &self.nodes {
            for (stock, usable) in node.gpus.iter().zip(node.usable_gpus(needs)) {
                let entry = summary.entry(stock.gpu_type.clone()).or_default();
                entry.total += stock.total;
                entry.used += stock.used;
                match node.state.availability() {
                    Availability::Up => {
                        entry.free += usable;
                        entry.stranded += stock.free() - usable;
                    }
                    Availability::Reserved => entry.reserved += stock.free(),
                    Availability::Down
                    | Availability::Restarting
                    | Availability::Drained
                    | Availability::Unknown => {
                        entry.down += stock.free();
                    }
                }
            }
        }
        summary
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{GpuStock, NodeName, NodeState};

    #[test]
    fn a_free_gpu_without_a_cpu_beside_it_is_not_free() {
        let gpu_type = GpuType::new("v100").expect("type");
        let node = |name, state, used, cpus| Node {
            state: NodeState::parse(state),
            gpus: vec![GpuStock { gpu_type: gpu_type.clone(), total: 4, used, memory: None }],
            cpus: Some(cpus),
            ..Node::new(NodeName::new(name).expect("name"))
        };
        let nodes = vec![
            node("a", "mixed", 1, Usage { total: 16, used: 8 }),
            node("b", "down", 1, Usage { total: 16, used: 0 }),
            node("c", "resv", 0, Usage { total: 16, used: 0 }),
        ];
        let summary = Cluster { nodes, ..Cluster::default() }.summary(RankNeeds { cpus: 4, memory: 0 });
        let expected = TypeSummary { total: 12, free: 2, stranded: 1, used: 2, down: 3, reserved: 4 };
        assert_eq!(summary[&gpu_type], expected);
    }
}
