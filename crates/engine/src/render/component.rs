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
    pub fn ranks_per_node(&self) -> u32 {
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

/// Returns the components of a job's ranks, in rank order: adjacent nodes with the same GPUs form one
/// component.
pub fn components(ranks: &[PlacedRank]) -> Vec<Component> {
    let mut components: Vec<Component> = Vec::new();
    for of_node in ranks.chunk_by(|a, b| a.node == b.node) {
        let same_type = of_node.chunk_by(|a, b| a.gpu_type == b.gpu_type);
        let gpus: Vec<(GpuType, u32)> = same_type
            .map(|run| (run[0].gpu_type.clone(), u32::try_from(run.len()).unwrap_or(u32::MAX)))
            .collect();
        let node = of_node[0].node.clone();
        match components.last_mut() {
            Some(last) if last.gpus == gpus => last.nodes.push(node),
            _ => components.push(Component { nodes: vec![node], gpus }),
        }
    }
    components
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

    #[test]
    fn nodes_with_the_same_gpus_are_one_component_and_a_node_is_never_in_two() {
        let ranks = [("a", "v100"), ("a", "t4"), ("b", "v100"), ("b", "t4"), ("c", "t4"), ("d", "t4")];
        let components = components(&ranks.map(|(node, gpu_type)| rank(node, gpu_type)));
        let text: Vec<String> = components
            .iter()
            .map(|c| {
                let nodes: Vec<&str> = c.nodes.iter().map(NodeName::as_str).collect();
                let gpus: Vec<String> = c.gpus.iter().map(|(ty, n)| format!("{ty}:{n}")).collect();
                format!("{} {}", nodes.join("+"), gpus.join(","))
            })
            .collect();
        assert_eq!(text, ["a+b v100:1,t4:1", "c+d t4:1"]);
        assert_eq!(components[0].ranks_per_node(), 2);
    }
}
