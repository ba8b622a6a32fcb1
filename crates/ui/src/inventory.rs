//! The resources of a cluster: a table of types, a table of nodes, and both as JSON.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::text::wrap;
use crate::{Align, Table, Terminal};
use hsched_model::catalogue::recognise;
use hsched_model::{Bytes, Cluster, GpuStock, GpuType, Holdings, Node, RankNeeds, hostlist, split_mig};

/// Returns the tables of GPU types and nodes; identical nodes share a line.
pub fn inventory_table(cluster: &Cluster, needs: RankNeeds, mine: &Holdings, terminal: Terminal) -> String {
    let mut types = Table::new(&[
        ("GPU", Align::Left),
        ("TOTAL", Align::Right),
        ("FREE", Align::Right),
        ("STRANDED", Align::Right),
        ("USED", Align::Right),
        ("DOWN", Align::Right),
        ("RESERVED", Align::Right),
        ("MINE", Align::Right),
    ]);
    for (gpu_type, counts) in cluster.summary(needs) {
        let held_count: u32 = mine.values().filter_map(|held| held.gpus.get(&gpu_type)).sum();
        let numbers = [
            counts.total,
            counts.free,
            counts.stranded,
            counts.used,
            counts.down,
            counts.reserved,
            held_count,
        ];
        types.row([gpu_type.to_string()].into_iter().chain(numbers.map(|count| count.to_string())));
    }
    let mut nodes = Table::new(&[
        ("NODES", Align::Left),
        ("STATE", Align::Left),
        ("PARTITIONS", Align::Left),
        ("GPUS FREE/ALL", Align::Left),
        ("CPUS FREE", Align::Right),
        ("MEMORY FREE", Align::Right),
    ]);
    for (cells, names) in groups(cluster, needs) {
        let names = hostlist::compress(names.iter().copied());
        nodes.row([names].into_iter().chain(cells));
    }
    if types.is_empty() {
        return format!("no GPUs\n\n{}", nodes.show(terminal));
    }
    let models = wrap(&models(cluster), terminal.width(), "  ");
    let models = if models.is_empty() { models } else { format!("\n{models}\n") };
    format!("{}{models}\n{}", types.show(terminal), nodes.show(terminal))
}

/// Returns the catalogue's model of each type whose name does not show it.
fn models(cluster: &Cluster) -> String {
    let types: BTreeSet<&GpuType> =
        cluster.nodes.iter().flat_map(|node| &node.gpus).map(|stock| &stock.gpu_type).collect();
    let plain = |text: &str| text.to_ascii_lowercase().replace(['-', '_', ' '], "");
    let model = |gpu_type: &GpuType| {
        let label = recognise(gpu_type.as_str()).filter(|known| known.model().is_some())?.label();
        let names_parent = split_mig(gpu_type.as_str()).is_some_and(|(parent, _)| !parent.is_empty());
        let obvious = names_parent || plain(&label) == plain(gpu_type.as_str());
        (!obvious).then(|| format!("{gpu_type} is {label}"))
    };
    types.into_iter().filter_map(model).collect::<Vec<_>>().join("; ")
}

/// Returns rows with the names of the nodes that they describe, in the cluster's order.
fn groups(cluster: &Cluster, needs: RankNeeds) -> Vec<([String; 5], Vec<&str>)> {
    let mut groups: Vec<([String; 5], Vec<&str>)> = Vec::new();
    let mut place: BTreeMap<[String; 5], usize> = BTreeMap::new();
    for node in &cluster.nodes {
        let cells = cells(node, needs);
        let index = *place.entry(cells.clone()).or_insert(groups.len());
        if index == groups.len() {
            groups.push((cells, Vec::new()));
        }
        groups[index].1.push(node.name.as_str());
    }
    groups
}

fn cells(node: &Node, needs: RankNeeds) -> [String; 5] {
    let stock =
        |(gpu_stock, free): (&GpuStock, u32)| format!("{} {free}/{}", gpu_stock.gpu_type, gpu_stock.total);
    let mut gpus: Vec<String> = node.gpus.iter().zip(node.usable_gpus(needs)).map(stock).collect();
    gpus.extend(node.other_gres.iter().cloned());
    let state = match &node.reason {
        Some(reason) => format!("{} ({reason})", node.state),
        None => node.state.to_string(),
    };
    let partitions: Vec<&str> = node.partitions.iter().map(String::as_str).collect();
    [
        state,
        partitions.join(", "),
        gpus.join(", "),
        node.cpus.map_or_else(|| "-".into(), |cpus| cpus.free().to_string()),
        node.memory.map_or_else(|| "-".into(), |memory| gibibytes(memory.free())),
    ]
}

fn gibibytes(bytes: u64) -> String {
    format!("{} GiB", Bytes(bytes).whole_mebibytes() / 1024)
}

/// Returns the inventory as one JSON value (schema `hsched.inventory/1`).
pub fn inventory_json(cluster: &Cluster, needs: RankNeeds, mine: &Holdings, notes: &[String]) -> Value {
    let held_count = |gpu_type| -> u32 { mine.values().filter_map(|held| held.gpus.get(gpu_type)).sum() };
    let types: BTreeMap<String, Value> = cluster
        .summary(needs)
        .iter()
        .map(|(gpu_type, counts)| {
            let value = json!({
                "total": counts.total, "free": counts.free, "stranded": counts.stranded, "used": counts.used,
                "down": counts.down, "reserved": counts.reserved, "mine": held_count(gpu_type),
                "model": recognise(gpu_type.as_str()).map(|known| known.label()),
            });
            (gpu_type.to_string(), value)
        })
        .collect();
    let nodes: Vec<Value> = cluster.nodes.iter().map(|node| node_json(node, needs, mine)).collect();
    let partitions: Vec<Value> = cluster
        .partitions
        .iter()
        .map(|partition| {
            let max_time = partition.max_time.map(|time| time.0);
            json!({ "name": partition.name, "default": partition.default, "max_time_s": max_time })
        })
        .collect();
    json!({
        "schema": "hsched.inventory/1",
        "gpus": types,
        "nodes": nodes,
        "partitions": partitions,
        "notes": notes,
    })
}

fn node_json(node: &Node, needs: RankNeeds, mine: &Holdings) -> Value {
    let held = mine.get(&node.name);
    let gpus: Vec<Value> = node
        .gpus
        .iter()
        .zip(node.usable_gpus(needs))
        .map(|(stock, free)| {
            let held_count = held.and_then(|held| held.gpus.get(&stock.gpu_type)).copied().unwrap_or(0);
            json!({
                "type": stock.gpu_type.as_str(), "total": stock.total, "used": stock.used,
                "free": free, "mine": held_count,
            })
        })
        .collect();
    json!({
        "name": node.name.as_str(),
        "state": node.state.text(),
        "availability": node.state.availability().to_string(),
        "reason": node.reason,
        "partitions": node.partitions,
        "features": node.features,
        "gpus": gpus,
        "gpus_untyped": node.untyped.is_some(),
        "other_gres": node.other_gres,
        "cpus": node.cpus.map(|cpus| json!({ "total": cpus.total, "used": cpus.used })),
        "memory_bytes": node.memory.map(|memory| json!({ "total": memory.total, "used": memory.used })),
    })
}
