//! Why no partition accepts a request, or no node can ever hold it.

use std::collections::BTreeSet;

use super::candidates::takes;
use super::drawback::in_words;
use super::room;
use crate::constraint::may_use;
use crate::{QueueNode, QueuePartition, Request, Snapshot, meets};
use hsched_model::formats::nearest;
use hsched_model::{GpuAsk, GpuType};

/// Returns why a request can never start, whatever the other jobs do, according to partitions and nodes;
/// `None` if it may start.
pub fn obstacle(snapshot: &Snapshot, request: &Request) -> Option<String> {
    let names = room::partitions(snapshot, request);
    let stopped =
        |name: &&str| snapshot.stopped_partition(name).map(|state| format!("partition {name} is {state}"));
    let closed: Option<Vec<String>> = names.iter().map(stopped).collect();
    if let Some(closed) = closed.filter(|closed| !closed.is_empty()) {
        return Some(closed.join("; "));
    }
    let known: Vec<&QueuePartition> =
        snapshot.partitions.iter().filter(|partition| names.contains(&partition.name.as_str())).collect();
    if !known.is_empty() && !known.iter().any(|partition| takes(partition, snapshot, request)) {
        let whys: Vec<String> = known.iter().map(|partition| refusal(partition, snapshot, request)).collect();
        return Some(whys.join("; "));
    }
    let asks = &request.asks;
    let of = if names.is_empty() { String::new() } else { format!(" of partition {}", names.join(",")) };
    let in_any = |node: &&QueueNode| {
        let is_in = names.is_empty()
            || node.partitions.is_empty()
            || names.iter().any(|name| node.partitions.contains(*name));
        is_in && may_use(asks, &node.name) && !asks.exclude.contains(&node.name)
    };
    let is_limited = !(asks.nodelist.is_empty() && asks.exclude.is_empty());
    if is_limited && !snapshot.nodes.iter().any(|node| in_any(&node)) {
        return Some(format!("--nodelist and --exclude leave no node{of}"));
    }
    if let Some(features) = request.asks.features.as_deref()
        && !snapshot.nodes.iter().filter(in_any).any(|node| meets(features, &node.features))
    {
        let there = snapshot.nodes.iter().filter(in_any).flat_map(|node| &node.features);
        let there: Vec<&str> = there.map(String::as_str).collect::<BTreeSet<_>>().into_iter().collect();
        let there = if there.is_empty() { "no features".to_owned() } else { there.join(", ") };
        return Some(format!("no node{of} meets the constraint {features}: the nodes have {there}"));
    }
    if room::gpus_per_node(request) > 0 && room::nodes(snapshot, request).is_empty() {
        let nodes: Vec<&QueueNode> = snapshot.nodes.iter().filter(in_any).collect();
        return Some(no_gpus(snapshot, request, &nodes, &of));
    }
    (!room::fits(snapshot, request)).then(|| {
        let who = match request.asks.nodes {
            0 | 1 => format!("no node{of} has"),
            nodes => format!("fewer than {nodes} nodes{of} have"),
        };
        format!("{who} the GPUs, CPUs and memory that it asks for{}", largest(snapshot, request))
    })
}

/// Returns why none of these nodes, which are those of partitions and node lists, has GPUs for a request: they are not
/// up, do not meet its constraint, or have other GPUs.
fn no_gpus(snapshot: &Snapshot, request: &Request, nodes: &[&QueueNode], of: &str) -> String {
    let asks = &request.asks;
    let noun = if room::gpus_per_node(request) == 1 { "GPU" } else { "GPUs" };
    let wanted = format!("{} {noun}", wanted(&asks.gpus));
    let with_gpus: Vec<&&QueueNode> =
        nodes.iter().filter(|node| room::has_gpus(request, &room::stock(node))).collect();
    let features = asks.features.as_deref().unwrap_or_default();
    let meeting = with_gpus.iter().filter(|node| asks.features.is_none() || meets(features, &node.features));
    let meeting = meeting.count();
    if meeting > 0 {
        let (nodes, are) = if meeting == 1 { ("the node", "is") } else { ("the nodes", "are") };
        return format!("{nodes}{of} with {wanted} for it {are} drained or down");
    }
    if !with_gpus.is_empty() {
        return format!("no node{of} with {wanted} for it meets the constraint {features}");
    }
    let stocks = nodes.iter().flat_map(|node| room::stock(node));
    let there: BTreeSet<String> =
        stocks.map(|(gpu_type, count)| format!("{count} {}", gpu_type.as_str())).collect();
    let there = there.into_iter().collect::<Vec<_>>().join(", ");
    let there = if there.is_empty() { "no GPUs".to_owned() } else { there };
    let which = match (asks.nodelist.is_empty(), asks.exclude.is_empty()) {
        (false, _) => "the nodes that it names",
        (true, false) => "the nodes that it does not exclude",
        (true, true) => "the nodes",
    };
    let near = other_spelling(snapshot, &asks.gpus);
    let near = near.map_or_else(String::new, |near| format!(" (did you mean {near}?)"));
    let split = more_nodes(request, nodes.iter().copied()).unwrap_or_default();
    format!("no node{of} has {wanted} for it{near}: {which} have {there}{split}")
}

