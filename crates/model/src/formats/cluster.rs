//! Cluster files: nodes, their GPUs and the links between them, for planning without Slurm.

use std::collections::{BTreeMap, BTreeSet};

pub use super::cluster_yaml::to_yaml;
use super::duration::parse_duration;
use super::gpus::{by_type, parse_type};
use super::launch::slurm_name;
use super::problem::{Problems, ValueError, quoted};
use super::reader::{Fields, ReaderValue, all, read_file, with_nearest};
use super::size::parse_size;
use crate::{
    BitRate, Cluster, ErrorId, GpuStock, GpuType, Node, NodeName, NodeState, Partition, Seconds, Usage,
    hostlist,
};

const KEYS: [&str; 4] = ["network_gbps", "intra_node_gbps", "nodes", "partitions"];

const NODE_KEYS: [&str; 14] = [
    "name",
    "gpus",
    "gpus_used",
    "gpu_memory",
    "intra_node_gbps",
    "cpus",
    "cpus_used",
    "memory",
    "memory_used",
    "partitions",
    "features",
    "state",
    "reason",
    "other_gres",
];

/// Maximum number of GPUs of a cluster, to detect typing errors.
const GPU_LIMIT: u64 = 1_000_000;

/// Maximum number of nodes of a cluster, because a short hostlist can expand to very many.
const NODE_LIMIT: usize = 100_000;

/// Data collected while reading the nodes.
#[derive(Default)]
struct NodeTally {
    /// Line on which a node was first named.
    lines: BTreeMap<String, usize>,
    gpus: u64,
    too_many_gpus: bool,
    too_many_nodes: bool,
}

/// Parses a cluster file. A cluster without GPUs is valid.
///
/// # Errors
/// If the text is not YAML or not a cluster file; all problems are listed.
pub fn parse(text: &str) -> Result<Cluster, Problems> {
    read_file(text, |root| {
        if root.is_list() {
            root.report(
                ValueError::new("must be a map, got a list")
                    .id(ErrorId::ClusterFile)
                    .hint("put the list under nodes:"),
            );
            return None;
        }
        let fields = root.fields(&KEYS);
        let network = fields.or("network_gbps", None, |value| rate(value).map(Some));
        let intra_node = fields.or("intra_node_gbps", None, |value| rate(value).map(Some));
        let mut seen = NodeTally::default();
        let nodes = fields
            .required("nodes")
            .and_then(|value| all(value.items().iter().map(|item| read_nodes(item, &mut seen))));
        let partitions = fields.or("partitions", Vec::new(), read_partitions);
        let nodes = nodes?.into_iter().flatten().collect();
        Some(Cluster { network: network?, intra_node: intra_node?, nodes, partitions: partitions? })
    })
}

