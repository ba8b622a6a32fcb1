//! Reads a cluster from the JSON of `hsched inventory`.

use serde::Deserialize;
use thiserror::Error;

use crate::{Cluster, GpuStock, GpuType, NameError, Node, NodeName, NodeState, Partition, Seconds, Usage};

/// Maximum number of GPUs of a cluster, as in cluster files.
const GPU_LIMIT: u64 = 1_000_000;

/// Why a text is not an inventory.
#[derive(Debug, Error)]
pub enum InventoryError {
    #[error("is not an hsched inventory")]
    Json(#[from] serde_json::Error),
    #[error("has schema {schema:?}, but this version reads hsched.inventory/1")]
    Schema { schema: String },
    #[error("nodes[{index}]")]
    Name { index: usize, source: NameError },
    #[error("node {node:?} is named twice")]
    Repeated { node: String },
    #[error("node {node}: {gpu_type:?} is not a GPU type, or appears twice")]
    Type { node: NodeName, gpu_type: String },
    #[error("counts more than {GPU_LIMIT} GPUs")]
    TooMany,
}

#[derive(Deserialize)]
struct Inventory {
    schema: String,
    nodes: Vec<NodeJson>,
    #[serde(default)]
    partitions: Vec<PartitionJson>,
    #[serde(default)]
    notes: Vec<String>,
}

#[derive(Deserialize)]
struct NodeJson {
    name: String,
    state: String,
    reason: Option<String>,
    #[serde(default)]
    partitions: Vec<String>,
    #[serde(default)]
    features: Vec<String>,
    #[serde(default)]
    gpus: Vec<StockJson>,
    /// Whether Slurm knows no type for the GPUs; the type in the inventory is then ignored, and detected
    /// again.
    #[serde(default)]
    gpus_untyped: bool,
    #[serde(default)]
    other_gres: Vec<String>,
    cpus: Option<UsageJson>,
    memory_bytes: Option<UsageJson>,
}

#[derive(Deserialize)]
struct StockJson {
    r#type: String,
    total: u32,
    #[serde(default)]
    used: u32,
}

#[derive(Deserialize)]
struct UsageJson {
    total: u64,
    used: u64,
}

#[derive(Deserialize)]
struct PartitionJson {
    name: String,
    #[serde(default)]
    default: bool,
    max_time_s: Option<f64>,
}

/// Returns the cluster and the notes of an inventory (schema `hsched.inventory/1`).
///
/// # Errors
/// If the text is not JSON of this schema, or contains impossible values.
pub fn parse(text: &str) -> Result<(Cluster, Vec<String>), InventoryError> {
    let inventory: Inventory = serde_json::from_str(text)?;
    if inventory.schema != "hsched.inventory/1" {
        return Err(InventoryError::Schema { schema: inventory.schema });
    }
    let counts = inventory.nodes.iter().flat_map(|node| &node.gpus).map(|stock| u64::from(stock.total));
    if counts.fold(0, u64::saturating_add) > GPU_LIMIT {
        return Err(InventoryError::TooMany);
    }
    let mut names = std::collections::BTreeSet::new();
    let mut nodes = Vec::new();
    for (index, json) in inventory.nodes.into_iter().enumerate() {
        if !names.insert(json.name.clone()) {
            return Err(InventoryError::Repeated { node: json.name });
        }
        nodes.push(node(index, json)?);
    }
    let partition = |json: PartitionJson| Partition {
        name: json.name,
        default: json.default,
        max_time: json.max_time_s.filter(|time| *time >= 0.0).map(Seconds),
    };
    let partitions = inventory.partitions.into_iter().map(partition).collect();
    Ok((Cluster { nodes, partitions, ..Cluster::default() }, inventory.notes))
}

fn node(index: usize, json: NodeJson) -> Result<Node, InventoryError> {
    let name = NodeName::new(&json.name).map_err(|source| InventoryError::Name { index, source })?;
    let mut gpus: Vec<GpuStock> = Vec::new();
    for StockJson { r#type, total, used } in json.gpus {
        let type_name = if json.gpus_untyped { GpuType::UNTYPED } else { &r#type };
        match GpuType::new(type_name) {
            Some(gpu_type) if gpus.iter().all(|stock| stock.gpu_type != gpu_type) => {
                gpus.push(GpuStock { gpu_type, total, used: used.min(total), memory: None });
            }
            _ => return Err(InventoryError::Type { node: name, gpu_type: r#type }),
        }
    }
    let usage = |json: UsageJson| Usage { total: json.total, used: json.used };
    Ok(Node {
        state: NodeState::parse(&json.state),
        reason: json.reason,
        gpus,
        other_gres: json.other_gres,
        cpus: json.cpus.map(usage),
        memory: json.memory_bytes.map(usage),
        partitions: json.partitions.into_iter().collect(),
        features: json.features.into_iter().collect(),
        ..Node::new(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_cluster_can_be_is_refused() {
        let check = |nodes: &str, expected: &str| {
            let text = format!(r#"{{"schema": "hsched.inventory/1", "nodes": [{nodes}], "later": 1}}"#);
            let read = parse(&text).map(|(cluster, _)| cluster.nodes.len());
            assert_eq!(read.map_err(|error| error.to_string()), Err(expected.to_owned()));
        };
        let gpus = |gpus: &str| format!(r#"{{"name": "a", "state": "idle", "gpus": [{gpus}]}}"#);
        check(r#"{"name": "$(a)", "state": "idle"}"#, "nodes[0]");
        check(r#"{"name": "a"}"#, "is not an hsched inventory");
        check(&[gpus(""), gpus("")].join(","), "node \"a\" is named twice");
        check(&gpus(r#"{"type": "a b", "total": 1}"#), "node a: \"a b\" is not a GPU type, or appears twice");
        check(&gpus(r#"{"type": "t4", "total": 4000000000}"#), "counts more than 1000000 GPUs");
    }
}
