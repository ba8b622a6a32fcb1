//! The Slurm components of a placement: which nodes form one, and how ranks are started.

use hsched_model::{GpuType, NodeName, PlacedRank};

/// Nodes with the same GPUs, requested together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Component {
    /// Nodes in rank order.
    pub nodes: Vec<NodeName>,
    /// GPUs of each node, by type, in the order of its local ranks.
    pub gpus: Vec<(GpuType, u32)>,
}

/// How the ranks of a job are started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Launcher {
    /// An ordinary job: the same GPUs on every node.
    Plain,
    /// A heterogeneous job: one component for each mix of GPUs.
    Het,
    /// An ordinary job on named nodes with untyped GPUs, for sites without heterogeneous steps.
    HostFile,
    /// Under `hsched run`: processes of this machine.
    Local,
    /// Under `hsched run` in an allocation: one step over all nodes of the job.
    Steps,
}

impl Component {
    /// Returns the number of ranks on each node.
    pub(crate) fn ranks_per_node(&self) -> u32 {
        self.gpus.iter().map(|(_, count)| count).sum()
    }
}

impl Launcher {
    /// Returns whether the GPUs are already allocated, so that none are requested from Slurm.
    pub fn is_inside(self) -> bool {
        matches!(self, Self::Local | Self::Steps)
    }

    /// Returns the launcher's name in templates.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Het => "het",
            Self::HostFile => "hostfile",
            Self::Local => "local",
            Self::Steps => "steps",
        }
    }
}

/// Returns the components of a job's ranks. The nodes are in the order of their first ranks, and adjacent
/// nodes with the same GPUs form one component. The ranks of a node need not be consecutive, because a
/// replica may be on several nodes.
pub(super) fn components(ranks: &[PlacedRank]) -> Vec<Component> {
    let mut nodes: Vec<(&NodeName, Vec<(GpuType, u32)>)> = Vec::new();
    for rank in ranks {
        let known = nodes.iter().rposition(|(node, _)| *node == &rank.node);
        let place = known.unwrap_or_else(|| {
            nodes.push((&rank.node, Vec::new()));
            nodes.len() - 1
        });
        let gpus = &mut nodes[place].1;
        match gpus.iter_mut().find(|(gpu_type, _)| *gpu_type == rank.gpu_type) {
            Some((_, count)) => *count += 1,
            None => gpus.push((rank.gpu_type.clone(), 1)),
        }
    }
    let same_gpus = nodes.chunk_by(|a, b| a.1 == b.1);
    let component = |alike: &[(&NodeName, Vec<(GpuType, u32)>)]| Component {
        nodes: alike.iter().map(|(node, _)| (*node).clone()).collect(),
        gpus: alike[0].1.clone(),
    };
    same_gpus.map(component).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank(node: &str, gpu_type: &str) -> PlacedRank {
        PlacedRank {
            node: NodeName::new(node).expect("a name"),
            gpu_type: GpuType::new(gpu_type).expect("a type"),
            local_rank: 0,
            batch: 1,
            samples: 1,
        }
    }

    fn words(ranks: &[(&str, &str)]) -> Vec<String> {
        let ranks: Vec<PlacedRank> = ranks.iter().map(|(node, gpu_type)| rank(node, gpu_type)).collect();
        components(&ranks)
            .iter()
            .map(|c| {
                let nodes: Vec<&str> = c.nodes.iter().map(NodeName::as_str).collect();
                let gpus: Vec<String> = c.gpus.iter().map(|(ty, n)| format!("{ty}:{n}")).collect();
                format!("{} {}", nodes.join("+"), gpus.join(","))
            })
            .collect()
    }

    #[test]
    fn nodes_with_the_same_gpus_are_one_component_and_a_node_is_never_in_two() {
        let ranks = [("a", "v100"), ("a", "t4"), ("b", "v100"), ("b", "t4"), ("c", "t4"), ("d", "t4")];
        assert_eq!(words(&ranks), ["a+b v100:1,t4:1", "c+d t4:1"]);
        // Two replicas of two GPUs each on both nodes.
        let ranks = [("a", "v100"), ("b", "v100"), ("a", "t4"), ("b", "t4")];
        assert_eq!(words(&ranks), ["a+b v100:1,t4:1"]);
        let ranks = [("a", "v100"), ("a", "v100"), ("b", "v100"), ("a", "t4"), ("b", "t4")];
        assert_eq!(words(&ranks), ["a v100:2,t4:1", "b v100:1,t4:1"]);
    }
}