/// Reads one entry, which describes all nodes of its hostlist.
fn read_nodes(value: &ReaderValue<'_>, seen: &mut NodeTally) -> Option<Vec<Node>> {
    let fields = value.fields(&NODE_KEYS);
    let names = fields.required("name").and_then(|value| read_names(value, seen));
    let gpus = fields.or("gpus", Vec::new(), read_counts);
    let gpus = gpus.and_then(|counts| read_stock(&fields, counts));
    if let (Some(names), Some(gpus)) = (&names, &gpus) {
        seen.count_gpus(names.len(), gpus, value);
    }
    let text =
        |key| fields.or(key, None, |value: &ReaderValue<'_>| value.text().map(|text| Some(text.to_owned())));
    let intra_node = fields.or("intra_node_gbps", None, |value| rate(value).map(Some));
    let amount = |value: &ReaderValue<'_>| value.whole(0..=u64::MAX);
    let size = |value: &ReaderValue<'_>| value.parsed(parse_size).map(|size| size.0);
    let (cpus, memory) = (usage(&fields, "cpus", amount), usage(&fields, "memory", size));
    let (state, reason) = (text("state"), text("reason"));
    let partitions = fields.or("partitions", Vec::new(), read_words);
    let features = fields.or("features", Vec::new(), read_words);
    let other_gres = fields.or("other_gres", Vec::new(), read_words);
    let (names, template) = (
        names?,
        Node {
            state: state?.map_or_else(NodeState::idle, |state| NodeState::parse(&state)),
            reason: reason?,
            gpus: gpus?,
            other_gres: other_gres?,
            cpus,
            memory,
            intra_node: intra_node?,
            partitions: partitions?.into_iter().collect(),
            features: features?.into_iter().collect(),
            ..Node::new(NodeName::new("x").ok()?)
        },
    );
    Some(names.into_iter().map(|name| Node { name, ..template.clone() }).collect())
}

fn read_names(value: &ReaderValue<'_>, seen: &mut NodeTally) -> Option<Vec<NodeName>> {
    let names = value.parsed(|text| {
        hostlist::expand(text).map_err(|error| ValueError::new(error.to_string()).id(ErrorId::NameFormat))
    })?;
    if seen.lines.len() + names.len() > NODE_LIMIT {
        if !seen.too_many_nodes {
            seen.too_many_nodes = true;
            value.report(
                ValueError::new(format!("exceeds the limit of {NODE_LIMIT} nodes")).id(ErrorId::ClusterFile),
            );
        }
        return None;
    }
    all(names.into_iter().map(|name| {
        if let Some(first) = seen.lines.get(&name) {
            value.report(
                ValueError::new(format!("node {} is already named on line {first}", quoted(&name)))
                    .id(ErrorId::NameTaken),
            );
            return None;
        }
        let checked = value.accept(
            NodeName::new(&name).map_err(|error| ValueError::new(error.to_string()).id(ErrorId::NameFormat)),
        );
        seen.lines.insert(name, value.line());
        checked
    }))
}

impl NodeTally {
    fn count_gpus(&mut self, nodes: usize, gpus: &[GpuStock], value: &ReaderValue<'_>) {
        let each: u64 = gpus.iter().map(|stock| u64::from(stock.total)).sum();
        self.gpus = self.gpus.saturating_add(each.saturating_mul(nodes as u64));
        if self.gpus > GPU_LIMIT && !self.too_many_gpus {
            self.too_many_gpus = true;
            let message = format!("brings the cluster to {} GPUs; the limit is {GPU_LIMIT}", self.gpus);
            value.report(ValueError::new(message).id(ErrorId::ClusterFile));
        }
    }
}

/// Reads `{type: count}` in the file's order, which is the order of the node's devices.
fn read_counts(value: &ReaderValue<'_>) -> Option<Vec<(GpuType, u32)>> {
    all(value.entries().into_iter().map(|(key, item)| {
        let gpu_type = item.accept(parse_type(key));
        let limit = u32::try_from(GPU_LIMIT).unwrap_or(u32::MAX);
        let count = item.whole_u32(0..=limit);
        Some((gpu_type?, count?))
    }))
}

/// Adds used counts and GPU memory to the counts.
fn read_stock(fields: &Fields<'_>, counts: Vec<(GpuType, u32)>) -> Option<Vec<GpuStock>> {
    let used = fields.or("gpus_used", BTreeMap::new(), |value| {
        check_types(value, &counts);
        by_type(value, |item| item.whole_u32(0..=u32::MAX))
    });
    let memory = fields.or("gpu_memory", BTreeMap::new(), |value| {
        check_types(value, &counts);
        by_type(value, |item| item.parsed(parse_size))
    });
    for (gpu_type, total) in &counts {
        let used = used.as_ref().and_then(|used| used.get(gpu_type)).copied().unwrap_or(0);
        if let Some(value) = fields.get("gpus_used")
            && used > *total
        {
            let message = format!("{used} {gpu_type} are in use, but the node has {total}");
            value.report(ValueError::new(message).id(ErrorId::ClusterFile));
        }
    }
    let (used, memory) = (used?, memory?);
    let stock = counts.into_iter().map(|(gpu_type, total)| GpuStock {
        total,
        used: used.get(&gpu_type).copied().unwrap_or(0),
        memory: memory.get(&gpu_type).copied(),
        gpu_type,
    });
    Some(stock.collect())
}

/// Reports types that the node does not have.
fn check_types(value: &ReaderValue<'_>, counts: &[(GpuType, u32)]) {
    for (key, item) in value.entries_quietly() {
        if !counts.iter().any(|(gpu_type, _)| gpu_type.as_str() == key) {
            let error = ValueError::new("is not among the node's gpus").id(ErrorId::ClusterFile);
            let known = counts.iter().map(|(gpu_type, _)| gpu_type.as_str());
            item.report(with_nearest(error, key, known));
        }
    }
}

/// Reads `KEY` and `KEY_used`, which is 0 by default; `None` if `KEY` is missing or one of them is invalid.
fn usage(fields: &Fields<'_>, key: &str, read: impl Fn(&ReaderValue<'_>) -> Option<u64>) -> Option<Usage> {
    let used_key = format!("{key}_used");
    let total = fields.or(key, None, |value| read(value).map(Some));
    let used = fields.or(&used_key, 0, &read);
    if let (Some(value), None) = (fields.get(&used_key), fields.get(key)) {
        value.report(ValueError::new(format!("has no effect without {key}")).id(ErrorId::KeysConflict));
    }
    Some(Usage { total: total.flatten()?, used: used? })
}

