//! Why no partition accepts a request, or no node can ever hold it.

use std::collections::BTreeSet;

use super::candidates::takes;
use super::drawback::in_words;
use super::room;
use crate::{QueueNode, QueuePartition, Request, Snapshot, meets};
use hsched_model::GpuAsk;

/// Returns why a request never starts regardless of other jobs, according to partitions and nodes; `None` if
/// it may start.
pub fn obstacle(snapshot: &Snapshot, request: &Request) -> Option<String> {
    let names = room::partitions(snapshot, request);
    let known: Vec<&QueuePartition> =
        snapshot.partitions.iter().filter(|partition| names.contains(&partition.name.as_str())).collect();
    if !known.is_empty() && !known.iter().any(|partition| takes(partition, snapshot, request)) {
        let whys: Vec<String> = known.iter().map(|partition| refusal(partition, snapshot, request)).collect();
        return Some(whys.join("; "));
    }
    let of = if names.is_empty() { String::new() } else { format!(" of partition {}", names.join(",")) };
    let in_any = |node: &&QueueNode| {
        names.is_empty()
            || node.partitions.is_empty()
            || names.iter().any(|name| node.partitions.contains(*name))
    };
    if let Some(features) = request.asks.features.as_deref()
        && !snapshot.nodes.iter().filter(in_any).any(|node| meets(features, &node.features))
    {
        let there = snapshot.nodes.iter().filter(in_any).flat_map(|node| &node.features);
        let there: Vec<&str> = there.map(String::as_str).collect::<BTreeSet<_>>().into_iter().collect();
        let there = if there.is_empty() { "no features".to_owned() } else { there.join(", ") };
        return Some(format!("no node{of} meets the constraint {features}: the nodes have {there}"));
    }
    let gpus = room::gpus_per_node(request);
    if gpus > 0 && room::nodes(snapshot, request).is_empty() {
        let wanted = wanted(&request.asks.gpus);
        let stocks = snapshot.nodes.iter().filter(in_any).flat_map(room::stock);
        let there: BTreeSet<String> =
            stocks.map(|(gpu_type, count)| format!("{count} {}", gpu_type.as_str())).collect();
        let there = there.into_iter().collect::<Vec<_>>().join(", ");
        let there = if there.is_empty() { "no GPUs".to_owned() } else { there };
        let noun = if gpus == 1 { "GPU" } else { "GPUs" };
        return Some(format!("no node{of} has {wanted} {noun} for it: the nodes have {there}"));
    }
    (!room::fits(snapshot, request)).then(|| {
        let who = match request.asks.nodes {
            0 | 1 => format!("no node{of} has"),
            nodes => format!("fewer than {nodes} nodes{of} have"),
        };
        format!("{who} the GPUs, CPUs and memory that it asks for{}", largest(snapshot, request))
    })
}

/// Returns the requested GPUs of a node: `2 v100 and 2 t4`.
fn wanted(asks: &[GpuAsk]) -> String {
    let words = asks.iter().map(|ask| match &ask.gpu_type {
        Some(gpu_type) => format!("{} {}", ask.count, gpu_type.as_str()),
        None => ask.count.to_string(),
    });
    words.collect::<Vec<_>>().join(" and ")
}

/// Returns a clause with the most CPUs and memory of any node with the GPUs; empty if unknown.
fn largest(snapshot: &Snapshot, request: &Request) -> String {
    let nodes = room::nodes(snapshot, request);
    let cpus = nodes.iter().filter_map(|node| node.cpus).max().map(|count| format!("{count} CPUs"));
    let memory = nodes.iter().filter_map(|node| node.memory_mib).max();
    let memory = memory.map(|megabytes| format!("{} GB of memory", megabytes / 1024));
    let most: Vec<String> = cpus.into_iter().chain(memory).collect();
    if most.is_empty() { String::new() } else { format!(", but at most {}", most.join(" and ")) }
}

fn refusal(partition: &QueuePartition, snapshot: &Snapshot, request: &Request) -> String {
    let name = &partition.name;
    let account = request.account.as_deref().or_else(|| snapshot.own_account());
    match (partition.max_time_s, partition.max_nodes) {
        (Some(most), _) if request.limit.0 > most.0 => {
            let (most, asked) = (in_words(most), in_words(request.limit));
            format!("partition {name} allows a time limit of {most}, it asks for {asked}")
        }
        (_, Some(most)) if request.asks.nodes > most => {
            format!("partition {name} allows {most} nodes, it asks for {}", request.asks.nodes)
        }
        _ if partition
            .accounts
            .as_ref()
            .is_some_and(|all| account.is_none_or(|name| !all.contains(name))) =>
        {
            format!("partition {name} is not for account {}", account.unwrap_or("(none)"))
        }
        _ => format!("partition {name} does not take its QOS"),
    }
}
