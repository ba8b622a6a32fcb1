//! Accelerators that Slurm does not call `gpu`. hsched requests only the GRES `gpu`, so it lists the others
//! in notes.

use crate::notes::Notes;
use crate::record::excerpt;
use hsched_model::Cluster;

/// GRES names of accelerators.
const NAMES: [&str; 12] =
    ["npu", "dcu", "hpu", "tpu", "mlu", "xpu", "gcu", "ipu", "neuron", "ascend", "gaudi", "vgpu"];

/// Returns notes on accelerators that do not count as GPUs.
pub fn uncounted_accelerators(cluster: &Cluster) -> Vec<String> {
    let mut notes = Notes::default();
    for node in &cluster.nodes {
        let all = node.other_gres.iter().filter(|part| is_accelerator(part));
        let all: Vec<String> = all.map(|part| excerpt(part)).collect();
        if !all.is_empty() {
            let note = format!(
                "{} does not count as GPUs, because hsched requests only the GRES \
                    gpu",
                all.join(", ")
            );
            notes.of(&node.name, note);
        }
    }
    notes.into_lines()
}

fn is_accelerator(part: &str) -> bool {
    let name = part.strip_prefix("gres/").unwrap_or(part);
    let name = name.split([':', '=', '(']).next().unwrap_or_default();
    NAMES.iter().any(|candidate| name.eq_ignore_ascii_case(candidate))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hsched_model::{Node, NodeName};

    #[test]
    fn accelerators_of_other_names_are_named_and_other_resources_are_not() {
        let node = |name, gres: &[&str]| Node {
            other_gres: gres.iter().map(|part| (*part).to_owned()).collect(),
            ..Node::new(NodeName::new(name).expect("a name"))
        };
        let nodes = vec![
            node("n1", &["npu:Ascend-910B3:8", "tmp:100G"]),
            node("n2", &["hpu:gaudi2:8(S:0-1)"]),
            node("n3", &["tpu:8"]),
            node("n4", &["tpu:8"]),
            node("n5", &["dcu:4", "TPU"]),
            node("n6", &["shard:8", "mps:100", "craynetwork:4", "tpuram:2"]),
        ];
        let behind = "does not count as GPUs, because hsched requests only the GRES gpu";
        assert_eq!(
            uncounted_accelerators(&Cluster { nodes, ..Cluster::default() }),
            [
                format!("n1: npu:Ascend-910B3:8 {behind}"),
                format!("n2: hpu:gaudi2:8(S:0-1) {behind}"),
                format!("n[3-4]: tpu:8 {behind}"),
                format!("n5: dcu:4, TPU {behind}"),
            ]
        );
    }
}