/// Returns the requested GPUs of a node: `2 v100 and 2 t4`.
fn wanted(asks: &[GpuAsk]) -> String {
    let words = asks.iter().map(|ask| match &ask.gpu_type {
        Some(gpu_type) => format!("{} {}", ask.count, gpu_type.as_str()),
        None => ask.count.to_string(),
    });
    words.collect::<Vec<_>>().join(" and ")
}

/// Returns the GPU type of the cluster that is most similar to a requested one that it does not have.
fn other_spelling<'a>(snapshot: &'a Snapshot, asks: &[GpuAsk]) -> Option<&'a str> {
    let there: BTreeSet<&GpuType> =
        snapshot.nodes.iter().flat_map(|node| &node.gpus).map(|gpu| &gpu.gpu_type).collect();
    let mut unknown =
        asks.iter().filter_map(|ask| ask.gpu_type.as_ref()).filter(|kind| !there.contains(kind));
    nearest(unknown.next()?.as_str(), there.iter().map(|kind| kind.as_str()))
}

/// Returns a clause for a request of more GPUs of a type than any of these nodes has: how to spread them over nodes, or
/// that there are too few.
fn more_nodes<'a>(request: &Request, nodes: impl Iterator<Item = &'a QueueNode>) -> Option<String> {
    let kind = room::gpu_type(request)?;
    let counts: Vec<u32> = nodes.filter_map(|node| room::stock(node).get(kind).copied()).collect();
    let most = counts.iter().max()?;
    let asked = u64::from(room::gpus_per_node(request)) * u64::from(request.asks.nodes.max(1));
    let all: u64 = counts.iter().map(|count| u64::from(*count)).sum();
    let name = kind.as_str();
    Some(if asked <= all {
        format!("; ask for more nodes, with at most {most} {name} on each")
    } else {
        format!("; all together have {all} {name}")
    })
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
        _ if !partition.allows_account(account) => {
            format!("partition {name} is not for account {}", account.unwrap_or("(none)"))
        }
        _ => format!("partition {name} does not take its QOS"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_request::test_request;
    use hsched_model::{Asks, NodeName};

    #[test]
    fn a_wrong_type_and_too_many_gpus_say_what_to_ask_for() {
        let queue = r#"{"schema": "hsched.queue/1", "taken_at": 1, "partitions": [{"name": "gpu", "default": true}],
            "nodes": [{"name": "n1", "gpus": [{"type": "v100", "count": 4}]}, {"name": "n2", "gpus": [{"type": "v100", "count": 2}]}]}"#;
        let snapshot = Snapshot::parse(queue).expect("a snapshot");
        let why = |gpu_type: &str, count: u32| {
            obstacle(&snapshot, &test_request(1, gpu_type, count)).expect("an obstacle")
        };
        let there = "the nodes have 2 v100, 4 v100";
        let no_node = "no node of partition gpu has";
        assert_eq!(why("v1000", 4), format!("{no_node} 4 v1000 GPUs for it (did you mean v100?): {there}"));
        assert_eq!(why("h200", 4), format!("{no_node} 4 h200 GPUs for it: {there}"));
        assert_eq!(
            why("v100", 6),
            format!("{no_node} 6 v100 GPUs for it: {there}; ask for more nodes, with at most 4 v100 on each")
        );
        assert_eq!(
            why("v100", 40),
            format!("{no_node} 40 v100 GPUs for it: {there}; all together have 6 v100")
        );
    }

    #[test]
    fn a_partition_that_denies_an_account_or_a_qos_never_starts_its_jobs() {
        let queue = r#"{"schema": "hsched.queue/1", "taken_at": 1,
            "partitions": [{"name": "a", "deny_accounts": ["bio"]}, {"name": "q", "deny_qos": ["normal"]},
                {"name": "both", "accounts": ["bio"], "deny_accounts": ["bio"]}],
            "nodes": [{"name": "n1", "partitions": ["a", "q", "both"], "gpus": [{"type": "v100", "count": 4}]}]}"#;
        let snapshot = Snapshot::parse(queue).expect("a snapshot");
        let check = |partition: &str, account: &str, expected: Option<&str>| {
            let request = Request {
                partition: Some(partition.into()),
                account: Some(account.into()),
                ..test_request(1, "v100", 4)
            };
            assert_eq!(obstacle(&snapshot, &request).as_deref(), expected, "{partition}");
        };
        check("a", "bio", Some("partition a is not for account bio"));
        check("a", "chem", None);
        check("q", "bio", Some("partition q does not take its QOS"));
        // Slurm ignores the denied names beside the allowed ones.
        check("both", "bio", None);
    }

    #[test]
    fn unusable_nodes_with_the_gpus_differ_from_nodes_without() {
        let queue = r#"{"schema": "hsched.queue/1", "taken_at": 1, "partitions": [{"name": "gpu", "default": true}],
            "nodes": [{"name": "d1", "use": "down", "gpus": [{"type": "a100", "count": 4}]},
                {"name": "n1", "gpus": [{"type": "v100", "count": 4}]},
                {"name": "n2", "features": ["fast"], "gpus": [{"type": "v100", "count": 2}]}]}"#;
        let snapshot = Snapshot::parse(queue).expect("a snapshot");
        let why = |gpu_type: &str, count: u32, more: Asks| {
            let request = test_request(1, gpu_type, count);
            let asks = Asks { gpus: request.asks.gpus.clone(), nodes: more.nodes.max(1), ..more };
            obstacle(&snapshot, &Request { asks, ..request })
        };
        let check = |found: Option<String>, expected: &str| assert_eq!(found.as_deref(), Some(expected));
        let down = "the node of partition gpu with 4 a100 GPUs for it is drained or down";
        check(why("a100", 4, Asks::default()), down);
        let fast = Asks { features: Some("fast".to_owned()), ..Asks::default() };
        check(
            why("v100", 4, fast),
            "no node of partition gpu with 4 v100 GPUs for it meets the constraint fast",
        );
        let names = |name: &str| std::iter::once(NodeName::new(name).expect("a name")).collect();
        let other = "no node of partition gpu has 4 v100 GPUs for it: the nodes that it does not exclude have 2 v100, 4 a100";
        let exclude = Asks { exclude: names("n1"), ..Asks::default() };
        let found = why("v100", 4, exclude).expect("an obstacle");
        assert!(found.starts_with(other), "{found}");
        // More nodes than names: others may be added.
        assert_eq!(why("v100", 2, Asks { nodes: 2, nodelist: names("n1"), ..Asks::default() }), None);
        assert!(why("v100", 4, Asks { nodelist: names("n2"), ..Asks::default() }).is_some());
    }

    #[test]
    fn a_partition_that_is_down_starts_no_job() {
        let queue = r#"{"schema": "hsched.queue/1", "taken_at": 1, "partitions": [{"name": "gpu"}], "closed_partitions": {"big": "DOWN", "old": "DRAIN"},
            "nodes": [{"name": "n1", "partitions": ["big", "gpu", "old"], "gpus": [{"type": "v100", "count": 4}]}]}"#;
        let snapshot = Snapshot::parse(queue).expect("a snapshot");
        let check = |partition: &str, expected: Option<&str>| {
            let request = Request { partition: Some(partition.into()), ..test_request(1, "v100", 4) };
            assert_eq!(obstacle(&snapshot, &request).as_deref(), expected, "{partition}");
        };
        check("big", Some("partition big is DOWN"));
        check("gpu", None);
        check("big,gpu", None);
        // A partition in state DRAIN starts the jobs that are queued there.
        check("old", None);
        // A request that names no partition goes to the default one.
        let request = Request { partition: None, ..test_request(1, "v100", 4) };
        let closed = Snapshot { closed_default: Some("big".to_owned()), ..snapshot };
        assert_eq!(obstacle(&closed, &request).as_deref(), Some("partition big is DOWN"));
    }
}