fn read_partitions(value: &ReaderValue<'_>) -> Option<Vec<Partition>> {
    let mut seen = BTreeSet::new();
    all(value.items().iter().map(|item| {
        let fields = item.fields(&["name", "default", "max_time"]);
        let name = fields.required("name").and_then(|value| value.parsed(slurm_name));
        let default = fields.or("default", false, ReaderValue::switch);
        let max_time = fields.or("max_time", None, |value| value.parsed(limit));
        let name = name?;
        if !seen.insert(name.clone()) {
            item.report(
                ValueError::new(format!("partition {} is named twice", quoted(&name))).id(ErrorId::NameTaken),
            );
        }
        Some(Partition { name, default: default?, max_time: max_time? })
    }))
}

/// Reads a partition's longest walltime; Slurm writes `UNLIMITED` or `infinite` if there is none.
fn limit(text: &str) -> Result<Option<Seconds>, ValueError> {
    match text.to_ascii_lowercase().as_str() {
        "unlimited" | "infinite" => Ok(None),
        _ => parse_duration(text).map(Some),
    }
}

fn rate(value: &ReaderValue<'_>) -> Option<BitRate> {
    value.ranged(BitRate::new, "above 0 Gbit/s")
}

fn read_words(value: &ReaderValue<'_>) -> Option<Vec<String>> {
    all(value.items().iter().map(|item| item.text().map(ToOwned::to_owned)))
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;

    fn check(text: &str) -> String {
        match parse(text) {
            Ok(cluster) => {
                let node = |node: &Node| {
                    let gpus = node.gpus.iter().map(|s| format!("{}:{}/{}", s.gpu_type, s.used, s.total));
                    format!("{} {}", node.name, gpus.collect::<Vec<_>>().join(" "))
                };
                cluster.nodes.iter().map(node).collect::<Vec<_>>().join("\n")
            }
            Err(problems) => problems.to_string(),
        }
    }

    #[test]
    fn a_hostlist_makes_equal_nodes_and_types_keep_their_order() {
        assert_snapshot!(check("nodes:\n- {name: 'g[01-02]', gpus: {v100: 2, a100: 1}, gpus_used: {v100: 1}}\n- name: c"), @r"
        g01 v100:1/2 a100:0/1
        g02 v100:1/2 a100:0/1
        c
        ");
    }

    #[test]
    fn everything_that_a_node_may_say_is_kept() {
        let text = "
network_gbps: 10
intra_node_gbps: 300
partitions: [{name: gpu, default: true, max_time: 1-00:00:00}, {name: long, max_time: UNLIMITED}]
nodes:
- {name: a, gpus: {v100: 5}, intra_node_gbps: 600, cpus: 40, cpus_used: 3, memory: 192GiB, memory_used: 1MiB,
   gpu_memory: {v100: 32GiB}, partitions: [gpu], features: [x, y], state: down*, reason: no power,
   other_gres: ['craynetwork:4']}";
        let cluster = parse(text).expect("a cluster");
        let node = &cluster.nodes[0];
        assert_eq!(cluster.network, BitRate::new(10.0));
        assert_eq!(cluster.partitions[0].max_time, Some(Seconds(86_400.0)));
        assert_eq!(cluster.partitions[1].max_time, None);
        assert_eq!(node.cpus, Some(Usage { total: 40, used: 3 }));
        assert_eq!(node.memory, Some(Usage { total: 192 << 30, used: 1 << 20 }));
        assert_eq!(node.gpus[0].memory.map(|memory| memory.0), Some(32 << 30));
        assert_eq!((node.state.text(), node.reason.as_deref()), ("down*", Some("no power")));
        assert_eq!(node.features.len(), 2);
    }

    #[test]
    fn all_problems_are_listed_with_their_lines() {
        assert_snapshot!(check("
networkgbps: 10
intra_node_gbps: 0
nodes:
- name: a
  gpus: {v100: -1, 'v 2': 1}
- name: a
  gpus: {v100: 2}
  gpus_used: {v100: 3, v10: 1}
  gpu_memory: {v100: 32G}
  memory: 192
  cpus_used: 3
- gpus: {t4: 1}
- name: b[1-
- name: c
  gpus: {t4: 10^9}
- name: d
  gpus: {t4: 1000000, v100: 1}
"), @r#"
        line 2: networkgbps: is not a known key; did you mean network_gbps?
        line 3: intra_node_gbps: must be above 0 Gbit/s, got 0
        line 6: nodes[0].gpus.v100: must be at least 0, got -1
        line 6: nodes[0].gpus."v 2": "v 2" is not a GPU type; a GPU type has only letters, digits and - _ . + /, for example v100
        line 7: nodes[1].name: node "a" is already named on line 5
        line 9: nodes[1].gpus_used.v10: is not among the node's gpus; did you mean v100?
        line 9: nodes[1].gpus_used: 3 v100 are in use, but the node has 2
        line 10: nodes[1].gpu_memory.v100: has an unknown unit: "32G"; write 32GiB (powers of 2) or 32GB (powers of 10)
        line 11: nodes[1].memory: has no unit: "192"; write 192GiB, 192MB or 192B
        line 12: nodes[1].cpus_used: has no effect without cpus
        line 13: nodes[2]: is missing the required key name
        line 14: nodes[3].name: "b[1-": brackets do not match
        line 16: nodes[4].gpus.t4: must be a whole number, got "10^9"; write 1000000000
        line 17: nodes[5]: brings the cluster to 1000001 GPUs; the limit is 1000000
        "#);
    }

    #[test]
    fn files_of_another_kind_are_refused() {
        assert_snapshot!(check(""), @"line 1: is missing the required key nodes");
        assert_snapshot!(check("- name: a"), @"line 1: must be a map, got a list; put the list under nodes:");
        assert_snapshot!(check("nodes: 3"), @r#"line 1: nodes: must be a list, got "3""#);
        assert_snapshot!(check("nodes: [3]"), @r#"line 1: nodes[0]: must be a map of keys and values, got "3""#);
        assert_snapshot!(check("nodes: [{name: 'a[1-60000],b[1-60000]'}]"), @"line 1: nodes[0].name: exceeds the limit of 100000 nodes");
        assert_eq!(parse("nodes:").expect("no node"), Cluster::default());
    }
}
